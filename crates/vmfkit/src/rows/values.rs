//! [`Rows`]: the numbers of rows, dense or sparse, in single or double precision.

use super::rescale;
use super::validate::{Length, first_error, is_clearly_unit_double, is_clearly_unit_single, is_unit, row_count};
use crate::error::{Error, Result};
use std::borrow::Cow;
use vmfkit_kernels::Float;

/// The two types that the numbers of a row may have.
pub trait Scalar: Float {
    #[doc(hidden)]
    fn rows(values: Cow<'_, [Self]>) -> Rows<'_>;
    #[doc(hidden)]
    fn sparse_rows(rows: SparseRows<'_, Self>) -> Rows<'_>;
    /// The dense rows as a vector; if they were of another kind, they are replaced by none.
    #[doc(hidden)]
    fn dense_mut<'r>(rows: &'r mut Rows<'static>) -> &'r mut Vec<Self>;
    /// True if the row is certainly of unit length; false also for rows near the limit.
    #[doc(hidden)]
    fn is_clearly_unit(coordinates: &[Self]) -> bool;
    /// The number with these bytes in the byte order of this machine.
    #[doc(hidden)]
    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! scalar {
    ($type:ty, $dense:ident, $sparse:ident, $is_clearly_unit:ident) => {
        impl Scalar for $type {
            fn rows(values: Cow<'_, [Self]>) -> Rows<'_> {
                Rows::$dense(values)
            }
            fn sparse_rows(rows: SparseRows<'_, Self>) -> Rows<'_> {
                Rows::$sparse(rows)
            }
            fn dense_mut<'r>(rows: &'r mut Rows<'static>) -> &'r mut Vec<Self> {
                if !matches!(rows, Rows::$dense(_)) {
                    *rows = Rows::$dense(Cow::Owned(Vec::new()));
                }
                match rows {
                    Rows::$dense(values) => values.to_mut(),
                    _ => unreachable!("they were made dense rows of this type"),
                }
            }
            #[inline(always)]
            fn is_clearly_unit(coordinates: &[Self]) -> bool {
                $is_clearly_unit(coordinates)
            }
            #[inline(always)]
            fn from_bytes(bytes: &[u8]) -> Self {
                <$type>::from_ne_bytes(bytes.try_into().expect("the bytes of one number"))
            }
        }
    };
}

scalar!(f32, F32, SparseF32, is_clearly_unit_single);
scalar!(f64, F64, SparseF64, is_clearly_unit_double);

/// The error of a bad row, in double precision where single precision cannot decide.
#[inline(always)]
pub(super) fn row_error<T: Scalar>(row: usize, coordinates: &[T]) -> Option<Error> {
    if T::is_clearly_unit(coordinates) {
        return None;
    }
    Length::of_row(row, coordinates).and_then(|length| length.check(row)).err()
}

/// The numbers of rows, row by row.
#[derive(Debug, Clone, PartialEq)]
pub enum Rows<'a> {
    /// Dense, in single precision.
    F32(Cow<'a, [f32]>),
    /// Dense, in double precision.
    F64(Cow<'a, [f64]>),
    /// Sparse, in single precision.
    SparseF32(SparseRows<'a, f32>),
    /// Sparse, in double precision.
    SparseF64(SparseRows<'a, f64>),
}

impl Default for Rows<'_> {
    /// No rows, dense and in single precision.
    fn default() -> Self {
        Rows::F32(Cow::Borrowed(&[]))
    }
}

impl Rows<'static> {
    /// Removes all rows and returns the vector for new dense rows of type `T`. Its memory is reused
    /// if the rows were of this type before.
    ///
    /// ```
    /// use vmfkit::rows::Rows;
    /// let mut rows = Rows::default();
    /// rows.start_dense::<f64>().extend([0.6, 0.8]);
    /// assert_eq!(rows, Rows::F64(vec![0.6, 0.8].into()));
    /// ```
    pub fn start_dense<T: Scalar>(&mut self) -> &mut Vec<T> {
        let values = T::dense_mut(self);
        values.clear();
        values
    }

    /// Removes all rows and takes the kind of `like`. Memory is reused if the kind was the same.
    pub fn clear_like(&mut self, like: &Rows) {
        if !self.is_like(like) {
            *self = like.empty_like();
        }
        self.truncate(0, 0);
    }

    /// Keeps only the first `count` rows.
    pub(super) fn truncate(&mut self, dim: usize, count: usize) {
        match self {
            Rows::F32(values) => values.to_mut().truncate(count * dim),
            Rows::F64(values) => values.to_mut().truncate(count * dim),
            Rows::SparseF32(rows) => rows.truncate(count),
            Rows::SparseF64(rows) => rows.truncate(count),
        }
    }

    /// Appends copies of rows of the same dimension. Dense rows of both precisions become rows of
    /// f64, as do sparse ones; where one side is dense and the other sparse, all become dense rows
    /// of f64.
    pub fn append(&mut self, dim: usize, added: &Rows) {
        fn wide(values: &[f32]) -> impl Iterator<Item = f64> + '_ {
            values.iter().map(|x| f64::from(*x))
        }
        match (&mut *self, added) {
            (Rows::F32(values), Rows::F32(added)) => values.to_mut().extend_from_slice(added),
            (Rows::F64(values), Rows::F64(added)) => values.to_mut().extend_from_slice(added),
            (Rows::F64(values), Rows::F32(added)) => values.to_mut().extend(wide(added)),
            (Rows::SparseF32(rows), Rows::SparseF32(added)) => rows.extend(added),
            (Rows::SparseF64(rows), Rows::SparseF64(added)) => rows.extend(added),
            (Rows::SparseF64(rows), Rows::SparseF32(added)) => rows.extend(added),
            (Rows::SparseF32(narrow), Rows::SparseF64(added)) => {
                let mut rows = SparseRows::empty();
                rows.extend(narrow);
                rows.extend(added);
                *self = Rows::SparseF64(rows);
            }
            (Rows::F64(values), _) => values.to_mut().extend(added.to_dense(dim)),
            _ => {
                let mut values = self.to_dense(dim);
                values.extend(added.to_dense(dim));
                *self = Rows::F64(values.into());
            }
        }
    }

    /// Divides each row that is not of unit length by its length, in place; returns the number of
    /// such rows. Rows of unit length keep every bit.
    ///
    /// # Errors
    /// Those of [`RowBatch::rescaled`](super::RowBatch::rescaled) and
    /// [`RowBatch::sparse_rescaled`](super::RowBatch::sparse_rescaled).
    pub fn rescale(&mut self, dim: usize) -> Result<usize> {
        match self {
            Rows::F32(values) => rescale(dim, values.to_mut()),
            Rows::F64(values) => rescale(dim, values.to_mut()),
            Rows::SparseF32(rows) => rows.validate_shape(dim).and_then(|()| rows.rescale()),
            Rows::SparseF64(rows) => rows.validate_shape(dim).and_then(|()| rows.rescale()),
        }
    }
}

impl Rows<'_> {
    /// All numbers of dense rows, or the stored values of sparse ones, in double precision.
    pub fn into_f64(self) -> Vec<f64> {
        fn widened(values: &[f32]) -> Vec<f64> {
            values.iter().copied().map(f64::from).collect()
        }
        match self {
            Rows::F32(values) => widened(&values),
            Rows::F64(values) => values.into_owned(),
            Rows::SparseF32(rows) => widened(&rows.values),
            Rows::SparseF64(rows) => rows.values.into_owned(),
        }
    }

    /// True if both are dense or both sparse, of the same precision.
    pub fn is_like(&self, other: &Rows) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// True for sparse rows.
    pub fn is_sparse(&self) -> bool {
        matches!(self, Rows::SparseF32(_) | Rows::SparseF64(_))
    }

    /// No rows of the same kind.
    pub(super) fn empty_like(&self) -> Rows<'static> {
        match self {
            Rows::F32(_) => Rows::F32(Cow::Owned(Vec::new())),
            Rows::F64(_) => Rows::F64(Cow::Owned(Vec::new())),
            Rows::SparseF32(_) => Rows::SparseF32(SparseRows::empty()),
            Rows::SparseF64(_) => Rows::SparseF64(SparseRows::empty()),
        }
    }

    pub(super) fn slice(&self, dim: usize, from: usize, to: usize) -> Rows<'_> {
        match self {
            Rows::F32(values) => Rows::F32(Cow::Borrowed(&values[from * dim..to * dim])),
            Rows::F64(values) => Rows::F64(Cow::Borrowed(&values[from * dim..to * dim])),
            Rows::SparseF32(rows) => Rows::SparseF32(rows.slice(from, to)),
            Rows::SparseF64(rows) => Rows::SparseF64(rows.slice(from, to)),
        }
    }

    /// A copy of one row, zeros included.
    pub(super) fn row(&self, dim: usize, row: usize) -> Vec<f64> {
        fn dense<T: Scalar>(values: &[T]) -> Vec<f64> {
            values.iter().map(|x| x.to_f64()).collect()
        }
        fn sparse<T: Scalar>(dim: usize, (columns, values): (&[u32], &[T])) -> Vec<f64> {
            let mut full = vec![0.0; dim];
            columns.iter().zip(values).for_each(|(&column, x)| full[column as usize] = x.to_f64());
            full
        }
        match self {
            Rows::F32(values) => dense(&values[row * dim..(row + 1) * dim]),
            Rows::F64(values) => dense(&values[row * dim..(row + 1) * dim]),
            Rows::SparseF32(rows) => sparse(dim, rows.row(row)),
            Rows::SparseF64(rows) => sparse(dim, rows.row(row)),
        }
    }

    /// A copy of all rows, zeros included, in double precision.
    pub fn to_dense(&self, dim: usize) -> Vec<f64> {
        let count = match self {
            Rows::F32(values) => return values.iter().copied().map(f64::from).collect(),
            Rows::F64(values) => return values.to_vec(),
            Rows::SparseF32(rows) => rows.len(),
            Rows::SparseF64(rows) => rows.len(),
        };
        (0..count).flat_map(|row| self.row(dim, row)).collect()
    }

    /// The error of the first bad row.
    pub(super) fn validate(&self, dim: usize) -> Result<()> {
        fn dense<T: Scalar>(dim: usize, values: &[T]) -> Result<()> {
            first_error(values.len() / dim, values.len(), |row| row_error(row, &values[row * dim..(row + 1) * dim]))
        }
        match self {
            Rows::F32(values) => dense(dim, values),
            Rows::F64(values) => dense(dim, values),
            Rows::SparseF32(rows) => rows.validate(dim),
            Rows::SparseF64(rows) => rows.validate(dim),
        }
    }
}

/// Rows of which only some coordinates, the entries, are stored (CSR); all others are 0.
///
/// In validated rows the columns of a row ascend strictly and are less than the dimension.
#[derive(Debug, Clone, PartialEq)]
pub struct SparseRows<'a, T: Clone> {
    /// Row i has the entries `starts[i] .. starts[i + 1]`; the first start need not be 0.
    starts: Cow<'a, [usize]>,
    columns: Cow<'a, [u32]>,
    values: Cow<'a, [T]>,
}

impl<'a, T: Scalar> SparseRows<'a, T> {
    /// Takes the three arrays of CSR, as [`RowBatch::sparse`](super::RowBatch::sparse) does,
    /// without validating them.
    pub fn new(starts: impl Into<Cow<'a, [usize]>>, columns: impl Into<Cow<'a, [u32]>>, values: impl Into<Cow<'a, [T]>>) -> Self {
        SparseRows { starts: starts.into(), columns: columns.into(), values: values.into() }
    }

    /// No rows, which own their memory.
    pub(super) fn empty() -> Self {
        SparseRows::new(vec![0], Vec::new(), Vec::new())
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Whether the three arrays describe rows of this dimension; the lengths of rows are not looked
    /// at.
    pub(super) fn validate_shape(&self, dim: usize) -> Result<()> {
        let SparseRows { starts, columns, values } = self;
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
        first_error(starts.len() - 1, columns.len(), |row| {
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
        })
    }

    fn validate(&self, dim: usize) -> Result<()> {
        self.validate_shape(dim)?;
        first_error(self.len(), self.entries(), |row| self.length(row).and_then(|length| length.check(row)).err())
    }

    /// The length of a row.
    pub(super) fn length(&self, row: usize) -> Result<Length> {
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

    /// The number of entries of all rows.
    pub fn entries(&self) -> usize {
        self.starts[self.len()] - self.starts[0]
    }

    /// The starts of the rows among the entries, and the columns and values of the entries.
    pub fn parts(&self) -> (&[usize], &[u32], &[T]) {
        (&self.starts, &self.columns, &self.values)
    }

    /// The same, copied only where they are borrowed.
    pub fn into_parts(self) -> (Vec<usize>, Vec<u32>, Vec<T>) {
        (self.starts.into_owned(), self.columns.into_owned(), self.values.into_owned())
    }

    fn slice(&self, from: usize, to: usize) -> SparseRows<'_, T> {
        let starts = Cow::Borrowed(&self.starts[from..=to]);
        SparseRows { starts, columns: Cow::Borrowed(&self.columns), values: Cow::Borrowed(&self.values) }
    }

    /// Appends one row.
    pub(super) fn push(&mut self, (columns, values): (&[u32], &[T])) {
        self.columns.to_mut().extend_from_slice(columns);
        let out = self.values.to_mut();
        out.extend_from_slice(values);
        self.starts.to_mut().push(out.len());
    }

    /// Appends rows, in another precision if need be.
    pub(super) fn extend<F: Scalar>(&mut self, added: &SparseRows<F>) {
        let (Some(&first), Some(&last)) = (added.starts.first(), added.starts.last()) else { return };
        let before = self.values.len();
        self.columns.to_mut().extend_from_slice(&added.columns[first..last]);
        self.values.to_mut().extend(added.values[first..last].iter().map(|x| T::from_f64(x.to_f64())));
        self.starts.to_mut().extend(added.starts[1..].iter().map(|start| before + start - first));
    }

    /// Divides each row that is not of unit length by its length, in place; returns the number of
    /// such rows. The shape must have been validated.
    pub(super) fn rescale(&mut self) -> Result<usize> {
        let mut changed = 0;
        for row in 0..self.len() {
            let length = self.length(row)?;
            if !is_unit(length.value()) {
                changed += 1;
                let values = &mut self.values.to_mut()[self.starts[row]..self.starts[row + 1]];
                values.iter_mut().for_each(|x| *x = T::from_f64(length.divide(x.to_f64())));
            }
        }
        Ok(changed)
    }

    /// Keeps only the first rows, which begin at entry 0.
    pub(super) fn truncate(&mut self, rows: usize) {
        let starts = self.starts.to_mut();
        starts.truncate(rows + 1);
        let entries = starts.last().copied().unwrap_or_default();
        self.columns.to_mut().truncate(entries);
        self.values.to_mut().truncate(entries);
    }
}
