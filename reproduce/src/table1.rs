//! Table 1: errors of three estimators for samples of one vMF.

use crate::verdict::{self, Estimate, Part, Rule, Verdict, counts};
use crate::{Spread, largest, mean_absolute_value};
use anyhow::Result;
use clap::Args;
use rayon::prelude::*;
use serde::Serialize;
use std::f64::consts::SQRT_2;
use std::time::Instant;
use vmfkit::estimate::maximum_likelihood;
use vmfkit::train::Adam;
use vmfkit::{
    ConcentrationEstimator, ConcentrationPolicy, Fitter, Method, RowBatch, Sampler, Start, SufficientStats, VonMisesFisher,
    bessel,
};

/// The paper's numbers for one estimator in one cell.
#[derive(Debug, Clone, Copy, Serialize)]
struct Printed {
    e_mu: f64,
    e_kappa: f64,
}

/// Dimension, kappa*, and the paper's numbers for batch and SGD.
type Setting = (usize, f64, [Printed; 2]);

/// The paper's six cells.
const CELLS: [Setting; 6] = [
    (5, 50.0, [Printed { e_mu: 3.8e-6, e_kappa: 1.0e-2 }, Printed { e_mu: 3.8e-6, e_kappa: 6.2e-4 }]),
    (5, 500.0, [Printed { e_mu: 8.1e-7, e_kappa: 4.6e-3 }, Printed { e_mu: 8.4e-7, e_kappa: 3.7e-3 }]),
    (20, 50.0, [Printed { e_mu: 7.4e-5, e_kappa: 5.4e-3 }, Printed { e_mu: 7.4e-5, e_kappa: 1.4e-3 }]),
    (20, 500.0, [Printed { e_mu: 3.4e-6, e_kappa: 2.8e-3 }, Printed { e_mu: 3.3e-6, e_kappa: 1.7e-3 }]),
    (100, 50.0, [Printed { e_mu: 4.8e-4, e_kappa: 7.0e-3 }, Printed { e_mu: 4.8e-4, e_kappa: 5.9e-3 }]),
    (100, 500.0, [Printed { e_mu: 2.1e-5, e_kappa: 1.9e-3 }, Printed { e_mu: 2.1e-5, e_kappa: 1.1e-3 }]),
];

/// Relative differences of at most this size are level, whatever their standard errors. The paper's
/// columns of e_mu, which it calls equally good, differ by up to 4 %.
const LEVEL: f64 = 0.05;

/// A consistently more accurate estimator must be nearer to the truth in this fraction of samples.
const CONSISTENT: f64 = 0.95;

/// The largest relative difference of SGD's kappa from the maximum likelihood estimate allowed.
const SGD_TOLERANCE: f64 = 1e-3;

/// The largest difference of the mean of e_mu^2 from theory allowed, in standard errors.
const THEORY_TOLERANCE: f64 = 4.0;

/// The largest difference of the paper's errors, of single samples, from theory allowed, in
/// standard deviations.
const SAMPLE_TOLERANCE: f64 = 3.0;

#[derive(Args)]
pub struct Options {
    /// Number of samples per cell of the table.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..))]
    seeds: u64,
    /// Random seed of the first sample; the others use the following seeds.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rows per sample.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(128..))]
    rows: u64,
    /// Print JSON instead of the table.
    #[arg(long)]
    json: bool,
}

/// One estimator's fit of one sample.
#[derive(Debug, Clone, Copy, Serialize)]
struct Fitted {
    squared_distance: f64,
    concentration: f64,
}

impl Fitted {
    fn new(fit: &VonMisesFisher, truth: &VonMisesFisher) -> Self {
        let pairs = fit.mean_direction().iter().zip(truth.mean_direction());
        Fitted { squared_distance: pairs.map(|(x, y)| (x - y).powi(2)).sum(), concentration: fit.concentration() }
    }
}

/// The estimators, in the order of [`Cell::estimators`].
const BATCH: usize = 0;
const EXACT: usize = 1;
const SGD: usize = 2;
const NAMES: [&str; 3] = ["batch (Banerjee)", "exact", "SGD (Adam)"];

#[derive(Debug, Serialize)]
struct Cell {
    dim: usize,
    concentration: f64,
    /// The mean of e_mu^2 in large samples, (d - 1)/(N kappa A_d(kappa)).
    e_mu_squared_theory: f64,
    /// The relative standard error of the maximum likelihood estimate of kappa, 1/(kappa sqrt(N
    /// A'_d(kappa))).
    relative_standard_error: f64,
    /// The relative error of the batch formula for the true mean length.
    batch_bias: f64,
    estimators: Vec<Errors>,
    /// kappa_SGD / kappa_exact - 1 in each sample.
    sgd_from_exact: Vec<f64>,
}

/// The errors of one estimator in one cell.
#[derive(Debug, Serialize)]
struct Errors {
    name: &'static str,
    /// |mu - mu*|, as the paper's text defines it.
    e_mu: Spread,
    /// |mu - mu*|^2, as the paper's program computes it.
    e_mu_squared: Spread,
    /// |kappa - kappa*| / kappa*
    e_kappa: Spread,
    /// The mean of e_kappa in large samples.
    e_kappa_theory: f64,
    paper: Option<Printed>,
    samples: Vec<Fitted>,
}

impl Errors {
    fn squared_distances(&self) -> Vec<f64> {
        self.samples.iter().map(|fit| fit.squared_distance).collect()
    }
}

impl Cell {
    fn new((dim, concentration, [batch, sgd]): Setting, options: &Options) -> Result<Self> {
        let mut axis = vec![0.0; dim];
        axis[0] = 1.0;
        let truth = VonMisesFisher::new(axis, concentration)?;
        let trials = (0..options.seeds)
            .into_par_iter()
            .map(|i| fits(&truth, options.rows as usize, options.seed.wrapping_add(i)))
            .collect::<Result<Vec<_>>>()?;
        let at = bessel::mean_length_and_slope(dim, concentration);
        let rows = options.rows as f64;
        let relative_standard_error = 1.0 / (concentration * (rows * at.slope).sqrt());
        let batch_bias = ConcentrationEstimator::Banerjee.estimate(dim, at.value, at.complement) / concentration - 1.0;
        let errors = |column: usize, paper| {
            let of = |error: fn(&Fitted, f64) -> f64| Spread::of(trials.iter().map(move |t| error(&t[column], concentration)));
            Errors {
                name: NAMES[column],
                e_mu: of(|fit, _| fit.squared_distance.sqrt()),
                e_mu_squared: of(|fit, _| fit.squared_distance),
                e_kappa: of(|fit, truth| (fit.concentration - truth).abs() / truth),
                e_kappa_theory: mean_absolute_value(if column == BATCH { batch_bias } else { 0.0 }, relative_standard_error),
                paper,
                samples: trials.iter().map(|t| t[column]).collect(),
            }
        };
        Ok(Cell {
            dim,
            concentration,
            e_mu_squared_theory: (dim as f64 - 1.0) / (rows * concentration * at.value),
            relative_standard_error,
            batch_bias,
            estimators: vec![errors(BATCH, Some(batch)), errors(EXACT, None), errors(SGD, Some(sgd))],
            sgd_from_exact: trials.iter().map(|t| t[SGD].concentration / t[EXACT].concentration - 1.0).collect(),
        })
    }

    /// e_kappa in each sample.
    fn e_kappa(&self, column: usize) -> Vec<f64> {
        let error = |fit: &Fitted| (fit.concentration - self.concentration).abs() / self.concentration;
        self.estimators[column].samples.iter().map(error).collect()
    }

    /// The paper's numbers for an estimator.
    fn paper(&self, column: usize) -> Option<Printed> {
        self.estimators[column].paper
    }

    /// The paper's value for the batch estimate minus that for SGD.
    fn paper_gap(&self, of: fn(Printed) -> f64) -> Option<f64> {
        Some(of(self.paper(BATCH)?) - of(self.paper(SGD)?))
    }

    /// The difference of the mean of e_mu^2 from theory, in standard errors.
    ///
    /// N kappa A |mu - mu*|^2 is chi-squared with d - 1 degrees of freedom, so the standard error
    /// is known.
    fn off_theory(&self, column: usize) -> f64 {
        let Errors { e_mu_squared, samples, .. } = &self.estimators[column];
        (e_mu_squared.mean / self.e_mu_squared_theory - 1.0) / self.chi_squared_deviation() * (samples.len() as f64).sqrt()
    }

    /// The standard deviation of e_mu^2 divided by its mean.
    fn chi_squared_deviation(&self) -> f64 {
        (2.0 / (self.dim as f64 - 1.0)).sqrt()
    }

    /// The probability that SGD's kappa is nearer to the truth than the batch formula's. Their
    /// errors are e and e + b with a normal e, so it is P(e > -b/2).
    fn probability_that_sgd_is_nearer(&self) -> f64 {
        0.5 * libm::erfc(-0.5 * self.batch_bias.abs() / (SQRT_2 * self.relative_standard_error))
    }

    fn name(&self) -> String {
        format!("d = {}, kappa* = {}", self.dim, self.concentration)
    }
}

/// The three fits of one sample.
fn fits(truth: &VonMisesFisher, rows: usize, seed: u64) -> Result<[Fitted; 3]> {
    let mut values = vec![0.0; truth.dim() * rows];
    Sampler::new(truth).fill(seed, 0, &mut values)?;
    let block = RowBatch::new(truth.dim(), &values)?;
    let stats = SufficientStats::of_batch(&block);
    let batch = maximum_likelihood(&stats, ConcentrationEstimator::Banerjee)?;
    let exact = maximum_likelihood(&stats, ConcentrationEstimator::Exact)?;
    let sgd = Fitter::new(1).method(Method::Sgd(Adam::new())).start(Start::Random).policy(ConcentrationPolicy::Free);
    let sgd = sgd.seed(seed).fit(&block)?.mixture;
    Ok([&batch, &exact, &sgd.components()[0]].map(|fit| Fitted::new(fit, truth)))
}

/// The paper's claims about its table.
fn claims(cells: &[Cell]) -> Vec<Verdict> {
    vec![
        equal_directions(cells),
        lower_mean(cells),
        nearer(cells),
        approximation(cells),
        grows_with_dimension(cells),
        grows_as_kappa_falls(cells),
    ]
}

fn equal_directions(cells: &[Cell]) -> Verdict {
    let gaps = cells.iter().map(|cell| {
        let [batch, sgd] = [BATCH, SGD].map(|column| cell.estimators[column].squared_distances());
        let gap = Estimate::of_paired_difference(&batch, &sgd);
        let margin = LEVEL * cell.estimators[BATCH].e_mu_squared.mean;
        Part::new(cell.name(), gap, gap.is_level(margin)).theory(0.0).paper(cell.paper_gap(|paper| paper.e_mu))
    });
    let parts: Vec<Part> = gaps.collect();
    let relative = |gap: f64, whole: f64| 100.0 * (gap / whole).abs();
    let ours = parts.iter().zip(cells).map(|(part, cell)| relative(part.statistic, cell.estimators[BATCH].e_mu_squared.mean));
    let paper = parts.iter().zip(cells).filter_map(|(part, cell)| Some(relative(part.paper?, cell.paper(BATCH)?.e_mu)));
    let found = format!("mean e_mu^2 differs by {:.1} % at most (the paper's by {:.1} %)", largest(ours), largest(paper));
    Verdict::of_paper("batch and SGD do equally well on mu", Rule::Level, parts, found)
}

/// "Consistently more accurate in kappa", as a claim about the mean error.
fn lower_mean(cells: &[Cell]) -> Verdict {
    let gains = cells.iter().map(|cell| {
        let gain = Estimate::of_paired_difference(&cell.e_kappa(BATCH), &cell.e_kappa(SGD));
        let theory = cell.estimators[BATCH].e_kappa_theory - cell.estimators[SGD].e_kappa_theory;
        Part::gain(cell.name(), gain).theory(theory).paper(cell.paper_gap(|paper| paper.e_kappa))
    });
    let parts: Vec<Part> = gains.collect();
    let (ahead, level, behind) = counts(&parts);
    let excess = |cell: &Cell| 100.0 * (cell.estimators[BATCH].e_kappa_theory / cell.estimators[SGD].e_kappa_theory - 1.0);
    let excess = Spread::of(cells.iter().map(excess));
    let found = format!(
        "SGD's mean is lower by more than two standard errors in {ahead} of {} cells, level in {level} and higher in {behind}; in \
         theory the batch formula's is higher by {:.0} to {:.0} %",
        parts.len(),
        excess.least,
        excess.most,
    );
    Verdict::of_paper("SGD is more accurate in kappa in every cell, in the mean over samples", Rule::EveryGain, parts, found)
}

/// The same claim about single samples; the paper has one per cell.
fn nearer(cells: &[Cell]) -> Verdict {
    let fractions = cells.iter().map(|cell| {
        let pairs = cell.e_kappa(BATCH).into_iter().zip(cell.e_kappa(SGD));
        let wins: Vec<f64> = pairs.map(|(batch, sgd)| if sgd < batch { 1.0 } else { 0.0 }).collect();
        let fraction = Estimate::of(&wins);
        let above = Estimate { mean: fraction.mean - CONSISTENT, ..fraction };
        let paper = cell.paper_gap(|paper| paper.e_kappa).map(|gap| if gap > 0.0 { 1.0 } else { 0.0 });
        Part::new(cell.name(), fraction, above.is_gain()).theory(cell.probability_that_sgd_is_nearer()).paper(paper)
    });
    let parts: Vec<Part> = fractions.collect();
    let percentage = Spread::of(parts.iter().map(|part| 100.0 * part.statistic));
    let theory = Spread::of(cells.iter().map(|cell| 100.0 * cell.probability_that_sgd_is_nearer()));
    let all: f64 = cells.iter().map(Cell::probability_that_sgd_is_nearer).product();
    let found = format!(
        "SGD is nearer to kappa* in {:.0} to {:.0} % of the samples of a cell (theory: {:.0} to {:.0} %); in theory, with one \
         sample per cell as in the paper, SGD is nearer in all {} cells in {:.0} % of cases",
        percentage.least,
        percentage.most,
        theory.least,
        theory.most,
        cells.len(),
        100.0 * all
    );
    let claim = format!("SGD is more accurate in kappa in every cell, in at least {:.0} % of single samples", 100.0 * CONSISTENT);
    Verdict::of_paper(claim, Rule::EveryGain, parts, found)
}

fn approximation(cells: &[Cell]) -> Verdict {
    let gaps = cells.iter().map(|cell| {
        let relative = |column: usize| -> Vec<f64> {
            cell.estimators[column].samples.iter().map(|fit| fit.concentration / cell.concentration).collect()
        };
        let mut gap = Estimate::of_paired_difference(&relative(BATCH), &relative(SGD));
        gap.mean -= cell.batch_bias;
        Part::new(cell.name(), gap, gap.is_level(LEVEL * cell.batch_bias.abs())).theory(0.0).paper(unexplained(cell))
    });
    let parts: Vec<Part> = gaps.collect();
    let bias = Spread::of(cells.iter().map(|cell| cell.batch_bias));
    let found = format!(
        "kappa_batch - kappa_SGD of the same sample is the batch formula's own error, {:.1e} to {:.1e} of kappa*, within {:.1e}; the \
         paper's pairs of e_kappa agree with it within {:.1e}",
        bias.least,
        bias.most,
        largest(parts.iter().map(|part| part.statistic.abs())),
        largest(parts.iter().filter_map(|part| part.paper).map(f64::abs)),
    );
    Verdict::of_paper("the difference in kappa is due to the batch estimator's approximation", Rule::Level, parts, found)
}

/// The part of the paper's e_kappa that the error b of the batch formula does not explain: the
/// batch error minus
/// |b + e|, where e is SGD's error. The paper does not print its sign, so the better one is used.
fn unexplained(cell: &Cell) -> Option<f64> {
    let (batch, sgd) = (cell.paper(BATCH)?.e_kappa, cell.paper(SGD)?.e_kappa);
    let rests = [sgd, -sgd].map(|error| batch - (cell.batch_bias + error).abs());
    rests.into_iter().min_by(|x, y| x.abs().total_cmp(&y.abs()))
}

/// A step from one cell to another: the paired differences of e_kappa.
fn step(column: usize, here: &Cell, there: &Cell, at: String) -> Part {
    let gain = Estimate::of_paired_difference(&there.e_kappa(column), &here.e_kappa(column));
    let theory = there.estimators[column].e_kappa_theory - here.estimators[column].e_kappa_theory;
    let paper = |cell: &Cell| Some(cell.paper(column)?.e_kappa);
    let paper = paper(there).zip(paper(here)).map(|(there, here)| there - here);
    Part::gain(format!("{}, {at}", NAMES[column]), gain).theory(theory).paper(paper)
}

/// The numbers of steps in which the error grows or falls: in our samples, in theory and in the
/// paper.
fn steps_in_words(parts: &[Part]) -> String {
    let (grows, level, falls) = counts(parts);
    let growing = |value: fn(&Part) -> Option<f64>| parts.iter().filter(|part| value(part).is_some_and(|x| x > 0.0)).count();
    format!(
        "it grows in {grows} of {} steps, is level in {level} and falls in {falls}; in theory it grows in {}, and in the \
         paper's own numbers in {}",
        parts.len(),
        growing(|part| part.theory),
        growing(|part| part.paper)
    )
}

fn grows_with_dimension(cells: &[Cell]) -> Verdict {
    let mut parts = Vec::new();
    for column in [BATCH, SGD] {
        for here in cells {
            let later = cells.iter().filter(|cell| cell.concentration == here.concentration && cell.dim > here.dim);
            if let Some(there) = later.min_by_key(|cell| cell.dim) {
                parts.push(step(
                    column,
                    here,
                    there,
                    format!("kappa* = {}, d = {} to {}", here.concentration, here.dim, there.dim),
                ));
            }
        }
    }
    let minimum = |concentration: f64| format!("d = {} for kappa* = {concentration}", dimension_of_least_error(concentration));
    let found = format!("{}. In theory it grows only beyond {} and {}", steps_in_words(&parts), minimum(50.0), minimum(500.0));
    Verdict::of_paper("the error of kappa grows with d", Rule::Gain, parts, found)
}

/// The dimension at which the standard error of kappa is smallest.
fn dimension_of_least_error(concentration: f64) -> usize {
    let slope = |dim: usize| bessel::mean_length_and_slope(dim, concentration).slope;
    (2..).find(|&dim| slope(dim + 1) < slope(dim)).expect("A' tends to 0 as 1/d")
}

fn grows_as_kappa_falls(cells: &[Cell]) -> Verdict {
    let mut parts = Vec::new();
    for column in [BATCH, SGD] {
        for here in cells {
            if let Some(there) = cells.iter().find(|cell| cell.dim == here.dim && cell.concentration < here.concentration) {
                let at = format!("d = {}, kappa* = {} to {}", here.dim, here.concentration, there.concentration);
                parts.push(step(column, here, there, at));
            }
        }
    }
    let found = steps_in_words(&parts);
    Verdict::of_paper("the error of kappa grows as kappa* falls", Rule::Gain, parts, found)
}

fn checks(cells: &[Cell]) -> Vec<Verdict> {
    let apart = largest(cells.iter().flat_map(|cell| {
        let (exact, sgd) = (&cell.estimators[EXACT], &cell.estimators[SGD]);
        [(exact.e_mu_squared, sgd.e_mu_squared), (exact.e_kappa, sgd.e_kappa)]
            .map(|(x, y)| (x.mean - y.mean).abs() / x.deviation.min(y.deviation))
    }));

    // In other cells the sampling error exceeds the error of the batch formula.
    let shows: Vec<&Cell> = cells.iter().filter(|cell| cell.batch_bias.abs() > cell.relative_standard_error).collect();
    let error = |cell: &Cell, column: usize| cell.estimators[column].e_kappa.mean;
    let ratio = |cell: &&Cell| error(cell, EXACT).max(error(cell, SGD)) / error(cell, BATCH);
    // NaN fails the verdict if there is no such cell.
    let ratio = if shows.is_empty() { f64::NAN } else { largest(shows.iter().map(ratio)) };
    let by = shows.iter().map(|cell| {
        format!("{} ({:.1e} and {:.1e}, batch {:.1e})", cell.name(), error(cell, EXACT), error(cell, SGD), error(cell, BATCH))
    });

    let sgd: Vec<f64> = cells.iter().flat_map(|cell| &cell.sgd_from_exact).copied().collect();
    let typical = (sgd.iter().map(|x| x * x).sum::<f64>() / sgd.len() as f64).sqrt();
    let sgd = largest(sgd.iter().map(|x| x.abs()));
    let theory = |column| largest(cells.iter().map(|cell| cell.off_theory(column).abs()));
    vec![
        Verdict::check(
            "exact and SGD agree within one standard deviation in every cell",
            apart,
            apart < 1.0,
            format!("means at most {apart:.3} standard deviations apart"),
        ),
        Verdict::check(
            "exact and SGD have the lower e_kappa where the batch formula's own error exceeds one standard error",
            ratio,
            ratio < 1.0,
            by.collect::<Vec<_>>().join("; "),
        ),
        Verdict::check(
            format!("SGD's kappa maximises the likelihood of the same sample to {SGD_TOLERANCE:e}"),
            sgd,
            sgd < SGD_TOLERANCE,
            format!("relative difference at most {sgd:.1e}, root mean square {typical:.1e}"),
        ),
        Verdict::check(
            format!("e_mu^2 is (d-1)/(N kappa A) to {THEORY_TOLERANCE} standard errors"),
            theory(EXACT).max(theory(SGD)),
            theory(EXACT) < THEORY_TOLERANCE && theory(SGD) < THEORY_TOLERANCE,
            format!("at most {:.1} (exact) and {:.1} (SGD) away", theory(EXACT), theory(SGD)),
        ),
        papers_sample(cells),
    ]
}

/// Whether the paper's errors, if its e_mu is squared, are plausible for one more sample.
fn papers_sample(cells: &[Cell]) -> Verdict {
    let mu = |cell: &Cell| [BATCH, SGD].map(|column| Some(cell.paper(column)?.e_mu / cell.e_mu_squared_theory));
    let mu = largest(
        cells.iter().flat_map(|cell| mu(cell).into_iter().flatten().map(|x| (x - 1.0).abs() / cell.chi_squared_deviation())),
    );
    let distance = |cell: &Cell| Some(cell.e_mu_squared_theory.sqrt() / cell.paper(SGD)?.e_mu);
    let distance = Spread::of(cells.iter().filter_map(distance));
    let kappa = largest(cells.iter().filter_map(|cell| Some(cell.paper(SGD)?.e_kappa / cell.relative_standard_error)));
    Verdict::check(
        format!("the paper's numbers fit one sample per cell, with e_mu squared, to {SAMPLE_TOLERANCE} standard deviations"),
        mu.max(kappa),
        mu < SAMPLE_TOLERANCE && kappa < SAMPLE_TOLERANCE,
        format!(
            "e_mu at most {mu:.1} and SGD's e_kappa {kappa:.1} from theory; as distances, e_mu would be {:.0} to {:.0} times too small",
            distance.least, distance.most
        ),
    )
    .required(false)
}

/// Prints the table with its verdicts. Returns the verdicts.
pub fn run(options: &Options) -> Result<Vec<Verdict>> {
    let clock = Instant::now();
    let cells = CELLS.into_iter().map(|setting| Cell::new(setting, options)).collect::<Result<Vec<_>>>()?;
    let verdicts = [claims(&cells), checks(&cells)].concat();
    let seconds = clock.elapsed().as_secs_f64();
    if options.json {
        let report = serde_json::json!({
            "rows": options.rows, "seeds": options.seeds, "first_seed": options.seed, "seconds": seconds,
            "cells": cells, "verdicts": verdicts,
        });
        crate::show(&serde_json::to_string_pretty(&report)?)?;
    } else {
        crate::show(&format!("{}\n\n{}\n\nseconds {seconds:.1}", table(&cells, options), verdict::lines(&verdicts)))?;
    }
    Ok(verdicts)
}

fn table(cells: &[Cell], options: &Options) -> String {
    let Options { seeds, rows, .. } = options;
    let root = (*seeds as f64).sqrt();
    let value = |spread: &Spread| format!("{:.2e} ({:.1e})", spread.mean, spread.deviation / root);
    let mut lines = vec![
        format!("Table 1: errors of the estimates of one vMF, mean (standard error) over {seeds} samples of {rows} rows; mu* = e1"),
        "e_mu = |mu - mu*|, which the paper defines, and e_mu^2, which it prints; e_kappa = |kappa - kappa*| / kappa*".into(),
        "theory: mean for large samples; paper: its one sample".into(),
        String::new(),
        "  d  kappa*  estimator         e_mu                e_mu^2              theory   paper    e_kappa             theory   paper"
            .into(),
    ];
    for cell in cells {
        for (column, errors) in cell.estimators.iter().enumerate() {
            let (d, k) = match column {
                0 => (cell.dim.to_string(), cell.concentration.to_string()),
                _ => Default::default(),
            };
            let paper = |of: fn(Printed) -> f64| errors.paper.map_or("-".into(), |paper| format!("{:.1e}", of(paper)));
            let line = format!(
                "{d:>3}  {k:>6}  {:<16}  {:<18}  {:<18}  {:.2e}  {:<7}  {:<18}  {:.2e}  {}",
                errors.name,
                value(&errors.e_mu),
                value(&errors.e_mu_squared),
                cell.e_mu_squared_theory,
                paper(|paper| paper.e_mu),
                value(&errors.e_kappa),
                errors.e_kappa_theory,
                paper(|paper| paper.e_kappa),
            );
            lines.push(line);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Holds;

    fn options(seeds: u64, rows: u64) -> Options {
        Options { seeds, seed: 1, rows, json: false }
    }

    /// All cells with synthetic fits: kappa* (1 + error), and e_mu^2 of theory times `direction`.
    fn synthetic(error: impl Fn(&Cell, usize, f64) -> f64, direction: [f64; 3]) -> Vec<Cell> {
        let cell = |setting: Setting| {
            let mut cell = Cell::new((setting.0, setting.1, setting.2), &options(4, 128)).unwrap();
            for column in [BATCH, EXACT, SGD] {
                let fit = |i: usize| Fitted {
                    squared_distance: cell.e_mu_squared_theory * direction[column] * (1.0 + 0.1 * i as f64),
                    concentration: cell.concentration * (1.0 + error(&cell, column, 1.0 + 0.01 * i as f64)),
                };
                let samples: Vec<Fitted> = (0..4).map(fit).collect();
                cell.estimators[column].e_mu_squared = Spread::of(samples.iter().map(|fit| fit.squared_distance));
                cell.estimators[column].samples = samples;
            }
            cell
        };
        CELLS.map(cell).into()
    }

    #[test]
    fn checks_hold_on_one_cell() {
        let cell = Cell::new(CELLS[0], &options(20, 10_000)).unwrap();
        for verdict in checks(&[cell]) {
            assert!(verdict.holds == Holds::Yes, "{}: {}", verdict.claim, verdict.found);
        }
    }

    #[test]
    fn checks_fail_for_a_wrong_concentration() {
        let mut cell = Cell::new(CELLS[0], &options(3, 1000)).unwrap();
        cell.sgd_from_exact[0] = 0.01;
        assert!(!checks(&[cell])[2].is_met());
    }

    #[test]
    fn directions_are_level_within_the_margin() {
        let holds = |direction| equal_directions(&synthetic(|_, _, x| 0.01 * x, direction)).holds;
        assert_eq!(holds([1.0, 1.0, 1.0]), Holds::Yes);
        assert_eq!(holds([1.0, 1.0, 1.04]), Holds::Yes);
        assert_eq!(holds([1.0, 1.0, 1.5]), Holds::No);
        assert_eq!(holds([1.5, 1.5, 1.0]), Holds::No);
    }

    #[test]
    fn sgd_must_be_better_in_every_cell() {
        let everywhere = synthetic(|_, column, x| if column == BATCH { 0.02 * x } else { 0.01 * x }, [1.0; 3]);
        assert_eq!((lower_mean(&everywhere).holds, nearer(&everywhere).holds), (Holds::Yes, Holds::Yes));
        let nowhere = synthetic(|_, _, x| 0.01 * x, [1.0; 3]);
        assert_eq!((lower_mean(&nowhere).holds, nearer(&nowhere).holds), (Holds::Tie, Holds::No));
        let but_one = |cell: &Cell, column, x| {
            if column == BATCH && (cell.dim, cell.concentration) != (5, 500.0) { 0.02 * x } else { 0.01 * x }
        };
        let but_one = synthetic(but_one, [1.0; 3]);
        let verdict = lower_mean(&but_one);
        assert_eq!((verdict.holds, nearer(&but_one).holds), (Holds::Tie, Holds::No));
        assert!(verdict.found.contains("in 5 of 6 cells, level in 1 and higher in 0"), "{}", verdict.found);
        let reversed = synthetic(|_, column, x| if column == BATCH { 0.01 * x } else { 0.02 * x }, [1.0; 3]);
        assert_eq!((lower_mean(&reversed).holds, nearer(&reversed).holds), (Holds::No, Holds::No));
    }

    /// The batch error is half of SGD's in three of four samples, and much larger in the last.
    #[test]
    fn a_lower_mean_error_does_not_imply_lower_errors_in_most_samples() {
        let batch = |x: f64| if x > 1.025 { 0.05 } else { 0.005 };
        let cells = synthetic(|_, column, x| if column == BATCH { batch(x) } else { 0.01 }, [1.0; 3]);
        assert!(lower_mean(&cells).parts.iter().all(|part| part.statistic > 0.0));
        let verdict = nearer(&cells);
        assert_eq!((verdict.holds, verdict.statistic), (Holds::No, 0.25));
    }

    #[test]
    fn the_error_of_the_batch_formula_must_explain_the_difference() {
        let explained = |cell: &Cell, column, x| 1e-4 * x + if column == BATCH { cell.batch_bias } else { 0.0 };
        assert_eq!(approximation(&synthetic(explained, [1.0; 3])).holds, Holds::Yes);
        let not = |_: &Cell, column, x| 1e-4 * x + if column == BATCH { 0.05 } else { 0.0 };
        assert_eq!(approximation(&synthetic(not, [1.0; 3])).holds, Holds::No);
    }

    #[test]
    fn verdicts_on_trends_follow_the_errors() {
        let growing = synthetic(|cell, _, x| 1e-5 * cell.dim as f64 * (1000.0 / cell.concentration) * x, [1.0; 3]);
        assert_eq!((grows_with_dimension(&growing).holds, grows_as_kappa_falls(&growing).holds), (Holds::Yes, Holds::Yes));
        let falling = synthetic(|cell, _, x| 0.1 / cell.dim as f64 * (cell.concentration / 1000.0) * x, [1.0; 3]);
        assert_eq!((grows_with_dimension(&falling).holds, grows_as_kappa_falls(&falling).holds), (Holds::No, Holds::No));
        // Errors of 0.5 have no rounding errors.
        let constant = synthetic(|_, _, _| 0.5, [1.0; 3]);
        assert_eq!((grows_with_dimension(&constant).holds, grows_as_kappa_falls(&constant).holds), (Holds::Tie, Holds::Tie));
        assert_eq!((grows_with_dimension(&constant).parts.len(), grows_as_kappa_falls(&constant).parts.len()), (8, 6));
    }

    /// Checks the statements of README.md on theory for N = 10,000 and on the paper's numbers.
    #[test]
    fn statements_of_the_readme_hold() {
        let mut cells = synthetic(|_, _, x| 0.01 * x, [1.0; 3]);
        for cell in &mut cells {
            // Theory scales with the sample size, which is 128 in the synthetic cells.
            let scale = (128.0_f64 / 10_000.0).sqrt();
            cell.relative_standard_error *= scale;
            cell.e_mu_squared_theory *= scale * scale;
            for column in [BATCH, EXACT, SGD] {
                let bias = if column == BATCH { cell.batch_bias } else { 0.0 };
                cell.estimators[column].e_kappa_theory = mean_absolute_value(bias, cell.relative_standard_error);
            }
        }
        // By mpmath: 1/(kappa sqrt(N A')) and the probability that SGD is nearer.
        let expected =
            [(0.007145, 0.738), (0.007078, 0.528), (0.003566, 0.823), (0.003272, 0.558), (0.002608, 0.591), (0.001496, 0.607)];
        for (cell, (error, probability)) in cells.iter().zip(expected) {
            assert!((cell.relative_standard_error - error).abs() < 1e-6, "{}", cell.name());
            assert!((cell.probability_that_sgd_is_nearer() - probability).abs() < 1e-3, "{}", cell.name());
        }
        assert_eq!((dimension_of_least_error(50.0), dimension_of_least_error(500.0)), (78, 786));
        let with_dimension = grows_with_dimension(&cells);
        assert!(with_dimension.parts.iter().all(|part| part.theory.unwrap() < 0.0), "{with_dimension:?}");
        assert!(
            with_dimension.found.contains("in theory it grows in 0, and in the paper's own numbers in 3"),
            "{}",
            with_dimension.found
        );
        let as_kappa_falls = grows_as_kappa_falls(&cells);
        assert!(
            as_kappa_falls.found.contains("in theory it grows in 6, and in the paper's own numbers in 4"),
            "{}",
            as_kappa_falls.found
        );
        assert!(approximation(&cells).parts.iter().all(|part| part.paper.unwrap().abs() < 3e-4));
        assert_eq!(papers_sample(&cells).holds, Holds::Yes);
    }
}
