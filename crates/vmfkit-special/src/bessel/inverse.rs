//! The inverse of the mean length: the concentration k with A_d(k) = R. MATH.md, section 6.
//!
//! With g = k A'/A and c = (1 - R^2)/(1 + R^2), k = R (d - 1 + g)/((1 - R)(1 + R)) and g has an
//! asymptotic series in 1/(d - 1) whose first term is c.
//!
//! | branch | where |
//! |---|---|
//! | closed form (atanh) | d = 1 |
//! | k = d R | R < 1e-9 |
//! | the series alone, no Bessel function | d >= 64, or c < 1e-3 |
//! | a guess of g, one evaluation of A, 1 - A, A', and a third-order correction | the rest; the guess is the series for d >= 12, a rational function below |

use super::ratio_parts;
use super::series::*;

/// From this dimension on the series alone is exact in f64.
const SERIES_DIMENSION: f64 = 64.0;
/// Below this c, i.e. for R near 1, five terms are exact in any dimension.
const SERIES_CURVATURE: f64 = 1e-3;

/// Below this mean length k = d R exactly in f64 (the next term is of relative order R^2).
const SMALL_MEAN_LENGTH: f64 = 1e-9;

/// The concentration whose mean length is `mean_length`: the maximum likelihood estimate of k from
/// R.
///
/// The relative error is below 1e-15. Near R = 1 an f64 determines k to few digits: if 1 - R is
/// known, pass it to
/// [`concentration_from_complement`]. R = 0 gives 0, R = 1 gives infinity, and R outside [0, 1] gives NaN.
///
/// ```
/// use vmfkit_special::bessel::{concentration_from_mean_length, mean_length};
/// let k = concentration_from_mean_length(768, mean_length(768, 50.0));
/// assert!((k - 50.0).abs() < 1e-12);
/// ```
#[inline]
pub fn concentration_from_mean_length(dim: usize, mean_length: f64) -> f64 {
    invert(dim as f64, mean_length, 1.0 - mean_length)
}

/// The concentration with 1 - A_d(k) = `complement`: as [`concentration_from_mean_length`], with
/// full accuracy near R = 1.
#[inline]
pub fn concentration_from_complement(dim: usize, complement: f64) -> f64 {
    invert(dim as f64, 1.0 - complement, complement)
}

#[inline]
fn invert(d: f64, r: f64, complement: f64) -> f64 {
    if !(r >= 0.0 && complement >= 0.0 && d >= 1.0) {
        return f64::NAN;
    }
    if d == 1.0 {
        return 0.5 * (2.0 * r / complement).ln_1p();
    }
    if complement == 0.0 {
        return f64::INFINITY;
    }
    if r < SMALL_MEAN_LENGTH {
        return d * r;
    }
    let c = complement * (1.0 + r) / (1.0 + r * r);
    let g = if d >= SERIES_DIMENSION || c < SERIES_CURVATURE { series(d, r, c) } else { corrected(d, r, complement, c) };
    concentration(d, r, complement, g)
}

/// MATH.md (6.1). R/(1-R) is formed last: complement may be 1e-300.
#[inline]
fn concentration(d: f64, r: f64, complement: f64, g: f64) -> f64 {
    r * (d - 1.0 + g) / (1.0 + r) / complement
}

/// g by MATH.md (6.3), with as many terms as the dimension needs.
#[inline]
fn series(d: f64, r: f64, c: f64) -> f64 {
    let (y, x) = (c * c, c / (d - 1.0));
    let bracket = if d < 500.0 {
        if d < SERIES_DIMENSION {
            inverse_5(y, x)
        } else if d < 100.0 {
            inverse_12(y, x)
        } else if d < 200.0 {
            inverse_9(y, x)
        } else {
            inverse_8(y, x)
        }
    } else if d < 1000.0 {
        inverse_6(y, x)
    } else if d < 2000.0 {
        inverse_5(y, x)
    } else if d < 2e4 {
        inverse_4(y, x)
    } else {
        inverse_3(y, x)
    };
    c + c * x * one_minus_square(r) * bracket
}

/// 1 - c^2 = 4 R^2/(1 + R^2)^2.
#[inline]
fn one_minus_square(r: f64) -> f64 {
    let root = 2.0 * r / (1.0 + r * r);
    root * root
}

/// d < 64: one evaluation at a guess, then the Taylor series of g in ln(R/A), MATH.md (6.4).
#[inline]
fn corrected(d: f64, r: f64, complement: f64, c: f64) -> f64 {
    let guess = if d < 12.0 { rational_guess(d, r, c) } else { series(d, r, c) };
    let k = concentration(d, r, complement, guess);
    let at = ratio_parts(d, k);
    let difference = if r >= 0.5 { at.complement - complement } else { r - at.value };
    let lambda = (difference / at.value).ln_1p();

    let g = k * at.slope / at.value;
    let c = at.complement * (1.0 + at.value) / (1.0 + at.value * at.value);
    // (Reciprocals, because a division costs as much as ten products.)
    let (g_inverse, c_inverse) = (1.0 / g, 1.0 / c);
    let (v, bend) = (d - 1.0 + g, c_inverse * c_inverse - 1.0);
    let s = g_inverse - c_inverse;
    let g1 = v * s;
    let s1 = -g1 * g_inverse * g_inverse - bend;
    let g2 = g1 * s + v * s1;
    let s2 = (2.0 * g1 * g1 * g_inverse - g2) * g_inverse * g_inverse - 2.0 * c_inverse * bend;
    let g3 = g2 * s + 2.0 * g1 * s1 + v * s2;
    g + lambda * (g1 + lambda * (0.5 * g2 + lambda * (g3 / 6.0)))
}

/// A rational guess of g for 2 <= d < 12; its concentration is within 2.3e-4 of the answer. The
/// constants are a minimax fit over R and real d, see MATH.md (6.5).
#[inline]
fn rational_guess(d: f64, r: f64, c: f64) -> f64 {
    let (y, ec) = (c * c, c / (d - 1.0));
    let num = 1.0
        + ec * (-6.574_505_993_628_58 + 27.275_023_285_652_388 * c - 2.177_830_322_753_707_5 * y)
        + ec * ec * (-3.390_110_632_807_016 + 5.631_884_719_873_107 * c);
    let den = 1.0
        + ec * (-9.262_985_444_992_983 + 27.315_592_060_066_54 * c + 0.286_956_362_529_96 * y)
        + ec * ec * (15.070_986_600_947_132 - 80.610_314_745_846_01 * c + 133.107_676_053_984_22 * y);
    c + ec * c * one_minus_square(r) * (num / den)
}
