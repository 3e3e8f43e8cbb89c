//! Gives the parquet crate access to a byte source, with checks of headers before it reads them.

use crate::bytes::{ByteReader, ByteSource};
use crate::read::thrift;
use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use std::io::{self, Cursor, Read};

/// Maximum size in bytes of a page header. It may contain a string of the column as a statistic.
/// Most headers have less than a hundred bytes.
const LONGEST_HEADER: usize = 1 << 24;

/// Size in bytes of the buffer for a page header.
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
        // Never allocate more than the length of the file, whatever a header claims.
        if length as u64 > ByteSource::len(self).saturating_sub(start) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} in a file of {}", ByteSource::len(self))));
        }
        let bytes = self.read_all_at(start, length)?;
        match bytes.len() {
            found if found == length => Ok(bytes),
            found => Err(ParquetError::EOF(format!("{found} bytes at {start} where {length} are declared"))),
        }
    }
}

/// Bytes for the parquet crate, which trusts fields that it does not know: headers are
/// [checked](thrift) first, and a read at the end is an error.
///
/// The crate takes a read of no bytes for skipped bytes: it skipped an unknown field, a list of
/// 2^31 numbers, for minutes in a file of a few kilobytes.
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

/// A reader that begins with a page header. The crate does not read if it knows the header already.
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

/// The same for the metadata of a file, which are one structure at the end.
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

/// A reader that returns an error at the end.
struct FailAtEnd(ByteReader);

impl Read for FailAtEnd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 if !buffer.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            read => Ok(read),
        }
    }
}
