//! `vmf convert`: rows from one file format to another.

use crate::args::row_output::{FormatArguments, Precision};
use crate::args::rows::RowArguments;
use crate::args::{OUTPUT, ReportArguments};
use crate::files::output;
use crate::files::row_output::RowOutput;
use crate::files::{Files, is_standard};
use crate::report::notes;
use crate::report::progress::Progress;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::path::{Path, PathBuf};
use vmfkit::rows::Rows;
use vmfkit::{Angles, Error};
use vmfkit_io::{Batch, IdKind, Ids, OutputFormat, RowLayout};

const USAGE: &str = "vmf convert [OPTIONS] <DATA>... <FILE>\n       vmf convert [OPTIONS] <DATA>... -o <FILE>";

const AFTER_HELP: &str = "\
Examples:
  vmf convert x.npy x.parquet
  vmf convert 'part-*.parquet' --id-column name --weights column:n -o all.arrow
  vmf convert raw.csv unit.npy --rescale --dtype f32
  vmf convert lines.jsonl --columns embedding - | head
  vmf convert poles.csv --angles lat,lon unit.npy
  vmf convert unit.npy --to-angles dec,inc remanence.csv

FILE ends in .parquet, .arrow, .feather, .csv, .tsv, .jsonl, .npy, .npz, .safetensors or .mtx.
Without -o, an existing FILE is not overwritten.
Rows are written unchanged, whatever their length, unless --rescale is given. Numbers keep every
bit unless --dtype f32 rounds them. In JSON Lines, numbers that are not finite become null.
--id-column and --weights write the columns `id` and `weight`. .npy and .mtx files hold neither;
text ids cannot be written to .npz and .safetensors files.
Sparse rows stay sparse in .npz (scipy CSR) and .mtx, and become dense in other formats.
Zeros of dense rows are not written to .mtx.";

/// Convert rows between file formats
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP, override_usage = USAGE)]
pub struct Convert {
    #[command(flatten)]
    rows: RowArguments,
    /// File to write, `-` for standard output [default: the last argument]
    #[arg(long, short, value_name = "FILE", help_heading = OUTPUT)]
    output: Option<PathBuf>,
    #[command(flatten)]
    written: FormatArguments,
    /// Precision of the numbers [default: f64 for f64, integers and text, otherwise f32]
    #[arg(long, value_name = "TYPE", value_enum, help_heading = OUTPUT)]
    dtype: Option<Precision>,
    #[command(flatten)]
    report: ReportArguments,
}

impl Convert {
    pub fn run(&self) -> Result<()> {
        let (rows, path) = self.paths()?;
        Files::new().reads(rows.files()).writes("-o", Some(&path)).check()?;
        let format = self.written.format(&path)?;
        let mut batches = rows.open_batches()?;
        let mut weights = rows.weight_file()?.map(|(name, weights)| WeightFile { name, weights, taken: 0 });
        let schema = batches.schema().clone();
        if schema.dim == 0 {
            bail!("{}: there is nothing to convert: rows have `0` numbers", rows.name());
        }
        let mut batch = Batch::default();
        // Whether ids are integers or text is known once rows have been read.
        let mut found = batches.read(&mut batch)?;
        let element = self.dtype.map_or(schema.element, Precision::element);
        if let Some(angles) = self.written.to_angles.filter(|angles| angles.dim() != schema.dim) {
            let (expected, found) = (angles.dim(), schema.dim);
            bail!("{}: rows must have {expected} numbers to be written as `{angles}`, found: `{found}`", rows.name());
        }
        let dim = self.written.to_angles.map_or(schema.dim, Angles::count);
        let mut layout = RowLayout::new(dim, element);
        if let Some(angles) = self.written.to_angles {
            layout = layout.names(angles.names().into_iter().map(str::to_owned).collect());
        }
        let ids = batch.ids.as_ref().map(Ids::kind);
        layout = ids.map_or(layout.clone(), |kind| layout.ids(kind));
        if batch.weights.is_some() || weights.is_some() {
            layout = layout.weights();
        }
        if schema.is_sparse() && self.written.to_angles.is_none() {
            layout = layout.sparse();
        }
        layout = schema.rows.map_or(layout.clone(), |rows| layout.rows(rows));
        let mut output = RowOutput::create(&path, format, &layout)?;
        let (mut progress, mut done) = (Progress::new(!self.report.quiet), 0);
        while found {
            if let Some(weights) = &mut weights {
                batch.weights = Some(weights.take(batch.rows)?);
            }
            if let (Some(IdKind::Texts), Some(Ids::Integers(numbers))) = (ids, &batch.ids) {
                batch.ids = Some(Ids::Texts(numbers.iter().map(i64::to_string).collect()));
            }
            if let Some(angles) = self.written.to_angles {
                let found = angles.of_vectors(&batch.values.to_dense(schema.dim)).map_err(|error| in_all_rows(error, done));
                batch.values = Rows::F64(found.with_context(|| rows.name())?.into());
            }
            output.write(&batch)?;
            done += batch.rows as u64;
            progress.rows("", done, schema.rows);
            found = batches.read(&mut batch)?;
        }
        weights.map_or(Ok(()), WeightFile::finish)?;
        output.finish()?;
        drop(progress);
        let report = Report { source: rows.name(), path: &path, rows: done, dim, format, rescaled: batches.rescaled() };
        match (self.report.json, self.report.quiet) {
            (true, _) => output::report(&report.to_json(), is_standard(&path)),
            (false, true) => Ok(()),
            (false, false) => {
                notes::note(report.to_text());
                Ok(())
            }
        }
    }

    /// The rows to read and the file to write.
    fn paths(&self) -> Result<(RowArguments, PathBuf)> {
        if let Some(path) = &self.output {
            return Ok((self.rows.clone(), path.clone()));
        }
        let (rows, last) = self.rows.split_last().expect("at least one location is required");
        let path = Path::new(last);
        if rows.is_empty() {
            bail!("there must be an input and an output file, found only: `{last}`\nhint: `vmf convert {last} x.parquet`");
        }
        // A shell may have expanded a pattern, of which the last file is not meant as the output.
        if path.is_file() {
            Files::new().reads(rows.files()).writes("FILE", Some(&path.to_owned())).check()?;
            bail!("the last file is the output and must not exist, found: `{last}`\nhint: `-o {last}` overwrites it");
        }
        Ok((rows, path.to_owned()))
    }
}

/// The error with its row counted from `before`.
fn in_all_rows(mut error: Error, before: u64) -> Error {
    if let Error::NotFinite { row, .. } | Error::ZeroRow { row } = &mut error {
        *row += before as usize;
    }
    error
}

/// Everything that is reported.
struct Report<'a> {
    source: String,
    path: &'a Path,
    rows: u64,
    dim: usize,
    format: OutputFormat,
    rescaled: Option<u64>,
}

impl Report<'_> {
    fn to_json(&self) -> String {
        let object = json!({
            "file": self.source,
            "output": self.path.display().to_string(),
            "format": self.format.to_string(),
            "rows": self.rows,
            "dim": self.dim,
            "rescaled_rows": self.rescaled,
        });
        format!("{object}\n")
    }

    fn to_text(&self) -> String {
        let Report { path, rows, dim, format, rescaled, .. } = self;
        let name = if is_standard(path) { "standard output".to_owned() } else { path.display().to_string() };
        let rescaled = rescaled.map_or(String::new(), |rows| format!(", {rows} were not of length 1"));
        format!("{name}: {rows} rows of dimension {dim} as {format}{rescaled}")
    }
}

/// Weights from a separate file, added to the rows batch by batch.
struct WeightFile {
    name: String,
    weights: Vec<f64>,
    taken: usize,
}

impl WeightFile {
    fn take(&mut self, rows: usize) -> Result<Vec<f64>> {
        let end = self.taken + rows;
        let part = self.weights.get(self.taken..end).map(<[f64]>::to_vec);
        self.taken = end;
        part.ok_or_else(|| self.too_many_or_few())
    }

    fn finish(self) -> Result<()> {
        if self.taken == self.weights.len() { Ok(()) } else { Err(self.too_many_or_few()) }
    }

    fn too_many_or_few(&self) -> anyhow::Error {
        let error = Error::WeightCount { rows: self.taken, found: self.weights.len() };
        anyhow::Error::from(error).context(self.name.clone())
    }
}
