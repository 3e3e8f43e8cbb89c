//! [`RowBatch`]: unit rows, checked once. The only door by which data enters.

pub(crate) mod aligned;
pub mod loose;
#[cfg(feature = "ndarray")]
mod ndarray;
pub(crate) mod owned;

pub use crate::error::LARGEST_WEIGHT;
use crate::error::{Error, Result};
use rayon::prelude::*;
use std::borrow::Cow;
pub use vmfkit_kernels::Float;
pub(crate) use vmfkit_kernels::prefetch::prefetch_slice as bring_near;

/// A row whose length is within this of 1 is on the sphere: f32 rows are, rows of 5 decimals are, half-precision rows are not.
pub const UNIT_TOLERANCE: f64 = 1e-5;

/// A sum of so many squares in sixteen parts of single precision is off by less than [`UNIT_TOLERANCE`]: 2048/16 + 18 roundings of 2^-24.
const LONGEST_IN_SINGLE: usize = 2048;

/// Numbers that one thread checks at a time; several do if there are more.
pub(crate) const CHECKED_AT_ONCE: usize = 1 << 16;

/// The two types a row may be stored in.
pub trait Scalar: Float {
    #[doc(hidden)]
    fn rows(values: Cow<'_, [Self]>) -> Rows<'_>;
    /// The row is certainly of unit length; rows near the limit are not, and need a closer look.
    #[doc(hidden)]
    fn is_clearly_unit(coordinates: &[Self]) -> bool;
    /// The value that has these bytes in memory.
    #[doc(hidden)]
    fn from_bytes(bytes: &[u8]) -> Self;
    #[doc(hidden)]
    fn sparse_rows(rows: SparseRows<'_, Self>) -> Rows<'_>;
}

impl Scalar for f32 {
    fn rows(values: Cow<'_, [Self]>) -> Rows<'_> {
        Rows::F32(values)
    }
    /// In single precision, which halves the time: half of the tolerance is left to rounding.
    #[inline(always)]
    fn is_clearly_unit(coordinates: &[Self]) -> bool {
        let mut sums = [0f32; 16];
        let chunks = coordinates.chunks_exact(16);
        let rest: f32 = chunks.remainder().iter().map(|x| x * x).sum();
        for chunk in chunks {
            sums.iter_mut().zip(chunk).for_each(|(sum, x)| *sum += x * x);
        }
        let square = sums.iter().sum::<f32>() + rest;
        // The square is off by twice what the length is.
        coordinates.len() <= LONGEST_IN_SINGLE && (square - 1.0).abs() <= UNIT_TOLERANCE as f32
    }
    #[inline(always)]
    fn from_bytes(bytes: &[u8]) -> Self {
        f32::from_ne_bytes(bytes.try_into().expect("the bytes of one number"))
    }
    fn sparse_rows(rows: SparseRows<'_, Self>) -> Rows<'_> {
        Rows::SparseF32(rows)
    }
}

impl Scalar for f64 {
    fn rows(values: Cow<'_, [Self]>) -> Rows<'_> {
        Rows::F64(values)
    }
    /// Without the root, and inlined.
    #[inline(always)]
    fn is_clearly_unit(coordinates: &[Self]) -> bool {
        (sum_of_squares(coordinates, 1.0) - 1.0).abs() <= UNIT_TOLERANCE
    }
    #[inline(always)]
    fn from_bytes(bytes: &[u8]) -> Self {
        f64::from_ne_bytes(bytes.try_into().expect("the bytes of one number"))
    }
    fn sparse_rows(rows: SparseRows<'_, Self>) -> Rows<'_> {
        Rows::SparseF64(rows)
    }
}

/// The values of a block, row by row.
#[derive(Debug, Clone)]
pub enum Rows<'a> {
    /// Single precision.
    F32(Cow<'a, [f32]>),
    /// Double precision.
    F64(Cow<'a, [f64]>),
    /// Single precision, zeros left out.
    SparseF32(SparseRows<'a, f32>),
    /// Double precision, zeros left out.
    SparseF64(SparseRows<'a, f64>),
}

/// Rows of which only some coordinates, the entries, are stored (CSR); all others are 0.
///
/// The columns of a row ascend strictly and lie below the block's dimension.
#[derive(Debug, Clone)]
pub struct SparseRows<'a, T: Clone> {
    /// Row i has the entries `starts[i] .. starts[i + 1]`; the first start need not be 0.
    starts: Cow<'a, [usize]>,
    columns: Cow<'a, [u32]>,
    values: Cow<'a, [T]>,
}

impl<'a, T: Scalar> SparseRows<'a, T> {
    /// Takes the three arrays if they describe rows of this dimension; lengths of rows are another matter.
    fn new(dim: usize, starts: &'a [usize], columns: &'a [u32], values: &'a [T]) -> Result<Self> {
        row_count(dim, 0)?;
        if u32::try_from(dim).is_err() {
            let range = "below 2^32, as the columns are";
            return Err(Error::Option { option: "the dimension of sparse rows", range, value: dim as f64 });
        }
        if columns.len() != values.len() {
            return Err(Error::EntryCount { columns: columns.len(), values: values.len() });
        }
        let mut least = *starts.first().ok_or(Error::NoRowStarts)?;
        for (position, &found) in starts.iter().enumerate() {
            if !(least..=columns.len()).contains(&found) {
                return Err(Error::RowStart { position, least, most: columns.len(), found });
            }
            least = found;
        }
        first_wrong(starts.len() - 1, columns.len(), |row| {
            let (from, to) = (starts[row], starts[row + 1]);
            let mut previous = None;
            for (position, &column) in (from..).zip(&columns[from..to]) {
                if column as usize >= dim {
                    return Some(Error::Column { row, position, dim, column });
                }
                if let Some(previous) = previous.replace(column).filter(|previous| *previous >= column) {
                    return Some(Error::ColumnOrder { row, position, previous, column });
                }
            }
            None
        })?;
        Ok(SparseRows { starts: starts.into(), columns: columns.into(), values: values.into() })
    }

    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The length of a row, or what is wrong with it.
    fn length(&self, row: usize) -> Result<Length> {
        let (columns, values) = self.row(row);
        Length::of_row(row, values).map_err(|error| match error {
            Error::NotFinite { row, column: entry, value } => Error::NotFinite { row, column: columns[entry] as usize, value },
            other => other,
        })
    }

    /// The columns of a row's entries, in ascending order, and the values there.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn row(&self, row: usize) -> (&[u32], &[T]) {
        let entries = self.starts[row]..self.starts[row + 1];
        (&self.columns[entries.clone()], &self.values[entries])
    }

    /// The number of entries of each row; the columns and the values of all entries.
    pub(crate) fn lengths_and_entries(&self) -> (Vec<u64>, &[u32], &[T]) {
        let lengths = self.starts.windows(2).map(|ends| (ends[1] - ends[0]) as u64).collect();
        let entries = self.starts[0]..self.starts[self.len()];
        (lengths, &self.columns[entries.clone()], &self.values[entries])
    }

    /// How many coordinates are stored in all rows together.
    pub fn entries(&self) -> usize {
        self.starts[self.len()] - self.starts[0]
    }

    /// The starts, columns and values that the rows were made of, copied only where they are borrowed.
    pub fn into_parts(self) -> (Vec<usize>, Vec<u32>, Vec<T>) {
        (self.starts.into_owned(), self.columns.into_owned(), self.values.into_owned())
    }

    fn slice(&self, from: usize, to: usize) -> SparseRows<'_, T> {
        let starts = Cow::Borrowed(&self.starts[from..=to]);
        SparseRows { starts, columns: Cow::Borrowed(&self.columns), values: Cow::Borrowed(&self.values) }
    }

    fn gather<'b>(
        &self,
        rows: &[usize],
        starts: &'b mut Vec<usize>,
        columns: &'b mut Vec<u32>,
        values: &'b mut Vec<T>,
    ) -> SparseRows<'b, T> {
        starts.clear();
        columns.clear();
        values.clear();
        starts.push(0);
        for &row in rows {
            let (row_columns, row_values) = self.row(row);
            columns.extend_from_slice(row_columns);
            values.extend_from_slice(row_values);
            starts.push(values.len());
        }
        SparseRows { starts: Cow::Borrowed(starts), columns: Cow::Borrowed(columns), values: Cow::Borrowed(values) }
    }
}

/// Unit rows of one dimension, with optional weights.
///
/// A block borrows the caller's rows, dense or sparse; only rescaling copies them. Rows are counted from 0, and an error names the
/// first bad one. A row whose length is off by e, within the tolerance, is used as it is: its distance from a direction counts e^2/2
/// too much, which matters only for concentrations of the order 1/e^2. Rescale if you have such.
///
/// ```
/// use vmfkit::{RowBatch, Error};
/// let block = RowBatch::new(2, &[1.0, 0.0, 0.6, 0.8])?;
/// assert_eq!(block.len(), 2);
/// assert_eq!(RowBatch::new(2, &[1.0, 0.0, 3.0, 4.0]).unwrap_err(), Error::NotUnit { row: 1, norm: 5.0 });
/// let (block, rescaled) = RowBatch::rescaled(2, &[1.0, 0.0, 3.0, 4.0])?;
/// assert_eq!((block.len(), rescaled), (2, 1));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct RowBatch<'a> {
    dim: usize,
    len: usize,
    rows: Rows<'a>,
    weights: Option<&'a [f64]>,
}

impl<'a> RowBatch<'a> {
    /// Takes rows that have unit length to within [`UNIT_TOLERANCE`], and refuses any other.
    pub fn new<T: Scalar>(dim: usize, values: &'a [T]) -> Result<Self> {
        let len = row_count(dim, values.len())?;
        first_wrong(len, values.len(), |row| wrong_row(row, &values[row * dim..(row + 1) * dim]))?;
        Ok(RowBatch { dim, len, rows: T::rows(Cow::Borrowed(values)), weights: None })
    }

    /// Divides each row that is not of unit length by it; also says how many there were.
    pub fn rescaled<T: Scalar>(dim: usize, values: &[T]) -> Result<(RowBatch<'static>, usize)> {
        let len = row_count(dim, values.len())?;
        let mut out = values.to_vec();
        let changed = rescale(dim, &mut out)?;
        Ok((RowBatch { dim, len, rows: T::rows(Cow::Owned(out)), weights: None }, changed))
    }

    /// Checks rows as [`new`](Self::new) does and keeps them, so that the block can outlive its maker, as between threads;
    /// [`into_rows`](Self::into_rows) gives them back.
    pub fn owned<T: Scalar>(dim: usize, values: Vec<T>) -> Result<RowBatch<'static>> {
        let len = RowBatch::new(dim, &values)?.len;
        Ok(RowBatch { dim, len, rows: T::rows(Cow::Owned(values)), weights: None })
    }

    /// Checks sparse rows as [`sparse`](Self::sparse) does and keeps them.
    pub fn sparse_owned<T: Scalar>(
        dim: usize,
        starts: Vec<usize>,
        columns: Vec<u32>,
        values: Vec<T>,
    ) -> Result<RowBatch<'static>> {
        let len = RowBatch::sparse(dim, &starts, &columns, &values)?.len;
        let rows = SparseRows { starts: starts.into(), columns: columns.into(), values: values.into() };
        Ok(RowBatch { dim, len, rows: T::sparse_rows(rows), weights: None })
    }

    /// Takes sparse rows of unit length to within [`UNIT_TOLERANCE`], in the three arrays of CSR that scipy calls `indptr`,
    /// `indices` and `data`: row i has `values[starts[i]..starts[i + 1]]` in the columns `columns[starts[i]..starts[i + 1]]`.
    ///
    /// ```
    /// use vmfkit::RowBatch;
    /// let block = RowBatch::sparse(1000, &[0, 1, 3], &[7, 2, 999], &[1.0, 0.6, 0.8])?;
    /// assert_eq!((block.len(), block.dim()), (2, 1000));
    /// # Ok::<(), vmfkit::Error>(())
    /// ```
    pub fn sparse<T: Scalar>(dim: usize, starts: &'a [usize], columns: &'a [u32], values: &'a [T]) -> Result<Self> {
        let rows = SparseRows::new(dim, starts, columns, values)?;
        let len = rows.len();
        first_wrong(len, rows.entries(), |row| rows.length(row).and_then(|length| length.check(row)).err())?;
        Ok(RowBatch { dim, len, rows: T::sparse_rows(rows), weights: None })
    }

    /// Divides each sparse row by its length; also says how many rows were not of unit length.
    pub fn sparse_rescaled<T: Scalar>(
        dim: usize,
        starts: &[usize],
        columns: &[u32],
        values: &[T],
    ) -> Result<(RowBatch<'static>, usize)> {
        let rows = SparseRows::new(dim, starts, columns, values)?;
        let len = rows.len();
        let mut out = Vec::with_capacity(rows.entries());
        let mut changed = 0;
        for row in 0..len {
            let length = rows.length(row)?;
            let values = rows.row(row).1;
            if is_unit(length.value()) {
                out.extend_from_slice(values);
            } else {
                changed += 1;
                out.extend(values.iter().map(|x| T::from_f64(length.divide(x.to_f64()))));
            }
        }
        let first = starts[0];
        let rows = SparseRows {
            starts: starts.iter().map(|start| start - first).collect(),
            columns: columns[first..starts[len]].to_vec().into(),
            values: out.into(),
        };
        Ok((RowBatch { dim, len, rows: T::sparse_rows(rows), weights: None }, changed))
    }

    /// The same rows, each counted as often as its weight says, which is from 0 to [`LARGEST_WEIGHT`].
    pub fn with_weights(mut self, weights: &'a [f64]) -> Result<Self> {
        if weights.len() != self.len {
            return Err(Error::WeightCount { rows: self.len, found: weights.len() });
        }
        if let Some((row, &value)) = weights.iter().enumerate().find(|(_, w)| !(0.0..=LARGEST_WEIGHT).contains(*w)) {
            return Err(Error::Weight { row, value });
        }
        self.weights = Some(weights);
        Ok(self)
    }

    /// The same with the weights of all rows, of which these are the ones from `first` on; errors count rows from the first of all.
    pub fn with_weights_from(self, first: usize, weights: &'a [f64]) -> Result<Self> {
        let last = first + self.len;
        let part = weights.get(first..last).ok_or(Error::WeightCount { rows: last, found: weights.len() })?;
        self.with_weights(part).map_err(|error| match error {
            Error::Weight { row, value } => Error::Weight { row: row + first, value },
            other => other,
        })
    }

    /// The same rows, each counted once.
    pub(crate) fn without_weights(mut self) -> Self {
        self.weights = None;
        self
    }

    /// The length of a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True for sparse rows.
    pub fn is_sparse(&self) -> bool {
        matches!(self.rows, Rows::SparseF32(_) | Rows::SparseF64(_))
    }

    /// The rows' values.
    pub fn rows(&self) -> &Rows<'a> {
        &self.rows
    }

    /// The rows' values, out of the block.
    pub fn into_rows(self) -> Rows<'a> {
        self.rows
    }

    /// The rows' weights; without any, each row weighs 1.
    pub fn weights(&self) -> Option<&'a [f64]> {
        self.weights
    }

    /// Rows `from .. to` as a block of their own, without a copy or a second check.
    ///
    /// # Panics
    /// If `from > to` or `to` is past the last row.
    pub fn slice(&self, from: usize, to: usize) -> RowBatch<'_> {
        assert!(from <= to && to <= self.len, "rows {from} .. {to} of {}", self.len);
        let rows = match &self.rows {
            Rows::F32(values) => Rows::F32(Cow::Borrowed(&values[from * self.dim..to * self.dim])),
            Rows::F64(values) => Rows::F64(Cow::Borrowed(&values[from * self.dim..to * self.dim])),
            Rows::SparseF32(rows) => Rows::SparseF32(rows.slice(from, to)),
            Rows::SparseF64(rows) => Rows::SparseF64(rows.slice(from, to)),
        };
        RowBatch { dim: self.dim, len: to - from, rows, weights: self.weights.map(|w| &w[from..to]) }
    }

    /// A copy of one row, in full.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> Vec<f64> {
        fn dense<T: Scalar>(values: &[T]) -> Vec<f64> {
            values.iter().map(|x| x.to_f64()).collect()
        }
        fn sparse<T: Scalar>(dim: usize, (columns, values): (&[u32], &[T])) -> Vec<f64> {
            let mut full = vec![0.0; dim];
            columns.iter().zip(values).for_each(|(&column, x)| full[column as usize] = x.to_f64());
            full
        }
        match &self.rows {
            Rows::F32(values) => dense(&values[row * self.dim..(row + 1) * self.dim]),
            Rows::F64(values) => dense(&values[row * self.dim..(row + 1) * self.dim]),
            Rows::SparseF32(rows) => sparse(self.dim, rows.row(row)),
            Rows::SparseF64(rows) => sparse(self.dim, rows.row(row)),
        }
    }

    /// Dense rows that were checked elsewhere.
    pub(crate) fn of_checked<T: Scalar>(dim: usize, values: &'a [T]) -> Self {
        RowBatch { dim, len: values.len() / dim, rows: T::rows(Cow::Borrowed(values)), weights: None }
    }

    /// Sparse rows that were checked elsewhere.
    pub(crate) fn of_checked_sparse<T: Scalar>(dim: usize, starts: &'a [usize], columns: &'a [u32], values: &'a [T]) -> Self {
        let rows = SparseRows { starts: starts.into(), columns: columns.into(), values: values.into() };
        RowBatch { dim, len: rows.len(), rows: T::sparse_rows(rows), weights: None }
    }

    /// The same rows with weights that were checked elsewhere.
    pub(crate) fn with_checked_weights(self, weights: Option<&'a [f64]>) -> Self {
        RowBatch { weights, ..self }
    }

    /// A copy of the rows with these numbers, in this order, with their weights and without a second check.
    ///
    /// # Panics
    /// If a number is past the last row.
    pub(crate) fn gather<'b>(&self, rows: &[usize], buffer: &'b mut RowBuffer) -> RowBatch<'b> {
        let RowBuffer { single, double, starts, columns, weights } = buffer;
        let copies = match &self.rows {
            Rows::F32(values) => Rows::F32(gather_dense(self.dim, values, rows, single)),
            Rows::F64(values) => Rows::F64(gather_dense(self.dim, values, rows, double)),
            Rows::SparseF32(sparse) => Rows::SparseF32(sparse.gather(rows, starts, columns, single)),
            Rows::SparseF64(sparse) => Rows::SparseF64(sparse.gather(rows, starts, columns, double)),
        };
        let weights = self.weights.map(|all| {
            weights.clear();
            weights.extend(rows.iter().map(|&row| all[row]));
            &weights[..]
        });
        RowBatch { dim: self.dim, len: rows.len(), rows: copies, weights }
    }
}

/// Divides each row that is not of unit length by it, where it stands; says how many there were. Rows of unit length stay as they are, to
/// the last bit.
pub fn rescale<T: Scalar>(dim: usize, values: &mut [T]) -> Result<usize> {
    row_count(dim, values.len())?;
    let mut changed = 0;
    for (row, coordinates) in values.chunks_exact_mut(dim).enumerate() {
        if T::is_clearly_unit(coordinates) {
            continue;
        }
        let length = Length::of_row(row, coordinates)?;
        if !is_unit(length.value()) {
            changed += 1;
            coordinates.iter_mut().for_each(|x| *x = T::from_f64(length.divide(x.to_f64())));
        }
    }
    Ok(changed)
}

/// Room for gathered rows, kept from one mini-batch to the next.
#[derive(Debug, Default)]
pub(crate) struct RowBuffer {
    pub single: Vec<f32>,
    pub double: Vec<f64>,
    starts: Vec<usize>,
    columns: Vec<u32>,
    weights: Vec<f64>,
}

fn gather_dense<'b, T: Scalar>(dim: usize, values: &[T], rows: &[usize], buffer: &'b mut Vec<T>) -> Cow<'b, [T]> {
    let values_of = |row: usize| &values[row * dim..(row + 1) * dim];
    buffer.clear();
    for (row, later) in with_later(rows) {
        later.into_iter().for_each(|later| bring_near(values_of(later)));
        buffer.extend_from_slice(values_of(row));
    }
    Cow::Borrowed(buffer)
}

/// The numbers of rows that are copied in this order, each with that of one to be asked for now: no processor guesses where the next one is.
pub(crate) fn with_later(rows: &[usize]) -> impl Iterator<Item = (usize, Option<usize>)> {
    const AHEAD: usize = 8;
    rows.iter().enumerate().map(|(place, &row)| (row, rows.get(place + AHEAD).copied()))
}

/// What is wrong with the first row that has something wrong with it, on several threads if there are many numbers.
fn first_wrong(rows: usize, numbers: usize, wrong: impl Fn(usize) -> Option<Error> + Sync + Send) -> Result<()> {
    let at_once = (rows / (numbers / CHECKED_AT_ONCE + 1)).max(1);
    let found = if rows <= at_once {
        (0..rows).find_map(wrong)
    } else {
        (0..rows).into_par_iter().with_min_len(at_once).find_map_first(wrong)
    };
    found.map_or(Ok(()), Err)
}

/// What is wrong with a row, if anything is.
#[inline(always)]
pub(crate) fn wrong_row<T: Scalar>(row: usize, coordinates: &[T]) -> Option<Error> {
    if T::is_clearly_unit(coordinates) {
        return None;
    }
    Length::of_row(row, coordinates).and_then(|length| length.check(row)).err()
}

fn is_unit(norm: f64) -> bool {
    (norm - 1.0).abs() <= UNIT_TOLERANCE
}

fn row_count(dim: usize, values: usize) -> Result<usize> {
    if dim < 2 {
        return Err(Error::Dimension { dim });
    }
    if !values.is_multiple_of(dim) {
        return Err(Error::PartialRow { values, dim });
    }
    Ok(values / dim)
}

/// The Euclidean length of a row, as a product of which neither factor overflows or underflows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Length {
    scale: f64,
    rest: f64,
}

impl Length {
    /// The length of a row, or what is wrong with it.
    pub(crate) fn of_row<T: Scalar>(row: usize, coordinates: &[T]) -> Result<Self> {
        let square = sum_of_squares(coordinates, 1.0);
        if square > 1e-280 && square < 1e280 {
            return Ok(Length { scale: 1.0, rest: square.sqrt() });
        }
        // Out of the square's range: something not finite, all zeros, or a very long or short row.
        if let Some((column, x)) = coordinates.iter().enumerate().find(|(_, x)| !x.to_f64().is_finite()) {
            return Err(Error::NotFinite { row, column, value: x.to_f64() });
        }
        let largest = coordinates.iter().fold(0.0, |m: f64, x| m.max(x.to_f64().abs()));
        if largest == 0.0 {
            return Err(Error::ZeroRow { row });
        }
        Ok(Length { scale: largest, rest: sum_of_squares(coordinates, largest).sqrt() })
    }

    pub(crate) fn value(self) -> f64 {
        self.scale * self.rest
    }

    /// Refuses a row, which has this length, unless it is a unit one.
    fn check(self, row: usize) -> Result<()> {
        let norm = self.value();
        if is_unit(norm) { Ok(()) } else { Err(Error::NotUnit { row, norm }) }
    }

    pub(crate) fn divide(self, x: f64) -> f64 {
        x / self.scale / self.rest
    }
}

/// Sum of (x / divisor)^2, in eight running sums so that it vectorises.
#[inline(always)]
fn sum_of_squares<T: Scalar>(coordinates: &[T], divisor: f64) -> f64 {
    let mut sums = [0.0; 8];
    let chunks = coordinates.chunks_exact(8);
    let rest: f64 = chunks.remainder().iter().map(|x| (x.to_f64() / divisor).powi(2)).sum();
    for chunk in chunks {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            let x = if divisor == 1.0 { x.to_f64() } else { x.to_f64() / divisor };
            *sum += x * x;
        }
    }
    rest + sums.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of a block in full, and their weights.
    fn in_full(block: &RowBatch) -> (Vec<Vec<f64>>, Option<Vec<f64>>) {
        ((0..block.len()).map(|row| block.row(row)).collect(), block.weights().map(<[f64]>::to_vec))
    }

    #[test]
    fn an_owned_block_is_checked_and_gives_its_memory_back() {
        let dense = vec![0.6, 0.8, 1.0, 0.0];
        let memory = dense.as_ptr();
        let block = RowBatch::owned(2, dense).unwrap();
        assert_eq!((block.len(), block.row(0)), (2, vec![0.6, 0.8]));
        let Rows::F64(Cow::Owned(dense)) = block.into_rows() else { panic!("dense rows of f64") };
        assert_eq!(dense.as_ptr(), memory);
        assert_eq!(RowBatch::owned(2, vec![1f32, 0.0, 3.0, 4.0]).unwrap_err(), Error::NotUnit { row: 1, norm: 5.0 });
        let block = RowBatch::sparse_owned(9, vec![0, 2], vec![3, 8], vec![0.6f32, 0.8]).unwrap();
        let Rows::SparseF32(rows) = block.into_rows() else { panic!("sparse rows of f32") };
        assert_eq!(rows.into_parts(), (vec![0, 2], vec![3, 8], vec![0.6, 0.8]));
        assert_eq!(
            RowBatch::sparse_owned(9, vec![0, 1], vec![9], vec![1.0]).unwrap_err(),
            Error::Column { row: 0, position: 0, dim: 9, column: 9 }
        );
    }

    #[test]
    fn the_first_wrong_row_is_named_though_many_threads_look() {
        let (dim, rows) = (16, 5 * CHECKED_AT_ONCE / 16);
        let mut values = vec![0f32; rows * dim];
        values.iter_mut().step_by(dim).for_each(|x| *x = 1.0);
        assert_eq!(RowBatch::new(dim, &values).unwrap().len(), rows);
        let starts: Vec<usize> = (0..=rows * dim).step_by(dim).collect();
        let columns: Vec<u32> = (0..rows * dim).map(|entry| (entry % dim) as u32).collect();
        for row in [rows - 1, rows / 2, 7] {
            values[row * dim] = 3.0;
            assert_eq!(RowBatch::new(dim, &values).unwrap_err(), Error::NotUnit { row, norm: 3.0 });
            assert_eq!(RowBatch::sparse(dim, &starts, &columns, &values).unwrap_err(), Error::NotUnit { row, norm: 3.0 });
        }
        let mut columns = columns;
        for row in [rows - 1, rows / 2] {
            columns[row * dim] = 99;
            let error = Error::Column { row, position: row * dim, dim, column: 99 };
            assert_eq!(RowBatch::sparse(dim, &starts, &columns, &values).unwrap_err(), error);
        }
    }

    #[test]
    fn a_quick_look_accepts_no_row_that_a_close_one_refuses() {
        for dim in [2, 15, 16, 17, 768, 2048, 2049, 5000] {
            for off in [-3e-5, -1.2e-5, -0.9e-5, -0.4e-5, 0.0, 0.4e-5, 0.9e-5, 1.2e-5, 3e-5] {
                let coordinate = ((1.0 + off) / (dim as f64).sqrt()) as f32;
                let row = vec![coordinate; dim];
                let close = is_unit(Length::of_row(0, &row).unwrap().value());
                assert_eq!(RowBatch::new(dim, &row).is_ok(), close, "dimension {dim}, off by {off}");
                assert!(close || !f32::is_clearly_unit(&row));
                let double: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
                assert_eq!(f64::is_clearly_unit(&double), off.abs() < 0.5e-5, "dimension {dim}, off by {off}");
                assert!(
                    dim > LONGEST_IN_SINGLE || off.abs() > 0.3e-5 || f32::is_clearly_unit(&row),
                    "dimension {dim}, off by {off}"
                );
            }
        }
        assert!(!f32::is_clearly_unit(&[f32::NAN, 1.0]) && !f32::is_clearly_unit(&[f32::INFINITY, 1.0]));
        assert!(!f64::is_clearly_unit(&[f64::NAN, 1.0]) && !f64::is_clearly_unit(&[f64::INFINITY, 1.0]));
    }

    #[test]
    fn rows_rescaled_in_place_are_those_of_a_rescaled_block() {
        let mut values = [3.0, 4.0, 1e-200, 0.0, 0.6, 0.8];
        let (block, changed) = RowBatch::rescaled(2, &values).unwrap();
        assert_eq!((rescale(2, &mut values).unwrap(), changed), (2, 2));
        assert_eq!(in_full(&block), in_full(&RowBatch::new(2, &values).unwrap()));
        assert_eq!(rescale(2, &mut [1.0, 0.0, 0.0, 0.0]).unwrap_err(), Error::ZeroRow { row: 1 });
    }

    #[test]
    fn gathered_rows_are_the_rows_in_that_order_also_from_a_used_buffer() {
        let (single, double) = ([1f32, 0.0, 0.0, 0.6, 0.8, 0.0], [0.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
        let (starts, columns, weights) = ([1, 2, 4], [9, 2, 0, 1], [0.5, 2.0]);
        let blocks = [
            RowBatch::new(3, &single),
            RowBatch::new(3, &double),
            RowBatch::sparse(3, &starts, &columns, &[0f32, 1.0, 0.6, 0.8]),
            RowBatch::sparse(3, &starts, &columns, &[0f64, -1.0, 0.8, 0.6]),
        ];
        let mut buffer = RowBuffer::default();
        for block in blocks {
            let block = block.unwrap();
            for block in [block.clone(), block.with_weights(&weights).unwrap()] {
                let (rows, weights) = in_full(&block);
                for picked in [&[1, 0, 1][..], &[], &[1]] {
                    let gathered = block.gather(picked, &mut buffer);
                    assert_eq!((gathered.dim(), gathered.len()), (3, picked.len()));
                    let expected: Vec<_> = picked.iter().map(|&row| rows[row].clone()).collect();
                    let expected_weights = weights.as_ref().map(|all| picked.iter().map(|&row| all[row]).collect());
                    assert_eq!(in_full(&gathered), (expected, expected_weights));
                }
            }
        }
    }
    #[test]
    fn weights_of_all_rows_are_counted_from_the_first_of_all() {
        let block = RowBatch::new(2, &[1.0, 0.0, 0.0, 1.0]).unwrap();
        let weights = [1.0, 1.0, 0.5, -2.0, 4.0];
        let of = |first: usize| block.clone().with_weights_from(first, &weights).map(|block| block.weights().unwrap());
        assert_eq!(of(1), Ok(&[1.0, 0.5][..]));
        assert_eq!(of(2), Err(Error::Weight { row: 3, value: -2.0 }));
        assert_eq!(of(4), Err(Error::WeightCount { rows: 6, found: 5 }));
    }
}
