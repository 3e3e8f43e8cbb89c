//! A file that is read past the system's cache, from front to back.
//!
//! Rows that do not fit into memory are read again in every pass. The cache would have lost the first of them when the next pass begins, and
//! filling it takes more of the processor than all else that is done to read a row.

use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

/// Such reads begin and end at multiples of this many bytes, in the file and in memory; no disk has larger sectors.
const SECTOR: usize = 4096;
/// Bytes a read, if there is memory for it: disks need several requests at a time to be at their fastest, and the system divides this one.
const CHUNK: usize = 8 << 20;
/// Chunks in memory at a time: one taken from, one that waits, one being read, and one on its way back.
const CHUNKS: usize = 4;

/// A file, of which a thread reads the next bytes while the last ones are worked on.
pub(crate) struct DirectFile {
    file: File,
    position: u64,
    /// Bytes a read.
    size: usize,
    /// The bytes at hand, and those that come behind them.
    chunk: Chunk,
    ahead: Option<Ahead>,
}

struct Chunk {
    memory: Vec<u8>,
    /// Where in the file it begins, and how many bytes it has.
    start: u64,
    length: usize,
}

impl Chunk {
    fn new() -> Self {
        Chunk { memory: Vec::new(), start: 0, length: 0 }
    }

    /// Memory that begins at a multiple of SECTOR.
    fn aligned(&mut self, size: usize) -> &mut [u8] {
        self.memory.resize(size + SECTOR, 0);
        let skip = self.memory.as_ptr().align_offset(SECTOR);
        &mut self.memory[skip..skip + size]
    }

    fn bytes_from(&self, position: u64) -> &[u8] {
        let skip = self.memory.as_ptr().align_offset(SECTOR);
        match position.checked_sub(self.start) {
            Some(from) if from < self.length as u64 => &self.memory[skip..skip + self.length][from as usize..],
            _ => &[],
        }
    }
}

/// A thread that reads chunk after chunk.
struct Ahead {
    chunks: Receiver<io::Result<Chunk>>,
    used: Sender<Chunk>,
}

impl DirectFile {
    /// Takes about so many bytes of memory. None where the system or the file system does not read in this way.
    pub fn open(path: &Path, memory: usize) -> Option<Self> {
        let file = open_direct(path)?;
        let mut chunk = Chunk::new();
        read_at(&file, chunk.aligned(SECTOR), 0).ok()?;
        let size = (memory / CHUNKS).next_multiple_of(SECTOR).clamp(SECTOR, CHUNK);
        Some(DirectFile { file, position: 0, size, chunk, ahead: None })
    }

    /// Goes on to the next chunk, unless the file ends with this one.
    fn advance(&mut self) -> io::Result<()> {
        let ahead = match &mut self.ahead {
            Some(_) if self.chunk.length < self.size => return Ok(()),
            Some(ahead) => ahead,
            none => {
                let start = self.position - self.position % SECTOR as u64;
                none.insert(Ahead::start(self.file.try_clone()?, start, self.size)?)
            }
        };
        let chunk = ahead.chunks.recv().map_err(|_| io::Error::other("the thread that reads ahead has ended"))??;
        // A thread that is done needs no memory.
        ahead.used.send(std::mem::replace(&mut self.chunk, chunk)).ok();
        Ok(())
    }
}

impl Ahead {
    fn start(file: File, start: u64, size: usize) -> io::Result<Self> {
        let (sender, chunks) = mpsc::sync_channel(1);
        let (used, free) = mpsc::channel::<Chunk>();
        thread::Builder::new().name("vmfkit-disk".to_owned()).spawn(move || {
            for start in (start..).step_by(size) {
                let mut chunk = free.try_recv().unwrap_or_else(|_| Chunk::new());
                let found = read_at(&file, chunk.aligned(size), start).map(|length| Chunk { start, length, ..chunk });
                let last = found.as_ref().map_or(true, |chunk| chunk.length < size);
                // No one may be waiting any more.
                if sender.send(found).is_err() || last {
                    break;
                }
            }
        })?;
        Ok(Ahead { chunks, used })
    }
}

impl Read for DirectFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.read(buffer)?;
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for DirectFile {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.chunk.bytes_from(self.position).is_empty() {
            self.advance()?;
        }
        Ok(self.chunk.bytes_from(self.position))
    }

    fn consume(&mut self, count: usize) {
        self.position += count as u64;
    }
}

impl Seek for DirectFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
            SeekFrom::End(offset) => self.file.metadata()?.len().checked_add_signed(offset),
        }
        .ok_or(io::ErrorKind::InvalidInput)?;
        if position != self.position {
            // What was read before may have changed.
            (self.position, self.chunk, self.ahead) = (position, Chunk::new(), None);
        }
        Ok(position)
    }
}

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

    /// Of a chunk.
    const SIZE: usize = 1 << 18;

    /// Beside the sources, since the folder for temporary files may be memory, which is not read in this way.
    fn file_of(length: usize) -> (tempfile::NamedTempFile, Vec<u8>) {
        let bytes: Vec<u8> = (0..length).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&bytes).unwrap();
        (file, bytes)
    }

    #[test]
    fn every_byte_is_read_whatever_the_length() {
        for length in [0, 1, SECTOR, SECTOR + 1, SIZE - 1, SIZE, SIZE + 1, 3 * SIZE, 3 * SIZE + 17] {
            let (file, bytes) = file_of(length);
            let Some(mut direct) = DirectFile::open(file.path(), CHUNKS * SIZE) else {
                return eprintln!("skipped: this file system has no reads past the cache");
            };
            for skip in [0, 100, length / 2, length, length + 5] {
                let mut found = Vec::new();
                direct.seek(SeekFrom::Start(skip as u64)).unwrap();
                direct.read_to_end(&mut found).unwrap();
                assert!(found == bytes[skip.min(length)..], "{length} bytes, those from {skip}");
                assert_eq!(direct.read(&mut [0]).unwrap(), 0);
            }
        }
    }

    #[test]
    fn a_file_that_was_cut_ends_where_it_ends() {
        let (file, bytes) = file_of(8 * SIZE);
        let Some(mut direct) = DirectFile::open(file.path(), CHUNKS * SIZE) else {
            return eprintln!("skipped: this file system has no reads past the cache");
        };
        direct.read_exact(&mut [0; 10]).unwrap();
        file.as_file().set_len(5 * SIZE as u64 + 3).unwrap();
        let mut found = Vec::new();
        direct.read_to_end(&mut found).unwrap();
        assert!(found == bytes[10..5 * SIZE + 3]);
    }
}
