//! What all targets have in common: memory that no input of a fuzzer may ask for, and files of any bytes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use vmfkit::source::Source;
use vmfkit_io::{DataSource, Options};

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

/// Reads all rows of a file of these bytes, through the system's cache and past it: rows or an error, and the same rows both times.
///
/// `name` says what the file is called; its ending is that of the format.
pub fn read_file(name: &str, bytes: &[u8]) {
    let path = folder().join(format!("vmfkit-fuzz-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).expect("a file to read from");
    let path = path.to_str().expect("a name in UTF-8");
    let options = Options::new().block_rows(64);
    let Ok(mut source) = vmfkit_io::open(path, &options.clone().rescale(true)) else { return };
    let Some(rows) = read_rows(&mut source) else { return };
    // Rows that are rescaled are not lent as they are in the file; those of unit length are the same with and without.
    let mut source = vmfkit_io::open(path, &options).expect("the file has not changed");
    if source.hold(0) == Ok(false)
        && let Some(again) = read_rows(&mut source)
    {
        assert!(again == rows, "rows past the cache are the same rows");
    }
}

/// The rows of a source as bits, none if one of them is wrong.
fn read_rows(source: &mut DataSource) -> Option<Vec<u64>> {
    let (dim, expected) = (source.dim(), source.rows());
    let (mut bits, mut count) = (Vec::new(), 0);
    let mut buffer = vmfkit::RowBatch::default();
    while let Some(block) = source.next_validated(&mut buffer).ok()? {
        assert!((1..=64).contains(&block.len()) && block.dim() == dim);
        count += block.len() as u64;
        // A few hostile bytes may stand for many rows, of which some will do.
        if bits.len() < 1 << 16 && dim <= 1 << 10 {
            bits.extend((0..block.len()).flat_map(|row| block.row(row)).map(f64::to_bits));
        }
    }
    assert!(expected.is_none_or(|expected| expected == count), "{count} rows of {expected:?}");
    Some(bits)
}

/// Files in memory, where there is such a place.
fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}
