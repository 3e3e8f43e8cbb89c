//! [`KnownLabels`]: a mixture with one component per known label, without EM.

use crate::calibrate::NEIGHBOUR_ROWS;
use crate::density::VonMisesFisher;
use crate::error::{Error, Result};
use crate::m_step::{Maximisation, Note, maximise};
use crate::mixture::Mixture;
use crate::reservoir::Reservoir;
use crate::rows::aligned::AlignedRows;
use crate::rows::{LARGEST_WEIGHT, RowBatch};
use crate::settings::Settings;
use crate::source::Source;
use crate::stats::SufficientStats;
use crate::train::{Fit, Status};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Rows that are summed at a time: enough that most labels have several rows among them.
const ROWS_AT_ONCE: usize = 4096;

/// The name of this method in model files and reports.
pub const METHOD: &str = "labels";

/// Statistics of rows whose labels are known: supervised estimation, as in discriminant analysis.
///
/// Labels may have any ordered type. One pass over batches of rows is enough, and memory holds one
/// resultant per label, not the rows. If labels are a first guess that EM should improve, use
/// [`Start::Labels`](crate::Start::Labels).
///
/// ```
/// use vmfkit::start::known_labels::KnownLabels;
/// use vmfkit::{RowBatch, ConcentrationPolicy, Maximisation};
/// let rows = [1.0, 0.0, 0.8, 0.6, 0.0, 1.0, -0.6, 0.8];
/// let mut known = KnownLabels::new(2);
/// known.add(&RowBatch::new(2, &rows)?, &["east", "east", "north", "north"])?;
/// let (fit, labels) = known.fit(&Maximisation::new().policy(ConcentrationPolicy::Shared))?;
/// assert_eq!(labels, ["east", "north"]);
/// assert_eq!(fit.mixture.weights(), [0.5, 0.5]);
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct KnownLabels<L> {
    dim: usize,
    rows: u64,
    first_row: Vec<f64>,
    stats: BTreeMap<L, SufficientStats>,
    /// Rows that are not in the statistics yet, and their labels.
    aligned: AlignedRows,
    labels: Vec<L>,
    priors: Option<Vec<f64>>,
    sample: Option<LabelledSample<L>>,
}

/// A sample of rows, and the number of each label in the order in which labels were first seen.
#[derive(Debug, Clone)]
struct LabelledSample<L> {
    rows: Reservoir,
    numbers: BTreeMap<L, u32>,
}

impl<L: Ord + Clone> LabelledSample<L> {
    fn add(&mut self, batch: &RowBatch, labels: &[L]) -> Result<()> {
        for label in labels {
            if !self.numbers.contains_key(label) {
                self.numbers.insert(label.clone(), self.numbers.len() as u32);
            }
        }
        self.rows.offer_labelled(batch, |row| self.numbers[&labels[row]])
    }

    /// The rows, and the position of each row's label in the order of the labels.
    fn finish(self) -> Result<(RowBatch<'static>, Vec<u32>)> {
        let mut components = vec![0; self.numbers.len()];
        self.numbers.values().enumerate().for_each(|(component, number)| components[*number as usize] = component as u32);
        let (rows, numbers) = self.rows.into_labelled_sample()?;
        Ok((rows, numbers.iter().map(|number| components[*number as usize]).collect()))
    }
}

impl<L: Ord + Clone + Sync> KnownLabels<L> {
    /// No rows yet, of this dimension.
    pub fn new(dim: usize) -> Self {
        let (aligned, labels) = (AlignedRows::new(ROWS_AT_ONCE), Vec::new());
        let sample = Some(LabelledSample { rows: Reservoir::new(NEIGHBOUR_ROWS, 0), numbers: BTreeMap::new() });
        KnownLabels { dim, rows: 0, first_row: Vec::new(), stats: BTreeMap::new(), aligned, labels, priors: None, sample }
    }

    /// Without the sample of rows that the fit is calibrated with.
    pub fn uncalibrated(self) -> Self {
        KnownLabels { sample: None, ..self }
    }

    /// The weights of the components, in the sorted order of the labels, for rows in which labels are
    /// not as frequent as in those that are added. Rows of the sample count accordingly in the
    /// calibration.
    pub fn priors(self, priors: Vec<f64>) -> Self {
        KnownLabels { priors: Some(priors), ..self }
    }

    /// Adds rows and their labels. Neither the number of threads nor the sizes of batches change
    /// one bit.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`]; [`Error::LabelCount`] if there are not as many labels as rows.
    pub fn add(&mut self, batch: &RowBatch, labels: &[L]) -> Result<()> {
        if batch.dim() != self.dim {
            return Err(Error::DimensionMismatch { expected: self.dim, found: batch.dim() });
        }
        if batch.len() != labels.len() {
            return Err(Error::LabelCount { expected: batch.len(), found: labels.len() });
        }
        let mut buffer = RowBatch::default();
        let batch = &batch.validated_slice(0, batch.len(), &mut buffer)?;
        if self.first_row.is_empty() && !batch.is_empty() {
            self.first_row = batch.row(0);
        }
        self.sample.as_mut().map_or(Ok(()), |sample| sample.add(batch, labels))?;
        self.rows += batch.len() as u64;
        self.labels.extend_from_slice(labels);
        let KnownLabels { dim, stats, aligned, labels, .. } = self;
        let added = aligned.add(batch, |whole| {
            add_rows(stats, *dim, whole, &labels[..whole.len()])?;
            labels.drain(..whole.len());
            Ok(ControlFlow::Continue(()))
        });
        added.map(|_| ())
    }

    /// The statistics of each label, and the first row.
    pub(crate) fn into_stats(mut self) -> Result<(BTreeMap<L, SufficientStats>, Vec<f64>)> {
        if let Some(rest) = self.aligned.take_rest() {
            add_rows(&mut self.stats, self.dim, &rest, &self.labels)?;
        }
        Ok((self.stats, self.first_row))
    }

    /// Adds all rows of a source in one pass; `labels` has one for each.
    ///
    /// # Errors
    /// Those of the source; [`Error::LabelCount`] if there are not as many labels as rows.
    pub fn add_source(&mut self, source: &mut dyn Source, labels: &[L]) -> Result<()> {
        let mut next = 0;
        let mut buffer = RowBatch::default();
        while let Some(batch) = source.next_batch()? {
            let batch = batch.validated(&mut buffer)?;
            let end = next + batch.len();
            // Rows beyond the labels are counted for the error.
            if let Some(labels) = labels.get(next..end) {
                self.add(&batch, labels)?;
            }
            next = end;
        }
        if next == labels.len() { Ok(()) } else { Err(Error::LabelCount { expected: next, found: labels.len() }) }
    }

    /// The number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// One component per label, and the labels in their sorted order. The fit is calibrated with
    /// the known labels of a sample of rows, each predicted by the mixture without it.
    /// Concentrations follow the policy of `how`; weights are the fractions of the labels, or equal
    /// if `how` has
    /// [fixed weights](Maximisation::fixed_weights). A label whose rows have weight 0 has an empty
    /// component, which a note names.
    ///
    /// # Errors
    /// [`Error::NoRows`]; options of `how` that are out of range; priors that are not the weights of
    /// that many components.
    pub fn fit(mut self, how: &Maximisation) -> Result<(Fit, Vec<L>)> {
        let (sample, priors) = (self.sample.take(), self.priors.take());
        let (dim, rows) = (self.dim, self.rows);
        let (of_labels, first_row) = self.into_stats()?;
        let components = of_labels.len();
        if components == 0 {
            return Err(Error::NoRows { weight: 0.0 });
        }
        let mut stats = SufficientStats::zero(components, dim);
        for (component, of_label) in of_labels.values().enumerate() {
            stats.merge_into(component, of_label);
        }
        // Used only for fixed weights and the directions of empty components.
        let any = VonMisesFisher::along(first_row, 1.0)?;
        let equal = Mixture::new(vec![1.0 / components as f64; components], vec![any; components])?;
        let (mixture, mut notes) = maximise(&stats, &equal, how)?;
        let given = priors.is_some();
        let mixture = match priors {
            Some(priors) => Mixture::new(priors, mixture.components().to_vec())?,
            None => mixture,
        };
        // A known label may have few equal rows; only a concentration at its limit deserves a note.
        let is_bounded = |concentration: f64| concentration < how.largest_concentration;
        notes.retain(|note| !matches!(note, Note::Collapsed { concentration, .. } if is_bounded(*concentration)));
        let mut settings = Settings::default();
        settings.set("method", METHOD);
        settings.set("dimension", dim.to_string());
        settings.set("components", components.to_string());
        settings.set("policy", how.policy.to_string());
        settings.set("estimator", how.estimator.name());
        settings.set("largest_concentration", format!("{:?}", how.largest_concentration));
        settings.set("fixed_weights", how.fixed_weights.to_string());
        let weight = stats.weight();
        let fit = Fit {
            mixture,
            trace: Vec::new(),
            status: Status::Converged,
            notes,
            weight,
            rows,
            search_passes: 0,
            sums: stats.sums(),
            calibration: None,
            outlier_table: None,
            settings,
        };
        let fit = match sample {
            Some(sample) => {
                let (rows, labels) = sample.finish()?;
                if given {
                    let reweighted = reweighted(&rows, &labels, fit.mixture.weights())?;
                    let row_weight = Some(fit.weight / fit.rows as f64);
                    fit.calibrated_with(&reweighted, Some(&labels), &how.clone().fixed_weights(true), row_weight)?
                } else {
                    fit.calibrated_with(&rows, Some(&labels), how, None)?
                }
            }
            None => fit,
        };
        Ok((fit, of_labels.into_keys().collect()))
    }
}

/// The rows with weights that give each label its prior, as a fraction of the same total weight.
fn reweighted<'a>(rows: &'a RowBatch, labels: &[u32], priors: &[f64]) -> Result<RowBatch<'a>> {
    let weight = |row: usize| rows.weights().map_or(1.0, |weights| weights[row]);
    let mut of_label = vec![0.0; priors.len()];
    labels.iter().enumerate().for_each(|(row, label)| of_label[*label as usize] += weight(row));
    let total: f64 = of_label.iter().sum();
    let weights = labels.iter().enumerate().map(|(row, label)| {
        let (prior, found) = (priors[*label as usize], of_label[*label as usize]);
        if found > 0.0 { (weight(row) / found * prior * total).min(LARGEST_WEIGHT) } else { 0.0 }
    });
    rows.slice(0, rows.len()).with_weights(weights.collect::<Vec<_>>())
}

/// Adds rows to the statistics of their labels.
fn add_rows<L: Ord + Clone + Sync>(
    stats: &mut BTreeMap<L, SufficientStats>,
    dim: usize,
    batch: &RowBatch,
    labels: &[L],
) -> Result<()> {
    for from in (0..batch.len()).step_by(ROWS_AT_ONCE) {
        let to = (from + ROWS_AT_ONCE).min(batch.len());
        let mut rows_of: BTreeMap<&L, Vec<usize>> = BTreeMap::new();
        for (row, label) in (from..to).zip(&labels[from..to]) {
            rows_of.entry(label).or_default().push(row);
        }
        let found: Vec<_> = rows_of.into_par_iter().map(|(label, rows)| (label, SufficientStats::of_rows(batch, rows))).collect();
        for (label, found) in found {
            match stats.get_mut(label) {
                Some(sum) => sum.merge(&found)?,
                None => stats.entry(label.clone()).or_insert_with(|| SufficientStats::zero(1, dim)).merge(&found)?,
            }
        }
    }
    Ok(())
}
