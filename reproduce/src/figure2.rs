//! Figure 2: errors of EM and SGD for samples of a mixture of three vMFs.

use crate::verdict::{self, Estimate, Part, Rule, Source, Verdict};
use crate::{Spread, largest};
use anyhow::Result;
use clap::Args;
use kuva::plot::legend::LegendPosition;
use kuva::plot::scatter::MarkerShape;
use kuva::plot::{LinePlot, ScatterPlot, StripPlot};
use kuva::render::annotations::ReferenceLine;
use kuva::render::figure::Figure;
use kuva::render::layout::{Layout, TickFormat};
use kuva::render::plots::Plot;
use rayon::prelude::*;
use serde::Serialize;
use std::f64::consts::FRAC_2_PI;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;
use vmfkit::metrics::ParameterErrors;
use vmfkit::train::{Adam, Baseline, Stop};
use vmfkit::{
    ConcentrationEstimator, ConcentrationPolicy, Fitter, Maximisation, Method, Mixture, RowBatch, Start, VonMisesFisher, bessel,
};

/// The paper's sample size and number of components.
const ROWS: usize = 1000;
const COMPONENTS: usize = 3;

/// The largest relative difference of the log-likelihoods of EM and SGD allowed. A start that ends
/// further below the best of its sample is poor.
const TOLERANCE: f64 = 1e-3;

/// The largest difference of a mean error from theory allowed, in standard errors.
const THEORY_TOLERANCE: f64 = 4.0;

/// The largest difference of the paper's error, of a single sample, from theory allowed, in
/// standard deviations.
const SAMPLE_TOLERANCE: f64 = 3.0;

#[derive(Args)]
pub struct Options {
    /// Number of samples.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..))]
    seeds: u64,
    /// Random seed of the first sample; the others use the following seeds.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Random starts per fit; the best is kept.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    starts: u64,
    /// File of the figure, .svg or .png.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Print JSON with the errors of all samples instead of the table.
    #[arg(long)]
    json: bool,
}

/// The names of the errors of alpha, mu and kappa.
const ERRORS: [&str; 3] = ["e_alpha", "e_mu", "e_kappa"];

/// An estimator with its start: a line of the table.
struct Way {
    name: &'static str,
    /// EM with this estimator; SGD if `None`.
    em: Option<ConcentrationEstimator>,
    /// Random starts as in the paper, or one start by k-means.
    random: bool,
    /// The paper's errors for its one sample.
    paper: Option<[f64; 3]>,
}

const EM: usize = 0;
const SGD: usize = 1;
const EXACT_EM: usize = 2;
const WAYS: [Way; 5] = [
    Way {
        name: "EM (Banerjee)",
        em: Some(ConcentrationEstimator::Banerjee),
        random: true,
        paper: Some([0.0300, 0.0788, 3.0259]),
    },
    Way { name: "SGD (Adam)", em: None, random: true, paper: Some([0.0289, 0.0774, 2.6013]) },
    Way { name: "EM (exact)", em: Some(ConcentrationEstimator::Exact), random: true, paper: None },
    Way { name: "EM (Banerjee)", em: Some(ConcentrationEstimator::Banerjee), random: false, paper: None },
    Way { name: "SGD (Adam)", em: None, random: false, paper: None },
];

impl Way {
    fn starts(&self, options: &Options) -> usize {
        if self.random { options.starts as usize } else { 1 }
    }

    /// The best fit, and the mean ln p in each pass of each start.
    fn fit(&self, block: &RowBatch, seed: u64, options: &Options) -> Result<(Mixture, Vec<Vec<f64>>)> {
        let mut traces = vec![Vec::new(); self.starts(options)];
        let method = if self.em.is_some() { Method::default() } else { Method::Sgd(Adam::new()) };
        let how = Maximisation::new().estimator(self.em.unwrap_or_default()).policy(ConcentrationPolicy::Free);
        let fit = Fitter::new(COMPONENTS)
            .calibrate(false)
            .method(method.clone())
            .maximisation(how)
            .start(if self.random { Start::Random } else { Start::default() })
            .restarts(self.starts(options))
            .seed(seed)
            .stop(if self.random { Stop { baseline: Baseline::Zero, ..method.stop() } } else { method.stop() })
            .watch(|start, pass, _| {
                traces[start].push(pass.objective);
                ControlFlow::Continue(())
            })
            .fit(block)?;
        Ok((fit.mixture, traces))
    }
}

/// The fit of one sample.
struct Outcome {
    errors: [f64; 3],
    /// The mean of ln p over the rows.
    ln_likelihood: f64,
    traces: Vec<Vec<f64>>,
}

/// The paper's mixture.
fn truth() -> Result<Mixture> {
    let first = [0.3, -1.2, 2.3, 0.4, 2.1];
    let components = vec![
        VonMisesFisher::along(first.to_vec(), 100.0)?,
        VonMisesFisher::new(vec![1.0, 0.0, 0.0, 0.0, 0.0], 50.0)?,
        VonMisesFisher::along(first.map(|x| -x).to_vec(), 100.0)?,
    ];
    Ok(Mixture::new(vec![0.3, 0.4, 0.3], components)?)
}

/// One sample of the mixture.
fn draw(truth: &Mixture, seed: u64) -> Result<Vec<f64>> {
    let (mut rows, mut labels) = (vec![0.0; truth.dim() * ROWS], vec![0; ROWS]);
    truth.fill(seed, 0, &mut rows, &mut labels)?;
    Ok(rows)
}

/// The mean and the standard deviation of an error in large samples.
#[derive(Debug, Clone, Copy, Serialize)]
struct Theory {
    mean: f64,
    deviation: f64,
}

impl Theory {
    /// Of the sum of absolute values of normal variables with this covariance matrix.
    ///
    /// For the correlation r, the mean of |X Y| is (2/pi) (sqrt(1 - r^2) + r asin r) times the
    /// product of the standard deviations.
    fn of_absolute_sum(covariance: &[f64], count: usize) -> Self {
        let deviation = |i: usize| covariance[i * count + i].sqrt();
        let mean = FRAC_2_PI.sqrt() * (0..count).map(deviation).sum::<f64>();
        let term = |i: usize, j: usize| {
            let product = deviation(i) * deviation(j);
            let r = if product > 0.0 { (covariance[i * count + j] / product).clamp(-1.0, 1.0) } else { 0.0 };
            FRAC_2_PI * product * ((1.0 - r * r).sqrt() + r * r.asin() - 1.0)
        };
        let variance: f64 = (0..count * count).map(|at| term(at / count, at % count)).sum();
        Theory { mean, deviation: variance.sqrt() }
    }

    /// Of the errors of alpha, mu and kappa for well separated components. Estimates are then
    /// normal with the covariances (diag alpha - alpha alpha')/N, (I - mu mu')/(N alpha kappa A)
    /// and 1/(N alpha A').
    fn of_errors(truth: &Mixture) -> [Theory; 3] {
        let (n, dim, alpha) = (ROWS as f64, truth.dim(), truth.weights());
        let same = |i: usize, j: usize| if i == j { 1.0 } else { 0.0 };
        let square = |size: usize, entry: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
            (0..size * size).map(|at| entry(at / size, at % size)).collect()
        };
        let at = |k: usize| bessel::mean_length_and_slope(dim, truth.components()[k].concentration());
        let weights = square(COMPONENTS, &|i, j| alpha[i] * (same(i, j) - alpha[j]) / n);
        let directions = square(COMPONENTS * dim, &|i, j| {
            let (k, other, i, j) = (i / dim, j / dim, i % dim, j % dim);
            let (mu, kappa) = (truth.components()[k].mean_direction(), truth.components()[k].concentration());
            same(k, other) * (same(i, j) - mu[i] * mu[j]) / (n * alpha[k] * kappa * at(k).value)
        });
        let concentrations = square(COMPONENTS, &|i, j| same(i, j) / (n * alpha[i] * at(i).slope));
        [
            Theory::of_absolute_sum(&weights, COMPONENTS),
            Theory::of_absolute_sum(&directions, COMPONENTS * dim),
            Theory::of_absolute_sum(&concentrations, COMPONENTS),
        ]
    }
}

/// The results of one estimator in all samples.
#[derive(Debug, Serialize)]
struct Line {
    name: &'static str,
    start: &'static str,
    starts: usize,
    /// The errors of alpha, mu and kappa.
    errors: [Spread; 3],
    paper: Option<[f64; 3]>,
    ln_likelihood: Spread,
    /// The number of starts in all samples that end more than 1e-3 below the best of the sample.
    poor_starts: usize,
    all_starts: usize,
    /// The errors of alpha, mu and kappa in each sample.
    samples: Vec<[f64; 3]>,
}

impl Line {
    /// Whether each of the paper's errors is in the range of our samples.
    fn holds_paper(&self) -> [bool; 3] {
        let inside = |i: usize| self.paper.is_none_or(|paper| (self.errors[i].least..=self.errors[i].most).contains(&paper[i]));
        [inside(0), inside(1), inside(2)]
    }
}

struct Study {
    lines: Vec<Line>,
    theory: [Theory; 3],
    /// |l_SGD - l_EM| / |l_EM| of each sample.
    apart: Vec<f64>,
    /// The results of the first sample, for the figure.
    first: Vec<Outcome>,
}

impl Study {
    fn new(options: &Options) -> Result<Self> {
        let truth = truth()?;
        let mut trials = (0..options.seeds)
            .into_par_iter()
            .map(|i| trial(&truth, options.seed.wrapping_add(i), options))
            .collect::<Result<Vec<_>>>()?;
        let line = |(at, way): (usize, &Way)| {
            let poor = trials.iter().flat_map(|trial| trial[at].traces.iter().filter(|trace| is_poor(trace, trial)));
            let of = |error: usize| Spread::of(trials.iter().map(move |trial| trial[at].errors[error]));
            Line {
                name: way.name,
                start: if way.random { "random" } else { "k-means" },
                starts: way.starts(options),
                errors: [of(0), of(1), of(2)],
                paper: way.paper,
                ln_likelihood: Spread::of(trials.iter().map(|trial| trial[at].ln_likelihood)),
                poor_starts: poor.count(),
                all_starts: way.starts(options) * trials.len(),
                samples: trials.iter().map(|trial| trial[at].errors).collect(),
            }
        };
        let lines = WAYS.iter().enumerate().map(line).collect();
        let apart = |trial: &Vec<Outcome>| (trial[SGD].ln_likelihood / trial[EM].ln_likelihood - 1.0).abs();
        let apart = trials.iter().map(apart).collect();
        Ok(Study { lines, theory: Theory::of_errors(&truth), apart, first: trials.swap_remove(0) })
    }

    fn verdicts(&self) -> Vec<Verdict> {
        let apart = largest(self.apart.iter().copied());
        let inside = [EM, SGD].map(|way| self.lines[way].holds_paper().into_iter().filter(|inside| *inside).count());
        // Standard errors are known from theory.
        let off = |way: usize| {
            let Line { errors, samples, .. } = &self.lines[way];
            let root = (samples.len() as f64).sqrt();
            largest(
                errors.iter().zip(&self.theory).map(|(found, theory)| (found.mean - theory.mean).abs() / theory.deviation * root),
            )
        };
        let paper = largest([EM, SGD].into_iter().flat_map(|way| {
            let paper = self.lines[way].paper.into_iter().flatten();
            paper.zip(&self.theory).map(|(error, theory)| (error - theory.mean).abs() / theory.deviation)
        }));
        vec![
            Verdict::check(
                format!("EM and SGD work equally well: log-likelihoods within {TOLERANCE:e}"),
                apart,
                apart < TOLERANCE,
                format!("relative difference at most {apart:.1e}"),
            )
            .source(Source::Paper),
            self.compare("SGD is slightly better in L1 error", Rule::Gain, EM),
            self.compare("SGD and EM with exact concentrations are level in L1 error", Rule::Level, EXACT_EM)
                .source(Source::Vmfkit),
            Verdict::check(
                format!("the paper's errors fit one sample, {SAMPLE_TOLERANCE} standard deviations from the mean"),
                paper,
                paper < SAMPLE_TOLERANCE,
                format!("at most {paper:.1}, and {} of 3 (EM) and {} of 3 (SGD) in the range seen here", inside[EM], inside[SGD]),
            ),
            Verdict::check(
                format!("mean errors are those of theory to {THEORY_TOLERANCE} standard errors"),
                off(EM).max(off(SGD)),
                off(EM) < THEORY_TOLERANCE && off(SGD) < THEORY_TOLERANCE,
                format!("at most {:.1} (EM) and {:.1} (SGD) away", off(EM), off(SGD)),
            ),
        ]
    }

    /// Compares SGD with another estimator: the paired differences of the errors of alpha, mu and
    /// kappa.
    fn compare(&self, claim: &str, rule: Rule, other: usize) -> Verdict {
        let part = |error: usize| {
            let of = |way: usize| -> Vec<f64> { self.lines[way].samples.iter().map(|errors| errors[error]).collect() };
            let gap = Estimate::of_paired_difference(&of(other), &of(SGD));
            let paper = self.lines[other].paper.zip(self.lines[SGD].paper).map(|(other, sgd)| other[error] - sgd[error]);
            let holds = if rule == Rule::Level { gap.is_level(0.0) } else { gap.is_gain() };
            Part::new(ERRORS[error], gap, holds).paper(paper)
        };
        let parts: Vec<Part> = (0..ERRORS.len()).map(part).collect();
        let word = |error: usize, part: &Part| {
            // One digit more than for errors, because the differences are small.
            let digits = if error == 2 { 3 } else { 5 };
            let paper = part.paper.map_or(String::new(), |paper| format!(" (the paper: {paper:+.digits$})"));
            format!("{} {:+.digits$} ± {:.digits$}{paper}", part.at, part.statistic, part.standard_error)
        };
        let words: Vec<String> = parts.iter().enumerate().map(|(error, part)| word(error, part)).collect();
        Verdict::of_paper(claim, rule, parts, format!("error of EM minus error of SGD: {}", words.join(", ")))
    }
}

/// Fits one sample by all estimators.
fn trial(truth: &Mixture, seed: u64, options: &Options) -> Result<Vec<Outcome>> {
    let rows = draw(truth, seed)?;
    let block = RowBatch::new(truth.dim(), &rows)?;
    let outcome = |way: &Way| {
        let (mixture, traces) = way.fit(&block, seed, options)?;
        let errors = ParameterErrors::between(truth, &mixture)?;
        let errors = [errors.weights(), errors.mean_directions(), errors.concentrations()];
        Ok(Outcome { errors, ln_likelihood: mixture.evaluate(&block)?.mean(), traces })
    };
    WAYS.iter().map(outcome).collect()
}

/// Whether a start ended below the best fit of the sample.
fn is_poor(trace: &[f64], trial: &[Outcome]) -> bool {
    let best = trial.iter().map(|outcome| outcome.ln_likelihood).fold(f64::NEG_INFINITY, f64::max);
    !trace.last().is_some_and(|end| *end > best - TOLERANCE * best.abs())
}

/// Prints the table with its verdicts, and draws the figure. Returns the verdicts.
pub fn run(options: &Options) -> Result<Vec<Verdict>> {
    let clock = Instant::now();
    let study = Study::new(options)?;
    let verdicts = study.verdicts();
    let seconds = clock.elapsed().as_secs_f64();
    if options.json {
        let report = serde_json::json!({
            "rows": ROWS, "seeds": options.seeds, "first_seed": options.seed, "seconds": seconds,
            "ways": study.lines, "theory": study.theory, "ln_likelihoods_apart": study.apart, "verdicts": verdicts,
        });
        crate::show(&serde_json::to_string_pretty(&report)?)?;
    } else {
        let effort = format!("sample size {ROWS}, seeds {}, seconds {seconds:.1}", options.seeds);
        crate::show(&format!("{}\n\n{}\n\n{effort}", table(&study), verdict::lines(&verdicts)))?;
    }
    if let Some(path) = &options.output {
        crate::draw(path, &figure(&study).render())?;
    }
    Ok(verdicts)
}

/// An error with the number of digits that the paper prints.
fn number(error: usize, value: f64) -> String {
    if error == 2 { format!("{value:.3}") } else { format!("{value:.4}") }
}

fn table(study: &Study) -> String {
    let column = |i: usize| format!("{:<32}", ERRORS[i]);
    let mut lines = vec![
        "Figure 2: errors of a mixture of three vMFs, d = 5, N = 1000: mean (standard deviation) least..most over the seeds".into(),
        "|alpha - alpha*|, |mu - mu*| and |kappa - kappa*| summed over the components (and coordinates), as the paper's code does".into(),
        "poor: single starts that end more than 1e-3 below the best log-likelihood of their sample".into(),
        String::new(),
        format!("estimator      start    kept     {}{}{}ln p / row  poor", column(0), column(1), column(2)),
    ];
    for line in &study.lines {
        let cells = (0..3).map(|i| {
            let Spread { mean, deviation, least, most } = line.errors[i];
            let [mean, deviation, least, most] = [mean, deviation, least, most].map(|x| number(i, x));
            format!("{:<32}", format!("{mean} ({deviation}) {least}..{most}"))
        });
        let kept = format!("1 of {}", line.starts);
        lines.push(format!(
            "{:<13}  {:<7}  {kept:<7}  {}{:<10.5}  {} of {}",
            line.name,
            line.start,
            cells.collect::<String>(),
            line.ln_likelihood.mean,
            line.poor_starts,
            line.all_starts,
        ));
        if let Some(paper) = line.paper {
            let holds = line.holds_paper();
            let cell = |i: usize| format!("{} {}", number(i, paper[i]), if holds[i] { "in range" } else { "OUT OF RANGE" });
            let cells: String = (0..3).map(|i| format!("{:<32}", cell(i))).collect();
            lines.push(format!("  {:<31}{cells}", "the paper's one sample").trim_end().into());
        }
    }
    let cell = |i: usize| format!("{} ({})", number(i, study.theory[i].mean), number(i, study.theory[i].deviation));
    let cells: String = (0..3).map(|i| format!("{:<32}", cell(i))).collect();
    lines.push(format!("{:<33}{cells}", "theory").trim_end().into());
    lines.join("\n")
}

const COLORS: [&str; 2] = ["#4269d0", "#e8871e"];
const PALE: [&str; 2] = ["#b9c7ee", "#f6d3ad"];

/// Left: the objective of EM and SGD in the first sample. Right: the errors of all samples.
fn figure(study: &Study) -> Figure {
    let mut climbs = Vec::new();
    for (way, name) in [(EM, "EM"), (SGD, "SGD")] {
        // Good starts last, on top of poor ones.
        for poor in [true, false] {
            let traces = study.first[way].traces.iter().filter(|trace| is_poor(trace, &study.first) == poor);
            for (i, trace) in traces.enumerate() {
                let points = trace.iter().enumerate().map(|(pass, objective)| (pass as f64 + 1.0, *objective));
                let color = if poor { PALE[way] } else { COLORS[way] };
                let line = LinePlot::new().with_data(points).with_color(color).with_stroke_width(1.6);
                let legend = format!("{name}{}", if poor { ", poor starts" } else { "" });
                climbs.push(Plot::Line(if i == 0 { line.with_legend(legend) } else { line }));
            }
        }
    }
    let climb = Layout::auto_from_plots(&climbs)
        .with_title("The starts of the first sample")
        .with_x_label("pass over the rows")
        .with_y_label("mean ln p of a row")
        .with_legend_position(LegendPosition::InsideBottomRight)
        .with_log_x();

    let mut strip = StripPlot::new().with_jitter(0.25).with_point_size(3.0).with_marker_opacity(0.7);
    let (mut paper, mut colors) = (Vec::new(), Vec::new());
    for (error, symbol) in ["alpha", "mu", "kappa"].into_iter().enumerate() {
        for (way, name) in [(EM, "EM"), (SGD, "SGD")] {
            let line = &study.lines[way];
            let scaled = |errors: &[f64; 3]| errors[error] / study.theory[error].mean;
            colors.push(COLORS[way]);
            strip = strip.with_group(format!("{symbol} {name}"), line.samples.iter().map(scaled));
            paper.extend(line.paper.iter().map(|errors| (colors.len() as f64, scaled(errors))));
        }
    }
    let paper = ScatterPlot::new().with_data(paper).with_color("#111111").with_size(5.0).with_marker(MarkerShape::Diamond);
    let plots = vec![Plot::Strip(strip.with_group_colors(colors)), Plot::Scatter(paper.with_legend("the paper's sample"))];
    let errors = Layout::auto_from_plots(&plots)
        .with_title("Errors of all samples")
        .with_y_label("L1 error / its theoretical mean")
        .with_y_axis_min(0.0)
        .with_y_tick_format(TickFormat::Fixed(1))
        .with_legend_position(LegendPosition::InsideTopRight)
        .with_reference_line(ReferenceLine::horizontal(1.0).with_color("#666666"));
    Figure::new(1, 2).with_plots(vec![climbs, plots]).with_layouts(vec![climb, errors]).with_cell_size(620.0, 440.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(seeds: u64, starts: u64) -> Options {
        Options { seeds, seed: 1, starts, output: None, json: false }
    }

    #[test]
    fn verdicts_hold_for_five_samples() {
        let study = Study::new(&options(5, 20)).unwrap();
        for verdict in study.verdicts() {
            assert!(verdict.is_met(), "{}: {}", verdict.claim, verdict.found);
        }
        for line in &study.lines {
            let [alpha, mu, kappa] = line.errors.map(|error| error.mean);
            assert!((0.01..0.07).contains(&alpha) && (0.04..0.1).contains(&mu) && (2.0..14.0).contains(&kappa), "{line:?}");
        }
        assert!(table(&study).contains("the paper's one sample"));
    }

    #[test]
    fn a_fit_that_missed_a_component_fails() {
        let mut study = Study::new(&options(2, 1)).unwrap();
        study.apart[1] = 0.3;
        assert!(!study.verdicts()[0].is_met());
    }

    #[test]
    fn verdicts_follow_the_errors_of_sgd() {
        let mut study = Study::new(&options(4, 1)).unwrap();
        let base: Vec<[f64; 3]> = (0..4).map(|i| [0.03, 0.07, 5.0 + f64::from(i)]).collect();
        let mut verdict = |gains: [f64; 3]| {
            // Differences vary by at most half of their mean.
            let sgd = |(i, errors): (usize, &[f64; 3])| [0, 1, 2].map(|k| errors[k] - gains[k] * (1.0 + 0.1 * i as f64));
            study.lines[EM].samples.clone_from(&base);
            study.lines[EXACT_EM].samples.clone_from(&base);
            study.lines[SGD].samples = base.iter().enumerate().map(sgd).collect();
            let verdicts = study.verdicts();
            (verdicts[1].holds, verdicts[2].holds)
        };
        use crate::verdict::Holds::{No, Tie, Yes};
        assert_eq!(verdict([0.0, 0.0, 0.0]), (Tie, Yes));
        assert_eq!(verdict([0.0, 0.0, 0.2]), (Yes, No));
        assert_eq!(verdict([0.001, 0.001, 0.2]), (Yes, No));
        assert_eq!(verdict([-0.001, 0.0, 0.2]), (No, No));
        assert_eq!(verdict([0.0, 0.0, -0.2]), (No, No));
    }

    #[test]
    fn the_papers_differences_are_printed() {
        let study = Study::new(&options(3, 1)).unwrap();
        let verdict = &study.verdicts()[1];
        let paper: Vec<f64> = verdict.parts.iter().filter_map(|part| part.paper).collect();
        assert!(
            paper.iter().zip([0.0011, 0.0014, 0.4246]).all(|(found, expected)| (found - expected).abs() < 1e-12),
            "{paper:?}"
        );
        assert!(!verdict.required && verdict.found.contains("(the paper: +0.00140)"), "{}", verdict.found);
    }

    /// Our matching uses relative differences of concentrations; the paper uses absolute ones, over
    /// all permutations.
    #[test]
    fn our_matching_equals_the_papers() {
        let truth = truth().unwrap();
        for seed in 1..4 {
            let rows = draw(&truth, seed).unwrap();
            let (fitted, _) = WAYS[EM].fit(&RowBatch::new(5, &rows).unwrap(), seed, &options(2, 4)).unwrap();
            let errors = ParameterErrors::between(&truth, &fitted).unwrap();
            let total = |order: [usize; 3]| -> f64 {
                let pairs = order.into_iter().enumerate().map(|(i, j)| {
                    let (density, found) = (&truth.components()[i], &fitted.components()[j]);
                    let coordinates = density.mean_direction().iter().zip(found.mean_direction());
                    (truth.weights()[i] - fitted.weights()[j]).abs()
                        + coordinates.map(|(x, y)| (x - y).abs()).sum::<f64>()
                        + (density.concentration() - found.concentration()).abs()
                });
                pairs.sum()
            };
            let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
            let best = orders.map(total).into_iter().fold(f64::INFINITY, f64::min);
            assert!((errors.weights() + errors.mean_directions() + errors.concentrations() - best).abs() < 1e-12);
        }
    }

    #[test]
    fn theory_of_a_sum_of_absolute_values() {
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-15, "{found} {expected}");
        let variance = 1.0 - FRAC_2_PI;
        let independent = Theory::of_absolute_sum(&[1.0, 0.0, 0.0, 4.0], 2);
        close(independent.mean, 3.0 * FRAC_2_PI.sqrt());
        close(independent.deviation, (5.0 * variance).sqrt());
        // For x and -x the sum is 2 |x|.
        close(Theory::of_absolute_sum(&[1.0, -1.0, -1.0, 1.0], 2).deviation, 2.0 * variance.sqrt());
    }

    #[test]
    fn the_figure_has_both_panels() {
        let scene = figure(&Study::new(&options(2, 2)).unwrap()).render();
        let svg = kuva::backend::svg::SvgBackend.render_scene(&scene);
        assert!(svg.contains("pass over the rows") && svg.contains("kappa SGD"));
    }
}
