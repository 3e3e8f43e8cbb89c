//! Rows as Python has them: arrays, sparse matrices, or the names of files.

use crate::angles;
use crate::error::{raise, raise_data};
use crate::pool::Stop;
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyTuple};
use std::ffi::CString;
use vmfkit::source::{MemorySource, Source};
use vmfkit::{Angles, Error, RowBatch};
use vmfkit_io::{DataSource, Format, Options, scratch_folder};

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
    /// Whatever the package takes for rows.
    pub fn of(argument: &Bound<'py, PyAny>, normalize: bool) -> PyResult<Self> {
        if let Some(rows) = Self::in_place(argument)? {
            return Ok(rows);
        }
        let options = [("normalize", normalize)].into_py_dict(argument.py())?;
        let as_rows = argument.py().import("vmfkit._rows")?.getattr("as_rows")?;
        let found = as_rows.call((argument,), Some(&options))?.getattr("argument")?;
        Self::in_place(&found)?.ok_or_else(|| PyTypeError::new_err(format!("rows cannot be read, found: `{argument}`")))
    }

    /// An array of two axes in C order; a tuple (starts, columns, values, dim); or a tuple (names, options). None if it is something else.
    fn in_place(argument: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        if let Ok(array) = argument.extract::<PyReadonlyArray2<f32>>() {
            return Ok(array.is_c_contiguous().then_some(Rows::Single(array)));
        }
        if let Ok(array) = argument.extract::<PyReadonlyArray2<f64>>() {
            return Ok(array.is_c_contiguous().then_some(Rows::Double(array)));
        }
        let Ok(tuple) = argument.cast::<PyTuple>() else {
            return Ok(None);
        };
        if let Ok((names, named)) = tuple.extract::<(Vec<String>, Bound<'py, PyDict>)>() {
            return Ok(Some(Rows::Files(names, Box::new(options(&named)?))));
        }
        let Ok((starts, columns, values, dim)) = tuple.extract::<(_, _, Bound<'py, PyAny>, usize)>() else {
            return Ok(None);
        };
        Ok(Some(match values.extract::<PyReadonlyArray1<f32>>() {
            Ok(values) => Rows::SparseSingle(starts, columns, values, dim),
            Err(_) => Rows::SparseDouble(starts, columns, values.extract()?, dim),
        }))
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

/// What to read of files, by the names of the command line.
fn options(named: &Bound<'_, PyDict>) -> PyResult<Options> {
    let mut options = Options::new();
    let is_angles = named.contains("angles")?;
    for (name, value) in named {
        let name: String = name.extract()?;
        options = match name.as_str() {
            "columns" => options.columns(value.extract()?),
            "weight_column" => options.weight_column(value.extract::<String>()?),
            "array" => options.array(value.extract::<String>()?),
            "format" => options.format(Some(format(&value.extract::<String>()?)?)),
            "header" => options.header(Some(value.extract()?)),
            "angles" => options.angles(Some(angles::parsed(&value.extract::<String>()?)?)),
            // Angles have no length to divide by.
            "normalize" => options.rescale(value.extract::<bool>()? && !is_angles),
            "block_rows" => options.block_rows(value.extract()?),
            _ => return Err(PyTypeError::new_err(format!("unknown option of files, found: `{name}`"))),
        };
    }
    Ok(options)
}

fn format(name: &str) -> PyResult<Format> {
    name.parse().map_err(|error| PyValueError::new_err(format!("{error}")))
}

/// Divided by their length, angles would be nonsense.
fn warn_of_angles(name: &str, angles: Angles) -> PyResult<()> {
    let text = format!(
        "{name}: the columns look like angles, but are read as coordinates. Read them with vmfkit.Files(..., angles=\"{angles}\")"
    );
    let text = CString::new(text.replace('\0', " "))?;
    Python::attach(|py| PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1))
}

/// Rows of files, each with the weight that it was given.
struct Weighted<'a> {
    source: DataSource,
    weights: &'a [f64],
    /// Rows seen in this pass.
    seen: usize,
}

impl<'a> Weighted<'a> {
    fn new(mut source: DataSource, weights: &'a [f64]) -> vmfkit::Result<Self> {
        let rows = match source.rows() {
            None if source.can_rewind() => Some(count(&mut source)?),
            rows => rows,
        };
        match rows {
            Some(rows) if rows != weights.len() as u64 => Err(Error::WeightCount { rows: rows as usize, found: weights.len() }),
            _ => Ok(Weighted { source, weights, seen: 0 }),
        }
    }
}

/// How many rows there are in a source that does not tell.
fn count(source: &mut dyn Source) -> vmfkit::Result<u64> {
    let mut rows = 0;
    source.rewind()?;
    let mut buffer = RowBatch::default();
    while let Some(batch) = source.next_validated(&mut buffer)? {
        rows += batch.len() as u64;
    }
    Ok(rows)
}

impl Source for Weighted<'_> {
    fn dim(&self) -> usize {
        self.source.dim()
    }

    fn next_batch(&mut self) -> vmfkit::Result<Option<RowBatch<'_>>> {
        let (from, weights) = (self.seen, self.weights);
        let Some(batch) = self.source.next_batch()? else {
            return if from == weights.len() { Ok(None) } else { Err(Error::WeightCount { rows: from, found: weights.len() }) };
        };
        self.seen += batch.len();
        if batch.weights().is_some() {
            let what = "weights must come from a column or be given, found: `both`".to_owned();
            return Err(vmfkit_io::Error::Format { what }.into());
        }
        batch.with_weights_from(from, weights).map(Some)
    }

    fn rewind(&mut self) -> vmfkit::Result<()> {
        self.seen = 0;
        self.source.rewind()
    }

    fn can_rewind(&self) -> bool {
        self.source.can_rewind()
    }

    fn rows(&self) -> Option<u64> {
        self.source.rows()
    }
}

/// Multiplications between two looks at whether to stop, some tenths of a second of work.
const WORK_AT_ONCE: usize = 1 << 30;

/// Shows a block to `work` in pieces, as long as nobody asks to stop. A row costs `cost` multiplications.
pub fn in_pieces(
    block: &RowBatch,
    cost: usize,
    stop: &Stop,
    mut work: impl FnMut(&RowBatch) -> vmfkit::Result<()>,
) -> vmfkit::Result<()> {
    let rows = (WORK_AT_ONCE / cost.max(1)).max(1);
    for from in (0..block.len()).step_by(rows).take_while(|_| !stop.asked()) {
        work(&block.slice(from, (from + rows).min(block.len())))?;
    }
    Ok(())
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
    fn block(self, normalize: bool) -> vmfkit::Result<Option<RowBatch<'a>>> {
        let block = match self {
            View::Single(dim, values) => RowBatch::new(dim, values),
            View::Double(dim, values) => RowBatch::new(dim, values),
            View::SparseSingle(starts, columns, values, dim) => RowBatch::sparse(dim, starts, columns, values),
            View::SparseDouble(starts, columns, values, dim) => RowBatch::sparse(dim, starts, columns, values),
            View::Files(..) => return Ok(None),
        };
        match (block, self) {
            (Err(Error::NotUnit { .. }), _) if normalize => Ok(Some(match self {
                View::Single(dim, values) => RowBatch::rescaled(dim, values)?.0,
                View::Double(dim, values) => RowBatch::rescaled(dim, values)?.0,
                View::SparseSingle(starts, columns, values, dim) => RowBatch::sparse_rescaled(dim, starts, columns, values)?.0,
                View::SparseDouble(starts, columns, values, dim) => RowBatch::sparse_rescaled(dim, starts, columns, values)?.0,
                View::Files(..) => unreachable!("files have no block"),
            })),
            (block, _) => block.map(Some),
        }
    }

    /// The rows of files. Those that are read more than once are held in memory if there is room, or on the disk if another pass takes long.
    fn open(names: &[String], options: &Options, stop: &Stop, room: Option<u64>) -> PyResult<DataSource> {
        let mut source = vmfkit_io::open_all(names, options).map_err(raise_data)?;
        if let Some(angles) = source.seems_angles() {
            warn_of_angles(&names.join(", "), angles)?;
        }
        match room {
            Some(room) => source.keep(room, Some(&scratch_folder()), |_| stop.flow()).map(|_| ()),
            None => source.hold(0).map(|_| ()),
        }
        .map_err(raise)?;
        Ok(source)
    }

    /// Shows the rows to `work` as a source, block by block. `room` is the memory in bytes to hold the rows of files in, if they are read
    /// more than once.
    ///
    /// Checking rows uses rayon; that there is a [`Stop`] tells that the caller is in a pool of ours.
    pub fn with_source<R>(
        self,
        stop: &Stop,
        normalize: bool,
        weights: Option<&[f64]>,
        room: Option<u64>,
        work: impl FnOnce(&mut dyn Source) -> vmfkit::Result<R>,
    ) -> PyResult<R> {
        if let View::Files(names, options) = self {
            let mut source = Self::open(names, options, stop, room)?;
            return match weights {
                None => work(&mut source),
                Some(weights) => Weighted::new(source, weights).and_then(|mut source| work(&mut source)),
            }
            .map_err(raise);
        }
        let mut block = self.block(normalize).map_err(raise)?.expect("rows in memory");
        if let Some(weights) = weights {
            block = block.with_weights(weights).map_err(raise)?;
        }
        let sparse = matches!(self, View::SparseSingle(..) | View::SparseDouble(..));
        let size = if sparse { 1 << 14 } else { (NUMBERS / block.dim().max(1)).clamp(FEWEST, MOST) };
        work(&mut MemorySource::new(block).batches(size)).map_err(raise)
    }

    /// Shows all rows to `work` as one block.
    pub fn with_whole<R>(self, stop: &Stop, normalize: bool, work: impl FnOnce(&RowBatch) -> vmfkit::Result<R>) -> PyResult<R> {
        if let View::Files(names, options) = self {
            let mut source = Self::open(names, &options.clone().block_rows(usize::MAX), stop, None)?;
            let mut buffer = RowBatch::default();
            let block = source.next_validated(&mut buffer).map_err(raise)?.ok_or(Error::NoRows { weight: 0.0 }).map_err(raise)?;
            return work(&block).map_err(raise);
        }
        work(&self.block(normalize).map_err(raise)?.expect("rows in memory")).map_err(raise)
    }

    /// Shows the rows to `work` block after block, until the last or until it shall stop.
    pub fn each_block(
        self,
        normalize: bool,
        stop: &Stop,
        mut work: impl FnMut(&RowBatch) -> vmfkit::Result<()> + Send,
    ) -> PyResult<()> {
        self.with_source(stop, normalize, None, None, |source| {
            source.rewind()?;
            let mut buffer = RowBatch::default();
            while let Some(batch) = source.next_validated(&mut buffer)? {
                work(&batch)?;
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
