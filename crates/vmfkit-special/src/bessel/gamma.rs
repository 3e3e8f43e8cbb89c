//! ln Gamma, and the normaliser of the uniform density.

use super::series::{LN_GAMMA_HALF, LN_UNIFORM};
use std::f64::consts::{LN_2, PI};

/// ln(2 pi) / 2.
pub(super) const HALF_LN_TAU: f64 = 0.918_938_533_204_672_8;
/// ln pi.
const LN_PI: f64 = 1.144_729_885_849_400_2;

/// Below this argument [`stirling`] is not accurate.
pub(super) const STIRLING_FROM: f64 = 8.0;

/// The tail of Stirling's series, ln Gamma(x) - (x - 1/2) ln x + x - ln(2 pi)/2, for x >= 8
/// (absolute error below 1e-18).
#[inline]
pub(super) fn stirling(x: f64) -> f64 {
    let w = 1.0 / x;
    let y = w * w;
    // B_{2j} / (2j (2j-1)), j = 1 ..
    let series = if x >= 64.0 {
        1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * (1.0 / 1680.0)))
    } else {
        1.0 / 12.0
            - y * (1.0 / 360.0
                - y * (1.0 / 1260.0
                    - y * (1.0 / 1680.0
                        - y * (1.0 / 1188.0
                            - y * (691.0 / 360_360.0
                                - y * (1.0 / 156.0 - y * (3617.0 / 122_400.0 - y * (43_867.0 / 244_188.0))))))))
    };
    w * series
}

/// The index d = 2 x into the tables, if they have one.
#[inline]
fn table_index(twice: f64) -> Option<usize> {
    // The cast saturates, so a huge or negative value fails the comparison.
    let index = twice as usize;
    (twice <= 128.0 && index as f64 == twice).then_some(index)
}

/// ln Gamma(x) for x >= 1/2.
pub(super) fn ln_gamma(x: f64) -> f64 {
    if let Some(index) = table_index(2.0 * x) {
        return LN_GAMMA_HALF[index];
    }
    if x < STIRLING_FROM {
        // Small arguments include the zeros at 1 and 2, around which only a relative error will do.
        return libm::lgamma(x);
    }
    (x - 0.5) * x.ln() - x + HALF_LN_TAU + stirling(x)
}

/// ln C_d(0) = ln Gamma(d/2) - ln 2 - (d/2) ln pi: minus the ln area of the sphere, MATH.md (1.3).
#[inline]
pub(super) fn ln_uniform(d: f64) -> f64 {
    if let Some(index) = table_index(d) {
        return LN_UNIFORM[index];
    }
    let half = 0.5 * d;
    if half < STIRLING_FROM {
        return ln_gamma(half) - LN_2 - half * LN_PI;
    }
    half * ((half / PI).ln() - 1.0) + 0.5 * (PI / (2.0 * half)).ln() + stirling(half)
}
