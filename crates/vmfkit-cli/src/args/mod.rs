//! What may be written behind `vmf`.

pub mod rows;
pub mod size;

use crate::commands::{
    accumulate, assign, compare, completions, constants, convert, demo, fit, inspect, man, maximise, merge, sample, score,
    select, test,
};
use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  vmf demo                                                     sample and fit, without any file
  vmf constants --dim 768 --concentration 50                   ln C, A and so on, to 17 digits
  vmf sample --dim 100 --concentration 500 -n 10000 -o x.npy   draw rows
  vmf fit x.npy                                                estimate mean direction and concentration
  vmf fit x.npy -k 10 -o model.safetensors                     fit a mixture of 10 densities
  vmf test first.npy second.npy                                equal mean directions? equal concentrations?
  vmf select x.npy -k 2:20                                     how many components?
  vmf assign model.safetensors x.npy -o labels.parquet         components and p-values of rows
  vmf score model.safetensors more.npy                         how well does the model explain other rows?
  vmf inspect model.safetensors x.npy                          components and their most typical rows
  vmf compare truth.npy found.npy                              how well do two labelings agree?
  vmf convert x.npy x.parquet                                  another format
  vmf accumulate state.ckpt part.npy -o part.stats             a part of a pass, for fits by many machines (docs/clusters.md)

Exit codes:
  0    success (also when the reader of a pipe has gone)
  1    the result could not be written
  2    bad usage or bad input; nothing was left half-written
  130  interrupted";

/// von Mises-Fisher densities and mixtures on the unit sphere of any dimension: sample, fit, calculate.
///
/// Results go to standard output, everything else to standard error.
#[derive(Debug, Parser)]
#[command(name = "vmf", version, after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub struct Arguments {
    /// Number of threads; results do not depend on it [default: one per core]
    #[arg(long, global = true, display_order = 100, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Draw the paper's mixture and fit it by EM and by gradient steps: a first look, without any file
    Demo(demo::Demo),
    /// Calculate the constants of a density: ln C, ln I, A, entropy, divergence from uniform
    Constants(constants::Constants),
    /// Draw rows from a density or from the mixture of a model file
    Sample(sample::Sample),
    /// Fit one density, or with -k a mixture, to the rows of files
    Fit(Box<fit::Fit>),
    /// Test hypotheses: equal mean directions or concentrations of groups, a given mean direction, uniformity, rotational symmetry
    Test(Box<test::Test>),
    /// Compare numbers of components by AIC, BIC, ICL and held-out rows
    Select(select::Select),
    /// Write the most probable component, ln density and p-value of each row
    Assign(Box<assign::Assign>),
    /// Say how well a model explains rows: mean ln density, bits a coordinate, share of outliers
    Score(Box<score::Score>),
    /// Compare two labelings of the same rows: adjusted Rand index, mutual information, V, best matching
    Compare(compare::Compare),
    /// Show what a model file holds: its fit, its components and, with DATA, their most typical rows
    Inspect(inspect::Inspect),
    /// Convert rows between .npy, .npz, Parquet, Arrow, CSV, TSV, JSON Lines, safetensors and Matrix Market
    Convert(convert::Convert),
    /// Print a script that completes commands and options in a shell
    Completions(completions::Completions),
    /// Write the manual pages, one a verb, into a folder
    Man(man::Man),
    /// Make the statistics of some rows under the state of a fit: one part of a pass
    Accumulate(accumulate::Accumulate),
    /// Add the statistics of several parts of a pass, in the order given
    Merge(merge::Merge),
    /// Make the step of a fit from the statistics of all parts of a pass
    Maximise(maximise::Maximise),
}
