//! The outer region: Debye's expansion rearranged in powers of 1/u, u = sqrt(nu^2 + k^2). MATH.md,
//! sections 3 and 5.
//!
//! One expansion holds for every ratio k/nu once u is large; it contains both the uniform (Olver)
//! and the large-argument (Hankel) series. At d = 2, where q = 0, polynomials in 1/k reach down to
//! k = 8 (logarithm) and k = 4 (ratio).

use super::MeanLength;
use super::gamma::stirling;
use super::series::*;
use std::f64::consts::TAU;

/// The point (nu, k) in the coordinates of the expansion.
#[derive(Clone, Copy)]
pub(super) struct Point {
    pub nu: f64,
    pub k: f64,
    pub u: f64,
    /// (nu/u)^2
    q: f64,
    /// 1/u
    w: f64,
}

impl Point {
    #[inline]
    pub(super) fn new(nu: f64, k: f64) -> Self {
        let u = (nu * nu + k * k).sqrt();
        let w = 1.0 / u;
        let p = nu * w;
        Point { nu, k, u, q: p * p, w }
    }

    /// L of MATH.md (3.3); truncation below 3e-17. Valid for u >= 28.5 (d = 2: k >= 8).
    #[inline]
    pub(super) fn log_series(&self) -> f64 {
        let (q, w, u) = (self.q, self.w, self.u);
        if self.nu == 0.0 {
            return w * if u < 28.0 { circle_log_near(w) } else { circle_log_far(w) };
        }
        if u < 97.6 {
            if u < 31.5 {
                log_14(q, w)
            } else if u < 40.0 {
                log_13(q, w)
            } else if u < 56.4 {
                log_12(q, w)
            } else {
                log_10(q, w)
            }
        } else if u < 246.0 {
            log_8(q, w)
        } else if u < 1480.0 {
            log_6(q, w)
        } else {
            log_4(q, w)
        }
    }

    /// sigma of MATH.md (3.2), accurate enough for A, 1 - A and A'.
    #[inline]
    fn ratio_series(&self) -> f64 {
        let (q, w, u) = (self.q, self.w, self.u);
        if self.nu == 0.0 {
            return self.circle_ratio_series();
        }
        if q >= 0.25 {
            if u < 72.0 {
                ratio_12(q, w)
            } else if u < 126.0 {
                ratio_10(q, w)
            } else if u < 346.0 {
                ratio_8(q, w)
            } else if u < 2170.0 {
                ratio_6(q, w)
            } else {
                ratio_4(q, w)
            }
        } else if u < 109.0 {
            if u < 39.5 {
                ratio_19(q, w)
            } else if u < 49.0 {
                ratio_16(q, w)
            } else if u < 68.0 {
                ratio_14(q, w)
            } else {
                ratio_12(q, w)
            }
        } else if u < 232.0 {
            ratio_10(q, w)
        } else if u < 881.0 {
            ratio_8(q, w)
        } else if u < 1.44e4 {
            ratio_6(q, w)
        } else {
            ratio_4(q, w)
        }
    }

    /// sigma of MATH.md (3.2), with the fewer terms that suffice for A alone.
    #[inline]
    fn ratio_series_short(&self) -> f64 {
        let (q, w, u) = (self.q, self.w, self.u);
        if self.nu == 0.0 {
            return self.circle_ratio_series();
        }
        if u < 34.0 {
            ratio_16(q, w)
        } else if u < 52.0 {
            ratio_12(q, w)
        } else if u < 83.0 {
            ratio_10(q, w)
        } else if u < 172.0 {
            ratio_8(q, w)
        } else if u < 643.0 {
            ratio_6(q, w)
        } else {
            ratio_4(q, w)
        }
    }

    #[inline]
    fn circle_ratio_series(&self) -> f64 {
        if self.u >= 28.0 {
            circle_ratio_far(self.w)
        } else if self.u >= 8.0 {
            circle_ratio_near(self.w)
        } else {
            circle_ratio_close(self.w)
        }
    }

    /// A_d, MATH.md (3.4).
    #[inline]
    pub(super) fn mean_length(&self) -> f64 {
        let h = 0.5 - self.ratio_series_short() * self.w;
        self.k * (1.0 / (self.u + self.nu) - h * self.w * self.w)
    }

    /// A_d, 1 - A_d and A'_d, MATH.md (3.4) to (3.6).
    #[inline]
    pub(super) fn mean_length_and_slope(&self) -> MeanLength {
        let Point { nu, k, u, w, .. } = *self;
        let sigma = self.ratio_series();
        let h = 0.5 - sigma * w;
        let (w2, inverse) = (w * w, 1.0 / (u + nu));
        let cosine = k * w;
        MeanLength {
            value: k * (inverse - h * w2),
            complement: (nu + nu * nu / (u + k)) * inverse + k * h * w2,
            slope: (nu * u * inverse - 2.0 * sigma + h * (1.0 - cosine * cosine * h)) * w2,
        }
    }

    /// k + ln C_d, MATH.md (3.7).
    #[inline]
    pub(super) fn ln_peak(&self) -> f64 {
        self.ln_common() - self.nu * self.nu / (self.k + self.u)
    }

    /// ln C_d, MATH.md (3.7).
    #[inline]
    pub(super) fn ln_normalizer(&self) -> f64 {
        self.ln_common() - self.u
    }

    #[inline]
    fn ln_common(&self) -> f64 {
        let half_ln = 0.5 * (self.u * (1.0 / TAU)).ln() - self.log_series();
        if self.nu == 0.0 { half_ln } else { self.nu * ((self.nu + self.u) * (1.0 / TAU)).ln() + half_ln }
    }

    /// ln(e^{-k} I_nu(k)), MATH.md (3.8).
    #[inline]
    pub(super) fn ln_bessel_i_scaled(&self) -> f64 {
        let gap = self.nu * self.nu / (self.u + self.k);
        gap - self.nu * self.asinh(gap) - 0.5 * (TAU * self.u).ln() + self.log_series()
    }

    /// ln I_nu(k), MATH.md (3.8).
    #[inline]
    pub(super) fn ln_bessel_i(&self) -> f64 {
        let gap = self.nu * self.nu / (self.u + self.k);
        self.u - self.nu * self.asinh(gap) - 0.5 * (TAU * self.u).ln() + self.log_series()
    }

    /// asinh(nu/k) from gap = u - k; a plain logarithm would lose nu eps when k >> nu.
    #[inline]
    fn asinh(&self, gap: f64) -> f64 {
        ((self.nu + gap) / self.k).ln_1p()
    }

    /// y = (u - nu)/nu, log1p(y/2), log1p(y), and Delta of MATH.md (3.9); nu >= 8.
    #[inline]
    fn relative_parts(&self) -> (f64, f64, f64, f64) {
        let Point { nu, k, u, .. } = *self;
        let y = (k / (u + nu)) * (k / nu);
        let (half, full) = if y >= 1.0 { ((0.5 * y + 1.0).ln(), (u / nu).ln()) } else { ((0.5 * y).ln_1p(), y.ln_1p()) };
        (y, half, full, stirling(nu) + self.log_series())
    }

    /// Phi, relative accuracy, MATH.md (3.9); nu >= 8.
    #[inline]
    pub(super) fn ln_partition(&self) -> f64 {
        let (y, half, full, delta) = self.relative_parts();
        self.nu * (y - half) - 0.5 * full + delta
    }

    /// Psi, relative accuracy, MATH.md (3.10); nu >= 8.
    #[inline]
    pub(super) fn ln_partition_complement(&self) -> f64 {
        let Point { nu, k, u, .. } = *self;
        let (y, half, full, delta) = self.relative_parts();
        let gap = if k < nu { k - nu * y } else { nu - nu * nu / (k + u) };
        gap + nu * half + 0.5 * full - delta
    }

    /// KL to the uniform, MATH.md (7.2): the parts of order nu y cancel exactly; nu >= 28.5.
    #[inline]
    pub(super) fn divergence_from_uniform(&self) -> f64 {
        let (_, half, full, delta) = self.relative_parts();
        let h = 0.5 - self.ratio_series() * self.w;
        let cosine = self.k * self.w;
        self.nu * half + 0.5 * full - cosine * cosine * h - delta
    }
}
