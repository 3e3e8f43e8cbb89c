//! `vmf demo`: a first look, without any file.

use crate::format::{aligned, json_number, readable};
use crate::output;
use anyhow::{Result, bail};
use serde_json::json;
use std::fmt::Write;
use std::time::Instant;
use vmfkit::estimate::{ln_likelihood, maximum_likelihood};
use vmfkit::train::{Adam, Start};
use vmfkit::{Block, ConcentrationEstimator, Sampler, SufficientStats, VonMisesFisher};

/// Half a gigabyte of rows.
const MOST_VALUES: usize = 1 << 26;

/// Sample a density and fit it three ways: a first look, without any file
#[derive(Debug, clap::Args)]
pub struct Demo {
    /// Number of coordinates
    #[arg(long, short, default_value_t = 100, value_parser = clap::value_parser!(u64).range(2..=100_000))]
    dim: u64,
    /// Concentration of the density that is sampled
    #[arg(long, short = 'k', visible_alias = "kappa", value_name = "KAPPA", default_value_t = 500.0, allow_hyphen_values = true)]
    concentration: f64,
    /// Number of rows
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    rows: u64,
    /// What the mean direction, the rows and the order of the gradient steps are drawn from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// One way of fitting and what came out.
struct Outcome {
    method: &'static str,
    density: VonMisesFisher,
    ln_likelihood: f64,
    milliseconds: f64,
}

impl Demo {
    pub fn run(&self) -> Result<()> {
        let dim = usize::try_from(self.dim)?;
        let truth = VonMisesFisher::along(random_direction(dim, self.seed)?, self.concentration)?;
        let values = dim * usize::try_from(self.rows)?;
        if values > MOST_VALUES {
            bail!("a demo must have at most {MOST_VALUES} numbers, rows times dimension, found: `{values}`");
        }
        let mut rows = vec![0.0; values];
        Sampler::new(&truth).fill(self.seed, 0, &mut rows)?;
        let block = Block::new(dim, &rows)?;

        let closed = |estimator| maximum_likelihood(&SufficientStats::of_block(&block), estimator);
        let adam = Adam::new().start(Start::Random).seed(self.seed);
        let outcomes = [
            Outcome::of("banerjee", &block, || closed(ConcentrationEstimator::Banerjee))?,
            Outcome::of("exact", &block, || closed(ConcentrationEstimator::Exact))?,
            Outcome::of("sgd", &block, || Ok(adam.fit(&block)?.density))?,
        ];
        output::print(if self.json { self.to_json(&truth, &outcomes) } else { self.to_text(&truth, &outcomes)? })
    }

    fn to_json(&self, truth: &VonMisesFisher, outcomes: &[Outcome]) -> String {
        let fits: Vec<_> = outcomes
            .iter()
            .map(|outcome| {
                json!({
                    "method": outcome.method,
                    "concentration": json_number(outcome.density.concentration()),
                    "relative_error": json_number(outcome.relative_error(truth)),
                    "angle_degrees": json_number(outcome.angle(truth).to_degrees()),
                    "squared_error": json_number(outcome.squared_error(truth)),
                    "ln_likelihood": json_number(outcome.ln_likelihood),
                    "milliseconds": outcome.milliseconds,
                })
            })
            .collect();
        let truth = json!({ "dim": self.dim, "concentration": self.concentration, "rows": self.rows, "seed": self.seed });
        format!("{}\n", json!({ "truth": truth, "fits": fits }))
    }

    fn to_text(&self, truth: &VonMisesFisher, outcomes: &[Outcome]) -> Result<String> {
        let Demo { dim, concentration, rows, seed, .. } = self;
        let mut text = format!("{rows} rows drawn from a vMF: dimension {dim}, concentration {concentration}, seed {seed}\n\n");
        let header = ["method", "concentration", "relative error", "angle (deg)", "|mu - mu*|^2", "log-likelihood", "time (ms)"];
        let mut table = vec![header.map(str::to_owned).to_vec()];
        table.extend(outcomes.iter().map(|outcome| {
            vec![
                outcome.method.to_owned(),
                readable(outcome.density.concentration()),
                format!("{:.2e}", outcome.relative_error(truth)),
                readable(outcome.angle(truth).to_degrees()),
                format!("{:.3e}", outcome.squared_error(truth)),
                format!("{:.4}", outcome.ln_likelihood),
                format!("{:.1}", outcome.milliseconds),
            ]
        }));
        text.push_str(&aligned(&table));
        write!(
            text,
            "\nAll three see the same rows: banerjee is a closed form, exact the maximum of the likelihood, sgd 100 epochs of Adam.\n\
             Next: vmf sample --dim 100 --concentration 500 -n 10000 -o x.npy, then vmf fit x.npy\n"
        )?;
        Ok(text)
    }
}

/// A direction without any preference, so that no axis helps.
fn random_direction(dim: usize, seed: u64) -> Result<Vec<f64>> {
    let mut direction = vec![0.0; dim];
    // Not the seed of the rows: the two must not share their random numbers.
    Sampler::new(&VonMisesFisher::uniform(dim)?).fill(!seed, 0, &mut direction)?;
    Ok(direction)
}

impl Outcome {
    fn of(method: &'static str, block: &Block, fit: impl Fn() -> vmfkit::Result<VonMisesFisher>) -> Result<Self> {
        let start = Instant::now();
        let density = fit()?;
        let milliseconds = 1e3 * start.elapsed().as_secs_f64();
        let ln_likelihood = ln_likelihood(&SufficientStats::of_block(block), &density);
        Ok(Outcome { method, density, ln_likelihood, milliseconds })
    }

    /// Of the concentration; infinite or NaN where the truth is 0.
    fn relative_error(&self, truth: &VonMisesFisher) -> f64 {
        (self.density.concentration() - truth.concentration()).abs() / truth.concentration()
    }

    fn squared_error(&self, truth: &VonMisesFisher) -> f64 {
        let pairs = self.density.mean_direction().iter().zip(truth.mean_direction());
        pairs.map(|(x, y)| (x - y) * (x - y)).sum()
    }

    /// Between the mean directions, in radians.
    fn angle(&self, truth: &VonMisesFisher) -> f64 {
        2.0 * (0.5 * self.squared_error(truth).sqrt()).min(1.0).asin()
    }
}
