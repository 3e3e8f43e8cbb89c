//! [`LooseRows`]: rows as the bytes of a file, checked where they are worked on.

use crate::error::{Error, Result};
use crate::rows::{CHECKED_AT_ONCE, RowBatch, RowBuffer, Scalar, bring_near, with_later, wrong_row};
use rayon::prelude::*;
use vmfkit_kernels::bytes::from_bytes;

/// Bytes that are copied at a time, and then still in the nearest cache for who looks at them.
const NEAR: usize = 4096;

/// Rows of single or double precision, not yet checked, in stretches of memory that need be neither together nor aligned: where a disk put them.
///
/// Rows that are copied, checked and multiplied one after the other come from afar three times. These are copied, if need be, and checked a few
/// at a time by [`EStep::add_loose`](crate::EStep::add_loose), which works on them while they are still in a near cache, and by
/// who draws mini-batches from them.
///
/// ```
/// use vmfkit::{Error, rows::loose::LooseRows};
/// let bytes: Vec<u8> = [0.6f32, 0.8, 3.0, 4.0].into_iter().flat_map(f32::to_ne_bytes).collect();
/// let rows = LooseRows::new::<f32>(2, [&bytes[..8], &bytes[8..]])?;
/// assert_eq!(rows.len(), 2);
/// let mut values: Vec<f32> = Vec::new();
/// rows.copy_to(&mut values);
/// assert_eq!(values, [0.6, 0.8, 3.0, 4.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LooseRows<'a> {
    dim: usize,
    len: usize,
    /// Bytes of a number.
    number: usize,
    stretches: Vec<&'a [u8]>,
    /// The bytes before each stretch.
    starts: Vec<usize>,
}

impl<'a> LooseRows<'a> {
    /// Takes numbers of `T`, f32 or f64, in the byte order of this machine, one behind the other; each stretch has whole numbers, all of them
    /// together whole rows.
    pub fn new<T: Scalar>(dim: usize, stretches: impl IntoIterator<Item = &'a [u8]>) -> Result<Self> {
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
        let number = size_of::<T>();
        let values = bytes / number;
        let whole = stretches.iter().all(|stretch| stretch.len().is_multiple_of(number));
        if !whole || !values.is_multiple_of(dim) {
            return Err(Error::PartialRow { values, dim });
        }
        Ok(LooseRows { dim, len: values / dim, number, stretches, starts })
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

    /// The numbers are of single precision, not of double.
    pub fn is_single(&self) -> bool {
        self.number == size_of::<f32>()
    }

    /// Replaces what is in `values` by all numbers, unchecked, converted if need be, on all threads.
    pub fn copy_to<T: Scalar>(&self, values: &mut Vec<T>) {
        values.resize(self.len * self.dim, T::default());
        let rows = (NEAR / self.dim).max(1);
        values.par_chunks_mut(rows * self.dim).enumerate().for_each(|(part, out)| self.copy_rows(part * rows, out));
    }

    /// Fills `out` with rows, from the row `first` on.
    fn copy_rows<T: Scalar>(&self, first: usize, mut out: &mut [T]) {
        self.visit(first, first + out.len() / self.dim, |bytes| {
            let (now, later) = std::mem::take(&mut out).split_at_mut(bytes.len() / self.number);
            match self.is_single() {
                true => now.iter_mut().zip(numbers::<f32, T>(bytes)).for_each(|(out, number)| *out = number),
                false => now.iter_mut().zip(numbers::<f64, T>(bytes)).for_each(|(out, number)| *out = number),
            }
            out = later;
        });
    }

    /// The rows with these numbers, in this order, which are checked while they are copied; or what is wrong with the first wrong one of all.
    pub(crate) fn gather<'b>(&self, rows: &[usize], buffer: &'b mut RowBuffer) -> Result<RowBatch<'b>> {
        match self.is_single() {
            true => self.gather_in(rows, &mut buffer.single),
            false => self.gather_in(rows, &mut buffer.double),
        }
    }

    fn gather_in<'b, T: Scalar>(&self, rows: &[usize], room: &'b mut Vec<T>) -> Result<RowBatch<'b>> {
        room.resize(rows.len() * self.dim, T::default());
        let gather = |(rows, room): (&[usize], &mut [T])| {
            with_later(rows).zip(room.chunks_exact_mut(self.dim)).all(|((row, later), out)| {
                later.into_iter().for_each(|later| self.visit(later, later + 1, bring_near));
                self.copy_rows(row, out);
                wrong_row(row, out).is_none()
            })
        };
        let at_once = (CHECKED_AT_ONCE / self.dim).max(1);
        let right = match rows.len() <= at_once {
            true => gather((rows, room)),
            false => rows.par_chunks(at_once).zip(room.par_chunks_mut(at_once * self.dim)).all(gather),
        };
        if right { Ok(RowBatch::of_checked(self.dim, room)) } else { Err(self.first_wrong()) }
    }

    /// The same for the rows `from .. to`, which are not copied if that is not needed.
    pub(crate) fn slice<'b>(&'b self, from: usize, to: usize, buffer: &'b mut RowBuffer) -> Result<RowBatch<'b>> {
        let checked = match self.is_single() {
            true => self.checked(from, to, &mut buffer.single).map(|values| RowBatch::of_checked(self.dim, values)),
            false => self.checked(from, to, &mut buffer.double).map(|values| RowBatch::of_checked(self.dim, values)),
        };
        checked.map_err(|_| self.first_wrong())
    }

    /// What is wrong with the first wrong row.
    ///
    /// # Panics
    /// If there is none.
    fn first_wrong(&self) -> Error {
        (0..self.len).find_map(|row| self.wrong_row(row)).expect("a row that was found to be wrong")
    }

    /// What is wrong with a row, if anything is.
    pub(crate) fn wrong_row(&self, row: usize) -> Option<Error> {
        let mut values = Vec::<f64>::new();
        self.visit(row, row + 1, |bytes| self.append(bytes, &mut values));
        wrong_row(row, &values)
    }

    /// Puts numbers that have these bytes behind others.
    #[inline(always)]
    fn append<T: Scalar>(&self, bytes: &[u8], values: &mut Vec<T>) {
        match self.is_single() {
            true => values.extend(numbers::<f32, T>(bytes)),
            false => values.extend(numbers::<f64, T>(bytes)),
        }
    }

    /// The rows `from .. to` in a precision that is not lower than theirs, in `room` unless they are where such numbers may be; or the number of the
    /// first that is wrong.
    #[inline(always)]
    pub(crate) fn checked<'r, T: Scalar>(
        &'r self,
        from: usize,
        to: usize,
        room: &'r mut Vec<T>,
    ) -> std::result::Result<&'r [T], usize> {
        let right_rows = |values: &[T]| values.chunks_exact(self.dim).take_while(|row| wrong_row(0, row).is_none()).count();
        let (values, right) = match self.in_place(from, to) {
            Some(values) => (values, right_rows(values)),
            None => {
                let mut right = 0;
                room.clear();
                self.visit(from, to, |bytes| {
                    for near in bytes.chunks(NEAR) {
                        self.append(near, room);
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
        let byte = row * self.dim * self.number;
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
        let (from, to) = (from * self.dim * self.number, to * self.dim * self.number);
        let first = self.stretch_of(from);
        for (stretch, start) in self.stretches[first..].iter().zip(&self.starts[first..]).take_while(|(_, start)| **start < to) {
            see(&stretch[from.saturating_sub(*start)..(to - start).min(stretch.len())]);
        }
    }

    /// The rows `from .. to`, if they are such numbers, in one stretch, where numbers may be.
    fn in_place<T: Scalar>(&self, from: usize, to: usize) -> Option<&'a [T]> {
        let (mut found, mut count) = (&[][..], 0);
        self.visit(from, to, |bytes| (found, count) = (bytes, count + 1));
        if self.number == size_of::<T>() && count == 1 { from_bytes(found) } else { None }
    }
}

/// The numbers that have these bytes as `F`, as `T`.
#[inline(always)]
fn numbers<F: Scalar, T: Scalar>(bytes: &[u8]) -> impl Iterator<Item = T> {
    bytes.chunks_exact(size_of::<F>()).map(|number| T::from_f64(F::from_bytes(number).to_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of<T: Scalar, const SIZE: usize>(numbers: &[T], bytes: impl Fn(T) -> [u8; SIZE]) -> Vec<u8> {
        numbers.iter().flat_map(|x| bytes(*x)).collect()
    }

    /// Rows with these bytes as numbers of `F`, at any place of memory, in stretches of any length.
    fn check_places<F: Scalar>(bytes: &[u8], values: &[f64]) {
        let number = size_of::<F>();
        let single: Vec<f32> = values.iter().map(|x| *x as f32).collect();
        for offset in 0..number {
            let mut memory = vec![0; offset];
            memory.extend(bytes);
            let memory = &memory[offset..];
            for step in (number..=memory.len()).step_by(number) {
                let rows = LooseRows::new::<F>(6, memory.chunks(step)).unwrap();
                assert_eq!((rows.dim(), rows.len(), rows.is_empty(), rows.is_single()), (6, 10, false, number == 4));
                let (mut all, mut all_single) = (vec![7.0; 99], Vec::<f32>::new());
                rows.copy_to(&mut all);
                rows.copy_to(&mut all_single);
                assert_eq!((&all[..], &all_single), (values, &single));
                for from in 0..10 {
                    for to in from..=10 {
                        let place = format!("{number} {offset} {step} {from} {to}");
                        assert_eq!(rows.checked::<f64>(from, to, &mut Vec::new()).unwrap(), &values[6 * from..6 * to], "{place}");
                        if rows.is_single() {
                            assert_eq!(
                                rows.checked::<f32>(from, to, &mut Vec::new()).unwrap(),
                                &single[6 * from..6 * to],
                                "{place}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn rows_are_the_same_however_they_lie_in_memory() {
        let values: Vec<f64> = (0..60).map(|i| if i % 6 == i / 6 % 6 { 1.0 } else { 0.0 }).collect();
        check_places::<f64>(&bytes_of(&values, f64::to_ne_bytes), &values);
        check_places::<f32>(&bytes_of(&values, |x| (x as f32).to_ne_bytes()), &values);
    }

    #[test]
    fn a_wrong_row_is_named_as_that_of_a_block() {
        fn check<T: Scalar>(rows: &LooseRows, expected: Error) {
            assert_eq!(rows.checked::<T>(1, 5, &mut Vec::new()).err(), Some(3));
            assert_eq!(rows.checked::<T>(0, 3, &mut Vec::new()).map(<[T]>::len), Ok(12));
            assert_eq!(rows.wrong_row(3).unwrap().to_string(), expected.to_string());
            assert_eq!(rows.wrong_row(2), None);
        }
        for (column, value) in [(2, 0.5), (3, f32::NAN), (1, 0.0)] {
            let mut values = [0f32, 1.0, 0.0, 0.0].repeat(5);
            values[3 * 4 + column] = value;
            let bytes = bytes_of(&values, f32::to_ne_bytes);
            let single = LooseRows::new::<f32>(4, bytes.chunks(12)).unwrap();
            check::<f32>(&single, RowBatch::new(4, &values).unwrap_err());
            check::<f64>(&single, RowBatch::new(4, &values).unwrap_err());
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let bytes = bytes_of(&values, f64::to_ne_bytes);
            let double = LooseRows::new::<f64>(4, bytes.chunks(24)).unwrap();
            check::<f64>(&double, RowBatch::new(4, &values).unwrap_err());
        }
    }

    /// Few rows and so many that several threads gather them, in both precisions, across stretches that cut rows.
    #[test]
    fn gathered_loose_rows_are_those_of_a_block() {
        const ROWS: usize = 3 * CHECKED_AT_ONCE / 4;
        fn check<T: Scalar, const SIZE: usize>(bytes: impl Fn(T) -> [u8; SIZE]) {
            let mut values: Vec<T> = (0..ROWS)
                .map(|row| (row as f64).sin_cos())
                .flat_map(|(sin, cos)| [sin, 0.0, cos, 0.0])
                .map(T::from_f64)
                .collect();
            let memory = bytes_of(&values, &bytes);
            let rows = LooseRows::new::<T>(4, memory.chunks(3000 * SIZE + SIZE)).unwrap();
            let block = RowBatch::new(4, &values).unwrap();
            let (mut buffer, mut other) = (RowBuffer::default(), RowBuffer::default());
            let backward: Vec<usize> = (0..ROWS).rev().collect();
            let in_full = |block: RowBatch| (0..block.len()).flat_map(|row| block.row(row)).collect::<Vec<_>>();
            for listed in [&backward[..], &backward[5..70], &[7, 7, 0], &[]] {
                let expected = in_full(block.gather(listed, &mut other));
                assert_eq!(in_full(rows.gather(listed, &mut buffer).unwrap()), expected);
            }
            for (from, to) in [(0, ROWS), (749, 752), (3, 3)] {
                assert_eq!(in_full(rows.slice(from, to, &mut buffer).unwrap()), in_full(block.slice(from, to)));
            }
            // Whichever of them a batch meets, it is the first that is named.
            values[4 * 900] = T::from_f64(2.0);
            values[4 * 40_000 + 2] = T::from_f64(f64::NAN);
            let expected = RowBatch::new(4, &values).unwrap_err();
            let memory = bytes_of(&values, &bytes);
            let rows = LooseRows::new::<T>(4, memory.chunks(3000 * SIZE + SIZE)).unwrap();
            for listed in [&backward[..], &[40_000, 3], &[900]] {
                assert_eq!(rows.gather(listed, &mut buffer).unwrap_err(), expected);
            }
            assert_eq!(rows.slice(39_999, 40_001, &mut buffer).unwrap_err(), expected);
            assert_eq!(rows.gather(&[899, 901], &mut buffer).unwrap().len(), 2);
        }
        check(f32::to_ne_bytes);
        check(f64::to_ne_bytes);
    }

    #[test]
    fn numbers_and_rows_are_whole() {
        let bytes = [0; 24];
        assert_eq!(LooseRows::new::<f32>(1, [&bytes[..]]).unwrap_err(), Error::Dimension { dim: 1 });
        assert_eq!(LooseRows::new::<f32>(4, [&bytes[..]]).unwrap_err(), Error::PartialRow { values: 6, dim: 4 });
        assert_eq!(LooseRows::new::<f64>(2, [&bytes[..]]).unwrap_err(), Error::PartialRow { values: 3, dim: 2 });
        assert_eq!(LooseRows::new::<f64>(3, [&bytes[..12], &bytes[12..]]).unwrap_err(), Error::PartialRow { values: 3, dim: 3 });
        assert!(LooseRows::new::<f32>(3, [&bytes[..0], &bytes[..0]]).unwrap().is_empty());
    }
}
