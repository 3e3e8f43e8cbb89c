//! Measures how often each hypothesis test rejects a true hypothesis at the 5 % level, and prints
//! the table of docs/tests.md as Markdown.
//!
//!     cargo run --release --example test_error_rates -- 2000         2000 samples of each case, takes minutes
//!     cargo run --release --example test_error_rates -- 2000 100     cases of 100 dimensions only

use rayon::prelude::*;
use vmfkit::hypothesis::{
    Calibration, Concentrations, Outcome, equal_concentrations, equal_mean_directions, equal_mean_directions_by_permutation,
    mean_direction, rotational_symmetry,
};
use vmfkit::{RowBatch, Sampler, SufficientStats, VonMisesFisher};

const LEVEL: f64 = 0.05;
/// Replicates of simulations and permutations; the level is one of the possible p-values.
const REPLICATES: usize = 199;
/// Replicates of the symmetry test for large samples.
const FEWER_REPLICATES: usize = 39;

/// Dimension, numbers of rows of the two groups, concentration.
const CASES: [(usize, [usize; 2], f64); 20] = [
    (2, [5, 10], 0.5),
    (2, [5, 10], 2.0),
    (2, [20, 30], 1.0),
    (2, [20, 30], 10.0),
    (2, [3, 3], 100.0),
    (3, [5, 10], 0.5),
    (3, [5, 10], 5.0),
    (3, [20, 30], 1.0),
    (3, [20, 30], 20.0),
    (3, [3, 3], 100.0),
    (10, [5, 10], 2.0),
    (10, [5, 10], 20.0),
    (10, [40, 60], 2.0),
    (10, [40, 60], 10.0),
    (10, [3, 3], 1000.0),
    (100, [10, 20], 10.0),
    (100, [10, 20], 60.0),
    (100, [10, 20], 500.0),
    (100, [60, 90], 60.0),
    (100, [3, 3], 1e4),
];

fn main() {
    let argument = |at: usize| std::env::args().nth(at).map(|text| text.parse::<u64>().expect("a whole number"));
    let (repeats, only) = (argument(1).unwrap_or(2000), argument(2));
    let tests = "mu = mu0: conditional | LR | F | equal means: simulation | separate k | LR | F | permutation | equal k: simulation | LR | F";
    println!("| d | rows | k | {tests} | symmetry | limit |");
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (dim, rows, k) in CASES.into_iter().filter(|case| only.is_none_or(|dim| dim == case.0 as u64)) {
        let rejected: Vec<Vec<f64>> = (0..repeats).into_par_iter().map(|i| p_values(dim, rows, k, i)).collect();
        let rates = (0..rejected[0].len()).map(|test| {
            let rate = rejected.iter().filter(|p| p[test] <= LEVEL).count() as f64 / repeats as f64;
            if rejected[0][test].is_nan() { "-".to_owned() } else { format!("{:.1}", 100.0 * rate) }
        });
        println!("| {dim} | {} + {} | {k} | {} |", rows[0], rows[1], rates.collect::<Vec<_>>().join(" | "));
    }
}

/// The p-values of all tests for one pair of groups.
fn p_values(dim: usize, rows: [usize; 2], k: f64, seed: u64) -> Vec<f64> {
    let mut direction = vec![0.0; dim];
    direction[0] = 1.0;
    let all = rows[0] + rows[1];
    let mut values = vec![0.0; all * dim];
    let sampler = Sampler::new(&VonMisesFisher::new(direction.clone(), k).expect("a density"));
    sampler.fill(2026, seed * all as u64, &mut values).expect("whole rows");
    let block = RowBatch::new(dim, &values).expect("unit rows");
    let labels: Vec<usize> = (0..all).map(|row| usize::from(row >= rows[0])).collect();
    let groups = SufficientStats::of_labels(&block, &labels, 2).expect("a label for each row");
    let total = SufficientStats::of_batch(&block);
    let p = |outcome: vmfkit::Result<Outcome>| outcome.expect("enough rows").p_value;
    let simulation = Calibration::Simulation { replicates: REPLICATES, seed };
    let mut found = Vec::new();
    for calibration in [Calibration::Conditional, Calibration::LikelihoodRatio, Calibration::HighConcentration] {
        found.push(p(mean_direction(&total, &direction, calibration)));
    }
    found.push(p(equal_mean_directions(&groups, Concentrations::Common, simulation)));
    found.push(p(equal_mean_directions(&groups, Concentrations::Separate, simulation)));
    for calibration in [Calibration::LikelihoodRatio, Calibration::HighConcentration] {
        found.push(p(equal_mean_directions(&groups, Concentrations::Common, calibration)));
    }
    found.push(p(equal_mean_directions_by_permutation(&block, &labels, 2, REPLICATES, seed)));
    for calibration in [simulation, Calibration::LikelihoodRatio, Calibration::HighConcentration] {
        found.push(p(equal_concentrations(&groups, calibration)));
    }
    let symmetry = (dim > 2).then(|| {
        rotational_symmetry(&block, if all * dim > 5000 { FEWER_REPLICATES } else { REPLICATES }, seed).expect("enough rows")
    });
    found.extend(symmetry.map_or([f64::NAN; 2], |found| [found.p_value, found.limit_p_value.unwrap_or(f64::NAN)]));
    found
}
