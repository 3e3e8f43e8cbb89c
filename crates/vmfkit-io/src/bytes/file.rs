//! A local file that is read through the page cache.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// An open file.
pub(crate) struct LocalFile {
    file: File,
    path: PathBuf,
    length: u64,
}

impl LocalFile {
    pub fn open(path: &Path) -> io::Result<Self> {
        LocalFile::new(File::open(path)?, path)
    }

    /// For a file that can be reopened by this path.
    pub fn new(file: File, path: &Path) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(LocalFile { file, path: path.to_owned(), length })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The length at the time of opening.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// The current length.
    pub fn len_now(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Fills the capacity of `buffer` with the bytes from `start`. There are fewer only at the end.
    #[cfg(unix)]
    pub fn fill(&self, start: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
        buffer.clear();
        while buffer.len() < buffer.capacity() {
            let position = start + buffer.len() as u64;
            // Reads into uninitialized memory.
            match rustix::io::pread(&self.file, rustix::buffer::spare_capacity(buffer), position) {
                Ok(0) => break,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads some bytes from `start`; none only at the end.
    #[cfg(unix)]
    pub fn read(&self, start: u64, buffer: &mut [u8]) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.file, buffer, start)
    }

    #[cfg(not(unix))]
    pub fn read(&self, start: u64, buffer: &mut [u8]) -> io::Result<usize> {
        use std::io::{Read, Seek, SeekFrom};
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(start))?;
        file.read(buffer)
    }

    #[cfg(not(unix))]
    pub fn fill(&self, start: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
        use std::io::{Read, Seek, SeekFrom};
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(start))?;
        buffer.clear();
        file.take(buffer.capacity() as u64).read_to_end(buffer).map(drop)
    }
}
