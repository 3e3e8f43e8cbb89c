//! [`Mixture`]: densities, responsibilities and assignments of rows, and the E step of all fitting
//! methods.

mod assignment;
mod e_step;
mod logits;
mod row_logits;
mod sampler;
mod summary;
mod tile;
#[cfg(test)]
mod tile_tests;
mod typical;

pub use assignment::Assignment;
pub use e_step::{BLOCK_ROWS, CHUNK_ROWS, EStep};
pub(crate) use e_step::{check_block_rows, preferred_rows};
pub use sampler::MixtureSampler;
pub use summary::{Rank, Summary};
pub use typical::{Members, TypicalRow, TypicalRows};

use crate::capacity;
use crate::density::VonMisesFisher;
use crate::error::{Error, Result};
use crate::rows::{RowBatch, Scalar};
use crate::stats::SufficientStats;
use rayon::prelude::*;
use row_logits::Logits;

/// Weights are divided by their sum if it differs from 1 by at most this much.
const WEIGHT_TOLERANCE: f64 = 1e-9;
/// The same for weights that may have been computed in single precision, by dividing thousands of
/// numbers by their sum.
const SINGLE_WEIGHT_TOLERANCE: f64 = 1e-5;

/// p(x) = sum over m of alpha_m vMF(x; mu_m, k_m): a mixture of von Mises-Fisher densities, MATH.md
/// (14.1).
///
/// The last component may be a *background*: the uniform density, for rows that belong to no
/// cluster. Its concentration stays 0 in every fit.
///
/// Densities, responsibilities and assignments are computed in double precision: the error of ln p
/// is about k 1e-15 for the largest concentration k. Statistics of f32 rows are computed in single
/// precision, except for k above 4096 or k sqrt(d) above 8e4, where it would be too coarse. If the
/// lengths of rows are off by e, logits are off by k e and mean lengths by e: rescale rows for
/// concentrations of the order d/(2e).
///
/// ```
/// use vmfkit::{RowBatch, Mixture, VonMisesFisher};
/// let mixture = Mixture::new(
///     vec![0.5, 0.5],
///     vec![VonMisesFisher::new(vec![1.0, 0.0, 0.0], 10.0)?, VonMisesFisher::new(vec![0.0, 1.0, 0.0], 10.0)?],
/// )?;
/// let rows = [0.6, 0.8, 0.0, 0.0, 0.0, 1.0];
/// let responsibilities = mixture.responsibilities(&RowBatch::new(3, &rows)?)?;
/// assert!((responsibilities[1] / responsibilities[0] - 2f64.exp()).abs() < 1e-12);
/// assert!((responsibilities[2] - 0.5).abs() < 1e-12);
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    weights: Vec<f64>,
    components: Vec<VonMisesFisher>,
    background: bool,
}

impl Mixture {
    /// A mixture from weights that sum to 1 and as many densities of one dimension. A sum that
    /// differs from 1 by at most 1e-5, the rounding of weights in single precision, is corrected.
    pub fn new(mut weights: Vec<f64>, components: Vec<VonMisesFisher>) -> Result<Self> {
        let sum = checked_weight_sum(&weights, &components, SINGLE_WEIGHT_TOLERANCE)?;
        if sum != 1.0 {
            weights.iter_mut().for_each(|w| *w /= sum);
        }
        Ok(Mixture { weights, components, background: false })
    }

    /// The same mixture with a uniform background of this weight as the last component; the other
    /// weights shrink accordingly.
    pub fn with_background(self, weight: f64) -> Result<Self> {
        if !(0.0..1.0).contains(&weight) {
            return Err(Error::Option { option: "the weight of the background", range: "at least 0 and below 1", value: weight });
        }
        let Mixture { mut weights, mut components, background } = self.without_background();
        debug_assert!(!background);
        weights.iter_mut().for_each(|w| *w *= 1.0 - weight);
        weights.push(weight);
        components.push(VonMisesFisher::uniform(components[0].dim())?);
        Ok(Mixture { weights, components, background: true })
    }

    /// The same mixture without its background, if it has one; the other weights grow accordingly.
    pub fn without_background(mut self) -> Self {
        if self.background {
            self.components.pop();
            self.weights.pop();
            let sum: f64 = self.weights.iter().sum();
            let even = 1.0 / self.weights.len() as f64;
            self.weights.iter_mut().for_each(|w| *w = if sum > 0.0 { *w / sum } else { even });
            self.background = false;
        }
        self
    }

    /// From parts that are validated as in [`Self::new`] and kept to the last bit, for mixtures
    /// that are read from files.
    pub(crate) fn restored(weights: Vec<f64>, components: Vec<VonMisesFisher>, background: bool) -> Result<Self> {
        checked_weight_sum(&weights, &components, WEIGHT_TOLERANCE)?;
        Ok(Mixture { weights, components, background })
    }

    /// From parts known to be valid.
    pub(crate) fn of_parts(weights: Vec<f64>, components: Vec<VonMisesFisher>, background: bool) -> Self {
        Mixture { weights, components, background }
    }

    /// The number of coordinates.
    pub fn dim(&self) -> usize {
        self.components[0].dim()
    }

    /// alpha: the weight of each component.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The densities, a background last.
    pub fn components(&self) -> &[VonMisesFisher] {
        &self.components
    }

    /// True if the last component is a uniform background.
    pub fn has_background(&self) -> bool {
        self.background
    }

    /// True for the index of the background.
    pub fn is_background(&self, component: usize) -> bool {
        self.background && component + 1 == self.components.len()
    }

    /// Adds the statistics of these rows under this mixture, on all threads; the number of threads
    /// does not change one bit. For rows in several batches use [`EStep`].
    pub fn accumulate(&self, batch: &RowBatch, assignment: Assignment, stats: &mut SufficientStats) -> Result<()> {
        if stats.dim() != self.dim() {
            return Err(Error::DimensionMismatch { expected: self.dim(), found: stats.dim() });
        }
        if stats.components() != self.components.len() {
            let (expected, found) = (self.components.len(), stats.components());
            return Err(Error::ComponentMismatch { what: "the statistics", expected, found });
        }
        let mut e_step = EStep::new(self, assignment)?;
        e_step.add(batch)?;
        stats.merge(&e_step.finish())
    }

    /// ln p of each row.
    pub fn ln_densities(&self, batch: &RowBatch) -> Result<Vec<f64>> {
        let mut out = vec![0.0; batch.len()];
        self.ln_densities_into(batch, &mut out)?;
        Ok(out)
    }

    /// [`Self::ln_densities`] into `out`, which has one value for each row.
    pub fn ln_densities_into(&self, batch: &RowBatch, out: &mut [f64]) -> Result<()> {
        self.for_each_row(batch, 1, out, |logits, out| out[0] = ln_sum_exp(logits))
    }

    /// ln density of each row under each component (weights left out), row by row.
    pub fn component_ln_densities(&self, batch: &RowBatch) -> Result<Vec<f64>> {
        let mut out = self.table(batch)?;
        self.component_ln_densities_into(batch, &mut out)?;
        Ok(out)
    }

    /// [`Self::component_ln_densities`] into `out`, which has one value for each row and component.
    pub fn component_ln_densities_into(&self, batch: &RowBatch, out: &mut [f64]) -> Result<()> {
        let even = vec![1.0; self.components.len()];
        let unweighted = Mixture { weights: even, components: self.components.clone(), background: self.background };
        unweighted.for_each_row(batch, self.components.len(), out, |logits, out| out.copy_from_slice(logits))
    }

    /// The probability of each component given the row, row by row.
    ///
    /// Memory grows with rows times components; [`Self::summarise`] keeps only the most probable
    /// components of each row.
    pub fn responsibilities(&self, batch: &RowBatch) -> Result<Vec<f64>> {
        let mut out = self.table(batch)?;
        self.responsibilities_into(batch, &mut out)?;
        Ok(out)
    }

    /// [`Self::responsibilities`] into `out`, which has one value for each row and component.
    pub fn responsibilities_into(&self, batch: &RowBatch, out: &mut [f64]) -> Result<()> {
        self.for_each_row(batch, self.components.len(), out, softmax)
    }

    /// [`Self::responsibilities`] with logits divided by a temperature, which must be above 0. A
    /// [`Calibration`](crate::calibrate::Calibration) finds the temperature at which they hold.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`]; a temperature that is not finite and above 0; too little
    /// memory.
    pub fn tempered_responsibilities(&self, batch: &RowBatch, temperature: f64) -> Result<Vec<f64>> {
        check_temperature(temperature)?;
        let mut out = self.table(batch)?;
        self.for_each_row(batch, self.components.len(), &mut out, |logits, out| {
            let tempered: Vec<f64> = logits.iter().map(|z| z / temperature).collect();
            softmax(&tempered, out);
        })?;
        Ok(out)
    }

    /// The most probable component of each row; in a tie, the first.
    ///
    /// ```
    /// use vmfkit::{RowBatch, Mixture, VonMisesFisher, metrics::Agreement};
    /// let along = |x, y| VonMisesFisher::new(vec![x, y], 10.0);
    /// let mixture = Mixture::new(vec![0.5, 0.5], vec![along(1.0, 0.0)?, along(0.0, 1.0)?])?;
    /// let labels = mixture.assign(&RowBatch::new(2, &[0.6, 0.8, 0.8, 0.6, 1.0, 0.0])?)?;
    /// assert_eq!(labels, [1, 0, 0]);
    /// assert_eq!(Agreement::new(&["b", "a", "a"], &labels)?.matched_fraction(), 1.0);
    /// # Ok::<(), vmfkit::Error>(())
    /// ```
    pub fn assign(&self, batch: &RowBatch) -> Result<Vec<u32>> {
        let mut out = vec![0; batch.len()];
        self.assign_into(batch, &mut out)?;
        Ok(out)
    }

    /// [`Self::assign`] into `out`, which has one value for each row.
    pub fn assign_into(&self, batch: &RowBatch, out: &mut [u32]) -> Result<()> {
        self.for_each_row(batch, 1, out, |logits, out| {
            let first_largest = (1..logits.len()).fold(0, |best, k| if logits[k] > logits[best] { k } else { best });
            out[0] = first_largest as u32;
        })
    }

    /// A vector with a value for each row and component, if there is memory for it.
    fn table(&self, batch: &RowBatch) -> Result<Vec<f64>> {
        self.check(batch)?;
        capacity::check("a value for each row and component", &[batch.len(), self.components.len()])?;
        Ok(vec![0.0; batch.len() * self.components.len()])
    }

    /// How well the mixture explains these rows.
    pub fn evaluate(&self, batch: &RowBatch) -> Result<Evaluation> {
        Ok(self.summarise(batch, 0)?.evaluation(batch.weights()))
    }

    /// A sampler of this mixture, which draws rows and their components.
    pub fn sampler(&self) -> MixtureSampler {
        MixtureSampler::new(self)
    }

    /// The first `rows` draws of a seed and the component of each, on all threads. [`Self::fill`]
    /// draws them in parts.
    ///
    /// ```
    /// use vmfkit::{RowBatch, Mixture, VonMisesFisher};
    /// let along = |x, y| VonMisesFisher::new(vec![x, y], 1000.0);
    /// let mixture = Mixture::new(vec![0.5, 0.5], vec![along(1.0, 0.0)?, along(0.0, 1.0)?])?;
    /// let (rows, labels) = mixture.sample_rows::<f64>(100, 7)?;
    /// assert_eq!(mixture.assign(&RowBatch::new(2, &rows)?)?, labels);
    /// # Ok::<(), vmfkit::Error>(())
    /// ```
    pub fn sample_rows<T: Scalar>(&self, rows: usize, seed: u64) -> Result<(Vec<T>, Vec<u32>)> {
        self.sampler().sample_rows(rows, seed)
    }

    /// The rows from `first_row` on of the infinite sequence of draws that `seed` defines, and the
    /// component of each, on all threads. `labels` has one value for each row of `out`.
    pub fn fill<T: Scalar>(&self, seed: u64, first_row: u64, out: &mut [T], labels: &mut [u32]) -> Result<()> {
        self.sampler().fill(seed, first_row, out, labels)
    }

    fn check(&self, batch: &RowBatch) -> Result<()> {
        if batch.dim() == self.dim() {
            Ok(())
        } else {
            Err(Error::DimensionMismatch { expected: self.dim(), found: batch.dim() })
        }
    }

    /// Converts the logits of each row (ln weight + ln density of each component) into its values
    /// in `out`, on all threads.
    pub(crate) fn for_each_row<T: Send>(
        &self,
        batch: &RowBatch,
        values_per_row: usize,
        out: &mut [T],
        write: impl Fn(&[f64], &mut [T]) + Sync,
    ) -> Result<()> {
        self.check(batch)?;
        Error::check_length("out", out, batch.len() * values_per_row)?;
        let mut buffer = RowBatch::default();
        let rows = batch.validated_slice(0, batch.len(), &mut buffer)?;
        let logits = Logits::new(self, &rows);
        out.par_chunks_mut(Logits::ROWS * values_per_row).enumerate().for_each(|(tile, out)| {
            let from = tile * Logits::ROWS;
            logits.visit(from, from + out.len() / values_per_row, |row, logits| {
                write(logits, &mut out[(row - from) * values_per_row..][..values_per_row]);
            });
        });
        Ok(())
    }
}

/// The sum of the weights, if they and the densities make a valid mixture.
fn checked_weight_sum(weights: &[f64], components: &[VonMisesFisher], tolerance: f64) -> Result<f64> {
    if components.is_empty() || weights.len() != components.len() {
        return Err(Error::ComponentCount { components: components.len(), weights: weights.len() });
    }
    let expected = components[0].dim();
    if let Some(other) = components.iter().find(|c| c.dim() != expected) {
        return Err(Error::DimensionMismatch { expected, found: other.dim() });
    }
    if let Some((component, &value)) = weights.iter().enumerate().find(|(_, w)| !(w.is_finite() && **w >= 0.0)) {
        return Err(Error::ComponentWeight { component, value });
    }
    let sum: f64 = weights.iter().sum();
    if (sum - 1.0).abs() > tolerance {
        return Err(Error::WeightSum { sum });
    }
    Ok(sum)
}

/// x . direction for each row and each direction, row by row into `out`, on all threads.
pub(crate) fn projections(batch: &RowBatch, directions: &[Vec<f64>], out: &mut [f64]) -> Result<()> {
    let components =
        directions.iter().map(|direction| VonMisesFisher::along(direction.clone(), 1.0)).collect::<Result<Vec<_>>>()?;
    let mixture = Mixture { weights: vec![1.0; directions.len()], components, background: false };
    // Logits are x . direction + ln C.
    let ln_normalizer = mixture.components[0].ln_peak() - 1.0;
    mixture.for_each_row(batch, directions.len(), out, |logits, out| {
        out.iter_mut().zip(logits).for_each(|(t, z)| *t = z - ln_normalizer);
    })
}

/// How well a mixture explains rows: sums that add over batches.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Evaluation {
    /// The total weight of the rows.
    pub weight: f64,
    /// The weighted sum of ln p.
    pub ln_likelihood: f64,
    /// The weighted sum of (ln p)^2.
    pub squares: f64,
    /// The weighted sum of the entropies of the responsibilities, in nats: 0 if every row belongs
    /// to one component with certainty.
    pub entropy: f64,
}

impl Evaluation {
    /// Adds the sums of other rows.
    pub fn merge(&mut self, other: &Self) {
        self.weight += other.weight;
        self.ln_likelihood += other.ln_likelihood;
        self.squares += other.squares;
        self.entropy += other.entropy;
    }

    /// The mean of ln p.
    pub fn mean(&self) -> f64 {
        self.ln_likelihood / self.weight
    }

    /// Akaike's criterion, -2 ln L + 2 p, of a fit to these rows with p free parameters:
    /// [`Maximisation::free_parameters`](crate::Maximisation::free_parameters).
    pub fn aic(&self, free_parameters: usize) -> f64 {
        -2.0 * self.ln_likelihood + 2.0 * free_parameters as f64
    }

    /// Schwarz's criterion, -2 ln L + p ln n.
    pub fn bic(&self, free_parameters: usize) -> f64 {
        -2.0 * self.ln_likelihood + free_parameters as f64 * self.weight.ln()
    }

    /// BIC plus twice the entropy of the responsibilities (Biernacki, Celeux and Govaert,
    /// doi:10.1109/34.865189).
    pub fn icl(&self, free_parameters: usize) -> f64 {
        self.bic(free_parameters) + 2.0 * self.entropy
    }

    /// The standard error of [`Self::mean`] for independent rows, whose weights are counts; NaN if
    /// the total weight is 0.
    pub fn standard_error(&self) -> f64 {
        let variance = self.squares / self.weight - self.mean() * self.mean();
        let variance = if variance < 0.0 { 0.0 } else { variance };
        (variance / (self.weight - 1.0).max(1.0)).sqrt()
    }
}

/// The probabilities of logits.
fn softmax(logits: &[f64], out: &mut [f64]) {
    let total = ln_sum_exp(logits);
    out.iter_mut().zip(logits).for_each(|(responsibility, z)| *responsibility = (z - total).exp());
}

pub(crate) fn check_temperature(temperature: f64) -> Result<()> {
    match temperature > 0.0 && temperature.is_finite() {
        true => Ok(()),
        false => Err(Error::Option { option: "the temperature", range: "finite and above 0", value: temperature }),
    }
}

/// ln sum exp of logits, at least one of which is finite.
pub(crate) fn ln_sum_exp(logits: &[f64]) -> f64 {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + logits.iter().map(|z| (z - largest).exp()).sum::<f64>().ln()
}
