//! Neighbours: are near rows in the same component? MATH.md (17.5).

use super::estimate::Estimate;
use super::skipped::Skipped;
use crate::calibrate::neighbours::{Neighbours, nearest_neighbours};
use crate::calibrate::{FEWEST_ROWS, NEIGHBOURS};
use crate::error::Result;
use crate::metrics::Agreement;
use crate::mixture::Mixture;
use crate::rows::RowBatch;

/// Groups of the jackknife: enough for a standard error with a relative error of a sixth.
const GROUPS: usize = 20;

/// A sample of the rows and their nearest neighbours within it; copies of a row are not neighbours.
pub(super) struct NearRows {
    rows: RowBatch<'static>,
    neighbours: Neighbours,
}

impl NearRows {
    /// The rows at these positions, which are in memory and validated.
    pub fn new(batch: &RowBatch, positions: &[usize]) -> Result<Self> {
        let mut rows = RowBatch::default();
        batch.gather(positions, &mut rows)?;
        let neighbours = nearest_neighbours(&rows, NEIGHBOURS)?;
        Ok(NearRows { rows, neighbours })
    }

    /// The adjusted mutual information of the components of rows and of their neighbours.
    pub fn agreement(&self, mixture: &Mixture) -> Result<std::result::Result<Estimate, Skipped>> {
        let with_neighbours = (0..self.rows.len()).filter(|&row| self.neighbours.of(row).next().is_some()).count();
        if with_neighbours < FEWEST_ROWS {
            return Ok(Err(Skipped::FewNeighbours { rows: with_neighbours }));
        }
        let labels = mixture.assign(&self.rows)?;
        if labels.iter().all(|label| *label == labels[0]) {
            return Ok(Err(Skipped::OneGroup));
        }
        let without = |group: usize| {
            let rows = (0..self.rows.len()).filter(|row| row % GROUPS != group);
            let (own, near): (Vec<u32>, Vec<u32>) =
                rows.flat_map(|row| self.neighbours.of(row).map(|near| (labels[row], labels[near])).collect::<Vec<_>>()).unzip();
            Ok(Agreement::new(&own, &near)?.adjusted_mutual_information())
        };
        let all = without(GROUPS)?;
        let parts = (0..GROUPS).map(without).collect::<Result<Vec<f64>>>()?;
        Ok(Ok(Estimate::of_jackknife(all, &parts)))
    }
}
