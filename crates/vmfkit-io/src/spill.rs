//! [`SpillFile`]: a local copy of rows that are slow to read, for later passes.

use crate::bytes::{ByteReader, ByteSource, LocalFile};
use crate::read::array::ArrayRows;
use crate::read::numbers::{ArrayBytes, Encoding, Kind, Numbers};
use crate::{Batch, ByteBuffers, Reader, Result, Schema};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vmfkit::RowBatch;
use vmfkit::rows::Rows;
use vmfkit_kernels::bytes::{Plain, as_bytes};

/// A scratch file may take one part in this many of the free bytes.
const FREE_DIVISOR: u64 = 2;

/// The default folder for scratch files: that of the variable TMPDIR, otherwise `/var/tmp`, which
/// is meant for large files, otherwise that of the system.
pub fn scratch_folder() -> PathBuf {
    let named = std::env::var_os("TMPDIR").filter(|name| !name.is_empty()).map(PathBuf::from);
    let usual = || Some(PathBuf::from("/var/tmp")).filter(|folder| cfg!(unix) && folder.is_dir());
    named.or_else(usual).unwrap_or_else(std::env::temp_dir)
}

/// Dense rows and their weights, in two files without names. The files vanish when the process
/// ends, even if it is killed.
pub(crate) struct SpillFile {
    folder: PathBuf,
    dim: usize,
    encoding: Encoding,
    values: File,
    weights: Option<File>,
    rows: u64,
    /// Bytes that may still be written.
    left: u64,
}

impl SpillFile {
    /// Creates a file for rows like these, of about `expected` bytes. No rows are written yet.
    pub fn create(folder: &Path, expected: u64, like: &RowBatch) -> io::Result<Self> {
        let left = (free_bytes(folder)? / FREE_DIVISOR).min(longest_file());
        if expected > left {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Self::create_with(folder, left, like)
    }

    fn create_with(folder: &Path, left: u64, like: &RowBatch) -> io::Result<Self> {
        let kind = match like.rows() {
            Rows::F32(_) => Kind::F32,
            Rows::F64(_) => Kind::F64,
            Rows::SparseF32(_) | Rows::SparseF64(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        let weights = like.weights().map(|_| tempfile::tempfile_in(folder)).transpose()?;
        let encoding = Encoding::in_memory(kind);
        let (values, folder) = (tempfile::tempfile_in(folder)?, folder.to_owned());
        Ok(SpillFile { folder, dim: like.dim(), encoding, values, weights, rows: 0, left })
    }

    /// The name that messages use.
    pub fn name(&self) -> String {
        format!("scratch file in {}", self.folder.display())
    }

    pub fn schema(&self) -> Schema {
        Schema::dense(self.dim, self.encoding.element(), Some(self.rows))
    }

    /// Appends rows.
    pub fn write(&mut self, rows: &RowBatch) -> io::Result<()> {
        match rows.rows() {
            Rows::F32(values) => write_numbers(&mut self.values, values, &mut self.left)?,
            Rows::F64(values) => write_numbers(&mut self.values, values, &mut self.left)?,
            Rows::SparseF32(_) | Rows::SparseF64(_) => unreachable!("only dense rows are written"),
        }
        if let (Some(file), Some(weights)) = (&mut self.weights, rows.weights()) {
            write_numbers(file, weights, &mut self.left)?;
        }
        self.rows += rows.len() as u64;
        Ok(())
    }

    /// Waits until the data are on disk, so that the first pass does not, and returns the errors of
    /// writing.
    pub fn finish(&self) -> io::Result<()> {
        [Some(&self.values), self.weights.as_ref()].into_iter().flatten().try_for_each(File::sync_data)
    }

    /// The number of rows written.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// A reader at the first row.
    pub fn reader(&self) -> Result<ScratchRows> {
        let bytes = |file: &File| {
            let file = LocalFile::new(file.try_clone()?, &path_of(file))?;
            Ok::<_, io::Error>(ArrayBytes::new(ByteReader::new(ByteSource::File(Arc::new(file)), 0)))
        };
        let rows = ArrayRows::new(bytes(&self.values)?, self.encoding, false, self.rows, self.dim)?;
        let double = Encoding::in_memory(Kind::F64);
        let weights = self.weights.as_ref().map(|file| Ok::<_, io::Error>(Numbers::new(bytes(file)?, double, self.rows)));
        Ok(ScratchRows { rows, weights: weights.transpose()? })
    }
}

/// A path by which the file can be opened again, though it has no name.
#[cfg(target_os = "linux")]
fn path_of(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(not(target_os = "linux"))]
fn path_of(_: &File) -> PathBuf {
    PathBuf::new()
}

fn write_numbers<T: Plain>(file: &mut File, numbers: &[T], left: &mut u64) -> io::Result<()> {
    let bytes = as_bytes(numbers);
    *left = left.checked_sub(bytes.len() as u64).ok_or(io::ErrorKind::StorageFull)?;
    file.write_all(bytes)?;
    begin_writing(file);
    Ok(())
}

/// Starts writing the file to disk, which would otherwise wait until the first pass reads it: the
/// kernel begins to write dirty pages when it is told that they are not needed. A refusal only
/// delays the write.
#[cfg(target_os = "linux")]
fn begin_writing(file: &File) {
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
}

#[cfg(not(target_os = "linux"))]
fn begin_writing(_: &File) {}

/// Largest file size that the limits of the process allow.
#[cfg(target_os = "linux")]
fn longest_file() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current.unwrap_or(u64::MAX)
}

#[cfg(not(target_os = "linux"))]
fn longest_file() -> u64 {
    u64::MAX
}

/// Free bytes of the file system of a folder; an error where that is in memory.
#[cfg(target_os = "linux")]
fn free_bytes(folder: &Path) -> io::Result<u64> {
    // tmpfs of `linux/magic.h`, and ramfs.
    const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];
    let stat = rustix::fs::statfs(folder)?;
    if IN_MEMORY.contains(&(stat.f_type as u32)) {
        return Err(io::Error::other("it is an in-memory file system"));
    }
    // Some file systems count in other units than their block size.
    let unit = if stat.f_frsize > 0 { stat.f_frsize } else { stat.f_bsize };
    Ok(stat.f_bavail.saturating_mul(unit as u64))
}

/// Writing fails when the disk is full.
#[cfg(not(target_os = "linux"))]
fn free_bytes(_: &Path) -> io::Result<u64> {
    Ok(u64::MAX)
}

/// The rows of a scratch file.
pub(crate) struct ScratchRows {
    rows: ArrayRows,
    weights: Option<Numbers>,
}

impl Reader for ScratchRows {
    fn schema(&self) -> &Schema {
        self.rows.schema()
    }

    fn read(&mut self, most: usize, batch: &mut Batch) -> Result<()> {
        let mut weights = Rows::F64(batch.weights.take().unwrap_or_default().into());
        self.rows.read(most, batch)?;
        if let Some(numbers) = &mut self.weights {
            weights.start_dense::<f64>();
            numbers.take(batch.rows as u64, &mut weights)?;
            batch.weights = Some(weights.into_f64());
        }
        Ok(())
    }

    fn rewind(&mut self) -> Result<()> {
        self.rows.rewind()?;
        self.weights.as_mut().map_or(Ok(()), Numbers::rewind)
    }

    fn lends_bytes(&self) -> bool {
        self.weights.is_none() && self.rows.lends_bytes()
    }

    fn read_bytes(&mut self, most: usize, buffers: &mut ByteBuffers) -> Result<usize> {
        self.rows.read_bytes(most, buffers)
    }

    fn read_direct(&mut self, memory: usize) -> Result<()> {
        self.rows.read_direct(memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_beyond_the_free_bytes_are_refused() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let values = [1.0, 0.0].repeat(10);
        let rows = RowBatch::new(2, &values[..]).unwrap();
        let mut scratch = SpillFile::create_with(folder, 350, &rows).unwrap();
        scratch.write(&rows).unwrap();
        scratch.write(&rows).unwrap();
        assert_eq!(scratch.write(&rows).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(scratch.rows(), 20);
        let sparse = RowBatch::sparse(2, &[0, 1], &[1], &[1.0]).unwrap();
        assert!(SpillFile::create_with(folder, 350, &sparse).is_err());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn free_bytes_are_those_of_a_disk() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        match free_bytes(here) {
            Ok(bytes) => {
                assert!(bytes > 0 && longest_file() > 0);
                let rows = RowBatch::new(2, &[1.0, 0.0][..]).unwrap();
                let error = SpillFile::create(here, bytes, &rows).err().expect("more than half of the free space");
                assert_eq!(error.kind(), io::ErrorKind::StorageFull);
                assert!(SpillFile::create(here, 16, &rows).is_ok());
            }
            Err(error) => assert_eq!(error.to_string(), "it is an in-memory file system"),
        }
        assert_eq!(free_bytes(Path::new("/nothing here")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(free_bytes(Path::new("a\0b")).is_err());
        if Path::new("/dev/shm").is_dir() {
            assert_eq!(free_bytes(Path::new("/dev/shm")).unwrap_err().to_string(), "it is an in-memory file system");
        }
    }
}
