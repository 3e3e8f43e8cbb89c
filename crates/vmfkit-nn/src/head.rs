//! From the outputs of the last layer to the parameters of a density.

use burn::tensor::{DType, Tensor};

/// Concentrations lie between e^-30 and e^30, in f16 between e^-10 and e^10, so that they are
/// finite for any output of a network.
fn ln_concentration_limit(dtype: DType) -> f64 {
    if dtype == DType::F16 { 10.0 } else { 30.0 }
}

/// Scales vectors along the last axis to length 1.
///
/// Lengths neither overflow nor underflow. A vector of zeros stays zero, and its gradient passes
/// through unchanged.
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
    // The direction does not depend on the scale, so the scale can be a constant.
    let largest = x.clone().without_autodiff().abs().max_dim(axis);
    let zero = largest.clone().equal_elem(0.0);
    let scaled = x / largest.mask_fill(zero.clone(), 1.0);
    // The derivative of the square root is infinite at 0.
    let length = scaled.clone().square().sum_dim(axis).mask_fill(zero, 1.0).sqrt();
    scaled / length
}

/// Concentrations e^raw from real numbers.
///
/// A network should output ln kappa: its Fisher information is kappa^2 A', about (d - 1)/2 for any
/// large kappa, so one learning rate suits all concentrations. That of a softplus vanishes as
/// 1/kappa^2. `raw` is clamped to +-30, in f16 to +-10; beyond, the gradient is 0.
pub fn concentration<const D: usize>(raw: Tensor<D>) -> Tensor<D> {
    let limit = ln_concentration_limit(raw.dtype());
    raw.clamp(-limit, limit).exp()
}
