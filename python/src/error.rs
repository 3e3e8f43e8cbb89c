//! Conversion of Rust errors to Python exceptions.

use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::{PyFileNotFoundError, PyMemoryError, PyOSError, PyPermissionError, PyRuntimeError, PyValueError};
use std::io::ErrorKind;

create_exception!(vmfkit._vmfkit, ZeroRowError, PyValueError, "A row of zeros, which has no direction.");

/// Errors in values become `ValueError`, errors of the system the `OSError` that Python itself would raise.
pub fn raise(error: vmfkit::Error) -> PyErr {
    // The alternate format includes all causes.
    let text = by_arguments(&format!("{error:#}"));
    match &error {
        vmfkit::Error::Read(failure) => match io_kind(failure.cause()) {
            Some(kind) => of_system(kind, text),
            None => PyValueError::new_err(text),
        },
        vmfkit::Error::ZeroRow { .. } => ZeroRowError::new_err(text),
        vmfkit::Error::CannotRewind | vmfkit::Error::FitEnded { .. } => PyRuntimeError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// The same for errors of opening a file.
pub fn raise_data(error: vmfkit_io::Error) -> PyErr {
    raise(error.into())
}

/// Replaces options of the command line in a message by the corresponding Python arguments: `--columns x,y` by `columns=["x", "y"]`.
fn by_arguments(text: &str) -> String {
    let mut parts = text.split("`--");
    let mut found = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (option, rest) = part.split_once('`').unwrap_or((part, ""));
        let (name, value) = option.split_once(' ').unwrap_or((option, ""));
        found += &match (name, value) {
            ("rescale", _) => "`normalize=True`".to_owned(),
            ("columns", _) if value.contains(',') => format!("`columns={:?}`", value.split(',').collect::<Vec<_>>()),
            ("header", "yes") => "`header=True`".to_owned(),
            ("header", "no") => "`header=False`".to_owned(),
            (_, "") => format!("`{name}`"),
            _ => format!("`{name}={value:?}`"),
        };
        found += rest;
    }
    found
}

fn of_system(kind: ErrorKind, text: String) -> PyErr {
    match kind {
        ErrorKind::NotFound => PyFileNotFoundError::new_err(text),
        ErrorKind::PermissionDenied => PyPermissionError::new_err(text),
        ErrorKind::OutOfMemory => PyMemoryError::new_err(text),
        _ => PyOSError::new_err(text),
    }
}

/// The kind of the first I/O error among the causes.
fn io_kind(error: &(dyn std::error::Error + 'static)) -> Option<ErrorKind> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return Some(error.kind());
        }
        cause = error.source();
    }
    None
}
