//! Fitting on this machine's threads.

use super::{Fit, Status, Trainer};
use crate::error::{Error, Result};
use crate::source::Source;
use crate::stats::SufficientStats;

/// Passes over a source until the trainer has enough.
pub fn fit(source: &mut dyn Source, mut trainer: Trainer) -> Result<Fit> {
    if source.dim() != trainer.model().dim() {
        return Err(Error::DimensionMismatch { expected: trainer.model().dim(), found: source.dim() });
    }
    let mut stats = SufficientStats::zero(trainer.model().components().len(), source.dim());
    while trainer.status() == Status::Running {
        source.rewind()?;
        while let Some(block) = source.read_block()? {
            stats.clear();
            trainer.model().accumulate(&block, trainer.assignment(), &mut stats)?;
            trainer.absorb(&stats)?;
        }
        trainer.end_pass()?;
    }
    Ok(trainer.into_fit())
}
