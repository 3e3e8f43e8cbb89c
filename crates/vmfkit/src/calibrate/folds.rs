//! Which rows are held out by which fit when scores are cross-fitted.
//!
//! Leave-one-out in closed form removes a row's effect on one EM step. Where components have few
//! rows for their dimension, rows have also shaped the components from the start on. Then the fit
//! is repeated without a tenth of the rows at a time, MATH.md section 16.

use crate::mixture::{Mixture, ln_sum_exp};
use crate::outlier::Scored;
use crate::sampler::Stream;
use rand::RngExt;

/// Each fit has nine tenths of the rows, so that it differs little from the fit to all.
pub(crate) const FOLDS: usize = 10;

/// The row numbers of each fold, ascending. Rows are divided at random, since files are often
/// sorted; the division depends only on their number.
pub(crate) fn folds(rows: usize) -> Vec<Vec<usize>> {
    let mut rng = Stream::new(0x666f_6c64, 0);
    let mut order: Vec<usize> = (0..rows).collect();
    for place in (1..rows).rev() {
        order.swap(place, rng.random_range(0..=place));
    }
    let fold = |number: usize| {
        let mut fold: Vec<usize> = order.iter().skip(number).step_by(FOLDS).copied().collect();
        fold.sort_unstable();
        fold
    };
    (0..FOLDS.min(rows)).map(fold).collect()
}

/// ln p without a background, and the most probable component.
pub(super) fn score(mixture: &Mixture, logits: &[f64], weight: f64) -> Scored {
    let fitted = logits.len() - usize::from(mixture.has_background());
    // The constant by which ln p differs without the background.
    let ln_rest = if fitted < logits.len() { (-mixture.weights()[fitted]).ln_1p() } else { 0.0 };
    let logits = &logits[..fitted];
    // A row may be alone in its component and infinitely far from all others, or the only row.
    let score = ln_sum_exp(logits) - ln_rest;
    let score = if score.is_finite() { score } else { f64::MIN };
    Scored { score, component: super::first_largest(logits) as u32, weight }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_in_one_fold() {
        for rows in [0, 1, 7, 10, 1003] {
            let folds = folds(rows);
            let mut all: Vec<usize> = folds.iter().flatten().copied().collect();
            all.sort_unstable();
            assert_eq!(all, (0..rows).collect::<Vec<_>>());
            assert!(folds.len() == FOLDS.min(rows) && folds.iter().all(|fold| fold.len().abs_diff(rows / FOLDS) <= 1));
        }
    }
}
