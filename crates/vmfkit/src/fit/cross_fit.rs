//! [`CrossFit`]: what an independent sample of the rows says about a fit. MATH.md (18.4), (18.7).

use crate::calibrate::temperature::Targets;
use crate::calibrate::{FEWEST_ROWS, LOGITS, Reliability, first_largest, relative};
use crate::error::{Error, Result};
use crate::fit::Fitter;
use crate::fit::halves::HalfFits;
use crate::metrics::{Agreement, cheapest_matching};
use crate::rows::RowBatch;
use std::ops::ControlFlow;

/// The fraction of the rows that neither half sees and that probabilities are judged on.
const SET_ASIDE: f64 = 0.2;

/// Calibration by independent fits: two fits of disjoint halves of the rows, and two of other halves
/// that judge.
///
/// The probability of a component becomes the probability that a mixture fitted to an independent
/// sample assigns the row to the same cluster. Use it as a second opinion on
/// [`Calibration`](crate::calibrate::Calibration), which asks the row's near neighbours and needs no
/// further fits; and to see how many clusters a fit finds that another one would find again.
///
/// ```
/// use vmfkit::fit::{Fitter, cross_fit::CrossFit};
/// use vmfkit::{Mixture, RowBatch, VonMisesFisher};
/// let truth = Mixture::new(
///     vec![0.5, 0.5],
///     vec![VonMisesFisher::new(vec![1.0, 0.0, 0.0], 30.0)?, VonMisesFisher::new(vec![0.0, 1.0, 0.0], 30.0)?],
/// )?;
/// let (rows, _) = truth.sample_rows::<f64>(1000, 1)?;
/// let found = CrossFit::new(&Fitter::new(2), &RowBatch::new(3, &rows)?, 7)?;
/// assert!(found.agreement > 0.95 && (found.shared_clusters() - 2.0).abs() < 0.2);
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CrossFit {
    /// Logits are divided by this, so that they predict the cluster of an independent fit; at least
    /// 1.
    pub temperature: f64,
    /// How often an independent fit confirms the exact posterior, in the second pair of halves.
    pub raw: Reliability,
    /// How often it confirms tempered probabilities. The temperature was found with the first pair.
    pub calibrated: Reliability,
    /// The adjusted Rand index of the labels of the first two fits.
    pub agreement: f64,
    /// The mutual information of the labels of the first two fits in nats, less that of chance.
    pub shared_information: f64,
    /// The rows that temperature, reliability and agreement rest on.
    pub rows: usize,
    /// Whether no fit has seen these rows.
    pub rows_are_unseen: bool,
}

impl CrossFit {
    /// Sets 20 % of the rows aside, and fits two disjoint halves of the others to find the
    /// temperature, and two other halves of them to judge it: four fits, compared on the rows set
    /// aside. With fewer than 125 rows none is set aside, and the fits are compared on all rows.
    ///
    /// The choices of the fitter apply to each fit, except its seed, its callbacks and its own
    /// calibration.
    ///
    /// # Errors
    /// [`Error::FewRows`] if a half has fewer rows than components, or too few rows have positive
    /// weight; those of [`Fitter::fit`].
    pub fn new(fitter: &Fitter, batch: &RowBatch, seed: u64) -> Result<Self> {
        Self::new_while(fitter, batch, seed, &|| ControlFlow::Continue(())).map(|found| found.expect("nothing cancels the fits"))
    }

    /// The same, which calls `should_cancel` within the fits and returns `None` if it breaks.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn new_while(
        fitter: &Fitter,
        batch: &RowBatch,
        seed: u64,
        should_cancel: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<Option<Self>> {
        let mut buffer = RowBatch::default();
        let batch = &batch.validated_slice(0, batch.len(), &mut buffer)?;
        let weighted = batch.weighted_rows();
        if weighted < FEWEST_ROWS {
            return Err(Error::FewRows { what: "a cross-fit", needed: FEWEST_ROWS, found: weighted });
        }
        let set_aside = if weighted as f64 * SET_ASIDE >= FEWEST_ROWS as f64 { SET_ASIDE } else { 0.0 };
        let Some(halves) = HalfFits::new(fitter, batch, set_aside, seed, should_cancel)? else { return Ok(None) };
        let mut seen = halves.rows.concat();
        seen.sort_unstable();
        let mut kept = RowBatch::default();
        let second = HalfFits::new(fitter, &batch.gather(&seen, &mut kept)?, 0.0, seed ^ 0x7365_636f_6e64, should_cancel)?;
        let Some(second) = second else { return Ok(None) };
        let judged = if halves.unseen.is_empty() { &seen } else { &halves.unseen };
        let mut all = RowBatch::default();
        let rows = batch.gather(judged, &mut all)?;
        let labels = halves.labels(&rows)?;
        let agreement = Agreement::new(&labels[0], &labels[1])?;
        // Logits take more memory than labels.
        let components = halves.fits[0].mixture.components().len();
        let most = (LOGITS / components).max(FEWEST_ROWS).min(rows.len());
        let chosen: Vec<usize> = (0..most).map(|row| row * rows.len() / most).collect();
        let chosen = rows.gather(&chosen, &mut kept)?;
        let temperature = 1.0 / Predictions::new(&chosen, &halves)?.targets().best_coldness();
        let judges = Predictions::new(&chosen, &second)?;
        Ok(Some(CrossFit {
            temperature,
            raw: judges.reliability(1.0),
            calibrated: judges.reliability(temperature),
            agreement: agreement.adjusted_rand_index(),
            shared_information: (agreement.mutual_information() - agreement.expected_mutual_information()).max(0.0),
            rows: rows.len(),
            rows_are_unseen: !halves.unseen.is_empty(),
        }))
    }

    /// The number of equally large clusters that two independent fits would have to agree on to share
    /// as much information: exp of [`Self::shared_information`]. It is an upper end for the number
    /// of components; clusters beyond it are not found again.
    pub fn shared_clusters(&self) -> f64 {
        self.shared_information.exp()
    }
}

/// The logits of two fits for the same rows, and the components that they predict.
struct Predictions {
    components: usize,
    rows: usize,
    weights: Vec<f64>,
    /// Of the first and the second fit, row by row.
    logits: [Vec<f32>; 2],
    /// What each should predict: the component of the other, in its own numbers.
    other: [Vec<u32>; 2],
}

impl Predictions {
    fn new(rows: &RowBatch, halves: &HalfFits) -> Result<Self> {
        let components = halves.fits[0].mixture.components().len();
        let [first, second] = halves.labels(rows)?;
        let logits = |fit: usize| {
            let mut logits = vec![0f32; rows.len() * components];
            halves.fits[fit].mixture.for_each_row(rows, components, &mut logits, relative)?;
            Ok::<_, Error>(logits)
        };
        Ok(Predictions {
            components,
            rows: rows.len(),
            weights: rows.weights().map_or_else(|| vec![1.0; rows.len()], <[f64]>::to_vec),
            logits: [logits(0)?, logits(1)?],
            other: [matched(&second, &first, components)?, matched(&first, &second, components)?],
        })
    }

    /// Each fit predicts the other; the rows of the second follow those of the first.
    fn targets(&self) -> Targets {
        let of_fit = |fit: usize| {
            let rows = self.other[fit].iter().zip(&self.weights).enumerate();
            rows.map(move |(row, (target, weight))| ((fit * self.rows + row) as u32, *target, *weight))
        };
        Targets::new(self.components, self.logits.concat(), of_fit(0).chain(of_fit(1)).collect())
    }

    /// How often each fit confirms the most probable components of the other.
    fn reliability(&self, temperature: f64) -> Reliability {
        let of_fit = |fit: usize| {
            let rows = self.logits[fit].chunks_exact(self.components).zip(&self.other[fit]).zip(&self.weights);
            rows.map(move |((logits, other), weight)| {
                let probability = 1.0 / logits.iter().map(|z| (f64::from(*z) / temperature).exp()).sum::<f64>();
                (*weight, probability, f64::from(u8::from(first_largest(logits) == *other as usize)))
            })
        };
        Reliability::new(of_fit(0).chain(of_fit(1)))
    }
}

/// The first labeling in the numbers of the second: groups are matched so that as many rows as
/// possible agree.
fn matched(labels: &[u32], reference: &[u32], components: usize) -> Result<Vec<u32>> {
    let mut cost = vec![0.0; components * components];
    labels.iter().zip(reference).for_each(|(&label, &other)| cost[label as usize * components + other as usize] -= 1.0);
    let number = cheapest_matching(&cost, components, components)?;
    Ok(labels.iter().map(|&label| number[label as usize].expect("as many components") as u32).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_matched_with_those_that_share_most_rows() {
        let found = matched(&[2, 2, 2, 0, 0, 1], &[0, 0, 1, 1, 1, 2], 3).unwrap();
        assert_eq!(found, [0, 0, 0, 1, 1, 2]);
    }
}
