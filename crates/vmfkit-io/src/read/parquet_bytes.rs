//! Where the pages of a Parquet file come from.

use crate::bytes::direct::DirectFile;
use crate::read::thrift;
use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of the header of a page. It may hold a text of the column, for statistics; most are below a hundred bytes.
const LONGEST_HEADER: usize = 1 << 24;

/// Pages one after the other.
pub(crate) enum PageBytes<R> {
    Any(R),
    /// Past the system's cache, and where the disk put them.
    PastCache(Direct),
}

impl<R> PageBytes<R> {
    /// Has these stretches of the file, which has this path, read past the system's cache from now on, if the system can do that.
    pub fn bypass_cache(
        &mut self,
        path: &Path,
        memory: usize,
        stretches: impl IntoIterator<Item = Range<u64>>,
    ) -> io::Result<()> {
        let length = path.metadata()?.len();
        if let Some(file) = DirectFile::open_stretches(path, memory, stretches) {
            *self = PageBytes::PastCache(Direct { file: Arc::new(Mutex::new(file)), length });
        }
        Ok(())
    }
}

impl<R: Clone> Clone for PageBytes<R> {
    fn clone(&self) -> Self {
        match self {
            PageBytes::Any(chunks) => PageBytes::Any(chunks.clone()),
            PageBytes::PastCache(direct) => PageBytes::PastCache(direct.clone()),
        }
    }
}

impl<R: ChunkReader> Length for PageBytes<R> {
    fn len(&self) -> u64 {
        match self {
            PageBytes::Any(chunks) => chunks.len(),
            PageBytes::PastCache(direct) => direct.length,
        }
    }
}

impl<R: ChunkReader> ChunkReader for PageBytes<R> {
    type T = PageRead<R::T>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(match self {
            PageBytes::Any(chunks) => PageRead::Any(chunks.get_read(start)?),
            PageBytes::PastCache(direct) => PageRead::PastCache { direct: direct.clone(), position: start },
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        match self {
            PageBytes::Any(chunks) => chunks.get_bytes(start, length),
            PageBytes::PastCache(direct) => {
                let bytes = direct.lock().bytes_at(start, length)?;
                match bytes.len() {
                    found if found == length => Ok(bytes),
                    found => Err(ParquetError::EOF(format!("{found} bytes at {start} where {length} are announced"))),
                }
            }
        }
    }
}

/// A file that the readers of all row groups share, of which one reads at a time.
#[derive(Clone)]
pub(crate) struct Direct {
    file: Arc<Mutex<DirectFile>>,
    length: u64,
}

impl Direct {
    fn lock(&self) -> MutexGuard<'_, DirectFile> {
        // A panic over a page leaves the file as it was.
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parquet bytes for the parquet crate, which trusts what it does not know: headers are [looked at](thrift) before, and a read at the
/// end is an error.
///
/// The crate takes a read of no bytes for bytes that were skipped: an unknown field, a list of 2^31 numbers, was skipped for minutes in
/// a file of a few kilobytes.
#[derive(Clone)]
pub(crate) struct Checked<R>(pub R);

impl<R: Length> Length for Checked<R> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl<R: ChunkReader> ChunkReader for Checked<R> {
    type T = CheckedRead<R::T>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(CheckedRead { header: None, behind: FailAtEnd(self.0.get_read(start)?) })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.0.get_bytes(start, length)
    }
}

/// What the crate reads from begins with the header of a page. Where it knows the header already, it does not read.
pub(crate) struct CheckedRead<T> {
    header: Option<Cursor<Vec<u8>>>,
    behind: FailAtEnd<T>,
}

impl<T: Read> Read for CheckedRead<T> {
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
pub(crate) struct CheckedMetadata<'a, R>(pub &'a R);

impl<R: Length> Length for CheckedMetadata<'_, R> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl<R: ChunkReader> ChunkReader for CheckedMetadata<'_, R> {
    type T = R::T;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        self.0.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let bytes = self.0.get_bytes(start, length)?;
        thrift::check_metadata(&bytes)?;
        Ok(bytes)
    }
}

/// Bytes of which a read at the end is an error.
pub(crate) struct FailAtEnd<R>(R);

impl<R: Read> Read for FailAtEnd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 if !buffer.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            read => Ok(read),
        }
    }
}

/// The header of a page, and what follows it.
pub(crate) enum PageRead<T> {
    Any(T),
    PastCache { direct: Direct, position: u64 },
}

impl<T: Read> Read for PageRead<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            PageRead::Any(read) => read.read(buffer),
            PageRead::PastCache { direct, position } => {
                let mut file = direct.lock();
                file.seek(SeekFrom::Start(*position))?;
                let count = file.read(buffer)?;
                *position += count as u64;
                Ok(count)
            }
        }
    }
}
