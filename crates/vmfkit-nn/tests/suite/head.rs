//! From a layer's numbers to mu and kappa.

use crate::tensors::{assert_gradients, gradient, leaf, numbers, tensor};
use burn::tensor::DType;
use vmfkit_nn::{concentration, unit};

#[test]
fn directions_have_length_one_whatever_the_scale() {
    for scale in [1e-40, 1e-20, 1.0, 1e20, 1e38] {
        let found =
            numbers(unit(tensor(&[3.0 * scale, 0.0, -2.0 * scale, 1.0 * scale, 2.0 * scale, 2.0 * scale], [2, 3], DType::F32)));
        let length = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>().sqrt();
        assert!((length(&found[..3]) - 1.0).abs() < 3e-7 && (length(&found[3..]) - 1.0).abs() < 3e-7, "{scale}: {found:?}");
        // Numbers of 1e-40 have few bits of their own.
        assert!((found[0] - 3.0 / 13f64.sqrt()).abs() < 1e-4 && (found[3] - 1.0 / 3.0).abs() < 1e-4, "{scale}: {found:?}");
    }
}

#[test]
fn gradients_agree_with_differences() {
    let rows = vec![0.3, -1.2, 0.4, 5.0, 0.01, 3.0];
    let along = tensor(&[1.0, 2.0, -1.0, 0.5, 3.0, 1.0], [2, 3], DType::F64);
    assert_gradients([rows], |[x]| (unit(x.reshape([2, 3])) * along.clone()).sum_dim(1).squeeze_dim(1));
    assert_gradients([vec![-3.0, 0.0, 2.5]], |[raw]| concentration(raw));
}

#[test]
fn a_vector_of_zeros_stays_zero_and_keeps_a_gradient() {
    let two = |x: burn::tensor::Tensor<1>| unit(x.reshape([2, 2]));
    assert_eq!(numbers(two(leaf(&[0.0, 0.0, 0.0, -2.0]))), [0.0, 0.0, 0.0, -1.0]);
    assert_eq!(gradient(&[0.0, 0.0, 0.0, -2.0], |x| two(x).reshape([4])), [1.0, 1.0, 0.5, 0.0]);
}

#[test]
fn concentrations_are_finite_for_any_input() {
    for (dtype, large) in [(DType::F64, 1e13), (DType::F32, 1e13), (DType::BF16, 1e13), (DType::F16, 2e4)] {
        let found = numbers(concentration(tensor(&[-6e4, 0.0, 6e4], [3], dtype)));
        assert!(found[0] > 0.0 && found[1] == 1.0 && found[2] > large && found[2].is_finite(), "{dtype:?}: {found:?}");
    }
}
