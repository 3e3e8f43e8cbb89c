//! Sparse rows from the three arrays of CSR, which are read in parallel.

use crate::read::numbers::{Kind, Numbers};
use crate::{Batch, Element, Error, Reader, Result, Schema};
use vmfkit::rows::{Rows, Scalar, SparseRows};

/// Rows from the arrays of starts, columns and values.
pub(crate) struct CsrRows {
    starts: Numbers,
    columns: Numbers,
    values: Numbers,
    schema: Schema,
    rows: u64,
    entries: u64,
    next: u64,
    /// The start of the next row, which is the end of the previous one.
    start: u64,
    /// Buffer for integers.
    integers: Vec<i64>,
}

impl CsrRows {
    /// Takes the arrays with their lengths. The last array holds the numbers of rows and columns.
    pub fn new(starts: (Numbers, u64), columns: (Numbers, u64), values: (Numbers, u64), shape: (Numbers, u64)) -> Result<Self> {
        let mut sides = Vec::new();
        let mut shape = shape;
        take_integers(&mut shape.0, shape.1.min(3), &mut sides).map_err(|error| error.at("shape"))?;
        if sides.len() as u64 == shape.1 {
            shape.0.bytes.finish().map_err(|error| error.at("shape"))?;
        }
        let (rows, dim) = match sides[..] {
            [rows, dim] if rows >= 0 && u32::try_from(dim).is_ok() => (rows as u64, dim as usize),
            _ => return Err(Error::format(format!("the shape must be two numbers, the second below 2^32, found: `{sides:?}`"))),
        };
        if starts.1.checked_sub(1) != Some(rows) {
            let what = format!("array indptr must have one number more than the {rows} rows, found: `{}`", starts.1);
            return Err(Error::Format { what });
        }
        if columns.1 != values.1 {
            let what = format!("array indices must have as many numbers as data, {}, found: `{}`", values.1, columns.1);
            return Err(Error::Format { what });
        }
        let element = values.0.encoding.element();
        let entries = values.1;
        let schema = Schema { entries: Some(entries), ..Schema::dense(dim, element, Some(rows)) };
        let (starts, columns, values) = (starts.0, columns.0, values.0);
        let mut csr = CsrRows { starts, columns, values, schema, rows, entries, next: 0, start: 0, integers: Vec::new() };
        csr.begin()?;
        Ok(csr)
    }

    /// Reads the first start.
    fn begin(&mut self) -> Result<()> {
        self.integers.clear();
        take_integers(&mut self.starts, 1, &mut self.integers).map_err(|error| error.at("indptr"))?;
        if self.integers[0] != 0 {
            return Err(Error::format(format!("the first number of indptr must be 0, found: `{}`", self.integers[0])));
        }
        (self.next, self.start) = (0, 0);
        Ok(())
    }

    /// Reads the ends of rows, relative to the start of the first of them.
    fn read_starts(&mut self, rows: u64, starts: &mut Vec<usize>) -> Result<()> {
        self.integers.clear();
        take_integers(&mut self.starts, rows, &mut self.integers).map_err(|error| error.at("indptr"))?;
        starts.clear();
        starts.push(0);
        let first = self.start;
        for (position, &end) in (self.next + 1..).zip(&self.integers) {
            // The last end is the number of entries.
            let least = if position == self.rows { self.entries } else { self.start };
            match u64::try_from(end) {
                Ok(end) if (least..=self.entries).contains(&end) => self.start = end,
                _ => {
                    let what = format!("number {position} of indptr must be from {least} to {}, found: `{end}`", self.entries);
                    return Err(Error::Format { what });
                }
            }
            starts.push((self.start - first) as usize);
        }
        Ok(())
    }

    fn read_columns(&mut self, entries: u64, columns: &mut Vec<u32>) -> Result<()> {
        self.integers.clear();
        take_integers(&mut self.columns, entries, &mut self.integers).map_err(|error| error.at("indices"))?;
        columns.clear();
        for &column in &self.integers {
            match u32::try_from(column) {
                Ok(column) if (column as usize) < self.schema.dim => columns.push(column),
                _ => {
                    let what = format!("a number of indices must be from 0 to {}, found: `{column}`", self.schema.dim - 1);
                    return Err(Error::Format { what });
                }
            }
        }
        Ok(())
    }
}

impl Reader for CsrRows {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&mut self, most: usize, batch: &mut Batch) -> Result<()> {
        let rows = (self.rows - self.next).min(most as u64);
        (batch.rows, batch.weights, batch.ids) = (rows as usize, None, None);
        let (mut starts, mut columns) = match std::mem::take(&mut batch.values) {
            Rows::SparseF32(rows) => start_and_column_buffers(rows),
            Rows::SparseF64(rows) => start_and_column_buffers(rows),
            _ => (Vec::new(), Vec::new()),
        };
        if rows == 0 {
            for (numbers, name) in [(&mut self.starts, "indptr"), (&mut self.columns, "indices"), (&mut self.values, "data")] {
                numbers.bytes.finish().map_err(|error| error.at(name))?;
            }
        }
        self.read_starts(rows, &mut starts)?;
        let entries = *starts.last().expect("one start at least") as u64;
        self.read_columns(entries, &mut columns)?;
        let mut values = Rows::default();
        self.values.encoding.start(&mut values);
        self.values.take(entries, &mut values).map_err(|error| error.at("data"))?;
        self.next += rows;
        batch.values = match values {
            Rows::F32(mut values) => {
                sort_rows(&mut starts, &mut columns, values.to_mut());
                Rows::SparseF32(SparseRows::new(starts, columns, values))
            }
            Rows::F64(mut values) => {
                sort_rows(&mut starts, &mut columns, values.to_mut());
                Rows::SparseF64(SparseRows::new(starts, columns, values))
            }
            _ => unreachable!("an array of numbers is dense"),
        };
        Ok(())
    }

    fn rewind(&mut self) -> Result<()> {
        self.starts.rewind()?;
        self.columns.rewind()?;
        self.values.rewind()?;
        self.begin()
    }
}

/// The memory of the starts and columns of rows, to be filled again.
fn start_and_column_buffers<T: Scalar>(rows: SparseRows<'static, T>) -> (Vec<usize>, Vec<u32>) {
    let (starts, columns, _) = rows.into_parts();
    (starts, columns)
}

fn take_integers(numbers: &mut Numbers, count: u64, out: &mut Vec<i64>) -> Result<()> {
    match numbers.encoding.kind {
        Kind::Integer(integer) => numbers.take_integers(count, integer, out),
        _ => Err(Error::format(format!("the numbers must be whole, found: `{}`", name_of(numbers.encoding.element())))),
    }
}

fn name_of(element: Element) -> &'static str {
    match element {
        Element::F16 => "f2",
        Element::F32 => "f4",
        Element::F64 => "f8",
    }
}

/// Sorts the columns of each row and adds up entries of the same column. scipy allows both unsorted
/// and duplicate columns.
pub(crate) fn sort_rows<T: Copy + std::ops::Add<Output = T>>(starts: &mut [usize], columns: &mut Vec<u32>, values: &mut Vec<T>) {
    if starts.windows(2).all(|row| columns[row[0]..row[1]].is_sorted_by(|a, b| a < b)) {
        return;
    }
    let mut sorted: Vec<(u32, T)> = Vec::new();
    let (mut kept, mut from) = (0, 0);
    for end in &mut starts[1..] {
        sorted.clear();
        sorted.extend(columns[from..*end].iter().copied().zip(values[from..*end].iter().copied()));
        // The sort is stable, so that duplicates are added in the order of the file.
        sorted.sort_by_key(|(column, _)| *column);
        let first = kept;
        for &(column, value) in &sorted {
            if kept > first && columns[kept - 1] == column {
                values[kept - 1] = values[kept - 1] + value;
            } else {
                (columns[kept], values[kept]) = (column, value);
                kept += 1;
            }
        }
        from = *end;
        *end = kept;
    }
    columns.truncate(kept);
    values.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::sort_rows;

    #[test]
    fn columns_are_sorted_and_duplicates_added() {
        let mut starts = vec![0, 3, 3, 6];
        let mut columns = vec![4, 1, 4, 2, 0, 7];
        let mut values = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        sort_rows(&mut starts, &mut columns, &mut values);
        assert_eq!(starts, [0, 2, 2, 5]);
        assert_eq!(columns, [1, 4, 0, 2, 7]);
        assert_eq!(values, [2.0, 4.0, 5.0, 4.0, 6.0]);
    }
}
