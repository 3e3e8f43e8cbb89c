//! Negative log-likelihoods, one for each row.
//!
//! All use (kappa + ln C) - kappa |x - mu|^2 / 2, MATH.md section 1. Neither the value nor the
//! gradient in kappa,
//! |x - mu|^2 / 2 - (1 - A), is a difference of large numbers, so f32 is accurate at any concentration.

use crate::function::Function;
use crate::special::Concentrations;
use burn::tensor::activation::log_softmax;
use burn::tensor::{DType, Tensor};

/// -ln p(x) of each row under its own von Mises-Fisher density.
///
/// `x` is n x d, `mu` n x d, `kappa` n x 1; `mu` and `kappa` may also have a single row, for all
/// rows. Rows of `x` and `mu` must have length 1, which is not checked; [`unit`](crate::unit)
/// scales them. The result has n numbers; a loss is their `.mean()`.
///
/// All three have gradients. Those of `x` and `mu` are kappa (x - mu) and its negative; they differ
/// from those of kappa mu.x by a multiple of the vector itself, which [`unit`](crate::unit)
/// removes.
///
/// In f32 the error stays below 2e-7 max(d, |ln p|) up to kappa = 1e6, where that of ln C + kappa
/// mu.x is 0.1 (tests/suite/loss.rs).
///
/// # Panics
/// If shapes do not match, d is below 2, or a concentration is negative, infinite or NaN.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use vmfkit_nn::{concentration, unit, vmf_nll};
/// let device = Device::flex().autodiff();
/// let x = unit(Tensor::<2>::from_floats([[1.0, 2.0, 2.0], [0.0, 1.0, 0.1]], &device));
/// // The outputs of a network: three numbers for mu, one for kappa.
/// let output = Tensor::<2>::from_floats([[1.0, 1.0, 1.0, 3.0], [0.0, 2.0, 0.0, 4.0]], &device).require_grad();
/// let (mu, kappa) = (unit(output.clone().narrow(1, 0, 3)), concentration(output.clone().narrow(1, 3, 1)));
/// let gradients = vmf_nll(x, mu, kappa).mean().backward();
/// assert_eq!(output.grad(&gradients).unwrap().dims(), [2, 4]);
/// ```
#[track_caller]
pub fn vmf_nll(x: Tensor<2>, mu: Tensor<2>, kappa: Tensor<2>) -> Tensor<1> {
    let [rows, dim] = x.dims();
    check_shape("mu", mu.dims(), [rows, dim]);
    check_shape("kappa", kappa.dims(), [rows, 1]);
    let ln_peak = Concentrations::read(dim, kappa.clone()).map(Function::LnPeak);
    let deviation = (x - mu).square().sum_dim(1).mul_scalar(0.5);
    (kappa * deviation - ln_peak).squeeze_dim(1)
}

/// -ln p(x) of each row under a mixture of k von Mises-Fisher densities.
///
/// `x` is n x d, `weight_logits` n x k (the weights are their softmax), `mu` n x k x d, `kappa` n x
/// k. The last three may have 1 in place of n: one mixture for all rows. Otherwise as [`vmf_nll`].
/// A logit of minus infinity disables a component.
///
/// With one `mu` for all rows, it takes a matrix product and memory for n k numbers. If a
/// concentration exceeds 128 d in f32, a product would lose too many digits of x - mu, and it takes
/// memory for n k d numbers, as with a `mu` for each row.
///
/// # Panics
/// As [`vmf_nll`], and if there are no components.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use vmfkit_nn::{mixture_nll, unit};
/// let device = Device::flex();
/// let x = unit(Tensor::<2>::from_floats([[1.0, 2.0], [0.0, 1.0], [-1.0, 0.1]], &device));
/// let mu = Tensor::<3>::from_floats([[[1.0, 0.0], [0.0, 1.0]]], &device);
/// let (logits, kappa) = (Tensor::<2>::zeros([1, 2], &device), Tensor::from_floats([[5.0, 20.0]], &device));
/// assert_eq!(mixture_nll(x, logits, mu, kappa).dims(), [3]);
/// ```
#[track_caller]
pub fn mixture_nll(x: Tensor<2>, weight_logits: Tensor<2>, mu: Tensor<3>, kappa: Tensor<2>) -> Tensor<1> {
    let ([rows, dim], [_, components, _]) = (x.dims(), mu.dims());
    assert!(components > 0, "mu must have at least 1 component, found: `{:?}`", mu.dims());
    check_shape("mu", mu.dims(), [rows, components, dim]);
    check_shape("weight_logits", weight_logits.dims(), [rows, components]);
    check_shape("kappa", kappa.dims(), [rows, components]);
    let concentrations = Concentrations::read(dim, kappa.clone());
    let by_product = mu.dims()[0] == 1 && product_keeps_digits(x.dtype(), dim, concentrations.largest());
    let deviation = if by_product { deviations_by_product(x, mu.squeeze_dim(0)) } else { deviations(x, mu) };
    let joint = log_softmax(weight_logits, 1) + concentrations.map(Function::LnPeak) - kappa * deviation;
    // The largest can be a constant: it is subtracted and added again.
    let largest = joint.clone().without_autodiff().max_dim(1);
    let sum = (joint - largest.clone()).exp().sum_dim(1);
    (sum.log() + largest).neg().squeeze_dim(1)
}

/// |x - mu|^2 / 2 of rows n x d and vectors n x k x d or 1 x k x d.
fn deviations(x: Tensor<2>, mu: Tensor<3>) -> Tensor<2> {
    (x.unsqueeze_dim(1) - mu).square().sum_dim(2).squeeze_dim::<2>(2).mul_scalar(0.5)
}

/// The same for vectors k x d, as (|x|^2 + |mu|^2) / 2 - x.mu.
fn deviations_by_product(x: Tensor<2>, mu: Tensor<2>) -> Tensor<2> {
    let squares = x.clone().square().sum_dim(1) + mu.clone().square().sum_dim(1).transpose();
    squares.mul_scalar(0.5) - x.matmul(mu.transpose())
}

/// Whether a deviation of about d/(2 kappa) can have the rounding error of 1, which is then at most
/// 2^-15 of it.
fn product_keeps_digits(dtype: DType, dim: usize, largest: f64) -> bool {
    let rounding = match dtype {
        DType::F64 => f64::EPSILON,
        DType::F16 => 1.0 / 1024.0,
        DType::BF16 => 1.0 / 128.0,
        _ => f64::from(f32::EPSILON),
    };
    rounding * largest <= dim as f64 / 65536.0
}

#[track_caller]
fn check_shape<const D: usize>(name: &str, found: [usize; D], expected: [usize; D]) {
    let fits = found[1..] == expected[1..] && (found[0] == expected[0] || found[0] == 1);
    assert!(fits, "{name} must have the shape {expected:?}, or 1 in place of {}, found: `{found:?}`", expected[0]);
}
