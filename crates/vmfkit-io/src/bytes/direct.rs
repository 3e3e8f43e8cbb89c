//! A file that is read with O_DIRECT, past the system's cache, from front to back.
//!
//! The cache would have lost the first rows of a large file when the next pass begins, and filling it takes more of the processor than all
//! else that is done to read a row.

use bytes::Bytes;
use memmap2::MmapMut;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Such reads begin and end at multiples of this many bytes, in the file and in memory; no disk has larger sectors.
const SECTOR: usize = 4096;
/// Memory in pages of this size is asked for: the system hands pages over to the disk one by one, which takes most of the time with small ones.
const LARGE_PAGE: usize = 2 << 20;

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
/// Bytes between two ranges that are read with them, since another read takes longer.
const SHORT_GAP: u64 = 1 << 17;

/// A file, of which threads read the next bytes while the last ones are worked on.
pub(crate) struct DirectFile {
    file: SectorFile,
    length: u64,
    /// What of the file is read, in ascending order; all else is as if the file ended there.
    ranges: Vec<Range<u64>>,
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
    /// None behind the last range, or behind the end of the file.
    bytes: Bytes,
    /// Where in the file it begins.
    start: u64,
}

impl Chunk {
    /// Its bytes from a position of the file on; none if that is elsewhere.
    fn bytes_from(&self, position: u64) -> Bytes {
        let offset = position.checked_sub(self.start).and_then(|offset| usize::try_from(offset).ok());
        offset.filter(|&offset| offset < self.bytes.len()).map_or_else(Bytes::new, |offset| self.bytes.slice(offset..))
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
    /// Reads these ranges, given in any order, and takes about `memory` bytes of buffers. None where the system or the file system does
    /// not read in this way.
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

    /// The length when it was opened.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// The length now.
    pub fn len_now(&self) -> io::Result<u64> {
        self.file.length()
    }

    /// Bytes from `start` on, at most `most`, as many of them as are in one chunk, where the disk put them; none behind the last.
    pub fn read_at(&mut self, start: u64, most: usize) -> io::Result<Bytes> {
        if start < self.chunk.start {
            (self.chunk, self.ahead) = (Chunk::default(), None);
        }
        while self.chunk.bytes_from(start).is_empty() && self.advance(start)? {}
        let mut bytes = self.chunk.bytes_from(start);
        bytes.truncate(most);
        Ok(if self.pool.lock().taken > self.most { Bytes::copy_from_slice(&bytes) } else { bytes })
    }

    /// Goes on to the next chunk, or to the one with this position if none was read; false if there is none.
    fn advance(&mut self, position: u64) -> io::Result<bool> {
        let ahead = match &mut self.ahead {
            Some(_) if self.chunk.bytes.is_empty() => return Ok(false),
            Some(ahead) => ahead,
            none => none.insert(Ahead::start(&self.file, &self.pool, chunks(&self.ranges, position, self.size))?),
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

/// A file that is read past the system's cache.
struct SectorFile(File);

impl SectorFile {
    /// None where the system or the file system does not read in this way.
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

    /// Replaces what is in memory by these bytes, or those of them that the file has.
    fn read(&self, bytes: Range<u64>, sectors: &mut Sectors) -> io::Result<()> {
        let before = (bytes.start % SECTOR as u64) as usize;
        let wanted = (bytes.end - bytes.start) as usize;
        let (start, buffer) = sectors.buffer((before + wanted).next_multiple_of(SECTOR))?;
        let length = read_at(&self.0, buffer, bytes.start - before as u64)?;
        sectors.bytes = start + before..start + before + length.saturating_sub(before).min(wanted);
        Ok(())
    }
}

/// Memory that a disk can write to, and the bytes of a file in it.
#[derive(Debug, Default)]
struct Sectors {
    memory: Option<MmapMut>,
    bytes: Range<usize>,
}

impl Sectors {
    fn bytes(&self) -> &[u8] {
        self.memory.as_ref().map_or(&[], |memory| &memory[self.bytes.clone()])
    }

    /// A buffer that begins at a multiple of SECTOR, and where that is in the memory.
    fn buffer(&mut self, size: usize) -> io::Result<(usize, &mut [u8])> {
        let page = if size < LARGE_PAGE { SECTOR } else { LARGE_PAGE };
        let start = |memory: &MmapMut| memory.as_ptr().align_offset(page);
        if self.memory.as_ref().is_none_or(|memory| memory.len() < size + page) {
            // Freed before more is allocated, which is not touched before the disk writes to it.
            self.memory = None;
            let memory = MmapMut::map_anon(size + page)?;
            #[cfg(target_os = "linux")]
            if page == LARGE_PAGE {
                // Where it is refused, the reads are slower.
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
    use crate::bytes::{ByteReader, ByteSource};
    use std::io::{Read, Write};

    /// Of a chunk.
    const SIZE: usize = 1 << 18;

    /// Beside the sources, since the folder for temporary files may be memory, which is not read in this way.
    fn file_of(length: usize) -> (tempfile::NamedTempFile, Vec<u8>) {
        let bytes: Vec<u8> = (0..length).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&bytes).unwrap();
        (file, bytes)
    }

    /// None, with a message that the test is skipped, where the file system has no direct reads.
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
    fn a_file_that_was_cut_ends_where_it_ends() {
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
        // Out of order, side by side, one within another, with gaps that are short and long, and beyond the end.
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

    /// A few bytes of every chunk, all of them kept.
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

    /// Of whole and half pages, large ones too, in the same memory.
    #[test]
    fn any_bytes_of_a_file_are_read_into_the_same_memory() {
        let bytes: Vec<u8> = (0..2 * LARGE_PAGE as u32 + 3001).map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
        // Beside the sources, since the folder for temporary files may be memory, which is not read in this way.
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
