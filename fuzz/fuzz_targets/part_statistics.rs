//! Statistics of a part with arbitrary bytes, as `vmf merge` and `vmf maximise` read them: are
//! refused, or can be written and added.
#![no_main]

use fuzz as _;
use libfuzzer_sys::fuzz_target;
use vmfkit::store::statistics::PartStats;

fuzz_target!(|bytes: &[u8]| {
    let Ok(part) = PartStats::from_bytes(bytes) else { return };
    let written = part.to_bytes();
    let again = PartStats::from_bytes(&written).expect("what was written can be read");
    assert_eq!(again.to_bytes(), written);
    assert!(!part.objective().is_nan() && part.weight() >= 0.0);
    let mut sum = part.clone();
    if sum.merge(&part).is_ok() {
        assert_eq!(sum.rows(), part.rows().saturating_mul(2));
    }
});
