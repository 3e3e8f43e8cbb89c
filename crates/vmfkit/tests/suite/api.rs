//! The interface: traits of rand, errors with sources, results as vectors, and `Display`.

use crate::samples::{draw, paper_mixture};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::error::Error as _;
use std::path::{Path, PathBuf};
use vmfkit::error::ParseChoiceError;
use vmfkit::fit::select::{Criterion, Selection};
use vmfkit::metrics::{Agreement, cheapest_matching};
use vmfkit::outlier::OutlierTest;
use vmfkit::rand::distr::Distribution;
use vmfkit::rand::{Rng, RngExt, SeedableRng};
use vmfkit::source::{MemorySource, Source};
use vmfkit::start::known_labels::KnownLabels;
use vmfkit::{
    Assignment, ConcentrationEstimator, ConcentrationPolicy, EStep, Error, Fitter, Maximisation, Method, Mixture, RowBatch,
    Sampler, Start, SufficientStats, VonMisesFisher,
};

#[test]
fn samplers_implement_distribution() {
    fn mean_along<R: Rng>(distribution: impl Distribution<Vec<f64>>, mu: &[f64], rng: R) -> f64 {
        let rows = distribution.sample_iter(rng).take(4000);
        rows.map(|row| row.iter().zip(mu).map(|(x, m)| x * m).sum::<f64>()).sum::<f64>() / 4000.0
    }
    for mu in [vec![0.6, 0.8], vec![0.0, 0.6, 0.8], vec![0.5; 4]] {
        let density = VonMisesFisher::new(mu.clone(), 5.0).unwrap();
        let found = mean_along(Sampler::new(&density), &mu, Xoshiro256PlusPlus::seed_from_u64(1));
        let (expected, error) = (density.mean()[1] / mu[1], (density.variances().0 / 4000.0).sqrt());
        assert!((found - expected).abs() < 4.0 * error, "dimension {}: {found}, expected {expected}", mu.len());
        // `draw` and `sample` return the same row for the same generator.
        let sampler = Sampler::new(&density);
        let mut row = vec![0.0; mu.len()];
        sampler.draw(&mut Xoshiro256PlusPlus::seed_from_u64(2), &mut row).unwrap();
        assert_eq!(Xoshiro256PlusPlus::seed_from_u64(2).sample::<Vec<f64>, _>(&sampler), row);
    }
}

#[test]
fn mixture_samplers_return_components_and_rows() {
    let mixture = paper_mixture();
    let rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let draws: Vec<(u32, Vec<f64>)> = mixture.sampler().sample_iter(rng).take(6000).collect();
    for (component, weight) in mixture.weights().iter().enumerate() {
        let count = draws.iter().filter(|(label, _)| *label as usize == component).count() as f64;
        let (expected, error) = (6000.0 * weight, (6000.0 * weight * (1.0 - weight)).sqrt());
        assert!((count - expected).abs() < 4.0 * error, "component {component}: {count}, expected {expected}");
    }
    let (labels, rows): (Vec<u32>, Vec<Vec<f64>>) = draws.into_iter().unzip();
    let assigned = mixture.assign(&RowBatch::new(mixture.dim(), &rows.concat()).unwrap()).unwrap();
    assert!(Agreement::new(&labels, &assigned).unwrap().matched_fraction() > 0.9);
}

#[test]
fn sample_rows_equals_fill() {
    let mixture = paper_mixture();
    let (mut rows, mut labels) = (vec![0f32; mixture.dim() * 70], vec![0; 70]);
    mixture.fill(9, 0, &mut rows, &mut labels).unwrap();
    assert_eq!(mixture.sample_rows(70, 9).unwrap(), (rows.clone(), labels));
    let sampler = Sampler::new(&mixture.components()[0]);
    sampler.fill(9, 0, &mut rows).unwrap();
    assert_eq!(sampler.sample_rows::<f32>(70, 9).unwrap(), rows);
    assert!(matches!(sampler.sample_rows::<f32>(usize::MAX, 9), Err(Error::Memory { .. })));
}

#[test]
fn functions_that_return_vectors_equal_those_that_fill_slices() {
    let mixture = paper_mixture();
    let rows: Vec<f64> = draw(&mixture, 300, 4);
    let block = RowBatch::new(mixture.dim(), &rows).unwrap();
    let (n, table) = (block.len(), block.len() * mixture.components().len());
    let filled = |length: usize, fill: &dyn Fn(&mut [f64]) -> vmfkit::Result<()>| {
        let mut out = vec![f64::NAN; length];
        fill(&mut out).unwrap();
        for found in [length - 1, length + 1] {
            let error = Error::OutputLength { slice: "out", expected: length, found };
            assert_eq!(fill(&mut vec![0.0; found]), Err(error));
        }
        out
    };
    let density = &mixture.components()[1];
    let test = OutlierTest::new(&mixture, 1).unwrap();
    assert_eq!(density.deviations(&block).unwrap(), filled(n, &|out| density.deviations_into(&block, out)));
    assert_eq!(density.ln_densities(&block).unwrap(), filled(n, &|out| density.ln_densities_into(&block, out)));
    assert_eq!(mixture.ln_densities(&block).unwrap(), filled(n, &|out| mixture.ln_densities_into(&block, out)));
    assert_eq!(test.p_values(&block).unwrap(), filled(n, &|out| test.p_values_into(&block, out)));
    let responsibilities = filled(table, &|out| mixture.responsibilities_into(&block, out));
    assert_eq!(mixture.responsibilities(&block).unwrap(), responsibilities);
    let component_densities = filled(table, &|out| mixture.component_ln_densities_into(&block, out));
    assert_eq!(mixture.component_ln_densities(&block).unwrap(), component_densities);
    let mut labels = vec![u32::MAX; n];
    mixture.assign_into(&block, &mut labels).unwrap();
    assert_eq!(mixture.assign(&block).unwrap(), labels);
    assert_eq!(mixture.assign_into(&block, &mut []), Err(Error::OutputLength { slice: "out", expected: n, found: 0 }));
}

#[test]
fn slices_of_the_wrong_length_are_errors() {
    let mixture = paper_mixture();
    let error = mixture.fill(0, 0, &mut vec![0.0; 2 * mixture.dim()], &mut [0]).unwrap_err();
    assert_eq!(error, Error::OutputLength { slice: "labels", expected: 2, found: 1 });
    let sampler = Sampler::new(&mixture.components()[0]);
    let error = sampler.draw(&mut Xoshiro256PlusPlus::seed_from_u64(1), &mut [0.0; 3]).unwrap_err();
    assert_eq!(error.to_string(), format!("`row` must have {} values, found: `3`", mixture.dim()));
    let cost = |cost: &[f64]| cheapest_matching(cost, 2, 2).unwrap_err().to_string();
    assert_eq!(cost(&[1.0; 3]), "a cost matrix of 2 x 2 must have 4 entries, found: `3`");
    assert_eq!(cost(&[1.0, 1.0, f64::NAN, 1.0]), "the cost of row 1 and column 0 must be finite, found: `NaN`");
    assert!(cheapest_matching(&[], usize::MAX, 2).is_err());
}

#[test]
fn labels_may_be_of_any_type() {
    let (classes, clusters) = ([0i64, 0, 1, 1, 2, 2], [7usize, 7, 3, 3, 3, 9]);
    let expected = Agreement::new(&classes, &clusters).unwrap().adjusted_rand_index();
    let same = |agreement: vmfkit::Result<Agreement>| assert_eq!(agreement.unwrap().adjusted_rand_index(), expected);
    same(Agreement::new(&classes.map(|x| x as u32), &clusters.map(|x| x as i32)));
    same(Agreement::new(&classes.map(|x| x as u8), &clusters.map(|x| x as u64)));
    same(Agreement::new(&classes.map(|x| ["a", "b", "c"][x as usize]), &clusters.map(|x| x.to_string())));
}

/// A source whose disk has failed.
struct Broken;

#[derive(Debug, thiserror::Error)]
#[error("sector {sector} is broken")]
struct BrokenSector {
    sector: u64,
    source: std::io::Error,
}

impl Source for Broken {
    fn dim(&self) -> usize {
        3
    }

    fn next_batch(&mut self) -> vmfkit::Result<Option<RowBatch<'_>>> {
        Err(Error::read(BrokenSector { sector: 7, source: std::io::Error::other("timeout") }))
    }

    fn rewind(&mut self) -> vmfkit::Result<()> {
        Ok(())
    }
}

#[test]
fn the_error_of_a_source_is_the_source_of_the_error() {
    let error = Fitter::new(2).fit_source(&mut Broken).unwrap_err();
    let cause = error.source().and_then(|cause| cause.downcast_ref::<BrokenSector>()).expect("the source's own error");
    assert_eq!((cause.sector, cause.source.to_string()), (7, "timeout".to_owned()));
    assert_eq!(cause.source().unwrap().to_string(), "timeout");
    // Printing the chain of causes repeats no text.
    assert_eq!(error.to_string(), "a source of rows or a callback failed");
    assert_eq!(format!("{error:#}"), "sector 7 is broken: timeout");
    assert_eq!(error, error.clone());
}

#[test]
fn parse_errors_list_the_choices() {
    fn refused<T: std::str::FromStr<Err = ParseChoiceError> + std::fmt::Debug>(text: &str) -> ParseChoiceError {
        let error = text.parse::<T>().unwrap_err();
        assert_eq!(error.text(), text);
        error
    }
    let method = refused::<Method>("lloyd");
    assert_eq!(method.to_string(), format!("unknown method `lloyd`, expected one of {}", method.choices()));
    assert!(Method::all().iter().all(|known| method.choices().split(", ").any(|choice| choice == known.name())));
    let estimator = refused::<ConcentrationEstimator>("newton").to_string();
    assert_eq!(estimator, "unknown estimator `newton`, expected one of banerjee, tanabe, sra, song, exact");
    assert!(
        refused::<ConcentrationPolicy>("").to_string().starts_with("unknown policy ``, expected one of auto, free, shared, ")
    );
    let policy = refused::<ConcentrationPolicy>("fixed:much");
    assert!(
        policy.to_string().starts_with("`much` is not a number in the policy `fixed:much`, expected one of auto, "),
        "{policy}"
    );
    assert!(policy.source().unwrap().is::<std::num::ParseFloatError>());
    // It converts to a boxed error.
    let boxed: Box<dyn std::error::Error + Send + Sync> = policy.into();
    assert!(boxed.is::<ParseChoiceError>());
}

#[test]
fn free_parameters_depend_on_what_is_free() {
    let mixture = paper_mixture();
    let (k, d) = (mixture.components().len(), mixture.dim());
    let count = |how: Maximisation| how.free_parameters(&mixture);
    assert_eq!(count(Maximisation::new().policy(ConcentrationPolicy::Free)), k - 1 + k * d);
    assert_eq!(count(Maximisation::new().policy(ConcentrationPolicy::Shared)), k - 1 + k * (d - 1) + 1);
    assert_eq!(count(Maximisation::new().policy(ConcentrationPolicy::Fixed(9.0)).fixed_weights(true)), k * (d - 1));
}

#[test]
fn models_and_reports_can_be_printed() {
    let along = |x: f64, y: f64, k| VonMisesFisher::along(vec![x, y, 0.0], k).unwrap();
    let mixture = Mixture::new(vec![0.25, 0.75], vec![along(1.0, 0.0, 100.0), along(1.0, 1.0, 1e9)]).unwrap();
    let mixture = mixture.with_background(0.2).unwrap();
    assert_eq!(mixture.to_string(), "mixture of 2 vMF components and a uniform background of dimension 3");
    let expected = [
        "mixture of 2 vMF components and a uniform background of dimension 3",
        "component     weight  concentration  half within  mean direction",
        "        1        0.6    1.00000e9         0.00  [0.707107, 0.707107, 0]",
        "        0        0.2            100         6.75  [1, 0, 0]",
        "        2        0.2              0        90.00  (background)",
        "half within: angle in degrees that contains half of the component's mass",
    ];
    let table = format!("{mixture:#}");
    assert!(
        table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .eq(expected.iter().map(|line| line.split_whitespace().collect::<Vec<_>>())),
        "{table}"
    );
    let columns: Vec<Option<usize>> = table.lines().skip(1).take(4).map(|line| line.find(['[', '('])).collect();
    assert!(columns[1].is_some() && columns[1] == columns[2] && columns[2] == columns[3], "{table}");
    assert_eq!(mixture.components()[2].to_string(), "vMF of dimension 3, concentration 0 (uniform)");
    let long = VonMisesFisher::along((0..100).map(f64::from).collect(), 2.5).unwrap().to_string();
    assert!(long.ends_with(", 0.00523543, ... 96 more]"), "{long}");

    let rows: Vec<f64> = draw(&mixture, 400, 5);
    let block = RowBatch::new(3, &rows).unwrap();
    let table = Selection::new([2]).held_out(0.2).run(&block).unwrap();
    let candidate = table[0].to_string();
    let bic = table[0].score(Criterion::Bic).unwrap();
    assert!(candidate.starts_with("2 components, policy ") && candidate.contains(", held-out mean ln p "), "{candidate}");
    let printed: f64 = candidate.split("BIC ").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
    assert!((printed + bic).abs() < 1e-4 * bic.abs(), "{candidate}");
    let evaluation = mixture.evaluate(&block).unwrap().to_string();
    assert!(evaluation.starts_with("mean ln p ") && evaluation.ends_with(", row weight 400"), "{evaluation}");
}

/// The value of a constant that is written as a number or a shift.
fn value(text: &str) -> Option<u128> {
    let number = |text: &str| text.trim().replace('_', "").parse::<u128>().ok();
    match text.split_once("<<") {
        Some((number_of, bits)) => Some(number(number_of)? << number(bits)?),
        None => number(text),
    }
}

/// 32-bit targets such as wasm32 cannot compile larger constants of type `usize`, which tests on
/// 64-bit machines would not show.
#[test]
fn constants_for_lengths_fit_into_32_bits() {
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else {
                found.push(path);
            }
        }
    }
    assert_eq!((value("1 << 32"), value(" 5_000"), value("f(3)")), (Some(1 << 32), Some(5000), None));
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let mut constants = 0;
    for file in files {
        for line in std::fs::read_to_string(&file).unwrap().lines() {
            let Some((name, rest)) = line.split_once("usize = ").filter(|(name, _)| name.contains("const ")) else { continue };
            let Some(value) = value(rest.trim_end_matches(';')) else { continue };
            assert!(value <= u128::from(u32::MAX), "{}: {name}", file.display());
            constants += 1;
        }
    }
    assert!(constants > 20, "{constants}");
}

#[test]
fn a_bad_row_that_was_not_validated_is_named_by_whatever_uses_it() {
    let density = VonMisesFisher::new(vec![1.0, 0.0, 0.0], 5.0).unwrap();
    let mixture = Mixture::new(vec![1.0], vec![density.clone()]).unwrap();
    let mut values = [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8], [0.8, 0.0, 0.6]].concat();
    let good = RowBatch::unvalidated(3, values.clone()).unwrap();
    let valid = RowBatch::new(3, &values).unwrap();
    assert_eq!(density.deviations(&good), density.deviations(&valid));
    assert_eq!(mixture.ln_densities(&good), mixture.ln_densities(&valid));
    assert_eq!(Fitter::new(1).fit(&good).unwrap().mixture, Fitter::new(1).fit(&valid).unwrap().mixture);
    values[4] = 1.8;
    let bad = RowBatch::unvalidated(3, values.clone()).unwrap();
    let expected = RowBatch::new(3, &values).unwrap_err();
    assert!(matches!(expected, Error::NotUnit { row: 1, .. }));
    let maximisation = Maximisation::new();
    for found in [
        density.deviations(&bad).err(),
        mixture.assign(&bad).err(),
        mixture.evaluate(&bad).err(),
        OutlierTest::new(&mixture, 1).unwrap().p_values(&bad).err(),
        vmfkit::stats::RowSum::new(3).add(&bad).err(),
        SufficientStats::of_labels(&bad, &[0, 0, 0, 0], 1).err(),
        EStep::new(&mixture, Assignment::Soft).unwrap().add(&bad).err(),
        vmfkit::dispersion::dispersion(&bad, &mixture).err(),
        vmfkit::hypothesis::rotational_symmetry(&bad, 99, 1).err(),
        KnownLabels::new(3).add(&bad, &["a", "a", "a", "a"]).err(),
        Start::PlusPlus.mixture(&bad, 2, &maximisation, 1).err(),
        Fitter::new(2).fit(&bad).err(),
        Fitter::new(1).fit_source(&mut MemorySource::new(bad.clone())).err(),
        Selection::new(vec![1, 2]).run(&bad).err(),
        Fitter::new(1).stream().unwrap().update(&bad).err(),
    ] {
        assert_eq!(found, Some(expected.clone()));
    }
}
