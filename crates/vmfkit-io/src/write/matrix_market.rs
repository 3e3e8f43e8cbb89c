//! Writes Matrix Market's `.mtx` in coordinate format.

use crate::Result;
use crate::write::numbers::Entries;
use crate::write::{Headed, Sink};
use std::io::Write;

/// The first line of every file.
const GENERAL_ENTRIES: &str = "%%MatrixMarket matrix coordinate real general";
/// The maximum length of three sizes with blanks between them.
const SIZES_ROOM: usize = 62;

/// Writes the entries of rows, in their order.
pub(crate) struct MatrixWriter {
    file: Headed,
    dim: usize,
    rows: u64,
    entries: u64,
}

impl MatrixWriter {
    pub(crate) fn new(sink: Sink, dim: usize) -> Result<Self> {
        let file = Headed::new(sink, matrix_header(0, dim, 0).len())?;
        Ok(MatrixWriter { file, dim, rows: 0, entries: 0 })
    }

    pub(crate) fn write(&mut self, rows: &Entries) -> Result<()> {
        let mut text = Vec::new();
        for ends in rows.starts.windows(2) {
            self.rows += 1;
            for entry in ends[0]..ends[1] {
                write!(text, "{} {} ", self.rows, u64::from(rows.columns[entry]) + 1).expect("writing to memory cannot fail");
                rows.values.write_text(entry, &mut text);
                text.push(b'\n');
            }
        }
        self.entries += rows.columns.len() as u64;
        self.file.write(&text)
    }

    pub(crate) fn finish(self) -> Result<()> {
        self.file.finish(&matrix_header(self.rows, self.dim, self.entries), |_| Ok(()))
    }
}

/// The header has the same length for any sizes: a comment pads it with blanks.
fn matrix_header(rows: u64, dim: usize, entries: u64) -> Vec<u8> {
    let sizes = format!("{rows} {dim} {entries}");
    format!("{GENERAL_ENTRIES}\n%{}\n{sizes}\n", " ".repeat(SIZES_ROOM - sizes.len())).into_bytes()
}
