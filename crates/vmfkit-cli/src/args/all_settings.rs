//! The table of all settings of `--set`.

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
pub(super) struct Setting {
    pub name: &'static str,
    /// The form of the value.
    pub value: &'static str,
    /// The rest of the sentence "it must be ...".
    pub range: &'static str,
    pub default: &'static str,
    pub meaning: &'static str,
    /// The methods that use it.
    pub methods: &'static [&'static str],
    /// Whether it has no effect on the fit of one density.
    pub of_mixture: bool,
    /// Whether the fits of `vmf select` use it.
    pub of_select: bool,
    /// Stores the value; false if it is out of range.
    pub store: fn(&mut Settings, &str) -> bool,
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
pub(super) const ALL: [Setting; 17] = [
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
        meaning: "What --tolerance is relative to: the uniform distribution, or 0 as in Kim (2021)",
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
        default: "64 per component, at least 8192; with the search, up to 32768",
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
        default: "8 million numbers, but from 4096 to 65536 rows",
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
