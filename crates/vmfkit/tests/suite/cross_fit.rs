//! Fits of disjoint halves: their rows, the cross-fit made from them, and bad input.

use crate::samples::{draw, random_mixture, uniform_rows};
use std::ops::ControlFlow;
use vmfkit::fit::Fitter;
use vmfkit::fit::cross_fit::CrossFit;
use vmfkit::fit::halves::HalfFits;
use vmfkit::{Error, RowBatch};

const DIM: usize = 6;

fn rows(count: usize) -> Vec<f64> {
    draw(&random_mixture(4, DIM, 60.0, 3), count, 5)
}

#[test]
fn halves_share_no_rows_and_leave_none_out() {
    let rows = rows(501);
    let batch = RowBatch::new(DIM, &rows).unwrap();
    let never = || ControlFlow::Continue(());
    let halves = HalfFits::new(&Fitter::new(4), &batch, 0.2, 9, &never).unwrap().unwrap();
    assert_eq!((halves.unseen.len(), halves.rows[0].len(), halves.rows[1].len()), (100, 200, 201));
    let mut all = [&halves.unseen[..], &halves.rows[0], &halves.rows[1]].concat();
    all.sort_unstable();
    assert_eq!(all, (0..501).collect::<Vec<_>>());
    assert_eq!(halves.fits.each_ref().map(|fit| fit.rows), [200, 201]);
    assert!(halves.fits.iter().all(|fit| fit.calibration.is_none()));
    let again = HalfFits::new(&Fitter::new(4), &batch, 0.2, 9, &never).unwrap().unwrap();
    assert_eq!((&again.rows, &again.fits[1].mixture), (&halves.rows, &halves.fits[1].mixture));
    let other = HalfFits::new(&Fitter::new(4), &batch, 0.2, 10, &never).unwrap().unwrap();
    assert_ne!(other.rows, halves.rows);
}

#[test]
fn rows_without_weight_are_in_no_half() {
    let rows = rows(200);
    let weights: Vec<f64> = (0..200).map(|row| f64::from(u8::from(row % 4 > 0))).collect();
    let batch = RowBatch::new(DIM, &rows).unwrap().with_weights(weights).unwrap();
    let halves = HalfFits::new(&Fitter::new(2), &batch, 0.0, 1, &|| ControlFlow::Continue(())).unwrap().unwrap();
    assert_eq!(halves.rows.concat().len(), 150);
    assert!(halves.rows.concat().iter().all(|row| row % 4 > 0));
}

#[test]
fn separate_clusters_are_found_again() {
    let rows = rows(3000);
    let batch = RowBatch::new(DIM, &rows).unwrap();
    let found = CrossFit::new(&Fitter::new(4), &batch, 2).unwrap();
    assert!(found.agreement > 0.99 && (found.shared_clusters() - 4.0).abs() < 0.2, "{found:?}");
    assert_eq!((found.rows, found.rows_are_unseen), (600, true));
    assert!(found.calibrated.error() < 0.02 && found.calibrated.confirmed() > 0.99);
    assert_eq!(found, CrossFit::new(&Fitter::new(4), &batch, 2).unwrap());
}

/// Rows without clusters: an independent fit cuts them elsewhere.
#[test]
fn probabilities_of_arbitrary_cuts_are_tempered() {
    let rows = uniform_rows::<f64>(DIM, 3000, 1);
    let batch = RowBatch::new(DIM, &rows).unwrap();
    let found = CrossFit::new(&Fitter::new(8), &batch, 2).unwrap();
    assert!(found.agreement < 0.5 && found.shared_clusters() < 4.0, "{found:?}");
    assert!(found.temperature > 1.0 && found.calibrated.error() <= found.raw.error() + 0.01, "{found:?}");
}

#[test]
fn few_rows_are_refused_and_some_are_judged_on_all() {
    let rows = rows(120);
    let batch = |count: usize| RowBatch::new(DIM, &rows[..count * DIM]).unwrap();
    let found = CrossFit::new(&Fitter::new(3), &batch(120), 1).unwrap();
    assert_eq!((found.rows, found.rows_are_unseen), (120, false));
    let few = CrossFit::new(&Fitter::new(3), &batch(24), 1).unwrap_err();
    assert_eq!(few.to_string(), "a cross-fit needs at least 25 rows, found: `24`");
    let many = CrossFit::new(&Fitter::new(61), &batch(120), 1).unwrap_err();
    assert_eq!(many, Error::FewRows { what: "a fit of half of the rows", needed: 61, found: 60 });
}

#[test]
fn one_component_and_equal_rows_need_no_temperature() {
    let rows = rows(200);
    let one = CrossFit::new(&Fitter::new(1), &RowBatch::new(DIM, &rows).unwrap(), 1).unwrap();
    assert_eq!((one.temperature, one.agreement, one.shared_clusters()), (1.0, 1.0, 1.0));
    let equal = [0.6, 0.8].repeat(200);
    let found = CrossFit::new(&Fitter::new(2), &RowBatch::new(2, &equal).unwrap(), 1).unwrap();
    assert!(found.temperature.is_finite() && found.shared_clusters() < 1.5, "{found:?}");
}

#[test]
fn a_cancelled_cross_fit_has_no_result() {
    let rows = rows(400);
    let batch = RowBatch::new(DIM, &rows).unwrap();
    assert_eq!(CrossFit::new_while(&Fitter::new(3), &batch, 1, &|| ControlFlow::Break(())).unwrap(), None);
}
