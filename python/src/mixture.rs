//! [`Mixture`]: a mixture to Python, with what is asked of rows under it.

use crate::error::raise;
use crate::numpy_array;
use crate::pool::{self, Stop};
use crate::rows::{Rows, View, in_pieces};
use numpy::ndarray::Array2;
use numpy::{
    AllowTypeChange, IntoPyArray, Ix1, Ix2, PyArray1, PyArray2, PyArrayLike1, PyArrayLike2, PyArrayMethods, PyReadonlyArray1,
    PyReadwriteArray2, PyUntypedArrayMethods, ToPyArray,
};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rayon::prelude::*;
use vmfkit::outlier::OutlierTest;
use vmfkit::rows::{self, Scalar};
use vmfkit::store::model::{self, Description};
use vmfkit::{Assignment, ConcentrationPolicy, Maximisation, RowBatch, Sampler, SufficientStats, VonMisesFisher};

/// Weights, mean directions and concentrations, and how they were found.
#[pyclass(frozen, module = "vmfkit._vmfkit")]
pub struct Mixture {
    pub inner: vmfkit::Mixture,
    pub description: Description,
}

/// Whatever numpy makes an array of numbers of.
type Numbers1<'py> = PyArrayLike1<'py, f64, AllowTypeChange>;
type Numbers2<'py> = PyArrayLike2<'py, f64, AllowTypeChange>;

/// For each component its mass, its resultant and its shortfall.
type Statistics<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>);

/// Components in a table for people.
const ROWS_SHOWN: usize = 30;
/// Coordinates of a direction in such a table, and how many come before the gap where there are more.
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

/// Work that is done on the calling thread, in multiplications: about 0.1 ms, a few times what it takes to hand work to another thread.
const SMALL: usize = 1 << 20;
/// The same for draws, in numbers drawn.
const SMALL_DRAW: usize = 1 << 12;
/// Numbers drawn between two looks at whether to stop.
const DRAWN_AT_ONCE: usize = 1 << 24;

impl Mixture {
    pub fn new(inner: vmfkit::Mixture, description: Description) -> Self {
        Mixture { inner, description }
    }

    /// What a row costs, in multiplications.
    fn cost(&self) -> usize {
        self.inner.dim() * self.inner.components().len()
    }

    /// Puts what `work` finds of each block of rows together, `width` numbers a row.
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

/// Puts what `work` finds of each block of rows together, `width` numbers a row, each of which costs so many multiplications.
fn of_rows<T: Copy + Default + Send>(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    normalize: bool,
    threads: Option<usize>,
    (cost, width): (usize, usize),
    work: impl Fn(&RowBatch, &mut [T]) -> vmfkit::Result<()> + Send + Sync,
) -> PyResult<Vec<T>> {
    let rows = Rows::of(rows, normalize)?;
    let view = rows.view()?;
    let collect = |stop: &Stop| -> PyResult<Vec<T>> {
        let mut found = Vec::with_capacity(view.len().unwrap_or(0) * width);
        view.each_block(normalize, stop, |block| {
            in_pieces(block, cost, stop, |block| {
                let before = found.len();
                found.resize(before + block.len() * width, T::default());
                work(block, &mut found[before..])
            })
        })?;
        Ok(found)
    };
    match view.len() {
        Some(rows) if rows.saturating_mul(cost) <= SMALL && threads.is_none() => pool::run_here(py, collect)?,
        _ => pool::run(py, threads, collect)?,
    }
}

impl Mixture {
    /// Rows and their components.
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
        let (mut places, mut label_places) = (rows.readwrite(), labels.readwrite());
        let (values, numbers) = (places.as_slice_mut()?, label_places.as_slice_mut()?);
        // A row looks for its component among all, and each piece prepares all of them.
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

/// An argument as an array of float64, if it has numbers: numpy would make some of texts, truth values and dates too.
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

    /// How many components there are, a background counted.
    #[getter]
    fn components(&self) -> usize {
        self.inner.components().len()
    }

    #[getter]
    fn has_background(&self) -> bool {
        self.inner.has_background()
    }

    /// How many numbers the fit chose; all there are, where it is not known how the mixture was found.
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

    /// The probability of each component, given each row.
    #[pyo3(signature = (rows, normalize=false, threads=None))]
    fn responsibilities<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        normalize: bool,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let width = self.components();
        let work = |block: &RowBatch, out: &mut [f64]| self.inner.responsibilities_into(block, out);
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

    /// The mass, the resultant and the shortfall of the rows nearest to each direction, by the weights that files or the caller give them.
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
        let view = rows.view()?;
        let weights = weights.map(|weights| weights.as_array().to_vec());
        let (components, dim) = (self.inner.components().len(), self.inner.dim());
        let stats = pool::run(py, threads, |stop| {
            view.with_source(stop, normalize, weights.as_deref(), None, |source| {
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

    /// How strange each row is: the probability that a draw is at least so far from all components.
    #[pyo3(signature = (rows, seed=0, normalize=false, threads=None))]
    fn p_values<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        seed: u64,
        normalize: bool,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let test = pool::run(py, threads, |stop| OutlierTest::new_while(&self.inner, seed, &|| stop.flow()))?;
        let test = test.map_err(raise)?.ok_or_else(|| PyKeyboardInterrupt::new_err(()))?;
        let found = self.of_rows(py, rows, normalize, threads, 1, |block, out| test.p_values_into(block, out))?;
        Ok(found.into_pyarray(py))
    }

    /// ln p summed over the rows, its criteria, and what they are made of.
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
        let view: View = rows.view()?;
        let weights = weights.map(|weights| weights.as_array().to_vec());
        let evaluation = pool::run(py, threads, |stop| {
            view.with_source(stop, normalize, weights.as_deref(), None, |source| {
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

    /// Draws: the rows from `first` on of the endless table that belongs to the seed, and their components.
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

    /// How it was found, as a model file tells.
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

/// Fills an array with draws of one density: the rows from `first` on of the endless table that belongs to the seed.
#[pyfunction]
#[pyo3(signature = (direction, concentration, out, seed=0, first=0, threads=None))]
pub fn sample_density(
    py: Python<'_>,
    direction: PyReadonlyArray1<f64>,
    concentration: f64,
    mut out: PyReadwriteArray2<f64>,
    seed: u64,
    first: u64,
    threads: Option<usize>,
) -> PyResult<()> {
    let density = VonMisesFisher::new(direction.as_array().to_vec(), concentration).map_err(raise)?;
    if out.shape()[1] != density.dim() {
        return Err(raise(vmfkit::Error::DimensionMismatch { expected: density.dim(), found: out.shape()[1] }));
    }
    let rows = out.as_slice_mut()?;
    let sampler = Sampler::new(&density);
    if rows.len() <= SMALL_DRAW && threads.is_none() {
        return pool::run_here(py, |_| sampler.fill(seed, first, rows))?.map_err(raise);
    }
    let rows_at_once = (DRAWN_AT_ONCE / density.dim()).max(1);
    pool::run(py, threads, |stop| {
        let pieces = rows.chunks_mut(rows_at_once * density.dim()).enumerate();
        for (number, rows) in pieces.take_while(|_| !stop.asked()) {
            sampler.fill(seed, first + (number * rows_at_once) as u64, rows)?;
        }
        Ok(())
    })?
    .map_err(raise)
}

/// Rows that one thread looks at before it asks for more.
const ROWS_AT_ONCE: usize = 1 << 10;

/// 1 - mu.x of each row, with its digits; what a row's length lacks of 1 is made up for.
#[pyfunction]
#[pyo3(signature = (direction, rows, normalize=false, threads=None))]
pub fn deviations<'py>(
    py: Python<'py>,
    direction: PyReadonlyArray1<f64>,
    rows: &Bound<'py, PyAny>,
    normalize: bool,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let density = VonMisesFisher::new(direction.as_array().to_vec(), 0.0).map_err(raise)?;
    let work = |block: &RowBatch, out: &mut [f64]| {
        out.par_chunks_mut(ROWS_AT_ONCE).enumerate().try_for_each(|(number, out)| {
            let from = number * ROWS_AT_ONCE;
            let block = block.slice(from, from + out.len());
            density.deviations_into(&block, out)?;
            for (row, out) in out.iter_mut().enumerate() {
                // So far it is |x - mu|^2 / 2; where x has another length r, 1 - mu.x/r is (|x - mu|^2 - (r - 1)^2) / 2r.
                let length = length(&block, row);
                *out = ((*out - 0.5 * (length - 1.0).powi(2)) / length).max(0.0);
            }
            Ok(())
        })
    };
    Ok(of_rows(py, rows, normalize, threads, (density.dim(), 1), work)?.into_pyarray(py))
}

/// The length of a row.
fn length(block: &RowBatch, row: usize) -> f64 {
    fn of<T: Scalar>(coordinates: &[T]) -> f64 {
        let mut sums = [0.0; 8];
        for eight in coordinates.chunks(8) {
            sums.iter_mut().zip(eight).for_each(|(sum, x)| *sum += x.to_f64().powi(2));
        }
        sums.iter().sum::<f64>().sqrt()
    }
    let places = row * block.dim()..(row + 1) * block.dim();
    match block.rows() {
        rows::Rows::F32(values) => of(&values[places]),
        rows::Rows::F64(values) => of(&values[places]),
        rows::Rows::SparseF32(rows) => of(rows.row(row).1),
        rows::Rows::SparseF64(rows) => of(rows.row(row).1),
    }
}
