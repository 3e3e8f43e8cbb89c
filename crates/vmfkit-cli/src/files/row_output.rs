//! Files of rows that appear only when complete.

use crate::files::output::{Output, SharedOutput};
use anyhow::Result;
use std::path::Path;
use vmfkit_io::{Batch, OutputFormat, RowLayout, RowWriter};

/// A file of rows while it is written.
pub struct RowOutput {
    writer: RowWriter,
    output: SharedOutput,
}

impl RowOutput {
    /// Creates a file at `path`, or uses standard output for `-`.
    pub fn create(path: &Path, format: OutputFormat, layout: &RowLayout) -> Result<Self> {
        let output = SharedOutput::new(Output::create(path)?);
        let writer = RowWriter::new(format, Box::new(output.clone()), layout).map_err(|error| output.explain(error))?;
        Ok(RowOutput { writer, output })
    }

    /// Adds rows.
    pub fn write(&mut self, batch: &Batch) -> Result<()> {
        self.writer.write(batch).map_err(|error| self.output.explain(error))
    }

    /// Completes the file.
    pub fn finish(self) -> Result<()> {
        let RowOutput { writer, output } = self;
        writer.finish().map_err(|error| output.explain(error))?;
        output.finish()
    }
}
