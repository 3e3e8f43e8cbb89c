//! The E step of one tile of rows: products, log-sum-exp, statistics. [`EStep`](super::EStep) runs
//! tiles on every thread and adds their sums.
//!
//! The rows and products of a piece stay in cache between the two matrix products; nothing of the
//! size rows x components is ever stored. Sums of a tile are taken in the precision of the kernel
//! and then added to statistics in double precision.

use super::Mixture;
use super::assignment::Assignment;
use super::logits::{DenseOrSparse, Prepared, Real, kernel_rows, logits};
use crate::error::{Error, Result};
use crate::rows::{RowBatch, Scalar};
use crate::sampler::Stream;
use crate::stats::SufficientStats;
use rand::RngExt;
use std::sync::OnceLock;
use vmfkit_kernels::Real as _;
use vmfkit_kernels::gemm::{PackingBuffer, RowSums, add_row, list_responsibilities};
use vmfkit_kernels::instructions::{Instructions, Work, with_best_instructions};
use vmfkit_kernels::softmax::{LnSum, combine, exponentials, largest_of, responsibilities, runs_mut};
use vmfkit_kernels::sparse_responsibilities::SparseResponsibilities;

/// The largest concentration for which rows of this dimension are multiplied in single precision.
/// The error of k mu . x, about k (1e-7 + sqrt(d) 2e-8), then stays near 1e-3.
fn single_precision_limit(dim: usize) -> f64 {
    (8e4 / (dim as f64).sqrt()).min(4096.0)
}

/// Weights outside this range could overflow in the sums of a tile, or underflow when multiplied by
/// a small responsibility.
const SINGLE_PRECISION_WEIGHTS: std::ops::Range<f64> = 1e-25..1e30;

/// The time to add a listed row to a sum, relative to its time within a matrix product:
/// `SHORT_COST` for rows with fewer than `FEW_RUNS` runs of coordinates, whose additions wait for
/// each other.
const LISTED_COST: f64 = 3.0;
const SHORT_COST: f64 = 5.0;
const FEW_RUNS: usize = 4;

/// Buffers of one thread for one precision.
#[derive(Debug)]
pub(super) struct Scratch<T> {
    /// Logits, then responsibilities, component by component.
    pub logits: Vec<T>,
    /// Numbers per component in `logits`.
    pub stride: usize,
    /// Rows that were copied or converted for the kernel.
    pub rows: Vec<T>,
    pub packing: PackingBuffer<T>,
    /// For each row: the factor that turns an exponential into a responsibility, and the smallest
    /// exponential that counts.
    factors: Vec<T>,
    smallest: Vec<T>,
    /// The masses of a tile, in `WIDTH` sums per component.
    masses: Vec<T>,
    /// The rows for which a component has a responsibility, with that responsibility.
    listed: SparseResponsibilities<T>,
    /// Weighted sums of the rows of a tile, and of one component in a piece.
    sums: RowSums<T>,
    one_sum: RowSums<T>,
}

impl<T: Real> Scratch<T> {
    /// The kept buffers, replaced if they are too small for this many rows.
    fn kept<'s>(kept: &'s mut Option<Self>, prepared: &Prepared<T>, rows: usize) -> &'s mut Self {
        let stride = Self::stride(prepared, rows);
        if kept.as_ref().is_none_or(|scratch| scratch.stride < stride) {
            *kept = Some(Scratch::new(prepared, rows));
        }
        kept.as_mut().expect("made above")
    }

    /// Numbers per component for this many rows.
    fn stride(prepared: &Prepared<T>, rows: usize) -> usize {
        rows.min(prepared.piece()).next_multiple_of(T::WIDTH)
    }

    pub fn new(prepared: &Prepared<T>, rows: usize) -> Self {
        let stride = Self::stride(prepared, rows);
        Scratch {
            logits: vec![T::ZERO; stride * prepared.components()],
            stride,
            rows: Vec::new(),
            packing: PackingBuffer::default(),
            factors: vec![T::ZERO; stride],
            smallest: vec![T::ZERO; stride],
            masses: vec![T::ZERO; T::WIDTH * prepared.components()],
            listed: SparseResponsibilities::new(stride),
            sums: RowSums::default(),
            one_sum: RowSums::default(),
        }
    }
}

/// Adds one tile of rows to statistics: masses, resultants and objective.
pub(super) struct TileWork<'a, T: Real, const WIDTH: usize> {
    pub prepared: &'a Prepared<T>,
    pub assignment: Assignment,
    pub batch: &'a RowBatch<'a>,
    /// The rows of the tile, and their weights.
    pub from: usize,
    pub to: usize,
    pub weights: Option<&'a [f64]>,
    /// The number of the tile, counted from the first row of the pass.
    pub number: u64,
    pub scratch: &'a mut Scratch<T>,
    pub stats: &'a mut SufficientStats,
}

impl<T: Real, const WIDTH: usize> Work for TileWork<'_, T, WIDTH> {
    /// The number of the first bad row.
    type Output = Option<usize>;

    #[inline(always)]
    fn run<I: Instructions>(self) -> Option<usize> {
        let TileWork { prepared, assignment, batch, from, to, weights, number, scratch, stats } = self;
        let mut bad_row = None;
        let mut buffer = std::mem::take(&mut scratch.rows);
        let mut rng = match assignment {
            Assignment::Sampled { seed } => Some(Stream::new(seed, number)),
            _ => None,
        };
        for first in (from..to).step_by(prepared.piece()) {
            let last = (first + prepared.piece()).min(to);
            let rows = match kernel_rows(batch, first, last, &mut buffer) {
                Ok(rows) => rows,
                Err(row) => {
                    bad_row = Some(row);
                    break;
                }
            };
            let mut piece = Piece::<T, WIDTH> {
                prepared,
                rows,
                weights: weights.map(|w| &w[first - from..last - from]),
                count: last - first,
                scratch,
                stats,
            };
            let Scratch { logits: out, stride, packing, .. } = &mut *piece.scratch;
            logits::<T, I>(piece.rows, piece.count, batch.address(last), prepared, out, *stride, packing);
            let objective = match &mut rng {
                Some(rng) => piece.add_to_drawn::<I>(rng),
                None if matches!(assignment, Assignment::Hard | Assignment::Nearest) => piece.add_to_largest::<I>(),
                None => assignment.temperature() * piece.add_by_responsibility::<I>(),
            };
            let weight = piece.weights.map_or(piece.count as f64, |w| w.iter().sum());
            stats.add_objective(objective, weight);
        }
        for (mass, lanes) in stats.masses_mut().iter_mut().zip(runs_mut::<T, WIDTH>(&mut scratch.masses)) {
            *mass += combine(std::mem::replace(lanes, [T::ZERO; WIDTH]).map(T::to_f64), |a, b| a + b);
        }
        scratch.sums.flush(stats.resultants_mut(), batch.dim());
        scratch.rows = buffer;
        bad_row
    }
}

/// The rows that go through both products together.
struct Piece<'a, T: Real, const WIDTH: usize> {
    prepared: &'a Prepared<T>,
    rows: DenseOrSparse<'a, T>,
    weights: Option<&'a [f64]>,
    count: usize,
    scratch: &'a mut Scratch<T>,
    stats: &'a mut SufficientStats,
}

impl<T: Real, const WIDTH: usize> Piece<'_, T, WIDTH> {
    fn weight(&self, row: usize) -> f64 {
        self.weights.map_or(1.0, |w| w[row])
    }

    /// Adds rows to all components in proportion to the responsibilities. Returns the sum of ln p.
    #[inline(always)]
    fn add_by_responsibility<I: Instructions>(&mut self) -> f64 {
        let stride = self.scratch.stride;
        let mut objective = 0.0;
        let (mut largest_sum, mut ln_sum) = ([0.0; WIDTH], LnSum::<WIDTH>::new());
        for first in (0..self.count).step_by(WIDTH) {
            let (largest, sums) = exponentials::<T, I, WIDTH>(&mut self.scratch.logits, stride, first);
            let lanes = |values| <&mut [T; WIDTH]>::try_from(values).expect("a run of this width");
            let factors = lanes(&mut self.scratch.factors[first..first + WIDTH]);
            let smallest = lanes(&mut self.scratch.smallest[first..first + WIDTH]);
            let smallest_responsibility = T::from_f64(T::SMALLEST_RESPONSIBILITY);
            *factors = sums.map(|sum| T::ONE / sum);
            *smallest = sums.map(|sum| smallest_responsibility * sum);
            if self.weights.is_none() && first + WIDTH <= self.count {
                ln_sum.add(&sums);
                largest_sum.iter_mut().zip(largest).for_each(|(sum, largest)| *sum += largest.to_f64());
                continue;
            }
            for lane in 0..WIDTH {
                // Padding after the last row has no weight.
                let counts = first + lane < self.count;
                let weight = if counts { self.weights.map_or(1.0, |w| w[first + lane]) } else { 0.0 };
                factors[lane] = T::from_f64(weight / sums[lane].to_f64());
                smallest[lane] = if counts { smallest[lane] } else { T::INFINITY };
                if weight > 0.0 {
                    objective += weight * (largest[lane].to_f64() + sums[lane].to_f64().ln());
                }
            }
        }
        objective += largest_sum.iter().sum::<f64>() + ln_sum.total();
        objective += self.prepared.shift * self.weights.map_or(self.count as f64, |w| w.iter().sum());
        let mut kept = [T::ZERO; WIDTH];
        let padded = self.count.next_multiple_of(WIDTH);
        let (factors, smallest) = (&self.scratch.factors[..padded], &self.scratch.smallest[..padded]);
        let masses = runs_mut::<T, WIDTH>(&mut self.scratch.masses).zip(self.scratch.logits.chunks_exact_mut(stride));
        for (mass, exponentials) in masses {
            responsibilities(&mut exponentials[..padded], factors, smallest, mass, &mut kept);
        }
        let (components, dim) = (self.stats.components(), self.stats.dim());
        let cost = if dim < FEW_RUNS * WIDTH { SHORT_COST } else { LISTED_COST };
        let kept = combine(kept, |a, b| a + b).to_f64();
        match self.rows {
            DenseOrSparse::Dense(rows) if kept * cost > (self.count * components) as f64 => {
                let Scratch { logits, packing, sums, .. } = &mut *self.scratch;
                sums.add_weighted_rows::<I>(rows, dim, logits, stride, packing);
            }
            _ => {
                let mut listed = std::mem::take(&mut self.scratch.listed);
                for component in 0..components {
                    list_responsibilities::<T, I>(&self.scratch.logits[component * stride..][..padded], &mut listed);
                    self.add_listed_rows::<I>(component, &listed);
                }
                self.scratch.listed = listed;
            }
        }
        objective
    }

    /// Adds each row to the component of its largest logit. Returns the sum of these logits.
    #[inline(always)]
    fn add_to_largest<I: Instructions>(&mut self) -> f64 {
        let mut objective = 0.0;
        for first in (0..self.count).step_by(WIDTH) {
            let (largest, component) = largest_of::<T, WIDTH>(&mut self.scratch.logits, self.scratch.stride, first);
            for lane in 0..WIDTH.min(self.count - first) {
                let weight = self.weight(first + lane);
                objective += weight * (largest[lane].to_f64() + self.prepared.shift);
                self.add_to::<I>(first + lane, component[lane].to_f64() as usize, weight);
            }
        }
        objective
    }

    /// Adds each row to a component drawn with the responsibilities as probabilities. Returns the
    /// sum of ln p.
    #[inline(always)]
    fn add_to_drawn<I: Instructions>(&mut self, rng: &mut Stream) -> f64 {
        let (stride, components) = (self.scratch.stride, self.stats.components());
        let mut objective = 0.0;
        for first in (0..self.count).step_by(WIDTH) {
            let (largest, sums) = exponentials::<T, I, WIDTH>(&mut self.scratch.logits, stride, first);
            for lane in 0..WIDTH.min(self.count - first) {
                let (row, sum) = (first + lane, sums[lane].to_f64());
                let mut rest = rng.random::<f64>() * sum;
                // Rounding may leave a remainder after the last component: then the last one that
                // has a responsibility is drawn.
                let mut drawn = 0;
                for component in 0..components {
                    let e = self.scratch.logits[component * stride + row].to_f64();
                    if e >= T::SMALLEST_RESPONSIBILITY * sum {
                        drawn = component;
                        rest -= e;
                        if rest < 0.0 {
                            break;
                        }
                    }
                }
                let weight = self.weight(row);
                objective += weight * (largest[lane].to_f64() + self.prepared.shift + sum.ln());
                self.add_to::<I>(row, drawn, weight);
            }
        }
        objective
    }

    #[inline(always)]
    fn add_to<I: Instructions>(&mut self, row: usize, component: usize, weight: f64) {
        if weight > 0.0 {
            self.stats.masses_mut()[component] += weight;
            self.add_row::<I>(row, component, weight);
        }
    }

    #[inline(always)]
    fn add_row<I: Instructions>(&mut self, row: usize, component: usize, responsibility: f64) {
        let dim = self.stats.dim();
        let sum = &mut self.stats.resultants_mut()[component * dim..][..dim];
        match self.rows {
            DenseOrSparse::Dense(rows) => add_row::<T, I>(sum, responsibility, &rows[row * dim..][..dim]),
            DenseOrSparse::Sparse32(rows, first) => add_sparse_row(sum, responsibility, rows.row(first + row)),
            DenseOrSparse::Sparse64(rows, first) => add_sparse_row(sum, responsibility, rows.row(first + row)),
        }
    }

    /// Adds the listed rows to a component. Sums of few components, which stay in cache, are added
    /// to the statistics at the end of the tile.
    #[inline(always)]
    fn add_listed_rows<I: Instructions>(&mut self, component: usize, listed: &SparseResponsibilities<T>) {
        let (components, dim) = (self.stats.components(), self.stats.dim());
        let Scratch { sums, one_sum, .. } = &mut *self.scratch;
        match self.rows {
            DenseOrSparse::Dense(rows) if dim >= WIDTH && self.prepared.is_near => {
                sums.add_sparse_rows::<I>(rows, dim, listed, (component, components));
            }
            DenseOrSparse::Dense(rows) if dim >= WIDTH && listed.len() > 1 => {
                one_sum.set_to_sparse_rows::<I>(rows, dim, listed);
                one_sum.add_to(&mut self.stats.resultants_mut()[component * dim..][..dim], dim);
            }
            _ => {
                // No closure: if it were not inlined, it would be compiled without these
                // instructions.
                for (row, responsibility) in listed.iter() {
                    self.add_row::<I>(row, component, responsibility.to_f64());
                }
            }
        }
    }
}

#[inline(always)]
fn add_sparse_row<T: Scalar>(sum: &mut [f64], responsibility: f64, (columns, values): (&[u32], &[T])) {
    for (&column, x) in columns.iter().zip(values) {
        sum[column as usize] += responsibility * x.to_f64();
    }
}

/// Buffers of one thread, kept from one tile to the next.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    single: Option<Scratch<f32>>,
    double: Option<Scratch<f64>>,
}

/// A mixture and an assignment, prepared for each kind of tile when the first such tile comes.
#[derive(Debug)]
pub(super) struct TileKernels<'m> {
    mixture: &'m Mixture,
    assignment: Assignment,
    /// True if f32 rows may be multiplied in single precision.
    allows_single: bool,
    single: OnceLock<Prepared<f32>>,
    double: OnceLock<Prepared<f64>>,
    sparse: OnceLock<Prepared<f64>>,
}

impl<'m> TileKernels<'m> {
    pub(super) fn new(mixture: &'m Mixture, assignment: Assignment) -> Result<Self> {
        let temperature = assignment.temperature();
        if !(temperature > 0.0 && temperature.is_finite()) {
            return Err(Error::Option { option: "the temperature", range: "finite and above 0", value: temperature });
        }
        let limit = temperature * single_precision_limit(mixture.dim());
        let allows_single =
            assignment == Assignment::Nearest || mixture.components().iter().all(|c| !(c.concentration() > limit));
        let (single, double, sparse) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Ok(TileKernels { mixture, assignment, allows_single, single, double, sparse })
    }

    pub(super) fn mixture(&self) -> &'m Mixture {
        self.mixture
    }

    /// Adds the rows `from .. to`, the tile of this number, to some statistics; returns the number
    /// of the first bad row.
    ///
    /// The precision is that of the tile's rows, whatever came before, so it does not depend on the
    /// batches.
    pub(super) fn add_tile(
        &self,
        batch: &RowBatch,
        (from, to): (usize, usize),
        number: u64,
        workspace: &mut Workspace,
        stats: &mut SufficientStats,
    ) -> Option<usize> {
        // If all weights are 1, the rows count as unweighted.
        let weights = batch.weights().map(|w| &w[from..to]).filter(|weights| weights.iter().any(|w| *w != 1.0));
        let outsized = |w: &f64| *w > 0.0 && !SINGLE_PRECISION_WEIGHTS.contains(w);
        let is_single =
            batch.is_single() && !batch.is_sparse() && self.allows_single && !weights.is_some_and(|w| w.iter().any(outsized));
        let assignment = self.assignment;
        if is_single {
            let prepared = self.single.get_or_init(|| Prepared::new(self.mixture, assignment, false));
            let scratch = Scratch::kept(&mut workspace.single, prepared, to - from);
            let work = TileWork { prepared, assignment, batch, from, to, weights, number, scratch, stats };
            with_best_instructions::<TileWork<f32, { f32::WIDTH }>>(work)
        } else {
            let kept = if batch.is_sparse() { &self.sparse } else { &self.double };
            let prepared = kept.get_or_init(|| Prepared::new(self.mixture, assignment, batch.is_sparse()));
            let scratch = Scratch::kept(&mut workspace.double, prepared, to - from);
            let work = TileWork { prepared, assignment, batch, from, to, weights, number, scratch, stats };
            with_best_instructions::<TileWork<f64, { f64::WIDTH }>>(work)
        }
    }
}
