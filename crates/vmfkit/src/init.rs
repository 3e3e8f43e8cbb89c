//! Where a fit begins: directions chosen among or beside the rows, refined by spherical k-means.

use crate::block::{Block, RowBuffer, Rows, Scalar, SparseRows};
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
use std::cmp::Ordering;
use std::collections::HashSet;
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

/// What is better by no more than this share is better by rounding, which the order of rows would decide.
const ROUNDING: f64 = 1e-10;

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
            Start::RandomRows => nearest_step(block, of_directions(random_rows(block, components, &mut rng)?)?, how),
            Start::PlusPlus => {
                let mut buffer = RowBuffer::default();
                let sample = sample(block, components, &mut rng, &mut buffer);
                let rows = OrderedRows::new(&sample)?;
                nearest_step(block, of_directions(plus_plus(&rows, components, &mut rng, go_on)?.0)?, how)
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
    let rows = OrderedRows::new(&sample)?;
    let mut best: Option<Fit> = None;
    for _ in 0..TRIES {
        let (seeds, flow) = plus_plus(&rows, components, rng, go_on)?;
        let rule = Em::new().assignment(Assignment::Nearest).maximisation(how.of_k_means());
        let mut trainer = Trainer::new(of_directions(seeds)?, rule, TRY_STOP)?;
        if flow.is_break() {
            trainer.stop();
        }
        let mut source = MemorySource::new(sample.slice(0, sample.len())).batches(rows_at_once);
        let found = fit_while(&mut source, trainer, go_on)?;
        let stopped = found.status == Status::Stopped;
        if best.as_ref().is_none_or(|best| found.objective() - best.objective() > ROUNDING * best.objective().abs()) {
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

/// Rows in an order of their own: along their mean direction, those at one place by their coordinates.
///
/// What is drawn by going through masses in this order depends on the rows and what they weigh, not on how they come: equal rows are
/// neighbours, so a row of weight 3 is drawn where it would be if it came three times. Turned rows have the same order, unless they
/// balance each other or lie at one place.
struct OrderedRows<'b> {
    block: &'b Block<'b>,
    order: Vec<usize>,
    total_weight: f64,
}

/// Places along the mean direction that are nearer to each other are told apart by rounding only.
const SAME_PLACE: f64 = 1e-9;
/// A mean length up to which a mean direction is one of rounding.
const BALANCED: f64 = 1e-6;

impl<'b> OrderedRows<'b> {
    fn new(block: &'b Block<'b>) -> Result<Self> {
        let stats = SufficientStats::of_block(block);
        let mut places = vec![0.0; block.len()];
        if stats.mean_length(0).0 > BALANCED {
            projections(block, &[stats.resultant(0).to_vec()], &mut places)?;
            places.iter_mut().for_each(|t| *t = (*t / SAME_PLACE).round());
        }
        let mut order: Vec<usize> = (0..block.len()).collect();
        order.sort_by(|&a, &b| places[a].total_cmp(&places[b]).then_with(|| compare_rows(block, a, b)));
        Ok(OrderedRows { block, order, total_weight: stats.mass(0) })
    }

    /// What a row weighs of all.
    fn share(&self, row: usize) -> f64 {
        self.block.weights().map_or(1.0, |w| w[row]) / self.total_weight
    }

    /// Row numbers, each as likely as its mass says.
    fn draw(&self, count: usize, mass: impl Fn(usize) -> f64, rng: &mut Stream) -> Vec<usize> {
        let drawn = draw_places(self.order.iter().map(|&row| mass(row)), count, rng);
        drawn.into_iter().map(|place| self.order[place]).collect()
    }
}

/// An order of rows that equal rows are neighbours in.
fn compare_rows(block: &Block, a: usize, b: usize) -> Ordering {
    fn values<T: Scalar>(a: &[T], b: &[T]) -> Ordering {
        let mut orders = a.iter().zip(b).map(|(a, b)| a.to_f64().total_cmp(&b.to_f64()));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
    fn dense<T: Scalar>(dim: usize, numbers: &[T], a: usize, b: usize) -> Ordering {
        values(&numbers[a * dim..(a + 1) * dim], &numbers[b * dim..(b + 1) * dim])
    }
    fn sparse<T: Scalar>(rows: &SparseRows<T>, a: usize, b: usize) -> Ordering {
        let ((columns_a, a), (columns_b, b)) = (rows.row(a), rows.row(b));
        columns_a.cmp(columns_b).then_with(|| values(a, b))
    }
    match block.rows() {
        Rows::F32(numbers) => dense(block.dim(), numbers, a, b),
        Rows::F64(numbers) => dense(block.dim(), numbers, a, b),
        Rows::SparseF32(rows) => sparse(rows, a, b),
        Rows::SparseF64(rows) => sparse(rows, a, b),
    }
}

/// So many places, each as likely as its mass says, with repetition. Some mass is not 0.
fn draw_places(masses: impl Iterator<Item = f64>, count: usize, rng: &mut Stream) -> Vec<usize> {
    let (mut total, mut last) = (0.0, 0);
    let add = |(place, mass)| {
        if mass > 0.0 {
            last = place;
        }
        total += mass;
        total
    };
    let sums: Vec<f64> = masses.enumerate().map(add).collect();
    let draw = |_| {
        let rest = rng.random::<f64>() * total;
        sums.partition_point(|sum| *sum <= rest).min(last)
    };
    (0..count).map(draw).collect()
}

/// So many row numbers, each as likely as its weight says, with repetition.
fn draw_rows(block: &Block, count: usize, rng: &mut Stream) -> Vec<usize> {
    match block.weights() {
        None => (0..count).map(|_| rng.random_range(0..block.len())).collect(),
        Some(weights) => draw_places(weights.iter().copied(), count, rng),
    }
}

/// Rows by chance, none twice as long as there are others that count, then directions beside them.
fn random_rows(block: &Block, components: usize, rng: &mut Stream) -> Result<Vec<Vec<f64>>> {
    let mut rows: Vec<usize> = (0..block.len()).filter(|&row| block.weights().is_none_or(|w| w[row] > 0.0)).collect();
    let mut rest = &mut rows[..];
    let (mut chosen, mut seen) = (Vec::new(), HashSet::new());
    while chosen.len() < components && !rest.is_empty() {
        let (drawn, others) = rest.partial_shuffle(rng, components - chosen.len());
        chosen.extend(drawn.iter().map(|&row| block.row(row)).filter(|row| seen.insert(bits(row))));
        rest = others;
    }
    let missing = draw_rows(block, components - chosen.len(), rng);
    chosen.extend(missing.into_iter().map(|row| block.row(row)));
    parted(chosen, rng)
}

fn bits(row: &[f64]) -> Vec<u64> {
    row.iter().map(|x| x.to_bits()).collect()
}

/// How far beside an equal one a direction is put, as the tangent of the angle.
const BESIDE: f64 = 0.1;

/// Directions of which none is that of an earlier one: components that begin alike stay alike.
fn parted(mut directions: Vec<Vec<f64>>, rng: &mut Stream) -> Result<Vec<Vec<f64>>> {
    let mut seen = HashSet::new();
    for direction in &mut directions {
        if !seen.insert(bits(direction)) {
            let aside = random_directions(direction.len(), 1, rng.random())?.remove(0);
            direction.iter_mut().zip(aside).for_each(|(x, aside)| *x += BESIDE * aside);
        }
    }
    Ok(directions)
}

/// Greedy k-means++: of 2 + ln K candidates, drawn by their distance 1 - cos from the seeds so far, the one that leaves the least mean distance.
/// Rows by chance take the places of those that were no longer wanted.
fn plus_plus(
    rows: &OrderedRows,
    components: usize,
    rng: &mut Stream,
    go_on: &mut GoOn,
) -> Result<(Vec<Vec<f64>>, ControlFlow<()>)> {
    let block = rows.block;
    let mut seeds = vec![block.row(rows.draw(1, |row| rows.share(row), rng)[0])];
    let mut distances = vec![0.0; block.len()];
    projections(block, &seeds, &mut distances)?;
    distances.iter_mut().for_each(|t| *t = (1.0 - *t).max(0.0));
    let trials = 2 + (components as f64).ln() as usize;
    let mut candidate_distances = vec![0.0; block.len() * trials];
    while seeds.len() < components {
        if go_on().is_break() {
            seeds.extend(random_rows(block, components - seeds.len(), rng)?);
            return Ok((parted(seeds, rng)?, ControlFlow::Break(())));
        }
        let mean: f64 = distances.iter().enumerate().map(|(row, distance)| rows.share(row) * distance).sum();
        // Rows that are all chosen already: any will do.
        let mass = |row: usize| rows.share(row) * if mean > 1e-12 { distances[row] } else { 1.0 };
        let candidates: Vec<Vec<f64>> = rows.draw(trials, mass, rng).into_iter().map(|row| block.row(row)).collect();
        projections(block, &candidates, &mut candidate_distances)?;
        let mut means = vec![0.0; trials];
        for (row, projections) in candidate_distances.chunks_exact(trials).enumerate() {
            for (mean, t) in means.iter_mut().zip(projections) {
                *mean += rows.share(row) * (1.0 - t).max(0.0).min(distances[row]);
            }
        }
        let best = (1..trials).fold(0, |best, trial| if means[trial] < (1.0 - ROUNDING) * means[best] { trial } else { best });
        for (distance, projections) in distances.iter_mut().zip(candidate_distances.chunks_exact(trials)) {
            *distance = distance.min((1.0 - projections[best]).max(0.0));
        }
        seeds.extend(candidates.into_iter().nth(best));
    }
    Ok((parted(seeds, rng)?, ControlFlow::Continue(())))
}
