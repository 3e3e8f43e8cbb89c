//! Fits of one density: statistics, closed-form and exact estimates, gradients, Adam.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use vmfkit::estimate::{ln_likelihood, maximum_likelihood, mean_resultant};
use vmfkit::m_step::gradient;
use vmfkit::rows::{LARGEST_WEIGHT, Rows};
use vmfkit::train::{Adam, Fit, Stop};
use vmfkit::{
    ConcentrationEstimator, Error, Fitter, Method, Mixture, RowBatch, Sampler, Start, SufficientStats, VonMisesFisher, bessel,
};

fn sample(dim: usize, concentration: f64, rows: usize, seed: u64) -> Vec<f64> {
    let mu = (0..dim).map(|i| (1.0 + i as f64).sin()).collect();
    let density = VonMisesFisher::along(mu, concentration).unwrap();
    let mut out = vec![0.0; rows * dim];
    Sampler::new(&density).fill(seed, 0, &mut out).unwrap();
    out
}

fn stats(dim: usize, rows: &[f64]) -> SufficientStats {
    SufficientStats::of_batch(&RowBatch::new(dim, rows).unwrap())
}

/// Fits one density by gradient ascent.
fn by_steps(adam: Adam) -> Fitter<'static> {
    Fitter::new(1).method(Method::Sgd(adam))
}

fn density(fit: &Fit) -> &VonMisesFisher {
    &fit.mixture.components()[0]
}

fn exact(stats: &SufficientStats) -> VonMisesFisher {
    maximum_likelihood(stats, ConcentrationEstimator::Exact).unwrap()
}

#[test]
fn the_exact_estimate_maximises_the_likelihood() {
    for (dim, k) in [(2, 0.5), (2, 200.0), (3, 5.0), (20, 1.0), (100, 500.0), (768, 50.0)] {
        let rows = sample(dim, k, 500, 1);
        let block = RowBatch::new(dim, &rows).unwrap();
        let stats = SufficientStats::of_batch(&block);
        let best = exact(&stats);
        let total = |density: &VonMisesFisher| {
            let mut out = vec![0.0; block.len()];
            density.ln_densities_into(&block, &mut out).unwrap();
            out.iter().sum::<f64>()
        };
        let top = total(&best);
        assert!((ln_likelihood(&stats, &best) - top).abs() < 1e-12 * top.abs().max(500.0), "the statistics tell the likelihood");
        for factor in [0.99, 1.01] {
            let beside = VonMisesFisher::along(best.mean_direction().to_vec(), factor * best.concentration()).unwrap();
            assert!(total(&beside) < top);
            assert!((ln_likelihood(&stats, &beside) - total(&beside)).abs() < 1e-12 * top.abs().max(500.0));
        }
        let mut turned = best.mean_direction().to_vec();
        turned[0] += 1e-3;
        let turned = VonMisesFisher::along(turned, best.concentration()).unwrap();
        assert!(total(&turned) < top);
        assert!((ln_likelihood(&stats, &turned) - total(&turned)).abs() < 1e-12 * top.abs().max(500.0));
    }
}

/// kappa = 1e10, 1e20 and 1e30: |sum of rows| / n rounds to 1, and the estimate keeps all its
/// digits.
#[test]
fn extreme_concentrations_are_estimated_to_all_digits() {
    for (dim, k) in [(3usize, 1e10), (3, 1e20), (3, 1e30), (50, 1e14), (50, 1e30)] {
        let mut mu = vec![0.0; dim];
        mu[0] = 1.0;
        let density = VonMisesFisher::new(mu, k).unwrap();
        let mut rows = vec![0.0; 4000 * dim];
        Sampler::new(&density).fill(11, 0, &mut rows).unwrap();
        let found = exact(&stats(dim, &rows)).concentration();
        // The standard error of ln k is sqrt(2/(n (d - 1))).
        let z = (found / k - 1.0) / (2.0 / (4000.0 * (dim as f64 - 1.0))).sqrt();
        assert!(z.abs() < 4.0, "d = {dim}, k = {k:e}: found {found:e}, z = {z}");
    }
}

/// Checks the table in the documentation of `ConcentrationEstimator`, each entry within a third.
#[test]
fn errors_of_estimators_are_those_of_their_table() {
    for (dim, [banerjee, tanabe, sra]) in [
        (2, [6.5e-2, 6.0e-1, 2.7e-5]),
        (3, [4.9e-2, 5.9e-2, 5.7e-6]),
        (10, [1.7e-2, 1.6e-3, 4.0e-8]),
        (100, [1.7e-3, 1.1e-5, 3.7e-12]),
    ] {
        for (estimator, stated) in ConcentrationEstimator::ALL.into_iter().zip([banerjee, tanabe, sra, 0.0, 0.0]) {
            let worst = (0..400).fold(0.0f64, |worst, i| {
                let k = dim as f64 * (f64::from(i) * 0.045 - 9.0).exp();
                let ratio = bessel::mean_length_and_slope(dim, k);
                worst.max((estimator.estimate(dim, ratio.value, ratio.complement) / k - 1.0).abs())
            });
            let place = format!("{} at d = {dim}: {worst:e}", estimator.name());
            assert!(if stated == 0.0 { worst < 3e-15 } else { (worst / stated - 1.0).abs() < 0.33 }, "{place}");
        }
    }
    // From the smallest to the largest concentration: no worse than in the table, and never NaN.
    for dim in [2, 3, 100, 1000] {
        for exponent in -250..=250 {
            let k = 10f64.powi(exponent);
            let ratio = bessel::mean_length_and_slope(dim, k);
            for (estimator, bound) in ConcentrationEstimator::ALL.into_iter().zip([7e-2, 0.7, 3e-5, 1e-9, 1e-14]) {
                let found = estimator.estimate(dim, ratio.value, ratio.complement);
                assert!((found / k - 1.0).abs() < bound, "{} at d = {dim}, k = {k:e}: {found:e}", estimator.name());
            }
        }
    }
    for estimator in ConcentrationEstimator::ALL {
        assert_eq!(estimator.estimate(3, 0.0, 1.0), 0.0);
        assert_eq!(estimator.estimate(3, 1.0, 0.0), f64::INFINITY);
        assert!(estimator.estimate(3, f64::NAN, 0.5).is_nan());
        assert_eq!(estimator.name().parse::<ConcentrationEstimator>().unwrap(), estimator);
    }
    assert!("newton".parse::<ConcentrationEstimator>().is_err());
}

#[test]
fn degenerate_rows_have_an_answer_or_an_error() {
    // One row, and equal rows.
    for rows in [vec![0.6, 0.8], [0.6, 0.8].repeat(3000)] {
        let error = maximum_likelihood(&stats(2, &rows), ConcentrationEstimator::Exact).unwrap_err();
        assert_eq!(error, Error::AllRowsEqual { weight: (rows.len() / 2) as f64 });
    }
    // Two rows that cancel.
    let density = exact(&stats(3, &[0.0, 0.6, 0.8, 0.0, -0.6, -0.8]));
    assert_eq!((density.concentration(), density.dim()), (0.0, 3));
    // Two rows on a circle.
    let density = exact(&stats(2, &[1.0, 0.0, 0.0, 1.0]));
    assert!((bessel::mean_length(2, density.concentration()) - 0.5f64.sqrt()).abs() < 1e-15);
    // No rows, or none that count.
    for nothing in [stats(2, &[]), SufficientStats::zero(0, 2)] {
        assert_eq!(maximum_likelihood(&nothing, ConcentrationEstimator::Exact).unwrap_err(), Error::NoRows { weight: 0.0 });
    }
    let rows = [1.0, 0.0, 0.0, 1.0];
    let weightless = RowBatch::new(2, &rows).unwrap().with_weights(&[0.0, 0.0]).unwrap();
    assert!(maximum_likelihood(&SufficientStats::of_batch(&weightless), ConcentrationEstimator::Exact).is_err());
    assert_eq!(by_steps(Adam::new()).fit(&weightless).unwrap_err(), Error::NoRows { weight: 0.0 });
}

#[test]
fn bad_rows_are_refused_by_number_and_value() {
    let text = |rows: &[f64]| RowBatch::new(2, rows).unwrap_err().to_string();
    assert_eq!(text(&[1.0, 0.0, f64::NAN, 1.0]), "row 1, column 0 must be a finite number, found: `NaN`");
    assert_eq!(text(&[1.0, 0.0, 0.0, f64::NEG_INFINITY]), "row 1, column 1 must be a finite number, found: `-inf`");
    assert_eq!(text(&[1.0, 0.0, 0.0, 0.0]), "row 1 has no direction: all its coordinates are `0`");
    assert!(text(&[1.0, 0.0, 0.6, 0.7]).starts_with("row 1 must have length 1, found: `0.92195"));
    assert_eq!(text(&[1.0, 0.0, 1.0]), "3 values do not fill rows of dimension 2, left over: `1`");
    assert_eq!(RowBatch::new::<f64>(1, &[1.0]).unwrap_err(), Error::Dimension { dim: 1 });
    let (block, changed) = RowBatch::rescaled(2, &[1.0, 0.0, 3e300, 4e300, 3e-300, 4e-300, 0.6, 0.8]).unwrap();
    assert_eq!(changed, 2);
    assert!(matches!(block.rows(), Rows::F64(v) if v[2..6].iter().zip([0.6, 0.8, 0.6, 0.8]).all(|(x, y)| (x - y).abs() < 1e-15)));
    assert!(RowBatch::rescaled(2, &[0.0, 0.0]).is_err() && RowBatch::rescaled(2, &[f32::NAN, 0.0]).is_err());
    let block = || RowBatch::new(2, &[1.0, 0.0, 0.0, 1.0]).unwrap();
    assert_eq!(block().with_weights(&[1.0]).unwrap_err(), Error::WeightCount { rows: 2, found: 1 });
    assert_eq!(block().with_weights(&[1.0, -2.0]).unwrap_err(), Error::Weight { row: 1, value: -2.0 });
    assert!(block().with_weights(&[f64::NAN, 1.0]).is_err());
    assert_eq!(
        block().with_weights(&[1e299, 1.0]).unwrap_err().to_string(),
        "the weight of row 0 must be from 0 to 1e100, found: `1e299`\n\
         hint: sums and squares of larger weights overflow; divide all weights by the same number"
    );
    assert_eq!(
        block().with_weights(&[1.0, -2.0]).unwrap_err().to_string(),
        "the weight of row 1 must be from 0 to 1e100, found: `-2`"
    );
    for weight in [LARGEST_WEIGHT.next_up(), f64::MAX, f64::INFINITY] {
        assert_eq!(block().with_weights(&[0.0, weight]).unwrap_err(), Error::Weight { row: 1, value: weight });
    }
    assert_eq!(block().with_weights(&[0.0, LARGEST_WEIGHT]).unwrap().weights(), Some(&[0.0, LARGEST_WEIGHT][..]));
    for extreme in [f64::MAX, 1e-322] {
        let (block, _) = RowBatch::rescaled(2, &[extreme, extreme]).unwrap();
        assert!(matches!(block.rows(), Rows::F64(v) if v.iter().all(|x| (x - 0.5f64.sqrt()).abs() < 1e-15)));
    }
}

#[test]
fn weights_count_as_repetitions() {
    let rows = sample(5, 8.0, 6, 3);
    let weights = [3.0, 1.0, 0.0, 2.0, 1.0, 4.0];
    let repeated: Vec<f64> =
        rows.chunks_exact(5).zip(weights).flat_map(|(row, w)| std::iter::repeat_n(row, w as usize)).flatten().copied().collect();
    let weighted = SufficientStats::of_batch(&RowBatch::new(5, &rows).unwrap().with_weights(&weights).unwrap());
    let plain = stats(5, &repeated);
    assert_eq!(weighted.mass(0), 11.0);
    assert!((weighted.shortfall(0) - plain.shortfall(0)).abs() < 1e-14);
    assert!((exact(&weighted).concentration() / exact(&plain).concentration() - 1.0).abs() < 1e-13);
    // Weights may be large and small.
    for factor in [1e99, 1e-200] {
        let weights = weights.map(|w| w * factor);
        let scaled = SufficientStats::of_batch(&RowBatch::new(5, &rows).unwrap().with_weights(&weights).unwrap());
        assert!((exact(&scaled).concentration() / exact(&plain).concentration() - 1.0).abs() < 1e-12);
    }
    let mut doubled = weighted.clone();
    doubled.scale(2.0);
    assert!((exact(&doubled).concentration() / exact(&weighted).concentration() - 1.0).abs() < 1e-15);
}

#[test]
fn threads_do_not_change_a_bit() {
    let rows = sample(17, 30.0, 20_000, 4);
    let fit = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| stats(17, &rows))
    };
    assert_eq!(fit(1), fit(2));
    assert_eq!(fit(1), fit(7));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, rng_seed: RngSeed::Fixed(3), ..ProptestConfig::default() })]

    /// Merging the statistics of two halves equals those of all rows, and the shortfall keeps its
    /// digits.
    #[test]
    fn merging_is_addition(dim in 2usize..9, ln_k in -2.0f64..40.0, cut in 1usize..99, seed in 0u64..1000) {
        let rows = sample(dim, ln_k.exp(), 100, seed);
        let whole = stats(dim, &rows);
        let (left, right) = rows.split_at(cut * dim);
        let mut merged = stats(dim, left);
        merged.merge(&stats(dim, right)).unwrap();
        prop_assert_eq!(merged.mass(0), 100.0);
        // Two directions 1/sqrt(k) apart, each known to an ulp of 1.
        let tolerance = 1e-12 + 1e-15 * (0.5 * ln_k).exp();
        prop_assert!((merged.shortfall(0) / whole.shortfall(0) - 1.0).abs() < tolerance);
        for (x, y) in merged.resultant(0).iter().zip(whole.resultant(0)) {
            prop_assert!((x - y).abs() < 1e-12);
        }
        let (length, complement) = mean_resultant(&whole).unwrap();
        prop_assert!((length + complement - 1.0).abs() < 1e-14);
        let mut other_way = stats(dim, right);
        other_way.merge(&stats(dim, left)).unwrap();
        prop_assert!((other_way.shortfall(0) / merged.shortfall(0) - 1.0).abs() < tolerance);
    }

    #[test]
    fn gradients_match_differences(dim in 2usize..12, ln_k in -1.0f64..6.0, seed in 0u64..1000) {
        let rows = sample(dim, 10.0, 20, seed);
        let stats = stats(dim, &rows);
        let at: Vec<f64> = (0..dim).map(|i| (seed as f64 + i as f64).cos() + 0.05).collect();
        let length = vmf_norm(&at);
        let at_unit = VonMisesFisher::along(at.clone(), ln_k.exp()).unwrap();
        let found = gradient(&stats, &Mixture::new(vec![1.0], vec![at_unit]).unwrap());
        prop_assert_eq!(&found.logits, &[0.0]);
        let mean = |m: &[f64], ln_k: f64| {
            ln_likelihood(&stats, &VonMisesFisher::along(m.to_vec(), ln_k.exp()).unwrap()) / stats.mass(0)
        };
        let h = 1e-5;
        let scale = ln_k.exp().max(1.0);
        for i in 0..dim {
            let shifted = |by: f64| {
                let mut m = at.clone();
                m[i] += by;
                mean(&m, ln_k)
            };
            let difference = (shifted(h) - shifted(-h)) / (2.0 * h);
            prop_assert!((difference - found.directions[i] / length).abs() < 1e-6 * scale / length.min(1.0).powi(3));
        }
        let difference = (mean(&at, ln_k + h) - mean(&at, ln_k - h)) / (2.0 * h);
        prop_assert!((difference - found.ln_concentrations[0]).abs() < 1e-7 * scale);
    }
}

fn vmf_norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

#[test]
fn adam_ends_at_the_exact_estimate() {
    for (dim, k, start) in [(5, 50.0, Start::Random), (20, 500.0, Start::Random), (3, 4.0, Start::default())] {
        let rows = sample(dim, k, 5_000, 6);
        let block = RowBatch::new(dim, &rows).unwrap();
        let best = exact(&SufficientStats::of_batch(&block));
        let fit = by_steps(Adam::new()).seed(1).start(start).fit(&block).unwrap();
        let relative = density(&fit).concentration() / best.concentration() - 1.0;
        assert!(relative.abs() < 2e-3, "d = {dim}, k = {k}: {relative}");
        // A tenth of what the sample itself leaves open, d/(2n).
        assert!(density(&fit).divergence(&best).unwrap() < 0.1 * dim as f64 / 10_000.0);
        assert_eq!(fit.trace.len(), 100);
        assert!(fit.trace[99].objective > fit.trace[0].objective);
        assert_eq!(fit.mixture.weights(), [1.0]);
    }
}

#[test]
fn adam_is_reproducible_and_counts_weights() {
    let rows = sample(4, 20.0, 600, 8);
    let block = || RowBatch::new(4, &rows).unwrap();
    let steps = || by_steps(Adam::new());
    let fit =
        |fitter: Fitter| fitter.stop(Stop { tolerance: None, passes: 40, ..Stop::default() }).fit(&block()).unwrap().mixture;
    assert_eq!(fit(steps().seed(5)), fit(steps().seed(5)));
    assert_ne!(fit(steps().seed(5)), fit(steps().seed(6)));
    // In the order of the rows and from a given start there is nothing left to chance.
    let start = Start::Mixture(Mixture::new(vec![1.0], vec![exact(&stats(4, &rows[..400]))]).unwrap());
    let in_order = |seed| fit(steps().start(start.clone()).shuffle(false).seed(seed));
    assert_eq!(in_order(5), in_order(9));
    assert_ne!(in_order(5), fit(steps().start(start.clone())));
    // Weight 0 for the second half is the same as not having it.
    let weights: Vec<f64> = (0..600).map(|i| f64::from(u8::from(i < 300))).collect();
    let weighted = steps().fit(&block().with_weights(&weights).unwrap()).unwrap();
    let half = exact(&stats(4, &rows[..1200]));
    assert!((density(&weighted).concentration() / half.concentration() - 1.0).abs() < 2e-2);
    // Rows that are all equal: no maximum, yet every step is finite.
    let equal = [0.6, 0.8].repeat(300);
    let fit = steps().fit(&RowBatch::new(2, &equal).unwrap()).unwrap();
    assert!(density(&fit).concentration().is_finite());
}

#[test]
fn adam_refuses_options_outside_their_range() {
    let rows = [1.0, 0.0, 0.0, 1.0];
    let block = RowBatch::new(2, &rows).unwrap();
    let steps = || by_steps(Adam::new());
    for (fitter, text) in [
        (by_steps(Adam::new().learning_rate(0.0)), "the learning rate must be finite and above 0, found: `0`"),
        (by_steps(Adam::new().decay(1.5)), "the decay of the learning rate must be above 0 and at most 1, found: `1.5`"),
        (by_steps(Adam::new().betas(1.0, 0.9)), "the first beta must be at least 0 and below 1, found: `1`"),
        (by_steps(Adam::new().betas(0.9, f64::NAN)), "the second beta must be at least 0 and below 1, found: `NaN`"),
        (by_steps(Adam::new().epsilon(-1.0)), "epsilon must be finite and above 0, found: `-1`"),
        (steps().batch(0), "the batch must be at least 1 row, found: `0`"),
        (
            steps().stop(Stop { tolerance: None, passes: 0, ..Stop::default() }),
            "the number of passes must be at least 1, found: `0`",
        ),
    ] {
        assert_eq!(fitter.fit(&block).unwrap_err().to_string(), text);
    }
    let uniform = |dim| Start::Mixture(Mixture::new(vec![1.0], vec![VonMisesFisher::uniform(dim).unwrap()]).unwrap());
    assert_eq!(steps().start(uniform(3)).fit(&block).unwrap_err(), Error::DimensionMismatch { expected: 2, found: 3 });
    // A concentration of 0 has no logarithm to step in, so the steps begin a little above.
    assert!(density(&steps().start(uniform(2)).fit(&block).unwrap()).concentration() > 0.0);
}
