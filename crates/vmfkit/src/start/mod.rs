//! [`Start`]: the first mixture of a fit.

pub(crate) mod em_search;
mod kmeans;
pub mod known_labels;
pub(crate) mod ordered_rows;
pub(crate) mod plus_plus;
pub(crate) mod split_merge;

use crate::density::VonMisesFisher;
use crate::error::{Error, Result};
use crate::m_step::{Maximisation, maximise};
use crate::mixture::{Assignment, Mixture};
use crate::rows::RowBatch;
use crate::sampler::Stream;
use crate::start::kmeans::k_means;
use crate::start::known_labels::KnownLabels;
use crate::start::ordered_rows::OrderedRows;
use crate::start::plus_plus::{
    ShouldCancel, draw_rows, drawn_once, of_directions, parted, plus_plus, random_directions, random_rows,
};
use crate::start::split_merge::split_merge;
use crate::stats::SufficientStats;
use std::ops::ControlFlow;

/// The start of a fit.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum Start {
    /// Spherical k-means from greedy k-means++ seeds, on a sample of the rows (all, if they are
    /// few), improved by split and merge.
    #[default]
    KMeans,
    /// Greedy k-means++ on the sphere (Arthur and Vassilvitskii, 2007), which favours rows far from
    /// the seeds so far.
    PlusPlus,
    /// Random rows.
    RandomRows,
    /// Random directions, with equal weights and concentrations of 1, as in Kim (2021).
    Random,
    /// These directions.
    Directions(Vec<Vec<f64>>),
    /// One component for each label; one label per row.
    Labels(Vec<u32>),
    /// This mixture.
    Mixture(Mixture),
}

/// The size of the sample for seeds: rows per component, and the minimum.
const ROWS_PER_SEED: usize = 64;
const SEED_ROWS: usize = 8192;

/// The size of the sample for the split-and-merge search of EM, unless that is less than 64 rows
/// per component. A search on half of the 18,674 rows of news20 finds optima that hardly improve
/// the likelihood of all rows.
const SEARCH_ROWS: usize = 32768;

/// The number of rows that the search of EM samples.
pub(crate) fn search_rows(components: usize) -> usize {
    SEARCH_ROWS.max(sample_rows(components))
}

/// The number of rows that seeds are sampled from.
pub fn sample_rows(components: usize) -> usize {
    SEED_ROWS.max(ROWS_PER_SEED.saturating_mul(components))
}

impl Start {
    /// The first mixture of a fit of these rows. Weights and concentrations are estimated from the
    /// rows nearest to each direction.
    pub fn mixture(&self, batch: &RowBatch, components: usize, how: &Maximisation, seed: u64) -> Result<Mixture> {
        self.mixture_while(batch, components, how, seed, &mut || ControlFlow::Continue(()))
    }

    /// The same, which calls `should_cancel` before every seed and during k-means, and returns what
    /// it has so far if it is cancelled.
    pub fn mixture_while(
        &self,
        batch: &RowBatch,
        components: usize,
        how: &Maximisation,
        seed: u64,
        should_cancel: &mut ShouldCancel<'_>,
    ) -> Result<Mixture> {
        if components == 0 {
            return Err(Error::Option { option: "the number of components", range: "at least 1", value: 0.0 });
        }
        if let Some(mixture) = self.without_rows(batch.dim(), components, seed) {
            return mixture;
        }
        if !(batch.weights().map_or(batch.len() as f64, |w| w.iter().sum()) > 0.0) {
            return Err(Error::NoRows { weight: 0.0 });
        }
        let mut buffer = RowBatch::default();
        let batch = &batch.validated_slice(0, batch.len(), &mut buffer)?;
        // Another stream than that of rows drawn with the same seed.
        let mut rng = Stream::new(seed ^ 0x7374_6172, 0);
        match self {
            Start::Mixture(_) | Start::Random => unreachable!("they need no rows"),
            Start::Labels(labels) => {
                let mut labelled = Labelled::new(labels, components, batch.dim())?;
                labelled.see(batch)?;
                labelled.check()?;
                labelled.mixture(how)
            }
            Start::Directions(directions) => {
                let found = directions.len();
                if found != components {
                    return Err(Error::DirectionCount { expected: components, found });
                }
                if let Some(other) = directions.iter().find(|direction| direction.len() != batch.dim()) {
                    return Err(Error::DimensionMismatch { expected: batch.dim(), found: other.len() });
                }
                let unit = of_directions(directions.clone())?;
                // Equal directions must have equal bits: -0.0 becomes 0.0.
                let unit = unit.components().iter().map(|density| density.mean_direction().iter().map(|x| x + 0.0).collect());
                nearest_step(batch, of_directions(parted(unit.collect(), &mut rng)?)?, how)
            }
            Start::RandomRows => nearest_step(batch, of_directions(random_rows(batch, components, &mut rng)?)?, how),
            Start::PlusPlus => {
                let mut buffer = RowBatch::default();
                let sample = sample(batch, sample_rows(components), &mut rng, &mut buffer);
                let rows = OrderedRows::new(&sample)?;
                nearest_step(batch, of_directions(plus_plus(&rows, components, &mut rng, should_cancel)?.0)?, how)
            }
            Start::KMeans => k_means_of_sample(batch, components, how, &mut rng, should_cancel),
        }
    }

    /// The first mixture of a fit, for starts that need no rows.
    pub(crate) fn without_rows(&self, dim: usize, components: usize, seed: u64) -> Option<Result<Mixture>> {
        match self {
            Start::Mixture(mixture) if mixture.dim() != dim => {
                Some(Err(Error::DimensionMismatch { expected: dim, found: mixture.dim() }))
            }
            Start::Mixture(mixture) if mixture.components().len() - usize::from(mixture.has_background()) != components => {
                let found = mixture.components().len() - usize::from(mixture.has_background());
                let what = "the mixture to start from, without its background,";
                Some(Err(Error::ComponentMismatch { what, expected: components, found }))
            }
            Start::Mixture(mixture) => Some(Ok(mixture.clone())),
            Start::Random => Some(random_directions(dim, components, seed).and_then(of_directions)),
            _ => None,
        }
    }
}

/// k-means on a sample of the rows, improved by split and merge.
fn k_means_of_sample(
    batch: &RowBatch,
    components: usize,
    how: &Maximisation,
    rng: &mut Stream,
    should_cancel: &mut ShouldCancel,
) -> Result<Mixture> {
    let mut buffer = RowBatch::default();
    let sample = sample(batch, sample_rows(components), rng, &mut buffer);
    let (seeds, flow) = plus_plus(&OrderedRows::new(&sample)?, components, rng, should_cancel)?;
    let found = k_means(&sample, of_directions(seeds)?, how, &mut || if flow.is_break() { flow } else { should_cancel() })?;
    Ok(split_merge(&sample, found, how, rng, should_cancel)?.mixture)
}

/// A sample of at most this many rows.
pub(crate) fn sample<'b>(batch: &'b RowBatch, most: usize, rng: &mut Stream, buffer: &'b mut RowBatch<'static>) -> RowBatch<'b> {
    if batch.len() <= most {
        return batch.slice(0, batch.len());
    }
    let rows = match batch.weights() {
        // Unequal weights: rows are drawn with them. The rows of a sample often have equal weights.
        Some(weights) if weights.iter().any(|weight| *weight != weights[0]) => draw_rows(batch, most, rng),
        _ => drawn_once(batch.len(), most, rng),
    };
    // Rows that were drawn with their weights count equally.
    batch.gather(&rows, buffer).expect("the rows are validated").without_weights()
}

/// Keeps the directions and estimates weights and concentrations from the rows nearest to each.
fn nearest_step(batch: &RowBatch, start: Mixture, how: &Maximisation) -> Result<Mixture> {
    let mut stats = SufficientStats::zero(start.components().len(), start.dim());
    start.accumulate(batch, Assignment::Nearest, &mut stats)?;
    let (found, _) = maximise(&stats, &start, how)?;
    let components = start.components().iter().zip(found.components());
    let components = components.map(|(seed, found)| VonMisesFisher::along(seed.mean_direction().to_vec(), found.concentration()));
    Mixture::new(raised(found.weights()), components.collect::<Result<_>>()?)
}

/// Raises weights: a component of weight 0 could never win a row.
fn raised(weights: &[f64]) -> Vec<f64> {
    let least = 0.1 / weights.len() as f64;
    let raised: Vec<f64> = weights.iter().map(|w| w.max(least)).collect();
    let sum: f64 = raised.iter().sum();
    raised.iter().map(|w| w / sum).collect()
}

/// The components of labels, from batches of rows.
pub(crate) struct Labelled<'a> {
    labels: &'a [u32],
    components: usize,
    rows: usize,
    known: KnownLabels<u32>,
}

impl<'a> Labelled<'a> {
    pub(crate) fn new(labels: &'a [u32], components: usize, dim: usize) -> Result<Self> {
        if let Some((row, &label)) = labels.iter().enumerate().find(|(_, label)| **label as usize >= components) {
            return Err(Error::Label { row, components, label });
        }
        Ok(Labelled { labels, components, rows: 0, known: KnownLabels::new(dim).uncalibrated() })
    }

    pub(crate) fn see(&mut self, batch: &RowBatch) -> Result<()> {
        let labels = self.labels.get(self.rows..self.rows + batch.len());
        self.rows += batch.len();
        // Rows beyond the labels are counted for the error.
        labels.map_or(Ok(()), |labels| self.known.add(batch, labels))
    }

    /// Whether there is a label for each of the rows that were seen.
    pub(crate) fn check(&self) -> Result<()> {
        match self.labels.len() {
            found if found == self.rows => Ok(()),
            found => Err(Error::LabelCount { expected: self.rows, found }),
        }
    }

    pub(crate) fn mixture(self, how: &Maximisation) -> Result<Mixture> {
        let (of_labels, first_row) = self.known.into_stats()?;
        if first_row.is_empty() {
            return Err(Error::NoRows { weight: 0.0 });
        }
        let mut stats = SufficientStats::zero(self.components, first_row.len());
        of_labels.iter().for_each(|(label, of_label)| stats.merge_into(*label as usize, of_label));
        // A component without rows gets the direction of the first row until it is restarted.
        let start = of_directions(vec![first_row; self.components])?;
        Ok(maximise(&stats, &start, how)?.0)
    }
}
