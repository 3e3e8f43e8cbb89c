//! Tensors of burn on the CPU, in f64 unless told, and gradients against differences.

use burn::tensor::{DType, Device, Shape, Tensor, TensorData};

pub fn device() -> Device {
    Device::flex().autodiff()
}

pub fn tensor<const D: usize>(values: &[f64], shape: [usize; D], dtype: DType) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values.to_vec(), Shape::from(shape)), (&device(), dtype))
}

pub fn leaf(values: &[f64]) -> Tensor<1> {
    tensor(values, [values.len()], DType::F64).require_grad()
}

pub fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.try_into_vec_as().expect("a tensor on the CPU")
}

/// The gradient of the sum of `function` in a list of numbers.
pub fn gradient(values: &[f64], function: impl Fn(Tensor<1>) -> Tensor<1>) -> Vec<f64> {
    let leaf = leaf(values);
    let gradients = function(leaf.clone()).sum().backward();
    numbers(leaf.grad(&gradients).expect("a leaf has a gradient"))
}

/// Holds the gradient of a loss in each of its inputs, which it is given flat, against central
/// differences.
#[track_caller]
pub fn assert_gradients<const N: usize>(inputs: [Vec<f64>; N], loss: impl Fn([Tensor<1>; N]) -> Tensor<1>) {
    // Rows count differently, so that none can be taken for another.
    let weighed = |leaves: [Tensor<1>; N]| {
        let nll = loss(leaves);
        let weights: Vec<f64> = (0..nll.dims()[0]).map(|row| 1.0 + 0.5 * row as f64).collect();
        (nll.clone() * tensor(&weights, nll.dims(), DType::F64)).sum()
    };
    let leaves = inputs.each_ref().map(|values| leaf(values));
    let gradients = weighed(leaves.clone()).backward();
    for (input, leaf) in leaves.iter().enumerate() {
        let found = numbers(leaf.grad(&gradients).unwrap_or_else(|| panic!("no gradient in input {input}")));
        for (place, found) in found.into_iter().enumerate() {
            let step = 1e-5 * inputs[input][place].abs().max(0.1);
            let [above, below] = [step, -step].map(|change| {
                let mut changed = inputs.clone();
                changed[input][place] += change;
                let value: f64 = weighed(changed.each_ref().map(|values| leaf_without_gradient(values))).into_scalar();
                value
            });
            let expected = (above - below) / (2.0 * step);
            let error = (found - expected).abs();
            assert!(
                error < 1e-6 * expected.abs().max(1.0),
                "input {input}, place {place}: found {found}, by differences {expected}"
            );
        }
    }
}

fn leaf_without_gradient(values: &[f64]) -> Tensor<1> {
    tensor(values, [values.len()], DType::F64)
}

/// What a closure panics with.
#[track_caller]
pub fn message(action: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let payload = std::panic::catch_unwind(action).expect_err("a panic");
    payload.downcast_ref::<String>().expect("a message").clone()
}
