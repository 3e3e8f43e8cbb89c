//! [`Distinct`]: a sample of rows in which each row occurs once.

use crate::error::Result;
use crate::rows::{LARGEST_WEIGHT, RowBatch, Rows, Scalar};
use std::collections::HashMap;
use std::hash::Hasher;
use twox_hash::XxHash3_64;

/// Rows of a sample without their copies and without rows of weight 0. A row has the weight of all
/// its copies, so that a row of weight 2 calibrates like a row given twice: leaving a row out leaves
/// its copies out, and copies do not confirm each other.
pub(super) struct Distinct<'a> {
    pub rows: RowBatch<'a>,
    /// The label of each row, if labels are known. Equal rows with different labels are no copies.
    pub labels: Option<Vec<u32>>,
    /// The weight of each row and its copies in the fit.
    pub left_out: Vec<f64>,
    /// Rows that were merged with an equal one.
    pub merged: u64,
}

impl<'a> Distinct<'a> {
    /// Of a validated sample, whose rows have these weights in the fit.
    pub fn new(
        sample: &'a RowBatch,
        labels: Option<&[u32]>,
        weight_in_fit: impl Fn(usize) -> f64,
        buffer: &'a mut RowBatch<'static>,
    ) -> Result<Self> {
        let weight = |row: usize| sample.weights().map_or(1.0, |weights| weights[row]);
        let label = |row: usize| labels.map(|labels| labels[row]);
        let mut positions: HashMap<(u64, Option<u32>), usize> = HashMap::with_capacity(sample.len());
        let (mut kept, mut weights, mut left_out, mut merged) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for row in (0..sample.len()).filter(|&row| weight(row) > 0.0) {
            let position = *positions.entry((hash(sample.rows(), sample.dim(), row), label(row))).or_insert(kept.len());
            if position < kept.len() {
                merged += 1;
                weights[position] += weight(row);
                left_out[position] += weight_in_fit(row);
            } else {
                kept.push(row);
                weights.push(weight(row));
                left_out.push(weight_in_fit(row));
            }
        }
        // Rows without any weight are an error of those who need some.
        if kept.is_empty() || kept.len() == sample.len() {
            let left_out = (0..sample.len()).map(weight_in_fit).collect();
            return Ok(Distinct {
                rows: sample.slice(0, sample.len()),
                labels: labels.map(<[u32]>::to_vec),
                left_out,
                merged: 0,
            });
        }
        weights.iter_mut().for_each(|weight| *weight = weight.min(LARGEST_WEIGHT));
        let rows = sample.gather(&kept, buffer)?.with_weights(weights)?;
        let labels = labels.map(|labels| kept.iter().map(|&row| labels[row]).collect());
        Ok(Distinct { rows, labels, left_out, merged })
    }
}

/// A hash of the numbers of a row. Of a million rows, two unequal ones have the same hash with a
/// probability of 3e-8.
fn hash(rows: &Rows, dim: usize, row: usize) -> u64 {
    let mut hasher = XxHash3_64::new();
    let range = row * dim..(row + 1) * dim;
    match rows {
        Rows::F32(values) => write(&mut hasher, &values[range]),
        Rows::F64(values) => write(&mut hasher, &values[range]),
        Rows::SparseF32(rows) => write_sparse(&mut hasher, rows.row(row)),
        Rows::SparseF64(rows) => write_sparse(&mut hasher, rows.row(row)),
    }
    hasher.finish()
}

fn write<T: Scalar>(hasher: &mut XxHash3_64, values: &[T]) {
    // -0 equals 0.
    values.iter().for_each(|x| hasher.write(&(x.to_f64() + 0.0).to_le_bytes()));
}

fn write_sparse<T: Scalar>(hasher: &mut XxHash3_64, (columns, values): (&[u32], &[T])) {
    columns.iter().for_each(|column| hasher.write(&column.to_le_bytes()));
    write(hasher, values);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_merged_and_rows_without_weight_dropped() {
        let rows = [1.0, 0.0, 0.6, 0.8, 1.0, -0.0, 0.0, 1.0, 0.6, 0.8, 1.0, 0.0];
        let labels = [0, 1, 0, 1, 2, 0];
        let weighted = RowBatch::new(2, &rows).unwrap().with_weights(vec![1.0, 2.0, 3.0, 0.0, 1.0, 4.0]).unwrap();
        let (starts, columns) = ((0..=6).map(|row| 2 * row).collect::<Vec<_>>(), [0, 1].repeat(6));
        let sparse = RowBatch::sparse(2, &starts, &columns, &rows).unwrap();
        let sparse = sparse.with_weights(weighted.weights().unwrap().to_vec()).unwrap();
        for sample in [weighted, sparse] {
            let mut buffer = RowBatch::default();
            let found = Distinct::new(&sample, Some(&labels), |row| row as f64, &mut buffer).unwrap();
            assert_eq!(found.rows.weights().unwrap(), [8.0, 2.0, 1.0]);
            assert_eq!((found.labels.unwrap(), found.left_out, found.merged), (vec![0, 1, 2], vec![7.0, 1.0, 4.0], 2));
            let mut buffer = RowBatch::default();
            let found = Distinct::new(&sample, None, |_| 1.0, &mut buffer).unwrap();
            assert_eq!(
                (found.rows.row(1), found.rows.weights().unwrap().to_vec(), found.merged),
                (vec![0.6, 0.8], vec![8.0, 3.0], 3)
            );
        }
    }

    #[test]
    fn a_sample_without_copies_is_not_copied() {
        let rows = [1.0f32, 0.0, 0.6, 0.8];
        let batch = RowBatch::new(2, &rows).unwrap();
        let mut buffer = RowBatch::default();
        let found = Distinct::new(&batch, None, |_| 3.0, &mut buffer).unwrap();
        assert_eq!((found.rows.len(), found.rows.weights(), found.left_out), (2, None, vec![3.0, 3.0]));
        let nothing = batch.with_weights(vec![0.0, 0.0]).unwrap();
        let mut buffer = RowBatch::default();
        assert_eq!(Distinct::new(&nothing, None, |_| 1.0, &mut buffer).unwrap().rows.len(), 2);
    }
}
