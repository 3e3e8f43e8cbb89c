//! Our side of the comparison with other libraries; `run.py` is the other side and drives this one.
//!
//! `values` answers points read from standard input; `time`, `sample` and `mixture-times` measure
//! one round of the clock.

mod calibration;
mod families;
mod family_fits;
#[cfg(feature = "kernels")]
mod kernels;
mod mixture;
mod npy;
mod quality;
mod sampler;
mod selection;
mod special;
mod stored;

use clap::{Parser, Subcommand};

/// Our side of the comparison with other libraries, driven by run.py.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Reads lines `function,dimension,argument[,second argument]` and prints each value with all
    /// its digits.
    Values,
    /// Reads lines `dimension,concentration,concentration,...` and prints lines
    /// `dimension,function,nanoseconds a call`.
    Time,
    /// Prints `our rows a second, bare normals a second`.
    Sample(sampler::Options),
    /// Prints the seconds of an EM pass over the rows of a folder, and of an SGD epoch, as JSON
    /// lines.
    MixtureTimes(mixture::Options),
    /// Fits labelled rows of a folder in every way, and prints how well each finds the classes, as
    /// JSON lines.
    Quality(quality::Options),
    /// Measures calibrated probabilities and p-values; driven by calibration.py.
    #[command(subcommand)]
    Calibration(calibration::What),
    /// Measures the criteria for the number of components on families with known components, as JSON
    /// lines.
    Selection(selection::Options),
    /// Compares the matrix kernels of an E step with the crates gemm and faer, and prints
    /// KERNELS.md.
    #[cfg(feature = "kernels")]
    Kernels(kernels::Options),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().what {
        What::Values => special::print_values(std::io::stdin().lock()),
        What::Time => special::print_times(std::io::stdin().lock()),
        What::Sample(options) => sampler::print_rates(&options),
        What::MixtureTimes(options) => mixture::print_times(&options),
        What::Quality(options) => quality::print_agreement(&options),
        What::Calibration(what) => calibration::run(&what),
        What::Selection(options) => selection::print_curves(&options),
        #[cfg(feature = "kernels")]
        What::Kernels(options) => kernels::print_table(&options),
    }
}
