//! One density: it integrates to 1, stays accurate at high concentrations, and its divergences
//! match their definitions.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use vmfkit::{Error, RowBatch, VonMisesFisher, bessel};

fn along(vector: &[f64], concentration: f64) -> VonMisesFisher {
    VonMisesFisher::along(vector.to_vec(), concentration).unwrap()
}

/// The integral of f over [-1, 1] by the trapezoidal rule in a double-exponential variable.
fn integrate(f: impl Fn(f64, f64) -> f64) -> f64 {
    let step = 1.0 / 64.0;
    (-256..=256)
        .map(|i| {
            let x = f64::from(i) * step;
            let y = std::f64::consts::FRAC_PI_2 * x.sinh();
            // 1 + t and 1 - t, both without cancellation
            let (up, down) = (2.0 / (1.0 + (-2.0 * y).exp()), 2.0 / (1.0 + (2.0 * y).exp()));
            f(up, down) * std::f64::consts::FRAC_PI_2 * x.cosh() / y.cosh().powi(2)
        })
        .sum::<f64>()
        * step
}

#[test]
fn densities_integrate_to_one() {
    for dim in [3, 4, 5, 10, 31, 60] {
        for k in [0.0, 0.1, 1.0, 7.0, 40.0, 200.0] {
            let ln_ring = -bessel::ln_peak(dim - 1, 0.0);
            let total = integrate(|up, down| {
                let power = 0.5 * (dim as f64 - 3.0);
                (bessel::ln_peak(dim, k) - k * down + power * (up.ln() + down.ln()) + ln_ring).exp()
            });
            assert!((total - 1.0).abs() < 1e-12, "d = {dim}, k = {k}: {total}");
        }
    }
}

#[test]
fn projection_law_and_density_have_equal_normalisers() {
    // deviation_ln_pdf uses quadrature, ln_peak uses Bessel functions.
    for dim in [3usize, 4, 10, 100, 768, 100_000, 10_000_000] {
        for k in [1e-5, 1.0, 30.0, dim as f64, 1e3 * dim as f64, 1e15] {
            let law = vmfkit::ProjectionLaw::new(dim, k).unwrap();
            for fraction in [1e-6, 0.2, 0.7, 1.0 - 1e-6] {
                let s = law.deviation_quantile(fraction);
                let terms = [
                    bessel::ln_peak(dim, k),
                    -k * s,
                    0.5 * (dim as f64 - 3.0) * (s * (2.0 - s)).ln(),
                    -bessel::ln_peak(dim - 1, 0.0),
                ];
                let size: f64 = terms.iter().map(|x| x.abs()).sum();
                let difference = law.deviation_ln_pdf(s) - terms.iter().sum::<f64>();
                assert!(difference.abs() <= 1e-15 * size.max(1.0), "d = {dim}, k = {k}, s = {s}: {difference}");
            }
        }
    }
}

/// At k = 1e10 the log density depends on digits of mu . x that an f64 does not have; x - mu has
/// them.
#[test]
fn log_density_is_accurate_at_high_concentrations() {
    let density = along(&[1.0, 0.0, 0.0], 1e10);
    let tilt: f64 = 3e-6;
    let row = [(1.0 - tilt * tilt).sqrt(), tilt, 0.0];
    // 1 - cos for sin = 3e-6 is 4.50000000001012...e-12 (series), and ln C + k = ln(k / 2 pi)
    // at d = 3.
    let expected = (1e10 / std::f64::consts::TAU).ln() - 1e10 * 4.500000000010125e-12;
    assert!((density.ln_density(&row).unwrap() - expected).abs() < 1e-13);
    let mut of_batch = [0.0];
    density.ln_densities_into(&RowBatch::new(3, &row).unwrap(), &mut of_batch).unwrap();
    assert_eq!(of_batch[0], density.ln_density(&row).unwrap());
    // A row whose length differs from 1 by 1e-9 has the same log density.
    let long: Vec<f64> = row.iter().map(|x| x * (1.0 + 1e-9)).collect();
    assert!((density.ln_density(&long).unwrap() - expected).abs() < 1e-8);
}

#[test]
fn batches_of_both_precisions_agree_with_single_rows() {
    let density = along(&[0.3, -0.5, 0.1, 0.8, 0.2, -0.4, 0.9, 0.0, 0.35], 12.0);
    let rows: Vec<f64> = (0..20)
        .flat_map(|i| {
            let row: Vec<f64> = (0..9).map(|j| f64::from(i * 9 + j).sin()).collect();
            let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
            row.into_iter().map(move |x| x / norm)
        })
        .collect();
    let single: Vec<f32> = rows.iter().map(|&x| x as f32).collect();
    let (mut double_out, mut single_out) = ([0.0; 20], [0.0; 20]);
    density.ln_densities_into(&RowBatch::new(9, &rows).unwrap(), &mut double_out).unwrap();
    density.ln_densities_into(&RowBatch::new(9, &single).unwrap(), &mut single_out).unwrap();
    for (i, row) in rows.chunks_exact(9).enumerate() {
        let one = density.ln_density(row).unwrap();
        assert_eq!(double_out[i], one);
        assert!((single_out[i] - one).abs() < 1e-5);
        let t: f64 = row.iter().zip(density.mean_direction()).map(|(x, m)| x * m).sum();
        assert!((one - (density.ln_normalizer() + 12.0 * t)).abs() < 1e-13);
        assert!((density.ln_relative_density(row).unwrap() - 12.0 * (t - 1.0)).abs() < 1e-13);
    }
}

#[test]
fn covariance_has_the_right_trace_and_eigenvector() {
    for (dim, k) in [(2usize, 0.0), (3, 2.0), (7, 40.0)] {
        let density = along(&(0..dim).map(|i| 1.0 + i as f64).collect::<Vec<_>>(), k);
        let (matrix, mu) = (density.covariance(), density.mean_direction());
        // trace = E|x|^2 - |E x|^2 = 1 - A^2
        let trace: f64 = (0..dim).map(|i| matrix[i * dim + i]).sum();
        let length = bessel::mean_length(dim, k);
        assert!((trace - (1.0 - length * length)).abs() < 1e-14);
        let (along, _) = density.variances();
        for i in 0..dim {
            let product: f64 = (0..dim).map(|j| matrix[i * dim + j] * mu[j]).sum();
            assert!((product - along * mu[i]).abs() < 1e-15, "mu is an eigenvector");
        }
        assert_eq!(density.mode(), mu);
    }
}

#[test]
fn invalid_parameters_are_errors_with_their_value() {
    let text = |direction: &[f64], k: f64| VonMisesFisher::new(direction.to_vec(), k).unwrap_err().to_string();
    assert_eq!(text(&[1.0], 1.0), "the dimension must be at least 2, found: `1`");
    assert_eq!(text(&[], 1.0), "the dimension must be at least 2, found: `0`");
    assert_eq!(text(&[1.0, 0.0], -1.0), "the concentration must be finite and at least 0, found: `-1`");
    assert_eq!(text(&[1.0, 0.0], f64::NAN), "the concentration must be finite and at least 0, found: `NaN`");
    assert_eq!(text(&[1.0, 0.0], f64::INFINITY), "the concentration must be finite and at least 0, found: `inf`");
    assert_eq!(text(&[3.0, 4.0], 1.0), "the mean direction must have length 1, found: `5`");
    assert_eq!(text(&[3e300, 0.0], 1.0), "the mean direction must have length 1, found: `3e300`");
    assert_eq!(text(&[0.0, 0.0], 1.0), "the mean direction must have length 1, found: `0`");
    assert_eq!(text(&[0.0, f64::NAN], 1.0), "coordinate 1 of the mean direction must be a finite number, found: `NaN`");
    let density = along(&[1.0, 0.0], 1.0);
    assert_eq!(density.ln_density(&[1.0, 0.0, 0.0]).unwrap_err(), Error::DimensionMismatch { expected: 2, found: 3 });
    assert_eq!(density.ln_density(&[2.0, 0.0]).unwrap_err(), Error::NotUnit { row: 0, norm: 2.0 });
    assert!(density.divergence(&along(&[1.0, 0.0, 0.0], 1.0)).is_err());
    assert!(density.renyi_divergence(&density, 0.0).is_err() && density.renyi_divergence(&density, f64::NAN).is_err());
    // `along` accepts vectors of any length, however extreme.
    for scale in [4e307, 1e200, 1e-200, 1e-310] {
        let mu = along(&[3.0 * scale, 4.0 * scale], 1.0).mean_direction().to_vec();
        assert!((mu[0] - 0.6).abs() < 1e-13 && (mu[1] - 0.8).abs() < 1e-13, "{mu:?}");
    }
    assert!(along(&[1e308; 4], 1.0).mean_direction().iter().all(|x| (x - 0.5).abs() < 1e-15));
    assert!(along(&[1e-322; 4], 1.0).mean_direction().iter().all(|x| (x - 0.5).abs() < 1e-15));
    for fraction in [f64::NAN, -1.0, 1.5] {
        assert!(density.angle_holding(fraction).is_nan(), "{fraction}");
    }
}

#[test]
fn all_methods_accept_the_uniform_density() {
    let uniform = VonMisesFisher::uniform(3).unwrap();
    let other = along(&[0.0, 1.0, 0.0], 5.0);
    assert!((uniform.ln_density(&[0.0, 0.6, 0.8]).unwrap() + (4.0 * std::f64::consts::PI).ln()).abs() < 1e-15);
    assert_eq!(uniform.mean(), [0.0; 3]);
    assert_eq!(uniform.entropy(), -uniform.ln_normalizer());
    assert_eq!(uniform.divergence_from_uniform(), 0.0);
    assert!((uniform.divergence(&other).unwrap() - bessel::ln_partition(3, 5.0)).abs() < 1e-15);
    assert!((other.divergence(&uniform).unwrap() - other.divergence_from_uniform()).abs() < 1e-15);
    assert!((uniform.angle_holding(0.5).to_degrees() - 90.0).abs() < 1e-9);
    assert_eq!(uniform.hellinger_distance(&uniform).unwrap(), 0.0);
}

/// The squares of these concentrations overflow.
#[test]
fn divergences_are_accurate_at_the_largest_concentrations() {
    for k in [1e150, 1e200, 1e300, f64::MAX] {
        let p = along(&[0.3, -0.5, 0.8], k);
        assert!(p.bhattacharyya_distance(&p).unwrap() < 1e-15 && p.hellinger_distance(&p).unwrap() < 1e-7, "{k:e}");
        for order in [0.3, 2.0, 3.0, f64::INFINITY] {
            assert!(p.renyi_divergence(&p, order).unwrap() < 1e-14, "{k:e}, order {order}");
        }
        if k < 1e305 {
            // Equal directions, twice the concentration, d = 3: in the limit -ln BC = ln(1.5/sqrt
            // 2), and the largest ratio of the narrower density to the wider is 2.
            let q = along(&[0.3, -0.5, 0.8], 2.0 * k);
            assert!((p.bhattacharyya_distance(&q).unwrap() - (1.5 / 2f64.sqrt()).ln()).abs() < 1e-14);
            assert!((q.renyi_divergence(&p, f64::INFINITY).unwrap() - 2f64.ln()).abs() < 1e-14);
        }
    }
}

/// sup ln p/q = Phi(l) - Phi(k) + |eta_p - eta_q|, at d = 3 where Phi = ln(sinh k/k); values by
/// mpmath.
#[test]
fn renyi_divergence_of_infinite_order_is_accurate() {
    let e1 = [1.0, 0.0, 0.0];
    for (k, l, angle, expected) in
        [(1e10, 1.0, 0.0, 22.880437472071598), (1e10, 5e9, 0.0, std::f64::consts::LN_2), (1e15, 1.0, 1e-3, 34.393363437041784)]
    {
        let (p, q) = (along(&e1, k), along(&[f64::cos(angle), f64::sin(angle), 0.0], l));
        let found = p.renyi_divergence(&q, f64::INFINITY).unwrap();
        assert!((found / expected - 1.0).abs() < 1e-12, "{k:e} {l:e}: {found} against {expected}");
    }
}

/// Pairs of densities of the same dimension.
fn pairs() -> impl Strategy<Value = (VonMisesFisher, VonMisesFisher)> {
    (2usize..40).prop_flat_map(|dim| {
        let direction =
            prop::collection::vec(-1.0f64..1.0, dim).prop_filter("no direction", |v| v.iter().any(|x| x.abs() > 1e-3));
        let concentration = (-7.0f64..9.0).prop_map(f64::exp);
        (direction.clone(), concentration.clone(), direction, concentration)
            .prop_map(|(mu, k, nu, l)| (along(&mu, k), along(&nu, l)))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, rng_seed: RngSeed::Fixed(2), ..ProptestConfig::default() })]

    #[test]
    fn divergences_match_their_definitions((p, q) in pairs(), alpha in 0.05f64..4.0) {
        let dim = p.dim();
        let (k, l) = (p.concentration(), q.concentration());
        let phi = |k: f64| bessel::ln_partition(dim, k);
        let combined = |a: f64, b: f64| {
            let sum = p.mean_direction().iter().zip(q.mean_direction()).map(|(x, y)| a * k * x + b * l * y);
            sum.map(|x| x * x).sum::<f64>().sqrt()
        };
        let cosine: f64 = p.mean_direction().iter().zip(q.mean_direction()).map(|(x, y)| x * y).sum();
        // KL = Phi(l) - Phi(k) + A(k) (k - l cos)
        let kl = phi(l) - phi(k) + bessel::mean_length(dim, k) * (k - l * cosine);
        let size = phi(l) + phi(k) + k + l;
        prop_assert!((p.divergence(&q).unwrap() - kl).abs() <= 1e-14 * size);
        let bhattacharyya = 0.5 * (phi(k) + phi(l)) - phi(combined(0.5, 0.5));
        prop_assert!((p.bhattacharyya_distance(&q).unwrap() - bhattacharyya).abs() <= 1e-14 * size);
        let hellinger = p.hellinger_distance(&q).unwrap();
        prop_assert!((0.0..=1.0).contains(&hellinger));
        prop_assert!((hellinger * hellinger - (1.0 - (-bhattacharyya).exp())).abs() <= 1e-13 * size.max(1.0));
        if (alpha - 1.0).abs() > 1e-3 {
            let renyi = (phi(combined(alpha, 1.0 - alpha)) - alpha * phi(k) - (1.0 - alpha) * phi(l)) / (alpha - 1.0);
            let found = p.renyi_divergence(&q, alpha).unwrap();
            prop_assert!((found - renyi).abs() <= 1e-13 * size / (alpha - 1.0).abs(), "{found} against {renyi}");
            // The Renyi divergence increases with its order.
            prop_assert!(found <= p.renyi_divergence(&q, alpha + 0.5).unwrap() * (1.0 + 1e-9) + 1e-13);
            prop_assert!(found <= p.renyi_divergence(&q, f64::INFINITY).unwrap() * (1.0 + 1e-9) + 1e-13 * size);
        }
        // Order 1/2 is twice the Bhattacharyya distance.
        let half = p.renyi_divergence(&q, 0.5).unwrap();
        prop_assert!((half - 2.0 * p.bhattacharyya_distance(&q).unwrap()).abs() <= 1e-13 * half.max(1e-300));
        prop_assert_eq!(p.renyi_divergence(&q, 1.0).unwrap(), p.divergence(&q).unwrap());
    }

    #[test]
    fn distances_of_nearly_equal_densities_are_accurate((p, _) in pairs(), step in 1e-7f64..1e-4) {
        let close = along(p.mean_direction(), p.concentration() * (1.0 + step));
        let gap = close.concentration() - p.concentration();
        let information = bessel::mean_length_and_slope(p.dim(), p.concentration()).slope;
        let quadratic = 0.125 * gap * gap * information;
        let found = p.bhattacharyya_distance(&close).unwrap();
        prop_assert!((found / quadratic - 1.0).abs() < 4.0 * step + 1e-14 / step, "{found} against {quadratic}");
    }
}
