//! One density: its parameters, their uncertainty and tests of the fit.

use super::Fit;
use super::mixture::Watch;
use super::options::CLOSED;
use crate::args::ONE_DENSITY;
use crate::args::settings::Estimator;
use crate::files::output;
use crate::files::row_memory::ExtraMemory;
use crate::files::row_source::{RowSource, RowTotals};
use crate::report::direction::{self, COORDINATES_SHOWN};
use crate::report::format::{json_number, probability, readable};
use crate::report::progress::Progress;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::Path;
use vmfkit::estimate::{ln_likelihood, maximum_likelihood, mean_resultant};
use vmfkit::hypothesis::{Symmetry, rotational_symmetry};
use vmfkit::inference::{Inference, Test, projection_test};
use vmfkit::source::Source;
use vmfkit::stats::RowSum;
use vmfkit::store::model::{self, Description};
use vmfkit::train::Status;
use vmfkit::{ConcentrationEstimator, ConcentrationPolicy, Method, Mixture, SufficientStats, VonMisesFisher};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = ONE_DENSITY)]
pub struct OneArguments {
    /// Confidence level for the concentration and the mean direction
    #[arg(long, value_name = "LEVEL", default_value_t = 0.95, allow_hyphen_values = true, conflicts_with = "many")]
    level: f64,
    /// Test the fit against simulated samples [default number: 199]
    ///
    /// Tests the projections onto the mean direction against those of a vMF density, and
    /// rotational symmetry about the mean direction. `vmf test` has more tests.
    #[arg(verbatim_doc_comment, long, value_name = "REPLICATES", num_args = 0..=1, require_equals = true, default_missing_value = "199")]
    #[arg(conflicts_with = "many")]
    goodness_of_fit: Option<usize>,
}

impl Fit {
    pub(super) fn fit_one(&self, method: &str) -> Result<()> {
        self.check_outputs()?;
        // Only the tests need all rows at once.
        let rows = self.rows.limited().without_ids();
        let mut source = match self.one.goodness_of_fit {
            Some(_) => rows.open_whole("--goodness-of-fit")?,
            None => {
                let online = (method != CLOSED).then(|| self.method_with_settings(method)).filter(Method::is_online);
                rows.open(|data| {
                    let min_rows = online.as_ref().map_or(0, |method| self.shuffle_rows(method, data.dim(), None) as u64);
                    let hint = online.as_ref().map(|_| "\nhint: a smaller `--set shuffle_rows=ROWS` needs less");
                    ExtraMemory { min_rows, hint, ..ExtraMemory::default() }
                })?
            }
        };
        if method != CLOSED || self.one.goodness_of_fit.is_some() {
            source.hold(self.scratch_folder()?.as_deref(), self.report.quiet)?;
        }
        let stats = self.sum(&mut source).map_err(|error| source.explain(error))?;
        let report = self.report(method, &stats, &mut source).with_context(|| source.name().to_owned())?;
        source.note_rescaled();
        let written = self.outputs.output.as_ref().map_or(Ok(()), |path| report.write_model(path));
        output::print(if self.report.json { report.to_json() } else { report.to_text() })?;
        written
    }

    fn report(&self, method: &str, stats: &SufficientStats, source: &mut RowSource) -> Result<Report> {
        let rows = source.totals();
        let inference = Inference::new(stats)?;
        let exact = maximum_likelihood(stats, ConcentrationEstimator::Exact)?;
        let mut description = Description::default();
        let (method, density) = if method != CLOSED {
            let method = self.method_with_settings(method);
            let mut watch = Watch::new(!self.report.quiet, 1, self.stop(&method).passes, source.len());
            let fitter = self.fitter(&method, rows.dim, self.settings().sample)?.progress(|progress| watch.rows(progress));
            let fit = fitter.fit_source(source)?;
            description = Description::of(&fit);
            (method.name(), fit.mixture.components()[0].clone())
        } else {
            let (name, density) = match self.settings().estimator {
                Some(Estimator::Corrected) => {
                    let direction = exact.mean_direction().to_vec();
                    ("corrected", VonMisesFisher::new(direction, inference.corrected_concentration())?)
                }
                Some(Estimator::Library(estimator)) => (estimator.name(), maximum_likelihood(stats, estimator)?),
                None => (ConcentrationEstimator::Exact.name(), exact.clone()),
            };
            CLOSED.clone_into(&mut description.method);
            name.clone_into(&mut description.estimator);
            description.policy = ConcentrationPolicy::Free.to_string();
            Status::Converged.name().clone_into(&mut description.status);
            (description.rows, description.weight) = (rows.rows, rows.weight);
            (name, density)
        };
        description.angles = rows.angles;
        let goodness_of_fit = match self.one.goodness_of_fit {
            Some(replicates) => {
                source.rewind()?;
                let mut progress = Progress::new(!self.report.quiet);
                progress.announce(format_args!("testing the fit against {replicates} samples"));
                let mut buffer = vmfkit::RowBatch::default();
                let (block, seed) = (source.read_whole(&mut buffer)?, self.seed);
                // On the circle and for two rows, the symmetry test has no alternative.
                let symmetry =
                    (block.dim() > 2 && block.len() > 2).then(|| rotational_symmetry(&block, replicates, seed)).transpose()?;
                Some(GoodnessOfFit { projection: projection_test(&block, &density, replicates, seed)?, symmetry })
            }
            None => None,
        };
        let level = self.one.level;
        Ok(Report {
            rows,
            method,
            exact: Estimate::new(exact, stats),
            estimate: Estimate::new(density, stats),
            mean_length: mean_resultant(stats)?,
            level,
            interval: inference.concentration_interval(level)?,
            cone: inference.mean_direction_cone(level)?,
            goodness_of_fit,
            inference,
            description,
        })
    }

    /// The statistics of all rows.
    fn sum(&self, source: &mut RowSource) -> vmfkit::Result<SufficientStats> {
        let mut progress = Progress::new(!self.report.quiet);
        let (all, mut done) = (source.len(), 0);
        let mut sum = RowSum::new(source.dim());
        let mut buffer = vmfkit::RowBatch::default();
        while let Some(block) = source.next_validated(&mut buffer)? {
            sum.add(&block)?;
            done += block.len() as u64;
            progress.rows("", done, all);
        }
        Ok(sum.finish())
    }
}

/// A density and its log-likelihood.
struct Estimate {
    density: VonMisesFisher,
    ln_likelihood: f64,
}

impl Estimate {
    fn new(density: VonMisesFisher, stats: &SufficientStats) -> Self {
        Estimate { ln_likelihood: ln_likelihood(stats, &density), density }
    }
}

/// Everything that is reported.
struct Report {
    rows: RowTotals,
    method: &'static str,
    estimate: Estimate,
    exact: Estimate,
    /// R and 1 - R
    mean_length: (f64, f64),
    inference: Inference,
    level: f64,
    interval: (f64, f64),
    /// Half-angle in radians.
    cone: f64,
    goodness_of_fit: Option<GoodnessOfFit>,
    /// How the density was fitted, for its model file.
    description: Description,
}

/// Tests of the projections onto the mean direction and of rotational symmetry about it.
struct GoodnessOfFit {
    projection: Test,
    /// In more than two dimensions, with more than two rows.
    symmetry: Option<Symmetry>,
}

impl GoodnessOfFit {
    fn to_json(&self) -> Value {
        let symmetry = self.symmetry.map(|found| {
            json!({
                "statistic": json_number(found.statistic),
                "degrees_of_freedom": json_number(found.degrees_of_freedom),
                "p_value": json_number(found.p_value),
                "limit_p_value": found.limit_p_value,
                "rows": found.rows,
            })
        });
        json!({ "projection": test_json(self.projection), "rotational_symmetry": symmetry })
    }

    fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![(
            "projection test",
            format!("{} (of mu.x under a vMF)", test_text(self.projection.p_value, self.projection.statistic)),
        )];
        lines.extend(self.symmetry.map(|found| {
            let limit =
                found.limit_p_value.map_or(String::new(), |p| format!(", by the chi-squared limit p = {}", probability(p)));
            ("symmetry test", format!("{}{limit} (about the mean direction)", test_text(found.p_value, found.statistic)))
        }));
        lines
    }
}

fn test_json(test: Test) -> Value {
    json!({ "statistic": json_number(test.statistic), "p_value": json_number(test.p_value) })
}

fn test_text(p_value: f64, statistic: f64) -> String {
    format!("p = {}, statistic {}", probability(p_value), readable(statistic))
}

impl Report {
    /// Writes the density as a mixture of one component.
    fn write_model(&self, path: &Path) -> Result<()> {
        let mixture = Mixture::new(vec![1.0], vec![self.estimate.density.clone()])?;
        output::write_file(path, model::to_bytes(&mixture, &self.description))
    }

    /// The half-angle in degrees of the cap around the mean direction that contains this fraction of the density's mass.
    fn cap(&self, fraction: f64) -> f64 {
        self.estimate.density.angle_holding(fraction).to_degrees()
    }

    /// Explains an estimate outside of its interval.
    fn interval_note(&self) -> &'static str {
        let (low, high) = self.interval;
        let inside = (low..=high).contains(&self.estimate.density.concentration());
        if inside { "" } else { "; the estimate is outside because it is biased upward in small samples" }
    }

    fn to_json(&self) -> String {
        let Report { estimate: Estimate { density, ln_likelihood }, inference, .. } = self;
        let object = json!({
            "file": self.rows.file,
            "rows": self.rows.rows,
            "dim": density.dim(),
            "total_weight": json_number(self.rows.weight),
            "rescaled_rows": self.rows.rescaled,
            "method": self.method,
            "concentration": json_number(density.concentration()),
            "mean_direction": density.mean_direction(),
            "angles": self.rows.angles.map(|angles| angles.to_string()),
            "mean_direction_angles": direction::to_json(self.rows.angles, density.mean_direction()),
            "ln_likelihood": json_number(*ln_likelihood),
            "mean_ln_density": json_number(ln_likelihood / self.rows.weight),
            "entropy": json_number(density.entropy()),
            "degrees_holding_half": json_number(self.cap(0.5)),
            "degrees_holding_95_percent": json_number(self.cap(0.95)),
            "mean_length": json_number(self.mean_length.0),
            "mean_length_complement": json_number(self.mean_length.1),
            "level": self.level,
            "exact_concentration": json_number(inference.concentration()),
            "exact_ln_likelihood": json_number(self.exact.ln_likelihood),
            "standard_error": json_number(inference.standard_error()),
            "concentration_interval": [json_number(self.interval.0), json_number(self.interval.1)],
            "corrected_concentration": json_number(inference.corrected_concentration()),
            "mean_direction_cone_degrees": json_number(self.cone.to_degrees()),
            "rayleigh_test": test_json(inference.rayleigh_test()),
            "goodness_of_fit": self.goodness_of_fit.as_ref().map(GoodnessOfFit::to_json),
        });
        format!("{object}\n")
    }

    fn to_text(&self) -> String {
        let rayleigh = self.inference.rayleigh_test();
        let Report { estimate: Estimate { density, ln_likelihood }, inference, .. } = self;
        // Rounded: 57%, not 56.99999999999999%.
        let percent = (1e12 * self.level).round() / 1e10;
        let mean = density.mean_direction();
        let all = if mean.len() > COORDINATES_SHOWN { " (all of them with --json)" } else { "" };
        let mut lines = vec![
            ("mean direction", format!("{}{all}", direction::coordinates(mean, 0))),
            ("concentration", readable(density.concentration())),
        ];
        if let Some(angles) = self.rows.angles {
            lines.insert(1, ("  as angles", direction::text(angles, mean)));
        }
        if self.method != "exact" {
            lines.push(("  exact", readable(inference.concentration())));
        }
        let (low, high) = self.interval;
        lines.extend([
            ("  standard error", readable(inference.standard_error())),
            ("  interval", format!("{} to {} ({percent}%){}", readable(low), readable(high), self.interval_note())),
            ("  bias corrected", readable(inference.corrected_concentration())),
            ("log-likelihood", format!("{ln_likelihood:.4}, {} per row", readable(ln_likelihood / self.rows.weight))),
        ]);
        if self.method != "exact" {
            lines.push(("  exact", format!("{:.4}", self.exact.ln_likelihood)));
        }
        lines.extend([
            ("mean length", format!("{}, 1 - R = {}", readable(self.mean_length.0), readable(self.mean_length.1))),
            ("entropy", format!("{} nats", readable(density.entropy()))),
            ("Rayleigh test", format!("{} (of uniformity)", test_text(rayleigh.p_value, rayleigh.statistic))),
        ]);
        lines.extend(self.goodness_of_fit.iter().flat_map(GoodnessOfFit::lines));
        lines.extend([
            ("cone", format!("mean direction within {} degrees ({percent}%)", readable(self.cone.to_degrees()))),
            (
                "spread",
                format!(
                    "half of the mass within {} degrees of the mean direction, 95% within {}",
                    readable(self.cap(0.5)),
                    readable(self.cap(0.95))
                ),
            ),
        ]);
        let mut text = format!("{}, method {}\n\n", self.rows.heading(), self.method);
        for (name, value) in lines {
            text.push_str(&format!("{name:<18}{value}\n"));
        }
        text
    }
}
