//! Rows judged by a model, block by block: what `vmf assign` and `vmf score` have in common.

use crate::args::rows::{Beside, RowArguments, RowSource};
use crate::files::Files;
use crate::files::{input, model};
use crate::report::progress::Progress;
use anyhow::{Result, bail};
use std::path::PathBuf;
use vmfkit::mixture::{Evaluation, Summary};
use vmfkit::outlier::OutlierTest;
use vmfkit::source::Source;
use vmfkit::{Error, Mixture};

/// What a command's help says about p-values.
pub const P_VALUES: &str = "\
A p-value is the probability that a row drawn from the model is at least as strange as this one; a background is no part of the model
there, so that its rows stand out. Where components overlap, p-values are calibrated once by draws from the model, which takes a second
or two before the first row, and their relative error is a percent or a few (--no-p-values leaves them out).";

/// Memory of p-values: what half a million draws are kept by, and the most numbers of rows that are drawn and of responsibilities at once.
const DRAW_MEMORY: u64 = 12 << 20;
const NUMBERS_AT_ONCE: u64 = 1 << 21;
/// The fewest rows that are drawn or judged at once.
const ROWS_AT_ONCE: u64 = 256;
/// What is known of a row: two densities, its p-value, its weight.
const JUDGED_ROW: u64 = 40;

#[derive(Debug, clap::Args)]
pub struct JudgeArguments {
    /// Model file, as `vmf fit -k N -o MODEL` writes it, or `-` for standard input
    model: PathBuf,
    #[command(flatten)]
    rows: RowArguments,
    /// Compute no p-values, which take most of the time where components overlap
    #[arg(long, help_heading = "Options of the results")]
    pub no_p_values: bool,
    /// What the calibration of p-values draws from
    #[arg(long, default_value_t = 0, help_heading = "Options of the results")]
    seed: u64,
    /// Print one JSON object
    #[arg(long, help_heading = "Options of the results")]
    pub json: bool,
    /// Show no progress
    #[arg(long, short, help_heading = "Options of the results")]
    pub quiet: bool,
}

impl JudgeArguments {
    /// What is read.
    pub fn files(&self) -> Files<'_> {
        Files::new().reads([&self.model]).reads(self.rows.files())
    }

    /// Rows are called by what a column says.
    pub fn has_ids(&self) -> bool {
        self.rows.has_ids()
    }

    /// The model and the rows, for a command that needs so much memory beside them; and p-values or not.
    pub fn open(&self, beside: Beside, p_values: bool) -> Result<Judge> {
        self.files().check()?;
        let (mixture, description) = model::read(&self.model)?;
        let components = mixture.components().len() as u64;
        let source = self.rows.open(|rows| {
            let dim = rows.dim() as u64;
            let at_once = |length: u64| 8 * NUMBERS_AT_ONCE.max(ROWS_AT_ONCE * length);
            let model = 8 * components * dim;
            // The draws come from mixtures of their own.
            let p_values = if p_values { DRAW_MEMORY + at_once(dim) + at_once(components) + 4 * model } else { 0 };
            Beside { once: beside.once + p_values + 4 * model, each_row: beside.each_row + JUDGED_ROW, ..beside }
        })?;
        let (model, rows) = (input::display(&self.model), source.name());
        if source.dim() != mixture.dim() {
            let hint = match (description.angles, source.angles()) {
                (Some(angles), None) => format!("\nhint: the model was fitted with `--angles {angles}`"),
                _ => String::new(),
            };
            bail!("{rows}: rows must have the dimension of {model}, {}, found: `{}`{hint}", mixture.dim(), source.dim());
        }
        let labels = description.labels;
        Ok(Judge { model, mixture, labels, source, test: None, progress: Progress::new(!self.quiet), done: 0 })
    }
}

/// A model, and rows that it is asked about.
pub struct Judge {
    /// How messages call the model.
    pub model: String,
    pub mixture: Mixture,
    /// The labels of its components, if they are known.
    pub labels: Vec<String>,
    pub source: RowSource,
    test: Option<OutlierTest>,
    progress: Progress,
    done: u64,
}

/// What there is to say of a block.
pub struct Judged {
    pub summary: Summary,
    /// None if they are not wanted.
    pub p_values: Option<Vec<f64>>,
    pub weights: Option<Vec<f64>>,
}

impl Judge {
    /// From now on there are p-values.
    pub fn with_p_values(mut self, arguments: &JudgeArguments) -> Result<Self> {
        self.progress.announce("calibrating p-values by draws from the model");
        self.test = Some(OutlierTest::new(&self.mixture, arguments.seed)?);
        // The time that this took is not that of rows.
        self.progress = Progress::new(!arguments.quiet);
        Ok(self)
    }

    /// The next block, with so many of the most probable components of each row.
    pub fn next(&mut self, top: usize) -> Result<Option<Judged>> {
        let judged = self.next_block(top).map_err(|error| self.source.explain(error))?;
        match &judged {
            Some(judged) => self.done += judged.summary.ln_densities.len() as u64,
            None if self.done == 0 => return Err(self.source.explain(Error::NoRows { weight: 0.0 })),
            None if self.source.seen().weight == 0.0 => return Err(self.source.explain(Error::NoRows { weight: 0.0 })),
            None => {
                // Its line is gone before anything else is said.
                self.progress = Progress::new(false);
                self.source.note_rescaled();
                return Ok(None);
            }
        }
        self.progress.rows("", self.done, self.source.len());
        Ok(judged)
    }

    fn next_block(&mut self, top: usize) -> vmfkit::Result<Option<Judged>> {
        let Some(block) = self.source.read_block()? else { return Ok(None) };
        let summary = self.mixture.summarise(&block, top)?;
        let p_values = match &self.test {
            Some(test) => {
                let mut p_values = vec![0.0; block.len()];
                test.p_values_into(&block, &mut p_values)?;
                Some(p_values)
            }
            None => None,
        };
        Ok(Some(Judged { summary, p_values, weights: block.weights().map(<[f64]>::to_vec) }))
    }
}

impl Judged {
    pub fn weight(&self, row: usize) -> f64 {
        self.weights.as_ref().map_or(1.0, |weights| weights[row])
    }
}

/// Sums over rows.
#[derive(Debug, Default)]
pub struct Sums {
    pub evaluation: Evaluation,
    pub outliers: Option<Outliers>,
}

/// Rows whose p-values are below a level.
#[derive(Debug)]
pub struct Outliers {
    pub level: f64,
    pub rows: u64,
    /// Of these rows.
    weight: f64,
    /// Of all rows, and the sum of their squares.
    total: (f64, f64),
}

impl Sums {
    /// No rows yet; outliers are counted if there is a level.
    pub fn new(level: Option<f64>) -> Self {
        let outliers = level.map(|level| Outliers { level, rows: 0, weight: 0.0, total: (0.0, 0.0) });
        Sums { evaluation: Evaluation::default(), outliers }
    }

    pub fn add(&mut self, judged: &Judged) {
        self.evaluation.merge(&judged.summary.evaluation(judged.weights.as_deref()));
        if let (Some(outliers), Some(p_values)) = (&mut self.outliers, &judged.p_values) {
            for (row, p_value) in p_values.iter().enumerate() {
                let weight = judged.weight(row);
                outliers.total.0 += weight;
                outliers.total.1 += weight * weight;
                if *p_value < outliers.level {
                    outliers.rows += 1;
                    outliers.weight += weight;
                }
            }
        }
    }
}

impl Outliers {
    /// By weight.
    pub fn share(&self) -> f64 {
        self.weight / self.total.0
    }

    /// The standard deviation of the share, if the rows were drawn from the model: rows of unequal weights are worth fewer of equal ones.
    pub fn standard_error(&self) -> f64 {
        let rows = self.total.0 * self.total.0 / self.total.1;
        (self.level * (1.0 - self.level) / rows).sqrt()
    }
}

/// A level of p-values.
pub fn level(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(level) if level > 0.0 && level < 1.0 => Ok(level),
        _ => Err("a level lies between 0 and 1, as in `0.01`".to_owned()),
    }
}
