//! Calibrations and tables of p-values, for Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use vmfkit::calibrate::{Bin, Calibration, Reliability};
use vmfkit::outlier::{OutlierScope, OutlierTable};
use vmfkit::store::model::Description;

/// The table for p-values of this kind, or None for those of the law of the mixture.
pub fn table_for<'d>(known: &'d Description, kind: Option<&str>) -> PyResult<Option<(&'d OutlierTable, OutlierScope)>> {
    let scope = match kind {
        None | Some("conformal") => OutlierScope::Overall,
        Some("component") => OutlierScope::Component,
        Some("law") => return Ok(None),
        Some(other) => {
            let what = format!("kind must be conformal, component or law, found: `{other}`");
            return Err(PyValueError::new_err(what));
        }
    };
    match (&known.outlier_table, kind) {
        (Some(table), _) => Ok(Some((table, scope))),
        (None, None) => Ok(None),
        (None, Some(kind)) => Err(PyValueError::new_err(format!(
            "p-values of the kind {kind} need a calibrated mixture; `calibrate` calibrates it with rows, and the kind law needs none"
        ))),
    }
}

/// A calibration as a dictionary of plain numbers, so that descriptions can be compared.
pub fn to_dict<'py>(py: Python<'py>, known: &Calibration) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    found.set_item("basis", known.basis.name())?;
    found.set_item("temperature", known.temperature)?;
    found.set_item("dispersion", known.dispersion)?;
    found.set_item("sample_rows", known.sample_rows)?;
    found.set_item("copies", known.copies)?;
    found.set_item("spreads", known.spreads.clone())?;
    found.set_item("raw", bins(&known.raw))?;
    found.set_item("calibrated", bins(&known.calibrated))?;
    found.set_item("text", known.to_string())?;
    Ok(found)
}

/// Fraction, mean probability and confirmed fraction of each bin.
fn bins(table: &Reliability) -> [Vec<f64>; 3] {
    let of_bins = |number: fn(&Bin) -> f64| table.bins().iter().map(number).collect();
    [of_bins(|bin| bin.fraction), of_bins(|bin| bin.probability), of_bins(|bin| bin.confirmed)]
}
