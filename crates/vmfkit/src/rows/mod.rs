//! [`RowBatch`]: unit rows, the form in which all functions take data.

pub(crate) mod aligned;
mod byte_rows;
mod gather;
mod grow;
#[cfg(feature = "ndarray")]
mod ndarray;
#[cfg(test)]
mod tests;
mod validate;
mod values;

pub use crate::error::LARGEST_WEIGHT;
use crate::error::{Error, Result};
use byte_rows::ByteRows;
pub use bytes::Bytes;
use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;
pub(crate) use validate::Length;
pub use validate::UNIT_TOLERANCE;
use validate::{is_unit, row_count};
use values::row_error;
pub use values::{Rows, Scalar, SparseRows};
pub use vmfkit_kernels::Float;
use vmfkit_kernels::Kernels;

/// Unit rows of one dimension, with optional weights.
///
/// A batch borrows the caller's rows, dense or sparse, or owns them. Rows are counted from 0, and
/// an error names the first bad one. A row whose length is off by e, within the tolerance, is used
/// as it is: half its squared distance from a direction is too large by e^2/2, which matters only
/// for concentrations of the order 1/e^2. Rescale the rows in that case.
///
/// [`new`](Self::new) and similar constructors validate rows. A [`Source`](crate::source::Source)
/// may give batches that are not yet validated ([`unvalidated`](Self::unvalidated),
/// [`from_bytes`](Self::from_bytes)): the E step validates them while they are in cache; elsewhere,
/// [`validated`](Self::validated) does. Functions that need validated rows panic if they are not.
///
/// ```
/// use vmfkit::{RowBatch, Error};
/// let batch = RowBatch::new(2, &[1.0, 0.0, 0.6, 0.8])?;
/// assert_eq!(batch.len(), 2);
/// assert_eq!(RowBatch::new(2, &[1.0, 0.0, 3.0, 4.0]).unwrap_err(), Error::NotUnit { row: 1, norm: 5.0 });
/// let (batch, rescaled) = RowBatch::rescaled(2, &[1.0, 0.0, 3.0, 4.0])?;
/// assert_eq!((batch.len(), rescaled), (2, 1));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct RowBatch<'a> {
    dim: usize,
    len: usize,
    values: Values<'a>,
    weights: Option<Cow<'a, [f64]>>,
    is_validated: bool,
    origin: Option<Origin>,
}

#[derive(Debug, Clone)]
enum Values<'a> {
    Numbers(Rows<'a>),
    Bytes(ByteRows),
}

/// Adds the origin of bad rows, such as a file, to their errors.
pub trait RowOrigin: Debug + Send + Sync {
    /// The error with its location; rows in it are counted from the first row of the batch.
    fn locate(&self, error: Error) -> Error;
}

/// Where rows are from, and the number of the first of them there.
#[derive(Debug, Clone)]
struct Origin {
    source: Arc<dyn RowOrigin>,
    first_row: usize,
}

impl<'a> RowBatch<'a> {
    fn of_rows(dim: usize, len: usize, rows: Rows<'a>) -> Self {
        RowBatch { dim, len, values: Values::Numbers(rows), weights: None, is_validated: true, origin: None }
    }

    /// Borrows rows that have unit length to within [`UNIT_TOLERANCE`], and rejects any others.
    pub fn new<T: Scalar>(dim: usize, values: &'a [T]) -> Result<Self> {
        let len = row_count(dim, values.len())?;
        let rows = T::rows(Cow::Borrowed(values));
        rows.validate(dim)?;
        Ok(RowBatch::of_rows(dim, len, rows))
    }

    /// Divides each row that is not of unit length by its length; also returns the number of such
    /// rows.
    pub fn rescaled<T: Scalar>(dim: usize, values: &[T]) -> Result<(RowBatch<'static>, usize)> {
        let len = row_count(dim, values.len())?;
        let mut out = values.to_vec();
        let changed = rescale(dim, &mut out)?;
        Ok((RowBatch::of_rows(dim, len, T::rows(Cow::Owned(out))), changed))
    }

    /// Validates rows as [`new`](Self::new) does and owns them, for batches that outlive the
    /// function that creates them or move between threads; [`into_rows`](Self::into_rows) returns
    /// them.
    pub fn owned<T: Scalar>(dim: usize, values: Vec<T>) -> Result<RowBatch<'static>> {
        RowBatch::unvalidated(dim, values)?.into_validated()
    }

    /// Validates sparse rows as [`sparse`](Self::sparse) does and owns them.
    pub fn sparse_owned<T: Scalar>(
        dim: usize,
        starts: Vec<usize>,
        columns: Vec<u32>,
        values: Vec<T>,
    ) -> Result<RowBatch<'static>> {
        RowBatch::unvalidated_sparse(dim, starts, columns, values).into_validated()
    }

    /// Borrows sparse rows of unit length to within [`UNIT_TOLERANCE`], in the three arrays of CSR
    /// that scipy calls `indptr`, `indices` and `data`: row i has
    /// `values[starts[i]..starts[i + 1]]` in the columns `columns[starts[i]..starts[i + 1]]`.
    ///
    /// ```
    /// use vmfkit::RowBatch;
    /// let batch = RowBatch::sparse(1000, &[0, 1, 3], &[7, 2, 999], &[1.0, 0.6, 0.8])?;
    /// assert_eq!((batch.len(), batch.dim()), (2, 1000));
    /// # Ok::<(), vmfkit::Error>(())
    /// ```
    pub fn sparse<T: Scalar>(dim: usize, starts: &'a [usize], columns: &'a [u32], values: &'a [T]) -> Result<Self> {
        RowBatch::unvalidated_sparse(dim, starts, columns, values).into_validated()
    }

    /// Divides each sparse row by its length; also returns the number of rows that were not of unit
    /// length.
    pub fn sparse_rescaled<T: Scalar>(
        dim: usize,
        starts: &[usize],
        columns: &[u32],
        values: &[T],
    ) -> Result<(RowBatch<'static>, usize)> {
        let rows = SparseRows::new(starts, columns, values);
        rows.validate_shape(dim)?;
        let mut owned = SparseRows::empty();
        owned.extend(&rows);
        let changed = owned.rescale()?;
        Ok((RowBatch::of_rows(dim, owned.len(), T::sparse_rows(owned)), changed))
    }

    /// Takes dense rows without validating them.
    ///
    /// # Errors
    /// A dimension below 2; values that do not fill whole rows.
    pub fn unvalidated<T: Scalar>(dim: usize, values: impl Into<Cow<'a, [T]>>) -> Result<Self> {
        RowBatch::from_rows(dim, T::rows(values.into()))
    }

    /// Takes sparse rows without validating them: not even that columns are less than the
    /// dimension.
    pub fn unvalidated_sparse<T: Scalar>(
        dim: usize,
        starts: impl Into<Cow<'a, [usize]>>,
        columns: impl Into<Cow<'a, [u32]>>,
        values: impl Into<Cow<'a, [T]>>,
    ) -> Self {
        let rows = SparseRows::new(starts, columns, values);
        RowBatch { is_validated: false, ..RowBatch::of_rows(dim, rows.len(), T::sparse_rows(rows)) }
    }

    /// Takes rows without validating them, as [`unvalidated`](Self::unvalidated) and
    /// [`unvalidated_sparse`](Self::unvalidated_sparse) do; [`into_rows`](Self::into_rows) is the
    /// inverse.
    ///
    /// # Errors
    /// A dimension below 2 and values that do not fill whole rows, if the rows are dense.
    pub fn from_rows(dim: usize, rows: Rows<'a>) -> Result<Self> {
        let len = match &rows {
            Rows::F32(values) => row_count(dim, values.len())?,
            Rows::F64(values) => row_count(dim, values.len())?,
            Rows::SparseF32(rows) => rows.len(),
            Rows::SparseF64(rows) => rows.len(),
        };
        Ok(RowBatch { is_validated: false, ..RowBatch::of_rows(dim, len, rows) })
    }

    /// Takes dense rows as bytes, without a copy and without validating them: numbers of `T`, f32
    /// or f64, in the byte order of this machine. Buffers need not be aligned; each contains
    /// complete numbers, and together they contain complete rows.
    ///
    /// ```
    /// use vmfkit::{Error, RowBatch};
    /// let bytes: Vec<u8> = [0.6f32, 0.8, 3.0, 4.0].into_iter().flat_map(f32::to_ne_bytes).collect();
    /// let batch = RowBatch::from_bytes::<f32>(2, [bytes[..8].to_vec().into(), bytes[8..].to_vec().into()])?;
    /// assert_eq!(batch.len(), 2);
    /// assert_eq!(batch.validated(&mut RowBatch::default()).unwrap_err(), Error::NotUnit { row: 1, norm: 5.0 });
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// A dimension below 2; buffers that do not contain complete numbers and rows.
    pub fn from_bytes<T: Scalar>(dim: usize, buffers: impl IntoIterator<Item = Bytes>) -> Result<Self> {
        let rows = ByteRows::new::<T>(dim, buffers)?;
        let len = rows.len();
        Ok(RowBatch { dim, len, values: Values::Bytes(rows), weights: None, is_validated: false, origin: None })
    }

    /// The same rows with weights from 0 to [`LARGEST_WEIGHT`]; a row of weight w counts as w rows.
    pub fn with_weights(mut self, weights: impl Into<Cow<'a, [f64]>>) -> Result<Self> {
        let weights = weights.into();
        if weights.len() != self.len {
            return Err(Error::WeightCount { rows: self.len, found: weights.len() });
        }
        if let Some((row, &value)) = weights.iter().enumerate().find(|(_, w)| !(0.0..=LARGEST_WEIGHT).contains(*w)) {
            return Err(self.located(Error::Weight { row, value }));
        }
        self.weights = Some(weights);
        Ok(self)
    }

    /// Like [`with_weights`](Self::with_weights), but `weights` are those of a whole data set, in
    /// which this batch begins at row `first`; errors count rows from the beginning of the data
    /// set.
    pub fn with_weights_from(mut self, first: usize, weights: &'a [f64]) -> Result<Self> {
        let last = first + self.len;
        let part = weights.get(first..last).ok_or(Error::WeightCount { rows: last, found: weights.len() })?;
        let origin = self.origin.take();
        let weighted = self.with_weights(part).map_err(|mut error| {
            error.row_mut().into_iter().for_each(|row| *row += first);
            error
        })?;
        Ok(RowBatch { origin, ..weighted })
    }

    /// The same rows; their errors name this origin.
    pub fn with_origin(self, source: Arc<dyn RowOrigin>) -> Self {
        RowBatch { origin: Some(Origin { source, first_row: 0 }), ..self }
    }

    /// The same rows without weights.
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

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True for sparse rows.
    pub fn is_sparse(&self) -> bool {
        matches!(&self.values, Values::Numbers(rows) if rows.is_sparse())
    }

    /// True for rows in single precision.
    pub(crate) fn is_single(&self) -> bool {
        match &self.values {
            Values::Numbers(rows) => matches!(rows, Rows::F32(_) | Rows::SparseF32(_)),
            Values::Bytes(rows) => rows.is_single(),
        }
    }

    /// True if all rows are known to be unit rows.
    pub fn is_validated(&self) -> bool {
        self.is_validated
    }

    /// The numbers of validated rows.
    ///
    /// # Panics
    /// If the rows have not been [validated](Self::validated).
    pub fn rows(&self) -> &Rows<'a> {
        match &self.values {
            Values::Numbers(rows) if self.is_validated => rows,
            _ => panic!("the rows have not been validated; see RowBatch::validated"),
        }
    }

    /// The numbers of rows, validated or not.
    ///
    /// # Panics
    /// If the rows are [bytes](Self::from_bytes).
    pub fn unvalidated_rows(&self) -> &Rows<'a> {
        match &self.values {
            Values::Numbers(rows) => rows,
            Values::Bytes(_) => panic!("the rows are bytes; see RowBatch::validated"),
        }
    }

    /// The bytes of all rows, buffer by buffer, if the rows are [bytes](Self::from_bytes).
    pub(crate) fn byte_buffers(&self) -> Option<impl Iterator<Item = &[u8]>> {
        match &self.values {
            Values::Numbers(_) => None,
            Values::Bytes(rows) => Some(rows.buffers()),
        }
    }

    /// The rows `from .. to` in the precision of a kernel, which is not lower than theirs, if they
    /// are dense; or the number of the first bad row. They are in `buffer` if they have to be
    /// copied.
    #[inline(always)]
    pub(crate) fn kernel_rows<'r, T: Kernels + Scalar>(
        &'r self,
        from: usize,
        to: usize,
        buffer: &'r mut Vec<T>,
    ) -> std::result::Result<&'r [T], usize> {
        let range = from * self.dim..to * self.dim;
        let values = match &self.values {
            Values::Numbers(Rows::F32(values)) => T::view_f32(&values[range], buffer),
            Values::Numbers(Rows::F64(values)) => T::view_f64(&values[range], buffer),
            Values::Numbers(_) => unreachable!("sparse rows have a kernel of their own"),
            Values::Bytes(rows) => return rows.validated(from, to, buffer),
        };
        if !self.is_validated {
            let valid = values.chunks_exact(self.dim).take_while(|row| row_error(0, row).is_none()).count();
            if valid < to - from {
                return Err(from + valid);
            }
        }
        Ok(values)
    }

    /// The address of a row, to prefetch it, if rows of this type are validated just before they
    /// are used; past the last row, an address that need not be readable.
    #[inline(always)]
    pub(crate) fn address<T: Scalar>(&self, row: usize) -> Option<*const T> {
        let is_same = self.is_single() == (size_of::<T>() == size_of::<f32>());
        match &self.values {
            Values::Bytes(rows) if is_same => Some(rows.address(row).cast()),
            Values::Numbers(Rows::F32(values)) if is_same && !self.is_validated => {
                Some(values.as_ptr().wrapping_add(row * self.dim).cast())
            }
            Values::Numbers(Rows::F64(values)) if is_same && !self.is_validated => {
                Some(values.as_ptr().wrapping_add(row * self.dim).cast())
            }
            _ => None,
        }
    }

    /// The same, moved out of the batch; `None` if the rows are [bytes](Self::from_bytes).
    pub fn into_rows(self) -> Option<Rows<'a>> {
        match self.values {
            Values::Numbers(rows) => Some(rows),
            Values::Bytes(_) => None,
        }
    }

    /// The weights of the rows; if there are none, each row has weight 1.
    pub fn weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }

    /// Rows `from .. to` as a batch of their own, without copying them.
    ///
    /// # Panics
    /// If `from > to` or `to` is past the last row.
    pub fn slice(&self, from: usize, to: usize) -> RowBatch<'_> {
        assert!(from <= to && to <= self.len, "rows {from} .. {to} of {}", self.len);
        let values = match &self.values {
            Values::Numbers(rows) => Values::Numbers(rows.slice(self.dim, from, to)),
            Values::Bytes(rows) => Values::Bytes(rows.slice(from, to)),
        };
        let origin = self.origin.clone().map(|origin| Origin { first_row: origin.first_row + from, ..origin });
        let weights = self.weights.as_ref().map(|weights| Cow::Borrowed(&weights[from..to]));
        RowBatch { dim: self.dim, len: to - from, values, weights, is_validated: self.is_validated, origin }
    }

    /// A copy of one row, zeros included.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> Vec<f64> {
        match &self.values {
            Values::Numbers(rows) => rows.row(self.dim, row),
            Values::Bytes(rows) => rows.row(row),
        }
    }

    /// An error of these rows, with their origin.
    pub fn located(&self, mut error: Error) -> Error {
        let Some(Origin { source, first_row }) = &self.origin else { return error };
        error.row_mut().into_iter().for_each(|row| *row += first_row);
        source.locate(error)
    }

    /// The same rows, validated on all threads. Bytes are copied to `buffer`; other rows stay where
    /// they are.
    ///
    /// # Errors
    /// That of the first bad row.
    pub fn validated<'b>(self, buffer: &'b mut RowBatch<'static>) -> Result<RowBatch<'b>>
    where
        'a: 'b,
    {
        let Values::Bytes(rows) = &self.values else { return self.into_validated() };
        self.copy_bytes(rows, 0, self.len, buffer)?;
        Ok(RowBatch { weights: self.weights, ..buffer.slice(0, self.len) })
    }

    /// The same rows, validated on all threads. Bytes are copied to memory of their own; other rows
    /// stay where they are.
    ///
    /// # Errors
    /// That of the first bad row.
    pub fn into_validated(self) -> Result<Self> {
        match &self.values {
            _ if self.is_validated => return Ok(self),
            Values::Numbers(rows) => rows.validate(self.dim).map_err(|error| self.located(error))?,
            Values::Bytes(rows) => {
                let mut copy = RowBatch::default();
                self.copy_bytes(rows, 0, self.len, &mut copy)?;
                return Ok(RowBatch { weights: self.weights, ..copy });
            }
        }
        Ok(RowBatch { is_validated: true, ..self })
    }

    /// The same rows; bytes are converted to numbers in the memory of `buffer`, without being
    /// validated.
    pub fn into_numbers(self, mut buffer: RowBatch<'static>) -> Self {
        let RowBatch { dim, len, weights, origin, is_validated, values } = self;
        let Values::Bytes(rows) = values else { return RowBatch { dim, len, values, weights, is_validated, origin } };
        // Nothing is validated while they are copied.
        let unchecked = RowBatch::of_rows(dim, len, Rows::default());
        unchecked.copy_bytes(&rows, 0, len, &mut buffer).expect("nothing was validated");
        RowBatch { weights, origin, is_validated, ..buffer }
    }

    /// The same rows, which are validated if they are sparse.
    pub(crate) fn validated_if_sparse(&self) -> Result<RowBatch<'_>> {
        let batch = self.slice(0, self.len);
        if self.is_sparse() { batch.into_validated() } else { Ok(batch) }
    }
}

/// Divides each row that is not of unit length by its length, in place; returns the number of such
/// rows. Rows of unit length keep every bit.
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
