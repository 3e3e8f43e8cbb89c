//! The distribution of the projection t = mu.x of a von Mises-Fisher vector on its mean direction.
//!
//! In the angle theta = arccos t the density is g(theta) = exp(-k s) sin(theta)^m, with m = d - 2
//! and the deviation s = 1 - t = 2 sin(theta/2)^2. It is analytic for every d >= 2 and has one
//! mode, s0, where k s0 (2 - s0) = m (1 - s0). Only the mean uses Bessel functions: the total is
//! computed by the same quadrature as the tails.
//!
//! Each branch is a function:
//! * `ln_shape`: ln g(theta) - ln g(mode) as a sum of terms of one sign; near an end, within a quarter of the mode, by ln s;
//! * `side`: below the mode the lower tail is integrated and the upper one is its complement, above it the reverse; on the
//!   circle, where the mode is the end s = 0, the two meet at s = 1/max(1, k);
//! * `tail`: the integral of g from an edge outwards, over g(edge), by one Gauss-Legendre rule; `cut` ends it where the
//!   integrand has fallen to exp(-`CUT`), and `integrate` chooses the logarithm: 6 terms, 16 terms or the library's;
//! * `deviation_quantile_slope`: the same sum with a factor, below the mean over the lower tail, above it over the upper one;
//! * `exponential`: d = 3, where both tails are elementary, uniform for k < `UNIFORM`;
//! * `mode`: s0 as a sum of two floats, by its limit m/(2k) for k > 2^60 m;
//! * `ln_1p_minus`: ln(1 + x) - x, a series for -1/2 <= x <= 1.

mod integrand;

use crate::bessel;
use crate::error::{Error, Result};
use crate::error_free::{product, sum};
use integrand::{Integrand, ln_1p_minus};
use std::f64::consts::{PI, SQRT_2};

/// The distribution of t = mu.x for x ~ vMF(mu, k) on the sphere of `dim` coordinates.
///
/// The density on [-1, 1] is c exp(k t) (1 - t^2)^((d-3)/2). Every function also exists for the
/// deviation s = 1 - t = |x - mu|^2 / 2 in [0, 2], which stays accurate near the mode when k is
/// large: at k = 1e20 every sample has t = 1 in floating point, and s of the order d/(2k).
///
/// Measured against Arb at 5,400 points (d = 2 to 1e7, k = 0 and 1e-300 to 1e300, s an exact
/// double): the relative error of both tails is below 6e-15 for probabilities above 1e-3, 3e-14
/// above 1e-20 and 5e-13 above 1e-300, for every d; that of the quantiles of s is below 4e-14, and
/// the error of ln pdf below 4e-15 max(1, |ln pdf|, ln k): far from the mode of a huge
/// concentration ln pdf is a difference of terms of the size of ln k. These are errors of the
/// method. One ulp of s moves ln p by s |d ln p/ds| 2^-52, in the far tail 3e-12 at d = 1e5 and
/// 3e-11 at d = 1e7, which limits every round trip. A value t is taken as exact: the rounding error
/// of 1 - t is compensated. Above k = 1e300 deviations are subnormal and lose digits. A tail takes
/// 0.2 to 0.6 us at 2.45 GHz, a quantile 0.7 to 2.2 us, `new` two tails.
///
/// ```
/// use vmfkit_special::projection::ProjectionLaw;
///
/// // The p-value of a row at cosine 0.5 from the mean of a cluster in 768 dimensions with concentration 700.
/// let law = ProjectionLaw::new(768, 700.0)?;
/// let p_value = law.cdf(0.5);
/// assert!((p_value / 8.326787144047805e-6 - 1.0).abs() < 1e-12);
/// assert!((law.quantile(p_value) - 0.5).abs() < 1e-14);
/// # Ok::<(), vmfkit_special::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ProjectionLaw {
    dim: usize,
    concentration: f64,
    /// m = d - 2, the power of sin(theta).
    power: f64,
    /// The mode s0 of the density in theta is the sum of the two.
    mode: f64,
    mode_low: f64,
    /// Where the integration changes from the lower to the upper tail.
    split: f64,
    /// P(1 - T <= split).
    below: f64,
    /// The integral over theta of g(theta)/g(mode).
    total: f64,
}

/// The end of the interval [0, 2] of deviations to which a tail reaches.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Side {
    Lower,
    Upper,
}

impl Side {
    /// The distances of s from the end of the tail and from the other end.
    #[inline]
    fn distances(self, s: f64) -> (f64, f64) {
        match self {
            Self::Lower => (s, 2.0 - s),
            Self::Upper => (2.0 - s, s),
        }
    }

    /// A quantity of this tail and one of the other tail as (lower, upper).
    fn order(self, this: f64, other: f64) -> (f64, f64) {
        match self {
            Self::Lower => (this, other),
            Self::Upper => (other, this),
        }
    }

    /// The sign of a step of s towards the middle.
    #[inline]
    fn inward(self) -> f64 {
        match self {
            Self::Lower => 1.0,
            Self::Upper => -1.0,
        }
    }

    /// The angle from s to the end of the tail.
    fn angle(self, s: f64) -> f64 {
        let (near, far) = self.distances(s);
        2.0 * near.sqrt().atan2(far.sqrt())
    }

    /// The deviation at exp(change) times the angle of s.
    fn scale_angle(self, s: f64, change: f64) -> f64 {
        let theta = Self::Lower.angle(s);
        let turn = self.inward() * self.angle(s) * change.exp_m1();
        if turn.abs() < 0.5 * theta {
            // The difference keeps the last digit of s.
            return s + 2.0 * (0.5 * turn).sin() * (theta + 0.5 * turn).sin();
        }
        let half = match self {
            Self::Lower => 0.5 * theta * change.exp(),
            Self::Upper => 0.5 * (theta + turn),
        };
        2.0 * half.sin() * half.sin()
    }
}

/// The tail from an edge outwards: p = exp(ln_shape) * length / total.
struct Tail {
    /// ln g(edge) - ln g(mode).
    ln_shape: f64,
    /// The integral of g(theta)/g(edge).
    length: f64,
    /// How fast ln g falls with the angle at the edge.
    decay: f64,
}

impl ProjectionLaw {
    /// The law for dimension `dim` and concentration `concentration`.
    ///
    /// # Errors
    /// [`Error::Dimension`] when `dim < 2`, [`Error::Concentration`] when the concentration is
    /// negative or not finite.
    pub fn new(dim: usize, concentration: f64) -> Result<Self> {
        if dim < 2 {
            return Err(Error::Dimension { dim });
        }
        if !(concentration >= 0.0 && concentration.is_finite()) {
            let value = concentration;
            return Err(Error::Concentration { value });
        }
        let power = (dim - 2) as f64;
        let (mode, mode_low) = mode(power, concentration);
        let circle = 1.0 / concentration.max(1.0);
        let mut law = Self {
            dim,
            concentration,
            power,
            mode,
            mode_low,
            split: if dim == 2 { circle } else { mode },
            below: 0.0,
            total: 1.0,
        };
        let lower = law.tail(Side::Lower, law.split, 0.0);
        let upper = law.tail(Side::Upper, law.split, 0.0);
        law.total = lower.ln_shape.exp() * (lower.length + upper.length);
        law.below = lower.length / (lower.length + upper.length);
        Ok(law)
    }

    /// The number of coordinates d.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The concentration k.
    pub fn concentration(&self) -> f64 {
        self.concentration
    }

    /// The logarithm of the density of the projection at `t`; outside [-1, 1] minus infinity.
    pub fn ln_pdf(&self, t: f64) -> f64 {
        self.ln_density(1.0 - t, rounding(t))
    }

    /// The density of the projection at `t`; outside [-1, 1] it is 0, and on the circle infinite at
    /// both ends.
    pub fn pdf(&self, t: f64) -> f64 {
        self.ln_pdf(t).exp()
    }

    /// P(T <= t).
    pub fn cdf(&self, t: f64) -> f64 {
        self.tails(1.0 - t, rounding(t)).1
    }

    /// P(T > t).
    pub fn survival(&self, t: f64) -> f64 {
        self.tails(1.0 - t, rounding(t)).0
    }

    /// The t with P(T <= t) = p; NaN when p is not in [0, 1].
    pub fn quantile(&self, p: f64) -> f64 {
        1.0 - self.deviation_upper_quantile(p)
    }

    /// The t with P(T > t) = p; NaN when p is not in [0, 1].
    pub fn upper_quantile(&self, p: f64) -> f64 {
        1.0 - self.deviation_quantile(p)
    }

    /// The logarithm of the density at the deviation `s`, which equals that of the projection at
    /// 1 - s.
    pub fn deviation_ln_pdf(&self, s: f64) -> f64 {
        self.ln_density(s, 0.0)
    }

    /// P(1 - T <= s).
    pub fn deviation_cdf(&self, s: f64) -> f64 {
        self.tails(s, 0.0).0
    }

    /// P(1 - T > s): the p-value of a row x as an outlier, with s = |x - mu|^2 / 2.
    pub fn deviation_survival(&self, s: f64) -> f64 {
        self.tails(s, 0.0).1
    }

    /// ln P(1 - T <= s), also where the probability underflows.
    pub fn deviation_ln_cdf(&self, s: f64) -> f64 {
        self.ln_tails(s).0
    }

    /// ln P(1 - T > s), also where the probability underflows.
    pub fn deviation_ln_survival(&self, s: f64) -> f64 {
        self.ln_tails(s).1
    }

    /// The s with P(1 - T <= s) = p; NaN when p is not in [0, 1].
    pub fn deviation_quantile(&self, p: f64) -> f64 {
        self.quantile_of(p, 1.0 - p)
    }

    /// The s with P(1 - T > s) = p; NaN when p is not in [0, 1].
    pub fn deviation_upper_quantile(&self, p: f64) -> f64 {
        self.quantile_of(1.0 - p, p)
    }

    /// The derivative in the concentration of the p-quantile of T, at the p for which it is `t`.
    ///
    /// It is positive, and its mean over draws of t is A'_d(k). Draws move at this rate as the
    /// concentration changes, so they are differentiable (implicit reparameterisation, MATH.md
    /// (13.2)). NaN when t is not in [-1, 1].
    ///
    /// Relative error below 2e-14 against integrals of 40 digits (d = 2 to 4096, k = 0 to 1e6,
    /// probabilities 1e-6 to 0.99).
    ///
    /// ```
    /// use vmfkit_special::projection::ProjectionLaw;
    ///
    /// let (low, law, high) = (ProjectionLaw::new(5, 1.999)?, ProjectionLaw::new(5, 2.0)?, ProjectionLaw::new(5, 2.001)?);
    /// let difference = (high.quantile(0.3) - low.quantile(0.3)) / 0.002;
    /// assert!((law.quantile_slope(law.quantile(0.3)) - difference).abs() < 1e-7);
    /// # Ok::<(), vmfkit_special::Error>(())
    /// ```
    pub fn quantile_slope(&self, t: f64) -> f64 {
        -self.slope_of_deviation(1.0 - t, rounding(t))
    }

    /// The derivative in the concentration of the p-quantile of 1 - T, at the p for which it is
    /// `s`: negative, -(s/k) for large k.
    pub fn deviation_quantile_slope(&self, s: f64) -> f64 {
        self.slope_of_deviation(s, 0.0)
    }

    /// MATH.md (13.2) at s + low.
    fn slope_of_deviation(&self, s: f64, low: f64) -> f64 {
        let mean = bessel::mean_length_complement(self.dim, self.concentration);
        let offset = (s - mean) + low;
        let side = if offset < 0.0 { Side::Lower } else { Side::Upper };
        let (near, far) = side.distances(s);
        if !(near > 0.0 && far > 0.0) {
            // The ends of the interval stay where they are.
            return if near == 0.0 || far == 0.0 { 0.0 } else { f64::NAN };
        }
        let (integrand, end) = self.integrand(side, s, low);
        -(near * far) * integrand.integrate_distance(end, offset.abs())
    }

    /// The deviation with these two tails, of which one is the rounded complement of the other.
    fn quantile_of(&self, lower: f64, upper: f64) -> f64 {
        if !(lower >= 0.0 && upper >= 0.0) {
            f64::NAN
        } else if lower == 0.0 {
            0.0
        } else if upper == 0.0 {
            2.0
        } else if self.dim == 3 {
            exponential_quantile(self.concentration, lower, upper)
        } else if lower <= self.below {
            self.invert(Side::Lower, lower)
        } else {
            self.invert(Side::Upper, upper)
        }
    }

    /// ln of the density at s + low.
    fn ln_density(&self, s: f64, low: f64) -> f64 {
        let sine2 = s * (2.0 - s);
        if s.is_nan() {
            s
        } else if !(sine2 >= 0.0) || (sine2 == 0.0 && self.dim > 3) {
            f64::NEG_INFINITY
        } else if self.dim == 3 {
            let k = self.concentration;
            let total = if k < UNIFORM { 2.0 } else { -(-2.0 * k).exp_m1() / k };
            -k * (s + low) - total.ln()
        } else {
            self.ln_shape(s, low) - self.total.ln() - 0.5 * sine2.ln()
        }
    }

    /// P(1 - T <= s + low) and P(1 - T > s + low), each with full relative accuracy.
    fn tails(&self, s: f64, low: f64) -> (f64, f64) {
        if s.is_nan() {
            return (s, s);
        }
        if !(s > 0.0 && s < 2.0) {
            return if s <= 0.0 { (0.0, 1.0) } else { (1.0, 0.0) };
        }
        if self.dim == 3 {
            let k = self.concentration;
            let (lower, scaled) = exponential(k, s);
            return (lower, scaled * ((-k * s).exp() * (1.0 - k * low)));
        }
        let side = self.side(s);
        let tail = self.tail(side, s, low);
        let p = (tail.ln_shape.exp() * (tail.length / self.total)).clamp(0.0, 1.0);
        side.order(p, 1.0 - p)
    }

    /// The logarithms of the tails.
    fn ln_tails(&self, s: f64) -> (f64, f64) {
        if !(s > 0.0 && s < 2.0) {
            let (lower, upper) = self.tails(s, 0.0);
            return (lower.ln(), upper.ln());
        }
        if self.dim == 3 {
            return ln_exponential(self.concentration, s);
        }
        let side = self.side(s);
        let ln_p = self.ln_probability(&self.tail(side, s, 0.0)).clamp(f64::NEG_INFINITY, 0.0);
        side.order(ln_p, (-ln_p.exp()).ln_1p())
    }

    fn ln_probability(&self, tail: &Tail) -> f64 {
        tail.ln_shape + (tail.length / self.total).ln()
    }

    /// The tail at s that is integrated.
    fn side(&self, s: f64) -> Side {
        if s < self.split { Side::Lower } else { Side::Upper }
    }

    /// s + low - s0.
    #[inline]
    fn offset(&self, s: f64, low: f64) -> f64 {
        (s - self.mode) + (low - self.mode_low)
    }

    /// ln g(theta) - ln g(mode) at s + low. With x = s - s0 it is (m/2) (L(x/s0) + L(-x/(2 - s0))),
    /// L(x) = ln(1 + x) - x <= 0, because k = (m/2) (1/s0 - 1/(2 - s0)): the large terms that
    /// cancel between exp(-k s) and sin^m never appear.
    #[inline]
    fn ln_shape(&self, s: f64, low: f64) -> f64 {
        if self.dim == 2 {
            return -self.concentration * s - self.concentration * low;
        }
        let (mode, other) = (self.mode, 2.0 - self.mode);
        let x = self.offset(s, low);
        let (x, y) = (x / mode, -x / other);
        // Near an end 1 + x has lost its digits.
        let lower = if x < -0.75 { (s / mode).ln() + (low / s - self.mode_low / mode) - x } else { ln_1p_minus(x) };
        let upper = if y < -0.75 { ((2.0 - s) / other).ln() - low / (2.0 - s) - y } else { ln_1p_minus(y) };
        0.5 * self.power * (lower + upper)
    }

    /// The fall of ln g with the angle towards `side`, times sin(theta).
    #[inline]
    fn slope(&self, side: Side, s: f64, low: f64) -> f64 {
        if self.dim == 2 {
            return -side.inward() * self.concentration * (s * (2.0 - s));
        }
        let x = self.offset(s, low);
        -side.inward() * 0.5 * self.power * (x / self.mode * (2.0 - s) + x / (2.0 - self.mode) * s)
    }

    /// The tail from s + low towards `side`.
    fn tail(&self, side: Side, s: f64, low: f64) -> Tail {
        let (integrand, end) = self.integrand(side, s, low);
        let sine = integrand.sine;
        Tail { ln_shape: self.ln_shape(s, low), length: sine * integrand.integrate(end), decay: integrand.slope / sine }
    }

    /// What is integrated from s + low towards `side`, and where the sphere ends.
    fn integrand(&self, side: Side, s: f64, low: f64) -> (Integrand, f64) {
        let (near, far) = side.distances(s);
        let sine = near.sqrt() * far.sqrt();
        let integrand = Integrand {
            power: self.power,
            sine,
            cosine: side.inward() * (1.0 - s),
            slope: self.slope(side, s, low),
            bend: (self.power + self.concentration * (1.0 - s)) * (near * far),
        };
        (integrand, near.sqrt() / (SQRT_2 + far.sqrt()) / sine)
    }

    /// The deviation whose tail towards `side` has the probability p, at most that of the tail from
    /// the split.
    fn invert(&self, side: Side, p: f64) -> f64 {
        let (mut low, mut high) = match side {
            Side::Lower => (0.0, self.split),
            Side::Upper => (self.split, 2.0),
        };
        let ln_p = p.ln();
        let mut s = self.guess(side, p).clamp(LEAST, GREATEST);
        loop {
            let tail = self.tail(side, s, 0.0);
            let error = self.ln_probability(&tail) - ln_p;
            if (error > 0.0) == (side == Side::Lower) {
                high = s;
            } else {
                low = s;
            }
            // Halley's step in u = ln(angle to the end), where a power law is a straight line. The
            // hazard r = 1/length has the derivative r (r - decay) outwards.
            let angle = side.angle(s);
            let first = angle / tail.length;
            let second = first * (1.0 - angle * (1.0 / tail.length - tail.decay));
            let newton = -error / first;
            let step = newton / (1.0 + 0.5 * newton * second / first).max(0.5);
            let target = side.scale_angle(s, step);
            let mut next = target.clamp(LEAST, GREATEST);
            // The step is of third order, so that from here it leaves an error of 1e-15.
            if error.abs() < 1e-5 || next == s {
                return target.clamp(low, high);
            }
            if !(next > low && next < high) {
                // Every pass moves an end of the bracket, so the loop ends even if Halley's step
                // leaves it.
                next = low.max(LEAST).sqrt() * high.sqrt();
                if !(next > low && next < high) {
                    return s;
                }
            }
            s = next;
        }
    }

    /// A start for `invert`: g(theta) = exp(-z^2/2) g(mode) with the normal quantile z of p over
    /// the probability of its side.
    fn guess(&self, side: Side, p: f64) -> f64 {
        let ratio = match side {
            Side::Lower => p / self.below,
            Side::Upper => p / (1.0 - self.below),
        };
        if self.dim == 2 {
            let normal = normal_quantile(0.5 * p).powi(2) / (2.0 * self.concentration);
            return match side {
                Side::Lower => self.split * ratio * ratio,
                Side::Upper => normal.min(1.0 + (PI * p).cos()).max(self.split),
            };
        }
        let z = normal_quantile(0.5 * ratio.min(1.0));
        let curvature = self.power / (self.mode * (2.0 - self.mode)) + self.concentration * (1.0 - self.mode);
        let mut s = side.scale_angle(self.mode, -z / (curvature.sqrt() * side.angle(self.mode)));
        for _ in 0..4 {
            let height = (-2.0 * self.ln_shape(s, 0.0)).sqrt();
            let slope = self.slope(side, s, 0.0) / (s * (2.0 - s)).sqrt();
            let next = side.scale_angle(s, (height - z) * height / (slope * side.angle(s)));
            if !(next > 0.0 && next < 2.0 && self.side(next) == side) {
                break;
            }
            s = next;
        }
        s
    }
}

/// The doubles next to the ends of (0, 2).
const LEAST: f64 = f64::from_bits(1);
const GREATEST: f64 = 2.0 - f64::EPSILON;

/// Below this concentration the law of d = 3 is uniform in s.
const UNIFORM: f64 = 1e-17;

/// P(1 - T <= s) and exp(k s) P(1 - T > s) for d = 3.
fn exponential(k: f64, s: f64) -> (f64, f64) {
    if k < UNIFORM {
        return (0.5 * s, 0.5 * (2.0 - s));
    }
    let total = (-2.0 * k).exp_m1();
    ((-k * s).exp_m1() / total, (-k * (2.0 - s)).exp_m1() / total)
}

/// The logarithms of both tails for d = 3.
fn ln_exponential(k: f64, s: f64) -> (f64, f64) {
    let (lower, scaled) = exponential(k, s);
    if lower < 0.5 { (lower.ln(), (-lower).ln_1p()) } else { ((-(-k * s).exp() * scaled).ln_1p(), scaled.ln() - k * s) }
}

/// The deviation with the lower tail p and the upper tail q = 1 - p for d = 3.
fn exponential_quantile(k: f64, p: f64, q: f64) -> f64 {
    if k < UNIFORM {
        return 2.0 * p;
    }
    let total = (-2.0 * k).exp_m1();
    let s = if p < 0.5 || k < 0.5 { -(p * total).ln_1p() / k } else { -(q + p * (-2.0 * k).exp()).ln() / k };
    s.clamp(0.0, 2.0)
}

/// What 1 - t loses to rounding: 1 - t = (1.0 - t) + rounding(t).
fn rounding(t: f64) -> f64 {
    (1.0 - (1.0 - t)) - t
}

/// The z >= 0 with normal upper tail p <= 1/2, to 5e-4 (Abramowitz and Stegun 26.2.23).
fn normal_quantile(p: f64) -> f64 {
    let r = (-2.0 * p.ln()).sqrt();
    let z = r - (2.515517 + r * (0.802853 + r * 0.010328)) / (1.0 + r * (1.432788 + r * (0.189269 + r * 0.001308)));
    z.max(0.0)
}

/// The mode s0 in (0, 1] of the density in theta, as a sum of two floats:
/// k s0 (2 - s0) = m (1 - s0).
fn mode(m: f64, k: f64) -> (f64, f64) {
    if m == 0.0 {
        return (0.0, 0.0);
    }
    if k > 2f64.powi(60) * m {
        // Powers of two bring k to [1, 2), so that no part of the product underflows.
        let unit = f64::from_bits(k.to_bits() & (0x7ff << 52));
        let scaled = 0.5 * m / (k / unit);
        let (high, low) = product(k / unit, scaled);
        return (scaled / unit, ((0.5 * m - high) - low) / (k / unit) / unit);
    }
    let root = m.hypot(2.0 * k);
    let s = m * (root + 2.0 * k + m) / ((root + 2.0 * k) * (m + root));
    // One Newton step on s (m + 2k - k s) - m, which is evaluated with twice the digits.
    let (a, a_low) = sum(2.0 * k, m);
    let (b, b_low) = product(k, s);
    let (c, c_low) = sum(a, -b);
    let (high, low) = product(c, s);
    let residual = (high - m) + (low + (c_low + a_low - b_low) * s);
    (s, -residual / (m + 2.0 * k * (1.0 - s)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quadrature_agrees_with_the_closed_form() {
        for k in [0.0, 1e-9, 0.4, 3.0, 50.0, 1e8, 1e200] {
            let law = ProjectionLaw::new(3, k).expect("the parameters are valid");
            for part in [1e-9, 1e-3, 0.2, 0.7, 0.999] {
                let s = part * 2.0f64.min(600.0 / k);
                let side = law.side(s);
                let found = law.ln_probability(&law.tail(side, s, 0.0));
                let (lower, upper) = ln_exponential(k, s);
                let expected = if side == Side::Lower { lower } else { upper };
                assert!((found - expected).abs() < 2e-13, "{k:e} {s:e}: {found} {expected}");
            }
        }
    }

    /// The residual of the two floats together is far below that of the first alone.
    #[test]
    fn mode_has_twice_the_digits() {
        // s0 = (m + 2k - sqrt(m^2 + 4k^2)) / (2k): for m = 3, k = 2 it is 1/2, for m = 5, k = 6 it
        // is 1/3.
        assert_eq!(mode(3.0, 2.0), (0.5, 0.0));
        let (high, low) = mode(5.0, 6.0);
        let error = (1.0 - 2.0 * high) - high - 3.0 * low;
        assert!((high - 1.0 / 3.0).abs() < 1e-16 && error.abs() < 1e-30);
        let (high, low) = mode(6.0, 9.0 * 2f64.powi(900));
        let scaled = high * 2f64.powi(900);
        let error = (1.0 - 2.0 * scaled) - scaled - 3.0 * low * 2f64.powi(900);
        assert!(error.abs() < 1e-30);
    }
}
