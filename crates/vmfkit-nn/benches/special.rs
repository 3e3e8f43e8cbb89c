//! Time of a million concentrations in burn and in the core.

use burn::tensor::{Device, Tensor};
use divan::{Bencher, black_box, counter::ItemsCount};
use vmfkit::bessel;

const COUNT: usize = 1_000_000;
const DIMS: [usize; 2] = [3, 768];

fn main() {
    divan::main();
}

/// From d/100 to 10 d, evenly spaced in the logarithm, as for embeddings.
fn concentrations(dim: usize) -> Vec<f32> {
    (0..COUNT).map(|i| 0.01 * dim as f32 * 1000f32.powf(i as f32 / COUNT as f32)).collect()
}

fn tensor(dim: usize, device: Device) -> Tensor<1> {
    Tensor::from_floats(concentrations(dim).as_slice(), &device)
}

#[divan::bench(args = DIMS, sample_count = 10)]
fn forward(bencher: Bencher, dim: usize) {
    let kappa = tensor(dim, Device::flex());
    bencher.counter(ItemsCount::new(COUNT)).bench_local(|| vmfkit_nn::ln_normalizer(dim, kappa.clone()));
}

#[divan::bench(args = DIMS, sample_count = 10)]
fn forward_and_backward(bencher: Bencher, dim: usize) {
    let kappa = tensor(dim, Device::flex().autodiff()).require_grad();
    bencher.counter(ItemsCount::new(COUNT)).bench_local(|| {
        let gradients = vmfkit_nn::ln_normalizer(dim, kappa.clone()).sum().backward();
        kappa.grad(&gradients)
    });
}

#[divan::bench(args = DIMS, sample_count = 10)]
fn value_and_slope_of_the_core(bencher: Bencher, dim: usize) {
    let kappas = concentrations(dim);
    bencher.counter(ItemsCount::new(COUNT)).bench_local(|| {
        let both = |k: &f32| bessel::ln_normalizer(dim, f64::from(*k)) + bessel::mean_length(dim, f64::from(*k));
        black_box(&kappas).iter().map(both).sum::<f64>()
    });
}
