//! Draws follow the distribution of their projections. Seeds are fixed, so the tests are
//! deterministic; with random seeds each test of a p-value would fail once in 10^4.

use crate::kolmogorov::uniformity_p_value;
use vmfkit::{ProjectionLaw, RowBatch, Sampler, VonMisesFisher};

const REJECT: f64 = 1e-4;

fn draw(density: &VonMisesFisher, seed: u64, rows: usize) -> Vec<f64> {
    let mut out = vec![f64::NAN; rows * density.dim()];
    Sampler::new(density).fill(seed, 0, &mut out).unwrap();
    out
}

fn axis(dim: usize, index: usize, sign: f64) -> Vec<f64> {
    let mut axis = vec![0.0; dim];
    axis[index] = sign;
    axis
}

/// A direction without symmetries.
fn oblique(dim: usize) -> Vec<f64> {
    (0..dim).map(|i| (1.0 + i as f64 * 0.7).sin() + 0.1).collect()
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// Covers every branch: d = 2, d = 3 and both proposals for d >= 4, at concentrations from 0 to
/// 1e30.
#[test]
fn projections_follow_their_law() {
    let mut seed = 0;
    for (dim, rows) in [(2, 20_000), (3, 20_000), (4, 20_000), (5, 20_000), (17, 20_000), (100, 10_000), (4096, 1_000)] {
        let scale = dim as f64;
        // 0.19 d and 0.23 d are on both sides of the cut-off between the proposals.
        for k in [0.0, 1e-300, 1e-9, 0.3, 2.0, 0.19 * scale, 0.23 * scale, scale, 30.0 * scale, 1e6, 1e15, 1e30] {
            for mu in [axis(dim, 0, 1.0), axis(dim, 0, -1.0), oblique(dim)] {
                // For k = 1e30 and an oblique mu, coordinates of f64 are too coarse.
                if k == 1e30 && mu[1] != 0.0 {
                    continue;
                }
                seed += 1;
                let density = VonMisesFisher::along(mu, k).unwrap();
                let rows = draw(&density, seed, rows);
                let block = RowBatch::new(dim, &rows).unwrap();
                let mut deviations = vec![0.0; block.len()];
                density.deviations_into(&block, &mut deviations).unwrap();
                let law = density.projection();
                let p = uniformity_p_value(deviations.iter().map(|s| law.deviation_cdf(s.min(2.0))).collect());
                assert!(p > REJECT, "d = {dim}, k = {k}, mu_1 = {}: p = {p}", density.mean_direction()[0]);
            }
        }
    }
}

/// The component orthogonal to mu has a uniform direction, independent of the projection.
#[test]
fn tangents_are_uniform() {
    for (seed, dim, rows) in [(1, 3, 20_000), (2, 4, 20_000), (3, 5, 20_000), (4, 100, 10_000), (5, 4096, 1_000)] {
        for mu in [axis(dim, 0, 1.0), axis(dim, 0, -1.0), axis(dim, 1, 1.0), oblique(dim)] {
            let density = VonMisesFisher::along(mu, 2.0 * dim as f64).unwrap();
            let mu = density.mean_direction();
            let law = ProjectionLaw::new(dim - 1, 0.0).unwrap();
            // Two fixed directions orthogonal to mu.
            for probe in [axis(dim, dim - 1, 1.0), (0..dim).map(|i| (i as f64).cos()).collect()] {
                let along = dot(&probe, mu);
                let mut probe: Vec<f64> = probe.iter().zip(mu).map(|(p, m)| p - along * m).collect();
                let length = norm(&probe);
                probe.iter_mut().for_each(|x| *x /= length);
                let rows = draw(&density, seed, rows);
                let (mut levels, mut heights, mut products) = (Vec::new(), Vec::new(), 0.0);
                for row in rows.chunks_exact(dim) {
                    let t = dot(row, mu);
                    let across = (1.0 - t * t).sqrt();
                    let height = (dot(row, &probe) / across).clamp(-1.0, 1.0);
                    levels.push(law.cdf(height));
                    heights.push(t);
                    products += t * height;
                }
                let p = uniformity_p_value(levels);
                assert!(p > REJECT, "d = {dim}: p = {p}");
                // t and the tangent are independent, so their product has mean 0 and a known
                // variance.
                let n = heights.len() as f64;
                let square: f64 = heights.iter().map(|t| t * t).sum::<f64>() / n;
                let z = products / (n * square / (dim as f64 - 1.0)).sqrt();
                assert!(z.abs() < 5.0, "d = {dim}: z = {z}");
            }
        }
    }
    // On the circle the tangent is a sign.
    let density = VonMisesFisher::new(vec![0.6, 0.8], 3.0).unwrap();
    let on_one_side = draw(&density, 9, 40_000).chunks_exact(2).filter(|x| x[0] * 0.8 - x[1] * 0.6 > 0.0).count();
    assert!((on_one_side as f64 - 20_000.0).abs() < 4.0 * 100.0, "{on_one_side} of 40000 on one side");
}

#[test]
fn first_two_moments_are_right() {
    for (dim, k) in [(2, 1.5), (3, 4.0), (5, 10.0), (100, 80.0)] {
        let density = VonMisesFisher::along(oblique(dim), k).unwrap();
        let n = 50_000;
        let rows = draw(&density, 3, n);
        let (mean, covariance) = (density.mean(), density.covariance());
        let mut sums = vec![0.0; dim];
        let (mut first, mut cross) = (0.0, 0.0);
        for row in rows.chunks_exact(dim) {
            sums.iter_mut().zip(row).for_each(|(s, x)| *s += x);
            first += (row[0] - mean[0]).powi(2);
            cross += (row[0] - mean[0]) * (row[1] - mean[1]);
        }
        for i in 0..dim {
            let z = (sums[i] / n as f64 - mean[i]) / (covariance[i * dim + i] / n as f64).sqrt();
            assert!(z.abs() < 5.0, "d = {dim}, mean of coordinate {i}: z = {z}");
        }
        // The variance of the product of two coordinates is about that of a pair of normals.
        let (v0, v1) = (covariance[0], covariance[dim + 1]);
        assert!((first / n as f64 - v0).abs() < 5.0 * v0 * (3.0 / n as f64).sqrt(), "d = {dim}, variance");
        assert!((cross / n as f64 - covariance[1]).abs() < 5.0 * (2.0 * v0 * v1 / n as f64).sqrt(), "d = {dim}, covariance");
    }
}

#[test]
fn draws_are_unit_rows_at_every_concentration() {
    for dim in [2, 3, 4, 50, 1000] {
        for k in [0.0, 1e-300, 1.0, 1e10, 1e30, 1e100, 1e300] {
            for mu in [axis(dim, 0, 1.0), axis(dim, 0, -1.0), oblique(dim)] {
                let density = VonMisesFisher::along(mu, k).unwrap();
                for row in draw(&density, 1, 50).chunks_exact(dim) {
                    assert!((norm(row) - 1.0).abs() < 1e-14, "d = {dim}, k = {k}: length {}", norm(row));
                }
            }
        }
    }
}

#[test]
fn rows_depend_only_on_seed_and_row_number() {
    for dim in [2, 3, 7, 500, 40_000] {
        let density = VonMisesFisher::along(oblique(dim), dim as f64).unwrap();
        let sampler = Sampler::new(&density);
        let rows = if dim > 1000 { 8 } else { 300_000 / dim };
        let all = draw(&density, 42, rows);
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| draw(&density, 42, rows))
        };
        assert!(on(1) == all && on(5) == all, "threads change the draws at d = {dim}");
        for first in [0, 1, 3, rows / 2, rows - 2] {
            let mut part = vec![0.0; 2 * dim];
            sampler.fill(42, first as u64, &mut part).unwrap();
            assert!(part == all[first * dim..(first + 2) * dim], "rows from {first} at d = {dim}");
        }
        let mut single = vec![0f32; rows * dim];
        sampler.fill(42, 0, &mut single).unwrap();
        assert!(single.iter().zip(&all).all(|(x, y)| *x == *y as f32), "f32 draws are the f64 draws rounded");
        assert_ne!(draw(&density, 43, 2), all[..2 * dim]);
    }
}

#[test]
fn single_draws_from_a_generator_follow_the_law() {
    use rand_xoshiro::rand_core::SeedableRng;
    for dim in [2, 3, 10] {
        let density = VonMisesFisher::along(oblique(dim), 5.0).unwrap();
        let (sampler, law) = (Sampler::new(&density), density.projection());
        let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(dim as u64);
        let mut row = vec![0.0; dim];
        let levels = (0..5_000).map(|_| {
            sampler.draw(&mut rng, &mut row).unwrap();
            law.cdf(dot(&row, density.mean_direction()).min(1.0))
        });
        assert!(uniformity_p_value(levels.collect()) > REJECT);
    }
}

/// Pins a few draws. Name any change of them in CHANGELOG.
#[test]
fn value_stability() {
    for (dim, expected) in [
        (2, [0.9046359209278774, 0.6774794280825526]),
        (3, [0.11361164271742591, 0.8489464807502173]),
        (6, [0.7004904839206517, 0.47592993346360846]),
    ] {
        let density = VonMisesFisher::along(oblique(dim), 10.0).unwrap();
        let rows = draw(&density, 2021, 100);
        let found = [rows[0], rows[99 * dim + 1]];
        // The logarithms of different platforms may differ by one ulp.
        assert!(found.iter().zip(expected).all(|(x, y): (&f64, f64)| (x - y).abs() < 1e-14), "d = {dim}: {found:?}");
    }
}

/// k s tends to half the square of a normal in d - 1 dimensions. From a quarter of the largest f64
/// on, 4k overflows.
#[test]
fn draws_are_right_at_the_largest_concentrations() {
    const ROWS: usize = 20_000;
    for dim in [2, 3, 4, 10] {
        for k in [1e290, 1.1e300, f64::MAX / 4.0, f64::MAX / 4.0 * 1.0000001, 4.6e307, f64::MAX / 2.0, f64::MAX] {
            let rows = draw(&VonMisesFisher::new(axis(dim, 0, 1.0), k).unwrap(), 1, ROWS);
            let scaled = |row: &[f64]| row[1..].iter().map(|x| (x * k.sqrt()).powi(2)).sum::<f64>();
            let mean = rows.chunks_exact(dim).map(scaled).sum::<f64>() / ROWS as f64;
            let expected = (dim - 1) as f64;
            // The square has the variance 2 (d - 1).
            let error = (2.0 * expected / ROWS as f64).sqrt();
            assert!((mean - expected).abs() < 5.0 * error, "{dim} {k}: {mean}");
        }
    }
}

#[test]
fn slices_of_partial_rows_are_errors() {
    let density = VonMisesFisher::new(vec![1.0, 0.0], 1.0).unwrap();
    let error = Sampler::new(&density).fill(0, 0, &mut [0.0; 5]).unwrap_err();
    assert_eq!(error.to_string(), "5 values do not fill rows of dimension 2, left over: `1`");
}
