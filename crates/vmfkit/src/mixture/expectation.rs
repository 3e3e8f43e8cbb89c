//! The E step of one tile of rows: products, log-sum-exp, statistics. [`EStep`](super::EStep) runs tiles on every thread and folds their sums.
//!
//! The rows and products of a piece stay in cache between the two matrix products; nothing of the size rows x components is ever held. The
//! sums of a tile are taken in the precision of the kernel, and then added to statistics in double precision.

use super::Mixture;
use crate::error::{Error, Result};
use crate::rows::{RowBatch, Rows, Scalar, SparseRows};
use crate::sampler::Stream;
use crate::stats::SufficientStats;
use rand::RngExt;
use std::sync::OnceLock;
use vmfkit_kernels::gemm::{
    GroupedDirections, PackingBuffer, PaneledDirections, RowSums, add_row, list_responsibilities, row_products,
};
use vmfkit_kernels::instructions::{Instructions, Work, group_heights, with_best_instructions};
use vmfkit_kernels::small_k::SmallKDirections;
use vmfkit_kernels::softmax::{LnSum, combine, exponentials, largest_of, responsibilities, runs_mut};
use vmfkit_kernels::sparse_responsibilities::SparseResponsibilities;
use vmfkit_kernels::{Kernels, Real as _};

/// A precision that the E step runs in.
trait Real: Kernels + Scalar {}

impl Real for f32 {}
impl Real for f64 {}

/// How rows are shared among components.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum Assignment {
    /// By their responsibilities: EM.
    #[default]
    Soft,
    /// By responsibilities proportional to p^(1/temperature): annealing.
    Tempered(f64),
    /// Wholly to the most responsible component: hard EM.
    Hard,
    /// Wholly to one component drawn by the responsibilities: stochastic EM. The draws depend on the seed and on the number of the row.
    Sampled {
        /// What the draws depend on.
        seed: u64,
    },
    /// Wholly to the component with the nearest mean direction: spherical k-means.
    Nearest,
}

impl Assignment {
    /// What logits are divided by: 1, but in annealing.
    pub fn temperature(self) -> f64 {
        if let Assignment::Tempered(temperature) = self { temperature } else { 1.0 }
    }
}

/// Rows whose sums are taken in the precision of the kernel before they are added to statistics in f64: sums in f32 stay short.
pub(super) const TILE: usize = 384;

/// Rows that go through the products together: few, so that they are still in the first-level cache for the second product, if the sums of all
/// components are there too; or else a whole tile.
const PIECE: usize = 96;
const NEAR: usize = 1 << 15;

/// The largest concentration at which rows of this dimension are multiplied in single precision: the error of k mu . x, of about k (1e-7 + sqrt(d) 2e-8),
/// stays near 1e-3.
fn single_precision_limit(dim: usize) -> f64 {
    (8e4 / (dim as f64).sqrt()).min(4096.0)
}

/// Weights outside this range could overflow in a tile's sums, or vanish when multiplied by a small responsibility.
const SINGLE_PRECISION_WEIGHTS: std::ops::Range<f64> = 1e-25..1e30;

/// Adding one of some listed rows to one sum costs this many times what it costs within a matrix product; or, if it has few runs of coordinates, so that each
/// addition waits for the one before, so many times.
const LISTED_COST: f64 = 3.0;
const SHORT_COST: f64 = 5.0;
const FEW_RUNS: usize = 4;

/// The rows `from .. to` as the kernel takes them, in `buffer` if they must be copied or converted; or
/// the number of the first bad row.
#[inline(always)]
fn kernel_rows<'r, T: Real>(
    batch: &'r RowBatch<'r>,
    from: usize,
    to: usize,
    buffer: &'r mut Vec<T>,
) -> std::result::Result<DenseOrSparse<'r, T>, usize> {
    if !batch.is_sparse() {
        return batch.kernel_rows(from, to, buffer).map(DenseOrSparse::Dense);
    }
    Ok(match batch.rows() {
        Rows::SparseF32(rows) => DenseOrSparse::Sparse32(rows, from),
        Rows::SparseF64(rows) => DenseOrSparse::Sparse64(rows, from),
        _ => unreachable!("dense rows were taken above"),
    })
}

/// A mixture in the form that the kernels read.
#[derive(Debug)]
struct Prepared<T> {
    directions: Directions<T>,
    /// ln weight + ln C - shift for each component.
    bias: Vec<T>,
    shift: f64,
    /// The sums of all components are in the first-level cache.
    is_near: bool,
}

/// Mean directions times concentrations.
#[derive(Debug)]
enum Directions<T> {
    /// For dense rows.
    Dense(GroupedDirections<T>),
    /// For dense rows and a few components.
    Few(SmallKDirections<T>),
    /// For sparse rows.
    Sparse(PaneledDirections<T>),
}

impl<T: Real> Directions<T> {
    /// For dense rows, in groups of at most so many components.
    fn dense<'a>(highest: usize, components: usize, dim: usize, direction: impl Fn(usize) -> (f64, &'a [f64])) -> Self {
        if SmallKDirections::<T>::is_faster(components, dim) {
            Directions::Few(SmallKDirections::new(highest, components, dim, direction))
        } else {
            Directions::Dense(GroupedDirections::new(highest, components, dim, direction))
        }
    }
}

impl<T: Real> Prepared<T> {
    /// Logits are k mu . x + ln weight + ln C, divided by the temperature; or mu . x alone for the nearest direction.
    fn new(mixture: &Mixture, assignment: Assignment, sparse: bool) -> Self {
        let nearest = assignment == Assignment::Nearest;
        let coldness = 1.0 / assignment.temperature();
        let components = mixture.components();
        let scale = |k: usize| if nearest { 1.0 } else { coldness * components[k].concentration() };
        let direction = |k: usize| (scale(k), components[k].mean_direction());
        let directions = if sparse {
            Directions::Sparse(PaneledDirections::new(components.len(), mixture.dim(), direction))
        } else {
            Directions::dense(group_heights()[0], components.len(), mixture.dim(), direction)
        };
        let bias: Vec<f64> = (0..components.len())
            .map(|k| match nearest {
                true if mixture.is_background(k) => f64::NEG_INFINITY,
                true => 0.0,
                false => coldness * (mixture.weights()[k].ln() + components[k].ln_peak() - components[k].concentration()),
            })
            .collect();
        let shift = bias.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let is_near = components.len() * mixture.dim() * size_of::<T>() <= NEAR;
        Prepared { directions, bias: bias.into_iter().map(|b| T::from_f64(b - shift)).collect(), shift, is_near }
    }

    /// Rows that go through the products together.
    fn piece(&self) -> usize {
        if self.is_near { PIECE } else { TILE }
    }

    fn components(&self) -> usize {
        self.bias.len()
    }
}

/// Some rows, in the precision of the kernel.
#[derive(Clone, Copy)]
enum DenseOrSparse<'a, T: Real> {
    Dense(&'a [T]),
    Sparse32(&'a SparseRows<'a, f32>, usize),
    Sparse64(&'a SparseRows<'a, f64>, usize),
}

/// Leaves k mu . x and the bias of each component and row in `out`: component by component, `stride` places apart. Rows to come are asked for, at
/// `next` if that is known.
#[inline(always)]
fn logits<T: Real, I: Instructions>(
    rows: DenseOrSparse<T>,
    count: usize,
    next: Option<*const T>,
    prepared: &Prepared<T>,
    out: &mut [T],
    stride: usize,
    packing: &mut PackingBuffer<T>,
) {
    let mut sparse = |row: usize, products: &[T]| {
        for ((out, product), bias) in out[row..].iter_mut().step_by(stride).zip(products).zip(&prepared.bias) {
            *out = *product + *bias;
        }
    };
    let mut products = Vec::new();
    match (rows, &prepared.directions) {
        (DenseOrSparse::Dense(rows), Directions::Dense(directions)) => {
            row_products::<T, I>((rows, next), directions, &prepared.bias, out, stride, packing);
        }
        (DenseOrSparse::Dense(rows), Directions::Few(directions)) => {
            directions.row_products::<I>((rows, next), &prepared.bias, out, stride, packing);
        }
        (DenseOrSparse::Sparse32(rows, first), Directions::Sparse(panels)) => {
            for row in 0..count {
                panels.sparse_products::<f32, I>(rows.row(first + row), &mut products);
                sparse(row, &products);
            }
        }
        (DenseOrSparse::Sparse64(rows, first), Directions::Sparse(panels)) => {
            for row in 0..count {
                panels.sparse_products::<f64, I>(rows.row(first + row), &mut products);
                sparse(row, &products);
            }
        }
        _ => unreachable!("prepared for other rows"),
    }
}

/// What a thread needs beside the rows.
#[derive(Debug)]
struct Scratch<T> {
    /// Logits, then shares, component by component.
    logits: Vec<T>,
    /// Places from one component to the next.
    stride: usize,
    /// Rows that are not in memory as the kernel wants them.
    rows: Vec<T>,
    packing: PackingBuffer<T>,
    /// Of each row: what turns an exponential into a share, and the smallest that counts.
    factors: Vec<T>,
    smallest: Vec<T>,
    /// The shares of a tile, in `WIDTH` sums a component.
    masses: Vec<T>,
    /// The rows that a component has a share of, and the shares.
    listed: SparseResponsibilities<T>,
    /// Rows times shares of a tile, and of one component in a piece.
    sums: RowSums<T>,
    one_sum: RowSums<T>,
}

impl<T: Real> Scratch<T> {
    /// What was kept, if it is large enough for this many rows.
    fn kept<'s>(kept: &'s mut Option<Self>, prepared: &Prepared<T>, rows: usize) -> &'s mut Self {
        let stride = Self::stride(prepared, rows);
        if kept.as_ref().is_none_or(|scratch| scratch.stride < stride) {
            *kept = Some(Scratch::new(prepared, rows));
        }
        kept.as_mut().expect("made above")
    }

    /// Places from one component to the next for this many rows.
    fn stride(prepared: &Prepared<T>, rows: usize) -> usize {
        rows.min(prepared.piece()).next_multiple_of(T::WIDTH)
    }

    fn new(prepared: &Prepared<T>, rows: usize) -> Self {
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

/// Adds one tile of rows to the mass, resultant and objective of some statistics.
struct TileWork<'a, T: Real, const WIDTH: usize> {
    prepared: &'a Prepared<T>,
    assignment: Assignment,
    batch: &'a RowBatch<'a>,
    /// The rows of the tile, and their weights.
    from: usize,
    to: usize,
    weights: Option<&'a [f64]>,
    /// The number of the tile, counted from the first row of the pass.
    number: u64,
    scratch: &'a mut Scratch<T>,
    stats: &'a mut SufficientStats,
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
                Some(rng) => piece.draw::<I>(rng),
                None if matches!(assignment, Assignment::Hard | Assignment::Nearest) => piece.give_to_the_largest::<I>(),
                None => assignment.temperature() * piece.share::<I>(),
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

/// Rows that go through the products together.
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

    /// Rows to all components by their responsibilities; gives the sum of ln p.
    #[inline(always)]
    fn share<I: Instructions>(&mut self) -> f64 {
        let stride = self.scratch.stride;
        let mut objective = 0.0;
        let (mut largest_sum, mut ln_sum) = ([0.0; WIDTH], LnSum::<WIDTH>::new());
        for first in (0..self.count).step_by(WIDTH) {
            let (largest, sums) = exponentials::<T, I, WIDTH>(&mut self.scratch.logits, stride, first);
            let lanes = |values| <&mut [T; WIDTH]>::try_from(values).expect("a run of this width");
            let factors = lanes(&mut self.scratch.factors[first..first + WIDTH]);
            let smallest = lanes(&mut self.scratch.smallest[first..first + WIDTH]);
            let smallest_share = T::from_f64(T::SMALLEST_RESPONSIBILITY);
            *factors = sums.map(|sum| T::ONE / sum);
            *smallest = sums.map(|sum| smallest_share * sum);
            if self.weights.is_none() && first + WIDTH <= self.count {
                ln_sum.add(&sums);
                largest_sum.iter_mut().zip(largest).for_each(|(sum, largest)| *sum += largest.to_f64());
                continue;
            }
            for lane in 0..WIDTH {
                // Places behind the last row have no weight.
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

    /// Each row to the component of its largest logit; gives the sum of these.
    #[inline(always)]
    fn give_to_the_largest<I: Instructions>(&mut self) -> f64 {
        let mut objective = 0.0;
        for first in (0..self.count).step_by(WIDTH) {
            let (largest, component) = largest_of::<T, WIDTH>(&mut self.scratch.logits, self.scratch.stride, first);
            for lane in 0..WIDTH.min(self.count - first) {
                let weight = self.weight(first + lane);
                objective += weight * (largest[lane].to_f64() + self.prepared.shift);
                self.give::<I>(first + lane, component[lane].to_f64() as usize, weight);
            }
        }
        objective
    }

    /// Each row to a component drawn by its responsibilities; gives the sum of ln p.
    #[inline(always)]
    fn draw<I: Instructions>(&mut self, rng: &mut Stream) -> f64 {
        let (stride, components) = (self.scratch.stride, self.stats.components());
        let mut objective = 0.0;
        for first in (0..self.count).step_by(WIDTH) {
            let (largest, sums) = exponentials::<T, I, WIDTH>(&mut self.scratch.logits, stride, first);
            for lane in 0..WIDTH.min(self.count - first) {
                let (row, sum) = (first + lane, sums[lane].to_f64());
                let mut rest = rng.random::<f64>() * sum;
                // Rounding may leave a rest after the last component: then it is the last that has a share.
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
                self.give::<I>(row, drawn, weight);
            }
        }
        objective
    }

    #[inline(always)]
    fn give<I: Instructions>(&mut self, row: usize, component: usize, weight: f64) {
        if weight > 0.0 {
            self.stats.masses_mut()[component] += weight;
            self.add_row::<I>(row, component, weight);
        }
    }

    #[inline(always)]
    fn add_row<I: Instructions>(&mut self, row: usize, component: usize, share: f64) {
        let dim = self.stats.dim();
        let sum = &mut self.stats.resultants_mut()[component * dim..][..dim];
        match self.rows {
            DenseOrSparse::Dense(rows) => add_row::<T, I>(sum, share, &rows[row * dim..][..dim]),
            DenseOrSparse::Sparse32(rows, first) => add_sparse_row(sum, share, rows.row(first + row)),
            DenseOrSparse::Sparse64(rows, first) => add_sparse_row(sum, share, rows.row(first + row)),
        }
    }

    /// Adds the rows that a component has a share of. Sums of a few components wait for the end of the tile; those of many would come from afar.
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
                // No closure: one that is not inlined would be compiled without these instructions.
                for (row, share) in listed.iter() {
                    self.add_row::<I>(row, component, share.to_f64());
                }
            }
        }
    }
}

#[inline(always)]
fn add_sparse_row<T: Scalar>(sum: &mut [f64], share: f64, (columns, values): (&[u32], &[T])) {
    for (&column, x) in columns.iter().zip(values) {
        sum[column as usize] += share * x.to_f64();
    }
}

/// What a thread needs to work on tiles, kept from one tile to the next.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    single: Option<Scratch<f32>>,
    double: Option<Scratch<f64>>,
}

/// A mixture and an assignment in the forms that tiles of every kind need, each prepared when the first such tile comes.
#[derive(Debug)]
pub(super) struct TileKernels<'m> {
    mixture: &'m Mixture,
    assignment: Assignment,
    /// Rows of single precision may be multiplied in it.
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

    /// Adds the rows `from .. to`, the tile of this number, to some statistics; returns the number of the first bad row.
    ///
    /// The precision is that of the tile's rows, whatever came before, so that it does not depend on how rows come in batches.
    pub(super) fn add_tile(
        &self,
        batch: &RowBatch,
        (from, to): (usize, usize),
        number: u64,
        workspace: &mut Workspace,
        stats: &mut SufficientStats,
    ) -> Option<usize> {
        // Weights of 1 are none.
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

/// Calls `visit(row, logits)` for each row of a block, with ln weight + ln density of each component in double precision, on this thread.
pub(super) struct Logits<'a> {
    prepared: Prepared<f64>,
    batch: &'a RowBatch<'a>,
}

impl<'a> Logits<'a> {
    pub(super) fn new(mixture: &Mixture, batch: &'a RowBatch<'a>) -> Self {
        Logits { prepared: Prepared::new(mixture, Assignment::Soft, batch.is_sparse()), batch }
    }

    /// Rows that one piece of work should have: some, so that it is worth preparing for.
    pub(super) const ROWS: usize = TILE;

    /// The rows `from .. to` in turn.
    pub(super) fn visit(&self, from: usize, to: usize, mut visit: impl FnMut(usize, &[f64])) {
        let mut scratch = Scratch::new(&self.prepared, to - from);
        let mut row_logits = vec![0.0; self.prepared.components()];
        for first in (from..to).step_by(scratch.stride) {
            let last = (first + scratch.stride).min(to);
            with_best_instructions(LogitsWork {
                prepared: &self.prepared,
                batch: self.batch,
                from: first,
                to: last,
                scratch: &mut scratch,
            });
            for row in first..last {
                let logits = scratch.logits[row - first..].iter().step_by(scratch.stride);
                row_logits.iter_mut().zip(logits).for_each(|(out, z)| *out = z + self.prepared.shift);
                visit(row, &row_logits);
            }
        }
    }
}

struct LogitsWork<'a> {
    prepared: &'a Prepared<f64>,
    batch: &'a RowBatch<'a>,
    from: usize,
    to: usize,
    scratch: &'a mut Scratch<f64>,
}

impl Work for LogitsWork<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Instructions>(self) {
        let Scratch { logits: out, stride, rows: buffer, packing, .. } = self.scratch;
        let rows =
            kernel_rows(self.batch, self.from, self.to, buffer).expect("densities need validated rows; see RowBatch::validated");
        logits::<f64, I>(rows, self.to - self.from, None, self.prepared, out, *stride, packing);
    }
}

#[cfg(test)]
mod wide_tests {
    use super::*;
    use crate::density::VonMisesFisher;
    use vmfkit_kernels::instructions::with_narrow_instructions;

    /// Unit rows near one of the first coordinates each, more or less.
    fn rows(count: usize, dim: usize, components: usize) -> Vec<f64> {
        let mut rows = vec![0.0; count * dim];
        for (number, row) in rows.chunks_exact_mut(dim).enumerate() {
            row.iter_mut().enumerate().for_each(|(i, x)| *x = ((number * 31 + i * 17) as f64).sin());
            row[number % components % dim] += 0.2 * number as f64 % 7.0;
            let length = row.iter().map(|x| x * x).sum::<f64>().sqrt();
            row.iter_mut().for_each(|x| *x /= length);
        }
        rows
    }

    fn mixture(dim: usize, components: usize) -> Mixture {
        let densities = rows(components, dim, components);
        let densities = densities.chunks_exact(dim).enumerate();
        let densities = densities.map(|(k, mean)| VonMisesFisher::new(mean.to_vec(), (5 + k) as f64).unwrap()).collect();
        Mixture::new(vec![1.0 / components as f64; components], densities).unwrap()
    }

    fn check<T: Real + Scalar, const WIDTH: usize>(values: &[T], dim: usize, components: usize, assignment: Assignment) {
        let (mixture, block) = (mixture(dim, components), RowBatch::new(dim, values).unwrap());
        check_block::<T, WIDTH>(&mixture, &block, assignment);
        // Rows without weight, and a component without direction.
        let weights: Vec<f64> = (0..block.len()).map(|row| (row % 3) as f64 + f64::from(block.len() == 1)).collect();
        check_block::<T, WIDTH>(&mixture.with_background(0.1).unwrap(), &block.with_weights(&weights).unwrap(), assignment);
    }

    fn check_block<T: Real, const WIDTH: usize>(mixture: &Mixture, block: &RowBatch, assignment: Assignment) {
        let (components, dim) = (mixture.components().len(), mixture.dim());
        let of_tile = |prepared: Prepared<T>, run: &dyn Fn(TileWork<T, WIDTH>) -> Option<usize>| {
            let mut stats = SufficientStats::zero(components, dim);
            let (batch, from, to, weights) = (block, 0, block.len(), block.weights());
            let (scratch, prepared) = (&mut Scratch::new(&prepared, to), &prepared);
            let bad_row = run(TileWork { prepared, assignment, batch, from, to, weights, number: 0, scratch, stats: &mut stats });
            assert_eq!(bad_row, None);
            stats.settle();
            stats
        };
        let prepared = || Prepared::<T>::new(mixture, assignment, false);
        let scale = |k: usize| match assignment {
            Assignment::Nearest => 1.0,
            other => mixture.components()[k].concentration() / other.temperature(),
        };
        let direction = |k: usize| (scale(k), mixture.components()[k].mean_direction());
        let narrow = Directions::dense(group_heights()[1], components, dim, direction);
        let fused = of_tile(Prepared { directions: narrow, ..prepared() }, &|work| with_narrow_instructions(work));
        let wide = of_tile(prepared(), &|work| with_best_instructions(work));
        assert!(fused.objective() != 0.0);
        assert_eq!(fused, wide, "{dim}, {components}, {assignment:?}, {} bytes", size_of::<T>());
    }

    /// Not the products alone: logits, responsibilities, what is drawn, sums and objective.
    #[test]
    fn a_tile_has_the_same_bits_with_wide_registers_as_with_narrow_ones() {
        if group_heights()[0] == group_heights()[1] {
            return eprintln!("skipped: this processor has no AVX-512");
        }
        let assignments =
            [Assignment::Soft, Assignment::Hard, Assignment::Nearest, Assignment::Tempered(2.0), Assignment::Sampled { seed: 7 }];
        for (dim, components) in [(2, 1), (3, 20), (5, 3), (37, 8), (100, 10), (129, 33), (384, 17), (40, 130)] {
            for count in [1, 95, TILE - 7, TILE] {
                let double = rows(count, dim, components);
                let single: Vec<f32> = double.iter().map(|x| *x as f32).collect();
                for assignment in assignments {
                    check::<f32, { f32::WIDTH }>(&single, dim, components, assignment);
                    check::<f64, { f64::WIDTH }>(&double, dim, components, assignment);
                }
            }
        }
    }
}
