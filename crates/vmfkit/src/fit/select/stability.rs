//! Stability: do fits of two halves of the rows find the same clusters? MATH.md (17.3), (17.4).

use super::estimate::Estimate;
use super::skipped::Skipped;
use crate::error::Result;
use crate::fit::Fitter;
use crate::fit::halves::HalfFits;
use crate::metrics::Agreement;
use crate::rows::RowBatch;
use std::ops::ControlFlow;

/// How well fits of two disjoint random halves of the rows agree.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Stability {
    /// The adjusted Rand index of each repeat, on all rows of the sample. Repeat r has the same halves
    /// for every number of components, so differences between them can be paired.
    pub repeats: Vec<f64>,
    /// Their mean.
    pub agreement: Estimate,
    /// The mutual information of the two labelings in nats, less that of chance.
    pub shared_information: Estimate,
    /// The shared information of each repeat.
    pub information_of_repeats: Vec<f64>,
}

impl Stability {
    /// The number of equally large clusters that independent fits would have to agree on to share as
    /// much information: its exponential. It counts clusters that are found again, so it stops
    /// growing with K where more components are noise.
    pub fn shared_clusters(&self) -> f64 {
        self.shared_information.mean.exp()
    }
}

/// Measures the stability of fits with these choices; `None` if it was cancelled.
pub(super) fn stability(
    fitter: &Fitter,
    rows: &RowBatch,
    repeats: usize,
    seed: u64,
    should_cancel: &(dyn Fn() -> ControlFlow<()> + Sync),
) -> Result<Option<std::result::Result<Stability, Skipped>>> {
    let (mut agreements, mut shared) = (Vec::new(), Vec::new());
    for repeat in 0..repeats as u64 {
        let seed = seed.wrapping_add(repeat.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let Some(halves) = HalfFits::new(fitter, rows, 0.0, seed, should_cancel)? else { return Ok(None) };
        let [first, second] = halves.labels(rows)?;
        let agreement = Agreement::new(&first, &second)?;
        let (of_first, of_second) = agreement.groups();
        if of_first == 1 && of_second == 1 {
            return Ok(Some(Err(Skipped::OneGroup)));
        }
        agreements.push(agreement.adjusted_rand_index());
        shared.push((agreement.mutual_information() - agreement.expected_mutual_information()).max(0.0));
    }
    Ok(Some(Ok(Stability {
        agreement: Estimate::of_repeats(&agreements),
        repeats: agreements,
        shared_information: Estimate::of_repeats(&shared),
        information_of_repeats: shared,
    })))
}
