//! Batches that own their rows and grow, and buffers.

use super::values::{Rows, Scalar, SparseRows};
use super::{RowBatch, Values};
use crate::error::{Error, Result};
use std::borrow::Cow;

impl Default for RowBatch<'_> {
    /// No rows: a buffer for [`validated`](RowBatch::validated), whose memory is used again each time.
    fn default() -> Self {
        RowBatch::of_rows(0, 0, Rows::F32(Cow::Borrowed(&[])))
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

    /// Removes all rows; the next ones are of the dimension and the kind of another batch. Memory is kept if the kind stays.
    pub(super) fn clear_like(&mut self, batch: &RowBatch) {
        let like = match &batch.values {
            Values::Numbers(rows) => rows.empty_like(),
            Values::Bytes(rows) if rows.is_single() => Rows::F32(Cow::Borrowed(&[])),
            Values::Bytes(_) => Rows::F64(Cow::Borrowed(&[])),
        };
        match &mut self.values {
            Values::Numbers(rows) if std::mem::discriminant(&*rows) == std::mem::discriminant(&like) => truncate(rows, 0, 0),
            values => *values = Values::Numbers(like),
        }
        (self.dim, self.len, self.is_validated, self.origin) = (batch.dim, 0, true, None);
        self.weights = None;
    }

    /// The memory of dense rows of this type, whatever it holds; the caller makes it this many rows, validated.
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
            (Some(added), _) | (None, Values::Numbers(added)) => append(rows, self.dim, (self.len, batch.len), added),
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
            Values::Numbers(values) => truncate(values, self.dim, rows),
            Values::Bytes(bytes) => *bytes = bytes.slice(0, rows),
        }
        if let Some(weights) = &mut self.weights {
            weights.to_mut().truncate(rows);
        }
        self.len = rows;
    }
}

fn truncate(rows: &mut Rows<'static>, dim: usize, count: usize) {
    match rows {
        Rows::F32(values) => values.to_mut().truncate(count * dim),
        Rows::F64(values) => values.to_mut().truncate(count * dim),
        Rows::SparseF32(rows) => rows.truncate(count),
        Rows::SparseF64(rows) => rows.truncate(count),
    }
}

/// Appends rows to others; `counts` are the numbers of both.
fn append(rows: &mut Rows<'static>, dim: usize, counts: (usize, usize), added: &Rows) {
    fn wide(values: &[f32]) -> impl Iterator<Item = f64> + '_ {
        values.iter().map(|x| f64::from(*x))
    }
    fn push_all<T: Scalar, F: Scalar>(rows: &mut SparseRows<'static, T>, added: &SparseRows<F>) {
        (0..added.len()).for_each(|row| rows.push(added.row(row)));
    }
    match (&mut *rows, added) {
        (Rows::F32(values), Rows::F32(added)) => values.to_mut().extend_from_slice(added),
        (Rows::F64(values), Rows::F64(added)) => values.to_mut().extend_from_slice(added),
        (Rows::F64(values), Rows::F32(added)) => values.to_mut().extend(wide(added)),
        (Rows::SparseF32(rows), Rows::SparseF32(added)) => push_all(rows, added),
        (Rows::SparseF64(rows), Rows::SparseF64(added)) => push_all(rows, added),
        (Rows::SparseF64(rows), Rows::SparseF32(added)) => push_all(rows, added),
        (Rows::SparseF32(narrow), Rows::SparseF64(added)) => {
            let (starts, columns, values) = narrow.parts();
            let mut rows64 = SparseRows::new(starts.to_vec(), columns.to_vec(), wide(values).collect::<Vec<_>>());
            push_all(&mut rows64, added);
            *rows = Rows::SparseF64(rows64);
        }
        (Rows::F64(values), _) => values.to_mut().extend((0..counts.1).flat_map(|row| added.row(dim, row))),
        _ => {
            let mut values: Vec<f64> = (0..counts.0).flat_map(|row| rows.row(dim, row)).collect();
            values.extend((0..counts.1).flat_map(|row| added.row(dim, row)));
            *rows = Rows::F64(values.into());
        }
    }
}
