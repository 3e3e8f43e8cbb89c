//! [`Pipe`]: a source that can be read once, whose first rows a fit looks at for its start.

use crate::error::{Error, Result};
use crate::rows::RowBatch;
use crate::source::Source;

/// A source of one pass. Rows that were looked at come again as its first batch.
pub(super) struct Pipe<'s> {
    source: &'s mut dyn Source,
    held: Option<RowBatch<'static>>,
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
