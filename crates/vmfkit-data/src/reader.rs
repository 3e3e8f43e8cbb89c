//! [`Reader`]: one format.

use crate::Batch;
use crate::error::Result;
use bytes::Bytes;
use std::path::Path;

/// Bytes of rows in memory that need be neither together nor aligned, such as pages of a file where the disk put them; whole numbers each.
#[derive(Debug, Clone, Default)]
pub struct Stretches(Vec<Bytes>);

impl Stretches {
    pub(crate) fn push(&mut self, stretch: impl Into<Bytes>) {
        self.0.push(stretch.into());
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|stretch| &**stretch)
    }
}

/// How a file stores its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// Half precision (or bfloat16): too few bits for a row of unit length, so such rows are always rescaled.
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
    /// How many rows there are, where the file tells before its end.
    pub rows: Option<u64>,
    /// The entries of all rows, where only those that are not 0 are stored.
    pub entries: Option<u64>,
    /// Bytes in which the file is held while it is open, where it is brought into memory as a whole.
    pub held: u64,
}

impl Schema {
    /// Rows of which all numbers are stored, and of which few are in memory at a time.
    pub fn dense(dim: usize, element: Element, rows: Option<u64>) -> Self {
        Schema { dim, element, rows, entries: None, held: 0 }
    }

    /// Only entries that are not 0 are stored.
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
    /// All rows are of single precision, nothing belongs to them, and [`read_stretches`](Self::read_stretches) reads them.
    fn has_stretches(&self) -> bool {
        false
    }
    /// Puts the bytes of the next rows, at most `most`, behind others, if possible where they are in memory already; says how many, 0 at the end
    /// only. Numbers are in the byte order of this machine.
    fn read_stretches(&mut self, _most: usize, _stretches: &mut Stretches) -> Result<usize> {
        unreachable!("asked for only of a reader that says so")
    }
    /// Before the first row: the file, which has this path, is too large to be kept, and need not go through the system's cache; so many
    /// bytes may be taken in its place.
    fn bypass_cache(&mut self, _path: &Path, _memory: usize) -> Result<()> {
        Ok(())
    }
}
