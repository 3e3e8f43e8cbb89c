//! The first product of an E step for a few directions, without transposing rows.
//!
//! For ten directions the transposition in [`gemm`](crate::gemm) takes a third as long as the
//! product itself. Here each 128 bits of a register hold four neighbouring coordinates of one row,
//! a quad. Each product is the sum of `QUAD` partial sums over every `QUAD`-th coordinate, so only
//! the products are transposed.
//!
//! The partial sums and their order do not depend on the register width, so neither do the bits.

use crate::dispatch::Kernels;
use crate::gemm::{PANELS_AHEAD, PackingBuffer, fits};
use crate::instructions::{Instructions, has_fused};
use crate::layout::{Panel, QUAD, by_height, groups};

/// With more directions or fewer coordinates, transposing rows is faster. It is also faster where
/// rows end within a quad, and in double precision. CPUs other than x86 have not been measured.
const MOST_DIRECTIONS: usize = 12;
const LEAST_COORDINATES: usize = 32;

/// A few directions, packed: groups of components, each stored quad by quad.
#[derive(Debug, Clone)]
pub struct SmallKDirections<T> {
    dim: usize,
    /// The largest number of components in a group.
    highest: usize,
    values: Vec<T>,
}

impl<T: Kernels> SmallKDirections<T> {
    /// True if these kernels are faster than transposing rows, and this CPU can run them.
    pub fn is_faster(components: usize, dim: usize) -> bool {
        let has_kernels = cfg!(target_arch = "x86_64") && has_fused() && size_of::<T>() == size_of::<f32>();
        has_kernels && components <= MOST_DIRECTIONS && dim >= LEAST_COORDINATES && dim.is_multiple_of(QUAD)
    }

    /// Packs the directions of all components, each times a factor, in groups of at most `highest`
    /// components. That must be the [`Instructions::HEIGHT`] of the kernels that read them.
    ///
    /// # Panics
    /// If the dimension is not a multiple of 4.
    pub fn new<'a>(highest: usize, components: usize, dim: usize, direction: impl Fn(usize) -> (f64, &'a [f64])) -> Self {
        assert!(dim.is_multiple_of(QUAD));
        let mut values = vec![T::ZERO; components * dim];
        for (first, height) in groups(components, highest) {
            for index in 0..height {
                let (factor, direction) = direction(first + index);
                let quads = values[first * dim..].chunks_exact_mut(QUAD).skip(index).step_by(height);
                for (quad, coordinates) in quads.zip(direction.chunks_exact(QUAD)) {
                    quad.iter_mut().zip(coordinates).for_each(|(value, x)| *value = T::from_f64(factor * x));
                }
            }
        }
        SmallKDirections { dim, highest, values }
    }

    /// As [`gemm::row_products`](crate::gemm::row_products).
    ///
    /// # Panics
    /// As [`gemm::row_products`](crate::gemm::row_products), and if this CPU has no kernels.
    #[inline(always)]
    pub fn row_products<I: Instructions>(
        &self,
        (rows, next): (&[T], Option<*const T>),
        bias: &[T],
        out: &mut [T],
        stride: usize,
        packing: &mut PackingBuffer<T>,
    ) {
        let (dim, count) = (self.dim, rows.len() / self.dim);
        assert!(rows.len() == count * dim && self.values.len() == bias.len() * dim && self.highest == I::HEIGHT);
        assert!(stride >= count.next_multiple_of(T::WIDTH) && fits(bias.len(), stride, out.len()));
        // A panel has as many cache lines as a row has coordinates. Each group prefetches its share
        // of a later panel.
        let part = T::WIDTH * dim / bias.len().div_ceil(I::HEIGHT);
        let next = next.unwrap_or(rows.as_ptr().wrapping_add(PANELS_AHEAD * T::WIDTH * dim));
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
                    ahead: (next.wrapping_add(first * dim + group * part), part),
                };
                // SAFETY: `panel_rows` are `WIDTH` rows: a slice of that length, or the padded copy. The slices of directions and biases are
                // those of `height` components, and `sums` has `WIDTH` values at each `stride`
                // (asserted above).
                unsafe { products_of_group::<T, I>(height, &panel) }
            }
        }
    }
}

/// # Safety
/// The addresses of the panel are valid for `height` components.
#[inline(always)]
unsafe fn products_of_group<T: Kernels, I: Instructions>(height: usize, panel: &Panel<T>) {
    macro_rules! of_height {
        ($height:literal) => {
            // SAFETY: the caller's bounds.
            unsafe { T::panel_products::<I, $height>(panel) }
        };
    }
    by_height!(height, I::HEIGHT, of_height)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::float::Real;
    use crate::instructions::{Work, on_every_processor};
    use crate::test_numbers::numbers;

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
            let directions = SmallKDirections::new(I::HEIGHT, bias.len(), dim, |k| (2.0, &directions[k * dim..][..dim]));
            directions.row_products::<I>((rows, None), bias, &mut out, stride, &mut PackingBuffer::default());
            out.chunks_exact(stride).flat_map(|sums| sums[..count].to_vec()).collect()
        }
    }

    /// Every number of directions, whole and partial panels, and rows of one quad and of many.
    #[test]
    fn products_match_a_plain_sum_and_avx512_agrees_with_avx2() {
        if !SmallKDirections::<f32>::is_faster(1, LEAST_COORDINATES) {
            return eprintln!("skipped: this CPU has no small_k kernels");
        }
        let sizes = (1..=MOST_DIRECTIONS).map(|components| (components, 36, 37));
        let sizes = sizes.chain((4..=200).step_by(4).map(|dim| (5, dim, 21))).chain((1..=70).map(|rows| (10, 100, rows)));
        for (components, dim, count) in sizes {
            let (rows, bias) = (numbers::<f32>(count * dim, 1), numbers::<f32>(components, 2));
            let directions = numbers::<f64>(components * dim, 3);
            let work = Products { rows: &rows, directions: &directions, bias: &bias };
            for (index, found) in on_every_processor(work).iter().enumerate() {
                let (component, row) = (index / count, index % count);
                let terms = rows[row * dim..][..dim].iter().zip(&directions[component * dim..]);
                let expected = f64::from(bias[component]) + 2.0 * terms.map(|(x, m)| f64::from(*x) * m).sum::<f64>();
                assert!((f64::from(*found) - expected).abs() < 1e-5, "{components} {dim} {count}: {found} {expected}");
            }
        }
    }

    #[test]
    fn small_k_is_chosen_only_where_it_is_faster() {
        assert_eq!(
            SmallKDirections::<f32>::is_faster(MOST_DIRECTIONS, LEAST_COORDINATES),
            cfg!(target_arch = "x86_64") && has_fused()
        );
        assert!(!SmallKDirections::<f32>::is_faster(MOST_DIRECTIONS + 1, LEAST_COORDINATES));
        assert!(!SmallKDirections::<f32>::is_faster(MOST_DIRECTIONS, LEAST_COORDINATES - 4));
        assert!(!SmallKDirections::<f32>::is_faster(MOST_DIRECTIONS, LEAST_COORDINATES + 2));
        assert!(!SmallKDirections::<f64>::is_faster(MOST_DIRECTIONS, LEAST_COORDINATES));
    }
}
