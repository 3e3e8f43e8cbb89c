//! `vmf demo`: a first look, without files.

use crate::args::{GENERAL, MODEL, ReportArguments};
use crate::files::output;
use crate::report::format::{aligned, json_number, readable};
use crate::report::progress::Progress;
use anyhow::Result;
use serde_json::{Value, json};
use std::time::Instant;
use vmfkit::metrics::ParameterErrors;
use vmfkit::train::Adam;
use vmfkit::{ConcentrationPolicy, Fitter, Method, Mixture, RowBatch, VonMisesFisher, bessel};

/// Dimension and concentration of the densities whose constants are shown, from an easy one to an extreme one.
const POINTS: [(usize, f64); 4] = [(3, 10.0), (768, 50.0), (2048, 300.0), (1_000_000, 1e9)];

/// Draw rows from a known mixture and fit it by EM and by SGD
#[derive(Debug, clap::Args)]
pub struct Demo {
    /// Number of rows
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000, help_heading = MODEL, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    rows: u32,
    #[command(flatten)]
    report: ReportArguments,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = GENERAL)]
    seed: u64,
}

/// The result of one method, its components in the order of the true ones.
struct Outcome {
    name: &'static str,
    method: &'static str,
    weights: Vec<f64>,
    concentrations: Vec<f64>,
    /// Angles to the true mean directions, in degrees.
    angles: Vec<f64>,
    mean_ln_density: f64,
    passes: usize,
    milliseconds: f64,
}

impl Demo {
    pub fn run(&self) -> Result<()> {
        let truth = truth()?;
        let count = self.rows as usize;
        let (mut rows, mut labels) = (vec![0.0; truth.dim() * count], vec![0; count]);
        truth.fill(self.seed, 0, &mut rows, &mut labels)?;
        let block = RowBatch::new(truth.dim(), &rows)?;
        let mut progress = Progress::new(!self.report.quiet);
        let em = Outcome::of("EM", Method::default(), self.seed, &truth, &block)?;
        progress.show("fitting by SGD");
        let outcomes = [em, Outcome::of("SGD", Method::Sgd(Adam::new()), self.seed, &truth, &block)?];
        drop(progress);
        let mean_ln_density = truth.evaluate(&block)?.mean();
        output::print(match self.report.json {
            true => self.to_json(&truth, mean_ln_density, &outcomes),
            false => self.to_text(&truth, mean_ln_density, &outcomes),
        })
    }

    fn to_json(&self, truth: &Mixture, mean_ln_density: f64, outcomes: &[Outcome]) -> String {
        let fits: Vec<Value> = outcomes
            .iter()
            .map(|outcome| {
                json!({
                    "method": outcome.method,
                    "weights": outcome.weights,
                    "concentrations": outcome.concentrations,
                    "angles_degrees": outcome.angles,
                    "mean_ln_density": json_number(outcome.mean_ln_density),
                    "passes": outcome.passes,
                    "milliseconds": outcome.milliseconds,
                })
            })
            .collect();
        let constants = POINTS.map(|(dim, k)| {
            let ln_normalizer = bessel::ln_normalizer(dim, k);
            json!({ "dim": dim, "concentration": k, "ln_normalizer": ln_normalizer, "mean_length": bessel::mean_length(dim, k) })
        });
        let truth = json!({
            "dim": truth.dim(),
            "rows": self.rows,
            "seed": self.seed,
            "weights": truth.weights(),
            "concentrations": concentrations(truth),
            "mean_ln_density": json_number(mean_ln_density),
        });
        format!("{}\n", json!({ "truth": truth, "fits": fits, "constants": constants }))
    }

    fn to_text(&self, truth: &Mixture, mean_ln_density: f64, outcomes: &[Outcome]) -> String {
        let cells = |name: String, truth: String, show: &dyn Fn(&Outcome) -> String| {
            let mut cells = vec![name, truth];
            cells.extend(outcomes.iter().map(show));
            cells
        };
        let count = truth.components().len();
        let decimals = |value: f64| format!("{value:.4}");
        let mut table = vec![cells(String::new(), "truth".to_owned(), &|outcome| outcome.name.to_owned())];
        for k in 0..count {
            table.push(cells(format!("weight {k}"), decimals(truth.weights()[k]), &|o| decimals(o.weights[k])));
        }
        for (k, concentration) in concentrations(truth).into_iter().enumerate() {
            table.push(cells(format!("concentration {k}"), decimals(concentration), &|o| decimals(o.concentrations[k])));
        }
        for k in 0..count {
            table.push(cells(format!("error of direction {k} (degrees)"), String::new(), &|o| decimals(o.angles[k])));
        }
        table.push(cells("mean ln p".to_owned(), decimals(mean_ln_density), &|o| decimals(o.mean_ln_density)));
        table.push(cells("passes over the rows".to_owned(), String::new(), &|o| o.passes.to_string()));
        table.push(cells("time (ms)".to_owned(), String::new(), &|o| format!("{:.1}", o.milliseconds)));

        let header = ["dimension", "concentration", "ln C", "mean length"];
        let mut constants = vec![header.map(str::to_owned).to_vec()];
        constants.extend(POINTS.map(|(dim, k)| {
            let numbers = [bessel::ln_normalizer(dim, k), bessel::mean_length(dim, k)].map(readable);
            [vec![dim.to_string(), k.to_string()], numbers.to_vec()].concat()
        }));
        format!(
            "{} rows drawn from the mixture of {count} vMF densities in {} dimensions of Kim (2021), seed {}\n\n{}\n\
             The constants of one density are exact in any dimension and at any concentration:\n\n{}\n\
             Next: vmf sample --dim 100 --concentration 500 -n 10000 -o x.npy, then vmf fit x.npy\n",
            self.rows,
            truth.dim(),
            self.seed,
            aligned(&table),
            aligned(&constants),
        )
    }
}

/// The synthetic mixture of Kim (2021), arXiv:2102.05340.
fn truth() -> vmfkit::Result<Mixture> {
    let first = [0.3, -1.2, 2.3, 0.4, 2.1];
    let components = vec![
        VonMisesFisher::along(first.to_vec(), 100.0)?,
        VonMisesFisher::along(vec![1.0, 0.0, 0.0, 0.0, 0.0], 50.0)?,
        VonMisesFisher::along(first.map(|x| -x).to_vec(), 100.0)?,
    ];
    Mixture::new(vec![0.3, 0.4, 0.3], components)
}

fn concentrations(mixture: &Mixture) -> Vec<f64> {
    mixture.components().iter().map(VonMisesFisher::concentration).collect()
}

impl Outcome {
    fn of(name: &'static str, method: Method, seed: u64, truth: &Mixture, block: &RowBatch) -> vmfkit::Result<Self> {
        let (components, method_name) = (truth.components().len(), method.name());
        let start = Instant::now();
        let fit = Fitter::new(components).method(method).policy(ConcentrationPolicy::Free).seed(seed).fit(block)?;
        let milliseconds = 1e3 * start.elapsed().as_secs_f64();
        let errors = ParameterErrors::between(truth, &fit.mixture)?;
        let order = errors.permutation().iter();
        Ok(Outcome {
            name,
            method: method_name,
            weights: order.clone().map(|&k| fit.mixture.weights()[k]).collect(),
            concentrations: order.map(|&k| fit.mixture.components()[k].concentration()).collect(),
            angles: errors.angles().iter().map(|angle| angle.to_degrees()).collect(),
            mean_ln_density: fit.mixture.evaluate(block)?.mean(),
            passes: fit.trace.len(),
            milliseconds,
        })
    }
}
