//! `Fitter`: every start, method, policy and estimator.

use crate::samples::{accumulate, assert_sound, dot, draw, paper_mixture, random_mixture, uniform_rows};
use std::ops::ControlFlow;
use vmfkit::rows::LARGEST_WEIGHT;
use vmfkit::source::{MemorySource, Source};
use vmfkit::train::{Adam, Annealing, Fit, Status, Stop};
use vmfkit::{
    Assignment, ConcentrationEstimator, ConcentrationPolicy, Error, Fitter, Maximisation, Method, Mixture, RowBatch, Start,
    VonMisesFisher,
};

const POLICIES: [ConcentrationPolicy; 5] = [
    ConcentrationPolicy::Auto,
    ConcentrationPolicy::Free,
    ConcentrationPolicy::Shared,
    ConcentrationPolicy::Fixed(30.0),
    ConcentrationPolicy::Ratio(1.5),
];

fn online() -> Method {
    Method::OnlineEm { exponent: 0.6, offset: 1.0 }
}

fn sgd() -> Method {
    Method::Sgd(Adam::new())
}

fn passes(passes: usize) -> Stop {
    Stop { tolerance: None, passes, ..Stop::default() }
}

fn paper_rows() -> Vec<f64> {
    draw(&paper_mixture(), 1000, 1)
}

fn mean_ln_density(fit: &Fit, block: &RowBatch) -> f64 {
    fit.mixture.evaluate(block).unwrap().mean()
}

#[test]
fn gradient_steps_and_em_reach_the_same_likelihood() {
    let rows = paper_rows();
    let block = RowBatch::new(5, &rows).unwrap();
    for policy in [ConcentrationPolicy::Free, ConcentrationPolicy::Ratio(1.3), ConcentrationPolicy::Shared] {
        let fit = |method| mean_ln_density(&Fitter::new(3).policy(policy).method(method).seed(2).fit(&block).unwrap(), &block);
        let (em, sgd) = (fit(Method::default()), fit(sgd()));
        assert!((sgd / em - 1.0).abs() < 1e-3, "{policy:?}: EM {em}, SGD {sgd}");
    }
    let truth = paper_mixture().evaluate(&block).unwrap().mean();
    let best = mean_ln_density(&Fitter::new(3).policy(ConcentrationPolicy::Free).fit(&block).unwrap(), &block);
    // Twice the gain in likelihood is chi-squared with 17 degrees of freedom.
    assert!((0.0..0.025).contains(&(best - truth)), "{best} {truth}");
}

/// The resultants of small mini-batches are too long on average; the bound must hold all the same.
#[test]
fn gradient_steps_on_small_batches_reach_the_bounded_concentrations_of_em() {
    let truth = paper_mixture();
    let rows: Vec<f64> = draw(&truth, 4000, 4);
    let block = RowBatch::new(5, &rows).unwrap();
    for ratio in [1.0, 1.2, 1.5, 100.0] {
        let policy = ConcentrationPolicy::Ratio(ratio);
        let fitter = || Fitter::new(3).start(Start::Mixture(truth.clone())).policy(policy);
        let em = fitter().stop(passes(100)).fit(&block).unwrap().mixture;
        let steps = fitter().method(sgd()).batch(16).fit(&block).unwrap().mixture;
        for (x, y) in steps.components().iter().zip(em.components()) {
            let found = x.concentration() / y.concentration();
            assert!((found - 1.0).abs() < 0.02, "{ratio}: {found}");
        }
    }
}

/// Rows that can be read once, as from a pipe.
struct Pipe<'a> {
    rows: &'a [f64],
    dim: usize,
    next: usize,
    block: usize,
}

impl Source for Pipe<'_> {
    fn dim(&self) -> usize {
        self.dim
    }

    fn next_batch(&mut self) -> vmfkit::Result<Option<RowBatch<'_>>> {
        let from = self.next;
        self.next = (from + self.block * self.dim).min(self.rows.len());
        if from == self.next { Ok(None) } else { RowBatch::new(self.dim, &self.rows[from..self.next]).map(Some) }
    }

    fn rewind(&mut self) -> vmfkit::Result<()> {
        if self.next == 0 { Ok(()) } else { Err(Error::CannotRewind) }
    }

    fn can_rewind(&self) -> bool {
        false
    }
}

#[test]
fn a_pipe_is_fitted_online_in_one_pass_and_refused_for_two() {
    let rows: Vec<f64> = draw(&paper_mixture(), 20_000, 5);
    let pipe = || Pipe { rows: &rows, dim: 5, next: 0, block: 500 };
    let block = RowBatch::new(5, &rows).unwrap();
    let best = mean_ln_density(&Fitter::new(3).fit(&block).unwrap(), &block);
    for method in [online(), sgd()] {
        let fitter = || Fitter::new(3).method(method.clone()).batch(500);
        let once = fitter().stop(passes(1)).fit_source(&mut pipe()).unwrap();
        assert_eq!((once.status, once.weight, once.trace.len()), (Status::PassLimit, 20_000.0, 1));
        // Nobody has to ask for one pass.
        assert_eq!(fitter().fit_source(&mut pipe()).unwrap().mixture, once.mixture);
        let found = mean_ln_density(&once, &block);
        assert!((found - best).abs() < 0.02, "{}: {found}, not {best}", method.name());
        assert_eq!(fitter().stop(passes(2)).fit_source(&mut pipe()).unwrap_err(), Error::CannotRewind);
        assert_eq!(fitter().stop(passes(1)).restarts(2).fit_source(&mut pipe()).unwrap_err(), Error::CannotRewind);
    }
    // Where the start needs no rows, one pass of any method will do.
    let start = Start::Mixture(paper_mixture());
    let step = Fitter::new(3).start(start.clone()).stop(passes(1)).fit_source(&mut pipe()).unwrap();
    assert_eq!((step.weight, step.trace.len()), (20_000.0, 1));
    assert_eq!(Fitter::new(3).start(start).stop(passes(2)).fit_source(&mut pipe()).unwrap_err(), Error::CannotRewind);
    for method in [Method::default(), Method::HardEm, Method::StochasticEm, Method::KMeans] {
        assert_eq!(Fitter::new(3).method(method).fit_source(&mut pipe()).unwrap_err(), Error::CannotRewind);
    }
    let empty = Fitter::new(3).method(online()).stop(passes(1)).fit_source(&mut Pipe { rows: &[], dim: 5, next: 0, block: 5 });
    assert_eq!(empty.unwrap_err(), Error::NoRows { weight: 0.0 });
}

#[test]
fn a_source_is_fitted_as_its_rows_in_memory_are() {
    let rows = paper_rows();
    let block = RowBatch::new(5, &rows).unwrap();
    let start = Start::Mixture(random_mixture(3, 5, 10.0, 6));
    for method in [Method::default(), Method::HardEm, Method::KMeans] {
        let fitter = || Fitter::new(3).start(start.clone()).method(method.clone());
        let whole = fitter().fit(&block).unwrap();
        for batch in [1, 37, 1000, 5000] {
            let parts = fitter().fit_source(&mut MemorySource::new(block.clone()).batches(batch)).unwrap();
            assert!((parts.objective() / whole.objective() - 1.0).abs() < 1e-10, "{} by {batch}", method.name());
        }
    }
}

/// Reflecting all rows reflects the fit, unless an empty component is restarted in a random
/// direction, as in hard EM from random rows.
#[test]
fn reflected_rows_give_the_reflected_fit() {
    let rows = paper_rows();
    let axis = VonMisesFisher::along(vec![1.0, -2.0, 0.5, 0.3, 1.1], 1.0).unwrap().mean_direction().to_vec();
    let turn = |x: &[f64]| {
        let along = 2.0 * dot(x, &axis);
        x.iter().zip(&axis).map(|(x, a)| x - along * a).collect::<Vec<f64>>()
    };
    let turned: Vec<f64> = rows.chunks_exact(5).flat_map(turn).collect();
    let (block, turned) = (RowBatch::new(5, &rows).unwrap(), RowBatch::new(5, &turned).unwrap());
    for method in [Method::default(), Method::HardEm, online(), Method::KMeans] {
        let starts = [Start::KMeans, Start::PlusPlus, Start::RandomRows];
        for start in starts.into_iter().take(if method.name() == "hard" { 2 } else { 3 }) {
            let fit = |block| Fitter::new(3).method(method.clone()).start(start.clone()).seed(3).fit(block).unwrap().mixture;
            let (still, moved) = (fit(&block), fit(&turned));
            for k in 0..3 {
                let (x, y) = (&still.components()[k], &moved.components()[k]);
                assert!((x.concentration() / y.concentration() - 1.0).abs() < 1e-6, "{} from {start:?}", method.name());
                assert!(dot(&turn(x.mean_direction()), y.mean_direction()) > 1.0 - 1e-10);
            }
        }
    }
}

/// A weight counts equal rows, and the order of rows has no effect: the same seed leads to the same
/// fit but for rounding.
#[test]
fn weights_are_repetitions_and_rows_have_no_order() {
    let rows: Vec<f64> = draw(&random_mixture(6, 4, 3.0, 30), 150, 31);
    let row = |n: usize| rows[4 * n..4 * n + 4].iter().copied();
    let copies: Vec<usize> = (0..150).map(|n| n * 7 % 5).collect();
    let repeated: Vec<f64> = (0..150).flat_map(|n| (0..copies[n]).flat_map(move |_| row(n))).collect();
    let shuffled: Vec<usize> = (0..150).map(|n| n * 91 % 150).collect();
    let rows: Vec<f64> = shuffled.iter().flat_map(|&n| row(n)).collect();
    let weights: Vec<f64> = shuffled.iter().map(|&n| copies[n] as f64).collect();
    let (repeated, weighted) =
        (RowBatch::new(4, &repeated).unwrap(), RowBatch::new(4, &rows).unwrap().with_weights(&weights).unwrap());
    for start in [Start::KMeans, Start::PlusPlus] {
        for method in [Method::default(), Method::HardEm, Method::KMeans] {
            for seed in 0..10 {
                let fitter = || Fitter::new(6).method(method.clone()).start(start.clone()).restarts(2).seed(seed);
                let (x, y) = (fitter().fit(&repeated).unwrap(), fitter().fit(&weighted).unwrap());
                let place = format!("{} from {start:?}, seed {seed}", method.name());
                assert_eq!(x.trace.len(), y.trace.len(), "{place}");
                for (x, y) in x.mixture.components().iter().zip(y.mixture.components()) {
                    assert!((x.concentration() / y.concentration() - 1.0).abs() < 1e-9, "{place}");
                    assert!(dot(x.mean_direction(), y.mean_direction()) > 1.0 - 1e-12, "{place}");
                }
            }
        }
    }
}

/// The same with components of a single row, and with rows of weight 0.
#[test]
fn weights_are_repetitions_even_of_few_rows() {
    let rows: Vec<f64> = draw(&random_mixture(10, 4, 3.0, 36), 40, 37);
    let weights: Vec<f64> = (0..40).map(|n| f64::from(n * 7 % 4)).collect();
    let times =
        |count: fn(usize) -> usize| (0..40usize).flat_map(|n| rows[4 * n..4 * n + 4].repeat(count(n))).collect::<Vec<f64>>();
    let (repeated, those_that_count) = (times(|n| n * 7 % 4), times(|n| usize::from(n * 7 % 4 > 0)));
    let counting: Vec<f64> = weights.iter().copied().filter(|w| *w > 0.0).collect();
    let others =
        [RowBatch::new(4, &repeated).unwrap(), RowBatch::new(4, &those_that_count).unwrap().with_weights(&counting).unwrap()];
    let weighted = RowBatch::new(4, &rows).unwrap().with_weights(&weights).unwrap();
    for components in [8, 15] {
        for seed in 0..30 {
            let mixture = |block| Start::KMeans.mixture(block, components, &Maximisation::new(), seed).unwrap();
            let expected = mixture(&weighted);
            for other in &others {
                for (x, y) in expected.components().iter().zip(mixture(other).components()) {
                    assert!(dot(x.mean_direction(), y.mean_direction()) > 1.0 - 1e-9, "{components} components, seed {seed}");
                }
            }
        }
    }
}

/// Rows with equal projections on their mean direction, or without one, still have an order; the
/// unit of weights has no effect.
#[test]
fn starts_do_not_depend_on_the_order_of_rows_that_cancel() {
    let axes: Vec<f64> = (0..120).flat_map(|n| (0..6).map(move |k| f64::from(k == n % 6))).collect();
    let drawn: Vec<f64> = draw(&random_mixture(4, 6, 2.0, 32), 60, 33);
    let axial: Vec<f64> = drawn.iter().copied().chain(drawn.iter().map(|x| -x)).collect();
    let mirror = |x: &[f64]| [x, &[-x[0]], &x[1..]].concat();
    let mirrored: Vec<f64> = drawn.chunks_exact(6).flat_map(mirror).collect();
    for (name, rows) in [("axes", axes), ("axial", axial), ("mirrored", mirrored)] {
        let turned: Vec<f64> = (0..120).flat_map(|n| rows[n * 77 % 120 * 6..][..6].to_vec()).collect();
        let (block, turned) = (RowBatch::new(6, &rows).unwrap(), RowBatch::new(6, &turned).unwrap());
        let (light, heavy) = (vec![1e-300; 120], vec![LARGEST_WEIGHT; 120]);
        let weighted = |weights| RowBatch::new(6, &rows).unwrap().with_weights(weights).unwrap();
        let others = [turned, weighted(&light), weighted(&heavy)];
        for start in [Start::KMeans, Start::PlusPlus] {
            for seed in 0..10 {
                let mixture = |block| start.mixture(block, 4, &Maximisation::new(), seed).unwrap();
                let expected = mixture(&block);
                for other in &others {
                    for (x, y) in expected.components().iter().zip(mixture(other).components()) {
                        assert!(dot(x.mean_direction(), y.mean_direction()) > 1.0 - 1e-9, "{name}, {start:?}, seed {seed}");
                    }
                }
            }
        }
    }
}

/// Equal components would stay equal.
#[test]
fn no_two_components_start_equal() {
    let one = [0.6, 0.8, 0.0];
    let spread: Vec<f64> = draw(&random_mixture(3, 3, 1.0, 34), 40, 35);
    let rows = [one.repeat(400), spread].concat();
    let block = RowBatch::new(3, &rows).unwrap();
    for (block, rows) in [(&block, 440), (&block.slice(0, 400), 400)] {
        for start in [Start::KMeans, Start::PlusPlus, Start::RandomRows] {
            for seed in 0..10 {
                let mixture = start.mixture(block, 6, &Maximisation::new(), seed).unwrap();
                for (k, x) in mixture.components().iter().enumerate() {
                    let alike = mixture.components()[..k].iter().find(|y| y.mean_direction() == x.mean_direction());
                    assert_eq!(alike, None, "{start:?} of {rows} rows, seed {seed}");
                }
            }
        }
    }
}

#[test]
fn every_start_leads_to_the_same_fit_of_well_separated_rows() {
    let truth = paper_mixture();
    let (mut rows, mut labels) = (vec![0.0; 5000], vec![0; 1000]);
    truth.fill(8, 0, &mut rows, &mut labels).unwrap();
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
    let best_of = |method| Fitter::new(3).method(method).fit(&block).unwrap();
    for start in starts {
        for method in Method::all() {
            let fit = Fitter::new(3).method(method.clone()).start(start.clone()).restarts(5).seed(9).fit(&block).unwrap();
            let (found, best) = match method {
                Method::KMeans => (fit.objective(), best_of(Method::KMeans).objective()),
                _ => (mean_ln_density(&fit, &block), mean_ln_density(&best_of(Method::default()), &block)),
            };
            assert!((found / best - 1.0).abs() < 0.02, "{} from {start:?}: {found}, not {best}", method.name());
        }
    }
}

#[test]
fn the_most_probable_component_of_k_means_is_the_nearest() {
    let rows: Vec<f64> = draw(&random_mixture(6, 4, 20.0, 16), 800, 17);
    let block = RowBatch::new(4, &rows).unwrap();
    let few = Start::Labels((0..800).map(|row| row % 3).collect());
    let given = Start::Mixture(random_mixture(6, 4, 20.0, 18).with_background(0.3).unwrap());
    for start in [Start::KMeans, Start::PlusPlus, Start::RandomRows, Start::Random, few, given] {
        let mixture = Fitter::new(6).method(Method::KMeans).start(start.clone()).fit(&block).unwrap().mixture;
        assert!(!mixture.has_background());
        assert!(mixture.weights().iter().all(|weight| *weight == mixture.weights()[0]), "{start:?}");
        let masses = |assignment| {
            let stats = accumulate(&mixture, &block, assignment);
            (0..6).map(|k| stats.mass(k)).collect::<Vec<_>>()
        };
        assert_eq!(masses(Assignment::Hard), masses(Assignment::Nearest), "{start:?}");
        assert!(masses(Assignment::Nearest).iter().all(|mass| *mass > 0.0), "{start:?}");
    }
}

#[test]
fn a_fit_begins_with_the_given_start() {
    let rows = paper_rows();
    let block = RowBatch::new(5, &rows).unwrap();
    let how = Maximisation::new().policy(ConcentrationPolicy::Free);
    let fitted = Fitter::new(3)
        .maximisation(how.clone())
        .stop(Stop { tolerance: Some(1e-12), passes: 500, ..Stop::default() })
        .fit(&block)
        .unwrap();
    let warm = Fitter::new(3).maximisation(how.clone()).start(Start::Mixture(fitted.mixture.clone())).fit(&block).unwrap();
    assert_eq!((warm.status, warm.trace.len()), (Status::Converged, 2));
    // Directions are kept; weights and concentrations come from the rows nearest to each.
    let directions: Vec<Vec<f64>> = uniform_rows::<f64>(5, 3, 10).chunks_exact(5).map(<[f64]>::to_vec).collect();
    let start = Start::Directions(directions.clone()).mixture(&block, 3, &how, 1).unwrap();
    for (component, direction) in start.components().iter().zip(&directions) {
        assert!(dot(component.mean_direction(), direction) > 1.0 - 1e-12);
    }
    // Labels make components of their rows.
    let mut labels = vec![0; 1000];
    fitted.mixture.assign_into(&block, &mut labels).unwrap();
    let start = Start::Labels(labels.clone()).mixture(&block, 3, &how, 1).unwrap();
    for k in 0..3u32 {
        let count = labels.iter().filter(|label| **label == k).count() as f64;
        assert!((start.weights()[k as usize] - count / 1000.0).abs() < 1e-12);
    }
    let error = |start: Start| start.mixture(&block, 3, &how, 1).unwrap_err();
    assert_eq!(error(Start::Labels(vec![0; 999])), Error::LabelCount { expected: 1000, found: 999 });
    assert_eq!(error(Start::Labels(vec![3; 1000])), Error::Label { row: 0, components: 3, label: 3 });
    assert_eq!(error(Start::Directions(directions[..2].to_vec())), Error::DirectionCount { expected: 3, found: 2 });
    assert!(error(Start::Directions(vec![vec![1.0, 0.0]; 3])) == Error::DimensionMismatch { expected: 5, found: 2 });
    assert!(matches!(error(Start::Directions(vec![vec![0.0; 5]; 3])), Error::MeanDirection { .. }));
    assert_eq!(error(Start::Mixture(random_mixture(3, 4, 1.0, 1))), Error::DimensionMismatch { expected: 5, found: 4 });
    assert!(Start::KMeans.mixture(&block, 0, &how, 1).is_err());
}

#[test]
fn a_start_can_be_cancelled() {
    let rows = paper_rows();
    let block = RowBatch::new(5, &rows).unwrap();
    let mut calls = 0;
    let stop_at_once = |now: vmfkit::train::Progress| {
        calls += 1;
        assert_eq!(now.pass, 0, "the start comes before all passes");
        ControlFlow::Break(())
    };
    let fit = Fitter::new(3).progress(stop_at_once).fit(&block).unwrap();
    assert_eq!((fit.status, fit.trace.len(), calls), (Status::Stopped, 0, 1));
    // Rows of a source are counted once when they are sampled, then every seed and every pass of
    // k-means asks.
    let mut asked = Vec::new();
    let stop_in_k_means = |now: vmfkit::train::Progress| {
        asked.push((now.pass, now.rows));
        if asked.len() < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let mut source = MemorySource::new(RowBatch::new(5, &rows).unwrap());
    let fit = Fitter::new(3).progress(stop_in_k_means).fit_source(&mut source).unwrap();
    assert_eq!(fit.status, Status::Stopped);
    assert_eq!(asked, [(0, block.len() as u64); 3]);
    // Seeds are asked for one by one: with many components each takes its time.
    let mut calls = 0;
    let start = Start::PlusPlus.mixture_while(&block, 40, &Maximisation::new(), 1, &mut || {
        calls += 1;
        if calls < 20 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert_eq!((start.unwrap().components().len(), calls), (40, 20));
}

#[test]
fn the_best_of_the_restarts_is_kept() {
    let rows: Vec<f64> = draw(&random_mixture(12, 3, 30.0, 11), 600, 12);
    let block = RowBatch::new(3, &rows).unwrap();
    let mut ends = [f64::NAN; 8];
    let fitter = || Fitter::new(12).start(Start::RandomRows).stop(passes(10)).seed(13);
    let best = fitter()
        .restarts(8)
        .watch(|restart, pass, _| {
            ends[restart] = pass.objective;
            ControlFlow::Continue(())
        })
        .fit(&block)
        .unwrap();
    assert_eq!(best.objective(), ends.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    assert!(ends.iter().all(|end| end.is_finite()) && ends[1..].iter().any(|end| *end != ends[0]), "{ends:?}");
    // The first of the restarts is the fit without any.
    assert_eq!(fitter().fit(&block).unwrap().objective(), ends[0]);
    assert_eq!(fitter().fit(&block).unwrap().mixture, fitter().fit(&block).unwrap().mixture);
    let stopped = fitter().restarts(8).watch(|_, _, _| ControlFlow::Break(())).fit(&block).unwrap();
    assert_eq!((stopped.status, stopped.trace.len()), (Status::Stopped, 1));
}

#[test]
fn every_estimator_works_with_every_policy() {
    let rows = paper_rows();
    let block = RowBatch::new(5, &rows).unwrap();
    for policy in [ConcentrationPolicy::Free, ConcentrationPolicy::Shared, ConcentrationPolicy::default()] {
        let fit = |estimator| {
            let how = Maximisation::new().policy(policy).estimator(estimator);
            Fitter::new(3).maximisation(how).seed(1).fit(&block).unwrap().mixture
        };
        let exact = fit(ConcentrationEstimator::Exact);
        for estimator in ConcentrationEstimator::ALL {
            for (x, y) in fit(estimator).components().iter().zip(exact.components()) {
                assert!((x.concentration() / y.concentration() - 1.0).abs() < 0.05, "{}", estimator.name());
            }
        }
    }
}

#[test]
fn fixed_weights_and_a_smallest_weight_are_kept_by_every_method() {
    let truth = Mixture::new(vec![0.02, 0.38, 0.6], paper_mixture().components().to_vec()).unwrap();
    let rows: Vec<f64> = draw(&truth, 1000, 14);
    let block = RowBatch::new(5, &rows).unwrap();
    for method in Method::all() {
        // K-means has equal weights, whatever it is told.
        let given = if matches!(method, Method::KMeans) { vec![] } else { vec![[0.25, 0.25, 0.5], [0.0, 0.5, 0.5]] };
        for weights in given {
            let start = Mixture::new(weights.to_vec(), truth.components().to_vec()).unwrap();
            let how = Maximisation::new().fixed_weights(true);
            let fitter = Fitter::new(3).method(method.clone()).maximisation(how).start(Start::Mixture(start));
            assert_eq!(fitter.stop(passes(5)).fit(&block).unwrap().mixture.weights(), weights, "{}", method.name());
        }
        for (components, floor) in [(3, 0.1), (3, 1.0 / 3.0), (6, 0.01)] {
            let how = Maximisation::new().smallest_weight(floor);
            let mixture = Fitter::new(components).method(method.clone()).maximisation(how).fit(&block).unwrap().mixture;
            assert_sound(&mixture, 1e10, method.name());
            let smallest = mixture.weights().iter().copied().fold(1.0, f64::min);
            assert!(smallest >= floor * (1.0 - 1e-12), "{}: {smallest}, not {floor}", method.name());
        }
    }
}

/// Method x policy x background: weights sum to 1, concentrations are within bounds, directions are
/// unit, and a policy is kept.
#[test]
fn every_method_keeps_every_policy() {
    let rows: Vec<f64> = draw(&paper_mixture().with_background(0.1).unwrap(), 600, 15);
    let single: Vec<f32> = rows.iter().map(|x| *x as f32).collect();
    let warm = Method::Em { annealing: Some(Annealing { from: 4.0, factor: 0.5 }) };
    for block in [RowBatch::new(5, &rows).unwrap(), RowBatch::new(5, &single).unwrap()] {
        for method in Method::all().into_iter().chain([warm.clone()]) {
            for policy in POLICIES {
                for background in [None, Some(0.1)] {
                    let place = format!("{} {policy:?} {background:?}", method.name());
                    let mut fitter = Fitter::new(4).method(method.clone()).policy(policy).stop(passes(8));
                    if let Some(weight) = background {
                        fitter = fitter.background(weight);
                    }
                    let fit = match fitter.fit(&block) {
                        Err(Error::BackgroundNotSupported { .. }) if background.is_some() && method.name() == "kmeans" => {
                            continue;
                        }
                        fit => fit.unwrap(),
                    };
                    assert_sound(&fit.mixture, 1e10, &place);
                    assert_eq!((fit.mixture.has_background(), fit.trace.len()), (background.is_some(), 8), "{place}");
                    assert!(fit.trace.iter().all(|pass| pass.objective.is_finite()), "{place}");
                    let concentrations: Vec<f64> = fit.mixture.components()[..4].iter().map(|c| c.concentration()).collect();
                    let (first, same) = (concentrations[0], |k: &f64| (k / concentrations[0] - 1.0).abs() < 1e-12);
                    assert!(
                        policy != ConcentrationPolicy::Shared || concentrations.iter().all(same),
                        "{place}: {concentrations:?}"
                    );
                    assert!(
                        policy != ConcentrationPolicy::Fixed(30.0) || (same(&30.0) && (first - 30.0).abs() < 1e-12),
                        "{place}"
                    );
                }
            }
        }
    }
}

#[test]
fn options_outside_their_range_are_refused() {
    let rows = paper_rows();
    let block = RowBatch::new(5, &rows).unwrap();
    let wide = Maximisation::new().smallest_weight(0.4);
    for fitter in [
        Fitter::new(0),
        Fitter::new(3).restarts(0),
        Fitter::new(3).batch(0),
        Fitter::new(3).background(0.0),
        Fitter::new(3).background(1.0),
        Fitter::new(3).background(f64::NAN),
        Fitter::new(3).maximisation(wide),
        Fitter::new(3).maximisation(Maximisation::new().smallest_weight(0.3)).background(0.1).method(sgd()),
        Fitter::new(3).stop(passes(0)),
        Fitter::new(3).method(Method::OnlineEm { exponent: 0.3, offset: 1.0 }),
    ] {
        let place = format!("{fitter:?}");
        assert!(matches!(fitter.fit(&block), Err(Error::Option { .. })), "{place}");
    }
    let refused = Fitter::new(3).method(Method::KMeans).background(0.1).fit(&block).unwrap_err();
    assert_eq!(refused, Error::BackgroundNotSupported { method: "k-means", weight: 0.1 });
    for method in Method::all() {
        assert_eq!(method.name().parse::<Method>().unwrap().name(), method.name());
    }
    assert!("lloyd".parse::<Method>().is_err());
}

/// Only EM with the start `KMeans` searches, under every policy.
#[test]
fn only_em_from_k_means_searches() {
    let searches = |fitter: Fitter| fitter.settings(5).get("search").is_some();
    assert!(POLICIES.into_iter().all(|policy| searches(Fitter::new(3).policy(policy))));
    let annealing = Some(vmfkit::train::Annealing { from: 10.0, factor: 0.8 });
    let others = [
        Fitter::new(3).search(false),
        Fitter::new(3).start(Start::PlusPlus),
        Fitter::new(3).start(Start::Mixture(paper_mixture())),
        Fitter::new(3).method(Method::HardEm),
        Fitter::new(3).method(Method::Em { annealing }),
    ];
    assert!(others.into_iter().all(|fitter| !searches(fitter)));
    // Without its search a fit is that from the start that k-means makes.
    let rows: Vec<f64> = draw(&random_mixture(6, 7, 20.0, 4), 500, 5);
    let block = RowBatch::new(7, &rows).unwrap();
    let fit = Fitter::new(6).search(false).seed(3).fit(&block).unwrap();
    let start = Start::KMeans.mixture(&block, 6, &Maximisation::new(), 3).unwrap();
    let how = Maximisation::new().dispersion(fit.dispersion().unwrap());
    assert_eq!(fit.mixture, Fitter::new(6).start(Start::Mixture(start)).maximisation(how).fit(&block).unwrap().mixture);
    let searched = Fitter::new(6).seed(3).fit(&block).unwrap();
    assert!(searched.mixture.evaluate(&block).unwrap().mean() >= fit.mixture.evaluate(&block).unwrap().mean() - 1e-4);
}

/// The sample of a search takes at most 64 MB, but is never smaller than that of a start.
#[test]
fn the_sample_of_a_source_has_the_rows_that_its_start_needs() {
    let rows = |fitter: Fitter| [100, 384, 768, 3072].map(|dim| fitter.sample_rows(dim));
    assert_eq!(rows(Fitter::new(10)), [32768, 32768, 21845, 8192]);
    assert_eq!(rows(Fitter::new(1000)), [64000; 4]);
    assert_eq!(rows(Fitter::new(10).search(false)), [8192; 4]);
    assert_eq!(rows(Fitter::new(10).policy(ConcentrationPolicy::Free)), rows(Fitter::new(10)));
    assert_eq!(rows(Fitter::new(1)), [8192; 4]);
    assert_eq!(rows(Fitter::new(10).sample(77)), [77; 4]);
}
