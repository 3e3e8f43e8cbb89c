//! `vmf calibrate`: calibrated probabilities and p-values for a model that has none, or from held-out rows.

use crate::args::rows::LimitedRowArguments;
use crate::args::{FITTING, OUTPUT, ReportArguments};
use crate::files::Files;
use crate::files::row_memory::ExtraMemory;
use crate::files::row_source::{RowSource, RowTotals};
use crate::files::{input, model, output};
use crate::report::calibration;
use crate::report::format::json_number;
use crate::report::progress::Progress;
use anyhow::{Context, Result};
use serde_json::json;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use vmfkit::calibrate::Calibration;
use vmfkit::fit::calibrated_model::CalibrationRows;
use vmfkit::outlier::OutlierTable;
use vmfkit::source::Source;
use vmfkit::store::model::Description;
use vmfkit::{Error, Fitter, Mixture};
use vmfkit_io::DataSource;

const AFTER_HELP: &str = "\
Examples:
  vmf calibrate model.safetensors 'rows-*.npy' -o model.safetensors    after a distributed fit
  vmf calibrate model.safetensors new.npy --held-out -o held.safetensors
  vmf calibrate model.safetensors new.npy --held-out --json            only the report

`vmf fit` calibrates every mixture. This command does it for models of `vmf maximise`, of
`vmf fit --no-calibration` and of earlier versions, and replaces a calibration by that of other
rows. The mixture itself does not change. A random sample of DATA is enough and is all that is held
in memory.

With the rows of the fit, the result is that of `vmf fit`. Give --held-out if DATA was not used for
the fit: then at most one row in a hundred of the same kind has a p-value of at most 0.01, whatever
the distribution of the rows.";

/// Measured values that the memory of the command rests on: logits of the sample and neighbours of a block.
const WORKING_MEMORY: u64 = 24 << 20;
/// Width of the names in the report.
const WIDTH: usize = 18;

/// Find calibrated probabilities and p-values for a model, from the rows of its fit or held-out rows
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Calibrate {
    /// Model file of `vmf fit -o` or `vmf maximise --model`, or `-` for standard input
    model: PathBuf,
    #[command(flatten)]
    rows: LimitedRowArguments,
    /// DATA was not used for the fit
    #[arg(long, help_heading = FITTING)]
    held_out: bool,
    /// Model file to write, which may be MODEL, `-` for standard output [default: only report]
    #[arg(long, short, value_name = "FILE", help_heading = OUTPUT)]
    output: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArguments,
}

impl Calibrate {
    pub fn run(&self) -> Result<()> {
        // The model is replaced when everything is read.
        let rows = self.rows.limited();
        Files::new().reads([&self.model]).reads(rows.files()).check()?;
        let files = Files::new().reads(rows.files()).writes("-o", self.output.as_ref());
        files.check()?;
        files.check_writable()?;
        let (mixture, mut description) = model::read(&self.model)?;
        let mut source = rows.without_ids().open(|rows| self.memory(&mixture, rows))?;
        if source.dim() != mixture.dim() {
            let error = Error::DimensionMismatch { expected: mixture.dim(), found: source.dim() };
            return Err(error).with_context(|| source.name().to_owned());
        }
        let (calibration, table) = self.calibration(&mixture, &description, &mut source)?;
        source.note_rescaled();
        (description.calibration, description.outlier_table) = (Some(calibration), Some(table));
        if let Some(path) = &self.output {
            output::write_file(path, vmfkit::store::model::to_bytes(&mixture, &description))?;
        }
        let report = Report { model: input::display(&self.model), rows: source.totals(), description: &description };
        let text = if self.report.json { report.to_json() } else { report.to_text() };
        output::report(&text, self.output.as_deref() == Some(Path::new("-")))
    }

    fn calibration(
        &self,
        mixture: &Mixture,
        description: &Description,
        source: &mut RowSource,
    ) -> Result<(Calibration, OutlierTable)> {
        let rows = if self.held_out { CalibrationRows::HeldOut } else { CalibrationRows::OfFit };
        let (mut progress, all) = (Progress::new(!self.report.quiet), source.len());
        let found = rows.calibration(mixture, description, source, &mut |done| {
            progress.rows("", done, all);
            ControlFlow::Continue(())
        });
        Ok(found.map_err(|error| source.explain(error))?.expect("it is never cancelled"))
    }

    /// The sample, models, and the work on the sample.
    fn memory(&self, mixture: &Mixture, rows: &DataSource) -> ExtraMemory {
        let (components, dim) = (mixture.components().len(), rows.dim());
        let sample = Fitter::new(components).sample_rows(dim) as u64;
        let kept = sample.min(rows.rows().unwrap_or(u64::MAX)).saturating_mul(rows.row_bytes());
        ExtraMemory::from(WORKING_MEMORY + 4 * 8 * (components * dim) as u64 + kept)
    }
}

/// Everything that is reported.
struct Report<'a> {
    model: String,
    rows: RowTotals,
    description: &'a Description,
}

impl Report<'_> {
    fn to_json(&self) -> String {
        let Report { model, rows, description } = self;
        let object = json!({
            "file": rows.file,
            "model": model,
            "rows": rows.rows,
            "dim": rows.dim,
            "total_weight": json_number(rows.weight),
            "rescaled_rows": rows.rescaled,
            "calibration": description.calibration.as_ref().map(calibration::to_json),
            "outlier_table": description.outlier_table.as_ref().map(calibration::table_to_json),
        });
        format!("{object}\n")
    }

    fn to_text(&self) -> String {
        let mut text = format!("{}, under {}\n\n", self.rows.heading(), self.model);
        let Description { calibration, outlier_table, .. } = self.description;
        calibration.iter().for_each(|found| text.push_str(&calibration::line(found, WIDTH)));
        outlier_table.iter().for_each(|table| text.push_str(&calibration::p_value_line(table, WIDTH)));
        text
    }
}
