//! Fits of families of rows: calibration errors of probabilities, and rates of conformal p-values.

use crate::families::{Noise, Spec, few_dimensions, well_specified};
use anyhow::Result;
use vmfkit::metrics::Agreement;
use vmfkit::outlier::{OutlierScope, OutlierTest};
use vmfkit::train::{Adam, Fit};
use vmfkit::{Fitter, Method, RowBatch};

pub const LEVELS: [f64; 3] = [0.1, 0.01, 0.001];

/// How a family is fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Default,
    Hard,
    KMeans,
    Background,
    /// Weights from 1 to 3.
    Weighted,
    Online,
    Sgd,
}

/// Prints one JSON line for each family.
pub fn print_fits(skip: usize) -> Result<()> {
    let mut cases: Vec<(Spec, Way, bool)> = Vec::new();
    cases.extend(well_specified().into_iter().enumerate().map(|(number, spec)| (spec, Way::Default, number % 12 == 0)));
    cases.extend(few_dimensions().into_iter().enumerate().map(|(number, spec)| (spec, Way::Default, number % 12 == 0)));
    // Few rows for each component, and dimensions.
    let noise = Noise::Common(30, 0.8);
    let model = Noise::Model(0.5);
    let small =
        |rows, dim, components, noise, seed| (Spec { rows, ..Spec::new(dim, components, noise, seed) }, Way::Default, false);
    cases.extend([
        small(5000, 128, 77, noise, 8000),
        small(2000, 128, 200, noise, 8010),
        small(2000, 384, 200, model, 8020),
        small(1000, 1536, 10, model, 8030),
        small(1000, 1536, 50, model, 8040),
        small(1000, 384, 10, Noise::Model(0.15), 8050),
        small(1000, 384, 10, Noise::Model(0.3), 8060),
        small(2000, 100, 40, Noise::Model(0.3), 8070),
        small(8000, 384, 400, Noise::Common(60, 0.8), 8080),
    ]);
    for (number, way) in [Way::Hard, Way::KMeans, Way::Background, Way::Weighted, Way::Online, Way::Sgd].into_iter().enumerate() {
        for (of_noise, noise) in [noise, Noise::Model(0.4)].into_iter().enumerate() {
            let seed = 9000 + 20 * number as u64 + 10 * of_noise as u64;
            cases.push((Spec::new(100, 12, noise, seed), way, false));
        }
    }
    cases.iter().skip(skip).try_for_each(|(spec, way, law)| print_fit(spec, *way, *law))
}

fn print_fit(spec: &Spec, way: Way, law: bool) -> Result<()> {
    let family = spec.draw()?;
    let fit = fitted(spec, way, &family.batch(0, spec.rows)?)?;
    let fresh = family.batch(spec.rows, spec.rows + spec.fresh)?;
    let truth = &family.labels[spec.rows..];
    let calibration = fit.calibration.as_ref().expect("fits are calibrated unless stopped");
    let table = fit.outlier_table.as_ref().expect("fits have a table unless stopped");
    let found = fit.mixture.assign(&fresh)?;
    let classes = majorities(&found, truth, fit.mixture.components().len(), spec.components);
    let error = |probabilities: Vec<f64>| calibration_error(&probabilities, &classes, &found, truth);
    let raw = error(fit.mixture.responsibilities(&fresh)?);
    let calibrated = error(calibration.responsibilities(&fit.mixture, &fresh)?);
    let ari = Agreement::new(truth, &found)?.adjusted_rand_index();
    let mut rates = Vec::new();
    for scope in [OutlierScope::Overall, OutlierScope::Component] {
        rates.push(flagged(&table.p_values(&fit.mixture, &fresh, scope)?));
    }
    let law = if law { flagged(&OutlierTest::new(&fit.mixture, 0)?.p_values(&fresh)?) } else { "null".into() };
    println!(
        "{{\"name\":\"{}\",\"way\":\"{way:?}\",\"dim\":{},\"components\":{},\"rows\":{},\"fresh\":{},\"seed\":{},\"ari\":{ari},\
         \"raw\":{raw},\"calibrated\":{calibrated},\"temperature\":{},\"dispersion\":{},\"basis\":\"{}\",\"table\":{},\"overall\":{},\
         \"component\":{},\"law\":{law}}}",
        spec.name(),
        spec.dim,
        spec.components,
        spec.rows,
        spec.fresh,
        spec.seed,
        calibration.temperature,
        calibration.dispersion,
        calibration.basis.name(),
        table.rows(),
        rates[0],
        rates[1],
    );
    Ok(())
}

fn fitted(spec: &Spec, way: Way, rows: &RowBatch) -> Result<Fit> {
    let fitter = Fitter::new(spec.components).seed(spec.seed);
    let fitter = match way {
        Way::Default => fitter,
        Way::Hard => fitter.method(Method::HardEm),
        Way::KMeans => fitter.method(Method::KMeans),
        Way::Background => fitter.background(0.05),
        Way::Online => fitter.method(Method::OnlineEm { exponent: 0.6, offset: 1.0 }),
        Way::Sgd => fitter.method(Method::Sgd(Adam::new())).batch(256),
        Way::Weighted => {
            let weights: Vec<f64> = (0..rows.len()).map(|row| 1.0 + (row * 7 % 5) as f64 / 2.0).collect();
            return Ok(fitter.fit(&rows.slice(0, rows.len()).with_weights(weights)?)?);
        }
    };
    Ok(fitter.fit(rows)?)
}

/// The most frequent class of each component.
fn majorities(found: &[u32], truth: &[u32], components: usize, classes: usize) -> Vec<u32> {
    let mut counts = vec![0u32; components * classes];
    found.iter().zip(truth).for_each(|(&found, &truth)| counts[found as usize * classes + truth as usize] += 1);
    let majority = |row: &[u32]| (0..classes).fold(0, |best, class| if row[class] > row[best] { class } else { best });
    counts.chunks_exact(classes).map(|row| majority(row) as u32).collect()
}

/// The expected calibration error in 15 bins of the class of each row's component. Components may
/// share a class, so their probabilities are added.
fn calibration_error(probabilities: &[f64], classes: &[u32], found: &[u32], truth: &[u32]) -> f64 {
    let mut bins = [0.0; 15];
    for ((row, &component), &truth) in probabilities.chunks_exact(classes.len()).zip(found).zip(truth) {
        let class = classes[component as usize];
        let probability: f64 = row.iter().zip(classes).filter(|(_, other)| **other == class).map(|(p, _)| p).sum();
        bins[((probability * 15.0) as usize).min(14)] += probability - f64::from(u8::from(class == truth));
    }
    bins.iter().map(|difference: &f64| difference.abs()).sum::<f64>() / truth.len() as f64
}

/// The fraction of p-values at most at each level, as JSON.
fn flagged(p_values: &[f64]) -> String {
    let rate = |level: f64| p_values.iter().filter(|p| **p <= level).count() as f64 / p_values.len() as f64;
    format!("{:?}", LEVELS.map(rate))
}
