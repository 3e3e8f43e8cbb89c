//! `vmf tree`: the components of a model merged step by step, and coarser models.

mod refine;
mod report;

use crate::args::rows::LimitedRowArguments;
use crate::args::{FITTING, OUTPUT, ReportArguments};
use crate::files::Files;
use crate::files::row_output::RowOutput;
use crate::files::{input, model, output};
use crate::interrupt::{self, Interrupted};
use anyhow::{Context, Result};
use clap::Arg;
use report::Report;
use std::path::{Path, PathBuf};
use vmfkit::Mixture;
use vmfkit::merge_tree::MergeTree;
use vmfkit::store::model::{Description, to_bytes};
use vmfkit_io::{Batch, Element, OutputFormat, RowLayout};

const AFTER_HELP: &str = "\
Examples:
  vmf tree model.safetensors                                the merges, and a drawing of few components
  vmf tree model.safetensors --clusters 20                  which components the clusters consist of
  vmf tree model.safetensors --clusters 20 -o coarse.safetensors
  vmf tree model.safetensors --clusters 20 --refine x.npy -o coarse.safetensors
  vmf tree model.safetensors --newick > tree.nwk
  vmf tree model.safetensors --linkage linkage.npy          for scipy.cluster.hierarchy
  vmf assign model.safetensors x.npy --clusters 20 -o labels.parquet

Each step joins the two clusters whose merging loses the least log-likelihood of rows in their
clusters (spherical Ward linkage), from the statistics in the model file: the rows are not read.
Costs and heights are in nats. A height is the largest cost so far. A background is not merged.

`vmf assign --clusters` labels each row by the cluster of its most probable component; the
clusters of different numbers nest. -o writes a model with one density for each cluster. It is a new
model: its labels differ from those of the tree, and it has no calibration. --refine fits it to DATA
with the settings of the model and calibrates it.";

/// Merge the components of a model step by step: tree, dendrogram, coarser models
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP, mut_args(of_rows))]
pub struct Tree {
    /// Model file of `vmf fit -o`, or `-` for standard input
    model: PathBuf,
    #[command(flatten)]
    rows: LimitedRowArguments,
    /// Continue the fit of the coarser model on DATA, and calibrate it
    #[arg(long, requires_all = ["data", "clusters", "output"], help_heading = FITTING)]
    refine: bool,
    /// Merge components to this number of clusters and label rows by cluster (see `vmf tree`)
    ///
    /// The report lists the components of each cluster.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = OUTPUT)]
    clusters: Option<u32>,
    /// Model file to write, with one component for each cluster
    #[arg(long, short, value_name = "FILE", requires = "clusters", help_heading = OUTPUT)]
    output: Option<PathBuf>,
    /// Print the tree in Newick format, for tree viewers
    #[arg(long, conflicts_with_all = ["json", "clusters"], help_heading = OUTPUT)]
    newick: bool,
    /// Write the linkage matrix of scipy to a .npy file
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    linkage: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArguments,
}

/// Makes DATA optional, and lets it and its options require `--refine`.
fn of_rows(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "data" => arg.required(false).requires("refine"),
        "model" | "refine" | "clusters" | "output" | "newick" | "linkage" | "json" | "quiet" => arg,
        _ => arg.requires("data"),
    }
}

impl Tree {
    pub fn run(&self) -> Result<()> {
        self.check_files()?;
        let (mixture, description) = model::read(&self.model)?;
        let tree = model::merge_tree(&self.model, &mixture, &description, self.report.quiet)?;
        let name = input::display(&self.model);
        let cut = self.clusters.map(|clusters| tree.cut(clusters as usize)).transpose().context(name.clone())?;
        if let Some(path) = &self.linkage {
            write_linkage(path, &tree)?;
        }
        let mut refined = None;
        let mut written = Ok(());
        if let (Some(path), Some(clusters)) = (&self.output, self.clusters) {
            let (coarse, sums) = tree.mixture(clusters as usize).context(name.clone())?;
            let merged = description.of_merged(&coarse, sums);
            let (coarse, merged) = match self.refine {
                true => {
                    let (fit, angles) = self.refine(coarse, &merged)?;
                    let mut refined_description = Description::of(&fit);
                    refined_description.angles = angles;
                    let mixture = fit.mixture.clone();
                    refined = Some(fit);
                    (mixture, refined_description)
                }
                false => (coarse, merged),
            };
            written = write_model(path, &coarse, &merged);
        }
        let report = Report { file: name, tree: &tree, description: &description, cut, output: self.output.as_deref(), refined };
        let text = match () {
            () if self.newick => report.to_newick()?,
            () if self.report.json => report.to_json(),
            () => report.to_text(),
        };
        output::print(text)?;
        written?;
        if interrupt::is_requested() { Err(Interrupted.into()) } else { Ok(()) }
    }

    /// Refuses, before any work, outputs that cannot be written or would overwrite an input.
    fn check_files(&self) -> Result<()> {
        let files = Files::new().reads([&self.model]).reads(self.rows.limited().files());
        let files = files.writes("-o", self.output.as_ref()).writes("--linkage", self.linkage.as_ref());
        let files = files.leave_standard_output()?;
        files.check()?;
        files.check_writable()
    }
}

fn write_model(path: &Path, mixture: &Mixture, description: &Description) -> Result<()> {
    output::write_file(path, to_bytes(mixture, description))
}

/// Writes a matrix of four columns.
fn write_linkage(path: &Path, tree: &MergeTree) -> Result<()> {
    let rows = tree.linkage();
    let layout = RowLayout::new(4, Element::F64).rows(rows.len() as u64);
    let mut output = RowOutput::create(path, OutputFormat::Npy, &layout)?;
    let mut batch = Batch { rows: rows.len(), ..Batch::default() };
    *batch.values.start_dense() = rows.concat();
    output.write(&batch)?;
    output.finish()
}
