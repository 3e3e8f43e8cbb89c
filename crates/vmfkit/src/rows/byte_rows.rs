//! [`ByteRows`]: dense rows as the bytes of a file, validated where they are used.
//!
//! Copying, validating and multiplying rows in separate passes would load every row from memory
//! three times. The E step copies (only if need be), validates and multiplies a few rows at a time,
//! while they are in a near cache.

use super::validate::row_count;
use super::values::{Scalar, row_error};
use crate::error::{Error, Result};
use bytes::Bytes;
use vmfkit_kernels::bytes::from_bytes;

/// Bytes that are copied at a time, and are still in the first-level cache when they are validated.
const NEAR: usize = 4096;

/// Rows of f32 or f64 in the byte order of this machine, in buffers that need not be aligned or
/// contiguous.
#[derive(Debug, Clone)]
pub(crate) struct ByteRows {
    dim: usize,
    len: usize,
    /// Bytes of a number.
    number: usize,
    buffers: Vec<Bytes>,
    /// The number of bytes before each buffer.
    starts: Vec<usize>,
}

impl ByteRows {
    /// Each buffer has whole numbers, all of them together whole rows.
    pub fn new<T: Scalar>(dim: usize, buffers: impl IntoIterator<Item = Bytes>) -> Result<Self> {
        let number = size_of::<T>();
        let rows = Self::of_buffers(dim, number, buffers);
        let values = rows.buffers.iter().map(Bytes::len).sum::<usize>() / number;
        let len = row_count(dim, values)?;
        match rows.buffers.iter().all(|buffer| buffer.len().is_multiple_of(number)) {
            true => Ok(ByteRows { len, ..rows }),
            false => Err(Error::PartialRow { values, dim }),
        }
    }

    fn of_buffers(dim: usize, number: usize, buffers: impl IntoIterator<Item = Bytes>) -> Self {
        let buffers: Vec<_> = buffers.into_iter().filter(|buffer| !buffer.is_empty()).collect();
        let mut bytes = 0;
        let mut next_start = |buffer: &Bytes| {
            bytes += buffer.len();
            bytes - buffer.len()
        };
        let starts = buffers.iter().map(&mut next_start).collect();
        ByteRows { dim, len: bytes / (number * dim).max(1), number, buffers, starts }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// True for f32.
    pub fn is_single(&self) -> bool {
        self.number == size_of::<f32>()
    }

    pub fn slice(&self, from: usize, to: usize) -> Self {
        let mut buffers = Vec::new();
        let first = self.buffer_of(from * self.dim * self.number);
        self.visit(from, to, |bytes| buffers.push(self.buffers[first + buffers.len()].slice_ref(bytes)));
        Self::of_buffers(self.dim, self.number, buffers)
    }

    pub fn buffers(&self) -> impl Iterator<Item = &[u8]> {
        self.buffers.iter().map(|buffer| &**buffer)
    }

    /// A copy of one row.
    pub fn row(&self, row: usize) -> Vec<f64> {
        let mut values = Vec::new();
        self.visit(row, row + 1, |bytes| self.append(bytes, &mut values));
        values
    }

    /// Fills `out` with rows, from the row `first` on.
    pub fn copy_rows<T: Scalar>(&self, first: usize, mut out: &mut [T]) {
        self.visit(first, first + out.len() / self.dim, |bytes| {
            let (now, later) = std::mem::take(&mut out).split_at_mut(bytes.len() / self.number);
            match self.is_single() {
                true => now.iter_mut().zip(numbers::<f32, T>(bytes)).for_each(|(out, number)| *out = number),
                false => now.iter_mut().zip(numbers::<f64, T>(bytes)).for_each(|(out, number)| *out = number),
            }
            out = later;
        });
    }

    #[inline(always)]
    fn append<T: Scalar>(&self, bytes: &[u8], values: &mut Vec<T>) {
        match self.is_single() {
            true => values.extend(numbers::<f32, T>(bytes)),
            false => values.extend(numbers::<f64, T>(bytes)),
        }
    }

    /// The rows `from .. to` in a precision that is not lower than theirs, in `buffer` unless they
    /// are aligned and contiguous; or the number of the first bad row.
    #[inline(always)]
    pub fn validated<'r, T: Scalar>(
        &'r self,
        from: usize,
        to: usize,
        buffer: &'r mut Vec<T>,
    ) -> std::result::Result<&'r [T], usize> {
        let valid_rows = |values: &[T]| values.chunks_exact(self.dim).take_while(|row| row_error(0, row).is_none()).count();
        let (values, valid) = match self.in_place(from, to) {
            Some(values) => (values, valid_rows(values)),
            None => {
                let mut valid = 0;
                buffer.clear();
                self.visit(from, to, |bytes| {
                    for near in bytes.chunks(NEAR) {
                        self.append(near, buffer);
                        valid += valid_rows(&buffer[valid * self.dim..]);
                    }
                });
                (&**buffer, valid)
            }
        };
        if valid == to - from { Ok(values) } else { Err(from + valid) }
    }

    /// The address of the first byte of a row, to prefetch it; past the last row, an address that
    /// need not be readable.
    #[inline(always)]
    pub fn address(&self, row: usize) -> *const u8 {
        let byte = row * self.dim * self.number;
        let index = self.buffer_of(byte);
        let address = |buffer: &Bytes, start: &usize| buffer.as_ptr().wrapping_add(byte - start);
        self.buffers.get(index).zip(self.starts.get(index)).map_or(std::ptr::null(), |(buffer, start)| address(buffer, start))
    }

    /// The index of the buffer that has a byte.
    #[inline(always)]
    fn buffer_of(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start <= byte).saturating_sub(1)
    }

    /// Shows the bytes of the rows `from .. to`, buffer by buffer.
    #[inline(always)]
    pub fn visit<'r>(&'r self, from: usize, to: usize, mut see: impl FnMut(&'r [u8])) {
        let (from, to) = (from * self.dim * self.number, to * self.dim * self.number);
        let first = self.buffer_of(from);
        for (buffer, start) in self.buffers[first..].iter().zip(&self.starts[first..]).take_while(|(_, start)| **start < to) {
            see(&buffer[from.saturating_sub(*start)..(to - start).min(buffer.len())]);
        }
    }

    /// The rows `from .. to`, if they are numbers of this type, aligned and contiguous.
    pub fn in_place<T: Scalar>(&self, from: usize, to: usize) -> Option<&[T]> {
        let (mut found, mut count) = (&[][..], 0);
        self.visit(from, to, |bytes| (found, count) = (bytes, count + 1));
        if self.number == size_of::<T>() && count == 1 { from_bytes(found) } else { None }
    }
}

/// The numbers of type `F` that have these bytes, as `T`.
#[inline(always)]
fn numbers<F: Scalar, T: Scalar>(bytes: &[u8]) -> impl Iterator<Item = T> {
    bytes.chunks_exact(size_of::<F>()).map(|number| T::from_f64(F::from_bytes(number).to_f64()))
}
