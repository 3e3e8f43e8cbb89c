//! Throughput of the special functions over 1024 concentrations spread evenly in the logarithm.

use divan::{Bencher, black_box, counter::ItemsCount};
use vmfkit_special::bessel;

const DIMS: [usize; 5] = [2, 3, 10, 100, 768];

fn main() {
    divan::main();
}

/// From d/100 to 10 d: where embeddings live.
fn concentrations(dim: usize) -> Vec<f64> {
    (0..1024).map(|i| 0.01 * dim as f64 * 1000f64.powf(f64::from(i) / 1023.0)).collect()
}

fn over(bencher: Bencher, arguments: Vec<f64>, function: impl Fn(f64) -> f64 + Sync) {
    let count = ItemsCount::new(arguments.len());
    bencher.counter(count).bench(|| black_box(&arguments).iter().map(|&x| function(x)).sum::<f64>());
}

#[divan::bench(args = DIMS)]
fn mean_length(bencher: Bencher, dim: usize) {
    over(bencher, concentrations(dim), |k| bessel::mean_length(dim, k));
}

#[divan::bench(args = DIMS)]
fn slope(bencher: Bencher, dim: usize) {
    over(bencher, concentrations(dim), |k| bessel::mean_length_and_slope(dim, k).slope);
}

#[divan::bench(args = DIMS)]
fn ln_normalizer(bencher: Bencher, dim: usize) {
    over(bencher, concentrations(dim), |k| bessel::ln_normalizer(dim, k));
}

#[divan::bench(args = DIMS)]
fn ln_bessel_i(bencher: Bencher, dim: usize) {
    over(bencher, concentrations(dim), |x| bessel::ln_bessel_i(0.5 * dim as f64 - 1.0, x));
}

#[divan::bench(args = DIMS)]
fn entropy(bencher: Bencher, dim: usize) {
    over(bencher, concentrations(dim), |k| bessel::entropy(dim, k));
}

#[divan::bench(args = DIMS)]
fn concentration_from_mean_length(bencher: Bencher, dim: usize) {
    let lengths = concentrations(dim).into_iter().map(|k| bessel::mean_length(dim, k)).collect();
    over(bencher, lengths, |r| bessel::concentration_from_mean_length(dim, r));
}
