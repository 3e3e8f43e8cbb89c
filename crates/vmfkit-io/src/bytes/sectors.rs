//! Reads past the system's cache: the disk puts sectors of a file into memory by itself.
//!
//! The cache would have lost the first rows of a large file when the next pass begins, and filling it takes more of the processor than all
//! else that is done to read a row.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

/// Such reads begin and end at multiples of this many bytes, in the file and in memory; no disk has larger sectors.
pub(crate) const SECTOR: usize = 4096;
/// Memory in pages of this size is asked for: the system hands pages over to the disk one by one, which takes most of the time with small ones.
pub(crate) const LARGE_PAGE: usize = 2 << 20;

/// A file that is read past the system's cache.
pub(crate) struct SectorFile(File);

impl SectorFile {
    /// None where the system or the file system does not read in this way.
    pub fn open(path: &Path) -> Option<Self> {
        let file = SectorFile(open_direct(path)?);
        file.read(0..1, &mut Sectors::default()).ok()?;
        Some(file)
    }

    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(SectorFile)
    }

    pub fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    /// Replaces what is in memory by these bytes, or those of them that the file has.
    pub fn read(&self, bytes: Range<u64>, sectors: &mut Sectors) -> io::Result<()> {
        let before = (bytes.start % SECTOR as u64) as usize;
        let wanted = (bytes.end - bytes.start) as usize;
        let (place, room) = sectors.room((before + wanted).next_multiple_of(SECTOR));
        let length = read_at(&self.0, room, bytes.start - before as u64)?;
        sectors.bytes = place + before..place + before + length.saturating_sub(before).min(wanted);
        Ok(())
    }
}

/// Bytes of a file in memory that a disk can write to.
#[derive(Debug, Default)]
pub(crate) struct Sectors {
    memory: Vec<u8>,
    /// Where in the memory they are.
    bytes: Range<usize>,
}

impl Sectors {
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.bytes.clone()]
    }

    /// Memory that begins at a multiple of SECTOR, and where that is.
    fn room(&mut self, size: usize) -> (usize, &mut [u8]) {
        let page = if size < LARGE_PAGE { SECTOR } else { LARGE_PAGE };
        let new = self.memory.len() < size + page;
        if new {
            // What was there is let go before more is taken, and what is taken is not touched before the disk does.
            self.memory = Vec::new();
            self.memory = vec![0; size + page];
        }
        let place = self.memory.as_ptr().align_offset(page);
        let room = &mut self.memory[place..place + size];
        if new && page == LARGE_PAGE {
            ask_for_large_pages(room);
        }
        (place, room)
    }
}

#[cfg(target_os = "linux")]
fn ask_for_large_pages(memory: &mut [u8]) {
    // SAFETY: the advice changes how the memory is mapped, not what is in it; it begins and ends with a page of the smallest size.
    unsafe { libc::madvise(memory.as_mut_ptr().cast(), memory.len(), libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn ask_for_large_pages(_: &mut [u8]) {}

#[cfg(target_os = "linux")]
fn open_direct(path: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().read(true).custom_flags(libc::O_DIRECT).open(path).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_direct(_: &Path) -> Option<File> {
    None
}

/// Reads until the buffer is full or the file ends.
#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], start: u64) -> io::Result<usize> {
    use std::os::unix::fs::FileExt;
    let mut length = 0;
    // What ends within a sector ends with the file; a read from there on is not allowed.
    while length < buffer.len() && length.is_multiple_of(SECTOR) {
        match file.read_at(&mut buffer[length..], start + length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(not(unix))]
fn read_at(_: &File, _: &mut [u8], _: u64) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::Write;

    /// Of whole and half pages, large ones too, in the same memory.
    #[test]
    fn any_bytes_of_a_file_are_read_into_the_same_memory() {
        let bytes: Vec<u8> = (0..2 * LARGE_PAGE as u32 + 3001).map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
        // Beside the sources, since the folder for temporary files may be memory, which is not read in this way.
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&bytes).unwrap();
        let Some(file) = SectorFile::open(file.path()) else {
            return eprintln!("skipped: this file system has no reads past the cache");
        };
        assert_eq!(file.length().unwrap(), bytes.len() as u64);
        let (mut sectors, end) = (Sectors::default(), bytes.len());
        for from in [0, 1, 128, SECTOR - 4, SECTOR, LARGE_PAGE - 8, LARGE_PAGE + 6, end - 5, end, end + 9000] {
            for length in [0, 4, 100, SECTOR, SECTOR + 4, LARGE_PAGE, LARGE_PAGE + 400, 2 * LARGE_PAGE] {
                file.read(from as u64..(from + length) as u64, &mut sectors).unwrap();
                let expected = &bytes[from.min(end)..(from + length).min(end)];
                assert!(sectors.bytes() == expected, "{length} bytes from {from}");
            }
        }
    }
}
