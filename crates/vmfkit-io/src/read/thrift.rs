//! Checks the Thrift structures of a Parquet file before the parquet crate reads them.
//!
//! The crate skips unknown fields item by item. Booleans in a list take no bytes there, so a list
//! that announces 2^31 of them in seven bytes is skipped for seconds, and a list of such lists for
//! hours. Here they are counted instead.

use std::io::{self, ErrorKind, Read};

/// Maximum number of items without bytes in a structure. Parquet has none in its headers, and one
/// per page in the page index, which is not read.
const MOST_ITEMS: u64 = 1 << 20;

/// Maximum depth, as in the crate.
const DEEPEST: usize = 64;

/// Types of the compact protocol.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// Rejects a page header that has more than `most` bytes, takes much longer to skip than to read,
/// or announces a page whose decompressed size does not fit into memory. Returns the bytes of the
/// header that were read. All other checks are left to the crate.
pub(crate) fn check_page(input: impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut walk = Walk::new(input, most);
    walk.check()?;
    // The crate allocates it and aborts if that fails.
    match walk.second.map(usize::try_from) {
        Some(Ok(unpacked)) if Vec::<u8>::new().try_reserve_exact(unpacked).is_err() => {
            Err(refusal(format!("a page that unpacks to {unpacked} bytes")))
        }
        _ => Ok(walk.seen),
    }
}

/// Rejects file metadata that take much longer to skip than to read.
pub(crate) fn check_metadata(bytes: &[u8]) -> io::Result<()> {
    Walk::new(bytes, usize::MAX).check()
}

/// The protocol stores the sign in the last bit.
fn signed(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

fn refusal(what: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// Why the check of a structure stopped.
enum Stop {
    TooLong,
    TooMany,
    Other,
}

struct Walk<R> {
    input: R,
    most: usize,
    seen: Vec<u8>,
    items: u64,
    /// The second field, if it is a number. In a page header it is the decompressed size.
    second: Option<i32>,
}

impl<R: Read> Walk<R> {
    fn new(input: R, most: usize) -> Self {
        Walk { input, most, seen: Vec::new(), items: 0, second: None }
    }

    fn check(&mut self) -> io::Result<()> {
        match self.value(STRUCT, DEEPEST) {
            Err(Stop::TooLong) => Err(refusal(format!("a header of more than {} bytes", self.most))),
            Err(Stop::TooMany) => Err(refusal(format!("a list of {} items that take no bytes", self.items))),
            // The crate will report it.
            Ok(()) | Err(Stop::Other) => Ok(()),
        }
    }

    fn byte(&mut self) -> Result<u8, Stop> {
        let mut byte = [0];
        self.check_length(1)?;
        self.input.read_exact(&mut byte).map_err(|_| Stop::Other)?;
        self.seen.extend(byte);
        Ok(byte[0])
    }

    fn bytes(&mut self, count: u64) -> Result<(), Stop> {
        self.check_length(count)?;
        let found = self.input.by_ref().take(count).read_to_end(&mut self.seen);
        if found.is_ok_and(|found| found as u64 == count) { Ok(()) } else { Err(Stop::Other) }
    }

    fn check_length(&self, count: u64) -> Result<(), Stop> {
        if count > (self.most - self.seen.len()) as u64 { Err(Stop::TooLong) } else { Ok(()) }
    }

    fn number(&mut self) -> Result<u64, Stop> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).wrapping_shl(shift);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    /// Reads a value of a structure or list.
    fn value(&mut self, kind: u8, depth: usize) -> Result<(), Stop> {
        if depth == 0 {
            return Err(Stop::Other);
        }
        match kind {
            TRUE | FALSE => Ok(()),
            BYTE => self.bytes(1),
            I16..=I64 => self.number().map(drop),
            DOUBLE => self.bytes(8),
            UUID => self.bytes(16),
            BINARY => {
                let length = self.number()?;
                self.bytes(length)
            }
            STRUCT => {
                let mut id = 0;
                loop {
                    let field = self.byte()?;
                    if field & 0xf == 0 {
                        return Ok(());
                    }
                    // The difference from the previous field id, or the field id itself.
                    id = if field >> 4 == 0 { signed(self.number()?) } else { id.wrapping_add(i64::from(field >> 4)) };
                    if (depth, id, field & 0xf) == (DEEPEST, 2, I32) {
                        self.second = Some(signed(self.number()?) as i32);
                    } else {
                        self.value(field & 0xf, depth - 1)?;
                    }
                }
            }
            LIST | SET => {
                let head = self.byte()?;
                let count = if head >> 4 == 15 { self.number()? } else { u64::from(head >> 4) };
                self.items(count, &[head & 0xf], depth)
            }
            MAP => match self.number()? {
                0 => Ok(()),
                count => {
                    let kinds = self.byte()?;
                    self.items(count, &[kinds >> 4, kinds & 0xf], depth)
                }
            },
            _ => Err(Stop::Other),
        }
    }

    fn items(&mut self, count: u64, kinds: &[u8], depth: usize) -> Result<(), Stop> {
        if kinds.iter().all(|kind| matches!(*kind, TRUE | FALSE)) {
            self.items = self.items.saturating_add(count);
            return if self.items > MOST_ITEMS { Err(Stop::TooMany) } else { Ok(()) };
        }
        for _ in 0..count {
            kinds.iter().try_for_each(|kind| self.value(*kind, depth - 1))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    fn check(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        super::check_page(bytes, 1 << 20)
    }

    /// Numbers of all sizes, strings, structures, lists and maps in the compact protocol.
    const HEADER: &[u8] = &[
        0x15, 0x06, // field 1, i32
        0x11, // field 2, true
        0x18, 0x03, b'a', b'b', b'c', // field 3, a text
        0x1c, 0x13, 0x07, 0x00, // field 4, a structure of one byte
        0x19, 0x25, 0x02, 0x80, 0x01, // field 5, two i32
        0x19, 0x01, // field 6, no truths
        0x1b, 0x01, 0x58, 0x0a, 0x01, b'x', // field 7, a map from i32 to text
        0x0a, 0x20, 0x12, // field 16, a set of one truth, which takes no bytes
        0x17, 0, 0, 0, 0, 0, 0, 0, 0, // field 17, f64
        0x00,
    ];

    #[test]
    fn a_structure_is_followed_to_its_end() {
        let behind = [HEADER, b"numbers"].concat();
        assert_eq!(check(&behind).unwrap(), HEADER);
        for length in 0..HEADER.len() {
            assert_eq!(check(&HEADER[..length]).unwrap(), &HEADER[..length]);
        }
    }

    #[test]
    fn items_without_bytes_are_counted() {
        let list = |kind: u8, count: &[u8]| check(&[&[0x19, 0xf0 | kind], count, &[0]].concat());
        // 2^20, and one more.
        assert!(list(1, &[0x80, 0x80, 0x40]).is_ok());
        assert!(list(1, &[0x81, 0x80, 0x40]).is_err());
        assert!(list(2, &[0xff, 0xff, 0xff, 0xff, 0x07]).is_err());
        // Items that take bytes end with the bytes.
        assert!(list(3, &[0xff, 0xff, 0xff, 0xff, 0x07]).is_ok());
        // A list of lists, and a map.
        assert!(check(&[0x19, 0x29, 0xf1, 0x80, 0x80, 0x40, 0xf1, 0x80, 0x80, 0x40, 0]).is_err());
        assert!(check(&[0x1b, 0xff, 0xff, 0xff, 0xff, 0x07, 0x11, 0]).is_err());
    }

    #[test]
    fn the_second_field_is_found() {
        let second = |header: &[u8]| {
            let mut walk = super::Walk::new(header, 1 << 20);
            walk.check().unwrap();
            walk.second
        };
        let largest = [0xfe, 0xff, 0xff, 0xff, 0x0f];
        assert_eq!(second(&[&[0x15, 0, 0x15], &largest[..], &[0x15, 2, 0]].concat()), Some(i32::MAX));
        assert_eq!(second(&[&[0x05, 4], &largest[..], &[0]].concat()), Some(i32::MAX));
        assert_eq!(second(HEADER), None);
        // In a nested structure it is another field.
        assert_eq!(second(&[0x1c, 0x25, 2, 0, 0]), None);
    }

    #[test]
    fn deep_and_long_structures_end() {
        assert_eq!(check(&[0x1c; 100]).unwrap().len(), 64);
        assert_eq!(check(&[0x15].into_iter().chain([0x80; 1000]).collect::<Vec<_>>()).unwrap().len(), 1001);
        let long = [&[0x18, 0x80, 0x80, 0x40][..], &[0; 1 << 20]].concat();
        assert_eq!(check(&long).unwrap_err().to_string(), "a header of more than 1048576 bytes");
    }
}
