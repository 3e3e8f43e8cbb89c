//! Kernels in plain Rust, vectorised by the compiler: for AVX2, and the fallback for any other CPU.

use crate::float::Real;
use crate::instructions::Instructions;
use crate::layout::{Runs, factor_index};
use crate::prefetch::prefetch_early;
use crate::sparse_responsibilities::SparseResponsibilities;

/// Adds the sum over p of left(p, i) right(p, j) to the sum of component i and neighbour j, for
/// each of `HEIGHT` components and `WIDTH` neighbours. Prefetches the memory at `ahead`.
///
/// # Safety
/// For every p < terms and every i, these are readable: `left.0` at [`factor_index`] (p, i),
/// `WIDTH` values at `right.first + p * right.step`, and `WIDTH` values `right.beside` further on
/// if there are two runs. For every i, `WIDTH` values per run are writable at
/// `sums.0 + i * sums.1`.
#[inline(always)]
pub(crate) unsafe fn outer_products<T: Real, I: Instructions, const GROUPED: bool, const HEIGHT: usize, const WIDTH: usize>(
    terms: usize,
    left: (*const T, usize),
    right: Runs<T>,
    ahead: Runs<T>,
    (sums, sums_step): (*mut T, usize),
) {
    let mut products = [[T::ZERO; WIDTH]; HEIGHT];
    for p in 0..terms {
        prefetch_early(ahead.first.wrapping_add(p * ahead.step));
        // SAFETY: the caller's bounds.
        let neighbours = unsafe { *right.first.add(p * right.step).cast::<[T; WIDTH]>() };
        for (i, products) in products.iter_mut().enumerate() {
            // SAFETY: the caller's bounds.
            let factor = unsafe { *left.0.add(factor_index::<GROUPED, HEIGHT>(p, i, left.1)) };
            for (product, x) in products.iter_mut().zip(neighbours) {
                *product = factor.multiply_add::<I>(x, *product);
            }
        }
    }
    for (i, products) in products.iter().enumerate() {
        // SAFETY: the caller's bounds.
        let sums = unsafe { &mut *sums.add(i * sums_step).cast::<[T; WIDTH]>() };
        sums.iter_mut().zip(products).for_each(|(sum, product)| *sum = *sum + *product);
    }
}

/// Adds the listed rows times their responsibilities to `SPAN` runs of sums, or replaces the sums.
/// Rows are `columns.1` values apart; the last run begins `last` columns behind the first one.
///
/// # Safety
/// For each listed row, the columns of all runs are readable at `columns.0 + row * columns.1`;
/// `SPAN * WIDTH` values are writable at `sums`.
#[inline(always)]
pub(crate) unsafe fn sparse_products<T: Real, I: Instructions, const ADD: bool, const SPAN: usize, const WIDTH: usize>(
    listed: &SparseResponsibilities<T>,
    columns: (*const T, usize),
    last: usize,
    sums: *mut T,
) {
    // SAFETY: the caller's bounds.
    let sums = unsafe { &mut *sums.cast::<[[T; WIDTH]; SPAN]>() };
    let mut products = if ADD { *sums } else { [[T::ZERO; WIDTH]; SPAN] };
    for (row, responsibility) in listed.iter() {
        for (run, products) in products.iter_mut().enumerate() {
            let column = if run < SPAN - 1 { run * WIDTH } else { last };
            // SAFETY: the caller's bounds.
            let columns = unsafe { *columns.0.add(row * columns.1 + column).cast::<[T; WIDTH]>() };
            for (product, x) in products.iter_mut().zip(columns) {
                *product = responsibility.multiply_add::<I>(x, *product);
            }
        }
    }
    *sums = products;
}
