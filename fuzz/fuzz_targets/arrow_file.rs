//! An Arrow file, or an Arrow stream in a file, with arbitrary bytes: gives rows or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

// Panics of third-party decoders become errors; all other panics are findings.
fuzz_target!(init: vmfkit_io::silence_decoder_panics(), |bytes: &[u8]| fuzz::read_file("rows.arrow", bytes));
