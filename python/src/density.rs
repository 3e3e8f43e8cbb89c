//! Functions of one density: fits, draws, and deviations of rows.

use crate::error::raise;
use crate::fit::parsed;
use crate::mixture::{DRAWN_AT_ONCE, of_rows};
use crate::pool;
use crate::rows::Rows;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadwriteArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::prelude::*;
use vmfkit::estimate::maximum_likelihood;
use vmfkit::inference::Inference;
use vmfkit::rows::{self, Scalar};
use vmfkit::{ConcentrationEstimator, RowBatch, Sampler, VonMisesFisher};

/// Draws of at most this many numbers are made on the calling thread.
const SMALL_DRAW: usize = 1 << 12;

/// Fits one density by maximum likelihood; the interval and the cone have the confidence level `level`.
#[pyfunction]
#[pyo3(signature = (rows, weights=None, normalize=false, estimator="exact", level=0.95, threads=None))]
pub fn fit_density<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    weights: Option<PyReadonlyArray1<'py, f64>>,
    normalize: bool,
    estimator: &str,
    level: f64,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyDict>> {
    let estimator: ConcentrationEstimator = parsed(estimator)?;
    let rows = Rows::of(rows, normalize)?;
    let borrowed = rows.borrowed()?;
    let weights = weights.as_ref().map(|weights| weights.as_slice()).transpose()?;
    let stats = pool::run(py, threads, |stop| borrowed.sum(stop, normalize, weights))??;
    let density = maximum_likelihood(&stats, estimator).map_err(raise)?;
    let found = PyDict::new(py);
    found.set_item("mean_direction", density.mean_direction().to_vec().into_pyarray(py))?;
    found.set_item("concentration", density.concentration())?;
    let inference = Inference::new(&stats).map_err(raise)?;
    found.set_item("interval", inference.concentration_interval(level).map_err(raise)?)?;
    found.set_item("cone", inference.mean_direction_cone(level).map_err(raise)?)?;
    found.set_item("standard_error", inference.standard_error())?;
    found.set_item("corrected_concentration", inference.corrected_concentration())?;
    found.set_item("uniformity_p_value", inference.rayleigh_test().p_value)?;
    Ok(found)
}

/// Fills `out` with draws of one density, beginning with row `first` of the seed.
#[pyfunction]
#[pyo3(signature = (direction, concentration, out, seed=0, first=0, threads=None))]
pub fn sample_density(
    py: Python<'_>,
    direction: PyReadonlyArray1<f64>,
    concentration: f64,
    mut out: PyReadwriteArray2<f64>,
    seed: u64,
    first: u64,
    threads: Option<usize>,
) -> PyResult<()> {
    let density = VonMisesFisher::new(direction.as_array().to_vec(), concentration).map_err(raise)?;
    if out.shape()[1] != density.dim() {
        return Err(raise(vmfkit::Error::DimensionMismatch { expected: density.dim(), found: out.shape()[1] }));
    }
    let rows = out.as_slice_mut()?;
    let sampler = Sampler::new(&density);
    if rows.len() <= SMALL_DRAW && threads.is_none() {
        return pool::run_here(py, |_| sampler.fill(seed, first, rows))?.map_err(raise);
    }
    let rows_at_once = (DRAWN_AT_ONCE / density.dim()).max(1);
    pool::run(py, threads, |stop| {
        let pieces = rows.chunks_mut(rows_at_once * density.dim()).enumerate();
        for (number, rows) in pieces.take_while(|_| !stop.asked()) {
            sampler.fill(seed, first + (number * rows_at_once) as u64, rows)?;
        }
        Ok(())
    })?
    .map_err(raise)
}

/// Rows per task of a thread.
const ROWS_AT_ONCE: usize = 1 << 10;

/// 1 - mu.x of each row without cancellation, corrected for rows whose length is not exactly 1.
#[pyfunction]
#[pyo3(signature = (direction, rows, normalize=false, threads=None))]
pub fn deviations<'py>(
    py: Python<'py>,
    direction: PyReadonlyArray1<f64>,
    rows: &Bound<'py, PyAny>,
    normalize: bool,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let density = VonMisesFisher::new(direction.as_array().to_vec(), 0.0).map_err(raise)?;
    let work = |block: &RowBatch, out: &mut [f64]| {
        out.par_chunks_mut(ROWS_AT_ONCE).enumerate().try_for_each(|(number, out)| {
            let from = number * ROWS_AT_ONCE;
            let block = block.slice(from, from + out.len());
            density.deviations_into(&block, out)?;
            for (row, out) in out.iter_mut().enumerate() {
                // `out` is |x - mu|^2 / 2. For a row of length r, 1 - mu.x/r = (|x - mu|^2 - (r - 1)^2) / 2r.
                let length = length(&block, row);
                *out = ((*out - 0.5 * (length - 1.0).powi(2)) / length).max(0.0);
            }
            Ok(())
        })
    };
    Ok(of_rows(py, rows, normalize, threads, (density.dim(), 1), work)?.into_pyarray(py))
}

/// The length of a row.
fn length(block: &RowBatch, row: usize) -> f64 {
    fn of<T: Scalar>(coordinates: &[T]) -> f64 {
        let mut sums = [0.0; 8];
        for eight in coordinates.chunks(8) {
            sums.iter_mut().zip(eight).for_each(|(sum, x)| *sum += x.to_f64().powi(2));
        }
        sums.iter().sum::<f64>().sqrt()
    }
    let range = row * block.dim()..(row + 1) * block.dim();
    match block.rows() {
        rows::Rows::F32(values) => of(&values[range]),
        rows::Rows::F64(values) => of(&values[range]),
        rows::Rows::SparseF32(rows) => of(rows.row(row).1),
        rows::Rows::SparseF64(rows) => of(rows.row(row).1),
    }
}
