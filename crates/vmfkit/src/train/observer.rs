//! [`Progress`] and the callbacks of a running fit.

use super::trainer::Trainer;
use crate::error::Result;
use std::ops::ControlFlow;

/// How far a fit has come, also within a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Progress {
    /// The index of the restart.
    pub restart: usize,
    /// The pass over the rows, counted from 1; 0 while the start is made, which includes sampling
    /// rows, k-means and the split-and-merge search.
    pub pass: usize,
    /// Rows seen in this pass.
    pub rows: u64,
}

pub(crate) type ProgressCallback<'a> = dyn FnMut(Progress) -> ControlFlow<()> + Send + 'a;

pub(crate) type AfterPass<'a> = dyn FnMut(&Trainer) -> Result<()> + 'a;

/// The callbacks of a fit over a source.
#[derive(Default)]
pub(crate) struct Observer<'s, 'a> {
    pub restart: usize,
    /// Called after every batch; a break cancels the fit.
    pub progress: Option<&'s mut ProgressCallback<'a>>,
    /// Called after every complete pass; an error ends the fit.
    pub after_pass: Option<&'s mut AfterPass<'s>>,
}

impl Observer<'_, '_> {
    /// Reports the rows seen in the pass with this index.
    pub fn progress(&mut self, pass: usize, rows: u64) -> ControlFlow<()> {
        let progress = Progress { restart: self.restart, pass: pass + 1, rows };
        self.progress.as_mut().map_or(ControlFlow::Continue(()), |report| report(progress))
    }

    pub fn after_pass(&mut self, trainer: &Trainer) -> Result<()> {
        self.after_pass.as_mut().map_or(Ok(()), |after_pass| after_pass(trainer))
    }
}
