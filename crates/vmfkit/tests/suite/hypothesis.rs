//! Hypothesis tests hold their level, and reject clearly false hypotheses. Seeds are fixed; with
//! random seeds a bound of 4.5 standard errors would be exceeded about once in 10^5.

use rayon::prelude::*;
use vmfkit::hypothesis::{
    Calibration, Concentrations, Outcome, equal_concentrations, equal_mean_directions, equal_mean_directions_by_permutation,
    mean_direction, rotational_symmetry,
};
use vmfkit::{Error, RowBatch, Sampler, SufficientStats, VonMisesFisher};

const LEVEL: f64 = 0.05;

fn axis(dim: usize, at: usize) -> Vec<f64> {
    let mut axis = vec![0.0; dim];
    axis[at] = 1.0;
    axis
}

/// A unit vector at this angle from the first axis.
fn at_angle(dim: usize, angle: f64) -> Vec<f64> {
    let mut direction = vec![0.0; dim];
    (direction[0], direction[1]) = (angle.cos(), angle.sin());
    direction
}

fn draw(direction: &[f64], k: f64, rows: usize, seed: u64, repeat: u64) -> Vec<f64> {
    let mut out = vec![0.0; rows * direction.len()];
    let sampler = Sampler::new(&VonMisesFisher::new(direction.to_vec(), k).unwrap());
    sampler.fill(seed, repeat * rows as u64, &mut out).unwrap();
    out
}

fn statistics(dim: usize, groups: &[Vec<f64>]) -> SufficientStats {
    let mut stats = SufficientStats::zero(groups.len(), dim);
    for (group, rows) in groups.iter().enumerate() {
        stats.add_component(group, &SufficientStats::of_batch(&RowBatch::new(dim, rows).unwrap()), 0).unwrap();
    }
    stats
}

/// How often a test rejects at the 5 % level.
fn rejection_rate(repeats: u64, p_value: impl Fn(u64) -> f64 + Sync) -> f64 {
    (0..repeats).into_par_iter().filter(|&repeat| p_value(repeat) <= LEVEL).count() as f64 / repeats as f64
}

/// 4.5 standard errors, and a tenth of the level for the error of order 1/n.
fn tolerance(repeats: u64) -> f64 {
    4.5 * (LEVEL * (1.0 - LEVEL) / repeats as f64).sqrt() + 0.1 * LEVEL
}

const CASES: [(usize, usize, f64); 12] = [
    (2, 3, 1.0),
    (2, 8, 0.3),
    (2, 20, 3.0),
    (3, 3, 50.0),
    (3, 10, 1.0),
    (3, 40, 10.0),
    (10, 4, 100.0),
    (10, 10, 3.0),
    (10, 60, 10.0),
    (100, 4, 1e4),
    (100, 20, 30.0),
    (100, 20, 200.0),
];

#[test]
fn the_test_of_a_mean_direction_holds_its_level() {
    for (dim, rows, k) in CASES {
        let rate = rejection_rate(800, |repeat| {
            let stats = statistics(dim, &[draw(&axis(dim, 0), k, rows, 1, repeat)]);
            mean_direction(&stats, &axis(dim, 0), Calibration::Conditional).unwrap().p_value
        });
        // Near uniformity the test is conservative: it uses the least favourable concentration for
        // sums that point away from mu0.
        let near_uniform = k * (rows as f64).sqrt() < 3.0 * dim as f64;
        assert!(rate < LEVEL + tolerance(800), "d = {dim}, n = {rows}, k = {k}: {rate}");
        assert!(near_uniform || rate > LEVEL - tolerance(800), "d = {dim}, n = {rows}, k = {k}: {rate}");
    }
}

/// Given mu0 . R, the p-value of concentrated rows equals that of the F test.
#[test]
fn the_test_of_a_mean_direction_equals_the_f_test_at_high_concentrations() {
    for (dim, rows) in [(2, 5), (3, 2), (3, 10), (10, 4), (100, 3)] {
        for repeat in 0..5 {
            let stats = statistics(dim, &[draw(&at_angle(dim, 3e-4), 1e8, rows, 3, repeat)]);
            let test = |calibration| mean_direction(&stats, &axis(dim, 0), calibration).unwrap().p_value;
            let (found, f) = (test(Calibration::Conditional), test(Calibration::HighConcentration));
            assert!((found / f - 1.0).abs() < 2e-3 || (found - f).abs() < 1e-4, "d = {dim}, n = {rows}: {found} and {f}");
        }
    }
}

#[test]
fn the_opposite_of_the_mean_direction_is_rejected() {
    for (dim, rows, k) in [(2, 20, 4.0), (3, 20, 5.0), (100, 20, 200.0)] {
        let stats = statistics(dim, &[draw(&axis(dim, 0), k, rows, 4, 0)]);
        let opposite: Vec<f64> = axis(dim, 0).iter().map(|x| -x).collect();
        let found = mean_direction(&stats, &opposite, Calibration::Conditional).unwrap();
        assert!(found.p_value < 1e-3, "d = {dim}: {found:?}");
        let other = mean_direction(&stats, &axis(dim, 1), Calibration::Conditional).unwrap();
        assert!(other.p_value < 1e-3, "d = {dim}: {other:?}");
    }
}

/// Two groups, of n and 2n rows.
fn groups_of(dim: usize, rows: usize, ks: [f64; 2], directions: [&[f64]; 2], repeat: u64) -> [Vec<f64>; 2] {
    let seed = dim as u64;
    [draw(directions[0], ks[0], rows, seed, repeat), draw(directions[1], ks[1], 2 * rows, seed + 1000, repeat)]
}

#[test]
fn tests_of_groups_hold_their_level() {
    const REPEATS: u64 = 300;
    for (dim, rows, k) in CASES {
        let mean = axis(dim, 0);
        let groups = |repeat| statistics(dim, &groups_of(dim, rows, [k, k], [&mean, &mean], repeat));
        let simulation = |seed| Calibration::Simulation { replicates: 99, seed };
        type Test = fn(&SufficientStats, Calibration) -> vmfkit::Result<Outcome>;
        let tests: [(&str, Test); 3] = [
            ("common", |stats, way| equal_mean_directions(stats, Concentrations::Common, way)),
            ("separate", |stats, way| equal_mean_directions(stats, Concentrations::Separate, way)),
            ("concentrations", equal_concentrations),
        ];
        for (name, test) in tests {
            let rate = rejection_rate(REPEATS, |repeat| test(&groups(repeat), simulation(repeat)).unwrap().p_value);
            // Tests may be conservative if concentrations are estimated from few or nearly uniform
            // rows.
            assert!(rate < LEVEL + tolerance(REPEATS), "{name}, d = {dim}, n = {rows}, k = {k}: {rate}");
        }
    }
}

#[test]
fn the_permutation_test_holds_its_level() {
    for (dim, rows, k) in [(2, 8, 0.3), (3, 10, 5.0), (10, 10, 3.0), (100, 10, 30.0)] {
        let mean = axis(dim, 0);
        let rate = rejection_rate(500, |repeat| {
            let rows = groups_of(dim, rows, [k, k], [&mean, &mean], repeat).concat();
            let labels: Vec<usize> = (0..rows.len() / dim).map(|row| usize::from(row >= rows.len() / dim / 3)).collect();
            let block = RowBatch::new(dim, &rows).unwrap();
            equal_mean_directions_by_permutation(&block, &labels, 2, 99, repeat).unwrap().p_value
        });
        assert!((rate - LEVEL).abs() < tolerance(500), "d = {dim}, n = {rows}, k = {k}: {rate}");
    }
}

#[test]
fn different_mean_directions_and_concentrations_are_rejected() {
    for (dim, rows, k) in [(2, 10, 10.0), (3, 10, 20.0), (10, 20, 40.0), (100, 20, 300.0)] {
        let (mean, other) = (axis(dim, 0), at_angle(dim, 1.2));
        let way = Calibration::simulation(1);
        let apart = groups_of(dim, rows, [k, k], [&mean, &other], 0);
        let stats = statistics(dim, &apart);
        for concentrations in [Concentrations::Common, Concentrations::Separate] {
            let found = equal_mean_directions(&stats, concentrations, way).unwrap();
            assert_eq!(found.p_value, 0.001, "d = {dim}, {concentrations:?}: {found:?}");
        }
        for way in [Calibration::LikelihoodRatio, Calibration::HighConcentration] {
            assert!(equal_mean_directions(&stats, Concentrations::Common, way).unwrap().p_value < 1e-3, "d = {dim}");
        }
        let rows_of_all = apart.concat();
        let labels: Vec<usize> = (0..3 * rows).map(|row| usize::from(row >= rows)).collect();
        let block = RowBatch::new(dim, &rows_of_all).unwrap();
        let permuted = equal_mean_directions_by_permutation(&block, &labels, 2, 999, 1).unwrap();
        assert_eq!(permuted.p_value, 0.001, "d = {dim}: {permuted:?}");
        assert_eq!(equal_mean_directions_by_permutation(&block, &labels, 2, 999, 1).unwrap(), permuted);
        // Concentrations that differ by a factor of 8, with different mean directions.
        let spread = statistics(dim, &groups_of(dim, rows, [k, 8.0 * k], [&mean, &other], 0));
        for way in [way, Calibration::LikelihoodRatio, Calibration::HighConcentration] {
            let found = equal_concentrations(&spread, way).unwrap();
            assert!(found.p_value < 0.01, "d = {dim}, {way}: {found:?}");
        }
    }
}

/// Watson and Williams' test on the circle for an example of J. H. Zar, Biostatistical Analysis.
/// The expected values are computed with scipy from MATH.md (15.4); see python/tests/test_stats.py.
#[test]
fn watson_williams_matches_a_textbook_example() {
    let degrees = |angles: &[f64]| angles.iter().flat_map(|a| [a.to_radians().cos(), a.to_radians().sin()]).collect::<Vec<_>>();
    let first = degrees(&[94.0, 65.0, 45.0, 52.0, 38.0, 47.0, 73.0, 82.0, 90.0, 40.0, 87.0]);
    let second = degrees(&[77.0, 70.0, 61.0, 45.0, 50.0, 35.0, 48.0, 65.0, 36.0]);
    let stats = statistics(2, &[first, second]);
    let found = equal_mean_directions(&stats, Concentrations::Common, Calibration::HighConcentration).unwrap();
    assert!((found.statistic - 1.612773298537322).abs() < 1e-10, "{found:?}");
    assert!((found.p_value - 0.2202747012840309).abs() < 1e-6, "{found:?}");
    assert_eq!(found.degrees_of_freedom, (1.0, Some(18.0)));
}

#[test]
fn the_test_of_rotational_symmetry_holds_its_level() {
    for (dim, rows, k) in [(3, 4, 5.0), (3, 20, 1.0), (3, 30, 50.0), (10, 5, 100.0), (10, 40, 10.0), (100, 15, 60.0)] {
        let rate = rejection_rate(500, |repeat| {
            let rows = draw(&axis(dim, 0), k, rows, 8, repeat);
            rotational_symmetry(&RowBatch::new(dim, &rows).unwrap(), 99, repeat).unwrap().p_value
        });
        assert!((rate - LEVEL).abs() < tolerance(500), "d = {dim}, n = {rows}, k = {k}: {rate}");
    }
}

/// Draws of a vMF, stretched along one axis orthogonal to the mean direction.
fn elliptical(dim: usize, k: f64, rows: usize, stretch: f64) -> Vec<f64> {
    let mut values = draw(&axis(dim, 0), k, rows, 9, 0);
    values.chunks_exact_mut(dim).for_each(|row| {
        row[1] *= stretch;
        let length = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        row.iter_mut().for_each(|x| *x /= length);
    });
    values
}

#[test]
fn rotational_symmetry_of_elliptical_rows_is_rejected() {
    for (dim, rows, k, stretch) in [(3, 200, 20.0, 2.0), (10, 200, 50.0, 2.0), (100, 300, 500.0, 4.0), (300, 100, 3000.0, 10.0)] {
        let values = elliptical(dim, k, rows, stretch);
        let found = rotational_symmetry(&RowBatch::new(dim, &values).unwrap(), 199, 1).unwrap();
        assert_eq!(found.p_value, 0.005, "d = {dim}: {found:?}");
        assert!(found.limit_p_value.is_none_or(|p| p < 1e-6), "d = {dim}: {found:?}");
        assert_eq!(found.rows, rows);
        assert_eq!(rotational_symmetry(&RowBatch::new(dim, &values).unwrap(), 199, 1).unwrap(), found);
    }
    // In single precision, and at a concentration where only differences of rows are accurate.
    let single: Vec<f32> = elliptical(3, 20.0, 200, 2.0).iter().map(|&x| x as f32).collect();
    assert_eq!(rotational_symmetry(&RowBatch::new(3, &single).unwrap(), 199, 1).unwrap().p_value, 0.005);
    let tight = elliptical(3, 1e12, 200, 2.0);
    assert_eq!(rotational_symmetry(&RowBatch::new(3, &tight).unwrap(), 199, 1).unwrap().p_value, 0.005);
}

#[test]
fn unsupported_samples_are_errors() {
    let dim = 3;
    let rows = draw(&axis(dim, 0), 10.0, 6, 1, 0);
    let block = RowBatch::new(dim, &rows).unwrap();
    let one = statistics(dim, std::slice::from_ref(&rows));
    let way = Calibration::simulation(0);
    assert_eq!(
        equal_mean_directions(&one, Concentrations::Common, way).unwrap_err().to_string(),
        "a test of equal mean directions needs at least two groups, found: `1`"
    );
    let singles = statistics(dim, &[rows[..3].to_vec(), rows[3..6].to_vec()]);
    assert!(equal_concentrations(&singles, way).is_err());
    assert_eq!(equal_mean_directions(&singles, Concentrations::Common, way).unwrap_err(), Error::AllRowsEqual { weight: 2.0 });
    assert!(equal_mean_directions(&singles, Concentrations::Separate, way).is_err());
    let two = statistics(dim, &[rows[..9].to_vec(), rows[9..].to_vec()]);
    assert_eq!(
        equal_mean_directions(&two, Concentrations::Separate, Calibration::HighConcentration).unwrap_err().to_string(),
        "a test of equal mean directions with separate concentrations does not support the calibration `high-concentration`\n\
         hint: use simulation or likelihood-ratio"
    );
    assert!(equal_mean_directions(&two, Concentrations::Common, Calibration::Conditional).is_err());
    assert!(equal_concentrations(&two, Calibration::Simulation { replicates: 0, seed: 0 }).is_err());
    assert!(mean_direction(&one, &[0.0, 0.0, 2.0], Calibration::Conditional).is_err());
    assert!(mean_direction(&one, &[0.0, 1.0], Calibration::Conditional).is_err());
    assert!(mean_direction(&one, &axis(dim, 0), way).is_err());
    assert!(rotational_symmetry(&block, 0, 0).is_err());
    assert!(rotational_symmetry(&RowBatch::new(2, &[1.0, 0.0, 0.0, 1.0, 0.6, 0.8]).unwrap(), 9, 0).is_err());
    assert!(rotational_symmetry(&RowBatch::new(3, &rows[..6]).unwrap(), 9, 0).is_err());
    let weights = vec![1.0; 6];
    let weighted = block.clone().with_weights(&weights).unwrap();
    let refused = rotational_symmetry(&weighted, 9, 0).unwrap_err();
    assert_eq!(refused.to_string(), "a test of rotational symmetry does not support row weights");
    let refused = equal_mean_directions_by_permutation(&weighted, &[0, 0, 0, 1, 1, 1], 2, 9, 0);
    assert!(matches!(refused, Err(Error::WeightsNotSupported { .. })));
    assert!(equal_mean_directions_by_permutation(&block, &[0, 0, 0], 2, 9, 0).is_err());
    assert!(equal_mean_directions_by_permutation(&block, &[0; 6], 2, 9, 0).is_err());
    // The concentration of a group of equal rows is infinite.
    let one_equal = statistics(dim, &[rows[..9].to_vec(), rows[..3].repeat(3)]);
    assert_eq!(equal_concentrations(&one_equal, way).unwrap_err(), Error::AllRowsEqual { weight: 3.0 });
    assert!(equal_mean_directions(&one_equal, Concentrations::Common, way).is_ok());
    // The tangents of equal rows are 0.
    let equal = [rows[..3].to_vec(), rows[..3].to_vec(), rows[..3].to_vec()].concat();
    assert!(rotational_symmetry(&RowBatch::new(3, &equal).unwrap(), 9, 0).is_err());
}

/// A row of weight w counts as w rows, also for fractional weights and for very many rows.
#[test]
fn weighted_rows_have_p_values() {
    let rows = draw(&axis(3, 0), 10.0, 40, 1, 0);
    let mut stats = statistics(3, &[rows[..60].to_vec(), rows[60..].to_vec()]);
    stats.scale(2.5);
    for test in [
        equal_mean_directions(&stats, Concentrations::Common, Calibration::simulation(1)),
        equal_mean_directions(&stats, Concentrations::Separate, Calibration::simulation(1)),
        equal_concentrations(&stats, Calibration::simulation(1)),
    ] {
        let found = test.unwrap();
        assert!(found.p_value > 0.0 && found.p_value <= 1.0 && found.statistic.is_finite(), "{found:?}");
    }
    // A total weight below 1.
    stats.scale(0.01 / 2.5);
    let found = equal_mean_directions(&stats, Concentrations::Common, Calibration::simulation(1)).unwrap();
    assert!(found.p_value > 0.5, "{found:?}");
    stats.scale(1e9);
    let found = equal_mean_directions(&stats, Concentrations::Common, Calibration::simulation(1)).unwrap();
    assert_eq!(found.p_value, 0.001);
}
