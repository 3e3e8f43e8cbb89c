//! Where the functions are looked at, and the table of 25 digits.

const TABLE: &str = include_str!("../../../../testdata/reference_public.csv");

pub const DIMS: [usize; 7] = [2, 3, 10, 100, 768, 2048, 4096];
pub const KAPPAS: [f64; 10] = [1e-6, 1e-3, 0.1, 1.0, 7.0, 30.0, 400.0, 1e4, 1e5, 1e6];

/// A row of the table, as nearest f64s.
pub struct Point {
    pub dim: usize,
    pub kappa: f64,
    pub ln_normalizer: f64,
    pub ln_peak: f64,
    pub mean_length: f64,
    pub complement: f64,
    pub slope: f64,
}

impl Point {
    /// The size of the terms whose difference ln C is.
    pub fn scale(&self) -> f64 {
        let nu = 0.5 * self.dim as f64 - 1.0;
        [1.0, nu * nu.max(1.0).ln(), self.kappa * self.mean_length, self.ln_peak.abs()].into_iter().fold(0.0, f64::max)
    }
}

/// All of the table that has finite values.
pub fn points() -> Vec<Point> {
    let points: Vec<Point> = TABLE
        .lines()
        .skip(1)
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let number = |column: usize| -> f64 { fields[column].parse().expect("a number") };
            Point {
                dim: fields[0].parse().expect("a dimension"),
                kappa: number(1),
                ln_normalizer: number(3),
                ln_peak: number(4),
                mean_length: number(5),
                complement: number(6),
                slope: number(7),
            }
        })
        .filter(|point| point.kappa.is_finite() && point.ln_normalizer.is_finite())
        .collect();
    assert!(points.len() > 1000);
    points
}

/// Fails unless the two agree to `relative` of the second (or of f64's smallest normal number).
#[track_caller]
pub fn assert_close(found: f64, expected: f64, relative: f64, place: &str) {
    let error = (found - expected).abs() / expected.abs().max(f64::MIN_POSITIVE);
    assert!(error <= relative, "{place}: found {found:e}, expected {expected:e}, relative error {error:e}");
}
