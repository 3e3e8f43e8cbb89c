//! [`MergeTree`]: the Python class of a merge tree, with functions of rows.

use crate::error::raise;
use crate::mixture::{Mixture, of_rows};
use crate::pool;
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use vmfkit::merge_tree::{Cut, Merge};
use vmfkit::store::model::Description;
use vmfkit::{Fitter, RowBatch};

/// The merge tree of a mixture, and the description of its fit.
#[pyclass(frozen, module = "vmfkit._vmfkit")]
pub struct MergeTree {
    inner: vmfkit::merge_tree::MergeTree,
    description: Description,
}

impl MergeTree {
    /// Multiplications per row.
    fn cost(&self) -> usize {
        let mixture = self.inner.fitted_mixture();
        mixture.dim() * mixture.components().len()
    }

    fn temperature(&self, calibrated: bool) -> f64 {
        self.description.calibration.as_ref().filter(|_| calibrated).map_or(1.0, |calibration| calibration.temperature)
    }

    fn cut_of(&self, clusters: usize) -> PyResult<Cut> {
        self.inner.cut(clusters).map_err(raise)
    }
}

fn table(py: Python<'_>, values: Vec<f64>, width: usize) -> PyResult<Bound<'_, PyArray2<f64>>> {
    let array = Array2::from_shape_vec((values.len() / width, width), values);
    Ok(array.map_err(|error| PyValueError::new_err(error.to_string()))?.into_pyarray(py))
}

#[pymethods]
impl MergeTree {
    #[new]
    #[pyo3(signature = (mixture, threads=None))]
    fn of_mixture(py: Python<'_>, mixture: &Mixture, threads: Option<usize>) -> PyResult<Self> {
        let Mixture { inner, description } = mixture;
        let how = Fitter::of_model(inner, description).maximisation_used();
        let weight = if description.weight > 0.0 { description.weight } else { 1.0 };
        let tree = pool::run(py, threads, |_| match description.sums.is_empty() {
            true => vmfkit::merge_tree::MergeTree::of_mixture(inner, weight, &how),
            false => vmfkit::merge_tree::MergeTree::new(inner, &description.sums, &how),
        })?;
        Ok(MergeTree { inner: tree.map_err(raise)?, description: description.clone() })
    }

    /// Number of components, without a background.
    #[getter]
    fn components(&self) -> usize {
        self.inner.components()
    }

    /// Whether the statistics are those of the fit, not those that the mixture expects.
    #[getter]
    fn has_statistics(&self) -> bool {
        !self.description.sums.is_empty()
    }

    /// The linkage matrix of scipy.
    fn linkage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        table(py, self.inner.linkage().concat(), 4)
    }

    /// The columns of a table of all merges.
    fn merges<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let merges = self.inner.merges();
        let whole = |of: fn(&Merge) -> usize| merges.iter().map(|merge| of(merge) as i64).collect::<Vec<_>>().into_pyarray(py);
        let number = |of: fn(&Merge) -> f64| merges.iter().map(of).collect::<Vec<_>>().into_pyarray(py);
        let found = PyDict::new(py);
        found.set_item("first", whole(|merge| merge.first))?;
        found.set_item("second", whole(|merge| merge.second))?;
        found.set_item("cost", number(|merge| merge.cost))?;
        found.set_item("height", number(|merge| merge.height))?;
        found.set_item("components", whole(|merge| merge.components))?;
        found.set_item("mass", number(|merge| merge.mass))?;
        Ok(found)
    }

    /// The components in an order in which no branches cross.
    fn leaf_order<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        self.inner.leaf_order().into_iter().map(|component| component as i64).collect::<Vec<_>>().into_pyarray(py)
    }

    /// The tree in Newick format.
    #[pyo3(signature = (names=None))]
    fn newick(&self, names: Option<Vec<String>>) -> PyResult<String> {
        self.inner.newick(names.as_deref()).map_err(raise)
    }

    /// The cluster of each component, a background last.
    fn cut<'py>(&self, py: Python<'py>, clusters: usize) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let cut = self.cut_of(clusters)?;
        Ok(cut.of_components().iter().map(|cluster| i64::from(*cluster)).collect::<Vec<_>>().into_pyarray(py))
    }

    /// The mixture with one component for each cluster.
    fn mixture(&self, clusters: usize) -> PyResult<Mixture> {
        let (mixture, sums) = self.inner.mixture(clusters).map_err(raise)?;
        let description = self.description.of_merged(&mixture, sums);
        Ok(Mixture { inner: mixture, description })
    }

    /// The cluster of each row, that of its most probable component.
    #[pyo3(signature = (rows, clusters, normalize=false, threads=None))]
    fn assign<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        clusters: usize,
        normalize: bool,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let cut = self.cut_of(clusters)?;
        let work = |block: &RowBatch, out: &mut [u32]| {
            out.copy_from_slice(&cut.assign(self.inner.fitted_mixture(), block)?);
            Ok(())
        };
        Ok(of_rows(py, rows, normalize, threads, (self.cost(), 1), work)?.into_pyarray(py))
    }

    /// The probability of each cluster for each row, a background last.
    #[pyo3(signature = (rows, clusters, normalize=false, threads=None, calibrated=true))]
    fn probabilities<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        clusters: usize,
        normalize: bool,
        threads: Option<usize>,
        calibrated: bool,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (cut, temperature) = (self.cut_of(clusters)?, self.temperature(calibrated));
        let work = |block: &RowBatch, out: &mut [f64]| {
            out.copy_from_slice(&cut.probabilities(self.inner.fitted_mixture(), block, temperature)?);
            Ok(())
        };
        let width = cut.groups();
        table(py, of_rows(py, rows, normalize, threads, (self.cost(), width), work)?, width)
    }

    fn __repr__(&self) -> String {
        format!("MergeTree(components={})", self.inner.components())
    }
}
