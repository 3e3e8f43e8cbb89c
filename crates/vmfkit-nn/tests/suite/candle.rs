//! The functions of candle's tensors.

use crate::reference::{DIMS, KAPPAS, assert_close, points};
use candle_core::{DType, Device, Result, Tensor, Var};
use std::process::Command;
use vmfkit::bessel;
use vmfkit_nn::candle::{ln_normalizer, ln_peak, mean_length};

type Function = fn(usize, &Tensor) -> Result<Tensor>;

fn value_and_gradient(dim: usize, kappas: &[f64], function: Function) -> Result<(Vec<f64>, Vec<f64>)> {
    let kappa = Var::new(kappas, &Device::Cpu)?;
    let value = function(dim, &kappa)?;
    let gradients = value.sum_all()?.backward()?;
    Ok((value.to_vec1()?, gradients.get(&kappa).expect("a variable has a gradient").to_vec1()?))
}

#[test]
fn values_and_gradients_match_the_tables() -> Result<()> {
    for point in points() {
        let place = format!("d = {}, k = {}", point.dim, point.kappa);
        let of = |function| value_and_gradient(point.dim, &[point.kappa], function);
        let (ln_c, slope) = of(ln_normalizer)?;
        assert!((ln_c[0] - point.ln_normalizer).abs() <= 4.0 * f64::EPSILON * point.scale(), "{place}: ln C = {ln_c:?}");
        assert_close(-slope[0], point.mean_length, 1e-15, &place);
        let (peak, slope) = of(ln_peak)?;
        assert!((peak[0] - point.ln_peak).abs() <= 3e-15 * point.ln_peak.abs().max(1.0), "{place}: k + ln C = {peak:?}");
        assert_close(slope[0], point.complement, 1e-15, &place);
        let (length, slope) = of(mean_length)?;
        assert_close(length[0], point.mean_length, 1e-15, &place);
        assert_close(slope[0], point.slope, 2e-15, &place);
    }
    Ok(())
}

#[test]
fn gradients_are_those_of_the_core() -> Result<()> {
    for dim in DIMS {
        let (value, slope) = value_and_gradient(dim, &KAPPAS, ln_normalizer)?;
        assert_eq!(value, KAPPAS.map(|k| bessel::ln_normalizer(dim, k)));
        assert_eq!(slope, KAPPAS.map(|k| -bessel::mean_length(dim, k)));
        for k in KAPPAS {
            let step = 1e-4 * k;
            let difference = (bessel::ln_partition(dim, k - step) - bessel::ln_partition(dim, k + step)) / (2.0 * step);
            let (_, slope) = value_and_gradient(dim, &[k], ln_normalizer)?;
            assert_close(slope[0], difference, 2e-8, &format!("d = {dim}, k = {k}"));
        }
        let at_zero = value_and_gradient(dim, &[0.0], ln_normalizer)?;
        assert_eq!(at_zero, (vec![vmfkit::VonMisesFisher::uniform(dim).unwrap().ln_peak()], vec![0.0]));
    }
    Ok(())
}

#[test]
fn types_and_shapes_are_kept() -> Result<()> {
    for (dtype, rounding) in [(DType::F32, 1e-7), (DType::F16, 1.0 / 2048.0), (DType::BF16, 1.0 / 256.0)] {
        let kappa = Var::from_tensor(&Tensor::new(&[[0.5f32, 4.0, 96.0], [1.0, 2.0, 3.0]], &Device::Cpu)?.to_dtype(dtype)?)?;
        // Columns of a matrix do not lie side by side.
        let value = ln_normalizer(10, &kappa.t()?)?;
        assert_eq!((value.dtype(), value.dims()), (dtype, &[3, 2][..]));
        let gradients = value.sum_all()?.backward()?;
        let slope = gradients.get(&kappa).expect("a variable has a gradient");
        assert_eq!((slope.dtype(), slope.dims()), (dtype, &[2, 3][..]));
        let wide = |tensor: &Tensor| tensor.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>();
        for ((k, value), slope) in wide(&kappa)?.into_iter().zip(wide(&value.t()?)?).zip(wide(slope)?) {
            assert_close(value, bessel::ln_normalizer(10, k), rounding, "value");
            assert_close(slope, -bessel::mean_length(10, k), rounding, "slope");
        }
    }
    Ok(())
}

#[test]
fn wrong_arguments_are_named() -> Result<()> {
    let kappa = |value: f64| Tensor::new(&[[1.0, 2.0, 3.0], [value, 5.0, 6.0]], &Device::Cpu);
    let message = |dim, kappa: &Tensor| ln_normalizer(dim, kappa).expect_err("an error").to_string();
    assert!(message(1, &kappa(4.0)?).starts_with("the dimension must be at least 2, found: `1`"));
    assert!(message(3, &kappa(-0.5)?).starts_with("kappa[1, 0] must be finite and at least 0, found: `-0.5`"));
    assert!(message(3, &kappa(f64::NAN)?).starts_with("kappa[1, 0] must be finite and at least 0, found: `NaN`"));
    assert!(message(3, &Tensor::new(&[2u32], &Device::Cpu)?).starts_with("kappa must have a floating-point type, found: `U32`"));
    Ok(())
}

/// candle asks its environment, once, whether gradients may be differentiated again; so this test
/// is a process of its own.
#[test]
fn second_derivatives_are_those_of_the_core() -> Result<()> {
    const SWITCH: &str = "CANDLE_GRAD_DO_NOT_DETACH";
    if std::env::var(SWITCH).is_err() {
        let this = std::env::current_exe().expect("the path of the tests");
        let name = "candle::second_derivatives_are_those_of_the_core";
        let output = Command::new(this).args([name, "--exact", "--nocapture"]).env(SWITCH, "1").output().expect("a process");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("differentiated twice"),
            "{said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        return Ok(());
    }
    for dim in DIMS {
        for function in [ln_normalizer as Function, ln_peak] {
            let kappa = Var::new(&KAPPAS, &Device::Cpu)?;
            let gradients = function(dim, &kappa)?.sum_all()?.backward()?;
            let first = gradients.get(&kappa).expect("a first derivative").sum_all()?;
            let second = first.backward()?.get(&kappa).expect("a second derivative").to_vec1::<f64>()?;
            assert_eq!(second, KAPPAS.map(|k| -bessel::mean_length_and_slope(dim, k).slope));
        }
    }
    println!("differentiated twice");
    Ok(())
}
