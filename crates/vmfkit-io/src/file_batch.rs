//! [`FileBatch`]: rows of files with what belongs to them.

use crate::dataset::Origin;
use crate::{Error, Ids, Values};
use std::sync::{Arc, Mutex};
use vmfkit::RowBatch;
use vmfkit::rows::{RowOrigin, Rows};

/// Rows of files, unvalidated until they are kept in memory.
#[derive(Debug)]
pub(crate) struct FileBatch {
    /// Each error names the file.
    pub rows: RowBatch<'static>,
    pub ids: Option<Ids>,
    /// The number of rows that were rescaled and had not been of unit length.
    pub rescaled: u64,
}

impl FileBatch {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The same rows, validated, in memory of their own.
    pub fn into_validated(self) -> vmfkit::Result<Self> {
        Ok(FileBatch { rows: self.rows.into_validated()?, ..self })
    }

    /// The memory that validated rows take, with all that belongs to them.
    pub fn bytes(&self) -> u64 {
        let rows = match self.rows.rows() {
            Rows::F32(values) => 4 * values.len(),
            Rows::F64(values) => 8 * values.len(),
            Rows::SparseF32(rows) => 8 * (rows.entries() + self.len()),
            Rows::SparseF64(rows) => 12 * rows.entries() + 8 * self.len(),
        };
        (rows + 8 * self.rows.weights().map_or(0, <[f64]>::len) + self.ids.as_ref().map_or(0, Ids::bytes)) as u64
    }
}

/// The rows of a reader as a batch, without a copy.
pub(crate) fn batch_of(dim: usize, values: Values) -> vmfkit::Result<RowBatch<'static>> {
    match values {
        Values::F32(values) => RowBatch::unvalidated(dim, values),
        Values::F64(values) => RowBatch::unvalidated(dim, values),
        Values::SparseF32 { starts, columns, values } => Ok(RowBatch::unvalidated_sparse(dim, starts, columns, values)),
        Values::SparseF64 { starts, columns, values } => Ok(RowBatch::unvalidated_sparse(dim, starts, columns, values)),
    }
}

/// The memory of a batch as that of a reader, without a copy; empty if the rows are bytes.
pub(crate) fn values_of(rows: RowBatch<'static>) -> Values {
    match rows.into_rows() {
        None => Values::default(),
        Some(Rows::F32(values)) => Values::F32(values.into_owned()),
        Some(Rows::F64(values)) => Values::F64(values.into_owned()),
        Some(Rows::SparseF32(rows)) => {
            let (starts, columns, values) = rows.into_parts();
            Values::SparseF32 { starts, columns, values }
        }
        Some(Rows::SparseF64(rows)) => {
            let (starts, columns, values) = rows.into_parts();
            Values::SparseF64 { starts, columns, values }
        }
    }
}

/// The error of a bad row, which ends the pass of the source that lent it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<vmfkit::Error>>>);

impl Failure {
    pub fn take(&self) -> Option<vmfkit::Error> {
        self.0.lock().expect("nothing panics while it is locked").take()
    }

    fn set(&self, error: vmfkit::Error) {
        *self.0.lock().expect("nothing panics while it is locked") = Some(error);
    }
}

/// Where the rows of a batch are from.
#[derive(Debug)]
pub(crate) struct Origins {
    /// The number of the first row in the batch of each part, and its place in a file.
    pub parts: Vec<(usize, Origin)>,
    pub failure: Failure,
}

impl Origins {
    /// An error of the rows, in the file of the row that it names.
    pub fn in_its_file(&self, mut error: vmfkit::Error) -> Error {
        let row = error.row_mut().map_or(0, |row| *row);
        let (first, origin) = self.parts.iter().rfind(|(first, _)| *first <= row).expect("a batch has rows of a file");
        in_file(error, *first, origin)
    }
}

impl RowOrigin for Origins {
    fn locate(&self, error: vmfkit::Error) -> vmfkit::Error {
        let error = vmfkit::Error::from(self.in_its_file(error));
        self.failure.set(error.clone());
        error
    }
}

/// An error of rows of which number `first` is the origin's row, with the number that its row has in the file.
pub(crate) fn in_file(mut error: vmfkit::Error, first: usize, origin: &Origin) -> Error {
    if let Some(row) = error.row_mut() {
        *row = *row - first + origin.row as usize;
    }
    let error = match error {
        vmfkit::Error::NotUnit { row, norm } => Error::NotUnit { row: row as u64, norm, dim: origin.dim, angles: origin.angles },
        other => Error::Rows(other),
    };
    error.at(&*origin.name)
}
