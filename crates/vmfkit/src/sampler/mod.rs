//! [`Sampler`]: exact draws from a vMF, in O(d) a row. MATH.md, section 11.
//!
//! A draw is t mu plus sqrt(1 - t^2) times a uniform direction across mu. The deviation s = 1 - t comes
//!
//! | from | where |
//! |---|---|
//! | the inverse of its distribution function, in a vector kernel (`three`) | d = 3 |
//! | an arcsine proposal, accepted or not (Best and Fisher, doi:10.2307/2346732) | d = 2 |
//! | a beta proposal, accepted or not (Ulrich, doi:10.2307/2347441, with Wood's correction, doi:10.1080/03610919408813161) | d >= 4, mean length below `CONCENTRATED` |
//! | a gamma proposal, accepted or not, MATH.md (11.3): at least 83 % are, and the first is a by-product of the tangent's normals | d >= 4, the rest |
//!
//! Everything is written in s, not in t, so that k = 1e30 is no harder than k = 1. A Householder reflection takes the first axis
//! to mu; of the two that do, the one without cancellation is used, so mu = e1 and mu = -e1 are nothing special.

mod deviation;
mod envelope;

use crate::bessel;
use crate::capacity;
use crate::density::VonMisesFisher;
use crate::error::{Error, Result};
use crate::rows::Scalar;
pub(crate) use deviation::DeviationLaw;
use envelope::{BetaEnvelope, CONCENTRATED, GammaEnvelope};
use rand::distr::Distribution;
use rand::{Rng, RngExt};
use rayon::prelude::*;
use std::f64::consts::FRAC_PI_2;
use vmfkit_kernels::instructions::{Avx2Work, with_avx2};
use vmfkit_kernels::sphere::{Reflection, SphereKernel};
use vmfkit_kernels::vector::dot;
pub(crate) use vmfkit_kernels::xoshiro::Stream;
use vmfkit_kernels::xoshiro::{Caller, Words};
pub(crate) use vmfkit_kernels::ziggurat::{Gamma, fill as fill_with_normals};

/// Values that one stream of random numbers makes, more or less: a stream serves whole rows.
const VALUES_PER_STREAM: usize = 1 << 15;

/// Draws rows of a vMF.
///
/// With a seed, [`sample_rows`](Self::sample_rows) and [`fill`](Self::fill) work on all threads, and row n depends on the seed and on n alone:
///
/// ```
/// use vmfkit::{Sampler, VonMisesFisher};
/// let density = VonMisesFisher::new(vec![0.6, 0.8], 20.0)?;
/// let mut rows = vec![0f32; 2 * 1000];
/// Sampler::new(&density).fill(7, 0, &mut rows)?;
/// // Row 900 depends on the seed and on its number alone.
/// let mut row = [0f32; 2];
/// Sampler::new(&density).fill(7, 900, &mut row)?;
/// assert_eq!(row, rows[1800..1802]);
/// # Ok::<(), vmfkit::Error>(())
/// ```
///
/// With a generator of your own, of rand 0.10 ([`vmfkit::rand`](crate::rand)), it is a [`Distribution`] like those of rand_distr:
///
/// ```
/// use rand_xoshiro::Xoshiro256PlusPlus;
/// use vmfkit::rand::{RngExt, SeedableRng, distr::Distribution};
/// use vmfkit::{Sampler, VonMisesFisher};
/// let sampler = Sampler::new(&VonMisesFisher::new(vec![0.6, 0.8], 1e4)?);
/// let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
/// let row: Vec<f64> = sampler.sample(&mut rng);
/// let more: Vec<Vec<f64>> = (&mut rng).sample_iter(&sampler).take(9).collect();
/// assert!(more.iter().chain([&row]).all(|row| 0.6 * row[0] + 0.8 * row[1] > 0.99));
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Sampler {
    mean_direction: Vec<f64>,
    reflection: Reflection,
    deviation: Deviation,
}

/// Independent standard normals from the sampler's own generator: what a draw costs at least. For `compare`.
#[doc(hidden)]
pub fn bare_normals(seed: u64, stream: u64, out: &mut [f64]) {
    fill_with_normals(&mut Stream::new(seed, stream), out);
}

/// How s = 1 - mu . x is drawn.
#[derive(Debug, Clone)]
enum Deviation {
    /// d = 2
    Circle(BetaEnvelope),
    /// d = 3
    Sphere(SphereKernel),
    /// d >= 4 and spread out, with the gamma law of which two draws make a symmetric beta
    Spread(BetaEnvelope, Gamma),
    /// d >= 4 and concentrated
    Concentrated(GammaEnvelope, Gamma),
}

impl Sampler {
    /// A sampler of this density.
    pub fn new(density: &VonMisesFisher) -> Self {
        let (dim, k) = (density.dim(), density.concentration());
        let deviation = match dim {
            2 => Deviation::Circle(BetaEnvelope::new(dim, k)),
            3 => Deviation::Sphere(SphereKernel::new(density.mean_direction().try_into().expect("three coordinates"), k)),
            _ => {
                let gamma = Gamma::new(0.5 * (dim as f64 - 1.0));
                let length = bessel::mean_length_and_slope(dim, k);
                if length.value < CONCENTRATED {
                    Deviation::Spread(BetaEnvelope::new(dim, k), gamma)
                } else {
                    Deviation::Concentrated(GammaEnvelope::new(dim, k, length.complement), gamma)
                }
            }
        };
        Sampler {
            mean_direction: density.mean_direction().to_vec(),
            reflection: Reflection::new(density.mean_direction()[0]),
            deviation,
        }
    }

    /// The number of coordinates.
    pub fn dim(&self) -> usize {
        self.mean_direction.len()
    }

    /// One row from the caller's generator into `row`, which has one value for each coordinate: [`Distribution::sample`] without a new `Vec`.
    pub fn draw<R: Rng + ?Sized>(&self, rng: &mut R, row: &mut [f64]) -> Result<()> {
        Error::check_length("row", row, self.dim())?;
        if let Deviation::Sphere(kernel) = &self.deviation {
            kernel.fill(&mut Caller(rng), row);
        } else {
            let mut normals = vec![0.0; row.len() - 1];
            self.draw_into(&mut Caller(rng), &mut normals, row);
        }
        Ok(())
    }

    /// One row, with a buffer for its normals.
    #[inline(always)]
    fn draw_into<R: Words, T: Scalar>(&self, rng: &mut R, normals: &mut [f64], row: &mut [T]) {
        let (first, rest) = self.mean_direction.split_first().expect("at least two coordinates");
        let square = loop {
            fill_with_normals(rng, normals);
            let square = dot(normals, normals);
            if square > 0.0 {
                break square;
            }
        };
        let s = self.draw_deviation(rng, 0.5 * square);
        let (t, across) = (1.0 - s, (s * (2.0 - s) / square).max(0.0).sqrt());
        let along = across * dot(normals, rest);
        let (mean_part, normal_part) = self.reflection.parts(t, across, along);
        row[0] = T::from_f64(first * t + along);
        for ((x, m), n) in row[1..].iter_mut().zip(rest).zip(&*normals) {
            *x = T::from_f64(mean_part * m + normal_part * n);
        }
    }

    /// s = 1 - mu . x of one draw, given half the squared length of the d - 1 normals beside it. That is a gamma variate, independent
    /// of their direction: a first proposal, or half of one, for nothing.
    fn draw_deviation<R: Rng>(&self, rng: &mut R, half_square: f64) -> f64 {
        match &self.deviation {
            Deviation::Circle(envelope) => loop {
                // Beta(1/2, 1/2) is the arcsine law.
                let sine = (FRAC_PI_2 * rng.random::<f64>()).sin();
                let s = envelope.propose(sine * sine);
                if envelope.accepts(s, rng) {
                    return s;
                }
            },
            Deviation::Spread(envelope, gamma) => {
                let mut x = half_square;
                loop {
                    let s = envelope.propose(x / (x + gamma.draw(rng)));
                    if envelope.accepts(s, rng) {
                        return s;
                    }
                    x = gamma.draw(rng);
                }
            }
            Deviation::Concentrated(envelope, gamma) => {
                let mut s = envelope.propose(half_square);
                while !envelope.accepts(s, rng) {
                    s = envelope.propose(gamma.draw(rng));
                }
                s
            }
            Deviation::Sphere(_) => unreachable!("d = 3 goes through its kernel"),
        }
    }

    /// The first `rows` draws of a seed, row by row, on all threads: the beginning of the table that [`Self::fill`] draws in parts.
    ///
    /// ```
    /// use vmfkit::{RowBatch, Sampler, VonMisesFisher};
    /// let density = VonMisesFisher::new(vec![0.6, 0.8], 20.0)?;
    /// let rows = Sampler::new(&density).sample_rows::<f32>(1000, 7)?;
    /// assert_eq!(RowBatch::new(2, &rows)?.len(), 1000);
    /// # Ok::<(), vmfkit::Error>(())
    /// ```
    pub fn sample_rows<T: Scalar>(&self, rows: usize, seed: u64) -> Result<Vec<T>> {
        capacity::check("the rows to draw", &[rows, self.dim()])?;
        let mut out = vec![T::default(); rows * self.dim()];
        self.fill(seed, 0, &mut out)?;
        Ok(out)
    }

    /// Fills `out` with the rows `first_row ..` of the endless table of draws that `seed` stands for, on all threads.
    ///
    /// Row n of the table depends on the seed and on n alone.
    pub fn fill<T: Scalar>(&self, seed: u64, first_row: u64, out: &mut [T]) -> Result<()> {
        let dim = self.dim();
        if !out.len().is_multiple_of(dim) {
            return Err(Error::PartialRow { values: out.len(), dim });
        }
        let rows_per_stream = (VALUES_PER_STREAM / dim).max(1) as u64;
        // The first piece ends with the stream it begins in, so that every other piece is a whole stream.
        let skipped = first_row % rows_per_stream;
        let head = ((rows_per_stream - skipped) as usize * dim).min(out.len());
        let (head, tail) = out.split_at_mut(head);
        let stream = first_row / rows_per_stream;
        let pieces = tail.par_chunks_mut(rows_per_stream as usize * dim).enumerate();
        rayon::join(
            || self.fill_from_stream(seed, stream, skipped as usize, head),
            || pieces.for_each(|(i, piece)| self.fill_from_stream(seed, stream + 1 + i as u64, 0, piece)),
        );
        Ok(())
    }

    /// The rows of one stream, after the first `skipped` of them.
    fn fill_from_stream<T: Scalar>(&self, seed: u64, stream: u64, skipped: usize, out: &mut [T]) {
        let mut rng = Stream::new(seed, stream);
        if let Deviation::Sphere(kernel) = &self.deviation {
            for _ in 0..2 * skipped {
                rng.next_u64();
            }
            return kernel.fill(&mut rng, out);
        }
        with_avx2(FillRows { sampler: self, rng: &mut rng, skipped, out });
    }

    #[inline(always)]
    fn fill_rows<T: Scalar>(&self, rng: &mut Stream, skipped: usize, out: &mut [T]) {
        let dim = self.dim();
        let (mut normals, mut passed_over) = (vec![0.0; dim - 1], vec![T::default(); dim]);
        for _ in 0..skipped {
            self.draw_into(rng, &mut normals, &mut passed_over);
        }
        for row in out.chunks_exact_mut(dim) {
            self.draw_into(rng, &mut normals, row);
        }
    }
}

/// [`Sampler::fill_rows`] for one set of instructions.
struct FillRows<'a, T> {
    sampler: &'a Sampler,
    rng: &'a mut Stream,
    skipped: usize,
    out: &'a mut [T],
}

impl<T: Scalar> Avx2Work for FillRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.sampler.fill_rows(self.rng, self.skipped, self.out);
    }
}

/// One row of unit length.
impl Distribution<Vec<f64>> for Sampler {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Vec<f64> {
        let mut row = vec![0.0; self.dim()];
        self.draw(rng, &mut row).expect("a value for each coordinate");
        row
    }
}
