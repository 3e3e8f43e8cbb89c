//! [`ConcentrationPolicy`]: how the concentrations of a mixture are tied across its components.

use crate::bessel;
use crate::error::ParseChoiceError;

/// How the concentrations of a mixture are tied across its components, MATH.md (14.4).
///
/// The default, [`Self::Auto`], leaves concentrations free if the rows fit the model and bounds
/// their ratio if they do not. Use [`Self::Free`] for maximum likelihood whatever the rows,
/// [`Self::Shared`] for soft spherical k-means, [`Self::Ratio`] to choose the bound, and
/// [`Self::Fixed`] if the concentration is known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum ConcentrationPolicy {
    /// [`Self::Free`] if the [dispersion](crate::dispersion::dispersion) of the rows is at most
    /// [`LARGEST_DISPERSION`], else [`Self::Ratio`] with [`auto_ratio`]. A
    /// [`Fitter`](crate::Fitter) measures the dispersion on the sample of its start. An M step
    /// without a dispersion leaves concentrations free.
    #[default]
    Auto,
    /// Each component has its own concentration: maximum likelihood. A component can collapse onto
    /// a few nearly equal rows.
    Free,
    /// All components have the same concentration, which is estimated.
    Shared,
    /// All components have this concentration.
    Fixed(f64),
    /// Each component has its own concentration, and the largest is at most this many times the
    /// smallest: maximum likelihood under that bound.
    Ratio(f64),
}

/// The largest dispersion that [`ConcentrationPolicy::Auto`] accepts as a fit of the model: the
/// variance along the mean directions is at most 1.5 times that of the model.
pub const LARGEST_DISPERSION: f64 = 1.5;

/// The complement of the mean length of equal rows in f32 is at most this; their lengths are
/// rounded.
pub(crate) const NEARLY_EQUAL_ROWS: f64 = 1e-7;

/// The nats that a component can gain over another at the same point by its concentration alone,
/// under [`auto_ratio`].
const NATS: f64 = 10.0;

/// The bound exp(20 / (d - 1)) of [`ConcentrationPolicy::Auto`] on the ratio of two concentrations
/// if rows do not fit the model, MATH.md (14.8): 22,000 at d = 3, 1.2 at d = 100, 1.05 at d = 384.
///
/// ```
/// assert_eq!(vmfkit::policy::auto_ratio(3).round(), 22026.0);
/// ```
pub fn auto_ratio(dim: usize) -> f64 {
    (2.0 * NATS / (dim.max(2) - 1) as f64).exp()
}

impl ConcentrationPolicy {
    /// The name used on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Free => "free",
            Self::Shared => "shared",
            Self::Fixed(_) => "fixed",
            Self::Ratio(_) => "ratio",
        }
    }

    /// Resolves [`Self::Auto`] for rows of this dimension and dispersion; other policies are
    /// unchanged.
    pub fn decided(self, dim: usize, dispersion: Option<f64>) -> Self {
        match (self, dispersion) {
            (Self::Auto, Some(dispersion)) if dispersion > LARGEST_DISPERSION => Self::Ratio(auto_ratio(dim)),
            (Self::Auto, _) => Self::Free,
            (other, _) => other,
        }
    }
}

/// The name, with its number after a colon if it has one: `fixed:50`, `ratio:2`.
impl std::fmt::Display for ConcentrationPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::Auto | Self::Free | Self::Shared => f.write_str(self.name()),
            Self::Fixed(number) | Self::Ratio(number) => write!(f, "{}:{number}", self.name()),
        }
    }
}

/// The policies as users write them.
const POLICIES: &[&str] = &["auto", "free", "shared", "fixed:CONCENTRATION", "ratio:RATIO"];

impl std::str::FromStr for ConcentrationPolicy {
    type Err = ParseChoiceError;

    fn from_str(text: &str) -> std::result::Result<Self, ParseChoiceError> {
        let unknown = || ParseChoiceError::new("policy", POLICIES, text);
        let (name, number) = text.split_once(':').map_or((text, None), |(name, number)| (name, Some(number)));
        let number = number.map(|number| number.parse().map_err(|error| unknown().with_number(number, error)));
        match (name, number.transpose()?) {
            ("auto", None) => Ok(Self::Auto),
            ("free", None) => Ok(Self::Free),
            ("shared", None) => Ok(Self::Shared),
            ("fixed", Some(concentration)) => Ok(Self::Fixed(concentration)),
            ("ratio", Some(ratio)) => Ok(Self::Ratio(ratio)),
            _ => Err(unknown()),
        }
    }
}

/// The evidence for the concentration of one component.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evidence {
    /// The weight of the rows.
    pub mass: f64,
    /// Their mean length and its complement.
    pub length: f64,
    pub complement: f64,
    /// The concentration that fits them alone.
    pub concentration: f64,
}

/// The smallest concentration of the maximum likelihood estimate under the bound that the largest
/// is at most `ratio` times the smallest, MATH.md (14.9). Each component then has its own
/// concentration, clamped to \[smallest, ratio * smallest\].
///
/// The likelihood of a component is concave in its concentration, so its maximum over an interval
/// \[c, ratio c\] is concave in c, and the slope of the sum falls as c grows: bisection finds its
/// zero.
pub(crate) fn smallest_within_ratio(dim: usize, ratio: f64, evidence: &[Evidence]) -> f64 {
    let concentrations = || evidence.iter().map(|e| e.concentration);
    let (least, most) = (concentrations().fold(f64::INFINITY, f64::min), concentrations().fold(0.0, f64::max));
    if most <= ratio * least {
        return least;
    }
    let slope = |smallest: f64| {
        let largest = ratio * smallest;
        let below = evidence.iter().filter(|e| e.concentration < smallest);
        let above = evidence.iter().filter(|e| e.concentration > largest);
        slope_at(dim, smallest, below) + ratio * slope_at(dim, largest, above)
    };
    let (mut low, mut high) = (least, most / ratio);
    loop {
        let middle = 0.5 * (low + high);
        if !(low < middle && middle < high) {
            return high;
        }
        if slope(middle) > 0.0 { low = middle } else { high = middle }
    }
}

/// The derivative of the log-likelihood of these components in the concentration they share.
fn slope_at<'a>(dim: usize, concentration: f64, evidence: impl Iterator<Item = &'a Evidence>) -> f64 {
    let (mass, length, complement) = evidence.fold((0.0, 0.0, 0.0), |(mass, length, complement), e| {
        (mass + e.mass, length + e.mass * e.length, complement + e.mass * e.complement)
    });
    if !(mass > 0.0) {
        return 0.0;
    }
    // Near 1, the difference of complements keeps digits that the plain difference loses.
    if length > 0.5 * mass {
        mass * bessel::mean_length_complement(dim, concentration) - complement
    } else {
        length - mass * bessel::mean_length(dim, concentration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::ConcentrationEstimator;

    fn evidence(dim: usize, mass: f64, concentration: f64) -> Evidence {
        let mean = bessel::mean_length_and_slope(dim, concentration);
        let found = ConcentrationEstimator::Exact.estimate(dim, mean.value, mean.complement);
        Evidence { mass, length: mean.value, complement: mean.complement, concentration: found }
    }

    /// Sum of N_m (ln C(k_m) + k_m r_m), up to terms that do not depend on k_m.
    fn likelihood(dim: usize, evidence: &[Evidence], smallest: f64, ratio: f64) -> f64 {
        let worth = |e: &Evidence| {
            let k = e.concentration.clamp(smallest, ratio * smallest);
            e.mass * (bessel::ln_peak(dim, k) - k * e.complement)
        };
        evidence.iter().map(worth).sum()
    }

    #[test]
    fn the_bound_costs_the_least_likelihood_possible() {
        for (dim, concentrations) in [
            (3, [1.0, 40.0, 3000.0]),
            (10, [0.0, 5.0, 900.0]),
            (100, [50.0, 60.0, 400.0]),
            (384, [200.0, 1e4, 1e6]),
            (5, [1e-3, 1e-2, 1e8]),
        ] {
            for ratio in [1.0, 1.05, 2.0, 30.0] {
                let parts: Vec<_> = [30.0, 5.0, 100.0].iter().zip(concentrations).map(|(&n, k)| evidence(dim, n, k)).collect();
                let found = smallest_within_ratio(dim, ratio, &parts);
                let best = likelihood(dim, &parts, found, ratio);
                for factor in [0.5, 0.99, 0.9999, 1.0001, 1.01, 2.0] {
                    let other = likelihood(dim, &parts, factor * found, ratio);
                    assert!(other <= best + 1e-9 * best.abs(), "{dim} {ratio} {factor}: {other} above {best}");
                }
            }
        }
    }

    #[test]
    fn a_ratio_of_1_is_the_shared_concentration() {
        for dim in [2, 3, 50, 1000] {
            let parts: Vec<_> = [(3.0, 0.5), (20.0, 7.0), (4.0, 300.0)].into_iter().map(|(n, k)| evidence(dim, n, k)).collect();
            let mass: f64 = parts.iter().map(|e| e.mass).sum();
            let pooled = |of: fn(&Evidence) -> f64| parts.iter().map(|e| e.mass * of(e)).sum::<f64>() / mass;
            let shared = ConcentrationEstimator::Exact.estimate(dim, pooled(|e| e.length), pooled(|e| e.complement));
            let found = smallest_within_ratio(dim, 1.0, &parts);
            assert!((found / shared - 1.0).abs() < 1e-12, "{dim}: {found} {shared}");
        }
    }

    #[test]
    fn concentrations_within_the_bound_stay_as_they_are() {
        let parts = [evidence(5, 10.0, 4.0), evidence(5, 1.0, 7.9)];
        assert_eq!(smallest_within_ratio(5, 2.0, &parts), parts[0].concentration);
    }

    #[test]
    fn auto_is_free_up_to_the_largest_dispersion_and_a_ratio_above_it() {
        let auto = ConcentrationPolicy::Auto;
        assert_eq!(auto.decided(384, None), ConcentrationPolicy::Free);
        assert_eq!(auto.decided(384, Some(1.5)), ConcentrationPolicy::Free);
        assert_eq!(auto.decided(384, Some(1.5000001)), ConcentrationPolicy::Ratio(auto_ratio(384)));
        assert_eq!(ConcentrationPolicy::Shared.decided(384, Some(20.0)), ConcentrationPolicy::Shared);
        let rounded = |dim: usize| (auto_ratio(dim) * 100.0).round() / 100.0;
        assert_eq!((rounded(5), rounded(100), rounded(384)), (148.41, 1.22, 1.05));
        assert!(auto_ratio(2).is_finite() && auto_ratio(1_000_000) > 1.0);
    }

    #[test]
    fn policies_are_read_as_they_are_written() {
        let policies = [
            ConcentrationPolicy::Auto,
            ConcentrationPolicy::Free,
            ConcentrationPolicy::Shared,
            ConcentrationPolicy::Fixed(0.1),
            ConcentrationPolicy::Ratio(1.0536),
        ];
        for policy in policies {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        for wrong in ["shrunk", "shrunk:1", "auto:1", "ratio", "fixed", "free:2", "ratio:many"] {
            assert!(wrong.parse::<ConcentrationPolicy>().is_err(), "{wrong}");
        }
    }
}
