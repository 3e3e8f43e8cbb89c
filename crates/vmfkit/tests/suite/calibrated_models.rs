//! Models that are calibrated after their fit, with its rows or with held-out rows.

use crate::calibration::noise_in_few_dimensions;
use std::ops::ControlFlow;
use vmfkit::calibrate::{Basis, Calibration};
use vmfkit::fit::calibrated_model::CalibrationRows;
use vmfkit::outlier::{OutlierScope, OutlierTable};
use vmfkit::source::MemorySource;
use vmfkit::start::known_labels::KnownLabels;
use vmfkit::store::model::{Description, from_bytes, to_bytes};
use vmfkit::train::Fit;
use vmfkit::{ConcentrationPolicy, Error, Fitter, Maximisation, Method, Mixture, Result, RowBatch, VonMisesFisher};

fn calibrated(
    mixture: &Mixture,
    description: &Description,
    rows: RowBatch,
    kind: CalibrationRows,
) -> Result<(Calibration, OutlierTable)> {
    let found = kind.calibration(mixture, description, &mut MemorySource::new(rows), &mut |_| ControlFlow::Continue(()));
    found.map(|found| found.expect("it is never cancelled"))
}

#[test]
fn the_rows_of_the_fit_give_the_calibration_of_the_fit() {
    let family = noise_in_few_dimensions(48, 8, 6, 0.6, 20_000, 2);
    let weights: Vec<f64> = (0..20_000).map(|row| 1.0 + f64::from(row % 3)).collect();
    for (fitter, rows) in [
        (Fitter::new(6).seed(3), family.batch(0, 3000)),
        (Fitter::new(6).seed(3).policy(ConcentrationPolicy::Free).background(0.05), family.batch(0, 3000)),
        (Fitter::new(6).method(Method::HardEm), family.batch(0, 3000).with_weights(&weights[..3000]).unwrap()),
        (Fitter::new(6).method(Method::KMeans), family.batch(0, 3000)),
        // More rows than the sample has.
        (Fitter::new(6).seed(1).search(false).sample(2000), family.batch(0, 20_000)),
        (Fitter::new(6).seed(1).search(false).sample(2000), family.batch(0, 20_000).with_weights(&weights).unwrap()),
    ] {
        let fit_with = |calibrate: bool| -> Fit {
            let settings = fitter.settings(48);
            let same = Fitter::of_settings(&settings).unwrap().calibrate(calibrate);
            same.fit_source(&mut MemorySource::new(rows.clone()).batches(700)).unwrap()
        };
        let (with, without) = (fit_with(true), fit_with(false));
        assert!(without.calibration.is_none() && without.outlier_table.is_none());
        // As a model file has it.
        let bytes = to_bytes(&without.mixture, &Description::of(&without));
        let (mixture, description) = from_bytes(&bytes).unwrap();
        let (calibration, table) = calibrated(&mixture, &description, rows, CalibrationRows::OfFit).unwrap();
        assert_eq!((Some(calibration), Some(table)), (with.calibration, with.outlier_table));
    }
}

#[test]
fn held_out_rows_give_p_values_that_hold() {
    let family = noise_in_few_dimensions(64, 8, 10, 0.5, 30_000, 9);
    let fit = Fitter::new(10).fit(&family.batch(0, 1000)).unwrap();
    let held_out = family.batch(1000, 10_000);
    let mut description = Description::of(&fit);
    let (calibration, table) = calibrated(&fit.mixture, &description, held_out.clone(), CalibrationRows::HeldOut).unwrap();
    assert!(calibration.basis == Basis::Neighbours && calibration.temperature > 2.0, "{calibration}");
    assert!(table.is_held_out() && !fit.outlier_table.unwrap().is_held_out());
    assert_eq!(table, OutlierTable::held_out(&fit.mixture, &held_out).unwrap());
    let from_source = |flow| OutlierTable::held_out_source(&fit.mixture, &mut MemorySource::new(held_out.clone()), &mut |_| flow);
    assert_eq!(from_source(ControlFlow::Continue(())).unwrap().as_ref(), Some(&table));
    assert_eq!(from_source(ControlFlow::Break(())).unwrap(), None);
    let p_values = table.p_values(&fit.mixture, &family.batch(10_000, 30_000), OutlierScope::Overall).unwrap();
    for level in [0.1, 0.01] {
        let flagged = p_values.iter().filter(|p| **p <= level).count() as f64 / 20_000.0;
        let error = (level * (1.0 - level) * (1.0 / 9000.0 + 1.0 / 20_000.0)).sqrt();
        assert!((flagged - level).abs() <= 3.0 * error, "{level}: {flagged}");
    }
    // A model file says that the rows were held out.
    (description.calibration, description.outlier_table) = (Some(calibration), Some(table));
    assert_eq!(from_bytes(&to_bytes(&fit.mixture, &description)).unwrap().1, description);
}

#[test]
fn mixtures_that_do_not_say_how_they_were_fitted_are_calibrated() {
    let family = noise_in_few_dimensions(32, 6, 5, 0.6, 6000, 4);
    let rows = family.batch(0, 3000);
    let fit = Fitter::new(5).fit(&rows).unwrap();
    let expected = fit.calibration.unwrap();
    let (calibration, table) = calibrated(&fit.mixture, &Description::default(), rows, CalibrationRows::OfFit).unwrap();
    assert!((calibration.temperature / expected.temperature - 1.0).abs() < 1e-9, "{calibration}\n{expected}");
    let flagged = |table: &OutlierTable| {
        let p_values = table.p_values(&fit.mixture, &family.batch(3000, 6000), OutlierScope::Overall).unwrap();
        p_values.iter().filter(|p| **p <= 0.1).count()
    };
    assert!(flagged(&table).abs_diff(flagged(&fit.outlier_table.unwrap())) < 30);
    // A mixture of known labels has settings of its own.
    let mut known = KnownLabels::new(32).uncalibrated();
    known.add(&family.batch(0, 3000), &family.labels[..3000]).unwrap();
    let (fit, _) = known.fit(&Maximisation::new().policy(ConcentrationPolicy::Shared)).unwrap();
    let (calibration, _) =
        calibrated(&fit.mixture, &Description::of(&fit), family.batch(0, 3000), CalibrationRows::OfFit).unwrap();
    assert_eq!(calibration.basis, Basis::Neighbours);
}

#[test]
fn rows_that_cannot_calibrate_a_model_are_named() {
    let family = noise_in_few_dimensions(16, 3, 3, 0.9, 600, 2);
    let fit = Fitter::new(3).calibrate(false).fit(&family.batch(0, 600)).unwrap();
    let one = Fitter::new(1).calibrate(false).fit(&family.batch(0, 600)).unwrap();
    let description = Description::of(&fit);
    for kind in [CalibrationRows::OfFit, CalibrationRows::HeldOut] {
        let basis = |mixture: &Mixture, rows| calibrated(mixture, &description, rows, kind).unwrap().0;
        let single = basis(&one.mixture, family.batch(0, 600));
        assert_eq!(single.to_string(), "not calibrated, because there is one component");
        let few = basis(&fit.mixture, family.batch(0, 5));
        assert!(matches!(few.basis, Basis::FewRows | Basis::Model) && few.temperature == 1.0, "{few}");
        // Copies are no neighbours of each other.
        let equal = family.rows[..16].repeat(40);
        let equal = basis(&fit.mixture, RowBatch::new(16, &equal).unwrap());
        assert!(matches!(equal.basis, Basis::FewRows | Basis::Model) && equal.temperature == 1.0, "{equal}");
        // The largest weights, with rows of weight 0 among them.
        let weights: Vec<f64> = (0..600).map(|row| if row % 2 == 0 { 1e100 } else { 0.0 }).collect();
        let heavy = basis(&fit.mixture, family.batch(0, 600).with_weights(&weights).unwrap());
        assert!(heavy.temperature.is_finite() && heavy.dispersion.is_finite(), "{heavy:?}");
        let nothing = family.batch(0, 600).with_weights(vec![0.0; 600]).unwrap();
        assert_eq!(calibrated(&fit.mixture, &description, nothing, kind).unwrap_err(), Error::NoRows { weight: 0.0 });
        let flat = calibrated(&fit.mixture, &description, RowBatch::new(2, &[0.6, 0.8]).unwrap(), kind);
        assert_eq!(flat.unwrap_err(), Error::DimensionMismatch { expected: 16, found: 2 });
        let mut source = MemorySource::new(family.batch(0, 600));
        let stopped = kind.calibration(&fit.mixture, &description, &mut source, &mut |_| ControlFlow::Break(()));
        assert_eq!(stopped.unwrap(), None);
    }
    assert!(family.batch(0, 1).with_weights(vec![1e299]).is_err());
}

#[test]
fn the_heaviest_rows_of_more_than_the_sample_holds_are_calibrated_with() {
    let density = |mu: [f64; 3]| VonMisesFisher::new(mu.to_vec(), 30.0).unwrap();
    let mixture = Mixture::new(vec![0.5, 0.5], vec![density([1.0, 0.0, 0.0]), density([0.0, 1.0, 0.0])]).unwrap();
    let (rows, _) = mixture.sample_rows::<f64>(3000, 1).unwrap();
    let heavy = RowBatch::new(3, &rows).unwrap().with_weights(vec![1e100; 3000]).unwrap();
    let fit = Fitter::new(2).sample(500).fit_source(&mut MemorySource::new(heavy)).unwrap();
    assert_eq!(fit.calibration.unwrap().basis, Basis::Model);
    assert_eq!(fit.outlier_table.unwrap().rows(), 500);
}

#[test]
fn a_calibration_in_words_says_what_was_found() {
    let family = noise_in_few_dimensions(64, 8, 6, 0.7, 2000, 2);
    let fit = Fitter::new(6).fit(&family.batch(0, 2000)).unwrap();
    let said = fit.calibration.unwrap().to_string();
    for words in [
        "calibrated by neighbours, temperature ",
        " times as much along their mean directions as the model allows",
        " before and 0.0",
    ] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_row_of_weight_2_calibrates_like_a_row_given_twice() {
    let (dim, family) = (32, noise_in_few_dimensions(32, 6, 5, 0.9, 400, 4));
    let copies: Vec<usize> = (0..400).map(|row| row * 7 % 4).collect();
    let weights: Vec<f64> = copies.iter().map(|count| *count as f64).collect();
    let weighted = family.batch(0, 400).with_weights(weights).unwrap();
    let of_row = |row: usize| family.rows[row * dim..(row + 1) * dim].to_vec();
    let repeated: Vec<f32> = (0..400).flat_map(|row| of_row(row).repeat(copies[row])).collect();
    let repeated = RowBatch::new(dim, &repeated).unwrap();
    let labels: Vec<u32> = (0..400).flat_map(|row| vec![family.labels[row]; copies[row]]).collect();
    let by_labels = |rows: &RowBatch, labels: &[u32]| {
        let mut known = KnownLabels::new(dim);
        known.add(rows, labels).unwrap();
        known.fit(&Maximisation::new().policy(ConcentrationPolicy::Shared)).unwrap().0
    };
    let (one, other) = (by_labels(&weighted, &family.labels), by_labels(&repeated, &labels));
    let held_out =
        |rows: &RowBatch| calibrated(&one.mixture, &Description::default(), rows.clone(), CalibrationRows::HeldOut).unwrap().0;
    for (basis, one, other) in [
        (Basis::Labels, one.calibration.clone().unwrap(), other.calibration.unwrap()),
        (Basis::Neighbours, held_out(&weighted), held_out(&repeated)),
    ] {
        assert_eq!((one.basis, other.basis), (basis, basis));
        assert!((one.temperature / other.temperature - 1.0).abs() < 1e-5, "{one}\n{other}");
        assert!((one.dispersion / other.dispersion - 1.0).abs() < 1e-5, "{one}\n{other}");
    }
}

#[test]
fn priors_weigh_the_rows_of_a_calibration() {
    let family = noise_in_few_dimensions(32, 6, 4, 0.9, 4000, 4);
    // Three quarters of the rows of the first two labels are missing.
    let kept: Vec<usize> = (0..4000).filter(|row| family.labels[*row] > 1 || row % 16 < 4).collect();
    let rows: Vec<f32> = kept.iter().flat_map(|row| family.rows[row * 32..(row + 1) * 32].to_vec()).collect();
    let labels: Vec<u32> = kept.iter().map(|row| family.labels[*row]).collect();
    let fit = |priors: Option<Vec<f64>>| {
        let mut known = KnownLabels::new(32);
        known.add(&RowBatch::new(32, &rows).unwrap(), &labels).unwrap();
        let known = if let Some(priors) = priors { known.priors(priors) } else { known };
        known.fit(&Maximisation::new().policy(ConcentrationPolicy::Shared)).map(|(fit, _)| fit)
    };
    let (plain, equal) = (fit(None).unwrap(), fit(Some(vec![0.25; 4])).unwrap());
    assert_eq!(equal.mixture.weights(), [0.25; 4]);
    assert!(plain.mixture.weights()[0] < 0.15);
    let [one, other] = [&plain, &equal].map(|fit| fit.calibration.as_ref().unwrap().temperature);
    assert!(one != other && (one / other - 1.0).abs() < 0.3, "{one} {other}");
    assert!(fit(Some(vec![0.5; 2])).is_err() && fit(Some(vec![0.5; 4])).is_err());
}
