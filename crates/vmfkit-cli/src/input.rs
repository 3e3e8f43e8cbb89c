//! Rows and vectors from files: `.npy` or text, told apart by the first bytes and the name.

use crate::csv_rows::{Columns, CsvRows};
use crate::npy::{self, Element, Values};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

/// Rows of numbers, not yet checked to be on the sphere.
#[derive(Debug)]
pub struct Table {
    /// Numbers in a row.
    pub dim: usize,
    /// How many rows there are.
    pub rows: usize,
    /// The numbers, row by row.
    pub values: Values,
    /// The file has 11 bits a number, too few for a row of unit length.
    pub half_precision: bool,
    /// The weight column of a text file.
    pub weights: Option<Vec<f64>>,
}

/// Reads a table; `-` is standard input.
pub fn read_table(path: &Path, columns: Columns) -> Result<Table> {
    let mut source = Source::open(path).with_context(|| display(path))?;
    let table = if source.is_npy(path)? { npy_table(source, columns) } else { csv_table(source, path, columns) };
    table.with_context(|| display(path))
}

/// Reads one vector: an array of one axis, or a table of one row or of one column.
pub fn read_vector(path: &Path) -> Result<Vec<f64>> {
    let read = || {
        let mut source = Source::open(path)?;
        if !source.is_npy(path)? {
            let table = csv_table(source, path, Columns::default())?;
            return if table.dim == 1 || table.rows == 1 {
                Ok(table.values.into_f64())
            } else {
                bail!("one vector is one row or one column, found: `{} x {}`", table.rows, table.dim)
            };
        }
        let reader = npy::Reader::new(source.reader, source.length)?;
        match reader.header().shape[..] {
            [_] | [1, _] | [_, 1] => Ok(reader.into_values()?.into_f64()),
            _ => bail!("one vector is an array of one axis, found shape: `{}`", reader.header().shape_text()),
        }
    };
    read().with_context(|| display(path))
}

/// How messages call a file.
pub fn display(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

/// Something to read, with its length known.
struct Source {
    reader: Box<dyn BufRead>,
    length: u64,
}

impl Source {
    fn open(path: &Path) -> Result<Self, npy::Error> {
        if path == Path::new("-") {
            return Self::of_stream(io::stdin().lock());
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Self::of_stream(file);
        }
        Ok(Source { reader: Box::new(BufReader::with_capacity(1 << 16, file)), length: metadata.len() })
    }

    /// A pipe has no length before its end, so it is held in memory; it grows with what arrives, not with what a header claims.
    fn of_stream(mut stream: impl Read) -> Result<Self, npy::Error> {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        Ok(Source { length: bytes.len() as u64, reader: Box::new(Cursor::new(bytes)) })
    }

    fn is_npy(&mut self, path: &Path) -> Result<bool> {
        let start = self.reader.fill_buf().map_err(npy::Error::from).with_context(|| display(path))?;
        Ok(start.starts_with(npy::MAGIC) || path.extension().is_some_and(|e| e == "npy"))
    }
}

fn npy_table(source: Source, columns: Columns) -> Result<Table> {
    if columns.coordinates.is_some() || columns.weight.is_some() {
        bail!("an array has no column names to choose by\nhint: `--weights FILE` reads weights from an array of their own");
    }
    let reader = npy::Reader::new(source.reader, source.length)?;
    let &[rows, dim] = &reader.header().shape[..] else {
        bail!("the array must have two axes, rows and coordinates, found shape: `{}`", reader.header().shape_text());
    };
    let half_precision = reader.header().element == Element::F16;
    Ok(Table { dim, rows, values: reader.into_values()?, half_precision, weights: None })
}

fn csv_table(source: Source, path: &Path, columns: Columns) -> Result<Table> {
    let delimiter = if path.extension().is_some_and(|e| e == "tsv") { b'\t' } else { b',' };
    let CsvRows { dim, values, weights } = CsvRows::read(source.reader, delimiter, columns)?;
    let rows = values.len() / dim.max(1);
    Ok(Table { dim, rows, values: Values::F64(values), half_precision: false, weights })
}
