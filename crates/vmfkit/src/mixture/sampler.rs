//! [`MixtureSampler`]: draws from a mixture.

use super::Mixture;
use crate::capacity;
use crate::error::{Error, Result};
use crate::rows::Scalar;
use crate::sampler::{Sampler, Stream};
use rand::distr::Distribution;
use rand::{Rng, RngExt};
use rayon::prelude::*;

/// Draws rows of a mixture, each with the index of its component.
///
/// With a seed, [`sample_rows`](Self::sample_rows) and [`fill`](Self::fill) work on all threads,
/// and row n depends only on the seed and on n. With a generator of your own, of
/// [`vmfkit::rand`](crate::rand), use the trait [`Distribution`]:
///
/// ```
/// use rand_xoshiro::Xoshiro256PlusPlus;
/// use vmfkit::rand::{SeedableRng, distr::Distribution};
/// use vmfkit::{Mixture, VonMisesFisher};
/// let along = |x, y| VonMisesFisher::new(vec![x, y], 1000.0);
/// let mixture = Mixture::new(vec![0.25, 0.75], vec![along(1.0, 0.0)?, along(0.0, 1.0)?])?;
/// let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
/// let draws: Vec<(u32, Vec<f64>)> = mixture.sampler().sample_iter(&mut rng).take(1000).collect();
/// assert!(draws.iter().all(|(label, row)| row[*label as usize] > 0.9));
/// let second = draws.iter().filter(|(label, _)| *label == 1).count();
/// assert!((700..800).contains(&second));
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct MixtureSampler {
    weights: Vec<f64>,
    samplers: Vec<Sampler>,
}

impl MixtureSampler {
    /// A sampler of this mixture.
    pub fn new(mixture: &Mixture) -> Self {
        let samplers = mixture.components().iter().map(Sampler::new).collect();
        MixtureSampler { weights: mixture.weights().to_vec(), samplers }
    }

    /// The number of coordinates.
    pub fn dim(&self) -> usize {
        self.samplers[0].dim()
    }

    /// The first `rows` rows of [`Self::fill`], and the component of each.
    pub fn sample_rows<T: Scalar>(&self, rows: usize, seed: u64) -> Result<(Vec<T>, Vec<u32>)> {
        capacity::check("the rows to draw", &[rows, self.dim()])?;
        let (mut out, mut labels) = (vec![T::default(); rows * self.dim()], vec![0; rows]);
        self.fill(seed, 0, &mut out, &mut labels)?;
        Ok((out, labels))
    }

    /// The rows from `first_row` on of the infinite sequence of draws that `seed` defines, and the
    /// component of each, on all threads. `labels` has one value for each row of `out`.
    pub fn fill<T: Scalar>(&self, seed: u64, first_row: u64, out: &mut [T], labels: &mut [u32]) -> Result<()> {
        let dim = self.dim();
        if !out.len().is_multiple_of(dim) {
            return Err(Error::PartialRow { values: out.len(), dim });
        }
        Error::check_length("labels", labels, out.len() / dim)?;
        // The component and the coordinates of a row come from the row's own stream.
        out.par_chunks_exact_mut(dim).zip(labels).enumerate().for_each_init(
            || vec![0.0; dim],
            |buffer, (row, (out, label))| {
                let mut rng = Stream::new(seed ^ 0x6d69_7874, first_row + row as u64);
                *label = self.draw(&mut rng, buffer);
                out.iter_mut().zip(&*buffer).for_each(|(x, &value)| *x = T::from_f64(value));
            },
        );
        Ok(())
    }

    /// One row and its component; `row` has a value for each coordinate.
    fn draw<R: Rng + ?Sized>(&self, rng: &mut R, row: &mut [f64]) -> u32 {
        let component = self.pick(rng.random());
        self.samplers[component].draw(rng, row).expect("a value for each coordinate");
        component as u32
    }

    /// The component at which the cumulative weight reaches this fraction of the total.
    fn pick(&self, fraction: f64) -> usize {
        let mut rest = fraction;
        for (component, weight) in self.weights.iter().enumerate() {
            rest -= weight;
            if rest < 0.0 {
                return component;
            }
        }
        // Because of rounding: the last component with a weight above 0.
        self.weights.iter().rposition(|w| *w > 0.0).unwrap_or(0)
    }
}

/// A row and the index of its component.
impl Distribution<(u32, Vec<f64>)> for MixtureSampler {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> (u32, Vec<f64>) {
        let mut row = vec![0.0; self.dim()];
        (self.draw(rng, &mut row), row)
    }
}
