//! The special functions of the von Mises-Fisher density: ln I, ln C, the mean length A and its
//! inverse.
//!
//! Notation: d the dimension, k the concentration, nu = d/2 - 1, u = sqrt(nu^2 + k^2). Formulas are
//! cited by their numbers in MATH.md. Two ideas avoid cancellation: logarithms are taken of
//! *normalised* constants ([`ln_partition`] and its complement), and A, 1 - A and A' are computed
//! from one quantity W of order d (MATH.md section 2) without subtractions.
//!
//! | what | branch | where it is used |
//! |---|---|---|
//! | all | limits at infinity | k > `HUGE_CONCENTRATION` = 1e100 |
//! | all | closed form | d = 1 |
//! | A, 1 - A, A' | 1/u expansion (`outer`) | `ratio_is_outer`: u >= 48; u >= 40 and k^2 > 3 nu^2; nu <= 9 and k >= 28; at d = 2, k >= 4 |
//! | A, 1 - A, A' | Langevin's closed form | d = 3, k > 1.5 |
//! | A, 1 - A, A' | Taylor series (`inner`) | k < 2e-3 |
//! | A, 1 - A, A' | upward from d = 2 or 3 (`inner`) | `ratio_is_upward`: d = 4, 5 and k >= 8; d = 6, 7 and k >= 18 |
//! | A, 1 - A, A' | downward recurrence (`inner`) | the rest |
//! | ln C, ln I, ... | 1/u expansion (`outer`) | `log_is_outer`: u >= 28.5 and k >= 2; at d = 2, k >= 8 |
//! | ln C, ln I, ... | 0F1 series (`inner`) | the rest |
//! | inverse of A | see `inverse` | |
//!
//! Measured against 25-digit references for every integer d from 2 to 1e7 in the tables of
//! `testdata/` (the accuracy table in the README prints the figures): A, 1 - A, the inverse and
//! [`ln_partition`] to better than 1e-15 relative; A' to 2e-15; k + ln C, the entropy and ln(e^-k
//! I) to 3e-15 max(1, |f|). ln C and ln I pass through zero as a difference of terms of size nu ln
//! nu and k A: their error is at most 3 ulp of that scale, about the error that rounding k to f64
//! causes by itself.
//!
//! Every function is total: a concentration that is negative or NaN, a negative order (except -1/2)
//! or a dimension of 0 gives NaN; an infinite concentration gives the limit. No function iterates
//! to a tolerance, and none panics.

mod divergence;
mod gamma;
mod inner;
mod inverse;
mod outer;
#[rustfmt::skip]
#[allow(clippy::approx_constant)]
mod series;

pub use divergence::{divergence, divergence_from_uniform, entropy};
pub use inverse::{concentration_from_complement, concentration_from_mean_length};

use crate::error_free::product;
use outer::Point;
use std::f64::consts::{FRAC_2_PI, LN_2, TAU};

/// Above this concentration the limits at infinity are exact in f64 (for d up to 1e7 even far below
/// it).
pub const HUGE_CONCENTRATION: f64 = 1e100;

/// True where the ratio is computed from the 1/u expansion.
#[inline]
fn ratio_is_outer(nu: f64, k: f64) -> bool {
    if nu == 0.0 {
        return k >= 4.0;
    }
    let square = nu * nu + k * k;
    square >= 48.0 * 48.0 || (nu <= 9.0 && k >= 28.0) || (square >= 40.0 * 40.0 && 3.0 * nu * nu < k * k)
}

/// True where the logarithms are computed from the 1/u expansion.
#[inline]
fn log_is_outer(nu: f64, k: f64) -> bool {
    if nu == 0.0 {
        return k >= 8.0;
    }
    k >= 2.0 && nu * nu + k * k >= 28.5 * 28.5
}

/// The mean length A_d(k) = E[mu . x] with its complement and its slope.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanLength {
    /// A_d(k), in [0, 1].
    pub value: f64,
    /// 1 - A_d(k), free of cancellation.
    pub complement: f64,
    /// A'_d(k): the variance of mu . x, and the Fisher information of k.
    pub slope: f64,
}

/// A function's value with its first and second derivative in the concentration (or in the
/// argument, for ln I).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Derivatives {
    /// f
    pub value: f64,
    /// f'
    pub first: f64,
    /// f''
    pub second: f64,
}

/// True if the arguments are in the domain of the functions below.
#[inline]
fn in_domain(d: f64, k: f64) -> bool {
    d >= 1.0 && k >= 0.0
}

/// The mean length A_d(k) = I_{d/2}(k) / I_{d/2-1}(k), the expected projection of a draw on the
/// mean direction.
///
/// Relative error below 1e-15 for d from 1 to 1e7 and every finite k >= 0.
///
/// ```
/// // d = 3 is Langevin's function coth(k) - 1/k.
/// let a = vmfkit_special::bessel::mean_length(3, 2.0);
/// assert!((a - (1.0 / 2f64.tanh() - 0.5)).abs() < 1e-15);
/// ```
#[inline]
pub fn mean_length(dim: usize, concentration: f64) -> f64 {
    let (d, k) = (dim as f64, concentration);
    if dim < 2 || !(0.0..=HUGE_CONCENTRATION).contains(&k) || (dim == 3 && k > 1.5) {
        return mean_length_and_slope(dim, k).value;
    }
    let nu = 0.5 * d - 1.0;
    if ratio_is_outer(nu, k) { Point::new(nu, k).mean_length() } else { inner::mean_length(d, k) }
}

/// 1 - A_d(k) without cancellation, relative error below 1e-15.
#[inline]
pub fn mean_length_complement(dim: usize, concentration: f64) -> f64 {
    mean_length_and_slope(dim, concentration).complement
}

/// A_d(k), 1 - A_d(k) and A'_d(k) in one evaluation.
///
/// The slope's relative error is below 2e-15 (below 1e-15 from d = 20 on); see the module's table
/// for the branches.
#[inline]
pub fn mean_length_and_slope(dim: usize, concentration: f64) -> MeanLength {
    ratio_parts(dim as f64, concentration)
}

/// [`mean_length_and_slope`] for a real dimension.
#[inline]
fn ratio_parts(d: f64, k: f64) -> MeanLength {
    if !in_domain(d, k) {
        return MeanLength { value: f64::NAN, complement: f64::NAN, slope: f64::NAN };
    }
    if d == 1.0 {
        let e = (-2.0 * k).exp();
        return MeanLength { value: k.tanh(), complement: 2.0 * e / (1.0 + e), slope: 4.0 * e / ((1.0 + e) * (1.0 + e)) };
    }
    if k > HUGE_CONCENTRATION {
        let complement = 0.5 * (d - 1.0) / k;
        return MeanLength { value: 1.0, complement, slope: complement / k };
    }
    let nu = 0.5 * d - 1.0;
    if d == 3.0 && k > 1.5 {
        return langevin(k);
    }
    if ratio_is_outer(nu, k) { Point::new(nu, k).mean_length_and_slope() } else { inner::mean_length_and_slope(d, k) }
}

/// d = 3, k > 1.5, MATH.md (5.2).
#[inline]
fn langevin(k: f64) -> MeanLength {
    let e = (-2.0 * k).exp();
    let (inverse, rest) = (1.0 / k, 1.0 / (1.0 - e));
    let complement = inverse - 2.0 * e * rest;
    MeanLength { value: 1.0 - complement, complement, slope: inverse * inverse - 4.0 * e * rest * rest }
}

/// ln C_d(k), the logarithm of the density's normaliser.
///
/// The error is at most 3 ulp of max(1, nu ln nu, k A, |k + ln C|). For a density use [`ln_peak`],
/// which has no cancellation.
#[inline]
pub fn ln_normalizer(dim: usize, concentration: f64) -> f64 {
    let (d, k) = (dim as f64, concentration);
    let nu = 0.5 * d - 1.0;
    if !in_domain(d, k) {
        f64::NAN
    } else if k > HUGE_CONCENTRATION || d == 1.0 {
        ln_peak(dim, k) - k
    } else if log_is_outer(nu, k) {
        Point::new(nu, k).ln_normalizer()
    } else {
        gamma::ln_uniform(d) - ln_partition_inner(d, k)
    }
}

/// k + ln C_d(k): the log density at the mode. It stays moderate where ln C_d(k) is close to -k.
///
/// Absolute error below 3e-15 max(1, |f|).
///
/// ```
/// // The uniform density on the circle is 1/(2 pi).
/// let uniform = vmfkit_special::bessel::ln_peak(2, 0.0);
/// assert!((uniform + std::f64::consts::TAU.ln()).abs() < 1e-15);
/// ```
#[inline]
pub fn ln_peak(dim: usize, concentration: f64) -> f64 {
    let (d, k) = (dim as f64, concentration);
    let nu = 0.5 * d - 1.0;
    if !in_domain(d, k) {
        f64::NAN
    } else if d == 1.0 {
        0.0 - (-2.0 * k).exp().ln_1p()
    } else if k > HUGE_CONCENTRATION {
        0.5 * (d - 1.0) * (k * (1.0 / TAU)).ln()
    } else if log_is_outer(nu, k) {
        Point::new(nu, k).ln_peak()
    } else {
        gamma::ln_uniform(d) + ln_partition_complement_inner(d, k)
    }
}

/// ln C_d with its derivatives -A_d and -A'_d.
#[inline]
pub fn ln_normalizer_derivatives(dim: usize, concentration: f64) -> Derivatives {
    let ratio = mean_length_and_slope(dim, concentration);
    Derivatives { value: ln_normalizer(dim, concentration), first: -ratio.value, second: -ratio.slope }
}

/// k + ln C_d with its derivatives 1 - A_d and -A'_d.
#[inline]
pub fn ln_peak_derivatives(dim: usize, concentration: f64) -> Derivatives {
    let ratio = mean_length_and_slope(dim, concentration);
    Derivatives { value: ln_peak(dim, concentration), first: ratio.complement, second: -ratio.slope }
}

/// Phi = ln(C_d(0)/C_d(k)) = ln 0F1(; d/2; k^2/4): the cumulant function of mu . x under the
/// uniform density.
///
/// Relative error below 1e-15, also where k is tiny and Phi ~ k^2/(2d).
#[inline]
pub fn ln_partition(dim: usize, concentration: f64) -> f64 {
    let (d, k) = (dim as f64, concentration);
    if !in_domain(d, k) {
        return f64::NAN;
    }
    let nu = 0.5 * d - 1.0;
    if d == 1.0 || k > HUGE_CONCENTRATION || (log_is_outer(nu, k) && nu < 8.0) {
        if d == 1.0 && k < 1.0 {
            let half = (0.5 * k).sinh();
            return (2.0 * half * half).ln_1p();
        }
        return if k == f64::INFINITY { k } else { k - ln_partition_complement(dim, k) };
    }
    if log_is_outer(nu, k) { Point::new(nu, k).ln_partition() } else { ln_partition_inner(d, k) }
}

/// Psi = k - Phi = (k + ln C_d(k)) - ln C_d(0), relative error below 1e-15.
#[inline]
pub fn ln_partition_complement(dim: usize, concentration: f64) -> f64 {
    let (d, k) = (dim as f64, concentration);
    if !in_domain(d, k) {
        return f64::NAN;
    }
    let nu = 0.5 * d - 1.0;
    if d == 1.0 {
        return if k < 1.0 { k - ln_partition(dim, k) } else { LN_2 - (-2.0 * k).exp().ln_1p() };
    }
    if k > HUGE_CONCENTRATION || (log_is_outer(nu, k) && nu < 8.0) {
        return ln_peak(dim, k) - gamma::ln_uniform(d);
    }
    if log_is_outer(nu, k) { Point::new(nu, k).ln_partition_complement() } else { ln_partition_complement_inner(d, k) }
}

/// Phi in the inner region, MATH.md (4.3).
#[inline]
fn ln_partition_inner(d: f64, k: f64) -> f64 {
    // Here k <= 28.5, so k * k overflows nowhere; it may underflow, as Phi itself does.
    if k * k < 4e-17 * d { 0.5 * k * (k / d) } else { inner::hypergeometric_minus_one(d, k).ln_1p() }
}

/// Psi in the inner region.
#[inline]
fn ln_partition_complement_inner(d: f64, k: f64) -> f64 {
    if k < 2.0 {
        return k - ln_partition_inner(d, k);
    }
    -((1.0 + inner::hypergeometric_minus_one(d, k)) * (-k).exp()).ln()
}

/// ln I_s(x), the logarithm of the modified Bessel function of the first kind, for real s >= 0 (and
/// s = -1/2) and x >= 0.
///
/// It is -inf at x = 0 for s > 0. The error is at most 3 ulp of max(1, s, |ln I|), for s from 0 to
/// 5e6 and every finite x.
///
/// ```
/// // I_50(0.1) = 2.9e-130 is still an f64; I_1000(0.1) is not, its logarithm is.
/// let x = vmfkit_special::bessel::ln_bessel_i(1000.0, 0.1);
/// assert!((x - -8907.860449544652).abs() < 1e-11);
/// ```
#[inline]
pub fn ln_bessel_i(order: f64, x: f64) -> f64 {
    if !has_order(order) || !(x >= 0.0) {
        f64::NAN
    } else if x > HUGE_CONCENTRATION {
        if x == f64::INFINITY { x } else { x - 0.5 * (TAU.ln() + x.ln()) }
    } else if order == -0.5 {
        ln_partition(1, x) + 0.5 * (FRAC_2_PI.ln() - x.ln())
    } else if log_is_outer(order, x) {
        Point::new(order, x).ln_bessel_i()
    } else {
        let d = 2.0 * order + 2.0;
        ln_leading_power(order, x) + ln_partition_inner(d, x)
    }
}

/// ln(e^-x I_s(x)), the exponentially scaled form, absolute error below 3e-15 max(1, |f|).
#[inline]
pub fn ln_bessel_i_scaled(order: f64, x: f64) -> f64 {
    if !has_order(order) || !(x >= 0.0) {
        f64::NAN
    } else if x > HUGE_CONCENTRATION {
        -0.5 * (TAU.ln() + x.ln())
    } else if order == -0.5 {
        0.5 * (FRAC_2_PI.ln() - x.ln()) - ln_partition_complement(1, x)
    } else if log_is_outer(order, x) {
        Point::new(order, x).ln_bessel_i_scaled()
    } else {
        let d = 2.0 * order + 2.0;
        ln_leading_power(order, x) - ln_partition_complement_inner(d, x)
    }
}

/// True for the supported orders: -1/2 (d = 1), and 0 or more (d >= 2).
#[inline]
fn has_order(order: f64) -> bool {
    order >= 0.0 || order == -0.5
}

/// ln I_s with its derivatives A + s/x and A' - s/x^2, where A is the ratio I_{s+1}/I_s.
#[inline]
pub fn ln_bessel_i_derivatives(order: f64, x: f64) -> Derivatives {
    let ratio = ratio_parts(2.0 * order + 2.0, x);
    let slope = if order == 0.0 { 0.0 } else { order / x };
    let curvature = if order == 0.0 { 0.0 } else { slope / x };
    Derivatives { value: ln_bessel_i(order, x), first: ratio.value + slope, second: ratio.slope - curvature }
}

/// ln((x/2)^s / Gamma(s+1)); x/2 would underflow for a subnormal x.
#[inline]
fn ln_leading_power(order: f64, x: f64) -> f64 {
    let above = order + 1.0;
    if order == 0.0 {
        0.0
    } else if above >= gamma::STIRLING_FROM && x > 1e-290 {
        // s ln(x/2) and ln Gamma are each larger than their difference, so Stirling's terms are
        // merged before any is formed.
        let quotient = 0.5 * x / above;
        let (back, back_low) = product(quotient, above);
        let lost = ((0.5 * x - back) - back_low) / back;
        let (power, power_low) = product(order, quotient.ln());
        power + ((above - gamma::HALF_LN_TAU - gamma::stirling(above)) - 0.5 * above.ln() + (power_low + order * lost))
    } else {
        order * (x.ln() - LN_2) - gamma::ln_gamma(above)
    }
}

/// A function of one concentration, for a slice of them.
macro_rules! over_slices {
    ($($(#[$doc:meta])* $name:ident = $function:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Panics
        /// If the slices differ in length.
        pub fn $name(dim: usize, concentrations: &[f64], out: &mut [f64]) {
            assert_eq!(concentrations.len(), out.len(), "one element of `out` for each concentration");
            for (value, &concentration) in out.iter_mut().zip(concentrations) {
                *value = $function(dim, concentration);
            }
        }
    )*};
}

over_slices! {
    /// [`mean_length`] of each concentration.
    mean_length_slice = mean_length;
    /// [`mean_length_complement`] of each concentration.
    mean_length_complement_slice = mean_length_complement;
    /// [`ln_normalizer`] of each concentration.
    ln_normalizer_slice = ln_normalizer;
    /// [`ln_peak`] of each concentration.
    ln_peak_slice = ln_peak;
    /// [`concentration_from_mean_length`] of each mean length.
    concentration_from_mean_length_slice = concentration_from_mean_length;
    /// [`concentration_from_complement`] of each complement.
    concentration_from_complement_slice = concentration_from_complement;
}

/// [`mean_length_and_slope`] of each concentration.
///
/// # Panics
/// If the slices differ in length.
pub fn mean_length_and_slope_slice(dim: usize, concentrations: &[f64], out: &mut [MeanLength]) {
    assert_eq!(concentrations.len(), out.len(), "one element of `out` for each concentration");
    for (value, &concentration) in out.iter_mut().zip(concentrations) {
        *value = mean_length_and_slope(dim, concentration);
    }
}

/// ln C_d and its first two derivatives, each into its own slice, as automatic differentiation
/// needs them.
///
/// # Panics
/// If the slices differ in length.
pub fn ln_normalizer_derivatives_slice(
    dim: usize,
    concentrations: &[f64],
    value: &mut [f64],
    first: &mut [f64],
    second: &mut [f64],
) {
    let n = concentrations.len();
    assert!([value.len(), first.len(), second.len()] == [n; 3], "one element for each concentration");
    for (i, &concentration) in concentrations.iter().enumerate() {
        let jet = ln_normalizer_derivatives(dim, concentration);
        (value[i], first[i], second[i]) = (jet.value, jet.first, jet.second);
    }
}
