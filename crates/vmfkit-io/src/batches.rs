//! [`Batches`]: rows as the files store them.

use crate::dataset::Dataset;
use crate::file_batch::in_file;
use crate::{Batch, Options, Result, Schema, Skipped};

/// Default size of a batch in numbers, zeros of sparse rows included: 16 MB in double precision.
const NUMBERS: usize = 1 << 21;
const MOST_ROWS: usize = 1 << 14;

/// Rows of one file or several as they are stored, batch by batch;
/// [`open_batches`](crate::open_batches) makes it.
///
/// Rows are not validated: they may have any length, and hold zeros or NaN. Half precision is
/// widened, but not rescaled unless that was asked for.
///
/// ```no_run
/// use vmfkit_io::{Batch, Options, open_batches};
/// let mut rows = open_batches(&["embeddings/*.parquet"], &Options::new())?;
/// let mut batch = Batch::default();
/// while rows.read(&mut batch)? {
///     println!("{} rows of dimension {}", batch.rows, rows.schema().dim);
/// }
/// # Ok::<(), vmfkit_io::Error>(())
/// ```
pub struct Batches {
    dataset: Dataset,
    most: usize,
    /// If rows are rescaled, the number of rows so far that were not of unit length.
    rescaled: Option<u64>,
}

impl Batches {
    pub(crate) fn new(dataset: Dataset, options: &Options) -> Self {
        let usual = (NUMBERS / dataset.schema().dim.max(1)).clamp(1, MOST_ROWS);
        Batches { dataset, most: options.block_rows.unwrap_or(usual), rescaled: options.rescale.then_some(0) }
    }

    /// What is known of all rows before they are read. The element type is the widest of all files.
    pub fn schema(&self) -> &Schema {
        self.dataset.schema()
    }

    /// The files in folders that were skipped, if any.
    pub fn skipped(&self) -> Option<&Skipped> {
        self.dataset.skipped()
    }

    /// Replaces the contents of `batch` by the next rows, all from one file. Returns false at the
    /// end.
    pub fn read(&mut self, batch: &mut Batch) -> Result<bool> {
        let Some(origin) = self.dataset.read(self.most, batch)? else { return Ok(false) };
        if let Some(rescaled) = &mut self.rescaled {
            let changed = batch.values.rescale(self.dataset.schema().dim);
            *rescaled += changed.map_err(|error| in_file(error, 0, &origin))? as u64;
        }
        Ok(true)
    }

    /// If rows are rescaled, the number of rows so far that were not of unit length.
    pub fn rescaled(&self) -> Option<u64> {
        self.rescaled
    }
}
