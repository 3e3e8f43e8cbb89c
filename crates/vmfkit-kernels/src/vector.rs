//! Products and lengths of vectors, in running sums that vectorise and keep their order.

use crate::float::Float;

/// x . y in eight running sums.
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

/// The Euclidean length, also where its square would overflow or underflow.
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

/// |x - y|^2 / 2, which for unit vectors is 1 - x . y without its cancellation.
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

/// The same for a sparse x and a unit vector y: (1 + |x|^2)/2 - x . y, with an error of a few 1e-16.
#[inline]
pub fn sparse_half_squared_distance<T: Float>(columns: &[u32], values: &[T], y: &[f64]) -> f64 {
    let sum: f64 = columns.iter().zip(values).map(|(&j, x)| x.to_f64() * (x.to_f64() - 2.0 * y[j as usize])).sum();
    (0.5 * (1.0 + sum)).max(0.0)
}
