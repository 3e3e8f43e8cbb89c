//! The dispersion of rows about the mean directions of a mixture: whether they fit the model.

use crate::bessel;
use crate::error::Result;
use crate::mixture::Mixture;
use crate::policy::NEARLY_EQUAL_ROWS;
use crate::rows::RowBatch;

/// The largest number of densities in memory at a time.
const NUMBERS_AT_ONCE: usize = 1 << 22;

/// The dispersion of rows under a mixture that was fitted to them, MATH.md (14.7): the observed
/// variance of mu . x within components, divided by the variance under the model and averaged over
/// rows. It is 1 for draws from the model, as in quasi-likelihood.
///
/// Embeddings have dispersions of 5 to 20: their noise lies in few directions, so it varies more
/// along the mean direction than isotropic noise. A background has no direction and is left out; so
/// are components whose rows are equal but for rounding. If no component is left the dispersion is
/// 1.
///
/// ```
/// use vmfkit::{RowBatch, Mixture, VonMisesFisher, dispersion::dispersion};
/// let mixture = Mixture::new(vec![1.0], vec![VonMisesFisher::new(vec![0.6, 0.0, 0.0, 0.8], 30.0)?])?;
/// let (mut rows, mut labels) = (vec![0f64; 4 * 5000], vec![0; 5000]);
/// mixture.fill(1, 0, &mut rows, &mut labels)?;
/// let found = dispersion(&RowBatch::new(4, &rows)?, &mixture)?;
/// assert!((found - 1.0).abs() < 0.1, "{found}");
/// # Ok::<(), vmfkit::Error>(())
/// ```
pub fn dispersion(batch: &RowBatch, mixture: &Mixture) -> Result<f64> {
    let (spreads, freedoms): (Vec<f64>, Vec<f64>) = component_dispersions(batch, mixture)?.into_iter().unzip();
    let freedom: f64 = freedoms.iter().sum();
    let observed: f64 = spreads.iter().zip(&freedoms).map(|(spread, freedom)| spread * freedom).sum();
    Ok(if freedom > 0.0 { observed / freedom } else { 1.0 })
}

/// The dispersion of each component's rows, and the degrees of freedom it rests on: 0 for
/// components that are left out of the mean.
pub(crate) fn component_dispersions(batch: &RowBatch, mixture: &Mixture) -> Result<Vec<(f64, f64)>> {
    let mut buffer = RowBatch::default();
    let batch = &batch.validated_slice(0, batch.len(), &mut buffer)?;
    let densities = mixture.components();
    let laws: Vec<_> =
        densities.iter().map(|density| bessel::mean_length_and_slope(mixture.dim(), density.concentration())).collect();
    let ln_weights: Vec<f64> = mixture.weights().iter().map(|weight| weight.ln()).collect();
    let total: f64 = batch.weights().map_or(batch.len() as f64, |weights| weights.iter().sum());
    // Weights may have any scale; degrees of freedom count rows.
    let rows_per_weight = batch.len() as f64 / total;
    let mut moments = vec![Moments::default(); densities.len()];
    let at_once = (NUMBERS_AT_ONCE / densities.len()).max(1);
    let mut ln_densities = Vec::new();
    for from in (0..batch.len()).step_by(at_once) {
        let rows = batch.slice(from, (from + at_once).min(batch.len()));
        ln_densities.resize(rows.len() * densities.len(), 0.0);
        mixture.component_ln_densities_into(&rows, &mut ln_densities)?;
        for (row, ln_densities) in ln_densities.chunks_exact(densities.len()).enumerate() {
            let weight = rows_per_weight * rows.weights().map_or(1.0, |weights| weights[row]);
            let logit = |k: usize| ln_weights[k] + ln_densities[k];
            let largest = (0..densities.len()).map(logit).fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = (0..densities.len()).map(|k| (logit(k) - largest).exp()).sum();
            for k in (0..densities.len()).filter(|&k| densities[k].concentration() > 0.0) {
                let responsibility = (logit(k) - largest).exp() / sum;
                // ln density = ln peak - concentration * deviation; the expected deviation is
                // subtracted.
                let deviation = (densities[k].ln_peak() - ln_densities[k]) / densities[k].concentration();
                moments[k].add(weight * responsibility, deviation - laws[k].complement);
            }
        }
    }
    let of_component = |k: usize| {
        let (scatter, mass) = (moments[k].scatter(), moments[k].mass);
        // A component with a single row says nothing about its variance.
        let is_measured = !mixture.is_background(k) && laws[k].complement > NEARLY_EQUAL_ROWS && mass > 1.0;
        if is_measured { (scatter / laws[k].slope / (mass - 1.0), mass - 1.0) } else { (1.0, 0.0) }
    };
    Ok((0..densities.len()).map(of_component).collect())
}

/// Weighted sums of a number and its square.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    mass: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, weight: f64, value: f64) {
        self.mass += weight;
        self.sum += weight * value;
        self.squares += weight * value * value;
    }

    /// The sum of squares about the mean.
    fn scatter(&self) -> f64 {
        (self.squares - self.sum * self.sum / self.mass).max(0.0)
    }
}
