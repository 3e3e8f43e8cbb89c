//! [`RowsMark`]: what a checkpoint knows of the rows that it was made with.

use crate::block::{Block, Rows, Scalar, SparseRows};
use crate::error::{Error, Result};
use crate::settings::digits;
use crate::source::Source;

/// Tells rows, and the blocks that they come in, from others by the first block: the last bits of a fit depend on both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowsMark {
    /// Rows of the first block.
    pub block: u64,
    /// Of its numbers and weights.
    pub mark: u64,
    /// Rows in all, where that was known.
    pub rows: Option<u64>,
    /// The [fingerprint](crate::fingerprint) of all rows, once a pass was complete; none where the first block has them all.
    pub fingerprint: Option<u64>,
}

impl RowsMark {
    /// Looks at the first block of a source, and leaves it at its beginning.
    pub fn of(source: &mut dyn Source) -> Result<Self> {
        source.rewind()?;
        let first = source.read_block()?.map(|block| RowsMark::of_block(&block));
        source.rewind()?;
        let mark = first.ok_or(Error::NoRows { weight: 0.0 })?;
        Ok(RowsMark { rows: source.rows(), ..mark })
    }

    /// The same with what a pass has shown; what was known before stays.
    pub fn learn(self, rows: Option<u64>, fingerprint: Option<u64>) -> Self {
        RowsMark { rows: self.rows.or(rows), fingerprint: self.fingerprint.or(fingerprint), ..self }
    }

    pub fn of_block(block: &Block) -> Self {
        RowsMark { block: block.len() as u64, mark: mark(block), rows: None, fingerprint: None }
    }

    /// Whether these are the rows of a checkpoint; what is known of one side only is passed over.
    pub fn check(&self, found: &RowsMark) -> Result<()> {
        let other = |expected: String, found: String| Err(Error::CheckpointRows { expected, found });
        if let Some(rows) = found.rows {
            self.check_count(rows)?;
        }
        if found.block != self.block {
            return Err(Error::CheckpointBlocks { expected: self.block, found: found.block });
        }
        if found.mark != self.mark {
            return other(format!("a first block of rows whose fingerprint is {}", digits(self.mark)), digits(found.mark));
        }
        Ok(())
    }

    /// The same for the number and the fingerprint of all rows.
    pub fn check_all(&self, rows: u64, fingerprint: u64) -> Result<()> {
        self.check_count(rows)?;
        match self.fingerprint.filter(|expected| *expected != fingerprint) {
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

fn mark(block: &Block) -> u64 {
    let rows = match block.rows() {
        Rows::F32(values) => mix(1, values.iter().map(|x| x.to_bits().into())),
        Rows::F64(values) => mix(2, values.iter().map(|x| x.to_bits())),
        Rows::SparseF32(rows) => mix_sparse(3, rows, block.len()),
        Rows::SparseF64(rows) => mix_sparse(4, rows, block.len()),
    };
    mix(rows, block.weights().into_iter().flatten().map(|weight| weight.to_bits()))
}

fn mix_sparse<T: Scalar>(start: u64, sparse: &SparseRows<T>, rows: usize) -> u64 {
    (0..rows).fold(start, |hash, row| {
        let (columns, values) = sparse.row(row);
        let entries = columns.iter().zip(values).flat_map(|(&column, x)| [column.into(), x.to_f64().to_bits()]);
        mix(hash, [columns.len() as u64].into_iter().chain(entries))
    })
}

/// A word a step (FxHash), since a block has millions; no defence against those who want two to look the same.
fn mix(start: u64, words: impl Iterator<Item = u64>) -> u64 {
    words.fold(start, |hash, word| (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95))
}
