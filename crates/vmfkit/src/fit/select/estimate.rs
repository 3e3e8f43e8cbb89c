//! [`Estimate`]: a mean with its standard error.

/// A number that was estimated several times, or from parts of the rows, and its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Estimate {
    /// The estimate.
    pub mean: f64,
    /// Its standard error; 0 if there is a single repeat.
    pub standard_error: f64,
}

impl Estimate {
    /// The mean of repeats and the standard error of that mean.
    pub(super) fn of_repeats(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        Estimate { mean, standard_error: if values.len() > 1 { (squares / (n * (n - 1.0))).sqrt() } else { 0.0 } }
    }

    /// An estimate from all rows, and its delete-a-group jackknife error from the estimates without
    /// each of several equal groups of rows, MATH.md (17.6).
    pub(super) fn of_jackknife(all: f64, without: &[f64]) -> Self {
        let n = without.len() as f64;
        let mean = without.iter().sum::<f64>() / n;
        let squares = without.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        Estimate { mean: all, standard_error: (squares * (n - 1.0) / n).sqrt() }
    }
}
