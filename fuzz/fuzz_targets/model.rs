//! A model file with arbitrary bytes: is refused, or can be used, written and read again with the
//! same bytes.
#![no_main]

use fuzz as _;
use libfuzzer_sys::fuzz_target;
use vmfkit::store::model::{from_bytes, to_bytes};

fuzz_target!(|bytes: &[u8]| {
    if let Ok((mixture, description)) = from_bytes(bytes) {
        let written = to_bytes(&mixture, &description);
        let (again, same) = from_bytes(&written).expect("what was written can be read");
        assert_eq!(mixture, again);
        assert_eq!(to_bytes(&again, &same), written);
    }
});
