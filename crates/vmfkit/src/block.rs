//! [`Block`]: unit rows, checked once. The only door by which data enters.

use crate::error::{Error, Result};
use std::borrow::Cow;

/// A row whose length is within this of 1 is on the sphere: f32 rows are, rows of 5 decimals are, half-precision rows are not.
pub const UNIT_TOLERANCE: f64 = 1e-5;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// The two types a row may be stored in.
pub trait Scalar: sealed::Sealed + Copy + Default + Send + Sync + 'static {
    /// The value as f64, exactly.
    fn to_f64(self) -> f64;
    /// The nearest value.
    fn from_f64(value: f64) -> Self;
    #[doc(hidden)]
    fn rows(values: Cow<'_, [Self]>) -> Rows<'_>;
}

impl Scalar for f32 {
    #[inline]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline]
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    fn rows(values: Cow<'_, [Self]>) -> Rows<'_> {
        Rows::F32(values)
    }
}

impl Scalar for f64 {
    #[inline]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline]
    fn from_f64(value: f64) -> Self {
        value
    }
    fn rows(values: Cow<'_, [Self]>) -> Rows<'_> {
        Rows::F64(values)
    }
}

/// The values of a block, row by row.
#[derive(Debug, Clone)]
pub enum Rows<'a> {
    /// Single precision.
    F32(Cow<'a, [f32]>),
    /// Double precision.
    F64(Cow<'a, [f64]>),
}

/// Unit rows of one dimension, with optional weights.
///
/// A block borrows the caller's rows; only rescaling copies them. Rows are counted from 0, and an error names the first bad one.
/// A row whose length is off by e, within the tolerance, is used as it is: its distance from a direction counts e^2/2 too much, which
/// matters only for concentrations of the order 1/e^2. Rescale if you have such.
///
/// ```
/// use vmfkit::{Block, Error};
/// let block = Block::new(2, &[1.0, 0.0, 0.6, 0.8])?;
/// assert_eq!(block.len(), 2);
/// assert_eq!(Block::new(2, &[1.0, 0.0, 3.0, 4.0]).unwrap_err(), Error::NotUnit { row: 1, norm: 5.0 });
/// let (block, rescaled) = Block::rescaled(2, &[1.0, 0.0, 3.0, 4.0])?;
/// assert_eq!((block.len(), rescaled), (2, 1));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Block<'a> {
    dim: usize,
    len: usize,
    rows: Rows<'a>,
    weights: Option<&'a [f64]>,
}

impl<'a> Block<'a> {
    /// Takes rows that have unit length to within [`UNIT_TOLERANCE`], and refuses any other.
    pub fn new<T: Scalar>(dim: usize, values: &'a [T]) -> Result<Self> {
        let len = row_count(dim, values.len())?;
        for (row, coordinates) in values.chunks_exact(dim).enumerate() {
            let norm = Length::of_row(row, coordinates)?.value();
            if !is_unit(norm) {
                return Err(Error::NotUnit { row, norm });
            }
        }
        Ok(Block { dim, len, rows: T::rows(Cow::Borrowed(values)), weights: None })
    }

    /// Divides each row by its length; also says how many rows were not of unit length.
    pub fn rescaled<T: Scalar>(dim: usize, values: &[T]) -> Result<(Block<'static>, usize)> {
        let len = row_count(dim, values.len())?;
        let mut out = Vec::with_capacity(values.len());
        let mut changed = 0;
        for (row, coordinates) in values.chunks_exact(dim).enumerate() {
            let length = Length::of_row(row, coordinates)?;
            changed += usize::from(!is_unit(length.value()));
            out.extend(coordinates.iter().map(|x| T::from_f64(length.divide(x.to_f64()))));
        }
        Ok((Block { dim, len, rows: T::rows(Cow::Owned(out)), weights: None }, changed))
    }

    /// The same rows, each counted as often as its weight says.
    pub fn with_weights(mut self, weights: &'a [f64]) -> Result<Self> {
        if weights.len() != self.len {
            return Err(Error::WeightCount { rows: self.len, found: weights.len() });
        }
        if let Some((row, &value)) = weights.iter().enumerate().find(|(_, w)| !(w.is_finite() && **w >= 0.0)) {
            return Err(Error::Weight { row, value });
        }
        let total: f64 = weights.iter().sum();
        if !total.is_finite() {
            return Err(Error::Option { option: "the sum of the weights", range: "finite", value: total });
        }
        self.weights = Some(weights);
        Ok(self)
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

    /// The rows' values.
    pub fn rows(&self) -> &Rows<'a> {
        &self.rows
    }

    /// The rows' weights; without any, each row weighs 1.
    pub fn weights(&self) -> Option<&'a [f64]> {
        self.weights
    }

    /// Rows `from .. to` as a block of their own, without a copy or a second check.
    ///
    /// # Panics
    /// If `from > to` or `to` is past the last row.
    pub fn slice(&self, from: usize, to: usize) -> Block<'_> {
        let range = from * self.dim..to * self.dim;
        let rows = match &self.rows {
            Rows::F32(values) => Rows::F32(Cow::Borrowed(&values[range])),
            Rows::F64(values) => Rows::F64(Cow::Borrowed(&values[range])),
        };
        Block { dim: self.dim, len: to - from, rows, weights: self.weights.map(|w| &w[from..to]) }
    }
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

    pub(crate) fn divide(self, x: f64) -> f64 {
        x / self.scale / self.rest
    }
}

/// Sum of (x / divisor)^2, in eight running sums so that it vectorises.
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
