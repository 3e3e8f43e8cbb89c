//! Sources of bytes: [`ByteSource`] reads at any position, [`ByteReader`] sequentially.
//!
//! A file that is larger than memory is read with O_DIRECT ([`direct`]). Its bytes are lent from
//! the buffers that the disk wrote to.

pub(crate) mod direct;
mod file;
#[cfg(feature = "object-store")]
pub(crate) mod object_store;

use crate::{Error, Result};
use bytes::{Buf, Bytes};
use direct::DirectFile;
pub(crate) use file::LocalFile;
#[cfg(feature = "object-store")]
use object_store::{OpenRemote, RemoteFile};
use std::fs;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// Bytes read at a time. They stay in the L2 cache while they are processed. For files larger than
/// memory this is faster than mapping.
const CHUNK: usize = 1 << 17;

/// Bytes that can be read at any position. Clones share the open file.
#[derive(Clone)]
pub(crate) enum ByteSource {
    File(Arc<LocalFile>),
    /// A file read sequentially with O_DIRECT, ahead of what is asked for.
    Direct(Arc<Mutex<DirectFile>>),
    #[cfg(feature = "object-store")]
    Object(OpenRemote),
    #[cfg(test)]
    Memory(Bytes),
}

impl ByteSource {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(ByteSource::File(Arc::new(LocalFile::open(path)?)))
    }

    /// The length at the time of opening.
    pub fn len(&self) -> u64 {
        match self {
            ByteSource::File(file) => file.len(),
            ByteSource::Direct(file) => lock(file).len(),
            #[cfg(feature = "object-store")]
            ByteSource::Object(object) => object.len(),
            #[cfg(test)]
            ByteSource::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// The current length; a file may have been truncated since it was opened.
    fn len_now(&self) -> io::Result<u64> {
        match self {
            ByteSource::File(file) => file.len_now(),
            ByteSource::Direct(file) => lock(file).len_now(),
            #[cfg(any(test, feature = "object-store"))]
            _ => Ok(self.len()),
        }
    }

    /// Reads bytes from `start`: at most `most`, fewer if they are not contiguous in memory, and
    /// none only at the end.
    pub fn read_at(&self, start: u64, most: usize) -> io::Result<Bytes> {
        match self {
            ByteSource::File(file) => {
                let count = file.len().saturating_sub(start).min(most as u64) as usize;
                let mut buffer = Vec::with_capacity(count);
                file.fill(start, &mut buffer)?;
                buffer.truncate(count);
                Ok(buffer.into())
            }
            ByteSource::Direct(file) => lock(file).read_at(start, most),
            #[cfg(feature = "object-store")]
            ByteSource::Object(object) => object.read_at(start, most),
            #[cfg(test)]
            ByteSource::Memory(bytes) => {
                let start = bytes.len().min(usize::try_from(start).unwrap_or(usize::MAX));
                Ok(bytes.slice(start..bytes.len().min(start.saturating_add(most))))
            }
        }
    }

    /// Reads `count` bytes from `start`, fewer only at the end. They are copied only if they are
    /// not contiguous in memory.
    pub fn read_all_at(&self, start: u64, count: usize) -> io::Result<Bytes> {
        let first = self.read_at(start, count)?;
        if first.len() == count || first.is_empty() {
            return Ok(first);
        }
        let mut bytes = Vec::with_capacity(count.min(self.len().saturating_sub(start) as usize));
        bytes.extend_from_slice(&first);
        // The next read may need this buffer.
        drop(first);
        while bytes.len() < count {
            let next = self.read_at(start + bytes.len() as u64, count - bytes.len())?;
            if next.is_empty() {
                break;
            }
            bytes.extend_from_slice(&next);
        }
        Ok(bytes.into())
    }

    /// Reopens a file with O_DIRECT and about `memory` bytes of buffers. Only the given ranges are
    /// read, in any order; a read elsewhere finds the end of the file. `None` if this is not a
    /// local file, or if the system or the file system has no direct reads.
    pub fn direct(&self, memory: usize, ranges: impl IntoIterator<Item = Range<u64>>) -> Option<Self> {
        let ByteSource::File(file) = self else { return None };
        let direct = DirectFile::open(file.path(), memory, ranges)?;
        Some(ByteSource::Direct(Arc::new(Mutex::new(direct))))
    }

    /// Whether bytes are lent from the buffers that the disk wrote to.
    pub fn is_direct(&self) -> bool {
        matches!(self, ByteSource::Direct(_))
    }

    /// Whether reading takes no network requests.
    pub fn is_local(&self) -> bool {
        #[cfg(feature = "object-store")]
        return !matches!(self, ByteSource::Object(_));
        #[cfg(not(feature = "object-store"))]
        true
    }
}

fn lock(file: &Mutex<DirectFile>) -> std::sync::MutexGuard<'_, DirectFile> {
    // A decoder that panicked has not changed the file.
    file.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a source or a pipe sequentially.
pub(crate) struct ByteReader {
    input: Input,
    /// Position of the next byte.
    position: u64,
    /// The bytes that were read: either lent by the source, or in the reader's own buffer, of which
    /// `taken` are consumed.
    lent: Bytes,
    buffer: Vec<u8>,
    taken: usize,
}

enum Input {
    Source(ByteSource),
    Pipe(Box<dyn BufRead + Send>),
}

impl ByteReader {
    pub fn new(source: ByteSource, position: u64) -> Self {
        ByteReader::with_capacity(CHUNK, source, position)
    }

    /// The size of the buffer, if one is needed, is `capacity`.
    pub fn with_capacity(capacity: usize, source: ByteSource, position: u64) -> Self {
        let buffer = if matches!(source, ByteSource::File(_)) { Vec::with_capacity(capacity) } else { Vec::new() };
        ByteReader { input: Input::Source(source), position, lent: Bytes::new(), buffer, taken: 0 }
    }

    /// Reads a pipe, which can be read once.
    pub fn pipe(input: impl BufRead + Send + 'static) -> Self {
        let input = Input::Pipe(Box::new(input));
        ByteReader { input, position: 0, lent: Bytes::new(), buffer: Vec::new(), taken: 0 }
    }

    /// The source; `None` for a pipe.
    pub fn source(&self) -> Option<&ByteSource> {
        match &self.input {
            Input::Source(source) => Some(source),
            Input::Pipe(_) => None,
        }
    }

    /// The current length of the source; `None` for a pipe.
    pub fn len_now(&self) -> io::Result<Option<u64>> {
        self.source().map(ByteSource::len_now).transpose()
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    /// Moves to a position of the source. A pipe returns an error.
    pub fn seek_to(&mut self, position: u64) -> Result<()> {
        if self.source().is_none() {
            return Err(vmfkit::Error::CannotRewind.into());
        }
        let ahead = position.checked_sub(self.position).and_then(|ahead| usize::try_from(ahead).ok());
        match ahead.filter(|ahead| *ahead <= self.at_hand().len()) {
            Some(ahead) => self.consume(ahead),
            None => {
                self.lent = Bytes::new();
                self.taken = self.buffer.len();
                self.position = position;
            }
        }
        Ok(())
    }

    /// Continues with another source at the same position.
    pub fn replace_source(&mut self, source: ByteSource) {
        *self = ByteReader::new(source, self.position);
    }

    /// The next bytes without a copy, at most `most` and none only at the end. For a source that
    /// [lends](ByteSource::is_direct) its bytes.
    pub fn lend(&mut self, most: usize) -> io::Result<Bytes> {
        self.lent = Bytes::new();
        let Input::Source(source) = &self.input else { return Err(io::ErrorKind::Unsupported.into()) };
        let bytes = source.read_at(self.position, most)?;
        self.position += bytes.len() as u64;
        Ok(bytes)
    }

    fn at_hand(&self) -> &[u8] {
        if self.lent.is_empty() { &self.buffer[self.taken..] } else { &self.lent }
    }
}

impl Read for ByteReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // A large read bypasses the buffer.
        if let Input::Source(ByteSource::File(file)) = &self.input
            && self.taken == self.buffer.len()
            && buffer.len() >= self.buffer.capacity()
        {
            let count = file.read(self.position, buffer)?;
            self.position += count as u64;
            return Ok(count);
        }
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for ByteReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if matches!(self.input, Input::Source(_)) && self.at_hand().is_empty() {
            // Return the lent bytes before waiting for more.
            self.lent = Bytes::new();
            self.taken = 0;
            match &self.input {
                Input::Source(ByteSource::File(file)) => file.fill(self.position, &mut self.buffer)?,
                Input::Source(source) => self.lent = source.read_at(self.position, usize::MAX)?,
                Input::Pipe(_) => unreachable!("it has a buffer of its own"),
            }
        }
        match &mut self.input {
            Input::Pipe(pipe) => pipe.fill_buf(),
            Input::Source(_) if self.lent.is_empty() => Ok(&self.buffer[self.taken..]),
            Input::Source(_) => Ok(&self.lent),
        }
    }

    fn consume(&mut self, count: usize) {
        self.position += count as u64;
        match &mut self.input {
            Input::Pipe(pipe) => pipe.consume(count),
            _ if self.lent.is_empty() => self.taken += count,
            _ => self.lent.advance(count),
        }
    }
}

impl Seek for ByteReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
            SeekFrom::End(offset) => self.source().and_then(|source| source.len().checked_add_signed(offset)),
        };
        self.seek_to(position.ok_or(io::ErrorKind::InvalidInput)?).map_err(io::Error::other)?;
        Ok(self.position)
    }
}

/// The path of a file or the name of an object, by which it can be reopened.
#[derive(Clone)]
pub(crate) enum Location {
    Local(PathBuf),
    #[cfg(feature = "object-store")]
    Remote(RemoteFile),
}

impl Location {
    /// The name that messages use.
    pub fn name(&self) -> String {
        self.path().display().to_string()
    }

    /// The path, or the location of an object as a path.
    pub fn path(&self) -> &Path {
        match self {
            Location::Local(path) => path,
            #[cfg(feature = "object-store")]
            Location::Remote(file) => Path::new(file.name()),
        }
    }

    pub fn is_local(&self) -> bool {
        matches!(self, Location::Local(_))
    }

    pub fn open(&self) -> Result<ByteSource> {
        match self {
            Location::Local(path) => Ok(ByteSource::open(path)?),
            #[cfg(feature = "object-store")]
            Location::Remote(file) => Ok(ByteSource::Object(file.open())),
        }
    }

    /// The current version of the file. For an object this takes a request.
    pub fn stamp(&self) -> Result<Stamp> {
        match self {
            Location::Local(path) => {
                let metadata = fs::metadata(path)?;
                Ok(Stamp { length: metadata.len(), modified: metadata.modified().ok(), tag: None })
            }
            #[cfg(feature = "object-store")]
            Location::Remote(file) => {
                let (length, tag) = file.ask()?;
                Ok(Stamp { length, modified: None, tag })
            }
        }
    }
}

/// Identifies a version of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub length: u64,
    modified: Option<SystemTime>,
    /// The version of an object, as the store calls it.
    tag: Option<String>,
}

impl Stamp {
    /// Rejects a file that has changed.
    pub fn check(&self, now: &Stamp) -> Result<()> {
        if now.length != self.length {
            let what = format!("its length was {}, found: `{}`", self.length, now.length);
            return Err(Error::Changed { what });
        }
        if now != self {
            return Err(Error::Changed { what: format!("it was written to, its length is still: `{}`", now.length) });
        }
        Ok(())
    }
}

/// Whether a location is not a local path.
pub(crate) fn is_remote(location: &str) -> bool {
    ["s3://", "s3a://", "gs://", "az://", "abfs://", "abfss://", "http://", "https://"]
        .iter()
        .any(|scheme| location.starts_with(scheme))
}
