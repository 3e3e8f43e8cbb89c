//! [`DeviationLaw`]: draws s = 1 - mu . x alone, at a cost that does not depend on the dimension.

use super::envelope::{BetaEnvelope, CONCENTRATED, GammaEnvelope};
use crate::bessel;
use rand::{Rng, RngExt};
use std::f64::consts::FRAC_PI_2;
use vmfkit_kernels::ziggurat::Gamma;

/// The distribution of s = 1 - mu . x for x ~ vMF(mu, k), with the envelopes of [`super::Sampler`]
/// but without the tangent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviationLaw(Kind);

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// d = 1, k = 0: s is 0 or 2.
    Signs,
    /// d = 2
    Circle(BetaEnvelope),
    /// d = 3, with the concentration
    Sphere(f64),
    /// d >= 4, mean length below [`CONCENTRATED`]
    Spread(BetaEnvelope, Gamma),
    /// d >= 4, mean length from [`CONCENTRATED`] on
    Concentrated(GammaEnvelope, Gamma),
}

impl DeviationLaw {
    /// For `dim >= 2`.
    pub(crate) fn new(dim: usize, k: f64) -> Self {
        Self(match dim {
            2 => Kind::Circle(BetaEnvelope::new(dim, k)),
            3 => Kind::Sphere(k),
            _ => {
                let gamma = Gamma::new(0.5 * (dim as f64 - 1.0));
                let length = bessel::mean_length_and_slope(dim, k);
                if length.value < CONCENTRATED {
                    Kind::Spread(BetaEnvelope::new(dim, k), gamma)
                } else {
                    Kind::Concentrated(GammaEnvelope::new(dim, k, length.complement), gamma)
                }
            }
        })
    }

    /// The law for a uniform direction with `dim >= 1` coordinates.
    pub(crate) fn uniform(dim: usize) -> Self {
        if dim == 1 { Self(Kind::Signs) } else { Self::new(dim, 0.0) }
    }

    pub(crate) fn draw<R: Rng>(&self, rng: &mut R) -> f64 {
        match &self.0 {
            Kind::Signs => f64::from(rng.random::<bool>()) * 2.0,
            Kind::Circle(envelope) => loop {
                // Beta(1/2, 1/2) is the arcsine distribution.
                let sine = (FRAC_PI_2 * rng.random::<f64>()).sin();
                let s = envelope.propose(sine * sine);
                if envelope.accepts(s, rng) {
                    return s;
                }
            },
            Kind::Sphere(k) if *k < 1e-10 => 2.0 * rng.random::<f64>(),
            // MATH.md (11.1)
            Kind::Sphere(k) => (-(rng.random::<f64>() * -(-2.0 * k).exp_m1())).ln_1p() / -k,
            Kind::Spread(envelope, gamma) => loop {
                let (x, y) = (gamma.draw(rng), gamma.draw(rng));
                let s = envelope.propose(x / (x + y));
                if envelope.accepts(s, rng) {
                    return s;
                }
            },
            Kind::Concentrated(envelope, gamma) => loop {
                let s = envelope.propose(gamma.draw(rng));
                if envelope.accepts(s, rng) {
                    return s;
                }
            },
        }
    }
}
