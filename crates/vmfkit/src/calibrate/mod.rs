//! [`Calibration`]: probabilities that hold on rows that do not fit the model.
//!
//! Real embeddings vary along few directions, so the logits of a mixture are far too large and its
//! responsibilities are nearly all 0 or 1. Divided by a temperature, they become probabilities that
//! hold: rows with a probability of 0.8 share a component with 80 % of their near neighbours. The
//! most probable component stays the same. MATH.md section 16.

mod distinct;
pub(crate) mod folds;
pub(crate) mod leave_one_out;
pub(crate) mod neighbours;
mod reliability;
pub(crate) mod temperature;

pub use reliability::{BINS, Bin, Reliability};

use crate::dispersion::component_dispersions;
use crate::error::Result;
use crate::m_step::Maximisation;
use crate::mixture::{Mixture, Summary, ln_sum_exp};
use crate::outlier::{OutlierTable, Scored};
use crate::policy::LARGEST_DISPERSION;
use crate::rows::RowBatch;
use crate::stats::ComponentSum;
use crate::tensor_file::{Contents, File, excerpt};
use distinct::Distinct;
use leave_one_out::LeaveOneOut;
use neighbours::{Neighbours, nearest_neighbours};
use rayon::prelude::*;
use temperature::Targets;

/// The most rows whose neighbours are searched, since time grows with their square.
pub const NEIGHBOUR_ROWS: usize = 8192;

/// Neighbours per row. They are near enough to belong to the same cluster as the row, and several,
/// so that the row's surroundings count and not a single other row.
pub const NEIGHBOURS: usize = 5;

/// Rows of a component for each neighbour: neighbours are at most a tenth of the component, so that
/// they stand for the surroundings of the row and not for the whole component.
const ROWS_PER_NEIGHBOUR: usize = 10;

/// The most logits in memory at a time, 8 MB. With more than 128 components, the temperature rests on
/// fewer rows; with 10,000 on 104, which still determine it to about a tenth.
pub(crate) const LOGITS: usize = 1 << 20;

/// Fewer rows with neighbours than this say nothing about probabilities: the standard error of a
/// fraction is above 0.1.
pub(crate) const FEWEST_ROWS: usize = 25;

/// If leaving a row out lowers scores by less than this fraction of their standard deviation, the
/// closed form is exact enough: were it wrong by its own size, 10 % would become 11.8 %, since a
/// normal distribution has the density 0.18 at its 10 % quantile.
const LARGEST_SHIFT: f64 = 0.1;

/// If a smaller fraction of the rows is in another component when left out, components are there
/// without any single row, and the closed form is exact enough. Such rows are unusual: at level 0.01
/// they would change the rate by half.
const LARGEST_CHANGE: f64 = 0.005;

/// What the temperature of a [`Calibration`] rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Basis {
    /// The rows fit the model (a dispersion of at most
    /// [`LARGEST_DISPERSION`]): the exact posterior is
    /// calibrated, and the temperature is 1.
    Model,
    /// The components of the rows' nearest neighbours.
    Neighbours,
    /// The known labels of the rows.
    Labels,
    /// Nothing, since there is only one component; the temperature is 1.
    OneComponent,
    /// Nothing, since too few rows of the sample have neighbours other than copies of them; the
    /// temperature is 1.
    FewRows,
}

impl Basis {
    const ALL: [Self; 5] = [Self::Model, Self::Neighbours, Self::Labels, Self::OneComponent, Self::FewRows];

    /// The name in model files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Neighbours => "neighbours",
            Self::Labels => "labels",
            Self::OneComponent => "one component",
            Self::FewRows => "few rows",
        }
    }
}

/// How far the probabilities of a mixture can be trusted, and the temperature that makes them hold.
///
/// A [`Fitter`](crate::Fitter) makes one for every fit, from a sample of its rows:
/// [`Fit::calibration`](crate::train::Fit). [`Self::responsibilities`] and [`Self::summarise`]
/// compute calibrated probabilities;
/// [`Mixture::responsibilities`] is the exact posterior of the model.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Calibration {
    /// The [dispersion](crate::dispersion::dispersion): how many times more the rows vary along
    /// their mean directions than the model allows.
    pub dispersion: f64,
    /// Logits are divided by this; at least 1.
    pub temperature: f64,
    /// What the temperature rests on.
    pub basis: Basis,
    /// The number of rows in the sample that was calibrated with.
    pub sample_rows: u64,
    /// Copies of rows that were not counted as neighbours: rows merged with an equal one, and pairs of
    /// rows that are equal but for rounding.
    pub copies: u64,
    /// The reliability of the exact posterior, and of calibrated probabilities, on the sample; both
    /// empty unless neighbours or labels were used.
    pub raw: Reliability,
    /// The reliability of calibrated probabilities.
    pub calibrated: Reliability,
    /// The dispersion of each component; 1 where it cannot be measured.
    pub spreads: Vec<f64>,
}

/// The scores of rows, each under the mixture without it.
pub(crate) struct OutlierScores {
    scored: Vec<Scored>,
    /// Without the background.
    components: usize,
    /// Whether rows change their own scores so much that the closed form is not exact enough, and
    /// the fit should be repeated without them.
    pub is_rough: bool,
}

impl OutlierScores {
    /// Replaces the scores of these rows by their ln densities under a mixture that was fitted to
    /// others.
    pub fn replace(&mut self, rows: &[usize], ln_densities: &[f64]) {
        rows.iter().zip(ln_densities).for_each(|(row, score)| self.scored[*row].score = *score);
    }

    /// The table of p-values.
    ///
    /// # Errors
    /// [`Error::NoRows`](crate::Error::NoRows) if the rows have no weight.
    pub fn table(self) -> Result<OutlierTable> {
        OutlierTable::of_scores(self.scored, self.components)
    }
}

/// What a sample of rows says about a fit.
pub(crate) struct Evidence<'a> {
    pub mixture: &'a Mixture,
    /// Of the last M step; empty if unknown.
    pub sums: &'a [ComponentSum],
    /// The total weight of the rows of the fit.
    pub weight: f64,
    /// The weight of each row of the sample in the fit; `None` if the rows of the sample have their
    /// own. A sample of some of the rows has weights that stand for the others, too; its rows then
    /// have the mean weight.
    pub row_weight: Option<f64>,
    pub how: &'a Maximisation,
    /// The dispersion, if it is known; otherwise it is measured.
    pub dispersion: Option<f64>,
    /// Whether the M step counted each row for its most probable component alone.
    pub is_hard: bool,
    /// The component for which the M step counted each row of the sample, if it was known.
    pub labels: Option<&'a [u32]>,
}

impl Evidence<'_> {
    /// Calibrates with a random sample of the rows of the fit: by their labels if they are known,
    /// otherwise by their neighbours.
    pub fn calibration(&self, sample: &RowBatch) -> Result<Calibration> {
        let mut buffer = RowBatch::default();
        let distinct = Distinct::new(sample, self.labels, self.row_weights(sample), &mut buffer)?;
        let (mut calibration, is_model) = self.uncalibrated(&distinct.rows)?;
        calibration.sample_rows = sample.len() as u64;
        if is_model {
            return Ok(calibration);
        }
        match &distinct.labels {
            Some(labels) => self.calibrate_by_labels(calibration, &distinct.rows, labels, &distinct.left_out),
            None => self.calibrate_by_neighbours(Calibration { copies: distinct.merged, ..calibration }, &distinct.rows),
        }
    }

    fn calibrate_by_neighbours(&self, mut calibration: Calibration, sample: &RowBatch) -> Result<Calibration> {
        let (mut buffer, mut query_buffer) = (RowBatch::default(), RowBatch::default());
        let rows = sample.gather(&evenly(sample.len(), NEIGHBOUR_ROWS), &mut buffer)?;
        let neighbours = nearest_neighbours(&rows, NEIGHBOURS)?;
        calibration.copies += neighbours.copies_dropped as u64;
        let assigned = self.mixture.assign(&rows)?;
        let components = self.mixture.components().len();
        // All rows are neighbours; with many components, fewer are predicted.
        let queries = evenly(rows.len(), self.most_logits());
        let targets = neighbour_targets(&rows, &queries, &neighbours, &assigned, components);
        if targets.chunk_by(|a, b| a.0 == b.0).count() < FEWEST_ROWS {
            calibration.basis = Basis::FewRows;
            return Ok(calibration);
        }
        let labels: Vec<u32> = queries.iter().map(|&row| assigned[row]).collect();
        let queries = rows.gather(&queries, &mut query_buffer)?;
        let mut logits = vec![0f32; queries.len() * components];
        self.mixture.for_each_row(&queries, components, &mut logits, relative)?;
        calibration.calibrate(Basis::Neighbours, components, logits, &labels, targets);
        Ok(calibration)
    }

    /// Each row is predicted by the mixture without it, which had this weight in the fit.
    fn calibrate_by_labels(
        &self,
        mut calibration: Calibration,
        sample: &RowBatch,
        labels: &[u32],
        left_out: &[f64],
    ) -> Result<Calibration> {
        let (mut buffer, chosen) = (RowBatch::default(), evenly(sample.len(), self.most_logits()));
        let (rows, labels) = (sample.gather(&chosen, &mut buffer)?, chosen.iter().map(|&row| labels[row]).collect::<Vec<_>>());
        if rows.len() < FEWEST_ROWS {
            calibration.basis = Basis::FewRows;
            return Ok(calibration);
        }
        let components = self.mixture.components().len();
        let without = self.leave_one_out();
        let mut corrected = vec![0f64; rows.len() * components];
        self.mixture.for_each_row(&rows, components, &mut corrected, |found, out| out.copy_from_slice(found))?;
        let mut logits = vec![0f32; corrected.len()];
        for (row, (corrected, out)) in corrected.chunks_exact_mut(components).zip(logits.chunks_exact_mut(components)).enumerate()
        {
            without.correct(corrected, left_out[chosen[row]], |k| f64::from(u8::from(k == labels[row] as usize)));
            relative(corrected, out);
        }
        let assigned: Vec<u32> = logits.chunks_exact(components).map(|logits| first_largest(logits) as u32).collect();
        let of_sample = |row: usize| rows.weights().map_or(1.0, |weights| weights[row]);
        let targets = (0..rows.len()).filter(|&row| of_sample(row) > 0.0);
        let targets = targets.map(|row| (row as u32, labels[row], of_sample(row))).collect();
        calibration.calibrate(Basis::Labels, components, logits, &assigned, targets);
        Ok(calibration)
    }

    /// The scores of a random sample of the rows of the fit, each under the mixture without it, in
    /// closed form.
    pub fn outlier_scores(&self, sample: &RowBatch) -> Result<OutlierScores> {
        let without = self.leave_one_out();
        let components = self.mixture.components().len();
        let weights = self.row_weights(sample);
        let rows = (LOGITS / components).clamp(1, sample.len().max(1));
        let mut scored = Vec::with_capacity(sample.len());
        let (mut logits, mut shift, mut changed) = (Vec::new(), 0.0, 0);
        let fitted = components - usize::from(self.mixture.has_background());
        // Its score, whether its component changed, and by how much its score did.
        let score_row = |row: usize, logits: &mut [f64]| {
            let weight = sample.weights().map_or(1.0, |weights| weights[row]);
            let total = ln_sum_exp(logits);
            let before = logits.to_vec();
            let component = self.labels.map(|labels| labels[row] as usize).or(self.is_hard.then(|| first_largest(&before)));
            without.correct(logits, weights(row), |k| match component {
                Some(component) => f64::from(u8::from(k == component)),
                None => (before[k] - total).exp(),
            });
            let found = folds::score(self.mixture, logits, weight);
            // The background is last and is nobody's component.
            let has_changed = found.component as usize != first_largest(&before[..fitted]);
            let is_finite = found.score > f64::MIN;
            let shift = if is_finite { folds::score(self.mixture, &before, weight).score - found.score } else { 0.0 };
            (found, has_changed, shift)
        };
        for from in (0..sample.len()).step_by(rows) {
            let part = sample.slice(from, (from + rows).min(sample.len()));
            logits.resize(part.len() * components, 0.0);
            self.mixture.for_each_row(&part, components, &mut logits, |found, out| out.copy_from_slice(found))?;
            let of_rows = logits.par_chunks_exact_mut(components).enumerate();
            let of_rows: Vec<_> = of_rows.map(|(row, logits)| score_row(from + row, logits)).collect();
            for (found, has_changed, difference) in of_rows {
                changed += usize::from(has_changed);
                shift += difference;
                scored.push(found);
            }
        }
        // Known labels do not depend on other rows, and neither does a mixture without an M step.
        let is_iterated = self.labels.is_none() && !self.sums.is_empty();
        let rows = sample.len() as f64;
        let has_changed = changed as f64 > LARGEST_CHANGE * rows && shift > LARGEST_SHIFT * rows * spread(&scored);
        Ok(OutlierScores { scored, components: fitted, is_rough: is_iterated && has_changed })
    }

    fn leave_one_out(&self) -> LeaveOneOut<'_> {
        LeaveOneOut::new(self.mixture, self.sums, self.weight, self.how)
    }

    /// The calibration before a temperature is found, and whether none is needed.
    fn uncalibrated(&self, sample: &RowBatch) -> Result<(Calibration, bool)> {
        let components = component_dispersions(sample, self.mixture)?;
        let freedom: f64 = components.iter().map(|(_, freedom)| freedom).sum();
        let measured = components.iter().map(|(spread, freedom)| spread * freedom).sum::<f64>() / freedom;
        let dispersion = self.dispersion.unwrap_or(if freedom > 0.0 { measured } else { 1.0 });
        let is_single = self.mixture.components().len() == 1;
        let fits = dispersion <= LARGEST_DISPERSION;
        let calibration = Calibration {
            dispersion,
            temperature: 1.0,
            basis: if is_single { Basis::OneComponent } else { Basis::Model },
            sample_rows: sample.len() as u64,
            copies: 0,
            raw: Reliability::default(),
            calibrated: Reliability::default(),
            spreads: components.iter().map(|(spread, _)| *spread).collect(),
        };
        Ok((calibration, is_single || fits))
    }

    /// The most rows whose logits are in memory at a time.
    fn most_logits(&self) -> usize {
        NEIGHBOUR_ROWS.min((LOGITS / self.mixture.components().len()).max(FEWEST_ROWS))
    }

    /// The weight of each row of the sample in the fit.
    fn row_weights<'s>(&self, sample: &'s RowBatch) -> impl Fn(usize) -> f64 + Sync + 's {
        let row_weight = self.row_weight;
        move |row| row_weight.unwrap_or_else(|| sample.weights().map_or(1.0, |weights| weights[row]))
    }
}

impl Calibration {
    /// The calibrated probability of each component given the row, row by row.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`](crate::Error::DimensionMismatch); too little memory.
    pub fn responsibilities(&self, mixture: &Mixture, rows: &RowBatch) -> Result<Vec<f64>> {
        mixture.tempered_responsibilities(rows, self.temperature)
    }

    /// [`Mixture::summarise`] with calibrated probabilities. Densities are those of the mixture.
    pub fn summarise(&self, mixture: &Mixture, rows: &RowBatch, top: usize) -> Result<Summary> {
        mixture.summarise_tempered(rows, top, self.temperature)
    }

    /// True if calibrated probabilities differ from the exact posterior.
    pub fn is_tempered(&self) -> bool {
        self.temperature > 1.0
    }

    /// Finds the temperature at which the logits predict the targets best, and tabulates how well
    /// they do. `labels` are the most probable components.
    fn calibrate(&mut self, basis: Basis, components: usize, logits: Vec<f32>, labels: &[u32], targets: Vec<(u32, u32, f64)>) {
        let of_rows: Vec<(u32, f64, f64)> = targets
            .chunk_by(|a, b| a.0 == b.0)
            .map(|row| {
                let weight: f64 = row.iter().map(|target| target.2).sum();
                let confirmed =
                    row.iter().filter(|target| target.1 == labels[target.0 as usize]).map(|target| target.2).sum::<f64>();
                (row[0].0, weight, confirmed / weight)
            })
            .collect();
        let targets = Targets::new(components, logits, targets);
        let coldness = targets.best_coldness();
        let reliability = |coldness: f64| {
            Reliability::new(
                of_rows.iter().map(|&(row, weight, confirmed)| (weight, targets.largest(row as usize, coldness), confirmed)),
            )
        };
        (self.basis, self.temperature) = (basis, 1.0 / coldness);
        (self.raw, self.calibrated) = (reliability(1.0), reliability(coldness));
    }

    pub(crate) fn write(&self, contents: &mut Contents) {
        contents.text("calibration", self.basis.name());
        contents.text("temperature", format!("{:?}", self.temperature));
        contents.text("calibration_dispersion", format!("{:?}", self.dispersion));
        contents.text("calibration_rows", self.sample_rows.to_string());
        contents.text("calibration_copies", self.copies.to_string());
        contents.numbers("reliability", vec![2, BINS, 3], self.raw.numbers().chain(self.calibrated.numbers()).collect());
        contents.numbers("spreads", vec![self.spreads.len()], self.spreads.clone());
    }

    /// The calibration that [`Self::write`] wrote, if there is one, of this many components.
    pub(crate) fn read(file: &File, components: usize) -> Result<Option<Self>> {
        let name = file.text("calibration");
        if name.is_empty() {
            return Ok(None);
        }
        let Some(basis) = Basis::ALL.into_iter().find(|basis| basis.name() == name) else {
            return file.wrong(format!("metadata `calibration` must be the name of a basis, found: `{}`", excerpt(name)));
        };
        let temperature: f64 = file.parsed("temperature")?;
        if !(temperature >= 1.0 && temperature.is_finite()) {
            return file.wrong(format!("metadata `temperature` must be finite and at least 1, found: `{temperature}`"));
        }
        let dispersion: f64 = file.parsed("calibration_dispersion")?;
        let numbers = file.numbers("reliability", [Some(2), Some(BINS), Some(3)])?;
        let spreads = file.numbers("spreads", [Some(components)])?;
        if let Some(wrong) = numbers.iter().chain(&spreads).chain([&dispersion]).find(|x| !(x.is_finite() && **x >= 0.0)) {
            return file.wrong(format!("the numbers of a calibration must be finite and at least 0, found: `{wrong}`"));
        }
        let (raw, calibrated) = numbers.split_at(3 * BINS);
        Ok(Some(Calibration {
            dispersion,
            temperature,
            basis,
            sample_rows: file.parsed("calibration_rows")?,
            copies: file.parsed("calibration_copies")?,
            raw: Reliability::of_numbers(raw),
            calibrated: Reliability::of_numbers(calibrated),
            spreads,
        }))
    }
}

/// Numbers of rows, evenly spaced since files are often sorted: all of them, or this many.
fn evenly(rows: usize, most: usize) -> Vec<usize> {
    let most = most.min(rows);
    (0..most).map(|number| number * rows / most).collect()
}

/// Query, component and weight of each neighbour of each query that counts. A row has at most one
/// neighbour for every [`ROWS_PER_NEIGHBOUR`] rows of its component, and none if it is alone there:
/// of a component with three rows, the third neighbour of a row is another component's.
fn neighbour_targets(
    rows: &RowBatch,
    queries: &[usize],
    neighbours: &Neighbours,
    assigned: &[u32],
    components: usize,
) -> Vec<(u32, u32, f64)> {
    let mut sizes = vec![0usize; components];
    assigned.iter().for_each(|component| sizes[*component as usize] += 1);
    let weight = |row: usize| rows.weights().map_or(1.0, |weights| weights[row]);
    let of_query = |(query, &row): (usize, &usize)| {
        let count = match sizes[assigned[row] as usize] {
            1 => 0,
            size => (size / ROWS_PER_NEIGHBOUR).max(1),
        };
        neighbours.of(row).take(count).map(move |other| (query as u32, assigned[other], weight(row)))
    };
    queries.iter().enumerate().filter(|(_, row)| weight(**row) > 0.0).flat_map(of_query).collect()
}

/// The standard deviation of scores by their quartiles, which outliers do not change. Infinite
/// without scores.
fn spread(scored: &[Scored]) -> f64 {
    let mut scores: Vec<f64> = scored.iter().map(|row| row.score).filter(|score| score.is_finite()).collect();
    scores.sort_by(f64::total_cmp);
    match scores.len() {
        0 => f64::INFINITY,
        rows => (scores[3 * (rows - 1) / 4] - scores[(rows - 1) / 4]) / 1.349,
    }
}

/// Logits relative to the largest, which is 0.
pub(crate) fn relative(logits: &[f64], out: &mut [f32]) {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    out.iter_mut().zip(logits).for_each(|(out, z)| *out = (z - largest) as f32);
}

pub(crate) fn first_largest<T: PartialOrd>(logits: &[T]) -> usize {
    (1..logits.len()).fold(0, |best, k| if logits[k] > logits[best] { k } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_one_neighbour_for_every_ten_rows_of_its_component() {
        // Rows on a circle: component 0 has 60 of them, 1 has 25, 2 has 4, and 3 has 1.
        let assigned = [vec![0; 60], vec![1; 25], vec![2; 4], vec![3; 1]].concat();
        let angles = (0..90).map(|row| f64::from(row) / 20.0);
        let values: Vec<f64> = angles.flat_map(|angle| [angle.cos(), angle.sin()]).collect();
        let mut weights = vec![1.0; 90];
        weights[7] = 0.0;
        let rows = RowBatch::new(2, &values).unwrap().with_weights(weights).unwrap();
        let neighbours = nearest_neighbours(&rows, NEIGHBOURS).unwrap();
        let queries = [7, 20, 70, 86, 89];
        let targets = neighbour_targets(&rows, &queries, &neighbours, &assigned, 4);
        let of_query = |query: u32| targets.iter().filter(|target| target.0 == query).map(|target| target.1).collect::<Vec<_>>();
        assert_eq!([0, 1, 2, 3, 4].map(|query| of_query(query).len()), [0, 5, 2, 1, 0]);
        assert!(of_query(1).iter().all(|component| *component == 0) && of_query(3) == [2]);
    }

    #[test]
    fn rows_are_chosen_evenly() {
        assert_eq!(evenly(4, 10), [0, 1, 2, 3]);
        assert_eq!(evenly(10, 4), [0, 2, 5, 7]);
        assert!(evenly(0, 4).is_empty());
    }

    #[test]
    fn the_spread_of_scores_is_a_standard_deviation_that_ignores_outliers() {
        let scored = |score| Scored { score, component: 0, weight: 1.0 };
        let mut scores: Vec<Scored> = (0..1001).map(|row| scored(f64::from(row) / 1000.0)).collect();
        scores.extend([scored(-1e9), scored(f64::NEG_INFINITY)]);
        assert!((spread(&scores) - 0.5 / 1.349).abs() < 0.01, "{}", spread(&scores));
        assert_eq!(spread(&[]), f64::INFINITY);
    }
}
