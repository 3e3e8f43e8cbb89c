//! A file that is read past the system's cache, from front to back.

use crate::sectors::{SECTOR, SectorFile, Sectors};
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

/// Bytes a read, if there is memory for it: disks need several requests at a time to be at their fastest, and the system divides this one.
const CHUNK: usize = 8 << 20;
/// Chunks in memory at a time: one taken from, one that waits, one being read, and one on its way back.
const CHUNKS: usize = 4;

/// A file, of which a thread reads the next bytes while the last ones are worked on.
pub(crate) struct DirectFile {
    file: SectorFile,
    position: u64,
    /// Bytes a read.
    size: usize,
    /// The bytes at hand, and those that come behind them.
    chunk: Chunk,
    ahead: Option<Ahead>,
}

#[derive(Default)]
struct Chunk {
    sectors: Sectors,
    /// Where in the file it begins.
    start: u64,
}

impl Chunk {
    fn bytes_from(&self, position: u64) -> &[u8] {
        let skip = position.checked_sub(self.start).and_then(|skip| usize::try_from(skip).ok());
        skip.and_then(|skip| self.sectors.bytes().get(skip..)).unwrap_or_default()
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
        let size = (memory / CHUNKS).next_multiple_of(SECTOR).clamp(SECTOR, CHUNK);
        Some(DirectFile { file: SectorFile::open(path)?, position: 0, size, chunk: Chunk::default(), ahead: None })
    }

    /// Goes on to the next chunk, unless the file ends with this one.
    fn advance(&mut self) -> io::Result<()> {
        let ahead = match &mut self.ahead {
            Some(_) if self.chunk.sectors.bytes().len() < self.size => return Ok(()),
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
    fn start(file: SectorFile, start: u64, size: usize) -> io::Result<Self> {
        let (sender, chunks) = mpsc::sync_channel(1);
        let (used, free) = mpsc::channel::<Chunk>();
        thread::Builder::new().name("vmfkit-disk".to_owned()).spawn(move || {
            for start in (start..).step_by(size) {
                let mut sectors = free.try_recv().unwrap_or_default().sectors;
                let found = file.read(start..start + size as u64, &mut sectors).map(|()| Chunk { sectors, start });
                let last = found.as_ref().map_or(true, |chunk| chunk.sectors.bytes().len() < size);
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
            SeekFrom::End(offset) => self.file.length()?.checked_add_signed(offset),
        }
        .ok_or(io::ErrorKind::InvalidInput)?;
        if position != self.position {
            // What was read before may have changed.
            (self.position, self.chunk, self.ahead) = (position, Chunk::default(), None);
        }
        Ok(position)
    }
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
