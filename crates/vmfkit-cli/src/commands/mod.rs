//! The command line: one module per command.

pub mod accumulate;
pub mod assign;
pub mod calibrate;
pub mod compare;
pub mod completions;
pub mod constants;
pub mod convert;
pub mod demo;
pub mod fit;
pub mod help;
pub mod inspect;
pub mod man;
pub mod maximise;
pub mod merge;
pub mod sample;
pub mod score;
pub mod select;
pub mod test;
pub mod tree;

use crate::args::GENERAL;
use clap::{ArgAction, Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  vmf demo                                                     a first look, without files
  vmf constants --dim 768 --concentration 50                   ln C, A and others, to 17 digits
  vmf sample --dim 100 --concentration 500 -n 10000 -o x.npy   draw rows
  vmf fit x.npy                                                fit one density
  vmf fit x.npy -k 10 -o model.safetensors                     fit a mixture of 10 components
  vmf test first.npy second.npy                                equal directions? concentrations?
  vmf select x.npy -k 2:20                                     how many components?
  vmf assign model.safetensors x.npy -o labels.parquet         component and p-value of each row
  vmf score model.safetensors more.npy                         how well does the model fit new rows?
  vmf inspect model.safetensors x.npy                          components and their typical rows
  vmf tree model.safetensors --clusters 20                     fewer clusters, without another fit
  vmf compare truth.npy found.npy                              how well do two labelings agree?
  vmf convert x.npy x.parquet                                  change the file format
  vmf accumulate state.ckpt part.npy -o part.stats             fit on several machines
  vmf help formats                                             supported file formats

Exit codes:
  0    success, also if the reader of a pipe closes it early
  1    the result cannot be written
  2    invalid arguments or input; no incomplete file is left
  130  interrupted; `vmf fit` and `vmf select` print the result so far";

/// Fit, sample and evaluate von Mises-Fisher densities and mixtures in any dimension.
///
/// Results go to standard output, everything else to standard error.
#[derive(Debug, Parser)]
#[command(name = "vmf", version, after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
#[command(disable_help_flag = true, disable_help_subcommand = true)]
pub struct Arguments {
    /// Number of threads; results do not depend on it [default: one per core]
    #[arg(long, global = true, display_order = 100, help_heading = GENERAL)]
    #[arg(value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Print help; -h prints a summary
    #[arg(long, short, global = true, display_order = 101, action = ArgAction::Help, help_heading = GENERAL)]
    help: Option<bool>,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// All commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Fit a known mixture, then cluster 1,540 real questions; needs no files
    Demo(demo::Demo),
    /// Compute the constants of a density: ln C, ln I, A, entropy, divergence from uniform
    Constants(constants::Constants),
    /// Draw rows from a density or from a model file
    Sample(sample::Sample),
    /// Fit one density, or a mixture with -k
    Fit(Box<fit::Fit>),
    /// Test hypotheses about mean directions, concentrations, uniformity and symmetry
    Test(Box<test::Test>),
    /// Recommend a number of components, and compare them by several criteria
    Select(select::Select),
    /// Write the most probable component, ln density and p-value of each row
    Assign(Box<assign::Assign>),
    /// Report how well a model fits rows: mean ln density, bits per coordinate, outliers
    Score(Box<score::Score>),
    /// Find calibrated probabilities and p-values for a model, from the rows of its fit or held-out rows
    Calibrate(Box<calibrate::Calibrate>),
    /// Compare two labelings of the same rows: adjusted Rand index, mutual information, V-measure
    Compare(compare::Compare),
    /// Show a model file: its fit, its components and, given DATA, their most typical rows
    Inspect(inspect::Inspect),
    /// Merge the components of a model step by step: tree, dendrogram, coarser models
    Tree(Box<tree::Tree>),
    /// Convert rows between file formats
    Convert(convert::Convert),
    /// Print a shell completion script
    Completions(completions::Completions),
    /// Write manual pages, one per command, to a folder
    Man(man::Man),
    /// Compute the statistics of one part of the rows, for a pass of a distributed fit
    Accumulate(accumulate::Accumulate),
    /// Add the statistics of several parts
    Merge(merge::Merge),
    /// Advance a distributed fit by one pass, given the statistics of all rows
    Maximise(maximise::Maximise),
    /// Print the help of a command, or a page on formats, angles or settings
    Help(help::Help),
}

#[cfg(test)]
mod tests;
