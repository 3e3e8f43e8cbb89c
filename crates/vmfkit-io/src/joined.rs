//! Rows of a block: [`Joined`] as they were read, [`Checked`] to be kept.

use crate::dataset::Origin;
use crate::{Batch, Error, Ids, Result, Stretches, Values};
use vmfkit::RowBatch;
use vmfkit::rows::Rows;
use vmfkit::rows::loose::LooseRows;

/// Rows of a block; filled again and again.
pub(crate) enum Memory {
    /// One batch, or several that were joined.
    Batch(Batch),
    /// Dense rows to which nothing belongs, in stretches of the memory that others read into, and get back when these are dropped.
    Stretches(Stretches),
}

impl Memory {
    /// A batch, in the same memory if it was one before.
    pub fn into_batch(self) -> Batch {
        if let Memory::Batch(batch) = self { batch } else { Batch::default() }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Memory::Batch(Batch::default())
    }
}

/// Rows that were read, not yet checked, with what belongs to them.
pub(crate) struct Joined {
    pub dim: usize,
    pub memory: Memory,
    /// Where the rows come from: the first row in the block of each portion.
    pub origins: Vec<(usize, Origin)>,
    /// How many rows were rescaled and had not been of unit length.
    pub rescaled: u64,
}

impl Joined {
    /// The number of rows.
    pub fn len(&self) -> usize {
        match &self.memory {
            Memory::Batch(batch) => batch.rows,
            Memory::Stretches(stretches) => stretches.rows(self.dim).len(),
        }
    }

    pub fn ids(&self) -> Option<&Ids> {
        if let Memory::Batch(batch) = &self.memory { batch.ids.as_ref() } else { None }
    }

    /// The rows, to be looked at by who works on them; none unless they are in stretches.
    pub fn loose(&self) -> Option<LooseRows<'_>> {
        let Memory::Stretches(stretches) = &self.memory else { return None };
        Some(stretches.rows(self.dim))
    }

    /// The same rows, those in stretches put together, in this memory if it is fit for that.
    pub fn together(mut self, room: Memory) -> Self {
        if let Memory::Stretches(stretches) = &self.memory {
            let values = stretches.together(self.dim, room.into_batch().values);
            self.memory = Memory::Batch(Batch { rows: stretches.rows(self.dim).len(), values, weights: None, ids: None });
        }
        self
    }

    /// The rows, all of which are looked at; they must be together.
    pub fn block(&self) -> Result<RowBatch<'_>> {
        let block = match &self.memory {
            Memory::Stretches(_) => unreachable!("rows that were put together"),
            Memory::Batch(Batch { values, weights, .. }) => match values {
                Values::F32(values) => RowBatch::new(self.dim, values),
                Values::F64(values) => RowBatch::new(self.dim, values),
                Values::SparseF32 { starts, columns, values } => RowBatch::sparse(self.dim, starts, columns, values),
                Values::SparseF64 { starts, columns, values } => RowBatch::sparse(self.dim, starts, columns, values),
            }
            .and_then(|block| if let Some(weights) = weights { block.with_weights(weights) } else { Ok(block) }),
        };
        block.map_err(|error| self.in_its_file(error))
    }

    /// The rows, to be kept; all of them are looked at.
    pub fn check(self) -> Result<Checked> {
        let mut joined = self.together(Memory::default());
        let Batch { values, weights, ids, .. } = match std::mem::take(&mut joined.memory) {
            Memory::Batch(batch) => batch,
            Memory::Stretches(_) => unreachable!("rows that were put together"),
        };
        let block = owned(joined.dim, values, weights.as_deref()).map_err(|error| joined.in_its_file(error))?;
        Ok(Checked { block, weights, ids, rescaled: joined.rescaled })
    }

    /// An error of the rows, in the file of the row that it speaks of.
    pub fn in_its_file(&self, mut error: vmfkit::Error) -> Error {
        let row = row_of(&mut error).map_or(0, |row| *row);
        let (first, origin) = self.origins.iter().rfind(|(first, _)| *first <= row).expect("a block has rows of a file");
        in_file(error, *first, origin)
    }
}

fn owned(dim: usize, values: Values, weights: Option<&[f64]>) -> vmfkit::Result<RowBatch<'static>> {
    let block = match values {
        Values::F32(values) => RowBatch::owned(dim, values)?,
        Values::F64(values) => RowBatch::owned(dim, values)?,
        Values::SparseF32 { starts, columns, values } => RowBatch::sparse_owned(dim, starts, columns, values)?,
        Values::SparseF64 { starts, columns, values } => RowBatch::sparse_owned(dim, starts, columns, values)?,
    };
    if let Some(weights) = weights {
        block.slice(0, block.len()).with_weights(weights)?;
    }
    Ok(block)
}

/// Rows that were checked, with what belongs to them.
pub(crate) struct Checked {
    /// Owns its rows, and was checked when it was made.
    block: RowBatch<'static>,
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
    pub fn block(&self) -> RowBatch<'_> {
        let block = self.block.slice(0, self.block.len());
        match &self.weights {
            Some(weights) => block.with_weights(weights).expect("the weights were checked with the rows"),
            None => block,
        }
    }
}

/// An error of rows of which number `first` is the origin's row, with the number that its row has in the file.
pub(crate) fn in_file(mut error: vmfkit::Error, first: usize, origin: &Origin) -> Error {
    if let Some(row) = row_of(&mut error) {
        *row = *row - first + origin.row as usize;
    }
    let error = match error {
        vmfkit::Error::NotUnit { row, norm } => Error::NotUnit { row: row as u64, norm, dim: origin.dim, angles: origin.angles },
        other => Error::Rows(other),
    };
    error.at(&*origin.name)
}

/// The number of the row that an error speaks of.
pub(crate) fn row_of(error: &mut vmfkit::Error) -> Option<&mut usize> {
    use vmfkit::Error::*;
    match error {
        NotFinite { row, .. } | ZeroRow { row } | NotUnit { row, .. } | Weight { row, .. } | Angle { row, .. } => Some(row),
        Column { row, .. } | ColumnOrder { row, .. } => Some(row),
        _ => None,
    }
}
