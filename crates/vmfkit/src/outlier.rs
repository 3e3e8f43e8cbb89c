//! [`OutlierTest`]: how strange a row is under a mixture, as a p-value.

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
/// Under component m a row lies at least as far from mu_m as x does with the probability F_m(x), the exact tail of the [`ProjectionLaw`];
/// with the responsibilities r_m the mixture's tail is u(x) = sum over m of r_m(x) F_m(x). Where components do not overlap, u is uniform
/// under the hypothesis and is the p-value, down to 1e-300.
///
/// Where they do overlap it is not, and the p-value is P(u(X) <= u(x)) for X drawn from the mixture, found from weighted draws most of
/// which have a small u, with tails from tables that are right to 1e-6. Below 1e-5 it is in proportion to u. From seed to seed it differs
/// by a relative standard deviation of 0.6 % at 0.1 to 1e-3 and of 1.1 % at 1e-4 for 2 to 10 overlapping components in 2 to 100
/// dimensions; for 50 in 100 dimensions of 0.5 % at 0.01, 2 % at 1e-3 and 4 % at 1e-4; for 200 in 768 dimensions of about 2 %. Of 20
/// thousand to 4 million other draws as many are flagged as should be, within 2.2 standard deviations of their number. That takes 1 to 3
/// seconds of processor time, once. The ignored test `cost_and_accuracy` measures all this anew.
///
/// A background is no part of the hypothesis. It is where a model puts the rows that belong nowhere, so a row is judged by the other
/// components alone, as if they were the whole mixture: rows of the background have small p-values, unless they lie among those of a
/// component by chance.
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
    /// Without a background.
    mixture: Mixture,
    laws: Vec<ProjectionLaw>,
    /// One for each component where components overlap: errors of tails are lost in those of the calibration.
    tables: Vec<Arc<TailTable>>,
    calibration: Option<Calibration>,
}

/// Components that are less responsible for a row than this have no say.
const LEAST_RESPONSIBILITY: f64 = 1e-9;

/// Components share less than this part of all rows: no calibration could tell.
const NO_OVERLAP: f64 = 1e-7;

/// With more components than this their pairs are not looked at; there is always some overlap.
const MOST_PAIRED: usize = 512;

/// Responsibilities that are held at once.
const SHARES_AT_ONCE: usize = 1 << 21;

/// Products that the draws of a calibration may take, about a second of work, and how many draws there are at least and at most.
const WORK: usize = 1 << 31;
/// What a tail costs, in products.
const TAIL: usize = 64;
const DRAWS: (usize, usize) = (1 << 14, 1 << 19);

/// Asked from any thread whether to go on.
type ShouldCancel<'a> = dyn Fn() -> ControlFlow<()> + Sync + 'a;

impl OutlierTest {
    /// A test of rows under this mixture, calibrated with draws that depend on the seed alone.
    pub fn new(mixture: &Mixture, seed: u64) -> Result<Self> {
        Ok(Self::new_while(mixture, seed, &|| ControlFlow::Continue(()))?.expect("nobody ends it"))
    }

    /// The same for those who may want it to end early, which they are asked again and again; there is no test then.
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

    /// True if components overlap, so that p-values rest on draws.
    pub fn is_calibrated(&self) -> bool {
        self.calibration.is_some()
    }

    /// The p-value of each row, on all threads; their number does not change one bit.
    pub fn p_values(&self, block: &RowBatch) -> Result<Vec<f64>> {
        let mut out = vec![0.0; block.len()];
        self.p_values_into(block, &mut out)?;
        Ok(out)
    }

    /// [`Self::p_values`] into `out`, which has one value for each row.
    pub fn p_values_into(&self, block: &RowBatch, out: &mut [f64]) -> Result<()> {
        self.for_each_row(block, out, |terms| {
            let tail = tail_of(terms);
            self.calibration.as_ref().map_or(tail, |calibration| calibration.p_value(tail))
        })
    }

    /// Combines the responsibilities and tails of the relevant components of each row into one value.
    fn for_each_row<T: Send>(&self, block: &RowBatch, out: &mut [T], value: impl Fn(&[(f64, f64)]) -> T + Sync) -> Result<()> {
        let components = self.mixture.components();
        if block.dim() != self.mixture.dim() {
            return Err(Error::DimensionMismatch { expected: self.mixture.dim(), found: block.dim() });
        }
        Error::check_length("out", out, block.len())?;
        let rows = (SHARES_AT_ONCE / components.len()).max(256);
        let mut responsibilities = vec![0.0; rows.min(block.len()) * components.len()];
        for (number, out) in out.chunks_mut(rows).enumerate() {
            let part = block.slice(number * rows, number * rows + out.len());
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
                            .expect("the block has the mixture's dimension");
                        terms.push((responsibility, self.tail(component, deviation[0])));
                    }
                    *out = value(terms);
                },
            );
        }
        Ok(())
    }

    /// P(1 - mu . X > deviation) under a component.
    fn tail(&self, component: usize, deviation: f64) -> f64 {
        match self.tables.get(component) {
            Some(table) => table.survival(deviation),
            None => self.laws[component].deviation_survival(deviation),
        }
    }

    /// No less than the fraction of rows whose component is in doubt: for two of weights a and b it is at most sqrt(a b) times the
    /// Bhattacharyya coefficient.
    fn overlap(&self) -> Result<f64> {
        let (weights, components) = (self.mixture.weights(), self.mixture.components());
        if components.len() > MOST_PAIRED {
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

/// A table for each law; those of equal concentrations are one. None if they are no longer wanted.
fn tables(laws: &[ProjectionLaw], should_cancel: &ShouldCancel) -> Option<Vec<Arc<TailTable>>> {
    let mut different: Vec<&ProjectionLaw> = laws.iter().collect();
    different.sort_by(|a, b| a.concentration().total_cmp(&b.concentration()));
    different.dedup_by_key(|law| law.concentration().to_bits());
    let table = |law: &&ProjectionLaw| should_cancel().is_continue().then(|| Arc::new(TailTable::new((*law).clone())));
    let tables = different.par_iter().map(table).collect::<Option<Vec<_>>>()?;
    let position = |law: &ProjectionLaw| different.partition_point(|other| other.concentration() < law.concentration());
    Some(laws.iter().map(|law| Arc::clone(&tables[position(law)])).collect())
}

/// u = sum of r F.
fn tail_of(terms: &[(f64, f64)]) -> f64 {
    terms.iter().map(|(responsibility, tail)| responsibility * tail).sum::<f64>().min(1.0)
}

/// The law of u under the mixture: p at levels of u, between which ln p is linear in ln u.
#[derive(Debug, Clone)]
struct Calibration {
    ln_tails: Vec<f64>,
    ln_p_values: Vec<f64>,
}

/// Half of the draws have a tail that is uniform, the others one of density 1/((w + FLOOR) ln(1 + 1/FLOOR)).
const FLOOR: f64 = 1e-5;

/// The density of the draws' tails relative to that of the mixture's own.
fn enrichment(tail: f64) -> f64 {
    0.5 + 0.5 / ((tail + FLOOR) * (1.0 / FLOOR).ln_1p())
}

/// The strangest of the draws, by their fraction of all rows: they tell where to draw more.
const STRANGEST: [f64; 2] = [1e-2, 1e-3];

/// Up to this dimension draws have neighbours, and more are drawn beside so many of the strangest.
const NEIGHBOURS: usize = 16;
const OF_EACH: usize = 64;

/// A draw: its u, and its density where tails are enriched, relative to the mixture's; later what it counts.
type Drawn = (f64, f64);

impl Calibration {
    /// Half of the draws have enriched tails, the others lie where those found the smallest u. None if it is no longer wanted.
    fn new(test: &OutlierTest, seed: u64, should_cancel: &ShouldCancel) -> Result<Option<Self>> {
        let (components, dim) = (test.mixture.components().len(), test.mixture.dim());
        let half = (WORK / (components * (dim + TAIL))).clamp(DRAWS.0, DRAWS.1) / 2;
        let at_once = (SHARES_AT_ONCE / (3 * components).max(dim)).max(256);
        let mut found = vec![(0.0, 0.0); 2 * half];
        let (first, second) = found.split_at_mut(half);
        // Rows are drawn again where they are needed again, and only what takes long is kept.
        let deviations: Vec<f64> = (0..half).into_par_iter().map(|number| test.deviation(seed, number, half)).collect();
        for (number, piece) in first.chunks_mut(at_once).enumerate() {
            if should_cancel().is_break() {
                return Ok(None);
            }
            test.score(&test.draws(seed, number * at_once, &deviations[number * at_once..][..piece.len()]), piece)?;
        }
        let stranger = test.stranger(seed, &deviations, first)?;
        for (number, piece) in first.chunks_mut(at_once).enumerate() {
            if should_cancel().is_break() {
                return Ok(None);
            }
            let rows = test.draws(seed, number * at_once, &deviations[number * at_once..][..piece.len()]);
            test.weigh(&stranger, &rows, piece)?;
        }
        for (number, piece) in second.chunks_mut(at_once).enumerate() {
            if should_cancel().is_break() {
                return Ok(None);
            }
            let mut rows = vec![0.0; piece.len() * dim];
            stranger.fill(seed ^ 0x7374_7261, (number * at_once) as u64, &mut rows, &mut vec![0; piece.len()])?;
            test.score(&rows, piece)?;
            test.weigh(&stranger, &rows, piece)?;
        }
        Ok(Some(Self::of_draws(found)))
    }

    /// Levels of p that are passed by draws in order of u, each with its weight: evenly in ln p at first, then in p.
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
                // Equal tails have one p-value, the largest.
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
            // By a product: exponentials of sums would lose digits of a small tail.
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
    /// What there is to know of draws: u, and the sum of r g(F).
    fn score(&self, rows: &[f64], found: &mut [Drawn]) -> Result<()> {
        self.for_each_row(&RowBatch::new(self.mixture.dim(), rows)?, found, |terms| {
            (tail_of(terms), terms.iter().map(|(responsibility, tail)| responsibility * enrichment(*tail)).sum::<f64>())
        })
    }

    /// What draws count that were made half with enriched tails and half from `stranger`: 1 over the mean of both densities, relative
    /// to the mixture's.
    fn weigh(&self, stranger: &Mixture, rows: &[f64], found: &mut [Drawn]) -> Result<()> {
        let block = RowBatch::new(self.mixture.dim(), rows)?;
        let (mut ours, mut theirs) = (vec![0.0; found.len()], vec![0.0; found.len()]);
        self.mixture.ln_densities_into(&block, &mut ours)?;
        stranger.ln_densities_into(&block, &mut theirs)?;
        for ((_, density), (ours, theirs)) in found.iter_mut().zip(ours.into_iter().zip(theirs)) {
            *density = 2.0 / (*density + (theirs - ours).exp());
        }
        Ok(())
    }

    /// A mixture whose draws have a small u more often than those of this one, judged by draws with enriched tails.
    fn stranger(&self, seed: u64, deviations: &[f64], found: &[Drawn]) -> Result<Mixture> {
        let mut order: Vec<usize> = (0..found.len()).collect();
        order.sort_unstable_by(|&a, &b| found[a].0.total_cmp(&found[b].0).then(a.cmp(&b)));
        let total: f64 = found.iter().map(|(_, density)| 1.0 / density).sum();
        let (mut components, mut weights) = (Vec::new(), Vec::new());
        for fraction in STRANGEST {
            let mut sum = 0.0;
            let strangest = order.iter().map(|&number| (number, 1.0 / found[number].1));
            let strangest: Vec<(usize, f64)> = strangest
                .take_while(|(_, weight)| {
                    sum += weight;
                    sum <= fraction * total
                })
                .collect();
            let found = match self.mixture.dim() {
                ..=NEIGHBOURS => self.beside(seed, deviations, &strangest)?,
                _ => self.pushed(seed, deviations, &strangest)?,
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

    /// Densities about some of these draws, a little wider than those are apart.
    fn beside(&self, seed: u64, deviations: &[f64], strangest: &[(usize, f64)]) -> Result<(Vec<VonMisesFisher>, Vec<f64>)> {
        let dim = self.mixture.dim();
        let total: f64 = strangest.iter().map(|(_, weight)| weight).sum();
        let (mut rows, mut sum) = (Vec::new(), 0.0);
        for &(number, weight) in strangest {
            // Evenly by weight.
            sum += weight;
            if sum * OF_EACH as f64 >= total * (rows.len() as f64 + 0.5) {
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
        let apart = (0..rows.len()).map(nearest).sum::<f64>() / rows.len() as f64;
        // The mean deviation of such a density is about four times that.
        let concentration = ((dim - 1) as f64 / (8.0 * apart)).min(1e10);
        let weights = vec![1.0 / rows.len() as f64; rows.len()];
        let components = rows.into_iter().map(|row| VonMisesFisher::along(row, concentration));
        Ok((components.collect::<Result<_>>()?, weights))
    }

    /// The mixture's own components, all pushed the way that leads to the mean of these draws: k mu is moved by the difference of the
    /// means over the variance of a coordinate.
    fn pushed(&self, seed: u64, deviations: &[f64], strangest: &[(usize, f64)]) -> Result<(Vec<VonMisesFisher>, Vec<f64>)> {
        let (dim, weights) = (self.mixture.dim(), self.mixture.weights());
        let total: f64 = strangest.iter().map(|(_, weight)| weight).sum();
        if strangest.len() < 2 {
            return Ok(Default::default());
        }
        let mut push = vec![0.0; dim];
        for &(number, weight) in strangest {
            let row = self.draws(seed, number, &deviations[number..=number]);
            push.iter_mut().zip(row).for_each(|(sum, x)| *sum += weight / total * x);
        }
        let mut precision = 0.0;
        for (weight, component) in weights.iter().zip(self.mixture.components()) {
            push.iter_mut().zip(component.mean()).for_each(|(sum, x)| *sum -= weight * x);
            let length = bessel::mean_length(dim, component.concentration());
            precision += weight * if length > 0.0 { component.concentration() / length } else { dim as f64 };
        }
        let pushed = self.mixture.components().iter().map(|component| {
            let terms = component.mean_direction().iter().zip(&push);
            let vector: Vec<f64> = terms.map(|(m, push)| component.concentration() * m + precision * push).collect();
            let concentration = norm(&vector);
            VonMisesFisher::along(vector, concentration)
        });
        Ok((pushed.collect::<Result<_>>()?, weights.to_vec()))
    }

    /// Draws with enriched tails from this number on, as far from their components' mean directions as is said.
    fn draws(&self, seed: u64, first: usize, deviations: &[f64]) -> Vec<f64> {
        let dim = self.mixture.dim();
        let mut rows = vec![0.0; deviations.len() * dim];
        let drawn_rows = rows.par_chunks_exact_mut(dim).zip(deviations).enumerate();
        drawn_rows.for_each(|(row, (out, deviation))| self.draw(seed, first + row, *deviation, out));
        rows
    }

    /// How far draw `number` of so many is from its component's mean direction: tails are spread evenly.
    fn deviation(&self, seed: u64, number: usize, draws: usize) -> f64 {
        let mut rng = Stream::new(seed ^ 0x7461_696c, number as u64);
        let position = ((number / 2) as f64 + rng.random::<f64>()) / (draws / 2) as f64;
        let tail = if number.is_multiple_of(2) { position } else { FLOOR * (position * (1.0 / FLOOR).ln_1p()).exp_m1() };
        self.tables[self.component_of(number)].upper_quantile(tail.clamp(f64::MIN_POSITIVE, 1.0))
    }

    /// Multiples of the golden ratio fill the unit interval evenly.
    fn component_of(&self, number: usize) -> usize {
        self.pick((number as f64 * 0.618_033_988_749_894_9).fract())
    }

    /// Draw `number`: so far from its component's mean direction, any way.
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

    /// The component in which this fraction of the total weight is reached.
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
