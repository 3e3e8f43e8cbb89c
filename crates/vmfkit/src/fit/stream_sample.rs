//! [`StreamSample`]: the rows that a stream is calibrated with.

use super::held_rows;
use crate::calibrate::{Calibration, Evidence};
use crate::error::Result;
use crate::outlier::OutlierTable;
use crate::reservoir::{Reservoir, ReservoirState};
use crate::rows::RowBatch;
use crate::tensor_file::{Contents, File};
use crate::train::Fit;

/// The most numbers in a sample of rows, 32 MB in single precision.
const NUMBERS: usize = 1 << 23;

/// A random sample of the rows of a stream, and the calibration of the fit that it continues.
#[derive(Debug, Clone)]
pub(super) struct StreamSample {
    /// The number of rows to keep.
    rows: usize,
    kept: Option<Reservoir>,
    before: Option<(Calibration, OutlierTable)>,
}

/// The number of rows of this dimension that a stream keeps, if `rows` would be enough.
pub(super) fn rows_kept(rows: usize, dim: usize) -> usize {
    rows.min(NUMBERS / dim.max(1)).max(1)
}

impl StreamSample {
    /// At most this many rows.
    pub fn new(rows: usize) -> Self {
        StreamSample { rows, kept: None, before: None }
    }

    pub fn with_before(self, before: Option<(Calibration, OutlierTable)>) -> Self {
        StreamSample { before, ..self }
    }

    /// The number of rows that are kept.
    pub fn len(&self) -> usize {
        self.kept.as_ref().map_or(0, Reservoir::len)
    }

    /// Keeps some rows of a batch, after those before it have lost weight by this factor. The seed
    /// must be different for each batch.
    pub fn offer(&mut self, batch: &RowBatch, factor: f64, seed: u64) -> Result<()> {
        let rows = rows_kept(self.rows, batch.dim());
        let kept = self.kept.get_or_insert_with(|| Reservoir::new(rows, seed));
        if factor < 1.0 {
            kept.fade(factor);
        }
        kept.reseed(seed);
        kept.offer(batch)
    }

    /// The fit with the calibration of the earlier fit until as many rows are kept as that one rests
    /// on; then with one from the sample, which `evidence` makes. Without either, the fit itself.
    pub fn calibrated(&self, fit: Fit, evidence: &Evidence) -> Result<Fit> {
        if let Some((calibration, table)) = &self.before {
            let enough =
                usize::try_from(calibration.sample_rows).unwrap_or(usize::MAX).min(rows_kept(self.rows, fit.mixture.dim()));
            if self.len() < enough {
                return Ok(Fit { calibration: Some(calibration.clone()), outlier_table: Some(table.clone()), ..fit });
            }
        }
        match &self.kept {
            Some(kept) if !kept.is_empty() => {
                let sample = kept.clone().into_sample()?;
                let (calibration, outlier_table) = (evidence.calibration(&sample)?, evidence.outlier_scores(&sample)?.table()?);
                Ok(Fit { calibration: Some(calibration), outlier_table: Some(outlier_table), ..fit })
            }
            _ => Ok(fit),
        }
    }

    pub fn write(&self, contents: &mut Contents) {
        if let Some((calibration, table)) = &self.before {
            calibration.write(contents);
            table.write(contents);
        }
        if let Some(ReservoirState { rows, priorities, seen, weighted, threshold }) =
            self.kept.as_ref().and_then(Reservoir::state)
        {
            held_rows::write("sample", &rows, contents);
            contents.numbers("sample.priorities", vec![priorities.len()], priorities);
            contents.numbers("sample.counters", vec![3], vec![seen as f64, f64::from(u8::from(weighted)), threshold]);
        }
    }

    /// The sample of this many rows that [`Self::write`] wrote; `components` are those of the
    /// mixture, with and without the background.
    pub fn read(rows: usize, file: &File, (components, fitted): (usize, usize)) -> Result<Self> {
        let before = Calibration::read(file, components)?.zip(OutlierTable::read(file, fitted)?);
        let mut sample = StreamSample::new(rows).with_before(before);
        if file.text("sample").is_empty() {
            return Ok(sample);
        }
        let kept = held_rows::read("sample", file)?;
        let priorities = file.numbers("sample.priorities", [Some(kept.len())])?;
        let counters = file.numbers("sample.counters", [Some(3)])?;
        if let Some(wrong) = priorities.iter().chain(&counters).find(|x| !(**x >= 0.0 && x.is_finite())) {
            return file.wrong(format!("the numbers of the sample must be finite and at least 0, found: `{wrong}`"));
        }
        let most = rows_kept(rows, kept.dim());
        if kept.len() > most || counters[0] < kept.len() as f64 {
            let (kept, seen) = (kept.len(), counters[0]);
            return file.wrong(format!("the sample must have at most {most} of its {seen} rows, found: `{kept}`"));
        }
        let state = ReservoirState {
            rows: kept,
            priorities,
            seen: counters[0] as u64,
            weighted: counters[1] > 0.0,
            threshold: counters[2],
        };
        sample.kept = Some(Reservoir::new(most, 0).restored(&state));
        Ok(sample)
    }
}
