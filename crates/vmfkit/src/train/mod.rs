//! Iterative fitting: a [`Rule`] makes the next mixture from statistics, a [`Trainer`] keeps the
//! state of the loop, and [`fit`] runs it over a source on the threads of this machine.
//!
//! `em.rs` has the loop of EM, hard and stochastic EM and k-means, `mini_batches.rs` that of online
//! EM and stochastic gradient ascent. Memory, files and pipes differ in the source, not in the
//! loop.

mod adam;
mod checkpoint;
mod duplicates;
mod em;
mod mini_batches;
mod observer;
mod online_em;
mod repair;
mod rule;
mod state;
mod stop;
mod trace;
mod trainer;

pub use adam::Adam;
pub use checkpoint::Checkpoint;
pub use observer::Progress;
pub(crate) use observer::{Observer, ProgressCallback};
pub use online_em::OnlineEm;
pub use rule::{Annealing, Em, Rule};
pub(crate) use state::State;
pub use stop::{Baseline, Status, Stop};
pub use trace::{Fit, Pass};
pub use trainer::Trainer;

use crate::error::{Error, Result};
use crate::mixture::BLOCK_ROWS;
use crate::source::{MiniBatches, Source};
use std::ops::ControlFlow;

/// Runs a fit over a source. Online methods step after every batch of the source.
pub fn fit(source: &mut dyn Source, trainer: Trainer) -> Result<Fit> {
    Run::default().of(trainer, source)
}

/// Runs a fit over a source. Online methods step after every mini-batch; EM has none.
pub fn fit_in_batches(source: &mut dyn Source, trainer: Trainer, batches: MiniBatches) -> Result<Fit> {
    Run { batches, ..Run::default() }.of(trainer, source)
}

/// Runs a fit over a source until it ends or is cancelled.
pub(crate) fn fit_while(
    source: &mut dyn Source,
    trainer: Trainer,
    should_cancel: &mut (dyn FnMut() -> ControlFlow<()> + Send),
) -> Result<Fit> {
    let mut progress = |_| should_cancel();
    let observer = Observer { progress: Some(&mut progress), ..Observer::default() };
    Run { observer, ..Run::default() }.of(trainer, source)
}

/// A run of a trainer over a source.
pub(crate) struct Run<'s, 'a> {
    /// The mini-batches of an online method.
    pub batches: MiniBatches,
    /// The rows of a block of the E step of EM.
    pub block_rows: usize,
    pub observer: Observer<'s, 'a>,
}

impl Default for Run<'_, '_> {
    /// Each batch of the source is a mini-batch, and there are no callbacks.
    fn default() -> Self {
        Run { batches: MiniBatches::new(usize::MAX), block_rows: BLOCK_ROWS, observer: Observer::default() }
    }
}

impl Run<'_, '_> {
    /// Runs the trainer until the fit ends.
    pub fn of(mut self, mut trainer: Trainer, source: &mut dyn Source) -> Result<Fit> {
        if source.dim() != trainer.model().dim() {
            return Err(Error::DimensionMismatch { expected: trainer.model().dim(), found: source.dim() });
        }
        let result = match trainer.is_online() {
            true => mini_batches::run(&mut trainer, source, &mut self.batches, &mut self.observer),
            false => em::run(&mut trainer, source, self.block_rows, &mut self.observer),
        };
        source.prefer_rows(None);
        result.map(|()| trainer.into_fit())
    }
}
