//! The tables and figures of Kim, "On PyTorch Implementation of Density Estimators for von Mises-Fisher and Its Mixture"
//! (2021, arXiv:2102.05340), each as one command that prints what it found and judges it.
//!
//! Exit code 0: every verdict holds; 1: one does not; 2: the command could not be run.

mod figure1;
mod table1;

use clap::{Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

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
    /// Figure 1: the Bessel function where scipy's underflows.
    Figure1(figure1::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().what {
        What::Table1(options) => table1::run(&options),
        What::Figure1(options) => figure1::run(&options),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// A claim of the paper (or of ours) that the numbers just computed bear out, or not.
#[derive(Debug, serde::Serialize)]
struct Verdict {
    claim: String,
    found: String,
    holds: bool,
}

impl Verdict {
    fn line(&self) -> String {
        format!("{}  {}: {}", if self.holds { "holds" } else { "FAILS" }, self.claim, self.found)
    }
}

/// Prints a report; a reader who has seen enough of it is no error.
fn show(text: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// The largest of some errors, which are at least 0; NaN if one is, so that it fails a verdict.
fn largest(errors: impl Iterator<Item = f64>) -> f64 {
    errors.fold(0.0, |most, x| if x.is_nan() || x > most { x } else { most })
}

#[cfg(test)]
mod tests {
    use super::largest;

    #[test]
    fn the_largest_does_not_hide_a_nan() {
        assert_eq!(largest([0.5, 2.0, 1.0].into_iter()), 2.0);
        assert!(largest([0.5, f64::NAN, 1.0].into_iter()).is_nan());
    }
}
