//! A byte source as the parquet crate reads it, and checks of headers before it does.

use crate::bytes::{ByteReader, ByteSource};
use crate::read::thrift;
use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use std::io::{self, Cursor, Read};

/// Bytes of the header of a page. It may hold a text of the column, for statistics; most are below a hundred bytes.
const LONGEST_HEADER: usize = 1 << 24;

/// Bytes of a buffer for the header of a page.
const HEADER_BUFFER: usize = 1 << 13;

impl Length for ByteSource {
    fn len(&self) -> u64 {
        ByteSource::len(self)
    }
}

impl ChunkReader for ByteSource {
    type T = ByteReader;

    fn get_read(&self, start: u64) -> Result<ByteReader> {
        Ok(ByteReader::with_capacity(HEADER_BUFFER, self.clone(), start))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        // Not more memory than the file has bytes, whatever a header says.
        if length as u64 > ByteSource::len(self).saturating_sub(start) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} in a file of {}", ByteSource::len(self))));
        }
        let bytes = self.read_all_at(start, length)?;
        match bytes.len() {
            found if found == length => Ok(bytes),
            found => Err(ParquetError::EOF(format!("{found} bytes at {start} where {length} are announced"))),
        }
    }
}

/// Parquet bytes for the parquet crate, which trusts what it does not know: headers are [looked at](thrift) before, and a read at the
/// end is an error.
///
/// The crate takes a read of no bytes for bytes that were skipped: an unknown field, a list of 2^31 numbers, was skipped for minutes in
/// a file of a few kilobytes.
#[derive(Clone)]
pub(crate) struct CheckedPages(pub ByteSource);

impl Length for CheckedPages {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for CheckedPages {
    type T = CheckedRead;

    fn get_read(&self, start: u64) -> Result<CheckedRead> {
        Ok(CheckedRead { header: None, behind: FailAtEnd(self.0.get_read(start)?) })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.0.get_bytes(start, length)
    }
}

/// What the crate reads from begins with the header of a page. Where it knows the header already, it does not read.
pub(crate) struct CheckedRead {
    header: Option<Cursor<Vec<u8>>>,
    behind: FailAtEnd,
}

impl Read for CheckedRead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let header = match &mut self.header {
            Some(header) => header,
            none => none.insert(Cursor::new(thrift::check_page(&mut self.behind, LONGEST_HEADER)?)),
        };
        match header.read(buffer)? {
            0 => self.behind.read(buffer),
            read => Ok(read),
        }
    }
}

/// The same for the metadata of a file, which are one structure at its end.
pub(crate) struct CheckedMetadata<'a>(pub &'a ByteSource);

impl Length for CheckedMetadata<'_> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for CheckedMetadata<'_> {
    type T = ByteReader;

    fn get_read(&self, start: u64) -> Result<ByteReader> {
        self.0.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let bytes = self.0.get_bytes(start, length)?;
        thrift::check_metadata(&bytes)?;
        Ok(bytes)
    }
}

/// Bytes of which a read at the end is an error.
struct FailAtEnd(ByteReader);

impl Read for FailAtEnd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 if !buffer.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            read => Ok(read),
        }
    }
}
