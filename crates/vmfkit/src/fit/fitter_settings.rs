//! Converts a [`Fitter`] to [`Settings`] and back.

use crate::error::{Error, Result};
use crate::fit::{Fitter, Method};
use crate::m_step::{ConcentrationPolicy, Maximisation};
use crate::mixture::Mixture;
use crate::settings::{Settings, digits, fingerprint};
use crate::start::Start;
use crate::tensor_file::excerpt;
use crate::train::{Adam, Annealing, Baseline, Stop};
use std::str::FromStr;

/// Prefixes of the fingerprints of starts that settings do not contain.
const GIVEN_STARTS: [&str; 3] = ["directions:", "labels:", "mixture:"];

impl Fitter<'_> {
    /// The settings of this fit, for rows of this dimension.
    pub fn settings(&self, dim: usize) -> Settings {
        let mut settings = Settings::default();
        let (used, stop) = (self.maximisation_used(), self.stop_of_method());
        settings.set("dimension", dim.to_string());
        settings.set("components", self.components.to_string());
        settings.set("method", self.method.name());
        match &self.method {
            Method::Em { annealing: Some(annealing) } => {
                settings.set("annealing", format!("{:?},{:?}", annealing.from, annealing.factor));
            }
            Method::OnlineEm { exponent, offset } => settings.set("step", format!("{exponent:?},{offset:?}")),
            Method::Sgd(adam) => adam.describe(self.components_in_all(), &mut settings),
            _ => {}
        }
        if self.method.is_online() {
            settings.set("batch", self.batch_rows().to_string());
            settings.set("shuffle", self.shuffle.to_string());
            if self.shuffle {
                settings.set("shuffle_rows", self.window_rows(dim).to_string());
            }
        } else {
            settings.set("block_rows", self.block_rows_used().to_string());
        }
        if !matches!(self.method, Method::Sgd(_)) {
            settings.set("estimator", used.estimator.name());
        }
        settings.set("policy", used.policy.to_string());
        if used.policy == ConcentrationPolicy::Auto {
            settings = settings.with_dispersion(used.dispersion);
        }
        settings.set("largest_concentration", format!("{:?}", used.largest_concentration));
        settings.set("smallest_weight", format!("{:?}", used.smallest_weight));
        settings.set("fixed_weights", used.fixed_weights.to_string());
        settings.set("background_start", self.background.map_or("none".to_owned(), |weight| format!("{weight:?}")));
        settings.set("start", self.start_mark.clone().unwrap_or_else(|| describe_start(&self.start)));
        settings.set("sample", self.sample_rows(dim).to_string());
        // Files of fits without a search, such as those of earlier versions, lack the setting.
        if self.searches() {
            settings.set("search", "true");
        }
        settings.set("restarts", self.restarts.to_string());
        settings.set("seed", self.seed.to_string());
        settings.set("tolerance", stop.tolerance.map_or("none".to_owned(), |tolerance| format!("{tolerance:?}")));
        // Earlier versions had this baseline only and did not write it.
        if stop.baseline == Baseline::Zero {
            settings.set("baseline", "zero");
        }
        settings.set("passes", stop.passes.to_string());
        settings
    }

    fn components_in_all(&self) -> usize {
        let given = matches!(&self.start, Start::Mixture(mixture) if mixture.has_background());
        self.components + usize::from(self.background.is_some() || given)
    }

    /// The fitter with exactly these settings.
    ///
    /// Settings contain only a fingerprint of directions, labels or a mixture given as a start.
    /// Such a fitter can continue a fit, but needs a [`Self::start`] to begin one.
    ///
    /// ```
    /// use vmfkit::{Fitter, Method};
    /// let settings = Fitter::new(10).method(Method::StochasticEm).seed(7).settings(768);
    /// assert_eq!(Fitter::of_settings(&settings)?.settings(768), settings);
    /// # Ok::<(), vmfkit::Error>(())
    /// ```
    pub fn of_settings(settings: &Settings) -> Result<Self> {
        let read = Reader(settings);
        let components: u32 = read.parsed("components", "a whole number below 2^32")?;
        let tolerance = read.unless_none("tolerance")?;
        let baseline = match settings.get("baseline") {
            None => Baseline::Uniform,
            Some("zero") => Baseline::Zero,
            Some(other) => return Err(wrong("baseline", "zero or unset", other)),
        };
        let mut fitter = Fitter::new(components as usize)
            .method(read.method()?)
            .maximisation(read.maximisation()?)
            .restarts(read.parsed("restarts", WHOLE)?)
            .seed(read.parsed("seed", "a whole number below 2^64")?)
            .sample(read.parsed("sample", WHOLE)?)
            .stop(Stop { tolerance, baseline, passes: read.parsed("passes", WHOLE)? });
        fitter.background = read.unless_none("background_start")?;
        if fitter.method.is_online() {
            fitter = fitter.batch(read.parsed("batch", WHOLE)?).shuffle(read.parsed("shuffle", "true or false")?);
        }
        if settings.get("shuffle_rows").is_some() {
            fitter = fitter.shuffle_rows(read.parsed("shuffle_rows", WHOLE)?);
        }
        if settings.get("block_rows").is_some() {
            fitter = fitter.block_rows(read.parsed("block_rows", WHOLE)?);
        }
        fitter.search = settings.get("search").is_some();
        match read.start()? {
            Some(start) => fitter.start = start,
            None => fitter.start_mark = Some(read.text("start")?.to_owned()),
        }
        // A setting that was ignored would be missing in the next file.
        let dim = read.parsed("dimension", WHOLE)?;
        let found = fitter.settings(dim);
        match settings.iter().find(|(name, text)| found.get(name) != Some(*text)) {
            None => Ok(fitter),
            Some((name, text)) => Err(Error::Setting {
                setting: excerpt(name),
                range: "consistent with the other settings and written as this version writes it",
                found: excerpt(text),
            }),
        }
    }

    /// Whether the start is more than a fingerprint, which a new fit needs.
    pub(crate) fn check_start(&self) -> Result<()> {
        match &self.start_mark {
            None => Ok(()),
            Some(fingerprint) => Err(Error::Setting {
                setting: "start".to_owned(),
                range: "given again, since only its fingerprint is stored",
                found: excerpt(fingerprint),
            }),
        }
    }
}

const WHOLE: &str = "a whole number";
const NUMBER: &str = "a number";

/// Parses settings.
struct Reader<'s>(&'s Settings);

impl Reader<'_> {
    fn text(&self, name: &'static str) -> Result<&str> {
        self.0.get(name).ok_or_else(|| wrong(name, "set", "unset"))
    }

    fn parsed<T: FromStr>(&self, name: &'static str, range: &'static str) -> Result<T> {
        let text = self.text(name)?;
        text.parse().map_err(|_| wrong(name, range, text))
    }

    fn unless_none(&self, name: &'static str) -> Result<Option<f64>> {
        if self.text(name)? == "none" { Ok(None) } else { self.parsed(name, "a number or none").map(Some) }
    }

    fn pair(&self, name: &'static str) -> Result<(f64, f64)> {
        let text = self.text(name)?;
        let numbers = text.split_once(',').and_then(|(one, other)| one.parse().ok().zip(other.parse().ok()));
        numbers.ok_or_else(|| wrong(name, "two numbers separated by a comma", text))
    }

    fn method(&self) -> Result<Method> {
        Ok(match self.parsed("method", "the name of a method")? {
            Method::Em { .. } if self.0.get("annealing").is_some() => {
                let (from, factor) = self.pair("annealing")?;
                Method::Em { annealing: Some(Annealing { from, factor }) }
            }
            Method::OnlineEm { .. } => {
                let (exponent, offset) = self.pair("step")?;
                Method::OnlineEm { exponent, offset }
            }
            Method::Sgd(_) => {
                let (first, second) = self.pair("betas")?;
                let adam = Adam::new().learning_rate(self.parsed("learning_rate", NUMBER)?).betas(first, second);
                Method::Sgd(adam.decay(self.parsed("decay", NUMBER)?).epsilon(self.parsed("epsilon", NUMBER)?))
            }
            other => other,
        })
    }

    fn maximisation(&self) -> Result<Maximisation> {
        let mut how = Maximisation::new()
            .policy(self.parsed("policy", "the name of a policy")?)
            .largest_concentration(self.parsed("largest_concentration", NUMBER)?)
            .smallest_weight(self.parsed("smallest_weight", NUMBER)?)
            .fixed_weights(self.parsed("fixed_weights", "true or false")?);
        if self.0.get("dispersion").is_some() {
            how = how.dispersion(self.parsed("dispersion", NUMBER)?);
        }
        // Gradient ascent has no estimator.
        if self.0.get("estimator").is_none() {
            return Ok(how);
        }
        Ok(how.estimator(self.parsed("estimator", "the name of an estimator")?))
    }

    /// `None` if only the fingerprint of the start is known.
    fn start(&self) -> Result<Option<Start>> {
        match self.text("start")? {
            "kmeans" => Ok(Some(Start::KMeans)),
            "plusplus" => Ok(Some(Start::PlusPlus)),
            "random-rows" => Ok(Some(Start::RandomRows)),
            "random" => Ok(Some(Start::Random)),
            text if GIVEN_STARTS.iter().any(|kind| text.starts_with(kind)) => Ok(None),
            text => Err(wrong("start", "the name of a start", text)),
        }
    }
}

fn wrong(setting: &str, range: &'static str, found: &str) -> Error {
    Error::Setting { setting: setting.to_owned(), range, found: excerpt(found) }
}

/// The name of a start, with a fingerprint of its directions, labels or mixture.
fn describe_start(start: &Start) -> String {
    let [of_directions, of_labels, of_mixture] = GIVEN_STARTS;
    let of_numbers = |numbers: &mut dyn Iterator<Item = f64>| digits(fingerprint(numbers.flat_map(f64::to_le_bytes)));
    match start {
        Start::KMeans => "kmeans".to_owned(),
        Start::PlusPlus => "plusplus".to_owned(),
        Start::RandomRows => "random-rows".to_owned(),
        Start::Random => "random".to_owned(),
        Start::Directions(directions) => format!("{of_directions}{}", of_numbers(&mut directions.iter().flatten().copied())),
        Start::Labels(labels) => {
            format!("{of_labels}{}", digits(fingerprint(labels.iter().flat_map(|label| label.to_le_bytes()))))
        }
        Start::Mixture(mixture) => format!("{of_mixture}{}", of_numbers(&mut parameters(mixture))),
    }
}

/// Every number of a mixture.
pub(crate) fn parameters(mixture: &Mixture) -> impl Iterator<Item = f64> {
    let components = mixture.components().iter().flat_map(|c| c.mean_direction().iter().copied().chain([c.concentration()]));
    mixture.weights().iter().copied().chain(components)
}
