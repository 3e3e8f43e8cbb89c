//! The options of fits, and the [`Fitter`] they configure.

use super::Fit;
use super::start::StartArgument;
use crate::args::settings::{Estimator, Settings};
use crate::args::{FITTING, MODEL, OUTPUT};
use crate::score_rows::level;
use anyhow::Result;
use clap::builder::PossibleValuesParser;
use std::path::PathBuf;
use vmfkit::train::{Adam, Annealing, Stop};
use vmfkit::{ConcentrationEstimator, ConcentrationPolicy, Fitter, Maximisation, Method};

/// The method of one density without iterations.
pub const CLOSED: &str = "closed";

#[derive(Debug, clap::Args)]
#[command(next_help_heading = MODEL)]
pub struct ModelArguments {
    /// Number of components of a mixture [default: one density]
    #[arg(short = 'k', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), group = "many")]
    pub components: Option<u32>,
    /// How concentrations are tied across components [default: auto; known labels: shared]
    ///
    /// One of auto, free, shared, fixed:KAPPA and ratio:RATIO; see below.
    #[arg(long, value_name = "POLICY", requires = "many")]
    pub policy: Option<ConcentrationPolicy>,
    /// Add a uniform background component [default weight: 0.05]
    ///
    /// WEIGHT is its initial weight.
    #[arg(long, value_name = "WEIGHT", num_args = 0..=1, require_equals = true, default_missing_value = "0.05", requires = "components")]
    pub background: Option<f64>,
    /// Initial mixture, such as kmeans, random or model:FILE [default: kmeans]
    ///
    /// One of kmeans, plusplus, random-rows, random, labels:FILE, directions:FILE and model:FILE; see below.
    #[arg(long, value_name = "START")]
    pub start: Option<StartArgument>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = FITTING)]
pub struct FittingArguments {
    /// Algorithm: em, hard, stochastic, online, sgd or kmeans; for one density closed or sgd
    ///
    /// Default: em for a mixture, closed for one density; see below.
    #[arg(long, value_name = "METHOD", value_parser = method_parser(), hide_possible_values = true)]
    pub method: Option<String>,
    /// Number of fits from different starts; the best is kept [default: 1]
    #[arg(long, value_name = "N", requires = "components")]
    pub restarts: Option<usize>,
    /// Maximum number of passes over the rows [default: 100; online: 20]
    ///
    /// Passes over the sample for the start do not count.
    #[arg(long, visible_alias = "epochs", value_name = "N")]
    pub max_passes: Option<usize>,
    /// Stop when a pass improves the log-likelihood by less than this fraction [default: 1e-5]
    ///
    /// The fit stops when a pass improves the mean log-likelihood, relative to the uniform
    /// distribution, by less than this fraction. SGD has no tolerance by default.
    #[arg(verbatim_doc_comment, long, value_name = "FRACTION", allow_hyphen_values = true)]
    pub tolerance: Option<f64>,
    /// Save the state of the fit to FILE after each pass
    #[arg(long, value_name = "FILE", requires = "components")]
    pub checkpoint: Option<PathBuf>,
    /// Continue the fit of the checkpoint, if the file exists
    ///
    /// The result equals that of an uninterrupted fit.
    #[arg(long, requires = "checkpoint")]
    pub resume: bool,
    /// Write the initial state to the checkpoint and stop
    ///
    /// `vmf accumulate` and `vmf maximise` continue from there; see docs/clusters.md.
    #[arg(long, requires = "checkpoint", conflicts_with_all = ["output", "labels", "resume"])]
    pub start_only: bool,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = OUTPUT)]
pub struct OutputArguments {
    /// Do not calibrate probabilities and p-values
    #[arg(long, requires = "many")]
    pub no_calibration: bool,
    /// In --labels, write -1 for rows with a p-value of at most LEVEL
    #[arg(long, value_name = "LEVEL", value_parser = level, allow_hyphen_values = true)]
    #[arg(requires = "labels", conflicts_with = "no_calibration")]
    pub outliers: Option<f64>,
    /// Model file to write (safetensors)
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// File for the component of each row: .npy, or text with one per line
    #[arg(long, value_name = "FILE", requires = "many")]
    pub labels: Option<PathBuf>,
}

impl Fit {
    /// The given settings.
    pub fn settings(&self) -> Settings {
        self.set.settings()
    }

    /// The options of the M step.
    pub fn maximisation(&self) -> Maximisation {
        let policy = match self.model.components {
            None => ConcentrationPolicy::Free,
            Some(_) => self.model.policy.unwrap_or_default(),
        };
        maximisation(&self.settings()).policy(policy)
    }

    /// The stopping rule.
    pub fn stop(&self, method: &Method) -> Stop {
        let default = method.stop();
        let tolerance = self.fitting.tolerance.or(default.tolerance);
        let baseline = self.settings().baseline.unwrap_or(default.baseline);
        Stop { tolerance, baseline, passes: self.fitting.max_passes.unwrap_or(default.passes) }
    }

    /// The method of this name, with its settings.
    pub fn method_with_settings(&self, name: &str) -> Method {
        let settings = self.settings();
        match name.parse().expect("the parser of arguments knows the names") {
            Method::Em { .. } => Method::Em { annealing: settings.annealing.map(|(from, factor)| Annealing { from, factor }) },
            Method::OnlineEm { exponent, offset } => {
                let (exponent, offset) = settings.step.unwrap_or((exponent, offset));
                Method::OnlineEm { exponent, offset }
            }
            Method::Sgd(adam) => Method::Sgd(with_settings(adam, &settings)),
            other => other,
        }
    }

    /// The fitter with all options; `sample` is the sample size for the start, if it is not the default.
    pub fn fitter<'a>(&self, method: &Method, dim: usize, sample: Option<usize>) -> Result<Fitter<'a>> {
        let Fit { model, fitting, .. } = self;
        let settings = self.settings();
        let components = model.components.unwrap_or(1) as usize;
        let mut fitter = Fitter::new(components)
            .method(method.clone())
            .maximisation(self.maximisation())
            .seed(self.seed)
            .restarts(fitting.restarts.unwrap_or(1))
            .stop(self.stop(method))
            .shuffle(settings.shuffle.unwrap_or(true))
            .search(settings.search.unwrap_or(true))
            .calibrate(!self.outputs.no_calibration);
        if let Some(start) = &model.start {
            let (start, dispersion) = start.read(components, dim)?;
            fitter = fitter.start(start);
            if let Some(dispersion) = dispersion {
                fitter = fitter.maximisation(self.maximisation().dispersion(dispersion));
            }
        }
        if let Some(batch) = settings.batch {
            fitter = fitter.batch(batch);
        }
        if let Some(rows) = settings.shuffle_rows {
            fitter = fitter.shuffle_rows(rows);
        }
        if let Some(rows) = settings.block_rows {
            fitter = fitter.block_rows(rows);
        }
        if let Some(rows) = sample {
            fitter = fitter.sample(rows);
        }
        if let Some(weight) = model.background {
            fitter = fitter.background(weight);
        }
        Ok(fitter)
    }
}

/// The settings of the M step.
pub fn maximisation(settings: &Settings) -> Maximisation {
    let estimator = match settings.estimator {
        Some(Estimator::Library(estimator)) => estimator,
        Some(Estimator::Corrected) | None => ConcentrationEstimator::default(),
    };
    let mut how = Maximisation::new().estimator(estimator).fixed_weights(settings.fixed_weights.unwrap_or(false));
    if let Some(smallest) = settings.smallest_weight {
        how = how.smallest_weight(smallest);
    }
    if let Some(largest) = settings.largest_concentration {
        how = how.largest_concentration(largest);
    }
    how
}

fn with_settings(mut adam: Adam, settings: &Settings) -> Adam {
    if let Some((first, second)) = settings.betas {
        adam = adam.betas(first, second);
    }
    if let Some(learning_rate) = settings.learning_rate {
        adam = adam.learning_rate(learning_rate);
    }
    if let Some(decay) = settings.decay {
        adam = adam.decay(decay);
    }
    if let Some(epsilon) = settings.epsilon {
        adam = adam.epsilon(epsilon);
    }
    adam
}

/// The names of the library's methods, and the closed form.
fn method_parser() -> PossibleValuesParser {
    let names = Method::all().map(|method| method.name());
    PossibleValuesParser::new([CLOSED].into_iter().chain(names))
}
