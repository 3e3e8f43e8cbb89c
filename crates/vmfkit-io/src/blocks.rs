//! Blocks of one length from files of any: batches are joined, and rescaled where that was asked for.

use crate::dataset::Dataset;
use crate::joined::{Joined, Memory, in_file};
use crate::{Batch, Element, Result, Schema, Skipped, Values};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use vmfkit::RowBatch;
use vmfkit::rows::{Rows, Scalar, SparseRows, rescale};

/// Numbers in a block, unless the number of its rows was chosen: 32 MB in single precision.
const NUMBERS: usize = 1 << 23;
/// The fewest and the most rows of such a block, whatever the dimension, and those of a sparse one.
const FEWEST: usize = 16;
const MOST: usize = 1 << 16;
const SPARSE: usize = 1 << 14;

/// Makes blocks of the rows of a dataset.
pub(crate) struct Blocks {
    dataset: Dataset,
    block_rows: usize,
    /// The most rows of a block, and those that who works on them would rather have.
    most_rows: usize,
    preferred: Option<usize>,
    batch: Batch,
    spare: Spare,
}

/// Memory of blocks that were worked on, to be filled again, in later passes too.
#[derive(Clone, Default)]
pub(crate) struct Spare(Arc<Mutex<Vec<Memory>>>);

impl Spare {
    pub fn keep(&self, memory: Memory) {
        if let Memory::Stretches(_) = memory {
            return;
        }
        self.0.lock().expect("no one panics with it").push(memory);
    }

    pub fn take(&self) -> Memory {
        self.0.lock().expect("no one panics with it").pop().unwrap_or_default()
    }
}

impl Blocks {
    pub fn new(dataset: Dataset, block_rows: Option<usize>) -> Self {
        let schema = dataset.schema();
        let usual = if schema.is_sparse() { SPARSE } else { (NUMBERS / schema.dim.max(1)).clamp(FEWEST, MOST) };
        let (block_rows, most_rows) = (block_rows.unwrap_or(usual), block_rows.unwrap_or(usize::MAX));
        Blocks { dataset, block_rows, most_rows, preferred: None, batch: Batch::default(), spare: Spare::default() }
    }

    /// Makes blocks of this many rows, if there may be as many, or of as many as usual; before the first block only.
    pub fn prefer_rows(&mut self, rows: Option<usize>) {
        self.preferred = rows;
    }

    /// The rows of every block but the last.
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

    /// Reads with O_DIRECT from now on, with buffers for one block and a half: enough requests to keep the disk busy.
    pub fn read_direct(&mut self) -> Result<()> {
        let number = if self.schema().element == Element::F64 { 8 } else { 4 };
        let block = self.block_rows.saturating_mul(self.schema().dim * number);
        self.dataset.read_direct(block.saturating_add(block / 2))
    }

    /// Where the memory of a block is kept once it was worked on.
    pub fn spare(&self) -> Spare {
        self.spare.clone()
    }

    /// The next block; none after the last row, or once it shall stop.
    pub fn next(&mut self, stop: &AtomicBool) -> Result<Option<Joined>> {
        match self.dataset.rows_in_stretches(self.rows_of_block())? {
            0 if self.dataset.has_ended() => Ok(None),
            0 => self.join(self.spare.take().into_batch(), stop),
            rows => self.read_stretches(rows).map(Some),
        }
    }

    fn join(&mut self, mut joined: Batch, stop: &AtomicBool) -> Result<Option<Joined>> {
        joined.clear(&self.dataset.no_values());
        let (mut origins, mut rescaled) = (Vec::new(), 0);
        let most = self.rows_of_block();
        while joined.rows < most && !stop.load(Ordering::Relaxed) {
            let Some(origin) = self.dataset.read(most - joined.rows, &mut self.batch)? else { break };
            if self.dataset.rescales(origin.part) {
                let changed = rescale_values(self.schema().dim, &mut self.batch.values);
                rescaled += changed.map_err(|error| in_file(error, 0, &origin))? as u64;
            }
            origins.push((joined.rows, origin));
            joined.append(&mut self.batch);
        }
        let (dim, rows) = (self.schema().dim, joined.rows);
        let memory = Memory::Batch(joined);
        Ok((rows > 0).then_some(Joined { dim, memory, origins, rescaled }))
    }

    /// So many rows of a block that are all in one file; put together only if they are to be rescaled.
    fn read_stretches(&mut self, rows: usize) -> Result<Joined> {
        let dim = self.schema().dim;
        let (origin, stretches) = self.dataset.read_stretches(rows)?;
        let memory = Memory::Stretches(stretches);
        let rescales = self.dataset.rescales(origin.part);
        let mut joined = Joined { dim, memory, origins: vec![(0, origin)], rescaled: 0 };
        if rescales {
            joined = joined.together(self.spare.take());
            if let Memory::Batch(batch) = &mut joined.memory {
                let changed = rescale_values(dim, &mut batch.values);
                joined.rescaled = changed.map_err(|error| joined.in_its_file(error))? as u64;
            }
        }
        Ok(joined)
    }
}

/// Divides each row by its length; says how many were not of unit length.
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
    *values = rows_of(block.into_rows()).into_parts().2;
    Ok(changed)
}
