//! A mixture: fitted, watched, written and described.

use super::Fit;
use super::known::LabelSource;
use super::options::{StartArgument, pair};
use crate::files::Files;
use crate::format::{json_number, readable};
use crate::interrupt::{self, Interrupted};
use crate::labels::LabelFile;
use crate::output;
use crate::progress::Progress;
use crate::rows::{Beside, BlockSize, RowSource, Seen};
use crate::{components, state};
use anyhow::{Result, anyhow, bail};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use vmfkit::mixture::Evaluation;
use vmfkit::model_file::{self, Description};
use vmfkit::source::Source;
use vmfkit::train::{self, Checkpoint, Pass};
use vmfkit::{ConcentrationPolicy, Fitter, Method, Mixture, init, known_labels};
use vmfkit_io::{DataSource, FileLock, LockError};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of a mixture (-k)")]
#[group(id = "wishes_of_mixture")]
pub struct Wishes {
    /// How concentrations are tied across components: auto, free, shared, fixed:KAPPA or ratio:RATIO [default: auto; for known labels: shared]
    #[arg(long, requires = "many")]
    pub policy: Option<ConcentrationPolicy>,
    /// Add a uniform background for rows that belong nowhere; it begins with this weight [default: 0.05]
    #[arg(long, value_name = "WEIGHT", num_args = 0..=1, require_equals = true, default_missing_value = "0.05", requires = "components")]
    pub background: Option<f64>,
    /// Fits that differ in their start, of which the best is kept [default: 1]
    #[arg(long, value_name = "N", requires = "components")]
    pub restarts: Option<usize>,
    /// Weights stay those of the start; for known labels they are equal
    #[arg(long, requires = "many", conflicts_with = "min_weight")]
    pub fixed_weights: bool,
    /// No weight goes below this [default: 0]
    #[arg(long, value_name = "WEIGHT", allow_hyphen_values = true, requires = "components")]
    pub min_weight: Option<f64>,
    /// EM begins at the temperature FROM, which is multiplied by FACTOR after each pass until it is 1, as in 10,0.8
    #[arg(long, value_name = "FROM,FACTOR", value_parser = pair, allow_hyphen_values = true, requires = "components")]
    pub annealing: Option<(f64, f64)>,
    /// Skip the split-and-merge search; run EM from the k-means start only
    #[arg(long, requires = "components")]
    pub no_search: bool,
    /// Write the model to this file (safetensors)
    #[arg(long, short, value_name = "FILE", requires = "many")]
    pub output: Option<PathBuf>,
    /// Write the most probable component of each row to this file: .npy, or any other name for a number a line
    #[arg(long, value_name = "FILE", requires = "many")]
    pub labels: Option<PathBuf>,
    /// After each pass write all that is needed to go on with the fit to this file
    #[arg(long, value_name = "FILE", requires = "components")]
    pub checkpoint: Option<PathBuf>,
    /// Make only the start and write it as a checkpoint, from which `vmf accumulate` and `vmf maximise` go on
    #[arg(long, requires = "checkpoint", conflicts_with_all = ["output", "labels", "resume"])]
    pub start_only: bool,
    /// Rows a block, which decide the last digits of a fit [default: 8 million numbers, at most 65536 rows]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..), requires = "many")]
    pub block: Option<u32>,
    /// Go on with the fit of the checkpoint, if that is there; it ends as if it had never been interrupted
    #[arg(long, requires = "checkpoint")]
    resume: bool,
}

/// What a sample takes, twice while it is gathered.
fn bytes_of_sample(sample: usize, rows: &DataSource) -> u64 {
    (sample as u64).min(rows.rows().unwrap_or(u64::MAX)).saturating_mul(2 * rows.row_bytes())
}

impl Fit {
    pub(super) fn fit_mixture(&self, method: &str, components: u32) -> Result<()> {
        let Wishes { output, labels, checkpoint, .. } = &self.mixture;
        self.check_outputs()?;
        let method = self.method_with_settings(method);
        let _lock = checkpoint.as_deref().map(lock_checkpoint).transpose()?;
        let resumed = checkpoint.as_deref().map_or(Ok(None), |path| self.read_checkpoint(path))?;
        let mut source = self.open(&method, components, resumed.as_ref())?;
        let unwritten = Mutex::new(None);
        let mut fitter = self.fitter(&method, source.dim(), self.sample(&method, source.data(), resumed.as_ref()))?;
        if let Some(path) = checkpoint {
            fitter = with_checkpoint(fitter, path, &unwritten);
        }
        if let Some(resumed) = resumed {
            fitter = fitter.resume(resumed);
        }
        let used = fitter.maximisation_used();
        interrupt::be_patient();
        let most_passes = self.stop(&method).passes;
        let watch = Mutex::new(Watch::new(!self.quiet, self.mixture.restarts.unwrap_or(1), most_passes, source.len()));
        let lock = || watch.lock().expect("no callback panics");
        let fit = fitter
            .watch(|_, pass, _| lock().pass(pass))
            .progress(|progress| lock().rows(progress))
            .fit_source(&mut source)
            .map_err(|error| {
                let unwritten = unwritten.lock().expect("no callback panics").take();
                unwritten.unwrap_or_else(|| match &self.steps.start {
                    Some(start) => start.explain(error, &source),
                    None => source.explain(error),
                })
            })?;

        // An interrupt that comes while the model is written is one of the pass behind it.
        let fit_interrupted = interrupt::asked();
        let mut description = Description::of(&fit);
        description.angles = source.angles();
        // A model that cannot be written costs nobody the report.
        let written = output.as_ref().map_or(Ok(()), |path| {
            // The steps of a pass that was begun are worth something where there is nothing else.
            let mere_start = fit.trace.is_empty() && (path.exists() || !method.is_online());
            if interrupt::asked() && mere_start {
                let what = if path.exists() { "stays what it was" } else { "not written" };
                output::note(format_args!("{}: {what}, since no pass was finished", path.display()));
                return Ok(());
            }
            output::write_file(path, model_file::to_bytes(&fit.mixture, &description))
        });
        drop(watch);
        // Whoever interrupts wants no more passes than they have asked for, and a pipe that was read once gives none.
        let evaluation = match labels.is_some() || source.can_rewind() && !interrupt::asked() {
            true => self.evaluate(&fit.mixture, &mut source, fit_interrupted),
            false => Ok(None),
        };
        let evaluation = match evaluation {
            Ok(evaluation) => evaluation,
            Err(error) => return written.and(Err(error)),
        };
        source.note_rescaled();
        let rows =
            if evaluation.is_some() { source.seen() } else { Seen { rows: fit.rows, weight: fit.weight, ..source.seen() } };
        let free_parameters = used.free_parameters(&fit.mixture);
        let report = Report { rows, components, fit, description, evaluation, free_parameters };
        output::print(if self.json { report.to_json() } else { report.to_text() })?;
        if let (Err(_), Some(path)) = (&written, checkpoint) {
            let what = "has the fit: `--resume` and another `-o` go on from there";
            output::note(format_args!("{} {what}", path.display()));
        }
        written?;
        if interrupt::asked() { Err(Interrupted.into()) } else { Ok(()) }
    }

    /// Refuses, before the work, what could not be written after it, or only over what is read.
    pub(super) fn check_outputs(&self) -> Result<()> {
        let Wishes { output, labels, checkpoint, .. } = &self.mixture;
        let start = self.steps.start.as_ref().and_then(StartArgument::file);
        let known = self.known.known_labels.as_ref().and_then(LabelSource::file);
        let files = Files::new().reads(self.rows.files()).reads(start).reads(known);
        let files = files.writes("-o", output.as_ref()).writes("--labels", labels.as_ref());
        let files = files.writes("--checkpoint", checkpoint.as_ref()).leave_standard_output()?;
        files.check()?;
        files.check_writable()
    }

    /// The rows, held in memory if there is room and need.
    fn open(&self, method: &Method, components: u32, resumed: Option<&Checkpoint>) -> Result<RowSource> {
        let mut source = self.open_rows(method, components, resumed)?;
        let once = method.is_online() && self.stop(method).passes == 1 && self.mixture.labels.is_none();
        if source.can_rewind() || !once {
            source.hold(self.scratch_folder()?.as_deref(), self.quiet)?;
        }
        Ok(source)
    }

    /// The rows, in the blocks of the fit that is resumed, if there is one: the last digits depend on them.
    pub(super) fn open_rows(&self, method: &Method, components: u32, resumed: Option<&Checkpoint>) -> Result<RowSource> {
        let beside = |rows: &DataSource| {
            let sample = self.sample(method, rows, resumed).unwrap_or_else(|| self.usual_sample(method, rows.dim()));
            let sample = bytes_of_sample(sample, rows);
            let start = self.steps.start.as_ref().map_or(0, |start| start.memory(rows.rows()));
            // Statistics of each thread and of the pass, mixtures, what a rule remembers; and the sample.
            let model = 8 * u64::from(components) * rows.dim() as u64;
            let hint = (sample > 8 * model + start).then_some("\nhint: a smaller `--sample`, or `--start random`, takes less");
            Beside { once: (8 * model + start).saturating_add(sample), each_thread: 2 * model, each_row: 0, hint }
        };
        let of_checkpoint = resumed.and_then(Checkpoint::block_rows).and_then(|rows| u32::try_from(rows).ok());
        let size = match (self.mixture.block, of_checkpoint) {
            (given, Some(rows)) if given.is_none_or(|given| given == rows) => BlockSize::OfCheckpoint(rows),
            (given, _) => given.into(),
        };
        self.rows.without_ids().open_in_blocks(size, beside)
    }

    /// How many rows a start is made of, if not as many as usual: those of a search may not take more than half of `--memory`, or else it has to do with
    /// what k-means looks at. A fit that is resumed stays with what it had.
    pub(super) fn sample(&self, method: &Method, rows: &DataSource, resumed: Option<&Checkpoint>) -> Option<usize> {
        if let (None, Some(resumed)) = (self.steps.sample, resumed) {
            return resumed.settings().get("sample").and_then(|rows| rows.parse().ok());
        }
        let takes = bytes_of_sample(self.usual_sample(method, rows.dim()), rows);
        let is_tight = self.rows.memory().is_some_and(|memory| takes > memory / 2);
        self.steps.sample.or_else(|| is_tight.then(|| init::sample_rows(self.options.components.unwrap_or(1) as usize)))
    }

    /// A start of another kind may be made of fewer.
    fn usual_sample(&self, method: &Method, dim: usize) -> usize {
        let fitter = Fitter::new(self.options.components.unwrap_or(1) as usize).method(method.clone());
        fitter.maximisation(self.maximisation()).search(!self.mixture.no_search).sample_rows(dim)
    }

    /// The checkpoint to go on from, if that is asked for and there is one.
    fn read_checkpoint(&self, path: &Path) -> Result<Option<Checkpoint>> {
        if !self.mixture.resume {
            self.refuse_checkpoint(path)?;
            return Ok(None);
        }
        if !path.exists() {
            output::note(format_args!("{}: there is no checkpoint yet, so the fit begins", path.display()));
            return Ok(None);
        }
        state::read_checkpoint(path).map(Some)
    }

    /// A fit that begins leaves the checkpoint of another alone.
    pub(super) fn refuse_checkpoint(&self, path: &Path) -> Result<()> {
        if path.exists() {
            bail!(
                "{}: a checkpoint is there already\nhint: `--resume` goes on with its fit; to begin another, remove it",
                path.display()
            );
        }
        Ok(())
    }

    /// One more pass, for what the report says; and the labels, if they are wanted. Nothing of both if it is interrupted, unless the fit was before: then
    /// the labels are wanted all the same.
    pub(super) fn evaluate(
        &self,
        mixture: &Mixture,
        source: &mut RowSource,
        fit_interrupted: bool,
    ) -> Result<Option<Evaluation>> {
        let labels = self.mixture.labels.as_ref();
        let mut file = labels.map(|path| LabelFile::create(path, source.len())).transpose()?;
        let mut found = Vec::new();
        let mut progress = Progress::new(!self.quiet);
        source.rewind().map_err(|error| source.explain(error))?;
        let (all, mut done) = (source.len(), 0);
        let mut evaluation = Evaluation::default();
        let mut next = |source: &mut RowSource, found: &mut Vec<u32>| -> vmfkit::Result<usize> {
            let Some(block) = source.read_block()? else { return Ok(0) };
            evaluation.merge(&mixture.evaluate(&block)?);
            if labels.is_some() {
                found.resize(block.len(), 0);
                mixture.assign_into(&block, found)?;
            }
            Ok(block.len())
        };
        while let rows @ 1.. = next(source, &mut found).map_err(|error| source.explain(error))? {
            if let Some(file) = &mut file {
                file.write(&found)?;
            }
            done += rows as u64;
            progress.rows("evaluating: ", done, all);
            if interrupt::asked() && !fit_interrupted {
                drop(progress);
                if let Some(path) = labels {
                    output::note(format_args!("{}: not written, since not all rows were seen", path.display()));
                }
                return Ok(None);
            }
        }
        drop(progress);
        file.map_or(Ok(()), LabelFile::finish)?;
        Ok(Some(evaluation))
    }
}

/// Keeps other processes from using a checkpoint; they would write over each other's.
pub(super) fn lock_checkpoint(path: &Path) -> Result<FileLock> {
    interrupt::install_handler();
    FileLock::acquire(path).map_err(|error| match error {
        LockError::Held { holder } => anyhow!(
            "{}: another fit is using this checkpoint, process: `{holder}`\nhint: wait until it ends, or give each fit a file of its own",
            path.display()
        ),
        error => anyhow::Error::from(error).context(path.display().to_string()),
    })
}

/// The same fit, which saves itself to a file after each pass.
fn with_checkpoint<'a>(fitter: Fitter<'a>, path: &'a Path, unwritten: &'a Mutex<Option<anyhow::Error>>) -> Fitter<'a> {
    fitter.checkpoint(move |checkpoint: &Checkpoint| {
        output::write_file(path, checkpoint.to_bytes()).map_err(|error| {
            let failed = vmfkit::Error::read(std::io::Error::other("the checkpoint cannot be written"));
            *unwritten.lock().expect("no callback panics") = Some(error);
            failed
        })
    })
}

/// Shows a fit to a person at a terminal, and ends it if they ask for it.
pub(super) struct Watch {
    progress: Progress,
    restarts: usize,
    passes_at_most: usize,
    /// How many rows a pass has, once that is known.
    rows: Option<u64>,
    rows_in_all: u64,
    /// The restart and the pass that is under way, and its rows so far.
    place: (usize, usize),
    rows_before: u64,
    objective: Option<f64>,
}

impl Watch {
    pub fn new(visible: bool, restarts: usize, passes_at_most: usize, rows: Option<u64>) -> Self {
        let progress = Progress::new(visible);
        Watch { progress, restarts, passes_at_most, rows, rows_in_all: 0, place: (0, 0), rows_before: 0, objective: None }
    }

    fn pass(&mut self, pass: &Pass) -> ControlFlow<()> {
        self.objective = Some(pass.objective);
        self.rows.get_or_insert(self.rows_before);
        interrupt::flow()
    }

    pub fn rows(&mut self, at: train::Progress) -> ControlFlow<()> {
        // Rows of the next pass are counted from 0 again.
        let is_same = std::mem::replace(&mut self.place, (at.restart, at.pass)) == (at.restart, at.pass);
        self.rows_in_all += if is_same { at.rows.saturating_sub(self.rows_before) } else { at.rows };
        self.rows_before = at.rows;
        let restart = if self.restarts > 1 { format!("start {} of {}, ", at.restart + 1, self.restarts) } else { String::new() };
        let pass = match at.pass {
            0 => "sampling for a start".to_owned(),
            pass => format!("pass {pass} of at most {}", self.passes_at_most),
        };
        let share = self
            .rows
            .map_or(format!(", {} rows", at.rows), |rows| format!(", {:.0} %", 100.0 * at.rows as f64 / rows.max(1) as f64));
        let objective = self.objective.map_or(String::new(), |objective| format!(", objective {}", readable(objective)));
        let rate = self.progress.rate(self.rows_in_all);
        let left = self.rows.map_or(String::new(), |rows| {
            let passes_left =
                (self.passes_at_most - at.pass.min(self.passes_at_most)) + self.passes_at_most * (self.restarts - 1 - at.restart);
            let rows_left = rows.saturating_sub(at.rows) + rows * passes_left as u64;
            format!(", at most {} left", self.progress.time_left(self.rows_in_all, rows_left))
        });
        self.progress.show(format_args!("{restart}{pass}{share}{objective}, {rate} rows/s{left}"));
        interrupt::flow()
    }
}

/// Everything that is known after a fit.
pub(super) struct Report {
    pub rows: Seen,
    /// A background not counted.
    pub components: u32,
    pub fit: train::Fit,
    pub description: Description,
    /// None if the fit was interrupted, or the rows came once.
    pub evaluation: Option<Evaluation>,
    pub free_parameters: usize,
}

impl Report {
    pub fn to_json(&self) -> String {
        let Report { rows, fit, description, evaluation, free_parameters, .. } = self;
        let lines = components::lines(&fit.mixture);
        let components: Vec<Value> = lines.iter().map(|line| line.to_json(&fit.mixture, description)).collect();
        let trace: Vec<Value> = fit
            .trace
            .iter()
            .map(|pass| {
                let mut pass_with_time = components::pass_to_json(pass);
                pass_with_time["seconds"] = pass.seconds.into();
                pass_with_time
            })
            .collect();
        let number = |of: &dyn Fn(&Evaluation) -> f64| evaluation.as_ref().map(|evaluation| json_number(of(evaluation)));
        let object = json!({
            "file": rows.file,
            "rows": rows.rows,
            "dim": rows.dim,
            "total_weight": json_number(rows.weight),
            "rescaled_rows": rows.rescaled,
            "angles": description.angles.map(|angles| angles.to_string()),
            "component_count": self.components,
            "background": fit.mixture.has_background(),
            "method": description.method,
            "policy": description.policy,
            "dispersion": fit.dispersion(),
            "estimator": if description.estimator.is_empty() { Value::Null } else { description.estimator.as_str().into() },
            "seed": description.seed,
            "status": description.status,
            "passes": fit.trace.len(),
            "search_passes": fit.search_passes,
            "ln_likelihood": number(&|e| e.ln_likelihood),
            "mean_ln_density": number(&|e| e.mean()),
            "free_parameters": free_parameters,
            "aic": number(&|e| e.aic(*free_parameters)),
            "bic": number(&|e| e.bic(*free_parameters)),
            "icl": number(&|e| e.icl(*free_parameters)),
            "components": components,
            "notes": description.notes,
            "trace": trace,
        });
        format!("{object}\n")
    }

    pub fn to_text(&self) -> String {
        let Report { rows, fit, description, evaluation, free_parameters, .. } = self;
        let count = components::count(self.components as usize, fit.mixture.has_background());
        let Description { method, policy, status, .. } = description;
        let how = match method.as_str() {
            known_labels::METHOD => format!("{count}, one per label, concentrations {policy}"),
            _ => format!(
                "{count} by {method}, concentrations {policy}: {status} after {}",
                components::passes(fit.trace.len(), fit.search_passes)
            ),
        };
        let mut text = format!("{}\n{how}\n\n", rows.heading());
        if let Some(evaluation) = evaluation {
            let [aic, bic, icl] =
                [Evaluation::aic, Evaluation::bic, Evaluation::icl].map(|f| readable(f(evaluation, *free_parameters)));
            text.push_str(&format!(
                "log-likelihood    {:.4}, {} a row\n\
                 AIC, BIC, ICL     {aic}, {bic}, {icl} (less is better; {free_parameters} free parameters)\n\n",
                evaluation.ln_likelihood,
                readable(evaluation.mean()),
            ));
        }
        if let Some(dispersion) = fit.dispersion() {
            text.push_str(&format!("dispersion        {dispersion:.2}: {}\n\n", explained(dispersion, fit.mixture.dim())));
        }
        text.push_str(&components::table(&fit.mixture, description));
        text.push_str(&components::notes(&description.notes));
        text
    }
}

/// What a dispersion means, and what the policy `auto` makes of it.
fn explained(dispersion: f64, dim: usize) -> String {
    match ConcentrationPolicy::Auto.decided(dim, Some(dispersion)) {
        ConcentrationPolicy::Ratio(ratio) => format!(
            "the rows vary {dispersion:.1} times as much along the mean directions as the model allows;\n\
             {:18}the largest concentration is at most {} times the smallest",
            "",
            readable(ratio)
        ),
        _ => "the rows fit the model; concentrations are free".to_owned(),
    }
}
