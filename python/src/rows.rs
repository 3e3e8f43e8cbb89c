//! Conversion of Python arguments to rows: arrays, sparse matrices, or names of files.

use crate::angles;
use crate::error::{raise, raise_data};
use crate::pool::Stop;
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyTuple};
use std::ffi::CString;
use vmfkit::source::{MemorySource, Source};
use vmfkit::stats::RowSum;
use vmfkit::{Angles, Error, RowBatch, SufficientStats};
use vmfkit_io::{DataSource, Format, Options, scratch_folder};

/// Numbers in a batch of rows in memory; the same as for files, so that stream updates have the same bits for both.
const BATCH_NUMBERS: usize = 1 << 23;
const MAX_BATCH_ROWS: usize = 1 << 16;
const MIN_BATCH_ROWS: usize = 16;

/// Rows of an argument, not yet validated.
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
    /// Converts any argument that the package accepts as rows.
    pub fn of(argument: &Bound<'py, PyAny>, normalize: bool) -> PyResult<Self> {
        if let Some(rows) = Self::in_place(argument)? {
            return Ok(rows);
        }
        let options = [("normalize", normalize)].into_py_dict(argument.py())?;
        let as_rows = argument.py().import("vmfkit._rows")?.getattr("as_rows")?;
        let found = as_rows.call((argument,), Some(&options))?.getattr("argument")?;
        Self::in_place(&found)?.ok_or_else(|| PyTypeError::new_err(format!("rows cannot be read, found: `{argument}`")))
    }

    /// Borrows an array of two axes in C order, a tuple (starts, columns, values, dim), or a tuple (names, options). None for anything else.
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

    /// The rows as a batch of borrowed slices or as names of files, which can be used without holding the interpreter lock.
    pub fn borrowed(&self) -> PyResult<BorrowedRows<'_>> {
        let batch = match self {
            Rows::Single(array) => RowBatch::unvalidated(array.shape()[1], array.as_slice()?),
            Rows::Double(array) => RowBatch::unvalidated(array.shape()[1], array.as_slice()?),
            Rows::SparseSingle(starts, columns, values, dim) => {
                Ok(RowBatch::unvalidated_sparse(*dim, starts.as_slice()?, columns.as_slice()?, values.as_slice()?))
            }
            Rows::SparseDouble(starts, columns, values, dim) => {
                Ok(RowBatch::unvalidated_sparse(*dim, starts.as_slice()?, columns.as_slice()?, values.as_slice()?))
            }
            Rows::Files(names, options) => return Ok(BorrowedRows::Files(names, options)),
        };
        batch.map(BorrowedRows::InMemory).map_err(raise)
    }
}

/// Options for reading files, from keyword arguments.
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

/// Warns that columns that look like angles are read as coordinates, which would then be divided by their length.
fn warn_of_angles(name: &str, angles: Angles) -> PyResult<()> {
    let text = format!(
        "{name}: the columns look like angles, but are read as coordinates. Read them with vmfkit.Files(..., angles=\"{angles}\")"
    );
    let text = CString::new(text.replace('\0', " "))?;
    Python::attach(|py| PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1))
}

/// Rows of files with weights given as an array.
struct Weighted<'a> {
    source: DataSource,
    weights: &'a [f64],
    /// Number of rows read in this pass.
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

/// Counts the rows of a source whose length is unknown.
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
            let what = "weights must come either from a column or from an array, found: `both`".to_owned();
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

/// Multiplications between two checks for Ctrl-C, a few tenths of a second.
const WORK_AT_ONCE: usize = 1 << 30;

/// Passes a batch to `work` in pieces until it ends or a stop is requested. A row costs `cost` multiplications.
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

/// Rows that can be used by another thread.
pub enum BorrowedRows<'a> {
    /// Not yet validated.
    InMemory(RowBatch<'a>),
    Files(&'a [String], &'a Options),
}

impl<'a> BorrowedRows<'a> {
    /// The rows in memory, validated, or None for files. With `normalize`, rows not of unit length are copied and divided by their length.
    fn validated(&self, normalize: bool) -> vmfkit::Result<Option<RowBatch<'a>>> {
        let BorrowedRows::InMemory(batch) = self else { return Ok(None) };
        let rescaled = match batch.clone().into_validated() {
            Err(Error::NotUnit { .. }) if normalize => match batch.unvalidated_rows() {
                vmfkit::rows::Rows::F32(values) => RowBatch::rescaled(batch.dim(), values),
                vmfkit::rows::Rows::F64(values) => RowBatch::rescaled(batch.dim(), values),
                vmfkit::rows::Rows::SparseF32(rows) => sparse_rescaled(batch.dim(), rows.parts()),
                vmfkit::rows::Rows::SparseF64(rows) => sparse_rescaled(batch.dim(), rows.parts()),
            },
            validated => return validated.map(Some),
        };
        rescaled.map(|(batch, _)| Some(batch))
    }

    /// Opens files. With `memory`, which is for several passes, rows are kept in memory if they fit, otherwise in a scratch file if they
    /// are slow to read again.
    fn open(names: &[String], options: &Options, stop: &Stop, memory: Option<u64>) -> PyResult<DataSource> {
        let mut source = vmfkit_io::open_all(names, options).map_err(raise_data)?;
        if let Some(angles) = source.seems_angles() {
            warn_of_angles(&names.join(", "), angles)?;
        }
        match memory {
            Some(memory) => source.keep(memory, Some(&scratch_folder()), |_| stop.flow()).map(|_| ()),
            None => source.hold(0).map(|_| ()),
        }
        .map_err(raise)?;
        Ok(source)
    }

    /// Passes the rows to `work` as a source. For several passes over files, `memory` is the maximum number of bytes for keeping their rows.
    ///
    /// Validating rows uses rayon. The [`Stop`] proves that the caller runs in one of our pools.
    pub fn with_source<R>(
        &self,
        stop: &Stop,
        normalize: bool,
        weights: Option<&[f64]>,
        memory: Option<u64>,
        work: impl FnOnce(&mut dyn Source) -> vmfkit::Result<R>,
    ) -> PyResult<R> {
        if let BorrowedRows::Files(names, options) = self {
            let mut source = Self::open(names, options, stop, memory)?;
            return match weights {
                None => work(&mut source),
                Some(weights) => Weighted::new(source, weights).and_then(|mut source| work(&mut source)),
            }
            .map_err(raise);
        }
        let mut rows = self.validated(normalize).map_err(raise)?.expect("rows in memory");
        if let Some(weights) = weights {
            rows = rows.with_weights(weights).map_err(raise)?;
        }
        let size = match rows.is_sparse() {
            true => 1 << 14,
            false => (BATCH_NUMBERS / rows.dim().max(1)).clamp(MIN_BATCH_ROWS, MAX_BATCH_ROWS),
        };
        work(&mut MemorySource::new(rows).batches(size)).map_err(raise)
    }

    /// The sufficient statistics of all rows as one component.
    pub fn sum(&self, stop: &Stop, normalize: bool, weights: Option<&[f64]>) -> PyResult<SufficientStats> {
        self.with_source(stop, normalize, weights, None, |source| {
            let mut sum = RowSum::new(source.dim());
            let mut buffer = RowBatch::default();
            source.rewind()?;
            while let Some(batch) = source.next_validated(&mut buffer)? {
                sum.add(&batch)?;
                if stop.asked() {
                    break;
                }
            }
            Ok(sum.finish())
        })
    }

    /// Passes all rows to `work` as one batch.
    pub fn with_whole<R>(&self, stop: &Stop, normalize: bool, work: impl FnOnce(&RowBatch) -> vmfkit::Result<R>) -> PyResult<R> {
        if let BorrowedRows::Files(names, options) = self {
            let options = Options::clone(options).block_rows(usize::MAX);
            let mut source = Self::open(names, &options, stop, None)?;
            let mut buffer = RowBatch::default();
            let block = source.next_validated(&mut buffer).map_err(raise)?.ok_or(Error::NoRows { weight: 0.0 }).map_err(raise)?;
            return work(&block).map_err(raise);
        }
        work(&self.validated(normalize).map_err(raise)?.expect("rows in memory")).map_err(raise)
    }

    /// Passes the rows to `work` batch by batch, until they end or a stop is requested.
    pub fn each_block(
        &self,
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
        // The partial result is discarded. `pool::run` raises the exception of the signal itself.
        if stop.asked() { Err(PyKeyboardInterrupt::new_err(())) } else { Ok(()) }
    }

    /// Number of rows, if known.
    pub fn len(&self) -> Option<usize> {
        match self {
            BorrowedRows::InMemory(batch) => Some(batch.len()),
            BorrowedRows::Files(..) => None,
        }
    }
}

fn sparse_rescaled<T: vmfkit::rows::Scalar>(
    dim: usize,
    (starts, columns, values): (&[usize], &[u32], &[T]),
) -> vmfkit::Result<(RowBatch<'static>, usize)> {
    RowBatch::sparse_rescaled(dim, starts, columns, values)
}
