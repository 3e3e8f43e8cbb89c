//! Shared by all targets: a limit on the size of an allocation, and files with arbitrary bytes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use vmfkit::source::Source;
use vmfkit_io::{DataSource, Options};

/// Maximum size of an allocation in bytes. The limits of the fuzzer count only memory that is
/// touched, which an array of zeros is not.
const MOST: usize = 256 << 20;

/// Refuses large allocations. Code that cannot handle the failure aborts and is found; code that
/// handles it returns an error.
struct Limited;

#[global_allocator]
static LIMITED: Limited = Limited;

// SAFETY: every request is passed unchanged to the allocator of the system, or refused with a null pointer as the trait allows.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > MOST { std::ptr::null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() > MOST { std::ptr::null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > MOST { std::ptr::null_mut() } else { unsafe { System.realloc(pointer, layout, size) } }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Reads all rows of a file with these bytes, with and without the page cache. Both must give the
/// same rows, unless the first gives an error.
///
/// The extension of `name` is that of the format.
pub fn read_file(name: &str, bytes: &[u8]) {
    let path = folder().join(format!("vmfkit-fuzz-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).expect("a file to read from");
    let path = path.to_str().expect("a name in UTF-8");
    let options = Options::new().block_rows(64);
    let Ok(mut source) = vmfkit_io::open(path, &options.clone().rescale(true)) else { return };
    let Some(rows) = read_rows(&mut source) else { return };
    // Rescaled rows are copied, so the second reading does not rescale. Rows of unit length are the
    // same in both.
    let mut source = vmfkit_io::open(path, &options).expect("the file has not changed");
    if source.hold(0) == Ok(false)
        && let Some(again) = read_rows(&mut source)
    {
        assert!(again == rows, "the rows differ without the page cache");
    }
}

/// The rows of a source as bits, or None if a row is invalid.
fn read_rows(source: &mut DataSource) -> Option<Vec<u64>> {
    let (dim, expected) = (source.dim(), source.rows());
    let (mut bits, mut count) = (Vec::new(), 0);
    let mut buffer = vmfkit::RowBatch::default();
    while let Some(block) = source.next_validated(&mut buffer).ok()? {
        assert!((1..=64).contains(&block.len()) && block.dim() == dim);
        count += block.len() as u64;
        // A few hostile bytes may encode many rows; comparing some of them is enough.
        if bits.len() < 1 << 16 && dim <= 1 << 10 {
            bits.extend((0..block.len()).flat_map(|row| block.row(row)).map(f64::to_bits));
        }
    }
    assert!(expected.is_none_or(|expected| expected == count), "{count} rows of {expected:?}");
    Some(bits)
}

/// A folder in memory, if there is one.
fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}
