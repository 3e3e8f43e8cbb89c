//! `vmf test`: hypotheses about mean directions, concentrations and symmetry.

use crate::args::rows::{LimitedRowArguments, RowArguments};
use crate::args::{GENERAL, MODEL, ReportArguments, TESTS};
use crate::files::Files;
use crate::files::input;
use crate::files::label_source::LabelSource;
use crate::files::output;
use crate::report::format::{aligned, json_number, probability, readable};
use crate::report::progress::Progress;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use vmfkit::estimate::maximum_likelihood;
use vmfkit::hypothesis::{self, Calibration, Concentrations, Outcome};
use vmfkit::inference::{Inference, projection_test};
use vmfkit::source::Source;
use vmfkit::{ConcentrationEstimator, RowBatch, SufficientStats, VonMisesFisher};
use vmfkit_io::Ids;

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
  projection            the cosines with the mean direction are distributed as those of a vMF
Default: equal-means and equal-concentrations if there are groups, mean with --mean-direction,
otherwise uniform, symmetry and projection.

Calibrations of p-values (--calibration):
  auto                conditional for mean, simulation for groups: valid for few rows and in high
                      dimensions
  conditional         given the statistic that is sufficient under the hypothesis (mean)
  simulation          against samples drawn under the fitted hypothesis (groups)
  likelihood-ratio    the chi-squared limit: for many more rows than dimensions
  high-concentration  F and Bartlett's tests: for concentrations well above the dimension
  permutation         labels are permuted: for any distribution (equal-means)

Several DATA are one group each, unless --groups is given. docs/tests.md says when a test is valid.";

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
    /// FILE is a .npy array of whole numbers, a text file with one group per line, or a table with a
    /// column `component`. FILE:COLUMN is another column of a table, column:NAME a column of DATA.
    #[arg(verbatim_doc_comment, long, value_name = "FILE", conflicts_with = "id_column", help_heading = TESTS)]
    groups: Option<LabelSource>,
    /// How p-values are calculated
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Way::Auto, hide_possible_values = true, help_heading = TESTS)]
    calibration: Way,
    /// Let groups have different concentrations when mean directions are compared
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
    /// The p-value of a limiting law beside that of a simulation.
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

/// Which rows belong together.
struct Groups {
    names: Vec<String>,
    /// The group of each row.
    labels: Vec<usize>,
}

impl Groups {
    /// Numbers the labels in the order in which they are first met.
    fn of(labels: impl Iterator<Item = String>) -> Self {
        let (mut numbers, mut names) = (HashMap::new(), Vec::new());
        let mut number = |label: String| {
            *numbers.entry(label).or_insert_with_key(|label| {
                names.push(label.clone());
                names.len() - 1
            })
        };
        let labels = labels.map(&mut number).collect();
        Groups { names, labels }
    }
}

/// What was read.
struct Sample {
    groups: Option<Groups>,
    /// One component for each group, or one for all rows.
    stats: SufficientStats,
    rows: usize,
}

impl Sample {
    fn total(&self) -> vmfkit::Result<SufficientStats> {
        let mut total = SufficientStats::zero(1, self.stats.dim());
        for group in 0..self.stats.components() {
            total.add_component(0, &self.stats, group)?;
        }
        Ok(total)
    }

    /// Adds the rows of a block.
    fn add(&mut self, block: &RowBatch) -> Result<()> {
        let (from, to) = (self.rows, self.rows + block.len());
        let found = match &self.groups {
            None => SufficientStats::of_block(block),
            Some(groups) => match groups.labels.get(from..to) {
                Some(labels) => SufficientStats::of_labels(block, labels, groups.names.len())?,
                None => bail!("there must be a group for each row, rows: {to} or more, groups: `{}`", groups.labels.len()),
            },
        };
        self.stats.merge(&found)?;
        self.rows = to;
        Ok(())
    }

    /// To be called after the last block.
    fn check(&self) -> Result<()> {
        match &self.groups {
            Some(groups) if groups.labels.len() != self.rows => {
                bail!("there must be a group for each row, rows: {}, groups: `{}`", self.rows, groups.labels.len())
            }
            _ => Ok(()),
        }
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
        let mut progress = Progress::new(!self.report.quiet);
        let (sample, findings) = if permutes || of_rows.is_some() {
            let work = of_rows.map_or("--calibration permutation".to_owned(), |test| format!("--test {}", test.name()));
            let mut source = rows.open_whole(&work)?;
            let mut sample = Sample { stats: self.empty(&groups, source.dim()), groups, rows: 0 };
            let name = self.rows.limited().name();
            let mut buffer = vmfkit::RowBatch::default();
            let block = source.read_whole(&mut buffer)?;
            sample.add(&block).with_context(|| name.clone())?;
            sample.check().with_context(|| name.clone())?;
            progress.announce("testing");
            let findings = self.findings(&tests, &sample, Some(&block)).context(name)?;
            (sample, findings)
        } else {
            let mut source = rows.open(|_| 0)?;
            let all = source.len();
            let mut sample = Sample { stats: self.empty(&groups, source.dim()), groups, rows: 0 };
            let name = self.rows.limited().name();
            let mut buffer = vmfkit::RowBatch::default();
            loop {
                match source.next_validated(&mut buffer) {
                    Ok(Some(block)) => sample.add(&block).with_context(|| name.clone())?,
                    Ok(None) => break,
                    Err(error) => return Err(source.explain(error)),
                }
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

    fn empty(&self, groups: &Option<Groups>, dim: usize) -> SufficientStats {
        SufficientStats::zero(groups.as_ref().map_or(1, |groups| groups.names.len()), dim)
    }

    /// The column of the rows that holds their groups.
    fn group_column(&self) -> Option<&str> {
        if let Some(LabelSource::Column(name)) = &self.groups { Some(name) } else { None }
    }

    /// The group of each row, if there are groups.
    fn read_groups(&self) -> Result<Option<Groups>> {
        if let Some(LabelSource::File(path, column)) = &self.groups {
            let labels = input::read_labels(path, None, column.as_deref())?;
            return Ok(Some(Groups::of(labels.into_iter().map(|label| label.to_string()))));
        }
        let locations = self.rows.limited().locations();
        if self.group_column().is_none() && locations.len() < 2 {
            return Ok(None);
        }
        // Rows are read once for their groups and once more for the tests.
        if self.rows.limited().has_pipe() {
            bail!("rows from a pipe have no groups, found: `-`\nhint: write the rows to a file");
        }
        let mut labels = Vec::new();
        if let Some(name) = self.group_column() {
            let mut source = self.rows.limited().with_id_column(name).open(|_| 0)?;
            let mut buffer = vmfkit::RowBatch::default();
            loop {
                match source.next_validated(&mut buffer) {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(error) => return Err(source.explain(error)),
                }
                match source.ids().1 {
                    Some(Ids::Integers(ids)) => labels.extend(ids.iter().map(i64::to_string)),
                    Some(Ids::Texts(ids)) => labels.extend(ids.iter().cloned()),
                    None => bail!("{}: there is no column `{name}`", self.rows.limited().name()),
                }
            }
            return Ok(Some(Groups::of(labels.into_iter())));
        }
        let mut groups = Groups { names: locations.iter().map(RowArguments::name).collect(), labels: Vec::new() };
        for (group, location) in locations.iter().enumerate() {
            let mut source = location.without_ids().open(|_| 0)?;
            let rows = match source.len() {
                Some(rows) => usize::try_from(rows)?,
                None => {
                    let mut rows = 0;
                    let mut buffer = vmfkit::RowBatch::default();
                    while let Some(block) = source.next_validated(&mut buffer)? {
                        rows += block.len();
                    }
                    rows
                }
            };
            groups.labels.extend(std::iter::repeat_n(group, rows));
        }
        Ok(Some(groups))
    }

    /// The tests asked for, or those that the other options are for.
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
        let vector: Vec<f64> = match given.split(',').map(|x| x.trim().parse().ok()).collect() {
            Some(numbers) => numbers,
            None => input::read_vector(Path::new(given)).context("the mean direction must be numbers or a file of numbers")?,
        };
        if vector.len() != dim {
            return Err(vmfkit::Error::DimensionMismatch { expected: dim, found: vector.len() }).context("the mean direction");
        }
        Ok(VonMisesFisher::along(vector, 1.0).context("the mean direction")?.mean_direction().to_vec())
    }

    /// What the calibration asked for means for a test.
    fn calibration(&self, test: Hypothesis) -> Calibration {
        let simulation = Calibration::Simulation { replicates: self.replicates(), seed: self.seed };
        match self.calibration {
            Way::Auto if test == Hypothesis::Mean => Calibration::Conditional,
            // Labels are permuted for equal mean directions; the other test of groups has no such form.
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
        // On the circle, and of two rows, symmetry is tested only where it was asked for: to be refused.
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

    fn to_json(&self, sample: &Sample, findings: &[Finding]) -> String {
        let tests = findings.iter().map(|finding| {
            let degrees =
                finding.degrees_of_freedom.map(|(first, second)| std::iter::once(first).chain(second).collect::<Vec<_>>());
            let object = json!({
                "statistic": json_number(finding.statistic),
                "degrees_of_freedom": degrees,
                "p_value": json_number(finding.p_value),
                "calibration": finding.calibration,
                "limit_p_value": finding.limit_p_value,
                "rows": finding.rows,
            });
            (finding.hypothesis.name().replace('-', "_"), object)
        });
        let groups: Vec<Value> = (0..sample.stats.components()).map(|group| self.group_json(sample, group)).collect();
        let object = json!({
            "file": self.rows.limited().name(),
            "rows": sample.rows,
            "dim": sample.stats.dim(),
            "groups": groups,
            "tests": tests.collect::<serde_json::Map<_, _>>(),
            "seed": self.seed,
            "replicates": self.replicates(),
        });
        format!("{object}\n")
    }

    fn group_json(&self, sample: &Sample, group: usize) -> Value {
        let Summary { name, weight, mean_length, concentration, direction } = summary(sample, group);
        json!({
            "name": name,
            "weight": json_number(weight),
            "mean_length": json_number(mean_length),
            "concentration": json_number(concentration),
            "mean_direction": direction,
        })
    }

    fn to_text(&self, sample: &Sample, findings: &[Finding]) -> String {
        let mut text = format!("{}: {} rows of dimension {}\n\n", self.rows.limited().name(), sample.rows, sample.stats.dim());
        if sample.groups.is_some() {
            let heading = ["group", "rows", "mean length", "concentration", "mean direction"].map(str::to_owned).to_vec();
            let row = |group: usize| {
                let Summary { name, weight, mean_length, concentration, direction } = summary(sample, group);
                vec![name, readable_count(weight), readable(mean_length), readable(concentration), coordinates(&direction)]
            };
            let rows = (0..sample.stats.components()).map(row);
            text.push_str(&aligned(&std::iter::once(heading).chain(rows).collect::<Vec<_>>()));
            text.push('\n');
        }
        let heading = ["hypothesis", "p-value", "statistic", "degrees of freedom", "p-value by"].map(str::to_owned).to_vec();
        let row = |finding: &Finding| {
            let degrees = finding.degrees_of_freedom.map_or(String::new(), |(first, second)| {
                second.map_or(readable_count(first), |second| format!("{}, {}", readable_count(first), readable_count(second)))
            });
            let (title, p_value) = (finding.hypothesis.title().to_owned(), probability(finding.p_value));
            vec![title, p_value, readable(finding.statistic), degrees, finding.calibration.clone()]
        };
        text.push_str(&aligned(&std::iter::once(heading).chain(findings.iter().map(row)).collect::<Vec<_>>()));
        for finding in findings {
            if let Some(limit) = finding.limit_p_value {
                text.push_str(&format!("{}: p = {} by the chi-squared limit\n", finding.hypothesis.title(), probability(limit)));
            }
            if let Some(rows) = finding.rows.filter(|&rows| rows < sample.rows) {
                text.push_str(&format!("{}: a random sample of {rows} rows was tested\n", finding.hypothesis.title()));
            }
        }
        text
    }
}

/// What is said of a group.
struct Summary {
    name: String,
    weight: f64,
    mean_length: f64,
    /// The bias-corrected estimate; infinite where all rows are equal.
    concentration: f64,
    direction: Vec<f64>,
}

fn summary(sample: &Sample, group: usize) -> Summary {
    let stats = &sample.stats;
    let mut alone = SufficientStats::zero(1, stats.dim());
    alone.add_component(0, stats, group).expect("the same dimension");
    let length = stats.resultant_length(group);
    Summary {
        name: sample.groups.as_ref().map_or_else(String::new, |groups| groups.names[group].clone()),
        weight: stats.mass(group),
        mean_length: stats.mean_length(group).0,
        concentration: Inference::new(&alone).map_or(f64::INFINITY, |inference| inference.corrected_concentration()),
        direction: stats.resultant(group).iter().map(|x| if length > 0.0 { x / length } else { 0.0 }).collect(),
    }
}

/// The first coordinates of a direction.
fn coordinates(direction: &[f64]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<String> = direction.iter().take(SHOWN).map(|&x| format!("{x:.4}")).collect();
    shown.join(" ") + if direction.len() > SHOWN { " ..." } else { "" }
}

/// A number of rows or degrees of freedom, which is whole unless weights are not.
fn readable_count(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value}") } else { readable(value) }
}
