//! Batches of one length, joined across files, and rescaled if that was asked for.

use crate::dataset::{Dataset, Origin};
use crate::file_batch::{Failure, FileBatch, Origins, batch_of, in_file, values_of};
use crate::{Batch, Element, Result, Schema, Skipped, Values};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use vmfkit::RowBatch;
use vmfkit::rows::{Rows, Scalar, SparseRows, rescale};

/// Numbers in a batch, unless the number of its rows was chosen: 32 MB in single precision.
const NUMBERS: usize = 1 << 23;
/// The least and the greatest number of rows of such a batch, whatever the dimension, and the number of sparse rows.
const FEWEST: usize = 16;
const MOST: usize = 1 << 16;
const SPARSE: usize = 1 << 14;

/// Makes batches of the rows of a dataset.
pub(crate) struct Blocks {
    dataset: Dataset,
    block_rows: usize,
    /// The greatest number of rows of a batch, and the number that the fit prefers.
    most_rows: usize,
    preferred: Option<usize>,
    batch: Batch,
    spare: Spare,
    failure: Failure,
}

/// Memory of batches that have been used, to be filled again, in later passes too.
#[derive(Clone, Default)]
pub(crate) struct Spare(Arc<Mutex<Vec<Values>>>);

impl Spare {
    /// Keeps the memory of a batch, unless its bytes belong to another.
    pub fn keep(&self, batch: FileBatch) {
        match values_of(batch.rows) {
            Values::F32(values) if values.capacity() == 0 => {}
            values => self.0.lock().expect("no one panics with it").push(values),
        }
    }

    fn take(&self) -> Values {
        self.0.lock().expect("no one panics with it").pop().unwrap_or_default()
    }
}

impl Blocks {
    pub fn new(dataset: Dataset, block_rows: Option<usize>) -> Self {
        let schema = dataset.schema();
        let usual = if schema.is_sparse() { SPARSE } else { (NUMBERS / schema.dim.max(1)).clamp(FEWEST, MOST) };
        let (block_rows, most_rows) = (block_rows.unwrap_or(usual), block_rows.unwrap_or(usize::MAX));
        Blocks {
            dataset,
            block_rows,
            most_rows,
            preferred: None,
            batch: Batch::default(),
            spare: Spare::default(),
            failure: Failure::default(),
        }
    }

    /// Makes batches of this many rows, if that is allowed, or of the usual number; before the first batch only.
    pub fn prefer_rows(&mut self, rows: Option<usize>) {
        self.preferred = rows;
    }

    /// The number of rows of every batch but the last.
    fn rows_of_block(&self) -> usize {
        self.preferred.unwrap_or(self.block_rows).min(self.most_rows)
    }

    pub fn schema(&self) -> &Schema {
        self.dataset.schema()
    }

    pub fn block_rows(&self) -> usize {
        self.block_rows
    }

    pub fn limit_rows(&mut self, most: usize) {
        (self.block_rows, self.most_rows) = (self.block_rows.min(most), self.most_rows.min(most));
    }

    pub fn rescales(&self) -> bool {
        self.dataset.rescales_any()
    }

    pub fn can_rewind(&self) -> bool {
        self.dataset.can_rewind()
    }

    pub fn is_worth_scratch(&self) -> bool {
        self.dataset.is_worth_scratch()
    }

    /// The files without their rows.
    pub fn into_closed_files(self) -> Dataset {
        self.dataset.closed()
    }

    pub fn skipped(&self) -> Option<&Skipped> {
        self.dataset.skipped()
    }

    pub fn rewind(&mut self) -> Result<()> {
        self.dataset.rewind()
    }

    /// Reads with O_DIRECT from now on, with buffers for one and a half batches: enough requests to keep the disk busy.
    pub fn read_direct(&mut self) -> Result<()> {
        let number = if self.schema().element == Element::F64 { 8 } else { 4 };
        let block = self.block_rows.saturating_mul(self.schema().dim * number);
        self.dataset.read_direct(block.saturating_add(block / 2))
    }

    /// Where the memory of used batches is kept.
    pub fn spare(&self) -> Spare {
        self.spare.clone()
    }

    /// Where the error of a bad row is kept.
    pub fn failure(&self) -> Failure {
        self.failure.clone()
    }

    /// The next batch; none after the last row, or once it shall stop.
    pub fn next(&mut self, stop: &AtomicBool) -> Result<Option<FileBatch>> {
        match self.dataset.rows_in_stretches(self.rows_of_block())? {
            0 if self.dataset.has_ended() => Ok(None),
            0 => self.join(stop),
            rows => self.read_bytes(rows).map(Some),
        }
    }

    fn join(&mut self, stop: &AtomicBool) -> Result<Option<FileBatch>> {
        let mut joined = Batch { values: self.spare.take(), ..Batch::default() };
        joined.clear(&self.dataset.no_values());
        let (mut parts, mut rescaled) = (Vec::new(), 0);
        let most = self.rows_of_block();
        while joined.rows < most && !stop.load(Ordering::Relaxed) {
            let Some(origin) = self.dataset.read(most - joined.rows, &mut self.batch)? else { break };
            if self.dataset.rescales(origin.part) {
                let changed = rescale_values(self.schema().dim, &mut self.batch.values);
                rescaled += changed.map_err(|error| in_file(error, 0, &origin))? as u64;
            }
            parts.push((joined.rows, origin));
            joined.append(&mut self.batch);
        }
        match joined.rows {
            0 => Ok(None),
            _ => self.file_batch(joined, parts, rescaled).map(Some),
        }
    }

    fn file_batch(&self, batch: Batch, parts: Vec<(usize, Origin)>, rescaled: u64) -> Result<FileBatch> {
        let origins = Origins { parts, failure: self.failure.clone() };
        let rows = batch_of(self.schema().dim, batch.values);
        let rows = rows.and_then(|rows| match batch.weights {
            Some(weights) => rows.with_weights(weights),
            None => Ok(rows),
        });
        let rows = rows.map_err(|error| origins.in_its_file(error))?;
        Ok(FileBatch { rows: rows.with_origin(Arc::new(origins)), ids: batch.ids, rescaled })
    }

    /// This many rows of one file, as its bytes unless they are to be rescaled.
    fn read_bytes(&mut self, rows: usize) -> Result<FileBatch> {
        let dim = self.schema().dim;
        let (origin, bytes) = self.dataset.read_stretches(rows)?;
        let bytes = bytes.into_batch(dim);
        if self.dataset.rescales(origin.part) {
            let buffer = batch_of(dim, self.spare.take()).unwrap_or_default();
            let mut values = values_of(bytes.into_numbers(buffer));
            let changed = rescale_values(dim, &mut values).map_err(|error| in_file(error, 0, &origin))?;
            let batch = Batch { rows, values, weights: None, ids: None };
            return self.file_batch(batch, vec![(0, origin)], changed as u64);
        }
        let origins = Origins { parts: vec![(0, origin)], failure: self.failure.clone() };
        Ok(FileBatch { rows: bytes.with_origin(Arc::new(origins)), ids: None, rescaled: 0 })
    }
}

/// Divides each row by its length; returns the number of rows that were not of unit length.
pub(crate) fn rescale_values(dim: usize, values: &mut Values) -> vmfkit::Result<usize> {
    match values {
        Values::F32(values) => rescale(dim, values),
        Values::F64(values) => rescale(dim, values),
        Values::SparseF32 { starts, columns, values } => rescale_sparse(dim, starts, columns, values, |rows| match rows {
            Rows::SparseF32(rows) => rows,
            _ => unreachable!("sparse rows stay sparse"),
        }),
        Values::SparseF64 { starts, columns, values } => rescale_sparse(dim, starts, columns, values, |rows| match rows {
            Rows::SparseF64(rows) => rows,
            _ => unreachable!("sparse rows stay sparse"),
        }),
    }
}

fn rescale_sparse<T: Scalar>(
    dim: usize,
    starts: &[usize],
    columns: &[u32],
    values: &mut Vec<T>,
    rows_of: impl Fn(Rows<'static>) -> SparseRows<'static, T>,
) -> vmfkit::Result<usize> {
    let (block, changed) = RowBatch::sparse_rescaled(dim, starts, columns, values)?;
    *values = rows_of(block.into_rows().expect("rescaled rows are numbers")).into_parts().2;
    Ok(changed)
}
