//! A fit whose passes are made in parts, by any number of processes that exchange bytes: docs/clusters.md tells how with files.
//!
//! One process makes a start ([`Fitter::begin`]) and hands out the bytes of the [`Checkpoint`]. Each of the others makes statistics of its
//! rows under it ([`Accumulator`]) and answers with their bytes. The first adds them in the order of the rows and makes the step
//! ([`Checkpoint::step`]), and so on until the fit has ended. Where statistics are added block by block, the fit is that of one process to
//! the last bit.
//!
//! ```
//! use vmfkit::parts::Accumulator;
//! use vmfkit::source::MemorySource;
//! use vmfkit::train::{Checkpoint, Status};
//! use vmfkit::{Block, Fitter, stats_file::PartStats};
//!
//! let rows = [1.0, 0.0, 0.8, 0.6, 0.6, 0.8, 0.0, 1.0];
//! let block = Block::new(2, &rows)?;
//! let mut state = Fitter::new(2).begin(&mut MemorySource::new(block.clone()))?.expect("nobody stops it").to_bytes();
//! loop {
//!     // Anywhere, given the state's bytes.
//!     let mut answers = Vec::new();
//!     for (number, rows) in [block.slice(0, 2), block.slice(2, 4)].iter().enumerate() {
//!         let accumulator = Accumulator::of(&Checkpoint::from_bytes(&state)?)?;
//!         let mut part = accumulator.part(number as u64);
//!         accumulator.see(rows, &mut part)?;
//!         answers.push(part.to_bytes());
//!     }
//!     // In one place, given the answers.
//!     let mut all = PartStats::from_bytes(&answers[0])?;
//!     all.merge(&PartStats::from_bytes(&answers[1])?)?;
//!     let next = Checkpoint::from_bytes(&state)?.step(&all)?;
//!     state = next.to_bytes();
//!     if next.current().status != Status::Running {
//!         break;
//!     }
//! }
//! let fit = Fitter::new(2).fit_source(&mut MemorySource::new(block).batches(2))?;
//! assert_eq!(Checkpoint::from_bytes(&state)?.current().mixture, fit.mixture);
//! # Ok::<(), vmfkit::Error>(())
//! ```

use crate::block::Block;
use crate::error::{Error, Result};
use crate::fingerprint::FingerprintedSource;
use crate::fitter::Fitter;
use crate::fitter_settings::parameters;
use crate::mixture::{Assignment, Mixture};
use crate::restarts::{Sampled, is_same_weight};
use crate::rows_mark::RowsMark;
use crate::settings::fingerprint as mark;
use crate::source::Source;
use crate::stats::SufficientStats;
use crate::stats_file::PartStats;
use crate::train::{Checkpoint, Status, Trainer};

impl Fitter<'_> {
    /// Makes the start of a fit by parts, and no pass; none if whoever is told the progress says stop.
    ///
    /// The start is that of [`Self::fit_source`] with the same rows.
    pub fn begin(mut self, source: &mut dyn Source) -> Result<Option<Checkpoint>> {
        self.check()?;
        self.check_room(source.dim())?;
        self.check_parts()?;
        self.check_start()?;
        let mut progress = self.progress.take();
        let mark = if source.can_rewind() { Some(RowsMark::of(source)?) } else { None };
        let source = &mut FingerprintedSource::new(source, mark);
        let Sampled { first, rows, flow } = self.sampled_start(source, 0, progress.as_deref_mut())?;
        self.take_dispersion(first.dispersion);
        if flow.is_break() {
            return Ok(None);
        }
        let mark = mark.map(|mark| mark.learn(rows, source.fingerprint()));
        let trainer = Trainer::new(first.mixture, self.rule(self.seed_of(0)), self.stop_of_method())?;
        let trainer = trainer.after_search(first.search_passes);
        Ok(Some(trainer.checkpoint()?.with_settings(self.settings(source.dim())).with_rows(mark)))
    }

    /// A trainer that goes on where a checkpoint was made, which must have the settings of this fitter. What was measured of the rows is taken
    /// from it.
    pub fn trainer(&self, checkpoint: &Checkpoint) -> Result<Trainer<'static>> {
        self.check()?;
        let mixture = &checkpoint.current.mixture;
        let mut fitter = self.choices();
        fitter.take_dispersion(checkpoint.settings.dispersion());
        checkpoint.settings.check(&fitter.settings(mixture.dim()))?;
        let fitted = mixture.components().len() - usize::from(mixture.has_background());
        if fitted != self.components {
            let option = "the number of components of the checkpoint's mixture";
            return Err(Error::Option { option, range: "that of its settings", value: fitted as f64 });
        }
        let rule = fitter.rule(self.seed_of(checkpoint.restart));
        Trainer::new(mixture.clone(), rule, self.stop_of_method())?.resume(checkpoint)
    }

    fn check_parts(&self) -> Result<()> {
        if self.method.is_online() {
            let hint = "methods that go by parts are em, hard, stochastic and kmeans";
            return Err(Error::NotByParts { found: format!("method {}", self.method.name()), hint });
        }
        if self.restarts != 1 {
            let hint = "begin a fit for each of several seeds, and keep the one that ends with the best objective";
            return Err(Error::NotByParts { found: format!("restarts {}", self.restarts), hint });
        }
        Ok(())
    }
}

/// Makes statistics of parts of a pass.
pub struct Accumulator {
    mixture: Mixture,
    /// The trainer that will take them; none for a mixture without a fit, whose rows are shared by their responsibilities.
    trainer: Option<Trainer<'static>>,
    state: u64,
    pass: u64,
    per_block: bool,
}

impl std::fmt::Debug for Accumulator {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Accumulator").field("pass", &self.pass).finish_non_exhaustive()
    }
}

impl Accumulator {
    /// For the next pass of a fit, with the assignment that its method asks for.
    pub fn of(checkpoint: &Checkpoint) -> Result<Self> {
        let trainer = checkpoint.trainer_of_parts()?;
        let (state, pass) = checkpoint.mark_of_pass();
        Ok(Accumulator { mixture: trainer.model().clone(), trainer: Some(trainer), state, pass, per_block: false })
    }

    /// For rows shared by their responsibilities under a mixture, whatever is to be done with the statistics.
    pub fn of_mixture(mixture: &Mixture) -> Self {
        let state = mark(parameters(mixture).flat_map(f64::to_le_bytes));
        Accumulator { mixture: mixture.clone(), trainer: None, state, pass: 0, per_block: false }
    }

    /// Keeps the statistics of each block in a part, to be added in order by whoever makes the step: more bytes, and the fit is that of one
    /// process to the last bit however many blocks a part has. By default they are summed.
    pub fn per_block(mut self, per_block: bool) -> Self {
        self.per_block = per_block;
        self
    }

    /// The mixture under which rows are seen.
    pub fn mixture(&self) -> &Mixture {
        &self.mixture
    }

    /// The pass, counted from 1; 0 for a mixture without a fit.
    pub fn pass(&self) -> u64 {
        self.pass
    }

    /// A part without rows that begins with this block of the pass, counted from 0. Only stochastic EM needs to know, whose draws must
    /// not repeat.
    pub fn part(&self, first_block: u64) -> PartStats {
        let draws = matches!(self.assignment(0), Assignment::Sampled { .. });
        let zero = SufficientStats::zero(self.mixture.components().len(), self.mixture.dim());
        PartStats::new(self.state, self.pass, draws.then_some(first_block), zero)
    }

    /// Adds the rows of a block to a part.
    pub fn see(&self, block: &Block, part: &mut PartStats) -> Result<()> {
        part.check_state(self.state, self.pass)?;
        let assignment = self.assignment(part.first_block.unwrap_or(0).saturating_add(part.blocks()));
        let mut stats = SufficientStats::zero(self.mixture.components().len(), self.mixture.dim());
        self.mixture.accumulate(block, assignment, &mut stats)?;
        part.push(stats, block.len() as u64, self.per_block)
    }

    fn assignment(&self, block: u64) -> Assignment {
        self.trainer.as_ref().map_or(Assignment::Soft, |trainer| trainer.assignment_ahead(block))
    }
}

impl Checkpoint {
    /// Makes a step with the statistics of a whole pass: the checkpoint after it. The rows must weigh what they did in the pass before.
    pub fn step(&self, part: &PartStats) -> Result<Self> {
        let mut trainer = self.trainer_of_parts()?;
        let (state, pass) = self.mark_of_pass();
        part.check_state(state, pass)?;
        if let Some(found) = part.first_block.filter(|first| *first != 0) {
            return Err(Error::PartOrder { expected: 0, found });
        }
        for (place, stats) in part.statistics().iter().enumerate() {
            trainer.absorb_sum(stats, if place == 0 { part.blocks() } else { 0 })?;
        }
        if let Some(expected) = self.rows_weight().filter(|expected| !is_same_weight(*expected, part.weight())) {
            return Err(Error::PassWeight { expected, found: part.weight() });
        }
        trainer.count_rows(part.rows());
        trainer.end_pass()?;
        Ok(trainer.checkpoint()?.with_settings(self.settings.clone()).with_rows(self.rows))
    }

    fn trainer_of_parts(&self) -> Result<Trainer<'static>> {
        let fitter = Fitter::of_settings(&self.settings)?;
        fitter.check_parts()?;
        if self.current.status != Status::Running {
            return Err(Error::FitEnded { status: self.current.status.name() });
        }
        fitter.trainer(self)
    }

    /// Tells the state of the fit from others, and the number of its next pass.
    fn mark_of_pass(&self) -> (u64, u64) {
        (mark(self.to_bytes().into_iter()), self.current.trace.len() as u64 + 1)
    }
}
