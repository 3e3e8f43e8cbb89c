//! Entropy and Kullback-Leibler divergences as functions of the concentrations alone. MATH.md,
//! section 7.

use super::outer::Point;
use super::{HUGE_CONCENTRATION, ln_normalizer, ln_partition, ln_partition_complement, ln_peak, log_is_outer};
use super::{in_domain, mean_length_and_slope};

/// The differential entropy of a vMF, MATH.md (7.1): the logarithm of the sphere's area at k = 0,
/// decreasing to -inf as k grows.
///
/// Absolute error below 3e-15 max(1, |H|).
#[inline]
pub fn entropy(dim: usize, concentration: f64) -> f64 {
    let k = concentration;
    let ratio = mean_length_and_slope(dim, k);
    if ratio.value >= 0.5 {
        // (k (1 - A) tends to (d - 1)/2 as k grows without bound.)
        let spread = if k > HUGE_CONCENTRATION { 0.5 * (dim as f64 - 1.0) } else { k * ratio.complement };
        spread - ln_peak(dim, k)
    } else {
        -ln_normalizer(dim, k) - k * ratio.value
    }
}

/// KL(vMF(k) || uniform) = k A_d(k) - Phi(k), MATH.md (7.2), relative error below 2e-15.
#[inline]
pub fn divergence_from_uniform(dim: usize, concentration: f64) -> f64 {
    let (d, k) = (dim as f64, concentration);
    let nu = 0.5 * d - 1.0;
    if nu >= 28.5 && (2.0..=HUGE_CONCENTRATION).contains(&k) {
        return Point::new(nu, k).divergence_from_uniform();
    }
    let ratio = mean_length_and_slope(dim, k);
    if ratio.value < 0.6 {
        k * ratio.value - ln_partition(dim, k)
    } else {
        let spread = if k > HUGE_CONCENTRATION { 0.5 * (d - 1.0) } else { k * ratio.complement };
        ln_partition_complement(dim, k) - spread
    }
}

/// KL(vMF(k1) || vMF(k2)) for a common mean direction, MATH.md (7.3). The relative error is below
/// 4e-15, also for close k1 and k2.
#[inline]
pub fn divergence(dim: usize, from: f64, to: f64) -> f64 {
    let (d, k1, k2) = (dim as f64, from, to);
    if !in_domain(d, k1) || !in_domain(d, k2) {
        return f64::NAN;
    }
    if k1 == k2 {
        return 0.0;
    }
    if k1 == 0.0 {
        return ln_partition(dim, k2);
    }
    if k2 == 0.0 {
        return divergence_from_uniform(dim, k1);
    }
    let nu = 0.5 * d - 1.0;
    let step = k2 - k1;
    // A' is analytic in a disc of about this radius around the middle (its nearest poles are at +-i
    // j_{nu,1}).
    let radius = (0.5 * k1 + 0.5 * k2).hypot(nu + 2.4);
    if step.abs() <= 0.5 * radius {
        return close(dim, k1, step, &RULE_10);
    }
    // Up to this step the differences below would lose more digits than the integral does.
    if step.abs() <= 1.2 * radius {
        return close(dim, k1, step, &RULE_20);
    }
    if k1.min(k2) > 1e18 * (1.0 + nu) * (1.0 + nu) {
        let t = step / k1;
        return 0.5 * (d - 1.0) * (t - if t.abs() < 0.5 { t.ln_1p() } else { (k2 / k1).ln() });
    }
    let ratio = mean_length_and_slope(dim, k1);
    if dim > 1 && log_is_outer(nu, k1) && log_is_outer(nu, k2) && k1.max(k2) <= HUGE_CONCENTRATION {
        return far_outer(Point::new(nu, k1), Point::new(nu, k2), ratio.complement);
    }
    if ratio.value < 0.6 && k2 <= HUGE_CONCENTRATION {
        (ln_partition(dim, k2) - ln_partition(dim, k1)) - step * ratio.value
    } else {
        step * ratio.complement - (ln_partition_complement(dim, k2) - ln_partition_complement(dim, k1))
    }
}

/// Gauss-Legendre nodes above 0 on [-1, 1], and their weights: Abramowitz and Stegun, table 25.4.
/// With the poles of A' at twice the length of the interval from its middle, 10 points are accurate
/// to 1e-18; at 5/6 of its length, 20 points to 1e-19.
const RULE_10: [(f64, f64); 5] = [
    (0.148_874_338_981_631_21, 0.295_524_224_714_752_87),
    (0.433_395_394_129_247_19, 0.269_266_719_309_996_36),
    (0.679_409_568_299_024_41, 0.219_086_362_515_982_04),
    (0.865_063_366_688_984_51, 0.149_451_349_150_580_59),
    (0.973_906_528_517_171_72, 0.066_671_344_308_688_138),
];
const RULE_20: [(f64, f64); 10] = [
    (0.076_526_521_133_497_333_8, 0.152_753_387_130_725_851),
    (0.227_785_851_141_645_078, 0.149_172_986_472_603_747),
    (0.373_706_088_715_419_561, 0.142_096_109_318_382_051),
    (0.510_867_001_950_827_098, 0.131_688_638_449_176_627),
    (0.636_053_680_726_515_025, 0.118_194_531_961_518_417),
    (0.746_331_906_460_150_793, 0.101_930_119_817_240_435),
    (0.839_116_971_822_218_823, 0.083_276_741_576_704_748_7),
    (0.912_234_428_251_325_906, 0.062_672_048_334_109_063_6),
    (0.963_971_927_277_913_791, 0.040_601_429_800_386_941_3),
    (0.993_128_599_185_094_925, 0.017_614_007_139_152_118_3),
];

/// (k2 - k1)^2 times the integral of (1 - s) A'(k1 + s (k2 - k1)) over [0, 1], by a Gauss-Legendre
/// rule.
fn close(dim: usize, k1: f64, step: f64, rule: &[(f64, f64)]) -> f64 {
    let mut sum = 0.0;
    for &(node, weight) in rule {
        for s in [0.5 * (1.0 - node), 0.5 * (1.0 + node)] {
            let k = k1 + s * step;
            let at = mean_length_and_slope(dim, k);
            // The square of the step can overflow where its product with the slope does not, so one
            // factor is applied here. The slope of a huge concentration underflows where 1 - A,
            // which is k times as large, does not.
            let change = if k > HUGE_CONCENTRATION { at.complement * (step / k) } else { step * at.slope };
            sum += 0.5 * weight * (1.0 - s) * change;
        }
    }
    step * sum
}

/// MATH.md (7.4): the parts of order u cancel before they are formed.
fn far_outer(p1: Point, p2: Point, complement: f64) -> f64 {
    let nu = p1.nu;
    let step = p2.k - p1.k;
    let du = step * ((p1.k + p2.k) / (p1.u + p2.u));
    let ln_of_one_plus = |x: f64, ratio: f64| if (-0.5..=1.0).contains(&x) { x.ln_1p() } else { ratio.ln() };
    let gaps = nu * nu / (p1.u + p1.k) + nu * nu / (p2.u + p2.k);
    step * (complement - gaps / (p1.u + p2.u))
        - nu * ln_of_one_plus(du / (nu + p1.u), (nu + p2.u) / (nu + p1.u))
        - 0.5 * ln_of_one_plus(du / p1.u, p2.u / p1.u)
        + (p2.log_series() - p1.log_series())
}
