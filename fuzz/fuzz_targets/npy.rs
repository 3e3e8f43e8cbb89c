//! A `.npy` file with arbitrary bytes: is read as rows and as labels, or refused.
#![no_main]

use fuzz as _;
use libfuzzer_sys::fuzz_target;
use vmfkit_io::npy::Reader;

fuzz_target!(|bytes: &[u8]| {
    let length = bytes.len() as u64;
    if let Ok(reader) = Reader::new(bytes, length) {
        let count = reader.header().shape.iter().product::<usize>();
        if let Ok(rows) = reader.into_rows() {
            assert_eq!(rows.into_f64().len(), count);
        }
    }
    if let Ok(reader) = Reader::new(bytes, length) {
        let _ = reader.into_labels();
    }
});
