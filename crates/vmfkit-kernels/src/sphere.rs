//! Draws of a von Mises-Fisher distribution in three dimensions: both coordinates of a draw have
//! closed forms, so whole batches go through one branch-free kernel.
//!
//! s = -ln(1 - v (1 - e^{-2k}))/k and an angle 2 pi w, MATH.md (11.1), with v and w uniform. The
//! logarithm, sine and cosine are polynomials of our own, because a loop over library calls does
//! not vectorise. The kernel is compiled twice, once for AVX2, and both do the same operations in
//! the same order (no fused multiply-add), so the bits do not depend on the processor.

use crate::float::Float;
use crate::instructions::{Avx2Work, with_avx2};
use crate::xoshiro::Words;

/// Rows per call of the vectorised kernel.
const BATCH: usize = 64;

/// The Householder reflection that takes the first axis to a unit vector mu, MATH.md (11.4).
#[derive(Debug, Clone, Copy)]
pub struct Reflection {
    /// The sign of mu_1, which selects one of two reflections.
    sign: f64,
    /// 1 / (1 + |mu_1|)
    scale: f64,
}

impl Reflection {
    /// The reflection for mu, of which `first` is the first coordinate.
    pub fn new(first: f64) -> Self {
        Reflection { sign: if first >= 0.0 { 1.0 } else { -1.0 }, scale: 1.0 / (1.0 + first.abs()) }
    }

    /// The coefficients of mu_i and of the normal n_i in a coordinate beyond the first: t is the
    /// projection, `across` the length of the tangent over that of the normals, `along` the
    /// tangent's product with mu.
    #[inline(always)]
    pub fn parts(&self, t: f64, across: f64, along: f64) -> (f64, f64) {
        (t + self.sign * along * self.scale, -self.sign * across)
    }
}

/// Draws rows in three dimensions.
#[derive(Debug, Clone, Copy)]
pub struct SphereKernel {
    /// 1 - e^{-2k}
    range: f64,
    /// 1/k; 0 stands for the uniform density
    width: f64,
    mean_direction: [f64; 3],
    reflection: Reflection,
}

type Batch = [f64; BATCH];
type Pairs = [f64; 2 * BATCH];

impl SphereKernel {
    /// The kernel of a unit vector, the mean direction, and a concentration.
    pub fn new(mean_direction: [f64; 3], concentration: f64) -> Self {
        let k = concentration;
        // Below 1e-300 the density is uniform in every digit, and 1/k might overflow.
        let uniform = k < 1e-300;
        SphereKernel {
            range: if uniform { 2.0 } else { -(-2.0 * k).exp_m1() },
            width: if uniform { 0.0 } else { 1.0 / k },
            mean_direction,
            reflection: Reflection::new(mean_direction[0]),
        }
    }

    /// s from a uniform number.
    #[inline(always)]
    fn deviation(&self, uniform: f64) -> f64 {
        let part = uniform * self.range;
        let s = if self.width == 0.0 { part } else { -ln_one_minus(part) * self.width };
        if s < 2.0 { s } else { 2.0 }
    }

    /// Draws rows, each from the next two words of the generator.
    pub fn fill<R: Words, T: Float>(&self, rng: &mut R, out: &mut [T]) {
        let (mut x, mut y, mut z) = ([0.0; BATCH], [0.0; BATCH], [0.0; BATCH]);
        let mut words = [0.0; 2 * BATCH];
        for rows in out.chunks_mut(3 * BATCH) {
            let count = rows.len() / 3;
            rng.fill_bits(&mut words[..2 * count]);
            if count == 1 {
                (x[0], y[0], z[0]) = self.row(words[0], words[1]);
            } else {
                self.batch(&words, &mut x, &mut y, &mut z);
            }
            for (row, ((x, y), z)) in rows.chunks_exact_mut(3).zip(x.iter().zip(&y).zip(&z)) {
                row[0] = T::from_f64(*x);
                row[1] = T::from_f64(*y);
                row[2] = T::from_f64(*z);
            }
        }
    }

    /// Converts pairs of random words to rows (x, y, z).
    fn batch(&self, words: &Pairs, x: &mut Batch, y: &mut Batch, z: &mut Batch) {
        with_avx2(BatchWork { kernel: self, words, x, y, z });
    }

    #[inline(always)]
    fn batch_portable(&self, words: &Pairs, x: &mut Batch, y: &mut Batch, z: &mut Batch) {
        for i in 0..BATCH {
            (x[i], y[i], z[i]) = self.row(words[2 * i], words[2 * i + 1]);
        }
    }

    /// A row from two random words, which come in the bits of floats.
    #[inline(always)]
    fn row(&self, first: f64, second: f64) -> (f64, f64, f64) {
        let s = self.deviation(uniform(first));
        let t = 1.0 - s;
        let across = (s * (2.0 - s)).sqrt();
        let (sine, cosine) = sine_cosine_of_turn(uniform(second));
        let [mu1, mu2, mu3] = self.mean_direction;
        let along = across * (mu2 * cosine + mu3 * sine);
        let (mean_part, normal_part) = self.reflection.parts(t, across, along);
        (mu1 * t + along, mean_part * mu2 + normal_part * cosine, mean_part * mu3 + normal_part * sine)
    }
}

/// [`SphereKernel::batch`] for one set of instructions.
struct BatchWork<'a> {
    kernel: &'a SphereKernel,
    words: &'a Pairs,
    x: &'a mut Batch,
    y: &'a mut Batch,
    z: &'a mut Batch,
}

impl Avx2Work for BatchWork<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.kernel.batch_portable(self.words, self.x, self.y, self.z);
    }
}

/// The upper 52 bits of a word as a number in [0, 1): the mantissa of one in [1, 2), less 1.
#[inline(always)]
fn uniform(word: f64) -> f64 {
    f64::from_bits(0x3ff0_0000_0000_0000 | (word.to_bits() >> 12)) - 1.0
}

/// ln(1 - p) for p in [0, 1), to about an ulp: the logarithm of x = 1 - p as rounded, and a
/// first-order term for the rounding.
#[inline(always)]
fn ln_one_minus(p: f64) -> f64 {
    let x = 1.0 - p;
    let rounded = (1.0 - x) - p;
    // rounded / x, where two digits will do: from p = 1/2 on x is exact and nothing is left over.
    ln(x) + rounded * (1.0 + p * (1.0 + p))
}

/// ln x for a normal x > 0. The minimax coefficients of log(1 + f) = 2 s + s R(s^2), s = f/(2 + f),
/// are those of the public-domain fdlibm (e_log.c), good to 2^-58.
#[inline(always)]
fn ln(x: f64) -> f64 {
    const LN_2_HIGH: f64 = 6.931_471_803_691_238_164_90e-1;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_700_02e-10;
    // The mantissa is moved to [sqrt(1/2), sqrt 2) by integer arithmetic on the bits.
    const ROOT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    let shifted = x.to_bits().wrapping_sub(ROOT_HALF);
    // An arithmetic shift of 64-bit lanes is not in AVX2; the exponent plus a bias is positive and
    // fits in a logical one.
    let biased = shifted.wrapping_add(1024 << 52) >> 52;
    let exponent = f64::from_bits(biased | 0x4330_0000_0000_0000) - (4_503_599_627_370_496.0 + 1024.0);
    let mantissa = f64::from_bits((shifted & 0x000f_ffff_ffff_ffff).wrapping_add(ROOT_HALF));
    let f = mantissa - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let even = w * (3.999_999_999_940_941_908e-1 + w * (2.222_219_843_214_978_396e-1 + w * 1.531_383_769_920_937_332e-1));
    let odd = z
        * (6.666_666_666_666_735_130e-1
            + w * (2.857_142_874_366_239_149e-1 + w * (1.818_357_216_161_805_012e-1 + w * 1.479_819_860_511_658_591e-1)));
    let half_square = 0.5 * f * f;
    exponent * LN_2_HIGH - ((half_square - (s * (half_square + even + odd) + exponent * LN_2_LOW)) - f)
}

/// (sin, cos) of 2 pi w for w in [0, 1), to about an ulp of 1: the minimax polynomials of the
/// public-domain fdlibm (k_sin.c, k_cos.c) on an eighth of a turn either side of the nearest
/// quarter.
#[inline(always)]
fn sine_cosine_of_turn(w: f64) -> (f64, f64) {
    // Adding 1.5 * 2^52 rounds to the nearest integer and leaves it in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let rounded = 4.0 * w + ROUND;
    let quarter = rounded.to_bits();
    let r = (w - 0.25 * (rounded - ROUND)) * std::f64::consts::TAU;
    let z = r * r;
    let sine = r + r
        * z
        * (-1.666_666_666_666_663_243_48e-1
            + z * (8.333_333_333_322_489_461_24e-3
                + z * (-1.984_126_982_985_794_931_34e-4
                    + z * (2.755_731_370_707_006_767_89e-6
                        + z * (-2.505_076_025_340_686_341_95e-8 + z * 1.589_690_995_211_550_102_21e-10)))));
    let cosine = 1.0
        - z * (0.5
            - z * (4.166_666_666_666_660_190_37e-2
                + z * (-1.388_888_888_887_410_957_49e-3
                    + z * (2.480_158_728_947_672_941_78e-5
                        + z * (-2.755_731_435_139_066_330_35e-7
                            + z * (2.087_572_321_298_174_827_9e-9 - z * 1.135_964_755_778_819_482_65e-11))))));
    // Quarter turns: odd ones swap the two, and each has its sign; as bit masks, so that lanes need
    // no branch.
    let swap = 0u64.wrapping_sub(quarter & 1);
    let (sine_bits, cosine_bits) = (sine.to_bits(), cosine.to_bits());
    let chosen_sine = (sine_bits & !swap) | (cosine_bits & swap);
    let chosen_cosine = (cosine_bits & !swap) | (sine_bits & swap);
    let sine_sign = (quarter & 2) << 62;
    let cosine_sign = (quarter.wrapping_add(1) & 2) << 62;
    (f64::from_bits(chosen_sine ^ sine_sign), f64::from_bits(chosen_cosine ^ cosine_sign))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xoshiro::Stream;

    #[test]
    fn polynomials_match_the_library() {
        for i in 0..200_000u32 {
            let p = f64::from(i) / 200_000.0;
            assert!((ln_one_minus(p) - (-p).ln_1p()).abs() <= 4e-16 * (-p).ln_1p().abs().max(1e-300), "ln(1 - {p})");
            let (sine, cosine) = sine_cosine_of_turn(p);
            let (expected_sine, expected_cosine) = (p * std::f64::consts::TAU).sin_cos();
            assert!((sine - expected_sine).abs() < 1e-15 && (cosine - expected_cosine).abs() < 1e-15, "turn {p}");
        }
        for p in [1e-300, 1e-20, 1e-10, 1.0 - f64::EPSILON, 1.0 - 0.5 * f64::EPSILON] {
            assert!((ln_one_minus(p) / (-p).ln_1p() - 1.0).abs() < 4e-16, "ln(1 - {p})");
        }
    }

    #[test]
    fn draws_have_the_same_bits_with_and_without_avx2() {
        let kernel = SphereKernel::new([-0.3, 0.5, 0.8], 7.0);
        let mut words: Pairs = [0.0; 2 * BATCH];
        Stream::new(1, 0).fill_bits(&mut words);
        let (mut x, mut y, mut z) = ([0.0; BATCH], [0.0; BATCH], [0.0; BATCH]);
        kernel.batch(&words, &mut x, &mut y, &mut z);
        for (i, pair) in words.chunks_exact(2).enumerate() {
            assert_eq!((x[i], y[i], z[i]), kernel.row(pair[0], pair[1]));
        }
    }
}
