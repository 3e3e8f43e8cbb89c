//! [`Reliability`]: how often what is probable happens.

/// Bins of a reliability table.
pub const BINS: usize = 15;

/// Rows by the probability of their component, and the fraction of them whose neighbours (or known
/// labels) confirm it: a reliability diagram.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reliability {
    bins: [Bin; BINS],
}

/// The rows whose probability lies in one of [`BINS`] equal intervals.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Bin {
    /// The weight of the rows as a fraction of all rows.
    pub fraction: f64,
    /// Their mean probability.
    pub probability: f64,
    /// The fraction that was confirmed.
    pub confirmed: f64,
}

impl Reliability {
    /// The table of rows with a weight, the probability of their component, and the fraction of
    /// their evidence that confirms it.
    pub(crate) fn new(rows: impl Iterator<Item = (f64, f64, f64)>) -> Self {
        let mut bins = [Bin::default(); BINS];
        let mut total = 0.0;
        for (weight, probability, confirmed) in rows {
            let bin = &mut bins[((probability * BINS as f64) as usize).min(BINS - 1)];
            bin.fraction += weight;
            bin.probability += weight * probability;
            bin.confirmed += weight * confirmed;
            total += weight;
        }
        for bin in bins.iter_mut().filter(|bin| bin.fraction > 0.0) {
            bin.probability /= bin.fraction;
            bin.confirmed /= bin.fraction;
            bin.fraction /= total;
        }
        Reliability { bins }
    }

    /// The bins, from probability 0 to 1.
    pub fn bins(&self) -> &[Bin; BINS] {
        &self.bins
    }

    /// The expected calibration error: the mean over rows of the difference between probability and
    /// confirmed fraction of their bin.
    pub fn error(&self) -> f64 {
        self.bins.iter().map(|bin| bin.fraction * (bin.probability - bin.confirmed).abs()).sum()
    }

    /// The fraction of rows that were confirmed.
    pub fn confirmed(&self) -> f64 {
        self.bins.iter().map(|bin| bin.fraction * bin.confirmed).sum()
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = f64> {
        self.bins.into_iter().flat_map(|bin| [bin.fraction, bin.probability, bin.confirmed])
    }

    pub(crate) fn of_numbers(numbers: &[f64]) -> Self {
        let mut bins = [Bin::default(); BINS];
        for (bin, numbers) in bins.iter_mut().zip(numbers.chunks_exact(3)) {
            *bin = Bin { fraction: numbers[0], probability: numbers[1], confirmed: numbers[2] };
        }
        Reliability { bins }
    }
}
