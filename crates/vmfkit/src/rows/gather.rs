//! Copies of some rows of a batch, validated on the way if need be.

use super::byte_rows::ByteRows;
use super::validate::VALUES_PER_TASK;
use super::values::{Rows, Scalar, row_error};
use super::{RowBatch, Values};
use crate::error::{Error, Result};
use rayon::prelude::*;
use std::borrow::Cow;
use vmfkit_kernels::prefetch::prefetch_slice;

/// Values that are copied and then validated while they are in the first-level cache.
const VALUES_PER_COPY: usize = 4096;

/// Rows are prefetched this many ahead of the one being copied: no processor predicts where the
/// next row of a list is.
const PREFETCH_AHEAD: usize = 8;

impl RowBatch<'_> {
    /// A copy of the rows with these numbers, in this order, with their weights.
    ///
    /// # Errors
    /// That of the first bad row of the batch, if it is not validated and one of these rows is bad.
    ///
    /// # Panics
    /// If a number is past the last row; if the rows are sparse and not validated.
    pub(crate) fn gather<'b>(&self, rows: &[usize], buffer: &'b mut RowBatch<'static>) -> Result<RowBatch<'b>> {
        match &self.values {
            Values::Numbers(Rows::F32(values)) => self.gather_dense(values, rows, buffer)?,
            Values::Numbers(Rows::F64(values)) => self.gather_dense(values, rows, buffer)?,
            Values::Numbers(_) => {
                buffer.clear_like(self);
                rows.iter().for_each(|&row| buffer.push_sparse(self.rows(), row));
            }
            Values::Bytes(bytes) if bytes.is_single() => self.gather_bytes::<f32>(bytes, rows, buffer)?,
            Values::Bytes(bytes) => self.gather_bytes::<f64>(bytes, rows, buffer)?,
        }
        buffer.weights = self.weights.as_ref().map(|all| {
            let mut weights = buffer.weights.take().map_or_else(Vec::new, Cow::into_owned);
            weights.clear();
            weights.extend(rows.iter().map(|&row| all[row]));
            weights.into()
        });
        Ok(buffer.slice(0, rows.len()))
    }

    fn gather_dense<T: Scalar>(&self, values: &[T], rows: &[usize], buffer: &mut RowBatch<'static>) -> Result<()> {
        let values_of = |row: usize| &values[row * self.dim..(row + 1) * self.dim];
        self.fill(rows.len(), buffer, |first, out: &mut [T]| {
            for (position, out) in (first..).zip(out.chunks_exact_mut(self.dim)) {
                rows.get(position + PREFETCH_AHEAD).into_iter().for_each(|&later| prefetch_slice(values_of(later)));
                out.copy_from_slice(values_of(rows[position]));
            }
        })
    }

    fn gather_bytes<T: Scalar>(&self, bytes: &ByteRows, rows: &[usize], buffer: &mut RowBatch<'static>) -> Result<()> {
        self.fill(rows.len(), buffer, |first, out: &mut [T]| {
            for (position, out) in (first..).zip(out.chunks_exact_mut(self.dim)) {
                rows.get(position + PREFETCH_AHEAD).into_iter().for_each(|&later| bytes.visit(later, later + 1, prefetch_slice));
                bytes.copy_rows(rows[position], out);
            }
        })
    }

    /// The rows `from .. to`, validated; in `buffer` if they are bytes that cannot be used in
    /// place.
    ///
    /// # Errors
    /// That of the first bad row of the batch, if one of these rows is bad.
    pub(crate) fn validated_slice<'b>(
        &'b self,
        from: usize,
        to: usize,
        buffer: &'b mut RowBatch<'static>,
    ) -> Result<RowBatch<'b>> {
        let weights = self.weights.as_ref().map(|weights| Cow::Borrowed(&weights[from..to]));
        let in_place = match &self.values {
            _ if self.is_validated => return Ok(self.slice(from, to)),
            Values::Numbers(rows) => Some(rows.slice(self.dim, from, to)),
            Values::Bytes(rows) if rows.is_single() => rows.in_place(from, to).map(|values| Rows::F32(Cow::Borrowed(values))),
            Values::Bytes(rows) => rows.in_place(from, to).map(|values| Rows::F64(Cow::Borrowed(values))),
        };
        if let Some(rows) = in_place {
            rows.validate(self.dim).map_err(|_| self.first_error())?;
            return Ok(RowBatch { weights, ..RowBatch::of_rows(self.dim, to - from, rows) });
        }
        if let Values::Bytes(rows) = &self.values {
            self.copy_bytes(rows, from, to, buffer)?;
        }
        Ok(RowBatch { weights, ..buffer.slice(0, to - from) })
    }

    /// Fills `buffer` with the rows `from .. to`, validated.
    pub(super) fn copy_bytes(&self, bytes: &ByteRows, from: usize, to: usize, buffer: &mut RowBatch<'static>) -> Result<()> {
        match bytes.is_single() {
            true => self.fill::<f32>(to - from, buffer, |first, out| bytes.copy_rows(from + first, out)),
            false => self.fill::<f64>(to - from, buffer, |first, out| bytes.copy_rows(from + first, out)),
        }
    }

    /// Fills `buffer` with this many rows by `copy`, on all threads; its arguments are the number
    /// of a row in the buffer and the memory for this row and the rows after it.
    fn fill<T: Scalar>(&self, rows: usize, buffer: &mut RowBatch<'static>, copy: impl Fn(usize, &mut [T]) + Sync) -> Result<()> {
        let out = buffer.start_dense::<T>(self.dim, rows);
        // Old values are overwritten, since clearing them would take as long as the copy.
        out.resize(rows * self.dim, T::default());
        let rows_per_copy = (VALUES_PER_COPY / self.dim).max(1);
        let is_valid = |(part, out): (usize, &mut [T])| {
            copy(part * rows_per_copy, out);
            self.is_validated || out.chunks_exact(self.dim).all(|row| row_error(0, row).is_none())
        };
        let are_valid = if out.len() <= VALUES_PER_TASK {
            out.chunks_mut(rows_per_copy * self.dim).enumerate().all(is_valid)
        } else {
            let parts = out.par_chunks_mut(rows_per_copy * self.dim).with_min_len(VALUES_PER_TASK / VALUES_PER_COPY);
            parts.enumerate().all(is_valid)
        };
        if are_valid { Ok(()) } else { Err(self.first_error()) }
    }

    /// The error of a row, if it is bad.
    pub(crate) fn row_error(&self, row: usize) -> Option<Error> {
        row_error(row, &self.row(row)).map(|error| self.located(error))
    }

    /// The error of the first bad row.
    ///
    /// # Panics
    /// If there is none.
    fn first_error(&self) -> Error {
        let error = match &self.values {
            Values::Numbers(rows) => rows.validate(self.dim).err().map(|error| self.located(error)),
            Values::Bytes(_) => (0..self.len).find_map(|row| self.row_error(row)),
        };
        error.expect("one of the rows was found to be bad")
    }
}
