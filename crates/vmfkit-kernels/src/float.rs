//! [`Float`] and [`Real`]: `f32` and `f64` as the kernels use them.

use crate::instructions::Instructions;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// `f32` or `f64`.
pub trait Float: sealed::Sealed + Copy + Default + Send + Sync + 'static {
    /// The value as f64, exactly.
    fn to_f64(self) -> f64;
    /// The nearest value.
    fn from_f64(value: f64) -> Self;
}

impl Float for f32 {
    #[inline]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline]
    fn from_f64(value: f64) -> Self {
        value as f32
    }
}

impl Float for f64 {
    #[inline]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline]
    fn from_f64(value: f64) -> Self {
        value
    }
}

/// The arithmetic of the kernels in one precision.
pub trait Real:
    Float
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + PartialOrd
{
    /// Values in a run: two registers of 256 bits, or one of 512.
    const WIDTH: usize;
    /// 0
    const ZERO: Self;
    /// 1
    const ONE: Self;
    /// Responsibilities below this, which is less than the rounding error of the others, count as 0
    /// so that the second product may be sparse.
    const SMALLEST_RESPONSIBILITY: f64;
    /// Positive infinity.
    const INFINITY: Self;
    /// Negative infinity.
    const NEGATIVE_INFINITY: Self;
    /// The numbers in this precision, converted into `buffer` if necessary.
    fn view_f32<'a>(values: &'a [f32], buffer: &'a mut Vec<Self>) -> &'a [Self];
    /// As [`view_f32`](Self::view_f32), from double precision.
    fn view_f64<'a>(values: &'a [f64], buffer: &'a mut Vec<Self>) -> &'a [Self];
    /// self * factor + term, with one rounding if [`Instructions::FUSED`].
    fn multiply_add<I: Instructions>(self, factor: Self, term: Self) -> Self;
    /// exp(self) for self <= 0, to about 1 ulp. Results are at least e^-87 (f32) or e^-708 (f64), so
    /// never subnormal.
    fn exp_of_negative<I: Instructions>(self) -> Self;
}

impl Real for f32 {
    const WIDTH: usize = 16;
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const SMALLEST_RESPONSIBILITY: f64 = 1e-8;
    const INFINITY: Self = f32::INFINITY;
    const NEGATIVE_INFINITY: Self = f32::NEG_INFINITY;

    #[inline]
    fn view_f32<'a>(values: &'a [f32], _: &'a mut Vec<Self>) -> &'a [Self] {
        values
    }

    #[inline]
    fn view_f64<'a>(values: &'a [f64], buffer: &'a mut Vec<Self>) -> &'a [Self] {
        convert(values, buffer)
    }

    #[inline(always)]
    fn multiply_add<I: Instructions>(self, factor: Self, term: Self) -> Self {
        if I::FUSED { self.mul_add(factor, term) } else { self * factor + term }
    }

    #[inline(always)]
    fn exp_of_negative<I: Instructions>(self) -> Self {
        // Adding this leaves the nearest integer in the low bits.
        const SHIFT: f32 = 1.5 * (1u64 << 23) as f32;
        // ln 2 in two parts; the first times any exponent in range is exact.
        const LN_2: [f32; 2] = [0.693_359_375, -2.121_944_4e-4];
        const LOWEST: f32 = -87.0;
        let x = if self > LOWEST { self } else { LOWEST };
        let shifted = x.multiply_add::<I>(std::f32::consts::LOG2_E, SHIFT);
        let n = shifted - SHIFT;
        let r = n.multiply_add::<I>(-LN_2[1], n.multiply_add::<I>(-LN_2[0], x));
        let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
        exp_series::<f32, I, 7>(r) * power
    }
}

impl Real for f64 {
    const WIDTH: usize = 8;
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const SMALLEST_RESPONSIBILITY: f64 = 1e-14;
    const INFINITY: Self = f64::INFINITY;
    const NEGATIVE_INFINITY: Self = f64::NEG_INFINITY;

    #[inline]
    fn view_f32<'a>(values: &'a [f32], buffer: &'a mut Vec<Self>) -> &'a [Self] {
        convert(values, buffer)
    }

    #[inline]
    fn view_f64<'a>(values: &'a [f64], _: &'a mut Vec<Self>) -> &'a [Self] {
        values
    }

    #[inline(always)]
    fn multiply_add<I: Instructions>(self, factor: Self, term: Self) -> Self {
        if I::FUSED { self.mul_add(factor, term) } else { self * factor + term }
    }

    /// As for `f32`.
    #[inline(always)]
    fn exp_of_negative<I: Instructions>(self) -> Self {
        const SHIFT: f64 = 1.5 * (1u64 << 52) as f64;
        const LN_2: [f64; 2] = [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10];
        const LOWEST: f64 = -708.0;
        let x = if self > LOWEST { self } else { LOWEST };
        let shifted = x.multiply_add::<I>(std::f64::consts::LOG2_E, SHIFT);
        let n = shifted - SHIFT;
        let r = n.multiply_add::<I>(-LN_2[1], n.multiply_add::<I>(-LN_2[0], x));
        let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
        exp_series::<f64, I, 13>(r) * power
    }
}

fn convert<'a, T: Float, U: Float>(values: &[T], buffer: &'a mut Vec<U>) -> &'a [U] {
    buffer.clear();
    buffer.extend(values.iter().map(|x| U::from_f64(x.to_f64())));
    buffer
}

/// The Taylor series of e^r to the power `TERMS`, for |r| <= ln(2)/2.
#[inline(always)]
fn exp_series<T: Real, I: Instructions, const TERMS: usize>(r: T) -> T {
    let mut sum = T::from_f64(INVERSE_FACTORIALS[TERMS]);
    let mut term = TERMS;
    while term > 0 {
        term -= 1;
        sum = sum.multiply_add::<I>(r, T::from_f64(INVERSE_FACTORIALS[term]));
    }
    sum
}

const INVERSE_FACTORIALS: [f64; 14] = {
    let mut table = [1.0; 14];
    let mut n = 1;
    while n < 14 {
        table[n] = table[n - 1] / n as f64;
        n += 1;
    }
    table
};
