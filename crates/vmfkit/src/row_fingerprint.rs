//! [`RowFingerprint`]: what a checkpoint stores about the rows of its fit.

use crate::error::{Error, Result};
use crate::rows::{RowBatch, Rows, Scalar, SparseRows};
use crate::settings::digits;
use crate::source::Source;
use std::hash::Hasher;
use twox_hash::XxHash3_64;
use vmfkit_kernels::bytes::{Plain, as_bytes};

/// Number of rows that are compared before the first pass.
const FIRST_ROWS: usize = 1024;

/// Identifies rows: a fit is resumed only with the rows that it began with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowFingerprint {
    /// Fingerprint of the first rows.
    pub first: u64,
    /// The number of rows, if known.
    pub rows: Option<u64>,
    /// Fingerprint of all rows, after a complete pass; `None` if the first rows are all rows.
    pub all: Option<u64>,
}

impl RowFingerprint {
    /// Reads the first rows of a source and rewinds it.
    pub fn of(source: &mut dyn Source) -> Result<Self> {
        source.rewind()?;
        let mut hasher = FirstRows::default();
        while !hasher.is_complete()
            && let Some(batch) = source.next_batch()?
        {
            hasher.add(&batch);
        }
        source.rewind()?;
        match hasher.rows {
            0 => Err(Error::NoRows { weight: 0.0 }),
            rows => {
                let counted = (!hasher.is_complete()).then_some(rows as u64);
                Ok(RowFingerprint { first: hasher.finish(), rows: source.rows().or(counted), all: None })
            }
        }
    }

    /// Adds what a complete pass has shown. What was known before is kept.
    pub fn learn(self, rows: Option<u64>, all: Option<u64>) -> Self {
        RowFingerprint { rows: self.rows.or(rows), all: self.all.or(all), ..self }
    }

    /// True if the first rows are known to be all rows.
    pub fn is_complete(&self) -> bool {
        self.rows.is_some_and(|rows| rows <= FIRST_ROWS as u64)
    }

    /// Checks the rows against those of a checkpoint. What only one side knows is ignored.
    pub fn check(&self, found: &RowFingerprint) -> Result<()> {
        found.rows.map_or(Ok(()), |rows| self.check_count(rows))?;
        self.check_first(found.first)
    }

    /// The same for the fingerprint of the first rows.
    pub fn check_first(&self, found: u64) -> Result<()> {
        if found == self.first {
            return Ok(());
        }
        let expected = format!("first rows whose fingerprint is {}", digits(self.first));
        Err(Error::CheckpointRows { expected, found: digits(found) })
    }

    /// The same for the number and the fingerprint of all rows.
    pub fn check_all(&self, rows: u64, fingerprint: u64) -> Result<()> {
        self.check_count(rows)?;
        match self.all.filter(|expected| *expected != fingerprint) {
            Some(expected) => {
                let expected = format!("rows whose fingerprint is {}", digits(expected));
                Err(Error::CheckpointRows { expected, found: digits(fingerprint) })
            }
            None => Ok(()),
        }
    }

    /// The same for the number of rows of a whole pass.
    pub fn check_count(&self, found: u64) -> Result<()> {
        match self.rows {
            Some(rows) if rows != found => {
                Err(Error::CheckpointRows { expected: format!("{rows} rows"), found: found.to_string() })
            }
            _ => Ok(()),
        }
    }
}

/// The fingerprint of the first rows, independent of the sizes of batches.
#[derive(Default)]
pub(crate) struct FirstRows {
    hasher: RowHasher,
    rows: usize,
}

impl FirstRows {
    pub fn is_complete(&self) -> bool {
        self.rows == FIRST_ROWS
    }

    pub fn add(&mut self, block: &RowBatch) {
        let rows = block.len().min(FIRST_ROWS - self.rows);
        self.hasher.add(&block.slice(0, rows));
        self.rows += rows;
    }

    pub fn finish(&self) -> u64 {
        self.hasher.finish()
    }
}

/// The fingerprint of rows and their weights, independent of the sizes of batches. It is not a
/// cryptographic hash.
#[derive(Default)]
pub(crate) struct RowHasher {
    /// Distinguishes the types of rows; the numbers of a type are a stream of bytes.
    kind: Option<u64>,
    values: XxHash3_64,
    lengths: XxHash3_64,
    columns: XxHash3_64,
    weights: XxHash3_64,
}

impl RowHasher {
    pub fn add(&mut self, batch: &RowBatch) {
        let kind = match (batch.is_sparse(), batch.is_single()) {
            (false, true) => 1,
            (false, false) => 2,
            (true, true) => 3,
            (true, false) => 4,
        };
        if self.kind != Some(kind) {
            self.kind = Some(kind);
            self.values.write_u64(kind);
        }
        if let Some(bytes) = batch.byte_buffers() {
            bytes.for_each(|bytes| self.values.write(bytes));
        } else {
            match batch.unvalidated_rows() {
                Rows::F32(values) => self.values.write(as_bytes(values)),
                Rows::F64(values) => self.values.write(as_bytes(values)),
                Rows::SparseF32(rows) => self.add_sparse(rows),
                Rows::SparseF64(rows) => self.add_sparse(rows),
            }
        }
        batch.weights().into_iter().for_each(|weights| self.weights.write(as_bytes(weights)));
    }

    fn add_sparse<T: Plain + Scalar>(&mut self, rows: &SparseRows<T>) {
        let (lengths, columns, values) = rows.lengths_and_entries();
        self.lengths.write(as_bytes(&lengths));
        self.columns.write(as_bytes(columns));
        self.values.write(as_bytes(values));
    }

    pub fn finish(&self) -> u64 {
        let mut all = XxHash3_64::new();
        [&self.values, &self.lengths, &self.columns, &self.weights].iter().for_each(|part| all.write_u64(part.finish()));
        all.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_do_not_depend_on_blocks() {
        let rows: Vec<f64> = (0..3000).flat_map(|row| <[f64; 2]>::from((row as f64).sin_cos())).collect();
        let single: Vec<f32> = rows.iter().map(|x| *x as f32).collect();
        let weights: Vec<f64> = (0..3000).map(|row| f64::from(row % 7)).collect();
        let starts: Vec<usize> = (0..=3000).map(|row| 2 * row).collect();
        let columns = [0, 1].repeat(3000);
        let blocks = [
            RowBatch::new(2, &rows).unwrap(),
            RowBatch::new(2, &single).unwrap(),
            RowBatch::new(2, &rows).unwrap().with_weights(&weights).unwrap(),
            RowBatch::sparse(2, &starts, &columns, &rows).unwrap(),
        ];
        let of = |block: &RowBatch, size: usize| {
            let (mut all, mut first) = (RowHasher::default(), FirstRows::default());
            for from in (0..3000).step_by(size) {
                let part = block.slice(from, (from + size).min(3000));
                all.add(&part);
                first.add(&part);
            }
            assert!(first.is_complete());
            (all.finish(), first.finish())
        };
        let whole = blocks.each_ref().map(|block| of(block, 3000));
        for size in [1, 7, 1000, 1024, 2999] {
            assert_eq!(blocks.each_ref().map(|block| of(block, size)), whole, "{size}");
        }
        let distinct: std::collections::BTreeSet<_> = whole.iter().collect();
        assert_eq!(distinct.len(), 4);
    }
}
