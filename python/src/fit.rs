//! [`fit`]: fits a mixture to rows.

use crate::error::raise;
use crate::mixture::Mixture;
use crate::pool;
use crate::rows::Rows;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use vmfkit::store::model::Description;
use vmfkit::train::{Annealing, Pass, Progress, Status, Stop};
use vmfkit::{ConcentrationEstimator, ConcentrationPolicy, Fitter, Maximisation, Method, Start};

/// The result of a fit.
#[pyclass(frozen, module = "vmfkit._vmfkit")]
pub struct Fit {
    #[pyo3(get)]
    mixture: Py<Mixture>,
    trace: Vec<Pass>,
    #[pyo3(get)]
    status: &'static str,
    #[pyo3(get)]
    notes: Vec<String>,
    #[pyo3(get)]
    rows: u64,
    #[pyo3(get)]
    weight: f64,
    /// Passes of the search over a sample, which are not part of the trace.
    #[pyo3(get)]
    search_passes: usize,
}

impl Fit {
    pub fn new(py: Python<'_>, fit: vmfkit::train::Fit) -> PyResult<Self> {
        let description = Description::of(&fit);
        Ok(Fit {
            mixture: Py::new(py, Mixture::new(fit.mixture, description))?,
            notes: fit.notes.iter().map(ToString::to_string).collect(),
            trace: fit.trace,
            status: fit.status.name(),
            rows: fit.rows,
            weight: fit.weight,
            search_passes: fit.search_passes,
        })
    }

    fn of_passes<'py>(&self, py: Python<'py>, number: impl Fn(&Pass) -> f64) -> Bound<'py, PyArray1<f64>> {
        self.trace.iter().map(number).collect::<Vec<_>>().into_pyarray(py)
    }
}

#[pymethods]
impl Fit {
    #[getter]
    fn converged(&self) -> bool {
        self.status == Status::Converged.name()
    }

    /// Mean objective per row, for each pass.
    #[getter]
    fn objectives<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.of_passes(py, |pass| pass.objective)
    }

    /// Seconds from the start of the fit to the end of each pass.
    #[getter]
    fn seconds<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.of_passes(py, |pass| pass.seconds)
    }

    #[getter]
    fn smallest_weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.of_passes(py, |pass| pass.smallest_weight)
    }

    #[getter]
    fn largest_concentrations<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.of_passes(py, |pass| pass.largest_concentration)
    }
}

/// The options of a fit, set by name.
pub struct Choices {
    components: usize,
    method: Method,
    start: Start,
    maximisation: Maximisation,
    pub policy: ConcentrationPolicy,
    pub estimator: ConcentrationEstimator,
    pub dispersion: Option<f64>,
    background: Option<f64>,
    restarts: usize,
    pub seed: Option<u64>,
    tolerance: Option<Option<f64>>,
    passes: Option<usize>,
    batch: Option<usize>,
    shuffle: bool,
    search: bool,
    sample: Option<usize>,
    calibrate: bool,
    /// For streams only.
    pub half_life: Option<f64>,
    pub normalize: bool,
    pub threads: Option<usize>,
    /// Maximum memory for rows of files, in bytes.
    memory: u64,
}

/// Parses an argument that names a choice; an unknown name is a ValueError.
pub fn parsed<T: std::str::FromStr<Err = vmfkit::error::ParseChoiceError>>(text: &str) -> PyResult<T> {
    text.parse().map_err(|error: vmfkit::error::ParseChoiceError| PyValueError::new_err(error.to_string()))
}

impl Choices {
    pub fn of(components: usize, named: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut choices = Choices {
            components,
            method: Method::default(),
            start: Start::default(),
            maximisation: Maximisation::default(),
            policy: ConcentrationPolicy::default(),
            estimator: ConcentrationEstimator::Exact,
            dispersion: None,
            background: None,
            restarts: 1,
            seed: None,
            tolerance: None,
            passes: None,
            batch: None,
            shuffle: true,
            search: true,
            sample: None,
            calibrate: true,
            half_life: None,
            normalize: false,
            threads: None,
            memory: 0,
        };
        // The method comes first because other options modify it.
        let named: Vec<(String, Bound<'_, PyAny>)> = match named {
            Some(named) => named.iter().map(|(name, value)| Ok((name.extract()?, value))).collect::<PyResult<_>>()?,
            None => Vec::new(),
        };
        let (method, others): (Vec<_>, Vec<_>) = named.into_iter().partition(|(name, _)| name == "method");
        for (name, value) in method.into_iter().chain(others).filter(|(_, value)| !value.is_none()) {
            choices.choose(&name, &value)?;
        }
        Ok(choices)
    }

    fn choose(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        match name {
            "method" => self.method = parsed(&value.extract::<String>()?)?,
            "policy" => {
                self.policy = parsed(&value.extract::<String>()?)?;
                self.maximisation = self.maximisation.clone().policy(self.policy);
            }
            "estimator" => {
                self.estimator = parsed(&value.extract::<String>()?)?;
                self.maximisation = self.maximisation.clone().estimator(self.estimator);
            }
            "start" => {
                self.start = start(value)?;
                if let Ok(mixture) = value.cast::<Mixture>() {
                    self.decide_by(mixture.get().description.settings.dispersion());
                }
            }
            "background" => self.background = Some(value.extract()?),
            "restarts" => self.restarts = value.extract()?,
            "seed" => self.seed = Some(value.extract()?),
            "tolerance" => {
                // As in scikit-learn: with 0, EM makes all passes, and k-means stops when no label changes.
                let stops = |tolerance: &f64| *tolerance > 0.0 || matches!(self.method, Method::KMeans);
                self.tolerance = Some(Some(value.extract::<f64>()?).filter(stops));
            }
            "passes" => self.passes = Some(value.extract()?),
            "batch" => self.batch = Some(value.extract()?),
            "shuffle" => self.shuffle = value.extract()?,
            "search" => self.search = value.extract()?,
            "sample" => self.sample = Some(value.extract()?),
            "calibrate" => self.calibrate = value.extract()?,
            "half_life" => self.half_life = Some(value.extract()?),
            "min_weight" => self.maximisation = self.maximisation.clone().smallest_weight(value.extract()?),
            "fixed_weights" => self.maximisation = self.maximisation.clone().fixed_weights(value.extract()?),
            "max_concentration" => self.maximisation = self.maximisation.clone().largest_concentration(value.extract()?),
            "normalize" => self.normalize = value.extract()?,
            "threads" => self.threads = Some(value.extract()?),
            "memory" => self.memory = value.extract()?,
            _ => self.choose_of_method(name, value)?,
        }
        Ok(())
    }

    fn choose_of_method(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        match (&mut self.method, name) {
            (Method::Em { annealing }, "annealing") => {
                let (from, factor) = value.extract()?;
                *annealing = Some(Annealing { from, factor });
            }
            (Method::OnlineEm { exponent, .. }, "step_exponent") => *exponent = value.extract()?,
            (Method::OnlineEm { offset, .. }, "step_offset") => *offset = value.extract()?,
            (Method::Sgd(adam), "learning_rate") => *adam = adam.clone().learning_rate(value.extract()?),
            (Method::Sgd(adam), "decay") => *adam = adam.clone().decay(value.extract()?),
            (Method::Sgd(adam), "betas") => {
                let (first, second) = value.extract()?;
                *adam = adam.clone().betas(first, second);
            }
            (method, _) => {
                let what = format!("the method {} has no such option, found: `{name}`", method.name());
                return Err(PyTypeError::new_err(what));
            }
        }
        Ok(())
    }

    /// Uses the dispersion of an earlier fit.
    pub fn decide_by(&mut self, dispersion: Option<f64>) {
        if let Some(dispersion) = dispersion {
            self.dispersion = Some(dispersion);
            self.maximisation = self.maximisation.clone().dispersion(dispersion);
        }
    }

    /// The mixture of an earlier fit, to continue from.
    pub fn mixture_to_continue(&self, mixture: &vmfkit::Mixture) -> PyResult<vmfkit::Mixture> {
        let found = mixture.components().len() - usize::from(mixture.has_background());
        if found != self.components {
            let what = format!("expected a mixture of {} components to continue from, found: `{found}`", self.components);
            return Err(PyValueError::new_err(what));
        }
        self.with_background(mixture.clone()).map_err(raise)
    }

    fn with_background(&self, mixture: vmfkit::Mixture) -> vmfkit::Result<vmfkit::Mixture> {
        match self.background {
            Some(weight) if !mixture.has_background() => mixture.with_background(weight),
            _ => Ok(mixture),
        }
    }

    pub fn fitter<'a>(&self) -> Fitter<'a> {
        let usual = self.method.stop();
        let stop = Stop {
            tolerance: self.tolerance.unwrap_or(usual.tolerance),
            passes: self.passes.unwrap_or(usual.passes),
            ..Stop::default()
        };
        let mut fitter = Fitter::new(self.components)
            .method(self.method.clone())
            .start(self.start.clone())
            .maximisation(self.maximisation.clone())
            .restarts(self.restarts)
            .seed(self.seed.unwrap_or(0))
            .stop(stop)
            .shuffle(self.shuffle)
            .search(self.search)
            .calibrate(self.calibrate);
        if let Some(weight) = self.background {
            fitter = fitter.background(weight);
        }
        if let Some(rows) = self.batch {
            fitter = fitter.batch(rows);
        }
        if let Some(rows) = self.sample {
            fitter = fitter.sample(rows);
        }
        fitter
    }
}

/// Parses a start: a name, a mixture, an array of directions, or an array of labels.
fn start(value: &Bound<'_, PyAny>) -> PyResult<Start> {
    if let Ok(mixture) = value.cast::<Mixture>() {
        return Ok(Start::Mixture(mixture.get().inner.clone()));
    }
    if let Ok(directions) = value.extract::<PyReadonlyArray2<f64>>() {
        return Ok(Start::Directions(directions.as_array().outer_iter().map(|direction| direction.to_vec()).collect()));
    }
    if let Ok(labels) = value.extract::<PyReadonlyArray1<u32>>() {
        return Ok(Start::Labels(labels.as_array().to_vec()));
    }
    match value.extract::<String>()?.as_str() {
        "kmeans" => Ok(Start::KMeans),
        "plusplus" => Ok(Start::PlusPlus),
        "random-rows" => Ok(Start::RandomRows),
        "random" => Ok(Start::Random),
        other => Err(PyValueError::new_err(format!(
            "a start must be kmeans, plusplus, random-rows, random, an array of directions, labels or a mixture, found: `{other}`"
        ))),
    }
}

/// Number of rows from which a start is computed. A mixture without a number of rows counts as this many.
#[pyfunction]
pub fn start_rows(components: usize) -> usize {
    vmfkit::start::sample_rows(components)
}

/// Time between two calls of a progress callback within a pass.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// Progress of a fit, reported to a Python callback.
#[derive(Default)]
struct Report {
    called: Option<Instant>,
    now: Option<Progress>,
    /// Objective of the last complete pass of this restart.
    objective: Option<f64>,
    /// The exception of the callback, which ends the fit.
    failed: Option<PyErr>,
}

impl Report {
    fn at(&mut self, now: Progress, callback: &Option<Py<PyAny>>) {
        if self.now.is_none_or(|before| before.restart != now.restart) {
            self.objective = None;
        }
        self.now = Some(now);
        if self.called.is_none_or(|called| called.elapsed() >= REPORT_EVERY) {
            self.call(callback);
        }
    }

    fn end_pass(&mut self, restart: usize, objective: f64, callback: &Option<Py<PyAny>>) {
        self.objective = Some(objective);
        if self.now.is_some_and(|now| now.restart == restart) {
            self.call(callback);
        }
    }

    fn call(&mut self, callback: &Option<Py<PyAny>>) {
        let (Some(callback), Some(Progress { restart, pass, rows, .. })) = (callback, self.now) else { return };
        self.called = Some(Instant::now());
        // The first exception ends the fit. The fit may report once more before it ends.
        if self.failed.is_none() {
            self.failed = Python::attach(|py| callback.call1(py, (restart, pass, rows, self.objective))).err();
        }
    }
}

/// The default settings of a method and policy, by their names in model files.
#[pyfunction]
#[pyo3(signature = (method, components, dim, policy=None))]
pub fn default_settings<'py>(
    py: Python<'py>,
    method: &str,
    components: usize,
    dim: usize,
    policy: Option<&str>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut fitter = Fitter::new(components).method(parsed(method)?);
    if let Some(policy) = policy {
        fitter = fitter.policy(parsed(policy)?);
    }
    let found = PyDict::new(py);
    for (name, text) in fitter.settings(dim).iter() {
        found.set_item(name, text)?;
    }
    Ok(found)
}

/// Fits a mixture. `progress(restart, pass, rows, objective)` is called about ten times a second and at the end of every pass. Pass 0 is the
/// start; `objective` is that of the last complete pass of the restart, or None.
#[pyfunction]
#[pyo3(signature = (rows, components, weights=None, progress=None, **choices))]
pub fn fit<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    components: usize,
    weights: Option<PyReadonlyArray1<'py, f64>>,
    progress: Option<Py<PyAny>>,
    choices: Option<&Bound<'py, PyDict>>,
) -> PyResult<Fit> {
    let choices = Choices::of(components, choices)?;
    let rows = Rows::of(rows, choices.normalize)?;
    let borrowed = rows.borrowed()?;
    let weights = weights.as_ref().map(|weights| weights.as_slice()).transpose()?;
    let found = pool::run(py, choices.threads, |stop| {
        // Shared by the callbacks of passes and of batches.
        let report = Mutex::new(Report::default());
        let found = borrowed.with_source(stop, choices.normalize, weights, Some(choices.memory), |source| {
            let on_block = |now: Progress| {
                let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                report.at(now, &progress);
                if report.failed.is_some() { ControlFlow::Break(()) } else { stop.flow() }
            };
            let on_pass = |restart: usize, pass: &Pass, _: &vmfkit::Mixture| {
                let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                report.end_pass(restart, pass.objective, &progress);
                if report.failed.is_some() { ControlFlow::Break(()) } else { stop.flow() }
            };
            choices.fitter().progress(on_block).watch(on_pass).fit_source(source)
        });
        let report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.failed.map_or(found, Err)
    })??;
    // The number of rows of files is known only now.
    if found.rows < components as u64 {
        let what = format!("Expected n_samples >= {components} components, but got n_samples = {}", found.rows);
        return Err(PyValueError::new_err(what));
    }
    Fit::new(py, found)
}
