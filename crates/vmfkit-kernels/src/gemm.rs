//! The two matrix products of an E step: rows times directions, and responsibilities times rows.
//!
//! Both are sums of outer products whose partial sums stay in registers. Each term multiplies one
//! factor per component by a run of `WIDTH` neighbouring values. In the first product the terms are
//! coordinates and the neighbours are rows, so rows are transposed in panels of `WIDTH`. In the
//! second product the terms are rows and the neighbours are coordinates, as they are stored.
//!
//! Each sum adds its terms in a fixed order, so the logits of a row do not depend on the rows
//! beside it. Because the rows lie side by side, the log-sum-exp needs no shuffles across lanes,
//! and no lane is wasted if the number of components is not a multiple of `WIDTH`.
//!
//! For at most 12 components rows need not be transposed ([`small_k`](crate::small_k)). Where most
//! responsibilities are 0, the second product skips them
//! ([`sparse_responsibilities`](crate::sparse_responsibilities)).
//!
//! AVX-512 and AVX2 give the same bits. Without fused multiply-add the last bits differ.
//!
//! Advice for the next person: the order of the terms of each sum determines the bits of every fit.
//! After a change, run `make compare-kernels` and `cargo bench -p vmfkit --bench mixture`.

use crate::dispatch::Kernels;
use crate::float::{Float, Real};
use crate::instructions::Instructions;
use crate::layout::{Runs, by_height, groups};
use crate::prefetch::CACHE_LINE;
use crate::sparse_responsibilities::SparseResponsibilities;
use std::ops::Range;

/// Outer products for up to [`Instructions::HEIGHT`] components and up to [`Instructions::RUNS`]
/// runs.
///
/// # Safety
/// As `gemm_portable::outer_products`.
#[inline(always)]
unsafe fn products_of_group<T: Kernels, I: Instructions, const GROUPED: bool>(
    terms: usize,
    (height, runs): (usize, usize),
    left: (*const T, usize),
    right: Runs<T>,
    ahead: Runs<T>,
    sums: (*mut T, usize),
) {
    macro_rules! of_height {
        ($height:literal) => {{
            if I::RUNS > 1 && runs > 1 {
                // SAFETY: the caller's bounds.
                unsafe { T::outer_products::<I, GROUPED, $height, 2>(terms, left, right, ahead, sums) }
            } else {
                // SAFETY: the caller's bounds.
                unsafe { T::outer_products::<I, GROUPED, $height, 1>(terms, left, right, ahead, sums) }
            }
        }};
    }
    by_height!(height, I::HEIGHT, of_height)
}

/// Directions packed for dense rows: groups of components, each stored coordinate by coordinate.
#[derive(Debug, Clone)]
pub struct GroupedDirections<T> {
    dim: usize,
    /// The largest number of components in a group.
    highest: usize,
    values: Vec<T>,
}

impl<T: Real> GroupedDirections<T> {
    /// Packs the directions of all components, each times a factor, in groups of at most `highest`
    /// components. That must be the [`Instructions::HEIGHT`] of the kernels that read them.
    ///
    /// # Panics
    /// If `highest` is 0 and there are components.
    pub fn new<'a>(highest: usize, components: usize, dim: usize, direction: impl Fn(usize) -> (f64, &'a [f64])) -> Self {
        let mut values = vec![T::ZERO; components * dim];
        for (first, height) in groups(components, highest) {
            for k in first..first + height {
                put_scaled(&mut values[first * dim..][k - first..], height, direction(k));
            }
        }
        GroupedDirections { dim, highest, values }
    }
}

/// Writes the coordinates of a direction, each times a factor, `step` values apart.
fn put_scaled<T: Real>(out: &mut [T], step: usize, (factor, direction): (f64, &[f64])) {
    out.iter_mut().step_by(step).zip(direction).for_each(|(out, x)| *out = T::from_f64(factor * x));
}

/// Directions packed for sparse rows: panels of `WIDTH` components, each stored coordinate by
/// coordinate.
#[derive(Debug, Clone)]
pub struct PaneledDirections<T> {
    dim: usize,
    values: Vec<T>,
}

impl<T: Real> PaneledDirections<T> {
    /// Packs the directions of all components, each times a factor.
    pub fn new<'a>(components: usize, dim: usize, direction: impl Fn(usize) -> (f64, &'a [f64])) -> Self {
        let panels = components.div_ceil(T::WIDTH);
        let mut values = vec![T::ZERO; panels * T::WIDTH * dim];
        for k in 0..components {
            let panel = &mut values[k / T::WIDTH * T::WIDTH * dim..];
            put_scaled(&mut panel[k % T::WIDTH..], T::WIDTH, direction(k));
        }
        PaneledDirections { dim, values }
    }

    /// Replaces `out` by the products of one sparse row with each direction, padded with zeros to a
    /// multiple of `WIDTH`.
    ///
    /// # Panics
    /// If a column is not below the dimension.
    #[inline(always)]
    pub fn sparse_products<V: Float, I: Instructions>(&self, (columns, values): (&[u32], &[V]), out: &mut Vec<T>) {
        out.resize(self.values.len() / self.dim, T::ZERO);
        for (panel, sums) in self.values.chunks_exact(T::WIDTH * self.dim).zip(out.chunks_exact_mut(T::WIDTH)) {
            sums.fill(T::ZERO);
            for (&column, x) in columns.iter().zip(values) {
                let directions = &panel[column as usize * T::WIDTH..][..T::WIDTH];
                let x = T::from_f64(x.to_f64());
                sums.iter_mut().zip(directions).for_each(|(sum, &m)| *sum = x.multiply_add::<I>(m, *sum));
            }
        }
    }
}

/// Rows are prefetched this many panels ahead: the hardware prefetcher stops at page boundaries.
pub(crate) const PANELS_AHEAD: usize = 4;

/// Directions of more bytes than this do not stay in the first two cache levels. Then several
/// panels are transposed together, so that the directions are loaded less often.
const MANY_DIRECTIONS: usize = 1 << 17;
const PANELS_FOR_MANY: usize = 4;

/// Columns transposed and multiplied at a time, so that a panel and a group of directions stay in
/// the first-level cache.
const COLUMNS: usize = 128;

/// Reusable buffers for packed operands.
#[derive(Debug, Default)]
pub struct PackingBuffer<T> {
    transposed: Vec<T>,
    pub(crate) padded: Vec<T>,
}

/// True if `a * b <= len`; false if the product overflows.
#[inline(always)]
pub(crate) fn fits(a: usize, b: usize, len: usize) -> bool {
    a.checked_mul(b).is_some_and(|product| product <= len)
}

/// Computes the product of each row with each direction, plus the bias of the component. The
/// results are written component by component into `out`, `stride` values apart. The last row is
/// repeated up to the next multiple of `WIDTH`.
///
/// The rows that follow are prefetched: those at `next` if it is given, otherwise those behind each
/// panel. `next` is a hint and need not be readable.
///
/// # Panics
/// If `rows` is not a whole number of rows, if there is not one direction per bias, if the
/// directions were grouped for another instruction set, if `stride` is less than the number of rows
/// rounded up to a multiple of `WIDTH`, or if `out` has fewer than `stride` values per component.
#[inline(always)]
pub fn row_products<T: Kernels, I: Instructions>(
    (rows, next): (&[T], Option<*const T>),
    directions: &GroupedDirections<T>,
    bias: &[T],
    out: &mut [T],
    stride: usize,
    packing: &mut PackingBuffer<T>,
) {
    let dim = directions.dim;
    let count = rows.len() / dim;
    assert!(rows.len() == count * dim && directions.values.len() == bias.len() * dim && directions.highest == I::HEIGHT);
    assert!(stride >= count.next_multiple_of(T::WIDTH) && fits(bias.len(), stride, out.len()));
    let (panels, width) =
        if size_of_val(&*directions.values) > MANY_DIRECTIONS { (PANELS_FOR_MANY, dim) } else { (I::RUNS, dim.min(COLUMNS)) };
    let panel_size = width * T::WIDTH;
    // A load that crosses a cache-line boundary takes twice as long.
    packing.transposed.resize(panels * panel_size + CACHE_LINE / size_of::<T>(), T::ZERO);
    let aligned = packing.transposed.as_ptr().align_offset(CACHE_LINE);
    let all_transposed = &mut packing.transposed[aligned..][..panels * panel_size];
    // A panel has as many cache lines as a row has coordinates. Each group prefetches its share of
    // a later panel.
    let step = T::WIDTH / bias.len().div_ceil(I::HEIGHT);
    let next = next.unwrap_or(rows.as_ptr().wrapping_add(PANELS_AHEAD * T::WIDTH * dim));
    for first in (0..count).step_by(panels * T::WIDTH) {
        let last = (first + panels * T::WIDTH).min(count);
        for (component, bias) in bias.iter().enumerate() {
            out[component * stride..][first..last.next_multiple_of(T::WIDTH)].fill(*bias);
        }
        for column in (0..dim).step_by(width) {
            let columns = column..(column + width).min(dim);
            for (from, transposed) in (first..last).step_by(T::WIDTH).zip(all_transposed.chunks_exact_mut(panel_size)) {
                transpose::<T, I>(rows, dim, from, columns.clone(), transposed);
            }
            for (group, (component, height)) in groups(bias.len(), I::HEIGHT).enumerate() {
                let left = (directions.values[component * dim + column * height..].as_ptr(), 0);
                for (from, transposed) in
                    (first..last).step_by(I::RUNS * T::WIDTH).zip(all_transposed.chunks_exact(I::RUNS * panel_size))
                {
                    let size = (height, (last - from).div_ceil(T::WIDTH).min(I::RUNS));
                    let right = Runs { first: transposed.as_ptr(), step: T::WIDTH, beside: panel_size };
                    let next = next.wrapping_add((from + group * step) * dim + column * step);
                    let ahead = Runs { first: next, step, beside: T::WIDTH * dim };
                    let sums = &mut out[component * stride + from..(component + height) * stride];
                    // SAFETY: `directions.values` has `dim * height` values for the group (the first assertion), so `columns.len() * height`
                    // from these columns on. `transposed` is a slice of `WIDTH` values for each
                    // column of each panel. The sums are `stride` apart in a slice of
                    // `height * stride - from` values, and `from` plus the panels is at most
                    // `stride` (the second assertion).
                    unsafe {
                        let sums = (sums.as_mut_ptr(), stride);
                        products_of_group::<T, I, true>(columns.len(), size, left, right, ahead, sums);
                    }
                }
            }
        }
    }
}

/// Transposes some columns of a panel of rows into `out`; the last row is repeated to fill the
/// panel.
#[inline(always)]
fn transpose<T: Kernels, I: Instructions>(rows: &[T], dim: usize, first: usize, columns: Range<usize>, out: &mut [T]) {
    assert!(out.len() >= columns.len() * T::WIDTH && first * dim < rows.len());
    let last = rows.len() / dim - 1;
    let row = |i: usize| &rows[(first + i).min(last) * dim..][columns.clone()];
    // SAFETY: each row is a slice of `columns.len()` values, and `out` has `WIDTH` for each of them by the assertion above.
    let transposed = unsafe { T::transpose::<I>(|i| row(i).as_ptr(), columns.len(), out.as_mut_ptr()) };
    for (column, out) in out.chunks_exact_mut(T::WIDTH).enumerate().take(columns.len()).skip(transposed) {
        out.iter_mut().enumerate().for_each(|(i, out)| *out = row(i)[column]);
    }
}

/// Sums of weighted rows for each component, in the kernel's precision, stored in runs of `WIDTH`
/// columns. The last run ends at the last column, so it overlaps the run before it, or is padded if
/// the row is shorter than a run.
#[derive(Debug, Default)]
pub struct RowSums<T> {
    values: Vec<T>,
}

impl<T: Kernels> RowSums<T> {
    /// The first column of a run.
    #[inline(always)]
    fn begin(dim: usize, run: usize) -> usize {
        (run * T::WIDTH).min(dim.saturating_sub(T::WIDTH))
    }

    /// Adds the rows times their responsibilities, which are stored component by component,
    /// `stride` values apart.
    ///
    /// # Panics
    /// If `rows` is not a whole number of rows, if there are more than `stride` rows, or if the
    /// number of responsibilities is not a multiple of `stride`.
    #[inline(always)]
    pub fn add_weighted_rows<I: Instructions>(
        &mut self,
        rows: &[T],
        dim: usize,
        responsibilities: &[T],
        stride: usize,
        packing: &mut PackingBuffer<T>,
    ) {
        let (count, components, runs) = (rows.len() / dim, responsibilities.len() / stride, dim.div_ceil(T::WIDTH));
        assert!(rows.len() == count * dim && stride >= count && responsibilities.len() == components * stride);
        self.values.resize(components * runs * T::WIDTH, T::ZERO);
        for run in (0..runs).step_by(I::RUNS) {
            let at_once = (runs - run).min(I::RUNS);
            let (first, step) = if dim < T::WIDTH {
                packing.padded.clear();
                packing.padded.resize(count * T::WIDTH, T::ZERO);
                let padded_rows = packing.padded.chunks_exact_mut(T::WIDTH);
                padded_rows.zip(rows.chunks_exact(dim)).for_each(|(padded, row)| padded[..dim].copy_from_slice(row));
                (packing.padded.as_ptr(), T::WIDTH)
            } else {
                (rows[Self::begin(dim, run)..].as_ptr(), dim)
            };
            let right = Runs { first, step, beside: Self::begin(dim, run + 1) - Self::begin(dim, run) };
            for (component, height) in groups(components, I::HEIGHT) {
                let left = (responsibilities[component * stride..].as_ptr(), stride);
                let sums = &mut self.values[(component * runs + run) * T::WIDTH..][..((height - 1) * runs + at_once) * T::WIDTH];
                let nothing = Runs { first: left.0, step: 0, beside: 0 };
                // SAFETY: each component has `stride` responsibilities, at least one for each row (the assertion above). Each row, padded if it
                // is shorter than `WIDTH`, has `WIDTH` values from the first column of each run on
                // (`begin`). `sums` is a slice that ends with the last run of the last component.
                unsafe {
                    let sums = (sums.as_mut_ptr(), runs * T::WIDTH);
                    products_of_group::<T, I, false>(count, (height, at_once), left, right, nothing, sums);
                }
            }
        }
    }

    /// Adds the listed rows times their responsibilities to the sums of one of the components.
    ///
    /// # Panics
    /// If `dim` is less than `WIDTH`, `component` is not below `components`, or a listed row is not
    /// in `rows`.
    #[inline(always)]
    pub fn add_sparse_rows<I: Instructions>(
        &mut self,
        rows: &[T],
        dim: usize,
        listed: &SparseResponsibilities<T>,
        (component, components): (usize, usize),
    ) {
        let size = dim.div_ceil(T::WIDTH) * T::WIDTH;
        self.values.resize(components * size, T::ZERO);
        if listed.len > 0 {
            sum_sparse_rows::<T, I, true>(rows, dim, listed, &mut self.values[component * size..][..size]);
        }
    }

    /// Replaces all sums by those of one component: the listed rows times their responsibilities.
    ///
    /// # Panics
    /// If `dim` is less than `WIDTH`, or a listed row is not in `rows`.
    #[inline(always)]
    pub fn set_to_sparse_rows<I: Instructions>(&mut self, rows: &[T], dim: usize, listed: &SparseResponsibilities<T>) {
        self.values.resize(dim.div_ceil(T::WIDTH) * T::WIDTH, T::ZERO);
        sum_sparse_rows::<T, I, false>(rows, dim, listed, &mut self.values);
    }

    /// Adds all sums to `sums` (components x dim), and clears them.
    #[inline(always)]
    pub fn flush(&mut self, sums: &mut [f64], dim: usize) {
        self.add_to(sums, dim);
        self.values.clear();
    }

    /// Adds all sums to `sums` (components x dim).
    #[inline(always)]
    pub fn add_to(&self, sums: &mut [f64], dim: usize) {
        let runs = dim.div_ceil(T::WIDTH);
        for (sums, values) in sums.chunks_exact_mut(dim).zip(self.values.chunks_exact(runs * T::WIDTH)) {
            for (run, (sums, values)) in sums.chunks_mut(T::WIDTH).zip(values.chunks_exact(T::WIDTH)).enumerate() {
                let done = run * T::WIDTH - Self::begin(dim, run);
                sums.iter_mut().zip(&values[done..]).for_each(|(sum, x)| *sum += x.to_f64());
            }
        }
    }
}

/// Adds the listed rows times their responsibilities to the sums of one component, in the layout of
/// [`RowSums`], or replaces the sums.
#[inline(always)]
fn sum_sparse_rows<T: Kernels, I: Instructions, const ADD: bool>(
    rows: &[T],
    dim: usize,
    listed: &SparseResponsibilities<T>,
    sums: &mut [T],
) {
    let runs = dim.div_ceil(T::WIDTH);
    // Rows are listed in ascending order.
    let last_row = listed.rows[..listed.len].last().map_or(0, |row| *row as usize);
    assert!(dim >= T::WIDTH && sums.len() == runs * T::WIDTH && last_row < rows.len() / dim);
    for (run, height) in groups(runs, I::SPAN) {
        let first = RowSums::<T>::begin(dim, run);
        let (columns, last) = ((rows[first..].as_ptr(), dim), RowSums::<T>::begin(dim, run + height - 1) - first);
        let sums = sums[run * T::WIDTH..][..height * T::WIDTH].as_mut_ptr();
        macro_rules! of_height {
            ($height:literal) => {
                // SAFETY: no listed row is beyond `last_row`, which is in `rows` (the assertion above), and `begin` leaves `WIDTH` columns in
                // each run; `sums` is a slice of `WIDTH` values for each run.
                unsafe { T::sparse_products::<I, ADD, $height>(listed, columns, last, sums) }
            };
        }
        by_height!(height, I::SPAN, of_height)
    }
}

/// Lists the rows whose responsibility is above 0.
///
/// # Panics
/// If the number of responsibilities is not a multiple of `WIDTH` or exceeds the list's capacity.
#[inline(always)]
pub fn list_responsibilities<T: Kernels, I: Instructions>(responsibilities: &[T], listed: &mut SparseResponsibilities<T>) {
    let capacity = listed.rows.len().min(listed.values.len());
    assert!(responsibilities.len().is_multiple_of(T::WIDTH) && responsibilities.len() + T::WIDTH <= capacity);
    T::list::<I>(responsibilities, listed);
}

/// Adds factor * row to `sum`.
#[inline(always)]
pub fn add_row<T: Kernels, I: Instructions>(sum: &mut [f64], factor: f64, row: &[T]) {
    for (sum, x) in sum.iter_mut().zip(row) {
        *sum = factor.multiply_add::<I>(x.to_f64(), *sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instructions::{Plain, Work, on_every_processor};
    use crate::test_numbers::numbers;

    /// Both products of an E step.
    #[derive(Clone, Copy)]
    struct Both<'a, T> {
        rows: &'a [T],
        directions: &'a [f64],
        bias: &'a [T],
    }

    impl<T: Kernels> Work for Both<'_, T> {
        /// The logits, component by component, and the sums of rows times logits.
        type Output = (Vec<T>, Vec<f64>);

        #[inline(always)]
        fn run<I: Instructions>(self) -> Self::Output {
            let Both { rows, directions, bias } = self;
            let dim = directions.len() / bias.len();
            let count = rows.len() / dim;
            let stride = count.next_multiple_of(T::WIDTH);
            let (mut packing, mut logits) = (PackingBuffer::default(), vec![T::ZERO; bias.len() * stride]);
            let directions = &GroupedDirections::new(I::HEIGHT, bias.len(), dim, |k| (1.0, &directions[k * dim..][..dim]));
            row_products::<T, I>((rows, None), directions, bias, &mut logits, stride, &mut packing);
            let (mut sums, mut total) = (RowSums::default(), vec![0.0; bias.len() * dim]);
            sums.add_weighted_rows::<I>(rows, dim, &logits, stride, &mut packing);
            sums.flush(&mut total, dim);
            (logits.chunks_exact(stride).flat_map(|logits| logits[..count].to_vec()).collect(), total)
        }
    }

    /// Every group size, whole and partial panels and runs, and directions larger than the cache.
    fn check<T: Kernels + std::fmt::Debug>(rounding: f64) {
        let sizes = (1..=27).map(|components| (components, 19, 37)).chain((1..=67).map(|dim| (5, dim, 21)));
        let sizes = sizes.chain((1..=70).map(|rows| (7, 130, rows))).chain([(40, 1000, 70)]);
        for (components, dim, rows) in sizes {
            let rows = numbers::<T>(rows * dim, 1);
            let (directions, bias) = (numbers::<f64>(components * dim, 2), numbers::<T>(components, 3));
            let work = Both { rows: &rows, directions: &directions, bias: &bias };
            let (plain, sums) = work.run::<Plain>();
            let row = |row: usize| rows[row * dim..][..dim].iter().map(|x| x.to_f64());
            let count = rows.len() / dim;
            let near = |found: f64, expected: f64| (found - expected).abs() <= rounding * (1.0 + expected.abs());
            for (index, found) in plain.iter().enumerate() {
                let component = index / count;
                let direction = directions[component * dim..][..dim].iter();
                let expected = bias[component].to_f64() + row(index % count).zip(direction).map(|(x, m)| x * m).sum::<f64>();
                assert!(
                    near(found.to_f64(), expected),
                    "{components} components, {dim} dimensions, {count} rows: {found:?} {expected}"
                );
            }
            for (index, found) in sums.iter().enumerate() {
                let (component, column) = (index / dim, index % dim);
                let expected: f64 =
                    (0..count).map(|r| plain[component * count + r].to_f64() * rows[r * dim + column].to_f64()).sum();
                assert!(near(*found, expected), "{components} components, {dim} dimensions, {count} rows: {found} {expected}");
            }
            let best = on_every_processor(work);
            assert!(best.0.iter().zip(&plain).all(|(a, b)| near(a.to_f64(), b.to_f64())));
            assert!(best.1.iter().zip(&sums).all(|(a, b)| near(*a, *b)));
        }
    }

    #[test]
    fn products_match_a_plain_sum_and_avx512_agrees_with_avx2() {
        check::<f32>(1e-5);
        check::<f64>(1e-14);
    }
}
