//! Moves components of a stream to rows that no component fits, MATH.md (14.13).
//!
//! The gain of a move is measured on rows that did not propose it. It must exceed what the
//! likelihood loses when another component takes over the rows of the one that moves.

use crate::bessel;
use crate::density::VonMisesFisher;
use crate::error::Result;
use crate::m_step::{ConcentrationPolicy, Maximisation};
use crate::mixture::{Assignment, Mixture, projections};
use crate::rows::RowBatch;
use crate::sampler::Stream;
use crate::start::ordered_rows::draw_positions;
use crate::start::plus_plus::drawn_once;
use crate::stats::SufficientStats;
use rayon::prelude::*;
use vmfkit_kernels::vector::dot;

/// The rows of a batch that are examined: all of a usual batch, and enough of a large one to find
/// clusters of a hundredth of its rows.
const ROWS: usize = 1024;
const ROWS_PER_COMPONENT: usize = 8;

/// The smallest sample: half of it proposes a cluster and the other half decides.
const FEWEST_ROWS: usize = 8;

/// Standard errors subtracted from a gain, so that one or two outliers never move a component.
const STANDARD_ERRORS: f64 = 2.0;

/// Steps of k-means that refine the direction of a newcomer.
const SETTLING: usize = 2;

/// Only this many of the lightest components may move: the table of costs has one line for each.
const MOVABLE: usize = 256;

/// A component that moves.
#[derive(Debug, Clone)]
pub(crate) struct Reassignment {
    pub component: usize,
    /// The component that takes over its rows; `None` if they are dropped.
    pub merged_into: Option<usize>,
    /// Its new density.
    pub density: VonMisesFisher,
    /// The fraction of the rows of the batch that it claims there.
    pub fraction: f64,
}

/// The moves for a batch, before it is added to the statistics. `is_idle(k, n)` says whether
/// component k may move at any cost if it gets none of n rows.
pub(crate) fn reassignments(
    model: &Mixture,
    running: &SufficientStats,
    is_idle: impl Fn(usize, usize) -> bool,
    batch: &RowBatch,
    how: &Maximisation,
    seed: u64,
) -> Result<Vec<Reassignment>> {
    let components = model.components().len();
    let movable = components - usize::from(model.has_background());
    let some_weigh = |batch: &RowBatch| batch.weights().is_none_or(|weights| weights.iter().any(|weight| *weight > 0.0));
    // Fixed weights leave none for a newcomer.
    if movable < 2 || how.fixed_weights || batch.len() < FEWEST_ROWS || !some_weigh(batch) {
        return Ok(Vec::new());
    }
    let mut rng = Stream::new(seed ^ 0x6d6f_7665, 0);
    let count = batch.len().min(ROWS.max(ROWS_PER_COMPONENT * components));
    let mut buffer = Default::default();
    let sample = batch.gather(&drawn_once(batch.len(), count, &mut rng), &mut buffer)?;
    let (proposing, deciding) = (sample.slice(0, count / 2), sample.slice(count / 2, count));
    if !some_weigh(&proposing) || !some_weigh(&deciding) {
        return Ok(Vec::new());
    }
    let newcomer = Newcomer::of(model, running, how);
    // With the weights of this batch: a cluster that has more rows now needs no other component.
    let mut fit = RowFit::of(&model.weighed_by(&sample)?, &sample, &newcomer)?;
    let mut costs = None;
    let mut moves: Vec<Reassignment> = Vec::new();
    while moves.len() < movable {
        let Some((direction, fraction)) = propose(&proposing, &fit.part(0, count / 2), &newcomer, components, &mut rng)? else {
            break;
        };
        let gain = sure_gain(&deciding, &fit.part(count / 2, count), &newcomer, &direction, fraction)?;
        if !(gain > 0.0) {
            break;
        }
        let Some((direction, fraction)) = settle(&sample, &fit, &newcomer, direction, fraction)? else {
            break;
        };
        fit.add(&sample, &newcomer, &direction, fraction)?;
        // A row that the newcomer claims did not belong to the component it was nearest to.
        let mut idle: Vec<bool> = (0..components).map(|k| is_idle(k, count)).collect();
        fit.components.iter().flatten().for_each(|&component| idle[component] = false);
        let costs = costs.get_or_insert_with(|| MergeCosts::new(model, running));
        let Some((component, merged_into)) = costs.cheapest(gain, &idle) else {
            break;
        };
        match merged_into {
            Some(merged_into) => costs.merge(component, merged_into),
            None => costs.fixed[component] = true,
        }
        let density = VonMisesFisher::along(direction, newcomer.concentration)?;
        moves.push(Reassignment { component, merged_into, density, fraction });
    }
    Ok(moves)
}

impl Mixture {
    /// The same densities with weights estimated from these rows, at least half a row each.
    fn weighed_by(&self, batch: &RowBatch) -> Result<Self> {
        let components = self.components().len();
        let mut stats = SufficientStats::zero(components, self.dim());
        self.accumulate(batch, Assignment::Soft, &mut stats)?;
        let least = 0.5 * stats.weight() / batch.len() as f64;
        let weights: Vec<f64> = (0..components).map(|k| stats.mass(k).max(least)).collect();
        let total: f64 = weights.iter().sum();
        let weights = weights.into_iter().map(|weight| weight / total).collect();
        Ok(Mixture::of_parts(weights, self.components().to_vec(), self.has_background()))
    }
}

/// A component of which only the direction is known; it gets the pooled mean length.
struct Newcomer {
    concentration: f64,
    mean_length: f64,
    ln_peak: f64,
}

impl Newcomer {
    fn of(model: &Mixture, running: &SufficientStats, how: &Maximisation) -> Self {
        let fitted = || (0..running.components()).filter(|&k| !model.is_background(k));
        let mass: f64 = fitted().map(|k| running.mass(k)).sum();
        let shortfall: f64 = fitted().map(|k| running.shortfall(k)).sum();
        let complement = if mass > 0.0 { (shortfall / mass).clamp(0.0, 1.0) } else { 1.0 };
        let concentration = match how.policy {
            ConcentrationPolicy::Fixed(concentration) => concentration,
            _ => how.estimator.estimate(model.dim(), 1.0 - complement, complement).min(how.largest_concentration),
        };
        let mean_length = bessel::mean_length(model.dim(), concentration);
        Newcomer { concentration, mean_length, ln_peak: bessel::ln_peak(model.dim(), concentration) }
    }

    fn ln_density(&self, projection: f64) -> f64 {
        self.ln_peak - self.concentration * (1.0 - projection)
    }
}

/// How well a mixture fits rows.
#[derive(Clone)]
struct RowFit {
    ln_densities: Vec<f64>,
    /// The most probable component of each row; `None` if that is a newcomer.
    components: Vec<Option<usize>>,
    /// x . mu of each row and its most probable component.
    projections: Vec<f64>,
    /// How far ln p of a row is below the mean of its component, in nats; 0 if it is above.
    deficits: Vec<f64>,
}

impl RowFit {
    fn of(model: &Mixture, batch: &RowBatch, newcomer: &Newcomer) -> Result<Self> {
        let summary = model.summarise(batch, 1)?;
        let top = &summary.ranks[0];
        let components = top.components.iter().map(|&component| Some(component as usize)).collect();
        let mut fit = RowFit { ln_densities: summary.ln_densities, components, projections: Vec::new(), deficits: Vec::new() };
        let even_weight = -(model.components().len() as f64).ln();
        for (row, &component) in top.components.iter().enumerate() {
            let (component, ln_density) = (component as usize, fit.ln_densities[row]);
            let density = &model.components()[component];
            let (projection, deficit) = if model.is_background(component) || density.concentration() == 0.0 {
                // A row of no component is compared with two rows of one cluster.
                let expected = newcomer.ln_density(newcomer.mean_length) + even_weight;
                (0.5 * newcomer.mean_length * newcomer.mean_length, expected - ln_density)
            } else {
                let own = ln_density + top.responsibilities[row].ln() - model.weights()[component].ln();
                let projection = 1.0 - (density.ln_peak() - own) / density.concentration();
                let expected = bessel::mean_length(batch.dim(), density.concentration());
                (projection, density.concentration() * (expected - projection))
            };
            fit.projections.push(projection);
            fit.deficits.push(deficit.max(0.0));
        }
        Ok(fit)
    }

    fn part(&self, from: usize, to: usize) -> Self {
        let part = |values: &[f64]| values[from..to].to_vec();
        let components = self.components[from..to].to_vec();
        RowFit {
            ln_densities: part(&self.ln_densities),
            components,
            projections: part(&self.projections),
            deficits: part(&self.deficits),
        }
    }

    /// Adds a component to the mixture.
    fn add(&mut self, batch: &RowBatch, newcomer: &Newcomer, direction: &[f64], fraction: f64) -> Result<()> {
        let mut projections_of_rows = vec![0.0; batch.len()];
        projections(batch, &[direction.to_vec()], &mut projections_of_rows)?;
        for (row, projection) in projections_of_rows.into_iter().enumerate() {
            let ln_density = newcomer.ln_density(projection);
            if fraction.ln() + ln_density > self.ln_densities[row] {
                self.components[row] = None;
                self.projections[row] = projection;
                self.deficits[row] = (newcomer.concentration * (newcomer.mean_length - projection)).max(0.0);
            }
            self.ln_densities[row] += gain_of(self.ln_densities[row], ln_density, fraction);
        }
        Ok(())
    }
}

/// The gain in ln p of a row when a component with this weight is added.
fn gain_of(ln_density: f64, newcomer: f64, fraction: f64) -> f64 {
    let (stay, join) = ((-fraction).ln_1p(), fraction.ln() + newcomer - ln_density);
    let (low, high) = if stay < join { (stay, join) } else { (join, stay) };
    high + (low - high).exp().ln_1p()
}

fn weight_of(batch: &RowBatch, row: usize) -> f64 {
    batch.weights().map_or(1.0, |weights| weights[row])
}

fn total_weight(batch: &RowBatch) -> f64 {
    batch.weights().map_or(batch.len() as f64, |weights| weights.iter().sum())
}

/// The best of a few directions near rows that fit badly, and the fraction of rows it claims.
fn propose(
    batch: &RowBatch,
    fit: &RowFit,
    newcomer: &Newcomer,
    components: usize,
    rng: &mut Stream,
) -> Result<Option<(Vec<f64>, f64)>> {
    let masses = |row: usize| weight_of(batch, row) * fit.deficits[row];
    if !((0..batch.len()).map(masses).sum::<f64>() > 0.0) {
        return Ok(None);
    }
    let trials = 2 + (components as f64).ln() as usize;
    let rows = draw_positions((0..batch.len()).map(masses), trials, rng);
    let directions: Vec<Vec<f64>> = rows.into_iter().map(|row| batch.row(row)).collect();
    let mut seen = vec![0.0; batch.len() * trials];
    projections(batch, &directions, &mut seen)?;
    let mut best: Option<(f64, Vec<f64>, f64)> = None;
    for trial in 0..trials {
        // A row of the same cluster is nearer than the direction of another cluster.
        let claimed = (0..batch.len()).filter(|row| seen[row * trials + trial] > fit.projections[*row]);
        let Some((direction, fraction)) = centre(batch, claimed) else {
            continue;
        };
        let Some((direction, fraction)) = settle(batch, fit, newcomer, direction, fraction)? else {
            continue;
        };
        let gain = gains(batch, fit, newcomer, &direction, fraction)?.0;
        if best.as_ref().is_none_or(|(most, ..)| gain > *most) {
            best = Some((gain, direction, fraction));
        }
    }
    Ok(best.map(|(_, direction, fraction)| (direction, fraction)))
}

/// The mean direction of rows and their fraction of all rows; `None` if they cancel.
fn centre(batch: &RowBatch, rows: impl Iterator<Item = usize>) -> Option<(Vec<f64>, f64)> {
    let stats = SufficientStats::of_rows(batch, rows);
    let length = stats.resultant_length(0);
    let direction = || stats.resultant(0).iter().map(|x| x / length).collect();
    // At most half: the rest of the mixture must keep some rows.
    (length > 0.0).then(|| (direction(), (stats.mass(0) / total_weight(batch)).min(0.5)))
}

/// Refines a direction by k-means steps on the rows that it claims.
fn settle(
    batch: &RowBatch,
    fit: &RowFit,
    newcomer: &Newcomer,
    direction: Vec<f64>,
    fraction: f64,
) -> Result<Option<(Vec<f64>, f64)>> {
    let (mut found, mut seen) = ((direction, fraction), vec![0.0; batch.len()]);
    for _ in 0..SETTLING {
        projections(batch, &[found.0], &mut seen)?;
        let claims = |row: &usize| found.1.ln() + newcomer.ln_density(seen[*row]) > fit.ln_densities[*row];
        match centre(batch, (0..batch.len()).filter(claims)) {
            Some(centre) => found = centre,
            None => return Ok(None),
        }
    }
    Ok(Some(found))
}

/// The mean gain of rows, and its standard error.
fn gains(batch: &RowBatch, fit: &RowFit, newcomer: &Newcomer, direction: &[f64], fraction: f64) -> Result<(f64, f64)> {
    let mut seen = vec![0.0; batch.len()];
    projections(batch, &[direction.to_vec()], &mut seen)?;
    let total = total_weight(batch);
    let gain = |row: usize| gain_of(fit.ln_densities[row], newcomer.ln_density(seen[row]), fraction);
    let mean: f64 = (0..batch.len()).map(|row| weight_of(batch, row) / total * gain(row)).sum();
    let variance: f64 = (0..batch.len()).map(|row| (weight_of(batch, row) / total * (gain(row) - mean)).powi(2)).sum();
    Ok((mean, variance.sqrt()))
}

/// A lower bound of the mean gain.
fn sure_gain(batch: &RowBatch, fit: &RowFit, newcomer: &Newcomer, direction: &[f64], fraction: f64) -> Result<f64> {
    let (mean, error) = gains(batch, fit, newcomer, direction, fraction)?;
    Ok(mean - STANDARD_ERRORS * error)
}

/// The loss in mean ln p of the earlier rows when two components are merged.
struct MergeCosts {
    dim: usize,
    /// Fractions of the rows.
    masses: Vec<f64>,
    /// |R| and |R|^2, with R divided by the weight of all rows.
    lengths: Vec<f64>,
    squares: Vec<f64>,
    concentrations: Vec<f64>,
    /// The components that may move, and the products of their resultants with all others.
    movable: Vec<usize>,
    products: Vec<Vec<f64>>,
    /// Components that neither move nor take over rows: a background, and those that have moved.
    fixed: Vec<bool>,
}

impl MergeCosts {
    fn new(model: &Mixture, running: &SufficientStats) -> Self {
        let components = running.components();
        let total: f64 = (0..components).map(|k| running.mass(k)).sum();
        let mut movable: Vec<usize> = (0..components).filter(|&k| !model.is_background(k)).collect();
        movable.sort_by(|&a, &b| running.mass(a).total_cmp(&running.mass(b)));
        movable.truncate(MOVABLE);
        let scale = 1.0 / (total * total);
        let products = movable.par_iter().map(|&k| {
            let mine = running.resultant(k);
            (0..components).map(|other| scale * dot(mine, running.resultant(other))).collect()
        });
        let lengths: Vec<f64> = (0..components).map(|k| running.resultant_length(k) / total).collect();
        MergeCosts {
            dim: running.dim(),
            masses: (0..components).map(|k| running.mass(k) / total).collect(),
            squares: lengths.iter().map(|length| length * length).collect(),
            lengths,
            concentrations: model.components().iter().map(VonMisesFisher::concentration).collect(),
            products: products.collect(),
            movable,
            fixed: (0..components).map(|k| model.is_background(k)).collect(),
        }
    }

    /// The component whose move costs least, among those that cost less than the gain and idle
    /// ones, and the component that takes over its rows. The rows of an idle one are dropped, since
    /// they would only blur another cluster.
    fn cheapest(&self, gain: f64, idle: &[bool]) -> Option<(usize, Option<usize>)> {
        let costs: Vec<(f64, usize, usize)> = (0..self.movable.len()).filter_map(|line| self.cost(line)).collect();
        let allowed = costs.into_iter().filter(|(cost, component, _)| gain > *cost || idle[*component]);
        let (_, component, merged_into) = allowed.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((component, (!idle[component]).then_some(merged_into)))
    }

    /// The cost of merging a component into the one where it costs least.
    fn cost(&self, line: usize) -> Option<(f64, usize, usize)> {
        let component = self.movable[line];
        let others = (0..self.masses.len()).filter(|&other| other != component && !self.fixed[other]);
        if self.fixed[component] {
            return None;
        }
        let costs = others.map(|other| (self.cost_of_pair(line, other), component, other));
        costs.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The cost of merging two components, with the better of their concentrations; MATH.md
    /// (14.13).
    fn cost_of_pair(&self, line: usize, other: usize) -> f64 {
        let pair = [self.movable[line], other];
        let mass: f64 = pair.iter().map(|&k| self.masses[k]).sum();
        let square = self.squares[pair[0]] + self.squares[other] + 2.0 * self.products[line][other];
        let length = square.max(0.0).sqrt();
        let worth = |mass: f64, length: f64, concentration: f64| {
            mass * bessel::ln_peak(self.dim, concentration) - concentration * (mass - length)
        };
        let apart: f64 = pair.iter().map(|&k| worth(self.masses[k], self.lengths[k], self.concentrations[k])).sum();
        let together = pair.iter().map(|&k| worth(mass, length, self.concentrations[k])).fold(f64::NEG_INFINITY, f64::max);
        // The merged component has a larger weight.
        let weights: f64 = pair.iter().map(|&k| self.masses[k]).filter(|m| *m > 0.0).map(|m| m * (m / mass).ln()).sum();
        apart - together + weights
    }

    /// Adds the rows of a component that moves to another.
    fn merge(&mut self, component: usize, other: usize) {
        let line_of = |k: usize| self.movable.iter().position(|&movable| movable == k);
        let (line, other_line) = (line_of(component).expect("one that may move"), line_of(other));
        self.squares[other] += self.squares[component] + 2.0 * self.products[line][other];
        self.lengths[other] = self.squares[other].max(0.0).sqrt();
        self.masses[other] += self.masses[component];
        for products in &mut self.products {
            products[other] += products[component];
        }
        if let Some(other_line) = other_line {
            let moved = self.products[line].clone();
            self.products[other_line].iter_mut().zip(moved).for_each(|(product, moved)| *product += moved);
        }
        self.fixed[component] = true;
    }
}
