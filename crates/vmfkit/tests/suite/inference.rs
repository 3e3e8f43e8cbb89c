//! Intervals have their nominal coverage, and tests have their nominal level. Seeds are fixed; with
//! random seeds a bound of 4.5 standard errors would be exceeded about once in 10^5.

use crate::kolmogorov::uniformity_p_value;
use rayon::prelude::*;
use vmfkit::inference::{Inference, projection_test};
use vmfkit::{ConcentrationEstimator, Error, RowBatch, Sampler, SufficientStats, VonMisesFisher, estimate::maximum_likelihood};

fn axis(dim: usize) -> Vec<f64> {
    let mut axis = vec![0.0; dim];
    axis[dim - 1] = 1.0;
    axis
}

/// The statistics of `repeats` samples of `rows` rows each.
fn samples(dim: usize, k: f64, rows: usize, repeats: u64) -> Vec<SufficientStats> {
    let sampler = Sampler::new(&VonMisesFisher::new(axis(dim), k).unwrap());
    let one = |i: u64| {
        let mut out = vec![0.0; rows * dim];
        sampler.fill(77, i * rows as u64, &mut out).unwrap();
        SufficientStats::of_batch(&RowBatch::new(dim, &out).unwrap())
    };
    (0..repeats).into_par_iter().map(one).collect()
}

/// The fraction of samples whose interval or cone covers the truth.
fn coverage(samples: &[SufficientStats], covers: impl Fn(&SufficientStats, &Inference) -> bool + Sync) -> f64 {
    let covered = samples.par_iter().filter(|stats| covers(stats, &Inference::new(stats).unwrap()));
    covered.count() as f64 / samples.len() as f64
}

fn interval_covers(inference: &Inference, k: f64) -> bool {
    let (low, high) = inference.concentration_interval(0.9).unwrap();
    low <= k && k <= high
}

/// Whether the cone contains the last axis, the true mean direction.
fn cone_covers(stats: &SufficientStats, inference: &Inference) -> bool {
    let cosine = stats.resultant(0)[stats.dim() - 1] / stats.resultant_length(0);
    cosine.clamp(-1.0, 1.0).acos() <= inference.mean_direction_cone(0.9).unwrap()
}

const CASES: [(usize, usize, f64); 8] =
    [(2, 10, 2.0), (3, 5, 20.0), (3, 10, 5.0), (3, 200, 1.0), (10, 8, 10.0), (50, 10, 100.0), (100, 50, 20.0), (768, 20, 500.0)];

#[test]
fn concentration_intervals_have_their_coverage() {
    for (dim, rows, k) in CASES {
        let coverage = coverage(&samples(dim, k, rows, 2000), |_, inference| interval_covers(inference, k));
        // 4.5 standard errors for 2000 samples, and 0.01 for the error of order 1/n.
        assert!((coverage - 0.9).abs() < 4.5 * (0.09f64 / 2000.0).sqrt() + 0.01, "d = {dim}, n = {rows}, k = {k}: {coverage}");
    }
}

#[test]
fn mean_direction_cones_have_their_coverage() {
    for (dim, rows, k) in CASES {
        let coverage = coverage(&samples(dim, k, rows, 500), cone_covers);
        assert!((coverage - 0.9).abs() < 4.5 * (0.09f64 / 500.0).sqrt() + 0.02, "d = {dim}, n = {rows}, k = {k}: {coverage}");
    }
}

#[test]
fn intervals_and_cones_are_conservative_near_uniformity() {
    for (dim, rows, k) in [(3, 5, 0.5), (3, 1000, 0.05), (20, 3, 5.0), (2, 10, 1.0), (3, 30, 0.3), (3, 10, 0.0)] {
        let all = samples(dim, k, rows, 1000);
        let (interval, cone) = (coverage(&all, |_, inference| interval_covers(inference, k)), coverage(&all, cone_covers));
        let least = 0.9 - 4.5 * (0.09f64 / 1000.0).sqrt();
        assert!(interval > least && cone > least, "d = {dim}, n = {rows}, k = {k}: {interval} {cone}");
    }
}

/// For d = 3 and large k: Fisher's cone cos = 1 - ((n - r)/r) ((1/alpha)^(1/(n-1)) - 1), and an
/// interval from chi-squared quantiles.
#[test]
fn intervals_and_cones_are_the_classical_ones_at_high_concentrations() {
    let stats = &samples(3, 1e6, 10, 1)[0];
    let inference = Inference::new(stats).unwrap();
    let (n, r) = (10.0, stats.resultant_length(0));
    let deviation = stats.shortfall(0) / r * ((1.0f64 / 0.05).powf(1.0 / (n - 1.0)) - 1.0);
    let cone = inference.mean_direction_cone(0.95).unwrap();
    assert!((cone / (1.0 - deviation).acos() - 1.0).abs() < 1e-4, "{cone}");
    // Chi-squared quantiles with 18 degrees of freedom at 2.5 % and 97.5 %: 8.2307 and 31.5264.
    let (low, high) = inference.concentration_interval(0.95).unwrap();
    assert!((low / (8.230746 / (2.0 * stats.shortfall(0))) - 1.0).abs() < 1e-4, "{low}");
    assert!((high / (31.526378 / (2.0 * stats.shortfall(0))) - 1.0).abs() < 1e-4, "{high}");
    // k (n - 1)/n, Fisher's correction.
    assert!((inference.corrected_concentration() / (inference.concentration() * 0.9) - 1.0).abs() < 1e-5);
}

#[test]
fn the_corrected_concentration_removes_the_bias() {
    for (dim, rows, k) in [(10, 8, 10.0), (50, 10, 100.0), (100, 50, 20.0), (768, 20, 500.0)] {
        let all = samples(dim, k, rows, 2000);
        let mean = |f: &dyn Fn(&Inference) -> f64| {
            all.iter().map(|stats| f(&Inference::new(stats).unwrap())).sum::<f64>() / all.len() as f64
        };
        let (plain, corrected) = (mean(&|i| i.concentration()), mean(&|i| i.corrected_concentration()));
        assert!(plain > 1.1 * k, "d = {dim}: the plain estimate is biased, {plain}");
        assert!((corrected / k - 1.0).abs() < 0.25 * (plain / k - 1.0), "d = {dim}: {corrected}");
    }
    // The resultant is no longer than that of uniform rows on average, so the estimate is 0.
    let balanced = [1.0, 0.0, 0.0, 1.0, -1.0, 0.0, 0.0, -1.0, 0.6, 0.8];
    let inference = Inference::new(&SufficientStats::of_batch(&RowBatch::new(2, &balanced).unwrap())).unwrap();
    assert_eq!(inference.corrected_concentration(), 0.0);
    assert_eq!(inference.concentration_interval(0.95).unwrap().0, 0.0);
}

#[test]
fn standard_errors_match_the_standard_deviation_of_estimates() {
    let all = samples(5, 30.0, 2000, 600);
    let estimates: Vec<f64> = all.iter().map(|stats| Inference::new(stats).unwrap().concentration()).collect();
    let mean = estimates.iter().sum::<f64>() / 600.0;
    let spread = (estimates.iter().map(|k| (k - mean).powi(2)).sum::<f64>() / 599.0).sqrt();
    let stated = Inference::new(&all[0]).unwrap().standard_error();
    assert!((spread / stated - 1.0).abs() < 4.5 / 1200f64.sqrt() + 0.02, "{spread} against {stated}");
}

#[test]
fn rayleigh_p_values_are_uniform_under_uniformity() {
    for (dim, rows) in [(2, 3), (3, 2), (3, 4), (2, 10), (3, 20), (20, 3), (20, 30), (300, 50)] {
        let p: Vec<f64> =
            samples(dim, 0.0, rows, 3000).iter().map(|stats| Inference::new(stats).unwrap().rayleigh_test().p_value).collect();
        for level in [0.1, 0.05, 0.01] {
            let rejected = p.iter().filter(|p| **p < level).count() as f64 / p.len() as f64;
            let tolerance = 4.5 * (level / 3000.0f64).sqrt() + 0.02 * level;
            assert!((rejected - level).abs() < tolerance, "d = {dim}, n = {rows}: {rejected} at {level}");
        }
        if rows >= 10 {
            assert!(uniformity_p_value(p) > 1e-4, "d = {dim}, n = {rows}");
        }
    }
    // Two rows: r^2 = 2 + 2t, where t is one row's projection on the other.
    let two = SufficientStats::of_batch(&RowBatch::new(3, &[1.0, 0.0, 0.0, 0.6, 0.8, 0.0]).unwrap());
    let found = Inference::new(&two).unwrap().rayleigh_test();
    assert!((found.p_value - 0.2).abs() < 1e-14, "{found:?}");
    // Rows with a mean direction have a tiny p-value.
    assert!(Inference::new(&samples(10, 10.0, 100, 1)[0]).unwrap().rayleigh_test().p_value < 1e-6);
}

/// Rows in the plane of the first two axes whose sum has length r.
fn rows_of_length(dim: usize, n: usize, r: f64) -> SufficientStats {
    let odd = n % 2;
    let cosine = (r - odd as f64) / (n - odd) as f64;
    let mut rows = vec![0.0; n * dim];
    for (i, row) in rows.chunks_exact_mut(dim).enumerate() {
        let sine = (1.0 - cosine * cosine).sqrt();
        (row[0], row[1]) = if i < odd { (1.0, 0.0) } else { (cosine, if i % 2 == 0 { sine } else { -sine }) };
    }
    SufficientStats::of_batch(&RowBatch::new(dim, &rows).unwrap())
}

/// Compares with closed forms: d = 3 (Lord Rayleigh's random flights), P(R < 1) = 1/(n + 1) on the
/// circle (Kluyver), and two rows in any dimension.
#[test]
fn rayleigh_p_values_of_few_rows_are_exact() {
    let p = |dim: usize, n: usize, r: f64| Inference::new(&rows_of_length(dim, n, r)).unwrap().rayleigh_test().p_value;
    for r in [0.3, 0.9, 1.2, 1.9, 2.5, 2.9, 2.999] {
        let exact = if r < 1.0 { 1.0 - r * r * r / 6.0 } else { (9.0 - 3.0 * r * r + 2.0 * r * r * r / 3.0) / 8.0 };
        assert!((p(3, 3, r) / exact - 1.0).abs() < 1e-5, "r = {r}: {} and {exact}", p(3, 3, r));
    }
    assert!((p(2, 3, 1.0) - 0.75).abs() < 1e-5, "{}", p(2, 3, 1.0));
    for r in [0.1, 1.0, 1.9f64] {
        // The angle between two rows of the plane is uniform.
        assert!((p(2, 2, r) - (0.5 * r).acos() * std::f64::consts::FRAC_2_PI).abs() < 1e-12, "r = {r}");
    }
    // Four or more rows use the saddlepoint approximation, which is 7 % too large without its
    // correction.
    for r in [2.0, 2.5, 3.0, 3.5, 3.9, 3.99] {
        let u: f64 = 4.0 - r;
        let exact = (4.0 * u.powi(3) / 3.0 - u.powi(4) / 4.0) / 16.0;
        assert!((p(3, 4, r) / exact - 1.0).abs() < 0.03, "r = {r}: {} and {exact}", p(3, 4, r));
    }
    assert!((p(2, 4, 1.0) - 0.8).abs() < 0.02 && (p(2, 5, 1.0) - 5.0 / 6.0).abs() < 0.01);
    // Two and three rows in high dimensions.
    for (n, dim) in [(2, 10_000), (3, 10_000), (3, 1_000_000)] {
        let usual = (n as f64 * (1.0 + 2.0 / (dim as f64).sqrt())).sqrt();
        let (found, more) = (p(dim, n, usual), p(dim, n, 1.05 * usual));
        assert!(found > 1e-6 && found < 0.2 && more < 1e-3 * found, "d = {dim}, n = {n}: {found}, {more}");
    }
}

#[test]
fn the_projection_test_accepts_draws_and_rejects_two_clusters() {
    let density = VonMisesFisher::new(axis(5), 12.0).unwrap();
    let mut rows = vec![0.0; 5 * 200];
    let mut p_values = Vec::new();
    for i in 0..40 {
        Sampler::new(&density).fill(5, i * 200, &mut rows).unwrap();
        let block = RowBatch::new(5, &rows).unwrap();
        let fitted = maximum_likelihood(&SufficientStats::of_batch(&block), ConcentrationEstimator::Exact).unwrap();
        p_values.push(projection_test(&block, &fitted, 99, i).unwrap().p_value);
    }
    assert!(uniformity_p_value(p_values.clone()) > 1e-4, "{p_values:?}");
    // Two clusters do not follow one density.
    let mut other = axis(5);
    other.reverse();
    Sampler::new(&density).fill(5, 0, &mut rows[..500]).unwrap();
    Sampler::new(&VonMisesFisher::new(other, 60.0).unwrap()).fill(6, 0, &mut rows[500..]).unwrap();
    let block = RowBatch::new(5, &rows).unwrap();
    let fitted = maximum_likelihood(&SufficientStats::of_batch(&block), ConcentrationEstimator::Exact).unwrap();
    let test = projection_test(&block, &fitted, 99, 1).unwrap();
    assert_eq!(test.p_value, 0.01);
    assert_eq!(projection_test(&block, &fitted, 99, 1).unwrap(), test);
    let single: Vec<f32> = rows.iter().map(|&x| x as f32).collect();
    assert_eq!(projection_test(&RowBatch::new(5, &single).unwrap(), &fitted, 19, 1).unwrap().p_value, 0.05);
    assert!(projection_test(&block, &fitted, 0, 1).is_err());
    // Rows that differ by one ulp: all rows of a replicate may round to the same point.
    let ulp = [[1.0, 0.0], [1.0, f64::EPSILON]].repeat(5).concat();
    let close = RowBatch::new(2, &ulp).unwrap();
    let fitted_close = maximum_likelihood(&SufficientStats::of_batch(&close), ConcentrationEstimator::Exact).unwrap();
    assert!(projection_test(&close, &fitted_close, 19, 0).is_ok());
    let weights = vec![1.0; 200];
    assert!(projection_test(&block.clone().with_weights(&weights).unwrap(), &fitted, 9, 1).is_err());
}

#[test]
fn degenerate_samples_and_levels_are_errors() {
    let one = SufficientStats::of_batch(&RowBatch::new(2, &[1.0, 0.0]).unwrap());
    assert_eq!(Inference::new(&one).unwrap_err(), Error::AllRowsEqual { weight: 1.0 });
    assert_eq!(Inference::new(&SufficientStats::zero(1, 2)).unwrap_err(), Error::NoRows { weight: 0.0 });
    let cancelling = SufficientStats::of_batch(&RowBatch::new(2, &[1.0, 0.0, -1.0, 0.0]).unwrap());
    let inference = Inference::new(&cancelling).unwrap();
    assert_eq!(inference.concentration(), 0.0);
    assert!(inference.standard_error().is_finite());
    let (low, high) = inference.concentration_interval(0.95).unwrap();
    assert!(low == 0.0 && high > 0.0 && high.is_finite());
    assert_eq!(inference.mean_direction_cone(0.95).unwrap(), std::f64::consts::PI);
    for level in [0.0, 1.0, -0.5, f64::NAN] {
        assert!(inference.concentration_interval(level).is_err() && inference.mean_direction_cone(level).is_err());
    }
    // Two rows that differ by 1e-9, many rows, and slopes that underflow.
    for (rows, k) in [(2, 1e18), (100_000, 1e3), (20, 1e160), (20, 1e200), (20, 1e300)] {
        let inference = Inference::new(&samples(3, k, rows, 1)[0]).unwrap();
        let (low, high) = inference.concentration_interval(0.95).unwrap();
        assert!(0.0 < low && low < high && high.is_finite(), "k = {k:e}: {low:e} to {high:e}");
        assert!((inference.standard_error() / inference.concentration() * (rows as f64).sqrt() - 1.0).abs() < 1e-3);
        assert!(low < inference.concentration() && inference.concentration() < high);
        let cone = inference.mean_direction_cone(0.95).unwrap();
        assert!(cone > 0.0 && cone < 1e-2, "k = {k:e}: {cone:e}");
    }
}
