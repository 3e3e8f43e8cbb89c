//! Degenerate rows: never a NaN, never a panic, and an error only without any rows.

use crate::samples::{assert_sound, draw, random_mixture, uniform_rows};
use vmfkit::m_step::{Note, maximise};
use vmfkit::rows::LARGEST_WEIGHT;
use vmfkit::train::{Adam, Stop};
use vmfkit::{
    ConcentrationPolicy, Error, Fitter, Maximisation, Method, Mixture, RowBatch, Start, SufficientStats, VonMisesFisher,
};

const POLICIES: [ConcentrationPolicy; 5] = [
    ConcentrationPolicy::Free,
    ConcentrationPolicy::Shared,
    ConcentrationPolicy::Fixed(0.0),
    ConcentrationPolicy::Fixed(30.0),
    ConcentrationPolicy::Ratio(1.5),
];

/// Rows with name, dimension, values and, for some, weights.
type Rows = (&'static str, usize, Vec<f64>, Option<Vec<f64>>);

fn degenerate_rows() -> Vec<Rows> {
    let spread = uniform_rows::<f64>(3, 40, 1);
    let twice = |rows: &[f64]| rows.chunks_exact(3).flat_map(|row| row.repeat(2)).collect::<Vec<f64>>();
    let negated: Vec<f64> = spread.iter().map(|x| -x).collect();
    let mut lonely = [0.6, 0.0, 0.8].repeat(50);
    lonely.extend([0.0, 1.0, 0.0, 0.0, -1.0, 0.0]);
    let mut first_only = vec![0.0; 40];
    first_only[0] = 2.0;
    vec![
        ("one row", 3, vec![0.6, 0.0, 0.8], None),
        ("one row on the circle", 2, vec![0.6, 0.8], None),
        ("all rows equal", 3, [0.36, 0.48, 0.8].repeat(500), None),
        ("two distinct rows", 3, [0.36, 0.48, 0.8, 1.0, 0.0, 0.0].repeat(30), None),
        ("every row twice", 3, twice(&spread), None),
        ("rows that cancel", 3, [spread.clone(), negated].concat(), None),
        ("two opposite rows", 3, vec![0.6, 0.0, 0.8, -0.6, 0.0, -0.8], None),
        ("clusters of one row", 3, lonely, None),
        ("one row that counts", 3, spread.clone(), Some(first_only)),
        ("every second row counts", 3, spread.clone(), Some((0..40).map(|i| f64::from(i % 2)).collect())),
        ("tiny weights", 3, spread.clone(), Some(vec![1e-300; 40])),
        ("huge weights", 3, spread, Some(vec![LARGEST_WEIGHT; 40])),
        ("more coordinates than rows", 60, uniform_rows(60, 3, 2), None),
    ]
}

fn with_weights<'a>(block: RowBatch<'a>, weights: &'a Option<Vec<f64>>) -> RowBatch<'a> {
    match weights {
        Some(weights) => block.with_weights(weights).unwrap(),
        None => block,
    }
}

/// Also of components to which no row was left, under which new rows may be seen. A start without
/// rows knows no shared concentration: SGD goes on from the first.
fn assert_policy(mixture: &Mixture, policy: ConcentrationPolicy, method: &Method, place: &str) {
    let fitted = (0..mixture.components().len()).filter(|&k| !mixture.is_background(k));
    let concentrations: Vec<f64> = fitted.map(|k| mixture.components()[k].concentration()).collect();
    match policy {
        ConcentrationPolicy::Fixed(fixed) => {
            let near = |found: &f64| (found - fixed).abs() <= 1e-12 * fixed;
            assert!(concentrations.iter().all(near), "{place}: {concentrations:?}")
        }
        ConcentrationPolicy::Auto | ConcentrationPolicy::Free if !matches!(method, Method::KMeans) => {}
        ConcentrationPolicy::Ratio(ratio) if !matches!(method, Method::KMeans) => {
            let (least, most) = concentrations.iter().fold((f64::INFINITY, 0f64), |(a, b), x| (a.min(*x), b.max(*x)));
            assert!(most <= (1.0 + 1e-12) * ratio * least, "{place}: {concentrations:?}")
        }
        _ => assert!(concentrations.iter().all(|found| *found == concentrations[0]), "{place}: {concentrations:?}"),
    }
}

fn fit_every_way(name: &str, block: &RowBatch, start: &Start, components: &[usize]) {
    for method in Method::all() {
        for policy in POLICIES {
            for background in [None, Some(0.2)] {
                for &components in components {
                    let place = format!("{name}, K = {components}, {} {policy:?} {background:?} from {start:?}", method.name());
                    let mut fitter = Fitter::new(components).method(method.clone()).policy(policy).start(start.clone());
                    match background {
                        Some(_) if method.name() == "kmeans" => continue,
                        Some(weight) => fitter = fitter.background(weight),
                        None => {}
                    }
                    let fit = fitter.stop(Stop { tolerance: None, passes: 6, ..Stop::default() }).fit(block);
                    let fit = fit.unwrap_or_else(|error| panic!("{place}: {error}"));
                    assert_sound(&fit.mixture, 1e10, &place);
                    assert_policy(&fit.mixture, policy, &method, &place);
                    assert!(fit.trace.iter().all(|pass| pass.objective.is_finite()), "{place}: {:?}", fit.trace);
                    assert!(fit.notes.iter().all(|note| !note.to_string().contains("NaN")), "{place}: {:?}", fit.notes);
                    if method.name() != "kmeans" {
                        let (first, last) = (fit.trace[0].objective, fit.mixture.evaluate(block).unwrap().mean());
                        let room = 1.0 + 0.5 * (first - VonMisesFisher::uniform(block.dim()).unwrap().ln_peak()).abs();
                        assert!(last > first - room || !fit.notes.is_empty(), "{place}: from {first} to {last} in silence");
                    }
                }
            }
        }
    }
}

#[test]
fn degenerate_rows_in_double_precision_are_fitted_every_way() {
    for (name, dim, rows, weights) in degenerate_rows() {
        fit_every_way(name, &with_weights(RowBatch::new(dim, &rows).unwrap(), &weights), &Start::KMeans, &[1, 2, 5]);
    }
}

#[test]
fn degenerate_rows_in_single_precision_are_fitted_every_way() {
    for (name, dim, rows, weights) in degenerate_rows() {
        let single: Vec<f32> = rows.iter().map(|x| *x as f32).collect();
        fit_every_way(name, &with_weights(RowBatch::new(dim, &single).unwrap(), &weights), &Start::KMeans, &[1, 2, 5]);
    }
}

#[test]
fn degenerate_sparse_rows_are_fitted_every_way() {
    let columns = [0, 1, 2].repeat(20);
    let starts: Vec<usize> = (0..=60).collect();
    fit_every_way("axes", &RowBatch::sparse(4, &starts, &columns, &[1f32; 60]).unwrap(), &Start::KMeans, &[1, 5]);
}

#[test]
fn every_start_copes_with_degenerate_rows() {
    for (name, dim, rows, weights) in degenerate_rows() {
        let block = with_weights(RowBatch::new(dim, &rows).unwrap(), &weights);
        for start in [Start::PlusPlus, Start::RandomRows, Start::Random, Start::Labels(vec![1; block.len()])] {
            fit_every_way(name, &block, &start, &[3]);
        }
    }
}

/// A start with equal components can be fitted.
#[test]
fn equal_components_are_no_error() {
    let rows = uniform_rows::<f64>(3, 50, 3);
    let block = RowBatch::new(3, &rows).unwrap();
    for concentration in [0.0, 5.0, 1e9] {
        let density = VonMisesFisher::new(vec![0.0, 0.6, 0.8], concentration).unwrap();
        let mixture = Mixture::new(vec![0.25; 4], vec![density; 4]).unwrap();
        fit_every_way("equal components", &block, &Start::Mixture(mixture), &[4]);
    }
}

#[test]
fn only_missing_rows_are_an_error() {
    let rows = uniform_rows::<f64>(3, 4, 4);
    let weightless = RowBatch::new(3, &rows).unwrap().with_weights(&[0.0; 4]).unwrap();
    let empty = RowBatch::new::<f64>(3, &[]).unwrap();
    for method in Method::all() {
        for block in [&weightless, &empty] {
            for start in [Start::KMeans, Start::Random, Start::Mixture(random_mixture(2, 3, 5.0, 5))] {
                let fit = Fitter::new(2).method(method.clone()).start(start).fit(block);
                assert_eq!(fit.unwrap_err(), Error::NoRows { weight: 0.0 }, "{}", method.name());
            }
        }
    }
    let nothing = SufficientStats::zero(2, 3);
    let model = random_mixture(2, 3, 5.0, 5);
    assert_eq!(maximise(&nothing, &model, &Maximisation::new()).unwrap_err(), Error::NoRows { weight: 0.0 });
}

fn free() -> Maximisation {
    Maximisation::new().policy(ConcentrationPolicy::Free)
}

#[test]
fn a_collapsed_component_is_named_with_its_rows() {
    let mut rows = uniform_rows::<f64>(3, 200, 6);
    rows.extend([0.36, 0.48, 0.8].repeat(3));
    let labels: Vec<u32> = (0..203).map(|row| if row < 200 { row % 7 } else { 7 }).collect();
    let block = RowBatch::new(3, &rows).unwrap();
    let fitter = Fitter::new(8).maximisation(free()).start(Start::Labels(labels)).method(Method::HardEm);
    let fit = fitter.stop(Stop { tolerance: None, passes: 1, ..Stop::default() }).fit(&block).unwrap();
    let collapsed = fit.notes.iter().find(|note| matches!(note, Note::Collapsed { .. })).unwrap();
    assert_eq!(collapsed, &Note::Collapsed { component: 7, rows: 3.0, concentration: 1e10 });
    assert!(collapsed.to_string().starts_with("component 7 collapsed onto 3 rows, concentration 1.000e10"), "{collapsed}");
    let one = Note::Collapsed { component: 0, rows: 1.0, concentration: 1e10 };
    assert!(one.to_string().starts_with("component 0 collapsed onto 1 row, "), "{one}");
}

#[test]
fn a_fixed_concentration_does_not_collapse() {
    let rows = [1.0, 0.0, 0.0, 1.0, 0.6, 0.8];
    let block = RowBatch::new(2, &rows).unwrap();
    let fixed = Maximisation::new().policy(ConcentrationPolicy::Fixed(30.0));
    let fitter = Fitter::new(2).maximisation(fixed).start(Start::Labels(vec![0, 1, 1])).method(Method::HardEm);
    assert_eq!(fitter.fit(&block).unwrap().notes, []);
}

#[test]
fn an_empty_component_keeps_its_direction_and_is_named() {
    let model = random_mixture(3, 4, 10.0, 7);
    let rows: Vec<f64> = draw(&Mixture::new(vec![1.0], model.components()[..1].to_vec()).unwrap(), 100, 8);
    let mut stats = SufficientStats::zero(3, 4);
    let only = Mixture::new(vec![1.0, 0.0, 0.0], model.components().to_vec()).unwrap();
    only.accumulate(&RowBatch::new(4, &rows).unwrap(), vmfkit::Assignment::Soft, &mut stats).unwrap();
    let (next, notes) = maximise(&stats, &model, &free()).unwrap();
    assert_eq!(notes, [Note::Empty { component: 1 }, Note::Empty { component: 2 }]);
    assert_eq!(notes[0].to_string(), "component 1 is empty: it has no rows");
    assert_eq!(next.weights(), [1.0, 0.0, 0.0]);
    assert_eq!(next.components()[1..], model.components()[1..]);
}

/// A step of the learning rate would leave a peak as narrow as that of equal rows.
#[test]
fn gradient_steps_stay_on_a_narrow_peak() {
    let two: Vec<f64> = uniform_rows::<f64>(5, 2, 14).chunks_exact(5).flat_map(|row| row.repeat(10)).collect();
    let narrow = random_mixture(3, 4, 1e6, 15);
    for (dim, rows) in [(5, two), (4, draw(&narrow, 3000, 16))] {
        let block = RowBatch::new(dim, &rows).unwrap();
        for policy in [ConcentrationPolicy::Free, ConcentrationPolicy::Shared, ConcentrationPolicy::default()] {
            let fit = Fitter::new(dim - 1).policy(policy).method(Method::Sgd(Adam::new())).fit(&block).unwrap();
            let em = Fitter::new(dim - 1).policy(policy).fit(&block).unwrap().mixture.evaluate(&block).unwrap().mean();
            let (first, last) = (fit.trace[0].objective, fit.mixture.evaluate(&block).unwrap().mean());
            assert!(last > first.max(em) - 0.1, "{policy}, d = {dim}: from {first} to {last}, EM {em}: {:?}", fit.notes);
        }
    }
}

/// Rows of tiny weight are fitted like others, unless products with responsibilities round to 0.
#[test]
fn gradients_with_the_smallest_weights_are_finite() {
    let rows = uniform_rows::<f64>(3, 40, 17);
    for (count, weight) in [(1, 1e-300), (1, 5e-324), (40, 1e-305), (40, 5e-324)] {
        let weights = vec![weight; count];
        let block = RowBatch::new(3, &rows[..3 * count]).unwrap().with_weights(&weights).unwrap();
        for policy in POLICIES {
            for components in [1, 2, 5] {
                let fitter = Fitter::new(components).policy(policy).method(Method::Sgd(Adam::new()));
                match fitter.stop(Stop { tolerance: None, passes: 6, ..Stop::default() }).fit(&block) {
                    Ok(fit) => assert_sound(&fit.mixture, 1e10, "next to no weight"),
                    Err(error) => assert_eq!((error, weight), (Error::NoRows { weight: 0.0 }, 5e-324)),
                }
            }
        }
    }
}

/// Three clusters and three components, one of them empty at first: it is restarted beside the
/// widest and wins rows.
#[test]
fn an_empty_component_is_restarted_beside_the_widest() {
    let truth = random_mixture(3, 6, 200.0, 9);
    let rows: Vec<f64> = draw(&truth, 900, 10);
    let block = RowBatch::new(6, &rows).unwrap();
    let merged: Vec<u32> = {
        let mut labels = vec![0; 900];
        truth.assign_into(&block, &mut labels).unwrap();
        labels.iter().map(|label| label / 2).collect()
    };
    let fit = Fitter::new(3).start(Start::Labels(merged)).fit(&block).unwrap();
    let Note::Reseeded { component: 2, beside: 0, pass: 1 } = fit.notes[0] else { panic!("{:?}", fit.notes) };
    assert_eq!(fit.notes[0].to_string(), "component 2 was empty in pass 1 and restarted next to component 0");
    let best = Fitter::new(3).start(Start::Mixture(truth)).fit(&block).unwrap();
    assert!((fit.objective() / best.objective() - 1.0).abs() < 1e-3, "{} {}", fit.objective(), best.objective());
}

/// A background that takes every row leaves the other components empty and unchanged.
#[test]
fn a_background_may_take_every_row() {
    let rows = uniform_rows::<f64>(3, 100, 11);
    let block = RowBatch::new(3, &rows).unwrap();
    // Far from every row, and so concentrated that nothing of it reaches one.
    let far = VonMisesFisher::along(vec![1.0, 0.0, 0.0], 1e9).unwrap();
    let start = Mixture::new(vec![1.0], vec![far]).unwrap().with_background(0.999).unwrap();
    fit_every_way("all in the background", &block, &Start::Mixture(start), &[1]);
}

/// Statistics of EM keep the scatter of a concentrated sample, as far as the precision of the rows
/// allows.
#[test]
fn high_concentrations_are_found_by_em() {
    for (k, double_room, single_room) in [(1e3, 1e-9, 1e-3), (1e5, 1e-8, 1e-2), (1e7, 1e-6, 0.5)] {
        let truth = random_mixture(1, 10, k, 12);
        let rows: Vec<f64> = draw(&truth, 2000, 13);
        let single: Vec<f32> = rows.iter().map(|x| *x as f32).collect();
        let expected = vmfkit::estimate::maximum_likelihood(
            &SufficientStats::of_batch(&RowBatch::new(10, &rows).unwrap()),
            vmfkit::ConcentrationEstimator::Exact,
        );
        let expected = expected.unwrap().concentration();
        for (block, room) in
            [(RowBatch::new(10, &rows).unwrap(), double_room), (RowBatch::new(10, &single).unwrap(), single_room)]
        {
            let found = Fitter::new(1).maximisation(free()).fit(&block).unwrap().mixture.components()[0].concentration();
            assert!((found / expected - 1.0).abs() < room, "k = {k:e}: {found:e}, not {expected:e}");
        }
    }
}

/// If an empty component of k-means had another concentration, it would get rows that are nearer to
/// others.
#[test]
fn new_rows_go_to_the_nearest_component_of_k_means_even_if_one_is_empty() {
    let rows = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0].repeat(40);
    let block = RowBatch::new(3, &rows).unwrap();
    let fit = Fitter::new(4).method(Method::KMeans).fit(&block).unwrap();
    assert!(fit.notes.iter().any(|note| matches!(note, Note::Empty { .. })), "{:?}", fit.notes);
    let (sin, cos) = 1f64.to_radians().sin_cos();
    for new in [[cos, sin, 0.0], [0.0, cos, sin], [sin, 0.0, cos]] {
        let near = |k: &usize| fit.mixture.components()[*k].mean_direction().iter().zip(new).map(|(m, x)| m * x).sum::<f64>();
        let nearest = (0..4).max_by(|a, b| near(a).total_cmp(&near(b))).unwrap();
        let mut found = [0];
        fit.mixture.assign_into(&RowBatch::new(3, &new).unwrap(), &mut found).unwrap();
        assert!((near(&(found[0] as usize)) - near(&nearest)).abs() < 1e-12, "{new:?}");
    }
}

/// Under gradient ascent a component without rows keeps a weight above 0.
#[test]
fn gradient_ascent_names_empty_components() {
    let rows = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0].repeat(40);
    let block = RowBatch::new(3, &rows).unwrap();
    let density = |k: usize| {
        let sign = if k < 3 { 1.0 } else { -1.0 };
        VonMisesFisher::new((0..3).map(|i| if i == k % 3 { sign } else { 0.0 }).collect(), 50.0).unwrap()
    };
    let start = Mixture::new(vec![1.0 / 6.0; 6], (0..6).map(density).collect()).unwrap();
    for policy in [ConcentrationPolicy::Free, ConcentrationPolicy::Shared] {
        let fitter = Fitter::new(6).method(Method::Sgd(Adam::new())).start(Start::Mixture(start.clone())).policy(policy);
        let fit = fitter.stop(Stop { tolerance: None, passes: 5, ..Stop::default() }).fit(&block).unwrap();
        let empty = |component| fit.notes.contains(&Note::Empty { component });
        assert!((3..6).all(empty) && !(0..3).any(empty), "{policy}: {:?}", fit.notes);
    }
}

/// With a fixed concentration, two components on the same rows do not collapse but are duplicates.
#[test]
fn duplicate_components_are_named() {
    let rows = [0.36, 0.48, 0.8, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0].repeat(30);
    let block = RowBatch::new(3, &rows).unwrap();
    for method in [Method::default(), Method::OnlineEm { exponent: 0.6, offset: 1.0 }] {
        let fit = Fitter::new(5).method(method.clone()).policy(ConcentrationPolicy::Fixed(50.0)).fit(&block).unwrap();
        let duplicates: Vec<_> = fit.notes.iter().filter(|note| matches!(note, Note::Duplicate { .. })).collect();
        assert_eq!(duplicates.len(), 2, "{}: {:?}", method.name(), fit.notes);
    }
    let note = Note::Duplicate { component: 4, of: 1 };
    assert_eq!(note.to_string(), "component 4 duplicates component 1: fewer components may suffice");
    // Components that are apart are not, and neither is a background.
    let spread: Vec<f64> = draw(&random_mixture(3, 3, 100.0, 1), 300, 1);
    let fit = Fitter::new(3).background(0.05).fit(&RowBatch::new(3, &spread).unwrap()).unwrap();
    assert!(!fit.notes.iter().any(|note| matches!(note, Note::Duplicate { .. })), "{:?}", fit.notes);
}

/// Equal components would stay equal.
#[test]
fn equal_given_directions_are_moved_apart() {
    let truth = random_mixture(4, 3, 200.0, 3);
    let rows: Vec<f64> = draw(&truth, 2000, 4);
    let block = RowBatch::new(3, &rows).unwrap();
    let equal = vec![vec![1.0, 0.0, 0.0], vec![2.0, -0.0, 0.0], vec![1e20, 0.0, 0.0], vec![1e-6, 0.0, 0.0]];
    let fit = Fitter::new(4).start(Start::Directions(equal)).fit(&block).unwrap();
    assert!(!fit.notes.iter().any(|note| matches!(note, Note::Duplicate { .. })), "{:?}", fit.notes);
    assert!(fit.mixture.components().windows(2).all(|pair| pair[0] != pair[1]));
}

/// Weights that sum to 1 count less than half a row each.
#[test]
fn small_weights_do_not_make_components_of_gradient_ascent_empty() {
    let rows: Vec<f64> = draw(&random_mixture(3, 5, 100.0, 2), 600, 1);
    let weights = vec![1.0 / 600.0; 600];
    let block = RowBatch::new(5, &rows).unwrap().with_weights(&weights).unwrap();
    let fit = Fitter::new(3).method(Method::Sgd(Adam::new())).fit(&block).unwrap();
    assert!(fit.notes.is_empty(), "{:?}", fit.notes);
    let note = Note::Collapsed { component: 0, rows: 1e-6, concentration: 1e10 };
    assert_eq!(note.to_string(), "component 0 collapsed onto rows of weight 1.0e-6, concentration 1.000e10");
}
