//! A mixture with one component per known label, for `VonMisesFisherClassifier`.

use crate::error::raise;
use crate::fit::parsed;
use crate::mixture::Mixture;
use crate::pool;
use crate::rows::Rows;
use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use vmfkit::start::known_labels::KnownLabels;
use vmfkit::store::model::Description;
use vmfkit::{Error, Maximisation};

/// Fits one component per label. `labels` has the component of each row, `names` the name of each component. Weights are the fractions of
/// the rows, or `priors`. Also returns notes on components.
#[pyfunction]
#[pyo3(signature = (rows, labels, names, weights=None, priors=None, policy="shared", estimator="exact", calibrate=true, normalize=false, threads=None))]
#[allow(clippy::too_many_arguments)]
pub fn fit_labels<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    labels: PyReadonlyArray1<'py, u32>,
    names: Vec<String>,
    weights: Option<PyReadonlyArray1<'py, f64>>,
    priors: Option<PyReadonlyArray1<'py, f64>>,
    policy: &str,
    estimator: &str,
    calibrate: bool,
    normalize: bool,
    threads: Option<usize>,
) -> PyResult<(Mixture, Vec<String>)> {
    let how = Maximisation::new().policy(parsed(policy)?).estimator(parsed(estimator)?);
    let rows = Rows::of(rows, normalize)?;
    let borrowed = rows.borrowed()?;
    let labels = labels.as_slice()?;
    let weights = weights.as_ref().map(|weights| weights.as_slice()).transpose()?;
    let priors = priors.as_ref().map(|priors| priors.as_slice().map(<[f64]>::to_vec)).transpose()?;
    let fit = pool::run(py, threads, |stop| {
        let known = borrowed.with_source(stop, normalize, weights, None, |source| {
            let (mut known, mut next) = (KnownLabels::new(source.dim()), 0);
            if !calibrate {
                known = known.uncalibrated();
            }
            if let Some(priors) = &priors {
                known = known.priors(priors.clone());
            }
            source.rewind()?;
            let mut buffer = vmfkit::RowBatch::default();
            while let Some(block) = source.next_validated(&mut buffer)? {
                let end = next + block.len();
                if let Some(labels) = labels.get(next..end) {
                    known.add(&block, labels)?;
                }
                next = end;
                if stop.asked() {
                    return Ok(None);
                }
            }
            if next == labels.len() { Ok(Some(known)) } else { Err(Error::LabelCount { expected: next, found: labels.len() }) }
        })?;
        // The calibration is parallel work.
        known.ok_or_else(|| PyKeyboardInterrupt::new_err(()))?.fit(&how).map_err(raise)
    })??
    .0;
    let mut description = Description::of(&fit);
    description.labels = names;
    let notes = description.notes.clone();
    Ok((Mixture::new(fit.mixture, description), notes))
}
