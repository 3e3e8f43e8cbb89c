//! [`Sampler`]: exact draws from a vMF at a cost of O(d) per row. MATH.md, section 11.
//!
//! A draw is t mu plus sqrt(1 - t^2) times a uniform direction orthogonal to mu. The deviation
//! s = 1 - t is drawn by
//!
//! | method | for |
//! |---|---|
//! | the inverse of its distribution function, MATH.md (11.1), in a vector kernel | d = 3 |
//! | rejection with an arcsine proposal (Best and Fisher, doi:10.2307/2346732) | d = 2 |
//! | rejection with a beta proposal, MATH.md (11.2) (Ulrich, doi:10.2307/2347441, with Wood's correction, doi:10.1080/03610919408813161) | d >= 4, mean length below `CONCENTRATED` |
//! | rejection with a gamma proposal, MATH.md (11.3); at least 83 % are accepted, and the first follows from the normals of the tangent | d >= 4, otherwise |
//!
//! All formulas use s, not t, so they are accurate at k = 1e30. A Householder reflection maps the
//! first axis to mu; of the two that do, the code uses the one without cancellation, MATH.md
//! (11.4).

mod deviation;
mod envelope;

use crate::capacity;
use crate::density::VonMisesFisher;
use crate::error::{Error, Result};
use crate::rows::Scalar;
pub(crate) use deviation::DeviationLaw;
use envelope::{BetaEnvelope, Rejection};
use rand::Rng;
use rand::distr::Distribution;
use rayon::prelude::*;
use vmfkit_kernels::instructions::{Avx2Work, with_avx2};
use vmfkit_kernels::sphere::{Reflection, SphereKernel};
use vmfkit_kernels::vector::dot;
pub(crate) use vmfkit_kernels::xoshiro::Stream;
use vmfkit_kernels::xoshiro::{Caller, Words};
pub(crate) use vmfkit_kernels::ziggurat::{Gamma, fill as fill_with_normals};

/// The approximate number of values per stream of random numbers; a stream serves whole rows.
const VALUES_PER_STREAM: usize = 1 << 15;

/// Draws rows from a vMF.
///
/// With a seed, [`sample_rows`](Self::sample_rows) and [`fill`](Self::fill) use all threads, and
/// row n depends only on the seed and on n:
///
/// ```
/// use vmfkit::{Sampler, VonMisesFisher};
/// let density = VonMisesFisher::new(vec![0.6, 0.8], 20.0)?;
/// let mut rows = vec![0f32; 2 * 1000];
/// Sampler::new(&density).fill(7, 0, &mut rows)?;
/// // Row 900 depends only on the seed and on its number.
/// let mut row = [0f32; 2];
/// Sampler::new(&density).fill(7, 900, &mut row)?;
/// assert_eq!(row, rows[1800..1802]);
/// # Ok::<(), vmfkit::Error>(())
/// ```
///
/// With your own generator of rand 0.10 ([`vmfkit::rand`](crate::rand)), it is a [`Distribution`]
/// like those of rand_distr:
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

/// Independent standard normals from the generator of the sampler: a lower bound of the cost of a
/// draw, for `compare`.
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
    /// d >= 4
    Rejection(Rejection),
}

impl Sampler {
    /// A sampler of this density.
    pub fn new(density: &VonMisesFisher) -> Self {
        let (dim, k) = (density.dim(), density.concentration());
        let deviation = match dim {
            2 => Deviation::Circle(BetaEnvelope::new(dim, k)),
            3 => Deviation::Sphere(SphereKernel::new(density.mean_direction().try_into().expect("three coordinates"), k)),
            _ => Deviation::Rejection(Rejection::new(dim, k)),
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

    /// Draws one row with the caller's generator into `row`, which has one value per coordinate.
    ///
    /// It is [`Distribution::sample`] without an allocation for the row.
    ///
    /// # Errors
    /// [`Error::OutputLength`].
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

    /// Draws one row; `normals` is a buffer of d - 1 values.
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

    /// Draws s = 1 - mu . x, given half the squared length of the d - 1 normals of the tangent.
    /// That is a gamma variate independent of their direction, so it serves as the first proposal,
    /// or half of it.
    fn draw_deviation<R: Rng>(&self, rng: &mut R, half_square: f64) -> f64 {
        match &self.deviation {
            Deviation::Circle(envelope) => envelope.draw_on_circle(rng),
            Deviation::Rejection(rejection) => rejection.draw(half_square, rng),
            Deviation::Sphere(_) => unreachable!("d = 3 goes through its kernel"),
        }
    }

    /// The first `rows` draws of a seed in row-major order, drawn on all threads.
    ///
    /// Use [`Self::fill`] to draw them in parts.
    ///
    /// ```
    /// use vmfkit::{RowBatch, Sampler, VonMisesFisher};
    /// let density = VonMisesFisher::new(vec![0.6, 0.8], 20.0)?;
    /// let rows = Sampler::new(&density).sample_rows::<f32>(1000, 7)?;
    /// assert_eq!(RowBatch::new(2, &rows)?.len(), 1000);
    /// # Ok::<(), vmfkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn sample_rows<T: Scalar>(&self, rows: usize, seed: u64) -> Result<Vec<T>> {
        capacity::check("the rows to draw", &[rows, self.dim()])?;
        let mut out = vec![T::default(); rows * self.dim()];
        self.fill(seed, 0, &mut out)?;
        Ok(out)
    }

    /// Fills `out` with the draws of `seed` from number `first_row` on, on all threads.
    ///
    /// Draw n depends only on the seed and on n.
    ///
    /// # Errors
    /// [`Error::PartialRow`].
    pub fn fill<T: Scalar>(&self, seed: u64, first_row: u64, out: &mut [T]) -> Result<()> {
        let dim = self.dim();
        if !out.len().is_multiple_of(dim) {
            return Err(Error::PartialRow { values: out.len(), dim });
        }
        let rows_per_stream = (VALUES_PER_STREAM / dim).max(1) as u64;
        // `head` ends with the stream in which it begins, so all other pieces are whole streams.
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

    /// Fills `out` with rows of one stream, without its first `skipped` rows.
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
        let (mut normals, mut discarded) = (vec![0.0; dim - 1], vec![T::default(); dim]);
        for _ in 0..skipped {
            self.draw_into(rng, &mut normals, &mut discarded);
        }
        for row in out.chunks_exact_mut(dim) {
            self.draw_into(rng, &mut normals, row);
        }
    }
}

/// [`Sampler::fill_rows`], to be compiled for AVX2 and for the baseline.
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

/// Draws one row.
impl Distribution<Vec<f64>> for Sampler {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Vec<f64> {
        let mut row = vec![0.0; self.dim()];
        self.draw(rng, &mut row).expect("a value for each coordinate");
        row
    }
}
