//! [`Trainer`]: the loop of a fit without its data.

use super::checkpoint::Checkpoint;
use super::repair::Repairs;
use super::rule::Rule;
use super::stop::{Status, Stop, scale};
use super::trace::{Fit, Pass, last_objective, notes_at_the_end};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::m_step::{Note, check_shape};
use crate::mixture::{Assignment, Mixture};
use crate::settings::Settings;
use crate::stats::{ComponentSum, SufficientStats};
use std::ops::ControlFlow;

/// Objectives whose difference is less than this fraction of their scale are equal but for
/// rounding.
const ROUNDING: f64 = 1e-6;

type Watch<'a> = Box<dyn FnMut(&Pass, &Mixture) -> ControlFlow<()> + Send + 'a>;

/// The loop of a fit without its data: no files, no threads.
///
/// The caller computes statistics of rows under [`Trainer::model`] and [`Trainer::assignment`] and
/// passes them to [`Trainer::step`]: for EM those of all rows, for the online methods those of each
/// mini-batch. [`Trainer::end_pass`] follows when all rows were seen. The rows may be anywhere; the
/// same statistics in the same order give the same bits. [`fit`](super::fit) does all this for a
/// source on this machine.
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
///     trainer.step(&stats)?;
///     trainer.end_pass(block.len() as u64)?;
/// }
/// assert_eq!(trainer.into_fit().status, Status::Converged);
/// # Ok::<(), vmfkit::Error>(())
/// ```
pub struct Trainer<'a> {
    model: Mixture,
    /// The model with an empty component restarted, for the next E step. A fit that makes no other
    /// step ends with the model itself: a restarted component has not been fitted yet.
    repaired: Option<(Mixture, Note)>,
    /// The fit before a repair, to which it returns if repairs do not pay off.
    unrepaired: Option<Fit>,
    rule: Rule,
    repairs: Repairs,
    stop: Stop,
    watch: Option<Watch<'a>>,
    status: Status,
    stopped: bool,
    /// The sums over the rows of the pass so far.
    objective: f64,
    weight: f64,
    /// Of the last complete pass.
    last_weight: f64,
    rows: u64,
    trace: Vec<Pass>,
    /// Repairs after which an E step was made.
    repair_notes: Vec<Note>,
    /// Notes of the last step.
    notes: Vec<Note>,
    search_passes: usize,
    /// Of the statistics behind the model.
    sums: Vec<ComponentSum>,
    began: Clock,
}

impl<'a> Trainer<'a> {
    /// A trainer that begins with `start`.
    pub fn new(start: Mixture, rule: impl Into<Rule>, stop: Stop) -> Result<Self> {
        stop.check()?;
        Ok(Trainer {
            model: start,
            repaired: None,
            unrepaired: None,
            rule: rule.into(),
            repairs: Repairs::default(),
            stop,
            watch: None,
            status: Status::Running,
            stopped: false,
            objective: 0.0,
            weight: 0.0,
            last_weight: 0.0,
            rows: 0,
            trace: Vec::new(),
            repair_notes: Vec::new(),
            notes: Vec::new(),
            search_passes: 0,
            sums: Vec::new(),
            began: Clock::start(),
        })
    }

    /// Calls back after every pass; a break stops the fit.
    pub fn watch(mut self, watch: impl FnMut(&Pass, &Mixture) -> ControlFlow<()> + Send + 'a) -> Self {
        self.watch = Some(Box::new(watch));
        self
    }

    /// Counts seconds from an earlier moment.
    pub(crate) fn since(mut self, began: Clock) -> Self {
        self.began = began;
        self
    }

    /// Records the number of passes that a search has made for the start.
    pub(crate) fn after_search(mut self, passes: usize) -> Self {
        self.search_passes = passes;
        self
    }

    /// The mixture for the next E step.
    pub fn model(&self) -> &Mixture {
        self.repaired.as_ref().map_or(&self.model, |(repaired, _)| repaired)
    }

    /// How the next E step assigns rows.
    pub fn assignment(&self) -> Assignment {
        self.rule.assignment_in(self.trace.len())
    }

    /// True if a step follows every mini-batch, false if it follows all rows of a pass.
    pub fn is_online(&self) -> bool {
        self.rule.is_online()
    }

    /// The state of the fit.
    pub fn status(&self) -> Status {
        if self.stopped { Status::Stopped } else { self.status }
    }

    /// The number of complete passes.
    pub fn passes(&self) -> usize {
        self.trace.len()
    }

    /// The total weight of the rows of the last complete pass.
    pub(crate) fn rows_weight(&self) -> f64 {
        self.last_weight
    }

    /// The number of rows of the last complete pass.
    pub(crate) fn row_count(&self) -> u64 {
        self.rows
    }

    /// Ends the fit, also within a pass: EM keeps the mixture with which the pass began.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.repaired = None;
    }

    /// Takes the M step, or the step of an online method.
    ///
    /// EM takes the statistics of all rows of the pass, [merged](SufficientStats::merge) in the
    /// order of the rows if there are several; online methods those of a mini-batch.
    pub fn step(&mut self, stats: &SufficientStats) -> Result<()> {
        // Statistics may come from another machine: check before anything is counted.
        check_shape(stats, &self.model)?;
        self.objective += stats.objective();
        self.weight += stats.weight();
        if !(stats.weight() > 0.0) {
            return Ok(());
        }
        if self.repaired.is_none() && self.unrepaired.as_ref().is_some_and(|before| before.mixture == self.model) {
            // The fit has returned to this mixture, and now an E step has been made with it.
            self.unrepaired = None;
        }
        let seen_under = self.repaired.as_ref().map_or(&self.model, |(repaired, _)| repaired);
        let (mixture, notes) = self.rule.step(seen_under, stats)?;
        if let Some(basis) = self.rule.basis_of_repairs(stats) {
            self.sums = basis.sums();
            self.repairs.plan(&mixture, basis, &notes, self.rule.maximisation(), self.trace.len() + 1);
        }
        self.model = mixture;
        self.notes = notes;
        self.repair_notes.extend(self.repaired.take().map(|(_, repair)| repair));
        if self.is_online() {
            self.repaired = self.repairs.repaired(&self.model, self.rule.maximisation());
        }
        Ok(())
    }

    /// Records a pass over this number of rows (0 if it is unknown) and decides whether to
    /// continue.
    pub fn end_pass(&mut self, rows: u64) -> Result<Status> {
        if !(self.weight > 0.0) {
            return Err(Error::NoRows { weight: self.weight });
        }
        let (objective, temperature) = (self.objective / self.weight, self.assignment().temperature());
        let pass = Pass::of(&self.model, objective, self.began.seconds(), temperature);
        let converged = temperature == 1.0 && !self.repairs.is_planned() && self.has_settled(&pass);
        self.rule.end_pass();
        self.trace.push(pass);
        (self.rows, self.last_weight) = (rows, self.weight);
        (self.objective, self.weight) = (0.0, 0.0);
        self.stopped |= self.watch.as_mut().is_some_and(|watch| watch(&pass, &self.model).is_break());
        self.status = match () {
            () if converged && !self.undoes_repairs() => Status::Converged,
            () if self.trace.len() >= self.stop.passes => Status::PassLimit,
            () => Status::Running,
        };
        self.repair();
        Ok(self.status())
    }

    fn has_settled(&self, pass: &Pass) -> bool {
        self.trace.last().is_some_and(|before| {
            before.temperature == pass.temperature
                && self.stop.has_settled(before.objective, pass.objective, self.assignment(), self.model.dim())
        })
    }

    /// Applies the planned repair to the mixture for the next pass.
    fn repair(&mut self) {
        self.repaired = match self.status() {
            Status::Running => self.repairs.repaired(&self.model, self.rule.maximisation()),
            _ => None,
        };
        // The objective shows what a repair has gained unless steps are made within the pass, rows
        // are assigned at random, or the temperature is above 1.
        let shows = !self.is_online()
            && matches!(self.assignment(), Assignment::Soft | Assignment::Hard | Assignment::Nearest)
            && self.trace.last().is_some_and(|pass| pass.temperature == 1.0);
        let objective = last_objective(&self.trace);
        if self.repaired.is_some() && shows && self.unrepaired.as_ref().is_none_or(|before| before.objective() < objective) {
            self.unrepaired = Some(self.as_fit(Status::Running));
        }
    }

    /// The fit before repairs, if it was better than the fit with them is so far.
    fn better_unrepaired(&self) -> Option<&Fit> {
        let loss = |before: &Fit| before.objective() - last_objective(&self.trace);
        self.unrepaired.as_ref().filter(|before| loss(before) > ROUNDING * self.scale(before.objective()))
    }

    /// Returns to the fit before repairs, and makes no others, if that fit was better; true if so.
    fn undoes_repairs(&mut self) -> bool {
        let Some(before) = self.better_unrepaired().cloned() else {
            self.unrepaired = None;
            return false;
        };
        // `unrepaired` stays, as the result of the fit, until an E step was made with its mixture.
        (self.model, self.sums) = (before.mixture, before.sums);
        (self.repair_notes, self.notes) = before.notes.into_iter().partition(is_repair);
        self.repairs.give_up();
        true
    }

    fn scale(&self, objective: f64) -> f64 {
        scale(objective, self.assignment(), self.model.dim())
    }

    /// Everything that the next pass needs. An error within a pass.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        if self.weight > 0.0 {
            return Err(Error::CheckpointWithinPass { weight: self.weight });
        }
        Ok(Checkpoint {
            restart: 0,
            settings: Settings::default(),
            rows: None,
            current: self.as_fit(self.status),
            unrepaired: match self.better_unrepaired() {
                Some(before) if self.status != Status::Running => Some(self.returned_to(before, self.status)),
                _ => self.unrepaired.clone(),
            },
            rule: self.rule.name().to_owned(),
            state: self.repairs.write(self.rule.state()),
            best: None,
        })
    }

    /// Continues from a checkpoint. This trainer must have been made with the same rule and stop.
    pub fn resume(mut self, checkpoint: &Checkpoint) -> Result<Self> {
        let Checkpoint { current, unrepaired, rule, state, .. } = checkpoint;
        let (expected, found) = (&self.model, &current.mixture);
        if expected.dim() != found.dim() {
            return Err(Error::DimensionMismatch { expected: expected.dim(), found: found.dim() });
        }
        if (expected.components().len(), expected.has_background()) != (found.components().len(), found.has_background()) {
            let (expected, found) = (expected.components().len(), found.components().len());
            return Err(Error::ComponentMismatch { what: "the mixture of the checkpoint", expected, found });
        }
        if rule != self.rule.name() {
            let (expected, found) = (rule.clone(), self.rule.name().to_owned());
            return Err(Error::CheckpointSetting { setting: "the rule".to_owned(), expected, found });
        }
        self.rule.restore(state, &current.mixture)?;
        self.repairs = Repairs::read(state, &current.mixture)?;
        self.model = current.mixture.clone();
        self.status = current.status;
        self.last_weight = current.weight;
        self.rows = current.rows;
        self.search_passes = current.search_passes;
        self.sums = current.sums.clone();
        self.unrepaired = unrepaired.clone().map(|mut before| {
            before.notes.retain(|note| !note.is_of_the_end());
            Fit { status: Status::Running, ..before }
        });
        self.trace = current.trace.clone();
        let notes = current.notes.iter().filter(|note| !note.is_of_the_end());
        (self.repair_notes, self.notes) = notes.partition(|note| is_repair(note));
        self.repair();
        Ok(self)
    }

    /// The result of the fit.
    pub fn into_fit(self) -> Fit {
        self.so_far()
    }

    /// The result of the fit if it ended now.
    pub fn so_far(&self) -> Fit {
        match (self.status(), self.better_unrepaired()) {
            (status, Some(before)) if status != Status::Running => self.returned_to(before, status),
            (status, _) => self.as_fit(status),
        }
    }

    /// A fit that ends as it was before repairs.
    fn returned_to(&self, before: &Fit, status: Status) -> Fit {
        let mut notes = before.notes.clone();
        notes.push(Note::RepairsUndone { pass: before.trace.len(), passes: self.trace.len() });
        notes.extend(self.notes_at_the_end(&before.trace, &before.mixture, status));
        Fit { status, notes, ..before.clone() }
    }

    fn as_fit(&self, status: Status) -> Fit {
        let mut notes = [&self.repair_notes[..], &self.notes].concat();
        notes.extend(self.notes_at_the_end(&self.trace, &self.model, status));
        Fit {
            mixture: self.model.clone(),
            trace: self.trace.clone(),
            status,
            notes,
            weight: self.last_weight,
            rows: self.rows,
            search_passes: self.search_passes,
            sums: self.sums.clone(),
            calibration: None,
            outlier_table: None,
            settings: Settings::default(),
        }
    }

    fn notes_at_the_end(&self, trace: &[Pass], mixture: &Mixture, status: Status) -> Vec<Note> {
        match status {
            Status::Running => Vec::new(),
            _ => notes_at_the_end(trace, mixture, self.assignment()),
        }
    }
}

fn is_repair(note: &Note) -> bool {
    matches!(note, Note::Reseeded { .. })
}
