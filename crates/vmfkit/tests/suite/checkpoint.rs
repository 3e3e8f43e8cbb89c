//! Checkpoints: a fit that is interrupted and resumed from bytes equals an uninterrupted one.

use crate::samples::{
    accumulate, assert_same_fit, damaged, draw, on_threads, paper_mixture, random_mixture, sealed, uniform_rows,
};
use proptest::prelude::*;
use std::ops::ControlFlow;
use vmfkit::m_step::Note;
use vmfkit::source::{MemorySource, Source};
use vmfkit::train::{Adam, Annealing, Checkpoint, Em, Fit, OnlineEm, Status, Stop, Trainer};
use vmfkit::{ConcentrationEstimator, ConcentrationPolicy, Error, Fitter, Maximisation, Method, RowBatch, Start};

const POLICIES: [ConcentrationPolicy; 5] = [
    ConcentrationPolicy::Auto,
    ConcentrationPolicy::Free,
    ConcentrationPolicy::Shared,
    ConcentrationPolicy::Fixed(30.0),
    ConcentrationPolicy::Ratio(1.5),
];

fn methods() -> Vec<Method> {
    let annealed = Method::Em { annealing: Some(Annealing { from: 4.0, factor: 0.5 }) };
    Method::all().into_iter().chain([annealed]).collect()
}

fn passes(passes: usize) -> Stop {
    Stop { tolerance: None, passes, ..Stop::default() }
}

/// Few distinct rows for many components, so that some components become empty and are restarted.
fn rows_with_repairs() -> Vec<f64> {
    let mut rows: Vec<f64> = draw(&paper_mixture(), 60, 1);
    for _ in 0..60 {
        rows.extend_from_within(..5);
    }
    rows
}

/// Three directions among the rows, and five that no row is near.
fn start_with_repairs(block: &RowBatch) -> Start {
    let opposite = |row: usize| block.row(row).iter().map(|x| -x).collect();
    Start::Directions((0..8).map(|k| if k < 3 { block.row(7 * k) } else { opposite(0) }).collect())
}

/// A fit, and the bytes of its checkpoints.
fn with_checkpoints(fitter: Fitter, fit: impl FnOnce(Fitter) -> Fit) -> (Fit, Vec<Vec<u8>>) {
    let mut saved = Vec::new();
    let fitted = fit(fitter.checkpoint(|checkpoint| {
        saved.push(checkpoint.to_bytes());
        Ok(())
    }));
    (fitted, saved)
}

fn restored(bytes: &[u8]) -> Checkpoint {
    let checkpoint = Checkpoint::from_bytes(bytes).unwrap();
    assert_eq!(checkpoint.to_bytes(), bytes);
    checkpoint
}

/// Every method, policy, with and without a background, in memory and in blocks; resumed after
/// every pass of every restart.
#[test]
fn a_resumed_fit_is_the_fit_that_was_not_interrupted() {
    let rows = rows_with_repairs();
    let weights: Vec<f64> = (0..rows.len() / 5).map(|row| 0.5 + f64::from(row as u32 % 3)).collect();
    let block = RowBatch::new(5, &rows).unwrap().with_weights(&weights).unwrap();
    let mut repairs = 0;
    for (number, method) in methods().into_iter().enumerate() {
        for policy in POLICIES {
            for background in [None, Some(0.1)] {
                if background.is_some() && matches!(method, Method::KMeans) {
                    continue;
                }
                let fitter = || {
                    let fitter = Fitter::new(5).method(method.clone()).policy(policy).start(Start::RandomRows);
                    let fitter = fitter
                        .stop(Stop { tolerance: Some(1e-4), passes: 6, ..Stop::default() })
                        .restarts(2)
                        .batch(25)
                        .seed(number as u64);
                    if let Some(weight) = background { fitter.background(weight) } else { fitter }
                };
                for batch in [120, 50] {
                    let run = |fitter: Fitter| {
                        let mut source = MemorySource::new(block.slice(0, block.len())).batches(batch);
                        if batch == 120 { fitter.fit(&block).unwrap() } else { fitter.fit_source(&mut source).unwrap() }
                    };
                    let (whole, saved) = with_checkpoints(fitter(), run);
                    assert_same_fit(&run(fitter()), &whole, "without checkpoints");
                    repairs += whole.notes.iter().filter(|note| matches!(note, Note::Reseeded { .. })).count();
                    for (at, bytes) in saved.iter().enumerate() {
                        let (resumed, rest) = with_checkpoints(fitter().resume(restored(bytes)), run);
                        let place = format!("{} {policy} {background:?} by {batch}, checkpoint {at}", method.name());
                        assert_same_fit(&resumed, &whole, &place);
                        assert_eq!(rest, saved[at + 1..], "{place}");
                    }
                }
            }
        }
    }
    assert!(repairs > 20, "the test must see repairs: {repairs}");
}

#[test]
fn a_stopped_fit_resumes() {
    let rows: Vec<f64> = draw(&random_mixture(6, 4, 20.0, 2), 500, 3);
    let block = RowBatch::new(4, &rows).unwrap();
    for method in methods() {
        let fitter = || Fitter::new(6).method(method.clone()).stop(passes(5)).restarts(2).batch(60).seed(4);
        let whole = fitter().fit(&block).unwrap();
        for stop in 1..=10 {
            let (mut watched, mut told) = (0, 0);
            let at_a_pass = fitter().watch(|_, _, _| {
                watched += 1;
                if watched == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            // Between two passes, and within one.
            let (stopped, saved) = with_checkpoints(at_a_pass, |fitter| fitter.fit(&block).unwrap());
            assert_eq!(stopped.status, Status::Stopped);
            assert_same_fit(&fitter().resume(restored(saved.last().unwrap())).fit(&block).unwrap(), &whole, method.name());
            let within = fitter().progress(|_| {
                told += 1;
                if told == 7 * stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            let (_, saved) =
                with_checkpoints(within, |fitter| fitter.fit_source(&mut MemorySource::new(block.clone()).batches(170)).unwrap());
            if let Some(last) = saved.last() {
                let mut source = MemorySource::new(block.clone()).batches(170);
                let resumed = fitter().resume(restored(last)).fit_source(&mut source).unwrap();
                let mut source = MemorySource::new(block.clone()).batches(170);
                assert_same_fit(&resumed, &fitter().fit_source(&mut source).unwrap(), method.name());
            }
        }
    }
}

#[test]
fn other_settings_are_refused_by_name() {
    let rows: Vec<f64> = draw(&paper_mixture(), 200, 1);
    let block = RowBatch::new(5, &rows).unwrap();
    let base = || Fitter::new(3).stop(passes(3)).restarts(2);
    let (_, saved) = with_checkpoints(base(), |fitter| fitter.fit(&block).unwrap());
    let directions: Vec<Vec<f64>> = rows.chunks_exact(5).take(3).map(<[f64]>::to_vec).collect();
    let how = Maximisation::new;
    for (fitter, words) in [
        (base().seed(1), "the checkpoint was made with seed 0, found: `1`"),
        (base().restarts(3), "restarts 2, found: `3`"),
        (base().stop(passes(2)), "passes 3, found: `2`"),
        (base().stop(Stop { tolerance: Some(0.1), passes: 3, ..Stop::default() }), "tolerance none, found: `0.1`"),
        (base().policy(ConcentrationPolicy::Free), "policy auto, found: `free`"),
        (base().background(0.1), "background_start none, found: `0.1`"),
        (base().method(Method::HardEm), "method em, found: `hard`"),
        (
            base().method(Method::Em { annealing: Some(Annealing { from: 2.0, factor: 0.5 }) }),
            "annealing unset, found: `2.0,0.5`",
        ),
        (base().method(Method::Sgd(Adam::new())), "batch unset, found: `64`"),
        (base().maximisation(how().estimator(ConcentrationEstimator::Sra)), "estimator exact, found: `sra`"),
        (base().maximisation(how().fixed_weights(true)), "fixed_weights false, found: `true`"),
        (base().maximisation(how().smallest_weight(0.01)), "smallest_weight 0.0, found: `0.01`"),
        (base().maximisation(how().largest_concentration(1e6)), "largest_concentration 10000000000.0, found: `1000000.0`"),
        (base().start(Start::PlusPlus), "start kmeans, found: `plusplus`"),
        (base().start(Start::Directions(directions)), "start kmeans, found: `directions:"),
        (base().sample(100), "sample 32768, found: `100`"),
        (base().search(false), "search true, found: `unset`"),
    ] {
        let message = fitter.resume(restored(&saved[2])).fit(&block).unwrap_err().to_string();
        assert!(message.contains(words), "{words}: {message}");
    }
    let narrow: Vec<f64> = draw(&random_mixture(3, 4, 10.0, 1), 200, 1);
    let error = base().resume(restored(&saved[2])).fit(&RowBatch::new(4, &narrow).unwrap()).unwrap_err();
    assert!(error.to_string().contains("dimension 5, found: `4`"), "{error}");
    let error = base().resume(restored(&saved[2])).fit(&block.slice(0, 199)).unwrap_err();
    assert!(error.to_string().contains("was made with 200 rows, found: `199`"), "{error}");
    // In the second restart: the first might have ended elsewhere.
    let error = base().stop(passes(4)).resume(restored(&saved[5])).fit(&block).unwrap_err();
    assert!(error.to_string().contains("passes 3, found: `4`"), "{error}");
}

/// From every checkpoint, also that of a start without rows, before any row is used.
#[test]
fn other_rows_are_refused_before_the_first_pass() {
    let rows: Vec<f64> = draw(&paper_mixture(), 200, 1);
    let mut others = rows.clone();
    others[5 * 10..5 * 12].rotate_left(5);
    let directions: Vec<Vec<f64>> = rows.chunks_exact(5).take(3).map(<[f64]>::to_vec).collect();
    let block = RowBatch::new(5, &rows).unwrap();
    let weights: Vec<f64> = (0..200).map(|row| if row == 3 { 2.0 } else { 1.0 }).collect();
    let cases = [
        (RowBatch::new(5, &others).unwrap(), 70, "made with first rows whose fingerprint is "),
        (block.clone().with_weights(&weights).unwrap(), 70, "made with first rows whose fingerprint is "),
        (block.slice(0, 199), 70, "made with 200 rows, found: `199`"),
    ];
    for start in [Start::default(), Start::Directions(directions)] {
        let fitter = || Fitter::new(3).start(start.clone()).stop(passes(2)).restarts(2);
        let run = |fitter: Fitter, block: &RowBatch, rows| fitter.fit_source(&mut MemorySource::new(block.clone()).batches(rows));
        let (_, saved) = with_checkpoints(fitter(), |fitter| run(fitter, &block, 70).unwrap());
        for (bytes, (other, rows, words)) in saved.iter().flat_map(|bytes| cases.iter().map(move |case| (bytes, case))) {
            let watched = fitter().resume(restored(bytes)).progress(|_| panic!("a row was seen"));
            let message = run(watched, other, *rows).unwrap_err().to_string();
            assert!(message.contains(words), "{words}: {message}");
        }
    }
}

/// From every checkpoint after a complete pass, dense or sparse, on any number of threads; and the
/// right rows are accepted.
#[test]
fn changes_after_the_first_rows_are_refused_in_the_first_pass() {
    let rows: Vec<f64> = draw(&paper_mixture(), 2000, 1);
    let mut others = rows.clone();
    others[5 * 1500..5 * 1502].rotate_left(5);
    let directions: Vec<Vec<f64>> = rows.chunks_exact(5).take(3).map(<[f64]>::to_vec).collect();
    let (starts, columns): (Vec<usize>, Vec<u32>) =
        ((0..=2000).map(|row| 5 * row).collect(), (0..10_000).map(|i| i % 5).collect());
    let weights: Vec<f64> = (0..2000).map(|row| [1.0, 2.0][row % 2]).collect();
    let other_weights: Vec<f64> = (0..2000).map(|row| [1.0, 2.0][(row + row / 1500) % 2]).collect();
    let dense = |rows| RowBatch::new(5, rows).unwrap();
    let sparse = |rows| RowBatch::sparse(5, &starts, &columns, rows).unwrap();
    let weighted = |weights| dense(&rows).with_weights(weights).unwrap();
    let cases =
        [(dense(&rows), dense(&others)), (sparse(&rows), sparse(&others)), (weighted(&weights), weighted(&other_weights))];
    for (block, other) in &cases {
        for (start, from) in [(Start::default(), 0), (Start::Directions(directions.clone()), 1)] {
            let fitter = || Fitter::new(3).start(start.clone()).stop(passes(3));
            let in_batches =
                |fitter: Fitter, block: &RowBatch, rows| fitter.fit_source(&mut MemorySource::new(block.clone()).batches(rows));
            let run = |fitter: Fitter, block: &RowBatch| in_batches(fitter, block, 700);
            let (fit, saved) = with_checkpoints(fitter(), |fitter| run(fitter, block).unwrap());
            for bytes in &saved[from..3] {
                let resumed = |block: &RowBatch| run(fitter().resume(restored(bytes)), block);
                let message = on_threads(2, || resumed(other).unwrap_err().to_string());
                assert!(message.contains("made with rows whose fingerprint is "), "{message}");
                assert_same_fit(&on_threads(3, || resumed(block).unwrap()), &fit, "the same rows");
                let in_other_batches = in_batches(fitter().resume(restored(bytes)), block, 1999).unwrap();
                assert_same_fit(&in_other_batches, &fit, "the same rows in other batches");
            }
        }
    }
}

/// Rows that can be read once are checked while they are read, and an unknown length at the end.
#[test]
fn rows_that_can_be_read_once_are_checked_during_the_resumed_pass() {
    let rows: Vec<f64> = draw(&paper_mixture(), 200, 1);
    let block = RowBatch::new(5, &rows).unwrap();
    let fitter = || Fitter::new(3).stop(passes(1));
    let begun = fitter().begin(&mut Modest::new(&block, 70)).unwrap().unwrap();
    let resumed = |source: &mut Modest| fitter().resume(restored(&begun.to_bytes())).fit_source(source);
    assert_same_fit(
        &resumed(&mut Modest::new(&block, 70)).unwrap(),
        &fitter().fit_source(&mut Modest::new(&block, 70)).unwrap(),
        "",
    );
    let mut others = rows.clone();
    others[5 * 10..5 * 12].rotate_left(5);
    let others = RowBatch::new(5, &others).unwrap();
    let mut once = Modest { once: true, ..Modest::new(&others, 60) };
    assert!(resumed(&mut once).unwrap_err().to_string().contains("made with first rows whose fingerprint is "));
    let fewer = block.slice(0, 150);
    assert!(resumed(&mut Modest::new(&fewer, 70)).unwrap_err().to_string().contains("made with 200 rows, found: `150`"));
}

/// Rows of unknown number, which may be readable only once.
struct Modest<'a> {
    rows: MemorySource<'a>,
    once: bool,
}

impl<'a> Modest<'a> {
    fn new(block: &'a RowBatch, rows: usize) -> Self {
        Modest { rows: MemorySource::new(block.slice(0, block.len())).batches(rows), once: false }
    }
}

impl Source for Modest<'_> {
    fn dim(&self) -> usize {
        self.rows.dim()
    }

    fn next_batch(&mut self) -> vmfkit::Result<Option<RowBatch<'_>>> {
        self.rows.next_batch()
    }

    fn rewind(&mut self) -> vmfkit::Result<()> {
        self.rows.rewind()
    }

    fn can_rewind(&self) -> bool {
        !self.once
    }
}

/// A fit resumed with more passes equals one that had them from the beginning.
#[test]
fn a_fit_resumes_with_more_passes() {
    let rows = rows_with_repairs();
    let block = RowBatch::new(5, &rows).unwrap();
    let mut repairs_at_the_limit = 0;
    for method in methods() {
        let start = start_with_repairs(&block);
        let fitter = |limit| Fitter::new(8).method(method.clone()).start(start.clone()).stop(passes(limit)).batch(25).seed(3);
        let (whole, all) = with_checkpoints(fitter(6), |fitter| fitter.fit(&block).unwrap());
        for limit in 1..6 {
            let (ended, few) = with_checkpoints(fitter(limit), |fitter| fitter.fit(&block).unwrap());
            // Where steps are made within a pass, a repair may have seen rows of the same.
            let waits =
                |note: &Note| matches!(note, Note::Reseeded { pass, .. } if *pass == limit) && !ended.notes.contains(note);
            let waited = whole.notes.iter().any(waits);
            repairs_at_the_limit += usize::from(waited);
            assert!(!waited || ended.notes.iter().any(|note| matches!(note, Note::Empty { .. })), "{:?}", ended.notes);
            for (at, bytes) in few.iter().enumerate() {
                let (extended, rest) = with_checkpoints(fitter(6).resume(restored(bytes)), |fitter| fitter.fit(&block).unwrap());
                assert_same_fit(&extended, &whole, method.name());
                assert_eq!(rest, all[at + 1..], "{}", method.name());
            }
        }
        // One that has converged has no use for them.
        let loose = |limit| {
            fitter(limit).start(Start::RandomRows).stop(Stop { tolerance: Some(f64::MAX), passes: limit, ..Stop::default() })
        };
        let (ended, saved) = with_checkpoints(loose(4), |fitter| fitter.fit(&block).unwrap());
        let resumed = loose(9).resume(restored(saved.last().unwrap())).fit(&block).unwrap();
        assert_eq!((resumed.status, resumed.trace.len()), (ended.status, ended.trace.len()));
    }
    assert!(repairs_at_the_limit > 2, "the test must see repairs at the limit: {repairs_at_the_limit}");
}

/// Hard EM with far too many components, which undoes restarts: resumed after any pass and any
/// limit, also the pass in which they are undone.
#[test]
fn a_resumed_fit_undoes_repairs_like_one_that_was_not_interrupted() {
    let (mut gone_back, mut ended_with_it) = (0, 0);
    for seed in 0..6 {
        let rows: Vec<f64> = draw(&random_mixture(3, 4, 3.0, seed), 150, seed);
        let block = RowBatch::new(4, &rows).unwrap();
        for policy in [ConcentrationPolicy::Fixed(5.0), ConcentrationPolicy::Shared, ConcentrationPolicy::default()] {
            let stop = |passes| Stop { tolerance: Some(1e-5), passes, ..Stop::default() };
            let fitter = |limit| {
                Fitter::new(12).method(Method::HardEm).policy(policy).start(Start::RandomRows).seed(seed).stop(stop(limit))
            };
            let (whole, all) = with_checkpoints(fitter(200), |fitter| fitter.fit(&block).unwrap());
            let place = format!("{policy}, seed {seed}");
            // Without a restart to tell of, a pass that is lower than one before is one of those
            // that were taken back.
            gone_back += usize::from(whole.trace.windows(2).any(|pair| pair[1].objective < pair[0].objective - 1e-9));
            for limit in 1..whole.trace.len() {
                let (ended, few) = with_checkpoints(fitter(limit), |fitter| fitter.fit(&block).unwrap());
                assert_same_fit(&ended, Checkpoint::from_bytes(few.last().unwrap()).unwrap().current(), &place);
                ended_with_it += usize::from(ended.notes.iter().any(|note| matches!(note, Note::RepairsUndone { .. })));
                let resumed = fitter(200).resume(restored(few.last().unwrap()));
                let (resumed, rest) = with_checkpoints(resumed, |fitter| fitter.fit(&block).unwrap());
                assert_same_fit(&resumed, &whole, &place);
                assert_eq!(rest, all[limit + 1..], "{place}, limit {limit}");
                // Stopped in the same pass, it ends with the same mixture.
                let mut seen = 0;
                let watched = fitter(200).watch(|_, _, _| {
                    seen += 1;
                    if seen == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                let stopped = watched.fit(&block).unwrap();
                assert_eq!(
                    (&stopped.mixture, stopped.trace.len()),
                    (&ended.mixture, ended.trace.len()),
                    "{place}, limit {limit}"
                );
            }
        }
    }
    assert!(gone_back > 3 && ended_with_it > 10, "the test must see undone repairs: {gone_back}, {ended_with_it}");
}

#[test]
fn an_error_of_the_callback_ends_the_fit() {
    let rows: Vec<f64> = draw(&paper_mixture(), 200, 1);
    let block = RowBatch::new(5, &rows).unwrap();
    let full = Error::read(std::io::Error::other("no space left"));
    let mut calls = 0;
    let fitter = Fitter::new(3).checkpoint(|checkpoint| {
        calls += 1;
        assert_eq!((checkpoint.restart(), checkpoint.current().trace.len(), checkpoint.best().is_none()), (0, calls - 1, true));
        assert_eq!(checkpoint.settings().get("method"), Some("em"));
        if calls == 3 { Err(full.clone()) } else { Ok(()) }
    });
    assert_eq!(fitter.fit(&block).unwrap_err(), full);
    assert_eq!(calls, 3);
}

/// A loop of the caller's own can stop and resume as well.
#[test]
fn a_trainer_alone_is_resumed() {
    let rows: Vec<f64> = draw(&paper_mixture(), 300, 1);
    let block = RowBatch::new(5, &rows).unwrap();
    let start = random_mixture(3, 5, 10.0, 2);
    let trainer = || Trainer::new(start.clone(), OnlineEm::new(), passes(4)).unwrap();
    let pass = |trainer: &mut Trainer| {
        for from in [0, 100, 200] {
            let stats = accumulate(trainer.model(), &block.slice(from, from + 100), trainer.assignment());
            trainer.step(&stats).unwrap();
            assert!(matches!(trainer.checkpoint(), Err(Error::CheckpointWithinPass { .. })));
        }
        trainer.end_pass(300).unwrap();
    };
    let (mut whole, mut first) = (trainer(), trainer());
    (0..4).for_each(|_| pass(&mut whole));
    (0..2).for_each(|_| pass(&mut first));
    let bytes = first.checkpoint().unwrap().to_bytes();
    let mut second = trainer().resume(&restored(&bytes)).unwrap();
    assert_eq!((second.passes(), second.status()), (2, Status::Running));
    (0..2).for_each(|_| pass(&mut second));
    assert_same_fit(&second.into_fit(), &whole.into_fit(), "online EM");
    // A rule that remembers other things, and mixtures of another shape.
    let refused =
        |start, checkpoint: &Checkpoint| Trainer::new(start, Em::new(), passes(4)).unwrap().resume(checkpoint).err().unwrap();
    assert!(refused(start.clone(), &restored(&bytes)).to_string().contains("made with the rule online em, found: `em`"));
    assert!(matches!(refused(random_mixture(2, 5, 1.0, 1), &restored(&bytes)), Error::ComponentMismatch { .. }));
    assert!(matches!(refused(random_mixture(3, 4, 1.0, 1), &restored(&bytes)), Error::DimensionMismatch { .. }));
}

/// A small checkpoint of the second restart for each method.
fn small_checkpoints() -> Vec<Vec<u8>> {
    let rows = uniform_rows::<f64>(3, 12, 1);
    let block = RowBatch::new(3, &rows).unwrap();
    let saved = methods().into_iter().map(|method| {
        let fitter = Fitter::new(2).method(method).stop(passes(2)).restarts(2);
        with_checkpoints(fitter, |fitter| fitter.fit(&block).unwrap()).1.swap_remove(4)
    });
    saved.collect()
}

#[test]
fn bad_bytes_are_named() {
    let good = &small_checkpoints()[0];
    let length = u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    let header = std::str::from_utf8(&good[8..8 + length]).unwrap();
    let edited = |from: &str, to: &str| {
        assert!(header.contains(from), "{from} in {header}");
        let header = header.replacen(from, to, 1);
        sealed([&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &good[8 + length..]].concat())
    };
    for (bytes, words) in [
        (vec![], "more than 8 bytes, found: `0`"),
        (good[..good.len() - 1].to_vec(), "of data, found: `"),
        (good[..30].to_vec(), "must end within the file"),
        (edited("vmfkit.checkpoint", "vmfkit.mixture"), "metadata `format` must be vmfkit.checkpoint, found: `vmfkit.mixture`"),
        (edited("\"version\":\"5\"", "\"version\":\"4\""), "the version must be 5, found: `4`"),
        (edited("\"rows.first\":\"", "\"rows.first\":\"x"), "metadata `rows.first` must be sixteen digits, found: `x"),
        (edited("\"rows.count\":\"12", "\"rows.count\":\"-2"), "metadata `rows.count` must be a number, found: `-2`"),
        (edited("\"current.status\":\"running\"", "\"current.status\":\"lost\""), "must be the name of a status, found: `lost`"),
        (edited("\"restart\":\"1", "\"restart\":\"-1"), "metadata `restart` must be a number, found: `-1`"),
        (edited("\"best.weights\"", "\"best.heights\""), "a tensor is missing: `best.weights`"),
    ] {
        let message = Checkpoint::from_bytes(&bytes).unwrap_err().to_string();
        assert!(message.starts_with("not a valid checkpoint: ") && message.contains(words), "{words}: {message}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Bytes that are accepted can be resumed or are refused then.
    #[test]
    fn mutated_bytes_never_panic(
        which in 0usize..7,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        numbers in prop::collection::vec((any::<prop::sample::Index>(), any::<f64>()), 0..4),
        length in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        thread_local!(static GOOD: Vec<Vec<u8>> = small_checkpoints());
        let bytes = GOOD.with(|good| good[which].clone());
        let bytes = damaged(bytes, numbers, changes, cut.then_some(length));
        if let Ok(checkpoint) = Checkpoint::from_bytes(&bytes) {
            let rows = uniform_rows::<f64>(3, 12, 1);
            let method = methods().swap_remove(which);
            let fitter = Fitter::new(2).method(method).stop(passes(2)).restarts(2).resume(checkpoint);
            let _ = fitter.fit(&RowBatch::new(3, &rows).unwrap());
        }
    }
}
