//! Splits separated text into records. Rejects a record that is too long or that the end of the
//! text cuts off.
//!
//! One thread finds the ends of records, which takes little time. Other threads split the records
//! into cells and parse them.

use crate::bytes::ByteReader;
use crate::excerpt::excerpt;
use crate::read::text::{BYTE_ORDER_MARK, Group, LONGEST_LINE, too_long};
use crate::{Error, Result};
use memchr::{memchr, memchr_iter, memchr2};
use std::io::{BufRead, ErrorKind};
use std::ops::Range;

const QUOTE: u8 = b'"';

/// Records of any width.
pub(crate) struct CsvRecords {
    text: ByteReader,
    delimiter: u8,
    /// The number of the next line, from 1.
    line: u64,
    started: bool,
    /// The end has been reached. Nothing more is read, even if a file or a terminal has more later.
    ended: bool,
}

impl CsvRecords {
    pub fn new(text: ByteReader, delimiter: u8) -> Self {
        CsvRecords { text, delimiter, line: 1, started: false, ended: false }
    }

    /// Appends the next record to `record`, without its line end, and returns the number of its
    /// first line; `None` at the end.
    pub fn next(&mut self, record: &mut Vec<u8>) -> Result<Option<u64>> {
        let (start, mut first, mut quoting) = (record.len(), self.line, Quoting::CellStart);
        loop {
            let line_start = record.len();
            let end = self.append_line(record, start, first).inspect_err(|_| self.ended = true)?;
            if !std::mem::replace(&mut self.started, true) && record[start..].starts_with(BYTE_ORDER_MARK) {
                record.drain(start..start + BYTE_ORDER_MARK.len());
            }
            if record.len() == line_start && quoting != Quoting::Quoted {
                // An empty line is not a record, nor is the empty text between the two bytes of a
                // line end.
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
                let mut buffer = CellBuffer::default();
                let cells = buffer.split(&record[start..], self.delimiter);
                let quoted = excerpt(cells.get(cells.len() - 1));
                let what = format!("a quote in the row of line {first} must be closed, found after it: `{quoted}`");
                return Err(Error::format(what));
            };
            record.push(end);
        }
    }

    /// Appends records to `group` until it has `most` or is large enough. After an error it has the
    /// records before it.
    pub fn next_group(&mut self, most: usize, group: &mut Group) -> Result<()> {
        while group.lines.len() < most && group.has_capacity() {
            let start = group.text.len();
            let Some(line) = self.next(&mut group.text)? else { break };
            group.lines.push((line, start..group.text.len()));
        }
        Ok(())
    }

    /// Appends the rest of the line to a record and returns the byte that ends it; `None` at the
    /// end of the text.
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

/// The meaning of a quote at the current position in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoting {
    /// It begins a quoted cell.
    CellStart,
    /// It is an ordinary byte of the cell.
    Cell,
    /// It ends the quoted text, or is the first half of an escaped quote.
    Quoted,
    /// It is the second half of an escaped quote.
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
    /// All cells, with one byte between them.
    pub text: &'a [u8],
    ends: &'a [usize],
}

impl<'a> Cells<'a> {
    /// Number of cells, at least one. A cell may be empty.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The position of a cell in the text.
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

/// Reusable memory for the cells of a record.
#[derive(Debug, Default)]
pub(crate) struct CellBuffer {
    unquoted: Vec<u8>,
    ends: Vec<usize>,
}

impl CellBuffer {
    /// Splits a record into cells.
    pub fn split<'a>(&'a mut self, text: &'a [u8], delimiter: u8) -> Cells<'a> {
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

    /// All records of a text that is read in pieces of `buffer` bytes, and the error after them.
    fn records(text: &[u8], buffer: usize) -> (Vec<Record>, Option<Error>) {
        let text = BufReader::with_capacity(buffer, Cursor::new(text.to_vec()));
        let (mut records, mut group) = (CsvRecords::new(ByteReader::pipe(text), b','), Group::default());
        let (mut all, mut buffer) = (Vec::new(), CellBuffer::default());
        loop {
            group.clear();
            let gathered = records.next_group(3, &mut group);
            for (_, record) in &group.lines {
                let cells = buffer.split(&group.text[record.clone()], b',');
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

        /// Compares with the crate `csv`. It gets an extra line end, which only a record with an
        /// open quote has in its last cell.
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
