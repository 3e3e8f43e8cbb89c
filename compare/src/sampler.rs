//! Rows a second of our sampler, beside the rate at which the same generator makes bare normals.

use clap::{Args, ValueEnum};
use rand::{RngExt, SeedableRng, TryRng};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;
use rayon::prelude::*;
use std::convert::Infallible;
use std::hint::black_box;
use std::marker::PhantomData;
use std::time::Instant;
use vmfkit::block::Scalar;
use vmfkit::{Sampler, VonMisesFisher};

/// Values that one generator makes for the bare normals: as many as our sampler asks of a stream.
const VALUES_PER_STREAM: usize = 1 << 15;

/// How often each side is measured, turn by turn; the best counts.
const REPEATS: usize = 5;

#[derive(Args)]
pub struct Options {
    /// The dimension of a row.
    #[arg(long)]
    dim: usize,
    /// The concentration of the density.
    #[arg(long)]
    concentration: f64,
    /// How many rows to draw.
    #[arg(long)]
    rows: usize,
    /// On how many threads.
    #[arg(long)]
    threads: usize,
    /// The type of a value.
    #[arg(long)]
    float: Float,
}

#[derive(Clone, Copy, ValueEnum)]
enum Float {
    F32,
    F64,
}

/// Prints our rows a second and bare normals a second.
pub fn print_rates(options: &Options) -> anyhow::Result<()> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build()?;
    let (rows, normals) = pool.install(|| match options.float {
        Float::F32 => rates::<f32>(options),
        Float::F64 => rates::<f64>(options),
    })?;
    println!("{rows:.6e},{normals:.6e}");
    Ok(())
}

fn rates<T: Scalar>(options: &Options) -> vmfkit::Result<(f64, f64)> {
    let density = VonMisesFisher::along(vec![1.0; options.dim], options.concentration)?;
    let sampler = Sampler::new(&density);
    let mut buffer = vec![T::from_f64(0.0); options.dim * options.rows];
    let (mut ours, mut bare) = (f64::INFINITY, f64::INFINITY);
    // Round 0 warms up: it touches the buffer's pages and the threads.
    for round in 0..=REPEATS {
        let clock = Instant::now();
        sampler.fill(round as u64, 0, black_box(&mut buffer))?;
        let drawn = clock.elapsed().as_secs_f64();
        let clock = Instant::now();
        fill_with_normals(round as u64, black_box(&mut buffer));
        let filled = clock.elapsed().as_secs_f64();
        if round > 0 {
            (ours, bare) = (ours.min(drawn), bare.min(filled));
        }
    }
    Ok((options.rows as f64 / ours, buffer.len() as f64 / bare))
}

fn fill_with_normals<T: Scalar>(seed: u64, out: &mut [T]) {
    let pieces = out.par_chunks_mut(VALUES_PER_STREAM).enumerate();
    pieces.for_each(|(stream, piece)| fill_piece_with_normals(seed ^ ((stream as u64) << 32), piece));
}

#[inline(never)]
fn fill_piece_with_normals<T: Scalar>(seed: u64, out: &mut [T]) {
    let mut rng = Bare(Xoshiro256PlusPlus::seed_from_u64(seed), PhantomData::<T>);
    for value in out {
        *value = T::from_f64(rng.sample(StandardNormal));
    }
}

/// The generator under a type of its own for each loop: a normal is inlined only into the one place that draws it from such a
/// type, and a call costs as much as the normal. Without this the baseline would be half as fast, and our share of it flattered.
struct Bare<T>(Xoshiro256PlusPlus, PhantomData<T>);

impl<T> TryRng for Bare<T> {
    type Error = Infallible;

    #[inline]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.0.try_next_u32()
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0.try_next_u64()
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.try_fill_bytes(bytes)
    }
}
