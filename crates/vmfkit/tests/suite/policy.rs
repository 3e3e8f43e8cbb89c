//! Concentration policies: the default is right if rows fit the model, and safe if they do not.

use crate::samples::{draw, paper_mixture, random_mixture};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::path::Path;
use vmfkit::dispersion::dispersion;
use vmfkit::fit::select::Selection;
use vmfkit::m_step::Note;
use vmfkit::policy::{LARGEST_DISPERSION, auto_ratio};
use vmfkit::train::{Fit, Stop};
use vmfkit::{ConcentrationPolicy, Fitter, Mixture, RowBatch, VonMisesFisher, bessel};

/// One component over most of the sphere, and a narrow one with a tenth of the rows.
fn broad_and_narrow(dim: usize) -> Mixture {
    let axis = |place: usize| (0..dim).map(|i| f64::from(i == place)).collect::<Vec<_>>();
    let densities = vec![VonMisesFisher::new(axis(0), 1.0).unwrap(), VonMisesFisher::new(axis(1), 3000.0).unwrap()];
    Mixture::new(vec![0.9, 0.1], densities).unwrap()
}

fn standard_error(dim: usize, concentration: f64, rows: f64) -> f64 {
    1.0 / (rows * bessel::mean_length_and_slope(dim, concentration).slope).sqrt()
}

#[test]
fn a_narrow_component_beside_a_broad_one_keeps_its_concentration() {
    for dim in [3, 5, 10] {
        let rows: Vec<f64> = draw(&broad_and_narrow(dim), 20_000, 1);
        let fit = Fitter::new(2).fit(&RowBatch::new(dim, &rows).unwrap()).unwrap();
        let mut found: Vec<f64> = fit.mixture.components().iter().map(VonMisesFisher::concentration).collect();
        found.sort_by(f64::total_cmp);
        for (found, (truth, rows)) in found.into_iter().zip([(1.0, 18_000.0), (3000.0, 2000.0)]) {
            let error = standard_error(dim, truth, rows);
            assert!((found - truth).abs() < 3.0 * error, "d = {dim}: {found}, not {truth} +- {error}");
        }
        assert!(!fit.notes.iter().any(|note| matches!(note, Note::Collapsed { .. })), "d = {dim}: {:?}", fit.notes);
    }
}

fn household() -> Vec<f64> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/household/household.csv");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().skip(1).map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect::<Vec<f64>>());
    rows.flat_map(|row| {
        let length = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        row.into_iter().map(move |x| x / length)
    })
    .collect()
}

/// That of a uniform density has no parameter.
fn bic_above_uniform(fit: &Fit, block: &RowBatch) -> f64 {
    let evaluation = fit.mixture.evaluate(block).unwrap();
    let parameters = fit.mixture.components().len() * (block.dim() + 1) - 1;
    evaluation.bic(parameters) + 2.0 * evaluation.weight * bessel::ln_normalizer(block.dim(), 0.0)
}

/// The figures of the vignette of the R package movMF.
#[test]
fn the_household_data_have_the_published_concentrations_by_default() {
    let rows = household();
    let fit = Fitter::new(3).fit(&RowBatch::new(3, &rows).unwrap()).unwrap();
    let mut found: Vec<f64> = fit.mixture.components().iter().map(VonMisesFisher::concentration).collect();
    found.sort_by(f64::total_cmp);
    for (found, published) in found.into_iter().zip([62.91, 83.26, 181.21]) {
        assert!((found - published).abs() < 0.01, "{found}, not {published}");
    }
}

/// movMF's figures are its best of 20 runs; a better optimum, in which no component has collapsed,
/// is welcome.
#[test]
fn selection_reaches_the_published_criteria_of_the_household_data() {
    let rows = household();
    let block = RowBatch::new(3, &rows).unwrap();
    let table = Selection::new(1..=5).policies([ConcentrationPolicy::Free]).run(&block).unwrap();
    let uniform = -2.0 * 40.0 * bessel::ln_normalizer(3, 0.0);
    let found: Vec<f64> = table.iter().map(|candidate| candidate.bic() - uniform).collect();
    for (found, (published, better)) in
        found.iter().zip([(-169.4291, 0.0), (-200.3364, 0.0), (-211.5490, 0.0), (-207.1072, 0.3), (-202.4944, 0.5)])
    {
        assert!(*found < published + 1e-3 && *found > published - better - 1e-3, "{found}, not {published}");
    }
    assert!(table.iter().all(|candidate| candidate.warnings().next().is_none()));
}

#[test]
fn restarts_leave_the_basin_of_the_first_start() {
    let rows = household();
    let block = RowBatch::new(3, &rows).unwrap();
    let fit = |restarts| Fitter::new(2).policy(ConcentrationPolicy::Free).restarts(restarts).fit(&block).unwrap();
    let (first, best) = (bic_above_uniform(&fit(1), &block), bic_above_uniform(&fit(20), &block));
    assert!((best + 200.3364).abs() < 1e-3, "{best}");
    assert!(first > best + 5.0, "the first start alone ends in another basin: {first}");
}

#[test]
fn a_fit_without_a_collapsed_component_wins_over_one_with() {
    let rows = household();
    let block = RowBatch::new(3, &rows).unwrap();
    for components in [4, 5, 6] {
        let fit = Fitter::new(components).policy(ConcentrationPolicy::Free).search(false).restarts(50).fit(&block).unwrap();
        assert!(!fit.notes.iter().any(|note| matches!(note, Note::Collapsed { .. })), "{components}: {:?}", fit.notes);
    }
}

/// Rows about random centres with normal noise in `filled` of the dimensions, the same for all
/// components.
fn in_few_dimensions(dim: usize, filled: usize, components: usize, rows: usize, seed: u64) -> Vec<f64> {
    let centres = random_mixture(components, dim, 1.0, seed);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    // Box and Muller.
    let mut normal =
        move || (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt() * (std::f64::consts::TAU * rng.random::<f64>()).cos();
    let scale = 1.2 / (filled as f64).sqrt();
    (0..rows)
        .flat_map(|row| {
            let mut x = centres.components()[row % components].mean_direction().to_vec();
            x[..filled].iter_mut().for_each(|x| *x += scale * normal());
            let length = x.iter().map(|x| x * x).sum::<f64>().sqrt();
            x.into_iter().map(move |x| x / length).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn the_dispersion_distinguishes_rows_that_fit_the_model_from_others() {
    for (dim, concentration, components, rows) in
        [(3, 5.0, 3, 2000), (5, 50.0, 4, 3000), (20, 12.0, 3, 4000), (100, 60.0, 10, 5000), (384, 120.0, 20, 6000)]
    {
        let drawn: Vec<f64> = draw(&random_mixture(components, dim, concentration, 3), rows, 4);
        let fit = Fitter::new(components).fit(&RowBatch::new(dim, &drawn).unwrap()).unwrap();
        let found = fit.dispersion().unwrap();
        assert!((0.8..LARGEST_DISPERSION).contains(&found), "{dim} {concentration}: {found}");
    }
    for (dim, filled) in [(384, 60), (384, 30), (100, 8)] {
        let rows = in_few_dimensions(dim, filled, 6, 3000, 5);
        let fit = Fitter::new(6).fit(&RowBatch::new(dim, &rows).unwrap()).unwrap();
        assert!(fit.dispersion().unwrap() > LARGEST_DISPERSION, "{filled} of {dim}: {:?}", fit.dispersion());
        let concentrations = || fit.mixture.components().iter().map(VonMisesFisher::concentration);
        let (least, most) = (concentrations().fold(f64::INFINITY, f64::min), concentrations().fold(0.0, f64::max));
        assert!(most <= (1.0 + 1e-12) * auto_ratio(dim) * least, "{filled} of {dim}: {least} to {most}");
    }
}

/// `auto` gives the same bits as the policy it resolves to.
#[test]
fn auto_equals_the_policy_it_resolves_to_bit_for_bit() {
    let fitting: Vec<f64> = draw(&paper_mixture(), 600, 1);
    let other = in_few_dimensions(60, 5, 3, 600, 2);
    for (dim, rows, expected) in
        [(5, &fitting, ConcentrationPolicy::Free), (60, &other, ConcentrationPolicy::Ratio(auto_ratio(60)))]
    {
        let block = RowBatch::new(dim, rows).unwrap();
        for method in vmfkit::Method::all().into_iter().filter(|method| method.name() != "kmeans") {
            let fit = |policy| Fitter::new(3).method(method.clone()).policy(policy).restarts(2).fit(&block).unwrap();
            let (auto, decided) = (fit(ConcentrationPolicy::Auto), fit(expected));
            assert_eq!(auto.mixture, decided.mixture, "{dim} {}", method.name());
            assert_eq!(decided.dispersion(), None);
        }
    }
}

/// Multiplying all weights by 1000 changes nothing: there is no prior.
#[test]
fn more_weight_on_every_row_does_not_change_a_fit() {
    let rows = in_few_dimensions(60, 8, 4, 800, 7);
    let block = RowBatch::new(60, &rows).unwrap();
    let fit = |weight: f64| {
        let weights = vec![weight; block.len()];
        Fitter::new(4).fit(&block.clone().with_weights(&weights).unwrap()).unwrap().mixture
    };
    let once = fit(1.0);
    for weight in [128.0, 1024.0, 1.0 / 1024.0] {
        assert_eq!(once, fit(weight), "{weight}");
    }
}

#[test]
fn em_under_a_bound_never_lowers_the_likelihood() {
    for (ratio, seed) in [(1.0, 1), (1.3, 2), (4.0, 3), (1e6, 4)] {
        let rows: Vec<f64> = draw(&random_mixture(5, 8, 30.0, seed), 400, seed + 10);
        let block = RowBatch::new(8, &rows).unwrap();
        let stop = Stop { tolerance: None, passes: 40, ..Stop::default() };
        let fit = Fitter::new(7).policy(ConcentrationPolicy::Ratio(ratio)).search(false).stop(stop).fit(&block).unwrap();
        let falls = fit.trace.windows(2).filter(|pair| pair[1].objective < pair[0].objective - 1e-10);
        assert_eq!(falls.count(), 0, "{ratio}");
    }
}

#[test]
fn components_of_equal_rows_and_backgrounds_are_left_out_of_the_dispersion() {
    let mixture = paper_mixture();
    let rows: Vec<f64> = draw(&mixture, 20_000, 1);
    let plain = dispersion(&RowBatch::new(5, &rows).unwrap(), &mixture).unwrap();
    assert!((plain - 1.0).abs() < 0.06, "{plain}");
    let with = dispersion(&RowBatch::new(5, &rows).unwrap(), &mixture.clone().with_background(1e-9).unwrap()).unwrap();
    assert!((with - plain).abs() < 1e-6, "{with} {plain}");
    let equal = Mixture::new(vec![1.0], vec![VonMisesFisher::new(vec![1.0, 0.0, 0.0], 1e10).unwrap()]).unwrap();
    assert_eq!(dispersion(&RowBatch::new(3, &[1.0, 0.0, 0.0].repeat(4)).unwrap(), &equal).unwrap(), 1.0);
}
