//! Fitting on this machine's threads.

use super::{Fit, Status, Trainer};
use crate::block::Block;
use crate::error::{Error, Result};
use crate::rows_mark::RowsMark;
use crate::source::{Batches, Source};
use crate::stats::SufficientStats;
use std::ops::ControlFlow;

/// How far a fit has come, within a pass too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Which of the fits that differ in their start, counted from 0.
    pub restart: usize,
    /// Which pass over the rows, counted from 1; 0 while rows are sampled for a start and while k-means makes one of them.
    pub pass: usize,
    /// Rows seen in this pass.
    pub rows: u64,
}

pub(crate) type ProgressCallback<'a> = dyn FnMut(Progress) -> ControlFlow<()> + Send + 'a;

/// Passes over a source until the trainer has enough.
pub fn fit(source: &mut dyn Source, trainer: Trainer) -> Result<Fit> {
    run(source, Driver::new(trainer))
}

/// The same for a rule that steps after every batch, with the source's blocks cut into batches.
pub fn fit_in_batches(source: &mut dyn Source, trainer: Trainer, batches: Batches) -> Result<Fit> {
    run(source, Driver::new(trainer).batches(Some(batches)))
}

/// The same for those who may want it to end early, which they are asked after every block.
pub(crate) fn fit_while(
    source: &mut dyn Source,
    trainer: Trainer,
    go_on: &mut (dyn FnMut() -> ControlFlow<()> + Send),
) -> Result<Fit> {
    run(source, Driver::new(trainer).progress(0, Some(&mut |_| go_on())))
}

fn run(source: &mut dyn Source, mut driver: Driver) -> Result<Fit> {
    while driver.trainer.status() == Status::Running {
        driver.pass(source)?;
    }
    Ok(driver.trainer.into_fit())
}

/// A trainer and what it takes to show it rows.
pub(crate) struct Driver<'s, 'a> {
    pub trainer: Trainer<'s>,
    batches: Option<Batches>,
    progress: Option<&'s mut ProgressCallback<'a>>,
    restart: usize,
    stats: SufficientStats,
    /// What the first block must be like.
    expected: Option<RowsMark>,
    /// Those of this pass.
    rows: u64,
    blocks: u64,
}

impl<'s, 'a> Driver<'s, 'a> {
    pub fn new(trainer: Trainer<'s>) -> Self {
        let stats = SufficientStats::zero(trainer.model().components().len(), trainer.model().dim());
        Driver { trainer, batches: None, progress: None, restart: 0, stats, expected: None, rows: 0, blocks: 0 }
    }

    /// Cuts blocks into batches.
    pub fn batches(mut self, batches: Option<Batches>) -> Self {
        self.batches = batches;
        self
    }

    /// Shows progress to a callback, as that of a restart.
    pub fn progress(mut self, restart: usize, progress: Option<&'s mut ProgressCallback<'a>>) -> Self {
        self.restart = restart;
        self.progress = progress;
        self
    }

    /// Refuses a first block that is another.
    pub fn expect(mut self, expected: Option<RowsMark>) -> Self {
        self.expected = expected;
        self
    }

    /// One pass over all rows, or to where the fit is stopped.
    pub fn pass(&mut self, source: &mut dyn Source) -> Result<()> {
        if source.dim() != self.trainer.model().dim() {
            return Err(Error::DimensionMismatch { expected: self.trainer.model().dim(), found: source.dim() });
        }
        source.rewind()?;
        while let Some(block) = source.read_block()? {
            if self.see(&block)?.is_break() {
                return Ok(());
            }
        }
        self.end_pass()
    }

    /// Takes the rows of a block; a break after which the fit is stopped.
    pub fn see(&mut self, block: &Block) -> Result<ControlFlow<()>> {
        let Driver { trainer, batches, progress, restart, stats, expected, rows, blocks } = self;
        if let Some(expected) = expected.take() {
            expected.check(&RowsMark::of_block(block))?;
        }
        let pass = trainer.passes();
        let mut see = |block: &Block| {
            stats.clear();
            trainer.model().accumulate(block, trainer.assignment(), stats)?;
            trainer.absorb(stats)?;
            *rows += block.len() as u64;
            let progressed = Progress { restart: *restart, pass: pass + 1, rows: *rows };
            let flow = progress.as_mut().map_or(ControlFlow::Continue(()), |progress| progress(progressed));
            if flow.is_break() {
                trainer.stop();
            }
            Ok(flow)
        };
        let flow = match batches {
            Some(batches) => batches.visit(block, pass as u64, *blocks, see),
            None => see(block),
        };
        *blocks += 1;
        flow
    }

    /// All rows have been seen.
    pub fn end_pass(&mut self) -> Result<()> {
        self.trainer.count_rows(std::mem::take(&mut self.rows));
        self.blocks = 0;
        self.trainer.end_pass()?;
        Ok(())
    }
}
