//! [`SumLaw`]: draws sums of n rows of a vMF. The cost does not depend on the dimension, nor on n
//! for many rows. MATH.md (15.5).

use crate::bessel;
use crate::density_grid::DensityGrid;
use crate::inference::Resultant;
use crate::saddlepoint::{self, ln_slope};
use crate::sampler::{DeviationLaw, Stream};
use rand::RngExt;

/// From this number of rows on, the length of the sum is drawn from its saddlepoint approximation;
/// below it, rows are drawn one by one.
const MANY_ROWS: f64 = 32.0;

/// The distribution of the sum of n independent rows of a vMF with mean direction mu.
pub(super) struct SumLaw {
    dim: usize,
    /// n
    weight: f64,
    concentration: f64,
    method: Method,
}

enum Method {
    /// Draws rows one by one, from the laws of the deviation of a row and of the deviation between
    /// its tangent and the sum of the previous ones.
    RowByRow(DeviationLaw, DeviationLaw),
    /// Draws the length r from the law of ln k, where A(k) = r/n.
    Length(DensityGrid),
}

/// A sum of rows by its components along mu and orthogonal to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sum {
    /// n
    pub(super) weight: f64,
    /// n - mu . R, to full relative accuracy
    pub(super) lost: f64,
    /// |R - (mu . R) mu|
    pub(super) across: f64,
}

impl Sum {
    pub(super) const ZERO: Sum = Sum { weight: 0.0, lost: 0.0, across: 0.0 };

    /// Adds a sum; `deviation` is 1 - cosine of the angle between the components orthogonal to mu.
    pub(super) fn add(&mut self, other: Sum, deviation: f64) {
        let (a, b) = (self.across, other.across);
        self.across = ((a + b) * (a + b) - 2.0 * a * b * deviation).max(0.0).sqrt();
        self.weight += other.weight;
        self.lost += other.lost;
    }

    pub(super) fn resultant(&self) -> Resultant {
        let along = self.weight - self.lost;
        let length = along.hypot(self.across);
        let shortfall =
            if along > 0.0 { self.lost - self.across * (self.across / (length + along)) } else { self.weight - length };
        Resultant { weight: self.weight, length, shortfall: shortfall.max(0.0) }
    }
}

impl SumLaw {
    pub(super) fn new(dim: usize, weight: f64, concentration: f64) -> Self {
        let method = if weight < 1.0 || weight < MANY_ROWS && weight.fract() == 0.0 {
            Method::RowByRow(DeviationLaw::new(dim, concentration), DeviationLaw::uniform(dim - 1))
        } else {
            Method::Length(length_law(dim, weight, concentration))
        };
        SumLaw { dim, weight, concentration, method }
    }

    pub(super) fn draw(&self, rng: &mut Stream) -> Sum {
        match &self.method {
            Method::RowByRow(deviation, angle) => {
                let mut sum = Sum::ZERO;
                // A group of weight below 1 is one row of that weight.
                let weight = self.weight.min(1.0);
                for _ in 0..(self.weight as usize).max(1) {
                    let s = deviation.draw(rng);
                    sum.add(Sum { weight, lost: weight * s, across: weight * (s * (2.0 - s)).max(0.0).sqrt() }, angle.draw(rng));
                }
                sum
            }
            Method::Length(law) => {
                let k = law.quantile(rng.random::<f64>()).exp();
                let at = bessel::mean_length_and_slope(self.dim, k);
                let length = self.weight * at.value;
                // Given its length r, the sum has a vMF direction with concentration k r.
                let s = DeviationLaw::new(self.dim, self.concentration * length).draw(rng);
                Sum {
                    weight: self.weight,
                    lost: self.weight * at.complement + length * s,
                    across: length * (s * (2.0 - s)).max(0.0).sqrt(),
                }
            }
        }
    }
}

/// The saddlepoint density, MATH.md (12.3), of ln k with A(k) = r/n, tilted from uniform rows to
/// rows of this concentration: exp(-n KL(k || uniform)) becomes
/// exp(-n KL(k || concentration) - Psi(concentration r)).
fn length_law(dim: usize, n: f64, concentration: f64) -> DensityGrid {
    let d = dim as f64;
    let ln_density = |x: f64| {
        let k = x.exp();
        let length = bessel::mean_length(dim, k);
        0.5 * (d - 1.0) * (x + length.ln()) + 0.5 * ln_slope(dim, k)
            - n * bessel::divergence(dim, k, concentration)
            - bessel::ln_partition_complement(dim, concentration * n * length)
            + saddlepoint::correction(dim, k) / n
            + x
    };
    // The mean of (r/n)^2 is A^2 + (1 - A^2)/n.
    let at = bessel::mean_length_and_slope(dim, concentration);
    let usual = if at.value > 0.9 {
        concentration
    } else {
        bessel::concentration_from_mean_length(dim, (at.value * at.value + (1.0 - at.value * at.value) / n).sqrt().min(0.95))
    };
    let spread = 1.0 / (usual * (0.5 * (n.ln() + ln_slope(dim, usual))).exp());
    DensityGrid::new(ln_density, usual.ln(), (0.5 * spread).clamp(1e-12, 0.5))
}
