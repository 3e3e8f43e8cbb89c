//! A fit by several processes that exchange bytes; docs/clusters.md shows it with files.
//!
//! One process makes the start ([`Fitter::begin`]) and sends the bytes of the [`Checkpoint`] to the
//! others. Each computes the statistics of its rows ([`Accumulator`]) and answers with their bytes.
//! The first process merges them in the order of the rows and makes the step
//! ([`Checkpoint::step`]), and so on until the fit ends. If parts are whole blocks of the E step
//! and their statistics are merged block by block, the fit equals that of one process to the last
//! bit.
//!
//! ```
//! use vmfkit::fit::parts::Accumulator;
//! use vmfkit::source::MemorySource;
//! use vmfkit::train::{Checkpoint, Status};
//! use vmfkit::{RowBatch, Fitter, store::statistics::PartStats};
//!
//! let rows = [1.0, 0.0, 0.8, 0.6, 0.6, 0.8, 0.0, 1.0];
//! let block = RowBatch::new(2, &rows)?;
//! let mut state = Fitter::new(2).begin(&mut MemorySource::new(block.clone()))?.expect("no callback stops it").to_bytes();
//! loop {
//!     // In any process, from the bytes of the state.
//!     let mut answers = Vec::new();
//!     for first_row in [0, 2] {
//!         let accumulator = Accumulator::of(&Checkpoint::from_bytes(&state)?)?;
//!         let mut part = accumulator.part(first_row as u64)?;
//!         part.add(&block.slice(first_row, first_row + 2))?;
//!         answers.push(part.finish().to_bytes());
//!     }
//!     // In one process, from the answers.
//!     let mut all = PartStats::from_bytes(&answers[0])?;
//!     all.merge(&PartStats::from_bytes(&answers[1])?)?;
//!     let next = Checkpoint::from_bytes(&state)?.step(&all)?;
//!     state = next.to_bytes();
//!     if next.current().status != Status::Running {
//!         break;
//!     }
//! }
//! let fit = Fitter::new(2).fit_source(&mut MemorySource::new(block).batches(2))?;
//! let by_parts = Checkpoint::from_bytes(&state)?.current().mixture.clone();
//! assert!((by_parts.weights()[0] - fit.mixture.weights()[0]).abs() < 1e-9);
//! # Ok::<(), vmfkit::Error>(())
//! ```

use crate::error::{Error, Result};
use crate::fingerprint::FingerprintedSource;
use crate::fit::Fitter;
use crate::fit::fitter_settings::parameters;
use crate::fit::restarts::is_same_weight;
use crate::mixture::{Assignment, BLOCK_ROWS, EStep, Mixture};
use crate::row_fingerprint::RowFingerprint;
use crate::rows::RowBatch;
use crate::settings::fingerprint;
use crate::source::Source;
use crate::stats::SufficientStats;
use crate::store::statistics::PartStats;
use crate::train::{Checkpoint, Status, Trainer};
use std::sync::OnceLock;

impl Fitter<'_> {
    /// Makes the start of a distributed fit, but no pass; `None` if the progress callback stops it.
    ///
    /// The start is that of [`Self::fit_source`] with the same rows.
    pub fn begin(mut self, source: &mut dyn Source) -> Result<Option<Checkpoint>> {
        self.check()?;
        self.check_memory(source.dim())?;
        self.check_parts()?;
        self.check_start()?;
        let mut progress = self.progress.take();
        let fingerprint = if source.can_rewind() { Some(RowFingerprint::of(source)?) } else { None };
        let all_rows = OnceLock::new();
        let source = &mut FingerprintedSource::new(source, fingerprint, &all_rows);
        let first = self.start_from_source(source, 0, progress.as_deref_mut())?;
        self.take_dispersion(first.dispersion);
        if first.cancelled {
            return Ok(None);
        }
        let fingerprint = fingerprint.map(|known| known.learn(first.rows, all_rows.get().copied()));
        let trainer = Trainer::new(first.mixture, self.rule(self.seed_of(0)), self.stop_of_method())?;
        let trainer = trainer.after_search(first.search_passes);
        Ok(Some(trainer.checkpoint()?.with_settings(self.settings(source.dim())).with_rows(fingerprint)))
    }

    /// A trainer that resumes from a checkpoint, which must have the settings of this fitter.
    /// Values measured from the rows are taken from the checkpoint.
    pub fn trainer(&self, checkpoint: &Checkpoint) -> Result<Trainer<'static>> {
        self.check()?;
        let mixture = &checkpoint.current.mixture;
        let mut fitter = self.choices();
        fitter.take_measured(&checkpoint.settings);
        checkpoint.settings.check(&fitter.settings(mixture.dim()))?;
        let fitted = mixture.components().len() - usize::from(mixture.has_background());
        if fitted != self.components {
            let what = "the mixture of the checkpoint";
            return Err(Error::ComponentMismatch { what, expected: self.components, found: fitted });
        }
        let rule = fitter.rule(self.seed_of(checkpoint.restart));
        Trainer::new(mixture.clone(), rule, self.stop_of_method())?.resume(checkpoint)
    }

    fn check_parts(&self) -> Result<()> {
        if self.method.is_online() {
            let hint = "use em, hard, stochastic or kmeans";
            return Err(Error::NotByParts { found: format!("method {}", self.method.name()), hint });
        }
        if self.restarts != 1 {
            let hint = "fit with several seeds, and keep the fit with the best objective";
            return Err(Error::NotByParts { found: format!("restarts {}", self.restarts), hint });
        }
        Ok(())
    }
}

/// Computes the statistics of parts of a pass.
pub struct Accumulator {
    mixture: Mixture,
    assignment: Assignment,
    /// The fingerprint of the state of the fit, and the number of its next pass.
    state: (u64, u64),
    block_rows: usize,
    per_block: bool,
}

impl std::fmt::Debug for Accumulator {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Accumulator").field("pass", &self.state.1).finish_non_exhaustive()
    }
}

impl Accumulator {
    /// For the next pass of a fit.
    pub fn of(checkpoint: &Checkpoint) -> Result<Self> {
        let (fitter, trainer) = checkpoint.trainer_of_parts()?;
        let (mixture, assignment) = (trainer.model().clone(), trainer.assignment());
        let (state, block_rows) = (checkpoint.state_of_pass(), fitter.block_rows_used());
        Ok(Accumulator { mixture, assignment, state, block_rows, per_block: false })
    }

    /// For rows assigned by their responsibilities under a mixture, without a fit.
    pub fn of_mixture(mixture: &Mixture) -> Self {
        let state = (fingerprint(parameters(mixture).flat_map(f64::to_le_bytes)), 0);
        let (mixture, assignment) = (mixture.clone(), Assignment::Soft);
        Accumulator { mixture, assignment, state, block_rows: BLOCK_ROWS, per_block: false }
    }

    /// Whether parts keep the statistics of each block instead of their sum, false by default. It
    /// takes more bytes, and the fit equals that of one process to the last bit however many blocks
    /// a part has.
    pub fn per_block(mut self, per_block: bool) -> Self {
        self.per_block = per_block;
        self
    }

    /// The mixture of the E step.
    pub fn mixture(&self) -> &Mixture {
        &self.mixture
    }

    /// The pass, counted from 1; 0 for a mixture without a fit.
    pub fn pass(&self) -> u64 {
        self.state.1
    }

    /// The rows of a block of the E step. A part of whole blocks has the same statistics as in one
    /// process.
    pub fn block_rows(&self) -> usize {
        self.block_rows
    }

    /// A part without rows that begins with this row of the pass, counted from 0. Stochastic EM
    /// needs the number so that its draws do not repeat. For other methods it may be 0 if parts are
    /// whole blocks.
    pub fn part(&self, first_row: u64) -> Result<Part<'_>> {
        let e_step = EStep::new(&self.mixture, self.assignment)?.first_row(first_row).block_rows(self.block_rows)?;
        let e_step = if self.per_block { e_step.keep_blocks() } else { e_step };
        Ok(Part { accumulator: self, e_step, first_row, rows: 0 })
    }
}

/// The statistics of some rows of a pass, while rows are added.
#[derive(Debug)]
pub struct Part<'a> {
    accumulator: &'a Accumulator,
    e_step: EStep<'a>,
    first_row: u64,
    rows: u64,
}

impl Part<'_> {
    /// Adds the next rows.
    pub fn add(&mut self, block: &RowBatch) -> Result<()> {
        self.e_step.add(block)?;
        self.rows += block.len() as u64;
        Ok(())
    }

    /// The number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The statistics of the rows.
    pub fn finish(self) -> PartStats {
        let Part { accumulator: Accumulator { mixture, assignment, state, block_rows, per_block }, e_step, first_row, rows } =
            self;
        let draws = matches!(assignment, Assignment::Sampled { .. });
        let (length, last) = (*block_rows as u64, first_row + rows);
        let blocks = if rows > 0 { last.div_ceil(length) - first_row / length } else { 0 };
        let mut stats = if *per_block { e_step.finish_blocks() } else { vec![e_step.finish()] };
        if stats.is_empty() {
            stats.push(SufficientStats::zero(mixture.components().len(), mixture.dim()));
        }
        PartStats::new(*state, draws.then_some(first_row), (rows, blocks), stats)
    }
}

impl Checkpoint {
    /// The checkpoint after a pass with these statistics of all rows. Their total weight must be
    /// that of the previous pass.
    pub fn step(&self, part: &PartStats) -> Result<Self> {
        let (_, mut trainer) = self.trainer_of_parts()?;
        let (state, pass) = self.state_of_pass();
        part.check_state(state, pass)?;
        if let Some(found) = part.first_row.filter(|first| *first != 0) {
            return Err(Error::PartOrder { expected: 0, found });
        }
        if let Some(expected) = self.rows_weight().filter(|expected| !is_same_weight(*expected, part.weight())) {
            return Err(Error::PassWeight { expected, found: part.weight() });
        }
        trainer.step(&part.sum())?;
        trainer.end_pass(part.rows())?;
        Ok(trainer.checkpoint()?.with_settings(self.settings.clone()).with_rows(self.rows))
    }

    fn trainer_of_parts(&self) -> Result<(Fitter<'static>, Trainer<'static>)> {
        let fitter = Fitter::of_settings(&self.settings)?;
        fitter.check_parts()?;
        if self.current.status != Status::Running {
            return Err(Error::FitEnded { status: self.current.status.name() });
        }
        let trainer = fitter.trainer(self)?;
        Ok((fitter, trainer))
    }

    /// The fingerprint of the state of the fit, and the number of its next pass.
    fn state_of_pass(&self) -> (u64, u64) {
        (fingerprint(self.to_bytes().into_iter()), self.current.trace.len() as u64 + 1)
    }
}
