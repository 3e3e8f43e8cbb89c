//! Hypothesis tests, which return dictionaries. `vmfkit.stats` wraps them.

use crate::error::raise;
use crate::pool;
use crate::rows::Rows;
use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use vmfkit::estimate::maximum_likelihood;
use vmfkit::hypothesis::{self, Calibration, Concentrations, Outcome};
use vmfkit::inference::{Inference, projection_test};
use vmfkit::{ConcentrationEstimator, Error, SufficientStats};

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(rayleigh, module)?)?;
    module.add_function(wrap_pyfunction!(mean_direction, module)?)?;
    module.add_function(wrap_pyfunction!(groups, module)?)?;
    module.add_function(wrap_pyfunction!(permutation, module)?)?;
    module.add_function(wrap_pyfunction!(rotational_symmetry, module)?)?;
    module.add_function(wrap_pyfunction!(projection, module)?)
}

fn calibration(name: &str, replicates: usize, seed: u64) -> PyResult<Calibration> {
    let simulation = Calibration::Simulation { replicates, seed };
    let all = [Calibration::Conditional, simulation, Calibration::LikelihoodRatio, Calibration::HighConcentration];
    let found = all.into_iter().find(|calibration| calibration.name() == name);
    found.ok_or_else(|| {
        let names = all.map(Calibration::name).join(", ");
        PyValueError::new_err(format!("the method must be one of {names}, found: `{name}`"))
    })
}

fn dictionary<'py>(py: Python<'py>, statistic: f64, p_value: f64) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    found.set_item("statistic", statistic)?;
    found.set_item("p_value", p_value)?;
    Ok(found)
}

fn outcome<'py>(py: Python<'py>, outcome: Outcome) -> PyResult<Bound<'py, PyDict>> {
    let found = dictionary(py, outcome.statistic, outcome.p_value)?;
    match outcome.degrees_of_freedom {
        (first, None) => found.set_item("degrees_of_freedom", (first,))?,
        (first, Some(second)) => found.set_item("degrees_of_freedom", (first, second))?,
    }
    Ok(found)
}

#[pyfunction]
#[pyo3(signature = (rows, normalize=false))]
fn rayleigh<'py>(py: Python<'py>, rows: &Bound<'py, PyAny>, normalize: bool) -> PyResult<Bound<'py, PyDict>> {
    let rows = Rows::of(rows, normalize)?;
    let borrowed = rows.borrowed()?;
    let stats = pool::run(py, None, |stop| borrowed.sum(stop, normalize, None))??;
    let test = Inference::new(&stats).map_err(raise)?.rayleigh_test();
    dictionary(py, test.statistic, test.p_value)
}

#[pyfunction]
#[pyo3(signature = (rows, direction, method, normalize=false))]
fn mean_direction<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    direction: PyReadonlyArray1<'py, f64>,
    method: &str,
    normalize: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let calibration = calibration(method, Calibration::REPLICATES, 0)?;
    let rows = Rows::of(rows, normalize)?;
    let borrowed = rows.borrowed()?;
    let stats = pool::run(py, None, |stop| borrowed.sum(stop, normalize, None))??;
    let test = hypothesis::mean_direction(&stats, direction.as_slice()?, calibration).map_err(raise)?;
    outcome(py, test)
}

/// `samples` are the rows of the groups; `test` is mean_directions, separate_mean_directions or concentrations.
#[pyfunction]
#[pyo3(signature = (samples, test, method, replicates, seed, normalize=false))]
fn groups<'py>(
    py: Python<'py>,
    samples: Vec<Bound<'py, PyAny>>,
    test: &str,
    method: &str,
    replicates: usize,
    seed: u64,
    normalize: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let calibration = calibration(method, replicates, seed)?;
    let rows = samples.iter().map(|rows| Rows::of(rows, normalize)).collect::<PyResult<Vec<_>>>()?;
    let borrowed = rows.iter().map(Rows::borrowed).collect::<PyResult<Vec<_>>>()?;
    let found = pool::run(py, None, |stop| {
        let parts = borrowed.iter().map(|rows| rows.sum(stop, normalize, None)).collect::<PyResult<Vec<_>>>()?;
        let mut stats = SufficientStats::zero(parts.len(), parts.first().map_or(2, SufficientStats::dim));
        for (group, part) in parts.iter().enumerate() {
            stats.add_component(group, part, 0).map_err(raise)?;
        }
        match test {
            "mean_directions" => hypothesis::equal_mean_directions(&stats, Concentrations::Common, calibration),
            "separate_mean_directions" => hypothesis::equal_mean_directions(&stats, Concentrations::Separate, calibration),
            "concentrations" => hypothesis::equal_concentrations(&stats, calibration),
            _ => return Err(PyValueError::new_err(format!("unknown test of groups, found: `{test}`"))),
        }
        .map_err(raise)
    })??;
    outcome(py, found)
}

/// Row n belongs to group `labels[n]`, which must be below `groups`.
#[pyfunction]
#[pyo3(signature = (rows, labels, groups, replicates, seed, normalize=false))]
fn permutation<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    labels: PyReadonlyArray1<'py, usize>,
    groups: usize,
    replicates: usize,
    seed: u64,
    normalize: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let rows = Rows::of(rows, normalize)?;
    let (borrowed, labels) = (rows.borrowed()?, labels.as_slice()?);
    if let Some(label) = labels.iter().find(|&&label| label >= groups) {
        return Err(PyValueError::new_err(format!("labels must be below {groups}, found: `{label}`")));
    }
    let found = pool::run(py, None, |stop| {
        borrowed.with_whole(stop, normalize, |block| {
            hypothesis::equal_mean_directions_by_permutation(block, labels, groups, replicates, seed)
        })
    })??;
    dictionary(py, found.statistic, found.p_value)
}

#[pyfunction]
#[pyo3(signature = (rows, replicates, seed, normalize=false))]
fn rotational_symmetry<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    replicates: usize,
    seed: u64,
    normalize: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let rows = Rows::of(rows, normalize)?;
    let borrowed = rows.borrowed()?;
    let test = pool::run(py, None, |stop| {
        borrowed.with_whole(stop, normalize, |block| hypothesis::rotational_symmetry(block, replicates, seed))
    })??;
    let found = dictionary(py, test.statistic, test.p_value)?;
    found.set_item("degrees_of_freedom", (test.degrees_of_freedom,))?;
    found.set_item("limit_p_value", test.limit_p_value)?;
    found.set_item("rows", test.rows)?;
    Ok(found)
}

#[pyfunction]
#[pyo3(signature = (rows, replicates, seed, normalize=false))]
fn projection<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    replicates: usize,
    seed: u64,
    normalize: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let rows = Rows::of(rows, normalize)?;
    let borrowed = rows.borrowed()?;
    let test = pool::run(py, None, |stop| {
        borrowed.with_whole(stop, normalize, |block| {
            if block.is_empty() {
                return Err(Error::NoRows { weight: 0.0 });
            }
            let density = maximum_likelihood(&SufficientStats::of_batch(block), ConcentrationEstimator::Exact)?;
            projection_test(block, &density, replicates, seed)
        })
    })??;
    dictionary(py, test.statistic, test.p_value)
}
