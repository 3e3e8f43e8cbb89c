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
#[pyo3(signature = (rows, labels, names, weights=None, priors=None, policy="shared", estimator="exact", normalize=false, threads=None))]
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
    normalize: bool,
    threads: Option<usize>,
) -> PyResult<(Mixture, Vec<String>)> {
    let how = Maximisation::new().policy(parsed(policy)?).estimator(parsed(estimator)?);
    let rows = Rows::of(rows, normalize)?;
    let borrowed = rows.borrowed()?;
    let labels = labels.as_slice()?;
    let weights = weights.as_ref().map(|weights| weights.as_slice()).transpose()?;
    let known = pool::run(py, threads, |stop| {
        let known = borrowed.with_source(stop, normalize, weights, None, |source| {
            let (mut known, mut next) = (KnownLabels::new(source.dim()), 0);
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
        known.ok_or_else(|| PyKeyboardInterrupt::new_err(()))
    })??;
    let (fit, _) = known.fit(&how).map_err(raise)?;
    let mut description = Description::of(&fit);
    description.labels = names;
    let mixture = match priors {
        Some(priors) => vmfkit::Mixture::new(priors.as_slice()?.to_vec(), fit.mixture.components().to_vec()).map_err(raise)?,
        None => fit.mixture,
    };
    let notes = description.notes.clone();
    Ok((Mixture::new(mixture, description), notes))
}
