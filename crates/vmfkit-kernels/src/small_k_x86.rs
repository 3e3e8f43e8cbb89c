//! The kernels of `small_k` for registers of 256 and of 512 bits.
//!
//! Both give the same bits: each 128 bits of a register hold a quad of one row, and each sum adds
//! its terms in the same order.

/// The kernel for one register width. The module that calls this defines `Register`,
/// `ROWS_AT_ONCE`, `LINES`, `quads_of_rows`, `repeat_quad` and short names of the intrinsics.
macro_rules! panel_products {
    ($features:literal) => {
        /// The products of each direction with the rows of two registers. The first register holds
        /// every `QUAD`-th row from `first` on, the second the rows that follow these. Each product
        /// is returned as two sums over every other coordinate.
        ///
        /// # Safety
        /// The pointers of the panel are valid for `HEIGHT` components, the panel has the row
        /// `first + (ROWS_AT_ONCE - 1) * QUAD + 1`, and the CPU has these features.
        #[target_feature(enable = $features)]
        #[inline]
        unsafe fn sweep<const HEIGHT: usize>(
            panel: &Panel<f32>,
            first: usize,
            ahead: *const f32,
            line: usize,
        ) -> [Register; HEIGHT] {
            let (dim, rows) = (panel.dim, panel.rows.wrapping_add(first * panel.dim));
            let mut products = [[zero(); 2]; HEIGHT];
            for quad in 0..dim / QUAD {
                for i in 0..LINES {
                    prefetch_early(ahead.wrapping_add((quad * LINES + i) * line));
                }
                // SAFETY: the caller's bounds; `quad * QUAD` is a column of which a whole quad follows.
                unsafe {
                    let address = rows.add(quad * QUAD);
                    let rows = [quads_of_rows(address, QUAD * dim), quads_of_rows(address.add(dim), QUAD * dim)];
                    for i in 0..HEIGHT {
                        let direction = repeat_quad(panel.directions.add((quad * HEIGHT + i) * QUAD));
                        for j in 0..2 {
                            products[i][j] = fused(direction, rows[j], products[i][j]);
                        }
                    }
                }
            }
            products.map(|[a, b]| add(unpack_low(a, b), unpack_high(a, b)))
        }

        /// # Safety
        /// The pointers of the panel are valid for `HEIGHT` components; the CPU has these features.
        #[target_feature(enable = $features)]
        #[inline]
        pub(crate) unsafe fn products<const HEIGHT: usize>(panel: &Panel<f32>) {
            let Panel { dim, bias, sums, ahead, .. } = *panel;
            // Each sweep prefetches its share of the memory.
            let part = ahead.1 * 2 * ROWS_AT_ONCE / f32::WIDTH;
            let line = part * QUAD / (dim * LINES);
            let ahead = |sweep: usize| ahead.0.wrapping_add(sweep * part);
            for (block, first) in (0..f32::WIDTH).step_by(QUAD * ROWS_AT_ONCE).enumerate() {
                // SAFETY: the caller's bounds; `first` and the rows of both sweeps are below `WIDTH`, and so are the sums.
                unsafe {
                    let even = sweep::<HEIGHT>(panel, first, ahead(2 * block), line);
                    let odd = sweep::<HEIGHT>(panel, first + 2, ahead(2 * block + 1), line);
                    for i in 0..HEIGHT {
                        let products = add(shuffle::<0x44>(even[i], odd[i]), shuffle::<0xee>(even[i], odd[i]));
                        store(sums.0.add(i * sums.1 + first), add(splat(*bias.add(i)), products));
                    }
                }
            }
        }
    };
}

/// Registers of 256 bits.
pub(crate) mod fused {
    use crate::float::Real;
    use crate::layout::{Panel, QUAD};
    use crate::prefetch::prefetch_early;
    use std::arch::x86_64::*;
    use std::arch::x86_64::{
        __m256 as Register, _mm256_add_ps as add, _mm256_fmadd_ps as fused, _mm256_set1_ps as splat, _mm256_setzero_ps as zero,
        _mm256_shuffle_ps as shuffle, _mm256_storeu_ps as store, _mm256_unpackhi_ps as unpack_high,
        _mm256_unpacklo_ps as unpack_low,
    };

    const ROWS_AT_ONCE: usize = 2;
    const LINES: usize = 1;

    panel_products!("avx,fma");

    /// # Safety
    /// A quad is readable at `address` and a step further on.
    #[target_feature(enable = "avx")]
    #[inline]
    pub(super) unsafe fn quads_of_rows(address: *const f32, step: usize) -> __m256 {
        // SAFETY: the caller's bounds.
        unsafe { _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(_mm_loadu_ps(address)), _mm_loadu_ps(address.add(step))) }
    }

    /// # Safety
    /// A quad is readable at `address`.
    #[target_feature(enable = "avx")]
    #[inline]
    unsafe fn repeat_quad(address: *const f32) -> __m256 {
        // SAFETY: the caller's bounds.
        unsafe { _mm256_broadcast_ps(&_mm_loadu_ps(address)) }
    }
}

/// Registers of 512 bits.
pub(crate) mod wide {
    use super::fused::quads_of_rows as quads_of_two_rows;
    use crate::float::Real;
    use crate::layout::{Panel, QUAD};
    use crate::prefetch::prefetch_early;
    use std::arch::x86_64::*;
    use std::arch::x86_64::{
        __m512 as Register, _mm512_add_ps as add, _mm512_fmadd_ps as fused, _mm512_set1_ps as splat, _mm512_setzero_ps as zero,
        _mm512_shuffle_ps as shuffle, _mm512_storeu_ps as store, _mm512_unpackhi_ps as unpack_high,
        _mm512_unpacklo_ps as unpack_low,
    };

    const ROWS_AT_ONCE: usize = 4;
    const LINES: usize = 2;

    panel_products!("avx512f,avx512dq");

    /// # Safety
    /// A quad is readable at `address` and at each of three steps further on.
    #[target_feature(enable = "avx512f,avx512dq")]
    #[inline]
    unsafe fn quads_of_rows(address: *const f32, step: usize) -> __m512 {
        // Inserting four times into the wide register takes longer on CPUs that split it in halves.
        // SAFETY: the caller's bounds.
        unsafe {
            let (low, high) = (quads_of_two_rows(address, step), quads_of_two_rows(address.add(2 * step), step));
            _mm512_insertf32x8::<1>(_mm512_castps256_ps512(low), high)
        }
    }

    /// # Safety
    /// A quad is readable at `address`.
    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn repeat_quad(address: *const f32) -> __m512 {
        // SAFETY: the caller's bounds.
        unsafe { _mm512_broadcast_f32x4(_mm_loadu_ps(address)) }
    }
}
