//! [`ProjectionLaw`]: the law of mu . x.

use crate::error::raise;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The law of the cosine between a draw and the mean direction.
#[pyclass(frozen, module = "vmfkit._vmfkit")]
pub struct ProjectionLaw {
    inner: vmfkit::ProjectionLaw,
}

#[pymethods]
impl ProjectionLaw {
    #[new]
    fn new(dim: usize, concentration: f64) -> PyResult<Self> {
        Ok(ProjectionLaw { inner: vmfkit::ProjectionLaw::new(dim, concentration).map_err(raise)? })
    }

    /// One of ln_pdf, cdf, survival, quantile, upper_quantile, quantile_slope at each value.
    fn evaluate<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        values: PyReadonlyArray1<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let function = match name {
            "ln_pdf" => vmfkit::ProjectionLaw::ln_pdf,
            "cdf" => vmfkit::ProjectionLaw::cdf,
            "survival" => vmfkit::ProjectionLaw::survival,
            "quantile" => vmfkit::ProjectionLaw::quantile,
            "upper_quantile" => vmfkit::ProjectionLaw::upper_quantile,
            "quantile_slope" => vmfkit::ProjectionLaw::quantile_slope,
            _ => return Err(PyValueError::new_err(format!("unknown function of a law, found: `{name}`"))),
        };
        let values = values.as_array();
        Ok(py.detach(|| values.iter().map(|&value| function(&self.inner, value)).collect::<Vec<_>>()).into_pyarray(py))
    }
}
