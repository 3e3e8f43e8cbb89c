//! A mixture: fitted, watched, written and described.

use super::Fit;
use super::options::pair;
use crate::format::{aligned, json_number, readable};
use crate::interrupt::{self, Interrupted};
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::rows::Rows;
use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use vmfkit::mixture::Evaluation;
use vmfkit::model_file::{self, Description};
use vmfkit::train::{self, Pass};
use vmfkit::{ConcentrationPolicy, Maximisation, Method, Mixture};
use vmfkit_data::npy::{Element, Header, Integer};

/// Components and notes that are printed; --json has them all.
const COMPONENTS_SHOWN: usize = 20;
const NOTES_SHOWN: usize = 10;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of a mixture (-k)")]
#[group(id = "wishes_of_mixture")]
pub struct Wishes {
    /// How the concentrations hang together: free, shared, fixed:KAPPA, shrunk or shrunk:STRENGTH [default: shrunk:1]
    #[arg(long, requires = "components")]
    pub policy: Option<ConcentrationPolicy>,
    /// Add a uniform background for rows that belong nowhere; it begins with this weight [default: 0.05]
    #[arg(long, value_name = "WEIGHT", num_args = 0..=1, require_equals = true, default_missing_value = "0.05", requires = "components")]
    pub background: Option<f64>,
    /// Fits that differ in their start, of which the best is kept [default: 1]
    #[arg(long, value_name = "N", requires = "components")]
    pub restarts: Option<usize>,
    /// Weights stay those of the start
    #[arg(long, requires = "components")]
    pub fixed_weights: bool,
    /// No weight goes below this [default: 0]
    #[arg(long, value_name = "WEIGHT", allow_hyphen_values = true, requires = "components")]
    pub min_weight: Option<f64>,
    /// EM begins at the temperature FROM, which is multiplied by FACTOR after each pass until it is 1, as in 10,0.8
    #[arg(long, value_name = "FROM,FACTOR", value_parser = pair, allow_hyphen_values = true, requires = "components")]
    pub annealing: Option<(f64, f64)>,
    /// Write the model to this file (safetensors)
    #[arg(long, short, value_name = "FILE", requires = "components")]
    output: Option<PathBuf>,
    /// Write the most probable component of each row to this file: .npy, or any other name for a number a line
    #[arg(long, value_name = "FILE", requires = "components")]
    labels: Option<PathBuf>,
    /// Show no progress
    #[arg(long, short, requires = "components")]
    quiet: bool,
}

impl Fit {
    pub(super) fn fit_mixture(&self, method: &str, components: u32) -> Result<()> {
        let Wishes { output, labels, quiet, .. } = &self.mixture;
        if [output, labels].into_iter().flatten().any(|path| path == Path::new("-")) {
            bail!("standard output is for the report, so the model and the labels need a file, found: `-`");
        }
        if let (Some(model), Some(labels)) = (output, labels)
            && output::is_same_file(model, labels)
        {
            bail!(
                "the model and the labels need a file each, found for both: `{}`\nhint: `-o` names the file of the model, `--labels` that of the labels",
                model.display()
            );
        }
        let table = self.rows.read()?;
        let context = || self.rows.name();
        let rows = self.rows.check(&table).with_context(context)?;
        let method = self.method_with_settings(method);
        let fitter = self.fitter(&method, &rows.block)?;
        let used = fitter.maximisation_used();
        interrupt::be_patient();
        // Before the work: a folder that is missing should not be found out after it.
        let model_output = output.as_deref().map(Output::create).transpose()?;
        let labels_output = labels.as_deref().map(Output::create).transpose()?;
        let mut watch = Watch::new(!quiet, self.mixture.restarts.unwrap_or(1), self.stop(&method).passes);
        let fit = fitter.watch(move |restart, pass, _| watch.see(restart, pass)).fit(&rows.block).with_context(context)?;
        let report = self.describe(&method, &used, components, rows, fit).with_context(context)?;

        if let Some(output) = model_output {
            write(output, model_file::to_bytes(&report.fit.mixture, &report.description))?;
        }
        if let (Some(output), Some(path)) = (labels_output, labels) {
            let mut labels = vec![0; report.rows.block.len()];
            report.fit.mixture.assign(&report.rows.block, &mut labels).with_context(context)?;
            write(output, label_file(path, &labels))?;
        }
        output::print(if self.json { report.to_json() } else { report.to_text() })?;
        if interrupt::asked() { Err(Interrupted.into()) } else { Ok(()) }
    }

    fn describe<'a>(
        &self,
        method: &Method,
        used: &Maximisation,
        components: u32,
        rows: Rows<'a>,
        fit: train::Fit,
    ) -> Result<Report<'a>> {
        let mut description = Description::of(&fit);
        description.method = method.name().to_owned();
        let policy = match method {
            // Others than fixed ones were refused.
            Method::KMeans => self.mixture.policy.unwrap_or(ConcentrationPolicy::Shared),
            _ => self.mixture.policy.unwrap_or_default(),
        };
        description.policy = policy.to_string();
        description.seed = self.options.seed;
        // There is none in a gradient.
        if !matches!(method, Method::Sgd(_)) {
            description.estimator = self.options.estimator.unwrap_or_default().name().to_owned();
        }
        let evaluation = fit.mixture.evaluate(&rows.block)?;
        let free_parameters = used.free_parameters(&fit.mixture);
        Ok(Report { rows, components, fit, description, evaluation, free_parameters })
    }
}

fn write(mut output: Output, bytes: Vec<u8>) -> Result<()> {
    output.write(bytes)?;
    output.finish()
}

/// Component numbers as an array, or a line each.
fn label_file(path: &Path, labels: &[u32]) -> Vec<u8> {
    if path.extension().is_some_and(|extension| extension == "npy") {
        let element = Element::Integer(Integer::U32);
        let header = Header { element, big_endian: false, fortran_order: false, shape: vec![labels.len()] };
        [header.to_bytes(), labels.iter().flat_map(|label| label.to_le_bytes()).collect()].concat()
    } else {
        labels.iter().map(|label| format!("{label}\n")).collect::<String>().into_bytes()
    }
}

/// Shows each pass to a person at a terminal, and ends the fit if they ask for it.
struct Watch {
    progress: Progress,
    restarts: usize,
    passes_at_most: usize,
    restart: usize,
    passes: usize,
    passes_in_all: usize,
}

impl Watch {
    fn new(visible: bool, restarts: usize, passes_at_most: usize) -> Self {
        Watch { progress: Progress::new(visible), restarts, passes_at_most, restart: 0, passes: 0, passes_in_all: 0 }
    }

    fn see(&mut self, restart: usize, pass: &Pass) -> ControlFlow<()> {
        if restart != self.restart {
            (self.restart, self.passes) = (restart, 0);
        }
        self.passes += 1;
        self.passes_in_all += 1;
        let remaining = self.passes_at_most * (self.restarts - restart) - self.passes;
        let of_restarts = if self.restarts > 1 { format!("start {} of {}, ", restart + 1, self.restarts) } else { String::new() };
        let left = self.progress.time_left(self.passes_in_all, remaining);
        self.progress.show(format_args!(
            "{of_restarts}pass {} of at most {}, objective {}, at most {left} left",
            self.passes,
            self.passes_at_most,
            readable(pass.objective)
        ));
        if interrupt::asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Everything that is known after a fit.
struct Report<'a> {
    rows: Rows<'a>,
    /// A background not counted.
    components: u32,
    fit: train::Fit,
    description: Description,
    evaluation: Evaluation,
    free_parameters: usize,
}

/// What is said of a component.
struct Line {
    component: usize,
    weight: f64,
    concentration: f64,
    background: bool,
    /// The half-angle of the cone that holds half of its mass.
    half_within: f64,
    /// The component whose mean direction is nearest, and the angle to it.
    nearest: Option<(usize, f64)>,
}

impl Line {
    fn new(mixture: &Mixture, component: usize) -> Self {
        let density = &mixture.components()[component];
        let background = mixture.is_background(component);
        let others = (0..mixture.components().len()).filter(|&k| k != component && !background && !mixture.is_background(k));
        let distance = |k: usize| {
            let pairs = density.mean_direction().iter().zip(mixture.components()[k].mean_direction());
            pairs.map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt()
        };
        let nearest = others.map(|k| (k, distance(k))).min_by(|a, b| a.1.total_cmp(&b.1));
        Line {
            component,
            weight: mixture.weights()[component],
            concentration: density.concentration(),
            background,
            half_within: density.angle_holding(0.5).to_degrees(),
            nearest: nearest.map(|(k, distance)| (k, (2.0 * (0.5 * distance).min(1.0).asin()).to_degrees())),
        }
    }

    fn cells(&self) -> Vec<String> {
        let background = if self.background { " (background)" } else { "" };
        let (nearest, angle) = self.nearest.map_or(Default::default(), |(k, angle)| (k.to_string(), format!("{angle:.2}")));
        vec![
            format!("{}{background}", self.component),
            format!("{:.6}", self.weight),
            readable(self.concentration),
            format!("{:.2}", self.half_within),
            nearest,
            angle,
        ]
    }
}

impl Report<'_> {
    /// The heaviest components, most of them first.
    fn lines(&self, most: usize) -> Vec<Line> {
        let mixture = &self.fit.mixture;
        let mut order: Vec<usize> = (0..mixture.components().len()).collect();
        order.sort_by(|&a, &b| mixture.weights()[b].total_cmp(&mixture.weights()[a]));
        order.truncate(most);
        order.into_par_iter().map(|component| Line::new(mixture, component)).collect()
    }

    fn to_json(&self) -> String {
        let Report { rows, fit, description, evaluation, free_parameters, .. } = self;
        let components: Vec<Value> = self
            .lines(usize::MAX)
            .into_iter()
            .map(|line| {
                json!({
                    "component": line.component,
                    "weight": line.weight,
                    "concentration": line.concentration,
                    "background": line.background,
                    "degrees_holding_half": json_number(line.half_within),
                    "nearest_component": line.nearest.map(|(k, _)| k),
                    "degrees_to_nearest": line.nearest.map(|(_, angle)| angle),
                    "mean_direction": fit.mixture.components()[line.component].mean_direction(),
                })
            })
            .collect();
        let trace: Vec<Value> = fit
            .trace
            .iter()
            .map(|pass| {
                json!({
                    "objective": json_number(pass.objective),
                    "smallest_weight": pass.smallest_weight,
                    "largest_concentration": pass.largest_concentration,
                    "temperature": pass.temperature,
                    "seconds": pass.seconds,
                })
            })
            .collect();
        let object = json!({
            "file": rows.file,
            "rows": rows.block.len(),
            "dim": rows.block.dim(),
            "total_weight": json_number(evaluation.weight),
            "rescaled_rows": rows.rescaled,
            "component_count": self.components,
            "background": fit.mixture.has_background(),
            "method": description.method,
            "policy": description.policy,
            "estimator": if description.estimator.is_empty() { Value::Null } else { description.estimator.as_str().into() },
            "seed": description.seed,
            "status": description.status,
            "passes": fit.trace.len(),
            "ln_likelihood": json_number(evaluation.ln_likelihood),
            "mean_ln_density": json_number(evaluation.mean()),
            "free_parameters": free_parameters,
            "aic": json_number(evaluation.aic(*free_parameters)),
            "bic": json_number(evaluation.bic(*free_parameters)),
            "icl": json_number(evaluation.icl(*free_parameters)),
            "components": components,
            "notes": description.notes,
            "trace": trace,
        });
        format!("{object}\n")
    }

    fn to_text(&self) -> String {
        let Report { rows, fit, description, evaluation, free_parameters, .. } = self;
        let background = if fit.mixture.has_background() { " and a background" } else { "" };
        let mut text = format!(
            "{}\n{} component{}{background} by {}, concentrations {}: {} after {} pass{}\n\n",
            rows.heading(),
            self.components,
            if self.components == 1 { "" } else { "s" },
            description.method,
            description.policy,
            description.status,
            fit.trace.len(),
            if fit.trace.len() == 1 { "" } else { "es" },
        );
        let [aic, bic, icl] =
            [Evaluation::aic, Evaluation::bic, Evaluation::icl].map(|f| readable(f(evaluation, *free_parameters)));
        text.push_str(&format!(
            "log-likelihood    {:.4}, {} a row\n\
             AIC, BIC, ICL     {aic}, {bic}, {icl} (less is better; {free_parameters} free parameters)\n\n",
            evaluation.ln_likelihood,
            readable(evaluation.mean()),
        ));
        let header = ["component", "weight", "concentration", "half within", "nearest", "angle to it"];
        let mut table = vec![header.map(str::to_owned).to_vec()];
        table.extend(self.lines(COMPONENTS_SHOWN).iter().map(Line::cells));
        text.push_str(&aligned(&table));
        let more = |all: usize, shown: usize| match all.saturating_sub(shown) {
            0 => String::new(),
            more => format!("... and {more} more (all of them with --json)\n"),
        };
        text.push_str(&more(fit.mixture.components().len(), COMPONENTS_SHOWN));
        text.push_str("Half of a component's mass is within so many degrees of its mean direction; angles are in degrees.\n");
        if !description.notes.is_empty() {
            text.push('\n');
            description.notes.iter().take(NOTES_SHOWN).for_each(|note| text.push_str(&format!("note: {note}\n")));
            text.push_str(&more(description.notes.len(), NOTES_SHOWN));
        }
        text
    }
}
