//! A small network that learns mu(y) and kappa(y): where a direction points, and how sure it is of
//! it, as functions of what is known.
//!
//! The directions lie on the unit sphere of R^3. Their mean goes round the equator as y goes from 0
//! to 1 and rises to the north, and they scatter more the larger y is. The network sees pairs (y,
//! x) and maximises the mean of ln p(x | y), in which kappa enters through the normaliser: that is
//! what its derivative is for (Kim, arXiv:2102.05340). The same in Python:
//! `python/examples/learn_directions.py`.
//!
//!     cargo run --release -p vmfkit-nn --example learn_directions

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Tensor, TensorData, activation::tanh};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::f64::consts::{PI, TAU};
use vmfkit::{Sampler, VonMisesFisher};
use vmfkit_nn::{concentration, unit, vmf_nll};

const PAIRS: usize = 20_000;
const BATCH: usize = 512;
const STEPS: usize = 900;
const RATE: f64 = 0.01;

/// Where the pairs come from.
fn truth(y: f64) -> VonMisesFisher {
    let (azimuth, height) = (TAU * y, y - 0.5);
    let flat = (1.0 - height * height).sqrt();
    let mean = vec![flat * azimuth.cos(), flat * azimuth.sin(), height];
    VonMisesFisher::new(mean, 200.0 * (-3.0 * y).exp()).expect("a mean of length 1")
}

/// y to a density: three numbers whose direction is mu, and one that is ln kappa.
#[derive(Module, Debug)]
struct Network {
    first: Linear,
    second: Linear,
    last: Linear,
}

impl Network {
    fn new(width: usize, device: &Device) -> Self {
        Network {
            first: LinearConfig::new(1, width).init(device),
            second: LinearConfig::new(width, width).init(device),
            last: LinearConfig::new(width, 4).init(device),
        }
    }

    fn forward(&self, y: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        let hidden = tanh(self.second.forward(tanh(self.first.forward(y))));
        let said = self.last.forward(hidden);
        (unit(said.clone().narrow(1, 0, 3)), concentration(said.narrow(1, 3, 1)))
    }

    fn loss(&self, y: Tensor<2>, x: Tensor<2>) -> Tensor<1> {
        let (mu, kappa) = self.forward(y);
        vmf_nll(x, mu, kappa).mean()
    }
}

fn tensor(values: Vec<f32>, columns: usize, device: &Device) -> Tensor<2> {
    let rows = values.len() / columns;
    Tensor::from_data(TensorData::new(values, [rows, columns]), device)
}

fn main() -> vmfkit::Result<()> {
    let device = Device::flex().autodiff();
    device.seed(0);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(0);

    let mut ln_density_of_truth = 0.0;
    let (mut y, mut x) = (Vec::with_capacity(PAIRS), Vec::with_capacity(3 * PAIRS));
    for row in 0..PAIRS {
        let at = f64::from(random.next_u32()) / 2f64.powi(32);
        let mut direction = [0.0; 3];
        Sampler::new(&truth(at)).fill(0, row as u64, &mut direction)?;
        ln_density_of_truth += truth(at).ln_density(&direction)?;
        y.push(at as f32);
        x.extend(direction.map(|value| value as f32));
    }
    println!("step   mean ln p (of the truth: {:.3})", ln_density_of_truth / PAIRS as f64);

    let mut network = Network::new(48, &device);
    // burn's own epsilon, 1e-5, would slow the last steps down.
    let mut adam = AdamConfig::new().with_epsilon(1e-8).init();
    for step in 0..STEPS {
        let rows: Vec<usize> = (0..BATCH).map(|_| random.next_u32() as usize % PAIRS).collect();
        let some_y = rows.iter().map(|&row| y[row]).collect();
        let some_x = rows.iter().flat_map(|&row| &x[3 * row..3 * row + 3]).copied().collect();
        let loss = network.loss(tensor(some_y, 1, &device), tensor(some_x, 3, &device));
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        let rate = 0.5 * RATE * (1.0 + (PI * step as f64 / STEPS as f64).cos());
        network = adam.step(rate, network, gradients);
        if (step + 1) % 300 == 0 {
            let loss: f32 = network.loss(tensor(y.clone(), 1, &device), tensor(x.clone(), 3, &device)).into_scalar();
            println!("{:4}   {:.3}", step + 1, -loss);
        }
    }

    println!("\n   y   angle of mu to the truth   kappa   of the truth");
    for point in 0..7 {
        let at = 0.05 + 0.15 * f64::from(point);
        let (mu, kappa) = network.forward(tensor(vec![at as f32], 1, &device));
        let mu: Vec<f64> = mu.try_into_vec_as().expect("a tensor on the CPU");
        let cosine: f64 = mu.iter().zip(truth(at).mean_direction()).map(|(a, b)| a * b).sum();
        let (degrees, kappa) = (cosine.min(1.0).acos().to_degrees(), kappa.into_scalar::<f64>());
        println!("{at:4.2}   {degrees:13.2} degrees   {kappa:9.1}   {:12.1}", truth(at).concentration());
    }
    Ok(())
}
