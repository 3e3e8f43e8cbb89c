//! Recommended numbers of components: what independent fits share, neighbours, and confidence.

use crate::samples::{draw, on_threads, random_mixture};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use vmfkit::fit::select::{Candidate, Confidence, Criterion, Reason, Selection, Skipped, recommend};
use vmfkit::{RowBatch, Sampler, VonMisesFisher};

const DIM: usize = 32;

/// Clusters whose noise and differences lie in 8 of 32 dimensions, as in embeddings.
fn embeddings(clusters: usize, rows: usize, seed: u64) -> Vec<f64> {
    let uniform = VonMisesFisher::uniform(9).unwrap();
    let sampler = Sampler::new(&uniform);
    let centres: Vec<f64> = sampler.sample_rows(clusters, seed).unwrap();
    // The sum of six directions is nearly normal.
    let directions: Vec<f64> = sampler.sample_rows(6 * rows, seed + 1).unwrap();
    let noise = |row: usize, i: usize| (0..6).map(|draw| directions[(6 * row + draw) * 9 + i]).sum::<f64>() / 6f64.sqrt();
    let mut values = vec![0.0; rows * DIM];
    for (row, values) in values.chunks_exact_mut(DIM).enumerate() {
        values[DIM - 1] = 1.0;
        (0..8).for_each(|i| values[i] = centres[row % clusters * 9 + i] + 0.3 * noise(row, i));
    }
    vmfkit::rows::rescale(DIM, &mut values).unwrap();
    values
}

/// A table whose measurements the tests replace.
fn table(numbers: &[usize]) -> Vec<Candidate> {
    let rows = embeddings(4, 200, 1);
    let selection = Selection::new(numbers.iter().copied()).criterion(Criterion::Stability).repeats(2);
    selection.run(&RowBatch::new(DIM, &rows).unwrap()).unwrap()
}

fn set(candidate: &mut Candidate, agreement: &[f64], information: &[f64], neighbours: f64) {
    let stability = candidate.stability.as_mut().unwrap();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    (stability.repeats, stability.agreement.mean) = (agreement.to_vec(), mean(agreement));
    (stability.information_of_repeats, stability.shared_information.mean) = (information.to_vec(), mean(information));
    let measured = candidate.neighbours.as_mut().unwrap();
    (measured.mean, measured.standard_error) = (neighbours, 0.001);
}

#[test]
fn the_true_number_is_recommended_where_rows_do_not_fit_the_model() {
    for (seed, clusters) in [(1, 5), (20, 8)] {
        let rows = embeddings(clusters, 100 * clusters, seed);
        let batch = RowBatch::new(DIM, &rows).unwrap();
        let numbers = [3, 4, 5, 6, 8, 10];
        let found = Selection::new(numbers).repeats(3).run(&batch).unwrap();
        let recommended = recommend(&found, Criterion::Auto, None).unwrap();
        assert_eq!(recommended.criterion, Criterion::SharedInformation, "{recommended}");
        assert_eq!(recommended.candidate.components, clusters, "{recommended}");
        assert!(recommended.confidence >= Confidence::Medium, "{recommended}");
        assert!(recommended.candidate.calibration.is_some() && recommended.candidate.to_fit().outlier_table.is_some());
        if clusters > 5 {
            continue;
        }
        // Neither threads nor the order of the numbers matter; the seed does.
        let again = || Selection::new(numbers.into_iter().rev()).repeats(3).run(&batch).unwrap();
        for other in [on_threads(1, again), on_threads(3, again)] {
            let measured = |table: &[Candidate]| table.iter().map(|c| (c.stability.clone(), c.neighbours)).collect::<Vec<_>>();
            assert_eq!(measured(&other), measured(&found));
        }
        let seeded = Selection::new([clusters + 1]).criterion(Criterion::Stability).repeats(3).seed(8).run(&batch).unwrap();
        let unseeded = Selection::new([clusters + 1]).criterion(Criterion::Stability).repeats(3).run(&batch).unwrap();
        assert_ne!(seeded[0].stability, unseeded[0].stability);
    }
}

#[test]
fn rows_that_fit_the_model_need_no_fits_of_halves() {
    let rows: Vec<f64> = draw(&random_mixture(3, 6, 60.0, 2), 900, 1);
    let batch = RowBatch::new(6, &rows).unwrap();
    let found = Selection::new(1..=5).run(&batch).unwrap();
    assert!(found.iter().all(|candidate| candidate.stability.is_none() && candidate.neighbours.is_none()));
    let recommended = recommend(&found, Criterion::Auto, None).unwrap();
    assert_eq!((recommended.criterion, recommended.candidate.components), (Criterion::Bic, 3), "{recommended}");
    assert_eq!(recommended.confidence, Confidence::High, "{recommended}");
    assert!(recommend(&found, Criterion::Stability, None).is_none() && recommend(&[], Criterion::Auto, None).is_none());
    let held_out = Selection::new(1..=5).criterion(Criterion::HeldOut).held_out(0.3).run(&batch).unwrap();
    let recommended = recommend(&held_out, Criterion::HeldOut, None).unwrap();
    assert!(matches!(recommended.reasons[0], Reason::HeldOutErrors(errors) if errors > 0.0), "{recommended}");
}

#[test]
fn likelihoods_cannot_be_trusted_where_rows_do_not_fit_the_model() {
    let rows = embeddings(5, 400, 1);
    let found = Selection::new(4..=6).criterion(Criterion::Bic).run(&RowBatch::new(DIM, &rows).unwrap()).unwrap();
    for criterion in [Criterion::Aic, Criterion::Bic, Criterion::Icl, Criterion::Auto] {
        let recommended = recommend(&found, criterion, None).unwrap();
        assert_eq!(recommended.confidence, Confidence::None, "{recommended}");
        assert!(recommended.reasons.iter().any(|reason| matches!(reason, Reason::Dispersion(x) if *x > 1.5)), "{recommended}");
        assert!(recommended.to_string().starts_with("no single number of components stands out; the best by "));
    }
}

#[test]
fn confidence_follows_from_the_measurements() {
    let numbers = [2, 4, 8, 16];
    let measured = table(&numbers);
    let with = |values: [(f64, f64, f64); 4]| {
        let mut table = measured.clone();
        for (candidate, (agreement, information, neighbours)) in table.iter_mut().zip(values) {
            // Repeats differ by 0.02 in the same way for all, so differences have no error.
            set(candidate, &[agreement - 0.01, agreement + 0.01], &[information - 0.01, information + 0.01], neighbours);
        }
        let found = recommend(&table, Criterion::SharedInformation, None).unwrap();
        (found.candidate.components, found.confidence, found.reasons.clone())
    };
    let peak = [(0.8, 0.6, 0.9), (0.97, 1.3, 0.9), (0.99, 2.0, 0.95), (0.7, 1.9, 0.8)];
    let (number, confidence, reasons) = with(peak);
    assert_eq!((number, confidence), (8, Confidence::High), "{reasons:?}");
    assert!(reasons.contains(&Reason::NeighboursConfirm(8)), "{reasons:?}");
    // The neighbours prefer another number.
    let mut other = peak;
    other[1].2 = 0.97;
    let (number, confidence, reasons) = with(other);
    assert_eq!((number, confidence), (8, Confidence::Medium), "{reasons:?}");
    assert!(reasons.contains(&Reason::NeighboursPrefer(4)), "{reasons:?}");
    // Halves agree less: less sure, and below one half no number stands out.
    let mut other = peak;
    other[2].0 = 0.7;
    assert_eq!(with(other).1, Confidence::Medium);
    other[2].0 = 0.4;
    assert_eq!(with(other).1, Confidence::None);
    // A number that is as good: the smaller one, and a tie.
    let mut other = peak;
    (other[1].1, other[1].0) = (2.0, 0.99);
    let (number, confidence, reasons) = with(other);
    assert_eq!((number, confidence), (4, Confidence::Medium), "{reasons:?}");
    assert!(reasons.contains(&Reason::Ties(vec![8])), "{reasons:?}");
    other[1].0 = 0.7;
    assert_eq!(with(other).1, Confidence::None);
    // A best value at an end is no peak.
    let mut other = peak;
    other[3].1 = 2.4;
    let (number, confidence, reasons) = with(other);
    assert_eq!((number, confidence), (16, Confidence::None), "{reasons:?}");
    assert!(reasons.contains(&Reason::Largest), "{reasons:?}");
    let mut other = peak;
    (other[0].1, other[0].0, other[0].2) = (2.4, 0.99, 0.99);
    let (number, confidence, reasons) = with(other);
    assert_eq!((number, confidence), (2, Confidence::Low), "{reasons:?}");
    assert!(reasons.contains(&Reason::Smallest), "{reasons:?}");
}

/// Of equally stable numbers, and of equally good ones by neighbours, the largest.
#[test]
fn relative_criteria_recommend_the_finest_of_equals() {
    let mut table = table(&[2, 4, 8]);
    for (candidate, neighbours) in table.iter_mut().zip([0.95, 0.95, 0.8]) {
        set(candidate, &[0.99, 0.99], &[1.0, 1.0], neighbours);
    }
    let stability = recommend(&table, Criterion::Stability, None).unwrap();
    assert_eq!(stability.candidate.components, 8, "{stability}");
    assert!(stability.reasons.contains(&Reason::Ties(vec![2, 4])), "{stability}");
    let neighbours = recommend(&table, Criterion::Neighbours, None).unwrap();
    assert_eq!(neighbours.candidate.components, 4, "{neighbours}");
    assert!(matches!(neighbours.reasons[0], Reason::NeighboursAgree(0.95)), "{neighbours}");
    let alone = recommend(&table[1..2], Criterion::Stability, None).unwrap();
    assert_eq!(alone.confidence, Confidence::None);
    assert!(alone.reasons.contains(&Reason::OnlyNumber));
}

#[test]
fn criteria_that_cannot_be_measured_are_skipped() {
    let skipped = |rows: &RowBatch, components: usize| {
        let mut found = Selection::new([components]).criterion(Criterion::Stability).repeats(1).run(rows).unwrap();
        found.remove(0).skipped
    };
    let rows = embeddings(3, 60, 1);
    let batch = RowBatch::new(DIM, &rows).unwrap();
    let of_one = [(Criterion::Neighbours, Skipped::OneComponent), (Criterion::Stability, Skipped::OneComponent)];
    assert_eq!(skipped(&batch, 1), of_one);
    assert_eq!(skipped(&batch, 31), [(Criterion::Stability, Skipped::FewRows { half: 30 })]);
    assert_eq!(skipped(&batch, 30), []);
    let weights: Vec<f64> = (0..60).map(|row| f64::from(u8::from(row < 20))).collect();
    let weighted = RowBatch::new(DIM, &rows).unwrap().with_weights(weights).unwrap();
    let few =
        [(Criterion::Neighbours, Skipped::FewNeighbours { rows: 20 }), (Criterion::Stability, Skipped::FewRows { half: 10 })];
    assert_eq!(skipped(&weighted, 11), few);
    let equal = [0.6, 0.8].repeat(60);
    let equal = RowBatch::new(2, &equal).unwrap();
    assert!(skipped(&equal, 2).contains(&(Criterion::Neighbours, Skipped::FewNeighbours { rows: 0 })));
}

#[test]
fn a_cancelled_measurement_keeps_the_fits() {
    let rows = embeddings(4, 300, 1);
    let batch = RowBatch::new(DIM, &rows).unwrap();
    let calls = AtomicUsize::new(0);
    let watch = |_: &Candidate| {
        if calls.fetch_add(1, Ordering::Relaxed) < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let found = Selection::new([3, 4, 5]).criterion(Criterion::Stability).repeats(1).watch(watch).run(&batch).unwrap();
    assert_eq!(found.iter().map(|candidate| candidate.stability.is_some()).collect::<Vec<_>>(), [true, false, false]);
    // Cancelled within a fit of a half, after the table is complete.
    let fitted = AtomicUsize::new(0);
    let ask = || if fitted.load(Ordering::Relaxed) < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
    let count = |_: &Candidate| {
        fitted.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Continue(())
    };
    let found = Selection::new([3, 4, 5]).criterion(Criterion::Stability).repeats(1).watch(count).ask(ask).run(&batch).unwrap();
    assert!(found.len() == 3 && found.iter().all(|candidate| candidate.stability.is_none()));
}

#[test]
fn criteria_are_read_as_they_are_written() {
    for criterion in Criterion::ALL {
        assert_eq!(criterion.name().parse(), Ok(criterion));
        assert_eq!(criterion == Criterion::Auto, !Criterion::SCORES.contains(&criterion));
    }
    assert!("dic".parse::<Criterion>().unwrap_err().to_string().contains("unknown criterion `dic`"));
    let none = Selection::new([2]).repeats(0).run(&RowBatch::new(2, &[0.6, 0.8]).unwrap()).unwrap_err();
    assert_eq!(none.to_string(), "the number of repeats must be at least 1, found: `0`");
}
