//! [`mean_direction`]: a test of one mean direction.

use super::tails;
use super::{Calibration, Outcome};
use crate::bessel::{self, HUGE_CONCENTRATION, mean_length_and_slope};
use crate::density_grid::upper_tail;
use crate::error::{Error, Result};
use crate::estimate::{ConcentrationEstimator, mean_resultant};
use crate::inference::Inference;
use crate::saddlepoint::{ln_density_of_sum, ln_slope};
use crate::stats::SufficientStats;
use vmfkit_kernels::vector::{half_squared_distance, norm};

/// Tests whether the mean direction of the rows of component 0 is `direction`, a unit vector mu0.
/// The concentration is unknown.
///
/// The statistic is the likelihood ratio, MATH.md (15.1).
///
/// - [`Calibration::Conditional`], the usual choice, conditions on mu0 . R, MATH.md (15.2). The p-value
///   does not depend on the concentration, and equals that of the F test for large concentrations. If
///   the sum of the rows points away from mu0, it is the p-value of Rayleigh's test.
/// - [`Calibration::LikelihoodRatio`] uses the chi-squared distribution with d - 1 degrees of freedom.
/// - [`Calibration::HighConcentration`] uses the statistic F = (n-1)(r - mu0 . R)/(n - r).
///
/// ```
/// use vmfkit::hypothesis::{Calibration, mean_direction};
/// use vmfkit::{RowBatch, SufficientStats};
/// let rows = [0.0, 0.0, 1.0, 0.0, 0.6, 0.8, 0.6, 0.0, 0.8, 0.0, -0.28, 0.96];
/// let stats = SufficientStats::of_batch(&RowBatch::new(3, &rows)?);
/// assert!(mean_direction(&stats, &[0.0, 0.0, 1.0], Calibration::Conditional)?.p_value > 0.1);
/// assert!(mean_direction(&stats, &[1.0, 0.0, 0.0], Calibration::Conditional)?.p_value < 0.01);
/// # Ok::<(), vmfkit::Error>(())
/// ```
///
/// # Errors
/// [`Error::DimensionMismatch`], [`Error::MeanDirection`], [`Error::NoRows`],
/// [`Error::AllRowsEqual`]; [`Error::CalibrationNotSupported`] for [`Calibration::Simulation`].
pub fn mean_direction(stats: &SufficientStats, direction: &[f64], calibration: Calibration) -> Result<Outcome> {
    let length = norm(direction);
    if direction.len() != stats.dim() {
        return Err(Error::DimensionMismatch { expected: stats.dim(), found: direction.len() });
    }
    if !((length - 1.0).abs() <= 1e-6) {
        return Err(Error::MeanDirection { norm: length });
    }
    let inference = Inference::new(stats)?;
    let sample = Sample::new(stats, direction, length, &inference)?;
    let Sample { dim, weight: n, .. } = sample;
    let (across, statistic) = (dim as f64 - 1.0, sample.likelihood_ratio());
    let outcome = |p_value| Ok(Outcome { statistic, degrees_of_freedom: (across, None), p_value });
    match calibration {
        Calibration::Conditional if sample.along <= 0.0 => outcome(inference.rayleigh_test().p_value),
        Calibration::Conditional => outcome(sample.conditional_p_value()),
        Calibration::LikelihoodRatio => outcome(tails::chi_squared(statistic, across)),
        Calibration::HighConcentration => {
            let degrees = (across, (n - 1.0) * across);
            let f = (n - 1.0) * sample.excess / stats.shortfall(0);
            Ok(Outcome { statistic: f, degrees_of_freedom: (degrees.0, Some(degrees.1)), p_value: tails::f(f, degrees) })
        }
        Calibration::Simulation { .. } => Err(Error::CalibrationNotSupported {
            test: "a test of one mean direction",
            found: calibration.name(),
            supported: "conditional, likelihood-ratio or high-concentration",
        }),
    }
}

struct Sample {
    dim: usize,
    /// n
    weight: f64,
    /// The maximum likelihood concentration.
    free: f64,
    /// The maximum likelihood concentration if the mean direction is mu0.
    restricted: f64,
    /// c = mu0 . R
    along: f64,
    /// r - c, to full relative accuracy
    excess: f64,
}

impl Sample {
    fn new(stats: &SufficientStats, direction: &[f64], length: f64, inference: &Inference) -> Result<Self> {
        let (n, r) = (stats.mass(0), stats.mass(0) * mean_resultant(stats)?.0);
        let unit: Vec<f64> = direction.iter().map(|x| x / length).collect();
        let mean: Vec<f64> = stats.resultant(0).iter().map(|x| x / norm(stats.resultant(0)).max(f64::MIN_POSITIVE)).collect();
        let excess = if r > 0.0 { r * half_squared_distance(&mean, &unit) } else { 0.0 };
        let along = r - excess;
        let complement = ((stats.shortfall(0) + excess) / n).min(1.0);
        let restricted = ConcentrationEstimator::Exact.estimate(stats.dim(), (along / n).max(0.0), complement);
        Ok(Sample { dim: stats.dim(), weight: n, free: inference.concentration(), restricted, along, excess })
    }

    /// MATH.md (15.1).
    fn likelihood_ratio(&self) -> f64 {
        let gain =
            bessel::divergence_from_uniform(self.dim, self.free) - bessel::divergence_from_uniform(self.dim, self.restricted);
        (2.0 * self.weight * gain).max(0.0)
    }

    /// MATH.md (15.2) in z = ln(k - k0), where A(k) = r/n and A(k0) = c/n.
    fn conditional_p_value(&self) -> f64 {
        let (dim, n, d, k0) = (self.dim, self.weight, self.dim as f64, self.restricted);
        if self.excess <= 0.0 || self.free <= k0 {
            return 1.0;
        }
        let at_k0 = mean_length_and_slope(dim, k0);
        let ln_density = |z: f64| {
            let step = z.exp();
            let k = k0 + step;
            let at = mean_length_and_slope(dim, k);
            // A(k) - A(k0): by the slope for small steps, where the difference would cancel.
            let rise = if step < 1e-7 * k {
                // At huge concentrations the slope underflows.
                if k > HUGE_CONCENTRATION { at.complement * (step / k) } else { step * at.slope }
            } else if at_k0.value < 0.5 {
                at.value - at_k0.value
            } else {
                at_k0.complement - at.complement
            };
            let square = rise * (at.value + at_k0.value);
            0.5 * (d - 3.0) * square.ln() + at.value.ln() + ln_slope(dim, k) + z + ln_density_of_sum(dim, n, k)
        };
        upper_tail(ln_density, (self.free - k0).ln(), (self.free - k0).ln(), 0.25 / d.sqrt())
    }
}
