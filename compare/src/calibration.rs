//! Calibrated probabilities and p-values of rows with known classes; `calibration.py` scores them.
//!
//! Results of rows are written next to the rows, as f64 in little endian, row by row.

use crate::families::{Noise, Spec};
use crate::family_fits;
use crate::stored::{Stored, labels};
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};
use std::time::Instant;
use vmfkit::calibrate::{Calibration, Reliability};
use vmfkit::fit::cross_fit::CrossFit;
use vmfkit::outlier::{OutlierScope, OutlierTest};
use vmfkit::start::known_labels::KnownLabels;
use vmfkit::train::Fit;
use vmfkit::{ConcentrationPolicy, Fitter, Maximisation, Method, RowBatch};

#[derive(Subcommand)]
pub enum What {
    /// Makes components from the labels of FOLDER/fit, and writes the logits of FOLDER/fresh.
    Labels {
        /// A folder with the folders `fit` and `fresh`.
        folder: PathBuf,
    },
    /// Fits FOLDER/fit by EM, and writes components, probabilities and p-values of both folders.
    Clusters(Clusters),
    /// Fits families of rows with known components, and prints how calibrated they are, as JSON lines.
    Families {
        /// Sets to skip at the beginning.
        #[arg(long, default_value_t = 0)]
        skip: usize,
    },
    /// Prints the seconds of a default fit, and those of its calibration.
    Time {
        #[arg(long, default_value_t = 100_000)]
        rows: usize,
        #[arg(long, default_value_t = 384)]
        dim: usize,
        #[arg(long, default_value_t = 100)]
        components: usize,
    },
}

#[derive(Args)]
pub struct Clusters {
    /// A folder with the folder `fit` and maybe `fresh`.
    folder: PathBuf,
    #[arg(long)]
    components: usize,
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// em, hard, kmeans, or background (EM with a background).
    #[arg(long, default_value = "em")]
    method: String,
    /// Also p-values by the law of the model.
    #[arg(long)]
    law: bool,
    /// Also probabilities of FOLDER/fit at the temperature of a cross-fit.
    #[arg(long)]
    cross_fit: bool,
}

pub fn run(what: &What) -> anyhow::Result<()> {
    match what {
        What::Labels { folder } => from_labels(folder),
        What::Clusters(options) => clusters(options),
        What::Families { skip } => family_fits::print_fits(*skip),
        What::Time { rows, dim, components } => print_time(*rows, *dim, *components),
    }
}

fn write(path: &Path, numbers: impl Iterator<Item = f64>) -> anyhow::Result<()> {
    let bytes: Vec<u8> = numbers.flat_map(f64::to_le_bytes).collect();
    Ok(std::fs::write(path, bytes)?)
}

/// The default of `vmf fit --known-labels`, and the same components calibrated by neighbours.
fn from_labels(folder: &Path) -> anyhow::Result<()> {
    let (fit_rows, fresh_rows) = (Stored::read(&folder.join("fit"))?, Stored::read(&folder.join("fresh"))?);
    let (rows, fresh) = (fit_rows.block()?, fresh_rows.block()?);
    let labels = labels(&folder.join("fit"))?;
    let how = Maximisation::new().policy(ConcentrationPolicy::Shared);
    let mut known = KnownLabels::new(rows.dim());
    known.add(&rows, &labels)?;
    let (fit, _) = known.clone().fit(&how)?;
    let (uncalibrated, _) = known.uncalibrated().fit(&how)?;
    let by_neighbours = uncalibrated.calibrated(&rows, &how)?;
    let components = fit.mixture.components().len();
    let ln_weights: Vec<f64> = fit.mixture.weights().iter().map(|weight| weight.ln()).collect();
    let densities = fit.mixture.component_ln_densities(&fresh)?;
    let logits = densities.iter().enumerate().map(|(at, z)| z + ln_weights[at % components]);
    write(&folder.join("logits.f64"), logits)?;
    let (labels, neighbours) = (calibration(&fit), calibration(&by_neighbours));
    println!(
        "{{\"components\":{components},\"dispersion\":{},\"labels\":{},\"neighbours\":{},\"error_on_sample\":{},\"agreement\":{}}}",
        labels.dispersion,
        labels.temperature,
        neighbours.temperature,
        neighbours.calibrated.error(),
        neighbours.raw.confirmed(),
    );
    Ok(())
}

fn calibration(fit: &Fit) -> &Calibration {
    fit.calibration.as_ref().expect("fits are calibrated unless stopped")
}

fn clusters(options: &Clusters) -> anyhow::Result<()> {
    let stored = Stored::read(&options.folder.join("fit"))?;
    let rows = stored.block()?;
    let fitter = Fitter::new(options.components).seed(options.seed);
    let fitter = match options.method.as_str() {
        "em" => fitter,
        "hard" => fitter.method(Method::HardEm),
        "kmeans" => fitter.method(Method::KMeans),
        "background" => fitter.background(0.05),
        other => anyhow::bail!("the method must be em, hard, kmeans or background, found: `{other}`"),
    };
    let clock = Instant::now();
    let fit = fitter.fit(&rows)?;
    let seconds = clock.elapsed().as_secs_f64();
    judge(&fit, &rows, options.law, &options.folder.join("fit.f64"))?;
    if options.folder.join("fresh").exists() {
        let stored = Stored::read(&options.folder.join("fresh"))?;
        judge(&fit, &stored.block()?, options.law, &options.folder.join("fresh.f64"))?;
    }
    let table = fit.outlier_table.as_ref().expect("fits have a table unless stopped");
    let found = calibration(&fit);
    let cross_fit = if options.cross_fit { cross_fit(&fit, options, &rows)? } else { "null".to_owned() };
    println!(
        "{{\"cross_fit\":{cross_fit},\"seconds\":{seconds},\"temperature\":{},\"dispersion\":{},\"basis\":\"{}\",\"table_rows\":{},\"raw\":{},\"calibrated\":{}}}",
        found.temperature,
        found.dispersion,
        found.basis.name(),
        table.rows(),
        bins(&found.raw),
        bins(&found.calibrated),
    );
    Ok(())
}

/// Fits halves of the rows, writes the probabilities of the rows at the temperature that predicts
/// where an independent fit puts them, and returns what was found as JSON.
fn cross_fit(fit: &Fit, options: &Clusters, rows: &RowBatch) -> anyhow::Result<String> {
    let clock = Instant::now();
    let found = CrossFit::new(&Fitter::new(options.components), rows, options.seed)?;
    let seconds = clock.elapsed().as_secs_f64();
    let mut calibration = calibration(fit).clone();
    calibration.temperature = found.temperature;
    let summary = calibration.summarise(&fit.mixture, rows, 1)?;
    write(&options.folder.join("cross_fit.f64"), summary.ranks[0].responsibilities.iter().copied())?;
    Ok(format!(
        "{{\"seconds\":{seconds},\"temperature\":{},\"raw\":{},\"calibrated\":{},\"agreement\":{},\"shared_clusters\":{}}}",
        found.temperature,
        found.raw.error(),
        found.calibrated.error(),
        found.agreement,
        found.shared_clusters(),
    ))
}

/// A reliability table as JSON: fraction, probability and confirmed fraction of each bin.
fn bins(reliability: &Reliability) -> String {
    let bins = reliability.bins().iter().map(|bin| format!("[{},{},{}]", bin.fraction, bin.probability, bin.confirmed));
    format!("[{}]", bins.collect::<Vec<_>>().join(","))
}

/// Of each row: component, exact and calibrated probability, score, p-values overall, within the
/// component and by the law (NaN if it was not asked for).
fn judge(fit: &Fit, rows: &RowBatch, law: bool, path: &Path) -> anyhow::Result<()> {
    let (exact, calibrated) = (fit.mixture.summarise(rows, 1)?, calibration(fit).summarise(&fit.mixture, rows, 1)?);
    let table = fit.outlier_table.as_ref().expect("fits have a table unless stopped");
    let [overall, component] =
        [OutlierScope::Overall, OutlierScope::Component].map(|scope| table.p_values(&fit.mixture, rows, scope));
    let (overall, component) = (overall?, component?);
    let law = if law { OutlierTest::new(&fit.mixture, 0)?.p_values(rows)? } else { vec![f64::NAN; rows.len()] };
    let scores = fit.mixture.clone().without_background().ln_densities(rows)?;
    let of_row = |row: usize| {
        let (exact, calibrated) = (&exact.ranks[0], &calibrated.ranks[0]);
        let probabilities = [exact.responsibilities[row], calibrated.responsibilities[row]];
        let p_values = [scores[row], overall[row], component[row], law[row]];
        std::iter::once(f64::from(exact.components[row])).chain(probabilities).chain(p_values)
    };
    write(path, (0..rows.len()).flat_map(of_row))
}

/// A fit without calibration, and the calibration of its result: both in the same run.
fn print_time(rows: usize, dim: usize, components: usize) -> anyhow::Result<()> {
    // Noise lies in an eighth of the dimensions, so that neighbours are searched, and is long enough
    // for components to overlap: like embeddings, such rows take more than a few passes.
    let spec = Spec { rows, fresh: 0, ..Spec::new(dim, components, Noise::Common(dim / 8, 2.0), 1) };
    let family = spec.draw()?;
    let batch = family.batch(0, rows)?;
    let fitter = Fitter::new(components).calibrate(false);
    let sample_rows = fitter.sample_rows(dim).min(rows);
    let mut clock = Instant::now();
    let fit = fitter.fit(&batch)?;
    let of_fit = clock.elapsed().as_secs_f64();
    clock = Instant::now();
    // The rows are in random order.
    let fit = fit.calibrated(&batch.slice(0, sample_rows), &Maximisation::new())?;
    let of_calibration = clock.elapsed().as_secs_f64();
    println!(
        "{{\"fit\":{of_fit},\"calibration\":{of_calibration},\"passes\":{},\"sample\":{sample_rows},\"basis\":\"{}\"}}",
        fit.trace.len(),
        calibration(&fit).basis.name()
    );
    Ok(())
}
