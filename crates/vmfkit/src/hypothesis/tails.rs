//! Upper tails of the chi-squared and F distributions, with relative errors of at most 1e-6.

use crate::density_grid::upper_tail;

/// P(X >= x) for a chi-squared X, computed in y = ln x.
pub(super) fn chi_squared(x: f64, degrees: f64) -> f64 {
    if !(x > 0.0) {
        return 1.0;
    }
    let ln_density = |y: f64| 0.5 * (degrees * y - y.exp());
    upper_tail(ln_density, x.ln(), degrees.ln(), 0.25 / degrees.sqrt())
}

/// P(F >= f) for degrees of freedom of the numerator and the denominator, computed in y = ln f.
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

    /// Expected values are from scipy.stats.chi2.sf and scipy.stats.f.sf.
    #[test]
    fn tails_match_scipy() {
        for (x, degrees, expected) in [
            (3.0, 2.0, 0.22313016014842982),
            (0.5, 1.0, 0.47950012218695337),
            (50.0, 3.0, 7.989179244951495e-11),
            (700.0, 20.0, 2.2134053404244967e-135),
            (120.0, 99.0, 0.07424385580596692),
            (1e4, 9999.0, 0.4952983945386835),
        ] {
            let found = chi_squared(x, degrees);
            assert!((found / expected - 1.0).abs() < 1e-6, "{x}, {degrees}: {found}");
        }
        for (x, degrees, expected) in [
            (1.0, (2.0, 6.0), 0.42187500000000006),
            (4.0, (1.0, 3.0), 0.13932596855884305),
            (30.0, (9.0, 36.0), 3.9447843012018045e-14),
            (1.2, (99.0, 2000.0), 0.09168729860598283),
            (1e3, (1.0, 5.0), 5.938297253037585e-7),
            (0.3, (4.0, 7.0), 0.8691655201183598),
        ] {
            let found = f(x, degrees);
            assert!((found / expected - 1.0).abs() < 1e-6, "{x}, {degrees:?}: {found}");
        }
        assert_eq!((chi_squared(0.0, 3.0), f(0.0, (1.0, 2.0))), (1.0, 1.0));
    }
}
