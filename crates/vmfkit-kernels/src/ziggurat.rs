//! Standard normals by the slice, and gamma variates: the ziggurat of Marsaglia and Tsang,
//! doi:10.18637/jss.v005.i08, with 1024 layers.
//!
//! The crate rand_distr has both, but the compiler does not always inline the fast path of its
//! normals into a loop, and a call costs as much as a normal (3 ns or 5.5 ns a value). Here it is
//! always inlined, and the random words are generated in batches, so that none waits for the one
//! before it.

use crate::xoshiro::Words;
use crate::ziggurat_layers::{EDGE, HEIGHT, TAIL};
use rand::{Rng, RngExt};

/// Fills a slice with independent standard normals.
#[inline(always)]
pub fn fill<R: Words>(rng: &mut R, out: &mut [f64]) {
    rng.fill_bits(out);
    for value in out {
        *value = normal(value.to_bits(), rng);
    }
}

/// The gamma distribution with unit scale and a shape of at least 1: Marsaglia and Tsang,
/// doi:10.1145/358407.358414.
#[derive(Debug, Clone, Copy)]
pub struct Gamma {
    /// shape - 1/3
    center: f64,
    /// 1 / sqrt(9 center)
    width: f64,
}

impl Gamma {
    /// The distribution with this shape, at least 1.
    pub fn new(shape: f64) -> Self {
        let center = shape - 1.0 / 3.0;
        Gamma { center, width: 1.0 / (9.0 * center).sqrt() }
    }

    /// Draws one variate.
    #[inline(always)]
    pub fn draw<R: Rng>(&self, rng: &mut R) -> f64 {
        loop {
            let x = normal(rng.next_u64(), rng);
            let root = 1.0 + self.width * x;
            if root <= 0.0 {
                continue;
            }
            let (v, square) = (root * root * root, x * x);
            // 1 - U is never 0, and the first test avoids nearly every logarithm.
            let uniform = 1.0 - rng.random::<f64>();
            if uniform < 1.0 - 0.0331 * square * square || uniform.ln() < 0.5 * square + self.center * (1.0 - v + v.ln()) {
                return self.center * v;
            }
        }
    }
}

#[inline(always)]
fn normal<R: Rng>(word: u64, rng: &mut R) -> f64 {
    let layer = (word & 0x3ff) as usize;
    // 52 other bits as the mantissa of a number in [2, 4), less 3: uniform on [-1, 1).
    let uniform = f64::from_bits(0x4000_0000_0000_0000 | (word >> 12)) - 3.0;
    let x = uniform * EDGE[layer];
    // 99.7 % of all values lie under the next layer, and so under the curve.
    if x.abs() < EDGE[layer + 1] { x } else { near_the_edge(rng, layer, uniform, x) }
}

/// A value in the part of its layer that the curve cuts, or a new one if it is above the curve.
#[cold]
#[inline(never)]
fn near_the_edge<R: Rng>(rng: &mut R, layer: usize, uniform: f64, x: f64) -> f64 {
    if layer == 0 {
        return tail(rng).copysign(uniform);
    }
    let (low, high) = (HEIGHT[layer], HEIGHT[layer + 1]);
    if low + (high - low) * rng.random::<f64>() < (-0.5 * x * x).exp() {
        return x;
    }
    normal(rng.next_u64(), rng)
}

/// A value beyond the last edge: Marsaglia's exponential proposals.
fn tail<R: Rng>(rng: &mut R) -> f64 {
    loop {
        // 1 - U is never 0.
        let (beyond, level) = (-(1.0 - rng.random::<f64>()).ln() / TAIL, -(1.0 - rng.random::<f64>()).ln());
        if 2.0 * level >= beyond * beyond {
            return TAIL + beyond;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xoshiro::Stream;

    /// The first four moments of a million values, within 5 standard errors; seed fixed.
    #[test]
    fn gamma_variates_have_the_expected_moments() {
        for shape in [1.0, 1.5, 7.0, 400.0] {
            let (gamma, mut rng, n) = (Gamma::new(shape), Stream::new(4, 0), 1_000_000);
            let mut sums = [0.0; 4];
            for _ in 0..n {
                // Standardised by the law's own mean and deviation.
                let z = (gamma.draw(&mut rng) - shape) / shape.sqrt();
                sums.iter_mut().zip([z, z * z, z * z * z, z.powi(4)]).for_each(|(sum, power)| *sum += power);
            }
            let [m1, m2, m3, m4] = sums.map(|sum| sum / f64::from(n));
            let (skew, excess) = (2.0 / shape.sqrt(), 6.0 / shape);
            assert!(m1.abs() < 5e-3 && (m2 - 1.0).abs() < 5e-3 * (2.0 + excess).sqrt(), "shape {shape}: {m1} {m2}");
            assert!(
                (m3 - skew).abs() < 0.02 * (1.0 + 4.0 * excess) && (m4 - 3.0 - excess).abs() < 0.06 * (1.0 + 6.0 * excess),
                "shape {shape}: {m3} {m4}"
            );
        }
    }

    /// Fractions of ten million values in bins, against the normal law; 5 standard errors, seed
    /// fixed.
    #[test]
    fn normals_match_the_distribution_in_body_and_tail() {
        // P(|x| > z), from tables of the normal law.
        let law = [
            (0.1, 0.920_344_325_445_942),
            (0.5, 0.617_075_077_451_974),
            (1.0, 0.317_310_507_862_914),
            (2.0, 0.045_500_263_896_358_4),
            (3.0, 0.002_699_796_063_260_19),
            (3.6, 3.182_171_697_404_96e-4),
            (3.7, 2.155_961_480_285_21e-4),
            (4.0, 6.334_248_366_623_99e-5),
            (4.5, 6.795_346_249_460_06e-6),
        ];
        let (n, mut above, mut positive, mut fourth) = (10_000_000u32, [0u32; 9], 0u32, 0.0);
        let mut rng = Stream::new(1, 0);
        let mut values = vec![0.0; 1000];
        for _ in 0..n / 1000 {
            fill(&mut rng, &mut values);
            for x in &values {
                positive += u32::from(*x > 0.0);
                fourth += x.powi(4);
                for (count, (z, _)) in above.iter_mut().zip(law) {
                    *count += u32::from(x.abs() > z);
                }
            }
        }
        let n = f64::from(n);
        for (count, (z, p)) in above.iter().zip(law) {
            let error = (f64::from(*count) - n * p) / (n * p * (1.0 - p)).sqrt();
            assert!(error.abs() < 5.0, "beyond {z}: {error} standard errors");
        }
        assert!((f64::from(positive) - 0.5 * n).abs() < 2.5 * n.sqrt());
        // The fourth moment is 3, and the variance of x^4 is 96.
        assert!((fourth / n - 3.0).abs() < 5.0 * (96.0 / n).sqrt());
    }
}
