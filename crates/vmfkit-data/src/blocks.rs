//! Blocks of one length from files of any: batches are joined, rescaled where that was asked for, and checked.

use crate::chain::{Chain, Origin};
use crate::{Batch, Element, Error, Ids, Result, Schema, Skipped, Values};
use std::sync::atomic::{AtomicBool, Ordering};
use vmfkit::Block;
use vmfkit::block::{Rows, Scalar, SparseRows, rescale};

/// Numbers in a block, unless the number of its rows was chosen: 32 MB in single precision.
const NUMBERS: usize = 1 << 23;
/// The fewest and the most rows of such a block, whatever the dimension, and those of a sparse one.
const FEWEST: usize = 16;
const MOST: usize = 1 << 16;
const SPARSE: usize = 1 << 14;

/// Rows that were checked, with what belongs to them.
pub(crate) struct Checked {
    /// Owns its rows, and was checked when it was made.
    block: Block<'static>,
    weights: Option<Vec<f64>>,
    pub ids: Option<Ids>,
    /// How many rows were rescaled and had not been of unit length.
    pub rescaled: u64,
}

impl Checked {
    pub fn len(&self) -> usize {
        self.block.len()
    }

    /// What the rows take of memory, with all that belongs to them.
    pub fn bytes(&self) -> u64 {
        let rows = match self.block.rows() {
            Rows::F32(values) => 4 * values.len(),
            Rows::F64(values) => 8 * values.len(),
            Rows::SparseF32(rows) => 8 * (rows.entries() + self.len()),
            Rows::SparseF64(rows) => 12 * rows.entries() + 8 * self.len(),
        };
        (rows + 8 * self.weights.as_ref().map_or(0, Vec::len) + self.ids.as_ref().map_or(0, Ids::bytes)) as u64
    }

    /// The rows, without a second look at them.
    pub fn block(&self) -> Block<'_> {
        let block = self.block.slice(0, self.block.len());
        match &self.weights {
            Some(weights) => block.with_weights(weights).expect("the weights were checked with the rows"),
            None => block,
        }
    }

    /// The memory, to be filled again.
    pub fn into_batch(self) -> Batch {
        let values = match self.block.into_rows() {
            Rows::F32(values) => Values::F32(values.into_owned()),
            Rows::F64(values) => Values::F64(values.into_owned()),
            Rows::SparseF32(rows) => {
                let (starts, columns, values) = rows.into_parts();
                Values::SparseF32 { starts, columns, values }
            }
            Rows::SparseF64(rows) => {
                let (starts, columns, values) = rows.into_parts();
                Values::SparseF64 { starts, columns, values }
            }
        };
        Batch { rows: 0, values, weights: None, ids: None }
    }
}

/// Makes blocks of the rows of a chain.
pub(crate) struct Blocks {
    chain: Chain,
    block_rows: usize,
    batch: Batch,
    /// Where the rows of the block in the making come from: the first row in the block of each portion.
    origins: Vec<(usize, Origin)>,
}

impl Blocks {
    pub fn new(chain: Chain, block_rows: Option<usize>) -> Self {
        let schema = chain.schema();
        let usual = if schema.sparse { SPARSE } else { (NUMBERS / schema.dim.max(1)).clamp(FEWEST, MOST) };
        Blocks { block_rows: block_rows.unwrap_or(usual), chain, batch: Batch::default(), origins: Vec::new() }
    }

    pub fn schema(&self) -> &Schema {
        self.chain.schema()
    }

    pub fn block_rows(&self) -> usize {
        self.block_rows
    }

    pub fn limit_rows(&mut self, most: usize) {
        self.block_rows = self.block_rows.min(most);
    }

    pub fn rescales(&self) -> bool {
        self.chain.rescales_any()
    }

    pub fn can_rewind(&self) -> bool {
        self.chain.can_rewind()
    }

    pub fn skipped(&self) -> Option<&Skipped> {
        self.chain.skipped()
    }

    pub fn rewind(&mut self) -> Result<()> {
        self.chain.rewind()
    }

    /// Has the rows read past the system's cache, by the memory of one block.
    pub fn bypass_cache(&mut self) -> Result<()> {
        let number = if self.schema().element == Element::F64 { 8 } else { 4 };
        self.chain.bypass_cache(self.block_rows.saturating_mul(self.schema().dim * number))
    }

    /// The next block, in the memory of `joined`; none after the last row, or once it shall stop.
    pub fn next(&mut self, mut joined: Batch, stop: &AtomicBool) -> Result<Option<Checked>> {
        joined.clear(&self.chain.no_values());
        self.origins.clear();
        let mut rescaled = 0;
        while joined.rows < self.block_rows && !stop.load(Ordering::Relaxed) {
            let Some(origin) = self.chain.read(self.block_rows - joined.rows, &mut self.batch)? else { break };
            if self.chain.rescales(origin.part) {
                let changed = rescale_values(self.schema().dim, &mut self.batch.values);
                rescaled += changed.map_err(|error| in_file(&self.chain, error, 0, origin))? as u64;
            }
            self.origins.push((joined.rows, origin));
            joined.append(&mut self.batch);
        }
        if joined.rows == 0 {
            return Ok(None);
        }
        let Batch { values, weights, ids, .. } = joined;
        let block = check(self.schema().dim, values, weights.as_deref()).map_err(|error| self.in_its_file(error))?;
        Ok(Some(Checked { block, weights, ids, rescaled }))
    }

    /// An error of the joined rows, in the file of the row that it speaks of.
    fn in_its_file(&self, mut error: vmfkit::Error) -> Error {
        let row = row_of(&mut error).map_or(0, |row| *row);
        let (first, origin) = *self.origins.iter().rfind(|(first, _)| *first <= row).expect("a block has rows of a file");
        in_file(&self.chain, error, first, origin)
    }
}

/// An error of rows of which number `first` is the origin's row, with the number that its row has in the file.
pub(crate) fn in_file(chain: &Chain, mut error: vmfkit::Error, first: usize, origin: Origin) -> Error {
    if let Some(row) = row_of(&mut error) {
        *row = *row - first + origin.row as usize;
    }
    let error = match error {
        vmfkit::Error::NotUnit { row, norm } => Error::NotUnit { row: row as u64, norm },
        other => Error::Rows(other),
    };
    error.at(chain.name(origin.part))
}

/// The number of the row that an error speaks of.
fn row_of(error: &mut vmfkit::Error) -> Option<&mut usize> {
    use vmfkit::Error::*;
    match error {
        NotFinite { row, .. } | ZeroRow { row } | NotUnit { row, .. } | Weight { row, .. } => Some(row),
        Column { row, .. } | ColumnOrder { row, .. } => Some(row),
        _ => None,
    }
}

fn check(dim: usize, values: Values, weights: Option<&[f64]>) -> vmfkit::Result<Block<'static>> {
    let block = match values {
        Values::F32(values) => Block::owned(dim, values)?,
        Values::F64(values) => Block::owned(dim, values)?,
        Values::SparseF32 { starts, columns, values } => Block::sparse_owned(dim, starts, columns, values)?,
        Values::SparseF64 { starts, columns, values } => Block::sparse_owned(dim, starts, columns, values)?,
    };
    if let Some(weights) = weights {
        block.slice(0, block.len()).with_weights(weights)?;
    }
    Ok(block)
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
    let (block, changed) = Block::sparse_rescaled(dim, starts, columns, values)?;
    *values = rows_of(block.into_rows()).into_parts().2;
    Ok(changed)
}
