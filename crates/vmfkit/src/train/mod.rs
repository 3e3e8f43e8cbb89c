//! Iterative fitting: a [`Rule`] turns statistics into the next mixture, a [`Trainer`] turns the crank, [`fit`] does so over a source on this
//! machine's threads.

mod adam;
mod em;
mod local;
mod online_em;

pub use adam::Adam;
pub use em::{Annealing, Em};
pub(crate) use local::{Driver, ProgressCallback};
pub use local::{Progress, fit, fit_in_batches};
pub use online_em::OnlineEm;

use crate::bessel;
use crate::error::{Error, Result};
use crate::maximise::Note;
use crate::mixture::{Assignment, Mixture};
use crate::stats::SufficientStats;
use std::ops::ControlFlow;
use std::time::Instant;

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
    /// Called after each pass; true if the fit may stop here as far as the rule is concerned.
    fn end_pass(&mut self) -> bool;
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
    fn end_pass(&mut self) -> bool {
        (**self).end_pass()
    }
}

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stop {
    /// The objective changes by less than this share of itself in a pass: the paper's rule, but with the log-likelihood taken relative to that of the
    /// uniform density, because ln p of many dimensions is a large number that says nothing. `None` stops at the last pass only.
    pub tolerance: Option<f64>,
    /// Passes at most.
    pub passes: usize,
}

impl Default for Stop {
    /// Those of Kim (2021): 1e-5 and 100 passes.
    fn default() -> Self {
        Stop { tolerance: Some(1e-5), passes: 100 }
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
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pass {
    /// The mean objective of the rows, each under the model that met it: for EM the mean of ln p before the pass's step.
    pub objective: f64,
    /// Seconds since the trainer was made.
    pub seconds: f64,
    /// The smallest weight after the pass.
    pub smallest_weight: f64,
    /// The largest concentration after the pass.
    pub largest_concentration: f64,
    /// The temperature of the assignments; 1 without annealing.
    pub temperature: f64,
}

/// What a fit ends with.
#[derive(Debug, Clone)]
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
}

impl Fit {
    /// The objective of the last pass, -infinity without any.
    pub fn objective(&self) -> f64 {
        self.trace.last().map_or(f64::NEG_INFINITY, |pass| pass.objective)
    }
}

type Watch<'a> = Box<dyn FnMut(&Pass, &Mixture) -> ControlFlow<()> + Send + 'a>;

/// The loop of a fit without its data: no files, no threads.
///
/// Whoever has the rows asks for [`Trainer::model`] and [`Trainer::assignment`], makes statistics of a block, hands them to
/// [`Trainer::absorb`], and says [`Trainer::end_pass`] when all rows have been seen. Blocks may come from anywhere; handed over in the same order
/// they give the same bits.
///
/// ```
/// use vmfkit::{Block, Mixture, SufficientStats, VonMisesFisher};
/// use vmfkit::train::{Em, Status, Stop, Trainer};
/// let rows = [1.0, 0.0, 0.8, 0.6, 0.6, 0.8, 0.0, 1.0];
/// let block = Block::new(2, &rows)?;
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
    rule: Box<dyn Rule>,
    stop: Stop,
    watch: Option<Watch<'a>>,
    status: Status,
    stopped: bool,
    /// The statistics of the pass so far, for rules that want to see all rows together.
    pass: SufficientStats,
    objective: f64,
    weight: f64,
    /// The rows' weight in the last whole pass.
    last_weight: f64,
    blocks: u64,
    trace: Vec<Pass>,
    repairs: Vec<Note>,
    notes: Vec<Note>,
    began: Instant,
}

impl<'a> Trainer<'a> {
    /// A trainer that begins with `start`.
    pub fn new(start: Mixture, rule: impl Rule + 'static, stop: Stop) -> Result<Self> {
        stop.check()?;
        Ok(Trainer {
            pass: SufficientStats::zero(start.components().len(), start.dim()),
            model: start,
            rule: Box::new(rule),
            stop,
            watch: None,
            status: Status::Running,
            stopped: false,
            objective: 0.0,
            weight: 0.0,
            last_weight: 0.0,
            blocks: 0,
            trace: Vec::new(),
            repairs: Vec::new(),
            notes: Vec::new(),
            began: Instant::now(),
        })
    }

    /// Shows every pass to a callback, which may stop the fit.
    pub fn watch(mut self, watch: impl FnMut(&Pass, &Mixture) -> ControlFlow<()> + Send + 'a) -> Self {
        self.watch = Some(Box::new(watch));
        self
    }

    /// The mixture under which the next rows are to be seen.
    pub fn model(&self) -> &Mixture {
        &self.model
    }

    /// How the rows of the next block are to be assigned.
    pub fn assignment(&self) -> Assignment {
        self.rule.assignment().for_block(self.blocks)
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
    }

    /// Takes the statistics of a block.
    pub fn absorb(&mut self, stats: &SufficientStats) -> Result<()> {
        // Before anything is counted: statistics may come from another machine.
        self.pass.check_shape_of(stats)?;
        self.blocks += 1;
        self.objective += stats.objective();
        self.weight += stats.weight();
        match self.rule.cadence() {
            Cadence::EveryPass => self.pass.merge(stats),
            Cadence::EveryBlock if stats.weight() > 0.0 => self.step(stats),
            Cadence::EveryBlock => Ok(()),
        }
    }

    fn step(&mut self, stats: &SufficientStats) -> Result<()> {
        let (model, notes) = self.rule.next(&self.model, stats)?;
        self.model = model;
        // Of the states of components only the last counts; of repairs each.
        let (repairs, notes): (Vec<_>, Vec<_>) = notes.into_iter().partition(|note| matches!(note, Note::Reseeded { .. }));
        self.repairs.extend(repairs);
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
            seconds: self.began.elapsed().as_secs_f64(),
            smallest_weight: self.model.weights().iter().copied().fold(f64::INFINITY, f64::min),
            largest_concentration: self.model.components().iter().map(|c| c.concentration()).fold(0.0, f64::max),
            temperature,
        };
        let settled = |before: &Pass, tolerance: f64| {
            let scale = (before.objective - self.baseline()).abs();
            before.temperature == temperature && (pass.objective - before.objective).abs() <= tolerance * scale
        };
        let converged = may_stop && self.stop.tolerance.zip(self.trace.last()).is_some_and(|(t, before)| settled(before, t));
        self.trace.push(pass);
        self.objective = 0.0;
        self.last_weight = std::mem::take(&mut self.weight);
        self.stopped |= self.watch.as_mut().is_some_and(|watch| watch(&pass, &self.model).is_break());
        self.status = match () {
            () if converged => Status::Converged,
            () if self.trace.len() >= self.stop.passes => Status::PassLimit,
            () => Status::Running,
        };
        Ok(self.status())
    }

    /// What an objective is measured against: the log density of the uniform density, or for k-means no projection at all.
    fn baseline(&self) -> f64 {
        if self.rule.assignment() == Assignment::Nearest { 0.0 } else { bessel::ln_normalizer(self.model.dim(), 0.0) }
    }

    /// The mixture, and how it came about.
    pub fn into_fit(self) -> Fit {
        let status = self.status();
        let notes = self.repairs.into_iter().chain(self.notes).collect();
        Fit { mixture: self.model, trace: self.trace, status, notes, weight: self.last_weight }
    }
}
