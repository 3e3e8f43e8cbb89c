//! A `.npz` archive of any bytes: rows or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

// Panics of decoders that are not ours become errors of the file; all others are found.
fuzz_target!(init: vmfkit_io::silence_decoder_panics(), |bytes: &[u8]| fuzz::read_file("rows.npz", bytes));
