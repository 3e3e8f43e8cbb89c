//! Rows scored by a model: the common part of `vmf assign` and `vmf score`.

use crate::args::rows::LimitedRowArguments;
use crate::args::{GENERAL, OUTPUT, ReportArguments};
use crate::files::Files;
use crate::files::row_memory::ExtraMemory;
use crate::files::row_source::RowSource;
use crate::files::{input, model};
use crate::report::notes;
use crate::report::progress::Progress;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use vmfkit::merge_tree::Cut;
use vmfkit::mixture::{Evaluation, Summary};
use vmfkit::outlier::{OutlierScope, OutlierTable, OutlierTest};
use vmfkit::source::Source;
use vmfkit::store::model::Description;
use vmfkit::{Error, Mixture, RowBatch};

/// The paragraph about p-values in the help.
pub const P_VALUES: &str = "\
The p-value of a row says how unusual it is among rows like those of the fit (--p-values):
  conformal  the fraction of rows of the fit with at most its density [default]; at level 0.01, one
             row in a hundred is an outlier, whatever the distribution of the rows
  component  the same among the rows of its component, so that each component has as many outliers
  law        the probability that a row drawn from the model lies at least as far from its component;
             only for rows that fit the model, which embeddings do not
  none       no p-values
P-values leave out a background component, so that its rows stand out. If a model was fitted with
--no-calibration, it has no scores to compare with, and the default is `law`.";

/// How p-values are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PValues {
    Conformal,
    Component,
    Law,
    None,
}

/// Where p-values come from.
enum Test {
    Table(OutlierTable, OutlierScope),
    Law(OutlierTest),
}

/// Memory of p-values: the table of half a million draws, and the numbers of rows and
/// responsibilities in memory at a time.
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
    /// Count rows with a p-value of at most LEVEL as outliers [default of `vmf score`: 0.01]
    ///
    /// Both commands report their fraction; `vmf assign` also marks them.
    #[arg(long, value_name = "LEVEL", value_parser = level, allow_hyphen_values = true, help_heading = OUTPUT)]
    pub outliers: Option<f64>,
    /// How p-values are computed: conformal, component, law or none [default: conformal]
    #[arg(long, value_name = "HOW", hide_possible_values = true, help_heading = OUTPUT)]
    p_values: Option<PValues>,
    /// Use the exact posterior of the model, not calibrated probabilities
    #[arg(long, help_heading = OUTPUT)]
    raw: bool,
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

    /// Whether rows get p-values.
    pub fn has_p_values(&self) -> Result<bool> {
        let has_p_values = self.p_values != Some(PValues::None);
        if let (Some(level), false) = (self.outliers, has_p_values) {
            bail!("`--outliers {level}` needs p-values, found: `--p-values none`");
        }
        Ok(has_p_values)
    }

    /// Opens the model and the rows, for a command that needs this memory, with or without
    /// p-values. With a number of clusters, the components are merged to that many.
    pub fn open(&self, extra: ExtraMemory, p_values: bool, clusters: Option<usize>) -> Result<Scorer> {
        self.files().check()?;
        let (mixture, description) = model::read(&self.model)?;
        let components = mixture.components().len() as u64;
        let cut = match clusters {
            Some(clusters) => {
                let tree = model::merge_tree(&self.model, &mixture, &description, self.report.quiet)?;
                Some(tree.cut(clusters).context(input::display(&self.model))?)
            }
            None => None,
        };
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
        let Description { labels, calibration, outlier_table, .. } = description;
        // Labels are those of components.
        let labels = if cut.is_some() { Vec::new() } else { labels };
        let temperature = calibration.filter(|_| !self.raw).map_or(1.0, |calibration| calibration.temperature);
        let (buffer, progress) = (RowBatch::default(), Progress::new(!self.report.quiet));
        Ok(Scorer { model, mixture, cut, labels, temperature, outlier_table, source, buffer, test: None, progress, done: 0 })
    }
}

/// A model and the rows to be scored.
pub struct Scorer {
    /// The name of the model in messages.
    pub model: String,
    pub mixture: Mixture,
    /// The clusters that replace components.
    pub cut: Option<Cut>,
    /// The labels of the components, if they have any.
    pub labels: Vec<String>,
    temperature: f64,
    outlier_table: Option<OutlierTable>,
    pub source: RowSource,
    buffer: RowBatch<'static>,
    test: Option<Test>,
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
        let scope = match arguments.p_values {
            Some(PValues::Component) => Some(OutlierScope::Component),
            Some(PValues::Law | PValues::None) => None,
            Some(PValues::Conformal) | None => Some(OutlierScope::Overall),
        };
        match (self.outlier_table.take(), scope) {
            (Some(table), Some(scope)) => {
                self.test = Some(Test::Table(table, scope));
                return Ok(self);
            }
            (None, Some(scope)) if arguments.p_values.is_some() => bail!(
                "{}: the model has no table of scores for `--p-values {}`\n\
                 hint: `--p-values law` needs none; `vmf calibrate` makes one from the rows of the fit",
                self.model,
                if scope == OutlierScope::Component { "component" } else { "conformal" }
            ),
            (None, Some(_)) if !arguments.report.quiet => notes::note(format_args!(
                "{}: the model has no table of scores, so p-values are by its law, which rows that do not fit the model exceed\n\
                 hint: `vmf calibrate` makes the table from rows",
                self.model
            )),
            _ => {}
        }
        self.progress.announce("calibrating p-values by draws from the model");
        self.test = Some(Test::Law(OutlierTest::new(&self.mixture, arguments.seed)?));
        // The rate of the rows does not include the calibration.
        self.progress = Progress::new(!arguments.report.quiet);
        Ok(self)
    }

    /// Where p-values come from.
    fn p_values_from(&self) -> &'static str {
        match &self.test {
            Some(Test::Table(_, OutlierScope::Component)) => "component",
            Some(Test::Table(..)) => "conformal",
            Some(Test::Law(_)) => "law",
            None => "none",
        }
    }

    /// Whether blocks have p-values.
    pub fn has_p_values(&self) -> bool {
        self.test.is_some()
    }

    /// The next block, with the `top` most probable components, or clusters, of each row.
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
        let summary = match &self.cut {
            Some(cut) => cut.summarise(&self.mixture, &block, top, self.temperature)?,
            None => self.mixture.summarise_tempered(&block, top, self.temperature)?,
        };
        let p_values = match &self.test {
            Some(Test::Table(table, scope)) => Some(table.p_values(&self.mixture, &block, *scope)?),
            Some(Test::Law(test)) => Some(test.p_values(&block)?),
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

/// Rows whose p-values are at most a level.
#[derive(Debug)]
pub struct Outliers {
    pub level: f64,
    /// Where p-values come from: `conformal`, `component` or `law`.
    pub p_values: &'static str,
    pub rows: u64,
    /// The weight of these rows.
    weight: f64,
    /// The sum of the weights of all rows, and the sum of their squares.
    total: (f64, f64),
}

impl Sums {
    /// No rows yet; outliers are counted by the p-values of a scorer if there is a level.
    pub fn new(level: Option<f64>, scorer: &Scorer) -> Self {
        let p_values = scorer.p_values_from();
        let outliers = level.map(|level| Outliers { level, p_values, rows: 0, weight: 0.0, total: (0.0, 0.0) });
        Sums { evaluation: Evaluation::default(), outliers }
    }

    pub fn add(&mut self, block: &ScoredBlock) {
        self.evaluation.merge(&block.summary.evaluation(block.weights.as_deref()));
        if let (Some(outliers), Some(p_values)) = (&mut self.outliers, &block.p_values) {
            for (row, p_value) in p_values.iter().enumerate() {
                let weight = block.weight(row);
                outliers.total.0 += weight;
                outliers.total.1 += weight * weight;
                if *p_value <= outliers.level {
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

    /// The standard deviation of the fraction for rows drawn from the model, with the effective
    /// number of weighted rows.
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
