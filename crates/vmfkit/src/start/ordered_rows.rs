//! [`OrderedRows`]: an order of rows that does not depend on how they come.

use crate::error::Result;
use crate::mixture::projections;
use crate::rows::{RowBatch, Rows, Scalar, SparseRows};
use crate::sampler::Stream;
use crate::stats::SufficientStats;
use rand::RngExt;
use std::cmp::Ordering;

/// Rows in an order of their own: along their mean direction, those at one point by their coordinates.
///
/// What is drawn by going through masses in this order depends on the rows and what they weigh, not on how they come: equal rows are
/// neighbours, so a row of weight 3 is drawn where it would be if it came three times. Turned rows have the same order, unless they
/// balance each other or lie at one point.
pub(crate) struct OrderedRows<'b> {
    pub block: &'b RowBatch<'b>,
    order: Vec<usize>,
    total_weight: f64,
}

/// Places along the mean direction that are nearer to each other are told apart by rounding only.
const SAME_POSITION: f64 = 1e-9;
/// A mean length up to which a mean direction is one of rounding.
const BALANCED: f64 = 1e-6;

impl<'b> OrderedRows<'b> {
    pub fn new(block: &'b RowBatch<'b>) -> Result<Self> {
        let stats = SufficientStats::of_block(block);
        let mut positions = vec![0.0; block.len()];
        if stats.mean_length(0).0 > BALANCED {
            projections(block, &[stats.resultant(0).to_vec()], &mut positions)?;
            positions.iter_mut().for_each(|t| *t = (*t / SAME_POSITION).round());
        }
        let mut order: Vec<usize> = (0..block.len()).collect();
        order.sort_by(|&a, &b| positions[a].total_cmp(&positions[b]).then_with(|| compare_rows(block, a, b)));
        Ok(OrderedRows { block, order, total_weight: stats.mass(0) })
    }

    /// What a row weighs of all.
    pub fn fraction(&self, row: usize) -> f64 {
        self.block.weights().map_or(1.0, |w| w[row]) / self.total_weight
    }

    /// Row numbers, each as likely as its mass says.
    pub fn draw(&self, count: usize, mass: impl Fn(usize) -> f64, rng: &mut Stream) -> Vec<usize> {
        let drawn = draw_positions(self.order.iter().map(|&row| mass(row)), count, rng);
        drawn.into_iter().map(|position| self.order[position]).collect()
    }
}

/// An order of rows that equal rows are neighbours in.
fn compare_rows(block: &RowBatch, a: usize, b: usize) -> Ordering {
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
    match block.rows() {
        Rows::F32(numbers) => dense(block.dim(), numbers, a, b),
        Rows::F64(numbers) => dense(block.dim(), numbers, a, b),
        Rows::SparseF32(rows) => sparse(rows, a, b),
        Rows::SparseF64(rows) => sparse(rows, a, b),
    }
}

/// Draws `count` positions with replacement, with probabilities proportional to the masses, of which at least one is not 0.
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
