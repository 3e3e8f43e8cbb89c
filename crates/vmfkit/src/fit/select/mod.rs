//! Selects the number of components: a table of fits over K, policies and backgrounds.

mod candidate;
mod estimate;
mod near_rows;
mod recommend;
mod skipped;
mod stability;

pub use candidate::{Candidate, Criterion, best, best_of};
pub use estimate::Estimate;
pub use recommend::{Confidence, Reason, Recommendation, recommend};
pub use skipped::Skipped;
pub use stability::Stability;

use crate::calibrate::NEIGHBOUR_ROWS;
use crate::error::{Error, Result};
use crate::fit::Fitter;
use crate::fit::restarts::is_better;
use crate::m_step::{ConcentrationPolicy, Maximisation, halves};
use crate::mixture::{Assignment, Mixture};
use crate::rows::RowBatch;
use crate::sampler::Stream;
use crate::start::Start;
use crate::stats::SufficientStats;
use crate::train::{Fit, Status, Stop};
use near_rows::NearRows;
use rand::seq::SliceRandom;
use recommend::fits_the_model;
use stability::stability;
use std::ops::ControlFlow;

/// Fits mixtures for a range of K, policies and backgrounds.
///
/// Each mixture is fitted by EM from a start of its own, and from the mixture with the next smaller
/// K, whose widest components are split; the better fit is kept. Fits see all rows, unless some are
/// [held out](Self::held_out).
///
/// ```
/// use vmfkit::{RowBatch, Mixture, VonMisesFisher, fit::select::{Criterion, Selection, best}};
/// let truth = Mixture::new(
///     vec![0.5, 0.5],
///     vec![VonMisesFisher::new(vec![1.0, 0.0, 0.0], 30.0)?, VonMisesFisher::new(vec![0.0, 1.0, 0.0], 30.0)?],
/// )?;
/// let (mut rows, mut labels) = (vec![0f64; 3 * 1500], vec![0; 1500]);
/// truth.fill(1, 0, &mut rows, &mut labels)?;
/// let table = Selection::new(1..=4).run(&RowBatch::new(3, &rows)?)?;
/// assert_eq!(best(&table, Criterion::Bic, None).unwrap().components, 2);
/// # Ok::<(), vmfkit::Error>(())
/// ```
pub struct Selection<'a> {
    components: Vec<usize>,
    policies: Vec<ConcentrationPolicy>,
    backgrounds: Vec<bool>,
    held_out: f64,
    criterion: Criterion,
    repeats: usize,
    maximisation: Maximisation,
    stop: Stop,
    restarts: Option<usize>,
    search: bool,
    seed: u64,
    watch: Option<Watch<'a>>,
    ask: Option<Box<dyn Fn() -> ControlFlow<()> + Sync + 'a>>,
}

/// Repeats of stability: their standard error is then known to about a third.
const REPEATS: usize = 5;

/// The most rows that stability is measured with, so that each half has as many as the search for a
/// better optimum uses; more components get [`ROWS_PER_COMPONENT`].
const STABILITY_ROWS: usize = 1 << 16;
const ROWS_PER_COMPONENT: usize = 128;

type Watch<'a> = Box<dyn FnMut(&Candidate) -> ControlFlow<()> + 'a>;

/// Multiplications that take about a millisecond.
const CHEAP_PRODUCTS: usize = 1_000_000;

/// The initial weight of a background.
const BACKGROUND_WEIGHT: f64 = 0.05;

impl<'a> Selection<'a> {
    /// Fits with these numbers of components to all rows, under the default policy, without
    /// background.
    pub fn new(components: impl IntoIterator<Item = usize>) -> Self {
        let mut components: Vec<usize> = components.into_iter().collect();
        components.sort_unstable();
        components.dedup();
        Selection {
            components,
            policies: vec![ConcentrationPolicy::default()],
            backgrounds: vec![false],
            held_out: 0.0,
            criterion: Criterion::Auto,
            repeats: REPEATS,
            maximisation: Maximisation::default(),
            stop: Stop::default(),
            restarts: None,
            search: true,
            seed: 0,
            watch: None,
            ask: None,
        }
    }

    /// The policies to try.
    pub fn policies(mut self, policies: impl IntoIterator<Item = ConcentrationPolicy>) -> Self {
        self.policies = policies.into_iter().collect();
        self
    }

    /// Whether to try fits without (`false`) or with a background, or both.
    pub fn backgrounds(mut self, backgrounds: impl IntoIterator<Item = bool>) -> Self {
        self.backgrounds = backgrounds.into_iter().collect();
        self
    }

    /// The fraction of rows that are held out, 0 by default. [`Criterion::HeldOut`] needs some; the
    /// other criteria then refer to the remaining rows.
    pub fn held_out(mut self, fraction: f64) -> Self {
        self.held_out = fraction;
        self
    }

    /// The criterion that will be asked for a recommendation, by default [`Criterion::Auto`]. With
    /// [`Criterion::SharedInformation`], [`Criterion::Stability`] or [`Criterion::Neighbours`], all
    /// three are measured for every candidate; with [`Criterion::Auto`], if the rows do not fit the
    /// model; otherwise none is, which is much faster.
    pub fn criterion(mut self, criterion: Criterion) -> Self {
        self.criterion = criterion;
        self
    }

    /// The number of times that stability is measured, each with 2 fits for each candidate; by
    /// default 5.
    pub fn repeats(mut self, repeats: usize) -> Self {
        self.repeats = repeats;
        self
    }

    /// The settings of the M step; the policy is not used.
    pub fn maximisation(mut self, maximisation: Maximisation) -> Self {
        self.maximisation = maximisation;
        self
    }

    /// When to stop.
    pub fn stop(mut self, stop: Stop) -> Self {
        self.stop = stop;
        self
    }

    /// The number of starts for each line of the table. By default 10 if a pass over the rows takes
    /// less than about a millisecond, else 1.
    pub fn restarts(mut self, restarts: usize) -> Self {
        self.restarts = Some(restarts);
        self
    }

    fn restarts_of(&self, batch: &RowBatch, components: usize) -> usize {
        let products = batch.len().saturating_mul(batch.dim()).saturating_mul(components);
        self.restarts.unwrap_or(if products <= CHEAP_PRODUCTS { 10 } else { 1 })
    }

    /// Whether fits from a start of their own [search](Fitter::search) for a better optimum, true
    /// by default.
    pub fn search(mut self, search: bool) -> Self {
        self.search = search;
        self
    }

    /// The random seed of the held-out rows and the starts.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Calls back after each candidate, and again after its stability was measured; a break ends the
    /// table.
    pub fn watch(mut self, watch: impl FnMut(&Candidate) -> ControlFlow<()> + 'a) -> Self {
        self.watch = Some(Box::new(watch));
        self
    }

    /// Calls back within fits; a break drops the candidate of that fit and ends the table.
    pub fn ask(mut self, ask: impl Fn() -> ControlFlow<()> + Sync + 'a) -> Self {
        self.ask = Some(Box::new(ask));
        self
    }

    /// The number of rows held out of this many: rounded, and at least one is left.
    pub fn rows_held_out(&self, rows: usize) -> usize {
        rows - ((rows as f64 * (1.0 - self.held_out)).round() as usize).clamp(rows.min(1), rows)
    }

    fn check(&self, batch: &RowBatch) -> Result<()> {
        let wrong = |option, range, value| Err(Error::Option { option, range, value });
        match () {
            () if self.components.first().is_none_or(|k| *k == 0) => {
                wrong("the numbers of components", "at least one, each at least 1", self.components.len() as f64)
            }
            () if self.policies.is_empty() => wrong("the number of policies", "at least 1", 0.0),
            () if self.backgrounds.is_empty() => wrong("the number of background choices", "at least 1", 0.0),
            () if !(0.0..1.0).contains(&self.held_out) => wrong("the held-out fraction", "at least 0 and below 1", self.held_out),
            () if self.repeats == 0 => wrong("the number of repeats", "at least 1", 0.0),
            () if batch.is_empty() => Err(Error::NoRows { weight: 0.0 }),
            () => Ok(()),
        }
    }

    /// The table, in the order of backgrounds, policies and K.
    pub fn run(mut self, batch: &RowBatch) -> Result<Vec<Candidate>> {
        let mut buffer = RowBatch::default();
        let batch = &batch.validated_slice(0, batch.len(), &mut buffer)?;
        self.check(batch)?;
        let mut order: Vec<usize> = (0..batch.len()).collect();
        order.shuffle(&mut Stream::new(self.seed ^ 0x6865_6c64, 0));
        let kept = batch.len() - self.rows_held_out(batch.len());
        let (mut seen_rows, mut held_out_rows) = (RowBatch::default(), RowBatch::default());
        let (seen, held_out) = if kept == batch.len() {
            (batch.slice(0, batch.len()), None)
        } else {
            (batch.gather(&order[..kept], &mut seen_rows)?, Some(batch.gather(&order[kept..], &mut held_out_rows)?))
        };
        let mut watch = self.watch.take();
        let mut table = Vec::new();
        for &background in &self.backgrounds {
            for &policy in &self.policies {
                let mut smaller: Option<Mixture> = None;
                for &components in &self.components {
                    let (fit, grown) = self.fit(&seen, components, policy, background, smaller.take())?;
                    if fit.status == Status::Stopped {
                        return Ok(table);
                    }
                    let candidate = Candidate {
                        components,
                        policy,
                        background,
                        status: fit.status,
                        grown,
                        rows: seen.len() as u64,
                        trace: fit.trace,
                        search_passes: fit.search_passes,
                        sums: fit.sums,
                        calibration: fit.calibration,
                        outlier_table: fit.outlier_table,
                        stability: None,
                        neighbours: None,
                        skipped: Vec::new(),
                        free_parameters: self.maximisation.clone().policy(policy).free_parameters(&fit.mixture),
                        seen: fit.mixture.evaluate(&seen)?,
                        held_out: held_out.as_ref().map(|rows| fit.mixture.evaluate(rows)).transpose()?,
                        notes: fit.notes,
                        mixture: fit.mixture,
                        settings: fit.settings,
                    };
                    smaller = Some(candidate.mixture.clone());
                    let flow = watch.as_mut().map_or(ControlFlow::Continue(()), |watch| watch(&candidate));
                    table.push(candidate);
                    if flow.is_break() {
                        return Ok(table);
                    }
                }
            }
        }
        self.measure(&seen, &mut table, &mut watch)?;
        Ok(table)
    }

    /// Measures stability and the agreement of neighbours where the criterion needs them.
    fn measure(&self, rows: &RowBatch, table: &mut [Candidate], watch: &mut Option<Watch>) -> Result<()> {
        let is_needed = |group: &[Candidate]| match self.criterion {
            Criterion::Auto => !fits_the_model(group.iter()),
            criterion => !criterion.is_likelihood(),
        };
        let groups = table.chunk_by_mut(|a, b| (a.policy, a.background) == (b.policy, b.background));
        let groups: Vec<&mut [Candidate]> = groups.filter(|group| is_needed(group)).collect();
        if groups.is_empty() {
            return Ok(());
        }
        let near_rows = NearRows::new(rows, &some_rows(rows, NEIGHBOUR_ROWS, self.seed ^ 0x6e65_6172))?;
        let mut sampled = RowBatch::default();
        let most = self.components.last().map_or(0, |most| most.saturating_mul(ROWS_PER_COMPONENT)).max(STABILITY_ROWS);
        rows.gather(&some_rows(rows, most, self.seed ^ 0x7374_6162), &mut sampled)?;
        for candidate in groups.into_iter().flatten() {
            if !self.measure_one(&sampled, &near_rows, candidate)? {
                return Ok(());
            }
            if watch.as_mut().is_some_and(|watch| watch(candidate).is_break()) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// False if it was cancelled.
    fn measure_one(&self, rows: &RowBatch, near_rows: &NearRows, candidate: &mut Candidate) -> Result<bool> {
        let half = rows.len() / 2;
        let skipped = match candidate.components {
            1 if !candidate.background => Some(Skipped::OneComponent),
            components if components > half => Some(Skipped::FewRows { half }),
            _ => None,
        };
        match near_rows.agreement(&candidate.mixture)? {
            _ if skipped == Some(Skipped::OneComponent) => candidate.skipped.push((Criterion::Neighbours, Skipped::OneComponent)),
            Ok(agreement) => candidate.neighbours = Some(agreement),
            Err(skipped) => candidate.skipped.push((Criterion::Neighbours, skipped)),
        }
        if let Some(skipped) = skipped {
            candidate.skipped.push((Criterion::Stability, skipped));
            return Ok(true);
        }
        let mut fitter = self.fitter(candidate.components, candidate.policy, candidate.background);
        fitter.take_dispersion(candidate.dispersion());
        let fitter = fitter.restarts(self.restarts_of(rows, candidate.components)).search(self.search);
        let ask = self.ask.as_deref();
        let should_cancel = || ask.map_or(ControlFlow::Continue(()), |ask| ask());
        match stability(&fitter, rows, self.repeats, self.seed, &should_cancel)? {
            Some(Ok(stability)) => candidate.stability = Some(stability),
            Some(Err(skipped)) => candidate.skipped.push((Criterion::Stability, skipped)),
            None => return Ok(false),
        }
        Ok(true)
    }

    fn fitter(&self, components: usize, policy: ConcentrationPolicy, background: bool) -> Fitter<'_> {
        let fitter =
            Fitter::new(components).maximisation(self.maximisation.clone()).policy(policy).stop(self.stop).seed(self.seed);
        let fitter = if let Some(ask) = &self.ask { fitter.progress(move |_| ask()) } else { fitter };
        if background { fitter.background(BACKGROUND_WEIGHT) } else { fitter }
    }

    /// The better of a fit from a start of its own and one that grew out of the smaller mixture.
    fn fit(
        &self,
        batch: &RowBatch,
        components: usize,
        policy: ConcentrationPolicy,
        background: bool,
        smaller: Option<Mixture>,
    ) -> Result<(Fit, bool)> {
        let fitter = || self.fitter(components, policy, background);
        let fresh = fitter().restarts(self.restarts_of(batch, components)).search(self.search).fit(batch)?;
        let Some(smaller) = smaller.filter(|_| fresh.status != Status::Stopped) else {
            return Ok((fresh, false));
        };
        let mut grown = fitter().start(Start::Mixture(grow(smaller, batch, components)?));
        grown.take_dispersion(fresh.dispersion());
        let grown = grown.fit(batch)?;
        if grown.status == Status::Stopped {
            return Ok((grown, true));
        }
        let mut how = self.maximisation.clone().policy(policy);
        how.dispersion = how.dispersion.or(fresh.dispersion());
        Ok(if is_better(&grown, &fresh, &how) { (grown, true) } else { (fresh, false) })
    }
}

/// Positions of at most this many random rows of positive weight, in ascending order.
fn some_rows(rows: &RowBatch, most: usize, seed: u64) -> Vec<usize> {
    let mut positions: Vec<usize> =
        (0..rows.len()).filter(|&row| rows.weights().is_none_or(|weights| weights[row] > 0.0)).collect();
    if positions.len() > most {
        positions = positions.partial_shuffle(&mut Stream::new(seed, 0), most).0.to_vec();
        positions.sort_unstable();
    }
    positions
}

/// Grows a mixture by splitting its widest components, each at most once per round.
fn grow(mut mixture: Mixture, batch: &RowBatch, components: usize) -> Result<Mixture> {
    loop {
        let background = mixture.has_background();
        let fitted = mixture.components().len() - usize::from(background);
        if fitted >= components {
            return Ok(mixture);
        }
        let mut stats = SufficientStats::zero(mixture.components().len(), mixture.dim());
        mixture.accumulate(batch, Assignment::Soft, &mut stats)?;
        let mut widest: Vec<usize> = (0..fitted).collect();
        widest.sort_by(|&a, &b| stats.shortfall(b).total_cmp(&stats.shortfall(a)));
        let (mut weights, mut densities) = (mixture.weights().to_vec(), mixture.components().to_vec());
        for (number, &k) in widest.iter().take(components - fitted).enumerate() {
            let (one, other) = halves(&densities[k], stats.mean_length(k).1, number as u64);
            densities[k] = one;
            weights[k] *= 0.5;
            // A background stays last.
            densities.insert(fitted + number, other);
            weights.insert(fitted + number, weights[k]);
        }
        mixture = Mixture::of_parts(weights, densities, background);
    }
}
