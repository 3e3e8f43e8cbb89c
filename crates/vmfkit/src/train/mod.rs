//! Iterative fitting: a [`Rule`] turns statistics into the next mixture, a [`Trainer`] turns the crank, [`fit`] does so over a source on this
//! machine's threads.

mod adam;
mod checkpoint;
mod em;
mod local;
mod online_em;
mod state;
mod twins;

pub use adam::Adam;
pub use checkpoint::Checkpoint;
pub use em::{Annealing, Em};
pub(crate) use local::{Driver, ProgressCallback, fit_while};
pub use local::{Progress, fit, fit_in_batches};
pub use online_em::OnlineEm;
pub use state::State;

use crate::bessel;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::m_step::Note;
use crate::mixture::{Assignment, Mixture};
use crate::settings::Settings;
use crate::stats::SufficientStats;
use std::ops::ControlFlow;
use twins::twins;

/// When a rule wants to see statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cadence {
    /// Those of each block.
    EveryBlock,
    /// Those of all rows together.
    EveryPass,
}

/// A way of fitting: what it does with statistics.
pub trait Rule: Send {
    /// When it wants to see statistics.
    fn cadence(&self) -> Cadence;
    /// How rows are to be assigned until the next step.
    fn assignment(&self) -> Assignment;
    /// The next mixture, and what there is to say about its components.
    fn next(&mut self, model: &Mixture, stats: &SufficientStats) -> Result<(Mixture, Vec<Note>)>;
    /// The mixture of the last step with an empty component put elsewhere, if the rule wants more rows to be seen so. A fit that sees no more
    /// ends with the mixture as it was: what was put elsewhere has been fitted to nothing.
    fn repaired(&self, _model: &Mixture) -> Option<(Mixture, Note)> {
        None
    }
    /// From now on it makes no repairs: those it made have not paid.
    fn give_up_repairs(&mut self) {}
    /// Called after each pass; true if the fit may stop here as far as the rule is concerned.
    fn end_pass(&mut self) -> bool;
    /// What it has to remember between two passes, but for its settings.
    fn state(&self) -> State;
    /// Goes on where the rule was whose state this is; `model` is the mixture it had then.
    fn restore(&mut self, state: &State, model: &Mixture) -> Result<()>;
}

impl Rule for Box<dyn Rule> {
    fn cadence(&self) -> Cadence {
        (**self).cadence()
    }
    fn assignment(&self) -> Assignment {
        (**self).assignment()
    }
    fn next(&mut self, model: &Mixture, stats: &SufficientStats) -> Result<(Mixture, Vec<Note>)> {
        (**self).next(model, stats)
    }
    fn repaired(&self, model: &Mixture) -> Option<(Mixture, Note)> {
        (**self).repaired(model)
    }
    fn give_up_repairs(&mut self) {
        (**self).give_up_repairs()
    }
    fn end_pass(&mut self) -> bool {
        (**self).end_pass()
    }
    fn state(&self) -> State {
        (**self).state()
    }
    fn restore(&mut self, state: &State, model: &Mixture) -> Result<()> {
        (**self).restore(state, model)
    }
}

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stop {
    /// Stop when a pass changes the objective by at most this fraction of its distance from the baseline; of 1 - mean cosine for k-means,
    /// which with 0 stops when no row changes sides. `None` stops at the last pass only.
    pub tolerance: Option<f64>,
    /// What the tolerance is a share of.
    pub baseline: Baseline,
    /// Passes at most.
    pub passes: usize,
}

/// What an objective is measured from where its change is compared with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Baseline {
    /// The log density of the uniform density (for k-means a cosine of 1), because ln p of many dimensions is a large number that says
    /// nothing: at d = 10,000 it hardly changes whatever the fit does.
    #[default]
    Uniform,
    /// 0, so that a change is a share of ln p itself: the rule of Kim (2021).
    Zero,
}

impl Default for Stop {
    /// The numbers of Kim (2021), 1e-5 and 100 passes, from the uniform density's ln p.
    fn default() -> Self {
        Stop { tolerance: Some(1e-5), baseline: Baseline::Uniform, passes: 100 }
    }
}

impl Stop {
    fn check(&self) -> Result<()> {
        if let Some(tolerance) = self.tolerance
            && !(tolerance >= 0.0)
        {
            return Err(Error::Option { option: "the tolerance", range: "at least 0", value: tolerance });
        }
        if self.passes == 0 {
            return Err(Error::Option { option: "the number of passes", range: "at least 1", value: 0.0 });
        }
        Ok(())
    }
}

/// How far a fit has come. Not converging is no error: the mixture is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// Another pass would help.
    Running,
    /// The objective has settled.
    Converged,
    /// All passes were made.
    PassLimit,
    /// Whoever watched said stop; there may be more to gain.
    Stopped,
}

impl Status {
    pub(crate) const ALL: [Self; 4] = [Self::Running, Self::Converged, Self::PassLimit, Self::Stopped];

    /// The name used in reports and files.
    pub fn name(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Converged => "converged",
            Status::PassLimit => "pass limit",
            Status::Stopped => "stopped",
        }
    }
}

/// What one pass was like.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Pass {
    /// The mean objective of the rows, each under the model that met it: for EM the mean of ln p before the pass's step.
    pub objective: f64,
    /// Seconds since the trainer was made; in a fit by a [`Fitter`](crate::Fitter) since the restart began, what its start took included.
    /// 0 on `wasm32-unknown-unknown`, which has no clock.
    pub seconds: f64,
    /// The smallest weight after the pass.
    pub smallest_weight: f64,
    /// The largest concentration after the pass.
    pub largest_concentration: f64,
    /// The temperature of the assignments; 1 without annealing.
    pub temperature: f64,
}

impl Pass {
    /// How many numbers are kept of a pass.
    pub(crate) const NUMBERS: usize = 4;

    /// What files keep: all but the seconds, which are different for equal fits.
    pub(crate) fn numbers(&self) -> [f64; Self::NUMBERS] {
        [self.objective, self.smallest_weight, self.largest_concentration, self.temperature]
    }

    /// # Panics
    /// If there are fewer numbers.
    pub(crate) fn of_numbers(numbers: &[f64]) -> Self {
        let [objective, smallest_weight, largest_concentration, temperature] = *numbers else {
            panic!("{} numbers a pass", Self::NUMBERS);
        };
        Pass { objective, seconds: 0.0, smallest_weight, largest_concentration, temperature }
    }
}

/// What a fit ends with.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Fit {
    /// The fitted mixture.
    pub mixture: Mixture,
    /// One entry a pass.
    pub trace: Vec<Pass>,
    /// Why it ended.
    pub status: Status,
    /// What a person should know about single components.
    pub notes: Vec<Note>,
    /// The total weight of the rows of a pass.
    pub weight: f64,
    /// The number of rows of a pass; 0 where only their statistics were seen.
    pub rows: u64,
    /// Passes over a sample of the rows that the split-and-merge search made before the first pass of the trace; 0 without a search.
    pub search_passes: usize,
    /// How it was fitted, if by a [`Fitter`](crate::Fitter).
    pub settings: Settings,
}

impl Fit {
    /// The dispersion of the rows, if the fit's policy depends on it and it was measured or given.
    pub fn dispersion(&self) -> Option<f64> {
        self.settings.dispersion()
    }

    /// The objective of the last pass, -infinity without any.
    pub fn objective(&self) -> f64 {
        self.trace.last().map_or(f64::NEG_INFINITY, |pass| pass.objective)
    }
}

/// Objectives that differ by less than this share of what they are above the baseline are the same.
const ROUNDING: f64 = 1e-6;

/// A fit that loses more than this share of its objective has fallen; draws and batches may lose some.
const FALL: f64 = 0.25;

type Watch<'a> = Box<dyn FnMut(&Pass, &Mixture) -> ControlFlow<()> + Send + 'a>;

/// The loop of a fit without its data: no files, no threads.
///
/// Whoever has the rows asks for [`Trainer::model`] and [`Trainer::assignment`], makes statistics of a block, hands them to
/// [`Trainer::absorb`], and says [`Trainer::end_pass`] when all rows have been seen. Blocks may come from anywhere; handed over in the same order
/// they give the same bits.
///
/// ```
/// use vmfkit::{RowBatch, Mixture, SufficientStats, VonMisesFisher};
/// use vmfkit::train::{Em, Status, Stop, Trainer};
/// let rows = [1.0, 0.0, 0.8, 0.6, 0.6, 0.8, 0.0, 1.0];
/// let block = RowBatch::new(2, &rows)?;
/// let start = Mixture::new(vec![1.0], vec![VonMisesFisher::new(vec![1.0, 0.0], 1.0)?])?;
/// let mut trainer = Trainer::new(start, Em::new(), Stop::default())?;
/// while trainer.status() == Status::Running {
///     let mut stats = SufficientStats::zero(1, 2);
///     trainer.model().accumulate(&block, trainer.assignment(), &mut stats)?;
///     trainer.absorb(&stats)?;
///     trainer.end_pass()?;
/// }
/// assert_eq!(trainer.into_fit().status, Status::Converged);
/// # Ok::<(), vmfkit::Error>(())
/// ```
pub struct Trainer<'a> {
    model: Mixture,
    /// The same after a repair, under which the next rows are to be seen.
    repaired: Option<(Mixture, Note)>,
    /// The fit before a repair, to which it goes back if repairs do not pay.
    unrepaired: Option<Fit>,
    rule: Box<dyn Rule>,
    stop: Stop,
    watch: Option<Watch<'a>>,
    status: Status,
    stopped: bool,
    /// The statistics of the pass so far, for rules that want to see all rows together.
    pass: SufficientStats,
    objective: f64,
    weight: f64,
    /// The rows' weight in the last whole pass, and their number if whoever has them tells.
    last_weight: f64,
    rows: u64,
    trace: Vec<Pass>,
    repairs: Vec<Note>,
    notes: Vec<Note>,
    search_passes: usize,
    began: Clock,
}

impl<'a> Trainer<'a> {
    /// A trainer that begins with `start`.
    pub fn new(start: Mixture, rule: impl Rule + 'static, stop: Stop) -> Result<Self> {
        stop.check()?;
        Ok(Trainer {
            pass: SufficientStats::zero(start.components().len(), start.dim()),
            model: start,
            repaired: None,
            unrepaired: None,
            rule: Box::new(rule),
            stop,
            watch: None,
            status: Status::Running,
            stopped: false,
            objective: 0.0,
            weight: 0.0,
            last_weight: 0.0,
            rows: 0,
            trace: Vec::new(),
            repairs: Vec::new(),
            notes: Vec::new(),
            search_passes: 0,
            began: Clock::start(),
        })
    }

    /// Shows every pass to a callback, which may stop the fit.
    pub fn watch(mut self, watch: impl FnMut(&Pass, &Mixture) -> ControlFlow<()> + Send + 'a) -> Self {
        self.watch = Some(Box::new(watch));
        self
    }

    /// Counts seconds from an earlier moment.
    pub(crate) fn since(mut self, began: Clock) -> Self {
        self.began = began;
        self
    }

    /// Notes how many passes a search has made for the start.
    pub(crate) fn after_search(mut self, passes: usize) -> Self {
        self.search_passes = passes;
        self
    }

    /// The mixture under which the next rows are to be seen.
    pub fn model(&self) -> &Mixture {
        self.repaired.as_ref().map_or(&self.model, |(repaired, _)| repaired)
    }

    /// How the next rows are to be assigned.
    pub fn assignment(&self) -> Assignment {
        self.rule.assignment()
    }

    /// When the rule wants to see statistics.
    pub fn cadence(&self) -> Cadence {
        self.rule.cadence()
    }

    /// How far the fit has come.
    pub fn status(&self) -> Status {
        if self.stopped { Status::Stopped } else { self.status }
    }

    /// How many whole passes were made.
    pub fn passes(&self) -> usize {
        self.trace.len()
    }

    /// Ends the fit here, also within a pass: rules that wait for all rows keep the mixture with which the pass began.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.repaired = None;
    }

    /// Takes the statistics of some rows: of a block, or of all rows of a pass.
    pub fn absorb(&mut self, stats: &SufficientStats) -> Result<()> {
        // Before anything is counted: statistics may come from another machine.
        self.pass.check_shape_of(stats)?;
        self.objective += stats.objective();
        self.weight += stats.weight();
        match self.rule.cadence() {
            Cadence::EveryPass => self.pass.merge(stats),
            Cadence::EveryBlock if stats.weight() > 0.0 => {
                self.step(stats)?;
                self.repaired = self.rule.repaired(&self.model);
                Ok(())
            }
            Cadence::EveryBlock => Ok(()),
        }
    }

    fn step(&mut self, stats: &SufficientStats) -> Result<()> {
        if self.repaired.is_none() && self.unrepaired.as_ref().is_some_and(|before| before.mixture == self.model) {
            // It was gone back to, and rows have been seen under it.
            self.unrepaired = None;
        }
        let seen_under = self.repaired.as_ref().map_or(&self.model, |(repaired, _)| repaired);
        let (model, notes) = self.rule.next(seen_under, stats)?;
        self.model = model;
        // Of the states of components only the last counts; of repairs each under which rows were seen.
        self.repairs.extend(self.repaired.take().map(|(_, repair)| repair));
        self.notes = notes;
        Ok(())
    }

    /// All rows have been seen: takes the step of rules that waited for them, and decides whether to go on.
    pub fn end_pass(&mut self) -> Result<Status> {
        if !(self.weight > 0.0) {
            return Err(Error::NoRows { weight: self.weight });
        }
        let temperature = self.rule.assignment().temperature();
        if self.rule.cadence() == Cadence::EveryPass {
            let stats = std::mem::replace(&mut self.pass, SufficientStats::zero(0, self.model.dim()));
            let stepped = self.step(&stats);
            self.pass = stats;
            self.pass.clear();
            stepped?;
        }
        let may_stop = self.rule.end_pass();
        let pass = Pass {
            objective: self.objective / self.weight,
            seconds: self.began.seconds(),
            smallest_weight: self.model.weights().iter().copied().fold(f64::INFINITY, f64::min),
            largest_concentration: self.model.components().iter().map(|c| c.concentration()).fold(0.0, f64::max),
            temperature,
        };
        let settled = |before: &Pass, tolerance: f64| {
            let scale = match self.stop.baseline {
                Baseline::Zero => before.objective.abs(),
                Baseline::Uniform => self.scale(before.objective),
            };
            before.temperature == temperature && (pass.objective - before.objective).abs() <= tolerance * scale
        };
        let converged = may_stop && self.stop.tolerance.zip(self.trace.last()).is_some_and(|(t, before)| settled(before, t));
        self.trace.push(pass);
        self.objective = 0.0;
        self.last_weight = std::mem::take(&mut self.weight);
        self.stopped |= self.watch.as_mut().is_some_and(|watch| watch(&pass, &self.model).is_break());
        let converged = converged && !self.takes_repairs_back();
        self.status = match () {
            () if converged => Status::Converged,
            () if self.trace.len() >= self.stop.passes => Status::PassLimit,
            () => Status::Running,
        };
        self.look_for_repairs();
        Ok(self.status())
    }

    fn look_for_repairs(&mut self) {
        self.repaired = if self.status() == Status::Running { self.rule.repaired(&self.model) } else { None };
        // Where steps are made in the middle of a pass, rows are drawn, or it is warm, objectives do not tell what a repair was good for.
        let tells = self.rule.cadence() == Cadence::EveryPass
            && matches!(self.rule.assignment(), Assignment::Soft | Assignment::Hard | Assignment::Nearest)
            && self.trace.last().is_some_and(|pass| pass.temperature == 1.0);
        if self.repaired.is_some()
            && tells
            && self.unrepaired.as_ref().is_none_or(|before| before.objective() < self.last_objective())
        {
            self.unrepaired = Some(self.as_fit(Status::Running));
        }
    }

    /// The objective of the last pass, -infinity without any.
    fn last_objective(&self) -> f64 {
        self.trace.last().map_or(f64::NEG_INFINITY, |pass| pass.objective)
    }

    /// The fit before repairs, if it was better than what has come of them.
    fn before_repairs(&self) -> Option<&Fit> {
        let better = |before: &&Fit| before.objective() - self.last_objective() > ROUNDING * self.scale(before.objective());
        self.unrepaired.as_ref().filter(better)
    }

    /// A fit that settles below where it was before a repair goes on from there without any; gives whether this one does.
    fn takes_repairs_back(&mut self) -> bool {
        let Some(before) = self.before_repairs().cloned() else {
            self.unrepaired = None;
            return false;
        };
        // It stays as what the fit ends with until a pass has been made with its mixture.
        self.model = before.mixture;
        (self.repairs, self.notes) = before.notes.into_iter().partition(|note| matches!(note, Note::Reseeded { .. }));
        self.rule.give_up_repairs();
        true
    }

    /// What a change of the objective is compared with: how far it is above the log density of the uniform density. For k-means, whose
    /// objective is the mean cosine, 1 less that: the mean of what k-means minimises. Where rows fill a small cap the cosine itself is near 1
    /// whatever the fit.
    fn scale(&self, objective: f64) -> f64 {
        match self.rule.assignment() {
            Assignment::Nearest => (1.0 - objective).abs(),
            _ => (objective - bessel::ln_normalizer(self.model.dim(), 0.0)).abs(),
        }
    }

    /// The total weight of the rows of the last whole pass.
    pub(crate) fn rows_weight(&self) -> f64 {
        self.last_weight
    }

    /// The number of rows of the last whole pass.
    pub(crate) fn row_count(&self) -> u64 {
        self.rows
    }

    /// Tells how many rows a pass has.
    pub(crate) fn count_rows(&mut self, rows: u64) {
        self.rows = rows;
    }

    /// All that is to be remembered, between two passes; an error within one.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        if self.weight > 0.0 {
            return Err(Error::CheckpointWithinPass { weight: self.weight });
        }
        Ok(Checkpoint {
            restart: 0,
            settings: Settings::default(),
            rows: None,
            current: self.as_fit(self.status),
            unrepaired: match self.before_repairs() {
                Some(before) if self.status != Status::Running => Some(self.gone_back_to(before, self.status)),
                _ => self.unrepaired.clone(),
            },
            rule: self.rule.state(),
            best: None,
        })
    }

    /// Goes on where the trainer was whose checkpoint this is; this one must have been made with the same rule and stop.
    pub fn resume(mut self, checkpoint: &Checkpoint) -> Result<Self> {
        let Checkpoint { current, unrepaired, rule, .. } = checkpoint;
        let (expected, found) = (&self.model, &current.mixture);
        if expected.dim() != found.dim() {
            return Err(Error::DimensionMismatch { expected: expected.dim(), found: found.dim() });
        }
        if (expected.components().len(), expected.has_background()) != (found.components().len(), found.has_background()) {
            let (expected, found) = (expected.components().len(), found.components().len());
            return Err(Error::ComponentMismatch { what: "the mixture of the checkpoint", expected, found });
        }
        self.rule.restore(rule, &current.mixture)?;
        self.model = current.mixture.clone();
        self.status = current.status;
        self.last_weight = current.weight;
        self.rows = current.rows;
        self.search_passes = current.search_passes;
        self.unrepaired = unrepaired.clone().map(|mut before| {
            before.notes.retain(|note| !note.is_of_the_end());
            Fit { status: Status::Running, ..before }
        });
        self.trace = current.trace.clone();
        let notes = current.notes.iter().filter(|note| !note.is_of_the_end());
        (self.repairs, self.notes) = notes.partition(|note| matches!(note, Note::Reseeded { .. }));
        self.look_for_repairs();
        Ok(self)
    }

    /// The mixture, and how it came about.
    pub fn into_fit(self) -> Fit {
        self.so_far()
    }

    /// The same while the fit goes on.
    pub fn so_far(&self) -> Fit {
        match (self.status(), self.before_repairs()) {
            (status, Some(before)) if status != Status::Running => self.gone_back_to(before, status),
            (status, _) => self.as_fit(status),
        }
    }

    /// A fit that ends as it was before repairs.
    fn gone_back_to(&self, before: &Fit, status: Status) -> Fit {
        let taken_back = Note::TakenBack { pass: before.trace.len(), passes: self.trace.len() };
        let end = self.notes_on_the_end(&before.trace, &before.mixture, status);
        let notes = before.notes.iter().copied().chain([taken_back]).chain(end).collect();
        Fit { status, notes, ..before.clone() }
    }

    /// What the passes say of a fit that has ended.
    fn notes_on_the_end(&self, trace: &[Pass], mixture: &Mixture, status: Status) -> impl Iterator<Item = Note> {
        let last = trace.last().filter(|_| status != Status::Running);
        // While it is warm, components are often the same.
        let twins = last.filter(|last| last.temperature == 1.0).into_iter().flat_map(|_| twins(mixture));
        let warm = last.filter(|last| last.temperature > 1.0).map(|last| Note::Warm { temperature: last.temperature });
        let fallen = last.and_then(|last| {
            // Objectives of different temperatures do not compare.
            let passes = trace.iter().enumerate().filter(|(_, pass)| pass.temperature == last.temperature);
            let (number, best) = passes.max_by(|(_, a), (_, b)| a.objective.total_cmp(&b.objective))?;
            let room = FALL * self.scale(best.objective);
            let fallen = Note::Fallen { pass: number + 1, from: best.objective, to: last.objective };
            (best.objective - last.objective > room).then_some(fallen)
        });
        warm.into_iter().chain(fallen).chain(twins)
    }

    fn as_fit(&self, status: Status) -> Fit {
        Fit {
            mixture: self.model.clone(),
            trace: self.trace.clone(),
            status,
            notes: self
                .repairs
                .iter()
                .chain(&self.notes)
                .copied()
                .chain(self.notes_on_the_end(&self.trace, &self.model, status))
                .collect(),
            weight: self.last_weight,
            rows: self.rows,
            search_passes: self.search_passes,
            settings: Settings::default(),
        }
    }
}
