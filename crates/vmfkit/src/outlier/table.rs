//! [`OutlierTable`]: conformal p-values of rows, MATH.md section 16.

use crate::error::ParseChoiceError;
use crate::error::{Error, Result};
use crate::mixture::Mixture;
use crate::rows::RowBatch;
use crate::tensor_file::{Contents, File};

/// Which rows a row is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OutlierScope {
    /// All rows: the p-value holds over all rows together.
    #[default]
    Overall,
    /// The rows of the row's own component: the p-value holds within each component, so broad
    /// components have no more outliers than narrow ones (Mondrian conformal prediction).
    Component,
}

impl OutlierScope {
    /// The name used on the command line and in Python.
    pub fn name(self) -> &'static str {
        match self {
            Self::Overall => "overall",
            Self::Component => "component",
        }
    }
}

impl std::fmt::Display for OutlierScope {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for OutlierScope {
    type Err = ParseChoiceError;

    fn from_str(text: &str) -> std::result::Result<Self, ParseChoiceError> {
        let all = [Self::Overall, Self::Component];
        all.into_iter()
            .find(|scope| scope.name() == text)
            .ok_or_else(|| ParseChoiceError::new("scope", &["overall", "component"], text))
    }
}

/// Scores of rows, from which the p-values of other rows follow whatever the distribution of the
/// rows (conformal prediction: Vovk, Gammerman and Shafer, doi:10.1007/b106715).
///
/// The score of a row is its ln density, a background left out. With n rows in the table, the
/// p-value of a new row is (1 + the number of them whose scores are at most its own)/(n + 1). If
/// the rows of the table were not used for the fit and the new row is exchangeable with them,
/// P(p <= a) <= a for every a. [`Self::held_out`] makes such a table.
///
/// A fit makes a table without holding rows out: each row of a sample is scored by the mixture as
/// its last M step would have left it without that row, in closed form. If single rows keep
/// components in place, the fit is repeated without a tenth of the rows at a time instead. The
/// guarantee is approximate; docs/calibration.md has measured rates.
///
/// The table keeps about 1,200 points, all of the smallest scores among them. Between points the
/// larger p-value is returned, which is at most 0.5 % too large.
///
/// ```
/// use vmfkit::outlier::{OutlierScope, OutlierTable};
/// use vmfkit::{RowBatch, Mixture, VonMisesFisher};
/// let mixture = Mixture::new(vec![1.0], vec![VonMisesFisher::new(vec![1.0, 0.0, 0.0], 50.0)?])?;
/// let (held_out, _) = mixture.sample_rows::<f64>(999, 1)?;
/// let table = OutlierTable::held_out(&mixture, &RowBatch::new(3, &held_out)?)?;
/// let rows = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0];
/// let p_values = table.p_values(&mixture, &RowBatch::new(3, &rows)?, OutlierScope::Overall)?;
/// assert!(p_values[0] > 0.9 && p_values[1] == 0.001);
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct OutlierTable {
    rows: u64,
    is_held_out: bool,
    overall: Scores,
    /// For each component without the background.
    components: Vec<Scores>,
}

/// A row's score, the component it was assigned to, and its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scored {
    pub score: f64,
    pub component: u32,
    pub weight: f64,
}

impl OutlierTable {
    /// A table of rows that were not used for the fit.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`]; [`Error::NoRows`] if the rows have no weight.
    pub fn held_out(mixture: &Mixture, rows: &RowBatch) -> Result<Self> {
        let mixture = mixture.clone().without_background();
        let summary = mixture.summarise(rows, 1)?;
        let scored = summary.ln_densities.iter().zip(&summary.ranks[0].components).enumerate();
        let scored = scored.map(|(row, (&score, &component))| {
            let weight = rows.weights().map_or(1.0, |weights| weights[row]);
            Scored { score, component, weight }
        });
        let table = Self::of_scores(scored.collect(), mixture.components().len())?;
        Ok(OutlierTable { is_held_out: true, ..table })
    }

    /// # Errors
    /// [`Error::NoRows`] if the rows have no weight.
    pub(crate) fn of_scores(mut scored: Vec<Scored>, components: usize) -> Result<Self> {
        scored.retain(|row| row.weight > 0.0 && !row.score.is_nan());
        if scored.is_empty() {
            return Err(Error::NoRows { weight: 0.0 });
        }
        // Relative to the largest weight, so that squares do not underflow.
        let largest = scored.iter().map(|row| row.weight).fold(0.0, f64::max);
        scored.iter_mut().for_each(|row| row.weight /= largest);
        scored.sort_by(|a, b| a.score.total_cmp(&b.score));
        let mut of_component = vec![Vec::new(); components];
        scored.iter().for_each(|row| of_component[row.component as usize].push(*row));
        Ok(OutlierTable {
            rows: scored.len() as u64,
            is_held_out: false,
            overall: Scores::new(&scored),
            components: of_component.iter().map(|scored| Scores::new(scored)).collect(),
        })
    }

    /// The number of rows that were scored. The smallest p-value is one over this number plus one.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// True if the rows were not used for the fit, so that p-values hold exactly: the table is one of
    /// [`Self::held_out`].
    pub fn is_held_out(&self) -> bool {
        self.is_held_out
    }

    /// The p-value of each row. A component without rows in the table has p-values of 1.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`]; [`Error::ComponentMismatch`] if the table was made for another
    /// mixture.
    pub fn p_values(&self, mixture: &Mixture, rows: &RowBatch, scope: OutlierScope) -> Result<Vec<f64>> {
        let mixture = mixture.clone().without_background();
        let (expected, found) = (self.components.len(), mixture.components().len());
        if expected != found {
            return Err(Error::ComponentMismatch { what: "the mixture of an outlier table", expected, found });
        }
        let summary = mixture.summarise(rows, 1)?;
        let scored = summary.ln_densities.iter().zip(&summary.ranks[0].components);
        Ok(scored.map(|(&score, &component)| self.p_value(score, component, scope)).collect())
    }

    /// The p-value of a row with this ln density, a background left out, and this component.
    fn p_value(&self, score: f64, component: u32, scope: OutlierScope) -> f64 {
        match scope {
            OutlierScope::Overall => self.overall.p_value(score),
            OutlierScope::Component => self.components[component as usize].p_value(score),
        }
    }

    /// The largest ln density, a background left out, at which a row is an outlier at this level.
    /// -infinity if the table has too few rows for the level.
    pub fn threshold(&self, level: f64) -> f64 {
        self.overall.threshold(level)
    }

    /// The points of the table over all rows: ln densities in ascending order, and their p-values.
    pub fn points(&self) -> (&[f64], &[f64]) {
        (&self.overall.scores, &self.overall.p_values)
    }

    pub(crate) fn write(&self, contents: &mut Contents) {
        let tables = || std::iter::once(&self.overall).chain(&self.components);
        let points: Vec<f64> = tables().flat_map(Scores::pairs).collect();
        contents.text("outlier_rows", self.rows.to_string());
        if self.is_held_out {
            contents.text("outlier_rows_held_out", "true");
        }
        contents.numbers("outlier_points", vec![points.len() / 2, 2], points);
        contents.numbers(
            "outlier_lengths",
            vec![self.components.len() + 1],
            tables().map(|table| table.scores.len() as f64).collect(),
        );
    }

    /// The table that [`Self::write`] wrote, if there is one, for this many components without the
    /// background.
    pub(crate) fn read(file: &File, components: usize) -> Result<Option<Self>> {
        if file.text("outlier_rows").is_empty() {
            return Ok(None);
        }
        let points = file.numbers("outlier_points", [None, Some(2)])?;
        let lengths = file.numbers("outlier_lengths", [Some(components + 1)])?;
        let mut rest = points.chunks_exact(2);
        let mut tables = Vec::with_capacity(components + 1);
        for length in lengths {
            if !(length >= 0.0 && length <= rest.len() as f64 && length.fract() == 0.0) {
                return file.wrong(format!("tensor `outlier_lengths` must divide the points, found: `{length}`"));
            }
            match Scores::of_pairs(rest.by_ref().take(length as usize)) {
                Some(table) => tables.push(table),
                None => return file.wrong("tensor `outlier_points` must have ascending scores, and p-values that ascend to 1"),
            }
        }
        if rest.len() > 0 {
            return file.wrong(format!("tensor `outlier_points` has points of no component: `{}`", rest.len()));
        }
        let overall = tables.remove(0);
        let (rows, is_held_out) = (file.parsed("outlier_rows")?, file.flag("outlier_rows_held_out")?);
        Ok(Some(OutlierTable { rows, is_held_out, overall, components: tables }))
    }
}

/// P-values at all scores, as a step function.
#[derive(Debug, Clone, PartialEq, Default)]
struct Scores {
    /// Ascending.
    scores: Vec<f64>,
    /// The p-value of a row whose score is below this one and not below the one before; ascending.
    p_values: Vec<f64>,
}

/// Points are left out as long as no p-value grows by more than this fraction.
const RESOLUTION: f64 = 0.005;

impl Scores {
    /// From rows in ascending order of their scores.
    ///
    /// A new row counts as one row of the table: with unequal weights, as a row of the mean weight
    /// by weight.
    fn new(scored: &[Scored]) -> Self {
        let sum = |of: fn(f64) -> f64| scored.iter().map(|row| of(row.weight)).sum::<f64>();
        let (total, new_row) = (sum(|w| w), sum(|w| w * w) / sum(|w| w));
        let mut found = Scores::default();
        let mut keep = |(score, below): (f64, f64)| {
            found.scores.push(score);
            found.p_values.push(below / (total + new_row));
        };
        // The weight up to and with the last point kept; the last distinct score and the weight
        // below it, if it was not kept.
        let (mut kept, mut last) = (0.0, None);
        let mut below = new_row;
        for equal in scored.chunk_by(|a, b| a.score == b.score) {
            if below > (1.0 + RESOLUTION) * kept
                && let Some((point, through)) = last.take()
            {
                keep(point);
                kept = through;
            }
            let through = below + equal.iter().map(|row| row.weight).sum::<f64>();
            last = Some(((equal[0].score, below), through));
            below = through;
        }
        last.into_iter().for_each(|(point, _)| keep(point));
        found
    }

    fn p_value(&self, score: f64) -> f64 {
        self.p_values.get(self.scores.partition_point(|point| *point <= score)).copied().unwrap_or(1.0)
    }

    fn threshold(&self, level: f64) -> f64 {
        match self.p_values.partition_point(|p| *p <= level) {
            0 => f64::NEG_INFINITY,
            points => self.scores[points - 1].next_down(),
        }
    }

    fn pairs(&self) -> impl Iterator<Item = f64> {
        self.scores.iter().zip(&self.p_values).flat_map(|(score, p)| [*score, *p])
    }

    fn of_pairs<'p>(pairs: impl Iterator<Item = &'p [f64]>) -> Option<Self> {
        let (scores, p_values): (Vec<f64>, Vec<f64>) = pairs.map(|pair| (pair[0], pair[1])).unzip();
        let ascends = |values: &[f64]| values.is_sorted_by(|a, b| a < b) && values.iter().all(|x| !x.is_nan());
        let in_range = p_values.iter().all(|p| (0.0..=1.0).contains(p));
        (ascends(&scores) && p_values.is_sorted() && in_range).then_some(Scores { scores, p_values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(scores: &[f64]) -> Vec<Scored> {
        scores.iter().map(|&score| Scored { score, component: 0, weight: 1.0 }).collect()
    }

    #[test]
    fn p_values_count_the_rows_that_are_at_least_as_unusual() {
        let table = OutlierTable::of_scores(scored(&[3.0, 1.0, 2.0, 2.0]), 1).unwrap();
        let p = |score| table.p_value(score, 0, OutlierScope::Overall);
        assert_eq!([p(0.0), p(1.0), p(1.5), p(2.0), p(2.5), p(3.0), p(9.0)], [0.2, 0.4, 0.4, 0.8, 0.8, 1.0, 1.0]);
        assert_eq!((table.threshold(0.1), table.threshold(0.2)), (f64::NEG_INFINITY, 1f64.next_down()));
        assert!(p(table.threshold(0.4)) <= 0.4 && p(table.threshold(0.4).next_up()) > 0.4);
    }

    #[test]
    fn a_table_has_few_points_and_its_p_values_are_at_most_slightly_too_large() {
        let scores: Vec<f64> = (0..100_000).map(|n| (f64::from(n) * 0.7).sin()).collect();
        let mut sorted = scores.clone();
        sorted.sort_by(f64::total_cmp);
        let table = OutlierTable::of_scores(scored(&scores), 1).unwrap();
        assert!(table.points().0.len() < 2000, "{}", table.points().0.len());
        for step in 0..5000 {
            let score = -1.0 + 2e-3 * f64::from(step) / 5.0;
            let exact = (1 + sorted.partition_point(|other| *other <= score)) as f64 / 100_001.0;
            let found = table.p_value(score, 0, OutlierScope::Overall);
            assert!(found >= exact * (1.0 - 1e-12) && found <= exact * (1.0 + 2.0 * RESOLUTION), "{score}: {found} {exact}");
        }
        // Extreme p-values are exact.
        for (rank, score) in sorted.iter().take(100).enumerate() {
            let found = table.p_value(score.next_down(), 0, OutlierScope::Overall);
            assert!((found * 100_001.0 - 1.0 - rank as f64).abs() < 1e-6, "{rank}: {found}");
        }
    }

    #[test]
    fn a_row_of_weight_3_counts_as_three_rows_in_the_table() {
        let heavy = [Scored { score: 1.0, component: 0, weight: 3.0 }, Scored { score: 2.0, component: 1, weight: 3.0 }];
        let table = OutlierTable::of_scores(heavy.to_vec(), 3).unwrap();
        let p = |score, component, scope| table.p_value(score, component, scope);
        assert_eq!(p(1.0, 0, OutlierScope::Overall), 2.0 / 3.0);
        assert_eq!(p(0.0, 1, OutlierScope::Component), 0.5);
        assert_eq!(p(0.0, 2, OutlierScope::Component), 1.0);
    }
}
