//! [`Options`]: what to read of a file, and how.

use crate::{Error, Format, Result};
use vmfkit::Angles;

/// Which numbers of a file are rows, weights and ids, and the number of rows in a batch.
///
/// ```
/// use vmfkit_io::{Format, Options};
/// let options = Options::new().columns(vec!["x".into(), "y".into()]).weight_column("n").rescale(true);
/// let other = Options::new().format(Some(Format::Tsv)).header(Some(false)).block_rows(4096);
/// # let _ = (options, other);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    pub(crate) columns: Vec<String>,
    pub(crate) weight_column: Option<String>,
    pub(crate) id_column: Option<String>,
    pub(crate) array: Option<String>,
    pub(crate) rescale: bool,
    pub(crate) block_rows: Option<usize>,
    pub(crate) header: Option<bool>,
    pub(crate) format: Option<Format>,
    pub(crate) memory: Option<u64>,
    pub(crate) angles: Option<Angles>,
    /// Reads the id column only.
    pub(crate) ids_alone: bool,
}

impl Options {
    /// Default options: all columns are coordinates, rows must have unit length, and the format is
    /// detected.
    pub fn new() -> Self {
        Options::default()
    }

    /// Names the columns of coordinates: several columns of numbers, or one column of lists.
    pub fn columns(mut self, names: Vec<String>) -> Self {
        self.columns = names;
        self
    }

    /// Names the column of weights.
    pub fn weight_column(mut self, name: impl Into<String>) -> Self {
        self.weight_column = Some(name.into());
        self
    }

    /// Names the column of ids.
    pub fn id_column(mut self, name: impl Into<String>) -> Self {
        self.id_column = Some(name.into());
        self
    }

    /// Names the array of a `.npz` file or the tensor of a safetensors file, needed if several have
    /// two axes.
    pub fn array(mut self, name: impl Into<String>) -> Self {
        self.array = Some(name.into());
        self
    }

    /// Divides each row by its length. Rows in half precision are always rescaled.
    pub fn rescale(mut self, rescale: bool) -> Self {
        self.rescale = rescale;
        self
    }

    /// Sets the number of rows in a batch. The default is about 8 million numbers. Only the last
    /// batch of a source has fewer rows.
    pub fn block_rows(mut self, rows: usize) -> Self {
        self.block_rows = Some(rows.max(1));
        self
    }

    /// Says whether the first line of a text file holds column names. By default it does if none of
    /// its cells is a number, or if the cells count up from 0 as those of pandas do.
    pub fn header(mut self, header: Option<bool>) -> Self {
        self.header = header;
        self
    }

    /// Sets the format of the files. By default it is detected by their first bytes and names.
    pub fn format(mut self, format: Option<Format>) -> Self {
        self.format = format;
        self
    }

    /// Limits the size in bytes of files that are loaded as a whole when they are opened, such as
    /// Matrix Market.
    pub fn memory(mut self, bytes: Option<u64>) -> Self {
        self.memory = bytes;
        self
    }

    /// Says that the rows are angles, which are converted to unit vectors. Unless
    /// [columns](Self::columns) are chosen, columns whose names stand for these angles are read, or
    /// all columns if there are none.
    pub fn angles(mut self, angles: Option<Angles>) -> Self {
        self.angles = angles;
        self
    }

    /// Whether a row is a single angle.
    pub(crate) fn one_angle(&self) -> bool {
        self.angles.is_some_and(|angles| angles.count() == 1)
    }

    /// Rejects options that have no meaning for files of this format.
    pub(crate) fn check(&self, format: Format) -> Result<()> {
        let asked = !self.columns.is_empty() || self.weight_column.is_some() || self.id_column.is_some();
        if asked && !format.has_columns() {
            return Err(Error::format(
                "an array has no column names to choose from\nhint: weights are read from a separate array (`--weights FILE` of the command)",
            ));
        }
        if let (Some(angles), true) = (self.angles, self.rescale) {
            return Err(Error::format(format!(
                "angles always give rows of unit length, found with `--angles {angles}`: `--rescale`"
            )));
        }
        if let (Some(name), false) = (&self.array, matches!(format, Format::Npz | Format::Safetensors)) {
            return Err(Error::format(format!("only .npz and .safetensors files have several arrays, found: `--array {name}`")));
        }
        if let (Some(header), false) = (self.header, matches!(format, Format::Csv | Format::Tsv)) {
            let option = if header { "--header yes" } else { "--header no" };
            return Err(Error::format(format!("only CSV and TSV files have a header line, found: `{option}`")));
        }
        Ok(())
    }
}
