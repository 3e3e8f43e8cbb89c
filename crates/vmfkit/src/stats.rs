//! [`SufficientStats`]: what every way of fitting reads. Threads, files and machines add them.

use crate::block::{Block, Rows, Scalar};
use crate::error::{Error, Result};
use crate::vector::norm;
use rayon::prelude::*;

/// Rows that one task sums before the sums are merged; part of the answer's last digits, so never a function of the machine.
const ROWS_PER_TASK: usize = 1024;

/// For each component its mass (total weight) and resultant (weighted sum of rows), and how far the rows scatter.
///
/// The third quantity, `shortfall` = mass - |resultant| = mass (1 - mean length), could be had by subtraction, but at high
/// concentration nothing would be left of it; it is summed on its own as half the squared distances, and merging keeps its
/// digits (MATH.md, section 8).
#[derive(Debug, Clone, PartialEq)]
pub struct SufficientStats {
    dim: usize,
    mass: Vec<f64>,
    resultant: Vec<f64>,
    shortfall: Vec<f64>,
}

impl SufficientStats {
    /// No rows yet.
    pub fn zero(components: usize, dim: usize) -> Self {
        SufficientStats {
            dim,
            mass: vec![0.0; components],
            resultant: vec![0.0; components * dim],
            shortfall: vec![0.0; components],
        }
    }

    /// All rows in one component, in one pass on all threads; the number of threads does not change one bit.
    pub fn of_block(block: &Block) -> Self {
        let tasks = block.len().div_ceil(ROWS_PER_TASK);
        let parts: Vec<Self> = (0..tasks)
            .into_par_iter()
            .map(|task| {
                let (from, to) = (task * ROWS_PER_TASK, ((task + 1) * ROWS_PER_TASK).min(block.len()));
                Self::of_rows(block, from..to)
            })
            .collect();
        let mut total = Self::zero(1, block.dim());
        parts.iter().for_each(|part| total.merge_component(0, part));
        total
    }

    /// The rows with these numbers in one component, on this thread.
    pub fn of_rows(block: &Block, rows: impl IntoIterator<Item = usize>) -> Self {
        match block.rows() {
            Rows::F32(values) => Self::sum_rows(block, values, rows.into_iter()),
            Rows::F64(values) => Self::sum_rows(block, values, rows.into_iter()),
        }
    }

    /// Sums the rows' differences from the first of them, MATH.md (8.1): what they have in common never gets in the way.
    fn sum_rows<T: Scalar>(block: &Block, values: &[T], mut rows: impl Iterator<Item = usize>) -> Self {
        let dim = block.dim();
        let mut stats = Self::zero(1, dim);
        let weight_of = |row: usize| block.weights().map_or(1.0, |w| w[row]);
        let Some(first) = rows.find(|&row| weight_of(row) > 0.0) else {
            return stats;
        };
        let origin: Vec<f64> = values[first * dim..(first + 1) * dim].iter().map(|x| x.to_f64()).collect();
        let (mut mass, mut squares) = (weight_of(first), 0.0);
        for row in rows {
            let weight = weight_of(row);
            mass += weight;
            squares += weight * add_difference(&mut stats.resultant, weight, &values[row * dim..][..dim], &origin);
        }
        let shift_square: f64 = stats.resultant.iter().map(|x| (x / mass) * (x / mass)).sum();
        for (sum, x) in stats.resultant.iter_mut().zip(&origin) {
            *sum += mass * x;
        }
        let spread = (squares / mass - shift_square).max(0.0);
        // Past one half the plain difference has no digits to lose, and it stays true for rows a little off the sphere.
        stats.shortfall[0] =
            if spread < 0.5 { mass * spread / (1.0 + (1.0 - spread).sqrt()) } else { (mass - norm(&stats.resultant)).max(0.0) };
        stats.mass[0] = mass;
        stats
    }

    /// Adds the rows that `other` has seen.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if other.dim != self.dim {
            return Err(Error::DimensionMismatch { expected: self.dim, found: other.dim });
        }
        if other.components() != self.components() {
            return Err(Error::Option {
                option: "the number of components",
                range: "the same on both sides of a merge",
                value: other.components() as f64,
            });
        }
        (0..self.components()).for_each(|component| self.merge_component(component, other));
        Ok(())
    }

    /// MATH.md (8.2): |R1| + |R2| - |R1 + R2| from the difference of the two directions.
    fn merge_component(&mut self, component: usize, other: &Self) {
        let range = component * self.dim..(component + 1) * self.dim;
        let (mine, theirs) = (&mut self.resultant[range.clone()], &other.resultant[range]);
        let (length, other_length) = (norm(mine), norm(theirs));
        let mut turn = 0.0;
        for (x, &y) in mine.iter_mut().zip(theirs) {
            if length > 0.0 && other_length > 0.0 {
                let difference = *x / length - y / other_length;
                turn += difference * difference;
            }
            *x += y;
        }
        let perimeter = length + other_length + norm(mine);
        let lost = if perimeter > 0.0 { length * (other_length / perimeter) * turn } else { 0.0 };
        self.shortfall[component] += other.shortfall[component] + lost;
        self.mass[component] += other.mass[component];
    }

    /// Counts every row `factor` times.
    pub fn scale(&mut self, factor: f64) {
        let values = self.mass.iter_mut().chain(&mut self.resultant).chain(&mut self.shortfall);
        values.for_each(|x| *x *= factor);
    }

    /// The number of components.
    pub fn components(&self) -> usize {
        self.mass.len()
    }

    /// The length of a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The total weight of a component.
    pub fn mass(&self, component: usize) -> f64 {
        self.mass[component]
    }

    /// The weighted sum of a component's rows.
    pub fn resultant(&self, component: usize) -> &[f64] {
        &self.resultant[component * self.dim..(component + 1) * self.dim]
    }

    /// |resultant|.
    pub fn resultant_length(&self, component: usize) -> f64 {
        norm(self.resultant(component))
    }

    /// mass - |resultant|, with its digits.
    pub fn shortfall(&self, component: usize) -> f64 {
        self.shortfall[component]
    }
}

/// Adds weight (x - origin) to the sum; gives |x - origin|^2.
#[inline]
fn add_difference<T: Scalar>(sum: &mut [f64], weight: f64, row: &[T], origin: &[f64]) -> f64 {
    // Four running sums: one chain of additions would be all latency.
    let mut squares = [0.0; 4];
    let whole = sum.len() / 4 * 4;
    let mut at = 0;
    while at < whole {
        for lane in 0..4 {
            let difference = row[at + lane].to_f64() - origin[at + lane];
            sum[at + lane] += weight * difference;
            squares[lane] += difference * difference;
        }
        at += 4;
    }
    for at in whole..sum.len() {
        let difference = row[at].to_f64() - origin[at];
        sum[at] += weight * difference;
        squares[0] += difference * difference;
    }
    squares.iter().sum()
}
