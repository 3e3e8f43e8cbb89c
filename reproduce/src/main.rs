//! The tables and figures of Kim, "On PyTorch Implementation of Density Estimators for von
//! Mises-Fisher and Its Mixture" (2021, arXiv:2102.05340). Each has one command, which prints
//! results and a verdict on each claim.
//!
//! Exit code 0: every required verdict holds (our checks; for Table 2 the paper's findings). 1: one
//! does not, and stderr says which. 2: the command could not run.

#![forbid(unsafe_code)]

mod autoencoder;
mod clock;
mod figure1;
mod figure2;
mod images;
mod kmeans;
mod table1;
mod table2;
mod training;
mod verdict;

use anyhow::Context;
use clap::{Parser, Subcommand};
use kuva::backend::{png::PngBackend, svg::SvgBackend};
use kuva::render::render::Scene;
use std::f64::consts::{FRAC_2_PI, SQRT_2};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use verdict::Verdict;

/// Reproduces the tables and figures of Kim (2021), arXiv:2102.05340.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Table 1: errors of the batch, exact and SGD estimates of one vMF.
    Table1(table1::Options),
    /// Table 2: clusters of images in the latent space of an autoencoder.
    Table2(table2::Options),
    /// Figure 1: the Bessel function where scipy's underflows.
    Figure1(figure1::Options),
    /// Figure 2: errors of EM and SGD for a mixture of three vMFs.
    Figure2(figure2::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().what {
        What::Table1(options) => table1::run(&options),
        What::Table2(options) => table2::run(&options),
        What::Figure1(options) => figure1::run(&options),
        What::Figure2(options) => figure2::run(&options),
    };
    match outcome {
        Ok(verdicts) => exit_code(&verdicts),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Prints each required verdict that does not hold to stderr.
fn exit_code(verdicts: &[Verdict]) -> ExitCode {
    let unmet: Vec<&Verdict> = verdicts.iter().filter(|verdict| !verdict.is_met()).collect();
    for verdict in &unmet {
        eprintln!("not reproduced: {}: {}", verdict.claim, verdict.found);
    }
    if unmet.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Mean, standard deviation and range over the seeds.
#[derive(Debug, Clone, Copy, serde::Serialize)]
struct Spread {
    mean: f64,
    deviation: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let n = values.clone().count() as f64;
        let mean = values.clone().sum::<f64>() / n;
        let square: f64 = values.clone().map(|x| (x - mean).powi(2)).sum();
        let (least, most) = (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max));
        Spread { mean, deviation: (square / (n - 1.0)).sqrt(), least, most }
    }
}

/// Prints a report; a closed pipe is not an error.
fn show(text: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Writes a figure in the format of its extension.
fn draw(path: &Path, scene: &Scene) -> anyhow::Result<()> {
    let image = match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => SvgBackend.render_scene(scene).into_bytes(),
        Some("png") => PngBackend::new().with_scale(2.0).render_scene(scene).map_err(anyhow::Error::msg)?,
        _ => anyhow::bail!("the figure must be an .svg or .png file, found: `{}`", path.display()),
    };
    std::fs::write(path, image).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

/// The mean of |X| for a normal X.
fn mean_absolute_value(mean: f64, deviation: f64) -> f64 {
    let z = mean / deviation;
    deviation * (FRAC_2_PI.sqrt() * (-0.5 * z * z).exp() + z * libm::erf(z / SQRT_2))
}

/// The largest of nonnegative errors; NaN if one is NaN, which fails a verdict.
fn largest(errors: impl Iterator<Item = f64>) -> f64 {
    errors.fold(0.0, |most, x| if x.is_nan() || x > most { x } else { most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_known_numbers() {
        let Spread { mean, deviation, least, most } = Spread::of([1.0, 2.0, 3.0].into_iter());
        assert_eq!((mean, deviation, least, most), (2.0, 1.0, 1.0, 3.0));
    }

    #[test]
    fn mean_absolute_values_of_known_normals() {
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-14 * expected, "{found} {expected}");
        close(mean_absolute_value(0.0, 3.0), 3.0 * FRAC_2_PI.sqrt());
        // mpmath, 25 digits: sqrt(2/pi) exp(-1/2) + erf(1/sqrt(2)).
        close(mean_absolute_value(1.0, 1.0), 1.1666309411753726);
        close(mean_absolute_value(-1.0, 1.0), 1.1666309411753726);
        close(mean_absolute_value(50.0, 1.0), 50.0);
    }

    #[test]
    fn the_exit_code_is_1_if_a_required_verdict_fails() {
        let check = |holds| Verdict::check("a", 0.0, holds, "b");
        assert_eq!(exit_code(&[check(true), check(false).required(false)]), ExitCode::SUCCESS);
        assert_eq!(exit_code(&[check(true), check(false)]), ExitCode::from(1));
    }

    #[test]
    fn the_largest_error_propagates_nan() {
        assert_eq!(largest([0.5, 2.0, 1.0].into_iter()), 2.0);
        assert!(largest([0.5, f64::NAN, 1.0].into_iter()).is_nan());
    }
}
