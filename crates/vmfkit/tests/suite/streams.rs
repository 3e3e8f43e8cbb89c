//! Rows that arrive in batches: concentrations, drift, forgetting, the first rows, bytes.

use crate::samples::{draw, on_threads, random_mixture, uniform_rows};
use vmfkit::m_step::Note;
use vmfkit::metrics::Agreement;
use vmfkit::train::{OnlineEm, Status, Stop, Trainer};
use vmfkit::{
    Assignment, ConcentrationPolicy, Error, Fitter, Maximisation, Method, Mixture, RowBatch, Start, StreamFitter,
    SufficientStats, VonMisesFisher,
};

/// Two components of these concentrations along random directions.
fn pair(dim: usize, concentrations: [f64; 2]) -> Mixture {
    let directions: Vec<f64> = uniform_rows(dim, 2, 3);
    let components =
        directions.chunks_exact(dim).zip(concentrations).map(|(mu, k)| VonMisesFisher::along(mu.to_vec(), k).unwrap());
    Mixture::new(vec![0.5, 0.5], components.collect()).unwrap()
}

fn sorted_concentrations(mixture: &Mixture) -> Vec<f64> {
    let mut found: Vec<f64> = mixture.components().iter().map(VonMisesFisher::concentration).collect();
    found.sort_by(f64::total_cmp);
    found
}

/// Online EM by a trainer, with one batch per pass.
fn by_trainer(dim: usize, rows: &[f64], batch: usize, policy: ConcentrationPolicy) -> Mixture {
    let how = Maximisation::new().policy(policy);
    let first = RowBatch::new(dim, &rows[..batch * dim]).unwrap();
    let start = Start::KMeans.mixture(&first, 2, &how, 1).unwrap();
    let stop = Stop { tolerance: None, passes: usize::MAX, ..Stop::default() };
    let mut trainer = Trainer::new(start, OnlineEm::new().maximisation(how), stop).unwrap();
    for rows in rows.chunks(batch * dim) {
        let mut stats = SufficientStats::zero(2, dim);
        trainer.model().accumulate(&RowBatch::new(dim, rows).unwrap(), Assignment::Soft, &mut stats).unwrap();
        trainer.step(&stats).unwrap();
        assert_eq!(trainer.end_pass(0).unwrap(), Status::Running);
    }
    trainer.into_fit().mixture
}

fn by_stream(fitter: &Fitter, dim: usize, rows: &[f64], batch: usize) -> StreamFitter {
    let mut stream = fitter.stream().unwrap();
    rows.chunks(batch * dim).for_each(|rows| stream.update(&RowBatch::new(dim, rows).unwrap()).unwrap());
    stream
}

/// 50,000 rows in 100 batches, by a trainer and by a stream, within 2 % of the truth.
fn check_concentrations(policy: ConcentrationPolicy) {
    for (dim, concentrations) in [(100, [100.0, 400.0]), (300, [300.0, 1200.0])] {
        let rows = draw(&pair(dim, concentrations), 50_000, 4);
        let stream = by_stream(&Fitter::new(2).policy(policy).seed(1), dim, &rows, 500);
        assert_eq!((stream.rows(), stream.weight(), stream.updates()), (50_000, 50_000.0, 100));
        for mixture in [stream.mixture().unwrap().clone(), by_trainer(dim, &rows, 500, policy)] {
            for (found, expected) in sorted_concentrations(&mixture).into_iter().zip(concentrations) {
                assert!((found / expected - 1.0).abs() < 0.02, "d = {dim}: {found}, not {expected}");
            }
        }
    }
}

#[test]
fn a_stream_finds_free_concentrations() {
    check_concentrations(ConcentrationPolicy::Free);
}

/// Single precision, batches of 40 to 999 rows, and weights do not bias concentrations.
#[test]
fn batches_of_any_size_and_weight_find_the_concentrations() {
    let (dim, concentrations) = (50, [60.0, 200.0]);
    let rows: Vec<f32> = draw(&pair(dim, concentrations), 50_000, 5);
    let weights: Vec<f64> = (0..50_000).map(|row| [0.5, 1.0, 3.0][row % 3]).collect();
    let fitter = Fitter::new(2).policy(ConcentrationPolicy::Free);
    let (mut even, mut weighted) = (fitter.stream().unwrap(), fitter.stream().unwrap());
    let (mut from, mut number) = (0, 0);
    while from < 50_000 {
        let to = (from + 40 + number * 137 % 960).min(50_000);
        let block = RowBatch::new(dim, &rows[from * dim..to * dim]).unwrap();
        even.update(&block).unwrap();
        weighted.update(&block.with_weights(&weights[from..to]).unwrap()).unwrap();
        (from, number) = (to, number + 1);
    }
    for stream in [even, weighted] {
        for (found, expected) in sorted_concentrations(stream.mixture().unwrap()).into_iter().zip(concentrations) {
            assert!((found / expected - 1.0).abs() < 0.02, "{found}, not {expected}");
        }
    }
}

/// Far from each other, so that every row has one component.
fn axes(dim: usize, components: usize, concentration: f64) -> Vec<VonMisesFisher> {
    let axis = |k: usize| (0..dim).map(|column| f64::from(u8::from(column == k))).collect();
    (0..components).map(|k| VonMisesFisher::new(axis(k), concentration).unwrap()).collect()
}

fn rows_of(density: &VonMisesFisher, rows: usize, seed: u64) -> Vec<f64> {
    draw(&Mixture::new(vec![1.0], vec![density.clone()]).unwrap(), rows, seed)
}

#[test]
fn after_a_half_life_earlier_rows_count_half() {
    let components = axes(6, 2, 400.0);
    let before = Mixture::new(vec![0.8, 0.2], components.clone()).unwrap();
    let fitter = Fitter::new(2).policy(ConcentrationPolicy::Free);
    for batch in [50, 1000] {
        let mut stream = fitter.stream_after(&before, 1_000_000, 1e6).unwrap().half_life(1000.0).reassign(false);
        for number in 0..1000 / batch {
            let rows = rows_of(&components[1], batch, number as u64);
            stream.update(&RowBatch::new(6, &rows).unwrap()).unwrap();
        }
        let weight = stream.mixture().unwrap().weights()[0];
        assert!((weight - 0.4).abs() < 1e-9, "{weight}");
        assert_eq!(stream.settings().get("half_life"), Some("1000.0"));
    }
    // Without one all rows count the same.
    let mut stream = fitter.stream_after(&before, 1000, 1000.0).unwrap();
    stream.update(&RowBatch::new(6, &rows_of(&components[1], 1000, 1)).unwrap()).unwrap();
    assert!((stream.mixture().unwrap().weights()[0] - 0.4).abs() < 1e-9);
    assert_eq!(stream.settings().get("half_life"), None);
}

/// Batches of rows whose clusters are some of these, and the clusters of the rows.
fn batches<'a>(
    clusters: &'a [VonMisesFisher],
    active: impl Fn(usize) -> std::ops::Range<usize> + 'a,
    count: usize,
) -> impl Iterator<Item = (Vec<f64>, Vec<u32>)> + 'a {
    (0..count).map(move |number| {
        let active = active(number);
        let some = clusters[active.clone()].to_vec();
        let mixture = Mixture::new(vec![1.0 / some.len() as f64; some.len()], some).unwrap();
        let (mut rows, mut labels) = (vec![0.0; 300 * mixture.dim()], vec![0; 300]);
        mixture.fill(7, 300 * number as u64, &mut rows, &mut labels).unwrap();
        labels.iter_mut().for_each(|label| *label += active.start as u32);
        (rows, labels)
    })
}

fn agreement(mixture: &Mixture, rows: &[f64], labels: &[u32]) -> f64 {
    let found = mixture.assign(&RowBatch::new(mixture.dim(), rows).unwrap()).unwrap();
    let wide = |labels: &[u32]| -> Vec<i64> { labels.iter().map(|label| i64::from(*label)).collect() };
    Agreement::new(&wide(labels), &wide(&found)).unwrap().adjusted_rand_index()
}

/// The mean ln p of batches before their update, from the fourth on, and of the last one after it.
fn follow(mut stream: StreamFitter, batches: impl Iterator<Item = (Vec<f64>, Vec<u32>)>) -> (f64, f64, StreamFitter) {
    let (mut sum, mut count, mut last) = (0.0, 0, 0.0);
    for (number, (rows, labels)) in batches.enumerate() {
        if number >= 3 {
            sum += agreement(stream.mixture().unwrap(), &rows, &labels);
            count += 1;
        }
        stream.update(&RowBatch::new(50, &rows).unwrap()).unwrap();
        last = agreement(stream.mixture().unwrap(), &rows, &labels);
    }
    (sum / f64::from(count), last, stream)
}

#[test]
fn a_stream_follows_clusters_that_appear() {
    let truth = random_mixture(20, 50, 100.0, 11);
    for policy in [ConcentrationPolicy::Free, ConcentrationPolicy::Shared] {
        let fitter = Fitter::new(20).policy(policy).seed(2);
        let appear = || batches(truth.components(), |number| 0..(4 + number / 2).min(20), 50);
        let (before, last, _) = follow(fitter.stream().unwrap(), appear());
        assert!(before > 0.85 && last > 0.98, "{policy}: {before} {last}");
        let (before, last, still) = follow(fitter.stream().unwrap().reassign(false), appear());
        assert!(before < 0.8 && last < 0.9, "{policy}, where nothing moves: {before} {last}");
        assert!(!still.notes().iter().any(|note| matches!(note, Note::Reassigned { .. })));
    }
}

/// Six of 24 clusters at a time, eight components: components whose clusters are gone move to new
/// ones.
#[test]
fn a_stream_follows_clusters_that_come_and_go() {
    let truth = random_mixture(24, 50, 100.0, 12);
    let turnover = || batches(truth.components(), |number| number / 4..number / 4 + 6, 72);
    let fitter = Fitter::new(8).policy(ConcentrationPolicy::Free).seed(2);
    let (before, last, stream) = follow(fitter.stream().unwrap(), turnover());
    assert!(before > 0.85 && last > 0.95, "{before} {last} {:?} {:?}", stream.mixture().unwrap().weights(), stream.notes());
    // A fit of the first rows, which counts for many more of them, follows too.
    let first: Vec<f64> = batches(truth.components(), |_| 0..6, 40).flat_map(|(rows, _)| rows).collect();
    let fitted = Fitter::new(8).policy(ConcentrationPolicy::Free).fit(&RowBatch::new(50, &first).unwrap()).unwrap();
    let stream = fitter.stream_after(&fitted.mixture, fitted.rows, fitted.weight).unwrap().half_life(2000.0);
    let (before, last, _) = follow(stream, turnover());
    assert!(before > 0.8 && last > 0.9, "{before} {last}");
}

/// A component whose cluster is gone is idle until there is a new cluster, to which it moves.
#[test]
fn a_move_is_noted_and_so_is_a_component_without_rows() {
    let clusters = axes(50, 4, 300.0);
    let run = |later: std::ops::Range<usize>| {
        let mut stream = Fitter::new(3).policy(ConcentrationPolicy::Free).stream().unwrap();
        let mut notes = Vec::new();
        for (rows, _) in batches(&clusters, |number| if number < 10 { 0..3 } else { later.clone() }, 12) {
            stream.update(&RowBatch::new(50, &rows).unwrap()).unwrap();
            notes.push(stream.notes().to_vec());
        }
        assert!(notes[..10].iter().all(Vec::is_empty), "{notes:?}");
        notes.split_off(10)
    };
    let moved = run(1..4);
    assert!(matches!(moved[0][..], [Note::Reassigned { merged_into: None, rows: 3000, .. }]), "{moved:?}");
    assert!(moved[1].is_empty(), "{moved:?}");
    let idle = run(1..3);
    assert!(
        matches!(idle[0][..], [Note::Idle { rows: 300, .. }]) && matches!(idle[1][..], [Note::Idle { rows: 600, .. }]),
        "{idle:?}"
    );
    assert!(idle[1][0].to_string().ends_with("got none of the last 600 rows"), "{}", idle[1][0]);
}

/// Neither rows of known clusters nor one or two outliers move a component.
#[test]
fn nothing_moves_without_drift() {
    let truth = random_mixture(10, 50, 60.0, 13);
    for policy in [ConcentrationPolicy::Free, ConcentrationPolicy::Shared] {
        let mut stream = Fitter::new(10).policy(policy).seed(3).stream().unwrap();
        for (mut rows, _) in batches(truth.components(), |_| 0..10, 60) {
            let strange: Vec<f64> = uniform_rows(50, 1, 99);
            (0..2).for_each(|row| rows[row * 50..][..50].copy_from_slice(&strange));
            stream.update(&RowBatch::new(50, &rows).unwrap()).unwrap();
            assert!(stream.notes().is_empty(), "{policy}: {:?}", stream.notes());
        }
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_stream() {
    let truth = random_mixture(12, 50, 60.0, 14);
    let run = || follow(Fitter::new(12).stream().unwrap(), batches(truth.components(), |number| 0..(4 + number).min(12), 12)).2;
    assert_eq!(on_threads(1, run).to_bytes(), on_threads(5, run).to_bytes());
}

/// Rows that arrive one at a time, in any precision, are held until there are eight per component;
/// the fit equals that of all at once.
#[test]
fn the_first_rows_are_held_until_there_are_enough() {
    let rows: Vec<f64> = draw(&random_mixture(3, 5, 80.0, 15), 24, 1);
    let single: Vec<f32> = rows.iter().map(|x| *x as f32).collect();
    let (starts, columns): (Vec<usize>, Vec<u32>) =
        ((0..=24).map(|row| row * 5).collect(), (0..24 * 5).map(|at| at % 5).collect());
    let blocks = [
        RowBatch::new(5, &rows).unwrap(),
        RowBatch::new(5, &single).unwrap(),
        RowBatch::sparse(5, &starts, &columns, &rows).unwrap(),
        RowBatch::sparse(5, &starts, &columns, &single).unwrap(),
    ];
    let weights: Vec<f64> = (0..24).map(|row| 1.0 + f64::from(row)).collect();
    let weighted = blocks.clone().map(|block| block.with_weights(&weights).unwrap());
    for block in blocks.into_iter().chain(weighted) {
        let fitter = Fitter::new(3).policy(ConcentrationPolicy::Shared).seed(4);
        let mut held = fitter.stream().unwrap();
        assert_eq!((held.first_rows(), held.dim()), (24, None));
        for row in 0..24 {
            assert!(held.mixture().is_none() && held.so_far().is_none());
            assert_eq!((held.held_rows(), held.rows(), held.updates()), (row, row as u64, 0));
            held.update(&block.slice(row, row + 1)).unwrap();
            held = fitter.stream().unwrap().resume(&held.to_bytes()).unwrap();
        }
        assert_eq!((held.held_rows(), held.rows(), held.updates()), (0, 24, 1));
        let mut at_once = fitter.stream().unwrap();
        at_once.update(&block).unwrap();
        assert_eq!(held.to_bytes(), at_once.to_bytes());
        assert!(held.mixture().unwrap().components().iter().all(|component| component.concentration() < 1e4));
    }
    // Rows of two kinds are held too; rows without weight, and those of another dimension, are not.
    let mut stream = Fitter::new(3).stream().unwrap();
    stream.update(&RowBatch::new(5, &single[..50]).unwrap()).unwrap();
    stream.update(&RowBatch::new(5, &rows[50..60]).unwrap()).unwrap();
    stream.update(&RowBatch::new(5, &rows[..5]).unwrap().with_weights(&[0.0]).unwrap()).unwrap();
    let refused = stream.update(&RowBatch::new(4, &[1.0, 0.0, 0.0, 0.0]).unwrap());
    assert_eq!(refused.unwrap_err(), Error::DimensionMismatch { expected: 5, found: 4 });
    assert_eq!((stream.held_rows(), stream.dim()), (12, Some(5)));
    // Where the start needs no rows, the first one is enough.
    let mut stream = Fitter::new(3).start(Start::Mixture(random_mixture(3, 5, 80.0, 15))).stream().unwrap();
    stream.update(&RowBatch::new(5, &rows[..5]).unwrap()).unwrap();
    assert_eq!(stream.updates(), 1);
}

#[test]
fn a_stream_resumes_from_its_bytes() {
    let truth = random_mixture(12, 50, 60.0, 16);
    let fitter = Fitter::new(12).seed(5);
    let stream = || fitter.stream().unwrap().half_life(4000.0);
    let mut whole = stream();
    for (rows, _) in batches(truth.components(), |number| 0..(4 + number).min(12), 12) {
        let mut resumed = fitter.stream().unwrap().half_life(4000.0).resume(&whole.to_bytes()).unwrap();
        let block = RowBatch::new(50, &rows).unwrap();
        whole.update(&block).unwrap();
        resumed.update(&block).unwrap();
        assert_eq!(whole.to_bytes(), resumed.to_bytes());
        assert_eq!(whole.notes(), resumed.notes());
    }
    // The seed goes along; another number of components does not fit.
    let other = Fitter::new(12).seed(6).stream().unwrap().resume(&whole.to_bytes()).unwrap();
    assert_eq!(other.to_bytes(), whole.to_bytes());
    assert!(matches!(Fitter::new(11).stream().unwrap().resume(&whole.to_bytes()), Err(Error::StreamBytes { .. })));
}

#[test]
fn damaged_bytes_of_a_stream_never_panic() {
    let mut stream = Fitter::new(2).stream().unwrap();
    let rows: Vec<f64> = draw(&random_mixture(2, 3, 20.0, 17), 40, 1);
    let mut kinds = Vec::new();
    for rows in rows.chunks(12 * 3) {
        stream.update(&RowBatch::new(3, rows).unwrap()).unwrap();
        kinds.push(stream.to_bytes());
    }
    for bytes in kinds {
        for at in 0..bytes.len() {
            assert!(Fitter::new(2).stream().unwrap().resume(&bytes[..at]).is_err());
            for other in [0, b'9', 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = other;
                // What is accepted can be used.
                if let Ok(mut stream) = Fitter::new(2).stream().unwrap().resume(&damaged) {
                    let _ = stream.update(&RowBatch::new(3, &rows[..30]).unwrap());
                }
            }
        }
    }
}

#[test]
fn only_online_em_fits_a_stream() {
    for method in [Method::HardEm, Method::StochasticEm, Method::KMeans] {
        let name = method.name();
        assert_eq!(Fitter::new(2).method(method).stream().unwrap_err(), Error::NotForStreams { method: name });
    }
    let mut stream = Fitter::new(1).stream().unwrap().half_life(-1.0);
    let rows: Vec<f64> = uniform_rows(3, 8, 1);
    let refused = stream.update(&RowBatch::new(3, &rows).unwrap()).unwrap_err();
    assert_eq!(refused, Error::Option { option: "the half-life", range: "above 0", value: -1.0 });
    assert!(stream.mixture().is_none());
}

#[test]
fn a_stream_finds_concentrations_by_default() {
    check_concentrations(ConcentrationPolicy::default());
}
