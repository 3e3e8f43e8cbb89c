//! Functions of the concentration for tensors of burn, with their derivatives.
//!
//! Values and derivatives are computed on the host in f64, from one copy of the concentrations, and
//! recorded as value + derivative (k - k'), where k' is k as a constant: the difference is 0, its
//! gradient is not. So the graph holds only operations of burn, which work with every backend; an
//! extension of burn would have to name its backends at compile time.

use crate::function::{Function, wrong_concentration, wrong_dim};
use burn::tensor::{Tensor, TensorData};

/// ln C_d(kappa), where the density is C_d(kappa) exp(kappa mu.x), for a tensor of any shape.
///
/// Computed in f64 for any float type, and rounded once. The derivative -A_d(kappa) is computed
/// from kappa, not as a difference of logarithms, so it is accurate to the last digits in any
/// dimension and for any kappa >= 0. For large kappa use [`ln_peak`], which stays small.
///
/// # Panics
/// If `dim` is below 2, or a concentration is negative, infinite or NaN.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// let kappa = Tensor::<1>::from_floats([0.0, 2.0, 900.0], &Device::flex().autodiff()).require_grad();
/// let gradients = vmfkit_nn::ln_normalizer(768, kappa.clone()).sum().backward();
/// let slope: Vec<f32> = kappa.grad(&gradients).unwrap().try_into_vec_as().unwrap();
/// assert_eq!(slope[2], -vmfkit::bessel::mean_length(768, 900.0) as f32);
/// ```
#[track_caller]
pub fn ln_normalizer<const D: usize>(dim: usize, kappa: Tensor<D>) -> Tensor<D> {
    Concentrations::read(dim, kappa).map(Function::LnNormalizer)
}

/// kappa + ln C_d(kappa), the log density at the mode, with the derivative 1 - A_d(kappa), free of
/// cancellation.
///
/// # Panics
/// As [`ln_normalizer`].
#[track_caller]
pub fn ln_peak<const D: usize>(dim: usize, kappa: Tensor<D>) -> Tensor<D> {
    Concentrations::read(dim, kappa).map(Function::LnPeak)
}

/// A_d(kappa), the mean of mu.x, with the derivative A'_d(kappa), the variance of mu.x.
///
/// Its gradient is minus the second derivative of [`ln_normalizer`], which burn cannot compute
/// itself.
///
/// # Panics
/// As [`ln_normalizer`].
#[track_caller]
pub fn mean_length<const D: usize>(dim: usize, kappa: Tensor<D>) -> Tensor<D> {
    Concentrations::read(dim, kappa).map(Function::MeanLength)
}

/// A tensor of concentrations and its numbers, copied once and validated.
pub(crate) struct Concentrations<const D: usize> {
    dim: usize,
    kappa: Tensor<D>,
    values: Vec<f64>,
}

impl<const D: usize> Concentrations<D> {
    #[track_caller]
    pub fn read(dim: usize, kappa: Tensor<D>) -> Self {
        let values: Vec<f64> = kappa.try_to_vec_as().unwrap_or_else(|error| panic!("kappa cannot be read: {error}"));
        if let Some(message) = wrong_dim(dim).or_else(|| wrong_concentration(&values, &kappa.dims())) {
            panic!("{message}");
        }
        Concentrations { dim, kappa, values }
    }

    /// The largest of them; 0 if there are none.
    pub fn largest(&self) -> f64 {
        self.values.iter().copied().fold(0.0, f64::max)
    }

    pub fn map(&self, function: Function) -> Tensor<D> {
        let value = self.constant(|k| function.value(self.dim, k));
        if !self.kappa.is_tracked() {
            return value;
        }
        let (sign, derivative) = function.derivative().expect("what is public has a derivative");
        let slope = self.constant(|k| sign * derivative.value(self.dim, k));
        let nothing = self.kappa.clone() - self.kappa.clone().without_autodiff();
        value + slope * nothing
    }

    /// An elementwise function, as a tensor without a gradient.
    fn constant(&self, function: impl Fn(f64) -> f64) -> Tensor<D> {
        let found: Vec<f64> = self.values.iter().map(|&k| function(k)).collect();
        let device = self.kappa.device().without_autodiff();
        Tensor::from_data(TensorData::new(found, self.kappa.shape()), (&device, self.kappa.dtype()))
    }
}
