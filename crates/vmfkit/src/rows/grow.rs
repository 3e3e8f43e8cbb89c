//! Batches that own their rows and grow, and buffers.

use super::values::{Rows, Scalar};
use super::{RowBatch, Values};
use crate::error::{Error, Result};
use std::borrow::Cow;

impl Default for RowBatch<'_> {
    /// No rows: a buffer for [`validated`](RowBatch::validated), whose memory is reused.
    fn default() -> Self {
        RowBatch::of_rows(0, 0, Rows::default())
    }
}

impl RowBatch<'_> {
    /// A copy of one row, in its kind and without its weight.
    pub(crate) fn owned_row(&self, row: usize) -> RowBatch<'static> {
        let mut copy = RowBatch::empty_like(self);
        copy.append(&self.slice(row, row + 1).without_weights()).expect("the dimension is the same");
        copy
    }

    /// The same rows; without weights if all of these are 1.
    pub(crate) fn without_unit_weights(&self) -> RowBatch<'_> {
        let batch = self.slice(0, self.len);
        let counts = |weights: &[f64]| weights.iter().any(|weight| *weight != 1.0);
        if self.weights().is_some_and(counts) { batch } else { batch.without_weights() }
    }

    /// The number of rows whose weight is not 0.
    pub(crate) fn weighted_rows(&self) -> usize {
        self.weights().map_or(self.len, |weights| weights.iter().filter(|weight| **weight > 0.0).count())
    }
}

impl RowBatch<'static> {
    /// No rows, of the dimension and the kind of another batch.
    pub fn empty_like(batch: &RowBatch) -> Self {
        let mut empty = RowBatch::default();
        empty.clear_like(batch);
        empty
    }

    /// Removes all rows; the next ones have the dimension and the kind of another batch. Memory is
    /// kept if the kind stays the same.
    pub(super) fn clear_like(&mut self, batch: &RowBatch) {
        let like = match &batch.values {
            Values::Numbers(rows) => rows.empty_like(),
            Values::Bytes(rows) if rows.is_single() => Rows::F32(Cow::Borrowed(&[])),
            Values::Bytes(_) => Rows::F64(Cow::Borrowed(&[])),
        };
        match &mut self.values {
            Values::Numbers(rows) => rows.clear_like(&like),
            values => *values = Values::Numbers(like),
        }
        (self.dim, self.len, self.is_validated, self.origin) = (batch.dim, 0, true, None);
        self.weights = None;
    }

    /// The vector of dense rows of this type, with any contents; the caller fills it with this many
    /// validated rows.
    pub(super) fn start_dense<T: Scalar>(&mut self, dim: usize, rows: usize) -> &mut Vec<T> {
        (self.dim, self.len, self.is_validated, self.origin) = (dim, rows, true, None);
        if let Values::Bytes(_) = self.values {
            self.values = RowBatch::default().values;
        }
        match &mut self.values {
            Values::Numbers(rows) => T::dense_mut(rows),
            Values::Bytes(_) => unreachable!("replaced above"),
        }
    }

    /// Appends copies of rows. Dense rows of both precisions become rows of f64, as do sparse ones;
    /// where one batch is dense and the other sparse, all become dense rows of f64.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`].
    pub fn append(&mut self, batch: &RowBatch) -> Result<()> {
        if batch.dim != self.dim {
            return Err(Error::DimensionMismatch { expected: self.dim, found: batch.dim });
        }
        if self.weights.is_some() || batch.weights.is_some() {
            let ones = std::iter::repeat_n(1.0, self.len);
            let weights = self.weights.get_or_insert_with(|| ones.collect()).to_mut();
            match batch.weights() {
                Some(added) => weights.extend_from_slice(added),
                None => weights.resize(self.len + batch.len, 1.0),
            }
        }
        let copied = |batch: &RowBatch| match &batch.values {
            Values::Bytes(rows) if rows.is_single() => {
                let mut values = vec![0f32; rows.len() * batch.dim];
                rows.copy_rows(0, &mut values);
                Some(Rows::F32(values.into()))
            }
            Values::Bytes(rows) => {
                let mut values = vec![0f64; rows.len() * batch.dim];
                rows.copy_rows(0, &mut values);
                Some(Rows::F64(values.into()))
            }
            Values::Numbers(_) => None,
        };
        if let Some(rows) = copied(self) {
            self.values = Values::Numbers(rows);
        }
        let added = copied(batch);
        let Values::Numbers(rows) = &mut self.values else { unreachable!("bytes were copied above") };
        match (&added, &batch.values) {
            (Some(added), _) | (None, Values::Numbers(added)) => rows.append(self.dim, added),
            (None, Values::Bytes(_)) => unreachable!("bytes were copied above"),
        }
        self.len += batch.len;
        self.is_validated &= batch.is_validated;
        Ok(())
    }

    /// Appends one sparse row of the same kind.
    pub(super) fn push_sparse(&mut self, from: &Rows, row: usize) {
        match (&mut self.values, from) {
            (Values::Numbers(Rows::SparseF32(rows)), Rows::SparseF32(from)) => rows.push(from.row(row)),
            (Values::Numbers(Rows::SparseF64(rows)), Rows::SparseF64(from)) => rows.push(from.row(row)),
            _ => unreachable!("sparse rows of one kind"),
        }
        self.len += 1;
    }

    /// Keeps only the first rows.
    pub fn truncate(&mut self, rows: usize) {
        if rows >= self.len {
            return;
        }
        match &mut self.values {
            Values::Numbers(values) => values.truncate(self.dim, rows),
            Values::Bytes(bytes) => *bytes = bytes.slice(0, rows),
        }
        if let Some(weights) = &mut self.weights {
            weights.to_mut().truncate(rows);
        }
        self.len = rows;
    }
}
