//! Scores of labelings against scikit-learn's, and matchings against all permutations.

use crate::reference::rows;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use vmfkit::Error;
use vmfkit::metrics::{Agreement, cheapest_matching};

const TABLE: &str = include_str!("../../../../testdata/agreement.csv");

#[test]
fn scores_are_those_of_scikit_learn() {
    let mut seen = 0;
    for row in rows(TABLE) {
        let labels = |text: &str| text.split(' ').map(|label| label.parse().unwrap()).collect::<Vec<i64>>();
        let agreement = Agreement::new(&labels(row[0]), &labels(row[1])).unwrap();
        let found = [
            agreement.adjusted_rand_index(),
            agreement.normalized_mutual_information(),
            agreement.homogeneity(),
            agreement.completeness(),
            agreement.v_measure(),
            agreement.matched_share(),
        ];
        for (found, expected) in found.iter().zip(&row[2..]) {
            let expected: f64 = expected.parse().unwrap();
            assert!((found - expected).abs() < 1e-12, "{found} against {expected} in {row:?}");
        }
        seen += 1;
    }
    assert_eq!(seen, 14);
}

#[test]
fn empty_and_unequal_labelings() {
    let agreement = Agreement::new(&[], &[]).unwrap();
    assert_eq!((agreement.adjusted_rand_index(), agreement.normalized_mutual_information()), (1.0, 1.0));
    assert_eq!((agreement.v_measure(), agreement.matched_share()), (1.0, 1.0));
    assert_eq!(agreement.groups(), (0, 0));
    assert_eq!(Agreement::new(&[5, -1, 5, 9], &[0, 0, 1, 1]).unwrap().groups(), (3, 2));
    let error = Agreement::new(&[1, 2], &[1]).unwrap_err();
    assert_eq!(error, Error::LabelCount { expected: 2, found: 1 });
    assert_eq!(error.to_string(), "expected 2 labels, one a row, found: `1`");
}

/// The least total cost over all ways to match every row of the shorter side.
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, rng_seed: RngSeed::Fixed(5), ..ProptestConfig::default() })]

    #[test]
    fn matchings_are_the_cheapest(rows in 0usize..6, columns in 0usize..6, all in prop::collection::vec(-9.0f64..9.0, 36)) {
        let cost = &all[..rows * columns];
        let matched = cheapest_matching(cost, rows, columns);
        let mut columns_used: Vec<usize> = matched.iter().flatten().copied().collect();
        prop_assert_eq!(columns_used.len(), rows.min(columns));
        columns_used.sort_unstable();
        columns_used.dedup();
        prop_assert_eq!(columns_used.len(), rows.min(columns));
        let total: f64 = matched.iter().enumerate().filter_map(|(i, j)| j.map(|j| cost[i * columns + j])).sum();
        prop_assert!((total - by_permutations(cost, rows, columns)).abs() < 1e-9);
    }

    #[test]
    fn scores_do_not_depend_on_names_or_order(labels in prop::collection::vec((0i64..5, 0i64..4), 1..60)) {
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
