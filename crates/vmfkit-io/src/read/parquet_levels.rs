//! Checks of repetition and definition levels, which Parquet stores as a hybrid of run lengths and
//! packed bits.
//!
//! Levels are checked run by run, which the decoders of the parquet crate cannot do: they write out
//! every level.

use crate::error::Result;
use crate::guard::damaged;

/// A run of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    /// One number, repeated.
    Repeated { value: u32, count: usize },
    /// Packed numbers from byte `start` on, of `width` bits each.
    Packed { start: usize, count: usize },
}

/// Iterates over runs.
#[derive(Debug, Clone)]
struct Runs {
    position: usize,
    width: u32,
    /// Numbers left. The last packed run is padded to a multiple of 8.
    left: usize,
}

impl Runs {
    /// Runs of `count` numbers of `width` bits, from byte `position` on.
    fn new(position: usize, width: u32, count: usize) -> Self {
        Runs { position, width, left: count }
    }

    /// The next run in `bytes`, which must be the same in every call.
    fn next(&mut self, bytes: &[u8]) -> Result<Option<Run>> {
        if self.left == 0 {
            return Ok(None);
        }
        let header = self.varint(bytes)?;
        let run = if header & 1 == 1 {
            let start = self.position;
            let count = (header >> 1).saturating_mul(8).min(self.left);
            // Only the numbers in use must exist: some writers omit the padding at the end.
            let end = start + (count * self.width as usize).div_ceil(8);
            if end > bytes.len() {
                return Err(damaged("a run that extends past its page"));
            }
            self.position = (start + (header >> 1).saturating_mul(self.width as usize)).min(bytes.len());
            Run::Packed { start, count }
        } else {
            let value_bytes = self.width.div_ceil(8) as usize;
            let Some(value) = bytes.get(self.position..self.position + value_bytes) else {
                return Err(damaged("a run that extends past its page"));
            };
            self.position += value_bytes;
            let value = value.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
            Run::Repeated { value, count: (header >> 1).min(self.left) }
        };
        let (Run::Repeated { count, .. } | Run::Packed { count, .. }) = run;
        if count == 0 {
            return Err(damaged("an empty run of levels"));
        }
        self.left -= count;
        Ok(Some(run))
    }

    fn varint(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let Some(&byte) = bytes.get(self.position) else {
                return Err(damaged("levels that end too early"));
            };
            self.position += 1;
            value |= usize::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(value);
            }
        }
        Err(damaged("a run length of more than 32 bits"))
    }
}

/// Number `index` of a packed run that starts at byte `start`. It has at most 32 bits.
fn packed(bytes: &[u8], start: usize, index: usize, width: u32) -> u32 {
    let bit = index * width as usize;
    let first = start + bit / 8;
    // 32 bits from any bit on span at most 5 bytes.
    let word = match bytes.get(first..first + 8) {
        Some(word) => u64::from_le_bytes(word.try_into().expect("8 bytes")),
        None => bytes[first..].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    (word >> (bit % 8)) as u32 & ((1u64 << width) - 1) as u32
}

/// The first of `count` levels that is not `expected`, with its position.
pub(crate) fn first_other(bytes: &[u8], width: u32, count: usize, expected: u32) -> Result<Option<(usize, u32)>> {
    let mut runs = Runs::new(0, width, count);
    let mut index = 0;
    while let Some(run) = runs.next(bytes)? {
        match run {
            Run::Repeated { value, count } => {
                if value != expected {
                    return Ok(Some((index, value)));
                }
                index += count;
            }
            Run::Packed { start, count } => {
                let level = |i: &usize| packed(bytes, start, *i, width);
                if let Some(i) = (0..count).find(|i| level(i) != expected) {
                    return Ok(Some((index + i, level(&i))));
                }
                index += count;
            }
        }
    }
    Ok(None)
}

/// Calls `more` with each of `count` levels until it returns false. This is slow; it is for
/// building an error.
pub(crate) fn each_level(bytes: &[u8], width: u32, count: usize, mut more: impl FnMut(u32) -> bool) -> Result<()> {
    let mut runs = Runs::new(0, width, count);
    while let Some(run) = runs.next(bytes)? {
        let (Run::Repeated { count, .. } | Run::Packed { count, .. }) = run;
        for index in 0..count {
            let level = match run {
                Run::Repeated { value, .. } => value,
                Run::Packed { start, .. } => packed(bytes, start, index, width),
            };
            if !more(level) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Follows repetition levels across pages: 0 begins a row, 1 continues it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowCounter {
    /// Rows that have begun.
    pub(crate) begun: u64,
    /// Numbers of the current row so far.
    pub(crate) length: usize,
}

/// The result of checking the levels of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Regular {
    /// All rows that ended have the right length.
    Yes,
    /// A row is too short or too long.
    No,
}

impl RowCounter {
    /// Before the first row of a row group.
    pub(crate) fn new(begun: u64) -> Self {
        RowCounter { begun, length: 0 }
    }

    /// Reads `count` levels of one bit. Rows must have `dim` numbers. Stops at the first row that
    /// does not: `length` is then its length so far. The first level of a row group must begin a
    /// row.
    pub(crate) fn follow(&mut self, bytes: &[u8], count: usize, dim: usize) -> Result<Regular> {
        let mut runs = Runs::new(0, 1, count);
        while let Some(run) = runs.next(bytes)? {
            match run {
                Run::Repeated { value: 0, count } => {
                    for _ in 0..count {
                        if self.begin(dim) == Regular::No {
                            return Ok(Regular::No);
                        }
                    }
                }
                Run::Repeated { count, .. } => {
                    if self.length == 0 || self.length + count > dim {
                        self.length += count;
                        return Ok(Regular::No);
                    }
                    self.length += count;
                }
                Run::Packed { start, count } => {
                    let mut index = 0;
                    while index < count {
                        let byte = bytes[start + index / 8];
                        if index % 8 == 0 && byte == 255 && index + 8 <= count && self.length > 0 && self.length + 8 <= dim {
                            self.length += 8;
                            index += 8;
                            continue;
                        }
                        if byte >> (index % 8) & 1 == 0 {
                            if self.begin(dim) == Regular::No {
                                return Ok(Regular::No);
                            }
                        } else {
                            self.length += 1;
                            if self.length == 1 || self.length > dim {
                                return Ok(Regular::No);
                            }
                        }
                        index += 1;
                    }
                }
            }
        }
        Ok(Regular::Yes)
    }

    fn begin(&mut self, dim: usize) -> Regular {
        if self.length != 0 && self.length != dim {
            return Regular::No;
        }
        self.begun += 1;
        self.length = 1;
        Regular::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_numbers_of_any_width_are_found() {
        // 1, 2, 3, 4, 5, 6, 7, 0 in 3 bits each: the example of the format's specification, shifted
        // by one.
        let bytes = [0b1101_0001, 0b0101_1000, 0b0001_1111];
        let numbers: Vec<u32> = (0..8).map(|index| packed(&bytes, 0, index, 3)).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 0]);
        assert_eq!(packed(&0xdead_beef_u32.to_le_bytes(), 0, 0, 32), 0xdead_beef);
        assert_eq!(packed(&[1, 2, 3], 0, 5, 0), 0);
    }

    #[test]
    fn runs_end_with_the_count() {
        // Three fives, then a packed group of which two numbers are used.
        let bytes = [3 << 1, 5, 1 << 1 | 1, 0b0001_1010, 0, 0];
        let mut runs = Runs::new(0, 3, 5);
        assert_eq!(runs.next(&bytes).unwrap(), Some(Run::Repeated { value: 5, count: 3 }));
        assert_eq!(runs.next(&bytes).unwrap(), Some(Run::Packed { start: 3, count: 2 }));
        assert_eq!(runs.next(&bytes).unwrap(), None);
        assert_eq!(first_other(&bytes, 3, 5, 5).unwrap(), Some((3, 2)));
        assert_eq!(first_other(&bytes, 3, 3, 5).unwrap(), None);
    }

    #[test]
    fn truncated_levels_are_refused() {
        for bytes in [&[][..], &[255, 255, 255, 255, 255, 1], &[6], &[3], &[0, 1], &[128]] {
            assert!(first_other(bytes, 1, 3, 1).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn rows_are_followed_across_pages() {
        // Rows of 10 in runs and in bits: 0 1*9 | 0 1*9, cut behind 13 levels.
        let mut counter = RowCounter::new(0);
        let first = [1 << 1, 0, 9 << 1, 1, 1 << 1 | 1, 0b110];
        assert_eq!(counter.follow(&first, 13, 10).unwrap(), Regular::Yes);
        assert_eq!(counter, RowCounter { begun: 2, length: 3 });
        let second = [7 << 1, 1];
        assert_eq!(counter.follow(&second, 7, 10).unwrap(), Regular::Yes);
        assert_eq!(counter, RowCounter { begun: 2, length: 10 });
        // One more number than a row may have.
        assert_eq!(counter.follow(&[1 << 1, 1], 1, 10).unwrap(), Regular::No);
        assert_eq!(counter.length, 11);
        // A row that ends too early.
        let mut counter = RowCounter::new(0);
        assert_eq!(counter.follow(&[1 << 1 | 1, 0b0000_1110], 5, 10).unwrap(), Regular::No);
        assert_eq!(counter, RowCounter { begun: 1, length: 4 });
        // A group that does not begin with a row.
        assert_eq!(RowCounter::new(0).follow(&[4 << 1, 1], 4, 4).unwrap(), Regular::No);
    }
}
