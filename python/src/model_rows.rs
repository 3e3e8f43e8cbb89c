//! What rows say about a mixture: its calibration, and the rows of each component.

use crate::mixture::Mixture;
use crate::pool;
use crate::rows::{Rows, in_pieces};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use vmfkit::fit::calibrated_model::CalibrationRows;
use vmfkit::mixture::{Members, TypicalRows};
use vmfkit::outlier::OutlierTable;

/// Number of rows, mean probability and typical rows of a component.
type OfComponent<'py> = (u64, f64, Bound<'py, PyArray1<i64>>);

/// The mixture with the calibration that these rows give. With `table_only`, only the table of p-values is replaced; rows are then held out.
#[pyfunction]
#[pyo3(signature = (mixture, rows, weights=None, held_out=false, table_only=false, normalize=false, threads=None))]
#[allow(clippy::too_many_arguments)]
pub fn calibrated<'py>(
    py: Python<'py>,
    mixture: &Mixture,
    rows: &Bound<'py, PyAny>,
    weights: Option<PyReadonlyArray1<'py, f64>>,
    held_out: bool,
    table_only: bool,
    normalize: bool,
    threads: Option<usize>,
) -> PyResult<Mixture> {
    let rows = Rows::of(rows, normalize)?;
    let borrowed = rows.borrowed()?;
    let weights = weights.as_ref().map(|weights| weights.as_slice()).transpose()?;
    let (inner, mut description) = (&mixture.inner, mixture.description.clone());
    let found = pool::run(py, threads, |stop| {
        borrowed.with_source(stop, normalize, weights, None, |source| {
            let should_cancel = &mut |_| stop.flow();
            if table_only {
                let table = OutlierTable::held_out_source(inner, source, should_cancel)?;
                return Ok(table.map(|table| (None, table)));
            }
            let kind = if held_out { CalibrationRows::HeldOut } else { CalibrationRows::OfFit };
            let found = kind.calibration(inner, &description, source, should_cancel)?;
            Ok(found.map(|(calibration, table)| (Some(calibration), table)))
        })
    })??;
    let (calibration, table) = found.ok_or_else(|| PyKeyboardInterrupt::new_err(()))?;
    description.calibration = calibration.or(description.calibration);
    description.outlier_table = Some(table);
    Ok(Mixture::new(inner.clone(), description))
}

/// Number of rows, mean calibrated probability and the `count` most typical rows of each component.
#[pyfunction]
#[pyo3(signature = (mixture, rows, count, normalize=false, threads=None))]
pub fn typical_rows<'py>(
    py: Python<'py>,
    mixture: &Mixture,
    rows: &Bound<'py, PyAny>,
    count: usize,
    normalize: bool,
    threads: Option<usize>,
) -> PyResult<Vec<OfComponent<'py>>> {
    let rows = Rows::of(rows, normalize)?;
    let borrowed = rows.borrowed()?;
    let members = pool::run(py, threads, |stop| -> PyResult<Vec<Members>> {
        let mut typical = TypicalRows::new(&mixture.inner, count).temperature(mixture.temperature());
        borrowed.each_block(normalize, stop, |block| in_pieces(block, mixture.cost(), stop, |block| typical.add(block)))?;
        Ok(typical.members().to_vec())
    })??;
    let of_component = |members: &Members| {
        let rows: Vec<i64> = members.typical.iter().map(|typical| typical.row as i64).collect();
        (members.rows, members.mean_probability(), rows.into_pyarray(py))
    };
    Ok(members.iter().map(of_component).collect())
}
