//! Matrix Market's `.mtx`: coordinates of entries, or all numbers column by column.
//!
//! The entries of a row are anywhere in the file, so that all of them are brought into memory when it is opened.

use crate::csr::sort_rows;
use crate::csv_rows::number;
use crate::excerpt::excerpt;
use crate::place::Place;
use crate::text::{Lines, Origin, Text};
use crate::{Batch, Element, Error, Options, Reader, Result, Schema, Values};

/// The rows of a matrix in memory.
pub(crate) struct MatrixRows {
    matrix: Matrix,
    schema: Schema,
    rows: usize,
    next: usize,
}

enum Matrix {
    Dense(Vec<f64>),
    Sparse { starts: Vec<usize>, columns: Vec<u32>, values: Vec<f64> },
}

/// What the first line says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All numbers, column by column.
    Array,
    /// Row, column and number of each entry.
    Coordinates,
    /// Row and column of each entry, which is 1.
    Pattern,
}

impl MatrixRows {
    pub fn open(place: &Place, options: &Options) -> Result<Self> {
        Self::new(Origin::of_file(place)?.1, options)
    }

    pub fn new(text: Text, options: &Options) -> Result<Self> {
        options.refuse_columns()?;
        let mut lines = Lines::new(text);
        let kind = kind(lines.next()?.map_or(&[], |(_, line)| line))?;
        let (line, sizes) = read_sizes(&mut lines, kind)?;
        let [rows, dim, ..] = sizes;
        if u32::try_from(dim).is_err() {
            return Err(Error::format(format!("line {line}: a matrix must have fewer than 2^32 columns, found: `{dim}`")));
        }
        let matrix = match kind {
            Kind::Array => read_array(&mut lines, rows, dim)?,
            _ => read_entries(&mut lines, kind, sizes)?,
        };
        let sparse = kind != Kind::Array;
        let schema = Schema { dim, element: Element::F64, sparse, rows: Some(rows as u64) };
        Ok(MatrixRows { matrix, schema, rows, next: 0 })
    }
}

impl Reader for MatrixRows {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&mut self, most: usize, batch: &mut Batch) -> Result<()> {
        let (from, to) = (self.next, self.rows.min(self.next.saturating_add(most)));
        (batch.rows, batch.weights, batch.ids) = (to - from, None, None);
        match &self.matrix {
            Matrix::Dense(all) => {
                let dim = self.schema.dim;
                batch.values.start_f64().extend_from_slice(&all[from * dim..to * dim]);
            }
            Matrix::Sparse { starts, columns, values } => {
                let (first, last) = (starts[from], starts[to]);
                batch.values = Values::SparseF64 {
                    starts: starts[from..=to].iter().map(|start| start - first).collect(),
                    columns: columns[first..last].to_vec(),
                    values: values[first..last].to_vec(),
                };
            }
        }
        self.next = to;
        Ok(())
    }

    fn rewind(&mut self) -> Result<()> {
        self.next = 0;
        Ok(())
    }
}

fn kind(line: &[u8]) -> Result<Kind> {
    let words = String::from_utf8_lossy(line).to_ascii_lowercase();
    let words: Vec<&str> = words.split_whitespace().collect();
    match words[..] {
        ["%%matrixmarket", "matrix", "array", "real" | "integer" | "double", "general"] => Ok(Kind::Array),
        ["%%matrixmarket", "matrix", "coordinate", "real" | "integer" | "double", "general"] => Ok(Kind::Coordinates),
        ["%%matrixmarket", "matrix", "coordinate", "pattern", "general"] => Ok(Kind::Pattern),
        _ => Err(Error::format(format!(
            "line 1 must be `%%MatrixMarket matrix`, then `coordinate` or `array`, then `real`, `integer` or `pattern`, \
             then `general`, found: `{}`",
            excerpt(line)
        ))),
    }
}

/// The line of sizes with its number: rows, columns and, of coordinates, entries.
fn read_sizes(lines: &mut Lines, kind: Kind) -> Result<(u64, [usize; 3])> {
    loop {
        let Some((line, text)) = lines.next()? else {
            return Err(Error::format("a line of sizes must follow the first, found: ``"));
        };
        if text.starts_with(b"%") {
            continue;
        }
        let sizes: Option<Vec<usize>> = words(text).map(whole).collect();
        return match (kind, sizes.as_deref()) {
            (Kind::Array, Some(&[rows, columns])) => Ok((line, [rows, columns, 0])),
            (Kind::Coordinates | Kind::Pattern, Some(&[rows, columns, entries])) => Ok((line, [rows, columns, entries])),
            _ => {
                let numbers = if kind == Kind::Array { "two" } else { "three" };
                Err(Error::format(format!("line {line} must be {numbers} sizes, found: `{}`", excerpt(text))))
            }
        };
    }
}

/// The numbers of all rows, which come column by column. The memory grows with what is there, not with what the sizes claim.
fn read_array(lines: &mut Lines, rows: usize, dim: usize) -> Result<Matrix> {
    let Some(count) = rows.checked_mul(dim) else {
        return Err(Error::format(format!("the array is larger than any file, found: `{rows} x {dim}`")));
    };
    let mut stored = Vec::new();
    while let Some((line, text)) = lines.next()? {
        let value = number(text).filter(|_| stored.len() < count);
        stored.push(
            value.ok_or_else(|| {
                Error::format(format!("line {line} must be one of {count} numbers, found: `{}`", excerpt(text)))
            })?,
        );
    }
    if stored.len() < count {
        return Err(Error::format(format!("an array of {rows} x {dim} has {count} numbers, found: `{}`", stored.len())));
    }
    Ok(Matrix::Dense((0..rows).flat_map(|row| (0..dim).map(move |column| column * rows + row)).map(|at| stored[at]).collect()))
}

/// The entries, sorted by row and column; those of the same place are added up.
fn read_entries(lines: &mut Lines, kind: Kind, [rows, dim, count]: [usize; 3]) -> Result<Matrix> {
    // Also keeps the starts of rows, which are made below, within what the file holds.
    if count < rows {
        let what = format!("a row without entries has no direction, so {rows} rows must have as many entries, found: `{count}`");
        return Err(Error::Format { what });
    }
    let mut entries: Vec<(usize, u32, f64)> = Vec::new();
    while let Some((line, text)) = lines.next()? {
        let mut words = words(text);
        let mut place = |sides: usize| words.next().and_then(whole).filter(|n| (1..=sides).contains(n)).map(|n| n - 1);
        let (row, column) = (place(rows), place(dim));
        let value = if kind == Kind::Pattern { Some(1.0) } else { words.next().and_then(number) };
        match (row, column, value, words.next()) {
            (Some(row), Some(column), Some(value), None) if entries.len() < count => entries.push((row, column as u32, value)),
            _ => {
                let parts = if kind == Kind::Pattern { "a row and a column" } else { "a row, a column and a number" };
                let what = format!("line {line} must be {parts} of one of {count} entries of {rows} x {dim}");
                return Err(Error::format(format!("{what}, found: `{}`", excerpt(text))));
            }
        }
    }
    if entries.len() < count {
        return Err(Error::format(format!("the matrix must have {count} entries, found: `{}`", entries.len())));
    }
    // Counts the entries of each row, then puts each behind those of its row that came before.
    let mut starts = vec![0; rows + 1];
    entries.iter().for_each(|(row, ..)| starts[row + 1] += 1);
    (0..rows).for_each(|row| starts[row + 1] += starts[row]);
    let mut next = starts.clone();
    let (mut columns, mut values) = (vec![0; count], vec![0.0; count]);
    for (row, column, value) in entries {
        (columns[next[row]], values[next[row]]) = (column, value);
        next[row] += 1;
    }
    sort_rows(&mut starts, &mut columns, &mut values);
    Ok(Matrix::Sparse { starts, columns, values })
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

fn whole(word: &[u8]) -> Option<usize> {
    std::str::from_utf8(word).ok()?.parse().ok()
}
