//! Rows per second of the sampler, on all threads.

use divan::{Bencher, counter::ItemsCount};
use vmfkit::rows::Scalar;
use vmfkit::{Sampler, VonMisesFisher};

/// Values per call.
const VALUES: usize = 1 << 20;

fn main() {
    divan::main();
}

#[divan::bench(types = [f32, f64], args = [2, 3, 10, 100, 768])]
fn fill<T: Scalar>(bencher: Bencher, dim: usize) {
    let density = VonMisesFisher::along(vec![1.0; dim], dim as f64).expect("a finite concentration");
    let sampler = Sampler::new(&density);
    let mut rows = vec![T::from_f64(0.0); VALUES / dim * dim];
    bencher.counter(ItemsCount::new(VALUES / dim)).bench_local(|| sampler.fill(1, 0, &mut rows));
}
