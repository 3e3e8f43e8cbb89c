//! [`CrossFit`]: what an independent sample of the rows says about a fit. MATH.md (17.4), (17.7).

use crate::calibrate::temperature::Targets;
use crate::calibrate::{FEWEST_ROWS, LOGITS, Reliability, first_largest, relative};
use crate::error::{Error, Result};
use crate::fit::Fitter;
use crate::fit::halves::{HalfFits, fit_some};
use crate::metrics::{Agreement, cheapest_matching};
use crate::mixture::Mixture;
use crate::rows::RowBatch;
use crate::sampler::Stream;
use rand::Rng;
use rand::seq::SliceRandom;
use std::ops::ControlFlow;

/// The fraction of the rows that neither half sees and that probabilities are judged on.
const SET_ASIDE: f64 = 0.2;

/// Calibration by independent fits: two fits of disjoint halves of the rows, and a third one that
/// judges.
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
    /// How often the third fit confirms the exact posterior, and tempered probabilities.
    pub raw: Reliability,
    /// How often it confirms tempered probabilities.
    pub calibrated: Reliability,
    /// The adjusted Rand index of the labels of the two fits.
    pub agreement: f64,
    /// The mutual information of the labels of the two fits in nats, less that of chance.
    pub shared_information: f64,
    /// The rows that temperature, reliability and agreement rest on.
    pub rows: usize,
    /// Whether no fit has seen these rows.
    pub rows_are_unseen: bool,
}

impl CrossFit {
    /// Fits two disjoint halves of the rows, each of 40 %, and a third random half of the same rows;
    /// judges them on the other 20 %. With fewer than 125 rows no row is set aside, and all rows are
    /// judged on.
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
        let mut rng = Stream::new(seed ^ 0x7468_6972, 0);
        let mut third = [&halves.rows[0][..], &halves.rows[1][..]].concat();
        let half = halves.rows[0].len();
        third = third.partial_shuffle(&mut rng, half).0.to_vec();
        third.sort_unstable();
        let Some(third) = fit_some(fitter, batch, &third, rng.next_u64(), should_cancel)? else { return Ok(None) };
        let judged: Vec<usize> = match halves.unseen.is_empty() {
            true => {
                let mut all = halves.rows.concat();
                all.sort_unstable();
                all
            }
            false => halves.unseen.clone(),
        };
        let (mut all, mut kept) = (RowBatch::default(), RowBatch::default());
        let rows = batch.gather(&judged, &mut all)?;
        let mixtures = [&halves.fits[0].mixture, &halves.fits[1].mixture, &third.mixture];
        let labels = halves.labels(&rows)?;
        let agreement = Agreement::new(&labels[0], &labels[1])?;
        // Logits take more memory than labels.
        let most = (LOGITS / mixtures[0].components().len()).max(FEWEST_ROWS).min(rows.len());
        let chosen: Vec<usize> = (0..most).map(|row| row * rows.len() / most).collect();
        let predictions = Predictions::new(&rows.gather(&chosen, &mut kept)?, mixtures)?;
        let temperature = 1.0 / predictions.targets().best_coldness();
        Ok(Some(CrossFit {
            temperature,
            raw: predictions.reliability(1.0),
            calibrated: predictions.reliability(temperature),
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

/// The logits of two fits for the same rows, and the components that other fits assign them to.
struct Predictions {
    components: usize,
    rows: usize,
    weights: Vec<f64>,
    /// Of the first and the second fit, row by row.
    logits: [Vec<f32>; 2],
    /// What each predicts: the cluster of the other, in its own numbers.
    other: [Vec<u32>; 2],
    /// The cluster of the third fit, in the numbers of each.
    third: [Vec<u32>; 2],
}

impl Predictions {
    fn new(rows: &RowBatch, mixtures: [&Mixture; 3]) -> Result<Self> {
        let components = mixtures[0].components().len();
        let labels = mixtures.iter().map(|mixture| mixture.assign(rows)).collect::<Result<Vec<_>>>()?;
        let logits = |mixture: &Mixture| {
            let mut logits = vec![0f32; rows.len() * components];
            mixture.for_each_row(rows, components, &mut logits, relative)?;
            Ok::<_, Error>(logits)
        };
        let renumbered = |from: usize, to: usize| matched(&labels[from], &labels[to], components);
        Ok(Predictions {
            components,
            rows: rows.len(),
            weights: rows.weights().map_or_else(|| vec![1.0; rows.len()], <[f64]>::to_vec),
            logits: [logits(mixtures[0])?, logits(mixtures[1])?],
            other: [renumbered(1, 0)?, renumbered(0, 1)?],
            third: [renumbered(2, 0)?, renumbered(2, 1)?],
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

    /// How often the third fit confirms the most probable components of both.
    fn reliability(&self, temperature: f64) -> Reliability {
        let of_fit = |fit: usize| {
            let rows = self.logits[fit].chunks_exact(self.components).zip(&self.third[fit]).zip(&self.weights);
            rows.map(move |((logits, third), weight)| {
                let probability = 1.0 / logits.iter().map(|z| (f64::from(*z) / temperature).exp()).sum::<f64>();
                (*weight, probability, f64::from(u8::from(first_largest(logits) == *third as usize)))
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
