//! [`Source`]: batches of rows, pass after pass; [`MiniBatches`]: the mini-batches they are cut into.

use crate::error::Result;
use crate::rows::RowBatch;
use crate::sampler::Stream;
use rand::seq::SliceRandom;
use std::ops::ControlFlow;

/// Rows that are read batch by batch, once or many times.
///
/// Implement it for rows that do not fit into memory or are in a format that vmfkit-io does not
/// read; `dim`, `next_batch` and `rewind` are enough, and [`Error::read`](crate::Error::read) wraps
/// an error of your own. For rows in memory there is [`MemorySource`], for files the crate
/// vmfkit-io. The example `custom_source` is a complete program.
///
/// ```
/// use vmfkit::{RowBatch, Fitter, Result, Sampler, VonMisesFisher, source::Source};
///
/// /// Draws of a seed that are never all in memory.
/// struct Draws {
///     sampler: Sampler,
///     batches: u64,
///     next: u64,
///     rows: Vec<f32>,
/// }
///
/// impl Source for Draws {
///     fn dim(&self) -> usize {
///         self.sampler.dim()
///     }
///     fn next_batch(&mut self) -> Result<Option<RowBatch<'_>>> {
///         if self.next == self.batches {
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
/// let fit = Fitter::new(1).fit_source(&mut Draws { sampler, batches: 10, next: 0, rows: Vec::new() })?;
/// assert_eq!(fit.rows, 1000);
/// # Ok::<(), vmfkit::Error>(())
/// ```
pub trait Source: Send {
    /// The length of a row.
    fn dim(&self) -> usize;
    /// The next rows; `None` after the last.
    ///
    /// The rows need not be validated ([`RowBatch::unvalidated`], [`RowBatch::from_bytes`]): the
    /// caller validates them. Errors then locate a bad row by [`RowBatch::with_origin`].
    fn next_batch(&mut self) -> Result<Option<RowBatch<'_>>>;
    /// The next rows, validated; bytes are copied to `buffer`.
    fn next_validated<'s>(&'s mut self, buffer: &'s mut RowBatch<'static>) -> Result<Option<RowBatch<'s>>> {
        self.next_batch()?.map(|batch| batch.validated(buffer)).transpose()
    }
    /// Tells the source that batches of this many rows are fastest from the next pass on; `None`
    /// means that any number is as fast. A source may ignore it: results do not depend on it.
    fn prefer_rows(&mut self, _rows: Option<usize>) {}
    /// Goes back to the first row, also before the first pass;
    /// [`Error::CannotRewind`](crate::Error::CannotRewind) if rows can be read only once.
    fn rewind(&mut self) -> Result<()>;
    /// False if rows can be read only once, as those of a pipe: such a source can only be fitted in
    /// one pass.
    fn can_rewind(&self) -> bool {
        true
    }
    /// The number of rows of a pass, if it is known before the end of the pass.
    fn rows(&self) -> Option<u64> {
        None
    }
}

/// Rows in memory: in one batch, in several, or in batches of rows that are shuffled in every pass.
///
/// ```
/// use vmfkit::{RowBatch, source::{MemorySource, Source}};
/// let rows = [1.0, 0.0, 0.0, 1.0, 0.6, 0.8];
/// let mut source = MemorySource::new(RowBatch::new(2, &rows)?).batches(2);
/// assert_eq!(source.next_batch()?.unwrap().len(), 2);
/// assert_eq!(source.next_batch()?.unwrap().len(), 1);
/// assert!(source.next_batch()?.is_none());
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug)]
pub struct MemorySource<'a> {
    rows: RowBatch<'a>,
    batch_rows: usize,
    next: usize,
    pass: u64,
    shuffle: Option<Shuffle>,
    buffer: RowBatch<'static>,
}

impl<'a> MemorySource<'a> {
    /// All rows in one batch.
    pub fn new(rows: RowBatch<'a>) -> Self {
        MemorySource { batch_rows: rows.len().max(1), rows, next: 0, pass: 0, shuffle: None, buffer: RowBatch::default() }
    }

    /// At most this many rows at a time.
    pub fn batches(mut self, rows: usize) -> Self {
        self.batch_rows = rows.max(1);
        self
    }

    /// Shuffles the rows in every pass, in an order that depends only on the seed and the pass.
    pub fn shuffled(mut self, seed: u64) -> Self {
        self.shuffle = Some(Shuffle::new(seed));
        self
    }
}

impl Source for MemorySource<'_> {
    fn dim(&self) -> usize {
        self.rows.dim()
    }

    fn next_batch(&mut self) -> Result<Option<RowBatch<'_>>> {
        let (from, to) = (self.next, (self.next + self.batch_rows).min(self.rows.len()));
        if from == to {
            return Ok(None);
        }
        self.next = to;
        match &mut self.shuffle {
            Some(shuffle) => {
                let order = &shuffle.order(self.pass, 0, self.rows.len())[from..to];
                self.rows.gather(order, &mut self.buffer).map(Some)
            }
            None => Ok(Some(self.rows.slice(from, to))),
        }
    }

    fn rewind(&mut self) -> Result<()> {
        self.pass += u64::from(self.next > 0);
        self.next = 0;
        Ok(())
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows.len() as u64)
    }
}

/// How the batches of a source are cut into mini-batches.
///
/// A mini-batch has rows of one batch only: the last of a batch may be smaller, and a batch with
/// fewer rows is one mini-batch. Shuffling moves rows within their batch only, so rows that are
/// sorted need large batches. With [`windows`](Self::windows) batches are first joined or cut to
/// one length.
#[derive(Debug)]
pub struct MiniBatches {
    rows: usize,
    shuffle: Option<Shuffle>,
    windows: Option<usize>,
    buffer: RowBatch<'static>,
}

impl MiniBatches {
    /// At most this many rows in a mini-batch.
    pub fn new(rows: usize) -> Self {
        MiniBatches { rows: rows.max(1), shuffle: None, windows: None, buffer: RowBatch::default() }
    }

    /// The rows of each batch in an order that depends only on the seed, the pass and the number of
    /// the batch.
    pub fn shuffled(mut self, seed: u64) -> Self {
        self.shuffle = Some(Shuffle::new(seed));
        self
    }

    /// First joins or cuts the source's batches to windows of this many rows, so that no result
    /// depends on their sizes.
    pub fn windows(mut self, rows: usize) -> Self {
        self.windows = Some(rows.max(1));
        self
    }

    /// The number of rows of a window, if there are windows.
    pub(crate) fn window_rows(&self) -> Option<usize> {
        self.windows
    }

    /// Calls `see` with the mini-batches of a batch, until it breaks. The batch is the `number`th
    /// of a pass; both are counted from 0.
    ///
    /// Rows that are not yet validated are validated with their mini-batch.
    pub fn visit(
        &mut self,
        batch: &RowBatch,
        pass: u64,
        number: u64,
        mut see: impl FnMut(&RowBatch) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let batch = &batch.validated_if_sparse()?;
        let order = self.shuffle.as_mut().map(|shuffle| shuffle.order(pass, number, batch.len()));
        for from in (0..batch.len()).step_by(self.rows) {
            let to = (from + self.rows).min(batch.len());
            let rows = match order {
                Some(order) => batch.gather(&order[from..to], &mut self.buffer)?,
                None => batch.validated_slice(from, to, &mut self.buffer)?,
            };
            if see(&rows)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The order of a batch's rows in a pass.
///
/// The first batch of a pass is often the only one: its order is kept and shuffled again in the
/// next pass. Orders of all other batches would take too much memory, so each is made anew.
#[derive(Debug)]
struct Shuffle {
    seed: u64,
    /// The first batch's order in the last pass that was asked for, and the generator that shuffles
    /// it.
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

    fn order(&mut self, pass: u64, batch: u64, len: usize) -> &[usize] {
        if batch > 0 {
            self.other.clear();
            self.other.extend(0..len);
            self.other.shuffle(&mut Stream::new(Stream::derive(self.seed, pass), batch));
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
