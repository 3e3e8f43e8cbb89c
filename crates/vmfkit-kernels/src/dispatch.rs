//! [`Kernels`]: which kernel runs for a precision and a set of instructions.

use crate::float::Real;
use crate::gemm_portable;
use crate::instructions::Instructions;
use crate::layout::{Panel, Runs};
use crate::sparse_responsibilities::SparseResponsibilities;
#[cfg(target_arch = "x86_64")]
use crate::{gemm_avx2, gemm_avx512, small_k_x86};

mod sealed {
    use super::*;

    /// The kernels of one precision. All are unsafe to call: they work on addresses, and those of AVX2 and AVX-512 run without asking the processor.
    /// Whoever has a type that implements [`Instructions`] got it from a function that has asked.
    pub trait RawKernels: Real {
        /// Transposes the first columns of a panel of rows, as many as there are shuffles for, and returns their number: column by
        /// column into `out`, each `WIDTH` rows.
        ///
        /// # Safety
        /// Each of the rows has `dim` values, and `out` has space for `dim` times `WIDTH`.
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
        /// What the panel points to is there, for `HEIGHT` components.
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

/// The kernels that both precisions have; the others follow as items.
macro_rules! raw_kernels {
    ($float:ident, $suffixed:ident, $($own:item)*) => {
        impl RawKernels for $float {
            #[inline(always)]
            unsafe fn transpose<I: Instructions>(rows: impl Fn(usize) -> *const Self, dim: usize, out: *mut Self) -> usize {
                #[cfg(target_arch = "x86_64")]
                if I::FUSED {
                    // SAFETY: the caller's bounds; `I` is fused only where the processor has AVX2.
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
                    // SAFETY: the caller's bounds; `I` is wide only where the processor has AVX-512.
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
                    // SAFETY: the caller's bounds; `I` is wide only where the processor has AVX-512.
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

raw_kernels!(
    f32,
    single,
    #[inline(always)]
    unsafe fn panel_products<I: Instructions, const HEIGHT: usize>(panel: &Panel<Self>) {
        #[cfg(target_arch = "x86_64")]
        if I::WIDE {
            // SAFETY: the caller's bounds; `I` is wide only where the processor has AVX-512.
            return unsafe { small_k_x86::wide::products::<HEIGHT>(panel) };
        }
        #[cfg(target_arch = "x86_64")]
        if I::FUSED {
            // SAFETY: the caller's bounds; `I` is fused only where the processor has AVX and fused multiplications.
            return unsafe { small_k_x86::fused::products::<HEIGHT>(panel) };
        }
        let _ = panel;
        unreachable!("`SmallKDirections::is_faster` is false without kernels")
    }
    #[inline(always)]
    fn list<I: Instructions>(responsibilities: &[Self], listed: &mut SparseResponsibilities<Self>) {
        #[cfg(target_arch = "x86_64")]
        if I::WIDE {
            // SAFETY: `I` is wide only where the processor has AVX-512; the function checks its slices.
            return unsafe { gemm_avx512::single::list(responsibilities, listed) };
        }
        listed.list::<{ <f32 as Real>::WIDTH }>(responsibilities)
    }
);
raw_kernels!(
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
);
