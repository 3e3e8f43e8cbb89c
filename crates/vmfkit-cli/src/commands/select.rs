//! `vmf select`: the number of components by information criteria and held-out rows.

use crate::args::rows::RowArguments;
use crate::args::settings::{self, SettingArguments};
use crate::args::{FITTING, GENERAL, MODEL, OUTPUT, ReportArguments};
use crate::commands::fit;
use crate::files::Files;
use crate::files::output;
use crate::files::row_source::RowTotals;
use crate::interrupt::{self, Interrupted};
use crate::report::format::{aligned, json_number, readable};
use crate::report::progress::Progress;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use vmfkit::fit::select::{Candidate, Criterion, Selection, best, best_of};
use vmfkit::store::model::{self, Description};
use vmfkit::train::{Status, Stop};
use vmfkit::{ConcentrationPolicy, RowBatch};

const AFTER_HELP: &str = "\
Examples:
  vmf select x.npy -k 2:20
  vmf select x.npy -k 2,5,10:50:10 --policy auto,free,shared --background both
  vmf select x.npy -k 1:8 --criterion icl --json
  vmf select x.npy -k 1:8 --criterion held-out -o model.safetensors

Each line of the table is a mixture fitted by EM to all rows, except those held out by --holdout.
All rows are read into memory. For each policy and criterion, a star marks the best line:
  aic       -2 ln L + 2 p for p free parameters: predicts best, often with too many components
  bic       -2 ln L + p ln n: finds the number of components if the rows come from a mixture
  icl       bic plus twice the entropy of the assignments: finds well separated clusters
  held-out  mean ln p of the held-out rows; the only criterion for which more is better
The criteria compare numbers of components, not policies: free concentrations always fit better,
and a bound on their ratio does not change the number of parameters.
The total weight counts as the number of rows.
All criteria favour mixtures in which a component has collapsed onto equal rows. Such lines are
marked with ! after k and explained below the table.";

/// Larger lists are assumed to be typing errors.
const MOST_NUMBERS: usize = 10_000;

/// Compare numbers of components by AIC, BIC, ICL and held-out rows
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
    #[arg(long, value_name = "NAME", value_parser = criterion_parser(), default_value = "bic", help_heading = FITTING)]
    criterion: Criterion,
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
        let (mut progress, mut done) = (Progress::new(!self.report.quiet), 0);
        let watch = |candidate: &Candidate| {
            done += 1;
            let policy = candidate.policy;
            let last = format!("{} components, {policy}: ", candidate.components);
            progress.count(&last, done, Some(lines as u64), "mixtures");
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
            .maximisation(fit::maximisation(&settings))
            .stop(Stop { tolerance, baseline, passes: self.max_passes.unwrap_or(default.passes) })
            .search(settings.search.unwrap_or(true))
            .seed(self.seed)
            .watch(watch)
            .ask(interrupt::should_stop);
        let selection = if let Some(restarts) = self.restarts { selection.restarts(restarts) } else { selection };
        Ok(selection.run(block)?)
    }
}

fn counted(rows: usize) -> String {
    format!("{rows} row{}", if rows == 1 { "" } else { "s" })
}

/// The table and the recommendation.
struct Report<'a> {
    select: &'a Select,
    rows: RowTotals,
    weighted: bool,
    candidates: Vec<Candidate>,
    policies: Vec<ConcentrationPolicy>,
}

impl Report<'_> {
    /// The best candidate of each policy by a criterion.
    fn preferred(&self, criterion: Criterion) -> impl Iterator<Item = &Candidate> {
        self.policies.iter().filter_map(move |&policy| best(&self.candidates, criterion, Some(policy)))
    }

    fn is_preferred(&self, candidate: &Candidate, criterion: Criterion) -> bool {
        self.preferred(criterion).any(|other| std::ptr::eq(other, candidate))
    }

    /// Writes the recommended mixture.
    fn write_recommended(&self, path: &Path) -> Result<()> {
        let Some(best) = self.preferred(self.select.criterion).next() else {
            bail!("{}: not written, because no fit was finished", path.display());
        };
        let fit = best.to_fit();
        output::write_file(path, model::to_bytes(&fit.mixture, &Description::of(&fit)))
    }

    fn to_json(&self) -> String {
        let candidates: Vec<Value> = self.candidates.iter().map(|candidate| self.line_to_json(candidate)).collect();
        let recommended: Vec<Value> = self
            .preferred(self.select.criterion)
            .map(|best| {
                json!({
                    "components": best.components,
                    "policy": best.policy.to_string(),
                    "background": best.background,
                })
            })
            .collect();
        let object = json!({
            "file": self.rows.file,
            "rows": self.rows.rows,
            "dim": self.rows.dim,
            "rescaled_rows": self.rows.rescaled,
            "held_out_fraction": self.select.holdout(),
            "seed": self.select.seed,
            "criterion": self.select.criterion.name(),
            "interrupted": interrupt::is_requested(),
            "recommended": recommended,
            "candidates": candidates,
        });
        format!("{object}\n")
    }

    fn line_to_json(&self, candidate: &Candidate) -> Value {
        let mut best = Map::new();
        for criterion in Criterion::ALL {
            best.insert(criterion.name().replace('-', "_"), self.is_preferred(candidate, criterion).into());
        }
        let held_out = candidate.held_out.map(|held_out| {
            json!({
                "total_weight": json_number(held_out.weight),
                "mean_ln_density": json_number(held_out.mean()),
                "standard_error": json_number(held_out.standard_error()),
            })
        });
        json!({
            "components": candidate.components,
            "policy": candidate.policy.to_string(),
            "background": candidate.background,
            "free_parameters": candidate.free_parameters,
            "total_weight": json_number(candidate.seen.weight),
            "ln_likelihood": json_number(candidate.seen.ln_likelihood),
            "mean_ln_density": json_number(candidate.seen.mean()),
            "aic": json_number(candidate.aic()),
            "bic": json_number(candidate.bic()),
            "icl": json_number(candidate.icl()),
            "held_out": held_out,
            "passes": candidate.trace.len(),
            "search_passes": candidate.search_passes,
            "dispersion": candidate.settings.dispersion(),
            "status": candidate.status.name(),
            "grown": candidate.grown,
            "notes": candidate.notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "best": best,
        })
    }

    fn to_text(&self) -> String {
        let header =
            ["k", "policy", "background", "parameters", "ln-likelihood", "AIC", "BIC", "ICL", "held-out ln p", "+-", "passes"];
        let mut table = vec![header.map(str::to_owned).to_vec()];
        table.extend(self.candidates.iter().map(|candidate| self.cells(candidate)));
        let held_out = self.candidates.first().and_then(|candidate| candidate.held_out);
        let held_out_weight = held_out.map(|held_out| held_out.weight);
        let held_out = match held_out_weight {
            None if self.select.holdout() > 0.0 => ", too few to hold any out".to_owned(),
            None => String::new(),
            Some(weight) => {
                let weight =
                    if self.weighted { format!("a weight of {}", readable(weight)) } else { format!("{weight} of them") };
                format!(", {weight} held out: likelihood, AIC, BIC and ICL are for the other rows")
            }
        };
        let mut text = format!("{}{held_out}\n\n{}\n", self.rows.heading(), aligned(&table));
        let warnings: String = self.candidates.iter().filter_map(warning).collect();
        if !warnings.is_empty() {
            text.push_str(&format!("{warnings}\n"));
        }
        if held_out_weight == Some(0.0) {
            text.push_str("the held-out rows have no weight, so there is no held-out ln p\n");
        }
        for best in self.preferred(self.select.criterion) {
            text.push_str(&self.recommendation(best));
        }
        if interrupt::is_requested() {
            text.push_str("interrupted: the other mixtures were not fitted\n");
        }
        text
    }

    /// A star marks the best value of a criterion, a ! the k of a mixture with warnings, and `limit` a fit that did not converge.
    fn cells(&self, candidate: &Candidate) -> Vec<String> {
        let starred = |criterion: Criterion, value: String| {
            let star = if self.is_preferred(candidate, criterion) { '*' } else { ' ' };
            format!("{value}{star}")
        };
        let held_out = candidate.held_out.filter(|held_out| held_out.weight > 0.0);
        let (held_out, error) = held_out.map_or(("-".to_owned(), "-".to_owned()), |held_out| {
            (format!("{:.4}", held_out.mean()), format!("{:.4}", held_out.standard_error()))
        });
        vec![
            format!("{}{}", candidate.components, if candidate.warnings().next().is_some() { "!" } else { "" }),
            candidate.policy.to_string(),
            if candidate.background { "yes" } else { "no" }.to_owned(),
            candidate.free_parameters.to_string(),
            format!("{:.1}", candidate.seen.ln_likelihood),
            starred(Criterion::Aic, format!("{:.1}", candidate.aic())),
            starred(Criterion::Bic, format!("{:.1}", candidate.bic())),
            starred(Criterion::Icl, format!("{:.1}", candidate.icl())),
            starred(Criterion::HeldOut, held_out),
            error,
            format!("{}{}", candidate.trace.len(), if candidate.status == Status::PassLimit { ", limit" } else { "" }),
        ]
    }

    fn recommendation(&self, best: &Candidate) -> String {
        let Candidate { components, policy, background, .. } = best;
        let with = if *background { " and a background" } else { "" };
        let plural = if *components == 1 { "" } else { "s" };
        let name = self.select.criterion.name();
        let of = if self.policies.len() > 1 { format!(" with the policy {policy}") } else { String::new() };
        let how = match &self.select.output {
            Some(path) => format!("written to {}", path.display()),
            None => "`-o FILE` writes that mixture".to_owned(),
        };
        let line = format!("{name} prefers {components} component{plural}{with}{of}: {how}\n");
        if best.warnings().next().is_none() {
            return line;
        }
        let sound = self.candidates.iter().filter(|other| other.policy == *policy && other.warnings().next().is_none());
        let instead = match best_of(sound, self.select.criterion) {
            Some(Candidate { components, background, .. }) => {
                format!("without warnings, {name} prefers {components}{}", if *background { " and a background" } else { "" })
            }
            None => "all mixtures have warnings".to_owned(),
        };
        format!("{line}  but that mixture has a warning (see above); {instead}\n")
    }
}

/// The first warning of a mixture, and the number of others.
fn warning(candidate: &Candidate) -> Option<String> {
    let Candidate { policy, components, background, .. } = candidate;
    let mut warnings = candidate.warnings();
    let first = warnings.next()?;
    let with = if *background { " and a background" } else { "" };
    let more = match warnings.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(format!("! {policy}, k = {components}{with}: {first}{more}\n"))
}
