//! `vmf test`: hypotheses about mean directions, concentrations, uniformity and symmetry.

mod groups;
mod report;

use crate::args::rows::LimitedRowArguments;
use crate::args::{GENERAL, MODEL, ReportArguments, TESTS};
use crate::files::Files;
use crate::files::input;
use crate::files::label_source::LabelSource;
use crate::files::output;
use crate::report::progress::Progress;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use groups::Sample;
use std::path::Path;
use vmfkit::estimate::maximum_likelihood;
use vmfkit::hypothesis::{self, Calibration, Concentrations, Outcome};
use vmfkit::inference::{Inference, projection_test};
use vmfkit::source::Source;
use vmfkit::{ConcentrationEstimator, RowBatch, SufficientStats, VonMisesFisher};

const AFTER_HELP: &str = "\
Examples:
  vmf test first.npy second.npy                        equal mean directions? equal concentrations?
  vmf test x.csv --columns x,y,z --groups column:site --test equal-means
  vmf test x.npy --groups labels.npy --calibration permutation
  vmf test x.npy --mean-direction 0,0,1                is this the mean direction?
  vmf test x.npy                                       uniform? symmetric? a vMF?
  vmf test x.npy --test symmetry --replicates 9999 --json

Hypotheses (--test):
  equal-means           the groups have equal mean directions
  equal-concentrations  the groups have equal concentrations
  mean                  the mean direction is that of --mean-direction
  uniform               the rows are uniform on the sphere (Rayleigh)
  symmetry              the rows are rotationally symmetric about their mean direction
  projection            the cosines with the mean direction are distributed as under a vMF density
Default: equal-means and equal-concentrations for groups, mean with --mean-direction, otherwise
uniform, symmetry and projection.

Calibrations of p-values (--calibration):
  auto                conditional for mean, simulation for groups: valid for few rows and in high
                      dimensions
  conditional         conditional on the sufficient statistic under the hypothesis (mean)
  simulation          samples from the density fitted under the hypothesis (groups)
  likelihood-ratio    the chi-squared limit: for many more rows than dimensions
  high-concentration  F and Bartlett's tests: for concentrations well above the dimension
  permutation         permutes the groups: valid for any distribution (equal-means)

Without --groups, several DATA are one group each. docs/tests.md explains when each test is valid.";

/// Test hypotheses about mean directions, concentrations, uniformity and symmetry
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Test {
    #[command(flatten)]
    rows: LimitedRowArguments,
    /// Mean direction to test: numbers separated by commas, or a file
    ///
    /// A vector of any length. FILE is .npy or text.
    #[arg(long, value_name = "VECTOR", allow_hyphen_values = true, help_heading = MODEL)]
    mean_direction: Option<String>,
    /// Hypotheses to test, separated by commas [default: see `vmf test --help`]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', hide_possible_values = true, help_heading = TESTS)]
    test: Vec<Hypothesis>,
    /// Group of each row: FILE, FILE:COLUMN or column:NAME
    ///
    /// FILE is a .npy array of integers, a text file with one group per line, or a table with a
    /// column `component`. FILE:COLUMN is another column of a table, column:NAME a column of
    /// DATA.
    #[arg(verbatim_doc_comment, long, value_name = "FILE", conflicts_with = "id_column", help_heading = TESTS)]
    groups: Option<LabelSource>,
    /// How p-values are computed
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Way::Auto, hide_possible_values = true, help_heading = TESTS)]
    calibration: Way,
    /// Allow groups to have different concentrations when mean directions are compared
    #[arg(long, help_heading = TESTS)]
    separate_concentrations: bool,
    /// Number of simulated samples or permutations [default: 999]
    #[arg(long, value_name = "N", help_heading = TESTS)]
    replicates: Option<usize>,
    #[command(flatten)]
    report: ReportArguments,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = GENERAL)]
    seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Hypothesis {
    EqualMeans,
    EqualConcentrations,
    Mean,
    Uniform,
    Symmetry,
    Projection,
}

impl Hypothesis {
    fn of_groups(self) -> bool {
        matches!(self, Self::EqualMeans | Self::EqualConcentrations)
    }

    /// The name on the command line; in JSON with underscores.
    fn name(self) -> &'static str {
        match self {
            Self::EqualMeans => "equal-means",
            Self::EqualConcentrations => "equal-concentrations",
            Self::Mean => "mean",
            Self::Uniform => "uniform",
            Self::Symmetry => "symmetry",
            Self::Projection => "projection",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::EqualMeans => "equal mean directions",
            Self::EqualConcentrations => "equal concentrations",
            Self::Mean => "given mean direction",
            Self::Uniform => "uniformity (Rayleigh)",
            Self::Symmetry => "symmetry about the mean direction",
            Self::Projection => "projections of a vMF",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    Auto,
    Conditional,
    Simulation,
    LikelihoodRatio,
    HighConcentration,
    Permutation,
}

/// One line of the report.
struct Finding {
    hypothesis: Hypothesis,
    statistic: f64,
    degrees_of_freedom: Option<(f64, Option<f64>)>,
    p_value: f64,
    calibration: String,
    /// The p-value of the limiting distribution, in addition to that of a simulation.
    limit_p_value: Option<f64>,
    rows: Option<usize>,
}

impl Finding {
    fn new(hypothesis: Hypothesis, statistic: f64, p_value: f64, calibration: &str) -> Self {
        let calibration = calibration.to_owned();
        Finding { hypothesis, statistic, p_value, calibration, degrees_of_freedom: None, limit_p_value: None, rows: None }
    }

    fn of(hypothesis: Hypothesis, outcome: Outcome, calibration: &str) -> Self {
        let plain = Finding::new(hypothesis, outcome.statistic, outcome.p_value, calibration);
        Finding { degrees_of_freedom: Some(outcome.degrees_of_freedom), ..plain }
    }
}

impl Test {
    pub fn run(&self) -> Result<()> {
        let direction = self.mean_direction.as_ref().map(Path::new).filter(|path| path.is_file());
        Files::new()
            .reads(self.rows.limited().files())
            .reads(self.groups.as_ref().and_then(LabelSource::file))
            .reads(direction)
            .check()?;
        let groups = self.read_groups()?;
        let tests = self.tests(groups.is_some())?;
        let permutes = self.calibration == Way::Permutation && tests.contains(&Hypothesis::EqualMeans);
        let of_rows = tests.iter().find(|test| matches!(test, Hypothesis::Symmetry | Hypothesis::Projection));
        let rows = match self.group_column() {
            Some(name) => self.rows.limited().with_id_column(name),
            None => self.rows.limited().without_ids(),
        };
        let name = self.rows.limited().name();
        let mut progress = Progress::new(!self.report.quiet);
        let (sample, findings) = if permutes || of_rows.is_some() {
            let work = of_rows.map_or("--calibration permutation".to_owned(), |test| format!("--test {}", test.name()));
            let mut source = rows.open_whole(&work)?;
            let mut sample = Sample::new(groups, source.dim());
            let mut buffer = vmfkit::RowBatch::default();
            let block = source.read_whole(&mut buffer)?;
            sample.add(&block).and_then(|()| sample.check()).with_context(|| name.clone())?;
            progress.announce("testing");
            let findings = self.findings(&tests, &sample, Some(&block)).context(name)?;
            (sample, findings)
        } else {
            let mut source = rows.open(|_| 0)?;
            let all = source.len();
            let mut sample = Sample::new(groups, source.dim());
            let mut buffer = vmfkit::RowBatch::default();
            while let Some(block) = source.next(&mut buffer)? {
                sample.add(&block).with_context(|| name.clone())?;
                progress.rows("", sample.rows as u64, all);
            }
            source.note_rescaled();
            sample.check().with_context(|| name.clone())?;
            progress.announce("testing");
            let findings = self.findings(&tests, &sample, None).context(name)?;
            (sample, findings)
        };
        drop(progress);
        output::print(if self.report.json { self.to_json(&sample, &findings) } else { self.to_text(&sample, &findings) })
    }

    /// The requested tests, or the default for the other options.
    fn tests(&self, grouped: bool) -> Result<Vec<Hypothesis>> {
        use Hypothesis::{EqualConcentrations, EqualMeans, Mean, Projection, Symmetry, Uniform};
        let mut tests = self.test.clone();
        if tests.is_empty() {
            tests.extend(grouped.then_some([EqualMeans, EqualConcentrations]).into_iter().flatten());
            tests.extend(self.mean_direction.as_ref().map(|_| Mean));
        }
        if tests.is_empty() {
            tests = vec![Uniform, Symmetry, Projection];
        }
        for test in &tests {
            if test.of_groups() && !grouped {
                bail!(
                    "`--test {}` compares groups, found: `1`\n\
                     hint: `--groups FILE`, `--groups column:NAME`, or one DATA for each group",
                    test.name()
                );
            }
        }
        if tests.contains(&Mean) && self.mean_direction.is_none() {
            bail!("`--test mean` needs a direction\nhint: `--mean-direction 0,0,1`");
        }
        Ok(tests)
    }

    fn direction(&self, dim: usize) -> Result<Vec<f64>> {
        let given = self.mean_direction.as_deref().expect("checked with the tests");
        let vector = input::mean_direction(given)?;
        if vector.len() != dim {
            return Err(vmfkit::Error::DimensionMismatch { expected: dim, found: vector.len() }).context("the mean direction");
        }
        Ok(VonMisesFisher::along(vector, 1.0).context("the mean direction")?.mean_direction().to_vec())
    }

    /// The calibration of a test.
    fn calibration(&self, test: Hypothesis) -> Calibration {
        let simulation = Calibration::Simulation { replicates: self.replicates(), seed: self.seed };
        match self.calibration {
            Way::Auto if test == Hypothesis::Mean => Calibration::Conditional,
            // Only the test of equal mean directions has a permutation form.
            Way::Auto | Way::Simulation | Way::Permutation => simulation,
            Way::Conditional => Calibration::Conditional,
            Way::LikelihoodRatio => Calibration::LikelihoodRatio,
            Way::HighConcentration => Calibration::HighConcentration,
        }
    }

    fn replicates(&self) -> usize {
        self.replicates.unwrap_or(Calibration::REPLICATES)
    }

    fn findings(&self, tests: &[Hypothesis], sample: &Sample, block: Option<&RowBatch>) -> Result<Vec<Finding>> {
        let total = sample.total()?;
        // On the circle and for two rows, symmetry has no alternative: it is tested, and refused, only on request.
        let can_be_elliptical = total.dim() > 2 && sample.rows > 2;
        let makes_sense = |test: &&Hypothesis| can_be_elliptical || !self.test.is_empty() || **test != Hypothesis::Symmetry;
        tests.iter().filter(makes_sense).map(|&test| self.finding(test, sample, &total, block)).collect()
    }

    fn finding(&self, test: Hypothesis, sample: &Sample, total: &SufficientStats, block: Option<&RowBatch>) -> Result<Finding> {
        let calibration = self.calibration(test);
        let of = |outcome| Finding::of(test, outcome, calibration.name());
        let rows = || block.expect("opened as a whole for this test");
        Ok(match test {
            Hypothesis::EqualMeans if self.calibration == Way::Permutation => {
                let groups = sample.groups.as_ref().expect("checked with the tests");
                let (labels, count) = (&groups.labels, groups.names.len());
                let outcome =
                    hypothesis::equal_mean_directions_by_permutation(rows(), labels, count, self.replicates(), self.seed)?;
                Finding { degrees_of_freedom: None, ..Finding::of(test, outcome, "permutation") }
            }
            Hypothesis::EqualMeans => {
                let assumed = if self.separate_concentrations { Concentrations::Separate } else { Concentrations::Common };
                of(hypothesis::equal_mean_directions(&sample.stats, assumed, calibration)?)
            }
            Hypothesis::EqualConcentrations => of(hypothesis::equal_concentrations(&sample.stats, calibration)?),
            Hypothesis::Mean => of(hypothesis::mean_direction(total, &self.direction(total.dim())?, calibration)?),
            Hypothesis::Uniform => {
                let found = Inference::new(total)?.rayleigh_test();
                Finding::new(test, found.statistic, found.p_value, "saddlepoint")
            }
            Hypothesis::Symmetry => {
                let found = hypothesis::rotational_symmetry(rows(), self.replicates(), self.seed)?;
                Finding {
                    degrees_of_freedom: Some((found.degrees_of_freedom, None)),
                    limit_p_value: found.limit_p_value,
                    rows: Some(found.rows),
                    ..Finding::new(test, found.statistic, found.p_value, "random rotations")
                }
            }
            Hypothesis::Projection => {
                let density = maximum_likelihood(total, ConcentrationEstimator::Exact)?;
                let found = projection_test(rows(), &density, self.replicates(), self.seed)?;
                Finding::new(test, found.statistic, found.p_value, "simulation")
            }
        })
    }
}
