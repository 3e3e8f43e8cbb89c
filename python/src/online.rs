//! [`OnlineFit`]: online EM for rows that arrive in batches, one batch per call.

use crate::error::raise;
use crate::fit::{Choices, start_rows};
use crate::mixture::Mixture;
use crate::pool;
use crate::rows::Rows;
use numpy::PyReadonlyArray1;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::Mutex;
use vmfkit::StreamFitter;
use vmfkit::m_step::Note;
use vmfkit::store::model::Description;

/// A stream and its number of calls.
#[pyclass(frozen, module = "vmfkit._vmfkit")]
pub struct OnlineFit {
    state: Mutex<Online>,
}

struct Online {
    stream: StreamFitter,
    calls: u64,
    /// Components that were idle after the last call.
    idle: Vec<usize>,
    /// Notes of the last call on components that were moved or became idle.
    drift: Vec<String>,
}

impl Online {
    fn note_drift(&mut self) {
        let (notes, idle) = (self.stream.notes(), std::mem::take(&mut self.idle));
        for note in notes {
            match note {
                Note::Idle { component, .. } => {
                    self.idle.push(*component);
                    if !idle.contains(component) {
                        self.drift.push(note.to_string());
                    }
                }
                Note::Reassigned { .. } => self.drift.push(note.to_string()),
                _ => {}
            }
        }
    }
}

fn stream(choices: &Choices, begin: impl FnOnce(&vmfkit::Fitter) -> vmfkit::Result<StreamFitter>) -> PyResult<StreamFitter> {
    let stream = begin(&choices.fitter()).map_err(raise)?;
    Ok(match choices.half_life {
        Some(rows) => stream.half_life(rows),
        None => stream,
    })
}

impl OnlineFit {
    fn new(stream: StreamFitter, calls: u64) -> Self {
        OnlineFit { state: Mutex::new(Online { stream, calls, idle: Vec::new(), drift: Vec::new() }) }
    }

    fn locked(&self) -> PyResult<std::sync::MutexGuard<'_, Online>> {
        self.state.lock().map_err(|_| PyRuntimeError::new_err("the fit cannot be used after a panic"))
    }
}

#[pymethods]
impl OnlineFit {
    /// Begins without rows. The start is computed from the first rows.
    #[new]
    #[pyo3(signature = (components, **choices))]
    fn begin(components: usize, choices: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let choices = Choices::of(components, choices)?;
        Ok(Self::new(stream(&choices, |fitter| fitter.stream())?, 0))
    }

    /// Continues after the fit of a mixture. The rows of that fit and new rows have the same weight. A mixture without a number of rows counts
    /// as [`start_rows`]. The seed is that of the fit, unless it is given.
    #[staticmethod]
    #[pyo3(signature = (mixture, components, **choices))]
    fn after(mixture: &Mixture, components: usize, choices: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut choices = Choices::of(components, choices)?;
        choices.decide_by(mixture.description.settings.dispersion());
        choices.seed = choices.seed.or(Some(mixture.description.seed));
        let start = choices.mixture_to_continue(&mixture.inner)?;
        let Description { rows, weight, calibration, outlier_table, .. } = &mixture.description;
        let known = *weight > 0.0 && weight.is_finite();
        let weight = if known { *weight } else { start_rows(components) as f64 };
        let stream = stream(&choices, |fitter| fitter.stream_after(&start, *rows, weight))?;
        let stream = match (calibration, outlier_table) {
            // The table has no scores for a background that was added.
            (Some(calibration), Some(table)) if calibration.spreads.len() == start.components().len() => {
                stream.calibrated_before(calibration.clone(), table.clone())
            }
            _ => stream,
        };
        Ok(Self::new(stream, 0))
    }

    /// Updates the mixture, one step per batch of rows.
    #[pyo3(signature = (rows, weights=None, normalize=false, threads=None))]
    fn see<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        weights: Option<PyReadonlyArray1<'py, f64>>,
        normalize: bool,
        threads: Option<usize>,
    ) -> PyResult<()> {
        let rows = Rows::of(rows, normalize)?;
        let borrowed = rows.borrowed()?;
        let weights = weights.as_ref().map(|weights| weights.as_slice()).transpose()?;
        pool::run(py, threads, |stop| {
            let mut state = self.locked()?;
            state.drift.clear();
            borrowed.with_source(stop, normalize, weights, None, |source| {
                source.rewind()?;
                let mut buffer = vmfkit::RowBatch::default();
                while let Some(block) = source.next_validated(&mut buffer)? {
                    state.stream.update_while(&block, &mut || stop.flow())?;
                    if stop.asked() {
                        break;
                    }
                    state.note_drift();
                }
                Ok(())
            })?;
            state.calls += 1;
            Ok(())
        })?
    }

    /// The current mixture, or None if there are not enough rows for a start.
    #[getter]
    fn mixture(&self) -> PyResult<Option<Mixture>> {
        let state = self.locked()?;
        Ok(state.stream.so_far().map(|fit| {
            let description = Description::of(&fit);
            Mixture::new(fit.mixture, description)
        }))
    }

    /// The current mixture with its calibration, which is computed now.
    #[pyo3(signature = (threads=None))]
    fn calibrated(&self, py: Python<'_>, threads: Option<usize>) -> PyResult<Option<Mixture>> {
        let fit = pool::run(py, threads, |_| -> PyResult<_> { self.locked()?.stream.calibrated().map_err(raise) })??;
        Ok(fit.map(|fit| {
            let description = Description::of(&fit);
            Mixture::new(fit.mixture, description)
        }))
    }

    /// Number of rows held for the start, number of rows that the start needs, and the dimension.
    #[getter]
    fn held(&self) -> PyResult<(usize, usize, Option<usize>)> {
        let state = self.locked()?;
        Ok((state.stream.held_rows(), state.stream.first_rows(), state.stream.dim()))
    }

    /// Notes of the last call on components that were moved or became idle.
    #[getter]
    fn drift(&self) -> PyResult<Vec<String>> {
        Ok(self.locked()?.drift.clone())
    }

    /// Number of calls of `see`.
    #[getter]
    fn passes(&self) -> PyResult<u64> {
        Ok(self.locked()?.calls)
    }

    /// State from which [`from_bytes`](Self::from_bytes) continues: the number of calls (u64, little endian) and the stream.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let state = self.locked()?;
        Ok(PyBytes::new(py, &[&state.calls.to_le_bytes()[..], &state.stream.to_bytes()].concat()))
    }

    /// Continues from [`to_bytes`](Self::to_bytes); the options must be the same.
    #[staticmethod]
    #[pyo3(signature = (bytes, components, **choices))]
    fn from_bytes(bytes: &[u8], components: usize, choices: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let short = || PyValueError::new_err("the state of an online fit is truncated");
        let (calls, bytes) = bytes.split_first_chunk().ok_or_else(short)?;
        let choices = Choices::of(components, choices)?;
        let stream = stream(&choices, |fitter| fitter.stream()?.resume(bytes))?;
        Ok(Self::new(stream, u64::from_le_bytes(*calls)))
    }
}
