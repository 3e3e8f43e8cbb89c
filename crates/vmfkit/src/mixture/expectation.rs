//! The E step over blocks: products, log-sum-exp, statistics, a tile of rows at a time on every thread.
//!
//! A tile's products stay in cache between the two matrix products; nothing of the size rows x components is ever held. Tiles are grouped
//! in chunks whose size depends on the number of rows alone; each chunk has statistics of its own, merged in the order of the rows, so
//! that the number of threads does not change one bit.

use super::Mixture;
use super::products::{Packing, Panels, Real, Work, add_row, add_weighted_rows, row_products, with_best_instructions};
use crate::block::{Block, Rows, Scalar, SparseRows};
use crate::sampler::Stream;
use crate::stats::SufficientStats;
use rand::RngExt;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    /// Wholly to one component drawn by the responsibilities: stochastic EM. The draws depend on the seed and on the row's place in the block.
    Sampled {
        /// What the draws depend on.
        seed: u64,
    },
    /// Wholly to the component with the nearest mean direction: spherical k-means.
    Nearest,
}

impl Assignment {
    /// The same for another block of the same pass: draws do not repeat from block to block.
    pub fn for_block(self, number: u64) -> Self {
        match self {
            Assignment::Sampled { seed } => Assignment::Sampled { seed: Stream::derive(seed, number) },
            other => other,
        }
    }
}

/// Rows that go through the products together: their products stay in the second-level cache, and sums in f32 stay short.
const TILE: usize = 384;

/// A chunk has at least this many tiles, so that merging its statistics is a small part of making them, and a block at most this many chunks.
const TILES_PER_CHUNK: usize = 3;
const CHUNKS: usize = 64;

/// Above this concentration single precision is too coarse for k mu . x: its error, of about k sqrt(d) 2e-8, is 1e-3 here for d = 384.
const SINGLE_PRECISION_LIMIT: f64 = 4096.0;

/// A responsibility below this counts as 0: its row and the other K - 1 are none the poorer, and the second product may be sparse.
const SMALLEST_RESPONSIBILITY: f64 = 1e-10;

/// Adding one row to one sum costs this many times what it costs within a matrix product.
const SCATTER_COST: usize = 6;

/// A mixture in the form that the kernels read.
#[derive(Debug)]
struct Prepared<T> {
    panels: Panels<T>,
    /// ln weight + ln C - shift for each component, -infinity for the padding.
    bias: Vec<T>,
    shift: f64,
}

impl<T: Real> Prepared<T> {
    /// Logits are k mu . x + ln weight + ln C, divided by the temperature; or mu . x alone for the nearest direction.
    fn new(mixture: &Mixture, assignment: Assignment) -> Self {
        let nearest = assignment == Assignment::Nearest;
        let coldness = if let Assignment::Tempered(temperature) = assignment { 1.0 / temperature } else { 1.0 };
        let components = mixture.components();
        let scale = |k: usize| if nearest { 1.0 } else { coldness * components[k].concentration() };
        let panels = Panels::new(components.len(), mixture.dim(), |k, j| scale(k) * components[k].mean_direction()[j]);
        let bias: Vec<f64> = (0..components.len())
            .map(|k| match nearest {
                true if mixture.is_background(k) => f64::NEG_INFINITY,
                true => 0.0,
                false => coldness * (mixture.weights()[k].ln() + components[k].ln_peak() - components[k].concentration()),
            })
            .collect();
        let shift = bias.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut padded = vec![T::NEGATIVE_INFINITY; panels.padded()];
        padded.iter_mut().zip(&bias).for_each(|(place, b)| *place = T::from_f64(b - shift));
        Prepared { panels, bias: padded, shift }
    }

    fn padded(&self) -> usize {
        self.panels.padded()
    }
}

/// The rows of a tile, in the precision of the kernel.
#[derive(Clone, Copy)]
enum TileRows<'a, T: Real> {
    Dense(&'a [T]),
    Sparse32(&'a SparseRows<'a, f32>, usize),
    Sparse64(&'a SparseRows<'a, f64>, usize),
}

/// Leaves the logits of each row in `out`, short of the shift.
#[inline(always)]
fn logits<T: Real, const FUSED: bool>(rows: TileRows<T>, count: usize, prepared: &Prepared<T>, out: &mut [T]) {
    match rows {
        TileRows::Dense(rows) => row_products::<T, FUSED>(rows, &prepared.panels, out),
        TileRows::Sparse32(rows, first) => {
            for (row, out) in out.chunks_exact_mut(prepared.padded()).take(count).enumerate() {
                let (columns, values) = rows.row(first + row);
                prepared.panels.sparse_products::<f32, FUSED>(columns, values, out);
            }
        }
        TileRows::Sparse64(rows, first) => {
            for (row, out) in out.chunks_exact_mut(prepared.padded()).take(count).enumerate() {
                let (columns, values) = rows.row(first + row);
                prepared.panels.sparse_products::<f64, FUSED>(columns, values, out);
            }
        }
    }
    for logits in out.chunks_exact_mut(prepared.padded()).take(count) {
        logits.iter_mut().zip(&prepared.bias).for_each(|(z, &b)| *z = *z + b);
    }
}

/// The largest of the logits; their number is a multiple of T::WIDTH.
#[inline(always)]
fn largest<T: Real>(logits: &[T]) -> T {
    let mut lanes = [T::NEGATIVE_INFINITY; 16];
    for run in logits.chunks_exact(T::WIDTH) {
        lanes.iter_mut().zip(run).for_each(|(lane, &z)| *lane = if z > *lane { z } else { *lane });
    }
    lanes.iter().fold(T::NEGATIVE_INFINITY, |largest, &z| if z > largest { z } else { largest })
}

/// Replaces logits by exp(logit - largest); gives the largest and the sum.
#[inline(always)]
fn exponentials<T: Real, const FUSED: bool>(logits: &mut [T]) -> (T, T) {
    let largest = largest(logits);
    let mut lanes = [T::ZERO; 16];
    for run in logits.chunks_exact_mut(T::WIDTH) {
        for (lane, z) in lanes.iter_mut().zip(run) {
            *z = (*z - largest).exp_of_negative::<FUSED>();
            *lane = *lane + *z;
        }
    }
    (largest, lanes.iter().fold(T::ZERO, |sum, &x| sum + x))
}

/// Exponentials times `factor`; those below `smallest` become 0. Gives how many are left.
#[inline(always)]
fn scale_and_drop<T: Real>(exponentials: &mut [T], factor: T, smallest: T) -> usize {
    let mut kept = [0u32; 16];
    for run in exponentials.chunks_exact_mut(T::WIDTH) {
        for (kept, e) in kept.iter_mut().zip(run) {
            let keep = *e >= smallest;
            *e = if keep { *e * factor } else { T::ZERO };
            *kept += u32::from(keep);
        }
    }
    kept.iter().sum::<u32>() as usize
}

/// The first place of the largest of the logits.
#[inline(always)]
fn first_largest<T: Real>(logits: &[T]) -> (usize, T) {
    let largest = largest(logits);
    (logits.iter().position(|&z| z == largest).unwrap_or(0), largest)
}

/// The sum of ln x over numbers of at least 1, by one logarithm for many of them.
struct LnSum {
    product: f64,
    sum: f64,
}

impl LnSum {
    const LARGE: f64 = 1e200;

    #[inline(always)]
    fn add(&mut self, x: f64) {
        self.product *= x;
        if self.product > Self::LARGE {
            self.sum += self.product.ln();
            self.product = 1.0;
        }
    }

    fn total(self) -> f64 {
        self.sum + self.product.ln()
    }
}

/// What a thread needs beside the rows.
#[derive(Debug)]
struct Scratch<T> {
    logits: Vec<T>,
    converted: Vec<T>,
    packing: Packing<T>,
}

impl<T: Real> Scratch<T> {
    fn new(prepared: &Prepared<T>, rows: usize) -> Self {
        let logits = vec![T::ZERO; rows.min(TILE) * prepared.padded()];
        Scratch { logits, converted: Vec::new(), packing: Packing::default() }
    }
}

/// Adds one tile of rows to the mass, resultant and objective of some statistics.
struct TileWork<'a, T: Real> {
    prepared: &'a Prepared<T>,
    assignment: Assignment,
    rows: TileRows<'a, T>,
    weights: Option<&'a [f64]>,
    count: usize,
    /// The number of the tile within its block, for draws.
    tile: usize,
    logits: &'a mut [T],
    packing: &'a mut Packing<T>,
    stats: &'a mut SufficientStats,
}

impl<T: Real> Work for TileWork<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FUSED: bool>(mut self) {
        logits::<T, FUSED>(self.rows, self.count, self.prepared, self.logits);
        let whole_rows = match self.assignment {
            Assignment::Soft | Assignment::Tempered(_) => self.share::<FUSED>(),
            Assignment::Hard | Assignment::Nearest => self.give_to_the_largest::<FUSED>(),
            Assignment::Sampled { seed } => self.draw::<FUSED>(seed),
        };
        self.stats.add_objective(whole_rows, self.weights.map_or(self.count as f64, |w| w.iter().sum()));
    }
}

impl<T: Real> TileWork<'_, T> {
    fn weight(&self, row: usize) -> f64 {
        self.weights.map_or(1.0, |w| w[row])
    }

    /// Rows to all components by their responsibilities; gives the sum of ln p.
    #[inline(always)]
    fn share<const FUSED: bool>(&mut self) -> f64 {
        let padded = self.prepared.padded();
        let temperature = if let Assignment::Tempered(temperature) = self.assignment { temperature } else { 1.0 };
        let (mut objective, mut kept) = (0.0, 0);
        let mut ln_sum = LnSum { product: 1.0, sum: 0.0 };
        for (row, logits) in self.logits.chunks_exact_mut(padded).take(self.count).enumerate() {
            let (largest, sum) = exponentials::<T, FUSED>(logits);
            let (largest, sum) = (largest.to_f64() + self.prepared.shift, sum.to_f64());
            let weight = match self.weights {
                None => {
                    objective += largest;
                    ln_sum.add(sum);
                    1.0
                }
                Some(weights) => {
                    objective += weights[row] * (largest + sum.ln());
                    weights[row]
                }
            };
            kept += scale_and_drop(logits, T::from_f64(weight / sum), T::from_f64(SMALLEST_RESPONSIBILITY * sum));
        }
        objective = temperature * (objective + ln_sum.total());
        let components = self.stats.components();
        for logits in self.logits.chunks_exact(padded).take(self.count) {
            self.stats.masses_mut().iter_mut().zip(logits).for_each(|(mass, q)| *mass += q.to_f64());
        }
        match self.rows {
            TileRows::Dense(rows) if kept * SCATTER_COST > self.count * components => {
                let dim = self.stats.dim();
                add_weighted_rows::<T, FUSED>(rows, dim, self.logits, padded, self.stats.resultants_mut(), self.packing);
            }
            _ => {
                for row in 0..self.count {
                    for component in 0..components {
                        let share = self.logits[row * padded + component];
                        if share > T::ZERO {
                            self.add_row::<FUSED>(row, component, share.to_f64());
                        }
                    }
                }
            }
        }
        objective
    }

    /// Each row to the component of its largest logit; gives the sum of these.
    #[inline(always)]
    fn give_to_the_largest<const FUSED: bool>(&mut self) -> f64 {
        let padded = self.prepared.padded();
        let mut objective = 0.0;
        for row in 0..self.count {
            let (component, largest) = first_largest(&self.logits[row * padded..][..padded]);
            let weight = self.weight(row);
            objective += weight * (largest.to_f64() + self.prepared.shift);
            self.give::<FUSED>(row, component, weight);
        }
        objective
    }

    /// Each row to a component drawn by its responsibilities; gives the sum of ln p.
    #[inline(always)]
    fn draw<const FUSED: bool>(&mut self, seed: u64) -> f64 {
        let padded = self.prepared.padded();
        let mut rng = Stream::new(seed, self.tile as u64);
        let mut objective = 0.0;
        for row in 0..self.count {
            let logits = &mut self.logits[row * padded..][..padded];
            let (largest, sum) = exponentials::<T, FUSED>(logits);
            let mut rest = rng.random::<f64>() * sum.to_f64();
            // Rounding may leave a rest after the last component: then it is the last that has a share.
            let mut drawn = 0;
            for (component, e) in logits[..self.stats.components()].iter().enumerate() {
                if e.to_f64() >= SMALLEST_RESPONSIBILITY * sum.to_f64() {
                    drawn = component;
                    rest -= e.to_f64();
                    if rest < 0.0 {
                        break;
                    }
                }
            }
            let weight = self.weight(row);
            objective += weight * (largest.to_f64() + self.prepared.shift + sum.to_f64().ln());
            self.give::<FUSED>(row, drawn, weight);
        }
        objective
    }

    #[inline(always)]
    fn give<const FUSED: bool>(&mut self, row: usize, component: usize, weight: f64) {
        if weight > 0.0 {
            self.stats.masses_mut()[component] += weight;
            self.add_row::<FUSED>(row, component, weight);
        }
    }

    #[inline(always)]
    fn add_row<const FUSED: bool>(&mut self, row: usize, component: usize, share: f64) {
        let dim = self.stats.dim();
        let sum = &mut self.stats.resultants_mut()[component * dim..][..dim];
        match self.rows {
            TileRows::Dense(rows) => add_row::<T, FUSED>(sum, share, &rows[row * dim..][..dim]),
            TileRows::Sparse32(rows, first) => add_sparse_row(sum, share, rows.row(first + row)),
            TileRows::Sparse64(rows, first) => add_sparse_row(sum, share, rows.row(first + row)),
        }
    }
}

#[inline(always)]
fn add_sparse_row<T: Scalar>(sum: &mut [f64], share: f64, (columns, values): (&[u32], &[T])) {
    for (&column, x) in columns.iter().zip(values) {
        sum[column as usize] += share * x.to_f64();
    }
}

/// The rows `from .. to` of a block as the kernel wants them, converted if they must be.
fn tile_rows<'a, T: Real>(block: &'a Block, from: usize, to: usize, converted: &'a mut Vec<T>) -> TileRows<'a, T> {
    let range = from * block.dim()..to * block.dim();
    match block.rows() {
        Rows::F32(values) => TileRows::Dense(T::view_f32(&values[range], converted)),
        Rows::F64(values) => TileRows::Dense(T::view_f64(&values[range], converted)),
        Rows::SparseF32(rows) => TileRows::Sparse32(rows, from),
        Rows::SparseF64(rows) => TileRows::Sparse64(rows, from),
    }
}

/// Adds a block to some statistics.
pub(super) fn accumulate(mixture: &Mixture, block: &Block, assignment: Assignment, stats: &mut SufficientStats) {
    let concentrated = || mixture.components().iter().any(|c| c.concentration() > SINGLE_PRECISION_LIMIT);
    if matches!(block.rows(), Rows::F32(_)) && (assignment == Assignment::Nearest || !concentrated()) {
        accumulate_in::<f32>(mixture, block, assignment, stats);
    } else {
        accumulate_in::<f64>(mixture, block, assignment, stats);
    }
}

fn accumulate_in<T: Real>(mixture: &Mixture, block: &Block, assignment: Assignment, stats: &mut SufficientStats) {
    let prepared = Prepared::<T>::new(mixture, assignment);
    let tiles = block.len().div_ceil(TILE);
    let tiles_per_chunk = tiles.div_ceil(CHUNKS).max(TILES_PER_CHUNK);
    let chunks = tiles.div_ceil(tiles_per_chunk);
    let empty = || SufficientStats::zero(mixture.components().len(), mixture.dim());
    let add_chunk = |chunk: usize, scratch: &mut Scratch<T>, part: &mut SufficientStats| {
        for tile in chunk * tiles_per_chunk..((chunk + 1) * tiles_per_chunk).min(tiles) {
            let (from, to) = (tile * TILE, ((tile + 1) * TILE).min(block.len()));
            let Scratch { logits, converted, packing } = &mut *scratch;
            with_best_instructions(TileWork {
                prepared: &prepared,
                assignment,
                rows: tile_rows(block, from, to, converted),
                weights: block.weights().map(|w| &w[from..to]),
                count: to - from,
                tile,
                logits,
                packing,
                stats: part,
            });
        }
        part.settle();
    };
    let workers = rayon::current_num_threads().min(chunks);
    let merge =
        |stats: &mut SufficientStats, part: &SufficientStats| stats.merge(part).expect("the same components and dimension");
    if workers <= 1 {
        let (mut scratch, mut part) = (Scratch::new(&prepared, block.len()), empty());
        for chunk in 0..chunks {
            add_chunk(chunk, &mut scratch, &mut part);
            merge(stats, &part);
            part.clear();
        }
        return;
    }
    let line = Mutex::new(Line { next: 0, waiting: BTreeMap::new(), idle: Vec::new(), total: stats });
    let next_chunk = AtomicUsize::new(0);
    rayon::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|_| {
                let mut scratch = Scratch::new(&prepared, block.len());
                loop {
                    let chunk = next_chunk.fetch_add(1, Ordering::Relaxed);
                    if chunk >= chunks {
                        break;
                    }
                    let idle = line.lock().expect("no worker panics").idle.pop();
                    let mut part = idle.unwrap_or_else(empty);
                    add_chunk(chunk, &mut scratch, &mut part);
                    line.lock().expect("no worker panics").join(chunk, part, merge);
                }
            });
        }
    });
}

/// Parts on their way into the total, in the order of their chunks.
struct Line<'a> {
    next: usize,
    waiting: BTreeMap<usize, SufficientStats>,
    idle: Vec<SufficientStats>,
    total: &'a mut SufficientStats,
}

impl Line<'_> {
    fn join(&mut self, chunk: usize, part: SufficientStats, merge: impl Fn(&mut SufficientStats, &SufficientStats)) {
        self.waiting.insert(chunk, part);
        while let Some(mut part) = self.waiting.remove(&self.next) {
            merge(self.total, &part);
            part.clear();
            self.idle.push(part);
            self.next += 1;
        }
    }
}

/// Calls `visit(row, logits)` for each row of a block, with ln weight + ln density of each component in double precision, on this thread.
pub(super) struct Logits<'a> {
    prepared: Prepared<f64>,
    block: &'a Block<'a>,
    components: usize,
}

impl<'a> Logits<'a> {
    pub(super) fn new(mixture: &Mixture, block: &'a Block<'a>) -> Self {
        Logits { prepared: Prepared::new(mixture, Assignment::Soft), block, components: mixture.components().len() }
    }

    /// Rows that are visited together; pieces of work should be multiples of it.
    pub(super) const TILE: usize = TILE;

    /// The rows `from .. to` in turn.
    pub(super) fn visit(&self, from: usize, to: usize, mut visit: impl FnMut(usize, &[f64])) {
        let mut scratch = Scratch::new(&self.prepared, to - from);
        for first in (from..to).step_by(TILE) {
            let last = (first + TILE).min(to);
            let rows = tile_rows(self.block, first, last, &mut scratch.converted);
            with_best_instructions(LogitsWork { rows, count: last - first, prepared: &self.prepared, out: &mut scratch.logits });
            for (row, logits) in scratch.logits.chunks_exact_mut(self.prepared.padded()).take(last - first).enumerate() {
                let logits = &mut logits[..self.components];
                logits.iter_mut().for_each(|z| *z += self.prepared.shift);
                visit(first + row, logits);
            }
        }
    }
}

struct LogitsWork<'a> {
    rows: TileRows<'a, f64>,
    count: usize,
    prepared: &'a Prepared<f64>,
    out: &'a mut [f64],
}

impl Work for LogitsWork<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        logits::<f64, FUSED>(self.rows, self.count, self.prepared, self.out);
    }
}
