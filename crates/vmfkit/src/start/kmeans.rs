//! Spherical k-means on rows in memory.

use crate::error::Result;
use crate::m_step::Maximisation;
use crate::mixture::{Assignment, Mixture, projections};
use crate::rows::RowBatch;
use crate::source::MemorySource;
use crate::start::plus_plus::ShouldCancel;
use crate::train::{Baseline, Em, Fit, Stop, Trainer, fit_while};
use std::ops::ControlFlow;

/// The stop of k-means, and of the fits within a split-and-merge search.
pub(crate) const STOP: Stop = Stop { tolerance: Some(1e-5), baseline: Baseline::Uniform, passes: 50 };

/// Multiplications between two calls of `should_cancel`, some tenths of a second of work. Most
/// samples take fewer per pass.
const PRODUCTS_AT_ONCE: u64 = 1 << 32;

/// The largest number of projections or densities in memory at a time.
pub(crate) const NUMBERS_AT_ONCE: usize = 1 << 22;

/// Rows between two calls of `should_cancel`.
pub(crate) fn rows_at_once(mixture: &Mixture) -> usize {
    let products = mixture.components().len() as u64 * mixture.dim() as u64;
    usize::try_from((PRODUCTS_AT_ONCE / products).max(1)).unwrap_or(usize::MAX)
}

/// Spherical k-means on these rows from the directions of a mixture.
pub(crate) fn k_means(rows: &RowBatch, start: Mixture, how: &Maximisation, should_cancel: &mut ShouldCancel) -> Result<Fit> {
    let rule = Em::new().assignment(Assignment::Nearest).maximisation(how.of_k_means());
    let mut source = MemorySource::new(rows.slice(0, rows.len())).batches(rows_at_once(&start));
    fit_while(&mut source, Trainer::new(start, rule, STOP)?, should_cancel)
}

/// The component nearest to a row, the projection on its direction, and the second largest
/// projection.
pub(crate) struct Nearest {
    pub component: usize,
    pub along: f64,
    pub second: f64,
}

/// Visits each row with the component nearest to it; a break if it is cancelled.
pub(crate) fn visit_nearest(
    rows: &RowBatch,
    mixture: &Mixture,
    should_cancel: &mut ShouldCancel,
    mut see: impl FnMut(usize, Nearest),
) -> Result<ControlFlow<()>> {
    let directions: Vec<_> = mixture.components().iter().map(|component| component.mean_direction().to_vec()).collect();
    let at_once = (NUMBERS_AT_ONCE / directions.len()).max(1);
    let mut found = Vec::new();
    for from in (0..rows.len()).step_by(at_once) {
        if should_cancel().is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let to = (from + at_once).min(rows.len());
        found.resize((to - from) * directions.len(), 0.0);
        projections(&rows.slice(from, to), &directions, &mut found)?;
        for (row, found) in found.chunks_exact(directions.len()).enumerate() {
            let first = Nearest { component: 0, along: f64::NEG_INFINITY, second: f64::NEG_INFINITY };
            let nearest = found.iter().enumerate().fold(first, |best, (component, &along)| {
                if along > best.along {
                    Nearest { component, along, second: best.along }
                } else {
                    Nearest { second: best.second.max(along), ..best }
                }
            });
            see(from + row, nearest);
        }
    }
    Ok(ControlFlow::Continue(()))
}
