//! [`OrderedRows`]: a canonical order of rows.

use crate::error::Result;
use crate::mixture::projections;
use crate::rows::{RowBatch, Rows, Scalar, SparseRows};
use crate::sampler::Stream;
use crate::stats::SufficientStats;
use rand::RngExt;
use std::cmp::Ordering;

/// Rows in the order of their projection on the mean direction; equal projections in the order of
/// the coordinates.
///
/// Draws in this order do not depend on the order of the rows. Equal rows are neighbours, so a row
/// of weight 3 is drawn like three equal rows. Rotated rows have the same order, unless their mean
/// direction is undefined or their projections are equal.
pub(crate) struct OrderedRows<'b> {
    pub batch: &'b RowBatch<'b>,
    order: Vec<usize>,
    total_weight: f64,
}

/// Projections are compared in this unit, so that rounding does not decide.
const SAME_POSITION: f64 = 1e-9;
/// Up to this mean length the mean direction is mostly rounding error.
const BALANCED: f64 = 1e-6;

impl<'b> OrderedRows<'b> {
    pub fn new(batch: &'b RowBatch<'b>) -> Result<Self> {
        let stats = SufficientStats::of_batch(batch);
        let mut positions = vec![0.0; batch.len()];
        if stats.mean_length(0).0 > BALANCED {
            projections(batch, &[stats.resultant(0).to_vec()], &mut positions)?;
            positions.iter_mut().for_each(|t| *t = (*t / SAME_POSITION).round());
        }
        let mut order: Vec<usize> = (0..batch.len()).collect();
        order.sort_by(|&a, &b| positions[a].total_cmp(&positions[b]).then_with(|| compare_rows(batch, a, b)));
        Ok(OrderedRows { batch, order, total_weight: stats.mass(0) })
    }

    /// The weight of a row as a fraction of the total.
    pub fn fraction(&self, row: usize) -> f64 {
        self.batch.weights().map_or(1.0, |w| w[row]) / self.total_weight
    }

    /// Draws row numbers with replacement, with probabilities proportional to the masses.
    pub fn draw(&self, count: usize, mass: impl Fn(usize) -> f64, rng: &mut Stream) -> Vec<usize> {
        let drawn = draw_positions(self.order.iter().map(|&row| mass(row)), count, rng);
        drawn.into_iter().map(|position| self.order[position]).collect()
    }
}

/// Any order in which equal rows are equal.
fn compare_rows(batch: &RowBatch, a: usize, b: usize) -> Ordering {
    fn values<T: Scalar>(a: &[T], b: &[T]) -> Ordering {
        let mut orders = a.iter().zip(b).map(|(a, b)| a.to_f64().total_cmp(&b.to_f64()));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
    fn dense<T: Scalar>(dim: usize, numbers: &[T], a: usize, b: usize) -> Ordering {
        values(&numbers[a * dim..(a + 1) * dim], &numbers[b * dim..(b + 1) * dim])
    }
    fn sparse<T: Scalar>(rows: &SparseRows<T>, a: usize, b: usize) -> Ordering {
        let ((columns_a, a), (columns_b, b)) = (rows.row(a), rows.row(b));
        columns_a.cmp(columns_b).then_with(|| values(a, b))
    }
    match batch.rows() {
        Rows::F32(numbers) => dense(batch.dim(), numbers, a, b),
        Rows::F64(numbers) => dense(batch.dim(), numbers, a, b),
        Rows::SparseF32(rows) => sparse(rows, a, b),
        Rows::SparseF64(rows) => sparse(rows, a, b),
    }
}

/// Draws `count` positions with replacement, with probabilities proportional to the masses, of
/// which at least one is not 0.
pub(crate) fn draw_positions(masses: impl Iterator<Item = f64>, count: usize, rng: &mut Stream) -> Vec<usize> {
    let (mut total, mut last) = (0.0, 0);
    let add = |(position, mass)| {
        if mass > 0.0 {
            last = position;
        }
        total += mass;
        total
    };
    let sums: Vec<f64> = masses.enumerate().map(add).collect();
    let draw = |_| {
        let rest = rng.random::<f64>() * total;
        sums.partition_point(|sum| *sum <= rest).min(last)
    };
    (0..count).map(draw).collect()
}
