//! `vmf score`: how well a model fits rows.

use crate::files::output;
use crate::files::row_memory::ExtraMemory;
use crate::files::row_source::RowTotals;
use crate::report::format::{json_number, readable};
use crate::score_rows::{Outliers, P_VALUES, ScoreArguments, Sums};
use anyhow::Result;
use serde_json::json;
use std::f64::consts::LN_2;
use std::sync::LazyLock;
use vmfkit::VonMisesFisher;

static AFTER_HELP: LazyLock<String> = LazyLock::new(|| {
    format!(
        "\
Examples:
  vmf score model.safetensors held-out.npy
  vmf score model.safetensors 'part-*.parquet' --columns embedding --json
  vmf score model.safetensors x.npy --outliers 0.001

Report:
  mean ln density      mean of ln p and its standard error; the total weight counts as the number
                       of rows
  over uniform         the mean relative to the uniform distribution, in bits per coordinate
  components per row   exp of the mean entropy of the responsibilities; 1 if all are certain
  outliers             fraction of rows with a p-value of at most LEVEL, and the fraction expected
                       for rows like those of the fit

{P_VALUES}"
    )
});

/// Report how well a model fits rows: mean ln density, bits per coordinate, outliers
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP.as_str())]
pub struct Score {
    #[command(flatten)]
    scoring: ScoreArguments,
}

/// The default level of outliers.
const DEFAULT_LEVEL: f64 = 0.01;

impl Score {
    pub fn run(&self) -> Result<()> {
        let p_values = self.scoring.has_p_values()?;
        let mut scorer = self.scoring.open(ExtraMemory::default(), p_values, None)?;
        if p_values {
            scorer = scorer.with_p_values(&self.scoring)?;
        }
        let mut sums = Sums::new(p_values.then_some(self.scoring.outliers.unwrap_or(DEFAULT_LEVEL)), &scorer);
        while let Some(scored) = scorer.next(0)? {
            sums.add(&scored);
        }
        let uniform = VonMisesFisher::uniform(scorer.mixture.dim())?.ln_peak();
        let (model, labels) = (scorer.model.clone(), scorer.labels.clone());
        let report = Report { model, labels, rows: scorer.source.totals(), sums, uniform };
        drop(scorer);
        output::print(if self.scoring.report.json { report.to_json() } else { report.to_text() })
    }
}

/// Everything that is reported.
struct Report {
    model: String,
    /// The labels of the components, if they have any.
    labels: Vec<String>,
    rows: RowTotals,
    sums: Sums,
    /// The ln density of the uniform distribution.
    uniform: f64,
}

impl Report {
    fn bits_per_coordinate(&self) -> f64 {
        (self.sums.evaluation.mean() - self.uniform) / (self.rows.dim as f64 * LN_2)
    }

    /// Of the mean ln density; None for a single row.
    fn standard_error(&self) -> Option<f64> {
        (self.rows.rows > 1).then(|| self.sums.evaluation.standard_error())
    }

    /// exp of the mean entropy of the responsibilities.
    fn effective_components(&self) -> f64 {
        (self.sums.evaluation.entropy / self.sums.evaluation.weight).exp()
    }

    fn to_json(&self) -> String {
        let Report { model, labels, rows, sums: Sums { evaluation, outliers }, uniform } = self;
        let outliers = outliers.as_ref().map(|outliers| {
            json!({
                "level": outliers.level,
                "p_values": outliers.p_values,
                "rows": outliers.rows,
                "fraction": json_number(outliers.fraction()),
                "expected": outliers.level,
                "standard_error": json_number(outliers.standard_error()),
            })
        });
        let object = json!({
            "file": rows.file,
            "model": model,
            "labels": if labels.is_empty() { None } else { Some(labels) },
            "rows": rows.rows,
            "dim": rows.dim,
            "total_weight": json_number(rows.weight),
            "rescaled_rows": rows.rescaled,
            "mean_ln_density": json_number(evaluation.mean()),
            "standard_error": self.standard_error().map(json_number),
            "uniform_ln_density": json_number(*uniform),
            "bits_per_coordinate": json_number(self.bits_per_coordinate()),
            "effective_components": json_number(self.effective_components()),
            "outliers": outliers,
        });
        format!("{object}\n")
    }

    fn to_text(&self) -> String {
        let evaluation = &self.sums.evaluation;
        let error = self.standard_error().map_or(String::new(), |error| format!(" +- {}", readable(error)));
        let mut lines = vec![
            ("mean ln density", format!("{}{error}", readable(evaluation.mean()))),
            ("over uniform", format!("{} bits per coordinate", readable(self.bits_per_coordinate()))),
            ("components per row", readable(self.effective_components())),
        ];
        lines.extend(self.sums.outliers.as_ref().map(|outliers| ("outliers", described(outliers))));
        let mut text = format!("{}, under {}\n\n", self.rows.heading(), self.model);
        for (name, value) in lines {
            text.push_str(&format!("{name:<20}{value}\n"));
        }
        text
    }
}

fn described(outliers: &Outliers) -> String {
    let [fraction, error] = [outliers.fraction(), outliers.standard_error()].map(readable);
    format!("{fraction} of the rows, expected {} +- {error} (p-values of at most {})", outliers.level, outliers.level)
}
