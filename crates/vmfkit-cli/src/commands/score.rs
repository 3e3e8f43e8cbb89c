//! `vmf score`: how well a model explains rows.

use crate::args::rows::{Beside, FILES, Seen};
use crate::files::output;
use crate::report::format::{json_number, readable};
use crate::score_rows::{JudgeArguments, Outliers, P_VALUES, Sums, level};
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
  vmf score model.safetensors x.npy --level 0.001

What is said of the rows:
  mean ln density    the mean of ln p, with its standard error, for which the total weight is the number of rows
  over uniform       by how much that is more than under the uniform density, in bits a coordinate
  components a row   e to the mean entropy of the responsibilities: among how many components a row is shared, 1 if all are certain
  outliers           the share of rows with a p-value below the level, which is the level itself for rows of the model

{P_VALUES}

{FILES}"
    )
});

/// Say how well a model explains rows: mean ln density, bits a coordinate, share of outliers
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP.as_str())]
pub struct Score {
    #[command(flatten)]
    judge: JudgeArguments,
    /// Rows with a p-value below this are outliers [default: 0.01]
    #[arg(long, value_parser = level, allow_hyphen_values = true, conflicts_with = "no_p_values", help_heading = "Options of the results")]
    level: Option<f64>,
}

impl Score {
    pub fn run(&self) -> Result<()> {
        let p_values = !self.judge.no_p_values;
        let mut judge = self.judge.open(Beside::default(), p_values)?;
        if p_values {
            judge = judge.with_p_values(&self.judge)?;
        }
        let mut sums = Sums::new(p_values.then_some(self.level.unwrap_or(0.01)));
        while let Some(judged) = judge.next(0)? {
            sums.add(&judged);
        }
        let uniform = VonMisesFisher::uniform(judge.mixture.dim())?.ln_peak();
        let (model, labels) = (judge.model.clone(), judge.labels.clone());
        let report = Report { model, labels, rows: judge.source.seen(), sums, uniform };
        drop(judge);
        output::print(if self.judge.json { report.to_json() } else { report.to_text() })
    }
}

/// Everything that is known after the rows.
struct Report {
    model: String,
    /// Of the components, if they are known.
    labels: Vec<String>,
    rows: Seen,
    sums: Sums,
    /// The uniform ln density.
    uniform: f64,
}

impl Report {
    fn bits_per_coordinate(&self) -> f64 {
        (self.sums.evaluation.mean() - self.uniform) / (self.rows.dim as f64 * LN_2)
    }

    /// Of the mean ln density; one row does not tell.
    fn standard_error(&self) -> Option<f64> {
        (self.rows.rows > 1).then(|| self.sums.evaluation.standard_error())
    }

    /// Among how many components a row is shared.
    fn effective_components(&self) -> f64 {
        (self.sums.evaluation.entropy / self.sums.evaluation.weight).exp()
    }

    fn to_json(&self) -> String {
        let Report { model, labels, rows, sums: Sums { evaluation, outliers }, uniform } = self;
        let outliers = outliers.as_ref().map(|outliers| {
            json!({
                "level": outliers.level,
                "rows": outliers.rows,
                "share": json_number(outliers.share()),
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
            ("over uniform", format!("{} bits a coordinate", readable(self.bits_per_coordinate()))),
            ("components a row", readable(self.effective_components())),
        ];
        lines.extend(self.sums.outliers.as_ref().map(|outliers| ("outliers", described(outliers))));
        let mut text = format!("{}, under {}\n\n", self.rows.heading(), self.model);
        for (name, value) in lines {
            text.push_str(&format!("{name:<18}{value}\n"));
        }
        text
    }
}

fn described(outliers: &Outliers) -> String {
    let [share, error] = [outliers.share(), outliers.standard_error()].map(readable);
    format!("{share} of the rows, expected {} +- {error} (p-values below {})", outliers.level, outliers.level)
}
