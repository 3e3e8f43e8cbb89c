//! The two envelopes of the rejection samplers of s = 1 - mu . x, MATH.md (11.2) and (11.3).
//!
//! A change of a proposal changes the values that a seed draws: update the value-stability test and
//! CHANGELOG, and run `cargo bench --bench sampler`.

use crate::bessel;
use rand::{Rng, RngExt};
use std::f64::consts::FRAC_PI_2;
use vmfkit_kernels::ziggurat::Gamma;

/// From this k on, sqrt(4k^2 + (d - 1)^2) rounds to 2k. The sum of both overflows at a quarter of
/// the largest f64.
const ROOT_IS_2K: f64 = 1e300;

/// From this mean length on, the gamma envelope is faster than the beta envelope.
const CONCENTRATED: f64 = 0.2;

/// The rejection sampler of s for d >= 4.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rejection {
    /// The gamma law of shape a = (d - 1)/2.
    pub(super) gamma: Gamma,
    envelope: Envelope,
}

#[derive(Debug, Clone, Copy)]
enum Envelope {
    /// For mean lengths below [`CONCENTRATED`]; two gamma variates make a symmetric beta variate.
    Beta(BetaEnvelope),
    /// For other mean lengths.
    Gamma(GammaEnvelope),
}

impl Rejection {
    pub(super) fn new(dim: usize, concentration: f64) -> Self {
        let length = bessel::mean_length_and_slope(dim, concentration);
        let envelope = if length.value < CONCENTRATED {
            Envelope::Beta(BetaEnvelope::new(dim, concentration))
        } else {
            Envelope::Gamma(GammaEnvelope::new(dim, concentration, length.complement))
        };
        Rejection { gamma: Gamma::new(0.5 * (dim as f64 - 1.0)), envelope }
    }

    /// Draws s; `first` is a draw of [`Self::gamma`].
    #[inline(always)]
    pub(super) fn draw<R: Rng>(&self, first: f64, rng: &mut R) -> f64 {
        let mut x = first;
        match &self.envelope {
            Envelope::Beta(envelope) => loop {
                let s = envelope.propose(x / (x + self.gamma.draw(rng)));
                if envelope.accepts(s, rng) {
                    return s;
                }
                x = self.gamma.draw(rng);
            },
            Envelope::Gamma(envelope) => loop {
                let s = envelope.propose(x);
                if envelope.accepts(s, rng) {
                    return s;
                }
                x = self.gamma.draw(rng);
            },
        }
    }
}

/// Ulrich's envelope, MATH.md (11.2), written in deviations.
#[derive(Debug, Clone, Copy)]
pub(super) struct BetaEnvelope {
    /// d - 1
    power: f64,
    concentration: f64,
    /// b
    shape: f64,
    /// 1 - b, computed without cancellation
    shape_complement: f64,
    /// s_0 = 1 - x_0 = 2b/(1 + b)
    start: f64,
    /// 1 / (s_0 (2 - s_0))
    scale: f64,
}

impl BetaEnvelope {
    pub(super) fn new(dim: usize, concentration: f64) -> Self {
        let (power, k) = (dim as f64 - 1.0, concentration);
        let (shape, shape_complement) = if k < ROOT_IS_2K {
            let root = (2.0 * k).hypot(power);
            // 1 - b = (2k + root - power)/(2k + root), and root - power = 4k^2/(root + power).
            (power / (2.0 * k + root), 2.0 * k * (1.0 + 2.0 * k / (root + power)) / (2.0 * k + root))
        } else {
            (0.25 * power / k, 1.0)
        };
        let start = 2.0 * shape / (1.0 + shape);
        // About k/(d - 1), which rounding could make infinite.
        let scale = (1.0 / (start * (2.0 - start))).min(f64::MAX);
        BetaEnvelope { power, concentration, shape, shape_complement, start, scale }
    }

    /// Draws s for d = 2.
    #[inline(always)]
    pub(super) fn draw_on_circle<R: Rng>(&self, rng: &mut R) -> f64 {
        loop {
            // Beta(1/2, 1/2) is the arcsine distribution.
            let sine = (FRAC_PI_2 * rng.random::<f64>()).sin();
            let s = self.propose(sine * sine);
            if self.accepts(s, rng) {
                return s;
            }
        }
    }

    /// The deviation proposed by a symmetric beta variate z.
    #[inline]
    fn propose(&self, z: f64) -> f64 {
        2.0 * self.shape * z / (1.0 - self.shape_complement * z)
    }

    /// The log of the acceptance probability.
    #[inline]
    fn ln_acceptance(&self, s: f64) -> f64 {
        let ratio = (self.start + s - self.start * s) * self.scale;
        self.power * ratio.ln() - self.concentration * (s - self.start)
    }

    #[inline]
    fn accepts<R: Rng>(&self, s: f64, rng: &mut R) -> bool {
        let uniform: f64 = rng.random();
        let level = self.ln_acceptance(s);
        // Because 1 + x <= e^x, most proposals are accepted without a second logarithm.
        uniform <= 1.0 + level || uniform.ln() <= level
    }
}

/// The gamma envelope, MATH.md (11.3).
///
/// The density of s is a gamma density times (2 - s)^(a-1); the envelope replaces the log of this
/// factor by its tangent.
#[derive(Debug, Clone, Copy)]
struct GammaEnvelope {
    /// a - 1 = (d - 3)/2
    power: f64,
    /// k + (a - 1)/(2 - anchor)
    rate: f64,
    /// The point of tangency, E[s].
    anchor: f64,
    /// 1/(2 - anchor)
    slope: f64,
}

impl GammaEnvelope {
    fn new(dim: usize, concentration: f64, anchor: f64) -> Self {
        let (power, slope) = (0.5 * (dim as f64 - 3.0), 1.0 / (2.0 - anchor));
        GammaEnvelope { power, rate: concentration + power * slope, anchor, slope }
    }

    /// The deviation proposed by a gamma variate of shape a.
    #[inline(always)]
    fn propose(&self, gamma: f64) -> f64 {
        gamma / self.rate
    }

    #[inline(always)]
    fn accepts<R: Rng>(&self, s: f64, rng: &mut R) -> bool {
        if s >= 2.0 {
            return false;
        }
        let y = (s - self.anchor) * self.slope;
        let uniform = 1.0 - rng.random::<f64>();
        // ln(1 - y) + y is at least -y^2/2 for y < 0 and -y^2/(2(1 - y)) for y > 0, so most
        // proposals are accepted without a logarithm.
        let bound = 0.5 * self.power * y * y;
        uniform <= 1.0 - if y > 0.0 { bound / (1.0 - y) } else { bound } || uniform.ln() <= self.power * ((-y).ln_1p() + y)
    }
}
