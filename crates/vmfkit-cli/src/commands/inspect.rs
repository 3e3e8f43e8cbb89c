//! `vmf inspect`: the components of a model, its fit, and typical rows.

use crate::args::rows::LimitedRowArguments;
use crate::args::{OUTPUT, ReportArguments};
use crate::files::Files;
use crate::files::row_source::RowTotals;
use crate::files::{input, model, output};
use crate::report::format::{aligned, escaped, json_number, readable};
use crate::report::progress::Progress;
use crate::report::{calibration, components};
use crate::typical::{self, Members};
use anyhow::{Context, Result};
use clap::Arg;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use vmfkit::source::Source;
use vmfkit::store::model::Description;
use vmfkit::{Error, Mixture};
use vmfkit_io::excerpt;

const AFTER_HELP: &str = "\
Examples:
  vmf inspect model.safetensors
  vmf inspect model.safetensors --trace
  vmf inspect model.safetensors articles.parquet --id-column title --typical 5
  vmf inspect model.safetensors --json

The most typical rows of a component are those with the highest density under it, among the rows
assigned to it. They are listed by id, or by row number from 0.";

/// Show a model file: its fit, its components and, given DATA, their most typical rows
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP, mut_args(of_rows))]
pub struct Inspect {
    /// Model file of `vmf fit -o`, or `-` for standard input
    model: PathBuf,
    #[command(flatten)]
    rows: LimitedRowArguments,
    /// Number of typical rows to show for each component [default: 3]
    #[arg(long, value_name = "N", requires = "data", help_heading = OUTPUT)]
    typical: Option<usize>,
    /// Print the objective of each pass of the fit
    #[arg(long, help_heading = OUTPUT)]
    trace: bool,
    #[command(flatten)]
    report: ReportArguments,
}

/// Makes DATA optional, and lets its options require it.
fn of_rows(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "data" => arg.required(false),
        "model" | "typical" | "trace" | "json" | "quiet" => arg,
        _ => arg.requires("data"),
    }
}

impl Inspect {
    pub fn run(&self) -> Result<()> {
        Files::new().reads([&self.model]).reads(self.rows.limited().files()).check()?;
        let (mixture, mut description) = model::read(&self.model)?;
        let rows = if self.rows.limited().is_empty() { None } else { Some(self.members(&mixture)?) };
        let angles = rows.as_ref().and_then(|(seen, _)| seen.angles);
        description.angles = description.angles.or(angles);
        let report = Report { file: input::display(&self.model), mixture, description, rows };
        output::print(if self.report.json { report.to_json() } else { report.to_text(self.trace) })
    }

    /// The rows of each component.
    fn members(&self, mixture: &Mixture) -> Result<(RowTotals, Vec<Members>)> {
        let most = self.typical.unwrap_or(3);
        let parameters = 8 * mixture.components().len() as u64;
        let mut source = self.rows.limited().open(|rows| 3 * parameters * rows.dim() as u64 + 8 * typical::NUMBERS as u64)?;
        if source.dim() != mixture.dim() {
            let error = Error::DimensionMismatch { expected: mixture.dim(), found: source.dim() };
            return Err(error).with_context(|| source.name().to_owned());
        }
        let found = typical::find(mixture, &mut source, most, &mut Progress::new(!self.report.quiet));
        let members = found.map_err(|error| source.explain(error))?;
        source.note_rescaled();
        Ok((source.totals(), members))
    }
}

/// Everything that is reported.
struct Report {
    file: String,
    mixture: Mixture,
    description: Description,
    /// The totals of DATA, and the rows of each component.
    rows: Option<(RowTotals, Vec<Members>)>,
}

impl Report {
    /// Without a background.
    fn component_count(&self) -> usize {
        self.mixture.components().len() - usize::from(self.mixture.has_background())
    }

    fn to_json(&self) -> String {
        let Report { mixture, description, .. } = self;
        let known = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
        let component = |line: &components::Line| {
            let mut object = line.to_json(mixture, description);
            if let Some((_, members)) = &self.rows {
                let Members { rows, typical } = &members[line.component];
                object["rows"] = (*rows).into();
                let row =
                    |row: &typical::Typical| json!({ "row": row.row, "id": row.id, "ln_density": json_number(row.ln_density) });
                object["typical"] = typical.iter().map(row).collect();
            }
            object
        };
        let settings: Map<String, Value> =
            description.settings.iter().map(|(name, text)| (name.to_owned(), text.into())).collect();
        let object = json!({
            "model": self.file,
            "dim": mixture.dim(),
            "component_count": self.component_count(),
            "background": mixture.has_background(),
            "method": known(&description.method),
            "angles": description.angles.map(|angles| angles.to_string()),
            "policy": known(&description.policy),
            "estimator": known(&description.estimator),
            "seed": description.seed,
            "status": known(&description.status),
            "passes": description.trace.len(),
            "search_passes": description.search_passes,
            "rows": description.rows,
            "total_weight": json_number(description.weight),
            "settings": settings,
            "calibration": description.calibration.as_ref().map(calibration::to_json),
            "outlier_table": description.outlier_table.as_ref().map(calibration::table_to_json),
            "data": self.rows.as_ref().map(|(seen, _)| json!({
                "file": seen.file,
                "rows": seen.rows,
                "total_weight": json_number(seen.weight),
                "rescaled_rows": seen.rescaled,
            })),
            "components": components::lines(mixture).iter().map(component).collect::<Vec<_>>(),
            "notes": description.notes,
            "trace": description.trace.iter().map(components::pass_to_json).collect::<Vec<_>>(),
        });
        format!("{object}\n")
    }

    fn to_text(&self, trace: bool) -> String {
        let Report { file, mixture, description, .. } = self;
        let count = components::count(self.component_count(), mixture.has_background());
        let mut text = format!("{file}: {count} in dimension {}\n\n{}\n", mixture.dim(), self.fit());
        if trace {
            text.push_str(&self.trace());
            text.push('\n');
        }
        if let Some(calibration) = &description.calibration {
            text.push_str(&calibration::line(calibration, 24));
        }
        if let Some(table) = &description.outlier_table {
            text.push_str(&calibration::p_value_line(table, 24));
        }
        if description.calibration.is_some() || description.outlier_table.is_some() {
            text.push('\n');
        }
        text.push_str(&components::table(mixture, description));
        text.push_str(&components::notes(&description.notes));
        if let Some((seen, members)) = &self.rows {
            text.push_str(&format!("\n{}; the most typical rows of each component:\n\n", seen.heading()));
            for line in components::shown(mixture) {
                let Members { rows, typical } = &members[line.component];
                let name = |row: &typical::Typical| row.id.as_ref().map_or(row.row.to_string(), |id| excerpt(id.as_bytes()));
                let names: Vec<String> = typical.iter().map(name).collect();
                let plural = if *rows == 1 { "" } else { "s" };
                let colon = if names.is_empty() { "" } else { ": " };
                text.push_str(&format!(
                    "component {}, {rows} row{plural}{colon}{}\n",
                    line.name(&description.labels),
                    names.join(", ")
                ));
            }
            text.push_str(&components::more_components(mixture));
        }
        text
    }

    /// How the mixture was fitted, as far as the file says.
    fn fit(&self) -> String {
        let Description { method, policy, estimator, seed, status, rows, weight, trace, settings, labels, .. } =
            &self.description;
        if method.is_empty() && trace.is_empty() {
            return "the file does not say how it was fitted\n".to_owned();
        }
        let weight = if *weight == *rows as f64 { String::new() } else { format!(" of total weight {}", readable(*weight)) };
        let seed = seed.to_string();
        let mut lines = vec![
            ("method".to_owned(), method.clone()),
            ("concentrations".to_owned(), policy.clone()),
            ("estimator".to_owned(), estimator.clone()),
            (
                "status".to_owned(),
                // Fits to known labels need no passes.
                if labels.is_empty() && !trace.is_empty() {
                    format!("{status} after {}", components::passes(trace.len(), self.description.search_passes))
                } else {
                    String::new()
                },
            ),
            ("rows".to_owned(), format!("{rows}{weight}")),
            ("seed".to_owned(), seed),
            ("angles".to_owned(), self.description.angles.map_or(String::new(), |angles| angles.to_string())),
        ];
        if let Some(last) = trace.last() {
            lines.push(("objective".to_owned(), readable(last.objective)));
        }
        lines.retain(|(_, text)| !text.is_empty());
        let line = |name: &str, text: &str| format!("{:<24}{}\n", escaped(name), escaped(text));
        let mut fit: String = lines.iter().map(|(name, text)| line(name, text)).collect();
        // The first line of the report has these two. The others have the names of `vmf fit --set`.
        let others = settings.iter().filter(|(name, _)| !["components", "dimension"].contains(name));
        let settings: String = others.map(|(name, text)| line(&format!("  {name}"), text)).collect();
        if !settings.is_empty() {
            fit.push_str(&format!("settings\n{settings}"));
        }
        fit
    }

    /// The passes of the fit as a table.
    fn trace(&self) -> String {
        let header = ["pass", "objective", "smallest weight", "largest concentration", "temperature"];
        let mut table = vec![header.map(str::to_owned).to_vec()];
        for (number, pass) in self.description.trace.iter().enumerate() {
            let numbers = [pass.objective, pass.smallest_weight, pass.largest_concentration, pass.temperature];
            table.push([(number + 1).to_string()].into_iter().chain(numbers.map(readable)).collect());
        }
        aligned(&table)
    }
}
