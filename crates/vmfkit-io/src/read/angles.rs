//! [`AngleRows`]: converts the angles in a file to unit vectors.

use crate::{Batch, Element, Error, Format, Reader, Result, Schema};
use vmfkit::Angles;
use vmfkit::rows::Rows;

/// The rows of another reader, converted to unit vectors in double precision.
pub(crate) struct AngleRows {
    angles: Angles,
    inner: Box<dyn Reader>,
    schema: Schema,
    /// Number of rows read.
    row: u64,
}

impl AngleRows {
    /// Rejects files whose rows have another number of angles.
    pub fn new(angles: Angles, inner: Box<dyn Reader>, format: Format) -> Result<Self> {
        let from = inner.schema();
        let (count, names) = (angles.count(), angles.names().join(","));
        let is_empty = from.dim == 0 && from.rows == Some(0);
        if from.is_sparse() {
            return Err(Error::format(format!("angles must be dense rows, found for `{names}`: `sparse`")));
        }
        if from.dim != count && !is_empty {
            let numbers = if count == 1 { "one number" } else { "two numbers" };
            let hint = match format.has_columns() {
                true => format!("\nhint: `--columns` chooses the columns by name, in the order of `{names}`"),
                false => String::new(),
            };
            return Err(Error::format(format!("the angles `{names}` are {numbers} a row, found: `{}`{hint}", from.dim)));
        }
        let dim = if is_empty { 0 } else { angles.dim() };
        let schema = Schema { dim, element: Element::F64, angles: None, ..from.clone() };
        Ok(AngleRows { angles, inner, schema, row: 0 })
    }
}

impl Reader for AngleRows {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&mut self, most: usize, batch: &mut Batch) -> Result<()> {
        self.inner.read(most, batch)?;
        let angles = std::mem::take(&mut batch.values).into_f64();
        let vectors = self.angles.unit_vectors(&angles).map_err(|mut error| {
            if let Some(row) = error.row_mut() {
                *row += self.row as usize;
            }
            error
        })?;
        batch.values = Rows::F64(vectors.into());
        self.row += batch.rows as u64;
        Ok(())
    }

    fn rewind(&mut self) -> Result<()> {
        self.row = 0;
        self.inner.rewind()
    }

    fn is_slow(&self) -> bool {
        self.inner.is_slow()
    }

    fn read_direct(&mut self, memory: usize) -> Result<()> {
        self.inner.read_direct(memory)
    }
}
