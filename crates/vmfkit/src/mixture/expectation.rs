//! The E step over blocks: products, log-sum-exp, statistics, a tile of rows at a time on every thread.
//!
//! A tile's products stay in cache between the two matrix products; nothing of the size rows x components is ever held. Tiles are grouped
//! in chunks whose size depends on the number of rows alone; each chunk has statistics of its own, merged in the order of the rows, so
//! that the number of threads does not change one bit.

use super::Mixture;
use super::log_sum_exp::{LnSum, add_bias, combine, first_place, runs, share_out, sum};
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
    /// What logits are divided by: 1, but in annealing.
    pub fn temperature(self) -> f64 {
        if let Assignment::Tempered(temperature) = self { temperature } else { 1.0 }
    }

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

/// The largest concentration at which rows of this dimension are multiplied in single precision: the error of k mu . x, of about k (1e-7 + sqrt(d) 2e-8),
/// stays near 1e-3.
fn single_precision_limit(dim: usize) -> f64 {
    (8e4 / (dim as f64).sqrt()).min(4096.0)
}

/// Weights outside this range could overflow in a tile's sums, or vanish when multiplied by a small responsibility.
const SINGLE_PRECISION_WEIGHTS: std::ops::Range<f64> = 1e-25..1e30;

/// Rows go through the log-sum-exp in groups of about this many values, which stay in the first-level cache: many exponentials at once
/// hide each other's latency, also where a row has few.
const GROUP: usize = 4096;

/// Adding one row to one sum costs this many times what it costs within a matrix product.
const SCATTER_COST: f64 = 4.0;

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
        let coldness = 1.0 / assignment.temperature();
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

/// Leaves k mu . x of each row and component in `out`: the logits without their bias.
#[inline(always)]
fn products<T: Real, const FUSED: bool>(rows: TileRows<T>, count: usize, prepared: &Prepared<T>, out: &mut [T]) {
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
}

/// What a thread needs beside the rows.
#[derive(Debug)]
struct Scratch<T> {
    logits: Vec<T>,
    converted: Vec<T>,
    packing: Packing<T>,
    masses: Vec<f64>,
}

impl<T: Real> Scratch<T> {
    fn new(prepared: &Prepared<T>, rows: usize) -> Self {
        let logits = vec![T::ZERO; rows.min(TILE) * prepared.padded()];
        Scratch { logits, converted: Vec::new(), packing: Packing::default(), masses: Vec::new() }
    }
}

/// Adds one tile of rows to the mass, resultant and objective of some statistics.
struct TileWork<'a, T: Real, const WIDTH: usize> {
    prepared: &'a Prepared<T>,
    assignment: Assignment,
    rows: TileRows<'a, T>,
    weights: Option<&'a [f64]>,
    count: usize,
    /// The number of the tile within its block, for draws.
    tile: usize,
    logits: &'a mut [T],
    packing: &'a mut Packing<T>,
    /// The masses of this tile, padding included.
    masses: &'a mut Vec<f64>,
    stats: &'a mut SufficientStats,
}

impl<T: Real, const WIDTH: usize> Work for TileWork<'_, T, WIDTH> {
    type Output = ();

    #[inline(always)]
    fn run<const FUSED: bool>(mut self) {
        products::<T, FUSED>(self.rows, self.count, self.prepared, self.logits);
        let whole_rows = match self.assignment {
            Assignment::Soft | Assignment::Tempered(_) => self.share::<FUSED>(),
            Assignment::Hard | Assignment::Nearest => self.give_to_the_largest::<FUSED>(),
            Assignment::Sampled { seed } => self.draw::<FUSED>(seed),
        };
        self.stats.add_objective(whole_rows, self.weights.map_or(self.count as f64, |w| w.iter().sum()));
    }
}

impl<T: Real, const WIDTH: usize> TileWork<'_, T, WIDTH> {
    fn weight(&self, row: usize) -> f64 {
        self.weights.map_or(1.0, |w| w[row])
    }

    /// Rows to all components by their responsibilities; gives the sum of ln p.
    #[inline(always)]
    fn share<const FUSED: bool>(&mut self) -> f64 {
        let padded = self.prepared.padded();
        let temperature = self.assignment.temperature();
        let (mut objective, mut kept) = (0.0, [T::ZERO; WIDTH]);
        self.masses.clear();
        self.masses.resize(padded, 0.0);
        let mut ln_sum = LnSum::new();
        let rows_per_group = (GROUP / padded).max(1);
        for first in (0..self.count).step_by(rows_per_group) {
            let last = (first + rows_per_group).min(self.count);
            let group = &mut self.logits[first * padded..last * padded];
            for (row, logits) in group.chunks_exact_mut(padded).enumerate() {
                let largest = add_bias::<T, WIDTH>(logits, &self.prepared.bias);
                runs::<T, WIDTH>(logits).for_each(|run| *run = run.map(|z| z - largest));
                objective += self.weights.map_or(1.0, |w| w[first + row]) * (largest.to_f64() + self.prepared.shift);
            }
            runs::<T, WIDTH>(group).for_each(|run| *run = run.map(|z| z.exp_of_negative::<FUSED>()));
            for (row, logits) in group.chunks_exact_mut(padded).enumerate() {
                let sum = sum::<T, WIDTH>(logits).to_f64();
                let weight = match self.weights {
                    None => {
                        ln_sum.add(sum);
                        1.0
                    }
                    Some(weights) => {
                        objective += weights[first + row] * sum.ln();
                        weights[first + row]
                    }
                };
                let smallest = T::from_f64(T::SMALLEST_SHARE * sum);
                share_out(logits, T::from_f64(weight / sum), smallest, self.masses, &mut kept);
            }
        }
        objective = temperature * (objective + ln_sum.total());
        let components = self.stats.components();
        self.stats.masses_mut().iter_mut().zip(&*self.masses).for_each(|(mass, m)| *mass += m);
        let kept = combine(kept, |a, b| a + b).to_f64();
        match self.rows {
            TileRows::Dense(rows) if kept * SCATTER_COST > (self.count * components) as f64 => {
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
            let logits = &mut self.logits[row * padded..][..padded];
            let largest = add_bias::<T, WIDTH>(logits, &self.prepared.bias);
            let component = first_place(logits, largest);
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
            let largest = add_bias::<T, WIDTH>(logits, &self.prepared.bias);
            runs::<T, WIDTH>(logits).for_each(|run| *run = run.map(|z| (z - largest).exp_of_negative::<FUSED>()));
            let sum = sum::<T, WIDTH>(logits);
            let mut rest = rng.random::<f64>() * sum.to_f64();
            // Rounding may leave a rest after the last component: then it is the last that has a share.
            let mut drawn = 0;
            for (component, e) in logits[..self.stats.components()].iter().enumerate() {
                if e.to_f64() >= T::SMALLEST_SHARE * sum.to_f64() {
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
    let coldness = 1.0 / assignment.temperature();
    let limit = single_precision_limit(mixture.dim());
    let concentrated = || mixture.components().iter().any(|c| coldness * c.concentration() > limit);
    let outsized = |w: &f64| *w > 0.0 && !SINGLE_PRECISION_WEIGHTS.contains(w);
    let single = || !block.weights().is_some_and(|weights| weights.iter().any(outsized)) && !concentrated();
    if matches!(block.rows(), Rows::F32(_)) && (assignment == Assignment::Nearest || single()) {
        accumulate_in::<f32, { f32::WIDTH }>(mixture, block, assignment, stats);
    } else {
        accumulate_in::<f64, { f64::WIDTH }>(mixture, block, assignment, stats);
    }
}

fn accumulate_in<T: Real, const WIDTH: usize>(
    mixture: &Mixture,
    block: &Block,
    assignment: Assignment,
    stats: &mut SufficientStats,
) {
    let prepared = Prepared::<T>::new(mixture, assignment);
    let tiles = block.len().div_ceil(TILE);
    let tiles_per_chunk = tiles.div_ceil(CHUNKS).max(TILES_PER_CHUNK);
    let chunks = tiles.div_ceil(tiles_per_chunk);
    let empty = || SufficientStats::zero(mixture.components().len(), mixture.dim());
    let add_chunk = |chunk: usize, scratch: &mut Scratch<T>, part: &mut SufficientStats| {
        for tile in chunk * tiles_per_chunk..((chunk + 1) * tiles_per_chunk).min(tiles) {
            let (from, to) = (tile * TILE, ((tile + 1) * TILE).min(block.len()));
            let Scratch { logits, converted, packing, masses } = &mut *scratch;
            with_best_instructions(TileWork::<T, WIDTH> {
                prepared: &prepared,
                assignment,
                rows: tile_rows(block, from, to, converted),
                weights: block.weights().map(|w| &w[from..to]),
                count: to - from,
                tile,
                logits,
                packing,
                masses,
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
                logits.iter_mut().zip(&self.prepared.bias).for_each(|(z, b)| *z += b + self.prepared.shift);
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
        products::<f64, FUSED>(self.rows, self.count, self.prepared, self.out);
    }
}
