//! `vmf fit`: one density for the rows of a file, or with `-k` a mixture.

mod begin;
mod known;
mod mixture;
mod one;
mod options;

use crate::rows::{FILES, RowArguments};
use anyhow::{Result, bail};
use options::{Options, StartArgument};
use std::path::PathBuf;
use std::sync::LazyLock;
use vmfkit::{ConcentrationPolicy, known_labels};

static AFTER_HELP: LazyLock<String> = LazyLock::new(|| {
    format!(
        "\
Examples:
  vmf fit x.npy                                        one density: interval, cone, tests
  vmf fit stars.csv --columns x,y,z --weight-column brightness
  vmf fit embeddings.npy --rescale --json
  vmf fit x.npy --goodness-of-fit=999
  vmf fit x.npy --method sgd --max-passes 50 --batch 256
  vmf fit x.npy -k 10 -o model.safetensors             a mixture of 10 densities by EM
  vmf fit x.npy -k 10 --labels found.npy && vmf compare truth.npy found.npy
  vmf fit x.npy -k 100 --method online --policy shared --restarts 5 --seed 1
  vmf fit x.npy -k 10 --background --start labels:truth.npy
  vmf fit x.npy -k 10 --checkpoint state.ckpt --start-only     for `vmf accumulate` and `vmf maximise`
  vmf fit more.npy -k 10 --start model:model.safetensors -o next.safetensors
  vmf fit poles.csv --angles lat,lon                   angles in degrees; the mean direction as angles too
  vmf fit x.npy --known-labels y.txt -o classes.safetensors    one component per label, no EM
  vmf fit x.parquet --known-labels column:topic --policy free

Concentrations of a mixture (--policy):
  auto         free where the rows fit the model, else ratio:exp(20/(d-1)). The rows fit if their variance along the
               mean directions is at most 1.5 times the model's, measured on the sample of the start
  free         each component has its own: the maximum of the likelihood
  shared       all components have the same
  fixed:KAPPA  all components have this one
  ratio:RATIO  each component has its own, the largest at most RATIO times the smallest

Where a mixture begins (--start):
  kmeans            spherical k-means from greedy k-means++, its components moved to where they do most
  plusplus          greedy k-means++
  random-rows       rows chosen by chance
  random            directions chosen by chance
  labels:FILE       the components that these labels make of the rows, one label a row (.npy or text)
  directions:FILE   these directions, one a row, of any length (.npy or text)
  model:FILE        the mixture of a model file

Known labels (--known-labels): FILE is a .npy array of whole numbers, a text file with a label a line, or a table with a column of texts
or whole numbers. Components are in the order of the sorted labels, numbers before texts; the model file keeps their names. Weights are
the labels' shares of the rows, or equal with --fixed-weights. The concentrations are shared unless --policy says otherwise.

A model file is safetensors: `safetensors.numpy.load_file` opens it in Python. Ctrl-C ends the fit of a mixture after the rows at hand,
and what it has found is written; Ctrl-C again ends at once. The same options and seed give the same file on any number of threads.

{FILES}"
    )
});

/// Fit one density, or with -k a mixture, to the rows of files
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP.as_str())]
pub struct Fit {
    #[command(flatten)]
    rows: RowArguments,
    #[command(flatten)]
    options: Options,
    /// Folder for a scratch file of rows that do not fit into memory and take long to read again, as text does, or `none` [default: that of TMPDIR, or /var/tmp]
    #[arg(long, value_name = "FOLDER", help_heading = "Options of the rows")]
    scratch: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    one: one::Wishes,
    #[command(flatten)]
    mixture: mixture::Wishes,
    #[command(flatten)]
    known: known::Wishes,
    #[command(flatten)]
    steps: options::Steps,
}

impl Fit {
    pub fn run(&self) -> Result<()> {
        let method = self.method()?;
        self.check_options(method)?;
        if let Some(labels) = &self.known.known_labels {
            return self.fit_known_labels(labels);
        }
        match self.options.components {
            None => self.fit_one(method),
            Some(components) if self.mixture.start_only => {
                let checkpoint = self.mixture.checkpoint.as_deref().expect("the parser of arguments requires it");
                self.begin(method, components, checkpoint)
            }
            Some(components) => self.fit_mixture(method, components),
        }
    }

    /// The folder for rows that take long to read again.
    fn scratch_folder(&self) -> Result<Option<PathBuf>> {
        match &self.scratch {
            Some(none) if none.as_os_str() == "none" => Ok(None),
            Some(folder) if !folder.is_dir() => bail!("a scratch file needs a folder, found: `--scratch {}`", folder.display()),
            Some(folder) => Ok(Some(folder.clone())),
            None => Ok(Some(vmfkit_io::scratch_folder())),
        }
    }

    /// The name of the way of fitting.
    fn method(&self) -> Result<&str> {
        if self.known.known_labels.is_some() {
            return Ok(known_labels::METHOD);
        }
        match (self.options.components, self.options.method.as_deref()) {
            (None, None) => Ok(options::CLOSED),
            (Some(_), None) => Ok(vmfkit::Method::default().name()),
            (None, Some(name)) if name == options::CLOSED || name == "sgd" => Ok(name),
            (None, Some(name)) => {
                bail!(
                    "one density is fitted by `--method closed` or `--method sgd`, found: `{name}`\n\
                     hint: `-k N` fits a mixture of N densities"
                )
            }
            (Some(_), Some(options::CLOSED)) => {
                bail!("a mixture has no closed form, found: `--method closed`\nhint: without `-k` one density is fitted")
            }
            (Some(_), Some(name)) => Ok(name),
        }
    }

    /// Refuses options that the method would pass over.
    fn check_options(&self, method: &str) -> Result<()> {
        let Fit { options, mixture, steps, .. } = self;
        const ITERATIVE: &[&str] = &["em", "hard", "stochastic", "online", "sgd", "kmeans"];
        // One concentration and equal weights are what makes k-means of it.
        const NOT_K_MEANS: &[&str] = &["em", "hard", "stochastic", "online", "sgd"];
        let is_known = self.known.known_labels.is_some();
        let loose = mixture.policy.filter(|policy| !is_known && !matches!(policy, ConcentrationPolicy::Fixed(_)));
        let policy = loose.map_or(String::new(), |policy| format!("--policy {policy}"));
        let table: [(bool, &str, &[&str]); 16] = [
            (steps.learning_rate.is_some(), "--learning-rate", &["sgd"]),
            (steps.decay.is_some(), "--decay", &["sgd"]),
            (steps.betas.is_some(), "--betas", &["sgd"]),
            (steps.batch.is_some(), "--batch", &["sgd", "online"]),
            (steps.no_shuffle, "--no-shuffle", &["sgd", "online"]),
            (steps.step.is_some(), "--step", &["online"]),
            (mixture.annealing.is_some(), "--annealing", &["em"]),
            (mixture.no_search, "--no-search", &["em"]),
            (mixture.background.is_some(), "--background", NOT_K_MEANS),
            (loose.is_some(), &policy, NOT_K_MEANS),
            (mixture.fixed_weights && !is_known, "--fixed-weights", NOT_K_MEANS),
            (mixture.min_weight.is_some(), "--min-weight", NOT_K_MEANS),
            (steps.max_passes.is_some(), "--max-passes", ITERATIVE),
            (steps.tolerance.is_some(), "--tolerance", ITERATIVE),
            (steps.plain_tolerance, "--plain-tolerance", NOT_K_MEANS),
            (steps.start.is_some(), "--start", ITERATIVE),
        ];
        for (given, option, methods) in table {
            if given && !methods.contains(&method) {
                if is_known {
                    bail!("`--known-labels` has no use for the option: `{option}`");
                }
                let methods = methods.iter().map(|name| format!("`--method {name}`")).collect::<Vec<_>>().join(", ");
                bail!("`--method {method}` has no use for the option: `{option}`\nhint: it goes with {methods}");
            }
        }
        if options.estimator.is_some() && method == "sgd" {
            bail!("gradient steps have no use for the option: `--estimator`");
        }
        let restarts = mixture.restarts.unwrap_or(1);
        let by_chance = steps.start.as_ref().is_none_or(StartArgument::is_by_chance);
        if restarts > 1 && !by_chance && ["em", "hard", "kmeans"].contains(&method) {
            bail!(
                "`--method {method}` makes the same fit again from the start that is given, found: `--restarts {restarts}`\n\
                 hint: fits differ with `--start kmeans`, `plusplus`, `random-rows` or `random`"
            );
        }
        Ok(())
    }
}
