//! [`Place`]: where a file is, on this machine or in an object store.

pub(crate) mod direct;
#[cfg(feature = "object-store")]
pub(crate) mod object_store;
mod sectors;

use crate::bytes::direct::DirectFile;
#[cfg(feature = "object-store")]
use crate::bytes::object_store::RemoteFile;
use crate::{Error, Result};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Something that can be read from any byte on.
pub(crate) trait SeekRead: BufRead + Seek + Send {
    /// It is read past the system's cache.
    fn is_direct(&self) -> bool {
        false
    }
    /// The same, if it is.
    fn direct(&mut self) -> Option<&mut DirectFile> {
        None
    }
}

impl<T: Read + Seek + Send> SeekRead for BufReader<T> {}

impl SeekRead for DirectFile {
    fn is_direct(&self) -> bool {
        true
    }

    fn direct(&mut self) -> Option<&mut DirectFile> {
        Some(self)
    }
}

/// Bytes read at a time, which stay in a near cache while they are worked on; faster than mapping where the file is larger than the
/// memory.
const CHUNK: usize = 1 << 17;

/// The same of what is not buffered by itself.
pub(crate) fn buffered<T: Read + Seek + Send + 'static>(file: T) -> Box<dyn SeekRead> {
    Box::new(BufReader::with_capacity(CHUNK, file))
}

/// A file that can be read again.
#[derive(Clone)]
pub(crate) enum Place {
    Local(PathBuf),
    #[cfg(feature = "object-store")]
    Remote(RemoteFile),
}

impl Place {
    /// How messages call it.
    pub fn name(&self) -> String {
        self.path().display().to_string()
    }

    /// A path, or a location with slashes like a path.
    pub fn path(&self) -> &Path {
        match self {
            Place::Local(path) => path,
            #[cfg(feature = "object-store")]
            Place::Remote(file) => Path::new(file.name()),
        }
    }

    /// Its path, if it is on this machine.
    pub fn local(&self) -> Option<&Path> {
        match self {
            Place::Local(path) => Some(path),
            #[cfg(feature = "object-store")]
            Place::Remote(_) => None,
        }
    }

    /// Its bytes from the first, and how many there are.
    pub fn open(&self) -> Result<(Box<dyn SeekRead>, u64)> {
        match self {
            Place::Local(path) => {
                let file = File::open(path)?;
                let length = file.metadata()?.len();
                Ok((buffered(file), length))
            }
            #[cfg(feature = "object-store")]
            Place::Remote(file) => Ok((buffered(file.reader()), file.length())),
        }
    }

    /// What it is like now; a store is asked.
    pub fn stamp(&self) -> Result<Stamp> {
        match self {
            Place::Local(path) => {
                let metadata = fs::metadata(path)?;
                Ok(Stamp { length: metadata.len(), modified: metadata.modified().ok(), tag: None })
            }
            #[cfg(feature = "object-store")]
            Place::Remote(file) => {
                let (length, tag) = file.ask()?;
                Ok(Stamp { length, modified: None, tag })
            }
        }
    }
}

/// What tells whether a file is still the one that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub length: u64,
    modified: Option<SystemTime>,
    /// The version, as a store calls it.
    tag: Option<String>,
}

impl Stamp {
    /// Refuses a file that is not what it was.
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

/// Whether a location is not a path of this machine.
pub(crate) fn is_remote(location: &str) -> bool {
    ["s3://", "s3a://", "gs://", "az://", "abfs://", "abfss://", "http://", "https://"]
        .iter()
        .any(|scheme| location.starts_with(scheme))
}
