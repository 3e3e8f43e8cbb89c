//! Draws from a mixture. Seeds are fixed, so nothing here is flaky; with other seeds each test of a
//! p-value would fail once in 10^4.

use crate::kolmogorov::uniformity_p_value;
use crate::samples::{draw, on_threads, paper_mixture, random_mixture};
use vmfkit::{Error, Mixture, RowBatch, VonMisesFisher};

/// |z| of a standard normal is above this once in 10^4.
const FAR: f64 = 3.9;

#[test]
fn components_are_drawn_by_their_weights() {
    let mixture = random_mixture(7, 4, 10.0, 1).with_background(0.1).unwrap();
    let rows = 200_000;
    let (mut values, mut labels) = (vec![0.0; rows * 4], vec![0; rows]);
    mixture.fill(2, 0, &mut values, &mut labels).unwrap();
    for (k, weight) in mixture.weights().iter().enumerate() {
        let count = labels.iter().filter(|label| **label as usize == k).count() as f64;
        let z = (count - rows as f64 * weight) / (rows as f64 * weight * (1.0 - weight)).sqrt();
        assert!(z.abs() < FAR, "component {k}: z = {z}");
    }
    // A row says nothing of the label of the next one.
    let pairs = labels.windows(2).filter(|pair| pair[0] == pair[1]).count() as f64 / (rows as f64 - 1.0);
    let expected: f64 = mixture.weights().iter().map(|w| w * w).sum();
    let z = (pairs - expected) / (expected * (1.0 - expected) / rows as f64).sqrt();
    assert!(z.abs() < 2.0 * FAR, "neighbours: z = {z}");
}

#[test]
fn rows_follow_the_law_of_their_component() {
    for dim in [2, 3, 5, 40] {
        let mixture = random_mixture(3, dim, 3.0 * dim as f64, 3).with_background(0.2).unwrap();
        let rows = 20_000;
        let (mut values, mut labels) = (vec![0.0; rows * dim], vec![0; rows]);
        mixture.fill(4, 0, &mut values, &mut labels).unwrap();
        let block = RowBatch::new(dim, &values).unwrap();
        for (k, component) in mixture.components().iter().enumerate() {
            let mut deviations = vec![0.0; rows];
            component.deviations_into(&block, &mut deviations).unwrap();
            let law = component.projection();
            let own = deviations.iter().zip(&labels).filter(|(_, label)| **label as usize == k);
            let p = uniformity_p_value(own.map(|(s, _)| law.deviation_cdf(s.min(2.0))).collect());
            assert!(p > 1e-4, "d = {dim}, component {k}: p = {p}");
        }
    }
}

#[test]
fn a_row_depends_on_the_seed_and_its_number_alone() {
    for dim in [2, 3, 5] {
        let mixture = random_mixture(4, dim, 20.0, 5);
        let (mut rows, mut labels) = (vec![0.0; 1000 * dim], vec![0; 1000]);
        on_threads(1, || mixture.fill(6, 0, &mut rows, &mut labels).unwrap());
        for (first, count) in [(0u64, 1), (999, 1), (17, 500), (383, 2)] {
            let (mut part, mut part_labels) = (vec![0.0; count * dim], vec![0; count]);
            on_threads(3, || mixture.fill(6, first, &mut part, &mut part_labels).unwrap());
            assert_eq!(part, rows[first as usize * dim..][..count * dim]);
            assert_eq!(part_labels, labels[first as usize..][..count]);
        }
        assert_ne!(draw::<f64>(&mixture, 1000, 7), rows);
        // Single precision rounds the same draws.
        assert_eq!(draw::<f32>(&mixture, 1000, 6), rows.iter().map(|x| *x as f32).collect::<Vec<_>>());
    }
}

#[test]
fn components_without_weight_are_never_drawn() {
    let mixture = Mixture::new(vec![0.0, 1.0, 0.0], random_mixture(3, 3, 5.0, 8).components().to_vec()).unwrap();
    let mut labels = vec![0; 5000];
    mixture.fill(9, 0, &mut vec![0f32; 15_000], &mut labels).unwrap();
    assert!(labels.iter().all(|label| *label == 1));
}

#[test]
fn draws_fill_whole_rows_only() {
    assert_eq!(paper_mixture().fill(1, 0, &mut [0f32; 7], &mut [0]).unwrap_err(), Error::PartialRow { values: 7, dim: 5 });
    paper_mixture().fill::<f64>(1, 0, &mut [], &mut []).unwrap();
}

/// Changing these changes what a seed draws, which the changelog must name.
#[test]
fn draws_are_pinned() {
    let density = |mu: [f64; 2], k| VonMisesFisher::new(mu.to_vec(), k).unwrap();
    let mixture = Mixture::new(vec![0.5; 2], vec![density([1.0, 0.0], 2.0), density([0.0, -1.0], 50.0)]).unwrap();
    let (mut rows, mut labels) = ([0f64; 6], [0; 3]);
    mixture.fill(42, 0, &mut rows, &mut labels).unwrap();
    let expected = [
        0.07477910757368114,
        -0.9972001228792965,
        0.9067625525045692,
        -0.42164164094097545,
        0.049384671755440465,
        -0.9987798326936759,
    ];
    assert!(rows.iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-14), "{rows:?}");
    assert_eq!(labels, [1, 0, 1]);
}
