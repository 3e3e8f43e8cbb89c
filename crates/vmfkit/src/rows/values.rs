//! [`Rows`]: the numbers of rows, dense or sparse, in single or double precision.

use super::validate::{Length, first_error, is_clearly_unit_double, is_clearly_unit_single, row_count};
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

impl Rows<'_> {
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
    pub(super) fn new(
        starts: impl Into<Cow<'a, [usize]>>,
        columns: impl Into<Cow<'a, [u32]>>,
        values: impl Into<Cow<'a, [T]>>,
    ) -> Self {
        SparseRows { starts: starts.into(), columns: columns.into(), values: values.into() }
    }

    fn empty() -> Self {
        SparseRows::new(vec![0], Vec::new(), Vec::new())
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Whether the three arrays describe rows of this dimension; the lengths of rows are not looked at.
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

    /// Appends one row, in another precision if need be.
    pub(super) fn push<F: Scalar>(&mut self, (columns, values): (&[u32], &[F])) {
        self.columns.to_mut().extend_from_slice(columns);
        let out = self.values.to_mut();
        out.extend(values.iter().map(|x| T::from_f64(x.to_f64())));
        self.starts.to_mut().push(out.len());
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
