//! The paper's convolutional autoencoder, whose latent vectors have unit length.

use crate::images::{AREA, Images, SIDE};
use anyhow::Result;
use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig};
use burn::nn::{Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::{leaky_relu, relu};
use burn::tensor::{Device, Tensor, TensorData};
use std::sync::Mutex;

/// Dimension of the latent space.
pub const LATENT: usize = 100;

/// Dimension of the hidden layers.
const HIDDEN: usize = 512;
/// Channels after three convolutions.
const DEEP: usize = 64;
/// Side length in pixels after three convolutions.
const DEEP_SIDE: usize = SIDE / 8;

/// Slope of the leaky rectifier below 0.
const LEAK: f64 = 0.01;

/// Images per batch of [`Autoencoder::embed`].
const PIECE: usize = 500;

/// Held while a model draws its initial weights.
static INITIALISING: Mutex<()> = Mutex::new(());

/// Encodes images as unit vectors of dimension [`LATENT`], and decodes them.
///
/// Weights and biases start uniform within 1/sqrt(fan-in) of 0, as PyTorch's layers do.
#[derive(Module, Debug)]
pub struct Autoencoder {
    convolutions: [Conv2d; 3],
    shrink: [Linear; 2],
    widen: [Linear; 2],
    deconvolutions: [ConvTranspose2d; 3],
}

impl Autoencoder {
    /// A model whose initial weights depend only on the seed.
    pub fn new(channels: usize, seed: u64, device: &Device) -> Self {
        let convolution = |from: usize, to: usize| {
            let padding = PaddingConfig2d::Explicit(1, 1, 1, 1);
            Conv2dConfig::new([from, to], [4, 4]).with_stride([2, 2]).with_padding(padding).init(device)
        };
        let deconvolution = |from: usize, to: usize| {
            ConvTranspose2dConfig::new([from, to], [4, 4]).with_stride([2, 2]).with_padding([1, 1]).init(device)
        };
        let linear = |from: usize, to: usize| LinearConfig::new(from, to).init(device);
        let deep = DEEP * DEEP_SIDE * DEEP_SIDE;
        let model = Autoencoder {
            convolutions: [convolution(channels, 32), convolution(32, 32), convolution(32, DEEP)],
            shrink: [linear(deep, HIDDEN), linear(HIDDEN, LATENT)],
            widen: [linear(LATENT, HIDDEN), linear(HIDDEN, deep)],
            deconvolutions: [deconvolution(DEEP, 32), deconvolution(32, 32), deconvolution(32, channels)],
        };
        // burn has one random generator per process, and layers draw their weights on first access.
        let guard = INITIALISING.lock();
        device.seed(seed);
        let _ = model.clone().into_record();
        drop(guard);
        model
    }

    /// Latent rows of unit length.
    pub fn encode(&self, images: Tensor<4>) -> Tensor<2> {
        let mut x = images;
        for layer in &self.convolutions {
            x = leaky_relu(layer.forward(x), LEAK);
        }
        let hidden = leaky_relu(self.shrink[0].forward(x.flatten(1, 3)), LEAK);
        let latent = self.shrink[1].forward(hidden);
        let length = latent.clone().square().sum_dim(1).sqrt();
        latent / length
    }

    pub fn decode(&self, latent: Tensor<2>) -> Tensor<4> {
        let [rows, _] = latent.dims();
        let hidden = relu(self.widen[0].forward(latent));
        let mut x = relu(self.widen[1].forward(hidden)).reshape([rows, DEEP, DEEP_SIDE, DEEP_SIDE]);
        x = relu(self.deconvolutions[0].forward(x));
        x = relu(self.deconvolutions[1].forward(x));
        self.deconvolutions[2].forward(x)
    }

    /// The squared error, summed over the pixels of an image and averaged over images.
    pub fn loss(&self, images: Tensor<4>) -> Tensor<1> {
        let [rows, ..] = images.dims();
        let error = self.decode(self.encode(images.clone())) - images;
        error.square().sum() / rows as f64
    }

    /// The latent rows of all images.
    pub fn embed(&self, images: &Images, device: &Device) -> Result<Vec<f32>> {
        let model = self.valid();
        let mut rows = Vec::with_capacity(images.len() * LATENT);
        let all: Vec<usize> = (0..images.len()).collect();
        for piece in all.chunks(PIECE) {
            let latent = model.encode(batch(images, piece, device));
            rows.extend(latent.into_data().try_into_vec::<f32>()?);
        }
        Ok(rows)
    }
}

/// Selected images as a tensor of values from 0 to 1.
pub fn batch(images: &Images, which: &[usize], device: &Device) -> Tensor<4> {
    let mut values = Vec::with_capacity(which.len() * images.channels * AREA);
    for &at in which {
        values.extend(images.image(at).iter().map(|&pixel| f32::from(pixel) / 255.0));
    }
    Tensor::from_data(TensorData::new(values, [which.len(), images.channels, SIDE, SIDE]), device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::Dataset;
    use crate::images::tests::sample;
    use burn::module::{ModuleMapper, Param};
    use std::thread;

    #[test]
    fn weights_depend_only_on_the_seed_despite_concurrent_models() {
        let decoded = |seed| {
            let model = Autoencoder::new(1, seed, &Device::flex());
            let x = Tensor::ones([1, 1, SIDE, SIDE], &Device::flex());
            model.decode(model.encode(x)).into_data().try_into_vec::<f32>().unwrap()
        };
        let threads: Vec<_> = (0..8).map(|at| thread::spawn(move || decoded(at % 2))).collect();
        let found: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_ne!(found[0], found[1]);
        assert!(found.iter().enumerate().all(|(at, decoded)| *decoded == found[at % 2]));
    }

    #[test]
    fn latent_rows_have_unit_length_and_do_not_depend_on_their_batch() {
        for dataset in [Dataset::Cifar10, Dataset::FashionMnist] {
            let device = Device::flex();
            let images = dataset.read(&sample(dataset)).unwrap().test;
            let model = Autoencoder::new(dataset.channels(), 1, &device);
            let rows = model.embed(&images, &device).unwrap();
            assert_eq!(rows.len(), images.len() * LATENT);
            for row in rows.chunks_exact(LATENT) {
                let square: f32 = row.iter().map(|x| x * x).sum();
                assert!((square - 1.0).abs() < 1e-5, "{square}");
            }
            let alone = model.encode(batch(&images, &[7], &device)).into_data().try_into_vec::<f32>().unwrap();
            for (x, y) in alone.iter().zip(&rows[7 * LATENT..]) {
                assert!((x - y).abs() < 1e-5, "{x} {y}");
            }
        }
    }

    /// Sets the parameters as testdata/autoencoder.py does.
    struct TestParameters(u64);

    fn noise(count: usize, offset: u64) -> impl Iterator<Item = u64> {
        (0..count as u64).map(move |i| (2_654_435_761 * i + offset) % (1 << 32))
    }

    impl ModuleMapper for TestParameters {
        fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let shape = parameter.dims();
            let scale = match D {
                1 => 0.1,
                2 => 2.0 / (shape[0] as f64).sqrt(),
                _ => 2.0 / (16.0 * shape[1] as f64).sqrt(),
            };
            let numbers = noise(shape.iter().product(), 40503 * self.0);
            let numbers = numbers.map(|x| (scale * (x as f64 / 2f64.powi(32) - 0.5)) as f32).collect();
            self.0 += 1;
            parameter.map(|before| Tensor::from_data(TensorData::new(numbers, shape), &before.device()))
        }
    }

    #[test]
    fn outputs_match_pytorch_for_equal_weights() {
        let device = Device::flex();
        let model = Autoencoder::new(3, 1, &device).map(&mut TestParameters(0));
        let pixels = noise(3 * AREA, 0).map(|x| (x >> 24) as u8).collect();
        let latent = model.encode(batch(&Images { channels: 3, pixels, labels: vec![0] }, &[0], &device));
        let decoded = model.decode(latent.clone()).into_data().try_into_vec::<f32>().unwrap();
        let latent = latent.into_data().try_into_vec::<f32>().unwrap();
        let lines: Vec<&str> = include_str!("../../testdata/autoencoder.csv").lines().skip(1).collect();
        assert_eq!(lines.len(), latent.len());
        for (i, line) in lines.into_iter().enumerate() {
            let (expected_latent, expected_decoded) = line.split_once(',').unwrap();
            for (found, expected) in [(latent[i], expected_latent), (decoded[31 * i], expected_decoded)] {
                let expected: f32 = expected.parse().unwrap();
                assert!((found - expected).abs() < 2e-6, "{i}: {found} {expected}");
            }
        }
    }

    #[test]
    fn the_loss_is_summed_over_pixels_and_averaged_over_images() {
        let device = Device::flex();
        let images = Dataset::Cifar10.read(&sample(Dataset::Cifar10)).unwrap().test;
        let model = Autoencoder::new(3, 1, &device);
        let x = batch(&images, &[0, 1, 2], &device);
        let back = model.decode(model.encode(x.clone())).into_data().try_into_vec::<f32>().unwrap();
        assert_eq!(back.len(), 3 * 3 * AREA);
        let pixels = images.pixels.iter().map(|&pixel| f64::from(pixel) / 255.0);
        let expected = back.iter().zip(pixels).map(|(&y, x)| (f64::from(y) - x).powi(2)).sum::<f64>() / 3.0;
        let found = f64::from(model.loss(x).into_scalar::<f32>());
        assert!((found / expected - 1.0).abs() < 1e-4, "{found} {expected}");
    }

    /// Compares with a finite difference along the gradient.
    #[test]
    fn the_gradient_matches_a_finite_difference() {
        let device = Device::flex().autodiff();
        let images = Dataset::FashionMnist.read(&sample(Dataset::FashionMnist)).unwrap().test;
        let model = Autoencoder::new(1, 1, &device);
        let x = batch(&images, &(0..8).collect::<Vec<_>>(), &device);
        let gradients = model.loss(x.clone()).backward();
        let slope = model.shrink[1].weight.grad(&gradients).unwrap();
        let length = slope.clone().square().sum().sqrt().into_scalar::<f32>();
        let moved = |step: f32| {
            let mut model = model.clone();
            let along = slope.clone().mul_scalar(step / length).into_data();
            let layer = &mut model.shrink[1].weight;
            *layer = layer.clone().map(|weight| weight + Tensor::from_data(along, &device));
            f64::from(model.loss(x.clone()).into_scalar::<f32>())
        };
        let found = (moved(0.02) - moved(-0.02)) / 0.04;
        assert!((found / f64::from(length) - 1.0).abs() < 0.02, "{found} {length}");
    }
}
