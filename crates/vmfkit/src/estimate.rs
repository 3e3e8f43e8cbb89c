//! Maximum likelihood of one density from sufficient statistics, and estimators of the
//! concentration.

use crate::bessel::{self, HUGE_CONCENTRATION, mean_length_and_slope};
use crate::density::VonMisesFisher;
use crate::error::{Error, ParseChoiceError, Result};
use crate::stats::SufficientStats;
use vmfkit_kernels::vector::half_squared_distance;

/// How to compute the concentration k from the mean length R of the rows, MATH.md section 9.
///
/// The maximum of the likelihood solves A_d(k) = R. Use [`Exact`](Self::Exact), which computes the
/// root to the last digits at the cost of one evaluation of A_d. The others are published
/// approximations, to reproduce results obtained with them. Their largest relative errors over all
/// R:
///
/// | d | Banerjee | Tanabe | Sra | Song | Exact |
/// |---|---|---|---|---|---|
/// | 2 | 6.5e-2 | 6.0e-1 | 2.7e-5 | 2.2e-15 | 9e-16 |
/// | 3 | 4.9e-2 | 5.9e-2 | 5.7e-6 | 4e-16 | 4e-16 |
/// | 10 | 1.7e-2 | 1.6e-3 | 4.0e-8 | 4e-16 | 4e-16 |
/// | 100 | 1.7e-3 | 1.1e-5 | 3.7e-12 | 4e-16 | 4e-16 |
/// | 1000 | 1.7e-4 | 1.0e-7 | 1.0e-15 | 7e-16 | 4e-16 |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ConcentrationEstimator {
    /// R (d - R^2)/(1 - R^2), MATH.md (9.1), also the batch estimator of Kim (2021). Banerjee,
    /// Dhillon, Ghosh and Sra, JMLR 6 (2005) 1345.
    Banerjee,
    /// One secant step between two bounds of the root, MATH.md (9.2). Tanabe, Fukumizu, Oba,
    /// Takenouchi and Ishii, doi:10.1007/s00180-007-0030-7.
    Tanabe,
    /// Two Newton steps from Banerjee's estimate. Sra, doi:10.1007/s00180-011-0232-x.
    Sra,
    /// Two Halley steps from Banerjee's estimate, MATH.md (9.3). Song, Liu and Wang,
    /// doi:10.1016/j.spl.2012.05.003.
    Song,
    /// The root to the last digits, MATH.md section 6.
    #[default]
    Exact,
}

impl ConcentrationEstimator {
    /// All estimators, in order of publication.
    pub const ALL: [Self; 5] = [Self::Banerjee, Self::Tanabe, Self::Sra, Self::Song, Self::Exact];

    /// The name used on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Banerjee => "banerjee",
            Self::Tanabe => "tanabe",
            Self::Sra => "sra",
            Self::Song => "song",
            Self::Exact => "exact",
        }
    }

    /// The concentration of rows of dimension `dim` with mean length `length`; `complement` is
    /// 1 - `length`, passed separately to keep its digits.
    ///
    /// It is 0 if `length` is 0, infinite if `complement` is 0, and NaN if either is negative.
    pub fn estimate(self, dim: usize, length: f64, complement: f64) -> f64 {
        if !(length >= 0.0 && complement >= 0.0) {
            return f64::NAN;
        }
        if complement == 0.0 {
            return f64::INFINITY;
        }
        if length == 0.0 {
            return 0.0;
        }
        let d = dim as f64;
        // A(k) - R, from the complements if they are smaller; A(k); and k A'(k), which does not
        // underflow.
        let residual = |k: f64| {
            let at = mean_length_and_slope(dim, k);
            let error = if length >= 0.5 { complement - at.complement } else { at.value - length };
            (error, at.value, if k > HUGE_CONCENTRATION { at.complement } else { k * at.slope })
        };
        let banerjee = length * (d - length * length) / (1.0 + length) / complement;
        match self {
            Self::Banerjee => banerjee,
            Self::Tanabe => {
                let scale = length / (1.0 + length) / complement;
                let (low, high) = ((d - 2.0) * scale, d * scale);
                // k R/A(k) - k, which is 0 at the solution; its limit at k = 0 is d R.
                let excess = |k: f64| {
                    let (error, value, _) = residual(k);
                    if k > 0.0 { -k * (error / value) } else { d * length }
                };
                let (at_low, at_high) = (excess(low), excess(high));
                low + (high - low) * (at_low / (at_low - at_high))
            }
            Self::Sra => (0..2).fold(banerjee, |k, _| {
                let (error, _, slope) = residual(k);
                k - k * (error / slope)
            }),
            Self::Song => (0..2).fold(banerjee, |k, _| {
                let (error, value, slope) = residual(k);
                // k^2 A'', MATH.md (9.3), or its limit -(d-1)/k where that formula loses all
                // digits.
                let bend = if k > 1e8 * d { (1.0 - d) / k } else { -2.0 * value * k * slope - (d - 1.0) * (slope - value) };
                let newton = error / slope;
                k - k * newton / (1.0 - 0.5 * newton * (bend / slope))
            }),
            Self::Exact if length >= 0.5 => bessel::concentration_from_complement(dim, complement),
            Self::Exact => bessel::concentration_from_mean_length(dim, length),
        }
    }
}

impl std::str::FromStr for ConcentrationEstimator {
    type Err = ParseChoiceError;

    fn from_str(text: &str) -> std::result::Result<Self, ParseChoiceError> {
        let found = Self::ALL.into_iter().find(|estimator| estimator.name() == text);
        found.ok_or_else(|| ParseChoiceError::new("estimator", &Self::ALL.map(Self::name), text))
    }
}

/// The maximum likelihood estimate of one density from the statistics of component 0.
///
/// Rows that sum to zero give the uniform density. See
/// [`Inference`](crate::inference::Inference) for standard errors and intervals, and
/// [`Fitter`](crate::Fitter) for mixtures.
///
/// # Errors
/// [`Error::NoRows`]; [`Error::AllRowsEqual`], because the likelihood then grows without bound.
pub fn maximum_likelihood(stats: &SufficientStats, estimator: ConcentrationEstimator) -> Result<VonMisesFisher> {
    let (length, complement) = mean_resultant(stats)?;
    let concentration = estimator.estimate(stats.dim(), length, complement);
    if length == 0.0 {
        return VonMisesFisher::uniform(stats.dim());
    }
    if concentration == f64::INFINITY {
        return Err(Error::AllRowsEqual { weight: stats.mass(0) });
    }
    VonMisesFisher::along(stats.resultant(0).to_vec(), concentration)
}

/// The mean length R of the rows of component 0, and 1 - R to full relative accuracy.
///
/// # Errors
/// [`Error::NoRows`].
pub fn mean_resultant(stats: &SufficientStats) -> Result<(f64, f64)> {
    let mass = if stats.components() > 0 { stats.mass(0) } else { 0.0 };
    if !(mass > 0.0) {
        return Err(Error::NoRows { weight: mass });
    }
    Ok(stats.mean_length(0))
}

/// The log-likelihood of a density from the statistics of component 0, without another pass over
/// the rows, MATH.md (8.3).
pub fn ln_likelihood(stats: &SufficientStats, model: &VonMisesFisher) -> f64 {
    let (mass, length) = (stats.mass(0), stats.resultant_length(0));
    // mass - mu . resultant = shortfall + |resultant| (1 - cos), a sum without cancellation.
    let deviation = if length > 0.0 {
        let direction: Vec<f64> = stats.resultant(0).iter().map(|x| x / length).collect();
        half_squared_distance(&direction, model.mean_direction())
    } else {
        0.0
    };
    mass * model.ln_peak() - model.concentration() * (stats.shortfall(0) + length * deviation)
}
