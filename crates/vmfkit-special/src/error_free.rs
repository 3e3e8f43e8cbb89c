//! Error-free transformations: sums and products of two floats with what their rounding loses.

/// a + b as a rounded sum and its error (Knuth).
#[inline]
pub(crate) fn sum(a: f64, b: f64) -> (f64, f64) {
    let high = a + b;
    let part = high - a;
    (high, (a - (high - part)) + (b - part))
}

/// a b as a rounded product and its error (Dekker); without FMA hardware `mul_add` would be a
/// library call.
#[inline]
pub(crate) fn product(a: f64, b: f64) -> (f64, f64) {
    let halves = |x: f64| {
        let scaled = 134217729.0 * x;
        let high = scaled - (scaled - x);
        (high, x - high)
    };
    let ((a1, a2), (b1, b2)) = (halves(a), halves(b));
    let high = a * b;
    (high, ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2)
}
