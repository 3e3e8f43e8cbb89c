//! The loop of the online methods, online EM and stochastic gradient ascent: a step after every
//! mini-batch. The two differ in the step only.

use super::observer::Observer;
use super::stop::Status;
use super::trainer::Trainer;
use crate::error::Result;
use crate::mixture::EStep;
use crate::rows::RowBatch;
use crate::rows::aligned::AlignedRows;
use crate::source::{MiniBatches, Source};
use std::ops::ControlFlow;

/// Passes over all rows until the fit has converged, has made its last pass or is cancelled.
pub(super) fn run(
    trainer: &mut Trainer,
    source: &mut dyn Source,
    batches: &mut MiniBatches,
    observer: &mut Observer,
) -> Result<()> {
    while trainer.status() == Status::Running {
        let (pass, mut rows) = (trainer.passes(), 0);
        let flow = for_each_batch(source, batches, pass as u64, &mut |batch| {
            let mut e_step = EStep::new(trainer.model(), trainer.assignment())?;
            e_step.add(batch)?;
            let stats = e_step.finish();
            trainer.step(&stats)?; // an M step on running statistics, or a gradient step
            rows += batch.len() as u64;
            Ok(observer.progress(pass, rows))
        })?;
        if flow.is_break() {
            trainer.stop();
            break;
        }
        trainer.end_pass(rows)?; // records the pass, checks for convergence
        observer.after_pass(trainer)?; // writes the checkpoint
    }
    Ok(())
}

type Visit<'v> = dyn FnMut(&RowBatch) -> Result<ControlFlow<()>> + 'v;

/// Visits the mini-batches of a pass in turn, until a visit breaks.
///
/// Rows are cut into windows of a fixed length first, and each window into mini-batches. Rows of a
/// file that make up one whole window are validated with their mini-batch, without a copy.
fn for_each_batch(source: &mut dyn Source, batches: &mut MiniBatches, pass: u64, visit: &mut Visit) -> Result<ControlFlow<()>> {
    let mut windows =
        Windows { rows: batches.window_rows().map(AlignedRows::new), batches, pass, number: 0, buffer: RowBatch::default() };
    source.prefer_rows(windows.rows.as_ref().map(AlignedRows::unit));
    source.rewind()?;
    while let Some(rows) = source.next_batch()? {
        if windows.visit(&rows, visit)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    windows.visit_rest(visit)
}

/// The windows of a pass.
struct Windows<'b> {
    /// `None` if each batch of the source is a window.
    rows: Option<AlignedRows>,
    batches: &'b mut MiniBatches,
    pass: u64,
    /// The number of the next window.
    number: u64,
    buffer: RowBatch<'static>,
}

impl Windows<'_> {
    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number - 1
    }

    /// True if the next rows of this length make up one window.
    fn is_whole(&self, rows: usize) -> bool {
        self.rows.as_ref().is_none_or(|aligned| aligned.is_at_boundary() && aligned.unit() == rows)
    }

    /// Visits the mini-batches of the windows that these rows complete.
    fn visit(&mut self, rows: &RowBatch, visit: &mut Visit) -> Result<ControlFlow<()>> {
        if self.is_whole(rows.len()) {
            return self.visit_window(rows, visit);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let flow = rows.validated_slice(0, rows.len(), &mut buffer).and_then(|rows| self.visit_parts(&rows, visit));
        self.buffer = buffer;
        flow
    }

    /// The same for rows that are cut or joined.
    fn visit_parts(&mut self, rows: &RowBatch, visit: &mut Visit) -> Result<ControlFlow<()>> {
        let mut aligned = self.rows.take().expect("rows without windows are whole");
        let unit = aligned.unit();
        let flow = aligned.add(rows, |whole| {
            for from in (0..whole.len()).step_by(unit) {
                if self.visit_window(&whole.slice(from, from + unit), visit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        });
        self.rows = Some(aligned);
        flow
    }

    /// Visits the mini-batches of the last window, which may be shorter.
    fn visit_rest(&mut self, visit: &mut Visit) -> Result<ControlFlow<()>> {
        match self.rows.as_mut().and_then(AlignedRows::take_rest) {
            Some(rest) => self.visit_window(&rest, visit),
            None => Ok(ControlFlow::Continue(())),
        }
    }

    fn visit_window(&mut self, window: &RowBatch, visit: &mut Visit) -> Result<ControlFlow<()>> {
        let number = self.next_number();
        self.batches.visit(window, self.pass, number, visit)
    }
}
