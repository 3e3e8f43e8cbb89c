//! The special functions against the 25-digit tables; every bound is the one the documentation
//! states.

use crate::reference::{Decimal, Worst, rows};
use vmfkit_special::bessel::*;

const TABLE: &str = include_str!("../../../../testdata/reference_public.csv");
const TABLE_D1: &str = include_str!("../../../../testdata/reference_d1.csv");
const PARTITION: &str = include_str!("../../../../testdata/extra_phi_kl_public.csv");
const INVERSE: &str = include_str!("../../../../testdata/inverse_public.csv");
const INVERSE_COMPLEMENT: &str = include_str!("../../../../testdata/inverse_complement_public.csv");
const DIVERGENCE: &str = include_str!("../../../../testdata/kl_public.csv");

#[test]
fn constants_match_the_tables() {
    let mut worst: [Worst; 11] = std::array::from_fn(|_| Worst::new());
    for row in rows(TABLE).chain(rows(TABLE_D1)) {
        let (dim, k): (usize, f64) = (row[0].parse().unwrap(), row[1].parse().unwrap());
        let [log_iv, log_c, peak, a, complement, slope, entropy_] = std::array::from_fn(|i| Decimal::parse(row[i + 2]));
        let place = || format!("d = {dim}, k = {k}");
        let nu = dim as f64 / 2.0 - 1.0;
        let ratio = mean_length_and_slope(dim, k);
        worst[0].see(a.relative_error_of(mean_length(dim, k)), place);
        worst[1].see(a.relative_error_of(ratio.value), place);
        worst[2].see(complement.relative_error_of(ratio.complement), place);
        worst[3].see(slope.relative_error_of(ratio.slope), place);
        if dim >= 20 {
            worst[4].see(slope.relative_error_of(ratio.slope), place);
        }
        worst[5].see(peak.mixed_error_of(ln_peak(dim, k)), place);
        worst[6].see(entropy_.mixed_error_of(entropy(dim, k)), place);
        let scale = [1.0, nu * nu.max(1.0).ln(), k * a.value, peak.value.abs()].into_iter().fold(0.0, f64::max);
        worst[7].see(log_c.error_of(ln_normalizer(dim, k)).abs() / (scale * f64::EPSILON), place);
        let log_i = ln_bessel_i(nu, k);
        if log_iv.value.is_finite() {
            let scale = nu.max(1.0).max(log_iv.value.abs());
            worst[8].see(log_iv.error_of(log_i).abs() / (scale * f64::EPSILON), place);
            if dim > 1 {
                // ln(e^-k I) = ln I - k, from digits that ln I has to spare only while k is small.
                let scaled = ln_bessel_i_scaled(nu, k);
                if k <= 4.0 {
                    worst[9].see((log_iv.error_of(scaled) + k).abs() / (scaled.abs().max(1.0)), place);
                }
                // (k + ln C) + ln(e^-k I) = nu ln k - (d/2) ln 2 pi
                let power = if nu == 0.0 { 0.0 } else { nu * k.ln() };
                let sum = power - (nu + 1.0) * std::f64::consts::TAU.ln();
                let scale = [1.0, scaled.abs(), peak.value.abs(), sum.abs(), power.abs()];
                let scale = scale.into_iter().fold(0.0, f64::max);
                worst[10].see((peak.value + scaled - sum).abs() / scale, place);
            }
        } else {
            assert_eq!(log_i, log_iv.value, "{}", place());
        }
    }
    worst[0].at_most(5e-16, "A");
    worst[1].at_most(5e-16, "A (with 1-A, A')");
    worst[2].at_most(6e-16, "1-A");
    worst[3].at_most(2e-15, "A'");
    worst[4].at_most(1e-15, "A' (d >= 20)");
    worst[5].at_most(1e-15, "k + ln C");
    worst[6].at_most(3e-15, "entropy");
    worst[7].at_most(3.0, "ln C (natural ulps)");
    worst[8].at_most(3.0, "ln I (natural ulps)");
    worst[9].at_most(3e-15, "ln(e^-k I), k <= 4");
    worst[10].at_most(3e-15, "ln(e^-k I) against k + ln C");
}

#[test]
fn partition_and_divergence_from_uniform_match_the_table() {
    let mut worst: [Worst; 3] = std::array::from_fn(|_| Worst::new());
    for row in rows(PARTITION) {
        let (dim, k): (usize, f64) = (row[0].parse().unwrap(), row[1].parse().unwrap());
        let (phi, kl) = (Decimal::parse(row[2]), Decimal::parse(row[3]));
        let place = || format!("d = {dim}, k = {k}");
        worst[0].see(phi.relative_error_of(ln_partition(dim, k)), place);
        let psi = ln_partition_complement(dim, k);
        worst[1].see((ln_partition(dim, k) + psi - k).abs() / k.max(1e-290), place);
        worst[2].see(kl.relative_error_of(divergence_from_uniform(dim, k)), place);
    }
    worst[0].at_most(1e-15, "Phi");
    worst[1].at_most(5e-16, "Phi + Psi = k");
    worst[2].at_most(2e-15, "KL to uniform");
}

#[test]
fn inverses_match_the_tables() {
    let mut worst: [Worst; 2] = std::array::from_fn(|_| Worst::new());
    for (index, (table, invert)) in
        [(INVERSE, concentration_from_mean_length as fn(usize, f64) -> f64), (INVERSE_COMPLEMENT, concentration_from_complement)]
            .into_iter()
            .enumerate()
    {
        for row in rows(table) {
            let (dim, r): (usize, f64) = (row[0].parse().unwrap(), row[1].parse().unwrap());
            let k = Decimal::parse(row[2]);
            worst[index].see(k.relative_error_of(invert(dim, r)), || format!("d = {dim}, input {r}"));
        }
    }
    worst[0].at_most(6e-16, "inverse of R");
    worst[1].at_most(6e-16, "inverse of 1 - R");
}

#[test]
fn divergences_match_the_table() {
    let mut worst = Worst::new();
    for row in rows(DIVERGENCE) {
        let (dim, k1, k2): (usize, f64, f64) = (row[0].parse().unwrap(), row[1].parse().unwrap(), row[2].parse().unwrap());
        let kl = Decimal::parse(row[3]);
        worst.see(kl.relative_error_of(divergence(dim, k1, k2)), || format!("d = {dim}, {k1} to {k2}"));
    }
    worst.at_most(4e-15, "KL");
}
