//! The functions of the concentration for tensors of candle.
//!
//! They work on every device and in every float type: numbers are computed on the CPU in f64 and
//! copied back. Their derivatives are again such operations, so ln C_d can be differentiated twice
//! if candle keeps gradients differentiable, which it does if the environment variable
//! `CANDLE_GRAD_DO_NOT_DETACH` is 1.

use crate::function::{Function, wrong_concentration, wrong_dim};
use candle_core::{CpuStorage, CustomOp1, DType, Device, Error, Layout, Result, Shape, Tensor};

/// ln C_d(kappa), where the density is C_d(kappa) exp(kappa mu.x), for a tensor of any shape; its
/// derivative is -A_d(kappa), computed from kappa.
///
/// # Errors
/// If `dim` is below 2, a concentration is negative, infinite or NaN, or the tensor does not hold
/// floats.
///
/// ```
/// use candle_core::{Device, Var};
/// let kappa = Var::new(&[0.0f32, 2.0, 900.0], &Device::Cpu)?;
/// let gradients = vmfkit_nn::candle::ln_normalizer(768, &kappa)?.sum_all()?.backward()?;
/// let slope = gradients.get(&kappa).unwrap().to_vec1::<f32>()?;
/// assert_eq!(slope[2], -vmfkit::bessel::mean_length(768, 900.0) as f32);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn ln_normalizer(dim: usize, kappa: &Tensor) -> Result<Tensor> {
    apply(Function::LnNormalizer, dim, kappa)
}

/// kappa + ln C_d(kappa), the log density at the mode, with the derivative 1 - A_d(kappa), free of
/// cancellation. Errors as for
/// [`ln_normalizer`].
///
/// The log density of a row x is `ln_peak - kappa |x - mu|^2 / 2`, which is accurate in f32.
pub fn ln_peak(dim: usize, kappa: &Tensor) -> Result<Tensor> {
    apply(Function::LnPeak, dim, kappa)
}

/// A_d(kappa), the mean of mu.x, with the derivative A'_d(kappa). Errors as for [`ln_normalizer`].
pub fn mean_length(dim: usize, kappa: &Tensor) -> Result<Tensor> {
    apply(Function::MeanLength, dim, kappa)
}

fn apply(function: Function, dim: usize, kappa: &Tensor) -> Result<Tensor> {
    if let Some(message) = wrong_dim(dim) {
        return Err(Error::Msg(message));
    }
    if !kappa.dtype().is_float() {
        return Err(Error::Msg(format!("kappa must have a floating-point type, found: `{:?}`", kappa.dtype())));
    }
    // Candle differentiates each of these steps.
    let wide = kappa.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.contiguous()?;
    wide.apply_op1(OfConcentration { function, dim })?.to_dtype(kappa.dtype())?.to_device(kappa.device())
}

/// A function of each number of a contiguous tensor of f64 on the CPU.
struct OfConcentration {
    function: Function,
    dim: usize,
}

impl CustomOp1 for OfConcentration {
    fn name(&self) -> &'static str {
        match self.function {
            Function::LnNormalizer => "vmf-ln-normalizer",
            Function::LnPeak => "vmf-ln-peak",
            Function::MeanLength => "vmf-mean-length",
            Function::MeanLengthComplement => "vmf-mean-length-complement",
            Function::MeanLengthSlope => "vmf-mean-length-slope",
        }
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (start, end) = layout.contiguous_offsets().expect("`apply` makes it contiguous");
        let values = &storage.as_slice::<f64>()?[start..end];
        if let Some(message) = wrong_concentration(values, layout.dims()) {
            return Err(Error::Msg(message));
        }
        let found = values.iter().map(|&k| self.function.value(self.dim, k)).collect();
        Ok((CpuStorage::F64(found), layout.shape().clone()))
    }

    fn bwd(&self, kappa: &Tensor, _: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let Some((sign, derivative)) = self.function.derivative() else {
            return Err(Error::BackwardNotSupported { op: self.name() });
        };
        let slope = kappa.apply_op1(OfConcentration { function: derivative, dim: self.dim })?;
        Ok(Some(((gradient * slope)? * sign)?))
    }
}
