//! The first product of an E step with a few directions: rows as they lie.
//!
//! Turning rows, as `products` does, takes a third as long as a product with ten directions. Here each 128 bits of a register have neighbouring coordinates of one row, a
//! quad, so that nothing is turned but what comes out: a product is made of `QUAD` sums, each over every so many coordinates, which are put together in the end.
//!
//! They are the same sums in the same order in registers of any width, and so have the same bits.

use super::products::{AHEAD, Instructions, Packing, Real, by_height, groups, has_fused};

/// More directions are worth turning rows for, and so are rows with few coordinates, beside which putting sums together takes long. Nothing is won with rows that end within a
/// quad, nor in double precision, where quads are pairs; elsewhere than on x86 nobody has measured it.
const MOST_DIRECTIONS: usize = 12;
const LEAST_COORDINATES: usize = 32;

/// Coordinates in 128 bits of a register.
const QUAD: usize = 4;

/// A few directions: groups of components, each quad by quad of coordinates.
#[derive(Debug, Clone)]
pub(super) struct FewDirections<T> {
    dim: usize,
    /// The most components of a group.
    highest: usize,
    values: Vec<T>,
}

impl<T: Real> FewDirections<T> {
    /// Whether so many directions are better taken this way.
    pub(super) fn suit(components: usize, dim: usize) -> bool {
        let has_kernels = cfg!(target_arch = "x86_64") && has_fused() && size_of::<T>() == size_of::<f32>();
        has_kernels && components <= MOST_DIRECTIONS && dim >= LEAST_COORDINATES && dim.is_multiple_of(QUAD)
    }

    pub(super) fn of_height<'a>(
        highest: usize,
        components: usize,
        dim: usize,
        direction: impl Fn(usize) -> (f64, &'a [f64]),
    ) -> Self {
        assert!(dim.is_multiple_of(QUAD));
        let mut values = vec![T::ZERO; components * dim];
        for (first, height) in groups(components, highest) {
            for place in 0..height {
                let (factor, direction) = direction(first + place);
                let quads = values[first * dim..].chunks_exact_mut(QUAD).skip(place).step_by(height);
                for (quad, coordinates) in quads.zip(direction.chunks_exact(QUAD)) {
                    quad.iter_mut().zip(coordinates).for_each(|(value, x)| *value = T::from_f64(factor * x));
                }
            }
        }
        FewDirections { dim, highest, values }
    }

    /// As [`row_products`](super::products::row_products).
    #[inline(always)]
    pub(super) fn row_products<I: Instructions>(
        &self,
        (rows, next): (&[T], Option<*const T>),
        bias: &[T],
        out: &mut [T],
        stride: usize,
        packing: &mut Packing<T>,
    ) {
        let (dim, count) = (self.dim, rows.len() / self.dim);
        assert!(rows.len() == count * dim && self.values.len() == bias.len() * dim && self.highest == I::HEIGHT);
        assert!(stride >= count.next_multiple_of(T::WIDTH) && out.len() >= bias.len() * stride);
        // A panel has as many lines as a row has coordinates; each group asks for its share of those of a panel to come.
        let share = T::WIDTH * dim / bias.len().div_ceil(I::HEIGHT);
        let next = next.unwrap_or(rows.as_ptr().wrapping_add(AHEAD * T::WIDTH * dim));
        for first in (0..count).step_by(T::WIDTH) {
            let here = &rows[first * dim..(first + T::WIDTH).min(count) * dim];
            let panel_rows = if here.len() == T::WIDTH * dim {
                here
            } else {
                packing.padded.clear();
                (0..T::WIDTH).for_each(|i| packing.padded.extend_from_slice(&rows[(first + i).min(count - 1) * dim..][..dim]));
                &packing.padded
            };
            for (group, (component, height)) in groups(bias.len(), I::HEIGHT).enumerate() {
                let sums = &mut out[component * stride + first..];
                assert!(sums.len() >= (height - 1) * stride + T::WIDTH);
                let panel = Panel {
                    dim,
                    rows: panel_rows.as_ptr(),
                    directions: self.values[component * dim..][..height * dim].as_ptr(),
                    bias: bias[component..][..height].as_ptr(),
                    sums: (sums.as_mut_ptr(), stride),
                    ahead: (next.wrapping_add(first * dim + group * share), share),
                };
                // SAFETY: WIDTH rows and the group's directions; each of its components has a bias, and room for WIDTH sums.
                unsafe { products_of_group::<T, I>(height, &panel) }
            }
        }
    }
}

/// What a kernel works on: the products of a group of directions with `WIDTH` rows.
#[derive(Debug)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(super) struct Panel<T> {
    dim: usize,
    rows: *const T,
    /// Quad by quad, each component by component.
    directions: *const T,
    /// One for each component.
    bias: *const T,
    /// Where the sums of the first component begin, and how far apart those of the others.
    sums: (*mut T, usize),
    /// Memory that is asked for meanwhile, and how many values of it.
    ahead: (*const T, usize),
}

/// # Safety
/// What the panel points to is there, for `height` components.
#[inline(always)]
unsafe fn products_of_group<T: Real, I: Instructions>(height: usize, panel: &Panel<T>) {
    macro_rules! of_height {
        ($height:literal) => {
            // SAFETY: the caller's promise.
            unsafe { T::panel_products::<I, $height>(panel) }
        };
    }
    by_height!(height, I::HEIGHT, of_height)
}

/// The kernels for registers of 256 and of 512 bits.
#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use super::{Panel, QUAD, Real};
    use crate::vector::prefetch_early;
    use std::arch::x86_64::*;

    macro_rules! panel_products {
        ($name:ident, $sweep:ident, $features:literal, $register:ident, $rows_at_once:literal, $lines:literal, $rows:ident, $every_quad:ident, $every:ident, $zero:ident, $fused:ident, $add:ident, $low:ident, $high:ident, $shuffle:ident, $store:ident) => {
            /// The products of each direction with the rows of two registers, one from `first` on, one from the next row on, and in both every `QUAD`-th.
            /// Each is left as two sums, over every other coordinate.
            ///
            /// # Safety
            /// What the panel points to is there, for `HEIGHT` components, and so are these instructions.
            #[target_feature(enable = $features)]
            #[inline]
            unsafe fn $sweep<const HEIGHT: usize>(
                panel: &Panel<f32>,
                first: usize,
                ahead: *const f32,
                line: usize,
            ) -> [$register; HEIGHT] {
                let (dim, rows) = (panel.dim, panel.rows.wrapping_add(first * panel.dim));
                let mut products = [[$zero(); 2]; HEIGHT];
                for quad in 0..dim / QUAD {
                    for i in 0..$lines {
                        prefetch_early(ahead.wrapping_add((quad * $lines + i) * line));
                    }
                    // SAFETY: the caller's promise.
                    unsafe {
                        let place = rows.add(quad * QUAD);
                        let rows = [$rows(place, QUAD * dim), $rows(place.add(dim), QUAD * dim)];
                        for i in 0..HEIGHT {
                            let direction = $every_quad(panel.directions.add((quad * HEIGHT + i) * QUAD));
                            for j in 0..2 {
                                products[i][j] = $fused(direction, rows[j], products[i][j]);
                            }
                        }
                    }
                }
                products.map(|[a, b]| $add($low(a, b), $high(a, b)))
            }

            /// # Safety
            /// What the panel points to is there, for `HEIGHT` components, and so are these instructions.
            #[target_feature(enable = $features)]
            #[inline]
            pub(in super::super) unsafe fn $name<const HEIGHT: usize>(panel: &Panel<f32>) {
                let Panel { dim, bias, sums, ahead, .. } = *panel;
                // Of the memory that is asked for, each sweep takes its part.
                let part = ahead.1 * 2 * $rows_at_once / f32::WIDTH;
                let line = part * QUAD / (dim * $lines);
                let ahead = |sweep: usize| ahead.0.wrapping_add(sweep * part);
                for (block, first) in (0..f32::WIDTH).step_by(QUAD * $rows_at_once).enumerate() {
                    // SAFETY: the caller's promise.
                    unsafe {
                        let even = $sweep::<HEIGHT>(panel, first, ahead(2 * block), line);
                        let odd = $sweep::<HEIGHT>(panel, first + 2, ahead(2 * block + 1), line);
                        for i in 0..HEIGHT {
                            let products = $add($shuffle::<0x44>(even[i], odd[i]), $shuffle::<0xee>(even[i], odd[i]));
                            $store(sums.0.add(i * sums.1 + first), $add($every(*bias.add(i)), products));
                        }
                    }
                }
            }
        };
    }

    panel_products!(
        fused_products,
        fused_sweep,
        "avx,fma",
        __m256,
        2,
        1,
        quads_of_two_rows,
        quad_twice,
        _mm256_set1_ps,
        _mm256_setzero_ps,
        _mm256_fmadd_ps,
        _mm256_add_ps,
        _mm256_unpacklo_ps,
        _mm256_unpackhi_ps,
        _mm256_shuffle_ps,
        _mm256_storeu_ps
    );
    panel_products!(
        wide_products,
        wide_sweep,
        "avx512f,avx512dq",
        __m512,
        4,
        2,
        quads_of_four_rows,
        quad_four_times,
        _mm512_set1_ps,
        _mm512_setzero_ps,
        _mm512_fmadd_ps,
        _mm512_add_ps,
        _mm512_unpacklo_ps,
        _mm512_unpackhi_ps,
        _mm512_shuffle_ps,
        _mm512_storeu_ps
    );

    /// # Safety
    /// A quad is readable at each of two steps.
    #[target_feature(enable = "avx")]
    #[inline]
    unsafe fn quads_of_two_rows(place: *const f32, step: usize) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(_mm_loadu_ps(place)), _mm_loadu_ps(place.add(step))) }
    }

    /// # Safety
    /// A quad is readable at each of four steps.
    #[target_feature(enable = "avx512f,avx512dq")]
    #[inline]
    unsafe fn quads_of_four_rows(place: *const f32, step: usize) -> __m512 {
        // Not four times into the wide register: that takes longer on processors which have it in two halves.
        // SAFETY: the caller's promise.
        unsafe {
            let (low, high) = (quads_of_two_rows(place, step), quads_of_two_rows(place.add(2 * step), step));
            _mm512_insertf32x8::<1>(_mm512_castps256_ps512(low), high)
        }
    }

    /// # Safety
    /// A quad is readable there.
    #[target_feature(enable = "avx")]
    #[inline]
    unsafe fn quad_twice(place: *const f32) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_broadcast_ps(&_mm_loadu_ps(place)) }
    }

    /// # Safety
    /// A quad is readable there.
    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn quad_four_times(place: *const f32) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_broadcast_f32x4(_mm_loadu_ps(place)) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::products::{Work, numbers, on_every_processor};
    use super::*;

    #[derive(Clone, Copy)]
    struct Products<'a> {
        rows: &'a [f32],
        directions: &'a [f64],
        bias: &'a [f32],
    }

    impl Work for Products<'_> {
        /// Component by component.
        type Output = Vec<f32>;

        #[inline(always)]
        fn run<I: Instructions>(self) -> Vec<f32> {
            let Products { rows, directions, bias } = self;
            let dim = directions.len() / bias.len();
            let count = rows.len() / dim;
            let stride = count.next_multiple_of(f32::WIDTH);
            let mut out = vec![f32::NAN; bias.len() * stride];
            let few = FewDirections::of_height(I::HEIGHT, bias.len(), dim, |k| (2.0, &directions[k * dim..][..dim]));
            few.row_products::<I>((rows, None), bias, &mut out, stride, &mut Packing::default());
            out.chunks_exact(stride).flat_map(|sums| sums[..count].to_vec()).collect()
        }
    }

    /// Every number of directions, rows that do and do not fill panels, and rows from one quad to many.
    #[test]
    fn products_with_rows_as_they_lie_are_right_and_have_the_same_bits_everywhere() {
        if !FewDirections::<f32>::suit(1, LEAST_COORDINATES) {
            return eprintln!("skipped: there are no kernels for this processor");
        }
        let sizes = (1..=MOST_DIRECTIONS).map(|components| (components, 36, 37));
        let sizes = sizes.chain((4..=200).step_by(4).map(|dim| (5, dim, 21))).chain((1..=70).map(|rows| (10, 100, rows)));
        for (components, dim, count) in sizes {
            let (rows, bias) = (numbers::<f32>(count * dim, 1), numbers::<f32>(components, 2));
            let directions = numbers::<f64>(components * dim, 3);
            let work = Products { rows: &rows, directions: &directions, bias: &bias };
            for (place, found) in on_every_processor(work).iter().enumerate() {
                let (component, row) = (place / count, place % count);
                let terms = rows[row * dim..][..dim].iter().zip(&directions[component * dim..]);
                let expected = f64::from(bias[component]) + 2.0 * terms.map(|(x, m)| f64::from(*x) * m).sum::<f64>();
                assert!((f64::from(*found) - expected).abs() < 1e-5, "{components} {dim} {count}: {found} {expected}");
            }
        }
    }

    #[test]
    fn rows_are_turned_where_that_is_faster() {
        assert_eq!(FewDirections::<f32>::suit(MOST_DIRECTIONS, LEAST_COORDINATES), cfg!(target_arch = "x86_64") && has_fused());
        assert!(!FewDirections::<f32>::suit(MOST_DIRECTIONS + 1, LEAST_COORDINATES));
        assert!(!FewDirections::<f32>::suit(MOST_DIRECTIONS, LEAST_COORDINATES - 4));
        assert!(!FewDirections::<f32>::suit(MOST_DIRECTIONS, LEAST_COORDINATES + 2));
        assert!(!FewDirections::<f64>::suit(MOST_DIRECTIONS, LEAST_COORDINATES));
    }
}
