//! Initial directions: k-means++ seeds, random rows and random directions.

use crate::density::VonMisesFisher;
use crate::error::Result;
use crate::mixture::{Mixture, projections};
use crate::rows::RowBatch;
use crate::sampler::{Sampler, Stream};
use crate::start::ordered_rows::{OrderedRows, draw_positions};
use rand::RngExt;
use rand::seq::SliceRandom;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Says whether to cancel; a break cancels.
pub(crate) type ShouldCancel<'a> = dyn FnMut() -> ControlFlow<()> + Send + 'a;

/// Relative gains up to this may be rounding, which depends on the order of the rows.
const ROUNDING: f64 = 1e-10;

/// A mixture with these directions, equal weights and concentrations of 1.
pub(crate) fn of_directions(directions: Vec<Vec<f64>>) -> Result<Mixture> {
    let weights = vec![1.0 / directions.len() as f64; directions.len()];
    let components = directions.into_iter().map(|direction| VonMisesFisher::along(direction, 1.0)).collect::<Result<_>>()?;
    Mixture::new(weights, components)
}

pub(crate) fn random_directions(dim: usize, components: usize, seed: u64) -> Result<Vec<Vec<f64>>> {
    let mut values = vec![0.0; dim * components];
    Sampler::new(&VonMisesFisher::uniform(dim)?).fill(seed ^ 0x6469_7265, 0, &mut values)?;
    Ok(values.chunks_exact(dim).map(<[f64]>::to_vec).collect())
}

/// Draws `count` of the numbers below `rows`, without replacement.
pub(crate) fn drawn_once(rows: usize, count: usize, rng: &mut Stream) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..rows).collect();
    rows.partial_shuffle(rng, count).0.to_vec()
}

/// Draws row numbers with replacement, with probabilities proportional to the weights.
pub(crate) fn draw_rows(batch: &RowBatch, count: usize, rng: &mut Stream) -> Vec<usize> {
    match batch.weights() {
        None => (0..count).map(|_| rng.random_range(0..batch.len())).collect(),
        Some(weights) => draw_positions(weights.iter().copied(), count, rng),
    }
}

/// Random distinct rows of positive weight; if there are too few, directions close to random rows.
pub(crate) fn random_rows(batch: &RowBatch, components: usize, rng: &mut Stream) -> Result<Vec<Vec<f64>>> {
    let mut rows: Vec<usize> = (0..batch.len()).filter(|&row| batch.weights().is_none_or(|w| w[row] > 0.0)).collect();
    let mut rest = &mut rows[..];
    let (mut chosen, mut seen) = (Vec::new(), HashSet::new());
    while chosen.len() < components && !rest.is_empty() {
        let (drawn, others) = rest.partial_shuffle(rng, components - chosen.len());
        chosen.extend(drawn.iter().map(|&row| batch.row(row)).filter(|row| seen.insert(bits(row))));
        rest = others;
    }
    let missing = draw_rows(batch, components - chosen.len(), rng);
    chosen.extend(missing.into_iter().map(|row| batch.row(row)));
    parted(chosen, rng)
}

fn bits(row: &[f64]) -> Vec<u64> {
    row.iter().map(|x| x.to_bits()).collect()
}

/// The distance by which equal directions are moved apart, as the tangent of the angle.
const BESIDE: f64 = 0.1;

/// Moves equal directions apart: equal components would stay equal.
pub(crate) fn parted(mut directions: Vec<Vec<f64>>, rng: &mut Stream) -> Result<Vec<Vec<f64>>> {
    let mut seen = HashSet::new();
    for direction in &mut directions {
        if !seen.insert(bits(direction)) {
            let aside = random_directions(direction.len(), 1, rng.random())?.remove(0);
            direction.iter_mut().zip(aside).for_each(|(x, aside)| *x += BESIDE * aside);
        }
    }
    Ok(directions)
}

/// Greedy k-means++: of 2 + ln K candidates, drawn with probabilities proportional to their
/// distance 1 - cos from the seeds so far, the one that leaves the smallest mean distance. If it is
/// cancelled the remaining seeds are random rows.
pub(crate) fn plus_plus(
    rows: &OrderedRows,
    components: usize,
    rng: &mut Stream,
    should_cancel: &mut ShouldCancel,
) -> Result<(Vec<Vec<f64>>, ControlFlow<()>)> {
    let batch = rows.batch;
    let mut seeds = vec![batch.row(rows.draw(1, |row| rows.fraction(row), rng)[0])];
    let mut distances = vec![0.0; batch.len()];
    projections(batch, &seeds, &mut distances)?;
    distances.iter_mut().for_each(|t| *t = (1.0 - *t).max(0.0));
    let trials = 2 + (components as f64).ln() as usize;
    let mut candidate_distances = vec![0.0; batch.len() * trials];
    while seeds.len() < components {
        if should_cancel().is_break() {
            seeds.extend(random_rows(batch, components - seeds.len(), rng)?);
            return Ok((parted(seeds, rng)?, ControlFlow::Break(())));
        }
        let mean: f64 = distances.iter().enumerate().map(|(row, distance)| rows.fraction(row) * distance).sum();
        // All rows equal a seed: draw any.
        let mass = |row: usize| rows.fraction(row) * if mean > 1e-12 { distances[row] } else { 1.0 };
        let candidates: Vec<Vec<f64>> = rows.draw(trials, mass, rng).into_iter().map(|row| batch.row(row)).collect();
        projections(batch, &candidates, &mut candidate_distances)?;
        let mut means = vec![0.0; trials];
        for (row, projections) in candidate_distances.chunks_exact(trials).enumerate() {
            for (mean, t) in means.iter_mut().zip(projections) {
                *mean += rows.fraction(row) * (1.0 - t).max(0.0).min(distances[row]);
            }
        }
        let best = (1..trials).fold(0, |best, trial| if means[trial] < (1.0 - ROUNDING) * means[best] { trial } else { best });
        for (distance, projections) in distances.iter_mut().zip(candidate_distances.chunks_exact(trials)) {
            *distance = distance.min((1.0 - projections[best]).max(0.0));
        }
        seeds.extend(candidates.into_iter().nth(best));
    }
    Ok((parted(seeds, rng)?, ControlFlow::Continue(())))
}
