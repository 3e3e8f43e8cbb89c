//! Hints for the caches. No address makes a hint fail, so all of these are safe.

/// Bytes of a cache line.
pub(crate) const CACHE_LINE: usize = 64;

/// Asks for all cache lines of a slice that will be read soon.
#[inline]
pub fn prefetch_slice<T>(values: &[T]) {
    values.chunks((CACHE_LINE / size_of::<T>().max(1)).max(1)).for_each(|line| prefetch(line.as_ptr()));
}

#[inline(always)]
fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which no address makes fail; SSE is part of every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for a value that is needed later, into the second-level cache.
#[inline(always)]
pub(crate) fn prefetch_early<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint, which no address makes fail; SSE is part of every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
