//! A checkpoint with arbitrary bytes: is refused, or is written again with the same bytes.
#![no_main]

use fuzz as _;
use libfuzzer_sys::fuzz_target;
use vmfkit::train::Checkpoint;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(checkpoint) = Checkpoint::from_bytes(bytes) {
        let written = checkpoint.to_bytes();
        let again = Checkpoint::from_bytes(&written).expect("what was written can be read");
        assert_eq!(again.to_bytes(), written);
    }
});
