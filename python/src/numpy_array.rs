//! Uninitialised arrays, allocated by numpy, which requests huge pages. A large array then has fewer page faults than one per 4096 bytes.

use numpy::ndarray::Dimension;
use numpy::{Element, PyArray};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// An uninitialised array of this shape, in C order.
pub fn empty<'py, T: Element, D: Dimension>(
    py: Python<'py>,
    shape: impl IntoPyObject<'py, Target = PyTuple>,
) -> PyResult<Bound<'py, PyArray<T, D>>> {
    Ok(py.import("numpy")?.call_method1("empty", (shape, T::get_dtype(py)))?.cast_into()?)
}
