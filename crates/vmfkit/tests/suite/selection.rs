//! Choosing K: criteria, held-out rows, and the notes of candidates.

use crate::samples::{draw, ln_sum_exp, logits, paper_mixture, random_mixture, uniform_rows};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use vmfkit::fit::select::{Candidate, Criterion, Selection, best, best_of};
use vmfkit::m_step::Note;
use vmfkit::train::Stop;
use vmfkit::{ConcentrationPolicy, Fitter, Mixture, RowBatch};

fn ln_density(mixture: &Mixture, row: &[f64]) -> f64 {
    ln_sum_exp(&logits(mixture, row))
}

fn close(found: f64, expected: f64, place: &str) {
    assert!((found - expected).abs() < 1e-9 * (1.0 + expected.abs()), "{place}: {found}, not {expected}");
}

#[test]
fn criteria_are_their_formulas() {
    let rows: Vec<f64> = draw(&random_mixture(3, 4, 8.0, 1), 300, 2);
    let weights: Vec<f64> = (0..300).map(|row| 0.5 + f64::from(row % 3)).collect();
    let block = RowBatch::new(4, &rows).unwrap().with_weights(&weights).unwrap();
    let policies = [
        (ConcentrationPolicy::Free, 3),
        (ConcentrationPolicy::Shared, 1),
        (ConcentrationPolicy::Fixed(9.0), 0),
        (ConcentrationPolicy::default(), 3),
    ];
    for background in [false, true] {
        let table = Selection::new([3]).policies(policies.map(|(policy, _)| policy)).backgrounds([background]).held_out(0.0);
        for (candidate, (policy, concentrations)) in table.run(&block).unwrap().iter().zip(policies) {
            let (mut ln_likelihood, mut entropy) = (0.0, 0.0);
            for (row, weight) in rows.chunks_exact(4).zip(&weights) {
                let logits = logits(&candidate.mixture, row);
                let total = ln_sum_exp(&logits);
                ln_likelihood += weight * total;
                entropy -= weight * logits.iter().map(|z| (z - total).exp() * (z - total)).sum::<f64>();
            }
            let free = 2 + usize::from(background) + 3 * 3 + concentrations;
            let n: f64 = weights.iter().sum();
            let bic = -2.0 * ln_likelihood + free as f64 * n.ln();
            let place = format!("{policy}, background {background}");
            assert_eq!((candidate.policy, candidate.free_parameters, candidate.background), (policy, free, background));
            close(candidate.aic(), -2.0 * ln_likelihood + 2.0 * free as f64, &place);
            close(candidate.bic(), bic, &place);
            close(candidate.icl(), bic + 2.0 * entropy, &place);
            assert_eq!(candidate.score(Criterion::Icl), Some(-candidate.icl()));
            assert_eq!((candidate.held_out, candidate.score(Criterion::HeldOut)), (None, None));
        }
    }
}

/// Two of twelve rows are held out: the pair that the other rows do not contain.
#[test]
fn held_out_rows_are_those_that_the_fit_has_not_seen() {
    let rows: Vec<f64> = draw(&random_mixture(2, 3, 8.0, 3), 12, 4);
    let block = RowBatch::new(3, &rows).unwrap();
    for seed in 0..5 {
        let shared = [ConcentrationPolicy::Shared];
        let table = Selection::new([1, 2]).policies(shared).held_out(1.0 / 6.0).seed(seed).run(&block).unwrap();
        for candidate in &table {
            let terms: Vec<f64> = rows.chunks_exact(3).map(|row| ln_density(&candidate.mixture, row)).collect();
            let (seen, held_out) = (candidate.seen, candidate.held_out.unwrap());
            assert_eq!((seen.weight, held_out.weight), (10.0, 2.0));
            close(seen.ln_likelihood + held_out.ln_likelihood, terms.iter().sum(), "all rows");
            let pairs = (0..12).flat_map(|a| (0..a).map(move |b| (a, b)));
            let nearest = pairs.map(|(a, b)| (terms[a], terms[b]));
            let off = |(a, b): &(f64, f64)| (a + b - held_out.ln_likelihood).abs();
            let (a, b) = nearest.min_by(|one, other| off(one).total_cmp(&off(other))).unwrap();
            close(held_out.mean(), (a + b) / 2.0, "the mean");
            // The deviation of two is half their difference; its root of n - 1 is 1.
            close(held_out.standard_error(), (a - b).abs() / 2.0, "the standard error");
            assert_eq!(candidate.score(Criterion::HeldOut), Some(held_out.mean()));
        }
    }
}

#[test]
fn the_standard_error_is_that_of_a_mean() {
    let mixture = paper_mixture();
    let rows: Vec<f64> = draw(&mixture, 400, 5);
    let terms: Vec<f64> = rows.chunks_exact(5).map(|row| ln_density(&mixture, row)).collect();
    let mean = terms.iter().sum::<f64>() / 400.0;
    let variance = terms.iter().map(|term| (term - mean).powi(2)).sum::<f64>() / 399.0;
    let found = mixture.evaluate(&RowBatch::new(5, &rows).unwrap()).unwrap();
    close(found.standard_error(), (variance / 400.0).sqrt(), "400 rows");
}

#[test]
fn a_fraction_is_rounded_to_rows_and_one_is_left() {
    let held_out = |share: f64, rows: usize| Selection::new([1]).held_out(share).rows_held_out(rows);
    assert_eq!([0, 1, 2, 3, 10].map(|rows| held_out(0.2, rows)), [0, 0, 0, 1, 2]);
    assert_eq!([(1e-9, 900), (0.999, 1), (0.999, 2), (0.0, 5)].map(|(share, rows)| held_out(share, rows)), [0, 0, 1, 0]);
}

/// The better fit is kept, from a start of its own or from the mixture with the next smaller K.
#[test]
fn mixtures_grow_out_of_smaller_ones() {
    let mut grown = 0;
    for seed in 0..8 {
        let rows: Vec<f64> = draw(&random_mixture(6, 3, 40.0, seed), 250, seed);
        let block = RowBatch::new(3, &rows).unwrap();
        let stop = Stop { tolerance: Some(1e-7), passes: 200, ..Stop::default() };
        let table = Selection::new(1..=7).policies([ConcentrationPolicy::Free]).restarts(1).stop(stop).seed(seed);
        let table = table.run(&block).unwrap();
        assert!(!table[0].grown);
        for candidate in &table {
            let fresh = Fitter::new(candidate.components).policy(ConcentrationPolicy::Free).stop(stop).seed(seed);
            let fresh = fresh.fit(&block).unwrap();
            grown += usize::from(candidate.grown);
            let collapsed = |notes: &[Note]| notes.iter().any(|note| matches!(note, Note::Collapsed { .. }));
            if candidate.grown && !collapsed(&fresh.notes) {
                let fresh = fresh.mixture.evaluate(&block).unwrap().mean();
                assert!(candidate.seen.mean() > fresh - 1e-4, "{}: {} {fresh}", candidate.components, candidate.seen.mean());
            } else if !candidate.grown {
                assert_eq!(candidate.mixture, fresh.mixture);
                assert_eq!(candidate.notes, fresh.notes);
            }
        }
    }
    assert!(grown > 5, "the test has met what it is about: {grown}");
}

/// A component that collapses on repeated rows raises every likelihood.
#[test]
fn a_collapsed_component_is_a_warning_of_its_candidate() {
    let mut rows = uniform_rows::<f64>(3, 200, 6);
    (0..30).for_each(|_| rows.extend_from_within(..3));
    let block = RowBatch::new(3, &rows).unwrap();
    let table = Selection::new(1..=6).policies([ConcentrationPolicy::Free]).restarts(5).search(false).run(&block).unwrap();
    let collapsed = |candidate: &Candidate| candidate.notes.iter().any(|note| matches!(note, Note::Collapsed { .. }));
    let preferred = best(&table, Criterion::Bic, None).unwrap();
    assert!(collapsed(preferred) && preferred.warnings().count() > 0, "{:?}", preferred.notes);
    let sound = best_of(table.iter().filter(|candidate| candidate.warnings().next().is_none()), Criterion::Bic).unwrap();
    assert!(!collapsed(sound) && sound.bic() > preferred.bic(), "{:?}", sound.notes);
    let mut other = sound.clone();
    other.notes = vec![Note::Reseeded { component: 0, beside: 1, pass: 3 }, Note::Empty { component: 1 }];
    assert_eq!(other.warnings().collect::<Vec<_>>(), [&Note::Empty { component: 1 }]);
}

/// With a single K the table is the fit from a start of its own.
#[test]
fn lines_are_fits_with_or_without_a_search() {
    let rows: Vec<f64> = draw(&random_mixture(9, 6, 15.0, 2), 900, 3);
    let block = RowBatch::new(6, &rows).unwrap();
    let mixture_of = |seed: u64, search: bool| {
        let mut table = Selection::new([9]).restarts(1).seed(seed).search(search).run(&block).unwrap();
        let mixture = table.remove(0).mixture;
        assert_eq!(mixture, Fitter::new(9).seed(seed).search(search).fit(&block).unwrap().mixture);
        mixture
    };
    assert!((0..4).any(|seed| mixture_of(seed, true) != mixture_of(seed, false)), "the search finds nothing");
}

#[test]
fn a_table_that_is_stopped_has_the_lines_so_far() {
    let rows: Vec<f64> = draw(&random_mixture(3, 3, 40.0, 1), 100, 1);
    let block = RowBatch::new(3, &rows).unwrap();
    let mut seen = Vec::new();
    let table = Selection::new(1..=6).watch(|candidate| {
        seen.push(candidate.components);
        if candidate.components < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let table = table.run(&block).unwrap();
    assert_eq!(table.iter().map(|candidate| candidate.components).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(seen, [1, 2, 3]);
}

#[test]
fn a_cancelled_fit_leaves_no_line() {
    let rows: Vec<f64> = draw(&random_mixture(3, 3, 40.0, 1), 100, 1);
    let block = RowBatch::new(3, &rows).unwrap();
    let whole = Selection::new(1..=4).run(&block).unwrap();
    let mut lengths = Vec::new();
    for most in (0..400).step_by(13) {
        let asked = AtomicUsize::new(0);
        let go_on =
            || if asked.fetch_add(1, Ordering::Relaxed) < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
        let table = Selection::new(1..=4).ask(go_on).run(&block).unwrap();
        assert!(table.iter().zip(&whole).all(|(found, expected)| found.mixture == expected.mixture), "{most}");
        lengths.push(table.len());
    }
    assert!(lengths[0] == 0 && lengths.is_sorted() && lengths.iter().any(|length| (1..4).contains(length)), "{lengths:?}");
}
