//! [`DeviationLaw`]: draws s = 1 - mu . x alone, at a cost that does not depend on the dimension.

use super::envelope::{BetaEnvelope, Rejection};
use rand::{Rng, RngExt};

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
    /// d >= 4
    Rejection(Rejection),
}

impl DeviationLaw {
    /// For `dim >= 2`.
    pub(crate) fn new(dim: usize, k: f64) -> Self {
        Self(match dim {
            2 => Kind::Circle(BetaEnvelope::new(dim, k)),
            3 => Kind::Sphere(k),
            _ => Kind::Rejection(Rejection::new(dim, k)),
        })
    }

    /// The law for a uniform direction with `dim >= 1` coordinates.
    pub(crate) fn uniform(dim: usize) -> Self {
        if dim == 1 { Self(Kind::Signs) } else { Self::new(dim, 0.0) }
    }

    pub(crate) fn draw<R: Rng>(&self, rng: &mut R) -> f64 {
        match &self.0 {
            Kind::Signs => f64::from(rng.random::<bool>()) * 2.0,
            Kind::Circle(envelope) => envelope.draw_on_circle(rng),
            Kind::Sphere(k) if *k < 1e-10 => 2.0 * rng.random::<f64>(),
            // MATH.md (11.1)
            Kind::Sphere(k) => (-(rng.random::<f64>() * -(-2.0 * k).exp_m1())).ln_1p() / -k,
            Kind::Rejection(rejection) => rejection.draw(rejection.gamma.draw(rng), rng),
        }
    }
}
