//! Calibrated probabilities and conformal p-values, on families of rows with known components.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use vmfkit::calibrate::Basis;
use vmfkit::fit::Fitter;
use vmfkit::metrics::Agreement;
use vmfkit::outlier::{OutlierScope, OutlierTable};
use vmfkit::start::known_labels::KnownLabels;
use vmfkit::store::model::{Description, from_bytes, to_bytes};
use vmfkit::train::Fit;
use vmfkit::{ConcentrationEstimator, ConcentrationPolicy, Maximisation, Mixture, RowBatch, Start, VonMisesFisher};

/// Rows and the component of each.
pub struct Family {
    pub dim: usize,
    pub rows: Vec<f32>,
    pub labels: Vec<u32>,
}

impl Family {
    pub fn batch(&self, from: usize, to: usize) -> RowBatch<'_> {
        RowBatch::new(self.dim, &self.rows[from * self.dim..to * self.dim]).unwrap()
    }

    fn len(&self) -> usize {
        self.labels.len()
    }
}

/// Draws from a mixture of `components` with random directions and this mean length.
fn well_specified(dim: usize, components: usize, mean_length: f64, rows: usize, seed: u64) -> Family {
    let concentration = ConcentrationEstimator::Exact.estimate(dim, mean_length, 1.0 - mean_length);
    let uniform = vmfkit::Sampler::new(&VonMisesFisher::uniform(dim).unwrap());
    let directions = uniform.sample_rows::<f64>(components, seed).unwrap();
    let density = |mu: &[f64]| VonMisesFisher::along(mu.to_vec(), concentration).unwrap();
    let densities = directions.chunks_exact(dim).map(density).collect();
    let mixture = Mixture::new(vec![1.0 / components as f64; components], densities).unwrap();
    let (values, labels) = mixture.sample_rows::<f32>(rows, seed + 1).unwrap();
    Family { dim, rows: values, labels }
}

/// Components whose noise, and the differences of whose directions, lie in the first `noisy` of
/// `dim` dimensions, like those of embeddings. `spread` is the length of the noise; a component is
/// at a distance of 1 from the common direction.
pub fn noise_in_few_dimensions(dim: usize, noisy: usize, components: usize, spread: f64, rows: usize, seed: u64) -> Family {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut normals = |count: usize, scale: f64| -> Vec<f64> {
        let pairs = (0..count.div_ceil(2)).flat_map(|_| {
            let (length, angle) =
                ((-2.0 * f64::ln(1.0 - rng.random::<f64>())).sqrt(), std::f64::consts::TAU * rng.random::<f64>());
            [length * angle.cos(), length * angle.sin()]
        });
        pairs.take(count).map(|x| scale * x).collect()
    };
    let centres: Vec<Vec<f64>> = (0..components).map(|_| normals(noisy, 1.0 / (noisy as f64).sqrt())).collect();
    let mut family = Family { dim, rows: Vec::new(), labels: Vec::new() };
    for row in 0..rows {
        let label = row % components;
        let noise = normals(noisy, spread / (noisy as f64).sqrt());
        let mut values = vec![0.0; dim];
        values[dim - 1] = 1.0;
        values.iter_mut().zip(centres[label].iter().zip(&noise)).for_each(|(x, (mean, noise))| *x = mean + noise);
        let length = values.iter().map(|x| x * x).sum::<f64>().sqrt();
        family.rows.extend(values.iter().map(|x| (x / length) as f32));
        family.labels.push(label as u32);
    }
    family
}

/// The expected calibration error of probabilities: 15 bins.
fn calibration_error(probabilities: &[f64], labels: &[u32], components: usize) -> f64 {
    let mut bins = [(0.0, 0.0); 15];
    for (row, label) in probabilities.chunks_exact(components).zip(labels) {
        let best = (0..components).fold(0, |best, k| if row[k] > row[best] { k } else { best });
        let bin = &mut bins[((row[best] * 15.0) as usize).min(14)];
        *bin = (bin.0 + row[best], bin.1 + f64::from(u8::from(best as u32 == *label)));
    }
    bins.iter().map(|(probability, right): &(f64, f64)| (probability - right).abs()).sum::<f64>() / labels.len() as f64
}

/// The components of a fit, numbered as the true ones that they match; `None` unless they are
/// recovered.
fn matched(fit: &Fit, family: &Family, from: usize, to: usize) -> Option<Vec<u32>> {
    let found = fit.mixture.assign(&family.batch(from, to)).unwrap();
    let truth = &family.labels[from..to];
    let agreement = Agreement::new(truth, &found).unwrap();
    let components = fit.mixture.components().len();
    let mut counts = vec![0; components * components];
    found.iter().zip(truth).for_each(|(&found, &truth)| counts[found as usize * components + truth as usize] += 1);
    let of_component = |row: &[i32]| (0..components).max_by_key(|k| row[*k]).unwrap() as u32;
    (agreement.adjusted_rand_index() >= 0.9).then(|| counts.chunks_exact(components).map(of_component).collect())
}

#[test]
fn rows_that_fit_the_model_keep_the_exact_posterior() {
    // Dispersions of draws are 1 with a standard error far below 0.5, so none of these is tempered.
    for (number, (dim, components, mean_length)) in
        [(3, 2, 0.9), (3, 5, 0.7), (5, 3, 0.5), (20, 10, 0.4), (100, 5, 0.3), (100, 20, 0.6), (384, 10, 0.4)]
            .into_iter()
            .enumerate()
    {
        let family = well_specified(dim, components, mean_length, 4000, 10 + 2 * number as u64);
        let rows = family.batch(0, family.len());
        let fit = Fitter::new(components).seed(1).fit(&rows).unwrap();
        let calibration = fit.calibration.as_ref().unwrap();
        assert_eq!((calibration.basis, calibration.temperature), (Basis::Model, 1.0), "{dim} {components}");
        let exact = fit.mixture.responsibilities(&rows).unwrap();
        assert_eq!(calibration.responsibilities(&fit.mixture, &rows).unwrap(), exact);
    }
}

#[test]
fn probabilities_hold_where_noise_lies_in_few_dimensions() {
    let (mut recovered, mut seed) = (0, 0);
    for (noisy, components, spread) in [(8, 4, 0.4), (20, 12, 0.6), (60, 12, 0.8), (60, 30, 0.9)] {
        seed += 1;
        let family = noise_in_few_dimensions(128, noisy, components, spread, 6000, seed);
        let fit = Fitter::new(components).seed(1).fit(&family.batch(0, 4000)).unwrap();
        let calibration = fit.calibration.as_ref().unwrap();
        assert_eq!(calibration.basis, Basis::Neighbours, "{noisy}: {}", calibration.dispersion);
        let fresh = family.batch(4000, 6000);
        let probabilities = calibration.responsibilities(&fit.mixture, &fresh).unwrap();
        let exact = fit.mixture.responsibilities(&fresh).unwrap();
        // Calibration does not change labels.
        let largest = |row: &[f64]| (0..components).fold(0, |best, k| if row[k] > row[best] { k } else { best }) as u32;
        let labels: Vec<u32> = probabilities.chunks_exact(components).map(largest).collect();
        assert_eq!(labels, fit.mixture.assign(&fresh).unwrap());
        let Some(components_of) = matched(&fit, &family, 4000, 6000) else { continue };
        recovered += 1;
        let truth: Vec<u32> =
            family.labels[4000..].iter().map(|label| components_of.iter().position(|k| k == label).unwrap_or(0) as u32).collect();
        let (raw, calibrated) =
            (calibration_error(&exact, &truth, components), calibration_error(&probabilities, &truth, components));
        println!(
            "noise in {noisy}, {components} components: error {raw:.4} -> {calibrated:.4}, temperature {:.2}",
            calibration.temperature
        );
        assert!(calibrated <= 0.03 && calibrated <= raw + 0.01, "{noisy} {components}: {raw} {calibrated}");
    }
    assert!(recovered >= 3, "{recovered}");
}

#[test]
fn known_labels_calibrate_by_the_labels() {
    let family = noise_in_few_dimensions(128, 20, 12, 1.2, 8000, 3);
    let mut known = KnownLabels::new(128);
    known.add(&family.batch(0, 4000), &family.labels[..4000]).unwrap();
    let (fit, _) = known.fit(&Maximisation::new().policy(ConcentrationPolicy::Shared)).unwrap();
    let calibration = fit.calibration.as_ref().unwrap();
    assert_eq!(calibration.basis, Basis::Labels);
    let fresh = family.batch(4000, 8000);
    let error = |probabilities: Vec<f64>| calibration_error(&probabilities, &family.labels[4000..], 12);
    let raw = error(fit.mixture.responsibilities(&fresh).unwrap());
    let calibrated = error(calibration.responsibilities(&fit.mixture, &fresh).unwrap());
    assert!(calibrated < 0.03 && raw > 0.06, "{raw} {calibrated}");
    // What the sample says of itself holds on fresh rows.
    assert!((calibration.raw.error() - raw).abs() < 0.03 && calibration.calibrated.error() < 0.03);
}

#[test]
fn conformal_p_values_hold_on_fresh_rows() {
    for (seed, family) in [
        well_specified(20, 5, 0.5, 24_000, 3),
        noise_in_few_dimensions(128, 30, 10, 0.8, 24_000, 4),
        noise_in_few_dimensions(64, 8, 40, 0.5, 24_000, 5),
    ]
    .into_iter()
    .enumerate()
    {
        let fit = Fitter::new(10).seed(seed as u64).fit(&family.batch(0, 8000)).unwrap();
        let table = fit.outlier_table.as_ref().unwrap();
        assert_eq!(table.rows(), 8000);
        let fresh = family.batch(8000, 24_000);
        for scope in [OutlierScope::Overall, OutlierScope::Component] {
            let p_values = table.p_values(&fit.mixture, &fresh, scope).unwrap();
            for level in [0.1, 0.01] {
                let flagged = p_values.iter().filter(|p| **p <= level).count() as f64 / p_values.len() as f64;
                // Both the table and the fresh rows are random.
                let error = (level * (1.0 - level) * (1.0 / 8000.0 + 1.0 / 16_000.0)).sqrt();
                let least = if scope == OutlierScope::Overall { 0.7 } else { 0.4 };
                assert!(
                    flagged <= level + 3.0 * error && flagged + 3.0 * error >= least * level,
                    "{seed} {scope} {level}: {flagged}"
                );
            }
        }
    }
}

#[test]
fn p_values_hold_where_single_rows_keep_components_in_place() {
    // 100 rows for each component in 384 dimensions, with so much noise that EM finds what is not
    // there: scores of the rows of the fit are cross-fitted.
    let family = well_specified(384, 10, 0.15, 5000, 21);
    let rows = family.batch(0, 1000);
    let fit = Fitter::new(10).seed(1).fit(&rows).unwrap();
    let rate = |fit: &Fit| {
        let table = fit.outlier_table.as_ref().unwrap();
        let p_values = table.p_values(&fit.mixture, &family.batch(1000, 5000), OutlierScope::Overall).unwrap();
        p_values.iter().filter(|p| **p <= 0.1).count() as f64 / 4000.0
    };
    // Three standard errors of table and new rows.
    let error = 3.0 * (0.09f64 * (1.0 / 1000.0 + 1.0 / 4000.0)).sqrt();
    assert!(rate(&fit) <= 0.1 + error && rate(&fit) + error >= 0.07, "{}", rate(&fit));
    // The closed form alone is not enough.
    let uncalibrated = Fitter::new(10).seed(1).calibrate(false).fit(&rows).unwrap();
    let closed_form = uncalibrated.calibrated(&rows, &Maximisation::new()).unwrap();
    assert!(rate(&closed_form) > 0.1 + error, "{}", rate(&closed_form));
    // Equal rows give equal tables, and a start by labels of all rows cannot be repeated with fewer.
    assert_eq!(Fitter::new(10).seed(1).fit(&rows).unwrap().outlier_table, fit.outlier_table);
    let labels: Vec<u32> = family.labels[..1000].to_vec();
    assert!(Fitter::new(10).start(Start::Labels(labels)).fit(&rows).unwrap().outlier_table.is_some());
}

#[test]
fn components_with_few_rows_have_probabilities_that_are_not_far_too_low() {
    let family = noise_in_few_dimensions(128, 30, 150, 0.5, 6000, 31);
    let fit = Fitter::new(150).seed(1).fit(&family.batch(0, 1500)).unwrap();
    let calibration = fit.calibration.as_ref().unwrap();
    // 10 rows for each component: five neighbours could not all be in it.
    let fresh = family.batch(1500, 6000);
    let largest = calibration.summarise(&fit.mixture, &fresh, 1).unwrap();
    let mean = largest.ranks[0].responsibilities.iter().sum::<f64>() / 4500.0;
    let found = largest.ranks[0].components.clone();
    let agreement = Agreement::new(&family.labels[1500..], &found).unwrap().adjusted_rand_index();
    assert!(agreement > 0.9 && mean > 0.9, "{agreement} {mean} {}", calibration.temperature);
}

#[test]
fn p_values_of_held_out_rows_are_uniform() {
    let family = noise_in_few_dimensions(64, 8, 10, 0.5, 30_000, 9);
    let fit = Fitter::new(10).calibrate(false).fit(&family.batch(0, 1000)).unwrap();
    assert!(fit.calibration.is_none() && fit.outlier_table.is_none());
    let table = OutlierTable::held_out(&fit.mixture, &family.batch(1000, 10_000)).unwrap();
    for scope in [OutlierScope::Overall, OutlierScope::Component] {
        let p_values = table.p_values(&fit.mixture, &family.batch(10_000, 30_000), scope).unwrap();
        for level in [0.5, 0.1, 0.01, 0.001] {
            let flagged = p_values.iter().filter(|p| **p <= level).count() as f64 / 20_000.0;
            let error = (level * (1.0 - level) * (1.0 / 9000.0 + 1.0 / 20_000.0)).sqrt();
            assert!(flagged <= level + 3.0 * error, "{scope} {level}: {flagged}");
        }
    }
}

#[test]
fn calibrations_survive_a_model_file_and_a_source() {
    let family = noise_in_few_dimensions(64, 8, 6, 0.7, 3000, 2);
    let rows = family.batch(0, 3000);
    let fit = Fitter::new(6).background(0.05).seed(3).fit(&rows).unwrap();
    let description = Description::of(&fit);
    let bytes = to_bytes(&fit.mixture, &description);
    assert_eq!(from_bytes(&bytes).unwrap(), (fit.mixture.clone(), description.clone()));
    assert!(description.calibration.is_some() && description.outlier_table.is_some() && description.sums.len() == 7);
    let mut source = vmfkit::source::MemorySource::new(rows);
    let from_source = Fitter::new(6).background(0.05).seed(3).fit_source(&mut source).unwrap();
    assert_eq!(Description::of(&from_source), description);
}

#[test]
fn rows_that_cannot_be_calibrated_with_are_named_and_nothing_fails() {
    // One component; fewer rows than neighbours; equal rows; weights of 0.
    let family = noise_in_few_dimensions(16, 3, 3, 0.9, 600, 2);
    let basis = |fit: &Fit| fit.calibration.as_ref().unwrap().basis;
    assert_eq!(basis(&Fitter::new(1).fit(&family.batch(0, 600)).unwrap()), Basis::OneComponent);
    let few = Fitter::new(3).policy(ConcentrationPolicy::Shared).fit(&family.batch(0, 12)).unwrap();
    assert!(matches!(basis(&few), Basis::FewRows | Basis::Model), "{:?}", basis(&few));
    let equal = [0.6f32, 0.8].repeat(40);
    let fit = Fitter::new(2).fit(&RowBatch::new(2, &equal).unwrap()).unwrap();
    assert_eq!(fit.calibration.as_ref().unwrap().temperature, 1.0);
    let weights: Vec<f64> = (0..600).map(|row| f64::from(u8::from(row < 40))).collect();
    let weighted = family.batch(0, 600).with_weights(weights).unwrap();
    assert!(Fitter::new(3).fit(&weighted).unwrap().calibration.is_some());
}
