//! Fitting on this machine's threads.

use super::{Fit, Status, Trainer};
use crate::block::Block;
use crate::error::{Error, Result};
use crate::loose_rows::LooseRows;
use crate::rows_mark::RowsMark;
use crate::source::{Batches, Portion, Source};
use crate::stats::SufficientStats;
use std::ops::ControlFlow;

/// How far a fit has come, within a pass too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Progress {
    /// Which of the fits that differ in their start, counted from 0.
    pub restart: usize,
    /// Which pass over the rows, counted from 1; 0 while rows are sampled for a start, while k-means makes one of them and while EM searches.
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
        let sections = || self.trainer.model().sections(self.trainer.assignment());
        source.read_in_sections(self.batches.is_none().then(sections).flatten());
        let passed = self.pass_over(source);
        source.read_in_sections(None);
        passed
    }

    fn pass_over(&mut self, source: &mut dyn Source) -> Result<()> {
        source.rewind()?;
        while let Some(flow) = self.see_next(source)? {
            if flow.is_break() {
                return Ok(());
            }
        }
        self.end_pass()
    }

    /// Takes the next rows of a source, if there are any.
    fn see_next(&mut self, source: &mut dyn Source) -> Result<Option<ControlFlow<()>>> {
        if self.expected.is_some() {
            return source.read_block()?.map(|block| self.see(&block)).transpose();
        }
        let seen = match source.read_portion()? {
            None => return Ok(None),
            Some(Portion::Block(block)) => Ok(self.see(&block)),
            Some(Portion::Loose(rows)) => self.see_loose(&rows),
        };
        seen.unwrap_or_else(|wrong| Err(source.refuse(wrong))).map(Some)
    }

    /// Takes loose rows. The outer error is of a row that is wrong, the inner one of a step.
    fn see_loose(&mut self, rows: &LooseRows) -> Result<Result<ControlFlow<()>>> {
        let number = self.blocks;
        self.blocks += u64::from(!rows.has_more());
        if let Some(mut batches) = self.batches.take() {
            let seen = batches.visit_loose(rows, self.trainer.passes() as u64, number, |batch| self.see_batch(batch));
            self.batches = Some(batches);
            return seen;
        }
        if rows.rows_before() == 0 {
            self.stats.clear();
        }
        self.trainer.model().accumulate_loose(rows, self.trainer.assignment(), &mut self.stats)?;
        Ok(if rows.has_more() { Ok(ControlFlow::Continue(())) } else { self.absorb(rows.rows_before() + rows.len()) })
    }

    /// Takes the rows of a block; a break after which the fit is stopped.
    pub fn see(&mut self, block: &Block) -> Result<ControlFlow<()>> {
        if let Some(expected) = self.expected.take() {
            expected.check(&RowsMark::of_block(block))?;
        }
        let number = self.blocks;
        self.blocks += 1;
        match self.batches.take() {
            Some(mut batches) => {
                let flow = batches.visit(block, self.trainer.passes() as u64, number, |batch| self.see_batch(batch));
                self.batches = Some(batches);
                flow
            }
            None => self.see_batch(block),
        }
    }

    fn see_batch(&mut self, batch: &Block) -> Result<ControlFlow<()>> {
        self.stats.clear();
        self.trainer.model().accumulate(batch, self.trainer.assignment(), &mut self.stats)?;
        self.absorb(batch.len())
    }

    /// Takes the statistics of so many rows.
    fn absorb(&mut self, count: usize) -> Result<ControlFlow<()>> {
        let pass = self.trainer.passes() + 1;
        self.trainer.absorb(&self.stats)?;
        self.rows += count as u64;
        let progressed = Progress { restart: self.restart, pass, rows: self.rows };
        let flow = self.progress.as_mut().map_or(ControlFlow::Continue(()), |progress| progress(progressed));
        if flow.is_break() {
            self.trainer.stop();
        }
        Ok(flow)
    }

    /// All rows have been seen.
    pub fn end_pass(&mut self) -> Result<()> {
        self.trainer.count_rows(std::mem::take(&mut self.rows));
        self.blocks = 0;
        self.trainer.end_pass()?;
        Ok(())
    }
}
