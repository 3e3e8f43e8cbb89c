//! Mixtures: what they say of rows, against one density at a time; that they integrate to 1; and
//! what they refuse.

use crate::samples::{draw, ln_sum_exp, logits, paper_mixture, random_mixture, uniform_rows};
use vmfkit::mixture::Summary;
use vmfkit::rows::Scalar;
use vmfkit::{ConcentrationPolicy, Error, Mixture, RowBatch, VonMisesFisher};

const COMPONENTS: [usize; 7] = [1, 7, 8, 9, 16, 17, 33];
const DIMENSIONS: [usize; 6] = [2, 3, 15, 16, 17, 100];
const ROWS: [usize; 6] = [1, 5, 383, 384, 385, 3000];

fn ln_densities(mixture: &Mixture, block: &RowBatch) -> Vec<f64> {
    let mut out = vec![f64::NAN; block.len()];
    mixture.ln_densities_into(block, &mut out).unwrap();
    out
}

fn component_ln_densities(mixture: &Mixture, block: &RowBatch) -> Vec<f64> {
    let mut out = vec![f64::NAN; block.len() * mixture.components().len()];
    mixture.component_ln_densities_into(block, &mut out).unwrap();
    out
}

fn responsibilities(mixture: &Mixture, block: &RowBatch) -> Vec<f64> {
    let mut out = vec![f64::NAN; block.len() * mixture.components().len()];
    mixture.responsibilities_into(block, &mut out).unwrap();
    out
}

fn assign(mixture: &Mixture, block: &RowBatch) -> Vec<u32> {
    let mut out = vec![u32::MAX; block.len()];
    mixture.assign_into(block, &mut out).unwrap();
    out
}

/// Everything a mixture says of rows, against logits taken one component at a time.
fn check_against_reference(mixture: &Mixture, block: &RowBatch, place: &str) {
    let components = mixture.components().len();
    let k = mixture.components().iter().fold(0.0, |k: f64, c| k.max(c.concentration()));
    let tolerance = 1e-13 + 4e-15 * k;
    let near = |what: &str, x: f64, y: f64| assert!((x - y).abs() <= tolerance * (1.0 + y.abs()), "{place}: {what} {x}, not {y}");
    let (totals, shares) = (ln_densities(mixture, block), responsibilities(mixture, block));
    let (parts, winners) = (component_ln_densities(mixture, block), assign(mixture, block));
    for row in 0..block.len() {
        let expected = logits(mixture, &block.row(row));
        let total = ln_sum_exp(&expected);
        near("ln p", totals[row], total);
        for (component, z) in expected.iter().enumerate() {
            near("responsibility", shares[row * components + component], (z - total).exp());
            let ln_weight = mixture.weights()[component].ln();
            near("ln density", parts[row * components + component], z - ln_weight);
        }
        let best = expected.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        assert!(expected[winners[row] as usize] >= best - tolerance * (1.0 + best.abs()), "{place}: row {row}");
    }
    let evaluation = mixture.evaluate(block).unwrap();
    let weight = |row: usize| block.weights().map_or(1.0, |w| w[row]);
    let sum = |of: &dyn Fn(usize) -> f64| (0..block.len()).map(|row| weight(row) * of(row)).sum::<f64>();
    near("weight", evaluation.weight, sum(&|_| 1.0));
    near("likelihood", evaluation.ln_likelihood, sum(&|row| totals[row]));
    near("squares", evaluation.squares, sum(&|row| totals[row] * totals[row]));
    let entropy = |row: usize| {
        let shares = &shares[row * components..][..components];
        -shares.iter().filter(|q| **q > 0.0).map(|q| q * q.ln()).sum::<f64>()
    };
    let scale = 1.0 + evaluation.ln_likelihood.abs();
    assert!((evaluation.entropy - sum(&entropy)).abs() <= 10.0 * tolerance * scale, "{place}: entropy {}", evaluation.entropy);
}

fn check_every_shape<T: Scalar>() {
    for components in COMPONENTS {
        for dim in DIMENSIONS {
            let mixture = random_mixture(components, dim, 10.0 + dim as f64, 1);
            let values: Vec<T> = draw(&mixture, 3000, 2);
            for rows in ROWS {
                let block = RowBatch::new(dim, &values[..rows * dim]).unwrap();
                check_against_reference(&mixture, &block, &format!("K = {components}, d = {dim}, N = {rows}"));
            }
        }
    }
}

#[test]
fn rows_in_double_precision_are_scored_as_by_single_densities() {
    check_every_shape::<f64>();
}

#[test]
fn rows_in_single_precision_are_scored_as_by_single_densities() {
    check_every_shape::<f32>();
}

#[test]
fn one_component_is_its_density() {
    for (dim, k) in [(2, 0.0), (2, 3.0), (3, 500.0), (100, 80.0)] {
        let density = VonMisesFisher::along((0..dim).map(|i| 1.0 + i as f64).collect(), k).unwrap();
        let mixture = Mixture::new(vec![1.0], vec![density.clone()]).unwrap();
        let rows = uniform_rows::<f64>(dim, 500, 3);
        let block = RowBatch::new(dim, &rows).unwrap();
        let mut expected = vec![0.0; 500];
        density.ln_densities_into(&block, &mut expected).unwrap();
        let found = ln_densities(&mixture, &block);
        assert!(found.iter().zip(&expected).all(|(x, y)| (x - y).abs() <= 1e-14 * (10.0 + k + y.abs())));
        assert!(responsibilities(&mixture, &block).iter().all(|q| *q == 1.0));
    }
}

#[test]
fn row_weights_count_in_sums_alone() {
    let mixture = random_mixture(5, 7, 20.0, 4);
    let rows: Vec<f64> = draw(&mixture, 1000, 5);
    let weights: Vec<f64> = (0..1000).map(|i| f64::from(i % 4)).collect();
    let block = RowBatch::new(7, &rows).unwrap();
    let weighted = block.clone().with_weights(&weights).unwrap();
    check_against_reference(&mixture, &weighted, "weighted");
    assert_eq!(ln_densities(&mixture, &block), ln_densities(&mixture, &weighted));
}

#[test]
fn evaluations_add_over_blocks() {
    let mixture = random_mixture(3, 4, 20.0, 6);
    let rows: Vec<f64> = draw(&mixture, 1000, 7);
    let block = RowBatch::new(4, &rows).unwrap();
    let (whole, mut parts) = (mixture.evaluate(&block).unwrap(), mixture.evaluate(&block.slice(0, 300)).unwrap());
    parts.merge(&mixture.evaluate(&block.slice(300, 1000)).unwrap());
    for (x, y) in [(parts.mean(), whole.mean()), (parts.standard_error(), whole.standard_error()), (parts.entropy, whole.entropy)]
    {
        assert!((x / y - 1.0).abs() < 1e-12, "{x} {y}");
    }
    let z = (whole.mean() - mixture.evaluate(&RowBatch::new(4, &draw::<f64>(&mixture, 100_000, 8)).unwrap()).unwrap().mean())
        / whole.standard_error();
    assert!(z.abs() < 4.0, "z = {z}");
}

#[test]
fn the_first_of_equals_is_assigned() {
    let density = VonMisesFisher::new(vec![0.6, 0.8], 3.0).unwrap();
    let mixture = Mixture::new(vec![0.25; 4], vec![density; 4]).unwrap();
    let rows = uniform_rows::<f64>(2, 50, 9);
    assert_eq!(assign(&mixture, &RowBatch::new(2, &rows).unwrap()), [0; 50]);
}

/// On the circle the trapezoidal rule is exact to rounding; on the sphere Gauss and Legendre's
/// would be, uniform heights will do.
#[test]
fn densities_of_mixtures_integrate_to_one() {
    let mixture = random_mixture(4, 2, 30.0, 10).with_background(0.2).unwrap();
    let circle: Vec<f64> =
        (0..4096).flat_map(|i| <[f64; 2]>::from((f64::from(i) * std::f64::consts::TAU / 4096.0).sin_cos())).collect();
    let mean: f64 = ln_densities(&mixture, &RowBatch::new(2, &circle).unwrap()).iter().map(|z| z.exp()).sum::<f64>() / 4096.0;
    assert!((mean * std::f64::consts::TAU - 1.0).abs() < 1e-12, "{mean}");

    let mixture = random_mixture(4, 3, 10.0, 11).with_background(0.1).unwrap();
    let (heights, turns) = (2000, 200);
    let mut sphere = Vec::new();
    for i in 0..heights {
        let z = (2.0 * f64::from(i) + 1.0) / f64::from(heights) - 1.0;
        for j in 0..turns {
            let (sine, cosine) = (f64::from(j) * std::f64::consts::TAU / f64::from(turns)).sin_cos();
            let across = (1.0 - z * z).sqrt();
            sphere.extend([across * cosine, across * sine, z]);
        }
    }
    let found = ln_densities(&mixture, &RowBatch::new(3, &sphere).unwrap());
    let mean = found.iter().map(|z| z.exp()).sum::<f64>() / found.len() as f64;
    assert!((mean * 2.0 * std::f64::consts::TAU - 1.0).abs() < 1e-5, "{mean}");
}

/// Monte Carlo over uniform rows: with another seed it would fail once in 10^4.
#[test]
fn densities_of_mixtures_integrate_to_one_in_ten_dimensions() {
    let mixture = random_mixture(5, 10, 3.0, 12);
    let rows = uniform_rows::<f64>(10, 100_000, 13);
    let ln_uniform = VonMisesFisher::uniform(10).unwrap().ln_peak();
    let ratios: Vec<f64> =
        ln_densities(&mixture, &RowBatch::new(10, &rows).unwrap()).iter().map(|z| (z - ln_uniform).exp()).collect();
    let mean = ratios.iter().sum::<f64>() / 1e5;
    let variance = ratios.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e5;
    let z = (mean - 1.0) / (variance / 1e5).sqrt();
    assert!(z.abs() < 3.9, "mean {mean}, z = {z}");
}

#[test]
fn a_background_is_a_uniform_component_behind_the_others() {
    let plain = random_mixture(3, 4, 50.0, 14);
    let mixture = plain.clone().with_background(0.25).unwrap();
    assert!(mixture.has_background() && mixture.is_background(3) && !mixture.is_background(2));
    assert!(!plain.has_background() && !plain.is_background(2));
    assert_eq!(mixture.weights()[3], 0.25);
    assert_eq!(mixture.components()[3], VonMisesFisher::uniform(4).unwrap());
    let chosen = |policy| vmfkit::Maximisation::new().policy(policy).free_parameters(&mixture);
    assert_eq!(chosen(ConcentrationPolicy::Free), 3 + 3 * 4);
    assert_eq!(chosen(ConcentrationPolicy::Shared), 3 + 3 * 3 + 1);
    assert_eq!(chosen(ConcentrationPolicy::Fixed(50.0)), 3 + 3 * 3);
    let rows: Vec<f64> = draw(&mixture, 500, 15);
    let block = RowBatch::new(4, &rows).unwrap();
    check_against_reference(&mixture, &block, "with background");
    // A background takes the place of another.
    let again = mixture.clone().with_background(0.5).unwrap();
    assert_eq!((again.components().len(), again.weights()[3]), (4, 0.5));
    let back = mixture.without_background();
    assert!(back.weights().iter().zip(plain.weights()).all(|(x, y)| (x - y).abs() < 1e-15));
    assert_eq!(back.components(), plain.components());
    for weight in [-0.1, 1.0, f64::NAN] {
        assert!(matches!(plain.clone().with_background(weight), Err(Error::Option { .. })));
    }
}

#[test]
fn no_concentration_is_too_small_or_too_large() {
    for concentration in [0.0, 1e-300, 1e-3, 1.0, 1e8, 1e15, 1e300] {
        for dim in [2, 3, 50] {
            let mixture = random_mixture(5, dim, concentration, 16);
            let mut rows = uniform_rows::<f64>(dim, 100, 17);
            rows.extend(mixture.components().iter().flat_map(|c| c.mean_direction()));
            let single: Vec<f32> = rows.iter().map(|x| *x as f32).collect();
            for block in [RowBatch::new(dim, &rows).unwrap(), RowBatch::new(dim, &single).unwrap()] {
                let place = format!("d = {dim}, k = {concentration:e}");
                assert!(ln_densities(&mixture, &block).iter().all(|z| z.is_finite()), "{place}");
                assert!(component_ln_densities(&mixture, &block).iter().all(|z| z.is_finite()), "{place}");
                for shares in responsibilities(&mixture, &block).chunks_exact(5) {
                    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{place}: {shares:?}");
                }
                let evaluation = mixture.evaluate(&block).unwrap();
                assert!(evaluation.entropy >= 0.0 && evaluation.mean().is_finite(), "{place}: {evaluation:?}");
            }
        }
    }
}

#[test]
fn a_component_without_weight_has_no_responsibility() {
    let mixture = Mixture::new(vec![0.0, 1.0], random_mixture(2, 3, 5.0, 18).components().to_vec()).unwrap();
    let rows = uniform_rows::<f64>(3, 100, 19);
    let block = RowBatch::new(3, &rows).unwrap();
    assert!(responsibilities(&mixture, &block).chunks_exact(2).all(|q| q == [0.0, 1.0]));
    assert!(component_ln_densities(&mixture, &block).iter().all(|z| z.is_finite()));
    assert_eq!(mixture.evaluate(&block).unwrap().entropy, 0.0);
}

#[test]
fn bad_parts_of_a_mixture_are_named() {
    let parts = || random_mixture(2, 3, 5.0, 20).components().to_vec();
    let error = |weights: &[f64]| Mixture::new(weights.to_vec(), parts()).unwrap_err();
    assert_eq!(error(&[1.0]), Error::ComponentCount { components: 2, weights: 1 });
    assert_eq!(Mixture::new(vec![], vec![]).unwrap_err(), Error::ComponentCount { components: 0, weights: 0 });
    assert_eq!(error(&[1.5, -0.5]), Error::ComponentWeight { component: 1, value: -0.5 });
    assert!(matches!(error(&[f64::NAN, 1.0]), Error::ComponentWeight { component: 0, .. }));
    assert!(matches!(error(&[f64::INFINITY, 1.0]), Error::ComponentWeight { component: 0, .. }));
    assert_eq!(error(&[0.5, 0.6]).to_string(), "the weights of the components must sum to 1, found: `1.1`");
    assert_eq!(error(&[0.0, 0.0]), Error::WeightSum { sum: 0.0 });
    let mixed = vec![VonMisesFisher::uniform(3).unwrap(), VonMisesFisher::uniform(4).unwrap()];
    assert_eq!(Mixture::new(vec![0.5; 2], mixed).unwrap_err(), Error::DimensionMismatch { expected: 3, found: 4 });
    assert!(matches!(error(&[0.5, 0.4999]), Error::WeightSum { .. }));
    // Weights that miss 1 by rounding, that of single precision too, are divided by their sum.
    for excess in [1e-10, 8e-8, -9e-6] {
        let mixture = Mixture::new(vec![0.3 + excess, 0.7], parts()).unwrap();
        assert!((mixture.weights().iter().sum::<f64>() - 1.0).abs() < 1e-15);
    }
}

#[test]
fn rows_of_another_dimension_are_refused() {
    let mixture = paper_mixture();
    let rows = uniform_rows::<f64>(3, 2, 21);
    let block = RowBatch::new(3, &rows).unwrap();
    let expected = Error::DimensionMismatch { expected: 5, found: 3 };
    assert_eq!(mixture.ln_densities_into(&block, &mut [0.0; 2]).unwrap_err(), expected);
    assert_eq!(mixture.assign_into(&block, &mut [0; 2]).unwrap_err(), expected);
    assert_eq!(mixture.evaluate(&block).unwrap_err(), expected);
}

#[test]
fn a_batch_without_rows_has_empty_results() {
    let mixture = paper_mixture();
    let block = RowBatch::new::<f64>(5, &[]).unwrap();
    assert!(ln_densities(&mixture, &block).is_empty() && assign(&mixture, &block).is_empty());
    assert_eq!(mixture.evaluate(&block).unwrap().weight, 0.0);
}

/// Ranks are responsibilities in order, of equals the first component first; a component without
/// weight comes last.
#[test]
fn summaries_rank_the_components_of_each_row() {
    let mixture = random_mixture(9, 4, 3.0, 5).with_background(0.1).unwrap();
    let rows: Vec<f64> = uniform_rows(4, 1000, 6);
    let block = RowBatch::new(4, &rows).unwrap();
    let (shares, labels) = (responsibilities(&mixture, &block), assign(&mixture, &block));
    for top in [0, 1, 3, 10, 99] {
        let Summary { ln_densities: found, ranks, .. } = mixture.summarise(&block, top).unwrap();
        assert_eq!((found, ranks.len()), (ln_densities(&mixture, &block), top.min(10)));
        for (row, shares) in shares.chunks_exact(10).enumerate() {
            let mut order: Vec<usize> = (0..10).collect();
            order.sort_by(|&a, &b| shares[b].total_cmp(&shares[a]));
            for (rank, &component) in ranks.iter().zip(&order) {
                assert_eq!(
                    (rank.components[row], rank.responsibilities[row]),
                    (component as u32, shares[component]),
                    "row {row}"
                );
            }
        }
        assert!(ranks.first().is_none_or(|first| first.components == labels));
    }
    let twins = Mixture::new(vec![0.0, 0.5, 0.5], vec![VonMisesFisher::new(vec![1.0, 0.0], 2.0).unwrap(); 3]).unwrap();
    let summary = twins.summarise(&RowBatch::new(2, &[0.6, 0.8]).unwrap(), 3).unwrap();
    assert_eq!(summary.ranks.iter().map(|rank| rank.components[0]).collect::<Vec<_>>(), [1, 2, 0]);
    assert!(summary.ranks[2].responsibilities[0] == 0.0 && (summary.entropies[0] - 2f64.ln()).abs() < 1e-15);
    let none = mixture.summarise(&block.slice(0, 0), 2).unwrap();
    assert_eq!((none.ln_densities.len(), none.ranks[1].components.len()), (0, 0));
}
