//! The inner region: a downward recurrence for the ratio and the 0F1 series for the logarithm.
//! MATH.md, section 4.

use super::outer::Point;
use super::{MeanLength, langevin};
use crate::error_free::product;

/// Below this concentration W is taken from its Taylor series, MATH.md (4.1).
pub(super) const SMALL_CONCENTRATION: f64 = 2e-3;

/// True where W is computed upwards from d = 2 or 3: there the alternating sum of the downward
/// recurrence loses digits.
#[inline]
pub(super) fn ratio_is_upward(d: f64, k: f64) -> bool {
    (d == 4.0 || d == 5.0) && k >= 8.0 || (d == 6.0 || d == 7.0) && k >= 18.0
}

/// W = k^2 A'/A^2, MATH.md (2.1).
#[inline]
fn slope_invariant(d: f64, k: f64) -> f64 {
    if k < SMALL_CONCENTRATION {
        slope_invariant_small(d, k)
    } else if ratio_is_upward(d, k) {
        slope_invariant_upward(d, k)
    } else {
        slope_invariant_recurrence(d, k)
    }
}

/// MATH.md (2.6), read upwards: each step damps the error of W while k exceeds d, but that of A
/// grows, so two steps at most.
#[inline]
fn slope_invariant_upward(d: f64, k: f64) -> f64 {
    let (mut from, start) = if d % 2.0 == 0.0 { (2.0, Point::new(0.0, k).mean_length_and_slope()) } else { (3.0, langevin(k)) };
    let mut a = start.value;
    let mut w = (k / a) * (k / a) * start.slope;
    while from < d {
        a = 1.0 / a - from / k;
        w = (from - w) / (a * a);
        from += 2.0;
    }
    w
}

/// MATH.md (4.1).
#[inline]
fn slope_invariant_small(d: f64, k: f64) -> f64 {
    let t = k * k / (d + 2.0);
    d - t * (1.0 - 3.0 * t / (d + 4.0))
}

/// MATH.md (4.2): y_j is proportional to I_{nu+j}; the starting error of 1e-5 shrinks by the
/// product of all A_j^2.
#[inline]
fn slope_invariant_recurrence(d: f64, k: f64) -> f64 {
    let nu = 0.5 * d - 1.0;
    let n = ((nu * nu + 28.0 * k).sqrt() - nu + 2.5) as usize + 2;
    let n = n + n % 2;

    let mu = nu + n as f64 + 1.0;
    let u = (mu * mu + k * k).sqrt();
    let w = 1.0 / u;
    let p = mu * w;
    let q = p * p;
    let start = mu * (1.0 + p) - 0.5 * (1.0 - q) * (1.0 - 2.0 * q);
    let mut after = k / (mu - 0.5 + u + 0.5 * q + 0.125 * w * (1.0 - q) * (5.0 * q - 1.0));
    let mut here = 1.0;
    let mut sum = 0.5 * start * after * after;

    // Two steps at a time: y_{j-2} straight from (y_j, y_{j+1}) halves the chain of dependent
    // operations.
    let step = 2.0 / k;
    let mut order = nu + n as f64;
    loop {
        let factor = step * order;
        let below = factor * here + after;
        sum += (order - 1.0) * below * below - order * here * here;
        if order - nu < 2.5 {
            return 2.0 * sum / (below * below);
        }
        let next_factor = step * (order - 1.0);
        let two_below = (factor * next_factor + 1.0) * here + next_factor * after;
        after = below;
        here = two_below;
        order -= 2.0;
    }
}

/// A_d, MATH.md (2.3).
#[inline]
pub(super) fn mean_length(d: f64, k: f64) -> f64 {
    let a = 0.5 * (d - 1.0);
    let w = slope_invariant(d, k);
    k / (a + (k * k + a * a + w).sqrt())
}

/// A_d, 1 - A_d and A'_d, MATH.md (2.3) to (2.5).
#[inline]
pub(super) fn mean_length_and_slope(d: f64, k: f64) -> MeanLength {
    let a = 0.5 * (d - 1.0);
    let w = slope_invariant(d, k);
    let s = (k * k + a * a + w).sqrt();
    let inverse = 1.0 / (a + s);
    MeanLength { value: k * inverse, complement: (a + (a * a + w) / (k + s)) * inverse, slope: w * inverse * inverse }
}

/// 0F1(; d/2; k^2/4) - 1, MATH.md (4.3).
#[inline]
pub(super) fn hypergeometric_minus_one(d: f64, k: f64) -> f64 {
    let (x, x_low) = product(0.5 * k, 0.5 * k);
    let (mut term, mut sum, mut slope) = (1.0, 0.0, 0.0);
    let (mut j, mut lower) = (1.0, 0.5 * d);
    loop {
        let (first, second) = (j * lower, (j + 1.0) * (lower + 1.0));
        let common = term * x / (first * second);
        let (odd, even) = (common * second, common * x);
        sum += odd + even;
        slope += j * odd + (j + 1.0) * even;
        term = even;
        if even <= 1e-17 * (1.0 + sum) {
            break;
        }
        j += 2.0;
        lower += 2.0;
    }
    // x carries a rounding error of up to eps/2, which the sum amplifies by k A/2; put its exact
    // value back.
    if x > 0.0 { sum + slope * (x_low / x) } else { sum }
}
