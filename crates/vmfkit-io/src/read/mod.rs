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

use crate::Batch;
use crate::error::Result;
use bytes::Bytes;
use vmfkit::rows::Rows;
use vmfkit::{Angles, RowBatch};

/// Bytes of rows, lent from the buffers that the file was read into. Each buffer holds whole
/// numbers in the byte order of this machine. Buffers need not be aligned, and rows may cross them.
#[derive(Debug, Clone)]
pub struct ByteBuffers {
    is_double: bool,
    buffers: Vec<Bytes>,
}

impl ByteBuffers {
    /// For a file that stores its numbers in single or double precision.
    pub(crate) fn new(element: Element) -> Self {
        ByteBuffers { is_double: element == Element::F64, buffers: Vec::new() }
    }

    pub(crate) fn push(&mut self, buffer: impl Into<Bytes>) {
        self.buffers.push(buffer.into());
    }

    /// Appends rows whose bytes cannot be lent. They are dense and in the precision of the file.
    pub(crate) fn push_rows(&mut self, rows: Rows) {
        fn bytes<T: Copy, const WIDTH: usize>(values: &[T], bytes_of: fn(T) -> [u8; WIDTH]) -> Vec<u8> {
            let mut bytes = Vec::with_capacity(values.len() * WIDTH);
            values.iter().for_each(|value| bytes.extend(bytes_of(*value)));
            bytes
        }
        match rows {
            Rows::F32(values) if !self.is_double => self.push(bytes(&values, f32::to_ne_bytes)),
            Rows::F64(values) if self.is_double => self.push(bytes(&values, f64::to_ne_bytes)),
            _ => unreachable!("dense rows in the precision of their file"),
        }
    }

    /// The rows, without a copy. The buffers together must hold whole rows.
    pub(crate) fn into_batch(self, dim: usize) -> RowBatch<'static> {
        let rows = match self.is_double {
            true => RowBatch::from_bytes::<f64>(dim, self.buffers),
            false => RowBatch::from_bytes::<f32>(dim, self.buffers),
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

impl Element {
    /// Empties `rows` and makes them dense, in the precision that these numbers are widened to.
    pub(crate) fn start(self, rows: &mut Rows<'static>) {
        match self {
            Element::F16 | Element::F32 => {
                rows.start_dense::<f32>();
            }
            Element::F64 => {
                rows.start_dense::<f64>();
            }
        }
    }
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

/// Reads the rows of one file, in its own format.
pub trait Reader: Send {
    /// What is known of the file.
    fn schema(&self) -> &Schema;
    /// Replaces the contents of `batch` by the next rows, at most `most`. There are none only at
    /// the end.
    fn read(&mut self, most: usize, batch: &mut Batch) -> Result<()>;
    /// Returns to the first row.
    fn rewind(&mut self) -> Result<()>;
    /// Whether another pass is much slower than reading the bytes, because they are parsed or
    /// decompressed again.
    fn is_slow(&self) -> bool {
        false
    }
    /// Whether [`read_bytes`](Self::read_bytes) can be called: all rows are dense, in single or
    /// double precision, without weights or ids.
    fn lends_bytes(&self) -> bool {
        false
    }
    /// Appends the bytes of the next rows, at most `most`, to `buffers`, without a copy where
    /// possible. Returns the number of rows, which is 0 only at the end.
    fn read_bytes(&mut self, _most: usize, _buffers: &mut ByteBuffers) -> Result<usize> {
        unreachable!("called only if `lends_bytes` returns true")
    }
    /// Reads with O_DIRECT from now on, with about `memory` bytes of buffers, where that is
    /// possible. For files that are too large for the system's cache; called before the first row
    /// is read.
    fn read_direct(&mut self, _memory: usize) -> Result<()> {
        Ok(())
    }
}
