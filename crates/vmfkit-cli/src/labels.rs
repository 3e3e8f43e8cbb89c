//! The components of rows as a file of their own.

use crate::output;
use anyhow::Result;
use std::path::Path;
use vmfkit_data::npy::{Element, Header, Integer};

/// Writes component numbers as an array, or a line each.
pub fn write(path: &Path, labels: &[u32]) -> Result<()> {
    output::write_file(path, bytes(path, labels))
}

fn bytes(path: &Path, labels: &[u32]) -> Vec<u8> {
    if path.extension().is_some_and(|extension| extension == "npy") {
        let element = Element::Integer(Integer::U32);
        let header = Header { element, big_endian: false, fortran_order: false, shape: vec![labels.len()] };
        [header.to_bytes(), labels.iter().flat_map(|label| label.to_le_bytes()).collect()].concat()
    } else {
        labels.iter().map(|label| format!("{label}\n")).collect::<String>().into_bytes()
    }
}
