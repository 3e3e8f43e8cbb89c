//! The von Mises-Fisher density C_d(kappa) exp(kappa mu.x) in neural networks, with mu and kappa as
//! outputs of a network.
//!
//! | what | for burn |
//! |---|---|
//! | [`vmf_nll`], [`mixture_nll`] | negative log-likelihoods of directions, one for each row |
//! | [`unit()`], [`concentration`] | from the outputs of the last layer to mu and kappa |
//! | [`ln_normalizer`], [`ln_peak`], [`mean_length`] | ln C_d, kappa + ln C_d and A_d = -(ln C_d)', with exact gradients |
//!
//! They take tensors of any float type and consist of burn's own operations, so they work with
//! every backend, with or without autodiff (tests run on flex). Values and derivatives come from
//! [`vmfkit::bessel`] in f64: each call copies the concentrations, and nothing else, to the host,
//! which on a GPU waits for pending work. Invalid shapes or values panic, as in burn; the message
//! names position and value. burn differentiates once; for a second derivative of ln C_d, take the
//! gradient of [`mean_length`].
//!
//! With the feature `candle`, `vmfkit_nn::candle` has the same three functions for candle.
//!
//! A layer that predicts a direction and its concentration:
//!
#![cfg_attr(feature = "burn", doc = "```")]
#![cfg_attr(not(feature = "burn"), doc = "```ignore")]
//! use burn::nn::{Linear, LinearConfig};
//! use burn::optim::{AdamConfig, GradientsParams};
//! use burn::tensor::{Device, Tensor};
//! use vmfkit_nn::{concentration, unit, vmf_nll};
//!
//! fn loss(layer: &Linear, y: Tensor<2>, x: Tensor<2>) -> Tensor<1> {
//!     let output = layer.forward(y);
//!     let (mu, kappa) = (unit(output.clone().narrow(1, 0, 3)), concentration(output.narrow(1, 3, 1)));
//!     vmf_nll(x, mu, kappa).mean()
//! }
//!
//! let device = Device::flex().autodiff();
//! device.seed(1);
//! let y = Tensor::from_floats([[0.0, 1.0], [0.5, -1.0]], &device);
//! let x = unit(Tensor::from_floats([[1.0, 2.0, 2.0], [0.0, 1.0, 0.1]], &device));
//! let mut layer = LinearConfig::new(2, 4).init(&device);
//! let mut adam = AdamConfig::new().with_epsilon(1e-8).init();
//! let before = loss(&layer, y.clone(), x.clone()).into_scalar::<f32>();
//! for _ in 0..50 {
//!     let gradients = loss(&layer, y.clone(), x.clone()).backward();
//!     let gradients = GradientsParams::from_grads(gradients, &layer);
//!     layer = adam.step(0.05, layer, gradients);
//! }
//! assert!(loss(&layer, y, x).into_scalar::<f32>() < before - 1.0);
//! ```

#![forbid(unsafe_code)]

#[cfg(feature = "candle")]
pub mod candle;
#[cfg(any(feature = "burn", feature = "candle"))]
mod function;
#[cfg(feature = "burn")]
mod head;
#[cfg(feature = "burn")]
mod loss;
#[cfg(feature = "burn")]
mod special;

#[cfg(feature = "burn")]
pub use head::{concentration, unit};
#[cfg(feature = "burn")]
pub use loss::{mixture_nll, vmf_nll};
#[cfg(feature = "burn")]
pub use special::{ln_normalizer, ln_peak, mean_length};
