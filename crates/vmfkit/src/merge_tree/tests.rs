//! Costs against a table of 60 digits, and the search against one that compares all pairs.

use super::agglomerate::{Step, agglomerate};
use super::clusters::{Clusters, Concentrations, Cost};
use crate::density::VonMisesFisher;
use crate::mixture::Mixture;
use crate::sampler::Sampler;
use crate::stats::ComponentSum;

const FREE: Concentrations = Concentrations::Within { smallest: 0.0, largest: 1e10 };
const NARROW: Concentrations = Concentrations::Within { smallest: 30.0, largest: 40.0 };

/// Dimension, mass and shortfall of two clusters and the angle between them; the cost at a tied
/// concentration of 1, at free ones up to 1e10 and at free ones from 30 to 40. From mpmath with 60
/// digits: the difference of the maxima of N (ln C(k) + k) - k (N - |R|).
const COSTS: [(usize, [f64; 5], [f64; 3]); 9] = [
    (3, [5.0, 0.25, 7.0, 0.5, 1e-9], [1.3722222222222224e-18, 0.18099800820407857, 4.1166666666666672e-17]),
    (3, [5.0, 0.25, 7.0, 0.5, 0.5], [0.34114015138472341, 4.6798607942388689, 10.234204541541702]),
    (384, [40.0, 20.0, 60.0, 29.0, 0.7], [2.9437380538938954, 744.31308748570888, 117.74952215575582]),
    (384, [40.0, 20.0, 40.0, 20.0, 1e-8], [5.0000000000000002e-16, 1.2786686725048935e-13, 2.0000000000000001e-14]),
    (10, [1000.0, 1e-6, 1.0, 1e-9, 1e-4], [4.9950049858599489e-9, 22.421626710753472, 1.9980019943439796e-7]),
    (2, [3.0, 1.0, 3.0, 1.0, 3.1], [3.9168206887876303, 3.071701130251367, 117.50462066362891]),
    (20, [0.001, 0.0005, 1000000.0, 500000.0, 1.2], [0.00031882112254448898, 0.0041685160146733677, 0.0095646336763346695]),
    (100, [50.0, 10.0, 50.0, 10.0, 3.0], [74.341023866583767, 5065.9450490790321, 2714.991601325564]),
    (5, [8.0, 7.9, 4.0, 3.9, 2.0], [0.091939538826371934, 0.0069437781219408721, 2.758186164791158]),
];

fn mixture(directions: &[Vec<f64>]) -> Mixture {
    let density = |direction: &Vec<f64>| VonMisesFisher::along(direction.clone(), 5.0).unwrap();
    let densities: Vec<_> = directions.iter().map(density).collect();
    Mixture::new(vec![1.0 / densities.len() as f64; densities.len()], densities).unwrap()
}

#[test]
fn costs_keep_their_digits() {
    for (dim, [mass, shortfall, other_mass, other_shortfall, angle], expected) in COSTS {
        let direction = |angle: f64| {
            let mut direction = vec![0.0; dim];
            (direction[0], direction[1]) = (angle.cos(), angle.sin());
            direction
        };
        let mixture = mixture(&[direction(0.0), direction(angle)]);
        let sums = [ComponentSum::new(mass, shortfall), ComponentSum::new(other_mass, other_shortfall)];
        for (concentrations, expected) in [Concentrations::Tied(1.0), FREE, NARROW].into_iter().zip(expected) {
            let clusters = Clusters::new(&mixture, &sums, concentrations);
            let found = clusters.cost(0, 1, f64::INFINITY);
            assert_eq!(found, clusters.cost(1, 0, f64::INFINITY));
            let error = (found.cost / expected - 1.0).abs();
            assert!(error < 1e-11, "{dim} {angle} {concentrations:?}: {} instead of {expected}, error {error:e}", found.cost);
            // A limit changes nothing but costs above it.
            assert_eq!(clusters.cost(0, 1, found.cost), found);
            assert!(clusters.cost(0, 1, 0.5 * found.cost).cost > 0.5 * found.cost);
        }
    }
}

/// Directions around a few centres, with several masses; some components are equal, and some have
/// no rows.
fn components(dim: usize, number: usize, seed: u64) -> (Mixture, Vec<ComponentSum>) {
    let uniform = Sampler::new(&VonMisesFisher::uniform(dim).unwrap());
    let values = uniform.sample_rows::<f64>(number + 4, seed).unwrap();
    let rows: Vec<&[f64]> = values.chunks_exact(dim).collect();
    let near = |k: usize| rows[k % 4].iter().zip(rows[4 + k]).map(|(x, y)| x + 0.7 * y).collect();
    let mut directions: Vec<Vec<f64>> = (0..number).map(near).collect();
    for k in (7..number).step_by(9) {
        directions[k] = directions[k - 5].clone();
    }
    let mass = |k: usize| if k % 11 == 6 { 0.0 } else { 3.0 + ((7 * k) % 5) as f64 };
    let complement = |k: usize| 0.1 + 0.05 * ((3 * k) % 7) as f64;
    let sums = (0..number).map(|k| ComponentSum::new(mass(k), mass(k) * complement(k))).collect();
    (mixture(&directions), sums)
}

/// All pairs are compared before each merge.
fn by_brute_force(clusters: &mut Clusters) -> Vec<Step> {
    let mut left: Vec<usize> = (0..clusters.components()).collect();
    let mut steps = Vec::new();
    while left.len() > 1 {
        let (mut best, mut pair) = (Cost::INFINITE, (0, 0));
        for (position, first) in left.iter().enumerate() {
            for second in &left[position + 1..] {
                let cost = clusters.cost(*first, *second, f64::INFINITY);
                if cost.compare(&best).is_lt() {
                    (best, pair) = (cost, (*first, *second));
                }
            }
        }
        steps.push(Step { first: pair.0, second: pair.1, cost: best.cost });
        clusters.merge(pair.0, pair.1);
        left.retain(|cluster| *cluster != pair.1);
    }
    steps
}

#[test]
fn the_search_merges_in_the_order_of_brute_force() {
    for (dim, number) in [(2, 1), (2, 2), (2, 40), (3, 9), (3, 150), (20, 60), (60, 25)] {
        for seed in 0..3 {
            let (mixture, sums) = components(dim, number, seed);
            for concentrations in [Concentrations::Tied(12.0), Concentrations::Tied(0.0), FREE, NARROW] {
                let clusters = Clusters::new(&mixture, &sums, concentrations);
                let found = agglomerate(&mut clusters.clone());
                assert_eq!(found, by_brute_force(&mut clusters.clone()), "{dim} {number} {concentrations:?}");
                assert!(found.iter().all(|step| step.cost >= 0.0 && step.first < step.second));
            }
        }
    }
}

#[test]
fn clusters_without_rows_join_the_nearest_one() {
    let directions = [vec![1.0, 0.0], vec![0.0, 1.0], vec![0.1, 1.0], vec![1.0, 0.1]];
    let sums = [(5.0, 1.0), (5.0, 1.0), (0.0, 0.0), (0.0, 0.0)].map(|(mass, shortfall)| ComponentSum::new(mass, shortfall));
    for concentrations in [Concentrations::Tied(12.0), FREE] {
        let steps = agglomerate(&mut Clusters::new(&mixture(&directions), &sums, concentrations));
        let pairs: Vec<_> = steps.iter().map(|step| (step.first, step.second)).collect();
        assert_eq!(pairs, [(0, 3), (1, 2), (0, 1)]);
        assert_eq!((steps[0].cost, steps[1].cost), (0.0, 0.0));
    }
}

#[test]
fn resultants_that_cancel_keep_a_direction() {
    let sums = [ComponentSum::new(5.0, 1.0), ComponentSum::new(5.0, 1.0)];
    for concentrations in [Concentrations::Tied(12.0), FREE] {
        let mut clusters = Clusters::new(&mixture(&[vec![0.6, 0.8], vec![-0.6, -0.8]]), &sums, concentrations);
        clusters.merge(0, 1);
        assert_eq!((clusters.direction(0), clusters.length(0)), (&[0.6, 0.8][..], 0.0));
        assert_eq!((clusters.mass(0), clusters.shortfall(0)), (10.0, 10.0));
    }
}
