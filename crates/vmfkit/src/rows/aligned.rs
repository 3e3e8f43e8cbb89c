//! [`AlignedRows`]: batches of any size, cut at fixed row numbers.

use crate::error::Result;
use crate::rows::RowBatch;
use std::ops::ControlFlow;

/// Cuts rows into units of one length, counted from the first row, whatever the sizes of the
/// batches.
///
/// Rows are copied only where a unit reaches from one batch into the next.
#[derive(Debug, Clone)]
pub(crate) struct AlignedRows {
    unit: usize,
    /// The rows of a unit that is not complete.
    incomplete: Option<RowBatch<'static>>,
}

impl AlignedRows {
    pub fn new(unit: usize) -> Self {
        AlignedRows { unit, incomplete: None }
    }

    pub fn unit(&self) -> usize {
        self.unit
    }

    /// True if no unit has been begun.
    pub fn is_at_boundary(&self) -> bool {
        self.incomplete.is_none()
    }

    /// Calls `see` with the units that a batch completes, one or several at a time, until it
    /// breaks.
    pub fn add(
        &mut self,
        batch: &RowBatch,
        mut see: impl FnMut(&RowBatch) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let mut from = 0;
        if let Some(mut unit) = self.incomplete.take() {
            from = (self.unit - unit.len()).min(batch.len());
            unit.append(&batch.slice(0, from))?;
            if unit.len() < self.unit {
                self.incomplete = Some(unit);
            } else if see(&unit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        let whole = from + (batch.len() - from) / self.unit * self.unit;
        if whole > from && see(&batch.slice(from, whole))?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if whole < batch.len() {
            let mut unit = RowBatch::empty_like(batch);
            unit.append(&batch.slice(whole, batch.len()))?;
            self.incomplete = Some(unit);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The rows of the last unit, if it is not complete.
    pub fn take_rest(&mut self) -> Option<RowBatch<'static>> {
        self.incomplete.take()
    }
}
