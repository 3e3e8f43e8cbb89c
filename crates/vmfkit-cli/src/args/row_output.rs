//! The options of outputs of rows.

use super::OUTPUT;
use anyhow::{Result, anyhow};
use clap::ValueEnum;
use std::path::Path;
use vmfkit::Angles;
use vmfkit_io::{Element, OutputFormat};

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
