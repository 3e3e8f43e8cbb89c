//! [`OnlineFit`]: online EM one call at a time, for those who have rows only now and then.

use crate::error::raise;
use crate::fit::{Choices, start_rows};
use crate::mixture::Mixture;
use crate::pool;
use crate::rows::{Rows, in_pieces};
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
    state: Mutex<Online>,
    /// The names of the policy and the estimator.
    policy: String,
    estimator: String,
    /// That of the rows of the fit before, which the prior of the policy counts with.
    effective_dim: Option<f64>,
}

struct Online {
    trainer: Trainer<'static>,
    /// The number and the weight of all rows so far, those of an earlier fit too.
    rows: u64,
    weight: f64,
}

fn rule(choices: &Choices) -> PyResult<OnlineEm> {
    match choices.method() {
        Method::OnlineEm { exponent, offset } => {
            Ok(OnlineEm::new().exponent(*exponent).offset(*offset).maximisation(choices.maximisation().clone()))
        }
        other => Err(PyValueError::new_err(format!("only online EM goes on with rows to come, found: `{}`", other.name()))),
    }
}

fn trainer(start: vmfkit::Mixture, rule: OnlineEm) -> PyResult<Trainer<'static>> {
    // It never has enough.
    Trainer::new(start, rule, Stop { tolerance: None, passes: usize::MAX, ..Stop::default() }).map_err(raise)
}

impl OnlineFit {
    fn new(trainer: Trainer<'static>, choices: &Choices, rows: u64, weight: f64) -> PyResult<Self> {
        Ok(OnlineFit {
            state: Mutex::new(Online { trainer, rows, weight }),
            policy: choices.policy.to_string(),
            effective_dim: choices.effective_dim,
            estimator: choices.estimator.name().to_owned(),
        })
    }

    fn locked(&self) -> PyResult<std::sync::MutexGuard<'_, Online>> {
        self.state.lock().map_err(|_| PyRuntimeError::new_err("the fit is lost after a panic"))
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
        let rows = Rows::of(rows, choices.normalize)?;
        let view = rows.view()?;
        let weights = weights.as_ref().map(|weights| weights.as_slice()).transpose()?;
        let start = pool::run(py, choices.threads, |stop| {
            view.with_source(stop, choices.normalize, weights, None, |source| {
                source.rewind()?;
                let block = source.read_block()?.ok_or(vmfkit::Error::NoRows { weight: 0.0 })?;
                choices.first_mixture(&block, stop)
            })
        })??;
        Self::new(trainer(start, rule(&choices)?)?, &choices, 0, 0.0)
    }

    /// Goes on after the fit that a mixture came from: all rows count the same, those of that fit and those to come. A mixture that does
    /// not know its rows counts as [`start_rows`].
    #[staticmethod]
    #[pyo3(signature = (mixture, components, **choices))]
    fn after(mixture: &Mixture, components: usize, choices: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut choices = Choices::of(components, choices)?;
        choices.weigh_prior_by(mixture.description.settings.effective_dim());
        let start = choices.mixture_to_go_on_with(&mixture.inner)?;
        let Description { rows, weight, .. } = mixture.description;
        let known = weight > 0.0 && weight.is_finite();
        let weight = if known { weight } else { start_rows(components) as f64 };
        let rule = rule(&choices)?.after(&start, weight).map_err(raise)?;
        Self::new(trainer(start, rule)?, &choices, rows, weight)
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
        let rows = Rows::of(rows, normalize)?;
        let view = rows.view()?;
        let weights = weights.as_ref().map(|weights| weights.as_slice()).transpose()?;
        pool::run(py, threads, |stop| {
            let mut state = self.locked()?;
            let Online { trainer, rows, weight } = &mut *state;
            view.with_source(stop, normalize, weights, None, |source| {
                source.rewind()?;
                while let Some(block) = source.read_block()? {
                    let (components, dim) = (trainer.model().components().len(), trainer.model().dim());
                    let mut stats = SufficientStats::zero(components, dim);
                    let assignment = trainer.assignment();
                    in_pieces(&block, components * dim, stop, |block| trainer.model().accumulate(block, assignment, &mut stats))?;
                    // A block of which only a part was seen does not count.
                    if stop.asked() {
                        break;
                    }
                    trainer.absorb(&stats)?;
                    *rows += block.len() as u64;
                    *weight += stats.weight();
                }
                trainer.end_pass()?;
                Ok(())
            })
        })?
    }

    #[getter]
    fn mixture(&self) -> PyResult<Mixture> {
        let Online { trainer, rows, weight } = &*self.locked()?;
        let so_far = trainer.so_far();
        let mut description = Description::of(&so_far);
        description.method = "online".to_owned();
        (description.policy, description.estimator) = (self.policy.clone(), self.estimator.clone());
        (description.rows, description.weight) = (*rows, *weight);
        description.settings = description.settings.with_effective_dim(self.effective_dim);
        Ok(Mixture::new(so_far.mixture, description))
    }

    /// How often it has seen rows.
    #[getter]
    fn passes(&self) -> PyResult<usize> {
        Ok(self.locked()?.trainer.passes())
    }

    /// All that is needed to go on elsewhere: the number and the weight of all rows, the effective dimension that the prior counts with (u64,
    /// f64 and f64, little endian; not a number if it was not measured) and a checkpoint.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let Online { trainer, rows, weight } = &*self.locked()?;
        let checkpoint = trainer.checkpoint().map_err(raise)?.to_bytes();
        let effective_dim = self.effective_dim.unwrap_or(f64::NAN).to_le_bytes();
        Ok(PyBytes::new(py, &[&rows.to_le_bytes()[..], &weight.to_le_bytes(), &effective_dim, &checkpoint].concat()))
    }

    /// Goes on with the same choices.
    #[staticmethod]
    #[pyo3(signature = (bytes, components, **choices))]
    fn from_bytes(bytes: &[u8], components: usize, choices: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let short = || PyValueError::new_err("the bytes of an online fit must be whole");
        let (rows, bytes) = bytes.split_first_chunk().ok_or_else(short)?;
        let (weight, bytes) = bytes.split_first_chunk().ok_or_else(short)?;
        let (effective_dim, bytes) = bytes.split_first_chunk().ok_or_else(short)?;
        let checkpoint = Checkpoint::from_bytes(bytes).map_err(raise)?;
        let mut choices = Choices::of(components, choices)?;
        choices.weigh_prior_by(Some(f64::from_le_bytes(*effective_dim)).filter(|dim| !dim.is_nan()));
        let start = checkpoint.current().mixture.clone();
        let (rows, weight) = (u64::from_le_bytes(*rows), f64::from_le_bytes(*weight));
        Self::new(trainer(start, rule(&choices)?)?.resume(&checkpoint).map_err(raise)?, &choices, rows, weight)
    }
}
