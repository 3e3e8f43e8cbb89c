//! Angles to unit vectors and back, for `vmfkit.angles`.

use crate::error::raise;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use vmfkit::Angles;

/// What a text of Python names.
pub fn parsed(kind: &str) -> PyResult<Angles> {
    kind.parse().map_err(raise)
}

/// How many angles a row has.
#[pyfunction]
pub fn angle_count(kind: &str) -> PyResult<usize> {
    Ok(parsed(kind)?.count())
}

/// The angles that columns with these names seem to hold.
#[pyfunction]
pub fn guess_angles(columns: Vec<String>) -> Option<String> {
    Angles::guess(&columns).map(|angles| angles.to_string())
}

/// The unit vectors of rows of angles, one row after the other.
#[pyfunction]
pub fn angles_to_unit<'py>(
    py: Python<'py>,
    kind: &str,
    angles: PyReadonlyArray1<'py, f64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    Ok(parsed(kind)?.unit_vectors(angles.as_slice()?).map_err(raise)?.into_pyarray(py))
}

/// The angles of rows of coordinates, one row after the other.
#[pyfunction]
pub fn angles_of_unit<'py>(py: Python<'py>, kind: &str, rows: PyReadonlyArray1<'py, f64>) -> PyResult<Bound<'py, PyArray1<f64>>> {
    Ok(parsed(kind)?.of_vectors(rows.as_slice()?).map_err(raise)?.into_pyarray(py))
}
