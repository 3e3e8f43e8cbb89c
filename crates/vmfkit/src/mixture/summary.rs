//! [`Summary`]: densities, entropies and most probable components of rows, from logits that are
//! computed once.

use super::{Evaluation, Mixture, check_temperature, ln_sum_exp};
use crate::error::Result;
use crate::rows::RowBatch;
use std::borrow::Cow;

/// Densities, entropies and most probable components of rows, column by column.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Summary {
    /// ln p of each row.
    pub ln_densities: Vec<f64>,
    /// The entropy of each row's responsibilities, in nats: 0 if one component is certain.
    pub entropies: Vec<f64>,
    /// The most probable component of each row, then the second, and so on.
    pub ranks: Vec<Rank>,
}

/// One component of each row and its probability.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Rank {
    /// Indices of the components.
    pub components: Vec<u32>,
    /// Probabilities of the components.
    pub responsibilities: Vec<f64>,
}

impl Mixture {
    /// Densities, entropies and the `top` most probable components of rows (in a tie, the
    /// first), on all threads. There are at most as many ranks as components.
    ///
    /// ```
    /// use vmfkit::{RowBatch, Mixture, VonMisesFisher};
    /// let along = |x, y| VonMisesFisher::new(vec![x, y, 0.0], 10.0);
    /// let mixture = Mixture::new(vec![0.5, 0.5], vec![along(1.0, 0.0)?, along(0.0, 1.0)?])?;
    /// let summary = mixture.summarise(&RowBatch::new(3, &[0.6, 0.8, 0.0])?, 2)?;
    /// assert_eq!((summary.ranks[0].components[0], summary.ranks[1].components[0]), (1, 0));
    /// assert!((summary.ranks[0].responsibilities[0] - 1.0 / (1.0 + (-2f64).exp())).abs() < 1e-12);
    /// # Ok::<(), vmfkit::Error>(())
    /// ```
    pub fn summarise(&self, batch: &RowBatch, top: usize) -> Result<Summary> {
        self.summarise_tempered(batch, top, 1.0)
    }

    /// [`Self::summarise`] with entropies and probabilities at a temperature, as in
    /// [`Self::tempered_responsibilities`]. ln p does not depend on the temperature.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`](crate::Error::DimensionMismatch); a temperature that is not
    /// finite and above 0.
    pub fn summarise_tempered(&self, batch: &RowBatch, top: usize, temperature: f64) -> Result<Summary> {
        check_temperature(temperature)?;
        let top = top.min(self.components().len());
        // For each row: ln p, entropy, and for each rank the component and its probability.
        let values_per_row = 2 + 2 * top;
        let mut rows = vec![0.0; values_per_row * batch.len()];
        self.for_each_row(batch, values_per_row, &mut rows, |logits, out| {
            let ln_density = ln_sum_exp(logits);
            let tempered: Cow<[f64]> = match temperature {
                1.0 => logits.into(),
                _ => logits.iter().map(|z| z / temperature).collect(),
            };
            let total = if temperature == 1.0 { ln_density } else { ln_sum_exp(&tempered) };
            // The entropy of the probabilities is their ln sum exp minus the mean logit.
            let mean: f64 = tempered.iter().filter(|z| **z > f64::NEG_INFINITY).map(|z| (z - total).exp() * z).sum();
            out[..2].copy_from_slice(&[ln_density, (total - mean).max(0.0)]);
            let ranks = &mut out[2..];
            largest(&tempered, ranks);
            ranks.chunks_exact_mut(2).for_each(|rank| rank[1] = (rank[1] - total).exp());
        })?;
        let column = |position: usize| rows[position.min(rows.len())..].iter().step_by(values_per_row);
        let rank = |number: usize| Rank {
            components: column(2 + 2 * number).map(|component| *component as u32).collect(),
            responsibilities: column(3 + 2 * number).copied().collect(),
        };
        Ok(Summary {
            ln_densities: column(0).copied().collect(),
            entropies: column(1).copied().collect(),
            ranks: (0..top).map(rank).collect(),
        })
    }
}

impl Summary {
    /// The sums over rows with these weights, or with weight 1.
    pub fn evaluation(&self, weights: Option<&[f64]>) -> Evaluation {
        let mut evaluation = Evaluation::default();
        for (row, (ln_density, entropy)) in self.ln_densities.iter().zip(&self.entropies).enumerate() {
            let weight = weights.map_or(1.0, |weights| weights[row]);
            evaluation.weight += weight;
            evaluation.ln_likelihood += weight * ln_density;
            evaluation.squares += weight * ln_density * ln_density;
            evaluation.entropy += weight * entropy;
        }
        evaluation
    }
}

/// Writes the indices and values of the largest logits into `ranks`, the largest first.
fn largest(logits: &[f64], ranks: &mut [f64]) {
    let mut filled = 0;
    for (component, &z) in logits.iter().enumerate() {
        let mut position = filled;
        while position > 0 && z > ranks[2 * position - 1] {
            position -= 1;
        }
        if 2 * position < ranks.len() {
            filled = (filled + 1).min(ranks.len() / 2);
            ranks.copy_within(2 * position..2 * filled - 2, 2 * position + 2);
            (ranks[2 * position], ranks[2 * position + 1]) = (component as f64, z);
        }
    }
}
