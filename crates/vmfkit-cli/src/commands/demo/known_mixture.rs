//! Rows drawn from a known mixture, and what EM and SGD make of them.

use crate::report::format::{aligned, json_number, readable};
use serde_json::{Value, json};
use std::time::Instant;
use vmfkit::metrics::ParameterErrors;
use vmfkit::train::Adam;
use vmfkit::{ConcentrationPolicy, Fitter, Method, Mixture, RowBatch, VonMisesFisher, bessel};

/// Dimension and concentration of the densities whose constants are shown, from an easy one to an extreme one.
const POINTS: [(usize, f64); 4] = [(3, 10.0), (768, 50.0), (2048, 300.0), (1_000_000, 1e9)];

/// The true mixture and the two fits.
pub struct KnownMixture {
    rows: usize,
    seed: u64,
    truth: Mixture,
    mean_ln_density: f64,
    outcomes: [Outcome; 2],
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

impl KnownMixture {
    pub fn fit(count: usize, seed: u64) -> vmfkit::Result<Self> {
        let truth = truth()?;
        let (mut rows, mut labels) = (vec![0.0; truth.dim() * count], vec![0; count]);
        truth.fill(seed, 0, &mut rows, &mut labels)?;
        let batch = RowBatch::new(truth.dim(), &rows)?;
        let em = Outcome::of("EM", Method::default(), seed, &truth, &batch)?;
        let sgd = Outcome::of("SGD", Method::Sgd(Adam::new()), seed, &truth, &batch)?;
        let mean_ln_density = truth.evaluate(&batch)?.mean();
        Ok(KnownMixture { rows: count, seed, truth, mean_ln_density, outcomes: [em, sgd] })
    }

    /// The fields of the JSON object: the truth, the fits and constants of single densities.
    pub fn to_json(&self) -> [Value; 3] {
        let fit = |outcome: &Outcome| {
            json!({
                "method": outcome.method,
                "weights": outcome.weights,
                "concentrations": outcome.concentrations,
                "angles_degrees": outcome.angles,
                "mean_ln_density": json_number(outcome.mean_ln_density),
                "passes": outcome.passes,
                "milliseconds": outcome.milliseconds,
            })
        };
        let constants = POINTS.map(|(dim, k)| {
            let ln_normalizer = bessel::ln_normalizer(dim, k);
            json!({ "dim": dim, "concentration": k, "ln_normalizer": ln_normalizer, "mean_length": bessel::mean_length(dim, k) })
        });
        let truth = json!({
            "dim": self.truth.dim(),
            "rows": self.rows,
            "seed": self.seed,
            "weights": self.truth.weights(),
            "concentrations": concentrations(&self.truth),
            "mean_ln_density": json_number(self.mean_ln_density),
        });
        [truth, self.outcomes.iter().map(fit).collect(), constants.as_slice().into()]
    }

    pub fn to_text(&self) -> String {
        let list = |values: &[f64], decimals: usize| {
            values.iter().map(|value| format!("{value:.decimals$}")).collect::<Vec<_>>().join(", ")
        };
        let header = ["", "weights", "concentrations", "error of directions", "mean ln p", "passes"];
        let (weights, concentrations) = (self.truth.weights(), concentrations(&self.truth));
        let mut table = vec![header.map(str::to_owned).to_vec()];
        let ln_density = |value: f64| format!("{value:.4}");
        table.push(vec![
            "truth".to_owned(),
            list(weights, 3),
            list(&concentrations, 1),
            String::new(),
            ln_density(self.mean_ln_density),
        ]);
        table.extend(self.outcomes.iter().map(|outcome| {
            vec![
                outcome.name.to_owned(),
                list(&outcome.weights, 3),
                list(&outcome.concentrations, 1),
                format!("{} degrees", list(&outcome.angles, 2)),
                ln_density(outcome.mean_ln_density),
                outcome.passes.to_string(),
            ]
        }));
        let header = ["dimension", "concentration", "ln C", "mean length"];
        let mut constants = vec![header.map(str::to_owned).to_vec()];
        constants.extend(POINTS.map(|(dim, k)| {
            let numbers = [bessel::ln_normalizer(dim, k), bessel::mean_length(dim, k)].map(readable);
            [vec![dim.to_string(), k.to_string()], numbers.to_vec()].concat()
        }));
        format!(
            "1. A known mixture: {} rows drawn from {} densities in {} dimensions (Kim 2021), seed {}\n\n{}\n\
             2. One density: its constants are exact in any dimension and at any concentration\n\n{}",
            self.rows,
            weights.len(),
            self.truth.dim(),
            self.seed,
            aligned(&table),
            aligned(&constants),
        )
    }

    /// The times of the fits in words.
    pub fn times(&self) -> String {
        self.outcomes.each_ref().map(|outcome| format!("{} {:.1} ms", outcome.name, outcome.milliseconds)).join(", ")
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
    fn of(name: &'static str, method: Method, seed: u64, truth: &Mixture, batch: &RowBatch) -> vmfkit::Result<Self> {
        let (components, method_name) = (truth.components().len(), method.name());
        let start = Instant::now();
        let fit = Fitter::new(components).method(method).policy(ConcentrationPolicy::Free).seed(seed).fit(batch)?;
        let milliseconds = 1e3 * start.elapsed().as_secs_f64();
        let errors = ParameterErrors::between(truth, &fit.mixture)?;
        let order = errors.permutation().iter();
        Ok(Outcome {
            name,
            method: method_name,
            weights: order.clone().map(|&k| fit.mixture.weights()[k]).collect(),
            concentrations: order.map(|&k| fit.mixture.components()[k].concentration()).collect(),
            angles: errors.angles().iter().map(|angle| angle.to_degrees()).collect(),
            mean_ln_density: fit.mixture.evaluate(batch)?.mean(),
            passes: fit.trace.len(),
            milliseconds,
        })
    }
}
