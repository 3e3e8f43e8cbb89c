//! A mixture: fitted, watched, written and described.

use super::Fit;
use super::options::OutputArguments;
use super::start::StartArgument;
use crate::files::Files;
use crate::files::label_source::LabelSource;
use crate::files::labels::LabelFile;
use crate::files::output;
use crate::files::row_memory::{BLOCKS_IN_MEMORY, ExtraMemory};
use crate::files::row_source::{RowSource, RowTotals};
use crate::files::state;
use crate::interrupt::{self, Interrupted};
use crate::report::format::{json_number, readable};
use crate::report::notes;
use crate::report::progress::Progress;
use crate::report::{calibration, components};
use anyhow::{Result, anyhow, bail};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use vmfkit::calibrate::Basis;
use vmfkit::mixture::Evaluation;
use vmfkit::outlier::{OutlierScope, OutlierTable};
use vmfkit::source::Source;
use vmfkit::store::model::{self, Description};
use vmfkit::train::{self, Checkpoint, Pass};
use vmfkit::{ConcentrationPolicy, Fitter, Method, Mixture, start::known_labels};
use vmfkit_io::{DataSource, FileLock, LockError};

/// Memory of a sample, which is held twice while it is drawn.
fn bytes_of_sample(sample: usize, rows: &DataSource) -> u64 {
    (sample as u64).min(rows.rows().unwrap_or(u64::MAX)).saturating_mul(2 * rows.row_bytes())
}

impl Fit {
    pub(super) fn fit_mixture(&self, method: &str, components: u32) -> Result<()> {
        let (OutputArguments { output, labels, .. }, checkpoint) = (&self.outputs, &self.fitting.checkpoint);
        self.check_outputs()?;
        let method = self.method_with_settings(method);
        let _lock = checkpoint.as_deref().map(lock_checkpoint).transpose()?;
        let resumed = checkpoint.as_deref().map_or(Ok(None), |path| self.read_checkpoint(path))?;
        let mut source = self.open(&method, components, resumed.as_ref())?;
        let unwritten = Mutex::new(None);
        let mut fitter = self.fitter(&method, source.dim(), self.sample(resumed.as_ref()))?;
        if let Some(path) = checkpoint {
            fitter = with_checkpoint(fitter, path, &unwritten);
        }
        if let Some(resumed) = resumed {
            fitter = fitter.resume(resumed);
        }
        let used = fitter.maximisation_used();
        interrupt::finish_gracefully();
        let most_passes = self.stop(&method).passes;
        let watch = Mutex::new(Watch::new(!self.report.quiet, self.fitting.restarts.unwrap_or(1), most_passes, source.len()));
        let lock = || watch.lock().expect("no callback panics");
        let fit = fitter
            .watch(|_, pass, _| lock().pass(pass))
            .progress(|progress| lock().rows(progress))
            .fit_source(&mut source)
            .map_err(|error| {
                let unwritten = unwritten.lock().expect("no callback panics").take();
                unwritten.unwrap_or_else(|| match &self.model.start {
                    Some(start) => start.explain(error, &source),
                    None => source.explain(error),
                })
            })?;

        // An interrupt while the model is written ends the evaluation, not the fit.
        let fit_interrupted = interrupt::is_requested();
        let mut description = Description::of(&fit);
        description.angles = source.angles();
        // If the model cannot be written, the report is still printed.
        let written = output.as_ref().map_or(Ok(()), |path| {
            // The steps of an unfinished pass are saved only if there is no older model.
            let mere_start = fit.trace.is_empty() && (path.exists() || !method.is_online());
            if interrupt::is_requested() && mere_start {
                let what = if path.exists() { "unchanged" } else { "not written" };
                notes::note(format_args!("{}: {what}, because no pass was finished", path.display()));
                return Ok(());
            }
            output::write_file(path, model::to_bytes(&fit.mixture, &description))
        });
        drop(watch);
        // An interrupted fit makes no further pass, and a pipe cannot be read again.
        let evaluation = match labels.is_some() || source.can_rewind() && !interrupt::is_requested() {
            true => self.evaluate(&fit.mixture, fit.outlier_table.as_ref(), &mut source, fit_interrupted),
            false => Ok(None),
        };
        let evaluation = match evaluation {
            Ok(evaluation) => evaluation,
            Err(error) => return written.and(Err(error)),
        };
        source.note_rescaled();
        let rows = if evaluation.is_some() {
            source.totals()
        } else {
            RowTotals { rows: fit.rows, weight: fit.weight, ..source.totals() }
        };
        let free_parameters = used.free_parameters(&fit.mixture);
        let report = Report { rows, components, fit, description, evaluation, free_parameters };
        output::print(if self.report.json { report.to_json() } else { report.to_text() })?;
        if let (Err(_), Some(path)) = (&written, checkpoint) {
            notes::note(format_args!("{} keeps the fit: continue with `--resume` and another `-o`", path.display()));
        }
        written?;
        if interrupt::is_requested() { Err(Interrupted.into()) } else { Ok(()) }
    }

    /// Refuses, before any work, outputs that cannot be written or would overwrite an input.
    pub(super) fn check_outputs(&self) -> Result<()> {
        let OutputArguments { output, labels, .. } = &self.outputs;
        let start = self.model.start.as_ref().and_then(StartArgument::file);
        let known = self.known.known_labels.as_ref().and_then(LabelSource::file);
        let files = Files::new().reads(self.rows.limited().files()).reads(start).reads(known);
        let files = files.writes("-o", output.as_ref()).writes("--labels", labels.as_ref());
        let files = files.writes("--checkpoint", self.fitting.checkpoint.as_ref()).leave_standard_output()?;
        files.check()?;
        files.check_writable()
    }

    /// The rows, kept in memory if they fit and are read more than once.
    fn open(&self, method: &Method, components: u32, resumed: Option<&Checkpoint>) -> Result<RowSource> {
        let mut source = self.open_rows(method, components, resumed)?;
        let once = method.is_online() && self.stop(method).passes == 1 && self.outputs.labels.is_none();
        if source.can_rewind() || !once {
            source.hold(self.scratch_folder()?.as_deref(), self.report.quiet)?;
        }
        Ok(source)
    }

    /// The rows, with memory left for the fit.
    pub(super) fn open_rows(&self, method: &Method, components: u32, resumed: Option<&Checkpoint>) -> Result<RowSource> {
        let extra = |rows: &DataSource| {
            let sample = self.sample(resumed).unwrap_or_else(|| self.default_sample(method, rows.dim()));
            let sample = bytes_of_sample(sample, rows);
            let start = self.model.start.as_ref().map_or(0, |start| start.memory(rows.rows()));
            // Statistics of the pass, mixtures, the state of the method, and the sample. Each thread has
            // statistics in progress and up to two that wait to be added.
            let model = 8 * u64::from(components) * rows.dim() as u64;
            let min_rows = if method.is_online() { self.shuffle_rows(method, rows.dim(), resumed) as u64 } else { 0 };
            let shuffled = BLOCKS_IN_MEMORY * min_rows * rows.row_bytes();
            let hint = match () {
                () if shuffled > sample + 8 * model + start => Some("\nhint: a smaller `--set shuffle_rows=ROWS` needs less"),
                () if sample > 8 * model + start => {
                    Some("\nhint: a smaller `--set sample=ROWS`, or `--start random`, needs less")
                }
                () => None,
            };
            let fixed = (8 * model + start).saturating_add(sample);
            ExtraMemory { fixed, per_thread: 3 * model, per_row: 0, min_rows, hint }
        };
        self.rows.limited().without_ids().open(extra)
    }

    /// The sample size for the start, if it is not the default. A resumed fit keeps its own.
    pub(super) fn sample(&self, resumed: Option<&Checkpoint>) -> Option<usize> {
        let of_resumed = || resumed.and_then(|resumed| resumed.settings().get("sample")?.parse().ok());
        self.settings().sample.or_else(of_resumed)
    }

    /// The rows that an online method shuffles together. A resumed fit keeps its own number.
    pub(super) fn shuffle_rows(&self, method: &Method, dim: usize, resumed: Option<&Checkpoint>) -> usize {
        let of_resumed = || resumed.and_then(|resumed| resumed.settings().get("shuffle_rows")?.parse().ok());
        let mut fitter = Fitter::new(self.model.components.unwrap_or(1) as usize).method(method.clone());
        fitter = fitter.shuffle(self.settings().shuffle.unwrap_or(true));
        match self.settings().shuffle_rows.or_else(of_resumed) {
            Some(rows) => fitter.shuffle_rows(rows).window_rows(dim),
            None => fitter.window_rows(dim),
        }
    }

    /// The default sample size, an upper bound for some starts.
    fn default_sample(&self, method: &Method, dim: usize) -> usize {
        let fitter = Fitter::new(self.model.components.unwrap_or(1) as usize).method(method.clone());
        fitter.maximisation(self.maximisation()).search(self.settings().search.unwrap_or(true)).sample_rows(dim)
    }

    /// The checkpoint to resume, if there is one and `--resume` was given.
    fn read_checkpoint(&self, path: &Path) -> Result<Option<Checkpoint>> {
        if !self.fitting.resume {
            self.refuse_checkpoint(path)?;
            return Ok(None);
        }
        if !path.exists() {
            notes::note(format_args!("{}: no checkpoint yet; the fit starts from the beginning", path.display()));
            return Ok(None);
        }
        state::read_checkpoint(path).map(Some)
    }

    /// Refuses to overwrite the checkpoint of another fit.
    pub(super) fn refuse_checkpoint(&self, path: &Path) -> Result<()> {
        if path.exists() {
            bail!(
                "{}: the checkpoint exists\nhint: `--resume` continues its fit; remove the file to start a new one",
                path.display()
            );
        }
        Ok(())
    }

    /// One more pass, for the report and the labels. An interrupt ends it without a result, unless the fit itself was interrupted:
    /// then the labels are still written.
    pub(super) fn evaluate(
        &self,
        mixture: &Mixture,
        table: Option<&OutlierTable>,
        source: &mut RowSource,
        fit_interrupted: bool,
    ) -> Result<Option<Evaluation>> {
        let labels = self.outputs.labels.as_ref();
        let level = self.outputs.outliers;
        let create = if level.is_some() { LabelFile::create_marked } else { LabelFile::create };
        let mut file = labels.map(|path| create(path, source.len())).transpose()?;
        let (mut found, mut p_values) = (Vec::new(), Vec::new());
        let mut progress = Progress::new(!self.report.quiet);
        source.rewind().map_err(|error| source.explain(error))?;
        let (all, mut done) = (source.len(), 0);
        let mut evaluation = Evaluation::default();
        let mut buffer = vmfkit::RowBatch::default();
        let mut next = |source: &mut RowSource, found: &mut Vec<u32>, p_values: &mut Vec<f64>| -> vmfkit::Result<usize> {
            let Some(block) = source.next_validated(&mut buffer)? else { return Ok(0) };
            evaluation.merge(&mixture.evaluate(&block)?);
            if labels.is_some() {
                found.resize(block.len(), 0);
                mixture.assign_into(&block, found)?;
            }
            if let (Some(_), Some(table)) = (level, table) {
                *p_values = table.p_values(mixture, &block, OutlierScope::Overall)?;
            }
            Ok(block.len())
        };
        while let rows @ 1.. = next(source, &mut found, &mut p_values).map_err(|error| source.explain(error))? {
            if let Some(file) = &mut file {
                match level {
                    // A fit that was interrupted has no p-values; then no row is marked.
                    Some(level) => file.write_marked(&found, |row| p_values.get(row).is_some_and(|p| *p <= level))?,
                    None => file.write(&found)?,
                }
            }
            done += rows as u64;
            progress.rows("evaluating: ", done, all);
            if interrupt::is_requested() && !fit_interrupted {
                drop(progress);
                if let Some(path) = labels {
                    notes::note(format_args!("{}: not written, because not all rows were read", path.display()));
                }
                return Ok(None);
            }
        }
        drop(progress);
        file.map_or(Ok(()), LabelFile::finish)?;
        Ok(Some(evaluation))
    }
}

/// Locks a checkpoint against other processes.
pub(super) fn lock_checkpoint(path: &Path) -> Result<FileLock> {
    interrupt::install_handler();
    FileLock::acquire(path).map_err(|error| match error {
        LockError::Held { holder } => anyhow!(
            "{}: another fit is using this checkpoint, process: `{holder}`\nhint: wait until it ends, or use another file",
            path.display()
        ),
        error => anyhow::Error::from(error).context(path.display().to_string()),
    })
}

/// The same fit with a checkpoint after each pass.
fn with_checkpoint<'a>(fitter: Fitter<'a>, path: &'a Path, unwritten: &'a Mutex<Option<anyhow::Error>>) -> Fitter<'a> {
    fitter.checkpoint(move |checkpoint: &Checkpoint| {
        output::write_file(path, checkpoint.to_bytes()).map_err(|error| {
            let failed = vmfkit::Error::read(std::io::Error::other("the checkpoint cannot be written"));
            *unwritten.lock().expect("no callback panics") = Some(error);
            failed
        })
    })
}

/// Shows the progress of a fit, and stops it after an interrupt.
pub(super) struct Watch {
    progress: Progress,
    restarts: usize,
    passes_at_most: usize,
    /// The number of rows per pass, once it is known.
    rows: Option<u64>,
    rows_in_all: u64,
    /// The current restart and pass, and its rows so far.
    position: (usize, usize),
    rows_before: u64,
    objective: Option<f64>,
}

impl Watch {
    pub fn new(visible: bool, restarts: usize, passes_at_most: usize, rows: Option<u64>) -> Self {
        let progress = Progress::new(visible);
        Watch { progress, restarts, passes_at_most, rows, rows_in_all: 0, position: (0, 0), rows_before: 0, objective: None }
    }

    fn pass(&mut self, pass: &Pass) -> ControlFlow<()> {
        self.objective = Some(pass.objective);
        self.rows.get_or_insert(self.rows_before);
        interrupt::should_stop()
    }

    pub fn rows(&mut self, at: train::Progress) -> ControlFlow<()> {
        // Rows are counted from 0 in every pass.
        let is_same = std::mem::replace(&mut self.position, (at.restart, at.pass)) == (at.restart, at.pass);
        self.rows_in_all += if is_same { at.rows.saturating_sub(self.rows_before) } else { at.rows };
        self.rows_before = at.rows;
        let restart = if self.restarts > 1 { format!("start {} of {}, ", at.restart + 1, self.restarts) } else { String::new() };
        let pass = match at.pass {
            0 => "drawing a sample for the start".to_owned(),
            pass => format!("pass {pass} of at most {}", self.passes_at_most),
        };
        let fraction = self
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
        self.progress.show(format_args!("{restart}{pass}{fraction}{objective}, {rate} rows/s{left}"));
        interrupt::should_stop()
    }
}

/// Everything that is reported.
pub(super) struct Report {
    pub rows: RowTotals,
    /// Without a background.
    pub components: u32,
    pub fit: train::Fit,
    pub description: Description,
    /// None if the fit was interrupted, or the rows could be read only once.
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
            "calibration": fit.calibration.as_ref().map(calibration::to_json),
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
                "log-likelihood    {:.4}, {} per row\n\
                 AIC, BIC, ICL     {aic}, {bic}, {icl} (lower is better; {free_parameters} free parameters)\n\n",
                evaluation.ln_likelihood,
                readable(evaluation.mean()),
            ));
        }
        if let Some(dispersion) = fit.dispersion() {
            text.push_str(&format!("dispersion        {dispersion:.2}: {}\n\n", explained(dispersion, fit.mixture.dim())));
        }
        if let Some(calibration) = fit.calibration.as_ref().filter(|calibration| calibration.basis != Basis::OneComponent) {
            text.push_str(&format!("{}\n", calibration::line(calibration, 18)));
        }
        text.push_str(&components::table(&fit.mixture, description));
        text.push_str(&components::notes(&description.notes));
        text
    }
}

/// The meaning of a dispersion, and the policy that `auto` chooses for it.
fn explained(dispersion: f64, dim: usize) -> String {
    match ConcentrationPolicy::Auto.decided(dim, Some(dispersion)) {
        ConcentrationPolicy::Ratio(ratio) => format!(
            "along the mean directions, the variance of the rows is {dispersion:.1} times that of the model;\n\
             {:18}the largest concentration is at most {} times the smallest",
            "",
            readable(ratio)
        ),
        _ => "the rows fit the model; concentrations are free".to_owned(),
    }
}
