//! [`FingerprintedSource`]: computes a fingerprint of all rows of a source while they are read.
//!
//! A fit may be resumed only with the rows that it began with. The first rows are compared before a
//! pass ([`RowFingerprint::of`]), or as they are read if they can be read only once. All rows are
//! compared in the first pass. Only that pass of a fit with a checkpoint is hashed.

use crate::error::Result;
use crate::row_fingerprint::{FirstRows, RowFingerprint, RowHasher};
use crate::rows::RowBatch;
use crate::source::Source;
use std::sync::OnceLock;

/// A source whose first complete pass yields a fingerprint of its rows and weights.
pub(crate) struct FingerprintedSource<'s> {
    source: &'s mut dyn Source,
    /// What is known of the rows, while a fingerprint is wanted.
    expected: Option<RowFingerprint>,
    /// The hashers of the current pass, and its rows so far.
    hashers: Option<(FirstRows, RowHasher)>,
    rows: u64,
    /// Set once a pass is complete.
    fingerprint: &'s OnceLock<u64>,
}

impl<'s> FingerprintedSource<'s> {
    /// The first complete pass must be over the expected rows; it sets their fingerprint. Nothing
    /// is hashed if nothing is known of the rows, or if the first rows are all rows.
    pub fn new(source: &'s mut dyn Source, expected: Option<RowFingerprint>, fingerprint: &'s OnceLock<u64>) -> Self {
        let expected = expected.filter(|expected| !(expected.is_complete() && source.can_rewind()));
        FingerprintedSource { source, expected, hashers: None, rows: 0, fingerprint }
    }
}

impl Source for FingerprintedSource<'_> {
    fn dim(&self) -> usize {
        self.source.dim()
    }

    fn next_batch(&mut self) -> Result<Option<RowBatch<'_>>> {
        let FingerprintedSource { source, expected, hashers, rows, fingerprint: found } = self;
        let batch = source.next_batch()?;
        let (Some((first, all)), Some(fingerprint)) = (&mut *hashers, &*expected) else {
            return Ok(batch);
        };
        let Some(batch) = batch else {
            if !first.is_complete() {
                fingerprint.check_count(*rows)?;
                fingerprint.check_first(first.finish())?;
            }
            fingerprint.check_all(*rows, all.finish())?;
            found.get_or_init(|| all.finish());
            (*hashers, *expected) = (None, None);
            return Ok(None);
        };
        *rows += batch.len() as u64;
        all.add(&batch);
        if !first.is_complete() {
            first.add(&batch);
            if first.is_complete() {
                fingerprint.check_first(first.finish())?;
            }
        }
        Ok(Some(batch))
    }

    fn prefer_rows(&mut self, rows: Option<usize>) {
        self.source.prefer_rows(rows);
    }

    fn rewind(&mut self) -> Result<()> {
        self.hashers = self.expected.map(|_| Default::default());
        self.rows = 0;
        self.source.rewind()
    }

    fn can_rewind(&self) -> bool {
        self.source.can_rewind()
    }

    fn rows(&self) -> Option<u64> {
        self.source.rows()
    }
}
