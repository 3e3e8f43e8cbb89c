//! One component per known label.

use vmfkit::estimate::maximum_likelihood;
use vmfkit::m_step::Note;
use vmfkit::source::MemorySource;
use vmfkit::start::known_labels::KnownLabels;
use vmfkit::store::model::{Description, from_bytes, to_bytes};
use vmfkit::{
    ConcentrationEstimator, ConcentrationPolicy, Error, Maximisation, Mixture, RowBatch, SufficientStats, VonMisesFisher,
};

/// Draws from three components that overlap, and their labels.
fn draws(rows: usize) -> (Vec<f64>, Vec<String>) {
    let component = |axis: usize, concentration: f64| {
        let mut direction = vec![0.3; 8];
        direction[axis] = 2.0;
        VonMisesFisher::along(direction, concentration).unwrap()
    };
    let truth = Mixture::new(vec![0.5, 0.3, 0.2], vec![component(0, 20.0), component(1, 40.0), component(2, 80.0)]).unwrap();
    let (mut values, mut labels) = (vec![0.0; 8 * rows], vec![0; rows]);
    truth.fill(3, 0, &mut values, &mut labels).unwrap();
    (values, labels.into_iter().map(|label| ["pear", "apple", "fig"][label as usize].to_owned()).collect())
}

fn free() -> Maximisation {
    Maximisation::new().policy(ConcentrationPolicy::Free)
}

#[test]
fn each_component_is_the_maximum_likelihood_of_the_rows_of_its_label_in_sorted_order() {
    let (values, labels) = draws(5000);
    let block = RowBatch::new(8, &values).unwrap();
    let mut known = KnownLabels::new(8);
    known.add(&block, &labels).unwrap();
    let (fit, names) = known.fit(&free()).unwrap();
    assert_eq!(names, ["apple", "fig", "pear"]);
    for (component, name) in names.iter().enumerate() {
        let rows = (0..labels.len()).filter(|&row| labels[row] == *name);
        let count = rows.clone().count();
        let expected = maximum_likelihood(&SufficientStats::of_rows(&block, rows), ConcentrationEstimator::Exact).unwrap();
        let found = &fit.mixture.components()[component];
        let pairs = found.mean_direction().iter().zip(expected.mean_direction());
        assert!(pairs.into_iter().all(|(x, y)| (x - y).abs() < 1e-14), "{name}");
        assert!((found.concentration() / expected.concentration() - 1.0).abs() < 1e-12, "{name}");
        assert_eq!(fit.mixture.weights()[component], count as f64 / 5000.0);
    }
    assert_eq!((fit.rows, fit.weight, fit.trace.len()), (5000, 5000.0, 0));
}

#[test]
fn the_sizes_of_blocks_change_no_bit() {
    let (values, labels) = draws(10_000);
    let block = RowBatch::new(8, &values).unwrap();
    let mut whole = KnownLabels::new(8);
    whole.add(&block, &labels).unwrap();
    let whole = whole.fit(&free()).unwrap().0;
    for rows in [7, 4096, 9999] {
        let mut parts = KnownLabels::new(8);
        parts.add_source(&mut MemorySource::new(block.clone()).batches(rows), &labels).unwrap();
        assert_eq!(parts.fit(&free()).unwrap().0.mixture, whole.mixture, "{rows}");
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let (values, labels) = draws(4000);
    let fit = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut known = KnownLabels::new(8);
            known.add(&RowBatch::new(8, &values).unwrap(), &labels).unwrap();
            let (fit, _) = known.fit(&Maximisation::new().policy(ConcentrationPolicy::Shared)).unwrap();
            to_bytes(&fit.mixture, &Description::of(&fit))
        })
    };
    assert_eq!(fit(1), fit(3));
}

#[test]
fn policies_tie_the_concentrations_and_fixed_weights_are_equal() {
    let (values, labels) = draws(2000);
    let fit = |how: &Maximisation| {
        let mut known = KnownLabels::new(8);
        known.add(&RowBatch::new(8, &values).unwrap(), &labels).unwrap();
        known.fit(how).unwrap().0.mixture
    };
    let shared = fit(&Maximisation::new().policy(ConcentrationPolicy::Shared).fixed_weights(true));
    assert!(shared.components().iter().all(|c| c.concentration() == shared.components()[0].concentration()));
    assert_eq!(shared.weights(), [1.0 / 3.0; 3]);
    let fixed = fit(&Maximisation::new().policy(ConcentrationPolicy::Fixed(7.0)));
    assert!(fixed.components().iter().all(|c| c.concentration() == 7.0));
}

#[test]
fn weights_count_rows_and_a_label_of_weight_0_has_a_note() {
    let rows = [1.0, 0.0, 0.6, 0.8, 0.0, 1.0, -1.0, 0.0];
    let block = RowBatch::new(2, &rows).unwrap().with_weights(&[2.0, 1.0, 1.0, 0.0]).unwrap();
    let mut known = KnownLabels::new(2);
    known.add(&block, &[1, 1, 1, 2]).unwrap();
    let (fit, labels) = known.fit(&free()).unwrap();
    assert_eq!((labels, fit.weight), (vec![1, 2], 4.0));
    assert_eq!(fit.mixture.weights(), [1.0, 0.0]);
    assert_eq!(fit.notes, [Note::Empty { component: 1 }]);
}

#[test]
fn a_label_of_equal_rows_has_a_note_only_if_its_concentration_is_unbounded() {
    let rows = [1.0, 0.0, 1.0, 0.0, 0.0, 1.0, -0.6, 0.8];
    let notes = |how: &Maximisation| {
        let mut known = KnownLabels::new(2);
        known.add(&RowBatch::new(2, &rows).unwrap(), &[1, 1, 2, 2]).unwrap();
        known.fit(how).unwrap().0.notes
    };
    assert_eq!(notes(&Maximisation::new().policy(ConcentrationPolicy::Shared)), []);
    assert_eq!(notes(&free()), [Note::Collapsed { component: 0, rows: 2.0, concentration: 1e10 }]);
}

#[test]
fn labels_that_do_not_match_the_rows_are_refused() {
    let rows = [1.0, 0.0, 0.0, 1.0];
    let mut known = KnownLabels::new(2);
    assert_eq!(known.add(&RowBatch::new(2, &rows).unwrap(), &[1]), Err(Error::LabelCount { expected: 2, found: 1 }));
    let mut source = MemorySource::new(RowBatch::new(2, &rows).unwrap()).batches(1);
    assert_eq!(known.add_source(&mut source, &[1, 2, 3]), Err(Error::LabelCount { expected: 2, found: 3 }));
    assert!(matches!(KnownLabels::<u32>::new(2).fit(&free()), Err(Error::NoRows { .. })));
    assert!(matches!(
        KnownLabels::<u32>::new(3).add(&RowBatch::new(2, &rows).unwrap(), &[1, 2]),
        Err(Error::DimensionMismatch { .. })
    ));
}

#[test]
fn a_model_file_keeps_labels_and_angles_and_refuses_wrong_ones() {
    let density = VonMisesFisher::new(vec![0.6, 0.8, 0.0], 10.0).unwrap();
    let mixture = Mixture::new(vec![0.5, 0.5], vec![density.clone(), density]).unwrap().with_background(0.1).unwrap();
    let mut description = Description::default();
    description.labels = vec!["a \"quoted\" one".to_owned(), "two\nlines".to_owned()];
    description.angles = Some("lon,lat,radians".parse().unwrap());
    let bytes = to_bytes(&mixture, &description);
    assert_eq!(from_bytes(&bytes).unwrap(), (mixture.clone(), description.clone()));
    description.labels.push("three".to_owned());
    let error = from_bytes(&to_bytes(&mixture, &description)).unwrap_err().to_string();
    assert!(error.ends_with("metadata `labels` must have a label for each of 2 components, found: `3`"), "{error}");
    description.labels.clear();
    description.angles = Some("angle".parse().unwrap());
    let error = from_bytes(&to_bytes(&mixture, &description)).unwrap_err().to_string();
    assert!(error.ends_with("metadata `angles` must be those of its dimension, found: `angle`"), "{error}");
}
