//! The rules and their loop: EM never lowers its objective, gradients match differences, several
//! processes equal one, fits stop when told.

use crate::samples::{accumulate, assert_sound, dot, draw, paper_mixture, random_mixture, uniform_rows};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::ops::ControlFlow;
use vmfkit::m_step::{Note, expected_stats, gradient, maximise};
use vmfkit::mixture::BLOCK_ROWS;
use vmfkit::source::MemorySource;
use vmfkit::train::{Adam, Annealing, Baseline, Em, Fit, OnlineEm, Rule, Status, Stop, Trainer, fit};
use vmfkit::{
    Assignment, ConcentrationPolicy, EStep, Error, Fitter, Maximisation, Method, Mixture, RowBatch, Start, SufficientStats,
    VonMisesFisher,
};

const POLICIES: [ConcentrationPolicy; 3] =
    [ConcentrationPolicy::Free, ConcentrationPolicy::Shared, ConcentrationPolicy::Fixed(25.0)];

fn passes(passes: usize) -> Stop {
    Stop { tolerance: None, passes, ..Stop::default() }
}

fn run(block: &RowBatch, start: &Mixture, rule: impl Into<Rule>, stop: Stop) -> Fit {
    fit(&mut MemorySource::new(block.slice(0, block.len())), Trainer::new(start.clone(), rule, stop).unwrap()).unwrap()
}

/// The largest relative decrease of the objective in a pass. Passes that restart a component are
/// left out.
fn worst_descent(fit: &Fit) -> f64 {
    let restarted: Vec<usize> =
        fit.notes.iter().filter_map(|note| if let Note::Reseeded { pass, .. } = note { Some(*pass) } else { None }).collect();
    let pairs = fit.trace.windows(2).enumerate().filter(|(at, _)| !restarted.contains(&(at + 1)));
    pairs.fold(0.0, |worst, (_, pair)| {
        let scale = 1.0 + pair[0].objective.abs() + pair[0].largest_concentration;
        worst.max((pair[0].objective - pair[1].objective) / scale)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, rng_seed: RngSeed::Fixed(5), ..ProptestConfig::default() })]

    /// Free, shared and fixed concentrations; soft and hard EM and k-means; with and without a
    /// background; in both precisions.
    #[test]
    fn em_and_its_relatives_never_lower_their_objective(
        dim in 2usize..9, components in 1usize..7, rows in 5usize..600, ln_k in -1.0f64..6.0, background: bool, seed in 0u64..1000,
    ) {
        let truth = random_mixture(components, dim, ln_k.exp(), seed).with_background(0.2).unwrap();
        let double: Vec<f64> = draw(&truth, rows, seed);
        let single: Vec<f32> = double.iter().map(|x| *x as f32).collect();
        // One concentration for all, so that the first step is within every policy's choice.
        let directions = uniform_rows::<f64>(dim, components, seed + 1);
        let densities = directions.chunks_exact(dim).map(|mu| VonMisesFisher::along(mu.to_vec(), 25.0).unwrap()).collect();
        let mut start = Mixture::new(vec![1.0 / components as f64; components], densities).unwrap();
        if background {
            start = start.with_background(0.1).unwrap();
        }
        for (block, rounding) in [(RowBatch::new(dim, &double).unwrap(), 1e-12), (RowBatch::new(dim, &single).unwrap(), 1e-7)] {
            for policy in POLICIES {
                for assignment in [Assignment::Soft, Assignment::Hard, Assignment::Nearest] {
                    let rule = Em::new().assignment(assignment).maximisation(Maximisation::new().policy(policy));
                    let fit = run(&block, &start, rule, passes(15));
                    let descent = worst_descent(&fit);
                    prop_assert!(descent <= rounding, "{policy:?}, {assignment:?}: {descent:e} in {:?}", fit.trace);
                    assert_sound(&fit.mixture, 1e10, "climbing");
                }
            }
        }
    }

    /// Compares with differences of the mean log-likelihood in logits, directions and ln
    /// concentrations.
    #[test]
    fn the_gradient_of_a_mixture_matches_differences(
        dim in 2usize..7, components in 1usize..5, ln_k in -1.0f64..4.0, background: bool, seed in 0u64..1000,
    ) {
        let rows = uniform_rows::<f64>(dim, 30, seed);
        let weights: Vec<f64> = (0..30).map(|i| f64::from(i % 4)).collect();
        let block = RowBatch::new(dim, &rows).unwrap().with_weights(&weights).unwrap();
        let model = random_mixture(components, dim, ln_k.exp(), seed);
        let model = if background { model.with_background(0.3).unwrap() } else { model };
        let at = Point::of(&model);
        let found = gradient(&accumulate(&model, &block, Assignment::Soft), &model);
        let count = model.components().len();
        let slope = |change: &dyn Fn(&mut Point, f64)| {
            let h = 1e-5;
            let moved = |by: f64| {
                let mut point = at.clone();
                change(&mut point, by);
                point.mixture(background).evaluate(&block).unwrap().mean()
            };
            (moved(h) - moved(-h)) / (2.0 * h)
        };
        let room = 1e-7 * (1.0 + 4.0 * ln_k.exp());
        for k in 0..count {
            let difference = slope(&|point, by| point.logits[k] += by);
            prop_assert!((difference - found.logits[k]).abs() < room, "logit {k}: {difference} {}", found.logits[k]);
            if model.is_background(k) {
                prop_assert!(found.ln_concentrations[k] == 0.0 && found.directions[k * dim..].iter().all(|g| *g == 0.0));
                continue;
            }
            let difference = slope(&|point, by| point.ln_concentrations[k] += by);
            prop_assert!((difference - found.ln_concentrations[k]).abs() < room);
            for j in 0..dim {
                let difference = slope(&|point, by| point.directions[k][j] += by);
                prop_assert!((difference - found.directions[k * dim + j]).abs() < room);
            }
        }
    }

    #[test]
    fn hostile_bytes_are_an_error_and_never_a_panic(
        header in prop::collection::vec(any::<u64>(), 2), body in prop::collection::vec(any::<u8>(), 0..200),
        small in prop::collection::vec(0u64..5, 2), cut in 0usize..200, place in 0usize..200, byte: u8,
    ) {
        let check = |bytes: &[u8]| {
            if let Ok(stats) = SufficientStats::from_bytes(bytes) {
                assert_eq!(stats.to_bytes(), bytes);
                // What is taken can be used.
                if stats.dim() == 3 && stats.components() == 2 {
                    let _ = maximise(&stats, &random_mixture(2, 3, 5.0, 1), &Maximisation::new());
                }
            }
        };
        for sizes in [&header, &small] {
            let sizes = sizes.iter().flat_map(|x| x.to_le_bytes());
            check(&b"vmfstat1".iter().copied().chain(sizes).chain(body.iter().copied()).collect::<Vec<_>>());
        }
        check(&body);
        let rows = uniform_rows::<f64>(3, 5, 2);
        let mut bytes = accumulate(&random_mixture(2, 3, 5.0, 1), &RowBatch::new(3, &rows).unwrap(), Assignment::Soft).to_bytes();
        prop_assert!(SufficientStats::from_bytes(&bytes[..cut.min(bytes.len() - 1)]).is_err());
        let place = place % bytes.len();
        bytes[place] = byte;
        check(&bytes);
        bytes.push(byte);
        prop_assert!(SufficientStats::from_bytes(&bytes).is_err());
    }
}

/// A mixture in unconstrained parameters.
#[derive(Clone)]
struct Point {
    logits: Vec<f64>,
    directions: Vec<Vec<f64>>,
    ln_concentrations: Vec<f64>,
}

impl Point {
    fn of(mixture: &Mixture) -> Self {
        Point {
            logits: mixture.weights().iter().map(|w| w.ln()).collect(),
            directions: mixture.components().iter().map(|c| c.mean_direction().to_vec()).collect(),
            ln_concentrations: mixture.components().iter().map(|c| c.concentration().ln()).collect(),
        }
    }

    fn mixture(&self, background: bool) -> Mixture {
        let sum: f64 = self.logits.iter().map(|z| z.exp()).sum();
        let mut weights: Vec<f64> = self.logits.iter().map(|z| z.exp() / sum).collect();
        let parts = self.directions.iter().zip(&self.ln_concentrations);
        let mut densities: Vec<_> = parts.map(|(mu, ln_k)| VonMisesFisher::along(mu.clone(), ln_k.exp()).unwrap()).collect();
        if !background {
            return Mixture::new(weights, densities).unwrap();
        }
        densities.pop();
        let behind = weights.pop().unwrap();
        weights.iter_mut().for_each(|w| *w /= 1.0 - behind);
        Mixture::new(weights, densities).unwrap().with_background(behind).unwrap()
    }
}

/// The largest sizes of a header, whose product or length in bytes overflows.
#[test]
fn impossible_sizes_of_statistics_are_refused() {
    for (components, dim) in
        [(u64::MAX / 2, 2u64), (u64::MAX, 2), (u64::MAX / 4, 3), (1 << 61, 2), (1 << 60, 1 << 60), (0, 0), (1, 1)]
    {
        let mut bytes = b"vmfstat1".to_vec();
        bytes.extend(components.to_le_bytes());
        bytes.extend(dim.to_le_bytes());
        bytes.extend([0; 16]);
        assert!(matches!(SufficientStats::from_bytes(&bytes), Err(Error::StatisticsBytes { .. })), "{components} x {dim}");
    }
    let mut stats = SufficientStats::zero(1, 2);
    assert_eq!(SufficientStats::from_bytes(&stats.to_bytes()).unwrap(), stats);
    stats.scale(f64::NAN);
    assert!(SufficientStats::from_bytes(&stats.to_bytes()).is_err());
}

#[test]
fn online_em_on_one_block_is_one_step_of_em() {
    let truth = paper_mixture();
    let rows: Vec<f64> = draw(&truth, 1000, 1);
    let block = RowBatch::new(5, &rows).unwrap();
    let start = random_mixture(3, 5, 10.0, 2);
    assert_eq!(run(&block, &start, OnlineEm::new(), passes(1)).mixture, run(&block, &start, Em::new(), passes(1)).mixture);
}

/// With steps of 1/t the running statistics are the mean of all rows, whatever the mini-batches.
#[test]
fn online_em_with_steps_of_one_over_t_forgets_nothing() {
    let mixture = random_mixture(1, 4, 20.0, 3);
    let rows: Vec<f64> = draw(&mixture, 1000, 4);
    let block = RowBatch::new(4, &rows).unwrap();
    let all = maximise(&SufficientStats::of_batch(&block), &mixture, &Maximisation::new()).unwrap().0;
    for sizes in [&[90][..], &[1, 300, 2], &[300, 1], &[999, 1]] {
        let rule = OnlineEm::new().exponent(1.0).offset(0.0);
        let mut trainer = Trainer::new(mixture.clone(), rule, passes(1)).unwrap();
        let mut from = 0;
        for size in sizes.iter().cycle() {
            let to = (from + size).min(1000);
            trainer.step(&accumulate(trainer.model(), &block.slice(from, to), Assignment::Soft)).unwrap();
            from = to;
            if from == 1000 {
                break;
            }
        }
        trainer.end_pass(0).unwrap();
        let found = trainer.into_fit().mixture.components()[0].concentration();
        assert!((found / all.components()[0].concentration() - 1.0).abs() < 1e-10, "{sizes:?}: {found}");
    }
}

/// A mini-batch of one row once counted as much as one of thousands.
#[test]
fn online_em_counts_a_block_by_its_rows() {
    let truth = paper_mixture();
    let rows: Vec<f64> = draw(&truth, 513, 1);
    let start = random_mixture(3, 5, 10.0, 2);
    let mean_after = |count: usize, sizes: &[usize]| {
        let block = RowBatch::new(5, &rows[..5 * count]).unwrap();
        let mut trainer = Trainer::new(start.clone(), OnlineEm::new(), passes(20)).unwrap();
        for _ in 0..20 {
            let mut from = 0;
            for size in sizes {
                let part = block.slice(from, from + size);
                trainer.step(&accumulate(trainer.model(), &part, Assignment::Soft)).unwrap();
                from += size;
            }
            assert_eq!(from, count);
            trainer.end_pass(0).unwrap();
        }
        let stats = accumulate(&trainer.into_fit().mixture, &block, Assignment::Soft);
        stats.objective() / stats.weight()
    };
    let (even, odd, alternate) =
        (mean_after(512, &[256, 256]), mean_after(513, &[256, 256, 1]), mean_after(512, &[255, 1, 255, 1]));
    assert!((odd - even).abs() < 0.02 && (alternate - even).abs() < 0.02, "{even} {odd} {alternate}");
}

/// A row of weight 8 counts as 8 rows.
#[test]
fn online_em_counts_a_block_by_its_weight() {
    let rows: Vec<f64> = draw(&paper_mixture(), 300, 1);
    let start = random_mixture(3, 5, 10.0, 2);
    let fit = |weights: &[f64]| {
        let block = RowBatch::new(5, &rows).unwrap().with_weights(weights).unwrap();
        let mut source = MemorySource::new(block).batches(100);
        fit(&mut source, Trainer::new(start.clone(), OnlineEm::new().maximisation(free()), passes(5)).unwrap()).unwrap().mixture
    };
    let (light, heavy) = (fit(&[0.125; 300]), fit(&[8.0; 300]));
    for (a, b) in light.components().iter().zip(heavy.components()) {
        assert!((a.concentration() / b.concentration() - 1.0).abs() < 1e-9, "the unit of weights does not matter");
    }
}

fn free() -> Maximisation {
    Maximisation::new().policy(ConcentrationPolicy::Free)
}

/// A stream after a fit moves the mixture in proportion to its rows, and leaves components without
/// rows unchanged.
#[test]
fn online_em_after_a_fit_counts_all_rows_the_same() {
    let free = Maximisation::new().policy(ConcentrationPolicy::Free);
    let truth = random_mixture(3, 5, 200.0, 2).with_background(0.1).unwrap();
    let rows: Vec<f64> = draw(&truth, 3000, 1);
    let mut labels = vec![0; 3000];
    let block = RowBatch::new(5, &rows).unwrap();
    truth.assign_into(&block, &mut labels).unwrap();
    let of_one: Vec<f64> =
        rows.chunks(5).zip(&labels).filter(|(_, label)| **label == 1).take(30).flat_map(|(row, _)| row.to_vec()).collect();
    let few = RowBatch::new(5, &of_one).unwrap();
    let trainer = || {
        let rule = OnlineEm::new().maximisation(free.clone()).after(&truth, 3000.0).unwrap();
        Trainer::new(truth.clone(), rule, passes(2)).unwrap()
    };
    let found = fit(&mut MemorySource::new(few.clone()), trainer()).unwrap();
    let mut responsibilities = vec![0.0; 4 * few.len()];
    truth.responsibilities_into(&few, &mut responsibilities).unwrap();
    let share: f64 = responsibilities.chunks(4).map(|row| row[0]).sum();
    assert!((found.mixture.weights()[0] - (truth.weights()[0] * 3000.0 + 2.0 * share) / 3060.0).abs() < 1e-5);
    assert!(found.notes.is_empty(), "{:?}", found.notes);
    // The same in two parts.
    let mut first = trainer();
    let mut stats = SufficientStats::zero(4, 5);
    first.model().accumulate(&few, first.assignment(), &mut stats).unwrap();
    first.step(&stats).unwrap();
    first.end_pass(0).unwrap();
    let other = OnlineEm::new().maximisation(free.clone());
    let begun = Trainer::new(truth.clone(), other, passes(2)).unwrap().resume(&first.checkpoint().unwrap()).unwrap();
    assert_eq!(fit(&mut MemorySource::new(few), begun).unwrap().mixture, found.mixture);
}

#[test]
fn the_m_step_of_expected_statistics_reproduces_the_mixture() {
    let along = |x: f64, y: f64, concentration| VonMisesFisher::along(vec![x, y, 1.0], concentration).unwrap();
    let densities = vec![along(1.0, 0.0, 3.0), along(0.0, 1.0, 3.2), along(-1.0, 1.0, 1e9)];
    let mixture = Mixture::new(vec![0.2, 0.3, 0.5], densities).unwrap().with_background(0.1).unwrap();
    let how = Maximisation::new().policy(ConcentrationPolicy::Free);
    let found = maximise(&expected_stats(&mixture, 30.0).unwrap(), &mixture, &how).unwrap().0;
    for (found, expected) in found.components().iter().zip(mixture.components()) {
        assert!((found.concentration() - expected.concentration()).abs() <= 1e-3 * expected.concentration());
        assert!(dot(found.mean_direction(), expected.mean_direction()) > 1.0 - 1e-12);
    }
    assert!(found.weights().iter().zip(mixture.weights()).all(|(a, b)| (a - b).abs() < 1e-12));
    // A fit under a bound is made again too.
    let how = Maximisation::new().policy(ConcentrationPolicy::Ratio(1.1));
    let wide = random_mixture(3, 64, 50.0, 2);
    let mut stats = SufficientStats::zero(3, 64);
    wide.accumulate(&RowBatch::new(64, &draw::<f64>(&wide, 300, 3)).unwrap(), Assignment::Soft, &mut stats).unwrap();
    let fitted = maximise(&stats, &wide, &how).unwrap().0;
    let found = maximise(&expected_stats(&fitted, 300.0).unwrap(), &fitted, &how).unwrap().0;
    for (found, expected) in found.components().iter().zip(fitted.components()) {
        assert!((found.concentration() / expected.concentration() - 1.0).abs() < 1e-9);
    }
    for weight in [0.0, f64::NAN, f64::INFINITY] {
        assert!(expected_stats(&mixture, weight).is_err());
    }
}

/// Each worker has a slice of the rows, the mixture, the assignment and the number of its first
/// row, and answers with bytes.
fn by_workers(block: &RowBatch, start: &Mixture, rule: impl Into<Rule>, stop: Stop, slice: usize) -> Fit {
    let mut trainer = Trainer::new(start.clone(), rule, stop).unwrap();
    while trainer.status() == Status::Running {
        let mut pass = SufficientStats::zero(start.components().len(), start.dim());
        for from in (0..block.len()).step_by(slice) {
            let part = block.slice(from, (from + slice).min(block.len()));
            // A step of an online method begins with the first row of its batch.
            let first_row = if slice == BLOCK_ROWS { from } else { 0 };
            let mut e_step = EStep::new(trainer.model(), trainer.assignment()).unwrap().first_row(first_row as u64);
            e_step.add(&part).unwrap();
            let answer = SufficientStats::from_bytes(&e_step.finish().to_bytes()).unwrap();
            if trainer.is_online() { trainer.step(&answer).unwrap() } else { pass.merge(&answer).unwrap() }
        }
        if !trainer.is_online() {
            trainer.step(&pass).unwrap();
        }
        trainer.end_pass(block.len() as u64).unwrap();
    }
    trainer.into_fit()
}

#[test]
fn workers_that_exchange_bytes_equal_one_process_bit_for_bit() {
    let truth = paper_mixture();
    let rows_of: Vec<f32> = draw(&truth, 20_000, 5);
    let start = random_mixture(3, 5, 10.0, 6).with_background(0.05).unwrap();
    let rules: [Rule; 5] = [
        Em::new().into(),
        Em::new().assignment(Assignment::Hard).into(),
        Em::new().assignment(Assignment::Sampled { seed: 1 }).into(),
        OnlineEm::new().into(),
        Adam::new().into(),
    ];
    for rule in rules {
        // Workers have whole blocks of the E step, or what a step is made after.
        let (rows, slice) = if rule.is_online() { (2000, 300) } else { (20_000, BLOCK_ROWS) };
        let block = RowBatch::new(5, &rows_of[..5 * rows]).unwrap();
        let mut source = MemorySource::new(block.clone()).batches(300);
        let one = fit(&mut source, Trainer::new(start.clone(), rule.clone(), passes(5)).unwrap()).unwrap();
        let many = by_workers(&block, &start, rule, passes(5), slice);
        assert_eq!(one.mixture, many.mixture);
        assert_eq!(one.weight, rows as f64);
        let objectives = |fit: &Fit| fit.trace.iter().map(|pass| pass.objective).collect::<Vec<_>>();
        assert_eq!(objectives(&one), objectives(&many));
    }
}

#[test]
fn a_fit_ends_for_one_of_three_reasons() {
    let rows: Vec<f64> = draw(&paper_mixture(), 500, 7);
    let block = RowBatch::new(5, &rows).unwrap();
    let start = random_mixture(3, 5, 10.0, 8);
    let trainer = |stop| Trainer::new(start.clone(), Em::new(), stop).unwrap();
    let over = |trainer: Trainer| fit(&mut MemorySource::new(block.clone()), trainer).unwrap();
    assert_eq!(trainer(Stop::default()).status(), Status::Running);
    let limited = over(trainer(passes(3)));
    assert_eq!((limited.status, limited.trace.len()), (Status::PassLimit, 3));
    let stopped = over(trainer(passes(50)).watch(|pass, mixture| {
        assert!(pass.objective.is_finite() && pass.seconds >= 0.0 && pass.temperature == 1.0);
        let smallest = mixture.weights().iter().copied().fold(1.0, f64::min);
        assert_eq!(pass.smallest_weight, smallest);
        if pass.largest_concentration > 20.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }));
    assert_eq!(stopped.status, Status::Stopped);
    assert!(stopped.trace.len() < 50 && stopped.trace.last().unwrap().largest_concentration > 20.0);
    assert_eq!(over(trainer(Stop::default())).status, Status::Converged);
    let names = [Status::Running, Status::Converged, Status::PassLimit, Status::Stopped].map(Status::name);
    assert_eq!(names, ["running", "converged", "pass limit", "stopped"]);
}

/// The mean cosine of such rows is near 1 whatever the fit: a tolerance relative to it would stop
/// k-means after two passes.
#[test]
fn k_means_of_rows_in_a_small_cap_converges() {
    for concentration in [1e3, 1e5, 1e7] {
        let cap = Mixture::new(vec![1.0], vec![VonMisesFisher::new(vec![0.0, 0.0, 0.6, 0.8], concentration).unwrap()]).unwrap();
        let rows: Vec<f64> = draw(&cap, 3000, 5);
        let block = RowBatch::new(4, &rows).unwrap();
        let fitter = |start| Fitter::new(15).method(Method::KMeans).start(start).seed(3);
        let fit = fitter(Start::RandomRows).fit(&block).unwrap();
        assert!(fit.status == Status::Converged && fit.trace.len() > 5, "{concentration}: {} passes", fit.trace.len());
        let stop = Stop { tolerance: Some(0.0), passes: 2000, ..Stop::default() };
        let further = fitter(Start::Mixture(fit.mixture.clone())).stop(stop).fit(&block).unwrap();
        // Without a tolerance it ends where no row changes sides.
        assert_eq!(further.status, Status::Converged);
        let (inertia, least) = (1.0 - fit.objective(), 1.0 - further.objective());
        assert!(inertia <= 1.01 * least, "{concentration}: {inertia} could be {least}");
    }
}

/// A component that was restarted after the last pass was never fitted: the result is the mixture
/// before that.
#[test]
fn a_fit_ends_with_a_mixture_that_it_has_fitted() {
    let (mut restarted, mut left_empty) = (0, 0);
    for seed in 0..30 {
        let rows: Vec<f64> = draw(&random_mixture(3, 3, 30.0, seed), 60, seed);
        let block = RowBatch::new(3, &rows).unwrap();
        let ways =
            [(Method::default(), Assignment::Soft), (Method::HardEm, Assignment::Hard), (Method::KMeans, Assignment::Nearest)];
        for (method, assignment) in ways {
            for policy in [ConcentrationPolicy::Free, ConcentrationPolicy::Shared] {
                for limit in [1, 2, 3, 5, 100] {
                    let fitter = Fitter::new(12).method(method.clone()).policy(policy).start(Start::Random).seed(seed);
                    let fit = fitter.stop(Stop { tolerance: Some(1e-5), passes: limit, ..Stop::default() }).fit(&block).unwrap();
                    let stats = accumulate(&fit.mixture, &block, assignment);
                    let place = format!("{} {policy}, seed {seed}, {limit} passes: {:?}", method.name(), fit.notes);
                    let room = 1e-11 * (1.0 + fit.trace.last().unwrap().largest_concentration);
                    assert!(stats.objective() / stats.weight() >= fit.objective() - room, "{place}");
                    for note in &fit.notes {
                        match note {
                            Note::Reseeded { pass, .. } => {
                                restarted += 1;
                                assert!(*pass < fit.trace.len(), "{place}");
                            }
                            Note::Empty { .. } => left_empty += 1,
                            _ => {}
                        }
                    }
                }
            }
        }
    }
    assert!(restarted > 100 && left_empty > 100, "the test has met what it is about: {restarted}, {left_empty}");
}

/// Hard EM with far too many components keeps losing some of them; restarting them must not lower
/// the objective.
#[test]
fn restarts_of_empty_components_are_undone_unless_they_help() {
    let (mut restarted, mut cut) = (0, 0);
    for seed in 0..12 {
        let rows: Vec<f64> = draw(&random_mixture(3, 4, 3.0, seed), 150, seed);
        let block = RowBatch::new(4, &rows).unwrap();
        for method in [Method::HardEm, Method::KMeans] {
            for policy in [ConcentrationPolicy::Shared, ConcentrationPolicy::Fixed(5.0), ConcentrationPolicy::Free] {
                for limit in [4, 10, 25, 300] {
                    let fitter = Fitter::new(12).method(method.clone()).policy(policy).start(Start::RandomRows).seed(seed);
                    let mut best = f64::NEG_INFINITY;
                    let fitter = fitter.watch(|_, pass, _| {
                        best = best.max(pass.objective);
                        ControlFlow::Continue(())
                    });
                    let fit = fitter.stop(Stop { tolerance: Some(1e-9), passes: limit, ..Stop::default() }).fit(&block).unwrap();
                    let place = format!("{} {policy}, seed {seed}, {limit} passes", method.name());
                    let room = 1e-5 * (1.0 + fit.trace.last().unwrap().largest_concentration);
                    assert!(fit.objective() >= best - room, "{place}: {} after {best}", fit.objective());
                    let undone = fit.notes.iter().any(|note| matches!(note, Note::RepairsUndone { .. }));
                    assert_eq!(undone, fit.status == Status::PassLimit && fit.trace.len() < limit, "{place}");
                    restarted += fit.notes.iter().filter(|note| matches!(note, Note::Reseeded { .. })).count();
                    cut += usize::from(fit.status == Status::PassLimit && fit.trace.len() < limit);
                }
            }
        }
    }
    assert!(restarted > 10 && cut > 3, "the test has met what it is about: {restarted}, {cut}");
}

#[test]
fn a_fit_that_ends_before_its_annealing_has_a_note() {
    let rows: Vec<f64> = draw(&paper_mixture(), 200, 9);
    let block = RowBatch::new(5, &rows).unwrap();
    let start = random_mixture(3, 5, 10.0, 10);
    let notes = |factor, limit| run(&block, &start, Em::new().annealing(Annealing { from: 1000.0, factor }), passes(limit)).notes;
    let warm = notes(0.999, 100);
    let Some(Note::Warm { temperature }) = warm.last() else { panic!("{warm:?}") };
    assert!((temperature - 1000.0 * 0.999f64.powi(99)).abs() < 1e-9, "{temperature}");
    let words = "the fit ended at a temperature of 905.7: annealing needs more passes or a smaller factor";
    assert_eq!(warm.last().unwrap().to_string(), words);
    assert!(!notes(0.1, 20).iter().any(|note| matches!(note, Note::Warm { .. })));
}

#[test]
fn annealing_ends_at_temperature_one_and_does_not_stop_before() {
    let rows: Vec<f64> = draw(&paper_mixture(), 500, 9);
    let block = RowBatch::new(5, &rows).unwrap();
    let start = random_mixture(3, 5, 10.0, 10);
    let rule = Em::new().annealing(Annealing { from: 8.0, factor: 0.7 });
    let warm = run(&block, &start, rule, Stop { tolerance: Some(1.0), passes: 100, ..Stop::default() });
    let temperatures: Vec<f64> = warm.trace.iter().map(|pass| pass.temperature).collect();
    assert_eq!((temperatures[0], warm.status), (8.0, Status::Converged));
    assert!(temperatures.windows(2).all(|pair| pair[1] < pair[0] || pair == [1.0, 1.0]), "{temperatures:?}");
    // Even a tolerance of 1 is met only by two passes at the last temperature.
    assert_eq!(temperatures[temperatures.len() - 2..], [1.0, 1.0]);
    for (from, factor) in
        [(0.5, 0.5), (f64::NAN, 0.5), (1.1e6, 0.5), (f64::INFINITY, 0.5), (2.0, 0.0), (2.0, 1.0), (2.0, f64::NAN)]
    {
        let trainer = Trainer::new(start.clone(), Em::new().annealing(Annealing { from, factor }), passes(2)).unwrap();
        assert!(matches!(fit(&mut MemorySource::new(block.clone()), trainer), Err(Error::Option { .. })), "{from} {factor}");
    }
}

#[test]
fn a_trainer_refuses_mismatched_statistics_and_stays_unchanged() {
    let rows: Vec<f64> = draw(&paper_mixture(), 100, 11);
    let start = random_mixture(3, 5, 10.0, 12);
    let block = RowBatch::new(5, &rows).unwrap();
    let rules: [Rule; 3] = [Em::new().into(), OnlineEm::new().into(), Adam::new().into()];
    for rule in rules {
        let mut trainer = Trainer::new(start.clone(), rule, passes(1)).unwrap();
        assert_eq!(trainer.end_pass(0).unwrap_err(), Error::NoRows { weight: 0.0 });
        for (components, dim) in [(2, 5), (4, 5), (3, 4), (3, 6), (0, 5)] {
            let mut other = SufficientStats::zero(components, dim);
            if components > 0 {
                let rows = uniform_rows::<f64>(dim, 10, 13);
                other =
                    accumulate(&random_mixture(components, dim, 3.0, 14), &RowBatch::new(dim, &rows).unwrap(), Assignment::Soft);
            }
            assert!(trainer.step(&other).is_err(), "{components} x {dim}");
        }
        assert_eq!(trainer.model(), &start);
        trainer.step(&accumulate(&start, &block, Assignment::Soft)).unwrap();
        assert_eq!(trainer.end_pass(100).unwrap(), Status::PassLimit);
        let fit = trainer.into_fit();
        assert_eq!(fit.weight, 100.0);
        assert!((fit.objective() - start.evaluate(&block).unwrap().mean()).abs() < 1e-12);
    }
}

#[test]
fn options_outside_their_range_are_refused() {
    let start = random_mixture(2, 3, 5.0, 15);
    let refused = |stop| Trainer::new(start.clone(), Em::new(), stop).map(|_| ()).unwrap_err().to_string();
    assert_eq!(refused(passes(0)), "the number of passes must be at least 1, found: `0`");
    assert_eq!(
        refused(Stop { tolerance: Some(f64::NAN), passes: 1, ..Stop::default() }),
        "the tolerance must be at least 0, found: `NaN`"
    );
    assert_eq!(
        refused(Stop { tolerance: Some(-1.0), passes: 1, ..Stop::default() }),
        "the tolerance must be at least 0, found: `-1`"
    );
    let rows = uniform_rows::<f64>(3, 10, 16);
    let stats = accumulate(&start, &RowBatch::new(3, &rows).unwrap(), Assignment::Soft);
    for rule in [
        OnlineEm::new().exponent(0.5),
        OnlineEm::new().exponent(1.1),
        OnlineEm::new().exponent(f64::NAN),
        OnlineEm::new().offset(-1.0),
        OnlineEm::new().offset(f64::INFINITY),
        OnlineEm::new().half_life(0.0),
        OnlineEm::new().half_life(f64::NAN),
    ] {
        assert!(matches!(Trainer::new(start.clone(), rule, passes(1)).unwrap().step(&stats), Err(Error::Option { .. })));
    }
    let how = Maximisation::new;
    for how in [
        how().policy(ConcentrationPolicy::Ratio(0.99)),
        how().policy(ConcentrationPolicy::Ratio(f64::NAN)),
        how().policy(ConcentrationPolicy::Ratio(f64::INFINITY)),
        how().dispersion(-1.0),
        how().dispersion(f64::NAN),
        how().policy(ConcentrationPolicy::Fixed(f64::NAN)),
        how().largest_concentration(0.0),
        how().largest_concentration(1e16),
        how().smallest_weight(0.6),
        how().smallest_weight(f64::NAN),
    ] {
        assert!(matches!(maximise(&stats, &start, &how), Err(Error::Option { .. })), "{how:?}");
    }
}

#[test]
fn the_first_pass_that_changes_less_than_the_tolerance_is_the_last() {
    let rows: Vec<f64> = draw(&random_mixture(6, 4, 8.0, 21), 800, 22);
    let block = RowBatch::new(4, &rows).unwrap();
    let start = random_mixture(6, 4, 2.0, 23);
    let uniform = VonMisesFisher::uniform(start.dim()).unwrap().ln_peak();
    let over = |stop: Stop| {
        let trainer = Trainer::new(start.clone(), Em::new(), stop).unwrap();
        fit(&mut MemorySource::new(block.clone()), trainer).unwrap()
    };
    let ends = |baseline: Baseline, from: f64| {
        [1e-2, 1e-3, 1e-4, 1e-5, 1e-6].map(|tolerance| {
            let converged = over(Stop { tolerance: Some(tolerance), baseline, passes: 1000 });
            assert_eq!(converged.status, Status::Converged);
            let pairs = converged.trace.windows(2).map(|pair| (pair[0].objective, pair[1].objective));
            let small: Vec<bool> =
                pairs.map(|(before, after)| (after - before).abs() <= tolerance * (before - from).abs()).collect();
            assert_eq!(small.iter().position(|small| *small), Some(small.len() - 1), "{baseline:?}, {tolerance}: {small:?}");
            assert_eq!(converged.objective(), converged.trace.last().unwrap().objective);
            converged.trace.len()
        })
    };
    assert_ne!(ends(Baseline::Uniform, uniform), ends(Baseline::Zero, 0.0), "here it makes a difference");
}
