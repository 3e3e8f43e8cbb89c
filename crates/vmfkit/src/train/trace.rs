//! [`Fit`]: the result of a fit, with one [`Pass`] for each pass over the rows.

use super::duplicates::duplicates;
use super::stop::{Status, scale};
use crate::calibrate::Calibration;
use crate::m_step::Note;
use crate::mixture::{Assignment, Mixture};
use crate::outlier::OutlierTable;
use crate::settings::Settings;
use crate::stats::ComponentSum;

/// The record of one pass.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Pass {
    /// The mean objective of the rows, each under the mixture of its E step: for EM the mean of
    /// ln p before the M step of this pass.
    pub objective: f64,
    /// Seconds since the trainer was made; in a fit by a [`Fitter`](crate::Fitter) since the
    /// restart began, its start included. 0 on `wasm32-unknown-unknown`, which has no clock.
    pub seconds: f64,
    /// The smallest weight after the pass.
    pub smallest_weight: f64,
    /// The largest concentration after the pass.
    pub largest_concentration: f64,
    /// The temperature of the assignments; 1 without annealing.
    pub temperature: f64,
}

impl Pass {
    /// The length of [`Self::numbers`].
    pub(crate) const NUMBERS: usize = 4;

    /// The record of a pass that has led to this mixture.
    pub(super) fn of(mixture: &Mixture, objective: f64, seconds: f64, temperature: f64) -> Self {
        let smallest_weight = mixture.weights().iter().copied().fold(f64::INFINITY, f64::min);
        let largest_concentration = mixture.components().iter().map(|c| c.concentration()).fold(0.0, f64::max);
        Pass { objective, seconds, smallest_weight, largest_concentration, temperature }
    }

    /// What files keep: everything but the seconds, which differ between equal fits.
    pub(crate) fn numbers(&self) -> [f64; Self::NUMBERS] {
        [self.objective, self.smallest_weight, self.largest_concentration, self.temperature]
    }

    /// # Panics
    /// Unless there are [`Self::NUMBERS`] numbers.
    pub(crate) fn of_numbers(numbers: &[f64]) -> Self {
        let [objective, smallest_weight, largest_concentration, temperature] = *numbers else {
            panic!("{} numbers a pass", Self::NUMBERS);
        };
        Pass { objective, seconds: 0.0, smallest_weight, largest_concentration, temperature }
    }
}

/// The result of a fit.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Fit {
    /// The fitted mixture.
    pub mixture: Mixture,
    /// One entry for each pass.
    pub trace: Vec<Pass>,
    /// Why the fit ended.
    pub status: Status,
    /// Warnings about single components and about the fit as a whole.
    pub notes: Vec<Note>,
    /// The total weight of the rows of a pass.
    pub weight: f64,
    /// The number of rows of a pass; 0 if only their statistics were seen.
    pub rows: u64,
    /// Passes of the split-and-merge search over a sample of the rows, before the first pass of
    /// the trace; 0 without a search.
    pub search_passes: usize,
    /// The mass and the shortfall of each component under the last M step. Empty for methods
    /// without an M step (SGD) and before the first pass.
    pub sums: Vec<ComponentSum>,
    /// How far probabilities can be trusted; `None` if this was not asked for or the fit was
    /// stopped.
    pub calibration: Option<Calibration>,
    /// The scores that p-values of rows are computed from; `None` as for `calibration`.
    pub outlier_table: Option<OutlierTable>,
    /// The settings of the [`Fitter`](crate::Fitter), if there was one.
    pub settings: Settings,
}

impl Fit {
    /// The dispersion of the rows, if the fit's policy depends on it and it was measured or given.
    pub fn dispersion(&self) -> Option<f64> {
        self.settings.dispersion()
    }

    /// The objective of the last pass, -infinity without passes.
    pub fn objective(&self) -> f64 {
        last_objective(&self.trace)
    }
}

pub(super) fn last_objective(trace: &[Pass]) -> f64 {
    trace.last().map_or(f64::NEG_INFINITY, |pass| pass.objective)
}

/// An objective that ends lower than its maximum by more than this fraction of its scale is worth a
/// warning. Random assignments and mini-batches may lose less than that.
const FALL: f64 = 0.25;

/// Warnings about a fit that has ended with these passes and this mixture.
pub(super) fn notes_at_the_end(trace: &[Pass], mixture: &Mixture, assignment: Assignment) -> Vec<Note> {
    let Some(last) = trace.last() else { return Vec::new() };
    let mut notes = Vec::new();
    if last.temperature > 1.0 {
        notes.push(Note::Warm { temperature: last.temperature });
    }
    // Objectives at different temperatures cannot be compared.
    let comparable = trace.iter().enumerate().filter(|(_, pass)| pass.temperature == last.temperature);
    if let Some((number, best)) = comparable.max_by(|(_, a), (_, b)| a.objective.total_cmp(&b.objective))
        && best.objective - last.objective > FALL * scale(best.objective, assignment, mixture.dim())
    {
        notes.push(Note::Fallen { pass: number + 1, from: best.objective, to: last.objective });
    }
    // At a high temperature components often coincide.
    if last.temperature == 1.0 {
        notes.extend(duplicates(mixture));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::density::VonMisesFisher;

    fn passes(objectives: &[f64]) -> Vec<Pass> {
        objectives.iter().map(|&objective| Pass { objective, temperature: 1.0, ..Pass::default() }).collect()
    }

    #[test]
    fn an_objective_that_falls_is_named() {
        let mixture = Mixture::new(vec![1.0], vec![VonMisesFisher::uniform(5).unwrap()]).unwrap();
        let notes = |objectives: &[f64]| notes_at_the_end(&passes(objectives), &mixture, Assignment::Soft);
        // ln p of the uniform distribution on the sphere in five dimensions is -3.27.
        assert_eq!(notes(&[-3.0, -1.0, -1.5]), []);
        let [note @ Note::Fallen { pass: 2, from, to }] = notes(&[-3.0, -1.0, -2.0])[..] else { panic!("a fall") };
        assert_eq!((from, to), (-1.0, -2.0));
        assert_eq!(note.to_string().split(':').next(), Some("the objective fell from -1.0000 in pass 2 to -2.0000"));
        // A mean cosine is measured from 1.
        let nearest = |objectives: &[f64]| notes_at_the_end(&passes(objectives), &mixture, Assignment::Nearest);
        assert_eq!(nearest(&[0.5, 0.4]), []);
        assert_eq!(nearest(&[0.9, 0.8]).len(), 1);
    }
}
