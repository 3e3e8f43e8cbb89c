//! [`equal_mean_directions_by_permutation`]: a test that does not assume a vMF.

use super::{Outcome, checked_replicates, monte_carlo_p_value};
use crate::error::{Error, Result};
use crate::rows::{RowBatch, Rows, Scalar};
use crate::sampler::Stream;
use crate::stats::SufficientStats;
use rand::RngExt;
use rayon::prelude::*;
use vmfkit_kernels::vector::{dot, norm};

/// Tests whether groups have equal mean directions by permuting labels; row n is in group
/// `labels[n]`.
///
/// Use it if the rows may not follow a vMF; otherwise
/// [`equal_mean_directions`](super::equal_mean_directions) needs only sufficient statistics. The
/// statistic is sum r_i - r, the numerator of Watson and Williams' F, MATH.md (15.4). If all groups
/// have the same distribution, all permutations of the labels are equally probable, so the test
/// holds its level for any number of rows in any dimension. With many rows it may also reject
/// groups that have equal mean directions, if their concentrations and sizes differ.
///
/// # Errors
/// [`Error::WeightsNotSupported`], because weighted rows are not exchangeable;
/// [`Error::LabelCount`]; [`Error::TestNeeds`] for fewer than two groups; [`Error::Option`] for no
/// replicates.
///
/// # Panics
/// If a label is not below `groups`.
pub fn equal_mean_directions_by_permutation(
    batch: &RowBatch,
    labels: &[usize],
    groups: usize,
    replicates: usize,
    seed: u64,
) -> Result<Outcome> {
    const TEST: &str = "a permutation test of equal mean directions";
    if batch.weights().is_some() {
        return Err(Error::WeightsNotSupported { by: TEST });
    }
    let replicates = checked_replicates(replicates)?;
    let stats = SufficientStats::of_labels(batch, labels, groups)?;
    let found = (0..groups).filter(|&group| stats.mass(group) > 0.0).count();
    if found < 2 {
        return Err(Error::TestNeeds { test: TEST, needs: "at least two groups", found });
    }
    let rows = Permuted::new(batch, groups);
    let observed = rows.spread(labels);
    let seed = Stream::derive(seed, 0x7065_726d);
    let least = observed * (1.0 - 1e-10);
    let as_large = (0..replicates as u64).into_par_iter().filter(|&i| {
        let (mut rng, mut permuted) = (Stream::new(seed, i), labels.to_vec());
        for last in (1..permuted.len()).rev() {
            permuted.swap(last, rng.random_range(0..=last));
        }
        rows.spread(&permuted) >= least
    });
    let degrees = (found as f64 - 1.0) * (batch.dim() as f64 - 1.0);
    let p_value = monte_carlo_p_value(as_large.count(), replicates);
    Ok(Outcome { statistic: observed, degrees_of_freedom: (degrees, None), p_value })
}

/// Rows whose labels are permuted.
struct Permuted<'a> {
    batch: &'a RowBatch<'a>,
    groups: usize,
    /// The mean direction of all rows, which no permutation changes.
    mean: Vec<f64>,
}

impl<'a> Permuted<'a> {
    fn new(batch: &'a RowBatch<'a>, groups: usize) -> Self {
        let stats = SufficientStats::of_batch(batch);
        let length = stats.resultant_length(0);
        let mean = stats.resultant(0).iter().map(|x| if length > 0.0 { x / length } else { 0.0 }).collect();
        Permuted { batch, groups, mean }
    }

    /// sum r_i - r = sum of |across|^2 / (r_i + along), from the components of R_i along the mean
    /// direction and orthogonal to it, without cancellation.
    fn spread(&self, labels: &[usize]) -> f64 {
        let dim = self.batch.dim();
        let (mut sums, mut counts) = (vec![0.0; self.groups * dim], vec![0.0; self.groups]);
        labels.iter().for_each(|&label| counts[label] += 1.0);
        match self.batch.rows() {
            Rows::F32(rows) => self.add_dense(rows, labels, &mut sums),
            Rows::F64(rows) => self.add_dense(rows, labels, &mut sums),
            Rows::SparseF32(_) | Rows::SparseF64(_) => {
                for (row, &label) in labels.iter().enumerate() {
                    let values = self.batch.row(row);
                    let sum = &mut sums[label * dim..(label + 1) * dim];
                    sum.iter_mut().zip(values.iter().zip(&self.mean)).for_each(|(sum, (x, m))| *sum += x - m);
                }
            }
        }
        let group = |(sum, count): (&[f64], &f64)| {
            let shift = dot(sum, &self.mean);
            let along = count + shift;
            let across: Vec<f64> = sum.iter().zip(&self.mean).map(|(x, m)| x - shift * m).collect();
            let length = along.hypot(norm(&across));
            if along > 0.0 { dot(&across, &across) / (length + along) } else { length - along }
        };
        sums.chunks_exact(dim).zip(&counts).filter(|(_, count)| **count > 0.0).map(group).sum()
    }

    /// Adds x - mean, which keeps the digits of concentrated rows.
    fn add_dense<T: Scalar>(&self, rows: &[T], labels: &[usize], sums: &mut [f64]) {
        let dim = self.mean.len();
        for (row, &label) in rows.chunks_exact(dim).zip(labels) {
            let sum = &mut sums[label * dim..(label + 1) * dim];
            sum.iter_mut().zip(row.iter().zip(&self.mean)).for_each(|(sum, (x, m))| *sum += x.to_f64() - m);
        }
    }
}
