//! The kernels of `gemm_portable` written for AVX-512: 32 registers of 512 bits.
//!
//! The results have the same bits as those of the portable kernels compiled for AVX2: each sum has
//! its own lane and adds its terms in the same order.
//!
//! Compiled for AVX-512, the portable kernels are slower than these by hand: half the speed for the
//! products in f32, less than a tenth for the sparse products, whose sums the compiler spills.

/// Both kernels. The module that calls this defines `Float`, `WIDTH`, `zero`, `splat`, `load`,
/// `store`, `fused` and `add`.
macro_rules! products {
    () => {
        /// # Safety
        /// As `gemm_portable::outer_products`, with AVX-512.
        #[target_feature(enable = "avx512f")]
        #[inline]
        pub(crate) unsafe fn outer_products<const GROUPED: bool, const HEIGHT: usize, const RUNS: usize>(
            terms: usize,
            left: (*const Float, usize),
            right: Runs<Float>,
            ahead: Runs<Float>,
            (sums, sums_step): (*mut Float, usize),
        ) {
            let mut products = [[zero(); RUNS]; HEIGHT];
            for p in 0..terms {
                for run in 0..RUNS {
                    prefetch_early(ahead.first.wrapping_add(p * ahead.step + run * ahead.beside));
                }
                // SAFETY: the caller's bounds.
                unsafe {
                    let address = right.first.add(p * right.step);
                    let neighbours: [_; RUNS] = std::array::from_fn(|run| load(address.add(run * right.beside)));
                    for i in 0..HEIGHT {
                        let factor = splat(*left.0.add(factor_index::<GROUPED, HEIGHT>(p, i, left.1)));
                        for run in 0..RUNS {
                            products[i][run] = fused(factor, neighbours[run], products[i][run]);
                        }
                    }
                }
            }
            for i in 0..HEIGHT {
                for run in 0..RUNS {
                    // SAFETY: the caller's bounds.
                    unsafe {
                        let address = sums.add(i * sums_step + run * WIDTH);
                        store(address, add(load(address), products[i][run]));
                    }
                }
            }
        }

        /// # Safety
        /// As `gemm_portable::sparse_products`, with AVX-512.
        #[target_feature(enable = "avx512f")]
        #[inline]
        pub(crate) unsafe fn sparse_products<const ADD: bool, const SPAN: usize>(
            listed: &SparseResponsibilities<Float>,
            columns: (*const Float, usize),
            last: usize,
            sums: *mut Float,
        ) {
            // SAFETY: the caller's bounds.
            let mut products: [_; SPAN] =
                std::array::from_fn(|run| if ADD { unsafe { load(sums.add(run * WIDTH)) } } else { splat(0.0) });
            for (row, responsibility) in listed.iter() {
                let responsibility = splat(responsibility);
                // SAFETY: the caller's bounds.
                unsafe {
                    let row = columns.0.add(row * columns.1);
                    for run in 0..SPAN - 1 {
                        products[run] = fused(responsibility, load(row.add(run * WIDTH)), products[run]);
                    }
                    products[SPAN - 1] = fused(responsibility, load(row.add(last)), products[SPAN - 1]);
                }
            }
            for run in 0..SPAN {
                // SAFETY: the caller's bounds.
                unsafe { store(sums.add(run * WIDTH), products[run]) };
            }
        }
    };
}

/// Single precision.
pub(crate) mod single {
    use crate::layout::{Runs, factor_index};
    use crate::prefetch::prefetch_early;
    use crate::sparse_responsibilities::SparseResponsibilities;
    use std::arch::x86_64::*;
    type Float = f32;
    const WIDTH: usize = 16;
    use std::arch::x86_64::{
        _mm512_add_ps as add, _mm512_fmadd_ps as fused, _mm512_loadu_ps as load, _mm512_set1_ps as splat,
        _mm512_setzero_ps as zero, _mm512_storeu_ps as store,
    };

    products!();

    /// As `SparseResponsibilities::list`, with AVX-512.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(crate) fn list(responsibilities: &[f32], listed: &mut SparseResponsibilities<f32>) {
        listed.len = 0;
        let mut numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        for responsibilities in responsibilities.chunks_exact(16) {
            let (rows, values) = (&mut listed.rows[listed.len..][..16], &mut listed.values[listed.len..][..16]);
            // SAFETY: slices of 16 values each.
            unsafe {
                let responsibilities = _mm512_loadu_ps(responsibilities.as_ptr());
                let above = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(responsibilities, _mm512_setzero_ps());
                if above != 0 {
                    _mm512_storeu_ps(values.as_mut_ptr(), _mm512_maskz_compress_ps(above, responsibilities));
                    _mm512_storeu_si512(rows.as_mut_ptr().cast(), _mm512_maskz_compress_epi32(above, numbers));
                    listed.len += above.count_ones() as usize;
                }
            }
            numbers = _mm512_add_epi32(numbers, _mm512_set1_epi32(16));
        }
    }
}

/// Double precision.
pub(crate) mod double {
    use crate::layout::{Runs, factor_index};
    use crate::prefetch::prefetch_early;
    use crate::sparse_responsibilities::SparseResponsibilities;
    type Float = f64;
    const WIDTH: usize = 8;
    use std::arch::x86_64::{
        _mm512_add_pd as add, _mm512_fmadd_pd as fused, _mm512_loadu_pd as load, _mm512_set1_pd as splat,
        _mm512_setzero_pd as zero, _mm512_storeu_pd as store,
    };

    products!();
}
