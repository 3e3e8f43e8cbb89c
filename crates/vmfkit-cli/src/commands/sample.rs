//! `vmf sample`: random rows from a density or a mixture.

use crate::args::row_output::{FormatArguments, Precision};
use crate::args::{GENERAL, MODEL, OUTPUT, ReportArguments};
use crate::files::Files;
use crate::files::labels::LabelFile;
use crate::files::output::{self, Output};
use crate::files::row_output::RowOutput;
use crate::files::{input, model};
use crate::report::notes;
use crate::report::progress::Progress;
use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use serde_json::json;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use vmfkit::rows::Scalar;
use vmfkit::{Angles, Mixture, Sampler, VonMisesFisher};
use vmfkit_io::{Batch, OutputFormat, RowLayout};

const AFTER_HELP: &str = "\
Examples:
  vmf sample --dim 100 --concentration 500 -n 10000 -o x.npy
  vmf sample --mean-direction 1,2,2 --concentration 1e6 -n 1000 --dtype f64 -o x.csv
  vmf sample --dim 3 --concentration 0 -n 5 -o -          uniform rows, as CSV on standard output
  vmf sample model.safetensors -n 10000 -o x.parquet --labels truth.npy
  vmf sample --to-angles dec,inc --mean-direction 349,58 --concentration 80 -n 50 -o remanence.csv

FILE ends in .npy, .npz, .csv, .tsv, .parquet, .arrow, .feather, .jsonl, .safetensors or .mtx.
The same options and seed give the same rows on any number of threads.
A longer sample begins with the rows of a shorter one.";

/// Numbers that are drawn at a time.
const VALUES_PER_BLOCK: usize = 1 << 21;
/// Rows per task that formats text.
const ROWS_PER_TASK: usize = 64;

/// Draw rows from a density or from a model file
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Sample {
    /// Model file to draw from, or `-` for standard input
    ///
    /// Without it, --dim, --concentration and --mean-direction describe one density.
    #[arg(conflicts_with_all = ["dim", "concentration", "mean_direction"])]
    model: Option<PathBuf>,
    /// Number of coordinates d, at least 2
    #[arg(long, short, value_name = "D", help_heading = MODEL)]
    #[arg(required_unless_present_any = ["mean_direction", "model", "to_angles"])]
    #[arg(value_parser = clap::value_parser!(u64).range(2..=10_000_000))]
    dim: Option<u64>,
    /// Concentration kappa, at least 0; 0 is the uniform density
    #[arg(long, visible_alias = "kappa", value_name = "KAPPA", allow_hyphen_values = true, help_heading = MODEL)]
    #[arg(required_unless_present = "model")]
    concentration: Option<f64>,
    /// Mean direction: numbers separated by commas, or a file [default: 1,0,0...]
    ///
    /// A vector of any length; with --to-angles, angles are accepted too. FILE is .npy or text.
    #[arg(long, value_name = "VECTOR", allow_hyphen_values = true, help_heading = MODEL)]
    mean_direction: Option<String>,
    /// Number of rows
    #[arg(short = 'n', long, value_name = "N", help_heading = MODEL)]
    rows: u64,
    /// File to write, `-` for standard output
    #[arg(long, short, value_name = "FILE", help_heading = OUTPUT)]
    output: PathBuf,
    #[command(flatten)]
    written: FormatArguments,
    /// Precision of the numbers [default: f32; f64 for a concentration of 1e12 or more]
    #[arg(long, value_name = "TYPE", value_enum, help_heading = OUTPUT)]
    dtype: Option<Precision>,
    /// File for the component of each row: .npy, or text with one per line
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    labels: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArguments,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = GENERAL)]
    seed: u64,
}

/// Half a unit in the last place of an f32 near 1.
const F32_ANGLE: f64 = f32::EPSILON as f64 / 2.0;
/// Concentration from which rounding to f32 distorts rows. Rows of concentration k deviate from their mean direction by
/// 1/sqrt(k) in each of d - 1 dimensions: the squares sum to (d - 1)/k. Rounding moves coordinate i by at most 2^-24 |x_i| and
/// adds at most 2^-48/3 to that sum on average. At k = 1e12 this is 1/800 of the sum; at 1e15 a fifth, measured in d = 4; above
/// 1e16 rounding dominates.
const MOST_IN_F32: f64 = 1e12;

/// The distribution of the rows.
enum Law {
    /// One density, and its concentration.
    One(Box<Sampler>, f64),
    Mixture(Mixture),
}

impl Law {
    fn dim(&self) -> usize {
        match self {
            Law::One(sampler, _) => sampler.dim(),
            Law::Mixture(mixture) => mixture.dim(),
        }
    }

    fn largest_concentration(&self) -> f64 {
        match self {
            Law::One(_, concentration) => *concentration,
            Law::Mixture(mixture) => mixture.components().iter().map(VonMisesFisher::concentration).fold(0.0, f64::max),
        }
    }

    /// Rows from `first` on, and the components they are from.
    fn fill<T: Scalar>(&self, seed: u64, first: u64, rows: &mut [T], labels: &mut [u32]) -> vmfkit::Result<()> {
        match self {
            Law::One(sampler, _) => sampler.fill(seed, first, rows),
            Law::Mixture(mixture) => mixture.fill(seed, first, rows, labels),
        }
    }
}

impl Sample {
    pub fn run(&self) -> Result<()> {
        let direction = self.mean_direction.as_ref().filter(|given| Path::new(given).is_file());
        let files = Files::new().reads(&self.model).reads(direction);
        files.writes("-o", Some(&self.output)).writes("--labels", self.labels.as_ref()).check()?;
        let law = match &self.model {
            Some(path) => Law::Mixture(model::read(path)?.0),
            None => {
                let density = self.density()?;
                Law::One(Box::new(Sampler::new(&density)), density.concentration())
            }
        };
        if let (Some(labels), None) = (&self.labels, &self.model) {
            bail!("rows of one density have no components, found: `--labels {}`", labels.display());
        }
        if let Some(angles) = self.written.to_angles.filter(|angles| angles.dim() != law.dim()) {
            bail!("the angles `{angles}` are directions in dimension {}, found: `{}`", angles.dim(), law.dim());
        }
        let format = self.written.format(&self.output)?;
        let precision = self.precision(law.largest_concentration());
        match precision {
            Precision::F32 => self.write::<f32>(&law, format)?,
            Precision::F64 => self.write::<f64>(&law, format)?,
        }
        let json = || self.to_json(law.dim(), format, precision);
        if self.report.json { output::report(&json(), self.output == Path::new("-")) } else { Ok(()) }
    }

    /// The requested precision, or one that resolves rows of this concentration. Prints a note if f32 is too coarse.
    fn precision(&self, concentration: f64) -> Precision {
        let is_fine = concentration >= MOST_IN_F32;
        match self.dtype {
            None if is_fine => {
                notes::note(format_args!(
                    "rows are written as f64: f32 resolves angles of {F32_ANGLE:.0e}, too coarse for a concentration of {concentration:e}"
                ));
                Precision::F64
            }
            Some(Precision::F32) if is_fine => {
                notes::note(format_args!(
                    "warning: f32 resolves angles of {F32_ANGLE:.0e}, too coarse for a concentration of {concentration:e}\n\
                     hint: `--dtype f64` resolves them"
                ));
                Precision::F32
            }
            asked => asked.unwrap_or(Precision::F32),
        }
    }

    fn to_json(&self, dim: usize, format: OutputFormat, precision: Precision) -> String {
        let name = |path: &PathBuf| path.display().to_string();
        let object = json!({
            "output": name(&self.output),
            "labels": self.labels.as_ref().map(name),
            "format": format.to_string(),
            "rows": self.rows,
            "dim": dim,
            "dtype": precision.name(),
            "angles": self.written.to_angles.map(|angles| angles.to_string()),
            "seed": self.seed,
            "model": self.model.as_ref().map(name),
            "concentration": self.concentration,
        });
        format!("{object}\n")
    }

    fn density(&self) -> Result<VonMisesFisher> {
        let concentration = self.concentration.expect("required without a model");
        let dim = self.dim.map(usize::try_from).transpose()?.or(self.written.to_angles.map(Angles::dim));
        let Some(given) = &self.mean_direction else {
            let mut axis = vec![0.0; dim.expect("required without a mean direction")];
            axis[0] = 1.0;
            return Ok(VonMisesFisher::new(axis, concentration)?);
        };
        let mut vector = input::mean_direction(given)?;
        if let Some(angles) = self.written.to_angles.filter(|angles| angles.count() == vector.len()) {
            vector = angles.unit_vectors(&vector).context("the mean direction")?;
        }
        if let Some(expected) = dim.filter(|&dim| dim != vector.len()) {
            let found = vector.len();
            return Err(vmfkit::Error::DimensionMismatch { expected, found }).context("the mean direction");
        }
        Ok(VonMisesFisher::along(vector, concentration)?)
    }

    fn write<T: FileNumber>(&self, law: &Law, format: OutputFormat) -> Result<()> {
        let dim = law.dim();
        let bytes = (dim as u64).checked_mul(size_of::<T>() as u64).and_then(|row| row.checked_mul(self.rows));
        let (Some(_), Ok(rows)) = (bytes, usize::try_from(self.rows)) else {
            bail!("the rows of dimension {dim} exceed the size of a file, found: `{}`", self.rows);
        };
        // Both files are created before anything is drawn.
        let mut labels = self.labels.as_ref().map(|path| LabelFile::create(path, Some(self.rows))).transpose()?;
        let width = self.written.to_angles.map_or(dim, Angles::count);
        let mut output = RowFile::create(&self.output, format, width, T::PRECISION, self)?;
        let mut progress = Progress::new(!self.report.quiet);
        let rows_per_block = (VALUES_PER_BLOCK / dim).max(1);
        let mut values = Vec::new();
        let mut found = Vec::new();
        for first in (0..rows).step_by(rows_per_block) {
            let count = rows_per_block.min(rows - first);
            values.resize(count * dim, T::default());
            found.resize(count, 0);
            values = match self.written.to_angles {
                Some(angles) => {
                    let mut vectors = vec![0.0; count * dim];
                    law.fill(self.seed, first as u64, &mut vectors, &mut found)?;
                    output.write(angles.of_vectors(&vectors)?.into_iter().map(T::from_f64).collect(), width)?
                }
                None => {
                    law.fill(self.seed, first as u64, &mut values, &mut found)?;
                    output.write(values, width)?
                }
            };
            if let Some(labels) = &mut labels {
                labels.write(&found)?;
            }
            progress.rows("", (first + count) as u64, Some(self.rows));
        }
        output.finish()?;
        labels.map_or(Ok(()), LabelFile::finish)
    }
}

/// The output file.
enum RowFile {
    /// CSV or TSV, formatted on all threads.
    Separated(Output, char),
    Other(RowOutput),
}

impl RowFile {
    /// Creates a file for rows of `width` numbers.
    fn create(path: &Path, format: OutputFormat, width: usize, precision: Precision, sample: &Sample) -> Result<Self> {
        let names: Option<Vec<String>> =
            sample.written.to_angles.map(|angles| angles.names().into_iter().map(str::to_owned).collect());
        let separator = match format {
            OutputFormat::Csv => ',',
            OutputFormat::Tsv => '\t',
            _ => {
                let mut layout = RowLayout::new(width, precision.element()).rows(sample.rows);
                if let Some(names) = names {
                    layout = layout.names(names);
                }
                return Ok(RowFile::Other(RowOutput::create(path, format, &layout)?));
            }
        };
        let mut output = Output::create(path)?;
        let names = names.unwrap_or_else(|| (0..width).map(|column| format!("x{column}")).collect());
        output.write(names.join(&separator.to_string()) + "\n")?;
        Ok(RowFile::Separated(output, separator))
    }

    /// Writes rows and returns their buffer.
    fn write<T: FileNumber>(&mut self, values: Vec<T>, dim: usize) -> Result<Vec<T>> {
        match self {
            RowFile::Separated(output, separator) => {
                lines(&values, dim, *separator).iter().try_for_each(|lines| output.write(lines))?;
                Ok(values)
            }
            RowFile::Other(output) => {
                let mut batch = Batch { rows: values.len() / dim, ..Batch::default() };
                *batch.values.start_dense() = values;
                output.write(&batch)?;
                Ok(std::mem::take(batch.values.start_dense()))
            }
        }
    }

    fn finish(self) -> Result<()> {
        match self {
            RowFile::Separated(output, _) => output.finish(),
            RowFile::Other(output) => output.finish(),
        }
    }
}

/// A number type of output files.
trait FileNumber: Scalar + std::fmt::Debug {
    const PRECISION: Precision;
}

impl FileNumber for f32 {
    const PRECISION: Precision = Precision::F32;
}

impl FileNumber for f64 {
    const PRECISION: Precision = Precision::F64;
}

fn lines<T: FileNumber>(block: &[T], dim: usize, separator: char) -> Vec<String> {
    let lines = |rows: &[T]| {
        let mut text = String::with_capacity(14 * rows.len());
        for row in rows.chunks_exact(dim) {
            for (column, x) in row.iter().enumerate() {
                if column > 0 {
                    text.push(separator);
                }
                write!(text, "{x:?}").expect("a string takes any text");
            }
            text.push('\n');
        }
        text
    };
    block.par_chunks(dim * ROWS_PER_TASK).map(lines).collect()
}
