//! `--set NAME=VALUE`: rarely changed settings, by the names under which model files store them.
//!
//! A new setting is a field of [`Settings`] and a line of [`ALL`]; its name is that of `Fitter::settings`, so that `vmf inspect` shows what `--set` took.

use super::FITTING;
use anyhow::{Result, bail};
use std::str::FromStr;
use vmfkit::ConcentrationEstimator;
use vmfkit::mixture::CHUNK_ROWS;
use vmfkit::train::Baseline;

/// The given values; None means the default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    pub annealing: Option<(f64, f64)>,
    pub baseline: Option<Baseline>,
    pub batch: Option<usize>,
    pub betas: Option<(f64, f64)>,
    pub block_rows: Option<usize>,
    pub decay: Option<f64>,
    pub epsilon: Option<f64>,
    pub estimator: Option<Estimator>,
    pub fixed_weights: Option<bool>,
    pub largest_concentration: Option<f64>,
    pub learning_rate: Option<f64>,
    pub sample: Option<usize>,
    pub search: Option<bool>,
    pub shuffle: Option<bool>,
    pub shuffle_rows: Option<usize>,
    pub smallest_weight: Option<f64>,
    pub step: Option<(f64, f64)>,
}

/// How a concentration is estimated from a mean length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Estimator {
    Library(ConcentrationEstimator),
    /// The exact estimate of one density, corrected for its small-sample bias.
    Corrected,
}

/// The description of a setting.
#[derive(Debug)]
struct Setting {
    name: &'static str,
    /// The form of the value.
    value: &'static str,
    /// The rest of the sentence "it must be ...".
    range: &'static str,
    default: &'static str,
    meaning: &'static str,
    /// The methods that use it.
    methods: &'static [&'static str],
    /// Whether it has no effect on the fit of one density.
    of_mixture: bool,
    /// Whether the fits of `vmf select` use it.
    of_select: bool,
    /// Stores the value; false if it is out of range.
    store: fn(&mut Settings, &str) -> bool,
}

/// Iterative methods.
pub const ITERATIVE: &[&str] = &["em", "hard", "stochastic", "online", "sgd", "kmeans"];
/// Iterative methods with free weights and concentrations.
pub const NOT_K_MEANS: &[&str] = &["em", "hard", "stochastic", "online", "sgd"];
const NOT_SGD: &[&str] = &["closed", "em", "hard", "stochastic", "online", "kmeans", "labels"];
const NOT_K_MEANS_OR_LABELS: &[&str] = &["em", "hard", "stochastic", "online", "sgd", "labels"];
/// Methods with one step per pass.
const PASSES: &[&str] = &["em", "hard", "stochastic", "kmeans"];

/// Every setting, sorted by name.
const ALL: [Setting; 17] = [
    Setting {
        name: "annealing",
        value: "FROM,FACTOR",
        range: "two numbers, the first from 1 to 1e6, the second above 0 and below 1",
        default: "none",
        meaning: "EM starts at temperature FROM and multiplies it by FACTOR after each pass, down to 1",
        methods: &["em"],
        of_mixture: true,
        of_select: false,
        store: |s, text| put(&mut s.annealing, pair(text).filter(|(from, factor)| (1.0..=1e6).contains(from) && inside(*factor))),
    },
    Setting {
        name: "baseline",
        value: "uniform|zero",
        range: "`uniform` or `zero`",
        default: "uniform",
        meaning: "Reference of the tolerance: the uniform distribution, or 0 as in Kim (2021)",
        methods: NOT_K_MEANS,
        of_mixture: false,
        of_select: true,
        store: |s, text| put(&mut s.baseline, choice(&[("uniform", Baseline::Uniform), ("zero", Baseline::Zero)], text)),
    },
    Setting {
        name: "batch",
        value: "ROWS",
        range: "a whole number of at least 1",
        default: "sgd 64, for one density 128; online 16 per component, at least 512",
        meaning: "Rows per step",
        methods: &["sgd", "online"],
        of_mixture: false,
        of_select: false,
        store: |s, text| put(&mut s.batch, whole(text)),
    },
    Setting {
        name: "betas",
        value: "B1,B2",
        range: "two numbers, each at least 0 and below 1",
        default: "0.9,0.99",
        meaning: "Decay rates of Adam's two moment estimates",
        methods: &["sgd"],
        of_mixture: false,
        of_select: false,
        store: |s, text| put(&mut s.betas, pair(text).filter(|(b1, b2)| (0.0..1.0).contains(b1) && (0.0..1.0).contains(b2))),
    },
    Setting {
        name: "block_rows",
        value: "ROWS",
        range: "a multiple of 1152",
        default: "9216",
        meaning: "Rows per block of the summation; the last digits of a fit depend on it",
        methods: PASSES,
        of_mixture: true,
        of_select: false,
        store: |s, text| put(&mut s.block_rows, whole(text).filter(|&rows| rows > 0 && rows % CHUNK_ROWS == 0)),
    },
    Setting {
        name: "decay",
        value: "FACTOR",
        range: "a number above 0 and at most 1",
        default: "0.95",
        meaning: "Factor that multiplies the learning rate after each pass",
        methods: &["sgd"],
        of_mixture: false,
        of_select: false,
        store: |s, text| put(&mut s.decay, number(text).filter(|&x| x > 0.0 && x <= 1.0)),
    },
    Setting {
        name: "epsilon",
        value: "NUMBER",
        range: "a finite number above 0",
        default: "1e-8",
        meaning: "Constant in the denominator of Adam's steps",
        methods: &["sgd"],
        of_mixture: false,
        of_select: false,
        store: |s, text| put(&mut s.epsilon, number(text).filter(|&x| x > 0.0)),
    },
    Setting {
        name: "estimator",
        value: "NAME",
        range: "banerjee, tanabe, sra, song or exact; for one density also corrected",
        default: "exact",
        meaning: "How concentrations are estimated; corrected removes the small-sample bias",
        methods: NOT_SGD,
        of_mixture: false,
        of_select: true,
        store: |s, text| {
            let of_library = || text.parse().ok().map(Estimator::Library);
            put(&mut s.estimator, if text == "corrected" { Some(Estimator::Corrected) } else { of_library() })
        },
    },
    Setting {
        name: "fixed_weights",
        value: "true|false",
        range: "`true` or `false`",
        default: "false",
        meaning: "Keep the weights of the start; with --known-labels, equal weights",
        methods: NOT_K_MEANS_OR_LABELS,
        of_mixture: true,
        of_select: true,
        store: |s, text| put(&mut s.fixed_weights, text.parse().ok()),
    },
    Setting {
        name: "largest_concentration",
        value: "KAPPA",
        range: "a number above 0 and at most 1e15",
        default: "1e10",
        meaning: "Upper bound of every concentration",
        methods: NOT_K_MEANS_OR_LABELS,
        of_mixture: true,
        of_select: true,
        store: |s, text| put(&mut s.largest_concentration, number(text).filter(|&x| x > 0.0 && x <= 1e15)),
    },
    Setting {
        name: "learning_rate",
        value: "RATE",
        range: "a finite number above 0",
        default: "0.1, for one density 0.01",
        meaning: "Size of Adam's steps in the first pass",
        methods: &["sgd"],
        of_mixture: false,
        of_select: false,
        store: |s, text| put(&mut s.learning_rate, number(text).filter(|&x| x > 0.0)),
    },
    Setting {
        name: "sample",
        value: "ROWS",
        range: "a whole number of at least 1",
        default: "64 per component, at least 8192; for a search up to 32768",
        meaning: "Size of the random sample for the start and for the search of EM",
        methods: ITERATIVE,
        of_mixture: false,
        of_select: false,
        store: |s, text| put(&mut s.sample, whole(text)),
    },
    Setting {
        name: "search",
        value: "true|false",
        range: "`true` or `false`",
        default: "true",
        meaning: "Run a split-and-merge search on a sample before EM",
        methods: &["em"],
        of_mixture: true,
        of_select: true,
        store: |s, text| put(&mut s.search, text.parse().ok()),
    },
    Setting {
        name: "shuffle",
        value: "true|false",
        range: "`true` or `false`",
        default: "true",
        meaning: "Shuffle the rows in every pass",
        methods: &["sgd", "online"],
        of_mixture: false,
        of_select: false,
        store: |s, text| put(&mut s.shuffle, text.parse().ok()),
    },
    Setting {
        name: "shuffle_rows",
        value: "ROWS",
        range: "a whole number above 0",
        default: "8 million numbers, but 4096 to 65536 rows",
        meaning: "Rows that are shuffled together in memory; increase it if the rows are sorted",
        methods: &["sgd", "online"],
        of_mixture: false,
        of_select: false,
        store: |s, text| put(&mut s.shuffle_rows, whole(text)),
    },
    Setting {
        name: "smallest_weight",
        value: "WEIGHT",
        range: "a number from 0 to 1 over the number of components",
        default: "0",
        meaning: "Lower bound of every weight",
        methods: NOT_K_MEANS,
        of_mixture: true,
        of_select: true,
        store: |s, text| put(&mut s.smallest_weight, number(text).filter(|x| (0.0..=1.0).contains(x))),
    },
    Setting {
        name: "step",
        value: "EXPONENT,OFFSET",
        range: "two numbers, the first above 0.5 and at most 1, the second at least 0",
        default: "0.6,1",
        meaning: "Step t of online EM has the size (t + OFFSET)^-EXPONENT",
        methods: &["online"],
        of_mixture: true,
        of_select: false,
        store: |s, text| {
            put(&mut s.step, pair(text).filter(|&(exponent, offset)| exponent > 0.5 && exponent <= 1.0 && offset >= 0.0))
        },
    },
];

/// Settings of model files that have a separate option.
const OPTIONS: [(&str, &str); 9] = [
    ("background_start", "--background"),
    ("components", "-k"),
    ("method", "--method"),
    ("passes", "--max-passes"),
    ("policy", "--policy"),
    ("restarts", "--restarts"),
    ("seed", "--seed"),
    ("start", "--start"),
    ("tolerance", "--tolerance"),
];

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = FITTING)]
pub struct SettingArguments {
    /// Change a rarely used setting; may be given several times
    #[arg(long, value_name = "NAME=VALUE", allow_hyphen_values = true)]
    set: Vec<Assignment>,
    /// List the settings of --set and their defaults
    #[arg(long, exclusive = true)]
    pub help_settings: bool,
}

/// `NAME=VALUE`, validated.
#[derive(Debug, Clone)]
struct Assignment {
    setting: &'static Setting,
    value: String,
}

impl FromStr for Assignment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, value)) = text.split_once('=') else {
            return Err("a setting is given as NAME=VALUE, such as `batch=256`".to_owned());
        };
        let Some(setting) = ALL.iter().find(|setting| setting.name == name) else { return Err(unknown(name)) };
        match (setting.store)(&mut Settings::default(), value) {
            true => Ok(Assignment { setting, value: value.to_owned() }),
            false => Err(format!("`{name}` must be {}, found: `{value}`", setting.range)),
        }
    }
}

impl SettingArguments {
    /// The given values.
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        for Assignment { setting, value } in &self.set {
            (setting.store)(&mut settings, value);
        }
        settings
    }

    /// Refuses settings that are given twice or exclude each other.
    fn check_names(&self) -> Result<()> {
        for (position, Assignment { setting, .. }) in self.set.iter().enumerate() {
            if self.set[..position].iter().any(|other| other.setting.name == setting.name) {
                bail!("a setting can be given only once, found twice: `{}`", setting.name);
            }
        }
        let settings = self.settings();
        if settings.fixed_weights == Some(true) && settings.smallest_weight.is_some() {
            bail!("`smallest_weight` has no effect with `fixed_weights=true`");
        }
        Ok(())
    }

    /// Refuses settings that a fit by this method would ignore.
    pub fn check(&self, method: &str, is_mixture: bool) -> Result<()> {
        self.check_names()?;
        for Assignment { setting, .. } in &self.set {
            let Setting { name, methods, of_mixture, .. } = setting;
            if *of_mixture && !is_mixture {
                bail!("one density does not use the setting: `{name}`\nhint: `-k N` fits a mixture");
            }
            if !methods.contains(&method) {
                if method == vmfkit::start::known_labels::METHOD {
                    bail!("`--known-labels` does not use the setting: `{name}`");
                }
                let methods: Vec<String> =
                    methods.iter().filter(|name| **name != "labels").map(|name| format!("`--method {name}`")).collect();
                bail!("`--method {method}` does not use the setting: `{name}`\nhint: it is for {}", methods.join(", "));
            }
        }
        if self.settings().estimator == Some(Estimator::Corrected) && method != "closed" {
            bail!("`estimator=corrected` is for one density, found: `--method {method}`");
        }
        Ok(())
    }

    /// Refuses settings that `vmf select` would ignore.
    pub fn check_select(&self) -> Result<()> {
        self.check("em", true)?;
        match self.set.iter().find(|assignment| !assignment.setting.of_select) {
            Some(Assignment { setting, .. }) => {
                let names: Vec<&str> = ALL.iter().filter(|setting| setting.of_select).map(|setting| setting.name).collect();
                bail!("`vmf select` does not use the setting: `{}`\nhint: it uses {}", setting.name, names.join(", "))
            }
            None => Ok(()),
        }
    }
}

/// The output of `vmf fit --help-settings`.
pub fn help() -> String {
    list("fit", |_| true)
}

/// The output of `vmf select --help-settings`.
pub fn help_of_select() -> String {
    list("select", |setting| setting.of_select)
}

fn list(verb: &str, is_listed: impl Fn(&Setting) -> bool) -> String {
    let mut text = format!(
        "Settings for `vmf {verb} --set NAME=VALUE`.\nModel files store them under these names; `vmf inspect` shows them.\n"
    );
    for setting in ALL.iter().filter(|setting| is_listed(setting)) {
        let Setting { name, value, range, default, meaning, methods, .. } = setting;
        text.push_str(&format!("\n  {name}={value}\n    {meaning}\n"));
        if !range.starts_with('`') {
            text.push_str(&format!("    allowed: {range}\n"));
        }
        text.push_str(&format!("    default: {default}\n"));
        if verb == "fit" {
            let methods: Vec<&str> = methods.iter().map(|&name| if name == "labels" { "--known-labels" } else { name }).collect();
            text.push_str(&format!("    methods: {}\n", methods.join(", ")));
        }
    }
    text
}

/// An error with similar names.
fn unknown(name: &str) -> String {
    if let Some((_, option)) = OPTIONS.iter().find(|(known, _)| *known == name) {
        return format!("`{name}` has a separate option: `{option}`");
    }
    let mut near: Vec<(usize, &str)> = ALL.iter().map(|setting| (edits(name, setting.name), setting.name)).collect();
    near.sort_unstable();
    let is_near = |&(edits, known): &(usize, &str)| {
        edits <= 1 + known.len() / 4 || name.len() > 2 && (known.contains(name) || name.contains(known))
    };
    let near: Vec<String> = near.into_iter().filter(is_near).map(|(_, known)| format!("`{known}`")).collect();
    let near = if near.is_empty() { String::new() } else { format!("; similar: {}", near.join(", ")) };
    format!("no setting is called `{name}`{near}\nhint: `vmf fit --help-settings` lists all settings")
}

/// The Levenshtein distance.
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

fn put<T>(field: &mut Option<T>, value: Option<T>) -> bool {
    *field = value;
    field.is_some()
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

fn whole(text: &str) -> Option<usize> {
    text.parse().ok().filter(|&number| number >= 1)
}

fn pair(text: &str) -> Option<(f64, f64)> {
    text.split_once(',').and_then(|(one, other)| number(one).zip(number(other)))
}

fn choice<T: Copy>(choices: &[(&str, T)], text: &str) -> Option<T> {
    choices.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice)
}

/// Above 0 and below 1.
fn inside(number: f64) -> bool {
    number > 0.0 && number < 1.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmfkit::train::Adam;
    use vmfkit::{Fitter, Method};

    /// `--set` uses the names of model files, which store the baseline only if it is not the default.
    #[test]
    fn names_are_those_of_model_files() {
        let methods = [Method::default(), Method::Sgd(Adam::new()), "online".parse().unwrap()];
        let mut stored: Vec<String> = vec!["annealing".into(), "baseline".into()];
        for method in methods {
            stored.extend(Fitter::new(2).method(method).settings(3).iter().map(|(name, _)| name.to_owned()));
        }
        for name in ALL.iter().map(|setting| setting.name).chain(OPTIONS.map(|(name, _)| name)) {
            assert!(stored.iter().any(|stored| stored == name), "{name}");
        }
        let known = |name: &String| {
            ALL.iter().any(|setting| setting.name == name)
                || OPTIONS.iter().any(|(option, _)| option == name)
                || name == "dimension"
        };
        assert_eq!(stored.iter().find(|name| !known(name)), None);
    }

    #[test]
    fn unknown_names_get_similar_ones() {
        for (text, words) in [
            ("beta=1,2", "no setting is called `beta`; similar: `betas`"),
            ("learning-rate=1", "similar: `learning_rate`"),
            ("weight=1", "`fixed_weights`"),
            ("qqqqqq=1", "no setting is called `qqqqqq`\nhint: "),
            ("seed=1", "`seed` has a separate option: `--seed`"),
            ("batch", "a setting is given as NAME=VALUE, such as `batch=256`"),
            ("batch=0", "`batch` must be a whole number of at least 1, found: `0`"),
            ("decay=nan", "`decay` must be a number above 0 and at most 1, found: `nan`"),
        ] {
            let error = text.parse::<Assignment>().unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn edit_distances_are_those_of_levenshtein() {
        assert_eq!([edits("", "abc"), edits("abc", "abc"), edits("kitten", "sitting"), edits("step", "steps")], [3, 0, 3, 1]);
    }

    #[test]
    fn every_default_that_is_a_value_is_allowed() {
        for setting in &ALL {
            if ["none", "64 per", "sgd 64", "8 million", "0.1, for"].iter().any(|words| setting.default.starts_with(words)) {
                continue;
            }
            assert!((setting.store)(&mut Settings::default(), setting.default), "{}", setting.name);
        }
    }
}
