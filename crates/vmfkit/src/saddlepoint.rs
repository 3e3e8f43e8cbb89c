//! The saddlepoint approximation to the density of the sum of n uniform rows, with its correction
//! of order 1/n. MATH.md (12.3) and (12.6).

use crate::bessel::{self, HUGE_CONCENTRATION, mean_length_and_slope};

/// The log density, in R^d and up to a constant, of a sum of n uniform rows at length n A(k).
pub(crate) fn ln_density_of_sum(dim: usize, n: f64, k: f64) -> f64 {
    let ln_ratio = bessel::mean_length(dim, k).ln() - k.ln();
    -n * bessel::divergence_from_uniform(dim, k) - 0.5 * (ln_slope(dim, k) + (dim as f64 - 1.0) * ln_ratio)
        + correction(dim, k) / n
}

/// ln A'(k), also for large k, where A' ~ (d-1)/(2k^2) underflows.
pub(crate) fn ln_slope(dim: usize, k: f64) -> f64 {
    if k > HUGE_CONCENTRATION { (0.5 * (dim as f64 - 1.0)).ln() - 2.0 * k.ln() } else { mean_length_and_slope(dim, k).slope.ln() }
}

/// The correction c(k), MATH.md (12.6): the density is multiplied by exp(c/n).
///
/// It is computed from the cumulants of a vMF, whose third and fourth orders are derivatives of A
/// and of B = A/k. They lose their digits for very small and very large k, where c equals its
/// limits.
pub(crate) fn correction(dim: usize, k: f64) -> f64 {
    let d = dim as f64;
    if k * k < 1e-4 * d {
        return -0.25 * d;
    }
    let m = d - 1.0;
    if k > 1e3 * d {
        return -1.0 / (6.0 * m) - 0.5 - 0.25 * m;
    }
    let at = mean_length_and_slope(dim, k);
    let (a, a1, b) = (at.value, at.slope, at.value / k);
    let b1 = (a1 - b) / k;
    let a2 = -2.0 * a * a1 - m * b1;
    let b2 = (a2 - 2.0 * b1) / k;
    let a3 = -2.0 * a1 * a1 - 2.0 * a * a2 - m * b2;
    let fourth = a3 / (a1 * a1) + 2.0 * m * b2 / (a1 * b) + m * (d + 1.0) * b1 / (k * b * b);
    let skew = a2 / a1 + m * b1 / b;
    let third = a2 * a2 / (a1 * a1 * a1) + 3.0 * m * b1 * b1 / (a1 * b * b);
    fourth / 8.0 - skew * skew / (8.0 * a1) - third / 12.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula is continuous with the limits at both cut-offs.
    #[test]
    fn correction_is_continuous_at_its_cut_offs() {
        for dim in [2, 3, 5, 10, 100, 1000] {
            let d = dim as f64;
            let range = (correction(dim, 0.0) - correction(dim, f64::MAX)).abs();
            for edge in [1e-2 * d.sqrt(), 1e3 * d] {
                let (below, above) = (correction(dim, edge * (1.0 - 1e-9)), correction(dim, edge * (1.0 + 1e-9)));
                assert!((below - above).abs() < 3e-3 * range, "d = {dim}, k = {edge}: {below} and {above}");
            }
        }
        // The limits are -d/4 and -1/(6(d-1)) - 1/2 - (d-1)/4.
        assert!((correction(3, 0.0) + 0.75).abs() < 1e-15 && (correction(3, 1e9) + 1.0 / 12.0 + 1.0).abs() < 1e-15);
    }
}
