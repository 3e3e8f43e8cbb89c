//! `vmf sample`: rows of a density into a file.

use crate::input;
use crate::output::Output;
use crate::progress::Progress;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use rayon::prelude::*;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use vmfkit::block::Scalar;
use vmfkit::{Sampler, VonMisesFisher};
use vmfkit_data::npy::{Element, Header};

const EXAMPLES: &str = "\
Examples:
  vmf sample --dim 100 --concentration 500 -n 10000 -o x.npy
  vmf sample --mean-direction 1,2,2 --concentration 1e6 -n 1000 --dtype f64 -o x.csv
  vmf sample --dim 3 --concentration 0 -n 5 -o -          uniform rows, as CSV on standard output

The same options and seed give the same rows on any number of threads, and row i does not depend on how many rows follow it.";

/// Numbers drawn before they are written.
const VALUES_PER_BLOCK: usize = 1 << 21;
/// Rows that one task turns into text.
const ROWS_PER_TASK: usize = 64;

/// Draw rows from a density into a .npy or .csv file
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Sample {
    /// Number of coordinates d
    #[arg(long, short, required_unless_present = "mean_direction", value_parser = clap::value_parser!(u64).range(2..=10_000_000))]
    dim: Option<u64>,
    /// Concentration kappa, at least 0; 0 is the uniform density
    #[arg(long, short = 'k', visible_alias = "kappa", value_name = "KAPPA", allow_hyphen_values = true)]
    concentration: f64,
    /// Number of rows
    #[arg(short = 'n', long, value_name = "N")]
    rows: u64,
    /// Mean direction, of any length: numbers, or a .npy or .csv file [default: 1,0,0...]
    #[arg(long, value_name = "VECTOR", allow_hyphen_values = true)]
    mean_direction: Option<String>,
    /// Precision of the numbers
    #[arg(long, value_enum, default_value = "f32")]
    dtype: Precision,
    /// What the draws come from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// File to write, `-` for standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Kind of file [default: by its extension; CSV on standard output]
    #[arg(long, value_enum)]
    format: Option<Format>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Precision {
    F32,
    F64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Npy,
    Csv,
}

impl Sample {
    pub fn run(&self) -> Result<()> {
        let density = self.density()?;
        match self.dtype {
            Precision::F32 => self.write::<f32>(&density, Element::F32),
            Precision::F64 => self.write::<f64>(&density, Element::F64),
        }
    }

    fn density(&self) -> Result<VonMisesFisher> {
        let dim = self.dim.map(usize::try_from).transpose()?;
        let Some(given) = &self.mean_direction else {
            let mut axis = vec![0.0; dim.expect("required without a mean direction")];
            axis[0] = 1.0;
            return Ok(VonMisesFisher::new(axis, self.concentration)?);
        };
        let vector = match given.split(',').map(|x| x.trim().parse().ok()).collect() {
            Some(numbers) => numbers,
            None => input::read_vector(Path::new(given)).context("the mean direction is neither numbers nor a file of them")?,
        };
        if let Some(expected) = dim.filter(|&dim| dim != vector.len()) {
            let found = vector.len();
            return Err(vmfkit::Error::DimensionMismatch { expected, found }).context("the mean direction");
        }
        Ok(VonMisesFisher::along(vector, self.concentration)?)
    }

    fn format(&self) -> Result<Format> {
        match (self.format, self.output.extension().and_then(|e| e.to_str())) {
            (Some(format), _) => Ok(format),
            (_, Some("npy")) => Ok(Format::Npy),
            (_, Some("csv")) => Ok(Format::Csv),
            _ if self.output == Path::new("-") => Ok(Format::Csv),
            _ => bail!(
                "the name of the output must end in .npy or .csv, found: `{}`\nhint: or say `--format npy` or `--format csv`",
                self.output.display()
            ),
        }
    }

    fn write<T: FileNumber>(&self, density: &VonMisesFisher, element: Element) -> Result<()> {
        let dim = density.dim();
        let bytes = (dim as u64).checked_mul(element.size()).and_then(|row| row.checked_mul(self.rows));
        let (Some(_), Ok(rows)) = (bytes, usize::try_from(self.rows)) else {
            bail!("no file holds so many rows of dimension {dim}, found: `{}`", self.rows);
        };
        let format = self.format()?;
        let mut output = Output::create(&self.output)?;
        match format {
            Format::Npy => {
                let header = Header { element, big_endian: false, fortran_order: false, shape: vec![rows, dim] };
                output.write(header.to_bytes())?;
            }
            Format::Csv => {
                let names: Vec<String> = (1..=dim).map(|column| format!("x{column}")).collect();
                output.write(names.join(",") + "\n")?;
            }
        }
        let sampler = Sampler::new(density);
        let mut progress = Progress::new(true);
        let rows_per_block = (VALUES_PER_BLOCK / dim).max(1);
        let mut values = vec![T::default(); dim * rows_per_block.min(rows)];
        let mut bytes = Vec::new();
        for first in (0..rows).step_by(rows_per_block) {
            let block = &mut values[..dim * rows_per_block.min(rows - first)];
            sampler.fill(self.seed, first as u64, block)?;
            match format {
                Format::Npy => {
                    bytes.clear();
                    block.iter().for_each(|x| x.append_bytes(&mut bytes));
                    output.write(&bytes)?;
                }
                Format::Csv => csv_lines(block, dim).iter().try_for_each(|lines| output.write(lines))?,
            }
            progress.show(format_args!("{} of {rows} rows", first + block.len() / dim));
        }
        output.finish()
    }
}

/// A number that a file can hold.
trait FileNumber: Scalar + std::fmt::Debug {
    fn append_bytes(&self, bytes: &mut Vec<u8>);
}

impl FileNumber for f32 {
    fn append_bytes(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }
}

impl FileNumber for f64 {
    fn append_bytes(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }
}

fn csv_lines<T: FileNumber>(block: &[T], dim: usize) -> Vec<String> {
    let lines = |rows: &[T]| {
        let mut text = String::with_capacity(14 * rows.len());
        for row in rows.chunks_exact(dim) {
            for (column, x) in row.iter().enumerate() {
                let comma = if column > 0 { "," } else { "" };
                write!(text, "{comma}{x:?}").expect("a string takes any text");
            }
            text.push('\n');
        }
        text
    };
    block.par_chunks(dim * ROWS_PER_TASK).map(lines).collect()
}
