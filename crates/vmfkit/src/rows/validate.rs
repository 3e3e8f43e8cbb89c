//! Validation of rows: lengths, and a search for the first bad row on all threads.

use crate::error::{Error, Result};
use rayon::prelude::*;
use vmfkit_kernels::Float;

/// A row is accepted as a unit vector if its length differs from 1 by at most this.
///
/// Unit rows in f32 and unit rows rounded to 5 decimals are accepted; those in half precision are
/// not.
pub const UNIT_TOLERANCE: f64 = 1e-5;

/// Up to this dimension, a sum of squares in sixteen partial sums of single precision is off by
/// less than [`UNIT_TOLERANCE`]: 2048/16 + 18 roundings of 2^-24.
const LONGEST_IN_SINGLE: usize = 2048;

/// True if the row is certainly of unit length, by one sum in single precision, which halves the
/// time. Half of the tolerance is reserved for rounding. Rows near the limit need [`Length`].
#[inline(always)]
pub(super) fn is_clearly_unit_single(coordinates: &[f32]) -> bool {
    let mut sums = [0f32; 16];
    let chunks = coordinates.chunks_exact(16);
    let rest: f32 = chunks.remainder().iter().map(|x| x * x).sum();
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, x)| *sum += x * x);
    }
    let square = sums.iter().sum::<f32>() + rest;
    // The relative error of the square is twice that of the length.
    coordinates.len() <= LONGEST_IN_SINGLE && (square - 1.0).abs() <= UNIT_TOLERANCE as f32
}

/// The same in double precision, without the square root.
#[inline(always)]
pub(super) fn is_clearly_unit_double(coordinates: &[f64]) -> bool {
    (sum_of_squares(coordinates, 1.0) - 1.0).abs() <= UNIT_TOLERANCE
}

/// The number of rows of this dimension that these values make.
pub(super) fn row_count(dim: usize, values: usize) -> Result<usize> {
    if dim < 2 {
        return Err(Error::Dimension { dim });
    }
    if !values.is_multiple_of(dim) {
        return Err(Error::PartialRow { values, dim });
    }
    Ok(values / dim)
}

/// Values that one thread validates at a time; several threads validate more than these.
pub(super) const VALUES_PER_TASK: usize = 1 << 16;

/// The error of the first bad row, on several threads if there are many values.
pub(super) fn first_error(rows: usize, values: usize, error_of: impl Fn(usize) -> Option<Error> + Sync + Send) -> Result<()> {
    let rows_per_task = (rows / (values / VALUES_PER_TASK + 1)).max(1);
    let found = if rows <= rows_per_task {
        (0..rows).find_map(error_of)
    } else {
        (0..rows).into_par_iter().with_min_len(rows_per_task).find_map_first(error_of)
    };
    found.map_or(Ok(()), Err)
}

pub(super) fn is_unit(norm: f64) -> bool {
    (norm - 1.0).abs() <= UNIT_TOLERANCE
}

/// The Euclidean length of a row, as a product of which neither factor overflows or underflows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Length {
    scale: f64,
    rest: f64,
}

impl Length {
    /// The length of a row, or what is wrong with it.
    pub(crate) fn of_row<T: Float>(row: usize, coordinates: &[T]) -> Result<Self> {
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

    /// Refuses the row with this length and this number unless it is a unit row.
    pub(super) fn check(self, row: usize) -> Result<()> {
        let norm = self.value();
        if is_unit(norm) { Ok(()) } else { Err(Error::NotUnit { row, norm }) }
    }

    pub(crate) fn divide(self, x: f64) -> f64 {
        x / self.scale / self.rest
    }
}

/// Sum of (x / divisor)^2, in eight running sums so that it vectorises.
#[inline(always)]
fn sum_of_squares<T: Float>(coordinates: &[T], divisor: f64) -> f64 {
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

    #[test]
    fn a_quick_look_accepts_no_row_that_a_close_one_refuses() {
        for dim in [2, 15, 16, 17, 768, 2048, 2049, 5000] {
            for off in [-3e-5, -1.2e-5, -0.9e-5, -0.4e-5, 0.0, 0.4e-5, 0.9e-5, 1.2e-5, 3e-5] {
                let coordinate = ((1.0 + off) / (dim as f64).sqrt()) as f32;
                let row = vec![coordinate; dim];
                let close = is_unit(Length::of_row(0, &row).unwrap().value());
                assert_eq!(crate::RowBatch::new(dim, &row).is_ok(), close, "dimension {dim}, off by {off}");
                assert!(close || !is_clearly_unit_single(&row));
                let double: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
                assert_eq!(is_clearly_unit_double(&double), off.abs() < 0.5e-5, "dimension {dim}, off by {off}");
                assert!(
                    dim > LONGEST_IN_SINGLE || off.abs() > 0.3e-5 || is_clearly_unit_single(&row),
                    "dimension {dim}, off by {off}"
                );
            }
        }
        assert!(!is_clearly_unit_single(&[f32::NAN, 1.0]) && !is_clearly_unit_single(&[f32::INFINITY, 1.0]));
        assert!(!is_clearly_unit_double(&[f64::NAN, 1.0]) && !is_clearly_unit_double(&[f64::INFINITY, 1.0]));
    }
}
