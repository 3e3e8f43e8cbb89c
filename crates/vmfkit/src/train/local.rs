//! Fitting on this machine's threads.

use super::{Cadence, Fit, Status, Trainer};
use crate::error::{Error, Result};
use crate::mixture::{BLOCK_ROWS, EStep, preferred_rows};
use crate::rows::RowBatch;
use crate::rows::aligned::AlignedRows;
use crate::source::{Batches, Source};
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
    should_cancel: &mut (dyn FnMut() -> ControlFlow<()> + Send),
) -> Result<Fit> {
    run(source, Driver::new(trainer).progress(0, Some(&mut |_| should_cancel())))
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
    block_rows: usize,
    progress: Option<&'s mut ProgressCallback<'a>>,
    restart: usize,
    /// Those of this pass.
    rows: u64,
}

impl<'s, 'a> Driver<'s, 'a> {
    pub fn new(trainer: Trainer<'s>) -> Self {
        Driver { trainer, batches: None, block_rows: BLOCK_ROWS, progress: None, restart: 0, rows: 0 }
    }

    /// Steps after each of these batches.
    pub fn batches(mut self, batches: Option<Batches>) -> Self {
        self.batches = batches;
        self
    }

    /// The rows of a block of the E step.
    pub fn block_rows(mut self, rows: usize) -> Self {
        self.block_rows = rows;
        self
    }

    /// Shows progress to a callback, as that of a restart.
    pub fn progress(mut self, restart: usize, progress: Option<&'s mut ProgressCallback<'a>>) -> Self {
        self.restart = restart;
        self.progress = progress;
        self
    }

    /// One pass over all rows, or to where the fit is stopped.
    pub fn pass(&mut self, source: &mut dyn Source) -> Result<()> {
        if source.dim() != self.trainer.model().dim() {
            return Err(Error::DimensionMismatch { expected: self.trainer.model().dim(), found: source.dim() });
        }
        let in_one_step = self.batches.is_none() && self.trainer.cadence() == Cadence::EveryPass;
        let passed = if in_one_step { self.pass_of_one_step(source) } else { self.pass_of_many_steps(source) };
        source.prefer_rows(None);
        passed
    }

    /// One E step over all rows.
    fn pass_of_one_step(&mut self, source: &mut dyn Source) -> Result<()> {
        let (model, assignment) = (self.trainer.model(), self.trainer.assignment());
        source.prefer_rows(preferred_rows(model, assignment));
        source.rewind()?;
        let mut e_step = EStep::new(model, assignment)?.block_rows(self.block_rows)?;
        while let Some(batch) = source.next_batch()? {
            e_step.add(&batch)?;
            self.rows += batch.len() as u64;
            let progressed = Progress { restart: self.restart, pass: self.trainer.passes() + 1, rows: self.rows };
            if self.progress.as_mut().is_some_and(|progress| progress(progressed).is_break()) {
                self.trainer.stop();
                return Ok(());
            }
        }
        let stats = e_step.finish();
        self.trainer.absorb(&stats)?;
        self.end_pass()
    }

    /// A step for each batch, or for each block of the source.
    fn pass_of_many_steps(&mut self, source: &mut dyn Source) -> Result<()> {
        let mut windows = self.windows();
        source.prefer_rows(windows.rows.as_ref().map(AlignedRows::unit));
        source.rewind()?;
        while let Some(batch) = source.next_batch()? {
            if self.see_source_batch(&batch, &mut windows)?.is_break() {
                return Ok(());
            }
        }
        self.end_windows(&mut windows)
    }

    /// The windows of a pass that begins.
    pub fn windows(&self) -> Windows {
        let rows = self.batches.as_ref().and_then(Batches::window_rows).map(AlignedRows::new);
        Windows { rows, number: 0, buffer: RowBatch::default() }
    }

    /// Takes the rows of a batch, window by window; a break after which the fit is stopped.
    ///
    /// A batch that is one window is validated by its mini-batches, any other as a whole.
    pub fn see_source_batch(&mut self, batch: &RowBatch, windows: &mut Windows) -> Result<ControlFlow<()>> {
        let Some(mut rows) = windows.rows.take() else {
            return self.see_window(batch, windows.count());
        };
        let unit = rows.unit();
        let flow = if rows.is_at_boundary() && unit == batch.len() {
            self.see_window(batch, windows.count())
        } else {
            let mut buffer = std::mem::take(&mut windows.buffer);
            let flow = batch.validated_slice(0, batch.len(), &mut buffer).and_then(|batch| {
                rows.add(&batch, |whole| {
                    for from in (0..whole.len()).step_by(unit) {
                        if self.see_window(&whole.slice(from, from + unit), windows.count())?.is_break() {
                            return Ok(ControlFlow::Break(()));
                        }
                    }
                    Ok(ControlFlow::Continue(()))
                })
            });
            windows.buffer = buffer;
            flow
        };
        windows.rows = Some(rows);
        flow
    }

    /// Takes the rows of the last window, and ends the pass.
    pub fn end_windows(&mut self, windows: &mut Windows) -> Result<()> {
        if let Some(rest) = windows.rows.as_mut().and_then(AlignedRows::take_rest)
            && self.see_window(&rest, windows.count())?.is_break()
        {
            return Ok(());
        }
        self.end_pass()
    }

    fn see_window(&mut self, window: &RowBatch, number: u64) -> Result<ControlFlow<()>> {
        match self.batches.take() {
            Some(mut batches) => {
                let flow = batches.visit(window, self.trainer.passes() as u64, number, |batch| self.see_batch(batch));
                self.batches = Some(batches);
                flow
            }
            None => self.see_batch(window),
        }
    }

    fn see_batch(&mut self, batch: &RowBatch) -> Result<ControlFlow<()>> {
        let pass = self.trainer.passes() + 1;
        let mut e_step = EStep::new(self.trainer.model(), self.trainer.assignment())?;
        e_step.add(batch)?;
        let stats = e_step.finish();
        self.trainer.absorb(&stats)?;
        self.rows += batch.len() as u64;
        let progressed = Progress { restart: self.restart, pass, rows: self.rows };
        let flow = self.progress.as_mut().map_or(ControlFlow::Continue(()), |progress| progress(progressed));
        if flow.is_break() {
            self.trainer.stop();
        }
        Ok(flow)
    }

    /// All rows have been seen.
    fn end_pass(&mut self) -> Result<()> {
        self.trainer.count_rows(std::mem::take(&mut self.rows));
        self.trainer.end_pass()?;
        Ok(())
    }
}

/// Where a pass is: how rows are cut into windows, and how many windows have been seen.
pub(crate) struct Windows {
    /// None if windows are the blocks of the source.
    rows: Option<AlignedRows>,
    number: u64,
    buffer: RowBatch<'static>,
}

impl Windows {
    /// Counts a window; gives the number before.
    fn count(&mut self) -> u64 {
        self.number += 1;
        self.number - 1
    }
}
