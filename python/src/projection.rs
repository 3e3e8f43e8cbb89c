//! [`ProjectionLaw`]: the distribution of mu . x.

use crate::error::raise;
use crate::pool;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rayon::prelude::*;

/// Arrays of at most this length are computed on the calling thread.
const SHORT: usize = 1 << 8;

/// The distribution of the cosine between a draw and the mean direction.
#[pyclass(frozen, module = "vmfkit._vmfkit")]
pub struct ProjectionLaw {
    inner: vmfkit::ProjectionLaw,
}

#[pymethods]
impl ProjectionLaw {
    #[new]
    fn new(dim: usize, concentration: f64) -> PyResult<Self> {
        Ok(ProjectionLaw { inner: vmfkit::ProjectionLaw::new(dim, concentration).map_err(|error| raise(error.into()))? })
    }

    /// Evaluates ln_pdf, cdf, survival, quantile, upper_quantile or quantile_slope at each value.
    fn evaluate<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        values: PyReadonlyArray1<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let function: fn(&vmfkit::ProjectionLaw, f64) -> f64 = match name {
            "ln_pdf" => vmfkit::ProjectionLaw::ln_pdf,
            "cdf" => vmfkit::ProjectionLaw::cdf,
            "survival" => vmfkit::ProjectionLaw::survival,
            "quantile" => vmfkit::ProjectionLaw::quantile,
            "upper_quantile" => vmfkit::ProjectionLaw::upper_quantile,
            "quantile_slope" => vmfkit::ProjectionLaw::quantile_slope,
            _ => return Err(PyValueError::new_err(format!("unknown function of a distribution, found: `{name}`"))),
        };
        let values = values.as_slice()?;
        let mut found = vec![0.0; values.len()];
        let piece = |(out, values): (&mut [f64], &[f64])| {
            out.iter_mut().zip(values).for_each(|(out, &value)| *out = function(&self.inner, value));
        };
        if values.len() <= SHORT {
            piece((&mut found, values));
        } else {
            let pieces = found.par_chunks_mut(SHORT).zip(values.par_chunks(SHORT));
            pool::run(py, None, |stop| pieces.filter(|_| !stop.asked()).for_each(piece))?;
        }
        Ok(found.into_pyarray(py))
    }
}
