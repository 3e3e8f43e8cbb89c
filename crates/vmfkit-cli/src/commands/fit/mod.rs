//! `vmf fit`: one density, or a mixture with `-k`.

mod begin;
mod known;
mod mixture;
mod one;
mod options;
mod start;

use crate::args::all_settings::{ITERATIVE, NOT_K_MEANS};
use crate::args::rows::LimitedRowArguments;
use crate::args::settings::{self, SettingArguments};
use crate::args::{GENERAL, INPUT, ReportArguments};
use crate::files::output;
use anyhow::{Result, bail};
pub use options::maximisation;
use start::StartArgument;
use std::path::PathBuf;
use vmfkit::{ConcentrationPolicy, start::known_labels};

const AFTER_HELP: &str = "`vmf fit --help` has examples, `vmf fit --help-settings` more settings.";

const AFTER_LONG_HELP: &str = "\
Examples:
  vmf fit x.npy                                       one density: intervals, tests
  vmf fit x.npy -o model.safetensors                  one density, saved as a model file
  vmf fit stars.csv --columns x,y,z --weights column:brightness
  vmf fit embeddings.npy --rescale --json
  vmf fit poles.csv --angles lat,lon                  rows as angles in degrees
  vmf fit x.npy --goodness-of-fit=999
  vmf fit x.npy --method sgd --max-passes 50 --set batch=256
  vmf fit x.npy -k 10 -o model.safetensors            a mixture of 10 components by EM
  vmf fit x.npy -k 10 --labels found.npy && vmf compare truth.npy found.npy
  vmf fit x.npy -k 100 --method online --policy shared --restarts 5 --seed 1
  vmf fit x.npy -k 10 --background --start labels:truth.npy
  vmf fit x.npy -k 10 --set search=false              no search: faster, lower likelihood
  vmf fit more.npy -k 10 --start model:model.safetensors -o next.safetensors
  vmf fit x.npy -k 10 --checkpoint state.ckpt --start-only    for `vmf accumulate`, `vmf maximise`
  vmf fit x.npy --known-labels y.txt -o classes.safetensors   one component per label, no EM
  vmf fit x.parquet --known-labels column:topic --policy free

Methods (--method):
  em          expectation-maximisation, the default for mixtures
  hard        EM in which each row belongs to its most probable component
  stochastic  EM in which each row belongs to a component drawn from its responsibilities
  online      EM with a step per mini-batch: needs fewer passes over large data
  sgd         Adam on the log-likelihood; also for one density
  kmeans      spherical k-means
  closed      maximum likelihood in one pass, the default for one density

Policies for concentrations (--policy):
  auto         free if the rows fit the model, otherwise ratio:exp(20/(d-1)). The rows fit if their
               variance along the mean directions, measured on the sample for the start, is at
               most 1.5 times that of the model
  free         a separate concentration for each component: maximum likelihood
  shared       the same concentration for all components
  fixed:KAPPA  the concentration KAPPA for all components
  ratio:RATIO  separate concentrations, the largest at most RATIO times the smallest

Starts (--start):
  kmeans            spherical k-means after greedy k-means++; misplaced components are moved
  plusplus          greedy k-means++
  random-rows       random rows
  random            random directions
  labels:FILE       one component for each label, one label per row (.npy or text)
  directions:FILE   mean directions, one per row, of any length (.npy or text)
  model:FILE        the mixture of a model file

Model files are safetensors: `safetensors.numpy.load_file` opens them in Python.
Ctrl-C ends a fit after the current rows and writes the result; a second Ctrl-C stops at once.
The same options and seed give the same model file on any number of threads.";

/// Fit one density, or a mixture with -k
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, after_long_help = AFTER_LONG_HELP)]
pub struct Fit {
    #[command(flatten)]
    rows: LimitedRowArguments,
    /// Folder for a temporary copy of rows that are slow to read again, or `none`
    ///
    /// Text and compressed files that do not fit into memory are written there in the first pass,
    /// so that later passes are faster. Default: the folder of TMPDIR, or /var/tmp.
    #[arg(verbatim_doc_comment, long, value_name = "FOLDER", help_heading = INPUT)]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    model: options::ModelArguments,
    #[command(flatten)]
    fitting: options::FittingArguments,
    #[command(flatten)]
    set: SettingArguments,
    #[command(flatten)]
    one: one::OneArguments,
    #[command(flatten)]
    known: known::KnownLabelArguments,
    #[command(flatten)]
    outputs: options::OutputArguments,
    #[command(flatten)]
    report: ReportArguments,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = GENERAL)]
    seed: u64,
}

impl Fit {
    pub fn run(&self) -> Result<()> {
        if self.set.help_settings {
            return output::print(settings::help());
        }
        let method = self.method()?;
        self.check_options(method)?;
        if let Some(labels) = &self.known.known_labels {
            return self.fit_known_labels(labels);
        }
        match self.model.components {
            None => self.fit_one(method),
            Some(components) if self.fitting.start_only => {
                let checkpoint = self.fitting.checkpoint.as_deref().expect("the parser of arguments requires it");
                self.begin(method, components, checkpoint)
            }
            Some(components) => self.fit_mixture(method, components),
        }
    }

    /// The folder for rows that are slow to read again, if any.
    fn scratch_folder(&self) -> Result<Option<PathBuf>> {
        match &self.scratch {
            Some(none) if none.as_os_str() == "none" => Ok(None),
            Some(folder) if !folder.is_dir() => bail!("`--scratch` must be an existing folder, found: `{}`", folder.display()),
            Some(folder) => Ok(Some(folder.clone())),
            None => Ok(Some(vmfkit_io::scratch_folder())),
        }
    }

    /// The name of the method.
    fn method(&self) -> Result<&str> {
        if self.known.known_labels.is_some() {
            return Ok(known_labels::METHOD);
        }
        match (self.model.components, self.fitting.method.as_deref()) {
            (None, None) => Ok(options::CLOSED),
            (Some(_), None) => Ok(vmfkit::Method::default().name()),
            (None, Some(name)) if name == options::CLOSED || name == "sgd" => Ok(name),
            (None, Some(name)) => {
                bail!(
                    "one density is fitted by `--method closed` or `--method sgd`, found: `{name}`\n\
                     hint: `-k N` fits a mixture of N components"
                )
            }
            (Some(_), Some(options::CLOSED)) => {
                bail!("mixtures have no closed form, found: `--method closed`\nhint: without `-k`, one density is fitted")
            }
            (Some(_), Some(name)) => Ok(name),
        }
    }

    /// Refuses options that the method would ignore.
    fn check_options(&self, method: &str) -> Result<()> {
        let Fit { model, fitting, .. } = self;
        let is_known = self.known.known_labels.is_some();
        self.set.check(method, is_known || model.components.is_some())?;
        let loose = model.policy.filter(|policy| !is_known && !matches!(policy, ConcentrationPolicy::Fixed(_)));
        let policy = loose.map_or(String::new(), |policy| format!("--policy {policy}"));
        let table: [(bool, &str, &[&str]); 5] = [
            (model.background.is_some(), "--background", NOT_K_MEANS),
            (loose.is_some(), &policy, NOT_K_MEANS),
            (fitting.max_passes.is_some(), "--max-passes", ITERATIVE),
            (fitting.tolerance.is_some(), "--tolerance", ITERATIVE),
            (model.start.is_some(), "--start", ITERATIVE),
        ];
        for (given, option, methods) in table {
            if given && !methods.contains(&method) {
                if is_known {
                    bail!("`--known-labels` does not use the option: `{option}`");
                }
                let methods = methods.iter().map(|name| format!("`--method {name}`")).collect::<Vec<_>>().join(", ");
                bail!("`--method {method}` does not use the option: `{option}`\nhint: it is for {methods}");
            }
        }
        let restarts = fitting.restarts.unwrap_or(1);
        let is_random = model.start.as_ref().is_none_or(StartArgument::is_random);
        if restarts > 1 && !is_random && ["em", "hard", "kmeans"].contains(&method) {
            bail!(
                "`--method {method}` gives the same fit for every restart from a given start, found: `--restarts {restarts}`\n\
                 hint: restarts need `--start kmeans`, `plusplus`, `random-rows` or `random`"
            );
        }
        Ok(())
    }
}
