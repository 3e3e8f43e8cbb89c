//! Rows that a file stores as they would be in memory, and that stay where the disk put them.

use crate::sectors::{SectorFile, Sectors};
use crate::{Batch, Error, Reader, Result, Schema};
use std::path::Path;

/// Rows of single precision, one behind the other in the file.
pub(crate) struct InPlaceRows {
    file: SectorFile,
    /// Where in the file the first row begins.
    first_byte: u64,
    schema: Schema,
    rows: u64,
    next: u64,
    /// For rows that are asked for as a batch.
    sectors: Sectors,
}

impl InPlaceRows {
    /// The rows of a reader, which has read none yet. None unless its file, which has this path, is such a one and can be read past the system's
    /// cache.
    pub fn open(path: &Path, reader: &dyn Reader) -> Option<Self> {
        let (first_byte, schema) = (reader.first_byte()?, reader.schema().clone());
        let rows = schema.rows?;
        if !first_byte.is_multiple_of(size_of::<f32>() as u64) {
            return None;
        }
        Some(InPlaceRows { file: SectorFile::open(path)?, first_byte, schema, rows, next: 0, sectors: Sectors::default() })
    }

    /// How many rows have not been read yet.
    pub fn left(&self) -> u64 {
        self.rows - self.next
    }

    /// Replaces what is in `sectors` by the next rows, which are there.
    pub fn read_in_place(&mut self, rows: usize, sectors: &mut Sectors) -> Result<()> {
        let row_bytes = (self.schema.dim * size_of::<f32>()) as u64;
        let length = rows as u64 * row_bytes;
        let first_byte = self.first_byte + self.next * row_bytes;
        self.file.read(first_byte..first_byte + length, sectors)?;
        let found = sectors.bytes().len() as u64;
        if found < length {
            let (expected, found) = (self.rows * row_bytes, self.next * row_bytes + found);
            return Err(Error::Changed { what: format!("it had {expected} bytes of data, found: `{found}`") });
        }
        self.next += rows as u64;
        Ok(())
    }
}

impl Reader for InPlaceRows {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&mut self, most: usize, batch: &mut Batch) -> Result<()> {
        let rows = self.left().min(most as u64) as usize;
        let mut sectors = std::mem::take(&mut self.sectors);
        self.read_in_place(rows, &mut sectors)?;
        (batch.rows, batch.weights, batch.ids) = (rows, None, None);
        batch.values.start_f32().extend_from_slice(sectors.numbers());
        self.sectors = sectors;
        Ok(())
    }

    fn rewind(&mut self) -> Result<()> {
        self.next = 0;
        Ok(())
    }
}
