//! A file that is read past the system's cache, from front to back.

use crate::bytes::sectors::{LARGE_PAGE, SECTOR, SectorFile, Sectors};
use bytes::Bytes;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Bytes a read, if there is memory for it: disks need several requests at a time to be at their fastest, and the system divides this one. Less is not in
/// large pages; more takes memory out of the processor's cache.
const CHUNK: usize = LARGE_PAGE;
/// Threads that read, in turn: the disk has work while one of them waits for a processor.
const READERS: usize = 4;
/// Chunks in memory at a time beside those that others look at: one of each thread, one taken from, and one on its way back.
const CHUNKS: usize = READERS + 2;
/// Bytes that others may look at, in terms of the memory given, which is that of one block and a half: two blocks, with the chunks that are only partly
/// theirs. What goes beyond that is copied, since a few bytes keep a whole chunk.
const LENT: usize = 2;
/// Bytes between two stretches that are read with them, since another read takes longer.
const SHORT_GAP: u64 = 1 << 17;

/// A file, of which threads read the next bytes while the last ones are worked on.
pub(crate) struct DirectFile {
    file: SectorFile,
    /// What of the file is read, in ascending order; all else is as if the file ended there.
    stretches: Vec<Range<u64>>,
    position: u64,
    /// Bytes a read.
    size: usize,
    pool: Arc<Pool>,
    /// How many chunks there may be before bytes are copied.
    most: usize,
    /// The bytes at hand, and those that come behind them.
    chunk: Chunk,
    ahead: Option<Ahead>,
}

#[derive(Default)]
struct Chunk {
    /// None behind the last stretch, or behind the end of the file.
    bytes: Bytes,
    /// Where in the file it begins.
    start: u64,
}

impl Chunk {
    /// Where a byte of the file is in it, or the byte behind its last one.
    fn place(&self, position: u64) -> Option<usize> {
        let place = position.checked_sub(self.start).and_then(|place| usize::try_from(place).ok());
        place.filter(|&place| place <= self.bytes.len())
    }

    fn bytes_from(&self, position: u64) -> &[u8] {
        self.place(position).map_or(&[], |place| &self.bytes[place..])
    }
}

/// Threads that read chunk after chunk, each of them one in [`READERS`].
struct Ahead {
    chunks: Vec<Receiver<io::Result<Chunk>>>,
    /// Whose turn it is.
    turn: usize,
}

/// Memory of chunks that no one looks at any more, to be filled again, in later passes too.
#[derive(Default)]
struct Pool {
    state: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    free: Vec<Sectors>,
    /// Chunks that are filled or looked at.
    taken: usize,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(self: &Arc<Self>) -> Lent {
        let mut state = self.lock();
        state.taken += 1;
        Lent { sectors: state.free.pop().unwrap_or_default(), pool: self.clone() }
    }
}

/// Memory of a chunk, which goes back when no one looks at it any more.
struct Lent {
    sectors: Sectors,
    pool: Arc<Pool>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.sectors.bytes()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.taken -= 1;
        state.free.push(std::mem::take(&mut self.sectors));
    }
}

impl DirectFile {
    /// Takes about so many bytes of memory. None where the system or the file system does not read in this way.
    pub fn open(path: &Path, memory: usize) -> Option<Self> {
        DirectFile::open_stretches(path, memory, std::iter::once(0..u64::MAX))
    }

    /// The same for a file of which only some stretches are read, given in any order.
    pub fn open_stretches(path: &Path, memory: usize, stretches: impl IntoIterator<Item = Range<u64>>) -> Option<Self> {
        let size = (memory / CHUNKS).next_multiple_of(SECTOR).clamp(SECTOR, CHUNK);
        let mut stretches: Vec<_> = stretches.into_iter().collect();
        stretches.sort_by_key(|stretch| stretch.start);
        stretches.dedup_by(|next, last| {
            let joined = next.start <= last.end.saturating_add(SHORT_GAP);
            last.end = if joined { last.end.max(next.end) } else { last.end };
            joined
        });
        let file = SectorFile::open(path)?;
        let (pool, most) = (Arc::default(), CHUNKS + memory.saturating_mul(LENT) / size);
        Some(DirectFile { file, stretches, position: 0, size, pool, most, chunk: Chunk::default(), ahead: None })
    }

    /// So many bytes from the byte `start` on, where the disk put them unless they are in two chunks; fewer where the file ends.
    pub fn bytes_at(&mut self, start: u64, count: usize) -> io::Result<Bytes> {
        self.seek(SeekFrom::Start(start))?;
        let found = self.next_bytes(count)?;
        if found.len() == count || found.is_empty() {
            return Ok(found);
        }
        let mut bytes = Vec::with_capacity(count);
        bytes.extend_from_slice(&found);
        // A chunk that is waited for may need the memory of this one.
        drop(found);
        while bytes.len() < count {
            let next = self.fill_buf()?;
            let length = next.len().min(count - bytes.len());
            if length == 0 {
                break;
            }
            bytes.extend_from_slice(&next[..length]);
            self.consume(length);
        }
        Ok(bytes.into())
    }

    /// The next bytes, at most `most`, as many of them as are in one chunk, where the disk put them; none behind the last.
    pub fn next_bytes(&mut self, most: usize) -> io::Result<Bytes> {
        let count = self.fill_buf()?.len().min(most);
        let place = self.chunk.place(self.position).unwrap_or(0);
        self.consume(count);
        let bytes = self.chunk.bytes.slice(place..place + count);
        Ok(if self.pool.lock().taken > self.most { Bytes::copy_from_slice(&bytes) } else { bytes })
    }

    /// Goes on to the next chunk; false if there is none.
    fn advance(&mut self) -> io::Result<bool> {
        let ahead = match &mut self.ahead {
            Some(_) if self.chunk.bytes.is_empty() => return Ok(false),
            Some(ahead) => ahead,
            none => none.insert(Ahead::start(&self.file, &self.pool, chunks(&self.stretches, self.position, self.size))?),
        };
        // What was read is given back before more is waited for.
        self.chunk = Chunk::default();
        let next = ahead.chunks[ahead.turn].recv();
        let next = next.unwrap_or_else(|_| Err(io::Error::other("the thread that reads ahead has ended")));
        ahead.turn = (ahead.turn + 1) % ahead.chunks.len();
        self.chunk = next.inspect_err(|_| self.ahead = None)?;
        Ok(!self.chunk.bytes.is_empty())
    }
}

/// The bytes of each read, from `position` on.
fn chunks(stretches: &[Range<u64>], position: u64, size: usize) -> impl Iterator<Item = Range<u64>> + Clone + Send + use<> {
    let first = stretches.partition_point(|stretch| stretch.end <= position);
    let left: Vec<_> = stretches[first..].iter().map(|stretch| stretch.start.max(position)..stretch.end).collect();
    left.into_iter().flat_map(move |stretch| {
        let start = stretch.start - stretch.start % SECTOR as u64;
        (start..stretch.end).step_by(size).map(move |start| start..stretch.end.min(start.saturating_add(size as u64)))
    })
}

impl Ahead {
    fn start(
        file: &SectorFile,
        pool: &Arc<Pool>,
        plan: impl Iterator<Item = Range<u64>> + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let mut chunks = Vec::with_capacity(READERS);
        for turn in 0..READERS {
            chunks.push(start_reader(file.try_clone()?, pool.clone(), plan.clone().skip(turn).step_by(READERS))?);
        }
        Ok(Ahead { chunks, turn: 0 })
    }
}

/// A thread that holds one chunk at a time, until it is taken.
fn start_reader(
    file: SectorFile,
    pool: Arc<Pool>,
    plan: impl Iterator<Item = Range<u64>> + Send + 'static,
) -> io::Result<Receiver<io::Result<Chunk>>> {
    let (sender, chunks) = mpsc::sync_channel(0);
    thread::Builder::new().name("vmfkit-disk".to_owned()).spawn(move || {
        let read = |wanted: Range<u64>| {
            let mut lent = pool.take();
            file.read(wanted.clone(), &mut lent.sectors)?;
            Ok(Chunk { bytes: Bytes::from_owner(lent), start: wanted.start })
        };
        for found in plan.map(read) {
            let last = found.as_ref().map_or(true, |chunk| chunk.bytes.is_empty());
            // No one may be waiting any more.
            if sender.send(found).is_err() || last {
                return;
            }
        }
        sender.send(Ok(Chunk { bytes: Bytes::new(), start: u64::MAX })).ok();
    })?;
    Ok(chunks)
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
        while self.chunk.bytes_from(self.position).is_empty() && self.advance()? {}
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
        if position < self.chunk.start {
            (self.chunk, self.ahead) = (Chunk::default(), None);
        }
        self.position = position;
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

    #[test]
    fn stretches_are_read_wherever_they_are() {
        let (file, bytes) = file_of(9 * SIZE + 5);
        // Out of order, side by side, one within another, with gaps that are short and long, and beyond the end.
        let (a, b) = (SHORT_GAP as usize, 3 * SIZE);
        let stretches = [b + SIZE..b + SIZE + 9, 7..a, a..a + 100, a + 50..a + 60, 2 * a..2 * a + 3, 8 * SIZE + 1..10 * SIZE];
        let as_u64 = stretches.iter().map(|stretch| stretch.start as u64..stretch.end as u64);
        let Some(mut direct) = DirectFile::open_stretches(file.path(), CHUNKS * SIZE, as_u64) else {
            return eprintln!("skipped: this file system has no reads past the cache");
        };
        let starts: Vec<u64> = direct.stretches.iter().map(|stretch| stretch.start).collect();
        assert_eq!(starts, [7, (b + SIZE) as u64, 8 * SIZE as u64 + 1]);
        for _ in 0..2 {
            for stretch in &stretches {
                for from in [stretch.start, stretch.start + 1, stretch.end - 1] {
                    let expected = &bytes[from.min(bytes.len())..stretch.end.min(bytes.len())];
                    assert!(direct.bytes_at(from as u64, stretch.end - from).unwrap() == expected, "{from}..{}", stretch.end);
                }
            }
        }
        assert!(direct.bytes_at(6 * SIZE as u64, 5).unwrap().is_empty(), "between two stretches");
    }

    #[test]
    fn bytes_stay_where_the_disk_put_them_while_they_are_needed() {
        let (file, bytes) = file_of(7 * SIZE);
        let Some(mut direct) = DirectFile::open(file.path(), CHUNKS * SIZE) else {
            return eprintln!("skipped: this file system has no reads past the cache");
        };
        let pages: Vec<Bytes> = (0..70).map(|page| direct.bytes_at(page * SIZE as u64 / 10, SIZE / 10).unwrap()).collect();
        for (page, found) in pages.iter().enumerate() {
            assert!(found == &bytes[page * SIZE / 10..][..SIZE / 10], "{page}");
        }
        let addresses: Vec<_> = (0..100).map(|_| direct.bytes_at(0, SIZE).unwrap().as_ptr()).collect();
        assert!(addresses.iter().all(|address| *address == addresses[0]), "bytes of one chunk are not copied");
    }

    /// A few bytes of every chunk, all of them kept.
    #[test]
    fn bytes_that_are_kept_do_not_keep_all_chunks() {
        let (file, bytes) = file_of(300 * SECTOR);
        let Some(mut direct) = DirectFile::open(file.path(), CHUNKS * SECTOR) else {
            return eprintln!("skipped: this file system has no reads past the cache");
        };
        for _ in 0..2 {
            let kept: Vec<Bytes> = (0..300).map(|chunk| direct.bytes_at((chunk * SECTOR) as u64, 3).unwrap()).collect();
            assert!(kept.iter().enumerate().all(|(chunk, kept)| kept == &bytes[chunk * SECTOR..][..3]));
            let taken = direct.pool.lock().taken;
            assert!(taken <= direct.most + CHUNKS && direct.most == (1 + LENT) * CHUNKS, "{taken} of {}", direct.most);
        }
        direct.seek(SeekFrom::Start(0)).unwrap();
        let state = direct.pool.lock();
        assert!(state.free.len() + state.taken <= direct.most + CHUNKS, "memory is used again in the next pass");
    }
}
