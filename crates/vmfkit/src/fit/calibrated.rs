//! Calibrates a fit with a sample of its rows.

use super::Fitter;
use crate::calibrate::Evidence;
use crate::error::Result;
use crate::m_step::Maximisation;
use crate::reservoir::Reservoir;
use crate::rows::RowBatch;
use crate::sampler::Stream;
use crate::source::Source;
use crate::start;
use crate::train::{Fit, Status};

impl Fitter<'_> {
    /// Calibrates the fit of rows in memory, or of a source of which a sample may be left from the
    /// start. A fit that was stopped is not calibrated, and neither are rows without weight.
    pub(super) fn calibrated(
        &self,
        fit: Fit,
        source: &mut dyn Source,
        memory: Option<&RowBatch>,
        sample: Option<RowBatch>,
    ) -> Result<Fit> {
        if !self.calibrate || fit.status == Status::Stopped {
            return Ok(fit);
        }
        let how = &self.maximisation_used();
        match (memory, sample) {
            (Some(rows), _) => {
                let (mut rng, mut buffer) = (Stream::new(self.seed ^ 0x6361_6c69, 0), RowBatch::default());
                fit.calibrated(&start::sample(rows, self.sample_rows(rows.dim()), &mut rng, &mut buffer), how)
            }
            (None, Some(sample)) => fit.calibrated(&sample, how),
            (None, None) if source.can_rewind() => fit.calibrated(&self.draw_sample(source)?, how),
            (None, None) => Ok(fit),
        }
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
        let is_hard = is_hard(self.settings.get("method").unwrap_or_default());
        let Fit { mixture, sums, weight, rows, .. } = &self;
        // The policy and the temperature are decided by the same number.
        let dispersion = how.dispersion;
        let row_weight = row_weight.or_else(|| ((sample.len() as u64) < *rows).then(|| weight / *rows as f64));
        let evidence = Evidence { mixture, sums, weight: *weight, row_weight, how, dispersion, is_hard, labels };
        let (calibration, outlier_table) = (evidence.calibration(sample)?, evidence.outlier_table(sample)?);
        Ok(Fit { calibration: Some(calibration), outlier_table: Some(outlier_table), ..self })
    }
}

/// Whether the M step of this method counts each row for its most probable component alone.
pub(super) fn is_hard(method: &str) -> bool {
    matches!(method, "hard" | "kmeans")
}
