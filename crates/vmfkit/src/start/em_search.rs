//! The split-and-merge search for better optima of EM.

use crate::bessel;
use crate::density::VonMisesFisher;
use crate::error::Result;
use crate::m_step::{Maximisation, maximise};
use crate::mixture::{Assignment, Mixture};
use crate::rows::RowBatch;
use crate::sampler::Stream;
use crate::start::kmeans::{NUMBERS_AT_ONCE, STOP, rows_at_once};
use crate::start::plus_plus::ShouldCancel;
use crate::start::split_merge::{Belongs, Climbed, Landscape, Move, search};
use crate::stats::SufficientStats;
use crate::train::Fit;
use std::ops::ControlFlow;

/// Passes after which the limit of a climb is extrapolated.
const FIRST_PASSES: usize = 4;

/// The largest ratio of successive gains in the extrapolation; near 1 the series would diverge.
const SLOWEST: f64 = 0.9;

/// Safety factor of the extrapolated gain.
const HOPE: f64 = 1.5;

/// A few passes of EM over these rows; `None` if it is cancelled.
pub(crate) fn passes_of_em(
    rows: &RowBatch,
    start: &Mixture,
    how: &Maximisation,
    passes: usize,
    should_cancel: &mut ShouldCancel,
) -> Result<Option<Mixture>> {
    let mut mixture = start.clone();
    for _ in 0..passes {
        let Some(stats) = Likelihood::pass(rows, &mixture, should_cancel)? else { return Ok(None) };
        mixture = maximise(&stats, &mixture, how)?.0;
    }
    Ok(Some(mixture))
}

/// EM with split and merge on these rows, and its number of passes; the best so far if it is
/// cancelled. A mixture with more collapsed components never replaces one with fewer: collapsing on
/// a few rows raises the likelihood without limit.
pub(crate) fn search_of_em(
    rows: &RowBatch,
    start: Mixture,
    how: &Maximisation,
    rng: &mut Stream,
    should_cancel: &mut ShouldCancel,
) -> Result<(Mixture, usize)> {
    let landscape = Likelihood(how);
    let found = landscape.climb(rows, start, f64::NEG_INFINITY, should_cancel)?;
    let Climbed { mixture, passes, .. } = search(rows, found, &landscape, how, rng, should_cancel)?;
    Ok((mixture, passes))
}

/// The mean ln p, relative to that of the uniform density.
struct Likelihood<'a>(&'a Maximisation);

impl Likelihood<'_> {
    /// The statistics of all rows; `None` if it is cancelled.
    fn pass(rows: &RowBatch, mixture: &Mixture, should_cancel: &mut ShouldCancel) -> Result<Option<SufficientStats>> {
        let mut stats = SufficientStats::zero(mixture.components().len(), mixture.dim());
        let at_once = rows_at_once(mixture);
        for from in (0..rows.len()).step_by(at_once) {
            if should_cancel().is_break() {
                return Ok(None);
            }
            mixture.accumulate(&rows.slice(from, (from + at_once).min(rows.len())), Assignment::Soft, &mut stats)?;
        }
        Ok(Some(stats))
    }
}

impl Landscape for Likelihood<'_> {
    // Most climbs are abandoned after four passes, so 32 of them cost as much as eight of k-means.
    const PATIENCE: usize = 32;
    const CHANCES: usize = 8;

    fn scale(objective: f64) -> f64 {
        objective.abs()
    }

    fn climb(&self, rows: &RowBatch, start: Mixture, beat: f64, should_cancel: &mut ShouldCancel) -> Result<Climbed> {
        let dim = start.dim();
        let baseline = bessel::ln_normalizer(dim, 0.0);
        let tolerance = STOP.tolerance.unwrap_or_default();
        let (mut mixture, mut collapsed) = (start, 0);
        let mut objectives: Vec<f64> = Vec::new();
        loop {
            let passes = objectives.len();
            let Some(stats) = Self::pass(rows, &mixture, should_cancel)? else {
                // The mixture was not evaluated.
                return Ok(Climbed { mixture, objective: f64::NEG_INFINITY, collapsed: usize::MAX, passes, stopped: true });
            };
            let objective = stats.objective() / stats.weight() - baseline;
            let settled = objectives.last().is_some_and(|before| (objective - before).abs() <= tolerance * objective.abs());
            objectives.push(objective);
            if settled || hopeless(&objectives, beat) || objectives.len() >= STOP.passes {
                return Ok(Climbed { mixture, objective, collapsed, passes: passes + 1, stopped: false });
            }
            let (next, notes) = maximise(&stats, &mixture, self.0)?;
            (mixture, collapsed) = (next, self.0.count_collapsed(&notes, dim));
        }
    }

    fn visit(
        &self,
        rows: &RowBatch,
        mixture: &Mixture,
        should_cancel: &mut ShouldCancel,
        mut see: impl FnMut(usize, Belongs),
    ) -> Result<ControlFlow<()>> {
        let components = mixture.components().len();
        let ln_weights: Vec<f64> = mixture.weights().iter().map(|weight| weight.ln()).collect();
        let at_once = (NUMBERS_AT_ONCE / components).max(1);
        let mut found = Vec::new();
        for from in (0..rows.len()).step_by(at_once) {
            if should_cancel().is_break() {
                return Ok(ControlFlow::Break(()));
            }
            let to = (from + at_once).min(rows.len());
            found.resize((to - from) * components, 0.0);
            mixture.component_ln_densities_into(&rows.slice(from, to), &mut found)?;
            for (row, found) in found.chunks_exact(components).enumerate() {
                see(from + row, belongs(found, &ln_weights));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Halves start with the concentration of the whole; EM finds their own.
    fn halves(&self, members: &RowBatch, whole: &VonMisesFisher, found: Fit) -> Result<(f64, Mixture)> {
        let mut stats = SufficientStats::zero(2, whole.mean_direction().len());
        found.mixture.accumulate(members, Assignment::Nearest, &mut stats)?;
        let mass = stats.mass(0) + stats.mass(1);
        let densities = found.mixture.components().iter();
        let densities = densities.map(|half| VonMisesFisher::along(half.mean_direction().to_vec(), whole.concentration()));
        let halves = Mixture::new(vec![stats.mass(0) / mass, stats.mass(1) / mass], densities.collect::<Result<_>>()?)?;
        Ok((halves.evaluate(members)?.mean(), halves))
    }

    fn moved(&self, mixture: Mixture, Move { from, to }: Move, halves: &Mixture) -> Result<Mixture> {
        let (mut weights, mut densities) = (mixture.weights().to_vec(), mixture.components().to_vec());
        let [one, other] = [0, 1].map(|number| halves.components()[number].clone());
        (densities[to], densities[from]) = (one, other);
        if !self.0.fixed_weights {
            // The weight of the component that is removed goes to all others in proportion.
            let rest = 1.0 - weights[from];
            (weights[to], weights[from]) = (weights[to] * halves.weights()[0], weights[to] * halves.weights()[1]);
            weights.iter_mut().for_each(|weight| *weight /= rest);
        }
        Ok(Mixture::of_parts(weights, densities, mixture.has_background()))
    }
}

/// Whether a climb with these objectives will end below `beat`: the gains of EM approach a
/// geometric series.
fn hopeless(objectives: &[f64], beat: f64) -> bool {
    match objectives {
        [.., a, b, c] if objectives.len() >= FIRST_PASSES => {
            let factor = ((c - b) / (b - a)).clamp(0.0, SLOWEST);
            c + HOPE * (c - b) * factor / (1.0 - factor) < beat
        }
        _ => false,
    }
}

/// The most probable component of a row with these ln densities.
fn belongs(ln_densities: &[f64], ln_weights: &[f64]) -> Belongs {
    let logit = |k: usize| ln_densities[k] + ln_weights[k];
    let component = (1..ln_densities.len()).fold(0, |best, k| if logit(k) > logit(best) { k } else { best });
    let others = || (0..ln_densities.len()).filter(|k| *k != component).map(logit);
    let second = others().fold(f64::NEG_INFINITY, f64::max);
    // All others may have a weight of 0.
    let rest = if second.is_finite() { second + others().map(|other| (other - second).exp()).sum::<f64>().ln() } else { second };
    // ln p is ln(exp(logit) + exp(rest)), and without the component it is the rest.
    let ahead = logit(component) - rest;
    Belongs { component, own: ln_densities[component], loss: ahead.max(0.0) + (-ahead.abs()).exp().ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::m_step::ConcentrationPolicy;
    use crate::start::plus_plus::of_directions;
    use crate::start::split_merge::tests::around_axes;

    fn always() -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn searched(batch: &RowBatch, start: &Mixture, how: &Maximisation, should_cancel: &mut ShouldCancel) -> Mixture {
        search_of_em(batch, start.clone(), how, &mut Stream::new(1, 0), should_cancel).unwrap().0
    }

    fn objective(batch: &RowBatch, mixture: &Mixture) -> f64 {
        let stats = Likelihood::pass(batch, mixture, &mut always).unwrap().unwrap();
        stats.objective() / stats.weight()
    }

    /// The first rows, all of one group but the last.
    fn crowded(batch: &RowBatch, components: usize) -> Mixture {
        let rows = (0..components - 1).chain([batch.len() - 1]);
        let directions = of_directions(rows.map(|row| batch.row(row)).collect()).unwrap();
        let densities =
            directions.components().iter().map(|c| VonMisesFisher::along(c.mean_direction().to_vec(), 200.0).unwrap());
        Mixture::new(directions.weights().to_vec(), densities.collect()).unwrap()
    }

    /// An optimum that EM never leaves: all components but one share one group, and one has all
    /// others.
    #[test]
    fn em_leaves_an_optimum_in_which_components_crowd() {
        for groups in [4, 8] {
            let axes: Vec<usize> = (0..groups).collect();
            let rows = around_axes(&axes, groups + 1, 60);
            let batch = RowBatch::new(groups + 1, &rows).unwrap();
            let start = crowded(&batch, groups);
            let how = Maximisation::new();
            let stuck = Likelihood(&how).climb(&batch, start.clone(), f64::NEG_INFINITY, &mut always).unwrap();
            let nearest = |mixture: &Mixture, axis: usize| {
                mixture.components().iter().map(|c| c.mean_direction()[axis]).fold(f64::NEG_INFINITY, f64::max)
            };
            assert!(axes.iter().any(|&axis| nearest(&stuck.mixture, axis) < 0.9), "{groups} groups: EM alone finds them");
            let found = searched(&batch, &start, &how, &mut always);
            assert!(axes.iter().all(|&axis| nearest(&found, axis) > 0.99), "{groups} groups");
        }
    }

    /// Under every policy, with backgrounds, fixed weights and row weights; a background stays a
    /// background.
    #[test]
    fn the_objective_is_never_lower_than_that_of_em_alone() {
        let rows = around_axes(&[0, 1, 2, 3], 5, 50);
        let weights: Vec<f64> = (0..200).map(|row| f64::from(row % 3)).collect();
        let plain = RowBatch::new(5, &rows).unwrap();
        let policies = [
            ConcentrationPolicy::Free,
            ConcentrationPolicy::Ratio(1.5),
            ConcentrationPolicy::Shared,
            ConcentrationPolicy::Fixed(30.0),
        ];
        for batch in [plain.clone(), plain.with_weights(&weights).unwrap()] {
            for (policy, fixed) in policies.into_iter().flat_map(|policy| [(policy, false), (policy, true)]) {
                let how = Maximisation::new().policy(policy).fixed_weights(fixed);
                for start in [crowded(&batch, 4), crowded(&batch, 4).with_background(0.1).unwrap()] {
                    let alone = Likelihood(&how).climb(&batch, start.clone(), f64::NEG_INFINITY, &mut always).unwrap();
                    let found = searched(&batch, &start, &how, &mut always);
                    let (found_objective, objective) = (objective(&batch, &found), objective(&batch, &alone.mixture));
                    let higher = found_objective >= objective - 1e-12;
                    assert!(higher || alone.collapsed > 0, "{policy} {fixed}: {found_objective} {objective}");
                    assert_eq!(found.has_background(), start.has_background());
                    let sum: f64 = found.weights().iter().sum();
                    assert!((sum - 1.0).abs() < 1e-12 && (!fixed || found.weights() == start.weights()), "{policy} {fixed}");
                }
            }
        }
    }

    #[test]
    fn few_rows_and_equal_rows_end_with_finite_parameters() {
        let rows = around_axes(&[0, 1], 3, 3);
        let equal = [0.6, 0.0, 0.8].repeat(5);
        for rows in [&rows[..3], &rows[..6], &rows, &equal] {
            let batch = RowBatch::new(3, rows).unwrap();
            let start = of_directions(vec![batch.row(0), vec![0.0, 1.0, 0.0], vec![-1.0, 0.0, 0.0]]).unwrap();
            let found = searched(&batch, &start, &Maximisation::new(), &mut always);
            let numbers = found.components().iter().map(|c| c.concentration()).chain(found.weights().iter().copied());
            assert!(numbers.into_iter().all(f64::is_finite), "{} rows", batch.len());
        }
    }

    /// If stopped at any moment, it ends with the best result so far.
    #[test]
    fn a_search_that_is_stopped_keeps_what_it_has_found() {
        let rows = around_axes(&[0, 1, 2, 3, 4], 6, 40);
        let batch = RowBatch::new(6, &rows).unwrap();
        let (start, how) = (crowded(&batch, 5), Maximisation::new());
        let mut objectives = Vec::new();
        for most in (0..300).step_by(7) {
            let mut asked = 0;
            let found = searched(&batch, &start, &how, &mut || {
                asked += 1;
                if asked > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            objectives.push(objective(&batch, &found));
        }
        assert!(objectives.windows(2).all(|pair| pair[1] >= pair[0] - 1e-12) && objectives[0] < *objectives.last().unwrap());
    }

    #[test]
    fn a_climb_is_abandoned_only_if_its_gains_are_too_small() {
        assert!(!hopeless(&[0.0, 0.5, 0.75], 10.0), "too early to tell");
        assert!(hopeless(&[0.0, 0.5, 0.75, 0.875], 2.0));
        assert!(!hopeless(&[0.0, 0.5, 0.75, 0.875], 1.0), "that is where they lead");
        assert!(!hopeless(&[0.0, 0.5, 1.0, 1.5], 2.0), "it does not slow down");
        assert!(!hopeless(&[0.0, 0.5, 0.75, 0.875], f64::NEG_INFINITY));
    }

    /// The density that other components give a row is not lost with its own component.
    #[test]
    fn the_loss_without_a_component_counts_what_others_contribute() {
        let mixture = crowded(&RowBatch::new(3, &around_axes(&[0, 1, 2], 3, 10)).unwrap(), 3);
        let rows = around_axes(&[0, 1, 2], 3, 20);
        let batch = RowBatch::new(3, &rows).unwrap();
        let (mut whole, how) = (vec![0.0; batch.len()], Maximisation::new());
        mixture.ln_densities_into(&batch, &mut whole).unwrap();
        let ln_densities = |components: &[usize]| {
            let fraction: f64 = components.iter().map(|&k| mixture.weights()[k]).sum();
            let weights = components.iter().map(|&k| mixture.weights()[k] / fraction).collect();
            let rest = Mixture::new(weights, components.iter().map(|&k| mixture.components()[k].clone()).collect()).unwrap();
            let mut out = vec![0.0; batch.len()];
            rest.ln_densities_into(&batch, &mut out).unwrap();
            out.into_iter().map(|ln_p| ln_p + fraction.ln()).collect::<Vec<_>>()
        };
        let without = [ln_densities(&[1, 2]), ln_densities(&[0, 2]), ln_densities(&[0, 1])];
        let flow = Likelihood(&how).visit(&batch, &mixture, &mut always, |row, belongs| {
            let expected = whole[row] - without[belongs.component][row];
            assert!((belongs.loss - expected).abs() < 1e-9 * expected.abs().max(1.0), "row {row}");
        });
        assert!(flow.unwrap().is_continue());
    }
}
