//! The Kolmogorov-Smirnov test, for tests of samplers.

/// The p-value of the hypothesis that values are uniform on [0, 1], from the asymptotic
/// distribution with Stephens' correction.
pub fn uniformity_p_value(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len() as f64;
    let distance = values.iter().enumerate().fold(0.0f64, |worst, (i, &u)| {
        assert!((0.0..=1.0).contains(&u), "{u} is not a probability");
        worst.max(u - i as f64 / n).max((i + 1) as f64 / n - u)
    });
    let lambda = (n.sqrt() + 0.12 + 0.11 / n.sqrt()) * distance;
    if lambda < 0.2 {
        return 1.0;
    }
    let series = (1..100).map(|j| {
        let j = f64::from(j);
        let sign = if j % 2.0 == 1.0 { 1.0 } else { -1.0 };
        sign * (-2.0 * j * j * lambda * lambda).exp()
    });
    (2.0 * series.sum::<f64>()).clamp(0.0, 1.0)
}

#[test]
fn uniform_values_are_accepted_and_others_rejected() {
    let even: Vec<f64> = (0..1000).map(|i| (f64::from(i) + 0.5) / 1000.0).collect();
    assert!(uniformity_p_value(even.clone()) > 0.99);
    assert!(uniformity_p_value(even.iter().map(|u| u.powf(1.2)).collect()) < 1e-3);
    // The 95 % quantile of the asymptotic distribution is 1.358.
    let shifted: Vec<f64> = even.iter().map(|u| (u + 1.358 / 1000f64.sqrt() - 0.0005).min(1.0)).collect();
    assert!((uniformity_p_value(shifted) - 0.05).abs() < 0.01);
}
