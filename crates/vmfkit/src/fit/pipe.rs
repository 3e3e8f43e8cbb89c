//! [`Pipe`]: a source that can be read once, whose first rows a fit looks at for its start.

use crate::error::{Error, Result};
use crate::rows::RowBatch;
use crate::rows::owned::OwnedRows;
use crate::source::{Portion, Source};

/// A source of one pass. Rows that were looked at come again as its first batch.
pub(super) struct Pipe<'s> {
    source: &'s mut dyn Source,
    held: Option<OwnedRows>,
    /// True once the pass has begun.
    begun: bool,
    /// True once the rows that were held have come again.
    passed: bool,
}

impl<'s> Pipe<'s> {
    pub fn new(source: &'s mut dyn Source) -> Result<Self> {
        source.rewind()?;
        Ok(Pipe { source, held: None, begun: false, passed: false })
    }

    /// The first rows: at least this many, unless there are fewer.
    pub fn first_rows(&mut self, least: usize) -> Result<RowBatch<'_>> {
        while self.held.as_ref().is_none_or(|held| held.len() < least)
            && let Some(batch) = self.source.read_block()?
        {
            self.held.get_or_insert_with(|| OwnedRows::like(&batch)).push(&batch)?;
        }
        self.held.as_ref().map(OwnedRows::block).ok_or(Error::NoRows { weight: 0.0 })
    }
}

impl Source for Pipe<'_> {
    fn dim(&self) -> usize {
        self.source.dim()
    }

    fn read_block(&mut self) -> Result<Option<RowBatch<'_>>> {
        match &self.held {
            Some(held) if !std::mem::replace(&mut self.passed, true) => Ok(Some(held.block())),
            _ => self.source.read_block(),
        }
    }

    fn read_portion(&mut self) -> Result<Option<Portion<'_>>> {
        match &self.held {
            Some(held) if !std::mem::replace(&mut self.passed, true) => Ok(Some(Portion::RowBatch(held.block()))),
            _ => self.source.read_portion(),
        }
    }

    fn refuse(&mut self, error: Error) -> Error {
        self.source.refuse(error)
    }

    fn rewind(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.begun, true) { Err(Error::CannotRewind) } else { Ok(()) }
    }

    fn can_rewind(&self) -> bool {
        false
    }

    fn rows(&self) -> Option<u64> {
        self.source.rows()
    }
}
