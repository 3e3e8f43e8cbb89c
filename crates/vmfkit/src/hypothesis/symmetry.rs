//! [`rotational_symmetry`]: a test of symmetry about the mean direction, MATH.md (15.9) and
//! (15.10).
//!
//! Advice for changes: `WORK`, `MULTIPLICATIONS_PER_COORDINATE` and `max_rows` determine the sample
//! of rows, and with it the p-value of large data. docs/tests.md lists the measured error rates;
//! run the example `test_error_rates` after a change.

use super::{checked_replicates, monte_carlo_p_value, tails};
use crate::error::{Error, Result};
use crate::rows::RowBatch;
use crate::sampler::{Stream, fill_with_normals};
use crate::stats::SufficientStats;
use rand::RngExt;
use rayon::prelude::*;
use vmfkit_kernels::vector::{dot, norm};

/// The maximum number of multiplications of a test, a few seconds of work; larger data are sampled.
const WORK: f64 = 2e10;
/// The maximum number of values in a copy of the tangents.
const VALUES: usize = 1 << 25;
/// Rotations of every tangent between two samples.
const SWEEPS: usize = 10;
/// The cost of rotating one coordinate.
const MULTIPLICATIONS_PER_COORDINATE: f64 = 10.0;

/// Rows per dimension from which the limiting distribution holds its level (docs/tests.md). With
/// fewer rows the estimated mean direction shifts the statistic.
const LIMIT_FROM: usize = 10;

/// The result of [`rotational_symmetry`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Symmetry {
    /// The scatter statistic, MATH.md (15.10).
    pub statistic: f64,
    /// Degrees of freedom of its limiting chi-squared distribution, (m - 1)(m + 2)/2 with
    /// m = d - 1.
    pub degrees_of_freedom: f64,
    /// The probability of a statistic at least as large under a vMF, from random rotations of the
    /// tangents.
    pub p_value: f64,
    /// The p-value by the limiting distribution, if there are at least 10 rows per tangent
    /// dimension m. It can be smaller than 1/(replicates + 1).
    pub limit_p_value: Option<f64>,
    /// The number of rows used: a random sample if all rows would take too long.
    pub rows: usize,
}

/// Tests whether the rows are rotationally symmetric about their mean direction, as under a vMF.
///
/// Elliptical rows are not. Use [`projection_test`](crate::inference::projection_test) to test the
/// distances from the mean direction instead.
///
/// The statistic compares the scatter matrix of the tangents of the rows at the mean direction with
/// a multiple of the identity, as Kent's test does for d = 3
/// (doi:10.1111/j.2517-6161.1982.tb01189.x). Under a vMF, given the projections of the rows on
/// their mean direction, tangents are uniform among those that sum to 0, MATH.md (15.9). The test
/// draws `replicates` such sets, so its p-value is exact for any number of rows in any dimension.
/// Large data are tested on a random sample of the rows.
///
/// # Errors
/// [`Error::TestNeeds`] for fewer than 3 rows or dimensions; [`Error::WeightsNotSupported`];
/// [`Error::SparseNotSupported`]; [`Error::NoMeanDirection`]; [`Error::AllRowsEqual`];
/// [`Error::Option`] for no replicates.
pub fn rotational_symmetry(batch: &RowBatch, replicates: usize, seed: u64) -> Result<Symmetry> {
    const TEST: &str = "a test of rotational symmetry";
    let needs = |needs, found| Err(Error::TestNeeds { test: TEST, needs, found });
    let replicates = checked_replicates(replicates)?;
    if batch.weights().is_some() {
        return Err(Error::WeightsNotSupported { by: TEST });
    }
    if batch.dim() < 3 {
        return needs("at least 3 dimensions", batch.dim());
    }
    if batch.len() < 3 {
        return needs("at least 3 rows", batch.len());
    }
    if batch.is_sparse() {
        return Err(Error::SparseNotSupported { by: TEST });
    }
    let mut buffer = RowBatch::default();
    let batch = &batch.validated_slice(0, batch.len(), &mut buffer)?;
    let seed = Stream::derive(seed, 0x7379_6d6d);
    let picked = sample(batch.len(), max_rows(batch.dim() - 1, replicates).min(batch.len()), seed);
    let mut tangents = Tangents::new(batch, &picked)?;
    let observed = tangents.scatter();
    let degrees = 0.5 * (tangents.dim as f64 - 1.0) * (tangents.dim as f64 + 2.0);
    // Besag and Clifford, doi:10.1093/biomet/76.4.633: all samples, and the rows, are the same
    // number of steps from a common state.
    tangents.rotate(&mut Stream::new(seed, 1));
    let as_large = (0..replicates as u64).into_par_iter().filter(|i| {
        let mut copy = tangents.clone();
        copy.rotate(&mut Stream::new(seed, 2 + i));
        copy.scatter() >= observed - 1e-10 * observed.abs()
    });
    Ok(Symmetry {
        statistic: observed,
        degrees_of_freedom: degrees,
        p_value: monte_carlo_p_value(as_large.count(), replicates),
        limit_p_value: (picked.len() >= LIMIT_FROM * tangents.dim).then(|| tails::chi_squared(observed, degrees)),
        rows: picked.len(),
    })
}

/// The number of rows that a test with these replicates can process within [`WORK`].
fn max_rows(m: usize, replicates: usize) -> usize {
    let (m, work_per_replicate) = (m as f64, WORK / (replicates as f64 + 2.0));
    // A replicate takes n m (min(n, m)/2 + rotation) multiplications; solved for n > m and for
    // n <= m.
    let rotation = MULTIPLICATIONS_PER_COORDINATE * SWEEPS as f64;
    let if_above_m = work_per_replicate / (m * (0.5 * m + rotation));
    let if_below_m = (rotation * rotation + 2.0 * work_per_replicate / m).sqrt() - rotation;
    let rows = if if_above_m > m { if_above_m } else { if_below_m };
    (rows as usize).clamp(50, (VALUES / m as usize).max(50))
}

/// A random sample of `some` of `all` row numbers, in order.
fn sample(all: usize, some: usize, seed: u64) -> Vec<usize> {
    let mut rng = Stream::new(seed, 0);
    let mut left = some;
    let mut take = |row: usize| {
        let taken = left > 0 && rng.random_range(0..all - row) < left;
        left -= usize::from(taken);
        taken
    };
    (0..all).filter(|&row| some == all || take(row)).collect()
}

/// The components of rows orthogonal to their mean direction, in m coordinates of the tangent
/// space. They sum to 0.
#[derive(Clone)]
struct Tangents {
    /// m = d - 1
    dim: usize,
    rows: Vec<f64>,
}

impl Tangents {
    fn new(batch: &RowBatch, picked: &[usize]) -> Result<Self> {
        let stats = SufficientStats::of_rows(batch, picked.iter().copied());
        let length = stats.resultant_length(0);
        if length == 0.0 {
            return Err(Error::NoMeanDirection);
        }
        if stats.shortfall(0) == 0.0 {
            return Err(Error::AllRowsEqual { weight: stats.mass(0) });
        }
        let mean: Vec<f64> = stats.resultant(0).iter().map(|x| x / length).collect();
        // The reflection (11.4) maps mu to an axis. The components of x - mu orthogonal to the axis
        // are the tangent, to full relative accuracy.
        let sign = if mean[0] >= 0.0 { 1.0 } else { -1.0 };
        let mut mirror = mean.clone();
        mirror[0] += sign;
        let scale = 1.0 / (1.0 + mean[0].abs());
        let dim = batch.dim() - 1;
        let mut rows = Vec::with_capacity(picked.len() * dim);
        for &row in picked {
            let mut x = batch.row(row);
            x.iter_mut().zip(&mean).for_each(|(x, m)| *x -= m);
            let along = scale * dot(&x, &mirror);
            rows.extend(x[1..].iter().zip(&mirror[1..]).map(|(x, w)| x - along * w));
        }
        Ok(Tangents { dim, rows })
    }

    /// MATH.md (15.10), by the scatter matrix or by the products of all pairs, whichever is less
    /// work.
    fn scatter(&self) -> f64 {
        let m = self.dim;
        let squares: Vec<f64> = self.rows.chunks_exact(m).map(|row| dot(row, row)).collect();
        let (trace, fourth, eighth) = squares.iter().fold((0.0, 0.0, 0.0), |(trace, fourth, eighth), square| {
            let power = square * square;
            (trace + square, fourth + power, eighth + power * power)
        });
        let trace_of_square = if m <= squares.len() { self.by_matrix() } else { 2.0 * self.by_pairs() + fourth };
        let d = m as f64;
        let excess = 0.5 * ((trace_of_square - fourth) - (trace * trace - fourth) / d);
        let variance = 0.5 * (fourth * fourth - eighth) * 2.0 * (d - 1.0) / (d * d * (d + 2.0));
        let degrees = 0.5 * (d - 1.0) * (d + 2.0);
        if variance > 0.0 { degrees + (2.0 * degrees).sqrt() * excess / variance.sqrt() } else { degrees }
    }

    /// tr S^2
    fn by_matrix(&self) -> f64 {
        let m = self.dim;
        let mut scatter = vec![0.0; m * m];
        for row in self.rows.chunks_exact(m) {
            for (i, &x) in row.iter().enumerate() {
                scatter[i * m..i * m + i + 1].iter_mut().zip(row).for_each(|(sum, y)| *sum += x * y);
            }
        }
        (0..m)
            .map(|i| {
                let row = &scatter[i * m..i * m + i];
                let diagonal = scatter[i * m + i];
                2.0 * dot(row, row) + diagonal * diagonal
            })
            .sum()
    }

    /// The sum of (y_i . y_j)^2 over pairs.
    fn by_pairs(&self) -> f64 {
        let row = |i: usize| &self.rows[i * self.dim..(i + 1) * self.dim];
        let square = |x: f64| x * x;
        (1..self.rows.len() / self.dim).map(|i| (0..i).map(|j| square(dot(row(i), row(j)))).sum::<f64>()).sum()
    }

    /// Rotates tangents at random, two or three at a time, which keeps their lengths and their sum.
    fn rotate(&mut self, rng: &mut Stream) {
        let mut order: Vec<usize> = (0..self.rows.len() / self.dim).collect();
        let together = if self.dim == 2 { 3 } else { 2 };
        let (mut axis, mut normals) = (vec![0.0; self.dim], vec![0.0; self.dim]);
        for _ in 0..SWEEPS {
            for last in (1..order.len()).rev() {
                order.swap(last, rng.random_range(0..=last));
            }
            for group in order.chunks_exact(together) {
                match *group {
                    [i, j] => self.rotate_pair(i, j, &mut axis, &mut normals, rng),
                    [i, j, k] => self.rotate_triple([i, j, k], rng),
                    _ => unreachable!("two or three at a time"),
                }
            }
        }
    }

    /// Rotates two tangents about their sum.
    fn rotate_pair(&mut self, i: usize, j: usize, axis: &mut [f64], normals: &mut [f64], rng: &mut Stream) {
        let m = self.dim;
        let (low, high) = self.rows.split_at_mut(i.max(j) * m);
        let (a, b) = (&mut low[i.min(j) * m..][..m], &mut high[..m]);
        axis.iter_mut().zip(a.iter().zip(&*b)).for_each(|(s, (x, y))| *s = x + y);
        let length = norm(axis);
        if length > 0.0 {
            axis.iter_mut().for_each(|s| *s /= length);
        }
        let along = dot(a, axis);
        // The length of the first orthogonal to the axis; the second has the opposite component.
        let across = (dot(a, a) - along * along).max(0.0).sqrt();
        fill_with_normals(rng, normals);
        let part = dot(normals, axis);
        normals.iter_mut().zip(&*axis).for_each(|(n, s)| *n -= part * s);
        let scale = across / norm(normals).max(f64::MIN_POSITIVE);
        for ((x, y), (n, s)) in a.iter_mut().zip(b).zip(normals.iter().zip(&*axis)) {
            let sum = *x + *y;
            *x = along * s + scale * n;
            *y = sum - *x;
        }
    }

    /// In the plane, two vectors of given lengths and sum cannot be rotated. Of three, the first
    /// gets a random angle, and the others are the solution for their lengths and sum, if there is
    /// one. A Metropolis step keeps the uniform distribution.
    fn rotate_triple(&mut self, [i, j, k]: [usize; 3], rng: &mut Stream) {
        let at = |rows: &[f64], i: usize| [rows[2 * i], rows[2 * i + 1]];
        let [a, b, c] = [i, j, k].map(|i| at(&self.rows, i));
        let angle = std::f64::consts::TAU * rng.random::<f64>();
        let (lengths, flip, uniform) = ([a, b, c].map(|v| v[0].hypot(v[1])), rng.random::<bool>(), rng.random::<f64>());
        let first = [lengths[0] * angle.cos(), lengths[0] * angle.sin()];
        let rest = [a[0] + b[0] + c[0] - first[0], a[1] + b[1] + c[1] - first[1]];
        let square = rest[0] * rest[0] + rest[1] * rest[1];
        if !(square > 0.0) {
            return;
        }
        // The second is p rest plus q times rest rotated by a right angle; p follows from the law
        // of cosines.
        let p = 0.5 * (1.0 + (lengths[1] * lengths[1] - lengths[2] * lengths[2]) / square);
        let q2 = lengths[1] * lengths[1] / square - p * p;
        if !(q2 > 0.0) {
            return;
        }
        let q = if flip { q2.sqrt() } else { -q2.sqrt() };
        // The density of a configuration is 1 over the area spanned by the last two.
        let (area, new_area) = ((b[0] * c[1] - b[1] * c[0]).abs(), q.abs() * square);
        if uniform * new_area > area {
            return;
        }
        let second = [p * rest[0] - q * rest[1], p * rest[1] + q * rest[0]];
        for (index, vector) in [(i, first), (j, second), (k, [rest[0] - second[0], rest[1] - second[1]])] {
            self.rows[2 * index..2 * index + 2].copy_from_slice(&vector);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_data_are_sampled_to_limit_the_work() {
        for (m, replicates) in [(2, 199), (9, 199), (99, 999), (767, 199), (767, 999), (99_999, 199)] {
            let rows = max_rows(m, replicates) as f64;
            let work = (replicates as f64 + 2.0)
                * rows
                * m as f64
                * (0.5 * rows.min(m as f64) + MULTIPLICATIONS_PER_COORDINATE * SWEEPS as f64);
            assert!(rows >= 50.0 && (work < 1.01 * WORK || rows == 50.0), "m = {m}: {rows} rows, {work:e}");
        }
        let picked = sample(1000, 300, 7);
        assert!(picked.len() == 300 && picked.is_sorted() && picked.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(picked[0] < 30 && picked[299] >= 970);
        assert_eq!(sample(5, 5, 1), [0, 1, 2, 3, 4]);
    }

    /// Also checks that tr S^2 is the same from the matrix and from pairs.
    #[test]
    fn rotations_keep_lengths_and_the_sum() {
        for dim in [2, 3, 10] {
            let mut values = vec![0.0; 30 * (dim + 1)];
            fill_with_normals(&mut Stream::new(3, dim as u64), &mut values);
            let (batch, _) = RowBatch::rescaled(dim + 1, &values).unwrap();
            let mut tangents = Tangents::new(&batch, &(0..30).collect::<Vec<_>>()).unwrap();
            let fourth: f64 = tangents.rows.chunks_exact(dim).map(|row| dot(row, row).powi(2)).sum();
            assert!((tangents.by_matrix() / (2.0 * tangents.by_pairs() + fourth) - 1.0).abs() < 1e-12);
            let before = tangents.clone();
            tangents.rotate(&mut Stream::new(1, 1));
            assert!(tangents.rows.iter().zip(&before.rows).any(|(x, y)| (x - y).abs() > 0.1));
            for (now, then) in tangents.rows.chunks_exact(dim).zip(before.rows.chunks_exact(dim)) {
                assert!((norm(now) - norm(then)).abs() < 1e-12);
            }
            for axis in 0..dim {
                assert!(tangents.rows.iter().skip(axis).step_by(dim).sum::<f64>().abs() < 1e-12);
            }
        }
    }
}
