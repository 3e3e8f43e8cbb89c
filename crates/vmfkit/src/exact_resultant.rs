//! The exact distribution of the resultant length of two or three uniform rows, where the
//! saddlepoint approximation is not accurate enough.

use crate::density_grid::DensityGrid;
use crate::projection::ProjectionLaw;
use std::f64::consts::PI;

/// P(|sum of n uniform rows| >= r) for n = 2 and n = 3, otherwise `None`; `shortfall` is n - r.
pub(crate) fn resultant_length_tail(dim: usize, n: f64, r: f64, shortfall: f64) -> Option<f64> {
    if n != 2.0 && n != 3.0 {
        return None;
    }
    let law = ProjectionLaw::new(dim, 0.0).ok()?;
    Some(if n == 2.0 { two_rows(&law, r, shortfall) } else { three_rows(&law, r, shortfall) })
}

/// MATH.md (12.4): r^2 = 2 + 2t, where t is the projection of one row on the other, so
/// 1 - t = (2 - r)(2 + r)/2.
fn two_rows(law: &ProjectionLaw, r: f64, shortfall: f64) -> f64 {
    law.deviation_cdf(0.5 * shortfall * (2.0 + r))
}

/// MATH.md (12.5): integrates over the angle between the first two rows, whose sum has length
/// r2 = 2 cos(angle/2), the probability that the third row makes the sum long enough.
fn three_rows(law: &ProjectionLaw, r: f64, shortfall: f64) -> f64 {
    let power = law.dim() as f64 - 2.0;
    // The density of the angle is c sin^(d-2); c is the density of the projection at 0.
    let ln_constant = law.deviation_ln_pdf(1.0);
    // gap = 2 - r2 = 4 sin^2(angle/4)
    let angle = |gap: f64| 4.0 * (0.5 * gap.clamp(0.0, 2.0).sqrt()).asin();
    let ln_probability = |theta: f64| {
        let half_sine = (0.25 * theta).sin();
        let gap = 4.0 * half_sine * half_sine;
        // 1 - u for the smallest projection u of the third row on the sum of the others that
        // suffices.
        let deviation = (shortfall - gap) * (6.0 - gap - shortfall) / (2.0 * (2.0 - gap));
        law.deviation_ln_cdf(deviation.clamp(0.0, 2.0))
    };
    // If r < 1, the sum is long enough for any third row if r2 is above 1 + r or below 1 - r.
    let breaks: &[f64] = if r < 1.0 { &[0.0, angle(1.0 - r), angle(1.0 + r), PI] } else { &[0.0, angle(shortfall)] };
    let piece = |from: f64, to: f64| {
        if !(to > from) {
            return 0.0;
        }
        // theta = from + (to - from)/(1 + e^-y)
        let ln_density = |y: f64| {
            let (below, above) = (1.0 / (1.0 + (-y).exp()), 1.0 / (1.0 + y.exp()));
            let theta = from + (to - from) * below;
            power * theta.sin().max(0.0).ln() + ln_probability(theta) + ((to - from) * below * above).ln()
        };
        (ln_constant + DensityGrid::ln_integral(ln_density, peak(ln_density, 40.0), 0.25 / (power + 2.0).sqrt())).exp()
    };
    breaks.windows(2).map(|ends| piece(ends[0], ends[1])).sum::<f64>().min(1.0)
}

/// The maximum of a unimodal function in [-bound, bound].
fn peak(function: impl Fn(f64) -> f64, bound: f64) -> f64 {
    let (mut low, mut high) = (-bound, bound);
    for _ in 0..60 {
        let third = (high - low) / 3.0;
        if function(low + third) < function(high - third) { low += third } else { high -= third }
    }
    0.5 * (low + high)
}
