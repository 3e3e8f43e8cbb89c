//! Files of rows that appear only when complete.

use crate::args::OUTPUT;
use crate::files::output::{Output, SharedOutput};
use anyhow::{Result, anyhow};
use clap::ValueEnum;
use std::path::Path;
use vmfkit::Angles;
use vmfkit_io::{Batch, Element, OutputFormat, RowLayout, RowWriter};

/// The number type of an output.
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

/// The format of an output of rows.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = OUTPUT)]
pub struct FormatArguments {
    /// Output format [default: by the extension; CSV on standard output]
    ///
    /// One of npy, npz, parquet, arrow, csv, tsv, jsonl, safetensors and mtx.
    #[arg(long, value_name = "FORMAT")]
    to: Option<OutputFormat>,
    /// Write rows as angles, such as lat,lon or lat,lon,radians (`vmf help angles`)
    #[arg(long, value_name = "NAMES")]
    pub to_angles: Option<Angles>,
}

impl FormatArguments {
    /// The given format, or that of the extension; CSV for standard output.
    pub fn format(&self, path: &Path) -> Result<OutputFormat> {
        match self.to {
            Some(format) => Ok(format),
            None if path == Path::new("-") => Ok(OutputFormat::Csv),
            None => OutputFormat::of(path).map_err(|error| anyhow!("{error}\nhint: or choose a format, such as `--to npy`")),
        }
    }
}

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
