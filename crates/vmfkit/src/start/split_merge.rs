//! The split-and-merge search for better optima of k-means and EM.
//!
//! Both end in local optima in which two components share a cluster while another covers two. The
//! search removes the component whose removal costs least, splits the one that gains most,
//! continues the fit and keeps the better mixture. It is the split and merge of Ueda et al. (Neural
//! Computation 12 (2000) 2109, doi:10.1162/089976600300015088), with the objective of a
//! [`Landscape`].

use crate::density::VonMisesFisher;
use crate::error::Result;
use crate::m_step::Maximisation;
use crate::mixture::Mixture;
use crate::rows::RowBatch;
use crate::sampler::Stream;
use crate::start::kmeans::{Nearest, k_means, visit_nearest};
use crate::start::ordered_rows::OrderedRows;
use crate::start::plus_plus::{ShouldCancel, of_directions, plus_plus};
use crate::train::{Fit, Status};
use rand::RngExt;
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// The cost, in passes over all rows, after which no other move is tried: about that of four more
/// runs of k-means.
const MOST_PASSES: f64 = 200.0;

/// A component is split again only if more than this fraction of its rows has changed.
const SAME_ROWS: f64 = 1.0 / 16.0;

/// The number of components to remove, and to split, among which moves are sought.
const CANDIDATES: usize = 24;

/// A move must gain more than this fraction of [`Landscape::scale`].
const WORTH: f64 = 1e-6;

/// The unit in which expected gains are compared, as a fraction of [`Landscape::scale`]; smaller
/// differences may be rounding.
const SAME_PROMISE: f64 = 1e-9;

/// A method of fitting with its objective: k-means or EM.
pub(crate) trait Landscape {
    /// Failed moves in a row after which the search ends.
    const PATIENCE: usize;

    /// How often one component may be removed, and be split, in the list of moves.
    const CHANCES: usize;

    /// The scale of changes of the objective.
    fn scale(objective: f64) -> f64;

    /// Fits from a mixture; it may give up when it will not exceed `beat`.
    fn climb(&self, rows: &RowBatch, start: Mixture, beat: f64, should_cancel: &mut ShouldCancel) -> Result<Climbed>;

    /// Visits each row with its component; a break if it is cancelled.
    fn visit(
        &self,
        rows: &RowBatch,
        mixture: &Mixture,
        should_cancel: &mut ShouldCancel,
        see: impl FnMut(usize, Belongs),
    ) -> Result<ControlFlow<()>>;

    /// The mean objective of the rows of one component when split into the two halves that k-means
    /// has found, and these halves.
    fn halves(&self, members: &RowBatch, whole: &VonMisesFisher, found: Fit) -> Result<(f64, Mixture)>;

    /// The mixture in which two halves replace the component that is split and the one that is
    /// removed.
    fn moved(&self, mixture: Mixture, single: Move, halves: &Mixture) -> Result<Mixture>;
}

/// The result of a climb.
#[derive(Debug, Clone)]
pub(crate) struct Climbed {
    pub mixture: Mixture,
    pub objective: f64,
    /// The number of collapsed components.
    pub collapsed: usize,
    /// The cost in passes over the rows; for a search, of all its climbs.
    pub passes: usize,
    /// Whether it was cancelled.
    pub stopped: bool,
}

/// The component of a row, the objective of the row there, and its loss without the component.
pub(crate) struct Belongs {
    pub component: usize,
    pub own: f64,
    pub loss: f64,
}

/// k-means, whose objective is the mean cosine of rows and their directions.
struct KMeans<'a>(&'a Maximisation);

impl Landscape for KMeans<'_> {
    const PATIENCE: usize = 8;
    const CHANCES: usize = 3;

    /// What k-means minimises: the mean cosine of rows in a small cap is near 1 whatever the fit.
    fn scale(objective: f64) -> f64 {
        (1.0 - objective).abs()
    }

    fn climb(&self, rows: &RowBatch, start: Mixture, _: f64, should_cancel: &mut ShouldCancel) -> Result<Climbed> {
        Ok(k_means(rows, start, self.0, should_cancel)?.into())
    }

    fn visit(
        &self,
        rows: &RowBatch,
        mixture: &Mixture,
        should_cancel: &mut ShouldCancel,
        mut see: impl FnMut(usize, Belongs),
    ) -> Result<ControlFlow<()>> {
        visit_nearest(rows, mixture, should_cancel, |row, Nearest { component, along, second }| {
            see(row, Belongs { component, own: along, loss: along - second });
        })
    }

    fn halves(&self, _: &RowBatch, _: &VonMisesFisher, found: Fit) -> Result<(f64, Mixture)> {
        Ok((found.objective(), found.mixture))
    }

    fn moved(&self, mixture: Mixture, Move { from, to }: Move, halves: &Mixture) -> Result<Mixture> {
        let mut directions: Vec<_> = mixture.components().iter().map(|component| component.mean_direction().to_vec()).collect();
        let half = |number: usize| halves.components()[number].mean_direction().to_vec();
        (directions[to], directions[from]) = (half(0), half(1));
        of_directions(directions)
    }
}

impl Climbed {
    /// Whether it is better than another.
    fn beats<L: Landscape>(&self, other: &Self) -> bool {
        match self.collapsed.cmp(&other.collapsed) {
            Ordering::Less => true,
            Ordering::Equal => self.objective - other.objective > WORTH * L::scale(other.objective),
            Ordering::Greater => false,
        }
    }
}

impl From<Fit> for Climbed {
    fn from(fit: Fit) -> Self {
        Climbed {
            objective: fit.objective(),
            // k-means has one concentration, so none collapses.
            collapsed: 0,
            passes: fit.trace.len(),
            stopped: fit.status == Status::Stopped,
            mixture: fit.mixture,
        }
    }
}

/// The split-and-merge search from a result of k-means; the best so far if it is cancelled.
pub(crate) fn split_merge(
    rows: &RowBatch,
    found: Fit,
    how: &Maximisation,
    rng: &mut Stream,
    should_cancel: &mut ShouldCancel,
) -> Result<Climbed> {
    search(rows, found.into(), &KMeans(how), how, rng, should_cancel)
}

/// The split-and-merge search from a result; the best so far if it is cancelled.
pub(crate) fn search<L: Landscape>(
    rows: &RowBatch,
    found: Climbed,
    landscape: &L,
    how: &Maximisation,
    rng: &mut Stream,
    should_cancel: &mut ShouldCancel,
) -> Result<Climbed> {
    let components = found.mixture.components().len() - usize::from(found.mixture.has_background());
    if components < 2 {
        return Ok(found);
    }
    let climbed = found.passes;
    let mut best = found;
    let mut passes = 0.0;
    // With many components, disjoint moves are made together as long as that helps.
    let mut at_once = components / 8;
    let mut moves = Moves::default();
    'moved: while !best.stopped && passes < MOST_PASSES {
        moves.unit = (SAME_PROMISE * L::scale(best.objective)).max(f64::MIN_POSITIVE);
        let Some(cost) = moves.look(rows, &best.mixture, landscape, how, rng.random(), should_cancel)? else { break };
        passes += cost;
        let mut failures = 0;
        while failures < L::PATIENCE && passes < MOST_PASSES {
            let together = moves.promising(at_once);
            let tried = match together.len() {
                0 | 1 => match moves.one_by_one(L::CHANCES).nth(failures) {
                    Some(single) => vec![single],
                    None => break 'moved,
                },
                _ => together,
            };
            // Fewer collapsed components win whatever the objective.
            let beat = if best.collapsed > 0 { f64::NEG_INFINITY } else { best.objective };
            let next = landscape.climb(rows, moves.made(&best.mixture, &tried, landscape)?, beat, should_cancel)?;
            passes += next.passes as f64;
            let stopped = next.stopped;
            let gained = next.beats::<L>(&best);
            if gained {
                best = next;
            }
            match (stopped, gained) {
                (true, _) => break 'moved,
                (_, true) => continue 'moved,
                _ if tried.len() > 1 => at_once = tried.len() / 2,
                _ => failures += 1,
            }
        }
        break;
    }
    Ok(Climbed { passes: climbed + passes.round() as usize, ..best })
}

/// Removes the component `from` and splits the component `to`.
#[derive(Clone, Copy)]
pub(crate) struct Move {
    pub from: usize,
    pub to: usize,
}

/// The expected gains of moves.
#[derive(Default)]
struct Moves {
    /// The unit in which expected gains are compared.
    unit: f64,
    /// The component of each row.
    nearest: Vec<usize>,
    /// The objective of each component after a split, and its halves; `None` without rows.
    halves: Vec<Option<(f64, Mixture)>>,
    /// Components by the loss of the objective without them, smallest first.
    missed: Vec<(usize, f64)>,
    /// Components by the gain of the objective from splitting them, largest first.
    divided: Vec<(usize, f64)>,
}

impl Moves {
    /// Computes the gains for a mixture and returns the cost in passes; `None` if it is cancelled.
    fn look<L: Landscape>(
        &mut self,
        rows: &RowBatch,
        mixture: &Mixture,
        landscape: &L,
        how: &Maximisation,
        word: u64,
        should_cancel: &mut ShouldCancel,
    ) -> Result<Option<f64>> {
        let components = mixture.components().len();
        self.halves.resize(components, None);
        let total: f64 = rows.weights().map_or(rows.len() as f64, |weights| weights.iter().sum());
        let fraction = |row: usize| rows.weights().map_or(1.0, |weights| weights[row]) / total;
        let before = std::mem::replace(&mut self.nearest, Vec::with_capacity(rows.len()));
        let (mut own, mut loss) = (vec![0.0; components], vec![0.0; components]);
        let flow = landscape.visit(rows, mixture, should_cancel, |row, belongs| {
            self.nearest.push(belongs.component);
            own[belongs.component] += fraction(row) * belongs.own;
            loss[belongs.component] += fraction(row) * belongs.loss;
        })?;
        if flow.is_break() {
            return Ok(None);
        }
        let cost = 1.0 + self.halve(rows, &before, mixture, landscape, how, word, should_cancel)?;
        let most = CANDIDATES.max(components / 8);
        let kept = loss.into_iter().enumerate().filter(|(component, _)| !mixture.is_background(*component));
        let mut missed: Vec<_> = kept.collect();
        missed.sort_by(|a, b| self.rounded(a.1).total_cmp(&self.rounded(b.1)));
        missed.truncate(most);
        self.missed = missed;
        let gain = |(component, halves): (usize, &Option<(f64, Mixture)>)| {
            halves.as_ref().map(|(halves, _)| (component, halves - own[component])).filter(|(_, gain)| self.rounded(*gain) > 0.0)
        };
        let mut divided: Vec<_> = self.halves.iter().enumerate().filter_map(gain).collect();
        divided.sort_by(|a, b| self.rounded(b.1).total_cmp(&self.rounded(a.1)));
        divided.truncate(most);
        self.divided = divided;
        Ok(if should_cancel().is_break() { None } else { Some(cost) })
    }

    /// Splits every component whose rows have changed since `before`, and returns the cost in
    /// passes.
    #[expect(clippy::too_many_arguments, reason = "the state of one round of the search")]
    fn halve<L: Landscape>(
        &mut self,
        rows: &RowBatch,
        before: &[usize],
        mixture: &Mixture,
        landscape: &L,
        how: &Maximisation,
        word: u64,
        should_cancel: &mut ShouldCancel,
    ) -> Result<f64> {
        let components = self.halves.len();
        let weight = |row: usize| rows.weights().map_or(1.0, |weights| weights[row]);
        let mut members = vec![Vec::new(); components];
        let (mut masses, mut changed) = (vec![0.0; components], vec![0.0; components]);
        for (row, &component) in self.nearest.iter().enumerate() {
            members[component].push(row);
            masses[component] += weight(row);
            match before.get(row) {
                Some(&other) if other != component => {
                    changed[component] += weight(row);
                    changed[other] += weight(row);
                }
                Some(_) => {}
                None => changed[component] = f64::INFINITY,
            }
        }
        let total: f64 = masses.iter().sum();
        let mut cost = 0.0;
        let mut buffer = Default::default();
        for (component, members) in members.iter().enumerate() {
            if changed[component] <= SAME_ROWS * masses[component] && masses[component] > 0.0 {
                continue;
            }
            self.halves[component] = None;
            if !(masses[component] > 0.0) || mixture.is_background(component) {
                continue;
            }
            if should_cancel().is_break() {
                break;
            }
            let members = rows.gather(members, &mut buffer)?;
            // One random stream per component, so that its seeds do not depend on the others.
            let rng = &mut Stream::new(word, component as u64);
            let (seeds, _) = plus_plus(&OrderedRows::new(&members)?, 2, rng, &mut || ControlFlow::Continue(()))?;
            let found = k_means(&members, of_directions(seeds)?, how, &mut || ControlFlow::Continue(()))?;
            let fraction = masses[component] / total;
            cost += fraction * 2.0 * found.trace.len() as f64 / components as f64;
            let (worth, halves) = landscape.halves(&members, &mixture.components()[component], found)?;
            self.halves[component] = Some((fraction * worth, halves));
        }
        Ok(cost)
    }

    /// The most promising disjoint moves, at most this many.
    fn promising(&self, most: usize) -> Vec<Move> {
        let mut moves: Vec<Move> = Vec::new();
        let mut missed = self.missed.iter();
        for (to, gain) in &self.divided {
            let free = |k: usize| moves.iter().all(|other| other.from != k && other.to != k);
            if moves.len() >= most || !free(*to) {
                continue;
            }
            match missed.find(|(from, _)| from != to && free(*from)) {
                Some((from, loss)) if gain > loss => moves.push(Move { from: *from, to: *to }),
                _ => break,
            }
        }
        moves
    }

    /// Single moves, the most promising first.
    fn one_by_one(&self, most_chances: usize) -> impl Iterator<Item = Move> {
        let mut moves = Vec::new();
        for &(to, gain) in self.divided.iter().take(CANDIDATES) {
            let others = self.missed.iter().take(CANDIDATES).filter(|(from, _)| *from != to);
            moves.extend(others.map(|&(from, loss)| (self.rounded(gain - loss), Move { from, to })));
        }
        moves.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut chances = std::collections::HashMap::new();
        moves.into_iter().map(|(_, single)| single).filter(move |single| {
            let mut has = |key: (bool, usize)| {
                let used = chances.entry(key).or_insert(0);
                *used += 1;
                *used <= most_chances
            };
            has((true, single.from)) & has((false, single.to))
        })
    }

    /// A gain as a whole number of units, so that rounding does not decide ties.
    fn rounded(&self, gain: f64) -> f64 {
        (gain / self.unit).round()
    }

    fn made<L: Landscape>(&self, mixture: &Mixture, moves: &[Move], landscape: &L) -> Result<Mixture> {
        moves.iter().try_fold(mixture.clone(), |mixture, single| {
            let (_, halves) = self.halves[single.to].as_ref().expect("components of moves were split");
            landscape.moved(mixture, *single, halves)
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// `each` rows around each of these axes of `dim` dimensions.
    pub(crate) fn around_axes(axes: &[usize], dim: usize, each: usize) -> Vec<f64> {
        let mut rows = Vec::new();
        for (number, &axis) in axes.iter().enumerate() {
            let direction = (0..dim).map(|x| f64::from(x == axis)).collect();
            let mixture = Mixture::new(vec![1.0], vec![VonMisesFisher::new(direction, 200.0).unwrap()]).unwrap();
            let (mut drawn, mut labels) = (vec![0.0; dim * each], vec![0; each]);
            mixture.fill(number as u64, 0, &mut drawn, &mut labels).unwrap();
            rows.extend(drawn);
        }
        rows
    }

    fn searched(batch: &RowBatch, start: Mixture, should_cancel: &mut ShouldCancel) -> (Climbed, Climbed) {
        let how = Maximisation::new();
        let found = k_means(batch, start, &how, &mut || ControlFlow::Continue(())).unwrap();
        (split_merge(batch, found.clone(), &how, &mut Stream::new(1, 0), should_cancel).unwrap(), found.into())
    }

    /// An optimum that k-means never leaves: all components but one share one group, and one has
    /// all others.
    #[test]
    fn components_leave_a_group_that_has_too_many_of_them() {
        for groups in [2, 4, 20] {
            let axes: Vec<usize> = (0..groups).collect();
            let rows = around_axes(&axes, groups + 1, 60);
            let batch = RowBatch::new(groups + 1, &rows).unwrap();
            let crowded = batch.slice(0, groups - 1);
            let last = batch.row(rows.len() / (groups + 1) - 1);
            let seeds = (0..groups - 1).map(|row| crowded.row(row)).chain([last]).collect();
            let (moved, stuck) = searched(&batch, of_directions(seeds).unwrap(), &mut || ControlFlow::Continue(()));
            assert!(moved.objective >= stuck.objective);
            let nearest = |axis: usize| {
                let along = moved.mixture.components().iter().map(|component| component.mean_direction()[axis]);
                along.fold(f64::NEG_INFINITY, f64::max)
            };
            assert!(axes.iter().all(|&axis| nearest(axis) > 0.99), "{groups} groups");
        }
    }

    /// The groups are 1e-4 apart: the mean cosine is 1 but for 1e-9, whatever the fit.
    #[test]
    fn components_move_within_a_small_cap() {
        let groups = 6;
        let spread = |group: usize, row: usize| {
            let (angle, wide) = (std::f64::consts::TAU * group as f64 / groups as f64, 2e-6 * (row % 7) as f64);
            [1e-4 * angle.cos() + wide, 1e-4 * angle.sin() - wide * (row % 3) as f64]
        };
        let rows: Vec<f64> = (0..groups * 40)
            .flat_map(|row| {
                let [x, y] = spread(row / 40, row % 40);
                [x, y, (1.0 - x * x - y * y).sqrt()]
            })
            .collect();
        let batch = RowBatch::new(3, &rows).unwrap();
        let seeds = (0..groups - 1).chain([groups * 40 - 1]).map(|row| batch.row(row)).collect();
        let (moved, stuck) = searched(&batch, of_directions(seeds).unwrap(), &mut || ControlFlow::Continue(()));
        assert!(1.0 - moved.objective < 0.1 * (1.0 - stuck.objective), "{} {}", 1.0 - moved.objective, 1.0 - stuck.objective);
    }

    /// If no move gains, nothing moves; and a few rows are enough.
    #[test]
    fn good_optima_stay_and_few_rows_are_enough() {
        let rows = around_axes(&[0, 1, 2], 3, 40);
        let batch = RowBatch::new(3, &rows).unwrap();
        let seeds = [0, 40, 80].map(|row| batch.row(row)).to_vec();
        let (moved, found) = searched(&batch, of_directions(seeds.clone()).unwrap(), &mut || ControlFlow::Continue(()));
        assert_eq!(moved.mixture, found.mixture);
        for rows in [1, 2, 3] {
            let (moved, found) =
                searched(&batch.slice(0, rows), of_directions(seeds.clone()).unwrap(), &mut || ControlFlow::Continue(()));
            assert!(moved.objective >= found.objective && moved.objective.is_finite(), "{rows} rows");
        }
        let weights: Vec<f64> = (0..120).map(|row| f64::from(row % 2 == 0)).collect();
        let (moved, _) = searched(&batch.clone().with_weights(&weights).unwrap(), of_directions(seeds).unwrap(), &mut || {
            ControlFlow::Continue(())
        });
        assert!(moved.objective.is_finite());
    }

    /// If stopped at any moment, it ends with the best result so far.
    #[test]
    fn a_search_that_is_stopped_keeps_what_it_has_found() {
        let rows = around_axes(&[0, 1, 2, 3, 4, 5], 7, 50);
        let batch = RowBatch::new(7, &rows).unwrap();
        let seeds: Vec<_> = (0..6).map(|row| batch.row(row)).collect();
        let mut objectives = Vec::new();
        for most in (0..600).step_by(7) {
            let mut asked = 0;
            let (moved, found) = searched(&batch, of_directions(seeds.clone()).unwrap(), &mut || {
                asked += 1;
                if asked > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            assert!(moved.objective >= found.objective, "stopped after {most}");
            objectives.push(moved.objective);
        }
        assert!(objectives.windows(2).all(|pair| pair[0] <= pair[1]) && objectives[0] < *objectives.last().unwrap());
    }
}
