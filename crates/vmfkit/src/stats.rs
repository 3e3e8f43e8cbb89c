//! [`SufficientStats`]: what every fitting method reads. Threads, files and machines add them.

use crate::error::{Error, Result};
use crate::rows::aligned::AlignedRows;
use crate::rows::{RowBatch, Rows, Scalar, SparseRows};
use rayon::prelude::*;
use std::ops::ControlFlow;
use vmfkit_kernels::vector::norm;

/// Rows that one task sums before the sums are merged. It affects the last digits of results, so it
/// never depends on the machine. Tasks begin at multiples of it, counted from the first row, so it
/// does not depend on the sizes of batches either.
const ROWS_PER_TASK: usize = 1024;

/// If a component's shortfall is above this fraction of its mass, the plain difference keeps all
/// but two of its digits.
const PLAIN_SHORTFALL: f64 = 1e-2;

/// For each component its mass (total weight), its resultant (weighted sum of rows) and its
/// shortfall; for all components together the weight of the rows and the objective (for EM the sum
/// of ln p).
///
/// The shortfall is mass - |resultant| = mass (1 - mean length). At high concentrations a
/// subtraction would lose all its digits, so it is summed separately, as half the squared
/// distances, and merging keeps its digits (MATH.md, section 8).
#[derive(Debug, Clone, PartialEq)]
pub struct SufficientStats {
    dim: usize,
    mass: Vec<f64>,
    resultant: Vec<f64>,
    shortfall: Vec<f64>,
    objective: f64,
    weight: f64,
}

impl SufficientStats {
    /// No rows yet.
    pub fn zero(components: usize, dim: usize) -> Self {
        SufficientStats {
            dim,
            mass: vec![0.0; components],
            resultant: vec![0.0; components * dim],
            shortfall: vec![0.0; components],
            objective: 0.0,
            weight: 0.0,
        }
    }

    /// All rows in one component, in one pass on all threads; the number of threads does not change
    /// one bit. For rows in several batches use [`RowSum`].
    pub fn of_batch(batch: &RowBatch) -> Self {
        let mut total = Self::zero(1, batch.dim());
        total.add_rows(batch);
        total
    }

    /// Adds all rows to the only component.
    fn add_rows(&mut self, batch: &RowBatch) {
        let tasks = batch.len().div_ceil(ROWS_PER_TASK);
        let parts: Vec<Self> = (0..tasks)
            .into_par_iter()
            .map(|task| {
                let (from, to) = (task * ROWS_PER_TASK, ((task + 1) * ROWS_PER_TASK).min(batch.len()));
                Self::of_rows(batch, from..to)
            })
            .collect();
        parts.iter().for_each(|part| self.merge(part).expect("one component, the same dimension"));
    }

    /// The rows with these indices in one component, on this thread.
    pub fn of_rows(batch: &RowBatch, rows: impl IntoIterator<Item = usize>) -> Self {
        match batch.rows() {
            Rows::F32(values) => Self::sum_rows(batch, values, rows.into_iter()),
            Rows::F64(values) => Self::sum_rows(batch, values, rows.into_iter()),
            Rows::SparseF32(sparse) => Self::sum_sparse_rows(batch, sparse, rows.into_iter()),
            Rows::SparseF64(sparse) => Self::sum_sparse_rows(batch, sparse, rows.into_iter()),
        }
    }

    /// Sums the differences of the rows from the first of them, MATH.md (8.1), so that their common
    /// part loses no digits.
    fn sum_rows<T: Scalar>(batch: &RowBatch, values: &[T], mut rows: impl Iterator<Item = usize>) -> Self {
        let dim = batch.dim();
        let mut stats = Self::zero(1, dim);
        let weight_of = |row: usize| batch.weights().map_or(1.0, |w| w[row]);
        let Some(first) = rows.find(|&row| weight_of(row) > 0.0) else {
            return stats;
        };
        let origin: Vec<f64> = values[first * dim..(first + 1) * dim].iter().map(|x| x.to_f64()).collect();
        let (mut mass, mut squares) = (weight_of(first), 0.0);
        for row in rows {
            let weight = weight_of(row);
            mass += weight;
            squares += weight * add_difference(&mut stats.resultant, weight, &values[row * dim..][..dim], &origin);
        }
        let shift_square: f64 = stats.resultant.iter().map(|x| (x / mass) * (x / mass)).sum();
        for (sum, x) in stats.resultant.iter_mut().zip(&origin) {
            *sum += mass * x;
        }
        let spread = (squares / mass - shift_square).max(0.0);
        // Above one half the plain difference loses no digits, and it remains correct for rows
        // whose length is slightly off.
        stats.shortfall[0] =
            if spread < 0.5 { mass * spread / (1.0 + (1.0 - spread).sqrt()) } else { (mass - norm(&stats.resultant)).max(0.0) };
        (stats.mass[0], stats.weight) = (mass, mass);
        stats
    }

    /// Sums only the entries. A shortfall below 1e-16 of the mass is lost, which is rare for sparse
    /// rows.
    fn sum_sparse_rows<T: Scalar>(batch: &RowBatch, sparse: &SparseRows<T>, rows: impl Iterator<Item = usize>) -> Self {
        let mut stats = Self::zero(1, batch.dim());
        for row in rows {
            let weight = batch.weights().map_or(1.0, |w| w[row]);
            let (columns, values) = sparse.row(row);
            for (&column, x) in columns.iter().zip(values) {
                stats.resultant[column as usize] += weight * x.to_f64();
            }
            stats.mass[0] += weight;
        }
        stats.weight = stats.mass[0];
        stats.settle();
        stats
    }

    /// Checks that two statistics can be added.
    pub(crate) fn check_shape_of(&self, other: &Self) -> Result<()> {
        if other.dim != self.dim {
            return Err(Error::DimensionMismatch { expected: self.dim, found: other.dim });
        }
        if other.components() != self.components() {
            let (expected, found) = (self.components(), other.components());
            return Err(Error::ComponentMismatch { what: "the statistics to merge", expected, found });
        }
        Ok(())
    }

    /// One component for each label below `components`, on this thread: row n is in the component
    /// `labels[n]`.
    ///
    /// # Panics
    /// If a label is not below `components`.
    pub fn of_labels(batch: &RowBatch, labels: &[usize], components: usize) -> Result<Self> {
        if labels.len() != batch.len() {
            return Err(Error::LabelCount { expected: batch.len(), found: labels.len() });
        }
        let mut buffer = RowBatch::default();
        let batch = &batch.validated_slice(0, batch.len(), &mut buffer)?;
        let mut rows = vec![Vec::new(); components];
        labels.iter().enumerate().for_each(|(row, &label)| rows[label].push(row));
        let mut total = Self::zero(components, batch.dim());
        for (component, rows) in rows.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
            total.merge_into(component, &Self::of_rows(batch, rows));
        }
        Ok(total)
    }

    /// Adds component `from` of `other` to component `component`.
    ///
    /// # Panics
    /// If there are no such components.
    pub fn add_component(&mut self, component: usize, other: &Self, from: usize) -> Result<()> {
        if self.dim != other.dim {
            return Err(Error::DimensionMismatch { expected: self.dim, found: other.dim });
        }
        if other.mass[from] != 0.0 {
            self.merge_component(component, other, from);
            self.weight += other.mass[from];
        }
        Ok(())
    }

    /// Adds the statistics of other rows. Adding them to empty statistics copies them to the last
    /// bit.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.check_shape_of(other)?;
        for component in (0..self.components()).filter(|&component| other.mass[component] != 0.0) {
            self.merge_component(component, other, component);
        }
        self.add_objective(other.objective, other.weight);
        Ok(())
    }

    /// MATH.md (8.2): |R1| + |R2| - |R1 + R2| from the difference of the two directions, or by
    /// subtraction where that loses no digits.
    fn merge_component(&mut self, component: usize, other: &Self, from: usize) {
        let mine = &mut self.resultant[component * self.dim..(component + 1) * self.dim];
        let theirs = other.resultant(from);
        if self.mass[component] == 0.0 {
            mine.copy_from_slice(theirs);
            (self.mass[component], self.shortfall[component]) = (other.mass[from], other.shortfall[from]);
            return;
        }
        let mass = self.mass[component] + other.mass[from];
        if self.shortfall[component] + other.shortfall[from] > PLAIN_SHORTFALL * mass {
            mine.iter_mut().zip(theirs).for_each(|(x, y)| *x += y);
            self.shortfall[component] = (mass - norm(mine)).max(0.0);
            self.mass[component] = mass;
            return;
        }
        let (length, other_length) = (norm(mine), norm(theirs));
        let mut squared_distance = 0.0;
        for (x, &y) in mine.iter_mut().zip(theirs) {
            if length > 0.0 && other_length > 0.0 {
                let difference = *x / length - y / other_length;
                squared_distance += difference * difference;
            }
            *x += y;
        }
        let perimeter = length + other_length + norm(mine);
        let lost = if perimeter > 0.0 { length * (other_length / perimeter) * squared_distance } else { 0.0 };
        self.shortfall[component] += other.shortfall[from] + lost;
        self.mass[component] = mass;
    }

    /// Counts every row `factor` times.
    pub fn scale(&mut self, factor: f64) {
        let values = self.mass.iter_mut().chain(&mut self.resultant).chain(&mut self.shortfall);
        values.chain([&mut self.objective, &mut self.weight]).for_each(|x| *x *= factor);
    }

    /// Adds the first component of `other` to one of these components.
    pub(crate) fn merge_into(&mut self, component: usize, other: &Self) {
        self.merge_component(component, other, 0);
        self.add_objective(other.objective, other.weight);
    }

    /// Removes the rows of a component and returns them as statistics of one component.
    pub(crate) fn take_component(&mut self, component: usize) -> Self {
        let mut taken = Self::zero(1, self.dim);
        taken.merge_component(0, self, component);
        taken.weight = self.mass[component];
        self.weight = (self.weight - taken.weight).max(0.0);
        self.resultant[component * self.dim..(component + 1) * self.dim].fill(0.0);
        (self.mass[component], self.shortfall[component]) = (0.0, 0.0);
        taken
    }

    /// Removes all rows and keeps the memory.
    pub(crate) fn clear(&mut self) {
        for component in (0..self.components()).filter(|&component| self.mass[component] != 0.0) {
            self.resultant[component * self.dim..(component + 1) * self.dim].fill(0.0);
        }
        self.mass.fill(0.0);
        self.shortfall.fill(0.0);
        (self.objective, self.weight) = (0.0, 0.0);
    }

    /// Computes the shortfalls after masses and resultants were summed in place; their error is
    /// about 1e-16 of the mass.
    pub(crate) fn settle(&mut self) {
        for component in 0..self.components() {
            let mass = self.mass[component];
            self.shortfall[component] = if mass > 0.0 { (mass - self.resultant_length(component)).max(0.0) } else { 0.0 };
        }
    }

    pub(crate) fn masses_mut(&mut self) -> &mut [f64] {
        &mut self.mass
    }

    pub(crate) fn resultants_mut(&mut self) -> &mut [f64] {
        &mut self.resultant
    }

    pub(crate) fn add_objective(&mut self, objective: f64, weight: f64) {
        self.objective += objective;
        self.weight += weight;
    }

    /// The number of components.
    pub fn components(&self) -> usize {
        self.mass.len()
    }

    /// The length of a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The total weight of a component.
    pub fn mass(&self, component: usize) -> f64 {
        self.mass[component]
    }

    /// The weighted sum of a component's rows.
    pub fn resultant(&self, component: usize) -> &[f64] {
        &self.resultant[component * self.dim..(component + 1) * self.dim]
    }

    /// |resultant|.
    pub fn resultant_length(&self, component: usize) -> f64 {
        norm(self.resultant(component))
    }

    /// mass - |resultant|, without cancellation.
    pub fn shortfall(&self, component: usize) -> f64 {
        self.shortfall[component]
    }

    /// The mean length |resultant|/mass of a component and its complement, each accurate; (0, 1)
    /// without rows.
    pub fn mean_length(&self, component: usize) -> (f64, f64) {
        let mass = self.mass[component];
        if !(mass > 0.0) {
            return (0.0, 1.0);
        }
        let complement = (self.shortfall[component] / mass).clamp(0.0, 1.0);
        let length = if complement < 0.5 { 1.0 - complement } else { (self.resultant_length(component) / mass).min(1.0) };
        (length, complement)
    }

    /// The mass and the shortfall of each component.
    pub fn sums(&self) -> Vec<ComponentSum> {
        self.mass.iter().zip(&self.shortfall).map(|(&mass, &shortfall)| ComponentSum { mass, shortfall }).collect()
    }

    /// The objective summed over the rows: ln p for EM. 0 for statistics that were computed without
    /// a model.
    pub fn objective(&self) -> f64 {
        self.objective
    }

    /// The total weight of the rows. The masses of a mixture sum to it, except for responsibilities
    /// too small to count.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Objective, weight, masses, shortfalls and resultants in one vector.
    pub(crate) fn values(&self) -> impl Iterator<Item = f64> {
        let values = [&self.objective, &self.weight].into_iter().chain(&self.mass).chain(&self.shortfall).chain(&self.resultant);
        values.copied()
    }

    /// The number of [`Self::values`]; `None` if it exceeds any machine's memory.
    fn value_count(components: usize, dim: usize) -> Option<usize> {
        dim.checked_add(2)?.checked_mul(components)?.checked_add(2)
    }

    /// The statistics with these values, or a description of what is wrong with them.
    pub(crate) fn of_values(
        components: usize,
        dim: usize,
        values: impl ExactSizeIterator<Item = f64>,
    ) -> std::result::Result<Self, &'static str> {
        if Self::value_count(components, dim) != Some(values.len()) {
            return Err("the number of values does not agree with the header");
        }
        let mut stats = Self::zero(components, dim);
        let fields = [&mut stats.objective, &mut stats.weight].into_iter().chain(&mut stats.mass);
        fields.chain(&mut stats.shortfall).chain(&mut stats.resultant).zip(values).for_each(|(field, value)| *field = value);
        let sound = |x: &f64| x.is_finite() && *x >= 0.0;
        let all_sound = stats.mass.iter().chain(&stats.shortfall).chain([&stats.weight]).all(sound);
        if !(all_sound && stats.objective.is_finite() && stats.resultant.iter().all(|x| x.is_finite())) {
            return Err("a value is not finite or a mass is negative");
        }
        Ok(stats)
    }

    /// The statistics as bytes for another process: a magic number, components, dimension (u64),
    /// then all values (f64), little endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + 8 * (2 + 2 * self.components() + self.resultant.len()));
        bytes.extend(MAGIC);
        bytes.extend((self.components() as u64).to_le_bytes());
        bytes.extend((self.dim as u64).to_le_bytes());
        self.values().for_each(|x| bytes.extend(x.to_le_bytes()));
        bytes
    }

    /// The statistics that [`Self::to_bytes`] wrote. Other bytes are an error, found before memory
    /// is allocated for them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let wrong = |what: &str| Error::StatisticsBytes { what: what.to_owned() };
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| wrong("it does not begin with `vmfstat1`"))?;
        let (header, rest) = rest.split_at_checked(16).ok_or_else(|| wrong("it ends within the header"))?;
        let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let sizes = usize::try_from(number(0)).ok().zip(usize::try_from(number(8)).ok());
        let (components, dim) = sizes.filter(|&(_, dim)| dim >= 2).ok_or_else(|| wrong("the header has an impossible size"))?;
        if !rest.len().is_multiple_of(8) {
            return Err(wrong("its length does not agree with the header"));
        }
        let values = rest.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().expect("eight bytes")));
        Self::of_values(components, dim, values).map_err(wrong)
    }
}

/// The sum of rows that come in batches, whose sizes do not change one bit of it.
///
/// ```
/// use vmfkit::{RowBatch, SufficientStats, stats::RowSum};
/// let rows = [1.0, 0.0, 0.8, 0.6, 0.6, 0.8];
/// let mut sum = RowSum::new(2);
/// sum.add(&RowBatch::new(2, &rows[..2])?)?;
/// sum.add(&RowBatch::new(2, &rows[2..])?)?;
/// assert_eq!(sum.finish(), SufficientStats::of_batch(&RowBatch::new(2, &rows)?));
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct RowSum {
    rows: AlignedRows,
    total: SufficientStats,
}

impl RowSum {
    /// No rows yet, of this dimension.
    pub fn new(dim: usize) -> Self {
        RowSum { rows: AlignedRows::new(ROWS_PER_TASK), total: SufficientStats::zero(1, dim) }
    }

    /// Adds rows, on all threads.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`].
    pub fn add(&mut self, batch: &RowBatch) -> Result<()> {
        let RowSum { rows, total } = self;
        if batch.dim() != total.dim {
            return Err(Error::DimensionMismatch { expected: total.dim, found: batch.dim() });
        }
        let mut buffer = RowBatch::default();
        let added = rows.add(&batch.validated_slice(0, batch.len(), &mut buffer)?, |whole| {
            total.add_rows(whole);
            Ok(ControlFlow::Continue(()))
        });
        added.map(|_| ())
    }

    /// All rows in one component.
    pub fn finish(mut self) -> SufficientStats {
        if let Some(rest) = self.rows.take_rest() {
            self.total.add_rows(&rest);
        }
        self.total
    }
}

/// The mass and the shortfall of one component: all that its mean length depends on.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct ComponentSum {
    /// The total weight of the component's rows.
    pub mass: f64,
    /// mass - |resultant|, without cancellation.
    pub shortfall: f64,
}

impl ComponentSum {
    /// The sum of a component with this mass and shortfall.
    pub fn new(mass: f64, shortfall: f64) -> Self {
        ComponentSum { mass, shortfall }
    }

    /// The mean length |resultant|/mass and its complement; (0, 1) without rows.
    pub fn mean_length(&self) -> (f64, f64) {
        if !(self.mass > 0.0) {
            return (0.0, 1.0);
        }
        let complement = (self.shortfall / self.mass).clamp(0.0, 1.0);
        (1.0 - complement, complement)
    }
}

/// The magic number of statistics, and the number of bytes before the values.
const MAGIC: &[u8] = b"vmfstat1";
const HEADER_BYTES: usize = 24;

/// Adds weight (x - origin) to the sum. Returns |x - origin|^2.
#[inline]
fn add_difference<T: Scalar>(sum: &mut [f64], weight: f64, row: &[T], origin: &[f64]) -> f64 {
    // Four running sums: a single chain of additions would be bound by latency.
    let mut squares = [0.0; 4];
    let whole = sum.len() / 4 * 4;
    let mut at = 0;
    while at < whole {
        for lane in 0..4 {
            let difference = row[at + lane].to_f64() - origin[at + lane];
            sum[at + lane] += weight * difference;
            squares[lane] += difference * difference;
        }
        at += 4;
    }
    for at in whole..sum.len() {
        let difference = row[at].to_f64() - origin[at];
        sum[at] += weight * difference;
        squares[0] += difference * difference;
    }
    squares.iter().sum()
}
