//! Identities that tie the special functions to each other, at random points and across every
//! border between branches.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::f64::consts::{PI, TAU};
use vmfkit_special::bessel::*;

/// Dimensions from 2 to 1e6, dense where embeddings live.
fn dims() -> impl Strategy<Value = usize> {
    (0.7f64..13.8).prop_map(|ln| ln.exp() as usize)
}

/// Concentrations from 1e-8 to 1e9 beside the dimension's own scale.
fn concentrations() -> impl Strategy<Value = f64> {
    (-18.0f64..20.0).prop_map(f64::exp)
}

/// A point near the curve k ~ d, where nothing is asymptotic.
fn ratios() -> impl Strategy<Value = f64> {
    (-5.0f64..5.0).prop_map(f64::exp)
}

fn close(found: f64, expected: f64, tolerance: f64) -> bool {
    (found - expected).abs() <= tolerance * expected.abs()
}

/// W = k^2 A'/A^2, MATH.md (2.1).
fn slope_invariant(dim: usize, k: f64) -> f64 {
    let ratio = mean_length_and_slope(dim, k);
    (k / ratio.value) * (k / ratio.value) * ratio.slope
}

/// Perron's continued fraction for I_{nu+1}(k)/I_nu(k): slow, but it shares no line with the code
/// under test.
fn perron(nu: f64, k: f64) -> f64 {
    let mut tail = 0.0;
    for j in (1..400).rev() {
        let j = f64::from(j);
        tail = (2.0 * nu + 2.0 * j + 1.0) * k / (2.0 * nu + j + 2.0 + 2.0 * k - tail);
    }
    k / (2.0 * nu + 2.0 + k - tail)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn recurrences_in_the_dimension_hold(dim in dims(), scale in ratios(), k in concentrations(), near in any::<bool>()) {
        let k = if near { scale * dim as f64 } else { k };
        let (a, a_up) = (mean_length(dim, k), mean_length(dim + 2, k));
        prop_assert!(close(1.0 / a, dim as f64 / k + a_up, 1.5e-15), "1/A");
        let w = slope_invariant(dim, k);
        prop_assert!(close(w, dim as f64 - a_up * a_up * slope_invariant(dim + 2, k), 2e-14), "W");
        prop_assert!(w >= 0.5 * (dim as f64 - 1.0) * (1.0 - 1e-14) && w <= dim as f64 * (1.0 + 1e-14));
        // Ties the logarithms to the ratio, and crosses the borders between regions in d.
        let (peak, peak_up) = (ln_peak(dim, k), ln_peak(dim + 2, k));
        prop_assert!((peak_up - peak - (k / (TAU * a)).ln()).abs() <= 4e-15 * peak.abs().max(1.0), "ln C");
    }

    #[test]
    fn the_ratio_keeps_its_bounds_and_its_oracle(dim in dims(), scale in ratios()) {
        let nu = 0.5 * dim as f64 - 1.0;
        let k = scale * (nu + 1.0);
        let ratio = mean_length_and_slope(dim, k);
        // Amos (1974): k/(a + sqrt(k^2 + b^2)) bounds A for (a, b) = (nu + 1/2, nu + 3/2) and b^2 =
        // (nu + 1/2)(nu + 3/2).
        let bound = |square: f64| k / (nu + 0.5 + (k * k + square).sqrt());
        prop_assert!(ratio.value >= bound((nu + 1.5) * (nu + 1.5)) * (1.0 - 1e-15));
        prop_assert!(ratio.value <= bound((nu + 0.5) * (nu + 1.5)) * (1.0 + 1e-15));
        prop_assert!((ratio.value + ratio.complement - 1.0).abs() <= 7e-16);
        prop_assert!(k * ratio.slope / ratio.value <= 1.0 + 1e-14);
        if k < 2000.0 {
            prop_assert!(close(ratio.value, perron(nu, k), 1e-14), "{} against {}", ratio.value, perron(nu, k));
        }
        // Riccati's equation, with the digits that its cancellation leaves.
        let riccati = 1.0 - ratio.value * ratio.value - (dim as f64 - 1.0) * ratio.value / k;
        prop_assert!((riccati - ratio.slope).abs() <= 1e-15 * (1.0 + (dim as f64 - 1.0) * ratio.value / k) * 4.0);
    }

    #[test]
    fn the_inverse_undoes_the_mean_length(dim in dims(), scale in ratios(), k in concentrations(), near in any::<bool>()) {
        let k = if near { scale * dim as f64 } else { k };
        let ratio = mean_length_and_slope(dim, k);
        let back = if ratio.value < 0.5 {
            concentration_from_mean_length(dim, ratio.value)
        } else {
            concentration_from_complement(dim, ratio.complement)
        };
        prop_assert!(close(back, k, 2e-15), "{back} from {k}");
    }

    #[test]
    fn derivatives_match_differences(dim in dims(), scale in ratios()) {
        let k = scale * dim as f64;
        let h = 1e-4 * k;
        let central = |f: &dyn Fn(f64) -> f64| (f(k - 2.0 * h) - 8.0 * f(k - h) + 8.0 * f(k + h) - f(k + 2.0 * h)) / (12.0 * h);
        let peak = ln_peak_derivatives(dim, k);
        let normalizer = ln_normalizer_derivatives(dim, k);
        prop_assert_eq!(peak.value, ln_peak(dim, k));
        prop_assert_eq!(normalizer.value, ln_normalizer(dim, k));
        let noise = 1e-11 * peak.value.abs().max(1.0) / k;
        prop_assert!((central(&|k| ln_peak(dim, k)) - peak.first).abs() <= 1e-9 * peak.first + noise);
        prop_assert!((normalizer.first + 1.0 - peak.first).abs() <= 7e-16);
        prop_assert!(close(central(&|k| ln_partition(dim, k)), -normalizer.first, 1e-9));
        prop_assert!(close(central(&|k| mean_length(dim, k)), -normalizer.second, 1e-8));
        prop_assert!(close(central(&|k| entropy(dim, k)), k * normalizer.second, 1e-6 + noise / (k * normalizer.second.abs())));
        let order = 0.5 * dim as f64 - 1.0;
        let bessel = ln_bessel_i_derivatives(order, k);
        prop_assert_eq!(bessel.value, ln_bessel_i(order, k));
        prop_assert!(close(central(&|x| ln_bessel_i(order, x)), bessel.first, 1e-8));
        let second = central(&|x| ln_bessel_i_derivatives(order, x).first);
        prop_assert!((second - bessel.second).abs() <= 1e-8 * (order / (k * k) + normalizer.second.abs()));
    }

    #[test]
    fn divergences_are_positive_and_agree(dim in dims(), scale in ratios(), other in ratios()) {
        let (k1, k2) = (scale * dim as f64, other * scale * dim as f64);
        let kl = divergence(dim, k1, k2);
        prop_assert!(kl > 0.0 || k1 == k2);
        // Three-point identity of a Bregman divergence through the uniform.
        let direct = divergence_from_uniform(dim, k1) + ln_partition(dim, k2) - k2 * mean_length(dim, k1);
        let size = divergence_from_uniform(dim, k1) + ln_partition(dim, k2);
        prop_assert!((kl - direct).abs() <= 4e-15 * size, "{kl} against {direct}");
        let near = divergence(dim, k1, k1 * (1.0 + 1e-9));
        let step = k1 * (1.0 + 1e-9) - k1;
        prop_assert!(close(near, 0.5 * step * step * mean_length_and_slope(dim, k1).slope, 1e-8));
    }

    #[test]
    fn any_bit_pattern_gives_a_number(bits in 0u64..0x7ff0_0000_0000_0000, dim in 1usize..10_000_000) {
        let k = f64::from_bits(bits);
        let ratio = mean_length_and_slope(dim, k);
        for value in [ratio.value, ratio.complement, ratio.slope, mean_length(dim, k), ln_peak(dim, k), ln_normalizer(dim, k),
            ln_partition(dim, k), ln_partition_complement(dim, k), entropy(dim, k), divergence_from_uniform(dim, k)] {
            prop_assert!(value.is_finite(), "d = {dim}, k = {k:e}: {value}");
        }
        let order = 0.5 * dim as f64 - 0.5;
        prop_assert!(!ln_bessel_i(order, k).is_nan() && !ln_bessel_i_scaled(order, k).is_nan());
        let r = (k % 1.0).min(1.0 - f64::EPSILON);
        prop_assert!(concentration_from_mean_length(dim, r).is_finite());
        prop_assert!(concentration_from_mean_length(dim, r) >= 0.0);
    }

    #[test]
    fn real_orders_obey_the_three_term_recurrence(order in 0.0f64..200.0, x in concentrations()) {
        // I_{s}(x) - I_{s+2}(x) = (2 (s+1)/x) I_{s+1}(x), divided by I_s.
        let [low, mid, high] = [0.0, 1.0, 2.0].map(|j| ln_bessel_i_scaled(order + j, x));
        let left = -(high - low).exp_m1();
        let right = 2.0 * (order + 1.0) / x * (mid - low).exp();
        let noise = 1e-14 * low.abs().max(order * x.ln().abs()).max(1.0);
        prop_assert!((left - right).abs() <= noise * (1.0 + right), "{left} against {right}");
    }
}

#[test]
fn no_jump_across_any_border() {
    let dims = [2, 3, 4, 5, 9, 10, 11, 12, 17, 18, 19, 33, 57, 58, 59, 60, 63, 64, 97, 98, 99, 100, 200, 500, 1000, 3000, 20_000];
    // Borders in k and in u = sqrt(nu^2 + k^2), from the tables at the head of `bessel` and in
    // `bessel::outer`.
    let in_k = [2e-3, 1.5, 2.0, 4.0, 8.0, 18.0, 28.0, 1e100];
    let in_u = [
        28.5, 31.5, 34.0, 39.5, 40.0, 48.0, 49.0, 52.0, 56.4, 68.0, 72.0, 83.0, 97.6, 109.0, 126.0, 172.0, 232.0, 246.0, 346.0,
        643.0, 881.0, 1480.0, 2170.0, 1.44e4,
    ];
    for dim in dims {
        let nu = dim as f64 / 2.0 - 1.0;
        let from_u = in_u.iter().filter(|&&u| u > nu).map(|&u| (u * u - nu * nu).sqrt());
        // q = 1/4 is k = sqrt(3) nu.
        for border in in_k.into_iter().chain(from_u).chain([3f64.sqrt() * nu]).filter(|&k| k > 0.0) {
            let (below, above) = (border * (1.0 - 4e-16), border * (1.0 + 4e-16));
            for (name, f, ulps) in [
                ("A", (|d, k| mean_length(d, k)) as fn(usize, f64) -> f64, 4.0),
                ("A with slope", |d, k| mean_length_and_slope(d, k).value, 4.0),
                ("1 - A", |d, k| mean_length_and_slope(d, k).complement, 4.0),
                ("A'", |d, k| mean_length_and_slope(d, k).slope, 16.0),
                ("Phi", |d, k| ln_partition(d, k), 4.0),
                ("Psi", |d, k| ln_partition_complement(d, k), 4.0),
                ("k + ln C", |d, k| 2.0 * (d as f64) + ln_peak(d, k).abs(), 8.0),
                ("KL", |d, k| divergence_from_uniform(d, k), 16.0),
            ] {
                let (low, high) = (f(dim, below), f(dim, above));
                // What the step of 8e-16 in k itself is worth, from a wider one.
                let elasticity = (f(dim, border * 1.0001) / f(dim, border)).ln().abs() / 1e-4;
                let moved = elasticity * (above - below) / (border * f64::EPSILON);
                let jump = (high - low).abs() / (high.abs() * f64::EPSILON) - moved;
                assert!(jump <= ulps, "{name}: {jump} ulps at d = {dim}, k = {border}");
            }
        }
    }
}

#[test]
fn the_ratio_is_monotone_on_a_dense_grid() {
    for dim in [2, 3, 4, 5, 10, 58, 59, 98, 768] {
        let mut before = mean_length_and_slope(dim, 1e-4);
        for step in 1..40_000 {
            let k = 1e-4 * (f64::from(step) * 4e-4).exp();
            let here = mean_length_and_slope(dim, k);
            assert!(here.value > before.value * (1.0 - 1e-15), "A at d = {dim}, k = {k}");
            assert!(here.complement < before.complement * (1.0 + 1e-15), "1 - A at d = {dim}, k = {k}");
            before = here;
        }
    }
}

#[test]
fn closed_forms_and_limits() {
    for k in [1e-3, 0.1, 1.0, 1.49, 1.51, 7.0, 40.0, 300.0] {
        let tanh = mean_length_and_slope(1, k);
        assert!(close(tanh.value, k.tanh(), 1e-15));
        let langevin = if k < 0.2 { k / 3.0 - k.powi(3) / 45.0 + 2.0 * k.powi(5) / 945.0 } else { 1.0 / k.tanh() - 1.0 / k };
        assert!(close(mean_length(3, k), langevin, if k < 0.2 { 1e-8 } else { 1e-14 }), "d = 3, k = {k}");
        assert!(close(mean_length(5, k), 1.0 / mean_length(3, k) - 3.0 / k, 1e-14 * (1.0 + 20.0 / (k * k))), "d = 5, k = {k}");
    }
    for dim in [2usize, 3, 10, 768, 100_000] {
        let d = dim as f64;
        let at_zero = mean_length_and_slope(dim, 0.0);
        assert_eq!((at_zero.value, at_zero.complement), (0.0, 1.0));
        assert!(close(at_zero.slope, 1.0 / d, 1e-15));
        assert_eq!(entropy(dim, 0.0), -ln_normalizer(dim, 0.0));
        assert!(close(mean_length(dim, 1e-300), 1e-300 / d, 1e-15));
        assert!(close(concentration_from_mean_length(dim, 1e-300), d * 1e-300, 1e-15));
        assert!(close(concentration_from_complement(dim, 1e-300), 0.5 * (d - 1.0) / 1e-300, 1e-15));
        assert!(close(mean_length_complement(dim, 1e300), 0.5 * (d - 1.0) / 1e300, 1e-15));
        assert!(close(ln_peak(dim, 1e300), 0.5 * (d - 1.0) * (1e300 / TAU).ln(), 1e-15));
        assert_eq!(divergence(dim, 7.0, 7.0), 0.0);
        assert_eq!(divergence(dim, 7.0, 0.0), divergence_from_uniform(dim, 7.0));
        assert_eq!(divergence(dim, 0.0, 7.0), ln_partition(dim, 7.0));
    }
    assert!(close(ln_normalizer(3, 0.0), -(4.0 * PI).ln(), 1e-15));
}

#[test]
fn outside_the_domain_is_not_a_number_and_infinity_is_the_limit() {
    for dim in [1, 2, 3, 50, 1000] {
        for k in [-1.0, f64::NAN, f64::NEG_INFINITY, -1e-300] {
            assert!(mean_length(dim, k).is_nan() && mean_length_complement(dim, k).is_nan());
            assert!(ln_normalizer(dim, k).is_nan() && ln_peak(dim, k).is_nan() && entropy(dim, k).is_nan());
            assert!(ln_partition(dim, k).is_nan() && ln_partition_complement(dim, k).is_nan());
            assert!(divergence_from_uniform(dim, k).is_nan() && divergence(dim, k, 1.0).is_nan());
            assert!(ln_bessel_i(dim as f64, k).is_nan() && ln_bessel_i_scaled(dim as f64, k).is_nan());
        }
        assert_eq!(mean_length(dim, f64::INFINITY), 1.0);
        assert_eq!(mean_length_complement(dim, f64::INFINITY), 0.0);
        assert_eq!(concentration_from_mean_length(dim, 0.0), 0.0);
        assert_eq!(concentration_from_mean_length(dim, 1.0), f64::INFINITY);
        assert_eq!(concentration_from_complement(dim, 0.0), f64::INFINITY);
        for r in [-0.1, 1.1, f64::NAN] {
            assert!(concentration_from_mean_length(dim, r).is_nan());
        }
    }
    assert!(mean_length(0, 1.0).is_nan() && ln_peak(0, 1.0).is_nan());
    assert!(ln_bessel_i(-0.1, 1.0).is_nan() && ln_bessel_i(-1.0, 1.0).is_nan() && ln_bessel_i(f64::NAN, 1.0).is_nan());
    for order in [-0.5, 0.0, 7.5] {
        assert_eq!(ln_bessel_i(order, f64::INFINITY), f64::INFINITY);
        assert_eq!(ln_bessel_i_scaled(order, f64::INFINITY), f64::NEG_INFINITY);
    }
    assert_eq!(ln_bessel_i(0.0, 0.0), 0.0);
    assert_eq!(ln_bessel_i(3.0, 0.0), f64::NEG_INFINITY);
}

/// Orders between the half-integers; 25 digits by mpmath.
#[test]
fn real_orders_match_reference_values() {
    for (order, x, expected) in REAL_ORDERS {
        let found = ln_bessel_i(order, x);
        assert!((found - expected).abs() <= 3.0 * f64::EPSILON * expected.abs().max(order).max(1.0), "{order} {x}: {found}");
    }
}

/// Divergences between concentrations that are neither close nor far apart, where differences of
/// logarithms lose digits (mpmath).
#[test]
fn divergences_keep_their_digits_between_close_and_far() {
    for (dim, from, to, expected) in [
        (2, 9.298786345613616, 5.426732274208155, 0.066252316044616333342),
        (4, 26.33, 12.38, 0.32797789663785882974),
        (3, 6.44, 3.29, 0.18114033150520052671),
        (10, 31.18, 16.8, 0.60265174114378530072),
        (30, 16.55, 32.78, 1.8475034304644687368),
    ] {
        assert!(close(divergence(dim, from, to), expected, 1e-15), "d = {dim}: {}", divergence(dim, from, to));
    }
}

/// Orders between whole and half numbers, for which the gamma function is no table (mpmath).
#[test]
fn ln_bessel_i_of_real_orders_is_right_to_three_ulps() {
    for (order, x, expected) in [
        (14.57739634681268, 10.81869794309093, -0.35341864537785338091),
        (15.056642206323458, 1.6980555501008383, -30.474017495225287598),
        (34.029461450942485, 0.019842943838826496, -245.66490305191609769),
        (24.286622568989383, 7.295080934519562, -23.754036986604792014f64),
    ] {
        let ulp = f64::EPSILON * expected.abs().max(order).log2().floor().exp2();
        let error = (ln_bessel_i(order, x) - expected).abs() / ulp;
        assert!(error <= 3.0, "s = {order}, x = {x}: {error} ulp");
    }
}

#[test]
fn slices_equal_their_scalar_functions() {
    let k: Vec<f64> = (0..200).map(|i| 1e-3 * (f64::from(i) * 0.1).exp()).collect();
    let mut out = vec![0.0; k.len()];
    for dim in [2, 3, 20, 768] {
        ln_normalizer_slice(dim, &k, &mut out);
        assert!(k.iter().zip(&out).all(|(&k, &v)| v == ln_normalizer(dim, k)));
        ln_peak_slice(dim, &k, &mut out);
        assert!(k.iter().zip(&out).all(|(&k, &v)| v == ln_peak(dim, k)));
        mean_length_slice(dim, &k, &mut out);
        assert!(k.iter().zip(&out).all(|(&k, &v)| v == mean_length(dim, k)));
        let mut jets = [vec![0.0; k.len()], vec![0.0; k.len()], vec![0.0; k.len()]];
        let [value, first, second] = &mut jets;
        ln_normalizer_derivatives_slice(dim, &k, value, first, second);
        assert!((0..k.len()).all(|i| {
            let jet = ln_normalizer_derivatives(dim, k[i]);
            (value[i], first[i], second[i]) == (jet.value, jet.first, jet.second)
        }));
    }
}

/// Order, argument, ln I.
const REAL_ORDERS: [(f64, f64, f64); 32] = [
    (0.0055, 2.18, 0.95192136343986028257),
    (0.069, 0.0082, -0.34322337019460666943),
    (2.8326, 0.0033, -19.733937023411462357),
    (4.7527, 0.006, -31.980310326301647297),
    (0.7982, 0.1018, -2.3039176060832748313),
    (11.0155, 10.0522, 2.205550579221751537),
    (9.182, 0.0129, -59.524398343206661362),
    (6.4402, 0.0242, -35.848767979708843158),
    (2.072, 0.0034, -13.974008126795335883),
    (2.5728, 43.3889, 40.510618025451782836),
    (9.947, 10.796, 4.2165163217345375375),
    (9.6054, 0.0093, -65.77344071543203075),
    (3.7182, 1.3642, -4.0873350002221548769),
    (8.7827, 18.7604, 14.309759400270246833),
    (10.5606, 0.0027, -86.21825595611242522),
    (7.2702, 2.283, -7.9561850373025340568),
    (6.0714, 0.0077, -40.468409969480942823),
    (5.6831, 0.0028, -43.338862079691252251),
    (11.2151, 21.253, 15.852175000525241448),
    (6.5717, 0.0317, -34.911253276126142008),
    (10.9064, 0.7275, -28.292464812857882706),
    (10.5878, 17.3868, 11.830796157111921276),
    (6.1005, 0.1174, -24.064594775618572272),
    (7.1869, 0.143, -27.863024466390779007),
    (1.9358, 0.0335, -8.5508069522835352027),
    (9.7511, 0.0016, -84.056140249611416936),
    (0.5559, 1.3544, 0.18003839089572544002),
    (3.3652, 0.4711, -7.1216207500080341338),
    (5.6549, 0.0518, -26.602408032567065983),
    (11.9673, 0.0095, -83.925051167513070034),
    (4.9535, 0.0103, -30.807144949119294724),
    (7.592, 0.0241, -43.287844199021622335),
];
