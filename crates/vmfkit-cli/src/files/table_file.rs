//! A table of results, in any format, that appears only when it is complete.

use crate::files::output::{Output, SharedOutput};
use anyhow::Result;
use vmfkit_io::{Column, ColumnData, OutputFormat, TableWriter};

/// A table that is being written.
pub struct TableFile {
    table: TableWriter,
    output: SharedOutput,
}

impl TableFile {
    /// Begins a table; its number of rows, if that is known.
    pub fn new(output: Output, format: OutputFormat, columns: &[Column], rows: Option<u64>) -> Result<Self> {
        let output = SharedOutput::new(output);
        let table = TableWriter::new(format, Box::new(output.clone()), columns, rows).map_err(|error| output.explain(error))?;
        Ok(TableFile { table, output })
    }

    /// Adds rows: for each column, in order, as many values.
    pub fn write(&mut self, data: &[ColumnData]) -> Result<()> {
        self.table.write(data).map_err(|error| self.output.explain(error))
    }

    /// Makes the table visible.
    pub fn finish(self) -> Result<()> {
        let TableFile { table, output } = self;
        table.finish().map_err(|error| output.explain(error))?;
        output.finish()
    }
}
