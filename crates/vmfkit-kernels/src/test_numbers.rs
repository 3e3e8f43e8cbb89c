//! Random numbers for tests.

use crate::Stream;
use crate::float::Float;
use rand::RngExt;

/// Uniform numbers in [-0.5, 0.5).
pub(crate) fn numbers<T: Float>(count: usize, seed: u64) -> Vec<T> {
    let mut rng = Stream::new(seed, 0);
    (0..count).map(|_| T::from_f64(rng.random::<f64>() - 0.5)).collect()
}
