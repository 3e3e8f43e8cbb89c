//! Rows scored by a model: the common part of `vmf assign` and `vmf score`.

use crate::args::rows::LimitedRowArguments;
use crate::args::{GENERAL, OUTPUT, ReportArguments};
use crate::files::Files;
use crate::files::row_memory::ExtraMemory;
use crate::files::row_source::RowSource;
use crate::files::{input, model};
use crate::report::progress::Progress;
use anyhow::{Result, bail};
use std::path::PathBuf;
use vmfkit::mixture::{Evaluation, Summary};
use vmfkit::outlier::OutlierTest;
use vmfkit::source::Source;
use vmfkit::{Error, Mixture, RowBatch};

/// The paragraph about p-values in the help.
pub const P_VALUES: &str = "\
The p-value of a row is the probability that a row drawn from the model lies at least as far from
its component.
A background component is left out of the model, so its rows stand out.
If components overlap, p-values are first calibrated by draws from the model, which takes a second
or two. Their relative error is a few percent. --no-p-values skips them.";

/// Memory of p-values: the table of half a million draws, and the numbers of rows and responsibilities in memory at a time.
const DRAW_MEMORY: u64 = 12 << 20;
const NUMBERS_AT_ONCE: u64 = 1 << 21;
/// The smallest number of rows that are drawn or scored at a time.
const ROWS_AT_ONCE: u64 = 256;
/// Memory of a scored row: two densities, its p-value and its weight.
const SCORED_ROW: u64 = 40;

#[derive(Debug, clap::Args)]
pub struct ScoreArguments {
    /// Model file of `vmf fit -o`, or `-` for standard input
    model: PathBuf,
    #[command(flatten)]
    rows: LimitedRowArguments,
    /// Count rows with a p-value below LEVEL as outliers [default of `vmf score`: 0.01]
    ///
    /// Both commands report their fraction; `vmf assign` also marks them.
    #[arg(long, value_name = "LEVEL", value_parser = level, allow_hyphen_values = true, conflicts_with = "no_p_values")]
    #[arg(help_heading = OUTPUT)]
    pub outliers: Option<f64>,
    /// Skip p-values, which take most of the time if components overlap
    #[arg(long, help_heading = OUTPUT)]
    pub no_p_values: bool,
    #[command(flatten)]
    pub report: ReportArguments,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = GENERAL)]
    seed: u64,
}

impl ScoreArguments {
    /// The files that are read.
    pub fn files(&self) -> Files<'_> {
        Files::new().reads([&self.model]).reads(self.rows.limited().files())
    }

    /// Whether rows have ids.
    pub fn has_ids(&self) -> bool {
        self.rows.limited().has_ids()
    }

    /// Opens the model and the rows, for a command that needs this memory, with or without p-values.
    pub fn open(&self, extra: ExtraMemory, p_values: bool) -> Result<Scorer> {
        self.files().check()?;
        let (mixture, description) = model::read(&self.model)?;
        let components = mixture.components().len() as u64;
        let source = self.rows.limited().open(|rows| {
            let dim = rows.dim() as u64;
            let at_once = |length: u64| 8 * NUMBERS_AT_ONCE.max(ROWS_AT_ONCE * length);
            let model = 8 * components * dim;
            // Draws come from separate mixtures.
            let p_values = if p_values { DRAW_MEMORY + at_once(dim) + at_once(components) + 4 * model } else { 0 };
            ExtraMemory { fixed: extra.fixed + p_values + 4 * model, per_row: extra.per_row + SCORED_ROW, ..extra }
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
        let (buffer, progress) = (RowBatch::default(), Progress::new(!self.report.quiet));
        Ok(Scorer { model, mixture, labels, source, buffer, test: None, progress, done: 0 })
    }
}

/// A model and the rows to be scored.
pub struct Scorer {
    /// The name of the model in messages.
    pub model: String,
    pub mixture: Mixture,
    /// The labels of the components, if they have any.
    pub labels: Vec<String>,
    pub source: RowSource,
    buffer: RowBatch<'static>,
    test: Option<OutlierTest>,
    progress: Progress,
    done: u64,
}

/// The scores of a block.
pub struct ScoredBlock {
    pub summary: Summary,
    /// None if they are skipped.
    pub p_values: Option<Vec<f64>>,
    pub weights: Option<Vec<f64>>,
}

impl Scorer {
    /// The same scorer with p-values.
    pub fn with_p_values(mut self, arguments: &ScoreArguments) -> Result<Self> {
        self.progress.announce("calibrating p-values by draws from the model");
        self.test = Some(OutlierTest::new(&self.mixture, arguments.seed)?);
        // The rate of the rows does not include the calibration.
        self.progress = Progress::new(!arguments.report.quiet);
        Ok(self)
    }

    /// The next block, with the `top` most probable components of each row.
    pub fn next(&mut self, top: usize) -> Result<Option<ScoredBlock>> {
        let block = self.next_block(top).map_err(|error| self.source.explain(error))?;
        match &block {
            Some(block) => self.done += block.summary.ln_densities.len() as u64,
            None if self.done == 0 => return Err(self.source.explain(Error::NoRows { weight: 0.0 })),
            None if self.source.totals().weight == 0.0 => return Err(self.source.explain(Error::NoRows { weight: 0.0 })),
            None => {
                // The progress line is removed before anything else is printed.
                self.progress = Progress::new(false);
                self.source.note_rescaled();
                return Ok(None);
            }
        }
        self.progress.rows("", self.done, self.source.len());
        Ok(block)
    }

    fn next_block(&mut self, top: usize) -> vmfkit::Result<Option<ScoredBlock>> {
        let Some(block) = self.source.next_validated(&mut self.buffer)? else { return Ok(None) };
        let summary = self.mixture.summarise(&block, top)?;
        let p_values = match &self.test {
            Some(test) => {
                let mut p_values = vec![0.0; block.len()];
                test.p_values_into(&block, &mut p_values)?;
                Some(p_values)
            }
            None => None,
        };
        Ok(Some(ScoredBlock { summary, p_values, weights: block.weights().map(<[f64]>::to_vec) }))
    }
}

impl ScoredBlock {
    pub fn weight(&self, row: usize) -> f64 {
        self.weights.as_ref().map_or(1.0, |weights| weights[row])
    }
}

/// Totals over rows.
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
    /// The weight of these rows.
    weight: f64,
    /// The sum of the weights of all rows, and the sum of their squares.
    total: (f64, f64),
}

impl Sums {
    /// No rows yet; outliers are counted if there is a level.
    pub fn new(level: Option<f64>) -> Self {
        let outliers = level.map(|level| Outliers { level, rows: 0, weight: 0.0, total: (0.0, 0.0) });
        Sums { evaluation: Evaluation::default(), outliers }
    }

    pub fn add(&mut self, block: &ScoredBlock) {
        self.evaluation.merge(&block.summary.evaluation(block.weights.as_deref()));
        if let (Some(outliers), Some(p_values)) = (&mut self.outliers, &block.p_values) {
            for (row, p_value) in p_values.iter().enumerate() {
                let weight = block.weight(row);
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
    /// The weighted fraction.
    pub fn fraction(&self) -> f64 {
        self.weight / self.total.0
    }

    /// The standard deviation of the fraction for rows drawn from the model, with the effective number of weighted rows.
    pub fn standard_error(&self) -> f64 {
        let rows = self.total.0 * self.total.0 / self.total.1;
        (self.level * (1.0 - self.level) / rows).sqrt()
    }
}

/// A level of p-values.
pub fn level(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(level) if level > 0.0 && level < 1.0 => Ok(level),
        _ => Err("a level must be above 0 and below 1, such as `0.01`".to_owned()),
    }
}
