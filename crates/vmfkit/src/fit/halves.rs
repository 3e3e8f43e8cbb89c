//! [`HalfFits`]: two fits that share no rows, so what they agree on is not noise.

use crate::error::{Error, Result};
use crate::fit::Fitter;
use crate::rows::RowBatch;
use crate::sampler::Stream;
use crate::train::{Fit, Status};
use rand::Rng;
use rand::seq::SliceRandom;
use std::ops::ControlFlow;

/// Two fits of disjoint random halves of the rows.
///
/// [`CrossFit`](crate::fit::cross_fit::CrossFit) and the criterion
/// [`Stability`](crate::fit::select::Criterion::Stability) are made from them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HalfFits {
    /// The fits, without calibration.
    pub fits: [Fit; 2],
    /// The positions of the rows of each half, in ascending order.
    pub rows: [Vec<usize>; 2],
    /// The positions of the rows that neither fit has seen, in ascending order.
    pub unseen: Vec<usize>,
}

impl HalfFits {
    /// Fits two random halves of the rows that are left when a fraction of them is set aside. Rows
    /// without weight are left out. The choices of the fitter apply to both fits, except its seed;
    /// it needs a start that can be made from the rows of a half. `should_cancel` is called within
    /// the fits; the result is `None` if it breaks.
    ///
    /// # Errors
    /// [`Error::FewRows`] if a half has fewer rows than components, and those of [`Fitter::fit`].
    pub fn new(
        fitter: &Fitter,
        batch: &RowBatch,
        set_aside: f64,
        seed: u64,
        should_cancel: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<Option<Self>> {
        let mut rng = Stream::new(seed ^ 0x6861_6c76, 0);
        let mut order: Vec<usize> = (0..batch.len()).collect();
        order.retain(|&row| batch.weights().is_none_or(|weights| weights[row] > 0.0));
        order.shuffle(&mut rng);
        let unseen = (order.len() as f64 * set_aside) as usize;
        let half = (order.len() - unseen) / 2;
        if half < fitter.components {
            return Err(Error::FewRows { what: "a fit of half of the rows", needed: fitter.components, found: half });
        }
        let sorted = |rows: &[usize]| {
            let mut rows = rows.to_vec();
            rows.sort_unstable();
            rows
        };
        let rows = [sorted(&order[unseen..unseen + half]), sorted(&order[unseen + half..])];
        let mut fits = Vec::with_capacity(2);
        for rows in &rows {
            let Some(fit) = fit_some(fitter, batch, rows, rng.next_u64(), should_cancel)? else { return Ok(None) };
            fits.push(fit);
        }
        let fits = fits.try_into().expect("two halves");
        Ok(Some(HalfFits { fits, rows, unseen: sorted(&order[..unseen]) }))
    }

    /// The most probable component of each row under each fit.
    pub fn labels(&self, batch: &RowBatch) -> Result<[Vec<u32>; 2]> {
        Ok([self.fits[0].mixture.assign(batch)?, self.fits[1].mixture.assign(batch)?])
    }
}

/// Fits some of the rows; `None` if it was cancelled.
pub(super) fn fit_some(
    fitter: &Fitter,
    batch: &RowBatch,
    rows: &[usize],
    seed: u64,
    should_cancel: &(dyn Fn() -> ControlFlow<()> + Sync),
) -> Result<Option<Fit>> {
    let mut buffer = RowBatch::default();
    let rows = batch.gather(rows, &mut buffer)?;
    let fit = fitter.choices().calibrate(false).seed(seed).progress(|_| should_cancel()).fit(&rows)?;
    Ok((fit.status != Status::Stopped).then_some(fit))
}
