//! The first product of the E step: ln weight + ln density of every component for a piece of rows.
//!
//! A change here also concerns `tile.rs`, which turns the logits into statistics, and
//! `tile_tests.rs`, which compares the instruction sets. Run `make compare-builds` afterwards.

use super::Mixture;
use super::assignment::Assignment;
use crate::rows::{RowBatch, Rows, Scalar, SparseRows};
use vmfkit_kernels::Kernels;
use vmfkit_kernels::gemm::{GroupedDirections, PackingBuffer, PaneledDirections, row_products};
use vmfkit_kernels::instructions::{Instructions, group_heights};
use vmfkit_kernels::small_k::SmallKDirections;

/// A precision of the E step.
pub(super) trait Real: Kernels + Scalar {}

impl Real for f32 {}
impl Real for f64 {}

/// Rows per tile. Sums of a tile are taken in the precision of the kernel before they are added to
/// statistics in f64, so that sums in f32 stay short.
pub(super) const TILE: usize = 384;

/// Rows per piece, if the sums of all components fit into the first-level cache (`NEAR` bytes): few
/// enough that the rows are still there for the second product. Otherwise a piece is a whole tile.
const PIECE: usize = 96;
const NEAR: usize = 1 << 15;

/// The rows `from .. to` as the kernel takes them, in `buffer` if they must be copied or converted;
/// or the number of the first bad row.
#[inline(always)]
pub(super) fn kernel_rows<'r, T: Real>(
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
pub(super) struct Prepared<T> {
    pub directions: Directions<T>,
    /// ln weight + ln C - shift for each component.
    pub bias: Vec<T>,
    pub shift: f64,
    /// True if the sums of all components fit into the first-level cache.
    pub is_near: bool,
}

/// Mean directions times concentrations.
#[derive(Debug)]
pub(super) enum Directions<T> {
    /// For dense rows.
    Dense(GroupedDirections<T>),
    /// For dense rows and a few components.
    Few(SmallKDirections<T>),
    /// For sparse rows.
    Sparse(PaneledDirections<T>),
}

impl<T: Real> Directions<T> {
    /// For dense rows, in groups of at most `highest` components.
    pub fn dense<'a>(highest: usize, components: usize, dim: usize, direction: impl Fn(usize) -> (f64, &'a [f64])) -> Self {
        if SmallKDirections::<T>::is_faster(components, dim) {
            Directions::Few(SmallKDirections::new(highest, components, dim, direction))
        } else {
            Directions::Dense(GroupedDirections::new(highest, components, dim, direction))
        }
    }
}

impl<T: Real> Prepared<T> {
    /// Logits are k mu . x + ln weight + ln C, divided by the temperature; or mu . x alone for the
    /// nearest direction.
    pub fn new(mixture: &Mixture, assignment: Assignment, sparse: bool) -> Self {
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

    /// Rows per piece.
    pub fn piece(&self) -> usize {
        if self.is_near { PIECE } else { TILE }
    }

    pub fn components(&self) -> usize {
        self.bias.len()
    }
}

/// Some rows, in the precision of the kernel.
#[derive(Clone, Copy)]
pub(super) enum DenseOrSparse<'a, T: Real> {
    Dense(&'a [T]),
    Sparse32(&'a SparseRows<'a, f32>, usize),
    Sparse64(&'a SparseRows<'a, f64>, usize),
}

/// Writes the logits, k mu . x plus the bias, to `out`: component by component, each `stride`
/// numbers long. Prefetches the rows at `next`.
#[inline(always)]
pub(super) fn logits<T: Real, I: Instructions>(
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
