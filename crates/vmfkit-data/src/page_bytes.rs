//! Where the pages of a Parquet file come from.

use crate::direct::DirectFile;
use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
