//! The quadrature of a tail: one Gauss-Legendre rule, in a variable that fits every scale.

/// The integral is cut off where less than exp(-34) = 2e-15 of a tail is left.
const CUT: f64 = 36.0;

/// The integrand of a tail as a function of the angle f from its edge.
///
/// With S and C the sine and cosine of the edge's angle to the end of the tail, and h the decay at
/// the edge, ln g(f)/g(edge) = m L(-y) - h sin f - (m + k (1 - s)) (1 - cos f), y = (C/S) sin f +
/// 1 - cos f. The variable of integration is x = tan(f/4)/S: sin and cos are rational in it, and it
/// is of order 1 also when the angles are of order 1e-150.
pub(super) struct Integrand {
    /// m, S and C.
    pub(super) power: f64,
    pub(super) sine: f64,
    pub(super) cosine: f64,
    /// h S and (m + k (1 - s)) S^2.
    pub(super) slope: f64,
    pub(super) bend: f64,
}

/// sin f / S, (1 - cos f) / S^2, y, and df/dx / (4 S).
struct Point {
    sine: f64,
    versine: f64,
    y: f64,
    stretch: f64,
}

impl Integrand {
    #[inline(always)]
    fn point(&self, x: f64) -> Point {
        let square = (self.sine * x) * (self.sine * x);
        let stretch = 1.0 / (1.0 + square);
        let half_sine = 2.0 * x * stretch;
        let sine = 2.0 * half_sine * ((1.0 - square) * stretch);
        let versine = 2.0 * half_sine * half_sine;
        let y = self.cosine * sine + self.sine * self.sine * versine;
        Point { sine, versine, y, stretch }
    }

    /// Where to end the integration: x where the integrand has fallen to about exp(-CUT), or the
    /// end of the sphere.
    fn cut(&self, end: f64) -> f64 {
        let curvature = (self.bend + self.power * self.cosine * self.cosine).max(0.0);
        let slope = self.slope.max(0.0);
        let sine2 = self.sine * self.sine;
        let mut x = (0.5 * CUT / (slope + (slope * slope + 2.0 * CUT * curvature).sqrt())).min(end);
        for _ in 0..8 {
            let Point { sine, versine, y, .. } = self.point(x);
            // A low power reaches the end of the sphere before it has fallen.
            let y = y.min(0.98);
            let fall = self.slope * sine + self.bend * versine - self.power * ln_1p_minus(-y);
            if (CUT - 2.0..CUT + 8.0).contains(&fall) || (fall < CUT && x >= end) {
                break;
            }
            // Newton's step for the relative change of x.
            let cosine = 1.0 - sine2 * versine;
            let bend = self.bend * sine + self.power * y / (1.0 - y) * (self.cosine * cosine + sine2 * sine);
            let change = (CUT + 2.0 - fall) / (sine * (self.slope * cosine + bend));
            x = (x * (1.0 + change.clamp(-0.6, 1.5))).min(end);
        }
        x
    }

    /// The integral over f, divided by S.
    pub(super) fn integrate(&self, end: f64) -> f64 {
        self.integrate_times(end, |_| 1.0)
    }

    /// The integral of `offset` + |s(f) - s(0)| over f, divided by S. The distance is S sin f - C
    /// (1 - cos f), with f at most the angle of the edge, so that its second part is at most half
    /// of its first.
    pub(super) fn integrate_distance(&self, end: f64, offset: f64) -> f64 {
        let square = self.sine * self.sine;
        self.integrate_times(end, |point| offset + square * (point.sine - self.cosine * point.versine))
    }

    #[inline(always)]
    fn integrate_times(&self, end: f64, factor: impl Fn(&Point) -> f64) -> f64 {
        let x = self.cut(end);
        let Point { sine, versine, y, .. } = self.point(x);
        let bound = self.cosine.abs() * sine + self.sine * self.sine * versine;
        if self.power == 0.0 {
            self.sum(x, factor, |_| 0.0)
        } else if bound < 0.05 {
            self.sum(x, factor, |y| series::<6>(-y))
        } else if bound < 1.0 && y < 0.5 {
            self.sum(x, factor, |y| series::<16>(-y))
        } else {
            // Here m < 250, and the rounding of the logarithm is harmless.
            self.sum(x, factor, |y| (1.0 - y).max(f64::MIN_POSITIVE).ln() + y)
        }
    }

    /// The Gauss-Legendre sum from 0 to x of the integrand times a factor, with L(-y) as given.
    #[inline(always)]
    fn sum(&self, x: f64, factor: impl Fn(&Point) -> f64, log: impl Fn(f64) -> f64) -> f64 {
        // Two loops: the first has no call in it, so that the compiler can vectorise it.
        let mut terms = [(0.0, 0.0); 2 * NODES.len()];
        for (pair, (distance, weight)) in terms.chunks_exact_mut(2).zip(NODES) {
            for (term, node) in pair.iter_mut().zip([0.5 - distance, 0.5 + distance]) {
                let point = self.point(x * node);
                let Point { sine, versine, y, stretch } = point;
                let exponent = self.power * log(y) - (self.slope * sine + self.bend * versine);
                *term = (exponent, weight * stretch * factor(&point));
            }
        }
        4.0 * x * terms.iter().map(|&(exponent, weight)| weight * exponent.exp()).sum::<f64>()
    }
}

/// ln(1 + x) - x for x >= -1 (below it counts as -1).
pub(super) fn ln_1p_minus(x: f64) -> f64 {
    if (-0.5..=1.0).contains(&x) {
        series::<16>(x)
    } else {
        let x = x.clamp(-1.0, f64::MAX);
        x.ln_1p() - x
    }
}

/// ln(1 + x) - x = -x v + 2 v^3 (1/3 + v^2/5 + v^4/7 + ...) with v = x/(2 + x), by N terms: 16 for
/// -1/2 <= x <= 1, 6 for |x| < 0.05.
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

/// The Gauss-Legendre rule of 28 nodes on [0, 1]: the distances of the nodes from 1/2, to both
/// sides, and their weights (printed by `testdata/projection.py --nodes`).
const NODES: [(f64, f64); 14] = [
    (0.4982212487869772, 0.0045621412965472586),
    (0.49065158268543635, 0.01056605629638563),
    (0.4771296403144691, 0.01645071389115219),
    (0.45781651319606603, 0.022136467379502114),
    (0.43294626128719754, 0.027553672837858374),
    (0.40282068545858957, 0.0326364619834998),
    (0.3678054390068159, 0.03732310711728439),
    (0.3283255470194325, 0.041556708614450606),
    (0.28486023590570086, 0.04528587219651642),
    (0.23793711247755914, 0.04846532899896496),
    (0.18812575804453935, 0.05105648378903038),
    (0.13603081381758905, 0.05302788296142321),
    (0.08228464106669038, 0.05435559612914707),
    (0.027539644942017136, 0.0550235065082376),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_meets_the_logarithm() {
        for (x, expected) in [
            (-0.5, -0.193147180559945309417),
            (1.0, -0.306852819440054690583),
            (-0.5 - 1e-15, -0.193147180559945309417),
            (1.0 + 1e-15, -0.306852819440054690583),
            (0.04, -7.7928684671870376e-4),
        ] {
            assert!((ln_1p_minus(x) / expected - 1.0).abs() < 1e-14, "{x}");
        }
        for i in -50..=50 {
            let x = f64::from(i) / 1000.0;
            assert!((series::<6>(x) - series::<16>(x)).abs() <= 1e-16 * x * x);
        }
    }
}
