//! The kernels of `gemm_portable` and `gemm_avx2` for AVX-512: 32 registers of 512 bits.
//!
//! The sums are those of the narrower kernels to the last bit: each has a lane of its own, and its terms come in the same order.

/// The products of a module that has the names of its precision: `Float`, `WIDTH`, `zero`, `splat`, `load`, `store`, `fused`, `add`.
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

    /// Four columns at a time of 16 rows.
    ///
    /// # Safety
    /// As `dispatch::RawKernels::transpose`, with AVX-512.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(crate) unsafe fn transpose(rows: impl Fn(usize) -> *const f32, dim: usize, out: *mut f32) -> usize {
        let whole = dim - dim % 4;
        let rows: [*const f32; 16] = std::array::from_fn(rows);
        for column in (0..whole).step_by(4) {
            // SAFETY: the caller checked that each row has `dim` values, so four from `column` on, and that `out` has 16 for each column.
            unsafe {
                let four = |row: usize| _mm_loadu_ps(rows[row].add(column));
                // Row i beside rows i + 4, i + 8 and i + 12.
                let [a, b, c, d]: [__m512; 4] = std::array::from_fn(|i| {
                    let two = _mm512_insertf32x4::<1>(_mm512_castps128_ps512(four(i)), four(i + 4));
                    _mm512_insertf32x4::<3>(_mm512_insertf32x4::<2>(two, four(i + 8)), four(i + 12))
                });
                let (ab, ab_high) = (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
                let (cd, cd_high) = (_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
                let address = out.add(column * 16);
                _mm512_storeu_ps(address, _mm512_shuffle_ps::<0x44>(ab, cd));
                _mm512_storeu_ps(address.add(16), _mm512_shuffle_ps::<0xee>(ab, cd));
                _mm512_storeu_ps(address.add(32), _mm512_shuffle_ps::<0x44>(ab_high, cd_high));
                _mm512_storeu_ps(address.add(48), _mm512_shuffle_ps::<0xee>(ab_high, cd_high));
            }
        }
        whole
    }
}

/// Double precision.
pub(crate) mod double {
    use crate::layout::{Runs, factor_index};
    use crate::prefetch::prefetch_early;
    use crate::sparse_responsibilities::SparseResponsibilities;
    use std::arch::x86_64::*;
    type Float = f64;
    const WIDTH: usize = 8;
    use std::arch::x86_64::{
        _mm512_add_pd as add, _mm512_fmadd_pd as fused, _mm512_loadu_pd as load, _mm512_set1_pd as splat,
        _mm512_setzero_pd as zero, _mm512_storeu_pd as store,
    };

    products!();

    /// As `SparseResponsibilities::list`, with AVX-512.
    #[target_feature(enable = "avx512f,avx512vl")]
    #[inline]
    pub(crate) fn list(responsibilities: &[f64], listed: &mut SparseResponsibilities<f64>) {
        listed.len = 0;
        let mut numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        for responsibilities in responsibilities.chunks_exact(8) {
            let (rows, values) = (&mut listed.rows[listed.len..][..8], &mut listed.values[listed.len..][..8]);
            // SAFETY: slices of 8 values each.
            unsafe {
                let responsibilities = _mm512_loadu_pd(responsibilities.as_ptr());
                let above = _mm512_cmp_pd_mask::<_CMP_GT_OQ>(responsibilities, _mm512_setzero_pd());
                if above != 0 {
                    _mm512_storeu_pd(values.as_mut_ptr(), _mm512_maskz_compress_pd(above, responsibilities));
                    _mm256_storeu_si256(rows.as_mut_ptr().cast(), _mm256_maskz_compress_epi32(above, numbers));
                    listed.len += above.count_ones() as usize;
                }
            }
            numbers = _mm256_add_epi32(numbers, _mm256_set1_epi32(8));
        }
    }

    /// Two columns at a time of 8 rows.
    ///
    /// # Safety
    /// As `dispatch::RawKernels::transpose`, with AVX-512.
    #[target_feature(enable = "avx512f,avx512dq")]
    #[inline]
    pub(crate) unsafe fn transpose(rows: impl Fn(usize) -> *const f64, dim: usize, out: *mut f64) -> usize {
        let whole = dim - dim % 2;
        let rows: [*const f64; 8] = std::array::from_fn(rows);
        for column in (0..whole).step_by(2) {
            // SAFETY: the caller checked that each row has `dim` values, so two from `column` on, and that `out` has 8 for each column.
            unsafe {
                let two = |row: usize| _mm_loadu_pd(rows[row].add(column));
                // Row i beside rows i + 2, i + 4 and i + 6.
                let [a, b]: [__m512d; 2] = std::array::from_fn(|i| {
                    let four = _mm512_insertf64x2::<1>(_mm512_castpd128_pd512(two(i)), two(i + 2));
                    _mm512_insertf64x2::<3>(_mm512_insertf64x2::<2>(four, two(i + 4)), two(i + 6))
                });
                let address = out.add(column * 8);
                _mm512_storeu_pd(address, _mm512_unpacklo_pd(a, b));
                _mm512_storeu_pd(address.add(8), _mm512_unpackhi_pd(a, b));
            }
        }
        whole
    }
}
