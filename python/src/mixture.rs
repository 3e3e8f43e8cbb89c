//! [`Mixture`]: the Python class of a mixture, with functions of rows.

use crate::calibration;
use crate::error::raise;
use crate::numpy_array;
use crate::pool::{self, Stop};
use crate::rows::{Rows, in_pieces};
use numpy::ndarray::Array2;
use numpy::{
    AllowTypeChange, IntoPyArray, Ix1, Ix2, PyArray1, PyArray2, PyArrayLike1, PyArrayLike2, PyArrayMethods,
    PyUntypedArrayMethods, ToPyArray,
};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use vmfkit::outlier::OutlierTest;
use vmfkit::rows::Scalar;
use vmfkit::store::model::{self, Description};
use vmfkit::{Assignment, ConcentrationPolicy, Maximisation, RowBatch, SufficientStats, VonMisesFisher};

/// A mixture and the description of its fit.
#[pyclass(frozen, module = "vmfkit._vmfkit")]
pub struct Mixture {
    pub inner: vmfkit::Mixture,
    pub description: Description,
}

/// Anything that numpy converts to an array of numbers.
type Numbers1<'py> = PyArrayLike1<'py, f64, AllowTypeChange>;
type Numbers2<'py> = PyArrayLike2<'py, f64, AllowTypeChange>;

/// Mass, resultant and shortfall of each component.
type Statistics<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>);

/// Maximum number of components in an HTML table.
const ROWS_SHOWN: usize = 30;
/// Maximum number of coordinates shown for a direction; of a longer one, the first `BEFORE_GAP` and the last two are shown.
const COORDINATES_SHOWN: usize = 8;
const BEFORE_GAP: usize = 4;

fn shown_direction(direction: &[f64]) -> String {
    let text = |coordinates: &[f64]| coordinates.iter().map(|x| format!("{x:.4}")).collect::<Vec<_>>().join(" ");
    if direction.len() <= COORDINATES_SHOWN {
        return format!("[{}]", text(direction));
    }
    let (head, tail) = (&direction[..BEFORE_GAP], &direction[direction.len() - 2..]);
    format!("[{} ... {}]", text(head), text(tail))
}

/// Work of at most this many multiplications is done on the calling thread. It takes about 0.1 ms, a few times as long as handing it to
/// another thread.
const SMALL: usize = 1 << 20;
/// Numbers drawn between two checks for Ctrl-C.
pub const DRAWN_AT_ONCE: usize = 1 << 24;

impl Mixture {
    pub fn new(inner: vmfkit::Mixture, description: Description) -> Self {
        Mixture { inner, description }
    }

    /// The temperature of calibrated probabilities; 1 without a calibration.
    pub fn temperature(&self) -> f64 {
        self.description.calibration.as_ref().map_or(1.0, |calibration| calibration.temperature)
    }

    /// Multiplications per row.
    pub fn cost(&self) -> usize {
        self.inner.dim() * self.inner.components().len()
    }

    /// Concatenates the results of `work` over all batches of rows, `width` numbers per row.
    fn of_rows<T: Copy + Default + Send>(
        &self,
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        normalize: bool,
        threads: Option<usize>,
        width: usize,
        work: impl Fn(&RowBatch, &mut [T]) -> vmfkit::Result<()> + Send + Sync,
    ) -> PyResult<Vec<T>> {
        of_rows(py, rows, normalize, threads, (self.cost(), width), work)
    }
}

/// Concatenates the results of `work` over all batches of rows: `width` numbers per row, at a cost of `cost` multiplications per row.
pub fn of_rows<T: Copy + Default + Send>(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    normalize: bool,
    threads: Option<usize>,
    (cost, width): (usize, usize),
    work: impl Fn(&RowBatch, &mut [T]) -> vmfkit::Result<()> + Send + Sync,
) -> PyResult<Vec<T>> {
    let rows = Rows::of(rows, normalize)?;
    let borrowed = rows.borrowed()?;
    let collect = |stop: &Stop| -> PyResult<Vec<T>> {
        let mut found = Vec::with_capacity(borrowed.len().unwrap_or(0) * width);
        borrowed.each_block(normalize, stop, |block| {
            in_pieces(block, cost, stop, |block| {
                let before = found.len();
                found.resize(before + block.len() * width, T::default());
                work(block, &mut found[before..])
            })
        })?;
        Ok(found)
    };
    match borrowed.len() {
        Some(rows) if rows.saturating_mul(cost) <= SMALL && threads.is_none() => pool::run_here(py, collect)?,
        _ => pool::run(py, threads, collect)?,
    }
}

impl Mixture {
    /// Draws rows and their components.
    fn draw<'py, T: Scalar + numpy::Element>(
        &self,
        py: Python<'py>,
        count: usize,
        seed: u64,
        first: u64,
        threads: Option<usize>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyArray1<u32>>)> {
        let rows = numpy_array::empty::<T, Ix2>(py, (count, self.inner.dim()))?;
        let labels = numpy_array::empty::<u32, Ix1>(py, (count,))?;
        let (mut row_buffer, mut label_buffer) = (rows.readwrite(), labels.readwrite());
        let (values, numbers) = (row_buffer.as_slice_mut()?, label_buffer.as_slice_mut()?);
        // Each row searches all components for its own, and each piece prepares all components.
        let components = self.inner.components().len();
        let rows_at_once = (DRAWN_AT_ONCE / (self.inner.dim() + components)).max(components);
        pool::run(py, threads, |stop| {
            let pieces = values.chunks_mut(rows_at_once * self.inner.dim()).zip(numbers.chunks_mut(rows_at_once)).enumerate();
            for (number, (values, numbers)) in pieces.take_while(|_| !stop.asked()) {
                self.inner.fill(seed, first + (number * rows_at_once) as u64, values, numbers)?;
            }
            Ok(())
        })?
        .map_err(raise)?;
        Ok((rows.into_any(), labels))
    }
}

/// Converts an argument that has numbers to an array of float64. numpy would also convert strings, booleans and dates.
fn numbers<'py>(argument: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    argument.py().import("vmfkit._rows")?.getattr("as_numbers")?.call1((argument, name))
}

fn table<T: numpy::Element>(py: Python<'_>, values: Vec<T>, width: usize) -> PyResult<Bound<'_, PyArray2<T>>> {
    let rows = values.len() / width.max(1);
    let array = Array2::from_shape_vec((rows, width), values).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(array.into_pyarray(py))
}

#[pymethods]
impl Mixture {
    #[new]
    #[pyo3(signature = (weights, directions, concentrations, background=None))]
    fn of_arrays(
        weights: &Bound<'_, PyAny>,
        directions: &Bound<'_, PyAny>,
        concentrations: &Bound<'_, PyAny>,
        background: Option<f64>,
    ) -> PyResult<Self> {
        let weights: Numbers1 = numbers(weights, "weights")?.extract()?;
        let directions: Numbers2 = numbers(directions, "directions")?.extract()?;
        let concentrations: Numbers1 = numbers(concentrations, "concentrations")?.extract()?;
        let (components, dim) = (directions.shape()[0], directions.shape()[1]);
        let concentrations = concentrations.as_array();
        if concentrations.len() != components {
            return Err(PyValueError::new_err(format!(
                "expected one concentration for each of {components} directions, found: `{}`",
                concentrations.len()
            )));
        }
        if dim < 2 {
            return Err(raise(vmfkit::Error::Dimension { dim }));
        }
        let directions = directions.as_array();
        let densities = directions
            .outer_iter()
            .zip(concentrations)
            .map(|(direction, &concentration)| VonMisesFisher::new(direction.to_vec(), concentration).map_err(raise));
        let densities = densities.collect::<PyResult<Vec<_>>>()?;
        let mut inner = vmfkit::Mixture::new(weights.as_array().to_vec(), densities).map_err(raise)?;
        if let Some(weight) = background {
            inner = inner.with_background(weight).map_err(raise)?;
        }
        Ok(Mixture::new(inner, Description::default()))
    }

    #[getter]
    fn dim(&self) -> usize {
        self.inner.dim()
    }

    /// Number of components, including a background.
    #[getter]
    fn components(&self) -> usize {
        self.inner.components().len()
    }

    #[getter]
    fn has_background(&self) -> bool {
        self.inner.has_background()
    }

    /// Number of free parameters of the fit; all parameters if the mixture was not fitted.
    #[getter]
    fn free_parameters(&self) -> usize {
        let Description { policy, settings, .. } = &self.description;
        let how = Maximisation::new().policy(policy.parse().unwrap_or(ConcentrationPolicy::Free));
        how.fixed_weights(settings.get("fixed_weights") == Some("true")).free_parameters(&self.inner)
    }

    #[getter]
    fn weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.inner.weights().to_pyarray(py)
    }

    #[getter]
    fn directions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let directions = self.inner.components().iter().flat_map(|density| density.mean_direction().to_vec()).collect();
        table(py, directions, self.inner.dim())
    }

    #[getter]
    fn concentrations<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        let concentrations: Vec<f64> = self.inner.components().iter().map(VonMisesFisher::concentration).collect();
        concentrations.into_pyarray(py)
    }

    /// ln p of each row.
    #[pyo3(signature = (rows, normalize=false, threads=None))]
    fn ln_densities<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        normalize: bool,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let found = self.of_rows(py, rows, normalize, threads, 1, |block, out| self.inner.ln_densities_into(block, out))?;
        Ok(found.into_pyarray(py))
    }

    /// ln p of each row under each component.
    #[pyo3(signature = (rows, normalize=false, threads=None))]
    fn component_ln_densities<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        normalize: bool,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let width = self.components();
        let work = |block: &RowBatch, out: &mut [f64]| self.inner.component_ln_densities_into(block, out);
        table(py, self.of_rows(py, rows, normalize, threads, width, work)?, width)
    }

    /// Probability of each component for each row: the exact posterior, or calibrated probabilities.
    #[pyo3(signature = (rows, normalize=false, threads=None, calibrated=false))]
    fn responsibilities<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        normalize: bool,
        threads: Option<usize>,
        calibrated: bool,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let width = self.components();
        let temperature = if calibrated { self.temperature() } else { 1.0 };
        let work = |block: &RowBatch, out: &mut [f64]| {
            if temperature == 1.0 {
                return self.inner.responsibilities_into(block, out);
            }
            out.copy_from_slice(&self.inner.tempered_responsibilities(block, temperature)?);
            Ok(())
        };
        table(py, self.of_rows(py, rows, normalize, threads, width, work)?, width)
    }

    /// The most probable component of each row.
    #[pyo3(signature = (rows, normalize=false, threads=None))]
    fn assign<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        normalize: bool,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let found = self.of_rows(py, rows, normalize, threads, 1, |block, out| self.inner.assign_into(block, out))?;
        Ok(found.into_pyarray(py))
    }

    /// Mass, resultant and shortfall of the rows nearest to each direction, with the weights of the files or of the caller.
    #[pyo3(signature = (rows, normalize=false, weights=None, threads=None))]
    fn nearest_statistics<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        normalize: bool,
        weights: Option<Numbers1<'py>>,
        threads: Option<usize>,
    ) -> PyResult<Statistics<'py>> {
        let rows = Rows::of(rows, normalize)?;
        let borrowed = rows.borrowed()?;
        let weights = weights.map(|weights| weights.as_array().to_vec());
        let (components, dim) = (self.inner.components().len(), self.inner.dim());
        let stats = pool::run(py, threads, |stop| {
            borrowed.with_source(stop, normalize, weights.as_deref(), None, |source| {
                let mut stats = SufficientStats::zero(components, dim);
                source.rewind()?;
                let mut buffer = vmfkit::RowBatch::default();
                while let Some(block) = source.next_validated(&mut buffer)? {
                    in_pieces(&block, self.cost(), stop, |block| self.inner.accumulate(block, Assignment::Nearest, &mut stats))?;
                    if stop.asked() {
                        break;
                    }
                }
                Ok(stats)
            })
        })??;
        let of_each = |number: fn(&SufficientStats, usize) -> f64| (0..components).map(|k| number(&stats, k)).collect::<Vec<_>>();
        let resultants = (0..components).flat_map(|k| stats.resultant(k).to_vec()).collect();
        Ok((
            of_each(SufficientStats::mass).into_pyarray(py),
            table(py, resultants, dim)?,
            of_each(SufficientStats::shortfall).into_pyarray(py),
        ))
    }

    /// p-value of each row. `kind` is conformal, component or law; None is conformal if the mixture has a table of scores, otherwise law.
    #[pyo3(signature = (rows, seed=0, normalize=false, threads=None, kind=None))]
    fn p_values<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        seed: u64,
        normalize: bool,
        threads: Option<usize>,
        kind: Option<&str>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        if let Some((table, scope)) = calibration::table_for(&self.description, kind)? {
            let work = |block: &RowBatch, out: &mut [f64]| {
                out.copy_from_slice(&table.p_values(&self.inner, block, scope)?);
                Ok(())
            };
            return Ok(self.of_rows(py, rows, normalize, threads, 1, work)?.into_pyarray(py));
        }
        let test = pool::run(py, threads, |stop| OutlierTest::new_while(&self.inner, seed, &|| stop.flow()))?;
        let test = test.map_err(raise)?.ok_or_else(|| PyKeyboardInterrupt::new_err(()))?;
        let found = self.of_rows(py, rows, normalize, threads, 1, |block, out| test.p_values_into(block, out))?;
        Ok(found.into_pyarray(py))
    }

    /// Mean ln p with its standard error, AIC, BIC and ICL.
    #[pyo3(signature = (rows, normalize=false, weights=None, threads=None))]
    fn evaluate<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        normalize: bool,
        weights: Option<Numbers1<'py>>,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let rows = Rows::of(rows, normalize)?;
        let borrowed = rows.borrowed()?;
        let weights = weights.map(|weights| weights.as_array().to_vec());
        let evaluation = pool::run(py, threads, |stop| {
            borrowed.with_source(stop, normalize, weights.as_deref(), None, |source| {
                let mut total: Option<vmfkit::mixture::Evaluation> = None;
                source.rewind()?;
                let mut buffer = vmfkit::RowBatch::default();
                while let Some(block) = source.next_validated(&mut buffer)? {
                    in_pieces(&block, self.cost(), stop, |block| {
                        let part = self.inner.evaluate(block)?;
                        match &mut total {
                            Some(total) => total.merge(&part),
                            none => *none = Some(part),
                        }
                        Ok(())
                    })?;
                    if stop.asked() {
                        break;
                    }
                }
                total.ok_or(vmfkit::Error::NoRows { weight: 0.0 })
            })
        })??;
        let free = self.free_parameters();
        let found = PyDict::new(py);
        found.set_item("mean", evaluation.mean())?;
        found.set_item("standard_error", evaluation.standard_error())?;
        found.set_item("aic", evaluation.aic(free))?;
        found.set_item("bic", evaluation.bic(free))?;
        found.set_item("icl", evaluation.icl(free))?;
        Ok(found)
    }

    /// Draws rows and their components, beginning with row `first` of the seed.
    #[pyo3(signature = (count, seed=0, first=0, single=false, threads=None))]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        count: usize,
        seed: u64,
        first: u64,
        single: bool,
        threads: Option<usize>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyArray1<u32>>)> {
        if single { self.draw::<f32>(py, count, seed, first, threads) } else { self.draw::<f64>(py, count, seed, first, threads) }
    }

    /// The mean direction of a component as text, elided beyond 8 coordinates.
    fn direction_text(&self, component: usize) -> PyResult<String> {
        let density = self.inner.components().get(component);
        let density = density.ok_or_else(|| PyValueError::new_err(format!("there is no component `{component}`")))?;
        Ok(shown_direction(density.mean_direction()))
    }

    /// The bytes of a model file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &model::to_bytes(&self.inner, &self.description))
    }

    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        let (inner, description) = model::from_bytes(bytes).map_err(raise)?;
        Ok(Mixture { inner, description })
    }

    /// Description of the fit, as in a model file.
    #[getter]
    fn description<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let known = &self.description;
        let found = PyDict::new(py);
        found.set_item("method", &known.method)?;
        found.set_item("policy", &known.policy)?;
        found.set_item("estimator", &known.estimator)?;
        found.set_item("seed", known.seed)?;
        found.set_item("status", &known.status)?;
        found.set_item("rows", known.rows)?;
        found.set_item("weight", known.weight)?;
        found.set_item("notes", &known.notes)?;
        found.set_item("labels", &known.labels)?;
        found.set_item("angles", known.angles.map(|angles| angles.to_string()))?;
        found.set_item("search_passes", known.search_passes)?;
        found.set_item("calibration", known.calibration.as_ref().map(|known| calibration::to_dict(py, known)).transpose()?)?;
        found.set_item("outlier_rows", known.outlier_table.as_ref().map(|table| table.rows()))?;
        found.set_item("held_out", known.outlier_table.as_ref().is_some_and(|table| table.is_held_out()))?;
        found.set_item("trace", known.trace.iter().map(|pass| pass.objective).collect::<Vec<_>>())?;
        for (name, text) in known.settings.iter() {
            found.set_item(name, text)?;
        }
        Ok(found)
    }

    /// A table of the components, heaviest first.
    fn _repr_html_(&self) -> String {
        let (weights, densities) = (self.inner.weights(), self.inner.components());
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
        let cells = |&component: &usize| {
            let density = &densities[component];
            let name = if self.inner.is_background(component) { "background".to_owned() } else { component.to_string() };
            let angle = density.angle_holding(0.5).to_degrees();
            format!(
                "<tr><td>{name}</td><td>{:.4}</td><td>{:.5}</td><td>{angle:.2}</td><td>{}</td></tr>",
                weights[component],
                density.concentration(),
                if self.inner.is_background(component) { String::new() } else { shown_direction(density.mean_direction()) }
            )
        };
        let shown: String = order.iter().take(ROWS_SHOWN).map(cells).collect();
        let more = match order.len().saturating_sub(ROWS_SHOWN) {
            0 => String::new(),
            more => format!("<tr><td colspan=\"5\">and {more} more</td></tr>"),
        };
        format!(
            "<table><caption>{} von Mises-Fisher densities, dimension {}</caption>\
             <tr><th>component</th><th>weight</th><th>concentration</th><th>half its mass within, degrees</th>\
             <th>mean direction</th></tr>{shown}{more}</table>",
            densities.len(),
            self.inner.dim()
        )
    }

    fn __repr__(&self) -> String {
        format!("Mixture(components={}, dim={})", self.inner.components().len(), self.inner.dim())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let load = slf.get_type().getattr("from_bytes")?;
        Ok((load, (slf.get().to_bytes(slf.py()),)))
    }
}
