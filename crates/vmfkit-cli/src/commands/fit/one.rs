//! `vmf fit`: one density for the rows of a file.

use crate::csv_rows::Columns;
use crate::format::{json_number, readable};
use crate::input::{self, Table};
use crate::npy::Values;
use crate::output;
use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};
use std::path::PathBuf;
use vmfkit::estimate::{ln_likelihood, maximum_likelihood, mean_resultant};
use vmfkit::inference::{Inference, Test, goodness_of_fit};
use vmfkit::train::{Adam, Start};
use vmfkit::{Block, ConcentrationEstimator, Error, SufficientStats, VonMisesFisher};

const EXAMPLES: &str = "\
Examples:
  vmf fit x.npy
  vmf fit stars.csv --columns x,y,z --weight-column brightness
  vmf fit embeddings.npy --rescale --json
  vmf fit x.npy --method sgd --epochs 50 --batch 256
  vmf fit x.npy --goodness-of-fit=999

A .npy file holds a table of floats or integers in any byte and memory order. A text file holds a row a line; its first line is a
header if no cell of it is a number. `-` is standard input. Messages count rows from 0 and lines from 1.
In --json, infinities are the strings \"inf\" and \"-inf\".";

/// Coordinates of the mean direction that are printed; --json has them all.
const COORDINATES_SHOWN: usize = 6;

/// Fit one density to the rows of a .npy, .csv or .tsv file
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Fit {
    /// File of rows, `-` for standard input
    file: PathBuf,
    /// Columns of a text file that are the coordinates, by name [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Column of a text file that holds the rows' weights
    #[arg(long, value_name = "NAME")]
    weight_column: Option<String>,
    /// File with one weight a row
    #[arg(long, value_name = "FILE", conflicts_with = "weight_column")]
    weights: Option<PathBuf>,
    /// Divide each row by its length; half precision always is
    #[arg(long)]
    rescale: bool,
    /// How the concentration is found from the mean length
    #[arg(long, value_parser = estimator_parser(), default_value = "exact")]
    estimator: ConcentrationEstimator,
    /// Report the concentration with its small-sample bias taken out
    #[arg(long, conflicts_with_all = ["estimator", "method"])]
    corrected: bool,
    /// Confidence of the interval and of the cone
    #[arg(long, default_value_t = 0.95, allow_hyphen_values = true)]
    level: f64,
    /// Test the fit against this many simulated samples [default: 199]
    #[arg(long, value_name = "REPLICATES", num_args = 0..=1, require_equals = true, default_missing_value = "199")]
    goodness_of_fit: Option<usize>,
    /// In closed form, or by stochastic gradient steps
    #[arg(long, value_enum, default_value = "closed")]
    method: Method,
    /// What the gradient steps and the simulated samples are drawn from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    gradient_steps: GradientSteps,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of --method sgd")]
struct GradientSteps {
    /// Size of a step in the first epoch [default: 0.01]
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    learning_rate: Option<f64>,
    /// What the step size is multiplied by after each epoch [default: 0.95]
    #[arg(long, value_name = "FACTOR", allow_hyphen_values = true)]
    decay: Option<f64>,
    /// Forgetting factors of Adam's two moments [default: 0.9,0.99]
    #[arg(long, value_name = "B1,B2", value_delimiter = ',', num_args = 1, allow_hyphen_values = true)]
    betas: Option<Vec<f64>>,
    /// Rows a step [default: 128]
    #[arg(long, value_name = "ROWS")]
    batch: Option<usize>,
    /// Passes over the rows [default: 100]
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// Take the rows in the order of the file in every epoch
    #[arg(long)]
    no_shuffle: bool,
    /// Start from a random density, not from the estimate of the first batch
    #[arg(long)]
    random_start: bool,
}

impl GradientSteps {
    fn rule(&self, seed: u64) -> Result<Adam> {
        let mut adam = Adam::new().seed(seed).shuffle(!self.no_shuffle);
        match self.betas.as_deref() {
            None => {}
            Some(&[first, second]) => adam = adam.betas(first, second),
            Some(other) => bail!("`--betas` takes two numbers, as in `--betas 0.9,0.99`, found: `{}`", other.len()),
        }
        if let Some(learning_rate) = self.learning_rate {
            adam = adam.learning_rate(learning_rate);
        }
        if let Some(decay) = self.decay {
            adam = adam.decay(decay);
        }
        if let Some(batch) = self.batch {
            adam = adam.batch(batch);
        }
        if let Some(epochs) = self.epochs {
            adam = adam.epochs(epochs);
        }
        Ok(if self.random_start { adam.start(Start::Random) } else { adam })
    }

    /// The first option that was given.
    fn given(&self) -> Option<&'static str> {
        let given = [
            (self.learning_rate.is_some(), "--learning-rate"),
            (self.decay.is_some(), "--decay"),
            (self.betas.is_some(), "--betas"),
            (self.batch.is_some(), "--batch"),
            (self.epochs.is_some(), "--epochs"),
            (self.no_shuffle, "--no-shuffle"),
            (self.random_start, "--random-start"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, name)| name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Method {
    Closed,
    Sgd,
}

/// The library's estimators by their names.
fn estimator_parser() -> impl TypedValueParser<Value = ConcentrationEstimator> {
    let names = ConcentrationEstimator::ALL.map(ConcentrationEstimator::name);
    PossibleValuesParser::new(names).map(|name| name.parse().expect("one of the names"))
}

impl Fit {
    pub fn run(&self) -> Result<()> {
        if let (Method::Closed, Some(option)) = (self.method, self.gradient_steps.given()) {
            bail!("an option of gradient steps needs `--method sgd`, found: `{option}`");
        }
        let columns = Columns { coordinates: self.columns.as_deref(), weight: self.weight_column.as_deref() };
        let mut table = input::read_table(&self.file, columns)?;
        if let Some(path) = &self.weights {
            table.weights = Some(input::read_vector(path)?);
        }
        let report = self.report(&table).with_context(|| input::display(&self.file))?;
        output::print(if self.json { report.to_json() } else { report.to_text() })
    }

    fn report(&self, table: &Table) -> Result<Report> {
        if table.rows == 0 {
            return Err(Error::NoRows { weight: 0.0 }.into());
        }
        let (block, rescaled_rows) = self.block(table)?;
        let stats = SufficientStats::of_block(&block);
        let inference = Inference::new(&stats)?;
        let exact = maximum_likelihood(&stats, ConcentrationEstimator::Exact)?;
        let (method, density) = match self.method {
            Method::Sgd => ("sgd", self.gradient_steps.rule(self.seed)?.fit(&block)?.density),
            Method::Closed if self.corrected => {
                let direction = exact.mean_direction().to_vec();
                ("corrected", VonMisesFisher::new(direction, inference.corrected_concentration())?)
            }
            Method::Closed => (self.estimator.name(), maximum_likelihood(&stats, self.estimator)?),
        };
        let replicates = self.goodness_of_fit;
        let goodness_of_fit = replicates.map(|n| goodness_of_fit(&block, &density, n, self.seed)).transpose()?;
        Ok(Report {
            file: self.file.clone(),
            rows: table.rows,
            total_weight: stats.mass(0),
            rescaled_rows,
            method,
            exact: Estimate::new(exact, &stats),
            estimate: Estimate::new(density, &stats),
            mean_length: mean_resultant(&stats)?,
            level: self.level,
            interval: inference.concentration_interval(self.level)?,
            cone: inference.mean_direction_cone(self.level)?,
            goodness_of_fit,
            inference,
        })
    }

    /// Checks the rows, or rescales them and tells how many were not of unit length.
    fn block<'a>(&self, table: &'a Table) -> Result<(Block<'a>, Option<usize>)> {
        let (block, rescaled) = if self.rescale || table.half_precision {
            let (block, changed) = match &table.values {
                Values::F32(values) => Block::rescaled(table.dim, values)?,
                Values::F64(values) => Block::rescaled(table.dim, values)?,
            };
            let why = if table.half_precision { " (half precision cannot hold unit rows)" } else { "" };
            output::note(format_args!(
                "{}: rows were divided by their length{why}; not of length 1 were {changed} of {}",
                input::display(&self.file),
                table.rows
            ));
            (block, Some(changed))
        } else {
            let block = match &table.values {
                Values::F32(values) => Block::new(table.dim, values),
                Values::F64(values) => Block::new(table.dim, values),
            };
            (block.map_err(with_hint)?, None)
        };
        let Some(weights) = &table.weights else {
            return Ok((block, rescaled));
        };
        let weighted = block.with_weights(weights);
        let weighted = match &self.weights {
            Some(path) => weighted.with_context(|| input::display(path))?,
            None => weighted?,
        };
        Ok((weighted, rescaled))
    }
}

/// The library's error with a hint that names this command's option.
fn with_hint(error: Error) -> anyhow::Error {
    match error {
        Error::NotUnit { row, norm } => anyhow!(
            "row {row} must have length 1, found: `{norm}`\n\
             hint: `--rescale` divides each row by its length; `--columns` chooses the coordinates of a text file"
        ),
        error => error.into(),
    }
}

/// A density and how well it explains the rows.
struct Estimate {
    density: VonMisesFisher,
    ln_likelihood: f64,
}

impl Estimate {
    fn new(density: VonMisesFisher, stats: &SufficientStats) -> Self {
        Estimate { ln_likelihood: ln_likelihood(stats, &density), density }
    }
}

/// Everything that is known after a fit.
struct Report {
    file: PathBuf,
    rows: usize,
    total_weight: f64,
    /// How many rows were not of unit length, if they were rescaled.
    rescaled_rows: Option<usize>,
    method: &'static str,
    estimate: Estimate,
    exact: Estimate,
    /// R and 1 - R
    mean_length: (f64, f64),
    inference: Inference,
    level: f64,
    interval: (f64, f64),
    /// Half-angle in radians.
    cone: f64,
    goodness_of_fit: Option<Test>,
}

impl Report {
    /// The half-angle in degrees of the cap around the mean direction that holds this share of the density.
    fn cap(&self, share: f64) -> f64 {
        self.estimate.density.angle_holding(share).to_degrees()
    }

    /// Says why, where the estimate is not in its interval.
    fn interval_note(&self) -> &'static str {
        let (low, high) = self.interval;
        let inside = (low..=high).contains(&self.estimate.density.concentration());
        if inside { "" } else { "; the estimate is outside because it is biased upward in so small a sample" }
    }

    fn to_json(&self) -> String {
        let Report { estimate: Estimate { density, ln_likelihood }, inference, .. } = self;
        let test = |test: Test| json!({ "statistic": json_number(test.statistic), "p_value": json_number(test.p_value) });
        let object = json!({
            "file": input::display(&self.file),
            "rows": self.rows,
            "dim": density.dim(),
            "total_weight": json_number(self.total_weight),
            "rescaled_rows": self.rescaled_rows,
            "method": self.method,
            "concentration": json_number(density.concentration()),
            "mean_direction": density.mean_direction(),
            "ln_likelihood": json_number(*ln_likelihood),
            "mean_ln_density": json_number(ln_likelihood / self.total_weight),
            "entropy": json_number(density.entropy()),
            "degrees_holding_half": json_number(self.cap(0.5)),
            "degrees_holding_95_percent": json_number(self.cap(0.95)),
            "mean_length": json_number(self.mean_length.0),
            "mean_length_complement": json_number(self.mean_length.1),
            "level": self.level,
            "exact_concentration": json_number(inference.concentration()),
            "exact_ln_likelihood": json_number(self.exact.ln_likelihood),
            "standard_error": json_number(inference.standard_error()),
            "concentration_interval": [json_number(self.interval.0), json_number(self.interval.1)],
            "corrected_concentration": json_number(inference.corrected_concentration()),
            "mean_direction_cone_degrees": json_number(self.cone.to_degrees()),
            "rayleigh_test": test(inference.rayleigh_test()),
            "goodness_of_fit": self.goodness_of_fit.map_or(Value::Null, test),
        });
        format!("{object}\n")
    }

    fn to_text(&self) -> String {
        let Report { estimate: Estimate { density, ln_likelihood }, inference, .. } = self;
        // Rounded, so that a level of 0.57 is 57% and not 56.99999999999999%.
        let percent = (1e12 * self.level).round() / 1e10;
        let test = |test: Test| format!("p = {}, statistic {}", probability(test.p_value), readable(test.statistic));
        let mut lines = vec![
            ("mean direction", first_coordinates(density.mean_direction())),
            ("concentration", readable(density.concentration())),
        ];
        if self.method != "exact" {
            lines.push(("  exact", readable(inference.concentration())));
        }
        let (low, high) = self.interval;
        lines.extend([
            ("  standard error", readable(inference.standard_error())),
            ("  interval", format!("{} to {} ({percent}%){}", readable(low), readable(high), self.interval_note())),
            ("  bias corrected", readable(inference.corrected_concentration())),
            ("log-likelihood", format!("{ln_likelihood:.4}, {} a row", readable(ln_likelihood / self.total_weight))),
        ]);
        if self.method != "exact" {
            lines.push(("  exact", format!("{:.4}", self.exact.ln_likelihood)));
        }
        lines.extend([
            ("mean length", format!("{}, 1 - R = {}", readable(self.mean_length.0), readable(self.mean_length.1))),
            ("entropy", format!("{} nats", readable(density.entropy()))),
            ("Rayleigh test", format!("{} (of uniformity)", test(inference.rayleigh_test()))),
        ]);
        lines.extend(self.goodness_of_fit.map(|found| ("goodness of fit", format!("{} (of the vMF)", test(found)))));
        lines.extend([
            ("cone", format!("the mean direction is known to {} degrees ({percent}%)", readable(self.cone.to_degrees()))),
            (
                "spread",
                format!(
                    "half of the density within {} degrees of the mean direction, 95% within {}",
                    readable(self.cap(0.5)),
                    readable(self.cap(0.95))
                ),
            ),
        ]);
        let weight = if self.total_weight == self.rows as f64 {
            String::new()
        } else {
            format!(" of total weight {}", readable(self.total_weight))
        };
        let file = input::display(&self.file);
        let mut text = format!("{file}: {} rows of dimension {}{weight}, method {}\n\n", self.rows, density.dim(), self.method);
        for (name, value) in lines {
            text.push_str(&format!("{name:<18}{value}\n"));
        }
        text
    }
}

/// A p-value, which may be too small to print.
fn probability(value: f64) -> String {
    match value {
        0.0 => "0 (below 1e-308)".to_owned(),
        _ if value >= 1e-3 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

fn first_coordinates(direction: &[f64]) -> String {
    let shown: Vec<String> = direction.iter().take(COORDINATES_SHOWN).map(|&x| format!("{x:.6}")).collect();
    let more = if direction.len() > COORDINATES_SHOWN { " ... (all of them with --json)" } else { "" };
    shown.join(" ") + more
}
