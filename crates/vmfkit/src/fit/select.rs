//! Selects the number of components: a table of fits over K, policies and backgrounds.

use crate::error::{Error, Result};
use crate::fit::Fitter;
use crate::fit::restarts::is_better;
use crate::m_step::{ConcentrationPolicy, Maximisation, Note, halves};
use crate::mixture::{Assignment, Evaluation, Mixture};
use crate::rows::RowBatch;
use crate::sampler::Stream;
use crate::settings::Settings;
use crate::start::Start;
use crate::stats::{ComponentSum, SufficientStats};
use crate::train::{Fit, Pass, Status, Stop};
use rand::seq::SliceRandom;
use std::ops::ControlFlow;

/// A criterion of model selection. Smaller is better, except for the held-out likelihood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Criterion {
    /// Akaike's criterion: -2 ln L + 2 p.
    Aic,
    /// Schwarz's criterion: -2 ln L + p ln n.
    Bic,
    /// BIC plus twice the entropy of the responsibilities (Biernacki, Celeux and Govaert,
    /// doi:10.1109/34.865189): for clusters that should not overlap.
    Icl,
    /// The mean ln p of held-out rows.
    HeldOut,
}

impl Criterion {
    /// Every criterion.
    pub const ALL: [Self; 4] = [Self::Aic, Self::Bic, Self::Icl, Self::HeldOut];

    /// The name used on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aic => "aic",
            Self::Bic => "bic",
            Self::Icl => "icl",
            Self::HeldOut => "held-out",
        }
    }
}

/// One line of the table: a mixture fitted to the rows, or to those that were not held out.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Candidate {
    /// The number of components without a background.
    pub components: usize,
    /// How the concentrations are tied across components.
    pub policy: ConcentrationPolicy,
    /// Whether there is a uniform background.
    pub background: bool,
    /// The fitted mixture.
    pub mixture: Mixture,
    /// How the fit ended.
    pub status: Status,
    /// Whether the fit that was kept started from the mixture with fewer components.
    pub grown: bool,
    /// The number of rows it was fitted to.
    pub rows: u64,
    /// One entry for each pass of the fit that was kept.
    pub trace: Vec<Pass>,
    /// Passes of its search over a sample of the rows.
    pub search_passes: usize,
    /// The settings of the fit that was kept.
    pub settings: Settings,
    /// The number of free parameters.
    pub free_parameters: usize,
    /// How well it explains the rows it was fitted to.
    pub seen: Evaluation,
    /// How well it explains the held-out rows, if there are any.
    pub held_out: Option<Evaluation>,
    /// The notes of the fit that was kept.
    pub notes: Vec<Note>,
    /// The mass and the shortfall of each component under the last M step.
    pub sums: Vec<ComponentSum>,
}

impl Candidate {
    /// The fit, as a [`Fitter`] returns it.
    pub fn to_fit(&self) -> Fit {
        Fit {
            mixture: self.mixture.clone(),
            trace: self.trace.clone(),
            status: self.status,
            notes: self.notes.clone(),
            weight: self.seen.weight,
            rows: self.rows,
            search_passes: self.search_passes,
            sums: self.sums.clone(),
            calibration: None,
            outlier_table: None,
            settings: self.settings.clone(),
        }
    }

    /// The notes on the result, such as empty and collapsed components, without those on repairs.
    pub fn warnings(&self) -> impl Iterator<Item = &Note> {
        self.notes.iter().filter(|note| !matches!(note, Note::Reseeded { .. }))
    }

    /// -2 ln L + 2 p.
    pub fn aic(&self) -> f64 {
        self.seen.aic(self.free_parameters)
    }

    /// -2 ln L + p ln n.
    pub fn bic(&self) -> f64 {
        self.seen.bic(self.free_parameters)
    }

    /// BIC plus twice the entropy of the responsibilities.
    pub fn icl(&self) -> f64 {
        self.seen.icl(self.free_parameters)
    }

    /// The criterion as a score: larger is better. `None` without held-out rows of positive weight.
    pub fn score(&self, criterion: Criterion) -> Option<f64> {
        match criterion {
            Criterion::Aic => Some(-self.aic()),
            Criterion::Bic => Some(-self.bic()),
            Criterion::Icl => Some(-self.icl()),
            Criterion::HeldOut => self.held_out.filter(|held_out| held_out.weight > 0.0).map(|held_out| held_out.mean()),
        }
    }
}

/// The candidate that a criterion prefers; with `policy`, among those of that policy.
///
/// Likelihoods compare numbers of components well and policies badly: free concentrations always
/// fit better, even if they make worse clusters (docs/default-policy.md). They also prefer
/// collapsed components: see [`Candidate::warnings`].
pub fn best(candidates: &[Candidate], criterion: Criterion, policy: Option<ConcentrationPolicy>) -> Option<&Candidate> {
    best_of(candidates.iter().filter(|candidate| policy.is_none_or(|policy| candidate.policy == policy)), criterion)
}

/// The candidate that a criterion prefers.
pub fn best_of<'a>(candidates: impl IntoIterator<Item = &'a Candidate>, criterion: Criterion) -> Option<&'a Candidate> {
    let scored =
        candidates.into_iter().filter_map(|c| c.score(criterion).filter(|score| score.is_finite()).map(|score| (score, c)));
    // Among equals the first, which has the fewest components.
    scored.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, candidate)| candidate)
}

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
    maximisation: Maximisation,
    stop: Stop,
    restarts: Option<usize>,
    search: bool,
    seed: u64,
    watch: Option<Watch<'a>>,
    ask: Option<Box<dyn Fn() -> ControlFlow<()> + Sync + 'a>>,
}

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

    /// Calls back after each candidate; a break ends the table.
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
        Ok(table)
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
        let fitter = || {
            let fitter =
                Fitter::new(components).maximisation(self.maximisation.clone()).policy(policy).stop(self.stop).seed(self.seed);
            let fitter = if let Some(ask) = &self.ask { fitter.progress(move |_| ask()) } else { fitter };
            if background { fitter.background(BACKGROUND_WEIGHT) } else { fitter }
        };
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
