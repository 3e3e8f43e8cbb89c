//! ln C, k + ln C and A as functions of tensors.

use crate::reference::{DIMS, KAPPAS, assert_close, points};
use crate::tensors::{device, gradient, message, numbers, tensor};
use burn::tensor::{DType, Device, Tensor};
use vmfkit::bessel;
use vmfkit_nn::{ln_normalizer, ln_peak, mean_length};

fn of_one(dim: usize, kappa: f64, function: impl Fn(usize, Tensor<1>) -> Tensor<1>) -> (f64, f64) {
    let value = numbers(function(dim, tensor(&[kappa], [1], DType::F64)));
    (value[0], gradient(&[kappa], |kappa| function(dim, kappa))[0])
}

#[test]
fn values_and_gradients_match_the_tables() {
    for point in points() {
        let place = format!("d = {}, k = {}", point.dim, point.kappa);
        let (ln_c, ln_c_slope) = of_one(point.dim, point.kappa, ln_normalizer);
        assert!((ln_c - point.ln_normalizer).abs() <= 4.0 * f64::EPSILON * point.scale(), "{place}: ln C = {ln_c}");
        assert_close(-ln_c_slope, point.mean_length, 1e-15, &place);
        let (peak, peak_slope) = of_one(point.dim, point.kappa, ln_peak);
        assert!((peak - point.ln_peak).abs() <= 3e-15 * point.ln_peak.abs().max(1.0), "{place}: k + ln C = {peak}");
        assert_close(peak_slope, point.complement, 1e-15, &place);
        let (length, length_slope) = of_one(point.dim, point.kappa, mean_length);
        assert_close(length, point.mean_length, 1e-15, &place);
        assert_close(length_slope, point.slope, 2e-15, &place);
    }
}

#[test]
fn gradients_are_those_of_the_core() {
    for dim in DIMS {
        let parts = KAPPAS.map(|k| bessel::mean_length_and_slope(dim, k));
        let values = numbers(ln_normalizer(dim, tensor(&KAPPAS, [10], DType::F64)));
        assert_eq!(values, KAPPAS.map(|k| bessel::ln_normalizer(dim, k)));
        assert_eq!(gradient(&KAPPAS, |kappa| ln_normalizer(dim, kappa)), KAPPAS.map(|k| -bessel::mean_length(dim, k)));
        assert_eq!(gradient(&KAPPAS, |kappa| ln_peak(dim, kappa)), parts.map(|ratio| ratio.complement));
        assert_eq!(gradient(&KAPPAS, |kappa| mean_length(dim, kappa)), parts.map(|ratio| ratio.slope));
    }
}

/// (f(k + h) - f(k - h)) / 2h with a step that suits k.
fn difference(k: f64, function: impl Fn(f64) -> f64) -> f64 {
    let step = 1e-4 * k;
    (function(k + step) - function(k - step)) / (2.0 * step)
}

#[test]
fn gradients_agree_with_differences() {
    for dim in DIMS {
        for k in KAPPAS {
            let place = format!("d = {dim}, k = {k}");
            // ln C and k + ln C without their constants, whose rounding would drown the difference at small k.
            let [ln_c, peak, length] = [
                difference(k, |k| -bessel::ln_partition(dim, k)),
                difference(k, |k| bessel::ln_partition_complement(dim, k)),
                difference(k, |k| bessel::mean_length(dim, k)),
            ];
            assert_close(of_one(dim, k, ln_normalizer).1, ln_c, 2e-8, &place);
            assert_close(of_one(dim, k, ln_peak).1, peak, 2e-8, &place);
            // 1 - A, of which A is the larger part, loses the digits of its slope at large k.
            if k <= 1e4 {
                assert_close(of_one(dim, k, mean_length).1, length, 1e-6, &place);
            }
            if k >= 10.0 {
                let own = difference(k, |k| of_one(dim, k, ln_normalizer).0);
                assert_close(of_one(dim, k, ln_normalizer).1, own, 1e-5, &place);
            }
        }
    }
}

#[test]
fn at_zero_the_density_is_uniform() {
    for dim in DIMS {
        let uniform = vmfkit::VonMisesFisher::uniform(dim).unwrap().ln_peak();
        assert_eq!(of_one(dim, 0.0, ln_normalizer), (uniform, 0.0));
        let (peak, complement) = of_one(dim, 0.0, ln_peak);
        assert_eq!(peak, uniform);
        assert_close(complement, 1.0, 1e-15, "1 - A");
        let (length, slope) = of_one(dim, 0.0, mean_length);
        assert_eq!(length, 0.0);
        assert_close(slope, 1.0 / dim as f64, 1e-15, "A'");
    }
}

#[test]
fn single_precision_is_rounded_once() {
    let kappas = KAPPAS.map(|k| f64::from(k as f32));
    let leaf = tensor(&kappas, [2, 5], DType::F32).require_grad();
    let value = ln_normalizer(768, leaf.clone());
    assert_eq!((value.dtype(), value.dims()), (DType::F32, [2, 5]));
    let expected = kappas.map(|k| f64::from(bessel::ln_normalizer(768, k) as f32));
    assert_eq!(numbers(value.clone()), expected);
    let slope = leaf.grad(&value.sum().backward()).unwrap();
    assert_eq!(slope.dtype(), DType::F32);
    assert_eq!(numbers(slope), kappas.map(|k| f64::from(-bessel::mean_length(768, k) as f32)));
}

#[test]
fn half_precision_keeps_its_type() {
    for (dtype, rounding) in [(DType::F16, 1.0 / 2048.0), (DType::BF16, 1.0 / 256.0)] {
        let leaf = tensor(&[0.5, 4.0, 96.0], [3, 1, 1], dtype).require_grad();
        let value = ln_normalizer(10, leaf.clone());
        let slope = leaf.grad(&value.clone().sum().backward()).unwrap();
        assert_eq!((value.dtype(), slope.dtype()), (dtype, dtype));
        for ((k, value), slope) in [0.5, 4.0, 96.0].into_iter().zip(numbers(value)).zip(numbers(slope)) {
            assert_close(value, bessel::ln_normalizer(10, k), rounding, "value");
            assert_close(slope, -bessel::mean_length(10, k), rounding, "slope");
        }
    }
}

#[test]
fn gradients_flow_to_the_inputs_of_kappa() {
    let ln_kappa = [-1.0f64, 0.5, 6.0];
    for device in [device(), device().gradient_checkpointing()] {
        let leaf = Tensor::<1>::from_data(ln_kappa, (&device, DType::F64)).require_grad();
        let gradients = (ln_normalizer(20, leaf.clone().exp()) * leaf.clone()).sum().backward();
        for (found, y) in numbers(leaf.grad(&gradients).unwrap()).into_iter().zip(ln_kappa) {
            let jet = bessel::ln_normalizer_derivatives(20, y.exp());
            assert_close(found, jet.value + y * y.exp() * jet.first, 1e-14, "by the product rule");
        }
    }
}

#[test]
fn without_autodiff_there_are_values() {
    let kappa = Tensor::<1>::from_data([0.5, 30.0], (&Device::flex(), DType::F64));
    let value = ln_peak(4, kappa);
    assert!(!value.is_autodiff());
    assert_eq!(numbers(value), [0.5, 30.0].map(|k| bessel::ln_peak(4, k)));
    // A constant among what is differentiated stays one.
    assert!(!ln_peak(4, tensor(&[2.0], [1], DType::F64)).is_tracked());
    assert_eq!(ln_peak(4, Tensor::<2>::zeros([0, 3], &device())).dims(), [0, 3]);
}

#[test]
fn wrong_arguments_are_named() {
    let at = |value: f64| tensor(&[1.0, 2.0, 3.0, value, 5.0, 6.0], [2, 3], DType::F64);
    assert_eq!(message(|| drop(ln_normalizer(1, at(4.0)))), "the dimension must be at least 2, found: `1`");
    assert_eq!(message(|| drop(ln_normalizer(3, at(-0.5)))), "kappa[1, 0] must be finite and at least 0, found: `-0.5`");
    assert_eq!(message(|| drop(ln_peak(3, at(f64::NAN)))), "kappa[1, 0] must be finite and at least 0, found: `NaN`");
    assert_eq!(message(|| drop(mean_length(3, at(f64::INFINITY)))), "kappa[1, 0] must be finite and at least 0, found: `inf`");
}
