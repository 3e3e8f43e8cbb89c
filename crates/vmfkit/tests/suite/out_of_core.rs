//! `fit_source`: a fit of batches equals that in memory, starts from a sample of all rows, and can
//! be stopped.

use crate::samples::{assert_same_fit, draw, on_threads, paper_mixture, random_mixture};
use std::ops::ControlFlow;
use vmfkit::source::{MemorySource, MiniBatches};
use vmfkit::train::{Adam, Annealing, Progress, Status, Stop, Trainer, fit, fit_in_batches};
use vmfkit::{ConcentrationPolicy, Error, Fitter, Method, Mixture, RowBatch, Start};

fn passes(passes: usize) -> Stop {
    Stop { tolerance: None, passes, ..Stop::default() }
}

fn online() -> Method {
    Method::OnlineEm { exponent: 0.6, offset: 1.0 }
}

fn methods() -> Vec<Method> {
    let annealed = Method::Em { annealing: Some(Annealing { from: 4.0, factor: 0.5 }) };
    Method::all().into_iter().chain([annealed]).collect()
}

fn source<'a>(block: &'a RowBatch, rows: usize) -> MemorySource<'a> {
    MemorySource::new(block.slice(0, block.len())).batches(rows)
}

/// Starts, EM and its variants, and online methods, whose windows extend over several batches.
#[test]
fn the_batches_of_a_source_change_no_bit_of_a_fit() {
    const ROWS: usize = 12_000;
    let rows: Vec<f32> = draw(&paper_mixture(), ROWS, 1);
    let weights: Vec<f64> = (0..ROWS).map(|row| 0.5 + f64::from(row as u32 % 3)).collect();
    let labels: Vec<u32> = (0..ROWS as u32).map(|row| row / 500 % 3).collect();
    for block in [RowBatch::new(5, &rows).unwrap(), RowBatch::new(5, &rows).unwrap().with_weights(&weights).unwrap()] {
        for method in Method::all() {
            for start in [Start::KMeans, Start::Labels(labels.clone())] {
                let fit = |batch: usize| {
                    let fitter = Fitter::new(3).method(method.clone()).start(start.clone()).seed(5).sample(3000);
                    let fitter = fitter.shuffle_rows(1700).stop(Stop { tolerance: None, passes: 3, ..Stop::default() });
                    fitter.fit_source(&mut MemorySource::new(block.clone()).batches(batch)).unwrap()
                };
                let whole = fit(ROWS);
                for batch in [100, 1700, 1701, 9216] {
                    assert_same_fit(&fit(batch), &whole, &format!("{}, batches of {batch}", method.name()));
                }
            }
        }
    }
}

/// Every method from every start; with weights, restarts and a background.
#[test]
fn one_block_is_fitted_as_in_memory_to_the_last_bit() {
    let truth = paper_mixture();
    let (mut rows, mut labels) = (vec![0f32; 5 * 900], vec![0; 900]);
    truth.fill(8, 0, &mut rows, &mut labels).unwrap();
    let weights: Vec<f64> = (0..900).map(|row| 0.5 * f64::from(row % 4)).collect();
    let block = RowBatch::new(5, &rows).unwrap();
    let directions = truth.components().iter().map(|c| c.mean_direction().to_vec()).collect();
    let starts = [
        Start::KMeans,
        Start::PlusPlus,
        Start::RandomRows,
        Start::Random,
        Start::Directions(directions),
        Start::Labels(labels),
        Start::Mixture(truth.clone()),
    ];
    for block in [block.clone(), block.with_weights(&weights).unwrap()] {
        for start in &starts {
            for method in methods() {
                let fitter = || {
                    let fitter = Fitter::new(3).method(method.clone()).start(start.clone()).stop(passes(4)).seed(9);
                    if matches!(method, Method::KMeans) { fitter.restarts(2) } else { fitter.restarts(2).background(0.1) }
                };
                let memory = fitter().fit(&block).unwrap();
                let found = fitter().fit_source(&mut source(&block, 900)).unwrap();
                assert_same_fit(&found, &memory, &format!("{} from {start:?}", method.name()));
            }
        }
    }
}

/// Rows sorted by cluster, in batches of one cluster each.
#[test]
fn a_start_samples_all_rows_not_only_the_first() {
    let truth = random_mixture(10, 8, 60.0, 3);
    let (mut rows, mut labels) = (vec![0f64; 8 * 20_000], vec![0; 20_000]);
    truth.fill(4, 0, &mut rows, &mut labels).unwrap();
    let mut order: Vec<usize> = (0..20_000).collect();
    order.sort_by_key(|&row| labels[row]);
    let sorted: Vec<f64> = order.iter().flat_map(|&row| rows[8 * row..8 * (row + 1)].iter().copied()).collect();
    let block = RowBatch::new(8, &sorted).unwrap();
    let memory = Fitter::new(10).seed(1).fit(&block).unwrap();
    for sample in [1000, 8192] {
        let found = Fitter::new(10).seed(1).sample(sample).fit_source(&mut source(&block, 500)).unwrap();
        assert!((found.objective() - memory.objective()).abs() < 0.01, "{} {}", found.objective(), memory.objective());
        // Neither blocks nor threads change where it begins.
        let at_the_first_pass = |progress: Progress| match progress.pass {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        };
        let start = |rows, threads| {
            let fitter = Fitter::new(10).seed(1).sample(sample).progress(at_the_first_pass);
            on_threads(threads, || fitter.fit_source(&mut source(&block, rows)).unwrap().mixture)
        };
        let first = start(500, 1);
        assert_eq!(start(500, 3), first);
        assert_eq!(start(20_000, 2), first);
        assert_eq!(start(777, 2), first);
    }
    // A sample that comes with weights: as many rows as the source has.
    let once = Fitter::new(10).method(online()).stop(passes(3)).fit_source(&mut source(&block, 20_000)).unwrap();
    assert!((once.mixture.evaluate(&block).unwrap().mean() - memory.objective()).abs() < 0.1);
}

#[test]
fn labels_are_read_along_with_the_blocks() {
    let truth = paper_mixture();
    let (mut rows, mut labels) = (vec![0f64; 5000], vec![0; 1000]);
    truth.fill(8, 0, &mut rows, &mut labels).unwrap();
    let block = RowBatch::new(5, &rows).unwrap();
    let fitter = |labels: &[u32]| Fitter::new(3).start(Start::Labels(labels.to_vec())).stop(passes(5));
    let memory = fitter(&labels).fit(&block).unwrap();
    for rows in [1, 64, 999] {
        let found = fitter(&labels).fit_source(&mut source(&block, rows)).unwrap();
        assert!((found.objective() - memory.objective()).abs() < 1e-10);
    }
    for count in [0, 500, 999, 1001] {
        let wrong: Vec<u32> = labels.iter().copied().cycle().take(count).collect();
        let error = fitter(&wrong).fit_source(&mut source(&block, 64)).unwrap_err();
        assert_eq!(error, Error::LabelCount { expected: 1000, found: count });
    }
    let error = fitter(&[3]).fit_source(&mut source(&block, 64)).unwrap_err();
    assert_eq!(error, Error::Label { row: 0, components: 3, label: 3 });
}

#[test]
fn the_best_of_the_restarts_of_a_source_is_kept() {
    let rows: Vec<f64> = draw(&random_mixture(12, 3, 30.0, 11), 600, 12);
    let block = RowBatch::new(3, &rows).unwrap();
    let mut ends = [f64::NAN; 6];
    let fitter = Fitter::new(12)
        .policy(ConcentrationPolicy::Shared)
        .start(Start::RandomRows)
        .sample(200)
        .stop(passes(6))
        .seed(13)
        .restarts(6);
    let watched = fitter.watch(|restart, pass, _| {
        ends[restart] = pass.objective;
        ControlFlow::Continue(())
    });
    let best = watched.fit_source(&mut source(&block, 50)).unwrap();
    assert_eq!(best.objective(), ends.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    assert!(ends[1..].iter().any(|end| *end != ends[0]), "{ends:?}");
}

#[test]
fn online_methods_cut_blocks_into_batches() {
    let truth = paper_mixture();
    let rows: Vec<f64> = draw(&truth, 3000, 1);
    let block = RowBatch::new(5, &rows).unwrap();
    for shuffle in [true, false] {
        for method in [online(), Method::Sgd(Adam::new())] {
            let fitter = || Fitter::new(3).method(method.clone()).shuffle(shuffle).batch(100).stop(passes(10)).seed(2);
            let memory = fitter().fit(&block).unwrap();
            let found = fitter().fit_source(&mut source(&block, 1100)).unwrap();
            assert!((found.objective() - memory.objective()).abs() < 0.01, "{} {}", found.objective(), memory.objective());
            let again = on_threads(3, || fitter().fit_source(&mut source(&block, 1100)).unwrap());
            assert_same_fit(&again, &found, method.name());
            let mut last = 0;
            // Without a decision to make, a given start needs no rows.
            let free = fitter().policy(ConcentrationPolicy::Free);
            let counted = free.stop(passes(1)).start(Start::Mixture(truth.clone())).progress(|progress| {
                assert_eq!((progress.restart, progress.pass), (0, 1));
                last = progress.rows;
                ControlFlow::Continue(())
            });
            counted.fit_source(&mut source(&block, 1100)).unwrap();
            assert_eq!(last, 3000);
        }
    }
    // Every row once a pass, whatever the order.
    let mut batches = MiniBatches::new(7).shuffled(4);
    for pass in 0..3 {
        for number in 0..3 {
            let part = block.slice(100 * number, 100 * (number + 1) + number);
            let mut seen = Vec::new();
            let flow = batches.visit(&part, pass, number as u64, |batch| {
                assert!(batch.len() == 7 || batch.len() == part.len() % 7);
                seen.extend((0..batch.len()).map(|row| batch.row(row).iter().map(|x| x.to_bits()).collect::<Vec<_>>()));
                Ok(ControlFlow::Continue(()))
            });
            assert!(flow.unwrap().is_continue());
            let mut all: Vec<Vec<u64>> = (0..part.len()).map(|row| part.row(row).iter().map(|x| x.to_bits()).collect()).collect();
            assert_ne!(seen, all);
            seen.sort();
            all.sort();
            assert_eq!(seen, all);
        }
    }
    // A trainer of one's own, in batches.
    let trainer = || Trainer::new(truth.clone(), Adam::new(), passes(3)).unwrap();
    let cut = fit_in_batches(&mut source(&block, 3000), trainer(), MiniBatches::new(64).shuffled(5)).unwrap();
    let memory = fit(&mut source(&block, 64).shuffled(5), trainer()).unwrap();
    assert_same_fit(&cut, &memory, "a trainer");
}

/// EM keeps nothing of an incomplete pass, an online method its steps.
#[test]
fn progress_is_reported_after_every_batch_and_can_stop_there() {
    let rows: Vec<f64> = draw(&paper_mixture(), 1000, 1);
    let block = RowBatch::new(5, &rows).unwrap();
    let fitter = || Fitter::new(3).seed(3).stop(passes(4)).restarts(2);
    let mut seen = Vec::new();
    let whole = fitter()
        .progress(|progress| {
            seen.push(progress);
            ControlFlow::Continue(())
        })
        .fit_source(&mut source(&block, 400))
        .unwrap();
    let expected: Vec<(usize, usize, u64)> =
        (0..2).flat_map(|restart| (0..5).flat_map(move |pass| [400, 800, 1000].map(|rows| (restart, pass, rows)))).collect();
    // Every pass of k-means over the sample asks too.
    let mut distinct: Vec<_> = seen.iter().map(|progress| (progress.restart, progress.pass, progress.rows)).collect();
    distinct.dedup();
    assert_eq!(distinct, expected);
    let mut models: Vec<(usize, Mixture)> = Vec::new();
    let watched = fitter().watch(|restart, _, mixture| {
        models.push((restart, mixture.clone()));
        ControlFlow::Continue(())
    });
    assert_same_fit(&watched.fit_source(&mut source(&block, 400)).unwrap(), &whole, "watched");
    for (at, stop) in seen.iter().enumerate() {
        let mut calls = 0;
        let stopped = fitter().progress(|_| {
            calls += 1;
            if calls == at + 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let found = stopped.fit_source(&mut source(&block, 400)).unwrap();
        assert_eq!((found.status, calls), (Status::Stopped, at + 1));
        if stop.restart == 0 {
            assert_eq!(found.trace.len(), stop.pass.saturating_sub(1), "{stop:?}");
        }
        if stop.restart == 0 && stop.pass > 1 {
            assert_eq!(found.mixture, models[stop.pass - 2].1, "{stop:?}");
            assert_eq!(found.weight, 1000.0);
        }
        if stop.restart == 1 && stop.pass < 2 {
            assert_eq!(found.mixture, models[3].1, "the first fit is the best so far");
        }
    }
    let stopped = Fitter::new(3).method(online()).batch(100).progress(|progress| match progress.rows {
        500 if progress.pass == 1 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    let half = stopped.fit(&block).unwrap();
    let start = Fitter::new(3).method(online()).batch(100).progress(|_| ControlFlow::Break(())).fit(&block).unwrap();
    assert_eq!((half.status, half.trace.len(), start.trace.len()), (Status::Stopped, 0, 0));
    assert_ne!(half.mixture, start.mixture);
}

#[test]
fn a_source_without_rows_or_with_other_columns_is_refused() {
    let empty = RowBatch::new(5, &[0f64; 0]).unwrap();
    let nothing = [0.0; 10];
    let rows: Vec<f64> = draw(&paper_mixture(), 10, 1);
    let weightless = RowBatch::new(5, &rows).unwrap().with_weights(&nothing).unwrap();
    for block in [empty, weightless] {
        for start in [Start::KMeans, Start::Mixture(paper_mixture())] {
            for method in Method::all() {
                let found = Fitter::new(3).method(method).start(start.clone()).fit_source(&mut source(&block, 4));
                assert_eq!(found.unwrap_err(), Error::NoRows { weight: 0.0 });
            }
        }
    }
    let block = RowBatch::new(5, &rows).unwrap();
    let found = Fitter::new(3).start(Start::Mixture(random_mixture(3, 4, 1.0, 1))).fit_source(&mut source(&block, 4));
    assert_eq!(found.unwrap_err(), Error::DimensionMismatch { expected: 5, found: 4 });
    assert!(matches!(Fitter::new(3).sample(0).fit_source(&mut source(&block, 4)).unwrap_err(), Error::Option { .. }));
}
