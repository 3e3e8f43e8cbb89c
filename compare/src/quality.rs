//! How well every way of fitting finds the classes of labelled rows, all from the same starts.

use crate::stored::{Stored, labels};
use clap::Args;
use std::path::PathBuf;
use std::time::Instant;
use vmfkit::metrics::Agreement;
use vmfkit::train::{Adam, Annealing, Baseline, Em, Fit, Stop, Trainer};
use vmfkit::{ConcentrationPolicy, Fitter, Maximisation, Method, Mixture, RowBatch, Start};

#[derive(Args)]
pub struct Options {
    /// Where x.npy (or starts.npy, columns.npy, values.npy and dim.npy of sparse rows) and
    /// labels.npy are.
    folder: PathBuf,
    /// The number of components.
    #[arg(long)]
    components: usize,
    /// Starts, each with a seed of its own from 0 on.
    #[arg(long, default_value_t = 10)]
    seeds: u64,
}

/// What a user gets who chooses nothing.
const DEFAULT: &str = "EM, default";

/// The same from the start of all other ways.
const WITHOUT_SEARCH: &str = "EM, without its search";

/// Prints one JSON line for each way of fitting and seed.
pub fn print_agreement(options: &Options) -> anyhow::Result<()> {
    let rows = Stored::read(&options.folder)?;
    let block = rows.block()?;
    let labels = labels(&options.folder)?;
    for seed in 0..options.seeds {
        compare(options, &block, &labels, seed)?;
    }
    Ok(())
}

fn compare(options: &Options, block: &RowBatch, labels: &[i64], seed: u64) -> anyhow::Result<()> {
    // Labels and likelihoods do not depend on a calibration.
    let fitter = || Fitter::new(options.components).seed(seed).calibrate(false);
    let clock = Instant::now();
    let start = Start::KMeans.mixture(block, options.components, &Maximisation::new(), seed)?;
    report("start", seed, &unfitted(&start), clock, block, labels)?;
    for (name, restarts) in [("plain spherical k-means, one start", 1), ("plain spherical k-means, best of five", 5)] {
        let clock = Instant::now();
        let fit = fitter().start(Start::PlusPlus).method(Method::KMeans).restarts(restarts).fit(block)?;
        report(name, seed, &fit, clock, block, labels)?;
    }
    let from_start = || fitter().start(Start::Mixture(start.clone()));
    let policy = |policy| from_start().policy(policy);
    let online = Method::OnlineEm { exponent: 0.6, offset: 1.0 };
    let ways: Vec<(&str, Fitter)> = vec![
        ("spherical k-means", from_start().method(Method::KMeans)),
        // It makes the same start itself: from one that is given it would not search.
        (DEFAULT, fitter()),
        (WITHOUT_SEARCH, from_start()),
        ("EM, free", policy(ConcentrationPolicy::Free)),
        ("EM, shared", policy(ConcentrationPolicy::Shared)),
        ("EM, fixed at the start's concentration", policy(ConcentrationPolicy::Fixed(start.components()[0].concentration()))),
        ("EM, annealed", from_start().method(Method::Em { annealing: Some(Annealing { from: 10.0, factor: 0.8 }) })),
        ("hard EM", from_start().method(Method::HardEm)),
        ("stochastic EM", from_start().method(Method::StochasticEm)),
        ("online EM", from_start().method(online.clone())),
        ("SGD", from_start().method(Method::Sgd(Adam::new())).batch(256)),
    ];
    let mut passes = 0;
    for (name, way) in ways {
        let clock = Instant::now();
        let fit = way.fit(block)?;
        report(name, seed, &fit, clock, block, labels)?;
        if name == WITHOUT_SEARCH {
            passes = fit.trace.len();
        }
    }
    let clock = Instant::now();
    let stop = Stop { tolerance: None, passes: (passes / 5).max(1), ..Stop::default() };
    let fit = from_start().method(online).stop(stop).fit(block)?;
    report("online EM in a fifth of EM's passes", seed, &fit, clock, block, labels)?;
    // The paper's setting: random start, free concentrations by Banerjee's formula, its stopping
    // rule.
    let paper = Maximisation::new().policy(ConcentrationPolicy::Free).estimator(vmfkit::ConcentrationEstimator::Banerjee);
    let clock = Instant::now();
    let stop = Stop { baseline: Baseline::Zero, ..Stop::default() };
    let fit = fitter().start(Start::RandomRows).maximisation(paper).stop(stop).fit(block)?;
    report("EM as in the paper", seed, &fit, clock, block, labels)
}

fn report(way: &str, seed: u64, fit: &Fit, clock: Instant, block: &RowBatch, labels: &[i64]) -> anyhow::Result<()> {
    let seconds = clock.elapsed().as_secs_f64();
    let found = assigned(&fit.mixture, block)?;
    let agreement = Agreement::new(labels, &found)?;
    let mean_ln_density = fit.mixture.evaluate(block)?.mean();
    println!(
        "{{\"way\":\"{way}\",\"seed\":{seed},\"ari\":{},\"nmi\":{},\"mean_ln_density\":{mean_ln_density},\"above_uniform\":{},\"passes\":{},\"seconds\":{seconds},\"notes\":{},\"dispersion\":{}}}",
        agreement.adjusted_rand_index(),
        agreement.normalized_mutual_information(),
        mean_ln_density - vmfkit::bessel::ln_normalizer(block.dim(), 0.0),
        fit.trace.len(),
        fit.notes.len(),
        fit.dispersion().map_or("null".to_owned(), |dispersion| dispersion.to_string()),
    );
    Ok(())
}

/// A start as a fit without a pass.
fn unfitted(mixture: &Mixture) -> Fit {
    Trainer::new(mixture.clone(), Em::new(), Stop::default()).expect("the default stop").into_fit()
}

fn assigned(mixture: &Mixture, block: &RowBatch) -> anyhow::Result<Vec<i64>> {
    let mut found = vec![0; block.len()];
    mixture.assign_into(block, &mut found)?;
    Ok(found.into_iter().map(i64::from).collect())
}
