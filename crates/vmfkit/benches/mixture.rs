//! Speed of one E step of each assignment, on one thread.

use divan::{Bencher, black_box, counter::ItemsCount};
use vmfkit::{Assignment, Mixture, RowBatch, Sampler, SufficientStats, VonMisesFisher};

fn main() {
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().expect("no pool yet");
    divan::main();
}

const ROWS: usize = 1152;

/// Dimension, components and concentration, as in text embeddings.
const CASES: [(usize, usize, f64); 3] = [(100, 10, 66.0), (384, 100, 360.0), (768, 1000, 720.0)];

fn e_step(bencher: Bencher, (dim, components, concentration): (usize, usize, f64), assignment: Assignment) {
    let mut directions = vec![0.0; dim * components];
    Sampler::new(&VonMisesFisher::uniform(dim).expect("a sphere")).fill(1, 0, &mut directions).expect("whole rows");
    let density = |direction: &[f64]| VonMisesFisher::along(direction.to_vec(), concentration).expect("a density");
    let weights = vec![1.0 / components as f64; components];
    let mixture = Mixture::new(weights, directions.chunks_exact(dim).map(density).collect()).expect("a mixture");
    let (mut rows, mut labels) = (vec![0f32; ROWS * dim], vec![0; ROWS]);
    mixture.fill(2, 0, &mut rows, &mut labels).expect("whole rows");
    let block = RowBatch::new(dim, &rows).expect("unit rows");
    let mut stats = SufficientStats::zero(components, dim);
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| mixture.accumulate(black_box(&block), assignment, &mut stats));
}

#[divan::bench(args = CASES)]
fn soft(bencher: Bencher, case: (usize, usize, f64)) {
    e_step(bencher, case, Assignment::Soft);
}

/// Many components per row have responsibilities above 0.
#[divan::bench(args = CASES)]
fn tempered(bencher: Bencher, case: (usize, usize, f64)) {
    e_step(bencher, case, Assignment::Tempered(50.0));
}

#[divan::bench(args = CASES)]
fn nearest(bencher: Bencher, case: (usize, usize, f64)) {
    e_step(bencher, case, Assignment::Nearest);
}
