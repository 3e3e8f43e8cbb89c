//! Fits by parts: processes that exchange bytes equal one process to the last bit; settings and
//! statistics survive their files.

use crate::samples::{damaged, draw, paper_mixture, random_mixture, sealed, uniform_rows};
use proptest::prelude::*;
use std::ops::ControlFlow;
use vmfkit::fit::parts::Accumulator;
use vmfkit::source::MemorySource;
use vmfkit::store::model::{self, Description};
use vmfkit::store::statistics::PartStats;
use vmfkit::train::{Adam, Annealing, Baseline, Checkpoint, Fit, Status, Stop};
use vmfkit::{
    ConcentrationEstimator, ConcentrationPolicy, Error, Fitter, Maximisation, Method, RowBatch, Start, SufficientStats,
};

const POLICIES: [ConcentrationPolicy; 5] = [
    ConcentrationPolicy::Auto,
    ConcentrationPolicy::Free,
    ConcentrationPolicy::Shared,
    ConcentrationPolicy::Fixed(30.0),
    ConcentrationPolicy::Ratio(1.5),
];

/// Methods that make one step per pass.
fn methods() -> [Method; 5] {
    let annealed = Method::Em { annealing: Some(Annealing { from: 4.0, factor: 0.5 }) };
    [Method::default(), annealed, Method::HardEm, Method::StochasticEm, Method::KMeans]
}

fn begin(fitter: Fitter, block: &RowBatch, rows: usize) -> Checkpoint {
    fitter.begin(&mut MemorySource::new(block.clone()).batches(rows)).unwrap().unwrap()
}

/// The fewest rows of a block.
const CHUNK: usize = 1152;

/// The statistics of a pass from several processes, each with this many rows, in batches.
fn parts(state: &[u8], block: &RowBatch, rows: usize, per_block: bool) -> Vec<Vec<u8>> {
    let accumulator = Accumulator::of(&Checkpoint::from_bytes(state).unwrap()).unwrap().per_block(per_block);
    let part = |start: usize| {
        let mut part = accumulator.part(start as u64).unwrap();
        let end = (start + rows).min(block.len());
        for from in (start..end).step_by(700) {
            part.add(&block.slice(from, (from + 700).min(end))).unwrap();
        }
        assert_eq!(part.rows(), (end - start) as u64);
        let part = part.finish();
        let bytes = part.to_bytes();
        assert_eq!(PartStats::from_bytes(&bytes).unwrap(), part);
        bytes
    };
    (0..block.len()).step_by(rows).map(part).collect()
}

fn merged(parts: &[Vec<u8>]) -> PartStats {
    let mut parts = parts.iter().map(|bytes| PartStats::from_bytes(bytes).unwrap());
    let mut all = parts.next().unwrap();
    parts.for_each(|part| all.merge(&part).unwrap());
    all
}

fn model(fit: &Fit) -> Vec<u8> {
    model::to_bytes(&fit.mixture, &Description::of(fit))
}

#[test]
fn a_fit_by_parts_equals_that_of_one_process() {
    let mut rows: Vec<f64> = draw(&paper_mixture(), 900, 1);
    // Rows that are there often leave components empty, which are restarted.
    (0..2800).for_each(|_| rows.extend_from_within(..5));
    let weights: Vec<f64> = (0..rows.len() / 5).map(|row| 0.5 + f64::from(row as u32 % 3)).collect();
    let block = RowBatch::new(5, &rows).unwrap().with_weights(&weights).unwrap();
    for (number, method) in methods().into_iter().enumerate() {
        for policy in POLICIES {
            for background in [None, Some(0.1)] {
                if background.is_some() && matches!(method, Method::KMeans) {
                    continue;
                }
                let fitter = || {
                    let fitter = Fitter::new(4).method(method.clone()).policy(policy).start(Start::RandomRows).block_rows(CHUNK);
                    let fitter = fitter.stop(Stop { tolerance: Some(1e-4), passes: 8, ..Stop::default() }).seed(number as u64);
                    // Parts hand over statistics, not rows to calibrate with.
                    let fitter = fitter.calibrate(false);
                    if let Some(weight) = background { fitter.background(weight) } else { fitter }
                };
                // RowBatch by block, and with several blocks a part, of which the last has fewer.
                for (blocks, per_block, together) in [(1, false, true), (2, true, false)] {
                    let mut saved = Vec::new();
                    let save = |checkpoint: &Checkpoint| {
                        saved.push(checkpoint.to_bytes());
                        Ok(())
                    };
                    let whole = fitter().checkpoint(save).fit_source(&mut MemorySource::new(block.clone()).batches(500)).unwrap();
                    let mut states = vec![begin(fitter(), &block, 300).to_bytes()];
                    let last = loop {
                        let state = states.last().unwrap();
                        let all = merged(&parts(state, &block, CHUNK * blocks, per_block));
                        let all = if together { PartStats::from_bytes(&all.to_bytes()).unwrap() } else { all };
                        let next = Checkpoint::from_bytes(state).unwrap().step(&all).unwrap();
                        states.push(next.to_bytes());
                        if next.current().status != Status::Running {
                            break next;
                        }
                    };
                    let place = format!("{} {policy} {background:?}, {blocks} a part", method.name());
                    assert_eq!(states, saved, "{place}");
                    assert_eq!(model(last.current()), model(&whole), "{place}");
                }
            }
        }
    }
}

/// Sums of sums differ in the last bits only.
#[test]
fn summed_parts_give_the_same_step_but_for_rounding() {
    let rows: Vec<f32> = draw(&random_mixture(6, 8, 20.0, 2), 5000, 3);
    let block = RowBatch::new(8, &rows).unwrap();
    let state = begin(Fitter::new(6).block_rows(CHUNK), &block, 100).to_bytes();
    let step = |per_block| {
        let all = merged(&parts(&state, &block, 2 * CHUNK, per_block));
        assert_eq!((all.rows(), all.blocks(), all.pass(), all.statistics().len()), (5000, 5, 1, 1));
        assert_eq!(all.weight(), 5000.0);
        Checkpoint::from_bytes(&state).unwrap().step(&all).unwrap()
    };
    let (exact, summed) = (step(true), step(false));
    assert!((exact.current().objective() - summed.current().objective()).abs() < 1e-12);
    for (one, other) in exact.current().mixture.components().iter().zip(summed.current().mixture.components()) {
        assert!((one.concentration() / other.concentration() - 1.0).abs() < 1e-10);
    }
}

#[test]
fn a_fit_changes_hands_in_the_middle() {
    let rows: Vec<f64> = draw(&paper_mixture(), 3000, 4);
    let block = RowBatch::new(5, &rows).unwrap();
    let stop = Stop { tolerance: None, passes: 6, ..Stop::default() };
    let fitter = || Fitter::new(3).method(Method::StochasticEm).block_rows(CHUNK).stop(stop);
    let source = || MemorySource::new(block.clone()).batches(70);
    let whole = fitter().fit_source(&mut source()).unwrap();
    let mut state = begin(fitter(), &block, 70);
    for _ in 0..3 {
        state = state.step(&merged(&parts(&state.to_bytes(), &block, CHUNK, false))).unwrap();
    }
    let resumed = fitter().resume(state.clone()).fit_source(&mut source()).unwrap();
    assert_eq!(model(&resumed), model(&whole));
    // And with a fitter that knows no more than the file.
    let found = Fitter::of_settings(state.settings()).unwrap().resume(state).fit_source(&mut source()).unwrap();
    assert_eq!(model(&found), model(&whole));
}

/// What was measured at the start is taken from the checkpoint.
#[test]
fn a_fitter_resumes_a_fit_with_the_same_settings() {
    let rows: Vec<f64> = draw(&paper_mixture(), 300, 1);
    let state = begin(Fitter::new(3), &RowBatch::new(5, &rows).unwrap(), 300);
    let (same, of_settings) = (Fitter::new(3).trainer(&state).unwrap(), Fitter::of_settings(state.settings()).unwrap());
    assert_eq!(same.model(), of_settings.trainer(&state).unwrap().model());
    assert!(state.settings().dispersion().is_some());
    assert!(Fitter::new(3).seed(1).trainer(&state).is_err());
}

#[test]
fn a_fitter_can_be_rebuilt_from_its_settings() {
    let how = Maximisation::new;
    let rows: Vec<f64> = draw(&paper_mixture(), 4, 1);
    let directions: Vec<Vec<f64>> = rows.chunks_exact(5).take(3).map(<[f64]>::to_vec).collect();
    let mut fitters: Vec<Fitter> =
        methods().into_iter().chain(Method::all()).map(|method| Fitter::new(3).method(method)).collect();
    fitters.extend(POLICIES.map(|policy| Fitter::new(3).policy(policy)));
    fitters.extend(ConcentrationEstimator::ALL.map(|e| Fitter::new(3).maximisation(how().estimator(e))));
    let starts = [Start::KMeans, Start::PlusPlus, Start::RandomRows, Start::Random, Start::Mixture(paper_mixture())];
    fitters.extend(starts.map(|start| Fitter::new(3).start(start)));
    let adam = Adam::new().learning_rate(0.3).decay(1.0 / 3.0).betas(0.8, 0.95).epsilon(1e-300);
    fitters.extend([
        Fitter::new(1).method(Method::Sgd(Adam::new())),
        Fitter::new(2).method(Method::Sgd(adam)).batch(7).shuffle(false),
        Fitter::new(2).method(Method::OnlineEm { exponent: 0.7, offset: 1e9 }).batch(9),
        Fitter::new(3).method(Method::Sgd(Adam::new())).start(Start::Mixture(paper_mixture().with_background(0.1).unwrap())),
        Fitter::new(3).start(Start::Directions(directions)),
        Fitter::new(3).start(Start::Labels(vec![0, 1, 2])),
        Fitter::new(3).stop(Stop { tolerance: None, passes: usize::MAX, ..Stop::default() }).seed(u64::MAX).sample(1).restarts(7),
        Fitter::new(3).stop(Stop { tolerance: Some(1.0 / 3.0), passes: 1, ..Stop::default() }),
        Fitter::new(3).stop(Stop { baseline: Baseline::Zero, ..Stop::default() }),
        Fitter::new(3).background(0.1 + 0.2),
        Fitter::new(3).search(false),
        Fitter::new(3).block_rows(2 * CHUNK),
        Fitter::new(3).method(Method::Sgd(Adam::new())).shuffle_rows(1000),
        Fitter::new(3).policy(ConcentrationPolicy::Ratio(4.0 / 3.0)),
        Fitter::new(3).policy(ConcentrationPolicy::Fixed(1e-300)).method(Method::KMeans),
        Fitter::new(3).maximisation(how().largest_concentration(1e15).smallest_weight(1.0 / 7.0).fixed_weights(true)),
    ]);
    for fitter in fitters {
        let settings = fitter.settings(5);
        assert_eq!(Fitter::of_settings(&settings).unwrap().settings(5), settings);
    }
    // Of what was given to start from there is only a mark.
    let given = Fitter::new(1).start(Start::Labels(vec![0; 4])).settings(5);
    let block = RowBatch::new(5, &rows).unwrap();
    let error = Fitter::of_settings(&given).unwrap().fit(&block).unwrap_err().to_string();
    assert!(error.starts_with("the setting start must be given again") && error.contains("`labels:"), "{error}");
    assert!(Fitter::of_settings(&given).unwrap().start(Start::KMeans).fit(&block).is_ok());
}

/// A checkpoint whose settings were changed in its bytes; the texts have the same length.
fn edited(state: &Checkpoint, from: &str, to: &str) -> Result<Checkpoint, Error> {
    let bytes = state.to_bytes();
    let at = bytes.windows(from.len()).position(|bytes| bytes == from.as_bytes()).expect("it is there");
    let bytes = [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat();
    Checkpoint::from_bytes(&sealed(bytes))
}

#[test]
fn invalid_settings_are_named() {
    let rows: Vec<f64> = draw(&paper_mixture(), 50, 1);
    let block = RowBatch::new(5, &rows).unwrap();
    let state = begin(Fitter::new(3).method(Method::HardEm), &block, 50);
    for (from, to, words) in [
        (r#""hard""#, r#""lard""#, "the setting method must be the name of a method, found: `lard`"),
        (r#""1e-5""#, r#""soon""#, "the setting tolerance must be a number or none, found: `soon`"),
        (
            r#""1e-5""#,
            r#""1E-5""#,
            "the setting tolerance must be consistent with the other settings and written as this version writes it",
        ),
        (r#"components":"3""#, r#"components":"0""#, "the number of components must be at least 1, found: `0`"),
        (r#"components":"3""#, r#"components":"2""#, "the mixture of the checkpoint must have 2 components, found: `3`"),
        (r#"setting.seed"#, r#"setting.sead"#, "the setting seed must be set, found: `unset`"),
        (r#"restarts":"1""#, r#"restarts":"2""#, "found: `restarts 2`\nhint: fit with several seeds"),
        (r#""auto""#, r#""aato""#, "the setting policy must be the name of a policy, found: `aato`"),
        (r#""exact""#, r#""about""#, "the setting estimator must be the name of an estimator, found: `about`"),
        (r#""kmeans""#, r#""kmaens""#, "the setting start must be the name of a start, found: `kmaens`"),
        (r#""running""#, r#""stopped""#, "the fit has ended (status: `stopped`), so there is no pass to accumulate"),
    ] {
        let error = Accumulator::of(&edited(&state, from, to).unwrap()).unwrap_err().to_string();
        assert!(error.contains(words), "{from}: {error}");
    }
    for method in [Method::OnlineEm { exponent: 0.6, offset: 1.0 }, Method::Sgd(Adam::new())] {
        let refused = Fitter::new(3).method(method).begin(&mut MemorySource::new(block.clone()));
        assert!(matches!(refused, Err(Error::NotByParts { .. })));
    }
    let mut told = 0;
    let stopped = Fitter::new(3).progress(|_| {
        told += 1;
        ControlFlow::Break(())
    });
    assert!(stopped.begin(&mut MemorySource::new(block)).unwrap().is_none());
    assert_eq!(told, 1);
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let rows: Vec<f64> = draw(&paper_mixture(), 200, 1);
    let block = RowBatch::new(5, &rows).unwrap();
    let read = |bytes: &Vec<u8>| PartStats::from_bytes(bytes).unwrap();
    let first = begin(Fitter::new(3).method(Method::StochasticEm), &block, 50);
    let of_first = parts(&first.to_bytes(), &block, 100, false);
    let second = first.step(&merged(&of_first)).unwrap();
    let of_second = parts(&second.to_bytes(), &block, 100, false);
    let refused = |error: Error, words: &str| assert!(error.to_string().contains(words), "{words}: {error}");

    let mut part = read(&of_second[0]);
    refused(part.merge(&read(&of_first[1])).unwrap_err(), "must belong to pass 2, found: `1`\nhint: ");
    refused(second.step(&merged(&of_first)).unwrap_err(), "must belong to pass 2, found: `1`");
    let other = begin(Fitter::new(3).method(Method::StochasticEm).seed(1), &block, 50);
    refused(other.step(&merged(&of_first)).unwrap_err(), "must belong to state ");
    // In another order, twice, or one too few.
    refused(part.merge(&read(&of_second[0])).unwrap_err(), "must start at row 100 of the pass, found: `0`");
    refused(second.step(&read(&of_second[1])).unwrap_err(), "must start at row 0 of the pass, found: `100`");
    refused(
        second.step(&part).unwrap_err(),
        "the total row weight of this pass must be 200, as in the previous pass, found: `100`\nhint: ",
    );
    // What was refused has changed nothing.
    assert_eq!(part.to_bytes(), of_second[0]);
    assert_eq!(second.step(&merged(&of_second)).unwrap().current().trace.len(), 2);
    // Under a mixture alone.
    let soft = Accumulator::of_mixture(&paper_mixture());
    let mut whole = soft.part(0).unwrap();
    whole.add(&block).unwrap();
    let whole = whole.finish();
    assert_eq!((whole.pass(), whole.objective()), (0, whole.sum().objective() / 200.0));
    refused(first.step(&whole).unwrap_err(), "must belong to pass 1, found: `0`");
    // No rows are a part, but not a pass.
    let accumulator = Accumulator::of(&first).unwrap();
    let nothing = accumulator.part(0).unwrap().finish();
    assert_eq!(PartStats::from_bytes(&nothing.to_bytes()).unwrap(), nothing);
    assert!(matches!(first.step(&nothing), Err(Error::NoRows { .. })));
    let mut late = nothing;
    of_first.iter().for_each(|bytes| late.merge(&read(bytes)).unwrap());
    assert_eq!(first.step(&late).unwrap().to_bytes(), second.to_bytes());
}

#[test]
fn adding_no_rows_to_statistics_changes_no_bit() {
    for concentration in [0.1, 30.0, 1e6] {
        let mixture = random_mixture(4, 6, concentration, 1);
        let rows: Vec<f64> = draw(&mixture, 50, 2);
        for stats in [
            SufficientStats::of_batch(&RowBatch::new(6, &rows).unwrap()),
            crate::samples::accumulate(&mixture, &RowBatch::new(6, &rows).unwrap(), Default::default()),
        ] {
            let mut sum = SufficientStats::zero(stats.components(), 6);
            sum.merge(&stats).unwrap();
            assert_eq!(sum.to_bytes(), stats.to_bytes());
            sum.merge(&SufficientStats::zero(stats.components(), 6)).unwrap();
            assert_eq!(sum.to_bytes(), stats.to_bytes());
        }
    }
}

/// Small statistics files: a sum, and block by block with draws.
fn small_files() -> (Checkpoint, Vec<Vec<u8>>) {
    let rows = uniform_rows::<f64>(3, 3 * CHUNK, 1);
    let block = RowBatch::new(3, &rows).unwrap();
    let state = begin(Fitter::new(2).method(Method::StochasticEm).block_rows(CHUNK), &block, 4000);
    let files = [false, true].map(|per_block| parts(&state.to_bytes(), &block, 3 * CHUNK, per_block).swap_remove(0));
    (state, files.to_vec())
}

#[test]
fn errors_in_statistics_files_are_named() {
    let (_, files) = small_files();
    let good = &files[1];
    let edited = |from: &str, to: &str| {
        let at = good.windows(from.len()).position(|bytes| bytes == from.as_bytes()).expect("it is there");
        sealed([&good[..at], to.as_bytes(), &good[at + from.len()..]].concat())
    };
    let mut not_finite = good.clone();
    let last = not_finite.len() - 8;
    not_finite[last..].copy_from_slice(&f64::NAN.to_le_bytes());
    for (bytes, words) in [
        (Vec::new(), "a safetensors file has more than 8 bytes, found: `0`"),
        (good[..good.len() - 1].to_vec(), "bytes of data, found: "),
        (good[..100].to_vec(), "must end within the file, whose length is: `100`"),
        (
            edited("vmfkit.statistics", "vmfkit.checkpoint"),
            "metadata `format` must be vmfkit.statistics, found: `vmfkit.checkpoint`",
        ),
        (edited(r#"version":"3""#, r#"version":"2""#), "the version must be 3, found: `2`"),
        (edited(r#"blocks":"3""#, r#"blocks":"2""#), "at most one per block, found: `3`"),
        (edited(r#"blocks":"3""#, r#"blocks":"x""#), "metadata `blocks` must be a number, found: `x`"),
        (edited(r#""state":""#, r#""steta":""#), "metadata `state` must be sixteen digits, found: ``"),
        (edited("masses", "messes"), "a tensor is missing: `masses`"),
        (sealed(not_finite), "statistics `2`: a value is not finite or a mass is negative"),
    ] {
        let message = match PartStats::from_bytes(&bytes) {
            Ok(_) => panic!("{words}: taken"),
            Err(error) => error.to_string(),
        };
        assert!(message.starts_with("not a valid statistics file: ") && message.contains(words), "{words}: {message}");
    }
}

proptest! {
    /// Bytes that are accepted can be merged and used for a step, or are refused then.
    #[test]
    fn mutated_statistics_never_panic(
        which in 0usize..2,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        numbers in prop::collection::vec((any::<prop::sample::Index>(), any::<f64>()), 0..4),
        length in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        thread_local!(static GOOD: (Checkpoint, Vec<Vec<u8>>) = small_files());
        let (state, bytes) = GOOD.with(|(state, good)| (state.clone(), good[which].clone()));
        let bytes = damaged(bytes, numbers, changes, cut.then_some(length));
        if let Ok(part) = PartStats::from_bytes(&bytes) {
            prop_assert_eq!(PartStats::from_bytes(&part.to_bytes()).unwrap(), part.clone());
            if let Ok(next) = state.step(&part) {
                prop_assert!(Checkpoint::from_bytes(&next.to_bytes()).is_ok());
            }
            let mut twice = part.clone();
            let _ = twice.merge(&part);
        }
    }
}
