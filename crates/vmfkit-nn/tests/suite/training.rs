//! A layer that learns mu(y) and kappa(y) from draws of the core.

use crate::tensors::{device, numbers, tensor};
use burn::module::Param;
use burn::nn::Linear;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{DType, Tensor};
use vmfkit::{Sampler, VonMisesFisher};
use vmfkit_nn::{concentration, unit, vmf_nll};

const ROWS: usize = 4000;

/// From a vector that goes along a line as y does, and a logarithm that does.
fn truth(y: f64) -> VonMisesFisher {
    VonMisesFisher::along(vec![1.0 + 0.5 * y, 0.2 - y, 0.5 * y - 1.0], (3.0 + 1.5 * y).exp()).unwrap()
}

fn head(layer: &Linear, y: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
    let said = layer.forward(y);
    (unit(said.clone().narrow(1, 0, 3)), concentration(said.narrow(1, 3, 1)))
}

/// The standard error of kappa in 4000 rows is 1.6 % in the middle and about twice that at the
/// ends; that of mu is below half a degree.
#[test]
fn a_layer_recovers_what_made_the_rows() {
    let y: Vec<f64> = (0..ROWS).map(|row| 2.0 * row as f64 / ROWS as f64 - 1.0).collect();
    let mut x = vec![0.0; 3 * ROWS];
    for ((row, y), x) in y.iter().enumerate().zip(x.chunks_exact_mut(3)) {
        Sampler::new(&truth(*y)).fill(1, row as u64, x).unwrap();
    }
    let (y, x) = (tensor(&y, [ROWS, 1], DType::F32), tensor(&x, [ROWS, 3], DType::F32));
    let mut layer = Linear {
        weight: Param::from_tensor(Tensor::zeros([1, 4], &device())),
        bias: Some(Param::from_tensor(Tensor::from_floats([0.1, 0.1, 0.1, 0.0], &device()))),
    };
    let mut adam = AdamConfig::new().with_epsilon(1e-8).init();
    for step in 0..400 {
        let (mu, kappa) = head(&layer, y.clone());
        let gradients = vmf_nll(x.clone(), mu, kappa).mean().backward();
        let gradients = GradientsParams::from_grads(gradients, &layer);
        layer = adam.step(0.1 * (1.0 - f64::from(step) / 400.0), layer, gradients);
    }
    for y in [-0.8, 0.0, 0.8] {
        let (mu, kappa) = head(&layer, tensor(&[y], [1, 1], DType::F32));
        let (mu, kappa, truth) = (numbers(mu), numbers(kappa)[0], truth(y));
        let cosine: f64 = mu.iter().zip(truth.mean_direction()).map(|(a, b)| a * b).sum();
        let degrees = cosine.min(1.0).acos().to_degrees();
        println!("y = {y}: kappa {kappa:.2} of {:.2}, mu off by {degrees:.2} degrees", truth.concentration());
        assert!((kappa / truth.concentration() - 1.0).abs() < 0.1);
        assert!(degrees < 2.0);
    }
}
