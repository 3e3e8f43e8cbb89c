//! [`FileBatch`]: rows of files, with their ids and origins.

use crate::dataset::Origin;
use crate::{Error, Ids};
use std::sync::{Arc, Mutex};
use vmfkit::RowBatch;
use vmfkit::rows::{RowOrigin, Rows};

/// Rows of one file or several. They are validated only if all rows are held in memory.
#[derive(Debug)]
pub(crate) struct FileBatch {
    /// Their errors name the file.
    pub rows: RowBatch<'static>,
    pub ids: Option<Ids>,
    /// The number of rows that were not of unit length before they were rescaled.
    pub rescaled: u64,
}

impl FileBatch {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Validates the rows. Lent bytes are copied.
    pub fn into_validated(self) -> vmfkit::Result<Self> {
        Ok(FileBatch { rows: self.rows.into_validated()?, ..self })
    }

    /// The memory in bytes of validated rows with their weights and ids.
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

/// The error of a bad row, shared by a source and its batches. It ends the pass.
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

/// The positions in files of the rows of a batch.
#[derive(Debug)]
pub(crate) struct Origins {
    /// For each file, the number of its first row in the batch, and where it is in the file.
    pub parts: Vec<(usize, Origin)>,
    pub failure: Failure,
}

impl Origins {
    /// Converts an error of the batch to one of the file that has the row.
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

/// Converts an error of rows to one of their file. Row `first` of the rows is `origin.row` of the
/// file.
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
