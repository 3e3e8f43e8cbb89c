//! [`Source`]: where blocks of rows come from, pass after pass.

use crate::block::{Block, RowBuffer};
use crate::error::Result;
use crate::sampler::Stream;
use rand::seq::SliceRandom;

/// Rows that are read block by block, once or many times.
pub trait Source: Send {
    /// The length of a row.
    fn dim(&self) -> usize;
    /// The next block, none after the last row.
    fn read_block(&mut self) -> Result<Option<Block<'_>>>;
    /// Back to the first row, also before the first pass; [`Error::CannotRewind`](crate::Error::CannotRewind) where rows that were read are gone.
    fn rewind(&mut self) -> Result<()>;
}

/// Rows in memory: as one block, in batches, or in batches of rows shuffled anew in every pass.
///
/// ```
/// use vmfkit::{Block, source::{MemorySource, Source}};
/// let rows = [1.0, 0.0, 0.0, 1.0, 0.6, 0.8];
/// let mut source = MemorySource::new(Block::new(2, &rows)?).batches(2);
/// assert_eq!(source.read_block()?.unwrap().len(), 2);
/// assert_eq!(source.read_block()?.unwrap().len(), 1);
/// assert!(source.read_block()?.is_none());
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug)]
pub struct MemorySource<'a> {
    block: Block<'a>,
    batch: usize,
    next: usize,
    /// The row numbers in the order of this pass, if they are shuffled.
    order: Option<(Vec<usize>, Stream)>,
    buffer: RowBuffer,
}

impl<'a> MemorySource<'a> {
    /// The rows of a block, all at once.
    pub fn new(block: Block<'a>) -> Self {
        MemorySource { batch: block.len().max(1), block, next: 0, order: None, buffer: RowBuffer::default() }
    }

    /// At most this many rows at a time.
    pub fn batches(mut self, rows: usize) -> Self {
        self.batch = rows.max(1);
        self
    }

    /// In an order of its own in every pass, which depends on the seed alone.
    pub fn shuffled(mut self, seed: u64) -> Self {
        // So that the order shares no random word with rows drawn with the same seed.
        let mut rng = Stream::new(seed ^ 0x6f72_6465, 0);
        let mut order: Vec<usize> = (0..self.block.len()).collect();
        order.shuffle(&mut rng);
        self.order = Some((order, rng));
        self
    }
}

impl Source for MemorySource<'_> {
    fn dim(&self) -> usize {
        self.block.dim()
    }

    fn read_block(&mut self) -> Result<Option<Block<'_>>> {
        let (from, to) = (self.next, (self.next + self.batch).min(self.block.len()));
        if from == to {
            return Ok(None);
        }
        self.next = to;
        Ok(Some(match &self.order {
            Some((order, _)) => self.block.gather(&order[from..to], &mut self.buffer),
            None => self.block.slice(from, to),
        }))
    }

    fn rewind(&mut self) -> Result<()> {
        if self.next > 0
            && let Some((order, rng)) = &mut self.order
        {
            order.shuffle(rng);
        }
        self.next = 0;
        Ok(())
    }
}
