//! The mutual information that two random labelings are expected to share.

use std::collections::BTreeMap;

/// The expected mutual information in nats of two random labelings with groups of these sizes,
/// MATH.md (18.2).
///
/// The number of rows in group i of one and group j of the other is hypergeometric. Its
/// probabilities follow from that of the mode by a recurrence, so no factorial is needed and nothing
/// overflows. Groups of equal size are counted once.
pub(super) fn expected_mutual_information(first: &[u64], second: &[u64], rows: u64) -> f64 {
    let (first, second) = (multiplicities(first), multiplicities(second));
    let of_pair = |(&(a, of_a), &(b, of_b)): (&(u64, u64), &(u64, u64))| (of_a * of_b) as f64 * expected_term(a, b, rows);
    first.iter().flat_map(|a| second.iter().map(move |b| (a, b))).map(of_pair).sum()
}

/// Each size above 0, and how often it occurs.
fn multiplicities(sizes: &[u64]) -> Vec<(u64, u64)> {
    let mut counts = BTreeMap::new();
    sizes.iter().filter(|size| **size > 0).for_each(|&size| *counts.entry(size).or_insert(0) += 1);
    counts.into_iter().collect()
}

/// Probabilities below this fraction of the largest do not change the sum.
const NEGLIGIBLE: f64 = 1e-18;

/// The expectation of n/N ln(N n/(a b)) for hypergeometric n.
fn expected_term(a: u64, b: u64, rows: u64) -> f64 {
    let (least, most) = ((a + b).saturating_sub(rows), a.min(b));
    let (a, b, total) = (a as f64, b as f64, rows as f64);
    let mode = (((a + 1.0) * (b + 1.0) / (total + 2.0)) as u64).clamp(least, most);
    let value = |n: u64| if n == 0 { 0.0 } else { n as f64 / total * (n as f64 * total / (a * b)).ln() };
    let (mut sum, mut weighted) = (1.0, value(mode));
    // P(n + 1)/P(n).
    let ratio = |n: u64| {
        let n = n as f64;
        (a - n) * (b - n) / ((n + 1.0) * (total - a - b + n + 1.0))
    };
    let mut probability = 1.0;
    for n in mode..most {
        probability *= ratio(n);
        sum += probability;
        weighted += probability * value(n + 1);
        if probability < NEGLIGIBLE {
            break;
        }
    }
    probability = 1.0;
    for n in (least..mode).rev() {
        probability /= ratio(n);
        sum += probability;
        weighted += probability * value(n);
        if probability < NEGLIGIBLE {
            break;
        }
    }
    weighted / sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ln n!
    fn ln_factorial(n: u64) -> f64 {
        (2..=n).map(|i| (i as f64).ln()).sum()
    }

    #[test]
    fn terms_are_sums_over_the_hypergeometric_distribution() {
        for (a, b, rows) in [(1, 1, 1), (3, 4, 10), (9, 9, 10), (10, 10, 10), (60, 70, 100), (1, 99, 100), (40, 3, 1000)] {
            let ln_choose = |n: u64, k: u64| ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
            let expected: f64 = (1.max((a + b) as i64 - rows as i64) as u64..=a.min(b))
                .map(|n| {
                    let probability = (ln_choose(a, n) + ln_choose(rows - a, b - n) - ln_choose(rows, b)).exp();
                    probability * n as f64 / rows as f64 * (n as f64 * rows as f64 / (a * b) as f64).ln()
                })
                .sum();
            let found = expected_term(a, b, rows);
            assert!((found - expected).abs() < 1e-12 * (1.0 + expected.abs()), "{a} {b} {rows}: {found} {expected}");
        }
    }
}
