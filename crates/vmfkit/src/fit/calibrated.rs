//! Calibrates a fit with a sample of its rows.

use super::Fitter;
use super::halves::fit_some;
use crate::calibrate::folds::{FOLDS, folds};
use crate::calibrate::{Evidence, OutlierScores};
use crate::error::Result;
use crate::m_step::Maximisation;
use crate::outlier::OutlierTable;
use crate::reservoir::Reservoir;
use crate::rows::RowBatch;
use crate::sampler::Stream;
use crate::source::Source;
use crate::start::{self, Start};
use crate::train::{Fit, Progress, ProgressCallback, Status};
use std::ops::ControlFlow;
use std::sync::Mutex;

type ShouldCancel<'f> = dyn Fn() -> ControlFlow<()> + Sync + 'f;

/// The most multiplications of one pass of a fit that is repeated for its p-values, a tenth of a
/// second of work on one core. Larger fits would take too long ten times, and few of them have too
/// few rows.
const CROSS_FIT_WORK: usize = 1 << 27;

impl Fitter<'_> {
    /// Calibrates the fit of rows in memory, or of a source of which a sample may be left from the
    /// start. A fit that was stopped is not calibrated, and neither are rows without weight.
    pub(super) fn calibrated(
        &self,
        fit: Fit,
        source: &mut dyn Source,
        memory: Option<&RowBatch>,
        sample: Option<RowBatch>,
        progress: Option<&mut ProgressCallback>,
    ) -> Result<Fit> {
        if !self.calibrate || fit.status == Status::Stopped {
            return Ok(fit);
        }
        let how = &self.maximisation_used();
        let (pass, rows) = (fit.trace.len(), fit.rows);
        let progress = Mutex::new(progress);
        let should_cancel = || match progress.lock().expect("no callback panics").as_mut() {
            Some(progress) => progress(Progress { restart: 0, pass, rows }),
            None => ControlFlow::Continue(()),
        };
        match (memory, sample) {
            (Some(rows), _) => {
                let (mut rng, mut buffer) = (Stream::new(self.seed ^ 0x6361_6c69, 0), RowBatch::default());
                self.calibrated_with(
                    fit,
                    &start::sample(rows, self.sample_rows(rows.dim()), &mut rng, &mut buffer),
                    how,
                    &should_cancel,
                )
            }
            (None, Some(sample)) => self.calibrated_with(fit, &sample, how, &should_cancel),
            (None, None) if source.can_rewind() => self.calibrated_with(fit, &self.draw_sample(source)?, how, &should_cancel),
            (None, None) => Ok(fit),
        }
    }

    /// [`Fit::calibrated`], with [`Self::outlier_table`].
    fn calibrated_with(&self, fit: Fit, sample: &RowBatch, how: &Maximisation, should_cancel: &ShouldCancel) -> Result<Fit> {
        let mut buffer = RowBatch::default();
        let sample = &sample.validated_slice(0, sample.len(), &mut buffer)?;
        let evidence = fit.evidence(sample, None, how, None);
        let calibration = evidence.calibration(sample)?;
        let outlier_table = self.outlier_table(&evidence, sample, fit.rows, should_cancel)?;
        Ok(Fit { calibration: Some(calibration), outlier_table: Some(outlier_table), ..fit })
    }

    /// The outlier table of a fit of this many rows, with cross-fitted scores where the closed form is
    /// not exact enough.
    pub(super) fn outlier_table(
        &self,
        evidence: &Evidence,
        sample: &RowBatch,
        rows: u64,
        should_cancel: &ShouldCancel,
    ) -> Result<OutlierTable> {
        let mut scores = evidence.outlier_scores(sample)?;
        if scores.is_rough && sample.len() as u64 >= rows && self.can_cross_fit(sample) {
            self.cross_fit(sample, &mut scores, should_cancel)?;
        }
        scores.table()
    }

    /// Whether the fit can be repeated with nine tenths of the rows, in reasonable time.
    fn can_cross_fit(&self, rows: &RowBatch) -> bool {
        let work = rows.len().saturating_mul(rows.dim()).saturating_mul(self.components);
        let enough = rows.weighted_rows() >= 2 * self.components.max(FOLDS);
        work <= CROSS_FIT_WORK && enough && !matches!(self.start, Start::Labels(_))
    }

    /// Scores each tenth of the rows by a fit to the others. If it is cancelled, the remaining scores
    /// stay those of the closed form.
    fn cross_fit(&self, rows: &RowBatch, scores: &mut OutlierScores, should_cancel: &ShouldCancel) -> Result<()> {
        for held_out in folds(rows.len()) {
            let mut is_held = vec![false; rows.len()];
            held_out.iter().for_each(|row| is_held[*row] = true);
            let others: Vec<usize> = (0..rows.len()).filter(|row| !is_held[*row]).collect();
            let Some(fit) = fit_some(self, rows, &others, self.seed, should_cancel)? else { return Ok(()) };
            let mut buffer = RowBatch::default();
            let ln_densities = fit.mixture.without_background().ln_densities(&rows.gather(&held_out, &mut buffer)?)?;
            scores.replace(&held_out, &ln_densities);
        }
        Ok(())
    }

    /// The sample that a start would draw.
    fn draw_sample(&self, source: &mut dyn Source) -> Result<RowBatch<'static>> {
        let mut reservoir = Reservoir::new(self.sample_rows(source.dim()), self.seed_of(0));
        let mut buffer = RowBatch::default();
        source.rewind()?;
        while let Some(batch) = source.next_validated(&mut buffer)? {
            reservoir.offer(&batch)?;
        }
        reservoir.into_sample()
    }
}

impl Fit {
    /// The fit with a [calibration](crate::calibrate::Calibration) and an
    /// [outlier table](crate::outlier::OutlierTable) from a random sample of its rows. A
    /// [`Fitter`] does this unless it was told not to.
    ///
    /// `how` are the settings of the M step that made the mixture.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`](crate::Error::DimensionMismatch); [`Error::NoRows`](crate::Error::NoRows)
    /// if the sample has no weight.
    pub fn calibrated(self, sample: &RowBatch, how: &Maximisation) -> Result<Self> {
        self.calibrated_with(sample, None, how, None)
    }

    /// The same with the component of each row of the sample, if components are known labels, and the
    /// weight that each had in the fit, if the weights of the sample do not say.
    pub(crate) fn calibrated_with(
        self,
        sample: &RowBatch,
        labels: Option<&[u32]>,
        how: &Maximisation,
        row_weight: Option<f64>,
    ) -> Result<Self> {
        let mut buffer = RowBatch::default();
        let sample = &sample.validated_slice(0, sample.len(), &mut buffer)?;
        let evidence = self.evidence(sample, labels, how, row_weight);
        let (calibration, outlier_table) = (evidence.calibration(sample)?, evidence.outlier_scores(sample)?.table()?);
        Ok(Fit { calibration: Some(calibration), outlier_table: Some(outlier_table), ..self })
    }

    fn evidence<'a>(
        &'a self,
        sample: &RowBatch,
        labels: Option<&'a [u32]>,
        how: &'a Maximisation,
        row_weight: Option<f64>,
    ) -> Evidence<'a> {
        let is_hard = is_hard(self.settings.get("method").unwrap_or_default());
        let Fit { mixture, sums, weight, rows, .. } = self;
        // The policy and the temperature are decided by the same number.
        let dispersion = how.dispersion;
        let row_weight = row_weight.or_else(|| ((sample.len() as u64) < *rows).then(|| weight / *rows as f64));
        Evidence { mixture, sums, weight: *weight, row_weight, how, dispersion, is_hard, labels }
    }
}

/// Whether the M step of this method counts each row for its most probable component alone.
pub(super) fn is_hard(method: &str) -> bool {
    matches!(method, "hard" | "kmeans")
}
