//! Functions of the concentration and their derivatives: the common part of burn and candle.

use vmfkit::bessel;

/// An elementwise function, whose derivative is another one up to the sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    /// ln C_d
    LnNormalizer,
    /// k + ln C_d
    LnPeak,
    /// A_d
    MeanLength,
    /// 1 - A_d
    MeanLengthComplement,
    /// A'_d
    MeanLengthSlope,
}

impl Function {
    pub fn value(self, dim: usize, k: f64) -> f64 {
        match self {
            Function::LnNormalizer => bessel::ln_normalizer(dim, k),
            Function::LnPeak => bessel::ln_peak(dim, k),
            Function::MeanLength => bessel::mean_length(dim, k),
            Function::MeanLengthComplement => bessel::mean_length_complement(dim, k),
            Function::MeanLengthSlope => bessel::mean_length_and_slope(dim, k).slope,
        }
    }

    /// The derivative as a sign and a function, MATH.md (1.4) and (1.5). That of the slope is not
    /// needed.
    pub fn derivative(self) -> Option<(f64, Function)> {
        match self {
            Function::LnNormalizer => Some((-1.0, Function::MeanLength)),
            Function::LnPeak => Some((1.0, Function::MeanLengthComplement)),
            Function::MeanLength => Some((1.0, Function::MeanLengthSlope)),
            Function::MeanLengthComplement => Some((-1.0, Function::MeanLengthSlope)),
            Function::MeanLengthSlope => None,
        }
    }
}

/// The error of an invalid dimension.
pub(crate) fn wrong_dim(dim: usize) -> Option<String> {
    (dim < 2).then(|| format!("the dimension must be at least 2, found: `{dim}`"))
}

/// The error of the first invalid concentration in a tensor of this shape, with its position and
/// value.
pub(crate) fn wrong_concentration(values: &[f64], shape: &[usize]) -> Option<String> {
    let wrong = values.iter().position(|k| !(*k >= 0.0 && k.is_finite()))?;
    Some(format!("kappa{:?} must be finite and at least 0, found: `{}`", index(wrong, shape), values[wrong]))
}

/// The indices of an element of a row-major tensor.
fn index(mut element: usize, shape: &[usize]) -> Vec<usize> {
    let mut indices: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&length| {
            let index = element % length;
            element /= length;
            index
        })
        .collect();
    indices.reverse();
    indices
}
