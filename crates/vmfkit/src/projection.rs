//! The law of the projection t = mu.x of a von Mises-Fisher vector on its mean direction.
//!
//! In the angle theta = arccos t the density is g(theta) = exp(-k s) sin(theta)^m, with m = d - 2 and the deviation
//! s = 1 - t = 2 sin(theta/2)^2. It is analytic for every d >= 2 and has one mode, s0, where k s0 (2 - s0) = m (1 - s0).
//! No Bessel function is used: the total comes from the same quadrature as the tails.
//!
//! Each branch is a function:
//! * [`ProjectionLaw::ln_shape`]: ln g(theta) - ln g(mode), a sum of terms of one sign;
//! * [`ProjectionLaw::tail`]: the integral of g from an edge outwards, divided by g(edge), by one Gauss-Legendre rule over the
//!   part where the integrand exceeds exp(-[`CUT`]); below [`ProjectionLaw::split`] the lower tail is integrated and the upper
//!   one is its complement, above it the reverse;
//! * [`exponential`]: d = 3, where both tails are elementary;
//! * [`mode`]: s0 as a sum of two floats, for 2^60 m < k by its limit m/(2k);
//! * [`ln_1p_minus`]: ln(1 + x) - x, a series for -1/2 <= x <= 1.

use crate::error::{Error, Result};

/// The law of t = mu.x for x ~ vMF(mu, k) on the sphere of `dim` coordinates.
///
/// The density on [-1, 1] is c exp(k t) (1 - t^2)^((d-3)/2). Next to the projection t every function is given for the
/// deviation s = 1 - t = |x - mu|^2 / 2 in [0, 2], which keeps its digits near the mode when k is large: at k = 1e20 every
/// sample has t = 1 in floating point, and s of the order d/(2k).
///
/// ACCURACY
///
/// ```
/// use vmfkit::projection::ProjectionLaw;
///
/// // How strange is a row at cosine 0.5 from the mean of a cluster in 768 dimensions with concentration 700?
/// let law = ProjectionLaw::new(768, 700.0)?;
/// let p_value = law.cdf(0.5);
/// assert!((p_value / 1.0 - 1.0).abs() < 1e-12);
/// assert!((law.quantile(p_value) - 0.5).abs() < 1e-14);
/// # Ok::<(), vmfkit::error::Error>(())
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
    ln_total: f64,
}

/// The end of the interval [0, 2] of deviations to which a tail reaches.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Side {
    Lower,
    Upper,
}

/// The tail from an edge outwards: p = exp(ln_shape) * length / total.
struct Tail {
    /// ln g(edge) - ln g(mode).
    ln_shape: f64,
    /// The integral of g(theta)/g(edge).
    length: f64,
    /// -d ln g/d theta outwards.
    decay: f64,
}

impl ProjectionLaw {
    /// The law for dimension `dim` and concentration `concentration`.
    ///
    /// # Errors
    /// [`Error::Dimension`] when `dim < 2`, [`Error::Concentration`] when the concentration is negative or not finite.
    pub fn new(dim: usize, concentration: f64) -> Result<Self> {
        if dim < 2 {
            return Err(Error::Dimension { dim });
        }
        if !(concentration >= 0.0 && concentration.is_finite()) {
            return Err(Error::Concentration { value: concentration });
        }
        let power = (dim - 2) as f64;
        let (mode, mode_low) = mode(power, concentration);
        // On the circle the density is greatest at s = 0, where the lower tail is empty.
        let split = if dim == 2 { 1.0 / concentration.max(1.0) } else { mode };
        let mut law =
            Self { dim, concentration, power, mode, mode_low, split, below: 0.0, total: 1.0, ln_total: 0.0 };
        let lower = law.tail(Side::Lower, split, 0.0);
        let upper = law.tail(Side::Upper, split, 0.0);
        law.total = lower.ln_shape.exp() * (lower.length + upper.length);
        law.ln_total = law.total.ln();
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

    /// The density of the projection at `t`; outside [-1, 1] it is 0, and on the circle infinite at both ends.
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

    /// The logarithm of the density at the deviation `s`, the same as that of the projection at 1 - s.
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
        if !(p > 0.0 && p < 1.0) {
            return end_quantile(p);
        }
        if self.dim == 3 {
            return exponential_quantile(self.concentration, p, 1.0 - p);
        }
        if p <= self.below { self.invert(Side::Lower, p) } else { self.invert(Side::Upper, 1.0 - p) }
    }

    /// The s with P(1 - T > s) = p; NaN when p is not in [0, 1].
    pub fn deviation_upper_quantile(&self, p: f64) -> f64 {
        if !(p > 0.0 && p < 1.0) {
            return end_quantile(1.0 - p);
        }
        if self.dim == 3 {
            return exponential_quantile(self.concentration, 1.0 - p, p);
        }
        if p <= 1.0 - self.below { self.invert(Side::Upper, p) } else { self.invert(Side::Lower, 1.0 - p) }
    }

    /// ln of the density at s + low.
    fn ln_density(&self, s: f64, low: f64) -> f64 {
        let k = self.concentration;
        if !(0.0..=2.0).contains(&s) {
            return if s.is_nan() { s } else { f64::NEG_INFINITY };
        }
        if self.dim == 3 {
            return if k < UNIFORM { 0.5f64.ln() } else { k.ln() - k * s - k * low - (-(-2.0 * k).exp_m1()).ln() };
        }
        let sine2 = s * (2.0 - s);
        if self.dim > 3 && sine2 == 0.0 {
            return f64::NEG_INFINITY;
        }
        self.ln_shape(s, low) - self.ln_total - 0.5 * sine2.ln()
    }

    /// (P(1 - T <= s + low), P(1 - T > s + low)), the smaller with full relative accuracy.
    fn tails(&self, s: f64, low: f64) -> (f64, f64) {
        if !(s > 0.0 && s < 2.0) {
            return if s.is_nan() { (s, s) } else if s <= 0.0 { (0.0, 1.0) } else { (1.0, 0.0) };
        }
        if self.dim == 3 {
            return exponential(self.concentration, s, low);
        }
        let side = self.side(s);
        let tail = self.tail(side, s, low);
        let p = (tail.ln_shape.exp() * (tail.length / self.total)).min(1.0);
        if side == Side::Lower { (p, 1.0 - p) } else { (1.0 - p, p) }
    }

    /// The logarithms of [`Self::tails`].
    fn ln_tails(&self, s: f64) -> (f64, f64) {
        if !(s > 0.0 && s < 2.0) || self.dim == 3 {
            let (below, above) = self.tails(s, 0.0);
            let k = self.concentration;
            // Only the upper tail of d = 3 can underflow with k s in range.
            return if self.dim == 3 && k * s > 700.0 && s < 2.0 {
                (-above, (-(-k * (2.0 - s)).exp_m1()).ln() - k * s)
            } else {
                (below.ln(), above.ln())
            };
        }
        let side = self.side(s);
        let tail = self.tail(side, s, 0.0);
        let ln_p = (tail.ln_shape + (tail.length / self.total).ln()).min(0.0);
        let ln_other = (-ln_p.exp()).ln_1p();
        if side == Side::Lower { (ln_p, ln_other) } else { (ln_other, ln_p) }
    }

    fn side(&self, s: f64) -> Side {
        if s < self.split { Side::Lower } else { Side::Upper }
    }

    /// ln g(theta) - ln g(mode) at s + low: with x = s - s0 it is (m/2) (L(x/s0) + L(-x/(2 - s0))), L(x) = ln(1 + x) - x <= 0,
    /// because k = (m/2) (1/s0 - 1/(2 - s0)). The large terms that cancel between exp(-k s) and sin^m never appear.
    fn ln_shape(&self, s: f64, low: f64) -> f64 {
        if self.dim == 2 {
            return -self.concentration * s - self.concentration * low;
        }
        let x = (s - self.mode) + (low - self.mode_low);
        0.5 * self.power * (ln_1p_minus(x / self.mode) + ln_1p_minus(-x / (2.0 - self.mode)))
    }

    /// The tail from s + low towards `side`.
    ///
    /// With the angle f from the edge, S, C the sine and cosine of the edge's angle to the end of the tail, and h the decay,
    /// ln g(f)/g(edge) = m L(-y) - h sin f - (m + k (1 - s)) (1 - cos f), y = (C/S) sin f + 1 - cos f. The variable of
    /// integration is tan(f/4)/S: rational, and of order 1 also when the angles are of order 1e-150.
    fn tail(&self, side: Side, s: f64, low: f64) -> Tail {
        let (near, far) = if side == Side::Lower { (s, 2.0 - s) } else { (2.0 - s, s) };
        let sine = near.sqrt() * far.sqrt();
        let step = Step {
            power: self.power,
            sine,
            cosine: if side == Side::Lower { 1.0 - s } else { s - 1.0 },
            slope: self.slope(side, s, low),
            bend: (self.power + self.concentration * (1.0 - s)) * (near * far),
        };
        let end = (0.5 * near).sqrt() / (1.0 + (0.5 * far).sqrt()) / sine;
        let length = sine * step.integrate(step.cut(end));
        Tail { ln_shape: self.ln_shape(s, low), length, decay: step.slope / sine }
    }

    /// h S: how fast g falls towards `side`, with x = s - s0 as in `ln_shape`.
    fn slope(&self, side: Side, s: f64, low: f64) -> f64 {
        let rise = if self.dim == 2 {
            -self.concentration * (s * (2.0 - s))
        } else {
            let x = (s - self.mode) + (low - self.mode_low);
            -0.5 * self.power * (x / self.mode * (2.0 - s) + x / (2.0 - self.mode) * s)
        };
        if side == Side::Lower { rise } else { -rise }
    }

    /// The deviation whose tail towards `side` has probability p, 0 < p <= the probability of that side of the split.
    fn invert(&self, side: Side, p: f64) -> f64 {
        let (mut low, mut high) = if side == Side::Lower { (0.0, self.split) } else { (self.split, 2.0) };
        let ln_p = p.ln();
        let mut s = self.guess(side, p);
        for _ in 0..200 {
            let tail = self.tail(side, s, 0.0);
            let error = tail.ln_shape + (tail.length / self.total).ln() - ln_p;
            // The tail grows with s below, and shrinks above.
            if (error > 0.0) == (side == Side::Lower) { high = s } else { low = s }
            // Halley's step in u = ln(angle to the end), where a power law is a straight line. The hazard r = 1/length has
            // the derivative r (r - decay).
            let angle = end_angle(side, s);
            let first = angle / tail.length;
            let second = first * (1.0 - angle * (1.0 / tail.length - tail.decay));
            let newton = -error / first;
            let halley = newton / (1.0 + 0.5 * newton * second / first).max(0.5);
            let mut next = move_by(side, s, halley);
            if !(next >= low && next <= high) {
                next = low.max(f64::MIN_POSITIVE).sqrt() * high.sqrt();
                if !(next > low && next < high) {
                    return s;
                }
            } else if error.abs() < 1e-5 {
                return next;
            }
            s = next;
        }
        s
    }

    /// A start for [`Self::invert`]: ln g(theta)/g(mode) = -z^2/2 with the normal quantile z.
    fn guess(&self, side: Side, p: f64) -> f64 {
        let mass = if side == Side::Lower { self.below } else { 1.0 - self.below };
        if self.dim == 2 {
            return match side {
                Side::Lower => self.split * (p / mass) * (p / mass),
                Side::Upper => (0.5 * normal_quantile(0.5 * p).powi(2) / self.concentration)
                    .min(1.0 + (std::f64::consts::PI * p).cos())
                    .max(self.split),
            };
        }
        let z = normal_quantile((0.5 * (p / mass)).min(0.5));
        let sine2 = self.mode * (2.0 - self.mode);
        let width = (self.power / sine2 + self.concentration * (1.0 - self.mode)).sqrt().recip();
        let mut s = move_by(side, self.mode, -z * width / end_angle(side, self.mode));
        for _ in 0..4 {
            let height = (-2.0 * self.ln_shape(s, 0.0)).sqrt();
            let slope = self.slope(side, s, 0.0) / (s * (2.0 - s)).sqrt();
            let next = move_by(side, s, (height - z) * height / (slope * end_angle(side, s)));
            if !(next > 0.0 && next < 2.0 && (next < self.mode) == (side == Side::Lower)) {
                break;
            }
            s = next;
        }
        s
    }
}

/// The integrand of a tail as a function of its distance from the edge, in units of S.
struct Step {
    power: f64,
    sine: f64,
    cosine: f64,
    slope: f64,
    bend: f64,
}

/// sin f / S, (1 - cos f) / S^2, y and d(tan(f/4)/S)/df.
struct Node {
    sine: f64,
    versine: f64,
    y: f64,
    density: f64,
}

impl Step {
    #[inline(always)]
    fn node(&self, x: f64) -> Node {
        let square = (self.sine * x) * (self.sine * x);
        let density = 1.0 / (1.0 + square);
        let half_sine = 2.0 * x * density;
        let sine = 2.0 * half_sine * ((1.0 - square) * density);
        let versine = 2.0 * half_sine * half_sine;
        let y = self.cosine * sine + self.sine * self.sine * versine;
        Node { sine, versine, y, density }
    }

    /// The end of the interval of integration: where the integrand has fallen to about exp(-CUT), or the end of the sphere.
    #[inline]
    fn cut(&self, end: f64) -> (f64, f64) {
        let curvature = (self.bend + self.power * self.cosine * self.cosine).max(0.0);
        let slope = self.slope.max(0.0);
        let mut x = (0.5 * CUT / (slope + (slope * slope + 2.0 * CUT * curvature).sqrt())).min(end);
        let mut y = 0.0;
        for _ in 0..8 {
            let node = self.node(x);
            let log = if self.power > 0.0 { self.power * ln_1p_minus(-node.y) } else { 0.0 };
            let fall = self.slope * node.sine + self.bend * node.versine - log;
            y = node.y;
            if (fall >= CUT - 2.0 && fall <= CUT + 8.0) || (fall < CUT && x >= end) {
                break;
            }
            let sine2 = self.sine * self.sine;
            let cosine = 1.0 - sine2 * node.versine;
            let growth = node.sine
                * (self.slope * cosine
                    + self.bend * node.sine
                    + self.power * node.y / (1.0 - node.y).max(1e-3) * (self.cosine * cosine + sine2 * node.sine));
            let factor = 1.0 + (CUT + 2.0 - fall) / growth;
            x = (x * if factor.is_nan() { 0.5 } else { factor.clamp(0.4, 2.5) }).min(end);
        }
        (x, y)
    }

    /// The integral over f, divided by S, of the integrand from 0 to x; y is its value at x.
    fn integrate(&self, (x, y): (f64, f64)) -> f64 {
        if self.power == 0.0 {
            return self.sum(x, |_| 0.0);
        }
        // y has its least value, if it has one below 0, at -(1/S - 1) or above x.
        if y.abs() < 0.05 && self.cosine >= 0.0 {
            return self.sum(x, |y| series::<6>(-y));
        }
        if y < 0.5 && self.cosine >= -0.8 {
            return self.sum(x, |y| series::<16>(-y));
        }
        self.sum(x, |y| ln_1p_minus(-y))
    }

    #[inline(always)]
    fn sum(&self, x: f64, log: impl Fn(f64) -> f64) -> f64 {
        let mut sum = 0.0;
        for (node, weight) in NODES {
            let n = self.node(x * node);
            let exponent = self.power * log(n.y) - (self.slope * n.sine + self.bend * n.versine);
            sum += weight * n.density * exponent.exp();
        }
        4.0 * x * sum
    }
}

/// The integrand is cut off at exp(-CUT), 1e-16 times the precision of a sum of order 1.
const CUT: f64 = 38.0;

/// Below this concentration the law of d = 3 is uniform in s.
const UNIFORM: f64 = 1e-17;

/// P(1 - T <= s + low) and P(1 - T > s + low) for d = 3.
fn exponential(k: f64, s: f64, low: f64) -> (f64, f64) {
    if k < UNIFORM {
        return (0.5 * s, 0.5 * (2.0 - s));
    }
    let total = (-2.0 * k).exp_m1();
    let upper = (-k * s).exp() * (1.0 - k * low) * ((-k * (2.0 - s)).exp_m1() / total);
    ((-k * s).exp_m1() / total, upper)
}

/// The deviation with the lower tail p and the upper tail q = 1 - p for d = 3.
fn exponential_quantile(k: f64, p: f64, q: f64) -> f64 {
    if k < UNIFORM {
        return 2.0 * p;
    }
    let total = (-2.0 * k).exp_m1();
    let s = if p < 0.5 { -(p * total).ln_1p() / k } else { -(q - p * (-2.0 * k).exp() * -1.0 ).ln() / k };
    s.clamp(0.0, 2.0)
}

/// The quantile at a p that is not inside (0, 1).
fn end_quantile(p: f64) -> f64 {
    if p == 0.0 {
        0.0
    } else if p == 1.0 {
        2.0
    } else {
        f64::NAN
    }
}

/// What 1 - t loses to rounding: 1 - t = (1.0 - t) + rounding(t).
fn rounding(t: f64) -> f64 {
    (1.0 - (1.0 - t)) - t
}

/// The angle from s to the end of its tail.
fn end_angle(side: Side, s: f64) -> f64 {
    let (near, far) = if side == Side::Lower { (s, 2.0 - s) } else { (2.0 - s, s) };
    2.0 * near.sqrt().atan2(far.sqrt())
}

/// The deviation at the angle exp(change) * end_angle(s).
fn move_by(side: Side, s: f64, change: f64) -> f64 {
    let angle = end_angle(side, s);
    let half = match side {
        Side::Lower => 0.5 * angle * change.exp(),
        Side::Upper => s.sqrt().atan2((2.0 - s).sqrt()) - 0.5 * angle * change.exp_m1(),
    };
    2.0 * half.sin() * half.sin()
}

/// The z >= 0 with normal upper tail p <= 1/2, to 5e-4 (Abramowitz and Stegun 26.2.23).
fn normal_quantile(p: f64) -> f64 {
    let r = (-2.0 * p.ln()).sqrt();
    let z = r - (2.515517 + r * (0.802853 + r * 0.010328)) / (1.0 + r * (1.432788 + r * (0.189269 + r * 0.001308)));
    z.max(0.0)
}

/// The mode s0 in (0, 1] of the density in theta, as a sum of two floats, k s0 (2 - s0) = m (1 - s0).
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

/// a + b as a rounded sum and its error (Knuth).
fn sum(a: f64, b: f64) -> (f64, f64) {
    let high = a + b;
    let part = high - a;
    (high, (a - (high - part)) + (b - part))
}

/// a b as a rounded product and its error (Dekker).
fn product(a: f64, b: f64) -> (f64, f64) {
    let halves = |x: f64| {
        let scaled = 134217729.0 * x;
        let high = scaled - (scaled - x);
        (high, x - high)
    };
    let ((a1, a2), (b1, b2)) = (halves(a), halves(b));
    let high = a * b;
    (high, ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2)
}

/// ln(1 + x) - x for x >= -1 (below it counts as -1).
fn ln_1p_minus(x: f64) -> f64 {
    if (-0.5..=1.0).contains(&x) { series::<16>(x) } else { x.max(-1.0).ln_1p() - x }
}

/// ln(1 + x) - x = -x v + 2 v^3 (1/3 + v^2/5 + v^4/7 + ...) with v = x/(2 + x), by N terms: 16 for -1/2 <= x <= 1,
/// 6 for |x| < 0.05.
#[inline(always)]
fn series<const N: usize>(x: f64) -> f64 {
    let v = x / (2.0 + x);
    let square = v * v;
    let mut sum = ODD[N - 1];
    for &term in ODD[..N - 1].iter().rev() {
        sum = sum * square + term;
    }
    v * (2.0 * square * sum - x)
}

/// 1/3, 1/5, 1/7, ...
const ODD: [f64; 16] = {
    let mut terms = [0.0; 16];
    let mut j = 0;
    while j < 16 {
        terms[j] = 1.0 / (2 * j + 3) as f64;
        j += 1;
    }
    terms
};

/// The 32 nodes and weights of Gauss and Legendre on [0, 1] (zeros of the Legendre polynomial by Newton at 40 digits;
/// `testdata/projection.py --nodes` prints them).
const NODES: [(f64, f64); 32] = [
    (0.0013680690752592183, 0.003509305004735048),
    (0.007194244227365833, 0.008137197365452835),
    (0.017618872206246784, 0.01269603265463103),
    (0.03254696203113015, 0.017136931456510716),
    (0.05183942211697394, 0.02141794901111334),
    (0.07531619313371501, 0.025499029631188087),
    (0.1027581020160288, 0.029342046739267772),
    (0.13390894062985517, 0.032911111388180925),
    (0.1684778665348924, 0.03617289705442425),
    (0.20614212137961885, 0.039096947893535156),
    (0.2465500455338853, 0.041655962113473374),
    (0.2893243619346823, 0.043826046502201906),
    (0.33406569885893617, 0.045586939347881945),
    (0.38035631887393145, 0.04692219954040228),
    (0.42776401920860174, 0.04781936003963743),
    (0.4758461671561308, 0.0482700442573639),
    (0.5241538328438692, 0.0482700442573639),
    (0.5722359807913983, 0.04781936003963743),
    (0.6196436811260685, 0.04692219954040228),
    (0.6659343011410638, 0.045586939347881945),
    (0.7106756380653176, 0.043826046502201906),
    (0.7534499544661147, 0.041655962113473374),
    (0.7938578786203812, 0.039096947893535156),
    (0.8315221334651076, 0.03617289705442425),
    (0.8660910593701449, 0.032911111388180925),
    (0.8972418979839712, 0.029342046739267772),
    (0.9246838068662849, 0.025499029631188087),
    (0.9481605778830261, 0.02141794901111334),
    (0.9674530379688698, 0.017136931456510716),
    (0.9823811277937532, 0.01269603265463103),
    (0.9928057557726342, 0.008137197365452835),
    (0.9986319309247408, 0.003509305004735048),
];
