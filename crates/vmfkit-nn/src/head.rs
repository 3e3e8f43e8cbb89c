//! From what the last layer of a network says to the parameters of a density.

use burn::tensor::{DType, Tensor};

/// The concentrations of [`concentration`] lie between e^-30 and e^30, or e^-10 and e^10: numbers to every type, whatever a network says at its first step.
fn ln_concentration_limit(dtype: DType) -> f64 {
    if dtype == DType::F16 { 10.0 } else { 30.0 }
}

/// Vectors of length 1 along the last axis, in the directions of those given.
///
/// No length overflows or underflows on the way. A vector of zeros, which has no direction, stays one, and its gradient is handed on as it is.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// let x = Tensor::<2>::from_floats([[3e30, 4e30], [0.0, 0.0]], &Device::flex());
/// let found: Vec<f32> = vmfkit_nn::unit(x).try_into_vec_as().unwrap();
/// assert!((found[0] - 0.6).abs() < 1e-6 && (found[1] - 0.8).abs() < 1e-6);
/// assert_eq!(found[2..], [0.0, 0.0]);
/// ```
pub fn unit<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let axis = D - 1;
    // A direction does not depend on the scale, so the scale may be a constant.
    let largest = x.clone().without_autodiff().abs().max_dim(axis);
    let zero = largest.clone().equal_elem(0.0);
    let scaled = x / largest.mask_fill(zero.clone(), 1.0);
    // At 0 the root's derivative would be infinite.
    let length = scaled.clone().square().sum_dim(axis).mask_fill(zero, 1.0).sqrt();
    scaled / length
}

/// Concentrations from any real numbers, as e^raw.
///
/// The logarithm is what a network should say: the Fisher information of ln kappa is kappa^2 A', which is about (d - 1)/2 however large kappa is, so
/// one learning rate serves for all kappa. That of a softplus vanishes as 1/kappa^2. `raw` counts as +-30 beyond that, in f16 as +-10, where the
/// gradient is 0.
pub fn concentration<const D: usize>(raw: Tensor<D>) -> Tensor<D> {
    let limit = ln_concentration_limit(raw.dtype());
    raw.clamp(-limit, limit).exp()
}
