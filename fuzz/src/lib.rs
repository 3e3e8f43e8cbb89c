//! What all targets have in common: memory that no input of a fuzzer may ask for.

use std::alloc::{GlobalAlloc, Layout, System};

/// Bytes at once. The fuzzer's own limits count memory that is touched; an array of zeros is not.
const MOST: usize = 256 << 20;

/// Refuses large requests: code that asks without a way out ends there, and is found; code that asks with care makes an error of it.
struct Limited;

#[global_allocator]
static LIMITED: Limited = Limited;

// SAFETY: every request goes to the system's allocator unchanged, or is refused by the null pointer that the trait has for that.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > MOST { std::ptr::null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() > MOST { std::ptr::null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > MOST { std::ptr::null_mut() } else { unsafe { System.realloc(place, layout, size) } }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        unsafe { System.dealloc(place, layout) }
    }
}
