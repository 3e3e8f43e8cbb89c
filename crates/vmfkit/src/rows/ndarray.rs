//! Blocks of rows from two-dimensional views of ndarray 0.17, with the feature `ndarray`.

use crate::error::{Error, Result};
use crate::rows::{RowBatch, Scalar};
use ndarray::ArrayView2;

/// The rows of an array, which must have unit length. They are borrowed if they are contiguous, and
/// copied otherwise, as for a transposed array or every second column.
///
/// ```
/// use ndarray::array;
/// use vmfkit::{RowBatch, VonMisesFisher};
/// let rows = array![[0.6, 0.8], [1.0, 0.0], [0.0, -1.0]];
/// let block = RowBatch::try_from(rows.view())?;
/// assert_eq!((block.len(), block.dim()), (3, 2));
/// assert_eq!(VonMisesFisher::new(vec![0.0, 1.0], 5.0)?.deviations(&block)?[2], 2.0);
/// # Ok::<(), vmfkit::Error>(())
/// ```
impl<'a, T: Scalar> TryFrom<ArrayView2<'a, T>> for RowBatch<'a> {
    type Error = Error;

    fn try_from(rows: ArrayView2<'a, T>) -> Result<Self> {
        match rows.to_slice() {
            Some(values) => RowBatch::new(rows.ncols(), values),
            None => RowBatch::owned(rows.ncols(), rows.iter().copied().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Rows;
    use ndarray::array;
    use std::borrow::Cow;

    #[test]
    fn rows_are_borrowed_where_they_lie_one_behind_the_other() {
        let rows = array![[0.6f32, 0.8], [1.0, 0.0], [0.0, 1.0]];
        let block = RowBatch::try_from(rows.view()).unwrap();
        let Rows::F32(Cow::Borrowed(values)) = block.rows() else { panic!("borrowed rows of f32") };
        assert_eq!(values.as_ptr(), rows.as_ptr());
    }

    #[test]
    fn rows_of_a_transposed_array_are_its_columns() {
        let columns = array![[0.6, 1.0, 0.0], [0.8, 0.0, 1.0]];
        let block = RowBatch::try_from(columns.t()).unwrap();
        let rows: Vec<Vec<f64>> = (0..3).map(|row| block.row(row)).collect();
        assert_eq!(rows, [[0.6, 0.8], [1.0, 0.0], [0.0, 1.0]]);
    }

    #[test]
    fn arrays_that_are_no_unit_rows_are_refused() {
        assert_eq!(RowBatch::try_from(array![[1.0, 0.0], [3.0, 4.0]].view()).unwrap_err(), Error::NotUnit { row: 1, norm: 5.0 });
        assert_eq!(RowBatch::try_from(array![[1.0], [1.0]].view()).unwrap_err(), Error::Dimension { dim: 1 });
    }
}
