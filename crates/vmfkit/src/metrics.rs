//! How well two labelings agree: adjusted Rand index, mutual information, and the best matching of their groups; and how far a fitted mixture is
//! from the true one.

use crate::error::{Error, Result};
use crate::mixture::Mixture;
use std::collections::BTreeMap;
use vmfkit_kernels::vector::half_squared_distance;

/// How often each pair of groups of two labelings meets.
///
/// Labels are of any type that can be ordered, and the two labelings need not have the same: integers of any width, as those of
/// [`Mixture::assign`], characters, texts. Only which rows share a label matters.
///
/// ```
/// use vmfkit::metrics::Agreement;
/// let agreement = Agreement::new(&[0, 0, 1, 1, 2, 2], &[7, 7, 3, 3, 3, 9])?;
/// assert!((agreement.adjusted_rand_index() - 0.444444).abs() < 1e-6);
/// assert_eq!(agreement.matched_share(), 5.0 / 6.0);
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Agreement {
    /// Rows in both group i of the first and group j of the second labeling, for the pairs that occur.
    cells: Vec<(usize, usize, u64)>,
    first: Vec<u64>,
    second: Vec<u64>,
    rows: u64,
}

impl Agreement {
    /// Counts two labelings of the same rows; the first is the reference ("classes"), the second the one judged ("clusters").
    ///
    /// ```
    /// use vmfkit::metrics::Agreement;
    /// let (classes, clusters) = (["cat", "dog", "cat"], [4u32, 1, 4]);
    /// assert_eq!(Agreement::new(&classes, &clusters)?.adjusted_rand_index(), 1.0);
    /// # Ok::<(), vmfkit::Error>(())
    /// ```
    pub fn new<A: Ord, B: Ord>(first: &[A], second: &[B]) -> Result<Self> {
        if first.len() != second.len() {
            return Err(Error::LabelCount { expected: first.len(), found: second.len() });
        }
        let (first, first_sizes) = dense(first);
        let (second, second_sizes) = dense(second);
        let mut counts = BTreeMap::new();
        for pair in first.iter().zip(&second) {
            *counts.entry(pair).or_insert(0) += 1;
        }
        let cells = counts.into_iter().map(|((&i, &j), count)| (i, j, count)).collect();
        Ok(Agreement { cells, first: first_sizes, second: second_sizes, rows: first.len() as u64 })
    }

    /// How many groups the first and the second labeling have.
    pub fn groups(&self) -> (usize, usize) {
        (self.first.len(), self.second.len())
    }

    /// The adjusted Rand index of Hubert and Arabie, doi:10.1007/BF01908075: 1 for equal partitions, 0 on average by chance.
    pub fn adjusted_rand_index(&self) -> f64 {
        // Ordered pairs of rows; they are whole numbers below 2^106 for 2^53 rows.
        let squares = |counts: &mut dyn Iterator<Item = u64>| counts.map(|c| u128::from(c) * u128::from(c)).sum::<u128>();
        let n = u128::from(self.rows);
        let both = squares(&mut self.cells.iter().map(|cell| cell.2));
        let (in_first, in_second) = (squares(&mut self.first.iter().copied()), squares(&mut self.second.iter().copied()));
        let together = (both - n) as f64;
        let (only_first, only_second) = ((in_first - both) as f64, (in_second - both) as f64);
        let apart = (n * n + both - in_first - in_second) as f64;
        if only_first == 0.0 && only_second == 0.0 {
            return 1.0;
        }
        2.0 * (together * apart - only_first * only_second)
            / ((together + only_first) * (only_first + apart) + (together + only_second) * (only_second + apart))
    }

    /// The mutual information in nats.
    pub fn mutual_information(&self) -> f64 {
        let n = self.rows as f64;
        let term = |&(i, j, count): &(usize, usize, u64)| {
            let count = count as f64;
            count / n * (count * n / (self.first[i] as f64 * self.second[j] as f64)).ln()
        };
        self.cells.iter().map(term).sum::<f64>().max(0.0)
    }

    /// Mutual information over the arithmetic mean of the two entropies, in [0, 1].
    pub fn normalized_mutual_information(&self) -> f64 {
        let mean = 0.5 * (entropy(&self.first) + entropy(&self.second));
        if mean == 0.0 { 1.0 } else { (self.mutual_information() / mean).min(1.0) }
    }

    /// 1 if every cluster (second) holds rows of one class (first) only.
    pub fn homogeneity(&self) -> f64 {
        let classes = entropy(&self.first);
        if classes == 0.0 { 1.0 } else { (self.mutual_information() / classes).min(1.0) }
    }

    /// 1 if every class (first) lies in one cluster (second).
    pub fn completeness(&self) -> f64 {
        let clusters = entropy(&self.second);
        if clusters == 0.0 { 1.0 } else { (self.mutual_information() / clusters).min(1.0) }
    }

    /// The harmonic mean of homogeneity and completeness.
    pub fn v_measure(&self) -> f64 {
        let (homogeneity, completeness) = (self.homogeneity(), self.completeness());
        let sum = homogeneity + completeness;
        if sum == 0.0 { 0.0 } else { 2.0 * homogeneity * completeness / sum }
    }

    /// The fraction of rows that agree once clusters are renamed to classes, one to one, as well as possible.
    pub fn matched_share(&self) -> f64 {
        if self.rows == 0 {
            return 1.0;
        }
        let columns = self.second.len();
        let mut cost = vec![0.0; self.first.len() * columns];
        for &(i, j, count) in &self.cells {
            cost[i * columns + j] = -(count as f64);
        }
        let matched = matching(&cost, self.first.len(), columns);
        let agreeing: f64 = matched.iter().enumerate().filter_map(|(i, j)| j.map(|j| -cost[i * columns + j])).sum();
        agreeing / self.rows as f64
    }
}

/// Labels renumbered from 0 in their order, and how many rows have each.
fn dense<L: Ord>(labels: &[L]) -> (Vec<usize>, Vec<u64>) {
    let mut numbers: BTreeMap<&L, usize> = labels.iter().map(|label| (label, 0)).collect();
    numbers.values_mut().enumerate().for_each(|(i, number)| *number = i);
    let mut sizes = vec![0; numbers.len()];
    let renumbered = labels.iter().map(|label| {
        let number = numbers[label];
        sizes[number] += 1;
        number
    });
    (renumbered.collect(), sizes)
}

/// The entropy in nats of a division into groups of these sizes.
fn entropy(sizes: &[u64]) -> f64 {
    let total = sizes.iter().sum::<u64>() as f64;
    if sizes.len() <= 1 {
        return 0.0;
    }
    -sizes.iter().map(|&size| size as f64 / total).map(|p| p * p.ln()).sum::<f64>()
}

/// How far a fitted mixture is from the true one, component by component, once its components are put in the order that fits best.
///
/// That order is the permutation with the least sum, over the components, of
///
/// |alpha - alpha*| + |mu - mu*|_1 + |k - k*| / max(k, k*)
///
/// by [`cheapest_matching`], so that many components are no matter. Kim (2021) adds |k - k*| itself. That is the same permutation where components lie
/// well apart and were found, but it is in units of a concentration: with k* = 500 and 510, fitted as 508 and 503, ten units of concentration would
/// outweigh that the two point elsewhere. The ratio is at most 1 and does not.
///
/// ```
/// use vmfkit::{Mixture, VonMisesFisher, metrics::ParameterErrors};
/// let (east, north) = (vec![1.0, 0.0], vec![0.0, 1.0]);
/// let truth = Mixture::new(
///     vec![0.25, 0.75],
///     vec![VonMisesFisher::new(east.clone(), 500.0)?, VonMisesFisher::new(north.clone(), 510.0)?],
/// )?;
/// let fitted = Mixture::new(vec![0.5, 0.5], vec![VonMisesFisher::new(north, 503.0)?, VonMisesFisher::new(east, 508.0)?])?;
/// let errors = ParameterErrors::between(&truth, &fitted)?;
/// assert_eq!(errors.permutation(), [1, 0]);
/// assert_eq!((errors.weights(), errors.mean_directions(), errors.concentrations()), (0.5, 0.0, 15.0));
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ParameterErrors {
    permutation: Vec<usize>,
    weights: f64,
    mean_directions: f64,
    concentrations: f64,
    angles: Vec<f64>,
}

impl ParameterErrors {
    /// Compares two mixtures of equally many components on the same sphere; a background counts as a component.
    pub fn between(truth: &Mixture, fitted: &Mixture) -> Result<Self> {
        if fitted.dim() != truth.dim() {
            return Err(Error::DimensionMismatch { expected: truth.dim(), found: fitted.dim() });
        }
        let (count, found) = (truth.components().len(), fitted.components().len());
        if found != count {
            let option = "the fitted mixture's number of components";
            return Err(Error::Option { option, range: "that of the true mixture", value: found as f64 });
        }
        let weight = |i: usize, j: usize| (fitted.weights()[j] - truth.weights()[i]).abs();
        let directions = |i: usize, j: usize| (truth.components()[i].mean_direction(), fitted.components()[j].mean_direction());
        let direction = |i: usize, j: usize| {
            let (mu, found) = directions(i, j);
            found.iter().zip(mu).map(|(x, y)| (x - y).abs()).sum::<f64>()
        };
        let concentrations = |i: usize, j: usize| (truth.components()[i].concentration(), fitted.components()[j].concentration());
        let concentration = |i: usize, j: usize| {
            let (k, found) = concentrations(i, j);
            (found - k).abs()
        };
        let cost = |i: usize, j: usize| {
            let (k, found) = concentrations(i, j);
            // The smallest normal number keeps two uniform densities from 0/0.
            weight(i, j) + direction(i, j) + concentration(i, j) / k.max(found).max(f64::MIN_POSITIVE)
        };
        let cost: Vec<f64> = (0..count * count).map(|at| cost(at / count, at % count)).collect();
        let matched = cheapest_matching(&cost, count, count)?;
        let permutation: Vec<usize> = matched.into_iter().map(|j| j.expect("as many columns as rows")).collect();
        let sum = |error: &dyn Fn(usize, usize) -> f64| permutation.iter().enumerate().map(|(i, &j)| error(i, j)).sum();
        let angle = |(i, &j): (usize, &usize)| {
            let (mu, found) = directions(i, j);
            2.0 * (0.5 * half_squared_distance(found, mu)).sqrt().min(1.0).asin()
        };
        Ok(ParameterErrors {
            weights: sum(&weight),
            mean_directions: sum(&direction),
            concentrations: sum(&concentration),
            angles: permutation.iter().enumerate().map(angle).collect(),
            permutation,
        })
    }

    /// For each component of the truth the fitted one that is compared with it.
    pub fn permutation(&self) -> &[usize] {
        &self.permutation
    }

    /// The sum of |alpha - alpha*| over the components.
    pub fn weights(&self) -> f64 {
        self.weights
    }

    /// The sum of |mu - mu*| over the components and their coordinates.
    pub fn mean_directions(&self) -> f64 {
        self.mean_directions
    }

    /// The sum of |k - k*| over the components.
    pub fn concentrations(&self) -> f64 {
        self.concentrations
    }

    /// For each component of the truth the angle between its mean direction and the fitted one, in radians.
    pub fn angles(&self) -> &[f64] {
        &self.angles
    }
}

/// The assignment problem: for each row of a cost matrix (row by row) the column that it is matched with, no column twice, at the least total
/// cost; with more rows than columns some rows stay alone.
///
/// Shortest augmenting paths (Jonker and Volgenant, doi:10.1007/BF02278710), O(rows^2 columns) for rows <= columns.
///
/// ```
/// use vmfkit::metrics::cheapest_matching;
/// // The first row is cheapest in column 0, but so is the second, by more.
/// assert_eq!(cheapest_matching(&[1.0, 2.0, 1.0, 5.0], 2, 2)?, [Some(1), Some(0)]);
/// # Ok::<(), vmfkit::Error>(())
/// ```
pub fn cheapest_matching(cost: &[f64], rows: usize, columns: usize) -> Result<Vec<Option<usize>>> {
    if rows.checked_mul(columns) != Some(cost.len()) {
        return Err(Error::CostCount { rows, columns, found: cost.len() });
    }
    if let Some((index, &value)) = cost.iter().enumerate().find(|(_, cost)| !cost.is_finite()) {
        return Err(Error::Cost { row: index / columns, column: index % columns, value });
    }
    Ok(matching(cost, rows, columns))
}

/// [`cheapest_matching`] of costs that are known to be right.
fn matching(cost: &[f64], rows: usize, columns: usize) -> Vec<Option<usize>> {
    if rows > columns {
        let transposed: Vec<f64> = (0..columns).flat_map(|j| (0..rows).map(move |i| cost[i * columns + j])).collect();
        let mut matched = vec![None; rows];
        for (j, i) in matching(&transposed, columns, rows).into_iter().enumerate() {
            matched[i.expect("the shorter side is matched in full")] = Some(j);
        }
        return matched;
    }
    // Prices keep reduced costs >= 0 and 0 on matched pairs; column `columns` stands for "the new row".
    let (mut row_price, mut column_price) = (vec![0.0; rows], vec![0.0; columns + 1]);
    let mut row_of: Vec<Option<usize>> = vec![None; columns + 1];
    for new in 0..rows {
        row_of[columns] = Some(new);
        let mut distance = vec![f64::INFINITY; columns];
        let mut previous = vec![columns; columns];
        let mut visited = vec![false; columns + 1];
        let mut here = columns;
        while let Some(row) = row_of[here] {
            visited[here] = true;
            let mut nearest = (f64::INFINITY, columns);
            for j in (0..columns).filter(|&j| !visited[j]) {
                let reduced = cost[row * columns + j] - row_price[row] - column_price[j];
                if reduced < distance[j] {
                    (distance[j], previous[j]) = (reduced, here);
                }
                if distance[j] < nearest.0 {
                    nearest = (distance[j], j);
                }
            }
            let (step, next) = nearest;
            for j in 0..=columns {
                if visited[j] {
                    row_price[row_of[j].expect("visited columns are matched")] += step;
                    column_price[j] -= step;
                } else if j < columns {
                    distance[j] -= step;
                }
            }
            here = next;
        }
        while here != columns {
            row_of[here] = row_of[previous[here]];
            here = previous[here];
        }
    }
    let mut matched = vec![None; rows];
    for (j, row) in row_of[..columns].iter().enumerate() {
        if let Some(row) = row {
            matched[*row] = Some(j);
        }
    }
    matched
}
