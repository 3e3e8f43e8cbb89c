//! [`TypicalRows`]: the rows of each component, and those that show best what it is about.

use super::{Mixture, check_temperature, ln_sum_exp};
use crate::error::Result;
use crate::rows::RowBatch;

/// The numbers of a row: component, ln density under it, probability of it.
const NUMBERS: usize = 3;
/// Numbers of rows in memory at a time: 8 MB.
const NUMBERS_AT_ONCE: usize = 1 << 20;

/// A row of the component it is assigned to.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct TypicalRow {
    /// Counted from 0 over all batches.
    pub row: u64,
    /// The ln density under its component.
    pub ln_density: f64,
}

/// The rows that are assigned to a component.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Members {
    /// Their number.
    pub rows: u64,
    /// The sum of their probabilities.
    pub probability: f64,
    /// Those of the highest density, best first; of equal rows the first.
    pub typical: Vec<TypicalRow>,
}

/// Counts the rows of each component over batches and keeps the most typical ones: those with the
/// highest density under it. All rows of a background are equally typical, so none is kept.
///
/// ```
/// use vmfkit::{Mixture, RowBatch, VonMisesFisher, mixture::TypicalRows};
/// let along = |x, y| VonMisesFisher::new(vec![x, y], 10.0);
/// let mixture = Mixture::new(vec![0.5, 0.5], vec![along(1.0, 0.0)?, along(0.0, 1.0)?])?;
/// let mut typical = TypicalRows::new(&mixture, 1);
/// typical.add(&RowBatch::new(2, &[0.8, 0.6, 1.0, 0.0, 0.6, 0.8])?)?;
/// assert_eq!((typical.members()[0].rows, typical.members()[0].typical[0].row), (2, 1));
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct TypicalRows<'m> {
    mixture: &'m Mixture,
    most: usize,
    temperature: f64,
    rows: u64,
    members: Vec<Members>,
}

impl<'m> TypicalRows<'m> {
    /// Keeps at most this many rows of each component.
    pub fn new(mixture: &'m Mixture, most: usize) -> Self {
        let members = vec![Members::default(); mixture.components().len()];
        TypicalRows { mixture, most, temperature: 1.0, rows: 0, members }
    }

    /// Sums probabilities at this [temperature](crate::calibrate::Calibration); 1 by default.
    pub fn temperature(self, temperature: f64) -> Self {
        TypicalRows { temperature, ..self }
    }

    /// Adds a batch of rows.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`](crate::Error::DimensionMismatch); a temperature that is not finite
    /// and above 0.
    pub fn add(&mut self, batch: &RowBatch) -> Result<()> {
        check_temperature(self.temperature)?;
        let ln_weights: Vec<f64> = self.mixture.weights().iter().map(|weight| weight.ln()).collect();
        let mut found = Vec::new();
        for from in (0..batch.len()).step_by(NUMBERS_AT_ONCE / NUMBERS) {
            let rows = batch.slice(from, batch.len().min(from + NUMBERS_AT_ONCE / NUMBERS));
            found.resize(NUMBERS * rows.len(), 0.0);
            self.mixture.for_each_row(&rows, NUMBERS, &mut found, |logits, out| {
                let component = (1..logits.len()).fold(0, |best, k| if logits[k] > logits[best] { k } else { best });
                let tempered: Vec<f64> = logits.iter().map(|z| z / self.temperature).collect();
                let probability = (tempered[component] - ln_sum_exp(&tempered)).exp();
                out.copy_from_slice(&[component as f64, logits[component] - ln_weights[component], probability]);
            })?;
            for numbers in found.chunks_exact(NUMBERS) {
                let component = numbers[0] as usize;
                let most = if self.mixture.is_background(component) { 0 } else { self.most };
                self.members[component].add(most, self.rows, numbers[1], numbers[2]);
                self.rows += 1;
            }
        }
        Ok(())
    }

    /// The number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The rows of each component, a background last.
    pub fn members(&self) -> &[Members] {
        &self.members
    }
}

impl Members {
    /// The mean probability with which the rows belong to the component; NaN without rows.
    pub fn mean_probability(&self) -> f64 {
        self.probability / self.rows as f64
    }

    fn add(&mut self, most: usize, row: u64, ln_density: f64, probability: f64) {
        self.rows += 1;
        self.probability += probability;
        if self.typical.len() >= most && self.typical.last().is_none_or(|last| !(ln_density > last.ln_density)) {
            return;
        }
        let position = self.typical.partition_point(|other| other.ln_density >= ln_density);
        self.typical.insert(position, TypicalRow { row, ln_density });
        self.typical.truncate(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::density::VonMisesFisher;

    #[test]
    fn the_best_rows_are_kept_in_order_and_of_equal_rows_the_first() {
        let mut members = Members::default();
        for (row, ln_density) in [1.0, 3.0, 2.0, 3.0, f64::NEG_INFINITY, 2.0].into_iter().enumerate() {
            members.add(3, row as u64, ln_density, 0.5);
        }
        assert_eq!((members.rows, members.mean_probability()), (6, 0.5));
        assert_eq!(members.typical.iter().map(|typical| typical.row).collect::<Vec<_>>(), [1, 3, 2]);
        let mut none = Members::default();
        none.add(0, 9, 5.0, 1.0);
        assert_eq!((none.rows, none.typical), (1, vec![]));
    }

    #[test]
    fn batches_do_not_change_the_rows_and_a_background_keeps_none() {
        let along = |x, y| VonMisesFisher::new(vec![x, y, 0.0], 8.0).unwrap();
        let mixture = Mixture::new(vec![0.3, 0.7], vec![along(1.0, 0.0), along(0.0, 1.0)]).unwrap();
        let mixture = mixture.with_background(0.2).unwrap();
        let (rows, _) = mixture.sample_rows::<f64>(500, 3).unwrap();
        let batch = RowBatch::new(3, &rows).unwrap();
        let summary = mixture.summarise_tempered(&batch, 1, 4.0).unwrap();
        let of_batches = |size: usize| {
            let mut typical = TypicalRows::new(&mixture, 4).temperature(4.0);
            (0..500).step_by(size).for_each(|from| typical.add(&batch.slice(from, (from + size).min(500))).unwrap());
            assert_eq!(typical.rows(), 500);
            typical.members().to_vec()
        };
        let members = of_batches(500);
        assert_eq!(of_batches(70), members);
        let densities = mixture.component_ln_densities(&batch).unwrap();
        for (k, members) in members.iter().enumerate() {
            let own = |row: &usize| summary.ranks[0].components[*row] as usize == k;
            let mut rows: Vec<usize> = (0..500).filter(own).collect();
            let probability: f64 = rows.iter().map(|row| summary.ranks[0].responsibilities[*row]).sum();
            assert!(members.rows == rows.len() as u64 && (members.probability - probability).abs() < 1e-9);
            rows.sort_by(|a, b| densities[3 * b + k].total_cmp(&densities[3 * a + k]));
            let expected: Vec<u64> = rows.iter().take(if k == 2 { 0 } else { 4 }).map(|row| *row as u64).collect();
            assert_eq!(members.typical.iter().map(|typical| typical.row).collect::<Vec<_>>(), expected);
        }
        assert!(TypicalRows::new(&mixture, 1).temperature(0.0).add(&batch).is_err());
    }
}
