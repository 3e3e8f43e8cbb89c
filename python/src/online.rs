//! [`OnlineFit`]: online EM one call at a time, for those who have rows only now and then.

use crate::error::raise;
use crate::fit::Choices;
use crate::mixture::Mixture;
use crate::pool;
use crate::rows::Rows;
use numpy::PyReadonlyArray1;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::Mutex;
use vmfkit::model_file::Description;
use vmfkit::train::{Checkpoint, OnlineEm, Stop, Trainer};
use vmfkit::{Method, SufficientStats};

/// A fit that every call goes on with: each sees its rows once, in one step.
#[pyclass(frozen, module = "vmfkit._vmfkit")]
pub struct OnlineFit {
    trainer: Mutex<Trainer<'static>>,
}

fn trainer(start: vmfkit::Mixture, choices: &Choices) -> PyResult<Trainer<'static>> {
    let (exponent, offset) = match choices.method() {
        Method::OnlineEm { exponent, offset } => (*exponent, *offset),
        other => {
            return Err(PyValueError::new_err(format!("only online EM goes on with rows to come, found: `{}`", other.name())));
        }
    };
    let rule = OnlineEm::new().exponent(exponent).offset(offset).maximisation(choices.maximisation().clone());
    // It never has enough.
    Trainer::new(start, rule, Stop { tolerance: None, passes: usize::MAX }).map_err(raise)
}

impl OnlineFit {
    fn locked(&self) -> PyResult<std::sync::MutexGuard<'_, Trainer<'static>>> {
        self.trainer.lock().map_err(|_| PyRuntimeError::new_err("the fit is lost after a panic"))
    }
}

#[pymethods]
impl OnlineFit {
    /// Begins with a start made of these rows, which are not yet counted.
    #[new]
    #[pyo3(signature = (rows, components, weights=None, **choices))]
    fn begin<'py>(
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        components: usize,
        weights: Option<PyReadonlyArray1<'py, f64>>,
        choices: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Self> {
        let choices = Choices::of(components, choices)?;
        let rows = Rows::of(rows)?;
        let view = rows.view()?;
        let weights = weights.as_ref().map(|weights| weights.as_slice()).transpose()?;
        let start = pool::run(py, choices.threads, |_| {
            view.with_source(choices.normalize, weights, 0, |source, _| {
                source.rewind()?;
                let block = source.read_block()?.ok_or(vmfkit::Error::NoRows { weight: 0.0 })?;
                choices.first_mixture(&block)
            })
        })??;
        Ok(OnlineFit { trainer: Mutex::new(trainer(start, &choices)?) })
    }

    /// Sees rows, a step for each block of them.
    #[pyo3(signature = (rows, weights=None, normalize=false, threads=None))]
    fn see<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        weights: Option<PyReadonlyArray1<'py, f64>>,
        normalize: bool,
        threads: Option<usize>,
    ) -> PyResult<()> {
        let rows = Rows::of(rows)?;
        let view = rows.view()?;
        let weights = weights.as_ref().map(|weights| weights.as_slice()).transpose()?;
        pool::run(py, threads, |stop| {
            let mut trainer = self.locked()?;
            view.with_source(normalize, weights, 0, |source, _| {
                source.rewind()?;
                while let Some(block) = source.read_block()? {
                    let mut stats = SufficientStats::zero(trainer.model().components().len(), trainer.model().dim());
                    trainer.model().accumulate(&block, trainer.assignment(), &mut stats)?;
                    trainer.absorb(&stats)?;
                    if stop.asked() {
                        break;
                    }
                }
                trainer.end_pass()?;
                Ok(())
            })
        })?
    }

    #[getter]
    fn mixture(&self) -> PyResult<Mixture> {
        let trainer = self.locked()?;
        Ok(Mixture::new(trainer.model().clone(), Description::default()))
    }

    /// How often it has seen rows.
    #[getter]
    fn passes(&self) -> PyResult<usize> {
        Ok(self.locked()?.passes())
    }

    /// All that is needed to go on elsewhere.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let checkpoint = self.locked()?.checkpoint().map_err(raise)?;
        Ok(PyBytes::new(py, &checkpoint.to_bytes()))
    }

    /// Goes on with the same choices.
    #[staticmethod]
    #[pyo3(signature = (bytes, components, **choices))]
    fn from_bytes(bytes: &[u8], components: usize, choices: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let checkpoint = Checkpoint::from_bytes(bytes).map_err(raise)?;
        let choices = Choices::of(components, choices)?;
        let begun = trainer(checkpoint.current().mixture.clone(), &choices)?;
        Ok(OnlineFit { trainer: Mutex::new(begun.resume(&checkpoint).map_err(raise)?) })
    }
}
