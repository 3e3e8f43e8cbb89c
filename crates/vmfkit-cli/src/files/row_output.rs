//! Rows written to a file that appears only when it is complete.

use crate::files::output::{Output, SharedOutput};
use anyhow::{Result, anyhow};
use clap::ValueEnum;
use std::path::Path;
use vmfkit_io::{Batch, Element, OutputFormat, RowLayout, RowWriter};

/// How exactly numbers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Precision {
    F32,
    F64,
}

impl Precision {
    pub fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::F64 => "f64",
        }
    }

    pub fn element(self) -> Element {
        match self {
            Precision::F32 => Element::F32,
            Precision::F64 => Element::F64,
        }
    }
}

/// The format of this option, or by the extension; CSV on standard output.
pub fn format_of(path: &Path, asked: Option<OutputFormat>, option: &str) -> Result<OutputFormat> {
    match asked {
        Some(format) => Ok(format),
        None if path == Path::new("-") => Ok(OutputFormat::Csv),
        None => OutputFormat::of(path).map_err(|error| anyhow!("{error}\nhint: or choose a format, such as `{option} npy`")),
    }
}

/// A file of rows that is being written.
pub struct RowOutput {
    writer: RowWriter,
    output: SharedOutput,
}

impl RowOutput {
    /// Begins a file at `path`, or on standard output for `-`.
    pub fn create(path: &Path, format: OutputFormat, layout: &RowLayout) -> Result<Self> {
        let output = SharedOutput::new(Output::create(path)?);
        let writer = RowWriter::new(format, Box::new(output.clone()), layout).map_err(|error| output.explain(error))?;
        Ok(RowOutput { writer, output })
    }

    /// Adds rows.
    pub fn write(&mut self, batch: &Batch) -> Result<()> {
        self.writer.write(batch).map_err(|error| self.output.explain(error))
    }

    /// Makes the file visible.
    pub fn finish(self) -> Result<()> {
        let RowOutput { writer, output } = self;
        writer.finish().map_err(|error| output.explain(error))?;
        output.finish()
    }
}
