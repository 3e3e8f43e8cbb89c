//! Rows as Python has them: arrays, sparse matrices, or the names of files.

use crate::error::{raise, raise_data};
use crate::pool::Stop;
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use vmfkit::source::{MemorySource, Source};
use vmfkit::{Block, Error};
use vmfkit_data::{DataSource, Options};

/// Numbers in a block of rows in memory: as many as in one of a file, so that both are fitted alike, to the last bit.
const NUMBERS: usize = 1 << 23;
const MOST: usize = 1 << 16;
const FEWEST: usize = 16;

/// Rows of an argument, not yet looked at.
pub enum Rows<'py> {
    Single(PyReadonlyArray2<'py, f32>),
    Double(PyReadonlyArray2<'py, f64>),
    /// Row starts, columns and values of scipy's CSR, and the dimension.
    SparseSingle(PyReadonlyArray1<'py, usize>, PyReadonlyArray1<'py, u32>, PyReadonlyArray1<'py, f32>, usize),
    SparseDouble(PyReadonlyArray1<'py, usize>, PyReadonlyArray1<'py, u32>, PyReadonlyArray1<'py, f64>, usize),
    /// Names of files, folders or patterns, and how to read them.
    Files(Vec<String>, Box<Options>),
}

impl<'py> Rows<'py> {
    /// An array of two axes in C order; a tuple (starts, columns, values, dim); or a tuple (names, options).
    pub fn of(argument: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(array) = argument.extract::<PyReadonlyArray2<f32>>() {
            return contiguous(array.is_c_contiguous()).map(|()| Rows::Single(array));
        }
        if let Ok(array) = argument.extract::<PyReadonlyArray2<f64>>() {
            return contiguous(array.is_c_contiguous()).map(|()| Rows::Double(array));
        }
        let tuple = argument.cast::<PyTuple>().map_err(|_| {
            let kind = argument.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
            PyTypeError::new_err(format!("rows must be an array of float32 or float64 with two axes, found: `{kind}`"))
        })?;
        if tuple.len() == 2 {
            let names = tuple.get_item(0)?.extract()?;
            return Ok(Rows::Files(names, Box::new(options(tuple.get_item(1)?.cast()?)?)));
        }
        let (starts, columns) = (tuple.get_item(0)?.extract()?, tuple.get_item(1)?.extract()?);
        let (values, dim) = (tuple.get_item(2)?, tuple.get_item(3)?.extract()?);
        match values.extract::<PyReadonlyArray1<f32>>() {
            Ok(values) => Ok(Rows::SparseSingle(starts, columns, values, dim)),
            Err(_) => Ok(Rows::SparseDouble(starts, columns, values.extract()?, dim)),
        }
    }

    /// The rows with what borrows them outside of Python's lock.
    pub fn view(&self) -> PyResult<View<'_>> {
        Ok(match self {
            Rows::Single(array) => View::Single(array.shape()[1], array.as_slice()?),
            Rows::Double(array) => View::Double(array.shape()[1], array.as_slice()?),
            Rows::SparseSingle(starts, columns, values, dim) => {
                View::SparseSingle(starts.as_slice()?, columns.as_slice()?, values.as_slice()?, *dim)
            }
            Rows::SparseDouble(starts, columns, values, dim) => {
                View::SparseDouble(starts.as_slice()?, columns.as_slice()?, values.as_slice()?, *dim)
            }
            Rows::Files(names, options) => View::Files(names, options),
        })
    }
}

fn contiguous(is: bool) -> PyResult<()> {
    if is { Ok(()) } else { Err(PyTypeError::new_err("rows must be in C order\nhint: `numpy.ascontiguousarray`")) }
}

/// What to read of files, by the names of the command line.
fn options(named: &Bound<'_, PyDict>) -> PyResult<Options> {
    let mut options = Options::new();
    for (name, value) in named {
        let name: String = name.extract()?;
        options = match name.as_str() {
            "columns" => options.columns(value.extract()?),
            "weight_column" => options.weight_column(value.extract::<String>()?),
            "array" => options.array(value.extract::<String>()?),
            "normalize" => options.rescale(value.extract()?),
            "block_rows" => options.block_rows(value.extract()?),
            _ => return Err(PyTypeError::new_err(format!("unknown option of files, found: `{name}`"))),
        };
    }
    Ok(options)
}

/// Rows that can be handed to another thread.
#[derive(Clone, Copy)]
pub enum View<'a> {
    Single(usize, &'a [f32]),
    Double(usize, &'a [f64]),
    SparseSingle(&'a [usize], &'a [u32], &'a [f32], usize),
    SparseDouble(&'a [usize], &'a [u32], &'a [f64], usize),
    Files(&'a [String], &'a Options),
}

impl<'a> View<'a> {
    /// The rows in memory as one block. With `normalize` rows of other lengths are copied and divided by them.
    fn block(self, normalize: bool) -> vmfkit::Result<Option<Block<'a>>> {
        let block = match self {
            View::Single(dim, values) => Block::new(dim, values),
            View::Double(dim, values) => Block::new(dim, values),
            View::SparseSingle(starts, columns, values, dim) => Block::sparse(dim, starts, columns, values),
            View::SparseDouble(starts, columns, values, dim) => Block::sparse(dim, starts, columns, values),
            View::Files(..) => return Ok(None),
        };
        match (block, self) {
            (Err(Error::NotUnit { .. }), _) if normalize => Ok(Some(match self {
                View::Single(dim, values) => Block::rescaled(dim, values)?.0,
                View::Double(dim, values) => Block::rescaled(dim, values)?.0,
                View::SparseSingle(starts, columns, values, dim) => Block::sparse_rescaled(dim, starts, columns, values)?.0,
                View::SparseDouble(starts, columns, values, dim) => Block::sparse_rescaled(dim, starts, columns, values)?.0,
                View::Files(..) => unreachable!("files have no block"),
            })),
            (block, _) => block.map(Some),
        }
    }

    /// The rows of files, held in memory if there is room.
    fn open(names: &[String], options: &Options, room: u64) -> PyResult<DataSource> {
        let mut source = vmfkit_data::open_all(names, options).map_err(raise_data)?;
        source.hold(room).map_err(raise)?;
        Ok(source)
    }

    /// Shows the rows to `work` as a source, block by block.
    pub fn with_source<R>(
        self,
        normalize: bool,
        weights: Option<&[f64]>,
        room: u64,
        work: impl FnOnce(&mut dyn Source, Option<u64>) -> vmfkit::Result<R>,
    ) -> PyResult<R> {
        if let View::Files(names, options) = self {
            let mut source = Self::open(names, options, room)?;
            let rows = source.rows();
            return work(&mut source, rows).map_err(raise);
        }
        let mut block = self.block(normalize).map_err(raise)?.expect("rows in memory");
        if let Some(weights) = weights {
            block = block.with_weights(weights).map_err(raise)?;
        }
        let rows = block.len() as u64;
        let sparse = matches!(self, View::SparseSingle(..) | View::SparseDouble(..));
        let size = if sparse { 1 << 14 } else { (NUMBERS / block.dim().max(1)).clamp(FEWEST, MOST) };
        work(&mut MemorySource::new(block).batches(size), Some(rows)).map_err(raise)
    }

    /// Shows the rows to `work` block after block, until the last or until it shall stop.
    pub fn each_block(
        self,
        normalize: bool,
        stop: &Stop,
        mut work: impl FnMut(&Block) -> vmfkit::Result<()> + Send,
    ) -> PyResult<()> {
        self.with_source(normalize, None, 0, |source, _| {
            source.rewind()?;
            while let Some(block) = source.read_block()? {
                work(&block)?;
                if stop.asked() {
                    break;
                }
            }
            Ok(())
        })?;
        // What was found so far is of no use; the signal itself is raised by the one that waits.
        if stop.asked() { Err(PyKeyboardInterrupt::new_err(())) } else { Ok(()) }
    }

    /// How many rows there are, where that is known.
    pub fn len(self) -> Option<usize> {
        match self {
            View::Single(dim, values) => Some(values.len() / dim.max(1)),
            View::Double(dim, values) => Some(values.len() / dim.max(1)),
            View::SparseSingle(starts, ..) | View::SparseDouble(starts, ..) => Some(starts.len().saturating_sub(1)),
            View::Files(..) => None,
        }
    }
}
