//! [`OutlierTest`]: p-values of rows under a mixture.
//!
//! Advice for changes: the p-values of overlapping components are calibrated by importance
//! sampling. The proposal densities and the weights must change together (`deviation`, `enrichment`
//! and `importance_weights`). Run the ignored test `cost_and_accuracy` afterwards, which measures
//! the figures in the documentation of [`OutlierTest`].

use crate::bessel;
use crate::density::VonMisesFisher;
use crate::error::{Error, Result};
use crate::mixture::Mixture;
use crate::projection::ProjectionLaw;
use crate::rows::RowBatch;
use crate::sampler::{Stream, fill_with_normals};
use crate::tail_table::TailTable;
use rand::RngExt;
use rayon::prelude::*;
use std::ops::ControlFlow;
use std::sync::Arc;
use vmfkit_kernels::vector::{dot, half_squared_distance, norm};

/// P-values of rows under the hypothesis that they were drawn from a mixture.
///
/// Use it to flag outliers at a stated error rate;
/// [`Mixture::ln_densities`] only ranks rows.
///
/// Let F_m(x) be the probability that a draw of component m is at least as far from mu_m as x, the
/// exact tail of the [`ProjectionLaw`]. The tail of the mixture is u(x) = sum over m of r_m(x)
/// F_m(x), where r_m are the responsibilities. If components do not overlap, u is uniform under the
/// hypothesis and is the p-value, down to 1e-300.
///
/// If components overlap, the p-value is P(u(X) <= u(x)) for X drawn from the mixture. A
/// calibration estimates this distribution once by importance sampling, in 1 to 3 seconds of
/// processor time. It uses tails interpolated with an error of 1e-6. Below 1e-5, p-values are
/// proportional to u. The relative standard deviation of p-values between seeds is
///
/// | components | dimensions | p = 0.01 | p = 1e-3 | p = 1e-4 |
/// |---|---|---|---|---|
/// | 2 to 10 | 2 to 100 | 0.6 % | 0.6 % | 1.1 % |
/// | 50 | 100 | 0.5 % | 2 % | 4 % |
/// | 200 | 768 | 2 % | 2 % | 2 % |
///
/// The number of flagged rows among 20 thousand to 4 million independent draws is within 2.2
/// standard deviations of its expectation.
///
/// The hypothesis excludes a background, which models rows that belong to no component. Rows are
/// tested against the other components as if they were the whole mixture, so rows of the background
/// have small p-values unless they happen to be close to a component.
///
/// ```
/// use vmfkit::{RowBatch, Mixture, VonMisesFisher, outlier::OutlierTest};
/// let mixture = Mixture::new(
///     vec![0.5, 0.5],
///     vec![VonMisesFisher::new(vec![1.0, 0.0, 0.0], 500.0)?, VonMisesFisher::new(vec![0.0, 1.0, 0.0], 500.0)?],
/// )?;
/// let rows = [1.0, 0.0, 0.0, 0.6, 0.8, 0.0];
/// let p_values = OutlierTest::new(&mixture, 1)?.p_values(&RowBatch::new(3, &rows)?)?;
/// assert!(p_values[0] > 0.99 && p_values[1] < 1e-40);
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct OutlierTest {
    /// The mixture without its background.
    mixture: Mixture,
    laws: Vec<ProjectionLaw>,
    /// One table per component if components overlap; their errors are much smaller than those of
    /// the calibration.
    tables: Vec<Arc<TailTable>>,
    calibration: Option<Calibration>,
}

/// Components with smaller responsibilities for a row are ignored.
const LEAST_RESPONSIBILITY: f64 = 1e-9;

/// Below this overlap no calibration is needed: its effect would be smaller than the calibration
/// error.
const NO_OVERLAP: f64 = 1e-7;

/// With more components than this, overlap is assumed and not computed for all pairs.
const MAX_PAIRED: usize = 512;

/// The maximum number of responsibilities in memory.
const MAX_RESPONSIBILITIES: usize = 1 << 21;

/// The maximum number of multiplications for the draws of a calibration, about a second of work.
const WORK: usize = 1 << 31;
/// The cost of evaluating a tail, in multiplications.
const TAIL: usize = 64;
/// The minimum and the maximum number of draws of a calibration.
const DRAWS: (usize, usize) = (1 << 14, 1 << 19);

/// Called from any thread; `Break` cancels the calibration.
type ShouldCancel<'a> = dyn Fn() -> ControlFlow<()> + Sync + 'a;

impl OutlierTest {
    /// A test of rows under this mixture. The calibration depends only on the mixture and the seed.
    ///
    /// # Errors
    /// Those of invalid densities, which a valid mixture does not have.
    pub fn new(mixture: &Mixture, seed: u64) -> Result<Self> {
        Ok(Self::new_while(mixture, seed, &|| ControlFlow::Continue(()))?.expect("it is never cancelled"))
    }

    /// [`Self::new`] with a callback that can cancel the calibration. Returns `None` if it was
    /// cancelled.
    pub fn new_while(mixture: &Mixture, seed: u64, should_cancel: &ShouldCancel<'_>) -> Result<Option<Self>> {
        let mixture = mixture.clone().without_background();
        let laws = mixture.components().iter().map(|c| ProjectionLaw::new(c.dim(), c.concentration()));
        let laws = laws.collect::<vmfkit_special::Result<Vec<_>>>()?;
        let mut test = OutlierTest { mixture, laws, tables: Vec::new(), calibration: None };
        if test.overlap()? > NO_OVERLAP {
            let Some(tables) = tables(&test.laws, should_cancel) else {
                return Ok(None);
            };
            test.tables = tables;
            test.calibration = Calibration::new(&test, seed, should_cancel)?;
            if test.calibration.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(test))
    }

    /// Whether components overlap, so that p-values are calibrated by random draws.
    pub fn is_calibrated(&self) -> bool {
        self.calibration.is_some()
    }

    /// The p-value of each row, computed on all threads. The result does not depend on their
    /// number.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`].
    pub fn p_values(&self, batch: &RowBatch) -> Result<Vec<f64>> {
        let mut out = vec![0.0; batch.len()];
        self.p_values_into(batch, &mut out)?;
        Ok(out)
    }

    /// [`Self::p_values`], written to `out`, which has one value per row.
    pub fn p_values_into(&self, batch: &RowBatch, out: &mut [f64]) -> Result<()> {
        self.for_each_row(batch, out, |terms| {
            let tail = tail_of(terms);
            self.calibration.as_ref().map_or(tail, |calibration| calibration.p_value(tail))
        })
    }

    /// Computes one value per row from the responsibilities and tails of its relevant components.
    fn for_each_row<T: Send>(&self, batch: &RowBatch, out: &mut [T], value: impl Fn(&[(f64, f64)]) -> T + Sync) -> Result<()> {
        let components = self.mixture.components();
        if batch.dim() != self.mixture.dim() {
            return Err(Error::DimensionMismatch { expected: self.mixture.dim(), found: batch.dim() });
        }
        Error::check_length("out", out, batch.len())?;
        let mut buffer = RowBatch::default();
        let batch = batch.validated_slice(0, batch.len(), &mut buffer)?;
        let rows = (MAX_RESPONSIBILITIES / components.len()).max(256);
        let mut responsibilities = vec![0.0; rows.min(batch.len()) * components.len()];
        for (number, out) in out.chunks_mut(rows).enumerate() {
            let part = batch.slice(number * rows, number * rows + out.len());
            let responsibilities = &mut responsibilities[..out.len() * components.len()];
            self.mixture.responsibilities_into(&part, responsibilities)?;
            let responsibilities = responsibilities.par_chunks_exact(components.len());
            out.par_iter_mut().zip(responsibilities).enumerate().with_min_len(64).for_each_init(
                Vec::new,
                |terms, (row, (out, responsibilities))| {
                    let row = part.slice(row, row + 1);
                    terms.clear();
                    for (component, &responsibility) in
                        responsibilities.iter().enumerate().filter(|(_, responsibility)| **responsibility >= LEAST_RESPONSIBILITY)
                    {
                        let mut deviation = [0.0];
                        components[component]
                            .deviations_into(&row, &mut deviation)
                            .expect("the batch has the mixture's dimension");
                        terms.push((responsibility, self.tail(component, deviation[0])));
                    }
                    *out = value(terms);
                },
            );
        }
        Ok(())
    }

    /// P(1 - mu . X > deviation) for X drawn from a component.
    fn tail(&self, component: usize, deviation: f64) -> f64 {
        match self.tables.get(component) {
            Some(table) => table.survival(deviation),
            None => self.laws[component].deviation_survival(deviation),
        }
    }

    /// An upper bound of the fraction of rows that are misassigned: the sum over pairs of
    /// components with weights a and b of sqrt(a b) times their Bhattacharyya coefficient.
    fn overlap(&self) -> Result<f64> {
        let (weights, components) = (self.mixture.weights(), self.mixture.components());
        if components.len() > MAX_PAIRED {
            return Ok(1.0);
        }
        let of_pairs = |one: usize| -> Result<f64> {
            let others = (0..one).filter(|&other| weights[one] * weights[other] > 0.0);
            let coefficients = others.map(|other| {
                Ok((weights[one] * weights[other]).sqrt() * (-components[one].bhattacharyya_distance(&components[other])?).exp())
            });
            coefficients.sum()
        };
        (0..components.len()).into_par_iter().map(of_pairs).collect::<Result<Vec<_>>>().map(|sums| sums.iter().sum())
    }
}

/// One table per law, shared by laws of equal concentration; `None` if cancelled.
fn tables(laws: &[ProjectionLaw], should_cancel: &ShouldCancel) -> Option<Vec<Arc<TailTable>>> {
    let mut distinct: Vec<&ProjectionLaw> = laws.iter().collect();
    distinct.sort_by(|a, b| a.concentration().total_cmp(&b.concentration()));
    distinct.dedup_by_key(|law| law.concentration().to_bits());
    let table = |law: &&ProjectionLaw| should_cancel().is_continue().then(|| Arc::new(TailTable::new((*law).clone())));
    let tables = distinct.par_iter().map(table).collect::<Option<Vec<_>>>()?;
    let position = |law: &ProjectionLaw| distinct.partition_point(|other| other.concentration() < law.concentration());
    Some(laws.iter().map(|law| Arc::clone(&tables[position(law)])).collect())
}

/// u, the sum of responsibility times tail.
fn tail_of(terms: &[(f64, f64)]) -> f64 {
    terms.iter().map(|(responsibility, tail)| responsibility * tail).sum::<f64>().min(1.0)
}

/// The distribution of u under the mixture: p at some values of u; ln p is interpolated linearly in
/// ln u.
#[derive(Debug, Clone)]
struct Calibration {
    ln_tails: Vec<f64>,
    ln_p_values: Vec<f64>,
}

/// Half of the enriched draws have a uniform tail w, the others the density
/// 1/((w + FLOOR) ln(1 + 1/FLOOR)).
const FLOOR: f64 = 1e-5;

/// The density of enriched tails relative to the uniform density that they have under the mixture.
fn enrichment(tail: f64) -> f64 {
    0.5 + 0.5 / ((tail + FLOOR) * (1.0 / FLOOR).ln_1p())
}

/// The fractions of rows with the smallest u around which the second half of the draws is placed.
const EXTREME_FRACTIONS: [f64; 2] = [1e-2, 1e-3];

/// Up to this dimension the proposal is a kernel density around extreme draws; above it, nearest
/// draws are too far apart.
const MAX_KERNEL_DIM: usize = 16;
/// The number of kernels per fraction.
const KERNELS: usize = 64;

/// A draw: its u, and the density of enriched draws relative to the mixture, later replaced by its
/// importance weight.
type Draw = (f64, f64);

impl Calibration {
    /// Half of the draws have enriched tails; the others are drawn where those found the smallest
    /// u. Returns `None` if cancelled.
    fn new(test: &OutlierTest, seed: u64, should_cancel: &ShouldCancel) -> Result<Option<Self>> {
        let (components, dim) = (test.mixture.components().len(), test.mixture.dim());
        let half = (WORK / (components * (dim + TAIL))).clamp(DRAWS.0, DRAWS.1) / 2;
        let at_once = (MAX_RESPONSIBILITIES / (3 * components).max(dim)).max(256);
        let mut found = vec![(0.0, 0.0); 2 * half];
        let (first, second) = found.split_at_mut(half);
        // Rows are drawn again when needed again; only their deviations, which are expensive, are
        // kept.
        let deviations: Vec<f64> = (0..half).into_par_iter().map(|number| test.deviation(seed, number, half)).collect();
        for (number, piece) in first.chunks_mut(at_once).enumerate() {
            if should_cancel().is_break() {
                return Ok(None);
            }
            test.score(&test.draws(seed, number * at_once, &deviations[number * at_once..][..piece.len()]), piece)?;
        }
        let proposal = test.extreme_proposal(seed, &deviations, first)?;
        for (number, piece) in first.chunks_mut(at_once).enumerate() {
            if should_cancel().is_break() {
                return Ok(None);
            }
            let rows = test.draws(seed, number * at_once, &deviations[number * at_once..][..piece.len()]);
            test.importance_weights(&proposal, &rows, piece)?;
        }
        for (number, piece) in second.chunks_mut(at_once).enumerate() {
            if should_cancel().is_break() {
                return Ok(None);
            }
            let mut rows = vec![0.0; piece.len() * dim];
            proposal.fill(seed ^ 0x7374_7261, (number * at_once) as u64, &mut rows, &mut vec![0; piece.len()])?;
            test.score(&rows, piece)?;
            test.importance_weights(&proposal, &rows, piece)?;
        }
        Ok(Some(Self::of_draws(found)))
    }

    /// The weighted distribution function of u at levels of p that are evenly spaced in ln p up to
    /// 0.1, and in p above.
    fn of_draws(mut found: Vec<(f64, f64)>) -> Self {
        found.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let total: f64 = found.iter().map(|(_, weight)| weight).sum();
        let small = (0..128).map(|i| FLOOR * (0.1f64 / FLOOR).powf(f64::from(i) / 128.0));
        let mut levels = small.chain((0..=256).map(|i| 0.1 + 0.9 * f64::from(i) / 256.0)).peekable();
        let mut calibration = Calibration { ln_tails: Vec::new(), ln_p_values: Vec::new() };
        let mut sum = 0.0;
        for (at, (tail, weight)) in found.iter().enumerate() {
            sum += weight;
            let p_value = sum / total;
            let last = at + 1 == found.len();
            if *tail > 0.0 && (last || levels.peek().is_some_and(|level| p_value >= *level)) {
                while levels.next_if(|level| p_value >= *level).is_some() {}
                // Equal tails have the largest of their p-values.
                if calibration.ln_tails.last() == Some(&tail.ln()) {
                    calibration.ln_tails.pop();
                    calibration.ln_p_values.pop();
                }
                calibration.ln_tails.push(tail.ln());
                calibration.ln_p_values.push(p_value.min(1.0).ln());
            }
        }
        calibration
    }

    fn p_value(&self, tail: f64) -> f64 {
        let (xs, ys) = (&self.ln_tails, &self.ln_p_values);
        let x = tail.ln();
        let above = xs.partition_point(|level| *level <= x);
        if above == 0 {
            // A product keeps the digits of a small tail; the exponential of a sum would lose them.
            return tail * xs.first().zip(ys.first()).map_or(1.0, |(x, y)| (y - x).exp());
        }
        if above == xs.len() {
            return 1.0;
        }
        let part = (x - xs[above - 1]) / (xs[above] - xs[above - 1]);
        (ys[above - 1] + part * (ys[above] - ys[above - 1])).exp().min(1.0)
    }
}

impl OutlierTest {
    /// Computes u and the relative density of enriched draws, the sum of responsibility times
    /// enrichment.
    fn score(&self, rows: &[f64], found: &mut [Draw]) -> Result<()> {
        self.for_each_row(&RowBatch::new(self.mixture.dim(), rows)?, found, |terms| {
            (tail_of(terms), terms.iter().map(|(responsibility, tail)| responsibility * enrichment(*tail)).sum::<f64>())
        })
    }

    /// Replaces densities by importance weights: 1 over the mean density, relative to the mixture,
    /// of enriched draws and of `proposal`.
    fn importance_weights(&self, proposal: &Mixture, rows: &[f64], found: &mut [Draw]) -> Result<()> {
        let batch = RowBatch::new(self.mixture.dim(), rows)?;
        let (ln_mixture, ln_proposal) = (self.mixture.ln_densities(&batch)?, proposal.ln_densities(&batch)?);
        for ((_, density), (ln_mixture, ln_proposal)) in found.iter_mut().zip(ln_mixture.into_iter().zip(ln_proposal)) {
            *density = 2.0 / (*density + (ln_proposal - ln_mixture).exp());
        }
        Ok(())
    }

    /// A mixture whose draws often have a small u, built from the enriched draws with the smallest
    /// u.
    fn extreme_proposal(&self, seed: u64, deviations: &[f64], found: &[Draw]) -> Result<Mixture> {
        let mut order: Vec<usize> = (0..found.len()).collect();
        order.sort_unstable_by(|&a, &b| found[a].0.total_cmp(&found[b].0).then(a.cmp(&b)));
        let total: f64 = found.iter().map(|(_, density)| 1.0 / density).sum();
        let (mut components, mut weights) = (Vec::new(), Vec::new());
        for fraction in EXTREME_FRACTIONS {
            let mut sum = 0.0;
            let weighted = order.iter().map(|&number| (number, 1.0 / found[number].1));
            let extremes: Vec<(usize, f64)> = weighted
                .take_while(|(_, weight)| {
                    sum += weight;
                    sum <= fraction * total
                })
                .collect();
            let found = match self.mixture.dim() {
                ..=MAX_KERNEL_DIM => self.kernels(seed, deviations, &extremes)?,
                _ => self.shifted(seed, deviations, &extremes)?,
            };
            components.extend(found.0);
            weights.extend(found.1);
        }
        match components.is_empty() {
            true => Ok(self.mixture.clone()),
            false => {
                let sum: f64 = weights.iter().sum();
                Mixture::new(weights.iter().map(|weight| weight / sum).collect(), components)
            }
        }
    }

    /// A kernel density around some of these draws, a little wider than their distances.
    fn kernels(&self, seed: u64, deviations: &[f64], extremes: &[(usize, f64)]) -> Result<(Vec<VonMisesFisher>, Vec<f64>)> {
        let dim = self.mixture.dim();
        let total: f64 = extremes.iter().map(|(_, weight)| weight).sum();
        let (mut rows, mut sum) = (Vec::new(), 0.0);
        for &(number, weight) in extremes {
            // Evenly spaced in weight.
            sum += weight;
            if sum * KERNELS as f64 >= total * (rows.len() as f64 + 0.5) {
                rows.push(self.draws(seed, number, &deviations[number..=number]));
            }
        }
        if rows.len() < 2 {
            return Ok(Default::default());
        }
        let nearest = |one: usize| {
            let others = (0..rows.len()).filter(|&other| other != one);
            others.map(|other| half_squared_distance(&rows[one], &rows[other])).fold(2.0, f64::min)
        };
        let mean_nearest = (0..rows.len()).map(nearest).sum::<f64>() / rows.len() as f64;
        // The mean deviation of such a kernel is about four times the mean nearest distance.
        let concentration = ((dim - 1) as f64 / (8.0 * mean_nearest)).min(1e10);
        let weights = vec![1.0 / rows.len() as f64; rows.len()];
        let components = rows.into_iter().map(|row| VonMisesFisher::along(row, concentration));
        Ok((components.collect::<Result<_>>()?, weights))
    }

    /// The components of the mixture, shifted towards the mean of these draws: k mu moves by the
    /// difference of the means divided by the variance of a coordinate.
    fn shifted(&self, seed: u64, deviations: &[f64], extremes: &[(usize, f64)]) -> Result<(Vec<VonMisesFisher>, Vec<f64>)> {
        let (dim, weights) = (self.mixture.dim(), self.mixture.weights());
        let total: f64 = extremes.iter().map(|(_, weight)| weight).sum();
        if extremes.len() < 2 {
            return Ok(Default::default());
        }
        let mut shift = vec![0.0; dim];
        for &(number, weight) in extremes {
            let row = self.draws(seed, number, &deviations[number..=number]);
            shift.iter_mut().zip(row).for_each(|(sum, x)| *sum += weight / total * x);
        }
        let mut precision = 0.0;
        for (weight, component) in weights.iter().zip(self.mixture.components()) {
            shift.iter_mut().zip(component.mean()).for_each(|(sum, x)| *sum -= weight * x);
            let length = bessel::mean_length(dim, component.concentration());
            precision += weight * if length > 0.0 { component.concentration() / length } else { dim as f64 };
        }
        let shifted = self.mixture.components().iter().map(|component| {
            let terms = component.mean_direction().iter().zip(&shift);
            let vector: Vec<f64> = terms.map(|(m, shift)| component.concentration() * m + precision * shift).collect();
            let concentration = norm(&vector);
            VonMisesFisher::along(vector, concentration)
        });
        Ok((shifted.collect::<Result<_>>()?, weights.to_vec()))
    }

    /// Enriched draws from number `first` on, with these deviations from the mean directions of
    /// their components.
    fn draws(&self, seed: u64, first: usize, deviations: &[f64]) -> Vec<f64> {
        let dim = self.mixture.dim();
        let mut rows = vec![0.0; deviations.len() * dim];
        let drawn_rows = rows.par_chunks_exact_mut(dim).zip(deviations).enumerate();
        drawn_rows.for_each(|(row, (out, deviation))| self.draw(seed, first + row, *deviation, out));
        rows
    }

    /// The deviation of enriched draw `number` of `draws`; their tails are stratified.
    fn deviation(&self, seed: u64, number: usize, draws: usize) -> f64 {
        let mut rng = Stream::new(seed ^ 0x7461_696c, number as u64);
        let position = ((number / 2) as f64 + rng.random::<f64>()) / (draws / 2) as f64;
        let tail = if number.is_multiple_of(2) { position } else { FLOOR * (position * (1.0 / FLOOR).ln_1p()).exp_m1() };
        self.tables[self.component_of(number)].upper_quantile(tail.clamp(f64::MIN_POSITIVE, 1.0))
    }

    /// Multiples of the golden ratio fill the unit interval evenly, so components are drawn in
    /// proportion to their weights.
    fn component_of(&self, number: usize) -> usize {
        self.pick((number as f64 * 0.618_033_988_749_894_9).fract())
    }

    /// Draw `number`: at this deviation from the mean direction of its component, in a random
    /// direction.
    fn draw(&self, seed: u64, number: usize, deviation: f64, out: &mut [f64]) {
        let mut rng = Stream::new(seed ^ 0x6f75_746c, number as u64);
        let mean = self.mixture.components()[self.component_of(number)].mean_direction();
        let length = loop {
            fill_with_normals(&mut rng, out);
            let along = dot(out, mean);
            out.iter_mut().zip(mean).for_each(|(x, m)| *x -= along * m);
            let length = norm(out);
            if length > 1e-3 {
                break length;
            }
        };
        let across = (deviation * (2.0 - deviation)).max(0.0).sqrt() / length;
        out.iter_mut().zip(mean).for_each(|(x, m)| *x = (1.0 - deviation) * m + across * *x);
    }

    /// The component at which the cumulative weight exceeds `fraction`.
    fn pick(&self, fraction: f64) -> usize {
        let weights = self.mixture.weights();
        let mut rest = fraction;
        let reached = weights.iter().position(|weight| {
            rest -= weight;
            rest < 0.0
        });
        reached.or_else(|| weights.iter().rposition(|weight| *weight > 0.0)).unwrap_or(0)
    }
}
