//! [`Source`]: where blocks of rows come from, pass after pass; [`Batches`]: the mini-batches they are cut into.

use crate::error::{Error, Result};
use crate::rows::loose::LooseRows;
use crate::rows::{RowBatch, RowBuffer};
use crate::sampler::Stream;
use rand::seq::SliceRandom;
use std::ops::ControlFlow;

/// Rows that are read block by block, once or many times.
///
/// Implement it for rows that do not fit into memory or come from somewhere else; `dim`, `read_block` and `rewind` are enough, and
/// [`Error::read`] wraps an error of your own. For rows in memory there is [`MemorySource`], for files the crate vmfkit-io. The example
/// `custom_source` is a whole program.
///
/// ```
/// use vmfkit::{RowBatch, Fitter, Result, Sampler, VonMisesFisher, source::Source};
///
/// /// Draws of a seed that are never all in memory.
/// struct Draws {
///     sampler: Sampler,
///     blocks: u64,
///     next: u64,
///     rows: Vec<f32>,
/// }
///
/// impl Source for Draws {
///     fn dim(&self) -> usize {
///         self.sampler.dim()
///     }
///     fn read_block(&mut self) -> Result<Option<RowBatch<'_>>> {
///         if self.next == self.blocks {
///             return Ok(None);
///         }
///         self.rows.resize(100 * self.dim(), 0.0);
///         self.sampler.fill(1, 100 * self.next, &mut self.rows)?;
///         self.next += 1;
///         RowBatch::new(self.dim(), &self.rows).map(Some)
///     }
///     fn rewind(&mut self) -> Result<()> {
///         self.next = 0;
///         Ok(())
///     }
/// }
///
/// let sampler = Sampler::new(&VonMisesFisher::new(vec![0.6, 0.8], 20.0)?);
/// let fit = Fitter::new(1).fit_source(&mut Draws { sampler, blocks: 10, next: 0, rows: Vec::new() })?;
/// assert_eq!(fit.rows, 1000);
/// # Ok::<(), vmfkit::Error>(())
/// ```
pub trait Source: Send {
    /// The length of a row.
    fn dim(&self) -> usize;
    /// The next block, none after the last row.
    fn read_block(&mut self) -> Result<Option<RowBatch<'_>>>;
    /// The same for those who check loose rows while they work on them.
    fn read_portion(&mut self) -> Result<Option<Portion<'_>>> {
        Ok(self.read_block()?.map(Portion::RowBatch))
    }
    /// From the next pass on, blocks of this many rows are best; of any number if there is none. A source may go by it or not: no answer depends on it.
    fn prefer_rows(&mut self, _rows: Option<usize>) {}
    /// Ends the pass with an error of the loose rows that were read last, which is given back with the place where they are from.
    fn refuse(&mut self, error: Error) -> Error {
        error
    }
    /// Back to the first row, also before the first pass; [`Error::CannotRewind`] where rows that were read
    /// are gone.
    fn rewind(&mut self) -> Result<()>;
    /// False if rows that were read are gone, as those of a pipe are: such a source is fitted in one pass or not at all.
    fn can_rewind(&self) -> bool {
        true
    }
    /// How many rows a pass has, where that is known before its end.
    fn rows(&self) -> Option<u64> {
        None
    }
}

/// Rows of a source.
#[derive(Debug, Clone)]
pub enum Portion<'a> {
    /// They were checked.
    RowBatch(RowBatch<'a>),
    /// They are yet to be.
    Loose(LooseRows<'a>),
}

impl Portion<'_> {
    /// The number of rows.
    pub fn len(&self) -> usize {
        match self {
            Portion::RowBatch(block) => block.len(),
            Portion::Loose(rows) => rows.len(),
        }
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Rows in memory: as one block, in batches, or in batches of rows shuffled anew in every pass.
///
/// ```
/// use vmfkit::{RowBatch, source::{MemorySource, Source}};
/// let rows = [1.0, 0.0, 0.0, 1.0, 0.6, 0.8];
/// let mut source = MemorySource::new(RowBatch::new(2, &rows)?).batches(2);
/// assert_eq!(source.read_block()?.unwrap().len(), 2);
/// assert_eq!(source.read_block()?.unwrap().len(), 1);
/// assert!(source.read_block()?.is_none());
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug)]
pub struct MemorySource<'a> {
    block: RowBatch<'a>,
    batch: usize,
    next: usize,
    pass: u64,
    shuffle: Option<Shuffle>,
    buffer: RowBuffer,
}

impl<'a> MemorySource<'a> {
    /// The rows of a block, all at once.
    pub fn new(block: RowBatch<'a>) -> Self {
        MemorySource { batch: block.len().max(1), block, next: 0, pass: 0, shuffle: None, buffer: RowBuffer::default() }
    }

    /// At most this many rows at a time.
    pub fn batches(mut self, rows: usize) -> Self {
        self.batch = rows.max(1);
        self
    }

    /// In an order of its own in every pass, which depends on the seed alone.
    pub fn shuffled(mut self, seed: u64) -> Self {
        self.shuffle = Some(Shuffle::new(seed));
        self
    }
}

impl Source for MemorySource<'_> {
    fn dim(&self) -> usize {
        self.block.dim()
    }

    fn read_block(&mut self) -> Result<Option<RowBatch<'_>>> {
        let (from, to) = (self.next, (self.next + self.batch).min(self.block.len()));
        if from == to {
            return Ok(None);
        }
        self.next = to;
        Ok(Some(match &mut self.shuffle {
            Some(shuffle) => self.block.gather(&shuffle.order(self.pass, 0, self.block.len())[from..to], &mut self.buffer),
            None => self.block.slice(from, to),
        }))
    }

    fn rewind(&mut self) -> Result<()> {
        self.pass += u64::from(self.next > 0);
        self.next = 0;
        Ok(())
    }

    fn rows(&self) -> Option<u64> {
        Some(self.block.len() as u64)
    }
}

/// How the blocks of a source are cut into mini-batches.
///
/// Batches never reach from one block to the next: the last of a block may be smaller, and a block with fewer rows is one batch. Shuffling
/// moves rows within their block only, so rows that are sorted by what they are want large blocks. With [`windows`](Self::windows) the blocks are
/// of one length, however the rows come.
#[derive(Debug)]
pub struct Batches {
    rows: usize,
    shuffle: Option<Shuffle>,
    windows: Option<usize>,
    buffer: RowBuffer,
}

impl Batches {
    /// At most this many rows a batch.
    pub fn new(rows: usize) -> Self {
        Batches { rows: rows.max(1), shuffle: None, windows: None, buffer: RowBuffer::default() }
    }

    /// The rows of each block in an order that depends on the seed, the pass and the block's number alone.
    pub fn shuffled(mut self, seed: u64) -> Self {
        self.shuffle = Some(Shuffle::new(seed));
        self
    }

    /// Joins and cuts the source's blocks into windows of this many rows first, so that no answer depends on how rows come in blocks.
    pub fn windows(mut self, rows: usize) -> Self {
        self.windows = Some(rows.max(1));
        self
    }

    /// The rows of a window, if there are any.
    pub(crate) fn window_rows(&self) -> Option<usize> {
        self.windows
    }

    /// Shows the batches of a block, the `number`th of a pass (both counted from 0), in turn, until one is the last wanted.
    pub fn visit(
        &mut self,
        block: &RowBatch,
        pass: u64,
        number: u64,
        mut see: impl FnMut(&RowBatch) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        self.draw(block.len(), pass, number, |drawn, buffer| match drawn {
            Drawn::Listed(rows) => see(&block.gather(rows, buffer)),
            Drawn::Range(from, to) => see(&block.slice(from, to)),
        })
    }

    /// The same for loose rows, which are checked when their batch is drawn.
    pub(crate) fn visit_loose(
        &mut self,
        rows: &LooseRows,
        pass: u64,
        number: u64,
        mut see: impl FnMut(&RowBatch) -> Result<ControlFlow<()>>,
    ) -> std::result::Result<ControlFlow<()>, Failure> {
        let mut wrong = None;
        let flow = self.draw(rows.len(), pass, number, |drawn, buffer| {
            let batch = match drawn {
                Drawn::Listed(listed) => rows.gather(listed, buffer),
                Drawn::Range(from, to) => rows.slice(from, to, buffer),
            };
            batch.map_or_else(
                |error| {
                    wrong = Some(error);
                    Ok(ControlFlow::Break(()))
                },
                |batch| see(&batch),
            )
        });
        wrong.map_or(flow.map_err(Failure::Step), |error| Err(Failure::Row(error)))
    }

    /// Tells the rows of batch after batch, and has a buffer for them, until one is the last wanted.
    fn draw(
        &mut self,
        rows: usize,
        pass: u64,
        number: u64,
        mut see: impl FnMut(Drawn, &mut RowBuffer) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let order = self.shuffle.as_mut().map(|shuffle| shuffle.order(pass, number, rows));
        for from in (0..rows).step_by(self.rows) {
            let to = (from + self.rows).min(rows);
            let drawn = order.map_or(Drawn::Range(from, to), |order| Drawn::Listed(&order[from..to]));
            if see(drawn, &mut self.buffer)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Why rows could not be worked on.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A row is wrong: the error names the first, and the source knows where it is from.
    Row(Error),
    /// What was to be done with the rows failed.
    Step(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Step(error)
    }
}

/// Which rows of a block are in a batch.
enum Drawn<'o> {
    /// Those with these numbers, in this order.
    Listed(&'o [usize]),
    /// Those from the first number to the one before the second.
    Range(usize, usize),
}

/// The order of a block's rows in a pass.
///
/// The first block of a pass, often the only one, goes on from its order in the pass before, which is kept; orders of all the others
/// would take too much memory, so they are made from nothing.
#[derive(Debug)]
struct Shuffle {
    seed: u64,
    /// The first block's order in the pass before the one given, and the stream that shuffles it on.
    first: Vec<usize>,
    rng: Stream,
    passes: u64,
    other: Vec<usize>,
}

impl Shuffle {
    fn new(seed: u64) -> Self {
        // So that the order shares no random word with rows drawn with the same seed.
        let seed = seed ^ 0x6f72_6465;
        Shuffle { seed, first: Vec::new(), rng: Stream::new(seed, 0), passes: 0, other: Vec::new() }
    }

    fn order(&mut self, pass: u64, block: u64, len: usize) -> &[usize] {
        if block > 0 {
            self.other.clear();
            self.other.extend(0..len);
            self.other.shuffle(&mut Stream::new(Stream::derive(self.seed, pass), block));
            return &self.other;
        }
        if self.first.len() != len || self.passes > pass + 1 {
            self.first = (0..len).collect();
            self.rng = Stream::new(self.seed, 0);
            self.passes = 0;
        }
        for _ in self.passes..=pass {
            self.first.shuffle(&mut self.rng);
        }
        self.passes = pass + 1;
        &self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fit that is resumed asks for the order of a late pass first.
    #[test]
    fn the_order_of_a_pass_does_not_depend_on_what_was_asked_before() {
        let mut forward = Shuffle::new(3);
        let orders: Vec<Vec<usize>> = (0..12).map(|at| forward.order(at / 3, at % 3, 50 + (at % 3) as usize).to_vec()).collect();
        for at in (0..12).rev() {
            let fresh = Shuffle::new(3).order(at / 3, at % 3, 50 + (at % 3) as usize).to_vec();
            assert_eq!(fresh, orders[at as usize]);
            assert_eq!(forward.order(at / 3, at % 3, 50 + (at % 3) as usize), fresh);
            let mut sorted = fresh;
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..50 + (at % 3) as usize));
        }
        let distinct: std::collections::BTreeSet<_> = orders.iter().collect();
        assert_eq!(distinct.len(), 12);
    }
}
