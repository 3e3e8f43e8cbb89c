//! Cache prefetch hints. A hint never faults, whatever the address, so these functions are safe.

/// The size of a cache line in bytes.
pub(crate) const CACHE_LINE: usize = 64;

/// Prefetches all cache lines of a slice into the first-level cache.
#[inline]
pub fn prefetch_slice<T>(values: &[T]) {
    values.chunks((CACHE_LINE / size_of::<T>().max(1)).max(1)).for_each(|line| prefetch(line.as_ptr()));
}

#[inline(always)]
fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint never faults; every x86-64 CPU has SSE.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Prefetches the cache line of an address into the second-level cache.
#[inline(always)]
pub(crate) fn prefetch_early<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint never faults; every x86-64 CPU has SSE.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
