//! The components of rows as a file of their own.

use crate::output::Output;
use anyhow::Result;
use std::path::Path;
use vmfkit_data::npy::{Element, Header, Integer};

/// Writes component numbers as an array, or a line each.
pub fn write(path: &Path, labels: &[u32]) -> Result<()> {
    write_to(Output::create(path)?, path, labels)
}

/// The same to a file that was begun before.
pub fn write_to(mut file: Output, path: &Path, labels: &[u32]) -> Result<()> {
    file.write(bytes(path, labels))?;
    file.finish()
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
