//! [`Reader`]: one format.

pub(crate) mod angles;
pub(crate) mod array;
pub(crate) mod arrow;
mod arrow_lists;
mod arrow_messages;
#[cfg(test)]
mod columnar_tests;
pub(crate) mod columns;
mod csr;
pub mod csv;
mod csv_records;
pub(crate) mod guard;
pub(crate) mod jsonl;
pub(crate) mod matrix_market;
pub mod npy;
pub(crate) mod npz;
pub(crate) mod numbers;
pub(crate) mod parquet;
mod parquet_bytes;
mod parquet_decoder;
mod parquet_levels;
mod parquet_lists;
mod records;
pub(crate) mod safetensors;
pub(crate) mod text;
mod thrift;

use crate::error::Result;
use crate::{Batch, Values};
use bytes::Bytes;
use vmfkit::{Angles, RowBatch};

/// Bytes of rows that need be neither contiguous nor aligned, such as pages of a file where the disk put them; whole numbers each.
#[derive(Debug, Clone)]
pub struct Stretches {
    /// Of double precision, not of single.
    double: bool,
    bytes: Vec<Bytes>,
}

impl Stretches {
    /// For numbers of a file that stores them so, in single or double precision.
    pub(crate) fn new(element: Element) -> Self {
        Stretches { double: element == Element::F64, bytes: Vec::new() }
    }

    pub(crate) fn push(&mut self, stretch: impl Into<Bytes>) {
        self.bytes.push(stretch.into());
    }

    /// The same for numbers that are not in memory that could be lent.
    pub(crate) fn push_values(&mut self, values: Values) {
        // Of just the length that is needed.
        fn bytes<T, const WIDTH: usize>(values: Vec<T>, bytes_of: fn(T) -> [u8; WIDTH]) -> Vec<u8> {
            let mut bytes = Vec::with_capacity(values.len() * WIDTH);
            values.into_iter().for_each(|value| bytes.extend(bytes_of(value)));
            bytes
        }
        match values {
            Values::F32(values) if !self.double => self.push(bytes(values, f32::to_ne_bytes)),
            Values::F64(values) if self.double => self.push(bytes(values, f64::to_ne_bytes)),
            _ => unreachable!("dense rows in the precision of their file"),
        }
    }

    /// The rows, none of which is cut, without a copy.
    pub(crate) fn into_batch(self, dim: usize) -> RowBatch<'static> {
        let rows = match self.double {
            true => RowBatch::from_bytes::<f64>(dim, self.bytes),
            false => RowBatch::from_bytes::<f32>(dim, self.bytes),
        };
        rows.expect("whole rows were read")
    }
}

/// How a file stores its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// Half precision or bfloat16. It has too few bits for rows of unit length, so such rows are
    /// always rescaled.
    F16,
    /// Single precision.
    F32,
    /// Double precision, integers, or text.
    F64,
}

/// What is known of a file before its rows are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// Numbers in a row.
    pub dim: usize,
    /// How the numbers are stored.
    pub element: Element,
    /// Number of rows, if the file gives it before its end.
    pub rows: Option<u64>,
    /// Number of entries of all rows, if only those that are not 0 are stored.
    pub entries: Option<u64>,
    /// The angles that the rows seem to hold, judging by the column names.
    pub angles: Option<Angles>,
    /// Memory for reading in addition to the rows: the file, if it is loaded as a whole, or the
    /// pieces that it consists of.
    pub held: u64,
}

impl Schema {
    /// The schema of dense rows, few of which are in memory at a time.
    pub fn dense(dim: usize, element: Element, rows: Option<u64>) -> Self {
        Schema { dim, element, rows, entries: None, angles: None, held: 0 }
    }

    /// Whether only entries that are not 0 are stored.
    pub fn is_sparse(&self) -> bool {
        self.entries.is_some()
    }
}

/// Rows of one file, in its own format.
pub trait Reader: Send {
    /// What is known of the file.
    fn schema(&self) -> &Schema;
    /// Replaces what is in `batch` by the next rows, at most `most` of them; no rows at the end, and only there.
    fn read(&mut self, most: usize, batch: &mut Batch) -> Result<()>;
    /// Back to the first row.
    fn rewind(&mut self) -> Result<()>;
    /// Another pass takes long beside the reading of the bytes: they are parsed or unpacked again.
    fn is_slow(&self) -> bool {
        false
    }
    /// All rows are dense, of single or double precision, nothing belongs to them, and [`read_stretches`](Self::read_stretches) reads them.
    fn has_stretches(&self) -> bool {
        false
    }
    /// Puts the bytes of the next rows, at most `most`, behind others, if possible where they are in memory already; says how many, 0 at the end
    /// only. Numbers are in the byte order of this machine.
    fn read_stretches(&mut self, _most: usize, _stretches: &mut Stretches) -> Result<usize> {
        unreachable!("asked for only of a reader that says so")
    }
    /// Reads a file that is too large for the system's cache with O_DIRECT and about `memory` bytes of buffers, where that is possible; before the
    /// first row.
    fn read_direct(&mut self, _memory: usize) -> Result<()> {
        Ok(())
    }
}
