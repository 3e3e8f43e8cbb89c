//! Special functions of flat arrays. The Python package handles shapes.

use crate::pool;
use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rayon::prelude::*;
use vmfkit::bessel;

/// Arrays of at most this length are computed on the calling thread.
const SHORT: usize = 1 << 14;

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(of_concentrations, module)?)?;
    module.add_function(wrap_pyfunction!(of_orders, module)?)?;
    module.add_function(wrap_pyfunction!(divergences, module)?)
}

fn lengths(expected: usize, found: usize) -> PyResult<()> {
    if expected == found {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("arrays must have the same length, {expected}, found: `{found}`")))
}

/// Evaluates a function of (dim, concentration) at each pair; `dims` may have a single entry.
#[pyfunction]
fn of_concentrations(
    py: Python<'_>,
    name: &str,
    dims: PyReadonlyArray1<usize>,
    values: PyReadonlyArray1<f64>,
    mut out: PyReadwriteArray1<f64>,
) -> PyResult<()> {
    let function: fn(usize, f64) -> f64 = match name {
        "log_normalizer" => bessel::ln_normalizer,
        "log_peak" => bessel::ln_peak,
        "mean_length" => bessel::mean_length,
        "mean_length_complement" => bessel::mean_length_complement,
        "mean_length_slope" => |dim, concentration| bessel::mean_length_and_slope(dim, concentration).slope,
        "concentration" => bessel::concentration_from_mean_length,
        "concentration_from_complement" => bessel::concentration_from_complement,
        "entropy" => bessel::entropy,
        "divergence_from_uniform" => bessel::divergence_from_uniform,
        _ => return Err(PyValueError::new_err(format!("unknown function of a dimension and a number, found: `{name}`"))),
    };
    pairs(py, dims.as_slice()?, values.as_slice()?, out.as_slice_mut()?, function)
}

/// Evaluates a function of (order, x) at each pair; `orders` may have a single entry.
#[pyfunction]
fn of_orders(
    py: Python<'_>,
    name: &str,
    orders: PyReadonlyArray1<f64>,
    values: PyReadonlyArray1<f64>,
    mut out: PyReadwriteArray1<f64>,
) -> PyResult<()> {
    let function: fn(f64, f64) -> f64 = match name {
        "log_iv" => bessel::ln_bessel_i,
        "log_ive" => bessel::ln_bessel_i_scaled,
        _ => return Err(PyValueError::new_err(format!("unknown function of an order and a number, found: `{name}`"))),
    };
    pairs(py, orders.as_slice()?, values.as_slice()?, out.as_slice_mut()?, function)
}

/// KL divergence between two concentrations with the same mean direction, for each pair.
#[pyfunction]
fn divergences(
    py: Python<'_>,
    dim: usize,
    from_: PyReadonlyArray1<f64>,
    to: PyReadonlyArray1<f64>,
    mut out: PyReadwriteArray1<f64>,
) -> PyResult<()> {
    pairs(py, from_.as_slice()?, to.as_slice()?, out.as_slice_mut()?, |from, to| bessel::divergence(dim, from, to))
}

/// `first` has one entry for all values or one for each value.
fn pairs<A: Copy + Send + Sync>(
    py: Python<'_>,
    first: &[A],
    values: &[f64],
    out: &mut [f64],
    function: impl Fn(A, f64) -> f64 + Sync,
) -> PyResult<()> {
    lengths(values.len(), out.len())?;
    if first.len() != 1 {
        lengths(values.len(), first.len())?;
    }
    let piece = |(number, (out, values)): (usize, (&mut [f64], &[f64]))| {
        for (i, (out, &value)) in out.iter_mut().zip(values).enumerate() {
            let first = if first.len() == 1 { first[0] } else { first[number * SHORT + i] };
            *out = function(first, value);
        }
    };
    if values.len() <= SHORT {
        piece((0, (out, values)));
        return Ok(());
    }
    pool::run(py, None, |stop| {
        let pieces = out.par_chunks_mut(SHORT).zip(values.par_chunks(SHORT)).enumerate();
        pieces.filter(|_| !stop.asked()).for_each(piece);
    })
}
