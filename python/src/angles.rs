//! Conversion between angles and unit vectors, for `vmfkit.angles`.

use crate::error::raise;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use vmfkit::Angles;

/// Parses the name of a kind of angles.
pub fn parsed(kind: &str) -> PyResult<Angles> {
    kind.parse().map_err(raise)
}

/// Number of angles per row.
#[pyfunction]
pub fn angle_count(kind: &str) -> PyResult<usize> {
    Ok(parsed(kind)?.count())
}

/// The kind of angles that these column names suggest.
#[pyfunction]
pub fn guess_angles(columns: Vec<String>) -> Option<String> {
    Angles::guess(&columns).map(|angles| angles.to_string())
}

/// Unit vectors of rows of angles, both as flat arrays.
#[pyfunction]
pub fn angles_to_unit<'py>(
    py: Python<'py>,
    kind: &str,
    angles: PyReadonlyArray1<'py, f64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    Ok(parsed(kind)?.unit_vectors(angles.as_slice()?).map_err(raise)?.into_pyarray(py))
}

/// Angles of rows of coordinates, both as flat arrays.
#[pyfunction]
pub fn angles_of_unit<'py>(py: Python<'py>, kind: &str, rows: PyReadonlyArray1<'py, f64>) -> PyResult<Bound<'py, PyArray1<f64>>> {
    Ok(parsed(kind)?.of_vectors(rows.as_slice()?).map_err(raise)?.into_pyarray(py))
}
