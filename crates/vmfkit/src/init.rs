//! Where a fit begins: directions chosen among or beside the rows, refined by spherical k-means.

use crate::block::{Block, RowBuffer};
use crate::distribution::VonMisesFisher;
use crate::error::{Error, Result};
use crate::maximise::{Maximisation, maximise};
use crate::mixture::{Assignment, Mixture, projections};
use crate::sampler::{Sampler, Stream};
use crate::source::MemorySource;
use crate::stats::SufficientStats;
use crate::train::{Em, Fit, Status, Stop, Trainer, fit_while};
use rand::RngExt;
use rand::seq::SliceRandom;
use std::ops::ControlFlow;

/// Asked whether to go on.
pub(crate) type GoOn<'a> = dyn FnMut() -> ControlFlow<()> + Send + 'a;

/// Where a fit begins.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum Start {
    /// Spherical k-means from greedy k-means++ on a sample of the rows (all, if they are few), the best of five tries.
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

/// As many rows as seeds are chosen among.
pub fn sample_rows(components: usize) -> usize {
    SEED_ROWS.max(ROWS_PER_SEED.saturating_mul(components))
}

/// How often k-means begins anew on a sample; docs/default-policy.md tells what that gains.
const TRIES: usize = 5;

/// Products after which k-means asks whether to go on, some tenths of a second of work. Samples are smaller unless components are many.
const PRODUCTS_AT_ONCE: usize = 1 << 32;

/// When k-means on the sample has done enough.
const TRY_STOP: Stop = Stop { tolerance: Some(1e-5), passes: 50 };

impl Start {
    /// The first mixture of a fit of these rows; weights and concentrations are those of the rows nearest to each direction.
    pub fn mixture(&self, block: &Block, components: usize, how: &Maximisation, seed: u64) -> Result<Mixture> {
        self.mixture_while(block, components, how, seed, &mut || ControlFlow::Continue(()))
    }

    /// The same for those who may want it to end early, which they are asked before every seed and while k-means passes over the rows; it
    /// is then what was found so far.
    pub fn mixture_while(
        &self,
        block: &Block,
        components: usize,
        how: &Maximisation,
        seed: u64,
        go_on: &mut GoOn<'_>,
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
                labelled.see(block);
                labelled.check()?;
                labelled.mixture(how)
            }
            Start::Directions(directions) => {
                let found = directions.len();
                if found != components {
                    let range = "as many as components";
                    return Err(Error::Option { option: "the number of given directions", range, value: found as f64 });
                }
                if let Some(other) = directions.iter().find(|direction| direction.len() != block.dim()) {
                    return Err(Error::DimensionMismatch { expected: block.dim(), found: other.len() });
                }
                nearest_step(block, of_directions(directions.clone())?, how)
            }
            Start::RandomRows => nearest_step(block, of_directions(random_rows(block, components, &mut rng))?, how),
            Start::PlusPlus => {
                let mut buffer = RowBuffer::default();
                let sample = sample(block, components, &mut rng, &mut buffer);
                nearest_step(block, of_directions(plus_plus(&sample, components, &mut rng, go_on)?.0)?, how)
            }
            Start::KMeans => best_of_tries(block, components, how, &mut rng, go_on),
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
                let option = "the number of components of the mixture to start from";
                Some(Err(Error::Option { option, range: "that of the fit, a background not counted", value: found as f64 }))
            }
            Start::Mixture(mixture) => Some(Ok(mixture.clone())),
            Start::Random => Some(random_directions(dim, components, seed).and_then(of_directions)),
            _ => None,
        }
    }
}

/// What k-means finds on a sample of the rows, from the seeds with which it ends best.
fn best_of_tries(block: &Block, components: usize, how: &Maximisation, rng: &mut Stream, go_on: &mut GoOn) -> Result<Mixture> {
    let mut buffer = Default::default();
    let sample = sample(block, components, rng, &mut buffer);
    let rows_at_once = (PRODUCTS_AT_ONCE / (components * sample.dim())).max(1);
    let mut best: Option<Fit> = None;
    for _ in 0..TRIES {
        let (seeds, flow) = plus_plus(&sample, components, rng, go_on)?;
        let rule = Em::new().assignment(Assignment::Nearest).maximisation(how.of_k_means());
        let mut trainer = Trainer::new(of_directions(seeds)?, rule, TRY_STOP)?;
        if flow.is_break() {
            trainer.stop();
        }
        let mut source = MemorySource::new(sample.slice(0, sample.len())).batches(rows_at_once);
        let found = fit_while(&mut source, trainer, go_on)?;
        let stopped = found.status == Status::Stopped;
        if best.as_ref().is_none_or(|best| found.objective() > best.objective()) {
            best = Some(found);
        }
        if stopped {
            break;
        }
    }
    Ok(best.expect("at least one try").mixture)
}

/// Enough rows to choose seeds among.
fn sample<'b>(block: &'b Block, components: usize, rng: &mut Stream, buffer: &'b mut RowBuffer) -> Block<'b> {
    let most = sample_rows(components);
    if block.len() <= most {
        return block.slice(0, block.len());
    }
    let rows = draw_rows(block, most, rng);
    // Drawn by weight, they count the same.
    block.gather(&rows, buffer).without_weights()
}

/// Equal weights and concentrations of 1 for these directions.
fn of_directions(directions: Vec<Vec<f64>>) -> Result<Mixture> {
    let weights = vec![1.0 / directions.len() as f64; directions.len()];
    let components = directions.into_iter().map(|direction| VonMisesFisher::along(direction, 1.0)).collect::<Result<_>>()?;
    Mixture::new(weights, components)
}

fn random_directions(dim: usize, components: usize, seed: u64) -> Result<Vec<Vec<f64>>> {
    let mut values = vec![0.0; dim * components];
    Sampler::new(&VonMisesFisher::uniform(dim)?).fill(seed ^ 0x6469_7265, 0, &mut values)?;
    Ok(values.chunks_exact(dim).map(<[f64]>::to_vec).collect())
}

/// Directions stay; weights and concentrations come from the rows nearest to each.
fn nearest_step(block: &Block, start: Mixture, how: &Maximisation) -> Result<Mixture> {
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
    rows: usize,
    stats: SufficientStats,
    /// A component without a label has no direction of its own; the first row's will do until it is restarted.
    first_row: Option<Vec<f64>>,
}

impl<'a> Labelled<'a> {
    pub(crate) fn new(labels: &'a [u32], components: usize, dim: usize) -> Result<Self> {
        if let Some(&label) = labels.iter().find(|label| **label as usize >= components) {
            return Err(Error::Option { option: "a label", range: "below the number of components", value: f64::from(label) });
        }
        Ok(Labelled { labels, rows: 0, stats: SufficientStats::zero(components, dim), first_row: None })
    }

    pub(crate) fn see(&mut self, block: &Block) {
        // Rows beyond the labels are counted only, so that the error can say how many there are.
        let labels = self.labels.get(self.rows..).unwrap_or_default();
        self.rows += block.len();
        if self.first_row.is_none() && !block.is_empty() {
            self.first_row = Some(block.row(0));
        }
        for component in 0..self.stats.components() {
            let labelled = labels.iter().take(block.len()).enumerate();
            let rows = labelled.filter(|(_, label)| **label as usize == component).map(|(row, _)| row);
            self.stats.merge_into(component, &SufficientStats::of_rows(block, rows));
        }
    }

    /// All rows have been seen: are there as many labels?
    pub(crate) fn check(&self) -> Result<()> {
        match self.labels.len() {
            found if found == self.rows => Ok(()),
            found => Err(Error::LabelCount { expected: self.rows, found }),
        }
    }

    pub(crate) fn mixture(self, how: &Maximisation) -> Result<Mixture> {
        let first_row = self.first_row.ok_or(Error::NoRows { weight: 0.0 })?;
        let start = of_directions(vec![first_row; self.stats.components()])?;
        Ok(maximise(&self.stats, &start, how)?.0)
    }
}

/// A row number, each as likely as its weight says.
fn random_row(weights: Option<&[f64]>, len: usize, rng: &mut Stream) -> usize {
    match weights {
        None => rng.random_range(0..len),
        Some(weights) => pick(weights.iter().copied(), weights.iter().sum(), rng),
    }
}

/// A place, each as likely as its mass says.
fn pick(masses: impl Iterator<Item = f64>, total: f64, rng: &mut Stream) -> usize {
    let mut rest = rng.random::<f64>() * total;
    let mut last = 0;
    for (place, mass) in masses.enumerate() {
        if mass > 0.0 {
            last = place;
            rest -= mass;
            if rest < 0.0 {
                break;
            }
        }
    }
    last
}

/// So many row numbers, each as likely as its weight says, with repetition.
fn draw_rows(block: &Block, count: usize, rng: &mut Stream) -> Vec<usize> {
    let Some(weights) = block.weights() else {
        return (0..count).map(|_| rng.random_range(0..block.len())).collect();
    };
    let mut total = 0.0;
    let mut sums = Vec::with_capacity(weights.len());
    for weight in weights {
        total += weight;
        sums.push(total);
    }
    let last = weights.iter().rposition(|w| *w > 0.0).expect("some row counts");
    let draw = |_| {
        let share = rng.random::<f64>() * total;
        sums.partition_point(|sum| *sum <= share).min(last)
    };
    (0..count).map(draw).collect()
}

/// Rows by chance, none twice as long as there are others that count.
fn random_rows(block: &Block, components: usize, rng: &mut Stream) -> Vec<Vec<f64>> {
    let mut rows: Vec<usize> = (0..block.len()).filter(|&row| block.weights().is_none_or(|w| w[row] > 0.0)).collect();
    let distinct = components.min(rows.len());
    let mut chosen = rows.partial_shuffle(rng, distinct).0.to_vec();
    chosen.extend(draw_rows(block, components - distinct, rng));
    chosen.into_iter().map(|row| block.row(row)).collect()
}

/// Greedy k-means++: of 2 + ln K candidates, drawn by their distance 1 - cos from the seeds so far, the one that leaves the least total distance.
/// Rows by chance take the places of those that were no longer wanted.
fn plus_plus(block: &Block, components: usize, rng: &mut Stream, go_on: &mut GoOn) -> Result<(Vec<Vec<f64>>, ControlFlow<()>)> {
    let weight = |row: usize| block.weights().map_or(1.0, |w| w[row]);
    let mut seeds = vec![block.row(random_row(block.weights(), block.len(), rng))];
    let mut distances = vec![0.0; block.len()];
    projections(block, &seeds, &mut distances)?;
    distances.iter_mut().for_each(|t| *t = (1.0 - *t).max(0.0));
    let trials = 2 + (components as f64).ln() as usize;
    let mut candidate_distances = vec![0.0; block.len() * trials];
    while seeds.len() < components {
        if go_on().is_break() {
            seeds.extend(random_rows(block, components - seeds.len(), rng));
            return Ok((seeds, ControlFlow::Break(())));
        }
        let total: f64 = distances.iter().enumerate().map(|(row, distance)| weight(row) * distance).sum();
        // Rows that are all chosen already: any will do.
        let mut draw = || match total > 1e-12 {
            true => pick(distances.iter().enumerate().map(|(row, distance)| weight(row) * distance), total, rng),
            false => random_row(block.weights(), block.len(), rng),
        };
        let candidates: Vec<Vec<f64>> = (0..trials).map(|_| block.row(draw())).collect();
        projections(block, &candidates, &mut candidate_distances)?;
        let mut totals = vec![0.0; trials];
        for (row, projections) in candidate_distances.chunks_exact(trials).enumerate() {
            for (total, t) in totals.iter_mut().zip(projections) {
                *total += weight(row) * (1.0 - t).max(0.0).min(distances[row]);
            }
        }
        let best = (1..trials).fold(0, |best, trial| if totals[trial] < totals[best] { trial } else { best });
        for (distance, projections) in distances.iter_mut().zip(candidate_distances.chunks_exact(trials)) {
            *distance = distance.min((1.0 - projections[best]).max(0.0));
        }
        seeds.extend(candidates.into_iter().nth(best));
    }
    Ok((seeds, ControlFlow::Continue(())))
}
