//! [`EStep`]: the statistics of the rows of a pass, from batches of any size.
//!
//! Floating-point sums depend on their order, so the order is fixed by absolute row numbers: 384
//! rows make a tile, 3 tiles a chunk, some chunks a block, and the blocks the total. One thread
//! adds the tiles of a chunk in sequence; chunks are added to their block, and blocks to the total,
//! in the order of the rows. So neither threads nor the sizes of batches change one bit. A tile
//! that spans batches is assembled first.

use super::Mixture;
use super::assignment::Assignment;
use super::logits::TILE;
use super::tile::{TileKernels, Workspace};
use crate::error::{Error, Result};
use crate::rows::RowBatch;
use crate::stats::SufficientStats;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

/// Enough that merging the statistics of a chunk takes a small part of the time to compute them,
/// and few enough that batches of some thousand rows keep all threads busy.
const TILES_PER_CHUNK: u64 = 3;

/// Rows per chunk. The rows of a block are a multiple of it.
pub const CHUNK_ROWS: usize = TILE * TILES_PER_CHUNK as usize;

/// Default number of rows per block: 8 chunks. Processes that divide a pass among them exchange
/// statistics of whole blocks. A block is small compared with the rows of one process, and up to
/// some hundred components its statistics are small compared with its rows.
pub const BLOCK_ROWS: usize = 8 * CHUNK_ROWS;

/// With fewer components than this (or, if each row goes to one component, than `FEW_OF_ONE`), a
/// pass over a file takes as long as reading it, and reading is fastest into memory that stays in
/// the processor's cache.
const FEW_COMPONENTS: usize = 64;
const FEW_OF_ONE: usize = 128;
/// Numbers per batch that stays in the cache.
const NEAR_NUMBERS: usize = 1 << 21;

/// Bytes of statistics of chunks that wait for a slow worker. Chunks with few components take
/// microseconds, so a worker that is suspended for a time slice delays no other.
const UNMERGED_BYTES: usize = 2 << 20;

/// The statistics of the rows of a pass under a mixture, from batches of any size.
///
/// Rows are numbered from the first row of the pass. The statistics depend on the rows and their
/// order. The sizes of batches, the number of threads and the processor's instructions do not
/// change one bit.
///
/// ```
/// use vmfkit::{Assignment, RowBatch, EStep, Mixture, VonMisesFisher};
/// let mixture = Mixture::new(vec![1.0], vec![VonMisesFisher::new(vec![1.0, 0.0], 5.0)?])?;
/// let rows = [1.0, 0.0, 0.8, 0.6, 0.6, 0.8];
/// let mut e_step = EStep::new(&mixture, Assignment::Soft)?;
/// e_step.add(&RowBatch::new(2, &rows[..2])?)?;
/// e_step.add(&RowBatch::new(2, &rows[2..])?)?;
/// assert_eq!(e_step.finish().weight(), 3.0);
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug)]
pub struct EStep<'m> {
    kernels: TileKernels<'m>,
    /// The number of the next row.
    next_row: u64,
    /// The rows of an incomplete tile.
    tile: Option<RowBatch<'static>>,
    sums: Sums,
    /// Workspaces that no thread uses at the moment.
    workspaces: Vec<Workspace>,
    buffer: RowBatch<'static>,
}

impl<'m> EStep<'m> {
    /// Starts with the first row of a pass.
    ///
    /// # Errors
    /// A temperature that is not finite and above 0.
    pub fn new(mixture: &'m Mixture, assignment: Assignment) -> Result<Self> {
        Ok(EStep {
            kernels: TileKernels::new(mixture, assignment)?,
            next_row: 0,
            tile: None,
            sums: Sums::new(mixture),
            workspaces: Vec::new(),
            buffer: RowBatch::default(),
        })
    }

    /// Starts with another row of the pass, for processes that divide it among them. Statistics of
    /// whole blocks equal those of a single process.
    pub fn first_row(mut self, row: u64) -> Self {
        self.next_row = row;
        self
    }

    /// Sets the number of rows per block: a multiple of [`CHUNK_ROWS`], by default [`BLOCK_ROWS`].
    ///
    /// # Errors
    /// A number that is not a multiple.
    pub fn block_rows(mut self, rows: usize) -> Result<Self> {
        check_block_rows(rows)?;
        self.sums.chunks_per_block = (rows / CHUNK_ROWS) as u64;
        Ok(self)
    }

    /// Keeps the statistics of each block for [`finish_blocks`](Self::finish_blocks).
    pub(crate) fn keep_blocks(mut self) -> Self {
        self.sums.kept = Some(Vec::new());
        self
    }

    /// Adds a batch of rows, on all threads. Rows that are not yet validated are validated on the
    /// way.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`]; the error of the first bad row, after which the statistics
    /// must be discarded.
    pub fn add(&mut self, batch: &RowBatch) -> Result<()> {
        let expected = self.kernels.mixture().dim();
        if batch.dim() != expected {
            return Err(Error::DimensionMismatch { expected, found: batch.dim() });
        }
        let batch = &batch.validated_if_sparse()?;
        let past_boundary = (self.next_row % TILE as u64) as usize;
        let mut from = 0;
        if past_boundary > 0 {
            from = (TILE - past_boundary).min(batch.len());
            self.keep(batch, 0, from)?;
            if past_boundary + from == TILE {
                self.add_kept_tile();
            }
        }
        let whole = (batch.len() - from) / TILE * TILE;
        self.add_tiles(batch, (from, from + whole), self.next_row / TILE as u64)?;
        self.next_row += whole as u64;
        self.keep(batch, from + whole, batch.len())
    }

    /// Copies the rows of an incomplete tile.
    fn keep(&mut self, batch: &RowBatch, from: usize, to: usize) -> Result<()> {
        if from == to {
            return Ok(());
        }
        let rows = batch.validated_slice(from, to, &mut self.buffer)?;
        self.tile.get_or_insert_with(|| RowBatch::empty_like(&rows)).append(&rows)?;
        self.next_row += (to - from) as u64;
        Ok(())
    }

    /// Adds the incomplete tile as the last one of the pass.
    fn add_kept_tile(&mut self) {
        if let Some(rows) = self.tile.take() {
            let number = (self.next_row - 1) / TILE as u64;
            let added = self.add_tiles(&rows, (0, rows.len()), number);
            added.expect("the rows were validated before they were kept");
        }
    }

    /// Adds the rows `from .. to`: whole tiles from number `first_tile`, or an incomplete tile.
    fn add_tiles(&mut self, batch: &RowBatch, (from, to): (usize, usize), first_tile: u64) -> Result<()> {
        if from == to {
            return Ok(());
        }
        let EStep { kernels, sums, workspaces, .. } = self;
        let end = first_tile + (to - from).div_ceil(TILE) as u64;
        let chunks = first_tile / TILES_PER_CHUNK..end.div_ceil(TILES_PER_CHUNK);
        let first_bad = AtomicUsize::new(usize::MAX);
        let add_chunk = |chunk: u64, workspace: &mut Workspace, stats: &mut SufficientStats| {
            let tiles = (chunk * TILES_PER_CHUNK).max(first_tile)..((chunk + 1) * TILES_PER_CHUNK).min(end);
            for tile in tiles {
                let begin = from + (tile - first_tile) as usize * TILE;
                let found = kernels.add_tile(batch, (begin, (begin + TILE).min(to)), tile, workspace, stats);
                found.map(|row| first_bad.fetch_min(row, Ordering::Relaxed));
            }
        };
        let is_whole = |chunk: u64| (chunk + 1) * TILES_PER_CHUNK <= end;
        let workers = rayon::current_num_threads().min((chunks.end - chunks.start) as usize);
        let queue = Queue::new(chunks, most_unmerged(sums.components * sums.dim, workers), sums, workspaces);
        let work = || {
            let _end = EndOnPanic(&queue);
            let mut workspace = queue.lock().workspaces.pop().unwrap_or_default();
            while let Some((chunk, mut stats)) = queue.take() {
                add_chunk(chunk, &mut workspace, &mut stats);
                if is_whole(chunk) {
                    stats.settle();
                }
                queue.push(chunk, stats, is_whole(chunk));
            }
            queue.lock().workspaces.push(workspace);
        };
        match workers {
            0 | 1 => work(),
            _ => rayon::scope(|scope| (0..workers).for_each(|_| scope.spawn(|_| work()))),
        }
        match first_bad.into_inner() {
            usize::MAX => Ok(()),
            row => Err(batch.row_error(row).expect("the row was found to be bad")),
        }
    }

    /// The statistics of all rows.
    pub fn finish(mut self) -> SufficientStats {
        self.close();
        let Sums { components, dim, total, .. } = self.sums;
        total.unwrap_or_else(|| SufficientStats::zero(components, dim))
    }

    /// The statistics of each block, after [`keep_blocks`](Self::keep_blocks).
    pub(crate) fn finish_blocks(mut self) -> Vec<SufficientStats> {
        self.close();
        self.sums.kept.unwrap_or_default()
    }

    fn close(&mut self) {
        self.add_kept_tile();
        if let Some(mut chunk) = self.sums.chunk.take() {
            chunk.settle();
            self.sums.add_chunk(chunk);
        }
        self.sums.close_block();
    }
}

/// Checks a number of rows per block.
pub(crate) fn check_block_rows(rows: usize) -> Result<()> {
    if rows > 0 && rows.is_multiple_of(CHUNK_ROWS) {
        return Ok(());
    }
    Err(Error::Option { option: "the number of rows of a block", range: "a multiple of 1152 above 0", value: rows as f64 })
}

/// The best number of rows per batch of a file for passes under a mixture of this shape; `None` if
/// it does not matter.
pub(crate) fn preferred_rows(mixture: &Mixture, assignment: Assignment) -> Option<usize> {
    let (least, most) = (CHUNK_ROWS * rayon::current_num_threads(), NEAR_NUMBERS / mixture.dim());
    let few = match assignment {
        Assignment::Soft | Assignment::Tempered(_) => FEW_COMPONENTS,
        Assignment::Hard | Assignment::Nearest | Assignment::Sampled { .. } => FEW_OF_ONE,
    };
    (mixture.components().len() < few).then(|| least.max(most - most % least))
}

/// The sums of a pass, added in the order of the rows.
#[derive(Debug)]
struct Sums {
    components: usize,
    dim: usize,
    chunks_per_block: u64,
    /// The sums of an incomplete chunk, of the complete chunks of the block, and of the complete
    /// blocks.
    chunk: Option<SufficientStats>,
    block: Option<SufficientStats>,
    total: Option<SufficientStats>,
    /// The complete blocks, if they are kept instead of their total.
    kept: Option<Vec<SufficientStats>>,
    /// Cleared statistics for reuse.
    idle: Vec<SufficientStats>,
}

impl Sums {
    fn new(mixture: &Mixture) -> Self {
        Sums {
            components: mixture.components().len(),
            dim: mixture.dim(),
            chunks_per_block: (BLOCK_ROWS / CHUNK_ROWS) as u64,
            chunk: None,
            block: None,
            total: None,
            kept: None,
            idle: Vec::new(),
        }
    }

    /// Statistics to add tiles to: those of the incomplete chunk, or empty ones.
    fn take_statistics(&mut self, continues: bool) -> SufficientStats {
        let begun = if continues { self.chunk.take() } else { None };
        begun.or_else(|| self.idle.pop()).unwrap_or_else(|| SufficientStats::zero(self.components, self.dim))
    }

    /// Adds a complete chunk to its block.
    fn add_chunk(&mut self, chunk: SufficientStats) {
        let spent = fold(&mut self.block, chunk);
        self.idle.extend(spent);
    }

    /// Ends a block, whose chunks are complete.
    fn close_block(&mut self) {
        let Some(block) = self.block.take() else { return };
        match &mut self.kept {
            Some(kept) => kept.push(block),
            None => {
                let spent = fold(&mut self.total, block);
                self.idle.extend(spent);
            }
        }
    }
}

/// Adds statistics to a sum. Returns their memory if the sum has its own.
fn fold(sum: &mut Option<SufficientStats>, mut stats: SufficientStats) -> Option<SufficientStats> {
    let Some(sum) = sum else {
        *sum = Some(stats);
        return None;
    };
    sum.merge(&stats).expect("the same components and dimension");
    stats.clear();
    Some(stats)
}

/// How many chunks may be in progress or wait for an earlier one, each with statistics of this many
/// numbers: as many as fit into [`UNMERGED_BYTES`], but at least two per worker.
fn most_unmerged(numbers: usize, workers: usize) -> u64 {
    (UNMERGED_BYTES / (8 * numbers).max(1)).max(2 * workers) as u64
}

/// Hands out chunks in the order of the rows, and adds their statistics in this order.
struct Queue<'a> {
    state: Mutex<QueueState<'a>>,
    /// Signals that chunks were merged, or that there are no more.
    merged: Condvar,
}

struct QueueState<'a> {
    /// The chunks that were not handed out yet.
    chunks: Range<u64>,
    first: u64,
    /// The number of the next chunk to be added.
    next: u64,
    most_unmerged: u64,
    /// Chunks that wait until they can be added.
    waiting: BTreeMap<u64, (SufficientStats, bool)>,
    sums: &'a mut Sums,
    workspaces: &'a mut Vec<Workspace>,
}

impl<'a> Queue<'a> {
    fn new(chunks: Range<u64>, most_unmerged: u64, sums: &'a mut Sums, workspaces: &'a mut Vec<Workspace>) -> Self {
        let (first, next) = (chunks.start, chunks.start);
        let waiting = BTreeMap::new();
        Queue {
            state: Mutex::new(QueueState { chunks, first, next, most_unmerged, waiting, sums, workspaces }),
            merged: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<'a>> {
        self.state.lock().expect("no worker panics")
    }

    /// The next chunk and the statistics to add it to. Waits while too many are not merged; the
    /// worker that has the earliest of them never waits.
    fn take(&self) -> Option<(u64, SufficientStats)> {
        let is_full = |queue: &mut QueueState| !queue.chunks.is_empty() && queue.chunks.start - queue.next >= queue.most_unmerged;
        let mut queue = self.merged.wait_while(self.lock(), is_full).expect("no worker panics");
        let chunk = queue.chunks.next()?;
        let continues = chunk == queue.first;
        Some((chunk, queue.sums.take_statistics(continues)))
    }

    fn push(&self, chunk: u64, stats: SufficientStats, is_whole: bool) {
        let mut queue = self.lock();
        queue.waiting.insert(chunk, (stats, is_whole));
        let QueueState { next, waiting, sums, .. } = &mut *queue;
        while let Some((stats, is_whole)) = waiting.remove(next) {
            *next += 1;
            match is_whole {
                true => sums.add_chunk(stats),
                false => sums.chunk = Some(stats),
            }
            if is_whole && next.is_multiple_of(sums.chunks_per_block) {
                sums.close_block();
            }
        }
        self.merged.notify_all();
    }
}

/// Ends the queue if a worker panics, so that the others do not wait for its chunk.
struct EndOnPanic<'q, 'a>(&'q Queue<'a>);

impl Drop for EndOnPanic<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            if let Ok(mut queue) = self.0.state.lock() {
                queue.chunks.start = queue.chunks.end;
            }
            self.0.merged.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VonMisesFisher;
    use std::sync::atomic::AtomicU64;

    fn pair() -> Mixture {
        let components = [[1.0, 0.0], [0.0, 1.0]].map(|mu| VonMisesFisher::new(mu.to_vec(), 5.0).unwrap()).to_vec();
        Mixture::new(vec![0.5, 0.5], components).unwrap()
    }

    /// A thread that the system suspends must not let the others fill the memory.
    #[test]
    fn the_statistics_of_few_chunks_wait_for_a_slow_worker() {
        assert_eq!(most_unmerged(10 * 100, 2), 262);
        assert_eq!(most_unmerged(2 * 200_000, 2), 4);
        assert_eq!(most_unmerged(0, 1), UNMERGED_BYTES as u64);
        let mixture = pair();
        let (mut sums, mut workspaces) = (Sums::new(&mixture), Vec::new());
        let queue = Queue::new(0..100, 4, &mut sums, &mut workspaces);
        let (slow, stats) = queue.take().unwrap();
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                while let Some((chunk, stats)) = queue.take() {
                    taken.fetch_add(1, Ordering::SeqCst);
                    queue.push(chunk, stats, true);
                }
            });
            while taken.load(Ordering::SeqCst) < 3 {
                std::thread::yield_now();
            }
            for _ in 0..100 {
                std::thread::yield_now();
                assert_eq!(taken.load(Ordering::SeqCst), 3, "three more than that of the slow worker");
            }
            queue.push(slow, stats, true);
            worker.join().unwrap();
        });
        assert_eq!((taken.into_inner(), queue.lock().next), (99, 100));
        drop(queue);
        assert!(sums.idle.len() <= 6, "{}", sums.idle.len());
    }

    #[test]
    fn a_worker_that_panics_does_not_leave_the_others_waiting() {
        let mixture = pair();
        let (mut sums, mut workspaces) = (Sums::new(&mixture), Vec::new());
        let queue = Queue::new(0..100, 1, &mut sums, &mut workspaces);
        let first = queue.take().unwrap();
        assert_eq!(first.0, 0);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| queue.take().is_none());
            let panics = scope.spawn(|| {
                let _end = EndOnPanic(&queue);
                panic!("expected");
            });
            assert!(panics.join().is_err());
            assert!(waits.join().unwrap());
        });
    }
}
