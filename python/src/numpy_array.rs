//! Arrays to be filled that numpy has allocated: it asks the system for huge pages, so that a large array costs no page fault every 4096 bytes.

use numpy::ndarray::Dimension;
use numpy::{Element, PyArray};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// An array of this shape, in C order; whatever is in it.
pub fn empty<'py, T: Element, D: Dimension>(
    py: Python<'py>,
    shape: impl IntoPyObject<'py, Target = PyTuple>,
) -> PyResult<Bound<'py, PyArray<T, D>>> {
    Ok(py.import("numpy")?.call_method1("empty", (shape, T::get_dtype(py)))?.cast_into()?)
}
