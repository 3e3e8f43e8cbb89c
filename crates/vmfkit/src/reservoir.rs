//! [`Reservoir`]: a sample of rows that are read once.

use crate::error::{Error, Result};
use crate::rows::{LARGEST_WEIGHT, RowBatch};
use crate::sampler::Stream;
use rand::RngExt;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A sample of a fixed number of rows, taken in one pass. The weight of any set of rows in the
/// sample is an unbiased estimate of its weight among all rows.
///
/// A row of weight w has the priority w/u with u uniform, and the rows of highest priority are
/// kept. With tau the highest priority that was not kept, a kept row has the weight max(w, tau)
/// (priority sampling: Duffield, Lund and Thorup, doi:10.1145/1314690.1314696). So rows without
/// weights have equal weights, a row that outweighs the others is never lost, and if all rows fit,
/// the sample consists of them with their own weights. It depends on the seed and on the order of
/// the rows, not on the sizes of batches.
///
/// ```
/// use vmfkit::{RowBatch, reservoir::Reservoir};
/// let rows = [1.0, 0.0, 0.0, 1.0, 0.6, 0.8];
/// let mut reservoir = Reservoir::new(2, 7);
/// reservoir.offer(&RowBatch::new(2, &rows[..2])?)?;
/// reservoir.offer(&RowBatch::new(2, &rows[2..])?)?;
/// assert_eq!(reservoir.into_sample()?.len(), 2);
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Reservoir {
    rows: usize,
    rng: Stream,
    dim: usize,
    seen: u64,
    weighted: bool,
    /// The highest priority of a row that was not kept.
    threshold: f64,
    kept: BinaryHeap<Kept>,
}

/// A kept row. The greatest is the first to be replaced.
#[derive(Debug, Clone)]
struct Kept {
    priority: f64,
    number: u64,
    weight: f64,
    label: u32,
    /// The row without its weight.
    row: RowBatch<'static>,
}

impl Ord for Kept {
    fn cmp(&self, other: &Self) -> Ordering {
        other.priority.total_cmp(&self.priority).then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Kept {}

impl Reservoir {
    /// A sample of at most this many rows.
    pub fn new(rows: usize, seed: u64) -> Self {
        Reservoir {
            rows: rows.max(1),
            rng: generator(seed),
            dim: 0,
            seen: 0,
            weighted: false,
            threshold: 0.0,
            kept: BinaryHeap::new(),
        }
    }

    /// Offers a batch of rows, some of which are kept.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`].
    pub fn offer(&mut self, batch: &RowBatch) -> Result<()> {
        self.offer_labelled(batch, |_| 0)
    }

    /// [`Self::offer`] with a label for each row of the batch.
    pub(crate) fn offer_labelled(&mut self, batch: &RowBatch, label: impl Fn(usize) -> u32) -> Result<()> {
        if self.seen > 0 && batch.dim() != self.dim {
            return Err(Error::DimensionMismatch { expected: self.dim, found: batch.dim() });
        }
        self.dim = batch.dim();
        self.weighted |= batch.weights().is_some();
        for row in 0..batch.len() {
            let weight = batch.weights().map_or(1.0, |w| w[row]);
            // In (0, 1], so the priority is finite even for the largest weights.
            let priority = (weight / (1.0 - self.rng.random::<f64>())).min(f64::MAX);
            let number = self.seen;
            self.seen += 1;
            if self.kept.len() == self.rows {
                let lowest = self.kept.peek().expect("capacity for at least one row").priority;
                if priority <= lowest {
                    self.threshold = self.threshold.max(priority);
                    continue;
                }
                self.threshold = self.threshold.max(lowest);
                self.kept.pop();
            }
            self.kept.push(Kept { priority, number, weight, label: label(row), row: batch.owned_row(row) });
        }
        Ok(())
    }

    /// Continues with random numbers of another seed, so that a reservoir can be saved without the state
    /// of its generator.
    pub(crate) fn reseed(&mut self, seed: u64) {
        self.rng = generator(seed);
    }

    /// Multiplies the weights of all rows so far by a factor from 0 to 1, so that older rows are kept
    /// more rarely and count less.
    pub(crate) fn fade(&mut self, factor: f64) {
        self.weighted |= factor < 1.0;
        self.threshold *= factor;
        let mut kept = std::mem::take(&mut self.kept).into_vec();
        for row in &mut kept {
            (row.priority, row.weight) = (row.priority * factor, row.weight * factor);
        }
        self.kept = kept.into();
    }

    /// The number of rows that are kept.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// True if no row is kept.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The number of rows that can be kept.
    pub fn capacity(&self) -> usize {
        self.rows
    }

    /// Everything that is needed to go on after [`Self::reseed`]; `None` without rows.
    pub(crate) fn state(&self) -> Option<ReservoirState> {
        let mut kept: Vec<&Kept> = self.kept.iter().collect();
        kept.sort_unstable_by_key(|kept| kept.number);
        let mut rows = RowBatch::empty_like(&kept.first()?.row);
        for kept in &kept {
            rows.append(&kept.row).expect("all rows have the same dimension");
        }
        let weights: Vec<f64> = kept.iter().map(|kept| kept.weight).collect();
        Some(ReservoirState {
            rows: rows.with_weights(weights).expect("the weights of rows, or less"),
            priorities: kept.iter().map(|kept| kept.priority).collect(),
            seen: self.seen,
            weighted: self.weighted,
            threshold: self.threshold,
        })
    }

    /// An empty reservoir goes on from this state.
    pub(crate) fn restored(mut self, state: &ReservoirState) -> Self {
        let ReservoirState { rows, priorities, seen, weighted, threshold } = state;
        (self.dim, self.seen, self.weighted, self.threshold) = (rows.dim(), *seen, *weighted, *threshold);
        let kept = priorities.iter().enumerate().map(|(row, &priority)| {
            let weight = rows.weights().map_or(1.0, |weights| weights[row]);
            // Only the order of the numbers counts, and later rows have larger ones.
            Kept { priority, number: row as u64, weight, label: 0, row: rows.owned_row(row) }
        });
        self.kept = kept.collect();
        self
    }

    /// The number of rows that were offered.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// The kept rows in their order, with their weights. Rows of several kinds are converted to the
    /// widest; see [`RowBatch::append`].
    ///
    /// # Errors
    /// [`Error::NoRows`] if there were none.
    pub fn into_sample(self) -> Result<RowBatch<'static>> {
        Ok(self.into_labelled_sample()?.0)
    }

    /// [`Self::into_sample`] with the label of each row.
    pub(crate) fn into_labelled_sample(self) -> Result<(RowBatch<'static>, Vec<u32>)> {
        let mut kept = self.kept.into_vec();
        kept.sort_unstable_by_key(|kept| kept.number);
        let Some(first) = kept.first() else { return Err(Error::NoRows { weight: 0.0 }) };
        let mut sample = RowBatch::empty_like(&first.row);
        for kept in &kept {
            sample.append(&kept.row)?;
        }
        let is_weighted = self.weighted || self.seen > kept.len() as u64;
        if is_weighted {
            // The threshold may exceed the largest weight that rows can have.
            let weight = |kept: &Kept| kept.weight.max(self.threshold).min(LARGEST_WEIGHT);
            sample = sample.with_weights(kept.iter().map(weight).collect::<Vec<_>>())?;
        }
        Ok((sample, kept.iter().map(|kept| kept.label).collect()))
    }
}

/// What [`Reservoir::restored`] goes on from. Labels are not part of it.
pub(crate) struct ReservoirState {
    /// In their order, with their own weights.
    pub rows: RowBatch<'static>,
    pub priorities: Vec<f64>,
    pub seen: u64,
    pub weighted: bool,
    pub threshold: f64,
}

/// Priorities share no random word with rows drawn with the same seed.
fn generator(seed: u64) -> Stream {
    Stream::new(seed ^ 0x7265_7365, 0)
}
