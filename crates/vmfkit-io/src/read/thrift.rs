//! A look at the Thrift structures of a Parquet file before the parquet crate reads them.
//!
//! The crate skips what it does not know item by item. It takes no bytes for an item that is true or false, so that a list of 2^31 of them,
//! which takes seven bytes to announce, is skipped for seconds, and a list of such lists for hours. Here they are counted instead.

use std::io::{self, ErrorKind, Read};

/// Items without bytes of one structure. Parquet has none in its headers, and one a page in the index of pages, which is not read.
const MOST_ITEMS: u64 = 1 << 20;

/// As deep as the crate goes.
const DEEPEST: usize = 64;

/// The types of the compact protocol.
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

/// Refuses the header of a page that has more than `most` bytes, takes much longer to skip than to read, or speaks of a page that unpacks to more
/// than there is memory for. Gives the bytes of it that were read; whether it makes sense is left to the crate.
pub(crate) fn check_page(input: impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut walk = Walk::new(input, most);
    walk.check()?;
    // The crate takes memory for it, and dies if there is none.
    match walk.second.map(usize::try_from) {
        Some(Ok(unpacked)) if Vec::<u8>::new().try_reserve_exact(unpacked).is_err() => {
            Err(refusal(format!("a page that unpacks to {unpacked} bytes")))
        }
        _ => Ok(walk.seen),
    }
}

/// Refuses the metadata of a file that take much longer to skip than to read.
pub(crate) fn check_metadata(bytes: &[u8]) -> io::Result<()> {
    Walk::new(bytes, usize::MAX).check()
}

/// The protocol has the sign in the last bit.
fn signed(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

fn refusal(what: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// Why a structure is not looked at further.
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
    /// The second field, if it is a number: of the header of a page the bytes that it unpacks to.
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
            // The crate will come to it.
            Ok(()) | Err(Stop::Other) => Ok(()),
        }
    }

    fn byte(&mut self) -> Result<u8, Stop> {
        let mut byte = [0];
        self.make_room(1)?;
        self.input.read_exact(&mut byte).map_err(|_| Stop::Other)?;
        self.seen.extend(byte);
        Ok(byte[0])
    }

    fn bytes(&mut self, count: u64) -> Result<(), Stop> {
        self.make_room(count)?;
        let found = self.input.by_ref().take(count).read_to_end(&mut self.seen);
        if found.is_ok_and(|found| found as u64 == count) { Ok(()) } else { Err(Stop::Other) }
    }

    fn make_room(&self, count: u64) -> Result<(), Stop> {
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

    /// Goes over a value of a structure, or of a list.
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
                    // The difference to the field before, or the field itself.
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

    /// Numbers of all sizes, texts, structures, lists and maps, as the compact protocol has them.
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
        // Those that take bytes end with the bytes.
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
        // Within another structure it is another field.
        assert_eq!(second(&[0x1c, 0x25, 2, 0, 0]), None);
    }

    #[test]
    fn nothing_is_followed_without_end() {
        assert_eq!(check(&[0x1c; 100]).unwrap().len(), 64);
        assert_eq!(check(&[0x15].into_iter().chain([0x80; 1000]).collect::<Vec<_>>()).unwrap().len(), 1001);
        let long = [&[0x18, 0x80, 0x80, 0x40][..], &[0; 1 << 20]].concat();
        assert_eq!(check(&long).unwrap_err().to_string(), "a header of more than 1048576 bytes");
    }
}
