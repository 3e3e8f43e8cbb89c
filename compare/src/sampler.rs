//! Rows per second of our sampler, and the rate at which the same generator draws normals alone.

use clap::{Args, ValueEnum};
use rayon::prelude::*;
use std::hint::black_box;
use std::time::Instant;
use vmfkit::rows::Scalar;
use vmfkit::sampler::bare_normals;
use vmfkit::{Sampler, VonMisesFisher};

/// Values that one generator makes for the bare normals: as many as our sampler asks of a stream.
const VALUES_PER_STREAM: usize = 1 << 15;

/// The number of measurements of each side, which alternate; the best counts.
const REPEATS: usize = 20;

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
        Float::F32 => rates::<f32>(options, bare_normals_f32),
        Float::F64 => rates::<f64>(options, bare_normals),
    })?;
    println!("{rows:.6e},{normals:.6e}");
    Ok(())
}

fn rates<T: Scalar>(options: &Options, fill: fn(u64, u64, &mut [T])) -> vmfkit::Result<(f64, f64)> {
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
        fill_with_normals(round as u64, black_box(&mut buffer), fill);
        let filled = clock.elapsed().as_secs_f64();
        if round > 0 {
            (ours, bare) = (ours.min(drawn), bare.min(filled));
        }
    }
    Ok((options.rows as f64 / ours, buffer.len() as f64 / bare))
}

/// Normals from the sampler's own generator, on all threads.
fn fill_with_normals<T: Scalar>(seed: u64, out: &mut [T], fill: impl Fn(u64, u64, &mut [T]) + Sync) {
    out.par_chunks_mut(VALUES_PER_STREAM).enumerate().for_each(|(stream, piece)| fill(seed, stream as u64, piece));
}

/// f32 normals are f64 normals rounded, as in the sampler, a piece that stays in cache at a time.
fn bare_normals_f32(seed: u64, stream: u64, out: &mut [f32]) {
    const PIECE: usize = 4096;
    let mut normals = [0.0; PIECE];
    for (i, piece) in out.chunks_mut(PIECE).enumerate() {
        bare_normals(seed, stream << 8 | i as u64, &mut normals[..piece.len()]);
        piece.iter_mut().zip(&normals).for_each(|(x, normal)| *x = *normal as f32);
    }
}
