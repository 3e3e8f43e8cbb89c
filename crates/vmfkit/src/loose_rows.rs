//! [`LooseRows`]: rows as the bytes of a file, checked where they are worked on.

use crate::block::wrong_row;
use crate::error::{Error, Result};
use rayon::prelude::*;

/// Bytes of a number.
const NUMBER: usize = size_of::<f32>();
/// Bytes that are copied at a time, and then still in the nearest cache for who looks at them.
const NEAR: usize = 4096;

/// Rows of single precision, not yet checked, in stretches of memory that need be neither together nor aligned: where a disk put them.
///
/// Rows that are copied, checked and multiplied one after the other come from afar three times. These are copied, if need be, and checked a few
/// at a time by [`Mixture::accumulate_loose`](crate::Mixture::accumulate_loose), which works on them while they are still in a near cache.
///
/// ```
/// use vmfkit::{Error, loose_rows::LooseRows};
/// let bytes: Vec<u8> = [0.6f32, 0.8, 3.0, 4.0].into_iter().flat_map(f32::to_ne_bytes).collect();
/// let rows = LooseRows::new(2, [&bytes[..8], &bytes[8..]])?;
/// assert_eq!(rows.len(), 2);
/// let mut values = Vec::new();
/// rows.copy_to(&mut values);
/// assert_eq!(values, [0.6, 0.8, 3.0, 4.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LooseRows<'a> {
    dim: usize,
    len: usize,
    stretches: Vec<&'a [u8]>,
    /// The bytes before each stretch.
    starts: Vec<usize>,
}

impl<'a> LooseRows<'a> {
    /// Takes numbers in the byte order of this machine, one behind the other; each stretch has whole numbers, all of them together whole rows.
    pub fn new(dim: usize, stretches: impl IntoIterator<Item = &'a [u8]>) -> Result<Self> {
        if dim < 2 {
            return Err(Error::Dimension { dim });
        }
        let stretches: Vec<_> = stretches.into_iter().filter(|stretch| !stretch.is_empty()).collect();
        let mut starts = Vec::with_capacity(stretches.len());
        let mut bytes = 0;
        for stretch in &stretches {
            starts.push(bytes);
            bytes += stretch.len();
        }
        let values = bytes / NUMBER;
        let whole = stretches.iter().all(|stretch| stretch.len().is_multiple_of(NUMBER));
        if !whole || !values.is_multiple_of(dim) {
            return Err(Error::PartialRow { values, dim });
        }
        Ok(LooseRows { dim, len: values / dim, stretches, starts })
    }

    /// The length of a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Replaces what is in `values` by all numbers, unchecked, on all threads.
    pub fn copy_to(&self, values: &mut Vec<f32>) {
        values.resize(self.len * self.dim, 0.0);
        let rows = (NEAR / self.dim).max(1);
        values.par_chunks_mut(rows * self.dim).enumerate().for_each(|(part, out)| {
            let mut out = out;
            self.visit(part * rows, part * rows + out.len() / self.dim, |bytes| {
                let (now, later) = std::mem::take(&mut out).split_at_mut(bytes.len() / NUMBER);
                now.iter_mut().zip(numbers(bytes)).for_each(|(out, number)| *out = number);
                out = later;
            });
        });
    }

    /// What is wrong with a row, if anything is.
    pub(crate) fn wrong_row(&self, row: usize) -> Option<Error> {
        let mut values = Vec::new();
        self.visit(row, row + 1, |bytes| values.extend(numbers(bytes)));
        wrong_row(row, &values)
    }

    /// The rows `from .. to`, in `room` unless they are where numbers may be; or the number of the first that is wrong.
    #[inline(always)]
    pub(crate) fn checked<'r>(&'r self, from: usize, to: usize, room: &'r mut Vec<f32>) -> std::result::Result<&'r [f32], usize> {
        let right_rows = |values: &[f32]| values.chunks_exact(self.dim).take_while(|row| wrong_row(0, row).is_none()).count();
        let (values, right) = match self.in_place(from, to) {
            Some(values) => (values, right_rows(values)),
            None => {
                let mut right = 0;
                room.clear();
                self.visit(from, to, |bytes| {
                    for near in bytes.chunks(NEAR) {
                        room.extend(numbers(near));
                        right += right_rows(&room[right * self.dim..]);
                    }
                });
                (&**room, right)
            }
        };
        if right == to - from { Ok(values) } else { Err(from + right) }
    }

    /// Where the first byte of a row is, to have it brought near; some place that need not be there, behind the last row.
    #[inline(always)]
    pub(crate) fn place(&self, row: usize) -> *const u8 {
        let byte = row * self.dim * NUMBER;
        let stretch = self.stretch_of(byte);
        let place = |stretch: &&[u8], start: &usize| stretch.as_ptr().wrapping_add(byte - start);
        self.stretches.get(stretch).zip(self.starts.get(stretch)).map_or(std::ptr::null(), |(s, start)| place(s, start))
    }

    /// The stretch that a byte is in.
    #[inline(always)]
    fn stretch_of(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start <= byte).saturating_sub(1)
    }

    /// Shows the bytes of the rows `from .. to`, stretch by stretch.
    #[inline(always)]
    fn visit(&self, from: usize, to: usize, mut see: impl FnMut(&'a [u8])) {
        let (from, to) = (from * self.dim * NUMBER, to * self.dim * NUMBER);
        let first = self.stretch_of(from);
        for (stretch, start) in self.stretches[first..].iter().zip(&self.starts[first..]).take_while(|(_, start)| **start < to) {
            see(&stretch[from.saturating_sub(*start)..(to - start).min(stretch.len())]);
        }
    }

    /// The rows `from .. to`, if they are in one stretch, where numbers may be.
    fn in_place(&self, from: usize, to: usize) -> Option<&'a [f32]> {
        let (mut found, mut count) = (&[][..], 0);
        self.visit(from, to, |bytes| (found, count) = (bytes, count + 1));
        // SAFETY: any four bytes are a number.
        let (before, numbers, behind) = unsafe { found.align_to::<f32>() };
        (count == 1 && before.is_empty() && behind.is_empty()).then_some(numbers)
    }
}

#[inline(always)]
fn numbers(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.chunks_exact(NUMBER).map(|number| f32::from_ne_bytes(number.try_into().expect("bytes of a number")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Block;

    fn bytes_of(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().copied().flat_map(f32::to_ne_bytes).collect()
    }

    #[test]
    fn rows_are_the_same_however_they_lie_in_memory() {
        let values: Vec<f32> = (0..60).map(|i| if i % 6 == i / 6 % 6 { 1.0 } else { 0.0 }).collect();
        let bytes = bytes_of(&values);
        for offset in 0..4 {
            // At any place of memory.
            let mut memory = vec![0; offset];
            memory.extend(&bytes);
            let memory = &memory[offset..];
            for step in (NUMBER..=memory.len()).step_by(NUMBER) {
                let rows = LooseRows::new(6, memory.chunks(step)).unwrap();
                assert_eq!((rows.dim(), rows.len(), rows.is_empty()), (6, 10, false));
                let (mut all, mut room) = (vec![7.0; 99], Vec::new());
                rows.copy_to(&mut all);
                assert_eq!(all, values);
                for from in 0..10 {
                    for to in from..=10 {
                        let found = rows.checked(from, to, &mut room).unwrap();
                        assert_eq!(found, &values[6 * from..6 * to], "{offset} {step} {from} {to}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_wrong_row_is_named_as_that_of_a_block() {
        for (column, value) in [(2, 0.5), (3, f32::NAN), (1, 0.0)] {
            let mut values = [0f32, 1.0, 0.0, 0.0].repeat(5);
            values[3 * 4 + column] = value;
            let bytes = bytes_of(&values);
            let rows = LooseRows::new(4, bytes.chunks(12)).unwrap();
            assert_eq!(rows.checked(1, 5, &mut Vec::new()), Err(3));
            assert_eq!(rows.checked(0, 3, &mut Vec::new()).map(<[f32]>::len), Ok(12));
            let (loose, block) = (rows.wrong_row(3).unwrap(), Block::new(4, &values).unwrap_err());
            assert_eq!(loose.to_string(), block.to_string());
            assert_eq!(rows.wrong_row(2), None);
        }
    }

    #[test]
    fn numbers_and_rows_are_whole() {
        let bytes = [0; 24];
        assert_eq!(LooseRows::new(1, [&bytes[..]]).unwrap_err(), Error::Dimension { dim: 1 });
        assert_eq!(LooseRows::new(4, [&bytes[..]]).unwrap_err(), Error::PartialRow { values: 6, dim: 4 });
        assert_eq!(LooseRows::new(3, [&bytes[..10], &bytes[10..]]).unwrap_err(), Error::PartialRow { values: 6, dim: 3 });
        assert!(LooseRows::new(3, [&bytes[..0], &bytes[..0]]).unwrap().is_empty());
    }
}
