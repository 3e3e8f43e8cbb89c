//! A file of the components of rows.

use crate::files::output::Output;
use crate::files::table_file::TableFile;
use anyhow::Result;
use std::path::Path;
use vmfkit_io::{Column, ColumnData, ColumnKind, OutputFormat};

/// Component numbers in a file that appears only when complete.
pub enum LabelFile {
    /// A `.npy` array.
    Array(TableFile),
    /// Text with one number per line.
    Lines(Output),
}

impl LabelFile {
    /// Creates a file for this number of rows, if it is known.
    pub fn create(path: &Path, rows: Option<u64>) -> Result<Self> {
        Self::create_as(ColumnKind::U32, path, rows)
    }

    /// The same for [`Self::write_marked`].
    pub fn create_marked(path: &Path, rows: Option<u64>) -> Result<Self> {
        Self::create_as(ColumnKind::I64, path, rows)
    }

    fn create_as(kind: ColumnKind, path: &Path, rows: Option<u64>) -> Result<Self> {
        let output = Output::create(path)?;
        if path.extension().is_none_or(|extension| extension != "npy") {
            return Ok(LabelFile::Lines(output));
        }
        let columns = [Column::new("component", kind)];
        Ok(LabelFile::Array(TableFile::new(output, OutputFormat::Npy, &columns, rows)?))
    }

    /// Adds the components of the next rows.
    pub fn write(&mut self, labels: &[u32]) -> Result<()> {
        match self {
            LabelFile::Array(table) => table.write(&[ColumnData::U32(labels)]),
            LabelFile::Lines(output) => output.write(labels.iter().map(|label| format!("{label}\n")).collect::<String>()),
        }
    }

    /// Adds the components of the next rows, -1 for those that are outliers.
    pub fn write_marked(&mut self, labels: &[u32], is_outlier: impl Fn(usize) -> bool) -> Result<()> {
        let marked = labels.iter().enumerate().map(|(row, label)| if is_outlier(row) { -1 } else { i64::from(*label) });
        let marked: Vec<i64> = marked.collect();
        match self {
            LabelFile::Array(table) => table.write(&[ColumnData::I64(&marked)]),
            LabelFile::Lines(output) => output.write(marked.iter().map(|label| format!("{label}\n")).collect::<String>()),
        }
    }

    /// Makes the file visible.
    pub fn finish(self) -> Result<()> {
        match self {
            LabelFile::Array(table) => table.finish(),
            LabelFile::Lines(output) => output.finish(),
        }
    }
}
