//! Where a fit begins: directions chosen among or beside the rows, refined by spherical k-means.

pub(crate) mod em_search;
pub mod known_labels;
pub(crate) mod ordered_rows;
pub(crate) mod plus_plus;
pub(crate) mod split_merge;

use crate::density::VonMisesFisher;
use crate::error::{Error, Result};
use crate::m_step::{Maximisation, maximise};
use crate::mixture::{Assignment, Mixture};
use crate::rows::{RowBatch, RowBuffer};
use crate::sampler::Stream;
use crate::start::known_labels::KnownLabels;
use crate::start::ordered_rows::OrderedRows;
use crate::start::plus_plus::{
    ShouldCancel, draw_rows, drawn_once, of_directions, parted, plus_plus, random_directions, random_rows,
};
use crate::start::split_merge::{k_means, split_merge};
use crate::stats::SufficientStats;
use std::ops::ControlFlow;

/// Where a fit begins.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum Start {
    /// Spherical k-means from greedy k-means++ on a sample of the rows (all, if they are few). Components are then taken from where they are missed
    /// least and put where they divide most, as long as that gains something.
    #[default]
    KMeans,
    /// Greedy k-means++ on the sphere (Arthur and Vassilvitskii, 2007): rows far from those chosen before are likely.
    PlusPlus,
    /// Rows chosen by chance.
    RandomRows,
    /// Directions chosen by chance, with equal weights and concentrations of 1, as in Kim (2021).
    Random,
    /// These directions.
    Directions(Vec<Vec<f64>>),
    /// The components that these labels make of the rows, one label a row.
    Labels(Vec<u32>),
    /// This mixture, as it is.
    Mixture(Mixture),
}

/// Seeds are chosen among at most this many rows for each component, and among all of few.
const ROWS_PER_SEED: usize = 64;
const SEED_ROWS: usize = 8192;

/// Rows of which EM's search for better optima looks at no more, unless there are fewer than 64 a component. On half of news20's 18,674 rows it
/// finds optima that are hardly better on all of them.
const SEARCH_ROWS: usize = 32768;

/// As many rows as EM's search looks at.
pub(crate) fn search_rows(components: usize) -> usize {
    SEARCH_ROWS.max(sample_rows(components))
}

/// As many rows as seeds are chosen among.
pub fn sample_rows(components: usize) -> usize {
    SEED_ROWS.max(ROWS_PER_SEED.saturating_mul(components))
}

impl Start {
    /// The first mixture of a fit of these rows; weights and concentrations are those of the rows nearest to each direction.
    pub fn mixture(&self, block: &RowBatch, components: usize, how: &Maximisation, seed: u64) -> Result<Mixture> {
        self.mixture_while(block, components, how, seed, &mut || ControlFlow::Continue(()))
    }

    /// The same for those who may want it to end early, which they are asked before every seed and while k-means passes over the rows; it
    /// is then what was found so far.
    pub fn mixture_while(
        &self,
        block: &RowBatch,
        components: usize,
        how: &Maximisation,
        seed: u64,
        should_cancel: &mut ShouldCancel<'_>,
    ) -> Result<Mixture> {
        if components == 0 {
            return Err(Error::Option { option: "the number of components", range: "at least 1", value: 0.0 });
        }
        if let Some(mixture) = self.without_rows(block.dim(), components, seed) {
            return mixture;
        }
        if !(block.weights().map_or(block.len() as f64, |w| w.iter().sum()) > 0.0) {
            return Err(Error::NoRows { weight: 0.0 });
        }
        // So that choices share no random word with rows drawn with the same seed.
        let mut rng = Stream::new(seed ^ 0x7374_6172, 0);
        match self {
            Start::Mixture(_) | Start::Random => unreachable!("they need no rows"),
            Start::Labels(labels) => {
                let mut labelled = Labelled::new(labels, components, block.dim())?;
                labelled.see(block)?;
                labelled.check()?;
                labelled.mixture(how)
            }
            Start::Directions(directions) => {
                let found = directions.len();
                if found != components {
                    return Err(Error::DirectionCount { expected: components, found });
                }
                if let Some(other) = directions.iter().find(|direction| direction.len() != block.dim()) {
                    return Err(Error::DimensionMismatch { expected: block.dim(), found: other.len() });
                }
                let unit = of_directions(directions.clone())?;
                // Without the sign of zeros.
                let unit = unit.components().iter().map(|density| density.mean_direction().iter().map(|x| x + 0.0).collect());
                nearest_step(block, of_directions(parted(unit.collect(), &mut rng)?)?, how)
            }
            Start::RandomRows => nearest_step(block, of_directions(random_rows(block, components, &mut rng)?)?, how),
            Start::PlusPlus => {
                let mut buffer = RowBuffer::default();
                let sample = sample(block, sample_rows(components), &mut rng, &mut buffer);
                let rows = OrderedRows::new(&sample)?;
                nearest_step(block, of_directions(plus_plus(&rows, components, &mut rng, should_cancel)?.0)?, how)
            }
            Start::KMeans => k_means_of_sample(block, components, how, &mut rng, should_cancel),
        }
    }

    /// The first mixture of a fit of whatever rows, for starts that do not look at them.
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

/// What k-means finds on a sample of the rows, its components put where they do most.
fn k_means_of_sample(
    block: &RowBatch,
    components: usize,
    how: &Maximisation,
    rng: &mut Stream,
    should_cancel: &mut ShouldCancel,
) -> Result<Mixture> {
    let mut buffer = Default::default();
    let sample = sample(block, sample_rows(components), rng, &mut buffer);
    let (seeds, flow) = plus_plus(&OrderedRows::new(&sample)?, components, rng, should_cancel)?;
    let found = k_means(&sample, of_directions(seeds)?, how, &mut || if flow.is_break() { flow } else { should_cancel() })?;
    Ok(split_merge(&sample, found, how, rng, should_cancel)?.mixture)
}

/// At most so many of the rows.
pub(crate) fn sample<'b>(block: &'b RowBatch, most: usize, rng: &mut Stream, buffer: &'b mut RowBuffer) -> RowBatch<'b> {
    if block.len() <= most {
        return block.slice(0, block.len());
    }
    let rows = match block.weights() {
        // Those of a larger sample often weigh the same.
        Some(weights) if weights.iter().any(|weight| *weight != weights[0]) => draw_rows(block, most, rng),
        _ => drawn_once(block.len(), most, rng),
    };
    // Drawn by weight, they count the same.
    block.gather(&rows, buffer).without_weights()
}

/// Directions stay; weights and concentrations come from the rows nearest to each.
fn nearest_step(block: &RowBatch, start: Mixture, how: &Maximisation) -> Result<Mixture> {
    let mut stats = SufficientStats::zero(start.components().len(), start.dim());
    start.accumulate(block, Assignment::Nearest, &mut stats)?;
    let (found, _) = maximise(&stats, &start, how)?;
    let components = start.components().iter().zip(found.components());
    let components = components.map(|(seed, found)| VonMisesFisher::along(seed.mean_direction().to_vec(), found.concentration()));
    Mixture::new(raised(found.weights()), components.collect::<Result<_>>()?)
}

/// A start without any weight could never win a row.
fn raised(weights: &[f64]) -> Vec<f64> {
    let least = 0.1 / weights.len() as f64;
    let raised: Vec<f64> = weights.iter().map(|w| w.max(least)).collect();
    let sum: f64 = raised.iter().sum();
    raised.iter().map(|w| w / sum).collect()
}

/// The components that labels make of rows, block by block.
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
        Ok(Labelled { labels, components, rows: 0, known: KnownLabels::new(dim) })
    }

    pub(crate) fn see(&mut self, block: &RowBatch) -> Result<()> {
        let labels = self.labels.get(self.rows..self.rows + block.len());
        self.rows += block.len();
        // Rows beyond the labels are counted only, so that the error can say how many there are.
        labels.map_or(Ok(()), |labels| self.known.add(block, labels))
    }

    /// All rows have been seen: are there as many labels?
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
        // A component without a label has no direction of its own; the first row's will do until it is restarted.
        let start = of_directions(vec![first_row; self.components])?;
        Ok(maximise(&stats, &start, how)?.0)
    }
}
