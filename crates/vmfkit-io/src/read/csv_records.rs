//! The records of separated text: none is endless, and none is cut off by the end of the text.
//!
//! One thread finds where records end, which takes little time; their cells are left to the threads that want them.

use crate::bytes::ByteReader;
use crate::excerpt::excerpt;
use crate::read::text::{BYTE_ORDER_MARK, Group, LONGEST_LINE, has_room, too_long};
use crate::{Error, Result};
use memchr::{memchr, memchr_iter, memchr2};
use std::io::{BufRead, ErrorKind};
use std::ops::Range;

const QUOTE: u8 = b'"';

/// Records of any width, one after the other.
pub(crate) struct CsvRecords {
    text: ByteReader,
    delimiter: u8,
    /// The number of the next line, counted from 1.
    line: u64,
    started: bool,
    /// Nothing more is read, whatever a file or a terminal may have later.
    ended: bool,
}

impl CsvRecords {
    pub fn new(text: ByteReader, delimiter: u8) -> Self {
        CsvRecords { text, delimiter, line: 1, started: false, ended: false }
    }

    /// Puts the text of the next record behind `record`, without its line end, and gives the number of its first line; none at the end.
    pub fn next(&mut self, record: &mut Vec<u8>) -> Result<Option<u64>> {
        let (start, mut first, mut quoting) = (record.len(), self.line, Quoting::CellStart);
        loop {
            let line_start = record.len();
            let end = self.append_line(record, start, first).inspect_err(|_| self.ended = true)?;
            if !std::mem::replace(&mut self.started, true) && record[start..].starts_with(BYTE_ORDER_MARK) {
                record.drain(start..start + BYTE_ORDER_MARK.len());
            }
            if record.len() == line_start && quoting != Quoting::Quoted {
                // An empty line is no record, nor is what stands between the two bytes of a line end.
                if end.is_none() {
                    return Ok(None);
                }
                first = self.line;
                continue;
            }
            if quoting == Quoting::Quoted || memchr(QUOTE, &record[line_start..]).is_some() {
                quoting = record[line_start..].iter().fold(quoting, |quoting, byte| quoting.next(*byte, self.delimiter));
            }
            if quoting != Quoting::Quoted {
                return Ok(Some(first));
            }
            let Some(end) = end else {
                let mut room = CellRoom::default();
                let cells = room.take_apart(&record[start..], self.delimiter);
                let quoted = excerpt(cells.get(cells.len() - 1));
                let what = format!("a quote in the row of line {first} must be closed, found behind it: `{quoted}`");
                return Err(Error::format(what));
            };
            record.push(end);
        }
    }

    /// Puts the next records behind those of `group`, until it has `most` or is large enough. Those before an error are there.
    pub fn next_group(&mut self, most: usize, group: &mut Group) -> Result<()> {
        while group.lines.len() < most && has_room(group.lines.len(), group.text.len()) {
            let start = group.text.len();
            let Some(line) = self.next(&mut group.text)? else { break };
            group.lines.push((line, start..group.text.len()));
        }
        Ok(())
    }

    /// Puts the text up to the end of the line, or of all, behind a record, and gives the byte that the line ends with.
    fn append_line(&mut self, record: &mut Vec<u8>, start: usize, first: u64) -> Result<Option<u8>> {
        while !self.ended {
            let bytes = match self.text.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            let end = memchr2(b'\n', b'\r', bytes);
            let length = end.unwrap_or(bytes.len());
            if (record.len() - start + length) as u64 >= LONGEST_LINE {
                return Err(too_long(first));
            }
            record.extend_from_slice(&bytes[..length]);
            let found = end.map(|end| bytes[end]);
            self.ended = bytes.is_empty();
            self.text.consume(length + usize::from(end.is_some()));
            self.line += u64::from(found == Some(b'\n'));
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

/// What a quote would be behind the bytes of a record that were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoting {
    /// The beginning of a quoted cell.
    CellStart,
    /// One byte of the cell as any other.
    Cell,
    /// The end of what is quoted, or the first half of a quote within it.
    Quoted,
    /// The second half.
    QuoteEnd,
}

impl Quoting {
    fn next(self, byte: u8, delimiter: u8) -> Self {
        match self {
            Quoting::Quoted if byte == QUOTE => Quoting::QuoteEnd,
            Quoting::Quoted => Quoting::Quoted,
            Quoting::CellStart | Quoting::QuoteEnd if byte == QUOTE => Quoting::Quoted,
            _ if byte == delimiter => Quoting::CellStart,
            _ => Quoting::Cell,
        }
    }
}

/// The cells of a record.
pub(crate) struct Cells<'a> {
    /// All of them, and a byte between each two.
    pub text: &'a [u8],
    ends: &'a [usize],
}

impl<'a> Cells<'a> {
    /// There is one at least, which may be empty.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Where a cell is in the text.
    pub fn range(&self, cell: usize) -> Range<usize> {
        let start = if cell == 0 { 0 } else { self.ends[cell - 1] + 1 };
        start..self.ends[cell]
    }

    pub fn get(&self, cell: usize) -> &'a [u8] {
        &self.text[self.range(cell)]
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> {
        (0..self.len()).map(|cell| self.get(cell))
    }
}

/// Memory for the cells of one record after the other.
#[derive(Debug, Default)]
pub(crate) struct CellRoom {
    unquoted: Vec<u8>,
    ends: Vec<usize>,
}

impl CellRoom {
    /// The cells of the text of a record.
    pub fn take_apart<'a>(&'a mut self, text: &'a [u8], delimiter: u8) -> Cells<'a> {
        self.ends.clear();
        if memchr(QUOTE, text).is_none() {
            self.ends.extend(memchr_iter(delimiter, text));
            self.ends.push(text.len());
            return Cells { text, ends: &self.ends };
        }
        self.unquoted.clear();
        let mut quoting = Quoting::CellStart;
        for &byte in text {
            let next = quoting.next(byte, delimiter);
            match (quoting, next) {
                (Quoting::CellStart, Quoting::Quoted) | (Quoting::Quoted, Quoting::QuoteEnd) => {}
                (_, Quoting::CellStart) => {
                    self.ends.push(self.unquoted.len());
                    self.unquoted.push(byte);
                }
                _ => self.unquoted.push(byte),
            }
            quoting = next;
        }
        self.ends.push(self.unquoted.len());
        Cells { text: &self.unquoted, ends: &self.ends }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{BufReader, Cursor};

    type Record = Vec<Vec<u8>>;

    /// All records of a text that is read so many bytes at a time, and the error at the end of them.
    fn records(text: &[u8], buffer: usize) -> (Vec<Record>, Option<Error>) {
        let text = BufReader::with_capacity(buffer, Cursor::new(text.to_vec()));
        let (mut records, mut group) = (CsvRecords::new(ByteReader::pipe(text), b','), Group::default());
        let (mut all, mut room) = (Vec::new(), CellRoom::default());
        loop {
            group.clear();
            let gathered = records.next_group(3, &mut group);
            for (_, record) in &group.lines {
                let cells = room.take_apart(&group.text[record.clone()], b',');
                all.push(cells.iter().map(<[u8]>::to_vec).collect());
            }
            if gathered.is_err() || group.lines.is_empty() {
                assert!(matches!(records.next(&mut Vec::new()), Ok(None)), "the end is the end");
                return (all, gathered.err());
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        /// By the crate that is made for it, of the whole text, and with a line end behind that, which only a record in open quotes has in its last cell.
        #[test]
        fn records_are_those_of_the_format(parts in prop::collection::vec(0usize..10, 0..30), buffer in 1usize..9) {
            const PARTS: [&[u8]; 10] = [b"a", b"b", b",", b"\"", b"\"", b"\n", b"\r", b" ", BYTE_ORDER_MARK, b"\xff"];
            let text: Vec<u8> = parts.iter().flat_map(|part| PARTS[*part].iter().copied()).collect();
            let whole = [&text[..], b"\n"].concat();
            let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(&whole[..]);
            let cells_of = |record: csv::Result<csv::ByteRecord>| record.unwrap().iter().map(<[u8]>::to_vec).collect();
            let mut expected: Vec<Record> = reader.byte_records().map(cells_of).collect();
            let (found, error) = records(&text, buffer);
            if let Some(error) = error {
                prop_assert!(error.to_string().contains("must be closed"), "{}", error);
                prop_assert!(expected.pop().unwrap().pop().unwrap().ends_with(b"\n"));
            }
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn lines_are_counted_from_one() {
        let text = "\u{feff}a,b\r\n\r\n\n\"1\n2\",3\n4,5\r6,7";
        let mut records = CsvRecords::new(ByteReader::pipe(Cursor::new(text)), b',');
        let mut group = Group::default();
        records.next_group(9, &mut group).unwrap();
        let found: Vec<_> =
            group.lines.iter().map(|(line, record)| (*line, std::str::from_utf8(&group.text[record.clone()]).unwrap())).collect();
        assert_eq!(found, [(1, "a,b"), (4, "\"1\n2\",3"), (6, "4,5"), (6, "6,7")]);
    }
}
