//! The loop of the online methods, online EM and stochastic gradient ascent: a step after every
//! mini-batch. The two differ in the step only.

use super::observer::Observer;
use super::stop::Status;
use super::trainer::Trainer;
use crate::error::Result;
use crate::mixture::EStep;
use crate::rows::aligned::AlignedRows;
use crate::rows::{RowBatch, RowBuffer};
use crate::source::{Batches, Failure, Portion, Source};
use std::ops::ControlFlow;

/// Passes over all rows until the fit has converged, has made its last pass or is cancelled.
pub(super) fn run(trainer: &mut Trainer, source: &mut dyn Source, batches: &mut Batches, observer: &mut Observer) -> Result<()> {
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
/// file that make up one whole window are cut without a copy.
fn for_each_batch(source: &mut dyn Source, batches: &mut Batches, pass: u64, visit: &mut Visit) -> Result<ControlFlow<()>> {
    let mut windows = Windows { rows: batches.window_rows().map(AlignedRows::new), batches, pass, number: 0 };
    let mut buffer = RowBuffer::default();
    source.prefer_rows(windows.rows.as_ref().map(AlignedRows::unit));
    source.rewind()?;
    loop {
        let visited = match source.read_portion()? {
            None => break,
            Some(Portion::RowBatch(rows)) => windows.visit(&rows, visit).map_err(Failure::Step),
            Some(Portion::Loose(rows)) if windows.is_whole(rows.len()) => {
                let number = windows.next_number();
                windows.batches.visit_loose(&rows, pass, number, &mut *visit)
            }
            Some(Portion::Loose(rows)) => match rows.slice(0, rows.len(), &mut buffer) {
                Ok(rows) => windows.visit(&rows, visit).map_err(Failure::Step),
                Err(wrong) => Err(Failure::Row(wrong)),
            },
        };
        match visited {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => return Ok(ControlFlow::Break(())),
            Err(Failure::Row(wrong)) => return Err(source.refuse(wrong)),
            Err(Failure::Step(error)) => return Err(error),
        }
    }
    windows.visit_rest(visit)
}

/// The windows of a pass.
struct Windows<'b> {
    /// `None` if each batch of the source is a window.
    rows: Option<AlignedRows>,
    batches: &'b mut Batches,
    pass: u64,
    /// The number of the next window.
    number: u64,
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
        let Some(mut aligned) = self.rows.take() else {
            return self.visit_window(rows, visit);
        };
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
            Some(rest) => self.visit_window(&rest.block(), visit),
            None => Ok(ControlFlow::Continue(())),
        }
    }

    fn visit_window(&mut self, window: &RowBatch, visit: &mut Visit) -> Result<ControlFlow<()>> {
        let number = self.next_number();
        self.batches.visit(window, self.pass, number, visit)
    }
}
