//! Scores of labelings match scikit-learn, matchings are optimal, and errors of permuted and
//! perturbed mixtures are found.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use vmfkit::metrics::{Agreement, ParameterErrors, cheapest_matching};
use vmfkit::{Error, Mixture, Sampler, VonMisesFisher};

const TABLE: &str = include_str!("../../../../testdata/agreement.csv");

#[test]
fn scores_match_scikit_learn() {
    let mut seen = 0;
    for row in TABLE.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>()) {
        let labels = |text: &str| text.split(' ').map(|label| label.parse().unwrap()).collect::<Vec<i64>>();
        let agreement = Agreement::new(&labels(row[0]), &labels(row[1])).unwrap();
        let found = [
            agreement.adjusted_rand_index(),
            agreement.normalized_mutual_information(),
            agreement.homogeneity(),
            agreement.completeness(),
            agreement.v_measure(),
            agreement.matched_fraction(),
        ];
        for (found, expected) in found.iter().zip(&row[2..]) {
            let expected: f64 = expected.parse().unwrap();
            assert!((found - expected).abs() < 1e-12, "{found} against {expected} in {row:?}");
        }
        seen += 1;
    }
    assert_eq!(seen, 14);
}

/// scikit-learn's own test values of `adjusted_mutual_info_score`, and the expected information of
/// all orders of a small labeling.
#[test]
fn adjusted_mutual_information_is_that_of_scikit_learn() {
    let first = [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3];
    let second = [1, 1, 1, 1, 2, 1, 2, 2, 2, 2, 3, 1, 3, 3, 3, 2, 2];
    let agreement = Agreement::new(&first, &second).unwrap();
    assert!((agreement.mutual_information() - 0.41022).abs() < 5e-6);
    assert!((agreement.expected_mutual_information() - 0.15042).abs() < 5e-6);
    assert!((agreement.adjusted_mutual_information() - 0.27821).abs() < 5e-6);
    // Repeated 110 times: chance matters little.
    let repeated = Agreement::new(&first.repeat(110), &second.repeat(110)).unwrap();
    assert!((repeated.adjusted_mutual_information() - 0.38).abs() < 5e-3);
    for (first, second, expected) in [
        (vec![0, 0, 1, 1], vec![0, 1, 0, 1], -0.5),
        (vec![0, 0, 1, 1], vec![1, 1, 0, 0], 1.0),
        (vec![0, 0, 0], vec![5, 5, 5], 1.0),
        (vec![0, 1, 2], vec![2, 0, 1], 1.0),
        (vec![0, 0, 0, 0], vec![0, 1, 2, 3], 0.0),
        (vec![], vec![], 1.0),
    ] {
        let found = Agreement::new(&first, &second).unwrap().adjusted_mutual_information();
        assert!((found - expected).abs() < 1e-12, "{first:?} {second:?}: {found}");
    }
}

#[test]
fn expected_information_is_the_mean_over_all_orders() {
    let first = [0, 0, 0, 1, 1, 2];
    let mut second = vec![0, 0, 1, 1, 2, 2];
    let expected = Agreement::new(&first, &second).unwrap().expected_mutual_information();
    // Heap's algorithm.
    let (mut sum, mut orders, mut counts, mut at) = (0.0, 0, vec![0; second.len()], 0);
    let mut add = |second: &[i32]| {
        sum += Agreement::new(&first, second).unwrap().mutual_information();
        orders += 1;
    };
    add(&second);
    while at < counts.len() {
        if counts[at] < at {
            second.swap(if at % 2 == 0 { 0 } else { counts[at] }, at);
            add(&second);
            counts[at] += 1;
            at = 0;
        } else {
            counts[at] = 0;
            at += 1;
        }
    }
    assert_eq!(orders, 720);
    assert!((sum / 720.0 - expected).abs() < 1e-12, "{} {expected}", sum / 720.0);
}

#[test]
fn labelings_may_be_empty_but_not_of_unequal_length() {
    let agreement = Agreement::new::<u8, u8>(&[], &[]).unwrap();
    assert_eq!((agreement.adjusted_rand_index(), agreement.normalized_mutual_information()), (1.0, 1.0));
    assert_eq!((agreement.v_measure(), agreement.matched_fraction()), (1.0, 1.0));
    assert_eq!(agreement.groups(), (0, 0));
    assert_eq!(Agreement::new(&[5, -1, 5, 9], &[0, 0, 1, 1]).unwrap().groups(), (3, 2));
    let error = Agreement::new(&[1, 2], &[1]).unwrap_err();
    assert_eq!(error, Error::LabelCount { expected: 2, found: 1 });
    assert_eq!(error.to_string(), "expected 2 labels, one per row, found: `1`");
}

/// The lowest total cost over all matchings of the shorter side.
fn by_permutations(cost: &[f64], rows: usize, columns: usize) -> f64 {
    fn search(cost: &[f64], columns: usize, row: usize, rows: usize, left: &mut Vec<bool>, may_skip: usize) -> f64 {
        if row == rows {
            return 0.0;
        }
        let mut best = f64::INFINITY;
        if may_skip > 0 {
            best = search(cost, columns, row + 1, rows, left, may_skip - 1);
        }
        for j in 0..columns {
            if left[j] {
                left[j] = false;
                best = best.min(cost[row * columns + j] + search(cost, columns, row + 1, rows, left, may_skip));
                left[j] = true;
            }
        }
        best
    }
    search(cost, columns, 0, rows, &mut vec![true; columns], rows.saturating_sub(columns))
}

/// Twelve components in six dimensions; `change` scales a perturbation of directions,
/// concentrations and weights.
fn twelve(change: f64) -> (Vec<f64>, Vec<VonMisesFisher>) {
    let mut directions = vec![0.0; 6 * 12];
    Sampler::new(&VonMisesFisher::uniform(6).unwrap()).fill(3, 0, &mut directions).unwrap();
    let components = directions.chunks_exact(6).enumerate().map(|(k, mu)| {
        let mut mu = mu.to_vec();
        mu[k % 6] += change;
        VonMisesFisher::along(mu, (1.0 + change) * (20.0 + 10.0 * k as f64)).unwrap()
    });
    // Alternating signs keep the sum at 1.
    let weights = (0..12).map(|k| (k + 1) as f64 / 78.0 + if k % 2 == 0 { 0.01 * change } else { -0.01 * change });
    (weights.collect(), components.collect())
}

#[test]
fn a_mixture_has_no_error_against_itself() {
    let (weights, components) = twelve(0.0);
    let truth = Mixture::new(weights, components).unwrap();
    let errors = ParameterErrors::between(&truth, &truth).unwrap();
    assert_eq!(errors.permutation(), (0..12).collect::<Vec<_>>());
    assert_eq!((errors.weights(), errors.mean_directions(), errors.concentrations()), (0.0, 0.0, 0.0));
    assert_eq!(errors.angles(), [0.0; 12]);
    // The ratio of concentrations of two uniform densities, 0/0, counts as 0.
    let uniform = Mixture::new(vec![1.0], vec![VonMisesFisher::uniform(4).unwrap()]).unwrap();
    assert_eq!(ParameterErrors::between(&uniform, &uniform).unwrap().concentrations(), 0.0);
}

#[test]
fn permuted_and_perturbed_components_are_matched() {
    let (weights, components) = twelve(0.0);
    let (moved_weights, moved) = twelve(0.05);
    let order = [7, 2, 11, 0, 9, 4, 1, 10, 5, 3, 8, 6];
    let truth = Mixture::new(weights.clone(), components.clone()).unwrap();
    let shuffled = Mixture::new(order.map(|k| moved_weights[k]).to_vec(), order.map(|k| moved[k].clone()).to_vec()).unwrap();
    let errors = ParameterErrors::between(&truth, &shuffled).unwrap();
    for (k, &j) in errors.permutation().iter().enumerate() {
        assert_eq!(order[j], k);
    }
    let close =
        |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12 * expected.abs().max(1.0), "{found} {expected}");
    close(errors.weights(), 12.0 * 0.01 * 0.05);
    close(errors.concentrations(), 0.05 * (0..12).map(|k| 20.0 + 10.0 * f64::from(k)).sum::<f64>());
    let pairs = || components.iter().zip(&moved).map(|(a, b)| (a.mean_direction(), b.mean_direction()));
    close(errors.mean_directions(), pairs().flat_map(|(a, b)| a.iter().zip(b).map(|(x, y)| (x - y).abs())).sum());
    for (angle, (a, b)) in errors.angles().iter().zip(pairs()) {
        let cosine: f64 = a.iter().zip(b).map(|(x, y)| x * y).sum();
        assert!((angle.cos() - cosine).abs() < 1e-14 && *angle < 0.06, "{angle}");
    }
}

#[test]
fn concentrations_do_not_outweigh_directions() {
    let along = |x: f64, concentration: f64| VonMisesFisher::new(vec![x, 0.0, 0.0], concentration).unwrap();
    let truth = Mixture::new(vec![0.5, 0.5], vec![along(1.0, 500.0), along(-1.0, 510.0)]).unwrap();
    let fitted = Mixture::new(vec![0.5, 0.5], vec![along(1.0, 508.0), along(-1.0, 503.0)]).unwrap();
    let errors = ParameterErrors::between(&truth, &fitted).unwrap();
    assert_eq!((errors.permutation(), errors.angles()), (&[0, 1][..], &[0.0, 0.0][..]));
    assert_eq!(errors.concentrations(), 15.0);
}

#[test]
fn mixtures_of_different_shape_are_errors() {
    let uniform = |dim: usize, count: usize| {
        Mixture::new(vec![1.0 / count as f64; count], vec![VonMisesFisher::uniform(dim).unwrap(); count]).unwrap()
    };
    let error = ParameterErrors::between(&uniform(3, 2), &uniform(3, 4)).unwrap_err();
    assert_eq!(error.to_string(), "the fitted mixture must have 2 components, found: `4`");
    let error = ParameterErrors::between(&uniform(3, 2), &uniform(5, 2)).unwrap_err();
    assert_eq!(error, Error::DimensionMismatch { expected: 3, found: 5 });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, rng_seed: RngSeed::Fixed(5), ..ProptestConfig::default() })]

    #[test]
    fn matchings_have_the_lowest_cost(rows in 0usize..6, columns in 0usize..6, all in prop::collection::vec(-9.0f64..9.0, 36)) {
        let cost = &all[..rows * columns];
        let matched = cheapest_matching(cost, rows, columns).unwrap();
        let mut columns_used: Vec<usize> = matched.iter().flatten().copied().collect();
        prop_assert_eq!(columns_used.len(), rows.min(columns));
        columns_used.sort_unstable();
        columns_used.dedup();
        prop_assert_eq!(columns_used.len(), rows.min(columns));
        let total: f64 = matched.iter().enumerate().filter_map(|(i, j)| j.map(|j| cost[i * columns + j])).sum();
        prop_assert!((total - by_permutations(cost, rows, columns)).abs() < 1e-9);
    }

    #[test]
    fn scores_do_not_depend_on_label_values(labels in prop::collection::vec((0i64..5, 0i64..4), 1..60)) {
        let (first, second): (Vec<i64>, Vec<i64>) = labels.iter().copied().unzip();
        let agreement = Agreement::new(&first, &second).unwrap();
        let renamed: Vec<i64> = second.iter().map(|label| 100 - 7 * label).collect();
        let other = Agreement::new(&first, &renamed).unwrap();
        prop_assert!((agreement.adjusted_rand_index() - other.adjusted_rand_index()).abs() < 1e-12);
        prop_assert!((agreement.v_measure() - other.v_measure()).abs() < 1e-12);
        let swapped = Agreement::new(&second, &first).unwrap();
        prop_assert!((agreement.adjusted_rand_index() - swapped.adjusted_rand_index()).abs() < 1e-12);
        prop_assert!((agreement.homogeneity() - swapped.completeness()).abs() < 1e-12);
        prop_assert!(agreement.adjusted_rand_index() <= 1.0 + 1e-12);
        prop_assert!((Agreement::new(&first, &first).unwrap().normalized_mutual_information() - 1.0).abs() < 1e-12);
    }
}
