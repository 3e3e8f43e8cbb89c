//! [`LeaveOneOut`]: the logits of a row under the mixture as it would be without that row.
//!
//! The M step has seen every row, so a row is closer to the component that it helped to place than
//! a new row would be. Its share of the statistics is known, so its effect can be removed in closed
//! form, MATH.md (16.4): no second fit and no second pass are needed.

use crate::bessel;
use crate::estimate::ConcentrationEstimator;
use crate::m_step::{ConcentrationPolicy, Maximisation};
use crate::mixture::Mixture;
use crate::stats::ComponentSum;

/// Smaller responsibilities do not change a component.
const LEAST_RESPONSIBILITY: f64 = 1e-9;

/// The mixture without one of its rows.
pub(crate) struct LeaveOneOut<'m> {
    mixture: &'m Mixture,
    sums: Vec<ComponentSum>,
    total: f64,
    /// The estimator of concentrations that depend on the component's own rows alone.
    free: Option<(ConcentrationEstimator, f64)>,
    fixed_weights: bool,
}

impl<'m> LeaveOneOut<'m> {
    /// The mixture that an M step with these settings made from these sums. Without sums, those
    /// that the mixture expects of rows of this total weight.
    pub fn new(mixture: &'m Mixture, sums: &[ComponentSum], weight: f64, how: &Maximisation) -> Self {
        let sums = if sums.is_empty() { expected_sums(mixture, weight) } else { sums.to_vec() };
        let free = how.policy_used(mixture.dim()) == ConcentrationPolicy::Free;
        LeaveOneOut {
            mixture,
            total: sums.iter().map(|sum| sum.mass).sum(),
            sums,
            free: free.then_some((how.estimator, how.largest_concentration)),
            fixed_weights: how.fixed_weights,
        }
    }

    /// Replaces the logits of a row of this weight by those without it. `responsibility` is that
    /// with which the M step counted the row for each component.
    pub fn correct(&self, logits: &mut [f64], weight: f64, responsibility: impl Fn(usize) -> f64) {
        // Other components gain weight, since all weights still sum to 1.
        let gain = if self.fixed_weights { 0.0 } else { -(-weight / self.total).ln_1p() };
        for (k, logit) in logits.iter_mut().enumerate() {
            let own = weight * responsibility(k);
            *logit =
                if own >= LEAST_RESPONSIBILITY * weight { self.logit_without(k, *logit, own, weight) } else { *logit + gain };
        }
    }

    fn logit_without(&self, k: usize, logit: f64, own: f64, weight: f64) -> f64 {
        let (density, ln_weight) = (&self.mixture.components()[k], self.mixture.weights()[k].ln());
        let ComponentSum { mass, shortfall, .. } = self.sums[k];
        let rest = mass - own;
        if !(rest > LEAST_RESPONSIBILITY * mass) {
            return f64::NEG_INFINITY;
        }
        let new_ln_weight = if self.fixed_weights { ln_weight } else { (rest / (self.total - weight)).ln() };
        let concentration = density.concentration();
        if concentration == 0.0 {
            return logit - ln_weight + new_ln_weight;
        }
        // |R|, and the row's deviation 1 - mu . x.
        let length = mass - shortfall;
        let deviation = ((density.ln_peak() + ln_weight - logit) / concentration).clamp(0.0, 2.0);
        // Of R without the row: its length, its product with the row, its deviation from the row.
        let new_length = ((length - own) * (length - own) + 2.0 * own * length * deviation).sqrt();
        let along = length * (1.0 - deviation) - own;
        let new_deviation = match along {
            _ if !(new_length > 0.0) => 1.0,
            along if along > 0.0 => length * length * deviation * (2.0 - deviation) / (new_length * (new_length + along)),
            along => 1.0 - along / new_length,
        };
        let (ln_peak, concentration) = match self.free {
            None => (density.ln_peak(), concentration),
            Some((estimator, largest)) => {
                let lost = 2.0 * own * length * deviation / (new_length + length - own);
                let complement = ((shortfall - lost) / rest).clamp(0.0, 1.0);
                let found = estimator.estimate(density.dim(), 1.0 - complement, complement).min(largest);
                (bessel::ln_peak(density.dim(), found), found)
            }
        };
        new_ln_weight + ln_peak - concentration * new_deviation
    }
}

/// The masses and shortfalls that a mixture expects of rows of this total weight.
pub(crate) fn expected_sums(mixture: &Mixture, weight: f64) -> Vec<ComponentSum> {
    let sum = |(density, share): (&crate::VonMisesFisher, &f64)| {
        let complement = bessel::mean_length_complement(density.dim(), density.concentration());
        ComponentSum::new(share * weight, share * weight * complement)
    };
    mixture.components().iter().zip(mixture.weights()).map(sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mixture::Assignment;
    use crate::rows::RowBatch;
    use crate::{SufficientStats, VonMisesFisher, m_step::maximise};

    /// The logits of every row under a mixture.
    fn logits(mixture: &Mixture, rows: &RowBatch) -> Vec<Vec<f64>> {
        let components = mixture.components().len();
        let densities = mixture.component_ln_densities(rows).unwrap();
        let add = |row: &[f64]| row.iter().zip(mixture.weights()).map(|(z, w)| z + w.ln()).collect();
        densities.chunks_exact(components).map(add).collect()
    }

    #[test]
    fn logits_without_a_row_are_those_of_an_m_step_without_it() {
        for (dim, concentration) in [(2, 3.0), (3, 400.0), (3, 1e7), (20, 15.0), (100, 60.0)] {
            let axis = |at: usize| (0..dim).map(|i| if i == at { 1.0 } else { 0.0 }).collect::<Vec<_>>();
            let density = |at, factor: f64| VonMisesFisher::new(axis(at), factor * concentration).unwrap();
            let truth = Mixture::new(vec![0.4, 0.6], vec![density(0, 1.0), density(1, 2.0)]).unwrap();
            let (values, _) = truth.sample_rows::<f64>(40, 3).unwrap();
            let rows = RowBatch::new(dim, &values).unwrap();
            let weights: Vec<f64> = (0..40).map(|row| 0.5 + f64::from(row % 3)).collect();
            let weighted = RowBatch::new(dim, &values).unwrap().with_weights(weights.clone()).unwrap();
            for policy in [ConcentrationPolicy::Free, ConcentrationPolicy::Fixed(concentration)] {
                let how = Maximisation::new().policy(policy).largest_concentration(1e12);
                let responsibilities = truth.responsibilities(&rows).unwrap();
                let mut stats = SufficientStats::zero(2, dim);
                truth.accumulate(&weighted, Assignment::Soft, &mut stats).unwrap();
                let (mixture, _) = maximise(&stats, &truth, &how).unwrap();
                let loo = LeaveOneOut::new(&mixture, &stats.sums(), 0.0, &how);
                let all = logits(&mixture, &rows);
                for left_out in 0..40 {
                    let mut kept = weights.clone();
                    kept[left_out] = 0.0;
                    let others = RowBatch::new(dim, &values).unwrap().with_weights(kept).unwrap();
                    let mut stats = SufficientStats::zero(2, dim);
                    truth.accumulate(&others, Assignment::Soft, &mut stats).unwrap();
                    let (without, _) = maximise(&stats, &truth, &how).unwrap();
                    let expected = &logits(&without, &rows)[left_out];
                    let mut found = all[left_out].clone();
                    loo.correct(&mut found, weights[left_out], |k| responsibilities[2 * left_out + k]);
                    for (found, expected) in found.iter().zip(expected) {
                        let error = (found - expected).abs() / (1.0 + expected.abs());
                        assert!(error < 1e-6, "{dim} {concentration} {policy} row {left_out}: {found} {expected}");
                    }
                }
            }
        }
    }
}
