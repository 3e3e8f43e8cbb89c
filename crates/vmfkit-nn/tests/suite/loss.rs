//! Negative log-likelihoods against the core, and their gradients against differences.

use crate::tensors::{assert_gradients, gradient, message, numbers, tensor};
use burn::tensor::{DType, Tensor};
use vmfkit::{Mixture, RowBatch, Sampler, VonMisesFisher};
use vmfkit_nn::{concentration, mixture_nll, unit, vmf_nll};

/// Draws of the uniform density: rows of length 1 in all directions.
fn directions(seed: u64, rows: usize, dim: usize) -> Vec<f64> {
    let mut out = vec![0.0; rows * dim];
    Sampler::new(&VonMisesFisher::uniform(dim).unwrap()).fill(seed, 0, &mut out).unwrap();
    out
}

#[test]
fn gradients_of_one_density_agree_with_differences() {
    for (dim, kappas) in [(2, [0.01, 3.0, 40.0]), (5, [0.5, 7.0, 2e3]), (40, [1.0, 30.0, 300.0])] {
        for (mu_rows, kappa_rows) in [(3, 3), (1, 3), (3, 1)] {
            let inputs = [directions(1, 3, dim), directions(2, mu_rows, dim), kappas[..kappa_rows].to_vec()];
            assert_gradients(inputs, |[x, mu, kappa]| {
                vmf_nll(x.reshape([3, dim]), mu.reshape([mu_rows, dim]), kappa.reshape([kappa_rows, 1]))
            });
        }
    }
}

#[test]
fn gradients_of_a_mixture_agree_with_differences() {
    let (n, k, dim) = (4, 3, 5);
    for rows in [1, n] {
        let logits: Vec<f64> = (0..rows * k).map(|i| (i as f64 * 1.7).sin()).collect();
        let kappas: Vec<f64> = (0..rows * k).map(|i| [0.3, 5.0, 60.0][i % 3] + i as f64).collect();
        let inputs = [directions(3, n, dim), logits, directions(4, rows * k, dim), kappas];
        assert_gradients(inputs, |[x, logits, mu, kappa]| {
            let mu = mu.reshape([rows, k, dim]);
            mixture_nll(x.reshape([n, dim]), logits.reshape([rows, k]), mu, kappa.reshape([rows, k]))
        });
    }
}

#[test]
fn gradients_flow_through_the_head() {
    let said = vec![0.3, -1.2, 0.4, 1.0, 5.0, 0.01, 3.0, 4.0];
    assert_gradients([directions(5, 2, 3), said], |[x, said]| {
        let said = said.reshape([2, 4]);
        vmf_nll(x.reshape([2, 3]), unit(said.clone().narrow(1, 0, 3)), concentration(said.narrow(1, 3, 1)))
    });
}

/// The gradient along the sphere is the one of ln C + kappa mu.x.
#[test]
fn gradients_in_mu_are_those_of_the_product() {
    let (x, raw) = (directions(6, 1, 4), [0.5, -2.0, 1.0, 0.3]);
    let of = |product_form: bool| {
        gradient(&raw, |raw| {
            let (x, mu) = (tensor(&x, [1, 4], DType::F64), unit(raw.reshape([1, 4])));
            let product = (x.clone() * mu.clone()).sum().mul_scalar(-9.0);
            if product_form { product } else { vmf_nll(x, mu, tensor(&[9.0], [1, 1], DType::F64)) }
        })
    };
    for (a, b) in of(true).into_iter().zip(of(false)) {
        assert!((a - b).abs() < 1e-14, "{a} {b}");
    }
}

#[test]
fn one_density_is_that_of_the_core() {
    for dim in [2, 3, 100, 768] {
        let (x, mu) = (directions(7, 4, dim), directions(8, 4, dim));
        let kappas = [0.0, 2.5, 900.0, 1e6];
        let double = |values: &[f64], columns| tensor(values, [4, columns], DType::F64);
        let found = numbers(vmf_nll(double(&x, dim), double(&mu, dim), double(&kappas, 1)));
        for (row, found) in found.into_iter().enumerate() {
            let [x, mu] = [&x, &mu].map(|values| &values[row * dim..(row + 1) * dim]);
            let expected = -VonMisesFisher::new(mu.to_vec(), kappas[row]).unwrap().ln_density(x).unwrap();
            assert!((found - expected).abs() <= 1e-13 * expected.abs().max(1.0), "d = {dim}: {found} {expected}");
        }
    }
}

/// Rows of f32 near a direction of f32, and their log densities by the core.
fn near(dim: usize, kappa: f64) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let single = |x: &f64| f64::from(*x as f32);
    let mu: Vec<f64> = directions(9, 1, dim).iter().map(single).collect();
    let density = VonMisesFisher::new(mu.clone(), kappa).unwrap();
    let mut x = vec![0f32; 64 * dim];
    Sampler::new(&density).fill(10, 0, &mut x).unwrap();
    let x: Vec<f64> = x.into_iter().map(f64::from).collect();
    let expected = x.chunks_exact(dim).map(|row| density.ln_density(row).unwrap()).collect();
    (x, mu, expected)
}

#[test]
fn single_precision_is_accurate_at_large_concentrations() {
    let single = |values: &[f64], shape| tensor::<2>(values, shape, DType::F32);
    let mut lost = 0f64;
    for dim in [3, 10, 100, 768] {
        for kappa in [1e4, 1e5, 1e6] {
            let (x, mu, expected) = near(dim, kappa);
            let (x, mu, kappas) = (single(&x, [64, dim]), single(&mu, [1, dim]), single(&[kappa], [1, 1]));
            let found = numbers(vmf_nll(x.clone(), mu.clone(), kappas.clone()));
            let product = x.matmul(mu.clone().transpose()) * kappas.clone() + vmfkit_nn::ln_normalizer(dim, kappas.clone());
            let mut worst = 0f64;
            for ((found, product), expected) in found.into_iter().zip(numbers(product)).zip(expected) {
                let scale = expected.abs().max(dim as f64);
                worst = worst.max((found + expected).abs() / scale);
                lost = lost.max((product - expected).abs());
            }
            println!("d = {dim}, kappa = {kappa:e}: error {worst:.1e} of max(d, |ln p|)");
            assert!(worst < 2e-7, "d = {dim}, kappa = {kappa}: {worst}");
        }
    }
    println!("ln C + kappa mu.x is off by up to {lost}");
    assert!(lost > 0.1);
}

/// The derivative in kappa is |x - mu|^2 / 2 - (1 - A): two small numbers of the same size.
#[test]
fn gradients_in_single_precision_are_accurate_at_large_concentrations() {
    for (dim, kappa) in [(3, 383.0), (3, 1e4), (3, 1e6), (100, 1e5), (768, 1e6)] {
        let (x, mu, _) = near(dim, kappa);
        let deviations = x.chunks_exact(dim).map(|row| row.iter().zip(&mu).map(|(x, m)| (x - m).powi(2)).sum::<f64>() / 2.0);
        let complement = vmfkit::bessel::mean_length_complement(dim, kappa);
        let (sum, size) = deviations.fold((0.0, 0.0), |(sum, size), x| (sum + x - complement, size + x + complement));
        let single = |values: &[f64], shape| tensor::<2>(values, shape, DType::F32);
        let leaf = single(&[kappa], [1, 1]).require_grad();
        let of_one = vmf_nll(single(&x, [64, dim]), single(&mu, [1, dim]), leaf.clone());
        let mu = single(&mu, [1, dim]).unsqueeze_dim(0);
        let of_mixture = mixture_nll(single(&x, [64, dim]), single(&[0.0], [1, 1]), mu, leaf.clone());
        for nll in [of_one, of_mixture] {
            let found = numbers(leaf.grad(&nll.sum().backward()).unwrap())[0];
            assert!((found - sum).abs() < 1e-5 * size, "d = {dim}, kappa = {kappa}: {found} {sum} of {size}");
        }
    }
}

/// As good as the type: numbers, and near those of f64.
#[test]
fn half_precision_gives_finite_numbers() {
    let (x, mu) = (directions(11, 4, 5), directions(12, 4, 5));
    let raw = [-1e4, 0.5, 2.0, 1e4];
    let nll = |dtype: DType| {
        let [x, mu] = [&x, &mu].map(|values| unit(tensor::<2>(values, [4, 5], dtype)));
        let raw = tensor::<2>(&raw, [4, 1], dtype).require_grad();
        let nll = vmf_nll(x, mu, concentration(raw.clone()));
        let slope = numbers(raw.grad(&nll.clone().sum().backward()).unwrap());
        (numbers(nll), slope)
    };
    let (expected, _) = nll(DType::F64);
    for dtype in [DType::BF16, DType::F16] {
        let (found, slope) = nll(dtype);
        assert!(found.iter().chain(&slope).all(|x| x.is_finite()), "{dtype:?}: {found:?} {slope:?}");
        for row in 0..3 {
            assert!((found[row] - expected[row]).abs() < 0.05 * expected[row].abs(), "{dtype:?}: {found:?} {expected:?}");
        }
    }
}

#[test]
fn a_mixture_in_single_precision_is_accurate_at_large_concentrations() {
    for (dim, kappa) in [(3, 384.0), (3, 385.0), (3, 1e6), (100, 1e5)] {
        let (x, mu, expected) = near(dim, kappa);
        let single = |values: &[f64], shape| tensor::<2>(values, shape, DType::F32);
        let mu = tensor::<3>(&mu, [1, 1, dim], DType::F32);
        let found = numbers(mixture_nll(single(&x, [64, dim]), single(&[0.0], [1, 1]), mu, single(&[kappa], [1, 1])));
        for (found, expected) in found.into_iter().zip(expected) {
            // Up to 128 d deviations come from a product, which costs them digits.
            let bound = if kappa <= 128.0 * dim as f64 { 1e-4 } else { 2e-6 };
            assert!((found + expected).abs() < bound * expected.abs().max(dim as f64), "{dim} {kappa}: {found} {expected}");
        }
    }
}

#[test]
fn a_mixture_is_that_of_the_core() {
    let (n, dim) = (50, 6);
    let (x, mu) = (directions(11, n, dim), directions(12, 4, dim));
    let (weights, kappas) = ([0.1, 0.5, 0.25, 0.15], [0.0, 4.0, 120.0, 1e6]);
    let components = mu.chunks_exact(dim).zip(kappas).map(|(mu, k)| VonMisesFisher::new(mu.to_vec(), k).unwrap()).collect();
    let mut expected = vec![0.0; n];
    Mixture::new(weights.to_vec(), components)
        .unwrap()
        .ln_densities_into(&RowBatch::new(dim, &x).unwrap(), &mut expected)
        .unwrap();
    // Logits may be shifted.
    let logits = weights.map(|weight: f64| weight.ln() + 3.0);
    for rows in [1, n] {
        let found = numbers(mixture_nll(
            tensor(&x, [n, dim], DType::F64),
            tensor(&logits.repeat(rows), [rows, 4], DType::F64),
            tensor(&mu.repeat(rows), [rows, 4, dim], DType::F64),
            tensor(&kappas.repeat(rows), [rows, 4], DType::F64),
        ));
        for (found, expected) in found.into_iter().zip(&expected) {
            assert!((found + expected).abs() < 1e-12, "{found} {expected}");
        }
    }
}

#[test]
fn at_zero_concentration_every_direction_is_as_likely() {
    let x = directions(13, 3, 5);
    let uniform = VonMisesFisher::uniform(5).unwrap().ln_peak();
    let nll = |kappa: Tensor<1>| {
        vmf_nll(tensor(&x, [3, 5], DType::F64), tensor(&[1.0, 0.0, 0.0, 0.0, 0.0], [1, 5], DType::F64), kappa.reshape([1, 1]))
    };
    assert_eq!(numbers(nll(tensor(&[0.0], [1], DType::F64))), [-uniform; 3]);
    // The derivative of -ln p in kappa is A - mu.x, and A(0) = 0.
    let slope = gradient(&[0.0], nll)[0];
    assert!((slope + x[0] + x[5] + x[10]).abs() < 1e-14, "{slope}");
}

#[test]
fn a_component_without_weight_is_disabled() {
    let (x, mu) = (directions(14, 3, 4), directions(15, 2, 4));
    let of = |kappa: Tensor<1>, logits: &[f64]| {
        let k = logits.len();
        let mu = tensor(&mu[..4 * k], [1, k, 4], DType::F64);
        mixture_nll(tensor(&x, [3, 4], DType::F64), tensor(logits, [1, k], DType::F64), mu, kappa.reshape([1, k]))
    };
    let with = numbers(of(tensor(&[8.0, 50.0], [2], DType::F64), &[0.0, f64::NEG_INFINITY]));
    assert_eq!(with, numbers(of(tensor(&[8.0], [1], DType::F64), &[0.0])));
    let slopes = gradient(&[8.0, 50.0], |kappa| of(kappa, &[0.0, f64::NEG_INFINITY]));
    assert!(slopes[0].is_finite() && slopes[0] != 0.0 && slopes[1] == 0.0, "{slopes:?}");
}

#[test]
fn rows_far_from_every_component_have_finite_losses() {
    let x = tensor(&[-1.0, 0.0, 0.0], [1, 3], DType::F32);
    let mu = tensor(&[1.0, 0.0, 0.0, 0.0, 1.0, 0.0], [1, 2, 3], DType::F32);
    let kappa = tensor(&[1e6, 2e6], [1, 2], DType::F32).require_grad();
    let nll = mixture_nll(x, tensor(&[0.0, 0.0], [1, 2], DType::F32), mu, kappa.clone());
    let slopes = numbers(kappa.grad(&nll.clone().backward()).unwrap());
    assert!((numbers(nll)[0] / 2e6 - 1.0).abs() < 1e-4);
    assert!(slopes.iter().all(|slope| slope.is_finite()), "{slopes:?}");
}

#[test]
fn wrong_shapes_are_named() {
    let zeros = |shape: [usize; 2]| tensor::<2>(&vec![0.0; shape[0] * shape[1]], shape, DType::F64);
    let solid = |shape: [usize; 3]| tensor::<3>(&vec![0.0; shape[0] * shape[1] * shape[2]], shape, DType::F64);
    assert_eq!(
        message(|| drop(vmf_nll(zeros([5, 3]), zeros([4, 3]), zeros([5, 1])))),
        "mu must have the shape [5, 3], or 1 in place of 5, found: `[4, 3]`"
    );
    assert_eq!(
        message(|| drop(vmf_nll(zeros([5, 3]), zeros([1, 3]), zeros([1, 5])))),
        "kappa must have the shape [5, 1], or 1 in place of 5, found: `[1, 5]`"
    );
    assert_eq!(
        message(|| drop(vmf_nll(zeros([5, 1]), zeros([1, 1]), zeros([1, 1])))),
        "the dimension must be at least 2, found: `1`"
    );
    assert_eq!(
        message(|| drop(mixture_nll(zeros([5, 3]), zeros([1, 3]), solid([1, 2, 3]), zeros([1, 2])))),
        "weight_logits must have the shape [5, 2], or 1 in place of 5, found: `[1, 3]`"
    );
    assert_eq!(
        message(|| drop(mixture_nll(zeros([5, 3]), zeros([1, 0]), solid([1, 0, 3]), zeros([1, 0])))),
        "mu must have at least 1 component, found: `[1, 0, 3]`"
    );
}
