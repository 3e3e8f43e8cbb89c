//! The two matrix products of an E step, and the registers they run in.
//!
//! Both products are sums of outer products of a few numbers from each of [`HEIGHT`] places and one run of `WIDTH` neighbours, kept in
//! registers from the first term to the last: rows times packed directions, and responsibilities times rows. Neither packs the rows; each
//! sum is taken in the order of its terms, so that a row's products do not depend on its neighbours.
//!
//! Everything is written once, for both precisions, and compiled for AVX2 with fused multiply-add and for the plain target
//! (see [`with_best_instructions`]). The two differ in the last bits, like any two processors.

use crate::block::Scalar;

/// Rows (or components) that one kernel call serves.
const HEIGHT: usize = 6;

/// What the kernels need of f32 and f64.
pub(super) trait Real:
    Scalar + std::ops::Add<Output = Self> + std::ops::Sub<Output = Self> + std::ops::Mul<Output = Self> + PartialOrd
{
    /// Neighbours that one kernel call serves: two registers of 256 bits. What is computed for components is padded to a multiple of it.
    const WIDTH: usize;
    const ZERO: Self;
    const ONE: Self;
    /// A responsibility below this counts as 0, so that the second product may be sparse: less than the rounding of the others.
    const SMALLEST_SHARE: f64;
    const NEGATIVE_INFINITY: Self;
    /// Rows in this precision: as they are, or converted.
    fn view_f32<'a>(values: &'a [f32], room: &'a mut Vec<Self>) -> &'a [Self];
    /// The same for rows in double precision.
    fn view_f64<'a>(values: &'a [f64], room: &'a mut Vec<Self>) -> &'a [Self];
    /// self * factor + term, with one rounding if `FUSED`.
    fn multiply_add<const FUSED: bool>(self, factor: Self, term: Self) -> Self;
    /// e^self for self <= 0, to about an ulp; what is too small for a normal number is replaced by one of the smallest of them.
    fn exp_of_negative<const FUSED: bool>(self) -> Self;
    /// # Safety
    /// As [`outer_products`].
    unsafe fn outer_products<const FUSED: bool, const STEP: usize>(
        terms: usize,
        left: [*const Self; HEIGHT],
        right: *const Self,
        out: impl FnMut(usize, &[Self]),
    );
}

macro_rules! real {
    ($float:ident, $view_f32:ident, $view_f64:ident, $width:expr, $smallest_share:expr, $mantissa:expr, $bias:expr, $lowest:expr, $ln2_high:expr, $ln2_low:expr, $terms:expr) => {
        impl Real for $float {
            const WIDTH: usize = $width;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const SMALLEST_SHARE: f64 = $smallest_share;
            const NEGATIVE_INFINITY: Self = $float::NEG_INFINITY;

            fn view_f32<'a>(values: &'a [f32], room: &'a mut Vec<Self>) -> &'a [Self] {
                $view_f32(values, room)
            }

            fn view_f64<'a>(values: &'a [f64], room: &'a mut Vec<Self>) -> &'a [Self] {
                $view_f64(values, room)
            }

            #[inline(always)]
            fn multiply_add<const FUSED: bool>(self, factor: Self, term: Self) -> Self {
                if FUSED { self.mul_add(factor, term) } else { self * factor + term }
            }

            #[inline(always)]
            fn exp_of_negative<const FUSED: bool>(self) -> Self {
                // Adding this leaves the nearest whole number in the low bits.
                const SHIFT: $float = 1.5 * (1u64 << $mantissa) as $float;
                let x = if self > $lowest { self } else { $lowest };
                let shifted = x.multiply_add::<FUSED>(std::$float::consts::LOG2_E, SHIFT);
                let n = shifted - SHIFT;
                let r = n.multiply_add::<FUSED>(-$ln2_low, n.multiply_add::<FUSED>(-$ln2_high, x));
                // Taylor's series: |r| <= ln(2)/2, and 1/n! needs no table of fitted coefficients.
                let mut sum: $float = INVERSE_FACTORIALS[$terms] as $float;
                let mut term = $terms;
                while term > 0 {
                    term -= 1;
                    sum = sum.multiply_add::<FUSED>(r, INVERSE_FACTORIALS[term] as $float);
                }
                let power = $float::from_bits((shifted.to_bits() << $mantissa).wrapping_add($bias << $mantissa));
                sum * power
            }

            #[inline(always)]
            unsafe fn outer_products<const FUSED: bool, const STEP: usize>(
                terms: usize,
                left: [*const Self; HEIGHT],
                right: *const Self,
                out: impl FnMut(usize, &[Self]),
            ) {
                // SAFETY: the caller's promise.
                unsafe { outer_products::<Self, FUSED, STEP, $width>(terms, left, right, out) }
            }
        }
    };
}

// ln 2 in two parts, of which the first times any exponent that occurs is exact.
real!(f32, unchanged, converted, 16, 1e-8, 23, 127, -87.0, 0.693_359_375, -2.121_944_4e-4, 7);
real!(f64, converted, unchanged, 8, 1e-14, 52, 1023, -708.0, 0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10, 13);

fn unchanged<'a, T>(values: &'a [T], _: &'a mut Vec<T>) -> &'a [T] {
    values
}

fn converted<'a, T: Scalar, U: Scalar>(values: &'a [T], room: &'a mut Vec<U>) -> &'a [U] {
    room.clear();
    room.extend(values.iter().map(|x| U::from_f64(x.to_f64())));
    room
}

const INVERSE_FACTORIALS: [f64; 14] = {
    let mut table = [1.0; 14];
    let mut n = 1;
    while n < 14 {
        table[n] = table[n - 1] / n as f64;
        n += 1;
    }
    table
};

/// Sums over p of left(p, i) right(p, j) for each place i and each of `WIDTH` neighbours j; `out` gets place i and its sums.
///
/// # Safety
/// For every p < terms, `left[i] + p * STEP` is readable for each i, and so are `WIDTH` values from `right + p * WIDTH` on.
#[inline(always)]
unsafe fn outer_products<T: Real, const FUSED: bool, const STEP: usize, const WIDTH: usize>(
    terms: usize,
    left: [*const T; HEIGHT],
    right: *const T,
    mut out: impl FnMut(usize, &[T]),
) {
    let mut sums = [[T::ZERO; WIDTH]; HEIGHT];
    for p in 0..terms {
        // SAFETY: the caller's promise.
        let neighbours = unsafe { *right.add(p * WIDTH).cast::<[T; WIDTH]>() };
        for (place, sums) in left.iter().zip(&mut sums) {
            // SAFETY: the caller's promise.
            let factor = unsafe { *place.add(p * STEP) };
            for (sum, x) in sums.iter_mut().zip(neighbours) {
                *sum = factor.multiply_add::<FUSED>(x, *sum);
            }
        }
    }
    for (i, sums) in sums.iter().enumerate() {
        out(i, sums);
    }
}

/// Directions, packed for [`row_products`]: panels of `WIDTH` components, each coordinate by coordinate.
#[derive(Debug, Clone)]
pub(super) struct Panels<T> {
    dim: usize,
    components: usize,
    values: Vec<T>,
}

impl<T: Real> Panels<T> {
    /// `entry(k, j)` is coordinate j of component k.
    pub(super) fn new(components: usize, dim: usize, entry: impl Fn(usize, usize) -> f64) -> Self {
        let panels = components.div_ceil(T::WIDTH);
        let mut values = vec![T::ZERO; panels * T::WIDTH * dim];
        for k in 0..components {
            let panel = &mut values[k / T::WIDTH * T::WIDTH * dim..];
            (0..dim).for_each(|j| panel[j * T::WIDTH + k % T::WIDTH] = T::from_f64(entry(k, j)));
        }
        Panels { dim, components, values }
    }

    /// The products of one sparse row with each direction.
    #[inline(always)]
    pub(super) fn sparse_products<V: Scalar, const FUSED: bool>(&self, columns: &[u32], values: &[V], out: &mut [T]) {
        for (panel, sums) in self.values.chunks_exact(T::WIDTH * self.dim).zip(out.chunks_exact_mut(T::WIDTH)) {
            sums.fill(T::ZERO);
            for (&column, x) in columns.iter().zip(values) {
                let directions = &panel[column as usize * T::WIDTH..][..T::WIDTH];
                let x = T::from_f64(x.to_f64());
                sums.iter_mut().zip(directions).for_each(|(sum, &m)| *sum = x.multiply_add::<FUSED>(m, *sum));
            }
        }
    }

    /// The number of components and the padding behind them.
    pub(super) fn padded(&self) -> usize {
        self.components.next_multiple_of(T::WIDTH)
    }
}

/// Rows are asked for this many kernel calls before they are needed: the processor's own guess ends at every page.
const AHEAD: usize = 4;

/// Asks for values that will be needed soon; also for those behind the last one, which are often the next tile's.
#[inline(always)]
fn prefetch<T>(values: &[T], from: usize, count: usize) {
    #[cfg(target_arch = "x86_64")]
    for place in (from..from + count).step_by(64 / size_of::<T>()) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which no address makes fail; SSE is part of every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(values.as_ptr().wrapping_add(place).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, from, count);
}

/// The products of each row with each direction, row by row into `out`, padding included.
#[inline(always)]
pub(super) fn row_products<T: Real, const FUSED: bool>(rows: &[T], panels: &Panels<T>, out: &mut [T]) {
    let (dim, padded) = (panels.dim, panels.padded());
    let count = rows.len() / dim;
    assert!(out.len() >= count * padded && rows.len() == count * dim && panels.values.len() == padded * dim);
    for (panel, values) in panels.values.chunks_exact(T::WIDTH * dim).enumerate() {
        for first in (0..count).step_by(HEIGHT) {
            if panel == 0 {
                // Later panels find the rows in cache.
                prefetch(rows, (first + AHEAD * HEIGHT) * dim, HEIGHT * dim);
            }
            // Places past the last row repeat it, and their sums are dropped.
            let row = |i: usize| rows[(first + i).min(count - 1) * dim..].as_ptr();
            // SAFETY: each place is the start of a row of dim values, and a panel has WIDTH values for each coordinate.
            unsafe {
                T::outer_products::<FUSED, 1>(dim, std::array::from_fn(row), values.as_ptr(), |i, sums| {
                    if first + i < count {
                        out[(first + i) * padded + panel * T::WIDTH..][..T::WIDTH].copy_from_slice(sums);
                    }
                });
            }
        }
    }
}

/// Room for packing what [`add_weighted_rows`] reads again and again.
#[derive(Debug, Default)]
pub(super) struct Packing<T> {
    left: Vec<T>,
    right: Vec<T>,
    products: Vec<T>,
}

/// Adds to each component's sum (f64, components x dim) the rows times their responsibilities (rows x padded).
#[inline(always)]
pub(super) fn add_weighted_rows<T: Real, const FUSED: bool>(
    rows: &[T],
    dim: usize,
    responsibilities: &[T],
    padded: usize,
    sums: &mut [f64],
    packing: &mut Packing<T>,
) {
    let (count, components) = (rows.len() / dim, sums.len() / dim);
    assert!(responsibilities.len() >= count * padded && components <= padded && rows.len() == count * dim);
    let Packing { left, right, products } = packing;
    products.resize(HEIGHT * T::WIDTH, T::ZERO);
    // Groups of HEIGHT components, each row by row.
    left.clear();
    left.resize(components.div_ceil(HEIGHT) * count * HEIGHT, T::ZERO);
    for (group, values) in left.chunks_exact_mut(count * HEIGHT).enumerate() {
        for (place, row) in values.chunks_exact_mut(HEIGHT).zip(responsibilities.chunks_exact(padded)) {
            match row.get(group * HEIGHT..(group + 1) * HEIGHT) {
                Some(whole) => place.copy_from_slice(whole),
                None => row[group * HEIGHT..].iter().zip(place).for_each(|(q, place)| *place = *q),
            }
        }
    }
    right.clear();
    right.resize(count * T::WIDTH, T::ZERO);
    for column in (0..dim).step_by(T::WIDTH) {
        for (run, row) in right.chunks_exact_mut(T::WIDTH).zip(rows.chunks_exact(dim)) {
            match row.get(column..column + T::WIDTH) {
                Some(whole) => run.copy_from_slice(whole),
                None => run[..dim - column].copy_from_slice(&row[column..]),
            }
        }
        for (group, values) in left.chunks_exact(count * HEIGHT).enumerate() {
            let place = |i: usize| values[i..].as_ptr();
            // SAFETY: both are packed: HEIGHT values and WIDTH values for each row.
            unsafe {
                T::outer_products::<FUSED, HEIGHT>(count, std::array::from_fn(place), right.as_ptr(), |i, sums| {
                    products[i * T::WIDTH..][..T::WIDTH].copy_from_slice(sums);
                });
            }
            let sums = sums[group * HEIGHT * dim..].chunks_mut(dim).take(HEIGHT);
            for (sums, products) in sums.zip(products.chunks_exact(T::WIDTH)) {
                sums[column..].iter_mut().zip(products).for_each(|(sum, x)| *sum += x.to_f64());
            }
        }
    }
}

/// Adds factor * row to a sum in f64.
#[inline(always)]
pub(super) fn add_row<T: Real, const FUSED: bool>(sum: &mut [f64], factor: f64, row: &[T]) {
    for (sum, x) in sum.iter_mut().zip(row) {
        *sum = factor.multiply_add::<FUSED>(x.to_f64(), *sum);
    }
}

/// A piece of work that is written once and compiled for each set of instructions.
pub(super) trait Work {
    type Output;
    /// Must be `#[inline(always)]`, and so must all that it calls in its loops.
    fn run<const FUSED: bool>(self) -> Self::Output;
}

/// Runs it with the best instructions that this processor has.
pub(super) fn with_best_instructions<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn run_fused<W: Work>(work: W) -> W::Output {
            work.run::<true>()
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            // SAFETY: the processor has AVX2 and FMA.
            return unsafe { run_fused(work) };
        }
        work.run::<false>()
    }
    // Every aarch64 fuses; elsewhere `mul_add` may be a slow library call.
    #[cfg(not(target_arch = "x86_64"))]
    if cfg!(target_arch = "aarch64") { work.run::<true>() } else { work.run::<false>() }
}
