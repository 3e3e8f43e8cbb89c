//! The kernels of `products` and `listed` for registers of 512 bits, of which there are 32.
//!
//! The sums are those of the narrower kernels to the last bit: each has a place in a register of its own, and its terms come in the same order.

use super::listed::Listed;
use super::products::{Runs, place_of};
use crate::vector::prefetch_early;
use std::arch::x86_64::*;

macro_rules! outer_products {
    ($name:ident, $float:ident, $register:ident, $width:expr, $zero:ident, $every:ident, $load:ident, $store:ident, $fused:ident, $add:ident) => {
        /// # Safety
        /// As `products::outer_products`, with AVX-512.
        #[target_feature(enable = "avx512f")]
        #[inline]
        pub(super) unsafe fn $name<const GROUPED: bool, const HEIGHT: usize, const RUNS: usize>(
            terms: usize,
            left: (*const $float, usize),
            right: Runs<$float>,
            ahead: Runs<$float>,
            (sums, sums_step): (*mut $float, usize),
        ) {
            let mut products = [[$zero(); RUNS]; HEIGHT];
            for p in 0..terms {
                for run in 0..RUNS {
                    prefetch_early(ahead.first.wrapping_add(p * ahead.step + run * ahead.beside));
                }
                // SAFETY: the caller's promise.
                unsafe {
                    let place = right.first.add(p * right.step);
                    let neighbours: [$register; RUNS] = std::array::from_fn(|run| $load(place.add(run * right.beside)));
                    for i in 0..HEIGHT {
                        let factor = $every(*left.0.add(place_of::<GROUPED, HEIGHT>(p, i, left.1)));
                        for run in 0..RUNS {
                            products[i][run] = $fused(factor, neighbours[run], products[i][run]);
                        }
                    }
                }
            }
            for i in 0..HEIGHT {
                for run in 0..RUNS {
                    // SAFETY: the caller's promise.
                    unsafe {
                        let place = sums.add(i * sums_step + run * $width);
                        $store(place, $add($load(place), products[i][run]));
                    }
                }
            }
        }
    };
}

outer_products!(
    outer_products_f32,
    f32,
    __m512,
    16,
    _mm512_setzero_ps,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_fmadd_ps,
    _mm512_add_ps
);
outer_products!(
    outer_products_f64,
    f64,
    __m512d,
    8,
    _mm512_setzero_pd,
    _mm512_set1_pd,
    _mm512_loadu_pd,
    _mm512_storeu_pd,
    _mm512_fmadd_pd,
    _mm512_add_pd
);

macro_rules! listed_products {
    ($name:ident, $float:ident, $width:expr, $every:ident, $load:ident, $store:ident, $fused:ident) => {
        /// # Safety
        /// As `listed::listed_products`, with AVX-512.
        #[target_feature(enable = "avx512f")]
        #[inline]
        pub(super) unsafe fn $name<const ADD: bool, const SPAN: usize>(
            listed: &Listed<$float>,
            columns: (*const $float, usize),
            last: usize,
            sums: *mut $float,
        ) {
            // SAFETY: the caller's promise.
            let mut products: [_; SPAN] =
                std::array::from_fn(|run| if ADD { unsafe { $load(sums.add(run * $width)) } } else { $every(0.0) });
            for (row, share) in listed.iter() {
                let share = $every(share);
                // SAFETY: the caller's promise.
                unsafe {
                    let row = columns.0.add(row * columns.1);
                    for run in 0..SPAN - 1 {
                        products[run] = $fused(share, $load(row.add(run * $width)), products[run]);
                    }
                    products[SPAN - 1] = $fused(share, $load(row.add(last)), products[SPAN - 1]);
                }
            }
            for run in 0..SPAN {
                // SAFETY: the caller's promise.
                unsafe { $store(sums.add(run * $width), products[run]) };
            }
        }
    };
}

listed_products!(listed_products_f32, f32, 16, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_fmadd_ps);
listed_products!(listed_products_f64, f64, 8, _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_fmadd_pd);

/// As `listed::list_shares`, with AVX-512.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn list_shares_f32(shares: &[f32], listed: &mut Listed<f32>) {
    listed.len = 0;
    let mut numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for shares in shares.chunks_exact(16) {
        let (rows, places) = (&mut listed.rows[listed.len..][..16], &mut listed.shares[listed.len..][..16]);
        // SAFETY: slices of 16 values each.
        unsafe {
            let shares = _mm512_loadu_ps(shares.as_ptr());
            let above = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(shares, _mm512_setzero_ps());
            if above != 0 {
                _mm512_storeu_ps(places.as_mut_ptr(), _mm512_maskz_compress_ps(above, shares));
                _mm512_storeu_si512(rows.as_mut_ptr().cast(), _mm512_maskz_compress_epi32(above, numbers));
                listed.len += above.count_ones() as usize;
            }
        }
        numbers = _mm512_add_epi32(numbers, _mm512_set1_epi32(16));
    }
}

/// As `listed::list_shares`, with AVX-512.
#[target_feature(enable = "avx512f,avx512vl")]
#[inline]
pub(super) fn list_shares_f64(shares: &[f64], listed: &mut Listed<f64>) {
    listed.len = 0;
    let mut numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for shares in shares.chunks_exact(8) {
        let (rows, places) = (&mut listed.rows[listed.len..][..8], &mut listed.shares[listed.len..][..8]);
        // SAFETY: slices of 8 values each.
        unsafe {
            let shares = _mm512_loadu_pd(shares.as_ptr());
            let above = _mm512_cmp_pd_mask::<_CMP_GT_OQ>(shares, _mm512_setzero_pd());
            if above != 0 {
                _mm512_storeu_pd(places.as_mut_ptr(), _mm512_maskz_compress_pd(above, shares));
                _mm256_storeu_si256(rows.as_mut_ptr().cast(), _mm256_maskz_compress_epi32(above, numbers));
                listed.len += above.count_ones() as usize;
            }
        }
        numbers = _mm256_add_epi32(numbers, _mm256_set1_epi32(8));
    }
}

/// Four columns at a time of 16 rows.
///
/// # Safety
/// As `products::Real::turn`, with AVX-512.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) unsafe fn turn_f32(rows: impl Fn(usize) -> *const f32, dim: usize, out: *mut f32) -> usize {
    let whole = dim - dim % 4;
    let rows: [*const f32; 16] = std::array::from_fn(rows);
    for column in (0..whole).step_by(4) {
        // SAFETY: the caller's promise: four values from `column` on in each row, and 16 places a column.
        unsafe {
            let four = |row: usize| _mm_loadu_ps(rows[row].add(column));
            // Row i beside rows i + 4, i + 8 and i + 12.
            let [a, b, c, d]: [__m512; 4] = std::array::from_fn(|i| {
                let two = _mm512_insertf32x4::<1>(_mm512_castps128_ps512(four(i)), four(i + 4));
                _mm512_insertf32x4::<3>(_mm512_insertf32x4::<2>(two, four(i + 8)), four(i + 12))
            });
            let (ab, ab_high) = (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
            let (cd, cd_high) = (_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
            let place = out.add(column * 16);
            _mm512_storeu_ps(place, _mm512_shuffle_ps::<0x44>(ab, cd));
            _mm512_storeu_ps(place.add(16), _mm512_shuffle_ps::<0xee>(ab, cd));
            _mm512_storeu_ps(place.add(32), _mm512_shuffle_ps::<0x44>(ab_high, cd_high));
            _mm512_storeu_ps(place.add(48), _mm512_shuffle_ps::<0xee>(ab_high, cd_high));
        }
    }
    whole
}

/// Two columns at a time of 8 rows.
///
/// # Safety
/// As `products::Real::turn`, with AVX-512.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
pub(super) unsafe fn turn_f64(rows: impl Fn(usize) -> *const f64, dim: usize, out: *mut f64) -> usize {
    let whole = dim - dim % 2;
    let rows: [*const f64; 8] = std::array::from_fn(rows);
    for column in (0..whole).step_by(2) {
        // SAFETY: the caller's promise: two values from `column` on in each row, and 8 places a column.
        unsafe {
            let two = |row: usize| _mm_loadu_pd(rows[row].add(column));
            // Row i beside rows i + 2, i + 4 and i + 6.
            let [a, b]: [__m512d; 2] = std::array::from_fn(|i| {
                let four = _mm512_insertf64x2::<1>(_mm512_castpd128_pd512(two(i)), two(i + 2));
                _mm512_insertf64x2::<3>(_mm512_insertf64x2::<2>(four, two(i + 4)), two(i + 6))
            });
            let place = out.add(column * 8);
            _mm512_storeu_pd(place, _mm512_unpacklo_pd(a, b));
            _mm512_storeu_pd(place.add(8), _mm512_unpackhi_pd(a, b));
        }
    }
    whole
}
