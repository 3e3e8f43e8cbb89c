//! The two matrix products of an E step, and the registers they run in.
//!
//! Both are sums of outer products, over the coordinates or over the rows, of one number from each of a few components and one run of
//! `WIDTH` neighbours, kept in registers from the first term to the last. In the first product the neighbours are rows, which are turned for it
//! a panel of `WIDTH` rows at a time; in the second they are the coordinates of a row as it lies. Each sum is taken in the order of its
//! terms, so that a row's products do not depend on its neighbours. With rows side by side a log-sum-exp needs no step across lanes,
//! and a number of components that is no multiple of `WIDTH` wastes nothing.
//!
//! With a few directions rows are not turned (`few`), and where most shares are nothing the second product goes through the others one by one (`listed`).
//!
//! Everything is written once, for both precisions, and compiled for AVX-512, for AVX2 with fused multiply-add and for the plain target
//! (see [`with_best_instructions`]); the innermost loops of the first are in `wide`. It and the second give the same bits; the plain target differs in the
//! last ones, like any other processor.

#[cfg(target_arch = "x86_64")]
use super::few;
use super::few::Panel;
use super::listed::{self, Listed};
#[cfg(target_arch = "x86_64")]
use super::wide;
use crate::block::Scalar;
use crate::vector::{LINE, prefetch_early};
use std::ops::Range;

/// What kernels are compiled for.
pub(super) trait Instructions {
    /// A product and a sum have one rounding.
    const FUSED: bool;
    /// 32 registers of 512 bits, not 16 of 256.
    const WIDE: bool = false;
    /// Components that one kernel call serves at most.
    const HEIGHT: usize = if Self::WIDE { 12 } else { 6 };
    /// Runs of neighbours that it serves at most.
    const RUNS: usize = if Self::WIDE { 2 } else { 1 };
    /// Runs of columns that are summed together at most where rows are listed.
    const SPAN: usize = if Self::WIDE { 8 } else { 7 };
}

struct Plain;

impl Instructions for Plain {
    const FUSED: bool = false;
}

pub(super) struct Fused;

impl Instructions for Fused {
    const FUSED: bool = true;
}

#[cfg(target_arch = "x86_64")]
struct Wide;

#[cfg(target_arch = "x86_64")]
impl Instructions for Wide {
    const FUSED: bool = true;
    const WIDE: bool = true;
}

/// What the kernels need of f32 and f64.
pub(super) trait Real:
    Scalar
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + PartialOrd
{
    /// Neighbours in a run: two registers of 256 bits, or one of 512.
    const WIDTH: usize;
    const ZERO: Self;
    const ONE: Self;
    /// A responsibility below this counts as 0, so that the second product may be sparse: less than the rounding of the others.
    const SMALLEST_SHARE: f64;
    const INFINITY: Self;
    const NEGATIVE_INFINITY: Self;
    /// Rows in this precision: as they are, or converted.
    fn view_f32<'a>(values: &'a [f32], room: &'a mut Vec<Self>) -> &'a [Self];
    /// The same for rows in double precision.
    fn view_f64<'a>(values: &'a [f64], room: &'a mut Vec<Self>) -> &'a [Self];
    /// self * factor + term, with one rounding where that is what instructions do.
    fn multiply_add<I: Instructions>(self, factor: Self, term: Self) -> Self;
    /// e^self for self <= 0, to about an ulp; what is too small for a normal number is replaced by one of the smallest of them.
    fn exp_of_negative<I: Instructions>(self) -> Self;
    /// Turns the first columns of a panel of rows, as many as a fast way does, and gives their number: column by column into `out`, each `WIDTH` rows.
    ///
    /// # Safety
    /// Each of the rows has `dim` values, and `out` has room for `dim` times `WIDTH`.
    unsafe fn turn<I: Instructions>(rows: impl Fn(usize) -> *const Self, dim: usize, out: *mut Self) -> usize;
    /// # Safety
    /// As [`outer_products`].
    unsafe fn outer_products<I: Instructions, const GROUPED: bool, const HEIGHT: usize, const RUNS: usize>(
        terms: usize,
        left: (*const Self, usize),
        right: Runs<Self>,
        ahead: Runs<Self>,
        sums: (*mut Self, usize),
    );
    /// # Safety
    /// As [`listed::listed_products`].
    unsafe fn listed_products<I: Instructions, const ADD: bool, const SPAN: usize>(
        listed: &Listed<Self>,
        columns: (*const Self, usize),
        last: usize,
        sums: *mut Self,
    );
    /// The kernels of `few`.
    ///
    /// # Safety
    /// What the panel points to is there, for `HEIGHT` components.
    unsafe fn panel_products<I: Instructions, const HEIGHT: usize>(panel: &Panel<Self>);
    /// As [`listed::list_shares`].
    fn list_shares<I: Instructions>(shares: &[Self], listed: &mut Listed<Self>);
}

macro_rules! real {
    ($float:ident, $view_f32:ident, $view_f64:ident, $turn:ident, $outer_products:ident, $listed_products:ident, $list_shares:ident, [$($wide_products:ident, $fused_products:ident)?], $width:expr, $smallest_share:expr, $mantissa:expr, $bias:expr, $lowest:expr, $ln2_high:expr, $ln2_low:expr, $terms:expr) => {
        impl Real for $float {
            const WIDTH: usize = $width;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const SMALLEST_SHARE: f64 = $smallest_share;
            const INFINITY: Self = $float::INFINITY;
            const NEGATIVE_INFINITY: Self = $float::NEG_INFINITY;

            fn view_f32<'a>(values: &'a [f32], room: &'a mut Vec<Self>) -> &'a [Self] {
                $view_f32(values, room)
            }

            fn view_f64<'a>(values: &'a [f64], room: &'a mut Vec<Self>) -> &'a [Self] {
                $view_f64(values, room)
            }

            #[inline(always)]
            fn multiply_add<I: Instructions>(self, factor: Self, term: Self) -> Self {
                if I::FUSED { self.mul_add(factor, term) } else { self * factor + term }
            }

            #[inline(always)]
            fn exp_of_negative<I: Instructions>(self) -> Self {
                // Adding this leaves the nearest whole number in the low bits.
                const SHIFT: $float = 1.5 * (1u64 << $mantissa) as $float;
                let x = if self > $lowest { self } else { $lowest };
                let shifted = x.multiply_add::<I>(std::$float::consts::LOG2_E, SHIFT);
                let n = shifted - SHIFT;
                let r = n.multiply_add::<I>(-$ln2_low, n.multiply_add::<I>(-$ln2_high, x));
                // Taylor's series: |r| <= ln(2)/2, and 1/n! needs no table of fitted coefficients.
                let mut sum: $float = INVERSE_FACTORIALS[$terms] as $float;
                let mut term = $terms;
                while term > 0 {
                    term -= 1;
                    sum = sum.multiply_add::<I>(r, INVERSE_FACTORIALS[term] as $float);
                }
                let power = $float::from_bits((shifted.to_bits() << $mantissa).wrapping_add($bias << $mantissa));
                sum * power
            }

            #[inline(always)]
            unsafe fn turn<I: Instructions>(rows: impl Fn(usize) -> *const Self, dim: usize, out: *mut Self) -> usize {
                #[cfg(target_arch = "x86_64")]
                if I::WIDE {
                    // SAFETY: the caller's promise; what is wide runs where there is AVX-512.
                    return unsafe { wide::$turn(rows, dim, out) };
                }
                #[cfg(target_arch = "x86_64")]
                if I::FUSED {
                    // SAFETY: the caller's promise; what is fused runs where there is AVX2.
                    return unsafe { avx::$turn(rows, dim, out) };
                }
                let _ = (rows, dim, out);
                0
            }

            #[inline(always)]
            unsafe fn outer_products<I: Instructions, const GROUPED: bool, const HEIGHT: usize, const RUNS: usize>(
                terms: usize,
                left: (*const Self, usize),
                right: Runs<Self>,
                ahead: Runs<Self>,
                sums: (*mut Self, usize),
            ) {
                #[cfg(target_arch = "x86_64")]
                if I::WIDE {
                    // SAFETY: the caller's promise; what is wide runs where there is AVX-512.
                    return unsafe { wide::$outer_products::<GROUPED, HEIGHT, RUNS>(terms, left, right, ahead, sums) };
                }
                debug_assert!(RUNS <= I::RUNS);
                // SAFETY: the caller's promise.
                unsafe { outer_products::<Self, I, GROUPED, HEIGHT, $width>(terms, left, right, ahead, sums) }
            }

            #[inline(always)]
            unsafe fn listed_products<I: Instructions, const ADD: bool, const SPAN: usize>(
                listed: &Listed<Self>,
                columns: (*const Self, usize),
                last: usize,
                sums: *mut Self,
            ) {
                #[cfg(target_arch = "x86_64")]
                if I::WIDE {
                    // SAFETY: the caller's promise; what is wide runs where there is AVX-512.
                    return unsafe { wide::$listed_products::<ADD, SPAN>(listed, columns, last, sums) };
                }
                // SAFETY: the caller's promise.
                unsafe { listed::listed_products::<Self, I, ADD, SPAN, $width>(listed, columns, last, sums) }
            }

            #[inline(always)]
            unsafe fn panel_products<I: Instructions, const HEIGHT: usize>(panel: &Panel<Self>) {
                $(
                    #[cfg(target_arch = "x86_64")]
                    if I::WIDE {
                        // SAFETY: the caller's promise; what is wide runs where there is AVX-512.
                        return unsafe { few::x86::$wide_products::<HEIGHT>(panel) };
                    }
                    #[cfg(target_arch = "x86_64")]
                    if I::FUSED {
                        // SAFETY: the caller's promise; what is fused runs where there are AVX and fused multiplications.
                        return unsafe { few::x86::$fused_products::<HEIGHT>(panel) };
                    }
                )?
                let _ = panel;
                unreachable!("a few directions are for processors and numbers that have kernels for them")
            }

            #[inline(always)]
            fn list_shares<I: Instructions>(shares: &[Self], listed: &mut Listed<Self>) {
                #[cfg(target_arch = "x86_64")]
                if I::WIDE {
                    // SAFETY: what is wide runs where there is AVX-512.
                    return unsafe { wide::$list_shares(shares, listed) };
                }
                listed::list_shares::<Self, $width>(shares, listed)
            }
        }
    };
}

// ln 2 in two parts, of which the first times any exponent that occurs is exact.
real!(
    f32,
    unchanged,
    converted,
    turn_f32,
    outer_products_f32,
    listed_products_f32,
    list_shares_f32,
    [wide_products, fused_products],
    16,
    1e-8,
    23,
    127,
    -87.0,
    0.693_359_375,
    -2.121_944_4e-4,
    7
);
real!(
    f64,
    converted,
    unchanged,
    turn_f64,
    outer_products_f64,
    listed_products_f64,
    list_shares_f64,
    [],
    8,
    1e-14,
    52,
    1023,
    -708.0,
    0.693_147_180_369_123_8,
    1.908_214_929_270_587_7e-10,
    13
);

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

/// Turning rows by the shuffles of AVX.
#[cfg(target_arch = "x86_64")]
mod avx {
    use std::arch::x86_64::*;

    /// Four columns at a time of 16 rows.
    ///
    /// # Safety
    /// As [`super::Real::turn`], with AVX.
    #[target_feature(enable = "avx")]
    #[inline]
    pub(super) unsafe fn turn_f32(rows: impl Fn(usize) -> *const f32, dim: usize, out: *mut f32) -> usize {
        let whole = dim - dim % 4;
        for eight in [0, 8] {
            let rows: [*const f32; 8] = std::array::from_fn(|i| rows(eight + i));
            for column in (0..whole).step_by(4) {
                // SAFETY: the caller's promise: four values from `column` on in each row, and 16 places a column.
                unsafe {
                    // Row i beside row i + 4.
                    let [a, b, c, d]: [__m256; 4] = std::array::from_fn(|i| {
                        let (low, high) = (_mm_loadu_ps(rows[i].add(column)), _mm_loadu_ps(rows[i + 4].add(column)));
                        _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high)
                    });
                    let (ab, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                    let (cd, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
                    let place = out.add(column * 16 + eight);
                    _mm256_storeu_ps(place, _mm256_shuffle_ps::<0x44>(ab, cd));
                    _mm256_storeu_ps(place.add(16), _mm256_shuffle_ps::<0xee>(ab, cd));
                    _mm256_storeu_ps(place.add(32), _mm256_shuffle_ps::<0x44>(ab_high, cd_high));
                    _mm256_storeu_ps(place.add(48), _mm256_shuffle_ps::<0xee>(ab_high, cd_high));
                }
            }
        }
        whole
    }

    /// Two columns at a time of 8 rows.
    ///
    /// # Safety
    /// As [`super::Real::turn`], with AVX.
    #[target_feature(enable = "avx")]
    #[inline]
    pub(super) unsafe fn turn_f64(rows: impl Fn(usize) -> *const f64, dim: usize, out: *mut f64) -> usize {
        let whole = dim - dim % 2;
        for four in [0, 4] {
            let rows: [*const f64; 4] = std::array::from_fn(|i| rows(four + i));
            for column in (0..whole).step_by(2) {
                // SAFETY: the caller's promise: two values from `column` on in each row, and 8 places a column.
                unsafe {
                    // Row i beside row i + 2.
                    let [a, b]: [__m256d; 2] = std::array::from_fn(|i| {
                        let (low, high) = (_mm_loadu_pd(rows[i].add(column)), _mm_loadu_pd(rows[i + 2].add(column)));
                        _mm256_insertf128_pd::<1>(_mm256_castpd128_pd256(low), high)
                    });
                    let place = out.add(column * 8 + four);
                    _mm256_storeu_pd(place, _mm256_unpacklo_pd(a, b));
                    _mm256_storeu_pd(place.add(8), _mm256_unpackhi_pd(a, b));
                }
            }
        }
        whole
    }
}

/// Runs of neighbours, or of memory, term by term.
#[derive(Clone, Copy)]
pub(super) struct Runs<T> {
    pub first: *const T,
    /// From a term to the next.
    pub step: usize,
    /// From a run to the one beside it, where a kernel call serves two.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub beside: usize,
}

/// Where the factor of term p for place i is: the terms of each place one behind the other, `apart` from those of the next; or, grouped, the places of each term.
#[inline(always)]
pub(super) fn place_of<const GROUPED: bool, const HEIGHT: usize>(p: usize, i: usize, apart: usize) -> usize {
    if GROUPED { p * HEIGHT + i } else { i * apart + p }
}

/// Adds to the value at place i and neighbour j, for each of `HEIGHT` places and `WIDTH` neighbours, the sum over p of left(p, i) right(p, j). Meanwhile it asks
/// for the memory at `ahead`.
///
/// # Safety
/// For every p < terms, the value of `left` at the [`place_of`] p and i is readable for each i, and so are `WIDTH` values from `right.first + p * right.step` on, and from as far beside it as each
/// further run is; `WIDTH` values a run from `sums.0 + i * sums.1` on are there to be changed for each i.
#[inline(always)]
unsafe fn outer_products<T: Real, I: Instructions, const GROUPED: bool, const HEIGHT: usize, const WIDTH: usize>(
    terms: usize,
    left: (*const T, usize),
    right: Runs<T>,
    ahead: Runs<T>,
    (sums, sums_step): (*mut T, usize),
) {
    let mut products = [[T::ZERO; WIDTH]; HEIGHT];
    for p in 0..terms {
        prefetch_early(ahead.first.wrapping_add(p * ahead.step));
        // SAFETY: the caller's promise.
        let neighbours = unsafe { *right.first.add(p * right.step).cast::<[T; WIDTH]>() };
        for (i, products) in products.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            let factor = unsafe { *left.0.add(place_of::<GROUPED, HEIGHT>(p, i, left.1)) };
            for (product, x) in products.iter_mut().zip(neighbours) {
                *product = factor.multiply_add::<I>(x, *product);
            }
        }
    }
    for (i, products) in products.iter().enumerate() {
        // SAFETY: the caller's promise.
        let sums = unsafe { &mut *sums.add(i * sums_step).cast::<[T; WIDTH]>() };
        sums.iter_mut().zip(products).for_each(|(sum, product)| *sum = *sum + *product);
    }
}

/// Calls a macro with the height as a literal, from 1 to `most`, which is known when this is compiled.
macro_rules! by_height {
    ($height:expr, $most:expr, $of_height:ident) => {
        match $height {
            1 => $of_height!(1),
            2 => $of_height!(2),
            3 => $of_height!(3),
            4 => $of_height!(4),
            5 => $of_height!(5),
            6 => $of_height!(6),
            7 if $most >= 7 => $of_height!(7),
            8 if $most >= 8 => $of_height!(8),
            9 if $most >= 9 => $of_height!(9),
            10 if $most >= 10 => $of_height!(10),
            11 if $most >= 11 => $of_height!(11),
            12 if $most >= 12 => $of_height!(12),
            _ => unreachable!("groups have 1 to {} members", $most),
        }
    };
}
pub(super) use by_height;

/// The same for any number of components up to the [`Instructions::HEIGHT`], and of runs up to the [`Instructions::RUNS`].
///
/// # Safety
/// As [`outer_products`].
#[inline(always)]
unsafe fn products_of_group<T: Real, I: Instructions, const GROUPED: bool>(
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
                // SAFETY: the caller's promise.
                unsafe { T::outer_products::<I, GROUPED, $height, 2>(terms, left, right, ahead, sums) }
            } else {
                // SAFETY: the caller's promise.
                unsafe { T::outer_products::<I, GROUPED, $height, 1>(terms, left, right, ahead, sums) }
            }
        }};
    }
    by_height!(height, I::HEIGHT, of_height)
}

/// Groups of components for one kernel call each, as equal as can be: the first of a group, and how many there are.
#[inline(always)]
pub(super) fn groups(components: usize, highest: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = components.div_ceil(highest);
    (0..count).map(move |group| {
        let (from, to) = (group * components / count, (group + 1) * components / count);
        (from, to - from)
    })
}

/// The most components of a group with the best instructions.
pub(super) fn highest_group() -> usize {
    struct Highest;
    impl Work for Highest {
        type Output = usize;
        fn run<I: Instructions>(self) -> usize {
            I::HEIGHT
        }
    }
    with_best_instructions(Highest)
}

/// Directions for dense rows: groups of components, each coordinate by coordinate, as the kernels for the best instructions read them.
#[derive(Debug, Clone)]
pub(super) struct Grouped<T> {
    dim: usize,
    /// The most components of a group.
    highest: usize,
    values: Vec<T>,
}

impl<T: Real> Grouped<T> {
    pub(super) fn of_height<'a>(
        highest: usize,
        components: usize,
        dim: usize,
        direction: impl Fn(usize) -> (f64, &'a [f64]),
    ) -> Self {
        let mut values = vec![T::ZERO; components * dim];
        for (first, height) in groups(components, highest) {
            for k in first..first + height {
                put_scaled(&mut values[first * dim..][k - first..], height, direction(k));
            }
        }
        Grouped { dim, highest, values }
    }
}

/// Puts the coordinates of a direction, each times a factor, `step` places apart.
fn put_scaled<T: Real>(places: &mut [T], step: usize, (factor, direction): (f64, &[f64])) {
    places.iter_mut().step_by(step).zip(direction).for_each(|(place, x)| *place = T::from_f64(factor * x));
}

/// Directions for sparse rows: panels of `WIDTH` components, each coordinate by coordinate.
#[derive(Debug, Clone)]
pub(super) struct Panels<T> {
    dim: usize,
    values: Vec<T>,
}

impl<T: Real> Panels<T> {
    pub(super) fn new<'a>(components: usize, dim: usize, direction: impl Fn(usize) -> (f64, &'a [f64])) -> Self {
        let panels = components.div_ceil(T::WIDTH);
        let mut values = vec![T::ZERO; panels * T::WIDTH * dim];
        for k in 0..components {
            let panel = &mut values[k / T::WIDTH * T::WIDTH * dim..];
            put_scaled(&mut panel[k % T::WIDTH..], T::WIDTH, direction(k));
        }
        Panels { dim, values }
    }

    /// The products of one sparse row with each direction, padding included.
    #[inline(always)]
    pub(super) fn sparse_products<V: Scalar, I: Instructions>(&self, (columns, values): (&[u32], &[V]), out: &mut Vec<T>) {
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

/// Rows are asked for this many panels before they are needed: the processor's own guess ends at every page.
pub(super) const AHEAD: usize = 4;

/// Panels that are turned together where there are so many directions that they come from afar.
const FAR: usize = 1 << 17;
const PANELS_OF_FAR: usize = 4;

/// Columns that are turned and multiplied together: few enough that they and the directions' stay in the first-level cache.
const COLUMNS: usize = 128;

/// Room for what the products read again and again.
#[derive(Debug, Default)]
pub(super) struct Packing<T> {
    turned: Vec<T>,
    pub(super) padded: Vec<T>,
}

/// The products of each direction with each row, and the component's bias: component by component into `out`, `stride` places
/// apart. Places behind the last row, up to the next multiple of `WIDTH`, repeat it. Rows to come are brought near meanwhile: those at `next`, as many
/// as there are rows, or else those that lie some way behind each panel.
#[inline(always)]
pub(super) fn row_products<T: Real, I: Instructions>(
    (rows, next): (&[T], Option<*const T>),
    directions: &Grouped<T>,
    bias: &[T],
    out: &mut [T],
    stride: usize,
    packing: &mut Packing<T>,
) {
    let dim = directions.dim;
    let count = rows.len() / dim;
    assert!(rows.len() == count * dim && directions.values.len() == bias.len() * dim && directions.highest == I::HEIGHT);
    assert!(stride >= count.next_multiple_of(T::WIDTH) && out.len() >= bias.len() * stride);
    let (panels, width) = if size_of_val(&*directions.values) > FAR { (PANELS_OF_FAR, dim) } else { (I::RUNS, dim.min(COLUMNS)) };
    let panel_size = width * T::WIDTH;
    // A register that is read across two lines takes twice as long.
    packing.turned.resize(panels * panel_size + LINE / size_of::<T>(), T::ZERO);
    let aligned = packing.turned.as_ptr().align_offset(LINE);
    let all_turned = &mut packing.turned[aligned..][..panels * panel_size];
    // A panel has as many lines as a row has coordinates; each group asks for its share of those of a panel to come.
    let step = T::WIDTH / bias.len().div_ceil(I::HEIGHT);
    let next = next.unwrap_or(rows.as_ptr().wrapping_add(AHEAD * T::WIDTH * dim));
    for first in (0..count).step_by(panels * T::WIDTH) {
        let last = (first + panels * T::WIDTH).min(count);
        for (component, bias) in bias.iter().enumerate() {
            out[component * stride..][first..last.next_multiple_of(T::WIDTH)].fill(*bias);
        }
        for column in (0..dim).step_by(width) {
            let columns = column..(column + width).min(dim);
            for (from, turned) in (first..last).step_by(T::WIDTH).zip(all_turned.chunks_exact_mut(panel_size)) {
                turn::<T, I>(rows, dim, from, columns.clone(), turned);
            }
            for (group, (component, height)) in groups(bias.len(), I::HEIGHT).enumerate() {
                let left = (directions.values[component * dim + column * height..].as_ptr(), 0);
                for (from, turned) in (first..last).step_by(I::RUNS * T::WIDTH).zip(all_turned.chunks_exact(I::RUNS * panel_size))
                {
                    let size = (height, (last - from).div_ceil(T::WIDTH).min(I::RUNS));
                    let right = Runs { first: turned.as_ptr(), step: T::WIDTH, beside: panel_size };
                    let next = next.wrapping_add((from + group * step) * dim + column * step);
                    let ahead = Runs { first: next, step, beside: T::WIDTH * dim };
                    let sums = &mut out[component * stride + from..(component + height) * stride];
                    // SAFETY: the group's values in these columns, WIDTH values for each column of each panel, and of the
                    // sums, which are stride apart, the last have as many too: the panels end before the stride does.
                    unsafe {
                        let sums = (sums.as_mut_ptr(), stride);
                        products_of_group::<T, I, true>(columns.len(), size, left, right, ahead, sums);
                    }
                }
            }
        }
    }
}

/// Some columns of a panel of rows, one behind the other; places behind the last row repeat it.
#[inline(always)]
fn turn<T: Real, I: Instructions>(rows: &[T], dim: usize, first: usize, columns: Range<usize>, out: &mut [T]) {
    assert!(out.len() >= columns.len() * T::WIDTH && first * dim < rows.len());
    let last = rows.len() / dim - 1;
    let row = |i: usize| &rows[(first + i).min(last) * dim..][columns.clone()];
    // SAFETY: each row is a slice of so many values, and so much room was asked for above.
    let turned = unsafe { T::turn::<I>(|i| row(i).as_ptr(), columns.len(), out.as_mut_ptr()) };
    for (column, out) in out.chunks_exact_mut(T::WIDTH).enumerate().take(columns.len()).skip(turned) {
        out.iter_mut().enumerate().for_each(|(i, out)| *out = row(i)[column]);
    }
}

/// Sums of rows for each component, in the precision of the kernel: a run of `WIDTH` columns behind the other. The last run ends with the last
/// column; it begins with columns of the run before it, or is longer than a row.
#[derive(Debug, Default)]
pub(super) struct RowSums<T> {
    values: Vec<T>,
}

impl<T: Real> RowSums<T> {
    /// The first column of a run.
    #[inline(always)]
    fn begin(dim: usize, run: usize) -> usize {
        (run * T::WIDTH).min(dim.saturating_sub(T::WIDTH))
    }

    /// Adds the rows times their shares, which lie component by component, `stride` places apart.
    #[inline(always)]
    pub(super) fn add_weighted_rows<I: Instructions>(
        &mut self,
        rows: &[T],
        dim: usize,
        shares: &[T],
        stride: usize,
        packing: &mut Packing<T>,
    ) {
        let (count, components, runs) = (rows.len() / dim, shares.len() / stride, dim.div_ceil(T::WIDTH));
        assert!(rows.len() == count * dim && stride >= count && shares.len() == components * stride);
        self.values.resize(components * runs * T::WIDTH, T::ZERO);
        for run in (0..runs).step_by(I::RUNS) {
            let at_once = (runs - run).min(I::RUNS);
            let (first, step) = if dim < T::WIDTH {
                packing.padded.clear();
                packing.padded.resize(count * T::WIDTH, T::ZERO);
                let places = packing.padded.chunks_exact_mut(T::WIDTH);
                places.zip(rows.chunks_exact(dim)).for_each(|(place, row)| place[..dim].copy_from_slice(row));
                (packing.padded.as_ptr(), T::WIDTH)
            } else {
                (rows[Self::begin(dim, run)..].as_ptr(), dim)
            };
            let right = Runs { first, step, beside: Self::begin(dim, run + 1) - Self::begin(dim, run) };
            for (component, height) in groups(components, I::HEIGHT) {
                let left = (shares[component * stride..].as_ptr(), stride);
                let sums = &mut self.values[(component * runs + run) * T::WIDTH..][..((height - 1) * runs + at_once) * T::WIDTH];
                let nothing = Runs { first: left.0, step: 0, beside: 0 };
                // SAFETY: a share for each row from the start of each of the group's components; WIDTH values from a run's first column on in
                // each row, padded if need be; so many runs of sums for each component.
                unsafe {
                    let sums = (sums.as_mut_ptr(), runs * T::WIDTH);
                    products_of_group::<T, I, false>(count, (height, at_once), left, right, nothing, sums);
                }
            }
        }
    }

    /// Adds the rows that one of the components has a share of, times their shares.
    #[inline(always)]
    pub(super) fn add_listed_rows<I: Instructions>(
        &mut self,
        rows: &[T],
        dim: usize,
        listed: &Listed<T>,
        (component, components): (usize, usize),
    ) {
        let size = dim.div_ceil(T::WIDTH) * T::WIDTH;
        self.values.resize(components * size, T::ZERO);
        if listed.len > 0 {
            sum_listed_rows::<T, I, true>(rows, dim, listed, &mut self.values[component * size..][..size]);
        }
    }

    /// The same for the one component that there is, in the place of what was there.
    #[inline(always)]
    pub(super) fn set_to_listed_rows<I: Instructions>(&mut self, rows: &[T], dim: usize, listed: &Listed<T>) {
        self.values.resize(dim.div_ceil(T::WIDTH) * T::WIDTH, T::ZERO);
        sum_listed_rows::<T, I, false>(rows, dim, listed, &mut self.values);
    }

    /// Adds all to sums in f64 (components x dim), and forgets them.
    #[inline(always)]
    pub(super) fn flush(&mut self, sums: &mut [f64], dim: usize) {
        self.add_to(sums, dim);
        self.values.clear();
    }

    /// Adds all to sums in f64.
    #[inline(always)]
    pub(super) fn add_to(&self, sums: &mut [f64], dim: usize) {
        let runs = dim.div_ceil(T::WIDTH);
        for (sums, values) in sums.chunks_exact_mut(dim).zip(self.values.chunks_exact(runs * T::WIDTH)) {
            for (run, (sums, values)) in sums.chunks_mut(T::WIDTH).zip(values.chunks_exact(T::WIDTH)).enumerate() {
                let done = run * T::WIDTH - Self::begin(dim, run);
                sums.iter_mut().zip(&values[done..]).for_each(|(sum, x)| *sum += x.to_f64());
            }
        }
    }
}

/// Adds some rows times their shares to the sums of one component, which lie as in [`RowSums`]; or leaves them there.
#[inline(always)]
fn sum_listed_rows<T: Real, I: Instructions, const ADD: bool>(rows: &[T], dim: usize, listed: &Listed<T>, sums: &mut [T]) {
    let runs = dim.div_ceil(T::WIDTH);
    // Rows are listed in their order.
    let last_row = listed.rows[..listed.len].last().map_or(0, |row| *row as usize);
    assert!(dim >= T::WIDTH && sums.len() == runs * T::WIDTH && last_row < rows.len() / dim);
    for (run, height) in groups(runs, I::SPAN) {
        let first = RowSums::<T>::begin(dim, run);
        let (columns, last) = ((rows[first..].as_ptr(), dim), RowSums::<T>::begin(dim, run + height - 1) - first);
        let sums = sums[run * T::WIDTH..][..height * T::WIDTH].as_mut_ptr();
        macro_rules! of_height {
            ($height:literal) => {
                // SAFETY: each of the rows is there and has these columns, and each run its sums.
                unsafe { T::listed_products::<I, ADD, $height>(listed, columns, last, sums) }
            };
        }
        by_height!(height, I::SPAN, of_height)
    }
}

/// Adds factor * row to a sum in f64.
#[inline(always)]
pub(super) fn add_row<T: Real, I: Instructions>(sum: &mut [f64], factor: f64, row: &[T]) {
    for (sum, x) in sum.iter_mut().zip(row) {
        *sum = factor.multiply_add::<I>(x.to_f64(), *sum);
    }
}

/// A piece of work that is written once and compiled for each set of instructions.
pub(super) trait Work {
    type Output;
    /// Must be `#[inline(always)]`, and so must all that it calls in its loops.
    fn run<I: Instructions>(self) -> Self::Output;
}

/// Runs it with the best instructions that this processor has.
pub(super) fn with_best_instructions<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if has_wide() {
            // SAFETY: the processor has them.
            return unsafe { run_wide(work) };
        }
        if has_fused() {
            // SAFETY: the processor has them.
            return unsafe { run_fused(work) };
        }
        work.run::<Plain>()
    }
    #[cfg(not(target_arch = "x86_64"))]
    if has_fused() { work.run::<Fused>() } else { work.run::<Plain>() }
}

#[cfg(target_arch = "x86_64")]
pub(super) fn has_fused() -> bool {
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
}

/// Every aarch64 fuses; elsewhere `mul_add` may be a slow library call.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn has_fused() -> bool {
    cfg!(target_arch = "aarch64")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
pub(super) fn run_fused<W: Work>(work: W) -> W::Output {
    work.run::<Fused>()
}

#[cfg(target_arch = "x86_64")]
pub(super) fn has_wide() -> bool {
    let has_512 = std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512vl");
    has_512 && std::arch::is_x86_feature_detected!("avx512dq") && std::arch::is_x86_feature_detected!("avx512bw") && has_fused()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512dq,avx512bw")]
pub(super) fn run_wide<W: Work>(work: W) -> W::Output {
    work.run::<Wide>()
}

/// Numbers from -0.5 to 0.5.
#[cfg(test)]
pub(super) fn numbers<T: Real>(count: usize, seed: u64) -> Vec<T> {
    use rand::RngExt;
    let mut rng = crate::sampler::Stream::new(seed, 0);
    (0..count).map(|_| T::from_f64(rng.random::<f64>() - 0.5)).collect()
}

/// What a piece of work gives with the best instructions, after a look that all that fuse give the same.
#[cfg(test)]
pub(super) fn on_every_processor<W: Work<Output: PartialEq + std::fmt::Debug> + Copy>(work: W) -> W::Output {
    let best = with_best_instructions(work);
    #[cfg(target_arch = "x86_64")]
    if has_wide() {
        // SAFETY: the processor has AVX-512, and so what comes before it.
        assert_eq!(best, unsafe { run_fused(work) });
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both products of some rows: with directions, and with shares.
    #[derive(Clone, Copy)]
    struct Both<'a, T> {
        rows: &'a [T],
        directions: &'a [f64],
        bias: &'a [T],
    }

    impl<T: Real> Work for Both<'_, T> {
        /// The logits, component by component, and the sums of rows times logits.
        type Output = (Vec<T>, Vec<f64>);

        #[inline(always)]
        fn run<I: Instructions>(self) -> Self::Output {
            let Both { rows, directions, bias } = self;
            let dim = directions.len() / bias.len();
            let count = rows.len() / dim;
            let stride = count.next_multiple_of(T::WIDTH);
            let (mut packing, mut logits) = (Packing::default(), vec![T::ZERO; bias.len() * stride]);
            let directions = &Grouped::of_height(I::HEIGHT, bias.len(), dim, |k| (1.0, &directions[k * dim..][..dim]));
            row_products::<T, I>((rows, None), directions, bias, &mut logits, stride, &mut packing);
            let (mut sums, mut total) = (RowSums::default(), vec![0.0; bias.len() * dim]);
            sums.add_weighted_rows::<I>(rows, dim, &logits, stride, &mut packing);
            sums.flush(&mut total, dim);
            (logits.chunks_exact(stride).flat_map(|logits| logits[..count].to_vec()).collect(), total)
        }
    }

    /// Every number of components a kernel call may have, rows and coordinates that do and do not fill panels and runs, and directions from afar.
    fn check<T: Real + std::fmt::Debug>(rounding: f64) {
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
            for (place, found) in plain.iter().enumerate() {
                let component = place / count;
                let direction = directions[component * dim..][..dim].iter();
                let expected = bias[component].to_f64() + row(place % count).zip(direction).map(|(x, m)| x * m).sum::<f64>();
                assert!(
                    near(found.to_f64(), expected),
                    "{components} components, {dim} dimensions, {count} rows: {found:?} {expected}"
                );
            }
            for (place, found) in sums.iter().enumerate() {
                let (component, column) = (place / dim, place % dim);
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
    fn products_are_right_and_of_the_same_bits_in_registers_of_any_width() {
        check::<f32>(1e-5);
        check::<f64>(1e-14);
    }
}
