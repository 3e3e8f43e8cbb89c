//! Matrix Market's `.mtx`: coordinates of entries, or all numbers column by column.
//!
//! The entries of a row may be anywhere in the file, so the whole matrix is loaded when the file is
//! opened.

use crate::bytes::{ByteReader, ByteSource};
use crate::excerpt::excerpt;
use crate::read::csr::sort_rows;
use crate::read::csv::number;
use crate::read::text::{self, Lines};
use crate::{Batch, Element, Error, Options, Reader, Result, Schema};
use vmfkit::capacity;
use vmfkit::rows::{Rows, SparseRows};

/// Maximum number of rows per read. A short file may claim many rows without entries.
const MOST_ROWS: usize = 1 << 16;

/// The rows of a matrix in memory.
pub(crate) struct MatrixRows {
    matrix: Matrix,
    schema: Schema,
    rows: usize,
    /// The next row, and the position of its first entry.
    next: usize,
    next_entry: usize,
}

enum Matrix {
    Dense(Vec<f64>),
    /// Sorted by row.
    Sparse(Vec<Entry>),
}

struct Entry {
    row: usize,
    column: u32,
    value: f64,
}

/// How numbers are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All numbers, column by column.
    Array,
    /// Row, column and value of each entry.
    Coordinates,
    /// Row and column of each entry. All values are 1.
    Pattern,
}

/// What an entry says about the entry with row and column exchanged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Symmetry {
    General,
    Symmetric,
    Skew,
}

/// The content of the line of sizes.
struct Sizes {
    rows: usize,
    dim: usize,
    /// Number of stored numbers or entries.
    stored: usize,
}

impl MatrixRows {
    pub fn open(source: &ByteSource, options: &Options) -> Result<Self> {
        Self::new(text::open(Some(source))?, options)
    }

    pub fn new(text: ByteReader, options: &Options) -> Result<Self> {
        let mut lines = Lines::new(text);
        let (kind, symmetry) = first_line(lines.next()?.map_or(&[], |(_, line)| line))?;
        let sizes = Sizes::read(&mut lines, kind, symmetry)?;
        let Sizes { rows, dim, .. } = sizes;
        let held = sizes.bytes(kind, symmetry);
        if let Some(memory) = options.memory.filter(|memory| held > *memory) {
            return Err(Error::format(format!(
                "a Matrix Market file is read into memory as a whole, which takes {held} bytes, allowed: `{memory}`\n\
                 hint: an .npz file of `x.tocsr()`, written by scipy's `save_npz`, is read in pieces"
            )));
        }
        let matrix = match kind {
            Kind::Array => read_array(&mut lines, symmetry, &sizes)?,
            _ => read_entries(&mut lines, kind, symmetry, &sizes)?,
        };
        let entries = if let Matrix::Sparse(entries) = &matrix { Some(entries.len() as u64) } else { None };
        let schema = Schema { entries, held, ..Schema::dense(dim, Element::F64, Some(rows as u64)) };
        Ok(MatrixRows { matrix, schema, rows, next: 0, next_entry: 0 })
    }
}

impl Reader for MatrixRows {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&mut self, most: usize, batch: &mut Batch) -> Result<()> {
        let (from, to) = (self.next, self.rows.min(self.next.saturating_add(most.min(MOST_ROWS))));
        (batch.rows, batch.weights, batch.ids) = (to - from, None, None);
        match &self.matrix {
            Matrix::Dense(all) => {
                let dim = self.schema.dim;
                batch.values.start_dense::<f64>().extend_from_slice(&all[from * dim..to * dim]);
            }
            Matrix::Sparse(entries) => {
                let entries = &entries[self.next_entry..];
                let mut starts = vec![0];
                for row in from..to {
                    let start = starts[row - from];
                    starts.push(start + entries[start..].iter().take_while(|entry| entry.row == row).count());
                }
                let taken = &entries[..starts[to - from]];
                self.next_entry += taken.len();
                let mut columns = taken.iter().map(|entry| entry.column).collect::<Vec<_>>();
                let mut values = taken.iter().map(|entry| entry.value).collect::<Vec<_>>();
                sort_rows(&mut starts, &mut columns, &mut values);
                batch.values = Rows::SparseF64(SparseRows::new(starts, columns, values));
            }
        }
        self.next = to;
        Ok(())
    }

    fn rewind(&mut self) -> Result<()> {
        (self.next, self.next_entry) = (0, 0);
        Ok(())
    }
}

fn first_line(line: &[u8]) -> Result<(Kind, Symmetry)> {
    let words = String::from_utf8_lossy(line).to_ascii_lowercase();
    let words: Vec<&str> = words.split_whitespace().collect();
    let kind = match words[..] {
        ["%%matrixmarket", "matrix", "array", "real" | "integer" | "double", _] => Some(Kind::Array),
        ["%%matrixmarket", "matrix", "coordinate", "real" | "integer" | "double", _] => Some(Kind::Coordinates),
        ["%%matrixmarket", "matrix", "coordinate", "pattern", _] => Some(Kind::Pattern),
        _ => None,
    };
    let symmetry = match words.last() {
        Some(&"general") => Some(Symmetry::General),
        Some(&"symmetric") => Some(Symmetry::Symmetric),
        Some(&"skew-symmetric") => Some(Symmetry::Skew),
        _ => None,
    };
    kind.zip(symmetry).ok_or_else(|| {
        Error::format(format!(
            "line 1 must be `%%MatrixMarket matrix`, then `coordinate` or `array`, then `real`, `integer` or `pattern`, \
             then `general`, `symmetric` or `skew-symmetric`, found: `{}`",
            excerpt(line)
        ))
    })
}

impl Symmetry {
    /// The number with row and column exchanged, if this number determines it.
    fn mirrored(self, value: f64) -> Option<f64> {
        match self {
            Symmetry::General => None,
            Symmetry::Symmetric => Some(value),
            Symmetry::Skew => Some(-value),
        }
    }

    /// The first stored row of a column of an array.
    fn first_row(self, column: usize) -> usize {
        match self {
            Symmetry::General => 0,
            Symmetry::Symmetric => column,
            Symmetry::Skew => column + 1,
        }
    }
}

impl Sizes {
    /// Rows, columns and, for coordinates, entries.
    fn read(lines: &mut Lines, kind: Kind, symmetry: Symmetry) -> Result<Self> {
        let (line, text) = loop {
            match lines.next()? {
                None => return Err(Error::format("a line of sizes must follow the first, found: ``")),
                Some((_, text)) if text.starts_with(b"%") => {}
                Some((line, text)) => break (line, text.to_vec()),
            }
        };
        let sizes: Option<Vec<usize>> = words(&text).map(whole).collect();
        let (rows, dim, entries) = match (kind, sizes.as_deref()) {
            (Kind::Array, Some(&[rows, dim])) => (rows, dim, None),
            (Kind::Coordinates | Kind::Pattern, Some(&[rows, dim, entries])) => (rows, dim, Some(entries)),
            _ => {
                let numbers = if kind == Kind::Array { "two" } else { "three" };
                return Err(Error::format(format!("line {line} must be {numbers} sizes, found: `{}`", excerpt(&text))));
            }
        };
        if u32::try_from(dim).is_err() {
            return Err(Error::format(format!("line {line}: a matrix must have fewer than 2^32 columns, found: `{dim}`")));
        }
        if symmetry != Symmetry::General && rows != dim {
            let what = format!("line {line}: a symmetric matrix must have as many columns as rows, found: `{rows} x {dim}`");
            return Err(Error::Format { what });
        }
        let stored = match (entries, rows.checked_mul(dim), symmetry) {
            (Some(entries), ..) => entries,
            (None, Some(all), Symmetry::General) => all,
            (None, Some(all), Symmetry::Symmetric) => all - (all - rows) / 2,
            (None, Some(all), Symmetry::Skew) => (all - rows) / 2,
            (None, None, _) => {
                return Err(Error::format(format!("the array is larger than any file, found: `{rows} x {dim}`")));
            }
        };
        Ok(Sizes { rows, dim, stored })
    }

    /// Memory in bytes while the matrix is built: the numbers of an array in both orders, or
    /// entries with what sorts them.
    fn bytes(&self, kind: Kind, symmetry: Symmetry) -> u64 {
        let mirrored = if symmetry == Symmetry::General { 1 } else { 2 };
        match kind {
            Kind::Array => (self.stored as u64).saturating_add(self.rows as u64 * self.dim as u64).saturating_mul(8),
            _ => (self.stored as u64).saturating_mul(mirrored * size_of::<Entry>() as u64 * 3 / 2),
        }
    }
}

/// Reads the numbers of all rows, which are stored column by column. Memory grows with the numbers
/// that are read, not with the sizes claimed.
fn read_array(lines: &mut Lines, symmetry: Symmetry, sizes: &Sizes) -> Result<Matrix> {
    let &Sizes { rows, dim, stored: count, .. } = sizes;
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
    let mut all = vec![0.0; rows * dim];
    let positions = (0..dim).flat_map(|column| (symmetry.first_row(column)..rows).map(move |row| (row, column)));
    for ((row, column), value) in positions.zip(stored) {
        all[row * dim + column] = value;
        if let Some(value) = symmetry.mirrored(value) {
            all[column * dim + row] = value;
        }
    }
    Ok(Matrix::Dense(all))
}

/// Reads the entries and sorts them by row and column. Duplicates stay in the order of the file.
fn read_entries(lines: &mut Lines, kind: Kind, symmetry: Symmetry, sizes: &Sizes) -> Result<Matrix> {
    let &Sizes { rows, dim, stored: count, .. } = sizes;
    let mut entries: Vec<Entry> = Vec::new();
    let mut found = 0;
    while let Some((line, text)) = lines.next()? {
        let mut words = words(text);
        let mut coordinate = |sides: usize| words.next().and_then(whole).filter(|n| (1..=sides).contains(n)).map(|n| n - 1);
        let (row, column) = (coordinate(rows), coordinate(dim));
        let value = if kind == Kind::Pattern { Some(1.0) } else { words.next().and_then(number) };
        let (Some(row), Some(column), Some(value), None, true) = (row, column, value, words.next(), found < count) else {
            let parts = if kind == Kind::Pattern { "a row and a column" } else { "a row, a column and a number" };
            let what = format!("line {line} must be {parts} of one of {count} entries of {rows} x {dim}");
            return Err(Error::format(format!("{what}, found: `{}`", excerpt(text))));
        };
        found += 1;
        entries.push(Entry { row, column: column as u32, value });
        if let Some(value) = symmetry.mirrored(value).filter(|_| row != column) {
            entries.push(Entry { row: column, column: row as u32, value });
        }
    }
    if found < count {
        return Err(Error::format(format!("the matrix must have {count} entries, found: `{found}`")));
    }
    // Rows without entries take no bytes in the file, but do take memory when they are read.
    capacity::check("the rows of a matrix", &[rows])?;
    entries.sort_by_key(|entry| entry.row);
    Ok(Matrix::Sparse(entries))
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

fn whole(word: &[u8]) -> Option<usize> {
    std::str::from_utf8(word).ok()?.parse().ok()
}
