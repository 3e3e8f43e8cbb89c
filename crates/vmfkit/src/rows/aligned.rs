//! [`AlignedRows`]: rows that come in blocks of any size, cut at fixed row numbers.

use crate::error::Result;
use crate::rows::RowBatch;
use crate::rows::owned::OwnedRows;
use std::ops::ControlFlow;

/// Cuts rows into units of one length, counted from the first row, however they come.
///
/// Rows are copied only where a unit reaches from one block into the next.
#[derive(Debug, Clone)]
pub(crate) struct AlignedRows {
    unit: usize,
    /// The rows of a unit that is not complete.
    held: Option<OwnedRows>,
}

impl AlignedRows {
    pub fn new(unit: usize) -> Self {
        AlignedRows { unit, held: None }
    }

    pub fn unit(&self) -> usize {
        self.unit
    }

    /// True if no unit has been begun.
    pub fn is_at_boundary(&self) -> bool {
        self.held.is_none()
    }

    /// Shows the units that a block completes, one or several at a time, until they are the last wanted.
    pub fn add(
        &mut self,
        block: &RowBatch,
        mut see: impl FnMut(&RowBatch) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let mut from = 0;
        if let Some(mut held) = self.held.take() {
            from = (self.unit - held.len()).min(block.len());
            held.push(&block.slice(0, from))?;
            if held.len() < self.unit {
                self.held = Some(held);
            } else if see(&held.block())?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        let whole = from + (block.len() - from) / self.unit * self.unit;
        if whole > from && see(&block.slice(from, whole))?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if whole < block.len() {
            let rest = block.slice(whole, block.len());
            let mut held = OwnedRows::like(&rest);
            held.push(&rest)?;
            self.held = Some(held);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The rows of the last unit, if it is not complete.
    pub fn take_rest(&mut self) -> Option<OwnedRows> {
        self.held.take()
    }
}
