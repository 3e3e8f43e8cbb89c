//! Transposition of panels of rows with AVX shuffles.

/// Single precision.
pub(crate) mod single {
    use std::arch::x86_64::*;

    /// Transposes four columns of 16 rows at a time.
    ///
    /// # Safety
    /// As `dispatch::RawKernels::transpose`, with AVX.
    #[target_feature(enable = "avx")]
    #[inline]
    pub(crate) unsafe fn transpose(rows: impl Fn(usize) -> *const f32, dim: usize, out: *mut f32) -> usize {
        let whole = dim - dim % 4;
        for eight in [0, 8] {
            let rows: [*const f32; 8] = std::array::from_fn(|i| rows(eight + i));
            for column in (0..whole).step_by(4) {
                // SAFETY: each row has `dim` values, so four from `column` on, and `out` has 16 per
                // column (the caller's bounds).
                unsafe {
                    // Row i beside row i + 4.
                    let [a, b, c, d]: [__m256; 4] = std::array::from_fn(|i| {
                        let (low, high) = (_mm_loadu_ps(rows[i].add(column)), _mm_loadu_ps(rows[i + 4].add(column)));
                        _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high)
                    });
                    let (ab, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                    let (cd, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
                    let target = out.add(column * 16 + eight);
                    _mm256_storeu_ps(target, _mm256_shuffle_ps::<0x44>(ab, cd));
                    _mm256_storeu_ps(target.add(16), _mm256_shuffle_ps::<0xee>(ab, cd));
                    _mm256_storeu_ps(target.add(32), _mm256_shuffle_ps::<0x44>(ab_high, cd_high));
                    _mm256_storeu_ps(target.add(48), _mm256_shuffle_ps::<0xee>(ab_high, cd_high));
                }
            }
        }
        whole
    }
}

/// Double precision.
pub(crate) mod double {
    use std::arch::x86_64::*;

    /// Transposes two columns of 8 rows at a time.
    ///
    /// # Safety
    /// As `dispatch::RawKernels::transpose`, with AVX.
    #[target_feature(enable = "avx")]
    #[inline]
    pub(crate) unsafe fn transpose(rows: impl Fn(usize) -> *const f64, dim: usize, out: *mut f64) -> usize {
        let whole = dim - dim % 2;
        for four in [0, 4] {
            let rows: [*const f64; 4] = std::array::from_fn(|i| rows(four + i));
            for column in (0..whole).step_by(2) {
                // SAFETY: each row has `dim` values, so two from `column` on, and `out` has 8 per
                // column (the caller's bounds).
                unsafe {
                    // Row i beside row i + 2.
                    let [a, b]: [__m256d; 2] = std::array::from_fn(|i| {
                        let (low, high) = (_mm_loadu_pd(rows[i].add(column)), _mm_loadu_pd(rows[i + 2].add(column)));
                        _mm256_insertf128_pd::<1>(_mm256_castpd128_pd256(low), high)
                    });
                    let target = out.add(column * 8 + four);
                    _mm256_storeu_pd(target, _mm256_unpacklo_pd(a, b));
                    _mm256_storeu_pd(target.add(8), _mm256_unpackhi_pd(a, b));
                }
            }
        }
        whole
    }
}
