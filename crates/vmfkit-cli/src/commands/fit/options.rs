//! The options that both kinds of fit have, and the [`Fitter`] that they make.

use super::Fit;
use crate::rows::RowSource;
use crate::{input, model};
use anyhow::{Context, Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use vmfkit::error::ParseChoiceError;
use vmfkit::source::Source;
use vmfkit::train::{Adam, Annealing, Baseline, Stop};
use vmfkit::{ConcentrationEstimator, ConcentrationPolicy, Error, Fitter, Maximisation, Method, Start};

/// The method of one density that needs no steps.
pub const CLOSED: &str = "closed";

#[derive(Debug, clap::Args)]
pub struct Options {
    /// Fit a mixture of this many densities
    #[arg(short = 'k', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), group = "many")]
    pub components: Option<u32>,
    /// Way of fitting: closed or sgd for one density; em, hard, stochastic, online, sgd or kmeans for a mixture [default: closed, em]
    #[arg(long, value_name = "METHOD", value_parser = method_parser(), hide_possible_values = true)]
    pub method: Option<String>,
    /// How a concentration is found from a mean length [default: exact]
    #[arg(long, value_parser = estimator_parser())]
    pub estimator: Option<ConcentrationEstimator>,
    /// Random seed
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of fits that go step by step")]
pub struct Steps {
    /// Where to begin: kmeans, plusplus, random-rows, random, labels:FILE, directions:FILE or model:FILE [default: kmeans]
    #[arg(long, value_name = "START")]
    pub start: Option<StartArgument>,
    /// Rows, drawn from all of them, that the start is made of and EM searches on [default: 64 a component, at least 8192, for a search up to 32768]
    #[arg(long, value_name = "ROWS")]
    pub sample: Option<usize>,
    /// Passes over the rows at most, not counting those over the sample that the start is made of and EM searches on [default: 100, of online EM 20]
    #[arg(long, visible_alias = "epochs", value_name = "N")]
    pub max_passes: Option<usize>,
    /// Stop when a pass improves the mean log-likelihood, relative to the uniform distribution, by less than this fraction [default: 1e-5; gradient steps make all passes]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    pub tolerance: Option<f64>,
    /// The tolerance is a share of the objective itself, as in Kim (2021); in many dimensions ln p is so large that this stops early
    #[arg(long)]
    pub plain_tolerance: bool,
    /// Rows a step of sgd and online [default: of sgd 64, for one density 128; of online 16 a component, at least 512]
    #[arg(long, value_name = "ROWS")]
    pub batch: Option<usize>,
    /// Take the rows in the order of the file in every pass of sgd and online
    #[arg(long)]
    pub no_shuffle: bool,
    /// Size of a step of sgd in the first pass [default: 0.1, for one density 0.01]
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub learning_rate: Option<f64>,
    /// What the step size of sgd is multiplied by after each pass [default: 0.95]
    #[arg(long, value_name = "FACTOR", allow_hyphen_values = true)]
    pub decay: Option<f64>,
    /// Forgetting factors of Adam's two moments [default: 0.9,0.99]
    #[arg(long, value_name = "B1,B2", value_parser = pair, allow_hyphen_values = true)]
    pub betas: Option<(f64, f64)>,
    /// Step t of online has the size (t + OFFSET)^-EXPONENT [default: 0.6,1]
    #[arg(long, value_name = "EXPONENT,OFFSET", value_parser = pair, allow_hyphen_values = true)]
    pub step: Option<(f64, f64)>,
}

/// What the label of a row takes while a file of them is read: a line, its number, and the component.
const LABEL_MEMORY: u64 = 32;

/// Where a fit begins, as it is written.
#[derive(Debug, Clone)]
pub enum StartArgument {
    Chosen(Start),
    Labels(PathBuf),
    Directions(PathBuf),
    Model(PathBuf),
}

const STARTS: [&str; 7] = ["kmeans", "plusplus", "random-rows", "random", "labels:FILE", "directions:FILE", "model:FILE"];

impl FromStr for StartArgument {
    type Err = ParseChoiceError;

    fn from_str(text: &str) -> Result<Self, ParseChoiceError> {
        match text.split_once(':') {
            None if text == "kmeans" => Ok(Self::Chosen(Start::KMeans)),
            None if text == "plusplus" => Ok(Self::Chosen(Start::PlusPlus)),
            None if text == "random-rows" => Ok(Self::Chosen(Start::RandomRows)),
            None if text == "random" => Ok(Self::Chosen(Start::Random)),
            Some(("labels", file)) => Ok(Self::Labels(file.into())),
            Some(("directions", file)) => Ok(Self::Directions(file.into())),
            Some(("model", file)) => Ok(Self::Model(file.into())),
            _ => Err(ParseChoiceError::new("start", &STARTS, text)),
        }
    }
}

impl StartArgument {
    /// Whether another seed makes another start.
    pub fn is_by_chance(&self) -> bool {
        matches!(self, Self::Chosen(_))
    }

    /// The file that it is read from.
    pub fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::Chosen(_) => None,
            Self::Labels(path) | Self::Directions(path) | Self::Model(path) => Some(path),
        }
    }

    /// Bytes that its file takes in memory while it is read, with as many rows, if that is known.
    pub fn memory(&self, rows: Option<u64>) -> u64 {
        match self {
            // A label takes at least a byte of its file.
            Self::Labels(path) => LABEL_MEMORY * rows.unwrap_or_else(|| path.metadata().map_or(0, |file| file.len())),
            _ => 0,
        }
    }

    /// An error of a fit that began here, which names the file of labels or the rows.
    pub fn explain(&self, error: Error, source: &RowSource) -> anyhow::Error {
        match (self, error) {
            (Self::Labels(path), error @ Error::LabelCount { .. }) => anyhow::Error::from(error).context(input::display(path)),
            (_, error) => source.explain(error),
        }
    }

    /// The start, and the dispersion of the rows of a model that it continues.
    fn read(&self, components: usize, dim: usize) -> Result<(Start, Option<f64>)> {
        let start = match self {
            Self::Chosen(start) => start.clone(),
            Self::Labels(path) => {
                let labels = input::read_labels(path, false, None)?;
                Start::Labels(component_numbers(&labels, components).with_context(|| input::display(path))?)
            }
            Self::Directions(path) => {
                let mut file = vmfkit_io::open(&input::location(path)?, &vmfkit_io::Options::new().rescale(true))?;
                let mut directions = Vec::new();
                while let Some(block) = file.read_block()? {
                    directions.extend((0..block.len()).map(|row| block.row(row)));
                }
                if (directions.len(), file.dim()) != (components, dim) {
                    bail!(
                        "{}: there must be {components} directions of dimension {dim}, found: `{} of {}`",
                        input::display(path),
                        directions.len(),
                        file.dim()
                    );
                }
                Start::Directions(directions)
            }
            Self::Model(path) => {
                let (mixture, description) = model::read(path)?;
                let found = mixture.components().len() - usize::from(mixture.has_background());
                if found != components {
                    bail!("{}: a start must have {components} components, as `-k` says, found: `{found}`", input::display(path));
                }
                return Ok((Start::Mixture(mixture), description.settings.dispersion()));
            }
        };
        Ok((start, None))
    }
}

/// Labels that are component numbers stay what they are; others are numbered in ascending order.
fn component_numbers(labels: &[i64], components: usize) -> Result<Vec<u32>> {
    if labels.iter().all(|&label| usize::try_from(label).is_ok_and(|label| label < components)) {
        return Ok(labels.iter().map(|&label| label as u32).collect());
    }
    let mut numbers: BTreeMap<i64, u32> = labels.iter().map(|&label| (label, 0)).collect();
    if numbers.len() > components {
        bail!("there must be at most {components} different labels, as `-k` says, found: `{}`", numbers.len());
    }
    numbers.values_mut().zip(0..).for_each(|(number, next)| *number = next);
    Ok(labels.iter().map(|label| numbers[label]).collect())
}

impl Fit {
    /// How parameters are found from statistics.
    pub fn maximisation(&self) -> Maximisation {
        let estimator = self.options.estimator.unwrap_or_default();
        let policy = match self.options.components {
            None => ConcentrationPolicy::Free,
            Some(_) => self.mixture.policy.unwrap_or_default(),
        };
        let fixed_weights = self.mixture.fixed_weights;
        let how = Maximisation::new().estimator(estimator).policy(policy).fixed_weights(fixed_weights);
        self.mixture.min_weight.map_or(how.clone(), |smallest| how.smallest_weight(smallest))
    }

    /// When the fit stops.
    pub fn stop(&self, method: &Method) -> Stop {
        let default = method.stop();
        let tolerance = self.steps.tolerance.or(default.tolerance);
        let baseline = if self.steps.plain_tolerance { Baseline::Zero } else { default.baseline };
        Stop { tolerance, baseline, passes: self.steps.max_passes.unwrap_or(default.passes) }
    }

    /// The method of this name with its settings.
    pub fn method_with_settings(&self, name: &str) -> Method {
        let Fit { mixture, steps, .. } = self;
        match name.parse().expect("the parser of arguments knows the names") {
            Method::Em { .. } => Method::Em { annealing: mixture.annealing.map(|(from, factor)| Annealing { from, factor }) },
            Method::OnlineEm { exponent, offset } => {
                let (exponent, offset) = steps.step.unwrap_or((exponent, offset));
                Method::OnlineEm { exponent, offset }
            }
            Method::Sgd(adam) => Method::Sgd(steps.settings_of(adam)),
            other => other,
        }
    }

    /// All options together; a start is made of so many rows, or of as many as usual.
    pub fn fitter<'a>(&self, method: &Method, dim: usize, sample: Option<usize>) -> Result<Fitter<'a>> {
        let Fit { options, mixture, steps, .. } = self;
        let components = options.components.unwrap_or(1) as usize;
        let mut fitter = Fitter::new(components)
            .method(method.clone())
            .maximisation(self.maximisation())
            .seed(options.seed)
            .restarts(mixture.restarts.unwrap_or(1))
            .stop(self.stop(method))
            .shuffle(!steps.no_shuffle)
            .search(!mixture.no_search);
        if let Some(start) = &steps.start {
            let (start, dispersion) = start.read(components, dim)?;
            fitter = fitter.start(start);
            if let Some(dispersion) = dispersion {
                fitter = fitter.maximisation(self.maximisation().dispersion(dispersion));
            }
        }
        if let Some(batch) = steps.batch {
            fitter = fitter.batch(batch);
        }
        if let Some(rows) = sample {
            fitter = fitter.sample(rows);
        }
        if let Some(weight) = mixture.background {
            fitter = fitter.background(weight);
        }
        Ok(fitter)
    }
}

impl Steps {
    fn settings_of(&self, mut adam: Adam) -> Adam {
        if let Some((first, second)) = self.betas {
            adam = adam.betas(first, second);
        }
        if let Some(learning_rate) = self.learning_rate {
            adam = adam.learning_rate(learning_rate);
        }
        if let Some(decay) = self.decay {
            adam = adam.decay(decay);
        }
        adam
    }
}

/// The library's methods by their names, and the closed form.
fn method_parser() -> PossibleValuesParser {
    let names = Method::all().map(|method| method.name());
    PossibleValuesParser::new([CLOSED].into_iter().chain(names))
}

/// The library's estimators by their names.
fn estimator_parser() -> impl TypedValueParser<Value = ConcentrationEstimator> {
    let names = ConcentrationEstimator::ALL.map(ConcentrationEstimator::name);
    PossibleValuesParser::new(names).map(|name| name.parse().expect("one of the names"))
}

/// Two numbers with a comma between them.
pub fn pair(text: &str) -> Result<(f64, f64), String> {
    let numbers = text.split_once(',').and_then(|(one, other)| one.trim().parse().ok().zip(other.trim().parse().ok()));
    numbers.ok_or_else(|| "it takes two numbers, as in `0.9,0.99`".to_owned())
}
