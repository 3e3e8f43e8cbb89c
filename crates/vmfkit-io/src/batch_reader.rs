//! [`BatchReader`]: batches of the number of rows that a fit prefers, joined across files.

use crate::dataset::{Dataset, Origin};
use crate::file_batch::{Failure, FileBatch, Origins, in_file};
use crate::{Batch, Element, Result, Schema, Skipped};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use vmfkit::RowBatch;
use vmfkit::rows::Rows;

/// Default size of a batch in numbers: 32 MB in single precision.
const NUMBERS: usize = 1 << 23;
/// Default limits on the rows of a batch in any dimension.
const FEWEST: usize = 16;
const MOST: usize = 1 << 16;
/// Default number of sparse rows of a batch.
const SPARSE: usize = 1 << 14;

/// Reads the rows of a dataset in batches of one length, and rescales them if that was asked for.
pub(crate) struct BatchReader {
    dataset: Dataset,
    /// The default number of rows of a batch, and the greatest.
    block_rows: usize,
    most_rows: usize,
    /// The number of rows that the fit prefers.
    preferred: Option<usize>,
    /// What was read last from a file.
    batch: Batch,
    spare: Spare,
    failure: Failure,
}

/// Memory of used batches, to be filled again, also in later passes.
#[derive(Clone, Default)]
pub(crate) struct Spare(Arc<Mutex<Vec<Rows<'static>>>>);

impl Spare {
    /// Keeps the memory of a batch, unless its rows are lent bytes.
    pub fn keep(&self, batch: FileBatch) {
        if let Some(rows) = batch.rows.into_rows() {
            self.0.lock().expect("nothing panics while it is locked").push(rows);
        }
    }

    fn take(&self) -> Rows<'static> {
        self.0.lock().expect("nothing panics while it is locked").pop().unwrap_or_default()
    }
}

impl BatchReader {
    pub fn new(dataset: Dataset, block_rows: Option<usize>) -> Self {
        let schema = dataset.schema();
        let usual = if schema.is_sparse() { SPARSE } else { (NUMBERS / schema.dim.max(1)).clamp(FEWEST, MOST) };
        let (block_rows, most_rows) = (block_rows.unwrap_or(usual), block_rows.unwrap_or(usize::MAX));
        BatchReader {
            dataset,
            block_rows,
            most_rows,
            preferred: None,
            batch: Batch::default(),
            spare: Spare::default(),
            failure: Failure::default(),
        }
    }

    /// Chooses the number of rows of a batch, up to the limit; without one, the default is used.
    /// Call it before the first batch.
    pub fn prefer_rows(&mut self, rows: Option<usize>) {
        self.preferred = rows;
    }

    /// The number of rows of every batch but the last.
    fn rows_per_batch(&self) -> usize {
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

    /// The files, closed.
    pub fn into_closed_files(self) -> Dataset {
        self.dataset.closed()
    }

    pub fn skipped(&self) -> Option<&Skipped> {
        self.dataset.skipped()
    }

    pub fn rewind(&mut self) -> Result<()> {
        self.dataset.rewind()
    }

    /// Reads with O_DIRECT from now on, with buffers for one and a half batches, which are enough
    /// requests to keep the disk busy.
    pub fn read_direct(&mut self) -> Result<()> {
        let number = if self.schema().element == Element::F64 { 8 } else { 4 };
        let batch = self.block_rows.saturating_mul(self.schema().dim * number);
        self.dataset.read_direct(batch.saturating_add(batch / 2))
    }

    /// The memory of used batches.
    pub fn spare(&self) -> Spare {
        self.spare.clone()
    }

    /// The error of a bad row, once it has been found.
    pub fn failure(&self) -> Failure {
        self.failure.clone()
    }

    /// The next batch. There is none after the last row, or once `stop` is set.
    pub fn next(&mut self, stop: &AtomicBool) -> Result<Option<FileBatch>> {
        match self.dataset.lendable_rows(self.rows_per_batch())? {
            0 if self.dataset.has_ended() => Ok(None),
            0 => self.join(stop),
            rows => self.read_bytes(rows).map(Some),
        }
    }

    /// Reads a batch of rows of one file or several.
    fn join(&mut self, stop: &AtomicBool) -> Result<Option<FileBatch>> {
        let mut joined = Batch { values: self.spare.take(), ..Batch::default() };
        joined.clear(&self.dataset.no_rows());
        let dim = self.schema().dim;
        let (mut parts, mut rescaled) = (Vec::new(), 0);
        let most = self.rows_per_batch();
        while joined.rows < most && !stop.load(Ordering::Relaxed) {
            let Some(origin) = self.dataset.read(most - joined.rows, &mut self.batch)? else { break };
            if self.dataset.rescales(origin.part) {
                let changed = self.batch.values.rescale(dim);
                rescaled += changed.map_err(|error| in_file(error, 0, &origin))? as u64;
            }
            parts.push((joined.rows, origin));
            joined.append(dim, &mut self.batch);
        }
        match joined.rows {
            0 => Ok(None),
            _ => self.file_batch(joined, parts, rescaled).map(Some),
        }
    }

    fn file_batch(&self, batch: Batch, parts: Vec<(usize, Origin)>, rescaled: u64) -> Result<FileBatch> {
        let origins = Origins { parts, failure: self.failure.clone() };
        let rows = RowBatch::from_rows(self.schema().dim, batch.values);
        let rows = rows.and_then(|rows| match batch.weights {
            Some(weights) => rows.with_weights(weights),
            None => Ok(rows),
        });
        let rows = rows.map_err(|error| origins.in_its_file(error))?;
        Ok(FileBatch { rows: rows.with_origin(Arc::new(origins)), ids: batch.ids, rescaled })
    }

    /// Reads rows of one file as bytes, unless they are to be rescaled.
    fn read_bytes(&mut self, rows: usize) -> Result<FileBatch> {
        let dim = self.schema().dim;
        let (origin, bytes) = self.dataset.read_bytes(rows)?;
        let bytes = bytes.into_batch(dim);
        if self.dataset.rescales(origin.part) {
            let buffer = RowBatch::from_rows(dim, self.spare.take()).unwrap_or_default();
            let mut values = bytes.into_numbers(buffer).into_rows().expect("bytes were made numbers");
            let changed = values.rescale(dim).map_err(|error| in_file(error, 0, &origin))?;
            let batch = Batch { rows, values, weights: None, ids: None };
            return self.file_batch(batch, vec![(0, origin)], changed as u64);
        }
        let origins = Origins { parts: vec![(0, origin)], failure: self.failure.clone() };
        Ok(FileBatch { rows: bytes.with_origin(Arc::new(origins)), ids: None, rescaled: 0 })
    }
}
