//! The steps of a log-sum-exp over the logits of a row, in runs of two registers.

use super::products::Real;

/// Combines the lanes of a run into one value, halving their number.
#[inline(always)]
pub(super) fn combine<T: Real, const WIDTH: usize>(mut lanes: [T; WIDTH], operation: impl Fn(T, T) -> T) -> T {
    let mut half = WIDTH / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] = operation(lanes[lane], lanes[lane + half]);
        }
        half /= 2;
    }
    lanes[0]
}

#[inline(always)]
fn larger<T: Real>(a: T, b: T) -> T {
    if a > b { a } else { b }
}

/// A row's values in runs that fill two registers; there is no remainder, because rows are padded.
#[inline(always)]
pub(super) fn runs<T, const WIDTH: usize>(values: &mut [T]) -> impl Iterator<Item = &mut [T; WIDTH]> {
    values.chunks_exact_mut(WIDTH).map(|run| run.try_into().expect("a run of this width"))
}

/// Adds the bias to products, which makes them logits; gives the largest.
#[inline(always)]
pub(super) fn add_bias<T: Real, const WIDTH: usize>(products: &mut [T], bias: &[T]) -> T {
    let mut largest = [T::NEGATIVE_INFINITY; WIDTH];
    for (run, bias) in runs::<T, WIDTH>(products).zip(bias.chunks_exact(WIDTH)) {
        for lane in 0..WIDTH {
            run[lane] = run[lane] + bias[lane];
            largest[lane] = larger(run[lane], largest[lane]);
        }
    }
    combine(largest, larger)
}

#[inline(always)]
pub(super) fn sum<T: Real, const WIDTH: usize>(values: &mut [T]) -> T {
    let mut sums = [T::ZERO; WIDTH];
    for run in runs::<T, WIDTH>(values) {
        for lane in 0..WIDTH {
            sums[lane] = sums[lane] + run[lane];
        }
    }
    combine(sums, |a, b| a + b)
}

/// Exponentials times `factor`, added to `masses`; those below `smallest` become 0, the others are counted in `kept`.
#[inline(always)]
pub(super) fn share_out<T: Real, const WIDTH: usize>(
    exponentials: &mut [T],
    factor: T,
    smallest: T,
    masses: &mut [f64],
    kept: &mut [T; WIDTH],
) {
    for (run, masses) in runs::<T, WIDTH>(exponentials).zip(runs::<f64, WIDTH>(masses)) {
        let mut values = *run;
        for lane in 0..WIDTH {
            let keep = if values[lane] >= smallest { T::ONE } else { T::ZERO };
            kept[lane] = kept[lane] + keep;
            values[lane] = values[lane] * (factor * keep);
        }
        for lane in 0..WIDTH {
            masses[lane] += values[lane].to_f64();
        }
        *run = values;
    }
}

/// The first place of the largest of the logits.
#[inline(always)]
pub(super) fn first_place<T: Real>(logits: &[T], largest: T) -> usize {
    logits.iter().position(|&z| z == largest).unwrap_or(0)
}

/// The sum of ln x over numbers of at least 1, by one logarithm for many of them.
pub(super) struct LnSum {
    product: f64,
    sum: f64,
}

impl LnSum {
    const LARGE: f64 = 1e200;

    pub(super) fn new() -> Self {
        LnSum { product: 1.0, sum: 0.0 }
    }

    #[inline(always)]
    pub(super) fn add(&mut self, x: f64) {
        self.product *= x;
        if self.product > Self::LARGE {
            self.sum += self.product.ln();
            self.product = 1.0;
        }
    }

    pub(super) fn total(self) -> f64 {
        self.sum + self.product.ln()
    }
}
