//! EM, hard and stochastic EM, and k-means: the whole loop.

use super::observer::Observer;
use super::stop::Status;
use super::trainer::Trainer;
use crate::error::Result;
use crate::mixture::{EStep, preferred_rows};
use crate::source::Source;
use crate::stats::SufficientStats;

/// Passes over all rows until the fit has converged, has made its last pass or is cancelled.
pub(super) fn run(trainer: &mut Trainer, source: &mut dyn Source, block_rows: usize, observer: &mut Observer) -> Result<()> {
    while trainer.status() == Status::Running {
        let Some((stats, rows)) = e_step(trainer, source, block_rows, observer)? else {
            trainer.stop();
            break;
        };
        trainer.step(&stats)?; // the M step
        trainer.end_pass(rows)?; // records the pass, repairs empty components, checks for convergence
        observer.after_pass(trainer)?; // writes the checkpoint
    }
    Ok(())
}

/// The statistics of all rows under the mixture, and the number of rows; `None` if it is cancelled.
fn e_step(
    trainer: &Trainer,
    source: &mut dyn Source,
    block_rows: usize,
    observer: &mut Observer,
) -> Result<Option<(SufficientStats, u64)>> {
    let (mixture, assignment) = (trainer.model(), trainer.assignment());
    let mut e_step = EStep::new(mixture, assignment)?.block_rows(block_rows)?;
    let mut rows = 0;
    source.prefer_rows(preferred_rows(mixture, assignment));
    source.rewind()?;
    while let Some(batch) = source.next_batch()? {
        e_step.add(&batch)?;
        rows += batch.len() as u64;
        if observer.progress(trainer.passes(), rows).is_break() {
            return Ok(None);
        }
    }
    Ok(Some((e_step.finish(), rows)))
}
