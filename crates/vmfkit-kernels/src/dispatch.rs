//! [`Kernels`]: the kernels for each precision and instruction set.

use crate::float::Real;
use crate::gemm_portable;
use crate::instructions::Instructions;
use crate::layout::{Panel, Runs};
use crate::sparse_responsibilities::SparseResponsibilities;
#[cfg(target_arch = "x86_64")]
use crate::{gemm_avx2, gemm_avx512, small_k_x86};

mod sealed {
    use super::*;

    /// The kernels of one precision. They are unsafe because they read and write raw pointers.
    /// They do not check the CPU's features: a type that implements [`Instructions`] proves that
    /// the check was made.
    pub trait RawKernels: Real {
        /// Transposes leading columns of a panel of `WIDTH` rows into `out`, and returns how many
        /// columns it transposed. The caller transposes the rest.
        ///
        /// # Safety
        /// Each row has `dim` values; `out` has capacity for `dim * WIDTH` values.
        unsafe fn transpose<I: Instructions>(rows: impl Fn(usize) -> *const Self, dim: usize, out: *mut Self) -> usize;
        /// # Safety
        /// As [`gemm_portable::outer_products`].
        unsafe fn outer_products<I: Instructions, const GROUPED: bool, const HEIGHT: usize, const RUNS: usize>(
            terms: usize,
            left: (*const Self, usize),
            right: Runs<Self>,
            ahead: Runs<Self>,
            sums: (*mut Self, usize),
        );
        /// # Safety
        /// As [`gemm_portable::sparse_products`].
        unsafe fn sparse_products<I: Instructions, const ADD: bool, const SPAN: usize>(
            listed: &SparseResponsibilities<Self>,
            columns: (*const Self, usize),
            last: usize,
            sums: *mut Self,
        );
        /// # Safety
        /// All pointers of the panel are valid for `HEIGHT` components.
        unsafe fn panel_products<I: Instructions, const HEIGHT: usize>(panel: &Panel<Self>);
        /// As [`SparseResponsibilities::list`].
        fn list<I: Instructions>(responsibilities: &[Self], listed: &mut SparseResponsibilities<Self>);
    }
}

pub(crate) use sealed::RawKernels;

/// `f32` or `f64`, with the kernels of this crate.
pub trait Kernels: RawKernels {}

impl Kernels for f32 {}
impl Kernels for f64 {}

/// Implements the kernels shared by both precisions; those of one precision follow as items.
macro_rules! raw_kernels {
    ($float:ident, $suffixed:ident, $($own:item)*) => {
        impl RawKernels for $float {
            #[inline(always)]
            unsafe fn transpose<I: Instructions>(rows: impl Fn(usize) -> *const Self, dim: usize, out: *mut Self) -> usize {
                #[cfg(target_arch = "x86_64")]
                if I::FUSED {
                    // SAFETY: the caller's bounds; on x86, `I::FUSED` implies AVX2.
                    return unsafe { gemm_avx2::$suffixed::transpose(rows, dim, out) };
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
                    // SAFETY: the caller's bounds; `I::WIDE` implies that the CPU has AVX-512.
                    return unsafe {
                        gemm_avx512::$suffixed::outer_products::<GROUPED, HEIGHT, RUNS>(terms, left, right, ahead, sums)
                    };
                }
                debug_assert!(RUNS <= I::RUNS);
                // SAFETY: the caller's bounds.
                unsafe {
                    gemm_portable::outer_products::<Self, I, GROUPED, HEIGHT, { <$float as Real>::WIDTH }>(
                        terms, left, right, ahead, sums,
                    )
                }
            }

            #[inline(always)]
            unsafe fn sparse_products<I: Instructions, const ADD: bool, const SPAN: usize>(
                listed: &SparseResponsibilities<Self>,
                columns: (*const Self, usize),
                last: usize,
                sums: *mut Self,
            ) {
                #[cfg(target_arch = "x86_64")]
                if I::WIDE {
                    // SAFETY: the caller's bounds; `I::WIDE` implies that the CPU has AVX-512.
                    return unsafe { gemm_avx512::$suffixed::sparse_products::<ADD, SPAN>(listed, columns, last, sums) };
                }
                // SAFETY: the caller's bounds.
                unsafe {
                    gemm_portable::sparse_products::<Self, I, ADD, SPAN, { <$float as Real>::WIDTH }>(listed, columns, last, sums)
                }
            }

            $($own)*
        }
    };
}

raw_kernels! {
    f32,
    single,
    #[inline(always)]
    unsafe fn panel_products<I: Instructions, const HEIGHT: usize>(panel: &Panel<Self>) {
        #[cfg(target_arch = "x86_64")]
        if I::WIDE {
            // SAFETY: the caller's bounds; `I::WIDE` implies that the CPU has AVX-512.
            return unsafe { small_k_x86::wide::products::<HEIGHT>(panel) };
        }
        #[cfg(target_arch = "x86_64")]
        if I::FUSED {
            // SAFETY: the caller's bounds; on x86, `I::FUSED` implies AVX and FMA.
            return unsafe { small_k_x86::fused::products::<HEIGHT>(panel) };
        }
        let _ = panel;
        unreachable!("`SmallKDirections::is_faster` is false without kernels")
    }
    #[inline(always)]
    fn list<I: Instructions>(responsibilities: &[Self], listed: &mut SparseResponsibilities<Self>) {
        #[cfg(target_arch = "x86_64")]
        if I::WIDE {
            // SAFETY: `I::WIDE` implies that the CPU has AVX-512; the function checks its slices.
            return unsafe { gemm_avx512::single::list(responsibilities, listed) };
        }
        listed.list::<{ <f32 as Real>::WIDTH }>(responsibilities)
    }
}
raw_kernels! {
    f64,
    double,
    #[inline(always)]
    unsafe fn panel_products<I: Instructions, const HEIGHT: usize>(_: &Panel<Self>) {
        unreachable!("`SmallKDirections::is_faster` is false in double precision")
    }
    #[inline(always)]
    fn list<I: Instructions>(responsibilities: &[Self], listed: &mut SparseResponsibilities<Self>) {
        listed.list::<{ <f64 as Real>::WIDTH }>(responsibilities)
    }
}
