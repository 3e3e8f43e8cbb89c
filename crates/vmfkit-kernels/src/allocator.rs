//! A setting of the C library's allocator.

/// Makes all threads of the process allocate from one arena if the C library is glibc; does nothing
/// elsewhere.
///
/// By default, glibc reserves 64 MB of address space for the arena of each thread. Call this before
/// the first thread starts: arenas that exist are kept.
pub fn use_one_arena() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const M_ARENA_MAX: i32 = -8;
        // SAFETY: the types are those of the declaration in `malloc.h`. The function takes two
        // numbers by value and locks what it changes.
        unsafe extern "C" {
            safe fn mallopt(parameter: i32, value: i32) -> i32;
        }
        mallopt(M_ARENA_MAX, 1);
    }
}
