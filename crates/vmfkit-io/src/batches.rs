//! [`Batches`]: the rows of files as the files have them.

use crate::blocks::rescale_values;
use crate::dataset::Dataset;
use crate::file_batch::in_file;
use crate::{Batch, Options, Result, Schema, Skipped};

/// Numbers in a batch, zeros of sparse rows counted too: 16 MB in double precision.
const NUMBERS: usize = 1 << 21;
const MOST_ROWS: usize = 1 << 14;

/// Rows of one file or many, batch after batch, of any length: [`open_batches`](crate::open_batches) makes it.
///
/// Nothing is checked but the files: rows may be off the sphere, zero or NaN, unless they are to be rescaled. Half precision is
/// widened and left as it is.
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
    /// If rows are to be rescaled, how many were not of unit length.
    rescaled: Option<u64>,
}

impl Batches {
    pub(crate) fn new(dataset: Dataset, options: &Options) -> Self {
        let usual = (NUMBERS / dataset.schema().dim.max(1)).clamp(1, MOST_ROWS);
        Batches { dataset, most: options.block_rows.unwrap_or(usual), rescaled: options.rescale.then_some(0) }
    }

    /// What is known of all rows before they are read; where files differ, the widest type.
    pub fn schema(&self) -> &Schema {
        self.dataset.schema()
    }

    /// What folders hold beside the files that are read, if there is anything.
    pub fn skipped(&self) -> Option<&Skipped> {
        self.dataset.skipped()
    }

    /// Replaces what is in `batch` by the next rows, all from one file; false after the last.
    pub fn read(&mut self, batch: &mut Batch) -> Result<bool> {
        let Some(origin) = self.dataset.read(self.most, batch)? else { return Ok(false) };
        if let Some(rescaled) = &mut self.rescaled {
            let changed = rescale_values(self.dataset.schema().dim, &mut batch.values);
            *rescaled += changed.map_err(|error| in_file(error, 0, &origin))? as u64;
        }
        Ok(true)
    }

    /// If rows are rescaled, how many were not of unit length so far.
    pub fn rescaled(&self) -> Option<u64> {
        self.rescaled
    }
}
