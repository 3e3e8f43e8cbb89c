//! Streams that are calibrated with a sample of their rows.

use crate::calibration::{Family, noise_in_few_dimensions};
use vmfkit::calibrate::Basis;
use vmfkit::outlier::OutlierScope;
use vmfkit::store::model::Description;
use vmfkit::train::Fit;
use vmfkit::{Error, Fitter, RowBatch, StreamFitter};

/// The stream after the rows `from .. to` of a family, in batches of 500.
fn learn(stream: &mut StreamFitter, family: &Family, from: usize, to: usize) {
    for first in (from..to).step_by(500) {
        stream.update(&family.batch(first, (first + 500).min(to))).unwrap();
    }
}

fn calibrated(stream: &StreamFitter) -> Fit {
    stream.calibrated().unwrap().expect("there are enough rows for a start")
}

fn described(stream: &StreamFitter) -> Description {
    Description::of(&calibrated(stream))
}

/// The fraction of rows with a p-value of at most `level`.
fn flagged(fit: &Fit, rows: &RowBatch, level: f64) -> f64 {
    let p_values = fit.outlier_table.as_ref().unwrap().p_values(&fit.mixture, rows, OutlierScope::Overall).unwrap();
    p_values.iter().filter(|p| **p <= level).count() as f64 / rows.len() as f64
}

#[test]
fn a_stream_is_calibrated_with_a_sample_of_its_rows() {
    let family = noise_in_few_dimensions(64, 8, 10, 0.5, 40_000, 9);
    let mut stream = Fitter::new(10).seed(2).stream().unwrap();
    learn(&mut stream, &family, 0, 20_000);
    assert_eq!(stream.sample_rows(), 8192);
    let fit = calibrated(&stream);
    assert_eq!(Some(&fit.mixture), stream.mixture());
    let calibration = fit.calibration.as_ref().unwrap();
    assert!(calibration.basis == Basis::Neighbours && calibration.temperature > 2.0, "{calibration}");
    assert!(calibration.calibrated.error() < 0.01 && calibration.raw.error() > 0.02, "{calibration}");
    for level in [0.1, 0.01] {
        let found = flagged(&fit, &family.batch(20_000, 40_000), level);
        let error = (level * (1.0 - level) * (1.0 / 8192.0 + 1.0 / 20_000.0f64)).sqrt();
        assert!(found <= level + 3.0 * error && found >= 0.7 * level, "{level}: {found}");
    }
}

#[test]
fn a_stream_of_few_rows_has_p_values_that_hold() {
    // Each row counts for much of the mixture, so scores that ignore that would flag too many.
    let family = noise_in_few_dimensions(64, 32, 10, 0.5, 20_000, 5);
    let mut stream = Fitter::new(10).seed(2).stream().unwrap();
    learn(&mut stream, &family, 0, 500);
    let found = flagged(&calibrated(&stream), &family.batch(500, 20_000), 0.1);
    assert!((0.05..0.14).contains(&found), "{found}");
}

#[test]
fn a_stream_with_a_half_life_forgets_the_rows_of_another_kind() {
    let (before, after) = (noise_in_few_dimensions(32, 4, 6, 0.3, 20_000, 1), noise_in_few_dimensions(32, 8, 6, 0.9, 30_000, 2));
    let of_kind = |half_life: f64| {
        let mut stream = Fitter::new(6).seed(2).stream().unwrap().half_life(half_life);
        learn(&mut stream, &before, 0, 20_000);
        learn(&mut stream, &after, 0, 20_000);
        flagged(&calibrated(&stream), &after.batch(20_000, 30_000), 0.1)
    };
    let (forgets, remembers) = (of_kind(1000.0), of_kind(f64::INFINITY));
    assert!((0.05..0.14).contains(&forgets), "{forgets}");
    // The old rows are far from the components of the new ones.
    assert!(remembers < 0.02, "{remembers}");
}

#[test]
fn the_calibration_of_a_stream_survives_its_bytes() {
    let family = noise_in_few_dimensions(24, 6, 5, 0.6, 12_000, 4);
    let fitter = Fitter::new(5).seed(6).sample(1000);
    for half_life in [2000.0, f64::INFINITY] {
        let stream = || fitter.stream().unwrap().half_life(half_life);
        let mut whole = stream();
        learn(&mut whole, &family, 0, 6000);
        let mut resumed = stream().resume(&whole.to_bytes()).unwrap();
        assert_eq!((resumed.sample_rows(), described(&resumed)), (1000, described(&whole)));
        learn(&mut whole, &family, 6000, 12_000);
        learn(&mut resumed, &family, 6000, 12_000);
        assert_eq!(resumed.to_bytes(), whole.to_bytes());
        assert_eq!(described(&resumed), described(&whole));
    }
    // A stream that keeps fewer rows cannot go on from more.
    let mut whole = fitter.stream().unwrap();
    learn(&mut whole, &family, 0, 6000);
    let fewer = Fitter::new(5).seed(6).sample(999).stream().unwrap().resume(&whole.to_bytes());
    let Err(Error::StreamBytes { what }) = fewer else { panic!("{fewer:?}") };
    assert_eq!(what, "the sample must have at most 999 of its 6000 rows, found: `1000`");
}

#[test]
fn a_stream_after_a_fit_keeps_its_calibration_until_it_has_seen_as_many_rows() {
    let family = noise_in_few_dimensions(24, 6, 5, 0.6, 8000, 4);
    let fitter = Fitter::new(5).seed(6);
    let fit = fitter_fit(&fitter, &family.batch(0, 2000));
    let (calibration, table) = (fit.calibration.clone().unwrap(), fit.outlier_table.clone().unwrap());
    let stream = fitter.stream_after(&fit.mixture, fit.rows, fit.weight).unwrap();
    let mut stream = stream.calibrated_before(calibration, table);
    learn(&mut stream, &family, 2000, 3500);
    let resumed = fitter.stream().unwrap().resume(&stream.to_bytes()).unwrap();
    for stream in [&stream, &resumed] {
        let found = calibrated(stream);
        assert_eq!((found.calibration, found.outlier_table), (fit.calibration.clone(), fit.outlier_table.clone()));
    }
    learn(&mut stream, &family, 3500, 4000);
    let found = calibrated(&stream).calibration.unwrap();
    assert!(Some(&found) != fit.calibration.as_ref() && found.sample_rows == 2000, "{found}");
}

fn fitter_fit(fitter: &Fitter, rows: &RowBatch) -> Fit {
    Fitter::of_settings(&fitter.settings(rows.dim())).unwrap().fit(rows).unwrap()
}

#[test]
fn streams_without_calibration_and_without_rows_have_none() {
    let family = noise_in_few_dimensions(24, 6, 5, 0.6, 2000, 4);
    let mut stream = Fitter::new(5).calibrate(false).stream().unwrap();
    learn(&mut stream, &family, 0, 1000);
    assert_eq!((stream.sample_rows(), calibrated(&stream).calibration), (0, None));
    let mut stream = Fitter::new(5).stream().unwrap();
    assert!(stream.calibrated().unwrap().is_none());
    stream.update(&family.batch(0, 20)).unwrap();
    assert!(stream.held_rows() == 20 && stream.calibrated().unwrap().is_none());
    // After a fit, before the first row.
    let fit = Fitter::new(5).calibrate(false).fit(&family.batch(0, 1000)).unwrap();
    let stream = Fitter::new(5).stream_after(&fit.mixture, 1000, 1000.0).unwrap();
    assert_eq!(calibrated(&stream).calibration, None);
    // One component, rows of weight 0, equal rows.
    let mut one = Fitter::new(1).stream().unwrap();
    one.update(&family.batch(0, 100).with_weights([0.0, 1.0].repeat(50)).unwrap()).unwrap();
    assert_eq!(calibrated(&one).calibration.unwrap().basis, Basis::OneComponent);
    let mut equal = Fitter::new(2).stream().unwrap();
    equal.update(&RowBatch::new(24, &family.rows[..24].repeat(60)).unwrap()).unwrap();
    assert_eq!(calibrated(&equal).calibration.unwrap().temperature, 1.0);
}
