//! [`Pipe`]: a source that can be read once, and whose first rows are needed for the start.

use crate::error::{Error, Result};
use crate::rows::RowBatch;
use crate::source::Source;

/// A source of one pass. The rows that were read for the start are its first batch.
pub(super) struct Pipe<'s> {
    source: &'s mut dyn Source,
    held: Option<RowBatch<'static>>,
    /// True once the pass has begun.
    begun: bool,
    /// True once the held rows were returned.
    passed: bool,
}

impl<'s> Pipe<'s> {
    pub fn new(source: &'s mut dyn Source) -> Result<Self> {
        source.rewind()?;
        Ok(Pipe { source, held: None, begun: false, passed: false })
    }

    /// The first rows: at least this many, unless there are fewer.
    pub fn first_rows(&mut self, least: usize) -> Result<RowBatch<'_>> {
        let mut buffer = RowBatch::default();
        while self.held.as_ref().is_none_or(|held| held.len() < least)
            && let Some(batch) = self.source.next_validated(&mut buffer)?
        {
            self.held.get_or_insert_with(|| RowBatch::empty_like(&batch)).append(&batch)?;
        }
        self.held.as_ref().map(RowBatch::without_unit_weights).ok_or(Error::NoRows { weight: 0.0 })
    }
}

impl Source for Pipe<'_> {
    fn dim(&self) -> usize {
        self.source.dim()
    }

    fn next_batch(&mut self) -> Result<Option<RowBatch<'_>>> {
        match &self.held {
            Some(held) if !std::mem::replace(&mut self.passed, true) => Ok(Some(held.without_unit_weights())),
            _ => self.source.next_batch(),
        }
    }

    /// Preferences apply from the next pass on, and rows that were read are in this one.
    fn prefer_rows(&mut self, rows: Option<usize>) {
        if self.held.is_none() {
            self.source.prefer_rows(rows);
        }
    }

    fn rewind(&mut self) -> Result<()> {
        match (std::mem::replace(&mut self.begun, true), &self.held) {
            (true, _) => Err(Error::CannotRewind),
            (false, Some(_)) => Ok(()),
            (false, None) => self.source.rewind(),
        }
    }

    fn can_rewind(&self) -> bool {
        false
    }

    fn rows(&self) -> Option<u64> {
        self.source.rows()
    }
}
