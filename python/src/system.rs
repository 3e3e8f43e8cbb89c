//! Available memory and atomic writes of files.

use pyo3::prelude::*;
use std::io;
use std::path::PathBuf;

/// Free memory in bytes: the least of what the machine, its control groups and the limits of the process leave.
#[pyfunction]
pub fn available_memory() -> u64 {
    vmfkit_io::available_memory().bytes
}

/// Writes a file atomically; an existing file is replaced.
#[pyfunction]
pub fn write_file(py: Python<'_>, path: PathBuf, bytes: &[u8]) -> PyResult<()> {
    let written = py.detach(|| vmfkit_io::write_file(&path, bytes));
    Ok(written.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?)
}
