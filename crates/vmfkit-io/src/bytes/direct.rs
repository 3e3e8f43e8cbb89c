//! Sequential reads of a file with O_DIRECT, which bypasses the page cache.
//!
//! When the next pass over a large file begins, the page cache has evicted the first rows, and
//! filling it takes more processor time than all other work of reading a row.

use bytes::Bytes;
use memmap2::MmapMut;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Alignment in bytes of direct reads, in the file and in memory. No disk has larger sectors.
const SECTOR: usize = 4096;
/// Size in bytes of a huge page. The kernel pins pages one by one for the disk, which takes most of
/// the time if they are small.
const LARGE_PAGE: usize = 2 << 20;

/// Bytes per read, if there is memory for it. The system splits it into the several requests that a
/// disk needs for its full speed. Smaller reads do not fill huge pages; larger reads evict more of
/// the processor's cache.
const CHUNK: usize = LARGE_PAGE;
/// Threads that read in turn. The disk stays busy while one of them waits for a processor.
const READERS: usize = 4;
/// Chunks in memory besides those on loan: one for each thread, the current one, and one that is
/// being returned.
const CHUNKS: usize = READERS + 2;
/// Limit of the bytes on loan as a multiple of `memory`, which is one and a half blocks. It allows
/// two blocks, with chunks that belong to them in part. Beyond it bytes are copied, because a loan
/// of a few bytes keeps a whole chunk.
const LENT: usize = 2;
/// Gaps of up to this many bytes between two ranges are read with them, since a separate read takes
/// longer.
const SHORT_GAP: u64 = 1 << 17;

/// A file whose next bytes are read by threads while the last ones are processed.
pub(crate) struct DirectFile {
    file: SectorFile,
    length: u64,
    /// The ranges of the file that are read, in ascending order.
    ranges: Vec<Range<u64>>,
    /// Bytes per read.
    size: usize,
    pool: Arc<Pool>,
    /// Number of chunks in use beyond which bytes are copied.
    most: usize,
    /// The current chunk and those that follow it.
    chunk: Chunk,
    ahead: Option<Ahead>,
}

#[derive(Default)]
struct Chunk {
    /// Empty after the last range or the end of the file.
    bytes: Bytes,
    /// Its position in the file.
    start: u64,
}

impl Chunk {
    /// Its bytes from a position of the file; none if the position is outside of it.
    fn bytes_from(&self, position: u64) -> Bytes {
        let offset = position.checked_sub(self.start).and_then(|offset| usize::try_from(offset).ok());
        offset.filter(|&offset| offset < self.bytes.len()).map_or_else(Bytes::new, |offset| self.bytes.slice(offset..))
    }
}

/// Threads of which each reads one in [`READERS`] chunks.
struct Ahead {
    chunks: Vec<Receiver<io::Result<Chunk>>>,
    /// The thread that has the next chunk.
    next: usize,
}

/// Buffers of chunks for reuse, also in later passes.
#[derive(Default)]
struct Pool {
    state: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    free: Vec<Sectors>,
    /// Number of chunks that are being filled or on loan.
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

/// The buffer of a chunk. It returns to the pool when the last loan ends.
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
    /// Opens a file to read these ranges, given in any order, with about `memory` bytes of buffers.
    /// `None` if the system or the file system has no direct reads.
    pub fn open(path: &Path, memory: usize, ranges: impl IntoIterator<Item = Range<u64>>) -> Option<Self> {
        let size = (memory / CHUNKS).next_multiple_of(SECTOR).clamp(SECTOR, CHUNK);
        let mut ranges: Vec<_> = ranges.into_iter().collect();
        ranges.sort_by_key(|range| range.start);
        ranges.dedup_by(|next, last| {
            let joined = next.start <= last.end.saturating_add(SHORT_GAP);
            last.end = if joined { last.end.max(next.end) } else { last.end };
            joined
        });
        let file = SectorFile::open(path)?;
        let length = file.length().ok()?;
        let (pool, most) = (Arc::default(), CHUNKS + memory.saturating_mul(LENT) / size);
        Some(DirectFile { file, length, ranges, size, pool, most, chunk: Chunk::default(), ahead: None })
    }

    /// The length at the time of opening.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// The current length.
    pub fn len_now(&self) -> io::Result<u64> {
        self.file.length()
    }

    /// Lends bytes from `start`: at most `most`, all from one chunk, and none after the last range.
    pub fn read_at(&mut self, start: u64, most: usize) -> io::Result<Bytes> {
        if start < self.chunk.start {
            (self.chunk, self.ahead) = (Chunk::default(), None);
        }
        while self.chunk.bytes_from(start).is_empty() && self.advance(start)? {}
        let mut bytes = self.chunk.bytes_from(start);
        bytes.truncate(most);
        Ok(if self.pool.lock().taken > self.most { Bytes::copy_from_slice(&bytes) } else { bytes })
    }

    /// Continues with the next chunk, or starts with the one at this position. Returns false if
    /// there is none.
    fn advance(&mut self, position: u64) -> io::Result<bool> {
        let ahead = match &mut self.ahead {
            Some(_) if self.chunk.bytes.is_empty() => return Ok(false),
            Some(ahead) => ahead,
            none => none.insert(Ahead::start(&self.file, &self.pool, chunks(&self.ranges, position, self.size))?),
        };
        // Return the chunk before waiting for the next.
        self.chunk = Chunk::default();
        let next = ahead.chunks[ahead.next].recv();
        let next = next.unwrap_or_else(|_| Err(io::Error::other("a reader thread has ended")));
        ahead.next = (ahead.next + 1) % ahead.chunks.len();
        self.chunk = next.inspect_err(|_| self.ahead = None)?;
        Ok(!self.chunk.bytes.is_empty())
    }
}

/// The ranges of the reads from `position` on.
fn chunks(ranges: &[Range<u64>], position: u64, size: usize) -> impl Iterator<Item = Range<u64>> + Clone + Send + use<> {
    let first = ranges.partition_point(|range| range.end <= position);
    let left: Vec<_> = ranges[first..].iter().map(|range| range.start.max(position)..range.end).collect();
    left.into_iter().flat_map(move |range| {
        let start = range.start - range.start % SECTOR as u64;
        (start..range.end).step_by(size).map(move |start| start..range.end.min(start.saturating_add(size as u64)))
    })
}

impl Ahead {
    fn start(
        file: &SectorFile,
        pool: &Arc<Pool>,
        plan: impl Iterator<Item = Range<u64>> + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let mut chunks = Vec::with_capacity(READERS);
        for reader in 0..READERS {
            chunks.push(start_reader(file.try_clone()?, pool.clone(), plan.clone().skip(reader).step_by(READERS))?);
        }
        Ok(Ahead { chunks, next: 0 })
    }
}

/// Starts a thread that holds one chunk at a time until it is received.
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
            // The receiver may be gone.
            if sender.send(found).is_err() || last {
                return;
            }
        }
        sender.send(Ok(Chunk { bytes: Bytes::new(), start: u64::MAX })).ok();
    })?;
    Ok(chunks)
}

/// A file opened with O_DIRECT.
struct SectorFile(File);

impl SectorFile {
    /// `None` if the system or the file system has no direct reads.
    fn open(path: &Path) -> Option<Self> {
        let file = SectorFile(open_direct(path)?);
        file.read(0..1, &mut Sectors::default()).ok()?;
        Some(file)
    }

    fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(SectorFile)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    /// Reads these bytes of the file, or as many as it has.
    fn read(&self, bytes: Range<u64>, sectors: &mut Sectors) -> io::Result<()> {
        let before = (bytes.start % SECTOR as u64) as usize;
        let wanted = (bytes.end - bytes.start) as usize;
        let (start, buffer) = sectors.buffer((before + wanted).next_multiple_of(SECTOR))?;
        let length = read_at(&self.0, buffer, bytes.start - before as u64)?;
        sectors.bytes = start + before..start + before + length.saturating_sub(before).min(wanted);
        Ok(())
    }
}

/// Aligned memory with bytes of a file.
#[derive(Debug, Default)]
struct Sectors {
    memory: Option<MmapMut>,
    bytes: Range<usize>,
}

impl Sectors {
    fn bytes(&self) -> &[u8] {
        self.memory.as_ref().map_or(&[], |memory| &memory[self.bytes.clone()])
    }

    /// An aligned buffer and its position in the memory.
    fn buffer(&mut self, size: usize) -> io::Result<(usize, &mut [u8])> {
        let page = if size < LARGE_PAGE { SECTOR } else { LARGE_PAGE };
        let start = |memory: &MmapMut| memory.as_ptr().align_offset(page);
        if self.memory.as_ref().is_none_or(|memory| memory.len() < size + page) {
            // Free the old memory first. The new memory is not touched before the disk writes to
            // it.
            self.memory = None;
            let memory = MmapMut::map_anon(size + page)?;
            #[cfg(target_os = "linux")]
            if page == LARGE_PAGE {
                // Without huge pages reads are slower.
                memory.advise_range(memmap2::Advice::HugePage, start(&memory), size).ok();
            }
            self.memory = Some(memory);
        }
        let memory = self.memory.as_mut().expect("it was allocated");
        let start = start(memory);
        Ok((start, &mut memory[start..start + size]))
    }
}

#[cfg(target_os = "linux")]
fn open_direct(path: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    File::options().read(true).custom_flags(flags).open(path).ok()
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
    // A read that ends within a sector has reached the end of the file. Direct reads cannot
    // continue there.
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
    use crate::bytes::{ByteReader, ByteSource};
    use std::io::{Read, Write};

    /// Bytes per chunk.
    const SIZE: usize = 1 << 18;

    /// Creates a file next to the sources: the folder for temporary files may be on tmpfs, which
    /// has no direct reads.
    fn file_of(length: usize) -> (tempfile::NamedTempFile, Vec<u8>) {
        let bytes: Vec<u8> = (0..length).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&bytes).unwrap();
        (file, bytes)
    }

    /// `None` if the file system has no direct reads; then prints that the test is skipped.
    fn open(file: &tempfile::NamedTempFile, memory: usize) -> Option<DirectFile> {
        open_ranges(file, memory, std::iter::once(0..u64::MAX))
    }

    fn open_ranges(
        file: &tempfile::NamedTempFile,
        memory: usize,
        ranges: impl IntoIterator<Item = Range<u64>>,
    ) -> Option<DirectFile> {
        let direct = DirectFile::open(file.path(), memory, ranges);
        if direct.is_none() {
            eprintln!("skipped: this file system has no direct reads");
        }
        direct
    }

    fn reader(direct: DirectFile) -> ByteReader {
        ByteReader::new(ByteSource::Direct(Arc::new(Mutex::new(direct))), 0)
    }

    #[test]
    fn every_byte_is_read_whatever_the_length() {
        for length in [0, 1, SECTOR, SECTOR + 1, SIZE - 1, SIZE, SIZE + 1, 3 * SIZE, 3 * SIZE + 17] {
            let (file, bytes) = file_of(length);
            let Some(mut direct) = open(&file, CHUNKS * SIZE).map(reader) else { return };
            for skip in [0, 100, length / 2, length, length + 5] {
                let mut found = Vec::new();
                direct.seek_to(skip as u64).unwrap();
                direct.read_to_end(&mut found).unwrap();
                assert!(found == bytes[skip.min(length)..], "{length} bytes, those from {skip}");
                assert_eq!(direct.read(&mut [0]).unwrap(), 0);
            }
        }
    }

    #[test]
    fn a_truncated_file_ends_at_its_new_length() {
        let (file, bytes) = file_of(8 * SIZE);
        let Some(mut direct) = open(&file, CHUNKS * SIZE).map(reader) else { return };
        direct.read_exact(&mut [0; 10]).unwrap();
        file.as_file().set_len(5 * SIZE as u64 + 3).unwrap();
        let mut found = Vec::new();
        direct.read_to_end(&mut found).unwrap();
        assert!(found == bytes[10..5 * SIZE + 3]);
    }

    #[test]
    fn ranges_are_read_in_any_order() {
        let (file, bytes) = file_of(9 * SIZE + 5);
        // Out of order, adjacent, nested, with short and long gaps, and beyond the end.
        let (a, b) = (SHORT_GAP as usize, 3 * SIZE);
        let ranges = [b + SIZE..b + SIZE + 9, 7..a, a..a + 100, a + 50..a + 60, 2 * a..2 * a + 3, 8 * SIZE + 1..10 * SIZE];
        let as_u64 = ranges.iter().map(|range| range.start as u64..range.end as u64);
        let Some(direct) = open_ranges(&file, CHUNKS * SIZE, as_u64) else { return };
        let starts: Vec<u64> = direct.ranges.iter().map(|range| range.start).collect();
        let source = ByteSource::Direct(Arc::new(Mutex::new(direct)));
        assert_eq!(starts, [7, (b + SIZE) as u64, 8 * SIZE as u64 + 1]);
        for _ in 0..2 {
            for range in &ranges {
                for from in [range.start, range.start + 1, range.end - 1] {
                    let expected = &bytes[from.min(bytes.len())..range.end.min(bytes.len())];
                    assert!(source.read_all_at(from as u64, range.end - from).unwrap() == expected, "{from}..{}", range.end);
                }
            }
        }
        assert!(source.read_all_at(6 * SIZE as u64, 5).unwrap().is_empty(), "between two ranges");
    }

    #[test]
    fn bytes_stay_where_the_disk_put_them_while_they_are_needed() {
        let (file, bytes) = file_of(7 * SIZE);
        let Some(direct) = open(&file, CHUNKS * SIZE) else { return };
        let source = ByteSource::Direct(Arc::new(Mutex::new(direct)));
        let pages: Vec<Bytes> = (0..70).map(|page| source.read_all_at(page * SIZE as u64 / 10, SIZE / 10).unwrap()).collect();
        for (page, found) in pages.iter().enumerate() {
            assert!(found == &bytes[page * SIZE / 10..][..SIZE / 10], "{page}");
        }
        let addresses: Vec<_> = (0..100).map(|_| source.read_all_at(0, SIZE).unwrap().as_ptr()).collect();
        assert!(addresses.iter().all(|address| *address == addresses[0]), "bytes of one chunk are not copied");
    }

    /// Keeps a few bytes of every chunk.
    #[test]
    fn bytes_that_are_kept_do_not_keep_all_chunks() {
        let (file, bytes) = file_of(300 * SECTOR);
        let Some(mut direct) = open(&file, CHUNKS * SECTOR) else { return };
        for _ in 0..2 {
            let kept: Vec<Bytes> = (0..300).map(|chunk| direct.read_at((chunk * SECTOR) as u64, 3).unwrap()).collect();
            assert!(kept.iter().enumerate().all(|(chunk, kept)| kept == &bytes[chunk * SECTOR..][..3]));
            let taken = direct.pool.lock().taken;
            assert!(taken <= direct.most + CHUNKS && direct.most == (1 + LENT) * CHUNKS, "{taken} of {}", direct.most);
        }
        direct.read_at(0, 1).unwrap();
        let state = direct.pool.lock();
        assert!(state.free.len() + state.taken <= direct.most + CHUNKS, "memory is used again in the next pass");
    }

    /// Reads of whole and half pages, also huge ones, into the same memory.
    #[test]
    fn any_bytes_of_a_file_are_read_into_the_same_memory() {
        let bytes: Vec<u8> = (0..2 * LARGE_PAGE as u32 + 3001).map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
        // Creates a file next to the sources: the folder for temporary files may be on tmpfs, which
        // has no direct reads.
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&bytes).unwrap();
        let Some(file) = SectorFile::open(file.path()) else {
            return eprintln!("skipped: this file system has no direct reads");
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
