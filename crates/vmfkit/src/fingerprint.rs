//! [`FingerprintedSource`]: a fingerprint of all rows of a source, made while they are read.
//!
//! A resumed fit must go on with the rows that it began with. The first block is compared before anything is read ([`RowsMark`]); all rows
//! are compared in the first pass. Only that pass of a fit with a checkpoint is hashed, and no source of a single block.

use crate::block::{Block, Rows, Scalar, SparseRows};
use crate::error::{Error, Result};
use crate::loose_rows::Sections;
use crate::rows_mark::RowsMark;
use crate::source::{Portion, Source};
use rayon::prelude::*;
use std::hash::Hasher;
use twox_hash::XxHash3_64;
use vmfkit_kernels::bytes::{Plain, as_bytes};

/// Numbers that one task hashes. Part of the definition of a fingerprint, since tasks are hashed on their own and combined in order: the number
/// of threads decides nothing.
const NUMBERS_PER_TASK: usize = 1 << 14;

/// A source whose first complete pass yields a fingerprint of its numbers, weights and blocks.
pub(crate) struct FingerprintedSource<'s> {
    source: &'s mut dyn Source,
    /// What is known of the rows, as long as a fingerprint is wanted.
    expected: Option<RowsMark>,
    /// The pass under way, and its rows so far.
    hasher: Option<XxHash3_64>,
    rows: u64,
    found: Option<u64>,
}

impl<'s> FingerprintedSource<'s> {
    /// The first complete pass must be over the rows that are expected. The source is left as it is if nothing is known of its rows, or if the first
    /// block has them all.
    pub fn new(source: &'s mut dyn Source, expected: Option<RowsMark>) -> Self {
        let expected = expected.filter(|mark| mark.rows != Some(mark.block));
        FingerprintedSource { source, expected, hasher: None, rows: 0, found: None }
    }

    /// The fingerprint, once a pass was complete.
    pub fn fingerprint(&self) -> Option<u64> {
        self.found
    }
}

impl Source for FingerprintedSource<'_> {
    fn dim(&self) -> usize {
        self.source.dim()
    }

    fn read_block(&mut self) -> Result<Option<Block<'_>>> {
        let FingerprintedSource { source, expected, hasher, rows, found } = self;
        let block = source.read_block()?;
        match (&block, &mut *hasher) {
            (Some(block), Some(hasher)) => {
                add_block(hasher, block);
                *rows += block.len() as u64;
            }
            (None, Some(complete)) => {
                let fingerprint = complete.finish();
                expected.take().map_or(Ok(()), |expected| expected.check_all(*rows, fingerprint))?;
                (*hasher, *found) = (None, Some(fingerprint));
            }
            _ => {}
        }
        Ok(block)
    }

    fn read_portion(&mut self) -> Result<Option<Portion<'_>>> {
        if self.hasher.is_some() {
            return Ok(self.read_block()?.map(Portion::Block));
        }
        self.source.read_portion()
    }

    fn read_in_sections(&mut self, sections: Option<Sections>) {
        self.source.read_in_sections(sections.filter(|_| self.expected.is_none()));
    }

    fn refuse(&mut self, error: Error) -> Error {
        self.source.refuse(error)
    }

    fn rewind(&mut self) -> Result<()> {
        self.hasher = self.expected.map(|_| XxHash3_64::new());
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

fn add_block(hasher: &mut XxHash3_64, block: &Block) {
    hasher.write_u64(block.len() as u64);
    match block.rows() {
        Rows::F32(values) => add_numbers(hasher, values),
        Rows::F64(values) => add_numbers(hasher, values),
        Rows::SparseF32(rows) => add_sparse(hasher, rows),
        Rows::SparseF64(rows) => add_sparse(hasher, rows),
    }
    block.weights().into_iter().for_each(|weights| add_numbers(hasher, weights));
}

fn add_sparse<T: Plain + Scalar>(hasher: &mut XxHash3_64, rows: &SparseRows<T>) {
    let (lengths, columns, values) = rows.lengths_and_entries();
    add_numbers(hasher, &lengths);
    add_numbers(hasher, columns);
    add_numbers(hasher, values);
}

fn add_numbers<T: Plain>(hasher: &mut XxHash3_64, numbers: &[T]) {
    let hashes: Vec<u64> = numbers.par_chunks(NUMBERS_PER_TASK).map(|task| XxHash3_64::oneshot(as_bytes(task))).collect();
    hasher.write_u64(size_of::<T>() as u64);
    hashes.into_iter().for_each(|hash| hasher.write_u64(hash));
}
