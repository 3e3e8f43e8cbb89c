//! Arbitrary bytes through a pipe, in the format that they resemble: give rows or an error.
#![no_main]

use fuzz as _;
use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use vmfkit::source::Source;
use vmfkit_io::{Options, open_stream};

// Panics of third-party decoders become errors; all other panics are findings.
fuzz_target!(init: vmfkit_io::silence_decoder_panics(), |bytes: &[u8]| {
    let options = Options::new().rescale(true).block_rows(64);
    let Ok(mut source) = open_stream(Cursor::new(bytes.to_vec()), "bytes", &options) else { return };
    let dim = source.dim();
    let mut buffer = vmfkit::RowBatch::default();
    while let Ok(Some(block)) = source.next_validated(&mut buffer) {
        assert!((1..=64).contains(&block.len()) && block.dim() == dim);
    }
});
