//! Tables of results, in any format, that appear only when complete.

use crate::files::output::{Output, SharedOutput};
use anyhow::Result;
use vmfkit_io::{Column, ColumnData, OutputFormat, TableWriter};

/// A table while it is written.
pub struct TableFile {
    table: TableWriter,
    output: SharedOutput,
}

impl TableFile {
    /// Creates a table for this number of rows, if it is known.
    pub fn new(output: Output, format: OutputFormat, columns: &[Column], rows: Option<u64>) -> Result<Self> {
        let output = SharedOutput::new(output);
        let table = TableWriter::new(format, Box::new(output.clone()), columns, rows).map_err(|error| output.explain(error))?;
        Ok(TableFile { table, output })
    }

    /// Adds rows: one slice of values for each column, in order.
    pub fn write(&mut self, data: &[ColumnData]) -> Result<()> {
        self.table.write(data).map_err(|error| self.output.explain(error))
    }

    /// Completes the table.
    pub fn finish(self) -> Result<()> {
        let TableFile { table, output } = self;
        table.finish().map_err(|error| output.explain(error))?;
        output.finish()
    }
}
