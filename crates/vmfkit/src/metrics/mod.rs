//! [`Agreement`] of two labelings, and [`ParameterErrors`] of a fitted mixture.

mod expected;

use crate::error::{Error, Result};
use crate::mixture::Mixture;
use expected::expected_mutual_information;
use std::collections::BTreeMap;
use vmfkit_kernels::vector::half_squared_distance;

/// The agreement of two labelings of the same rows: adjusted Rand index, mutual information and
/// others.
///
/// Labels can be of any ordered type, such as integers or strings, and the types of the two
/// labelings may differ. The scores depend only on which rows have equal labels.
///
/// ```
/// use vmfkit::metrics::Agreement;
/// let agreement = Agreement::new(&[0, 0, 1, 1, 2, 2], &[7, 7, 3, 3, 3, 9])?;
/// assert!((agreement.adjusted_rand_index() - 0.444444).abs() < 1e-6);
/// assert_eq!(agreement.matched_fraction(), 5.0 / 6.0);
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Agreement {
    /// (i, j, number of rows in group i of the first and group j of the second labeling), if not 0.
    cells: Vec<(usize, usize, u64)>,
    first: Vec<u64>,
    second: Vec<u64>,
    rows: u64,
}

impl Agreement {
    /// Compares two labelings: `first` is the reference ("classes"), `second` the labeling to score
    /// ("clusters").
    ///
    /// ```
    /// use vmfkit::metrics::Agreement;
    /// let (classes, clusters) = (["cat", "dog", "cat"], [4u32, 1, 4]);
    /// assert_eq!(Agreement::new(&classes, &clusters)?.adjusted_rand_index(), 1.0);
    /// # Ok::<(), vmfkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LabelCount`] if the labelings differ in length.
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

    /// The numbers of groups of the first and the second labeling.
    pub fn groups(&self) -> (usize, usize) {
        (self.first.len(), self.second.len())
    }

    /// The adjusted Rand index of Hubert and Arabie, doi:10.1007/BF01908075. It is 1 for equal
    /// partitions and 0 on average for random labelings.
    pub fn adjusted_rand_index(&self) -> f64 {
        // Numbers of ordered pairs of rows, below 2^106 for 2^53 rows.
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

    /// The mutual information divided by the arithmetic mean of the two entropies, from 0 to 1.
    pub fn normalized_mutual_information(&self) -> f64 {
        let mean = 0.5 * (entropy(&self.first) + entropy(&self.second));
        if mean == 0.0 { 1.0 } else { (self.mutual_information() / mean).min(1.0) }
    }

    /// The mutual information in nats that random labelings with groups of the same sizes share on
    /// average, MATH.md (18.2).
    pub fn expected_mutual_information(&self) -> f64 {
        expected_mutual_information(&self.first, &self.second, self.rows)
    }

    /// The mutual information less that of chance, relative to its maximum: 1 for equal partitions
    /// and 0 on average for random labelings. MATH.md (18.1); Vinh, Epps and Bailey, JMLR 11 (2010)
    /// 2837, with the arithmetic mean of the entropies.
    ///
    /// Use it in place of [`Self::normalized_mutual_information`] to compare labelings with
    /// different numbers of groups, of which the one with more groups shares more at random.
    ///
    /// ```
    /// use vmfkit::metrics::Agreement;
    /// let halves = Agreement::new(&[0, 0, 1, 1], &[0, 1, 0, 1])?;
    /// assert!((halves.adjusted_mutual_information() + 0.5).abs() < 1e-12);
    /// # Ok::<(), vmfkit::Error>(())
    /// ```
    pub fn adjusted_mutual_information(&self) -> f64 {
        // Partitions into one group, or into groups of one row, share nothing and differ in nothing.
        let is_trivial = |sizes: &[u64]| sizes.len() <= 1 || sizes.len() as u64 == self.rows;
        if self.first.len() == self.second.len() && is_trivial(&self.first) {
            return 1.0;
        }
        let expected = self.expected_mutual_information();
        let most = 0.5 * (entropy(&self.first) + entropy(&self.second)) - expected;
        // Rounding must not turn a maximum of 0 into a large score.
        let most = most.signum() * most.abs().max(f64::EPSILON);
        (self.mutual_information() - expected) / most
    }

    /// From 0 to 1; it is 1 if every cluster (second) contains rows of only one class (first).
    /// Rosenberg and Hirschberg, EMNLP-CoNLL 2007, 410.
    pub fn homogeneity(&self) -> f64 {
        let classes = entropy(&self.first);
        if classes == 0.0 { 1.0 } else { (self.mutual_information() / classes).min(1.0) }
    }

    /// From 0 to 1; it is 1 if all rows of a class (first) are in the same cluster (second).
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

    /// The fraction of rows whose labels agree under the best one-to-one matching of clusters and
    /// classes.
    pub fn matched_fraction(&self) -> f64 {
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

/// Labels renumbered from 0 in sorted order, and the number of rows of each.
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

/// The entropy in nats of a partition into groups of these sizes.
fn entropy(sizes: &[u64]) -> f64 {
    let total = sizes.iter().sum::<u64>() as f64;
    if sizes.len() <= 1 {
        return 0.0;
    }
    -sizes.iter().map(|&size| size as f64 / total).map(|p| p * p.ln()).sum::<f64>()
}

/// The errors of the parameters of a fitted mixture, after matching its components with the true
/// ones.
///
/// The matching is the permutation that minimises the sum over the components of
///
/// |alpha - alpha*| + |mu - mu*|_1 + |k - k*| / max(k, k*)
///
/// and is found by [`cheapest_matching`], so it is fast for many components, too. Kim (2021) uses
/// the difference of the concentrations in place of the ratio. Both find the same permutation if
/// the components are well separated and all were found. But for k* = 500 and 510, fitted as 508
/// and 503, a few units of concentration would outweigh opposite directions; the ratio, at most 1,
/// does not.
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
    /// Compares two mixtures with the same number of components; a background counts as a
    /// component.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`] and [`Error::ComponentMismatch`].
    pub fn between(truth: &Mixture, fitted: &Mixture) -> Result<Self> {
        if fitted.dim() != truth.dim() {
            return Err(Error::DimensionMismatch { expected: truth.dim(), found: fitted.dim() });
        }
        let (count, found) = (truth.components().len(), fitted.components().len());
        if found != count {
            return Err(Error::ComponentMismatch { what: "the fitted mixture", expected: count, found });
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
            // The smallest normal number prevents 0/0 for two uniform densities.
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

    /// The fitted component matched with each true component.
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

    /// The angle in radians between the mean direction of each true component and the fitted one.
    pub fn angles(&self) -> &[f64] {
        &self.angles
    }
}

/// Solves the assignment problem: matches each row of a cost matrix, in row-major order, with a
/// different column at the lowest total cost.
///
/// If there are more rows than columns, some rows are not matched.
///
/// The algorithm uses shortest augmenting paths (Jonker and Volgenant, doi:10.1007/BF02278710) and
/// takes O(rows^2 columns) steps for rows <= columns.
///
/// ```
/// use vmfkit::metrics::cheapest_matching;
/// // Both rows are cheapest in column 0; the second saves more.
/// assert_eq!(cheapest_matching(&[1.0, 2.0, 1.0, 5.0], 2, 2)?, [Some(1), Some(0)]);
/// # Ok::<(), vmfkit::Error>(())
/// ```
///
/// # Errors
/// [`Error::CostCount`] and [`Error::Cost`].
pub fn cheapest_matching(cost: &[f64], rows: usize, columns: usize) -> Result<Vec<Option<usize>>> {
    if rows.checked_mul(columns) != Some(cost.len()) {
        return Err(Error::CostCount { rows, columns, found: cost.len() });
    }
    if let Some((index, &value)) = cost.iter().enumerate().find(|(_, cost)| !cost.is_finite()) {
        return Err(Error::Cost { row: index / columns, column: index % columns, value });
    }
    Ok(matching(cost, rows, columns))
}

/// [`cheapest_matching`] of a valid cost matrix.
fn matching(cost: &[f64], rows: usize, columns: usize) -> Vec<Option<usize>> {
    if rows > columns {
        let transposed: Vec<f64> = (0..columns).flat_map(|j| (0..rows).map(move |i| cost[i * columns + j])).collect();
        let mut matched = vec![None; rows];
        for (j, i) in matching(&transposed, columns, rows).into_iter().enumerate() {
            matched[i.expect("the shorter side is matched in full")] = Some(j);
        }
        return matched;
    }
    // Invariant: reduced costs are at least 0, and 0 for matched pairs. Column `columns` represents
    // the new row.
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
