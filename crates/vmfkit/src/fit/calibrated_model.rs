//! [`CalibrationRows`]: calibrates a mixture from a model file, whoever fitted it.

use super::Fitter;
use super::calibrated::is_hard;
use crate::calibrate::{Calibration, Evidence};
use crate::error::{Error, Result};
use crate::mixture::Mixture;
use crate::outlier::OutlierTable;
use crate::reservoir::Reservoir;
use crate::rows::RowBatch;
use crate::source::Source;
use crate::store::model::Description;
use std::ops::ControlFlow;
use std::sync::Mutex;

/// What the rows are that a mixture is calibrated with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CalibrationRows {
    /// The rows that the mixture was fitted to. Each is scored by the mixture without it, MATH.md
    /// (16.4), and the dispersion is that of the fit, if it is known.
    #[default]
    OfFit,
    /// Rows that were not used for the fit: conformal p-values hold exactly, and the dispersion is
    /// measured on these rows.
    HeldOut,
}

impl CalibrationRows {
    /// The calibration and the outlier table of a mixture, from a random sample of rows; with these,
    /// probabilities are [calibrated](Calibration::responsibilities) and rows have
    /// [p-values](OutlierTable::p_values).
    ///
    /// Use it for mixtures without a calibration: those of a
    /// [distributed fit](crate::fit::parts), of earlier versions, of [`Fitter::calibrate`]`(false)`
    /// and of arrays; and to replace a calibration by one of held-out rows. After a distributed fit,
    /// the result is that of [`Fitter::fit_source`] with the same rows. The rows are read once, and as
    /// many are held in memory as the fit would [sample](Fitter::sample_rows).
    ///
    /// `should_cancel` is called after every batch; `None` is returned if it breaks.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use vmfkit::fit::calibrated_model::CalibrationRows;
    /// use vmfkit::{Mixture, RowBatch, VonMisesFisher, source::MemorySource, store::model::Description};
    /// let along = |x, y| VonMisesFisher::new(vec![x, y, 0.0], 20.0);
    /// let mixture = Mixture::new(vec![0.5, 0.5], vec![along(1.0, 0.0)?, along(0.0, 1.0)?])?;
    /// let (rows, _) = mixture.sample_rows::<f64>(999, 1)?;
    /// let mut source = MemorySource::new(RowBatch::new(3, &rows)?);
    /// let go_on = &mut |_| ControlFlow::Continue(());
    /// let held_out = CalibrationRows::HeldOut;
    /// let found = held_out.calibration(&mixture, &Description::default(), &mut source, go_on)?;
    /// let (calibration, table) = found.expect("it was not cancelled");
    /// assert_eq!((calibration.temperature, table.rows()), (1.0, 999));
    /// # Ok::<(), vmfkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the source; [`Error::DimensionMismatch`]; [`Error::NoRows`] if the rows have no
    /// weight.
    pub fn calibration(
        self,
        mixture: &Mixture,
        description: &Description,
        source: &mut dyn Source,
        should_cancel: &mut (dyn FnMut(u64) -> ControlFlow<()> + Send),
    ) -> Result<Option<(Calibration, OutlierTable)>> {
        let (expected, found) = (mixture.dim(), source.dim());
        if expected != found {
            return Err(Error::DimensionMismatch { expected, found });
        }
        let fitter = Fitter::of_model(mixture, description);
        let Some((sample, rows, weight)) = fitter.sampled(source, should_cancel)? else { return Ok(None) };
        let of_fit = self == Self::OfFit;
        // A mixture that was not fitted, or by a program that does not say to what.
        let is_known = of_fit && description.rows > 0 && description.weight > 0.0 && description.weight.is_finite();
        let (rows, weight) = if is_known { (description.rows, description.weight) } else { (rows, weight) };
        let how = &fitter.maximisation_used();
        let evidence = Evidence {
            mixture,
            sums: if is_known { &description.sums } else { &[] },
            weight,
            row_weight: ((sample.len() as u64) < rows).then(|| weight / rows as f64),
            how,
            dispersion: how.dispersion.filter(|_| of_fit),
            is_hard: is_hard(&description.method),
            labels: None,
        };
        let table = match self {
            Self::OfFit => {
                let should_cancel = Mutex::new(should_cancel);
                let ask = || should_cancel.lock().expect("no callback panics")(sample.len() as u64);
                fitter.outlier_table(&evidence, &sample, rows, &ask)?
            }
            Self::HeldOut => OutlierTable::held_out(mixture, &sample)?,
        };
        Ok(Some((evidence.calibration(&sample)?, table)))
    }
}

impl OutlierTable {
    /// [`Self::held_out`] from a random sample of the rows of a source, as many as a fit with this
    /// number of components [samples](Fitter::sample_rows). `None` if `should_cancel` breaks.
    ///
    /// # Errors
    /// Those of the source and of [`Self::held_out`].
    pub fn held_out_source(
        mixture: &Mixture,
        source: &mut dyn Source,
        should_cancel: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Option<Self>> {
        let fitter = Fitter::of_model(mixture, &Description::default());
        let sampled = fitter.sampled(source, should_cancel)?;
        sampled.map(|(sample, ..)| Self::held_out(mixture, &sample)).transpose()
    }
}

impl Fitter<'_> {
    /// The sample of the rows of a source that a start draws; the number and the weight of all rows.
    fn sampled(
        &self,
        source: &mut dyn Source,
        should_cancel: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Option<(RowBatch<'static>, u64, f64)>> {
        let mut reservoir = Reservoir::new(self.sample_rows(source.dim()), self.seed_of(0));
        let (mut buffer, mut weight) = (RowBatch::default(), 0.0);
        source.rewind()?;
        while let Some(batch) = source.next_validated(&mut buffer)? {
            reservoir.offer(&batch)?;
            weight += batch.weights().map_or(batch.len() as f64, |weights| weights.iter().sum());
            if should_cancel(reservoir.seen()).is_break() {
                return Ok(None);
            }
        }
        if !(weight > 0.0) {
            return Err(Error::NoRows { weight });
        }
        let rows = reservoir.seen();
        Ok(Some((reservoir.into_sample()?, rows, weight)))
    }
}
