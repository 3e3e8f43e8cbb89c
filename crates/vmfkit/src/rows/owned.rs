//! [`OwnedRows`]: copies of rows that are kept until others come.

use crate::error::{Error, Result};
use crate::rows::{RowBatch, Rows, Scalar, SparseRows};

/// Rows in the type they came in; in double precision, every coordinate stored, if they came in several.
#[derive(Debug, Clone)]
pub(crate) struct OwnedRows {
    dim: usize,
    values: Values,
    weights: Vec<f64>,
}

#[derive(Debug, Clone)]
pub(crate) enum Values {
    F32(Vec<f32>),
    F64(Vec<f64>),
    SparseF32(Csr<f32>),
    SparseF64(Csr<f64>),
}

#[derive(Debug, Clone)]
pub(crate) struct Csr<T> {
    pub starts: Vec<usize>,
    pub columns: Vec<u32>,
    pub values: Vec<T>,
}

impl<T: Scalar> Csr<T> {
    fn new() -> Self {
        Csr { starts: vec![0], columns: Vec::new(), values: Vec::new() }
    }

    fn extend(&mut self, rows: &SparseRows<T>, count: usize) {
        for (columns, values) in (0..count).map(|row| rows.row(row)) {
            self.columns.extend_from_slice(columns);
            self.values.extend_from_slice(values);
            self.starts.push(self.values.len());
        }
    }

    fn truncate(&mut self, rows: usize) {
        self.starts.truncate(rows + 1);
        let entries = self.starts.last().copied().unwrap_or_default();
        self.columns.truncate(entries);
        self.values.truncate(entries);
    }
}

impl OwnedRows {
    /// None yet, of the type of a block's rows.
    pub fn like(block: &RowBatch) -> Self {
        let values = match block.rows() {
            Rows::F32(_) => Values::F32(Vec::new()),
            Rows::F64(_) => Values::F64(Vec::new()),
            Rows::SparseF32(_) => Values::SparseF32(Csr::new()),
            Rows::SparseF64(_) => Values::SparseF64(Csr::new()),
        };
        OwnedRows { dim: block.dim(), values, weights: Vec::new() }
    }

    pub fn dim(&self) -> usize {
        self.dim
    }

    pub fn len(&self) -> usize {
        self.weights.len()
    }

    /// Keeps the first rows only.
    pub fn truncate(&mut self, rows: usize) {
        match &mut self.values {
            Values::F32(values) => values.truncate(rows * self.dim),
            Values::F64(values) => values.truncate(rows * self.dim),
            Values::SparseF32(csr) => csr.truncate(rows),
            Values::SparseF64(csr) => csr.truncate(rows),
        }
        self.weights.truncate(rows);
    }

    /// How many rows count.
    pub fn count(&self) -> usize {
        self.weights.iter().filter(|weight| **weight > 0.0).count()
    }

    pub fn push(&mut self, block: &RowBatch) -> Result<()> {
        if block.dim() != self.dim {
            return Err(Error::DimensionMismatch { expected: self.dim, found: block.dim() });
        }
        match (&mut self.values, block.rows()) {
            (Values::F32(held), Rows::F32(rows)) => held.extend_from_slice(rows),
            (Values::F64(held), Rows::F64(rows)) => held.extend_from_slice(rows),
            (Values::SparseF32(held), Rows::SparseF32(rows)) => held.extend(rows, block.len()),
            (Values::SparseF64(held), Rows::SparseF64(rows)) => held.extend(rows, block.len()),
            _ => {
                let held = self.block();
                let mut rows: Vec<f64> = (0..held.len()).flat_map(|row| held.row(row)).collect();
                rows.extend((0..block.len()).flat_map(|row| block.row(row)));
                self.values = Values::F64(rows);
            }
        }
        self.weights.extend((0..block.len()).map(|row| block.weights().map_or(1.0, |weights| weights[row])));
        Ok(())
    }

    /// All rows; with weights where these differ from 1.
    pub fn block(&self) -> RowBatch<'_> {
        let block = match &self.values {
            Values::F32(values) => RowBatch::of_checked(self.dim, values),
            Values::F64(values) => RowBatch::of_checked(self.dim, values),
            Values::SparseF32(Csr { starts, columns, values }) => RowBatch::of_checked_sparse(self.dim, starts, columns, values),
            Values::SparseF64(Csr { starts, columns, values }) => RowBatch::of_checked_sparse(self.dim, starts, columns, values),
        };
        let weights = Some(&self.weights[..]).filter(|weights| weights.iter().any(|weight| *weight != 1.0));
        block.with_checked_weights(weights)
    }

    /// Rows that are checked as those are that a caller brings.
    pub fn checked(dim: usize, values: Values, weights: Vec<f64>) -> Result<Self> {
        let block = match &values {
            Values::F32(values) => RowBatch::new(dim, values),
            Values::F64(values) => RowBatch::new(dim, values),
            Values::SparseF32(Csr { starts, columns, values }) => RowBatch::sparse(dim, starts, columns, values),
            Values::SparseF64(Csr { starts, columns, values }) => RowBatch::sparse(dim, starts, columns, values),
        };
        block?.with_weights(&weights)?;
        Ok(OwnedRows { dim, values, weights })
    }

    pub fn values(&self) -> &Values {
        &self.values
    }

    /// One for each row.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }
}
