//! The law of mu.x against Arb's rigorous integrals (testdata/projection.py) and against its own
//! structure.

use vmfkit_special::Error;
use vmfkit_special::projection::ProjectionLaw;

const TABLE: &str = include_str!("../../../../testdata/projection.csv");

/// Dimensions and concentrations on all branches.
const LAWS: [(usize, f64); 16] = [
    (2, 0.0),
    (2, 0.7),
    (2, 1e4),
    (3, 0.0),
    (3, 12.0),
    (4, 0.3),
    (5, 1e20),
    (10, 10.0),
    (50, 1e300),
    (100, 0.0),
    (100, 30.0),
    (768, 700.0),
    (4096, 1e3),
    (100_000, 1e5),
    (10_000_000, 1e7),
    (10_000_000, 1e30),
];

fn law(dim: usize, concentration: f64) -> ProjectionLaw {
    ProjectionLaw::new(dim, concentration).expect("the parameters are valid")
}

fn relative(found: f64, expected: f64) -> f64 {
    (found / expected - 1.0).abs()
}

/// The rows of the table: the law, the deviation, P(T <= 1 - s) and P(T > 1 - s).
fn table() -> impl Iterator<Item = (ProjectionLaw, f64, f64, f64)> {
    TABLE.lines().skip(1).map(|line| {
        let field: Vec<&str> = line.split(',').collect();
        let number = |i: usize| field[i].parse::<f64>().expect("the table holds numbers");
        let dim = field[0].parse().expect("the dimension is an integer");
        (law(dim, number(1)), number(2), number(3), number(4))
    })
}

#[test]
fn tails_agree_with_the_table() {
    assert!(table().count() > 300);
    for (law, s, cdf, survival) in table() {
        let error = relative(law.deviation_survival(s), cdf);
        assert!(error < 1e-12, "{law:?} survival at {s:e}: {error:e}");
        let error = relative(law.deviation_cdf(s), survival);
        assert!(error < 1e-12, "{law:?} cdf at {s:e}: {error:e}");
        let error = (law.deviation_ln_survival(s) - cdf.ln()).abs();
        assert!(error < 1e-12, "{law:?} ln survival at {s:e}: {error:e}");
        let error = (law.deviation_ln_cdf(s) - survival.ln()).abs();
        assert!(error < 1e-12, "{law:?} ln cdf at {s:e}: {error:e}");
    }
}

#[test]
fn quantiles_agree_with_the_table() {
    for (law, s, cdf, survival) in table() {
        let found = if cdf < survival { law.deviation_upper_quantile(cdf) } else { law.deviation_quantile(survival) };
        let error = relative(found, s);
        assert!(error < 1e-12, "{law:?} quantile {s:e}: {error:e}");
    }
}

/// 1 - t is not a double for these t; `Law(d, k).probabilities(1 - arb(t))` of
/// testdata/projection.py.
#[test]
fn rounding_of_one_minus_t_does_not_count() {
    for (dim, concentration, t, cdf, survival) in [
        (768, 700.0, 0.45, 6.043181927851803154506501e-11, 0.999999999939568),
        (768, 0.0, 0.1, 0.9972444420909860716362131, 0.002755557909013928363786881),
        (100_000, 1e5, 0.61, 7.798445349665328970605937e-7, 0.9999992201554650334671029),
        (100_000, 2e4, 0.2, 0.9934995902373845570599037, 0.006500409762615442940096263),
        (10_000_000, 1e5, -0.001, 2.098229862701301974537289e-265, 1.0),
        (3, 50.0, 0.1, 2.862518580549394438978627e-20, 1.0),
        (2, 30.0, -0.3, 1.778422501694001840311703e-18, 1.0),
    ] {
        let law = law(dim, concentration);
        let error = relative(law.cdf(t), cdf).max(relative(law.survival(t), survival));
        assert!(error < 4e-13, "{dim} {concentration:e} {t}: {error:e}");
    }
}

#[test]
fn tails_are_monotone_and_add_to_one() {
    for (dim, concentration) in LAWS {
        let law = law(dim, concentration);
        let (mut below, mut above, mut last) = (0.0, 1.0, 0.0);
        for i in 1..2000 {
            let p = f64::from(i) / 2000.0;
            let s = law.deviation_quantile(p);
            let (cdf, survival) = (law.deviation_cdf(s), law.deviation_survival(s));
            assert!(s > last, "{law:?} at {p}");
            assert!(cdf > below && survival < above, "{law:?} at {s:e}");
            assert!((cdf + survival - 1.0).abs() <= 4e-16, "{law:?} at {s:e}");
            (below, above, last) = (cdf, survival, s);
        }
    }
}

#[test]
fn far_tails_are_monotone() {
    for (dim, concentration) in LAWS {
        let law = law(dim, concentration);
        let (mut low, mut high) = (f64::INFINITY, 0.0);
        for i in 1..600 {
            let p = 10f64.powf(-0.5 * f64::from(i));
            let (lower, upper) = (law.deviation_quantile(p), law.deviation_upper_quantile(p));
            // Many p share the last doubles before the end of the sphere.
            assert!(lower <= low && upper >= high, "{law:?} at {p:e}");
            (low, high) = (lower, upper);
        }
    }
}

/// The error of a round trip is what an ulp of s makes of p, and 1e-12.
#[test]
fn quantiles_invert_the_tails() {
    for (dim, concentration) in LAWS {
        let law = law(dim, concentration);
        for exponent in [0.3, 0.31, 1.0, 3.0, 10.0, 40.0, 150.0, 299.0] {
            let p = 10f64.powf(-exponent);
            let (low, high) = (law.deviation_quantile(p), law.deviation_upper_quantile(p));
            for (s, ln_p) in [(low, law.deviation_ln_cdf(low)), (high, law.deviation_ln_survival(high))] {
                if s > f64::MIN_POSITIVE && s < 2.0 {
                    let ulp = s * f64::EPSILON * (law.deviation_ln_pdf(s) - ln_p).exp();
                    let error = (ln_p - p.ln()).abs();
                    assert!(error < 1e-12 + ulp, "{law:?} at {s:e}: {error:e}");
                }
            }
            // The projection is the same law, one subtraction away.
            assert_eq!(law.upper_quantile(p), 1.0 - low);
            assert_eq!(law.quantile(p), 1.0 - high);
        }
    }
}

#[test]
fn uniform_law_is_symmetric() {
    for dim in [2, 3, 4, 10, 101, 768, 100_000] {
        let law = law(dim, 0.0);
        assert!(relative(law.cdf(0.0), 0.5) < 1e-15);
        for t in [1e-3, 0.01, 0.1, 0.25, 0.5, 0.875] {
            assert!((law.ln_pdf(t) - law.ln_pdf(-t)).abs() < 1e-12 * law.ln_pdf(t).abs().max(1.0));
            let (lower, upper) = (law.cdf(-t), law.survival(t));
            assert!(lower == upper || relative(lower, upper) < 1e-12, "{dim} {t}");
        }
    }
    // Beta(1/2, 1/2), (1, 1), (3/2, 3/2) and (2, 2) on [-1, 1].
    for t in [-0.99f64, -0.5, 0.0, 0.3, 0.9] {
        let arc = (-t).acos() / std::f64::consts::PI;
        assert!(relative(law(2, 0.0).cdf(t), arc) < 1e-13);
        assert!(relative(law(3, 0.0).cdf(t), 0.5 * (1.0 + t)) < 1e-14);
        let half_disc = arc + t * (1.0 - t * t).sqrt() / std::f64::consts::PI;
        assert!(relative(law(4, 0.0).cdf(t), half_disc) < 1e-12);
        assert!(relative(law(5, 0.0).cdf(t), 0.25 * (1.0 + t).powi(2) * (2.0 - t)) < 1e-14);
    }
}

#[test]
fn sphere_is_a_truncated_exponential() {
    for k in [1e-280, 1e-17, 0.3, 2.0, 40.0, 1e10] {
        let law = law(3, k);
        for part in [1e-12, 0.01, 0.3, 0.9] {
            let s = 2.0 * part;
            let total = (-2.0 * k).exp_m1();
            assert!(relative(law.deviation_cdf(s), (-k * s).exp_m1() / total) < 1e-15);
            assert!((law.deviation_ln_pdf(s) - ((-k / total).ln() - k * s)).abs() <= 1e-15 * (1.0 + k));
            let p = law.deviation_cdf(s);
            if p < 0.99 {
                assert!(relative(law.deviation_quantile(p), s) < 1e-14);
            }
        }
    }
}

#[test]
fn density_is_the_derivative_of_the_distribution() {
    for (dim, concentration) in [(2, 3.0), (3, 2.0), (4, 0.0), (10, 25.0), (768, 700.0)] {
        let law = law(dim, concentration);
        for p in [0.1, 0.3, 0.5, 0.7] {
            let t = law.quantile(p);
            let step = 1e-3 * (law.quantile(0.6) - law.quantile(0.4));
            let slope = |h: f64| (law.cdf(t + h) - law.cdf(t - h)) / (2.0 * h);
            let richardson = (4.0 * slope(0.5 * step) - slope(step)) / 3.0;
            assert!(relative(richardson, law.pdf(t)) < 1e-7, "{law:?} at {t}");
        }
    }
}

/// The probability itself underflows: -k s and a logarithm are left.
#[test]
fn logarithms_are_finite_where_probabilities_underflow() {
    for dim in [2, 3, 4, 5] {
        let law = law(dim, 1e6);
        assert_eq!(law.deviation_survival(1.0), 0.0);
        assert!((law.deviation_ln_survival(1.0) + 1e6).abs() < 40.0);
        assert!(law.deviation_ln_cdf(1e-320) < -300.0);
    }
}

#[test]
fn ends_and_bad_arguments() {
    for (dim, concentration) in LAWS {
        let law = law(dim, concentration);
        assert_eq!((law.dim(), law.concentration()), (dim, concentration));
        for t in [-1.0, -1.5, f64::NEG_INFINITY] {
            assert_eq!((law.cdf(t), law.survival(t)), (0.0, 1.0));
        }
        for t in [1.0, 1.5, f64::INFINITY] {
            assert_eq!((law.cdf(t), law.survival(t)), (1.0, 0.0));
        }
        for t in [-1.5, 1.0 + f64::EPSILON, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!((law.pdf(t), law.ln_pdf(t)), (0.0, f64::NEG_INFINITY));
        }
        for value in [law.pdf(f64::NAN), law.cdf(f64::NAN), law.survival(f64::NAN), law.quantile(f64::NAN)] {
            assert!(value.is_nan());
        }
        assert_eq!((law.quantile(0.0), law.quantile(1.0)), (-1.0, 1.0));
        assert_eq!((law.upper_quantile(0.0), law.upper_quantile(1.0)), (1.0, -1.0));
        assert_eq!((law.deviation_quantile(0.0), law.deviation_quantile(1.0)), (0.0, 2.0));
        for p in [-1e-300, 1.0 + f64::EPSILON, f64::INFINITY] {
            assert!(law.quantile(p).is_nan() && law.upper_quantile(p).is_nan(), "{law:?} at {p:e}");
        }
    }
}

#[test]
fn every_double_has_an_answer() {
    let tiny = f64::from_bits(1);
    for dim in [2, 3, 4, 7, 100, 10_000_000] {
        for k in [0.0, tiny, f64::MIN_POSITIVE, 1e-20, 1.0, 1e5, 1e20, 1e300, f64::MAX] {
            let law = law(dim, k);
            for s in [tiny, 1e-310, 1e-300, 1e-20, 0.5, 1.0, 1.5, 2.0 - f64::EPSILON] {
                let (cdf, survival) = (law.deviation_cdf(s), law.deviation_survival(s));
                assert!((0.0..=1.0).contains(&cdf) && (0.0..=1.0).contains(&survival), "{law:?} {s:e}");
                assert!(law.deviation_ln_cdf(s) <= 0.0 && law.deviation_ln_survival(s) <= 0.0);
                assert!(!law.deviation_ln_pdf(s).is_nan(), "{law:?} {s:e}");
            }
            for p in [tiny, 1e-310, 1e-300, 0.5, 1.0 - f64::EPSILON] {
                assert!((0.0..=2.0).contains(&law.deviation_quantile(p)), "{law:?} {p:e}");
                assert!((-1.0..=1.0).contains(&law.quantile(p)), "{law:?} {p:e}");
            }
        }
    }
}

#[test]
fn bad_parameters_are_refused() {
    assert_eq!(ProjectionLaw::new(1, 1.0), Err(Error::Dimension { dim: 1 }));
    for value in [-1.0, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(ProjectionLaw::new(5, value), Err(Error::Concentration { value }));
    }
    assert!(ProjectionLaw::new(5, f64::NAN).is_err());
}

/// A quantile's derivative in k against central differences of the quantiles themselves, of fourth
/// order.
#[test]
fn quantile_slope_agrees_with_differences() {
    for dim in [2, 3, 4, 5, 10, 64, 768, 4096] {
        for k in [1e-6, 1e-3, 0.1, 1.0, 8.0, 100.0, 3e3, 1e6] {
            // The scale on which the law changes with k.
            let step = 1e-3 * f64::hypot(k, 0.5 * dim as f64).min(1e3 * k);
            let at = |times: f64| law(dim, k + times * step);
            for p in [1e-9, 1e-3, 0.2, 0.5, 0.61, 0.9, 1.0 - 1e-6] {
                let quantile = |times: f64| at(times).deviation_quantile(p);
                let near = quantile(0.5) - quantile(-0.5);
                let far = quantile(1.0) - quantile(-1.0);
                let expected = (8.0 * near - far) / (6.0 * step);
                let s = law(dim, k).deviation_quantile(p);
                let found = law(dim, k).deviation_quantile_slope(s);
                // Differences cancel: a rounding of s is worth eps s / step.
                let tolerance = 1e-8 * expected.abs() + 1e-14 * s / step;
                assert!((found - expected).abs() < tolerance, "d {dim} k {k:e} p {p:e}: {found:e} {expected:e}");
                // The subtraction is exact for t >= 1/2.
                let t = (1.0 - s).max(0.5);
                assert_eq!(law(dim, k).quantile_slope(t), -law(dim, k).deviation_quantile_slope(1.0 - t));
            }
        }
    }
}

/// E[dt/dk] = dE[t]/dk = A', by the midpoint rule in p, whose integrand vanishes at both ends with
/// s.
#[test]
fn the_mean_of_quantile_slopes_is_the_slope_of_the_mean_length() {
    for (dim, k) in
        [(2, 0.0), (2, 3.0), (3, 1e-9), (3, 40.0), (5, 2.0), (5, 1e6), (64, 50.0), (768, 0.0), (768, 500.0), (4096, 1e6)]
    {
        let law = law(dim, k);
        // In p = (1 - cos(pi z))/2 the rule's error at the ends falls away.
        let points = 4000;
        let mean: f64 = (0..points)
            .map(|i| {
                let angle = std::f64::consts::PI * (i as f64 + 0.5) / points as f64;
                let p = (0.5 * angle).sin().powi(2);
                let s =
                    if p < 0.5 { law.deviation_quantile(p) } else { law.deviation_upper_quantile((0.5 * angle).cos().powi(2)) };
                -law.deviation_quantile_slope(s) * 0.5 * std::f64::consts::PI * angle.sin()
            })
            .sum::<f64>()
            / points as f64;
        let expected = vmfkit_special::bessel::mean_length_and_slope(dim, k).slope;
        assert!(relative(mean, expected) < 1e-5, "d {dim} k {k:e}: {mean:e} {expected:e}");
    }
    // The figure that a biased gradient in five dimensions misses.
    assert!((vmfkit_special::bessel::mean_length_and_slope(5, 2.0).slope - 0.147389).abs() < 1e-6);
}

#[test]
fn ends_do_not_move_with_the_concentration() {
    for (dim, k) in LAWS {
        let law = law(dim, k);
        assert_eq!((law.quantile_slope(1.0), law.quantile_slope(-1.0)), (0.0, 0.0));
        assert!(law.quantile_slope(1.5).is_nan() && law.quantile_slope(-1.1).is_nan() && law.quantile_slope(f64::NAN).is_nan());
        for p in [1e-12, 0.01, 0.5, 0.99] {
            let slope = law.deviation_quantile_slope(law.deviation_quantile(p));
            assert!(slope <= 0.0 && slope.is_finite(), "{law:?} {p} {slope}");
        }
    }
}

/// At huge concentrations terms of the size of ln k cancel far from the mode: that size is the
/// scale of the error (mpmath).
#[test]
fn ln_pdf_is_right_to_the_scale_of_ln_k() {
    for (dim, k, s, expected) in [
        (5, 3.75e30, 7.66e-63, -2.2282316152649983634),
        (7, 6.12e99, 1.18e-149, 2.769982892973859724),
        (10, 4.23e200, 2.02e-258, -0.41074159111684269773),
        (50, 4.39e250, 4.45e-261, -1.4356554929940512475),
        (100, 2e90, 1.35e-91, 1.535856709665596837),
        (4, 2.68e30, 7.39e-90, 2.5995712968994482999),
        (768, 6.67e290, 3.51e-290, -43.667903013452357596),
        (10, 1e120, 5e-120, 274.48950728196239116f64),
    ] {
        let found = ProjectionLaw::new(dim, k).unwrap().deviation_ln_pdf(s);
        let scale = expected.abs().max(k.ln());
        assert!((found - expected).abs() < 2e-15 * scale, "d = {dim}, k = {k:e}: {found} and {expected}");
    }
}
