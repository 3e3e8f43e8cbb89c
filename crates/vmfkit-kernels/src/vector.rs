//! Dot products and norms with eight running sums, which vectorise and fix the order of additions.

use crate::float::Float;

/// The dot product x . y.
#[inline(always)]
pub fn dot(x: &[f64], y: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (xs, ys) = (x.chunks_exact(8), y.chunks_exact(8));
    let rest: f64 = xs.remainder().iter().zip(ys.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in xs.zip(ys) {
        for lane in 0..8 {
            sums[lane] += x[lane] * y[lane];
        }
    }
    rest + sums.iter().sum::<f64>()
}

/// The Euclidean norm; its square may overflow or underflow.
#[inline]
pub fn norm(vector: &[f64]) -> f64 {
    let square = dot(vector, vector);
    if square > 1e-280 && square < 1e280 {
        return square.sqrt();
    }
    let largest = vector.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
    if largest == 0.0 || !largest.is_finite() {
        return largest;
    }
    largest * vector.iter().map(|x| (x / largest) * (x / largest)).sum::<f64>().sqrt()
}

/// |x - y|^2 / 2: for unit vectors this is 1 - x . y, without cancellation.
#[inline]
pub fn half_squared_distance<T: Float>(x: &[T], y: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (xs, ys) = (x.chunks_exact(8), y.chunks_exact(8));
    let rest: f64 = xs.remainder().iter().zip(ys.remainder()).map(|(x, y)| (x.to_f64() - y).powi(2)).sum();
    for (x, y) in xs.zip(ys) {
        for lane in 0..8 {
            let difference = x[lane].to_f64() - y[lane];
            sums[lane] += difference * difference;
        }
    }
    0.5 * (rest + sums.iter().sum::<f64>())
}

/// [`half_squared_distance`] for a sparse x and a unit vector y: (1 + |x|^2)/2 - x . y, with an
/// absolute error of a few 1e-16.
#[inline]
pub fn sparse_half_squared_distance<T: Float>(columns: &[u32], values: &[T], y: &[f64]) -> f64 {
    let sum: f64 = columns.iter().zip(values).map(|(&j, x)| x.to_f64() * (x.to_f64() - 2.0 * y[j as usize])).sum();
    (0.5 * (1.0 + sum)).max(0.0)
}
