//! [`Reservoir`]: a sample of rows that pass by once.

use crate::error::{Error, Result};
use crate::rows::{RowBatch, Rows, Scalar, SparseRows};
use crate::sampler::Stream;
use rand::RngExt;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A sample of a fixed number of rows, taken in one pass, in which every set of rows weighs on average what it weighs among all rows.
///
/// Each row of weight w has the priority w/u with u uniform, and the rows of highest priority are kept; with tau the highest priority
/// that was not, a kept row counts max(w, tau) (priority sampling: Duffield, Lund and Thorup, doi:10.1145/1314690.1314696). So rows
/// without weights count the same, a row that outweighs the others is never lost, and as long as all rows fit the sample is those
/// rows with their weights. It depends on the seed and on the rows in their order, not on how they come in blocks.
///
/// ```
/// use vmfkit::{RowBatch, reservoir::Reservoir};
/// let rows = [1.0, 0.0, 0.0, 1.0, 0.6, 0.8];
/// let mut reservoir = Reservoir::new(2, 7);
/// reservoir.offer(&RowBatch::new(2, &rows[..2])?)?;
/// reservoir.offer(&RowBatch::new(2, &rows[2..])?)?;
/// let sample = reservoir.into_sample();
/// assert_eq!(sample.block()?.len(), 2);
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug)]
pub struct Reservoir {
    rows: usize,
    rng: Stream,
    dim: usize,
    seen: u64,
    weighted: bool,
    /// The highest priority of a row that was not kept.
    threshold: f64,
    kept: BinaryHeap<Kept>,
}

/// A row that is kept for now; the one to go first is the greatest.
#[derive(Debug)]
struct Kept {
    priority: f64,
    number: u64,
    weight: f64,
    row: Row,
}

impl Ord for Kept {
    fn cmp(&self, other: &Self) -> Ordering {
        other.priority.total_cmp(&self.priority).then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Kept {}

/// A row in the type that it came in.
#[derive(Debug)]
enum Row {
    F32(Vec<f32>),
    F64(Vec<f64>),
    SparseF32(Vec<u32>, Vec<f32>),
    SparseF64(Vec<u32>, Vec<f64>),
}

impl Row {
    fn of(block: &RowBatch, row: usize) -> Self {
        let range = row * block.dim()..(row + 1) * block.dim();
        fn sparse<T: Scalar>(rows: &SparseRows<T>, row: usize) -> (Vec<u32>, Vec<T>) {
            let (columns, values) = rows.row(row);
            (columns.to_vec(), values.to_vec())
        }
        match block.rows() {
            Rows::F32(values) => Row::F32(values[range].to_vec()),
            Rows::F64(values) => Row::F64(values[range].to_vec()),
            Rows::SparseF32(rows) => {
                let (columns, values) = sparse(rows, row);
                Row::SparseF32(columns, values)
            }
            Rows::SparseF64(rows) => {
                let (columns, values) = sparse(rows, row);
                Row::SparseF64(columns, values)
            }
        }
    }

    fn in_full(&self, dim: usize) -> Vec<f64> {
        fn spread<T: Scalar>(dim: usize, columns: &[u32], values: &[T]) -> Vec<f64> {
            let mut full = vec![0.0; dim];
            columns.iter().zip(values).for_each(|(&column, x)| full[column as usize] = x.to_f64());
            full
        }
        match self {
            Row::F32(values) => values.iter().map(|x| f64::from(*x)).collect(),
            Row::F64(values) => values.clone(),
            Row::SparseF32(columns, values) => spread(dim, columns, values),
            Row::SparseF64(columns, values) => spread(dim, columns, values),
        }
    }
}

impl Reservoir {
    /// Room for so many rows.
    pub fn new(rows: usize, seed: u64) -> Self {
        Reservoir {
            rows: rows.max(1),
            // So that priorities share no random word with rows drawn with the same seed.
            rng: Stream::new(seed ^ 0x7265_7365, 0),
            dim: 0,
            seen: 0,
            weighted: false,
            threshold: 0.0,
            kept: BinaryHeap::new(),
        }
    }

    /// Lets the rows of a block pass by.
    pub fn offer(&mut self, block: &RowBatch) -> Result<()> {
        if self.seen > 0 && block.dim() != self.dim {
            return Err(Error::DimensionMismatch { expected: self.dim, found: block.dim() });
        }
        self.dim = block.dim();
        self.weighted |= block.weights().is_some();
        for row in 0..block.len() {
            let weight = block.weights().map_or(1.0, |w| w[row]);
            // From (0, 1], and finite also for weights at the end of their range.
            let priority = (weight / (1.0 - self.rng.random::<f64>())).min(f64::MAX);
            let number = self.seen;
            self.seen += 1;
            if self.kept.len() == self.rows {
                let lowest = self.kept.peek().expect("capacity for at least one row").priority;
                if priority <= lowest {
                    self.threshold = self.threshold.max(priority);
                    continue;
                }
                self.threshold = self.threshold.max(lowest);
                self.kept.pop();
            }
            self.kept.push(Kept { priority, number, weight, row: Row::of(block, row) });
        }
        Ok(())
    }

    /// How many rows have passed by.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// What was kept, in the order in which it came.
    pub fn into_sample(self) -> Sample {
        let mut kept = self.kept.into_vec();
        kept.sort_unstable_by_key(|kept| kept.number);
        let counts = self.weighted || self.seen > kept.len() as u64;
        let weights = counts.then(|| kept.iter().map(|kept| kept.weight.max(self.threshold)).collect());
        Sample { dim: self.dim, rows: SampleRows::new(self.dim, kept.into_iter().map(|kept| kept.row).collect()), weights }
    }
}

/// The rows that a [`Reservoir`] kept.
#[derive(Debug)]
pub struct Sample {
    dim: usize,
    rows: SampleRows,
    weights: Option<Vec<f64>>,
}

#[derive(Debug)]
enum SampleRows {
    F32(Vec<f32>),
    F64(Vec<f64>),
    SparseF32(Vec<usize>, Vec<u32>, Vec<f32>),
    SparseF64(Vec<usize>, Vec<u32>, Vec<f64>),
}

impl SampleRows {
    /// In the type of all rows, or in double precision if a source has several.
    fn new(dim: usize, rows: Vec<Row>) -> Self {
        let kind = rows.first().map(std::mem::discriminant);
        let alike = rows.iter().all(|row| Some(std::mem::discriminant(row)) == kind);
        match rows.first() {
            Some(Row::F32(_)) if alike => {
                SampleRows::F32(rows.iter().flat_map(|row| if let Row::F32(x) = row { &x[..] } else { &[] }).copied().collect())
            }
            Some(Row::SparseF32(..)) if alike => {
                let parts = rows.iter().filter_map(|row| if let Row::SparseF32(c, x) = row { Some((c, x)) } else { None });
                let (starts, columns, values) = join(parts);
                SampleRows::SparseF32(starts, columns, values)
            }
            Some(Row::SparseF64(..)) if alike => {
                let parts = rows.iter().filter_map(|row| if let Row::SparseF64(c, x) = row { Some((c, x)) } else { None });
                let (starts, columns, values) = join(parts);
                SampleRows::SparseF64(starts, columns, values)
            }
            _ => SampleRows::F64(rows.iter().flat_map(|row| row.in_full(dim)).collect()),
        }
    }
}

/// Single sparse rows as the three arrays of CSR.
fn join<'a, T: Scalar>(rows: impl Iterator<Item = (&'a Vec<u32>, &'a Vec<T>)>) -> (Vec<usize>, Vec<u32>, Vec<T>) {
    let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    for (row_columns, row_values) in rows {
        columns.extend_from_slice(row_columns);
        values.extend_from_slice(row_values);
        starts.push(values.len());
    }
    (starts, columns, values)
}

impl Sample {
    /// The rows with what each counts; an error without any.
    pub fn block(&self) -> Result<RowBatch<'_>> {
        if self.dim == 0 {
            return Err(Error::NoRows { weight: 0.0 });
        }
        let block = match &self.rows {
            SampleRows::F32(values) => RowBatch::new(self.dim, values),
            SampleRows::F64(values) => RowBatch::new(self.dim, values),
            SampleRows::SparseF32(starts, columns, values) => RowBatch::sparse(self.dim, starts, columns, values),
            SampleRows::SparseF64(starts, columns, values) => RowBatch::sparse(self.dim, starts, columns, values),
        }?;
        match &self.weights {
            Some(weights) => block.with_weights(weights),
            None => Ok(block),
        }
    }
}
