//! `vmf select`: the number of components by what independent fits share, by neighbours, by
//! information criteria and by held-out rows.

mod report;

use crate::args::rows::RowArguments;
use crate::args::settings::{self, SettingArguments};
use crate::args::{FITTING, GENERAL, MODEL, OUTPUT, ReportArguments};
use crate::commands::fit;
use crate::files::Files;
use crate::files::output;
use crate::interrupt::{self, Interrupted};
use crate::report::progress::Progress;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use report::Report;
use std::path::PathBuf;
use vmfkit::fit::select::{Candidate, Criterion, Selection};
use vmfkit::train::Stop;
use vmfkit::{ConcentrationPolicy, RowBatch};

const AFTER_HELP: &str = "\
Examples:
  vmf select x.npy -k 2:20
  vmf select x.npy -k 2,5,10:50:10 --policy auto,free,shared --background both
  vmf select x.npy -k 5:40:5 --criterion shared-information --repeats 10
  vmf select x.npy -k 1:8 --criterion icl --json
  vmf select x.npy -k 1:8 --criterion held-out -o model.safetensors

Each line of the table is a mixture fitted by EM to all rows, except those held out by --holdout.
All rows are read into memory. The criterion auto decides by the dispersion of the rows: if they fit
the model (at most 1.5), bic recommends a number; if not, every likelihood prefers ever more
components, and shared-information recommends one. For each policy and criterion, a star marks the
best value:
  shared-information  information common to fits of two halves, in nats, less chance; the table has
                      its exponential as a number of equally large clusters
  stability           adjusted Rand index of these fits; few large clusters are nearly always stable
  neighbours          adjusted mutual information of the components of rows and of their neighbours
  aic       -2 ln L + 2 p for p free parameters: predicts best, often with too many components
  bic       -2 ln L + p ln n: finds the number of components if the rows come from a mixture
  icl       bic plus twice the entropy of the assignments: finds well separated clusters
  held-out  mean ln p of the held-out rows
For aic, bic and icl less is better, for the others more. The first three take 2 fits per repeat and
line; they are measured only where the criterion needs them, on at most 65,536 random rows (or 128
per component). Each row then counts once, whatever its weight.
The recommendation says how sure it is: high, medium or low confidence, or that no single number of
components stands out. docs/number-of-components.md has the rules and how often they are right.
The criteria compare numbers of components, not policies: free concentrations always fit better,
and a bound on their ratio does not change the number of parameters.
For likelihoods, the total weight counts as the number of rows.
Likelihoods favour mixtures in which a component has collapsed onto equal rows. Such lines are
marked with ! after k and explained below the table.";

/// Larger lists are assumed to be typing errors.
const MOST_NUMBERS: usize = 10_000;

/// Recommend a number of components
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Select {
    #[command(flatten)]
    rows: RowArguments,
    /// Numbers of components, such as 2:20 or 2,5,10:50:10
    ///
    /// A list of N, FROM:TO and FROM:TO:STEP.
    #[arg(short = 'k', long, value_name = "LIST", value_parser = numbers, required = true, help_heading = MODEL)]
    components: Option<Numbers>,
    /// Policies for concentrations to compare, separated by commas [default: auto]
    ///
    /// Each is one of auto, free, shared, fixed:KAPPA and ratio:RATIO, as in `vmf fit --help`.
    #[arg(long, value_name = "POLICIES", value_delimiter = ',', help_heading = MODEL)]
    policy: Vec<ConcentrationPolicy>,
    /// Whether to fit with a uniform background component
    #[arg(long, value_name = "WHICH", value_enum, default_value = "no", help_heading = MODEL)]
    background: Background,
    /// Criterion for the recommendation
    #[arg(long, value_name = "NAME", value_parser = criterion_parser(), default_value = "auto", help_heading = FITTING)]
    criterion: Criterion,
    /// Number of times that two halves are fitted for each line [default: 5]
    ///
    /// More repeats make the standard errors of stability and shared information smaller.
    #[arg(long, value_name = "N", help_heading = FITTING)]
    repeats: Option<usize>,
    /// Fraction of the rows to hold out [default: 0.2 for `--criterion held-out`, else 0]
    #[arg(long, value_name = "FRACTION", allow_hyphen_values = true, help_heading = FITTING)]
    holdout: Option<f64>,
    /// Number of fits from different starts for each line [default: 10 for small data, else 1]
    ///
    /// The best is kept. Data are small if a pass takes about a millisecond.
    #[arg(long, value_name = "N", help_heading = FITTING)]
    restarts: Option<usize>,
    /// Maximum number of passes over the rows [default: 100]
    #[arg(long, visible_alias = "epochs", value_name = "N", help_heading = FITTING)]
    max_passes: Option<usize>,
    /// Stop when a pass improves the log-likelihood by less than this fraction [default: 1e-5]
    ///
    /// A fit stops when a pass improves the mean log-likelihood, relative to the uniform
    /// distribution, by less than this fraction.
    #[arg(verbatim_doc_comment, long, value_name = "FRACTION", allow_hyphen_values = true, help_heading = FITTING)]
    tolerance: Option<f64>,
    #[command(flatten)]
    set: SettingArguments,
    /// Model file to write (safetensors): the recommended mixture
    #[arg(long, short, value_name = "FILE", help_heading = OUTPUT)]
    output: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArguments,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = GENERAL)]
    seed: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Background {
    No,
    Yes,
    Both,
}

impl Background {
    fn choices(self) -> &'static [bool] {
        match self {
            Self::No => &[false],
            Self::Yes => &[true],
            Self::Both => &[false, true],
        }
    }
}

/// Numbers of components.
#[derive(Debug, Clone)]
struct Numbers(Vec<usize>);

fn numbers(text: &str) -> Result<Numbers, String> {
    let mut found = Vec::new();
    for part in text.split(',') {
        let bounds: Option<Vec<usize>> = part.split(':').map(|number| number.trim().parse().ok()).collect();
        match bounds.as_deref() {
            Some(&[only]) => found.push(only),
            Some(&[from, to]) if from <= to => found.extend((from..=to).take(MOST_NUMBERS + 1)),
            Some(&[from, to, step]) if from <= to && step > 0 => found.extend((from..=to).step_by(step).take(MOST_NUMBERS + 1)),
            _ => return Err(format!("`{part}` is neither a number nor FROM:TO nor FROM:TO:STEP")),
        }
        if found.len() > MOST_NUMBERS {
            return Err(format!("there must be at most {MOST_NUMBERS} numbers of components"));
        }
    }
    found.sort_unstable();
    found.dedup();
    if found.first() == Some(&0) { Err("a mixture has at least 1 component".to_owned()) } else { Ok(Numbers(found)) }
}

fn criterion_parser() -> impl TypedValueParser<Value = Criterion> {
    PossibleValuesParser::new(Criterion::ALL.map(Criterion::name))
        .map(|name| Criterion::ALL.into_iter().find(|criterion| criterion.name() == name).expect("one of the names"))
}

impl Select {
    pub fn run(&self) -> Result<()> {
        if self.set.help_settings {
            return output::print(settings::help_of_select());
        }
        self.set.check_select()?;
        self.check_output()?;
        if let Some(repeats) = self.repeats.filter(|_| self.criterion.is_likelihood()) {
            bail!("`--repeats` is not used by `--criterion {}`, found: `{repeats}`", self.criterion);
        }
        let mut source = self.rows.without_ids().open_whole("vmf select")?;
        let mut buffer = vmfkit::RowBatch::default();
        let block = source.read_whole(&mut buffer)?;
        let holdout = self.holdout();
        if self.criterion == Criterion::HeldOut && (0.0..1.0).contains(&holdout) && self.rows_held_out(&block) == 0 {
            let of = if holdout == 0.0 { String::new() } else { format!(", which holds out none of {}", counted(block.len())) };
            bail!("`--criterion held-out` needs held-out rows, found: `--holdout {holdout}`{of}");
        }
        let weighted = block.weights().is_some();
        let candidates = self.candidates(&block).with_context(|| self.rows.name())?;
        source.note_rescaled();
        let report = Report { select: self, rows: source.totals(), weighted, candidates, policies: self.policies() };
        let written = self.output.as_ref().map_or(Ok(()), |path| report.write_recommended(path));
        output::print(if self.report.json { report.to_json() } else { report.to_text() })?;
        written?;
        // The table holds only finished fits.
        if interrupt::is_requested() { Err(Interrupted.into()) } else { Ok(()) }
    }

    /// Refuses, before any work, an output that cannot be written or that would need several mixtures.
    fn check_output(&self) -> Result<()> {
        let policies = self.policies().len();
        if self.output.is_some() && policies > 1 {
            bail!("`-o` writes one mixture, but each policy has its own recommendation, policies: `{policies}`");
        }
        let files = Files::new().reads(self.rows.files()).writes("-o", self.output.as_ref()).leave_standard_output()?;
        files.check()?;
        files.check_writable()
    }

    /// The fraction of the rows that is held out.
    fn holdout(&self) -> f64 {
        self.holdout.unwrap_or(if self.criterion == Criterion::HeldOut { 0.2 } else { 0.0 })
    }

    fn rows_held_out(&self, block: &RowBatch) -> usize {
        Selection::new([1]).held_out(self.holdout()).rows_held_out(block.len())
    }

    /// The given policies without repetition, or the default.
    fn policies(&self) -> Vec<ConcentrationPolicy> {
        let mut policies = Vec::new();
        for &policy in &self.policy {
            if !policies.contains(&policy) {
                policies.push(policy);
            }
        }
        if policies.is_empty() { vec![ConcentrationPolicy::default()] } else { policies }
    }

    fn candidates(&self, block: &RowBatch) -> Result<Vec<Candidate>> {
        let (policies, backgrounds) = (self.policies(), self.background.choices());
        let components = &self.components.as_ref().expect("the parser of arguments requires it").0;
        let lines = components.len() * policies.len() * backgrounds.len();
        let mut progress = Progress::new(!self.report.quiet);
        let (mut done, mut compared) = (0, 0);
        let watch = |candidate: &Candidate| {
            let last = format!("{} components, {}: ", candidate.components, candidate.policy);
            if done < lines {
                done += 1;
                progress.count(&last, done as u64, Some(lines as u64), "mixtures");
            } else {
                compared += 1;
                // The larger fits come last, so no time can be foretold.
                progress.count(&last, compared, None, "mixtures compared with fits of halves");
            }
            interrupt::should_stop()
        };
        interrupt::finish_gracefully();
        let settings = self.set.settings();
        let default = Stop::default();
        let baseline = settings.baseline.unwrap_or(default.baseline);
        let tolerance = self.tolerance.or(default.tolerance);
        let selection = Selection::new(components.iter().copied())
            .policies(policies)
            .backgrounds(backgrounds.iter().copied())
            .held_out(self.holdout())
            .criterion(self.criterion)
            .maximisation(fit::maximisation(&settings))
            .stop(Stop { tolerance, baseline, passes: self.max_passes.unwrap_or(default.passes) })
            .search(settings.search.unwrap_or(true))
            .seed(self.seed)
            .watch(watch)
            .ask(interrupt::should_stop);
        let selection = if let Some(restarts) = self.restarts { selection.restarts(restarts) } else { selection };
        let selection = if let Some(repeats) = self.repeats { selection.repeats(repeats) } else { selection };
        Ok(selection.run(block)?)
    }
}

fn counted(rows: usize) -> String {
    format!("{rows} row{}", if rows == 1 { "" } else { "s" })
}
