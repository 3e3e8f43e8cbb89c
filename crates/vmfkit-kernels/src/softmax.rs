//! The steps of a softmax and a log-sum-exp. Logits are stored component by component, `stride`
//! values apart, so that the rows of a run lie side by side.

use crate::float::Real;
use crate::instructions::Instructions;

/// Reduces the lanes of a run to one value, by halves.
#[inline(always)]
pub fn combine<T: Real, const WIDTH: usize>(mut lanes: [T; WIDTH], operation: impl Fn(T, T) -> T) -> T {
    let mut half = WIDTH / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] = operation(lanes[lane], lanes[lane + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// Splits values into runs of `WIDTH`. There is no remainder, because rows are padded.
#[inline(always)]
pub fn runs<T, const WIDTH: usize>(values: &[T]) -> impl Iterator<Item = &[T; WIDTH]> {
    values.chunks_exact(WIDTH).map(|run| run.try_into().expect("a run of this width"))
}

/// [`runs`] of a mutable slice.
#[inline(always)]
pub fn runs_mut<T, const WIDTH: usize>(values: &mut [T]) -> impl Iterator<Item = &mut [T; WIDTH]> {
    values.chunks_exact_mut(WIDTH).map(|run| run.try_into().expect("a run of this width"))
}

/// The run of each component for the rows from `first` on.
#[inline(always)]
fn components<T, const WIDTH: usize>(values: &mut [T], stride: usize, first: usize) -> impl Iterator<Item = &mut [T; WIDTH]> {
    let run = move |values| <&mut [T] as TryInto<&mut [T; WIDTH]>>::try_into(values).expect("a run of this width");
    values.chunks_exact_mut(stride).map(move |values| run(&mut values[first..first + WIDTH]))
}

/// The largest logit of each of `WIDTH` rows, and the first component with that logit.
#[inline(always)]
pub fn largest_of<T: Real, const WIDTH: usize>(logits: &mut [T], stride: usize, first: usize) -> ([T; WIDTH], [T; WIDTH]) {
    let (mut largest, mut index) = ([T::NEGATIVE_INFINITY; WIDTH], [T::ZERO; WIDTH]);
    let mut number = T::ZERO;
    for logits in components::<T, WIDTH>(logits, stride, first) {
        for lane in 0..WIDTH {
            let is_larger = logits[lane] > largest[lane];
            largest[lane] = if is_larger { logits[lane] } else { largest[lane] };
            index[lane] = if is_larger { number } else { index[lane] };
        }
        number = number + T::ONE;
    }
    (largest, index)
}

/// Replaces the logits of `WIDTH` rows by exp(logit - largest of the row). Returns the largest
/// logit of each row and the sum of its exponentials.
#[inline(always)]
pub fn exponentials<T: Real, I: Instructions, const WIDTH: usize>(
    logits: &mut [T],
    stride: usize,
    first: usize,
) -> ([T; WIDTH], [T; WIDTH]) {
    let (mut largest, mut sums) = ([T::NEGATIVE_INFINITY; WIDTH], [T::ZERO; WIDTH]);
    for logits in components::<T, WIDTH>(logits, stride, first) {
        for lane in 0..WIDTH {
            largest[lane] = if logits[lane] > largest[lane] { logits[lane] } else { largest[lane] };
        }
    }
    for logits in components::<T, WIDTH>(logits, stride, first) {
        for lane in 0..WIDTH {
            logits[lane] = (logits[lane] - largest[lane]).exp_of_negative::<I>();
            sums[lane] = sums[lane] + logits[lane];
        }
    }
    (largest, sums)
}

/// Multiplies the exponentials of one component by each row's factor, which makes them
/// responsibilities, and adds these to `mass`. Exponentials below the row's `smallest` become 0;
/// the others are counted in `kept`.
#[inline(always)]
pub fn responsibilities<T: Real, const WIDTH: usize>(
    exponentials: &mut [T],
    factors: &[T],
    smallest: &[T],
    mass: &mut [T; WIDTH],
    kept: &mut [T; WIDTH],
) {
    let (mut sum, mut count) = (*mass, *kept);
    for ((run, factors), smallest) in
        runs_mut::<T, WIDTH>(exponentials).zip(runs::<T, WIDTH>(factors)).zip(runs::<T, WIDTH>(smallest))
    {
        for lane in 0..WIDTH {
            let keep = if run[lane] >= smallest[lane] { T::ONE } else { T::ZERO };
            count[lane] = count[lane] + keep;
            run[lane] = run[lane] * (factors[lane] * keep);
            sum[lane] = sum[lane] + run[lane];
        }
    }
    (*mass, *kept) = (sum, count);
}

/// The sum of ln x over numbers of at least 1, with one logarithm for many numbers.
pub struct LnSum<const WIDTH: usize> {
    products: [f64; WIDTH],
    sum: f64,
}

impl<const WIDTH: usize> LnSum<WIDTH> {
    const LARGE: f64 = 1e200;

    /// The empty sum.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        LnSum { products: [1.0; WIDTH], sum: 0.0 }
    }

    /// Adds the logarithms of a run.
    #[inline(always)]
    pub fn add<T: Real>(&mut self, run: &[T; WIDTH]) {
        let mut is_large = false;
        for (product, x) in self.products.iter_mut().zip(run) {
            *product *= x.to_f64();
            is_large |= *product > Self::LARGE;
        }
        if is_large {
            self.take();
        }
    }

    /// Multiplies products until they might overflow, and adds the logarithm of each result.
    fn take(&mut self) {
        let mut all = 1.0;
        for product in std::mem::replace(&mut self.products, [1.0; WIDTH]) {
            all *= product;
            if all > Self::LARGE.sqrt() {
                self.sum += all.ln();
                all = 1.0;
            }
        }
        self.sum += all.ln();
    }

    /// The sum of all logarithms.
    pub fn total(mut self) -> f64 {
        self.take();
        self.sum
    }
}
