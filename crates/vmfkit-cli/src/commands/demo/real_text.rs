//! Clusters of real questions, calibrated probabilities of new ones, and outliers.

use super::questions::{DIM, Question, Questions, SOURCE, rows};
use crate::report::format::aligned;
use anyhow::Result;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::time::Instant;
use vmfkit::outlier::OutlierScope;
use vmfkit::{Fitter, Mixture, RowBatch};

/// Every fifth question is kept from the fit: 4 of the 20 of each intent.
const NEW_PER: usize = 5;
/// Clusters shown, questions shown of each, and outliers shown.
const CLUSTERS: usize = 3;
const TYPICAL: usize = 2;
const OUTLIERS: usize = 2;
/// Bins of the table of probabilities, the most probable first.
const BINS: [(f64, &str); 4] = [(0.9, "0.9 to 1"), (0.7, "0.7 to 0.9"), (0.5, "0.5 to 0.7"), (0.0, "below 0.5")];
/// The probability from which the exact posterior counts as certain.
const CERTAIN: f64 = 0.999;
/// The level at which outliers are counted.
const LEVEL: f64 = 0.01;

/// A cluster of the questions that were fitted.
struct Cluster {
    questions: usize,
    /// The questions of highest density, best first.
    typical: Vec<&'static str>,
    /// The most frequent intent.
    intent: Option<usize>,
}

/// A question that was not fitted.
struct NewQuestion {
    text: &'static str,
    /// The most probable component and the next.
    components: [usize; 2],
    /// Their calibrated probabilities.
    calibrated: [f64; 2],
    /// Their probabilities by the exact posterior.
    exact: [f64; 2],
    p_value: f64,
    /// Whether its intent is the most frequent one of its cluster.
    is_right: bool,
}

/// A fit of four fifths of the questions, and what it says about the others.
pub struct RealText {
    fitted: usize,
    seconds: f64,
    dispersion: f64,
    temperature: f64,
    /// Expected calibration errors on the questions that were fitted: exact posterior, calibrated.
    errors: [f64; 2],
    clusters: Vec<Cluster>,
    new: Vec<NewQuestion>,
}

impl RealText {
    pub fn fit(questions: &Questions, seed: u64) -> Result<Self> {
        let (new, fitted): (Vec<_>, Vec<_>) = (0..questions.all.len()).partition(|row| row % NEW_PER == NEW_PER - 1);
        let chosen = |rows: Vec<usize>| rows.into_iter().map(|row| questions.all[row]).collect::<Vec<Question>>();
        let (fitted, new) = (chosen(fitted), chosen(new));
        let (fitted_rows, new_rows) = (rows(&fitted), rows(&new));
        let (fitted_batch, new_batch) = (RowBatch::new(DIM, &fitted_rows)?, RowBatch::new(DIM, &new_rows)?);

        let components = questions.intents.len();
        let start = Instant::now();
        let fit = Fitter::new(components).seed(seed).fit(&fitted_batch)?;
        let seconds = start.elapsed().as_secs_f64();
        let calibration = fit.calibration.as_ref().expect("a fit that was not stopped is calibrated");
        let table = fit.outlier_table.as_ref().expect("a fit that was not stopped has a table of scores");
        let clusters = clusters(&fit.mixture, &fitted, &fitted_batch, questions.intents.len())?;
        let summary = calibration.summarise(&fit.mixture, &new_batch, 2)?;
        let exact = fit.mixture.responsibilities(&new_batch)?;
        let p_values = table.p_values(&fit.mixture, &new_batch, OutlierScope::Overall)?;
        let new = new.iter().zip(p_values).enumerate().map(|(row, (question, p_value))| {
            let components = [0, 1].map(|rank: usize| summary.ranks[rank].components[row] as usize);
            NewQuestion {
                text: question.text,
                components,
                calibrated: [0, 1].map(|rank: usize| summary.ranks[rank].responsibilities[row]),
                exact: components.map(|component| exact[row * clusters.len() + component]),
                p_value,
                is_right: clusters[components[0]].intent == Some(question.intent),
            }
        });
        Ok(RealText {
            fitted: fitted.len(),
            seconds,
            dispersion: calibration.dispersion,
            temperature: calibration.temperature,
            errors: [calibration.raw.error(), calibration.calibrated.error()],
            new: new.collect(),
            clusters,
        })
    }

    /// The time of the fit and its calibration.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// The components with the most questions; of equally many the first.
    fn largest(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.clusters.len()).collect();
        order.sort_by_key(|&component| Reverse(self.clusters[component].questions));
        order.truncate(CLUSTERS);
        order
    }

    /// The new question with the highest probability.
    fn clear(&self) -> &NewQuestion {
        self.new.iter().max_by(|a, b| a.calibrated[0].total_cmp(&b.calibrated[0])).expect("there are new questions")
    }

    /// The question whose second component has the highest probability, among those of which the
    /// exact posterior is certain.
    fn ambiguous(&self) -> &NewQuestion {
        let by_second = |a: &&NewQuestion, b: &&NewQuestion| a.calibrated[1].total_cmp(&b.calibrated[1]);
        let certain = self.new.iter().filter(|question| question.exact[0] >= CERTAIN).max_by(by_second);
        certain.or_else(|| self.new.iter().max_by(by_second)).expect("there are new questions")
    }

    /// The new questions with the smallest p-values.
    fn outliers(&self) -> Vec<&NewQuestion> {
        let mut order: Vec<&NewQuestion> = self.new.iter().collect();
        order.sort_by(|a, b| a.p_value.total_cmp(&b.p_value));
        order.truncate(OUTLIERS);
        order
    }

    /// The number of new questions whose p-value is at most [`LEVEL`].
    fn outlier_count(&self) -> usize {
        self.new.iter().filter(|question| question.p_value <= LEVEL).count()
    }

    pub fn to_json(&self) -> Value {
        let clusters: Vec<Value> = self
            .largest()
            .into_iter()
            .map(|component| {
                let Cluster { questions, typical, .. } = &self.clusters[component];
                json!({ "component": component, "questions": questions, "typical": typical })
            })
            .collect();
        let reliability = |probability: fn(&NewQuestion) -> f64| {
            let bins = bins(&self.new, probability);
            let bins: Vec<Value> = BINS
                .iter()
                .zip(&bins)
                .map(|((from, _), bin)| json!({ "from": from, "questions": bin.questions, "right": bin.right }))
                .collect();
            json!({ "mean_probability": mean(self.new.iter().map(probability)), "bins": bins })
        };
        let question = |question: &NewQuestion| {
            let candidates: Vec<Value> = (0..2)
                .map(|rank| {
                    let component = question.components[rank];
                    json!({
                        "component": component,
                        "typical": self.clusters[component].typical.first(),
                        "exact_posterior": question.exact[rank],
                        "calibrated": question.calibrated[rank],
                    })
                })
                .collect();
            json!({ "question": question.text, "p_value": question.p_value, "components": candidates })
        };
        json!({
            "source": SOURCE,
            "dim": DIM,
            "components": self.clusters.len(),
            "fitted": self.fitted,
            "new": self.new.len(),
            "seconds": self.seconds,
            "dispersion": self.dispersion,
            "temperature": self.temperature,
            "expected_calibration_error": { "exact_posterior": self.errors[0], "calibrated": self.errors[1] },
            "clusters": clusters,
            "right": self.right(),
            "exact_posterior": reliability(PROBABILITIES[0]),
            "calibrated": reliability(PROBABILITIES[1]),
            "clear": question(self.clear()),
            "ambiguous": question(self.ambiguous()),
            "outliers": self.outliers().into_iter().map(question).collect::<Vec<_>>(),
            "outlier_level": LEVEL,
            "outlier_count": self.outlier_count(),
        })
    }

    pub fn to_text(&self) -> String {
        let mut text = format!(
            "3. Real text: {} questions of bank customers ({SOURCE}) in {DIM} dimensions\n\n\
             {} components, fitted to {} questions. The largest clusters and their most typical questions:\n\n",
            self.fitted + self.new.len(),
            self.clusters.len(),
            self.fitted,
        );
        for component in self.largest() {
            let Cluster { questions, typical, .. } = &self.clusters[component];
            for (position, typical) in typical.iter().enumerate() {
                let name = if position == 0 { format!("{questions} questions") } else { String::new() };
                text.push_str(&format!("  {name:<15}{}\n", shortened(typical, 80)));
            }
        }
        let [exact, calibrated] = PROBABILITIES.map(|probability| 100.0 * mean(self.new.iter().map(probability)));
        text.push_str(&format!(
            "\nThe embeddings vary {:.0} times as much along the mean directions as the model allows, so the exact\n\
             posterior is overconfident. Calibrated probabilities divide its logits by {:.0}. The other {}\n\
             questions are assigned with a mean probability of {exact:.1} % by the exact posterior and of\n\
             {calibrated:.1} % after calibration; {:.1} % are right:\n\n",
            self.dispersion,
            self.temperature,
            self.new.len(),
            100.0 * self.right(),
        ));
        text.push_str(&self.reliability());
        text.push_str("  right: the question's intent is the most frequent one of its cluster; the fit knows no intents\n\n");
        text.push_str(&self.examples());
        text.push_str(&format!(
            "\nOutliers: {} of the {} questions have a p-value of at most {LEVEL}. The most unusual are\n\n",
            self.outlier_count(),
            self.new.len()
        ));
        for question in self.outliers() {
            text.push_str(&format!("  p = {:.4}     {}\n", question.p_value, shortened(question.text, 80)));
        }
        text
    }

    /// New questions by the probability of their cluster, and how many of them are right.
    fn reliability(&self) -> String {
        let mut text = format!("  {:<14}{:>20}{:>24}\n", "", "exact posterior", "calibrated");
        text.push_str(&format!("  {:<14}{:>11}{:>9}{:>15}{:>9}\n", "probability", "questions", "right", "questions", "right"));
        let [exact, calibrated] = PROBABILITIES.map(|probability| bins(&self.new, probability));
        let percent = |bin: &Bin| bin.right.map_or("-".to_owned(), |right| format!("{:.0} %", 100.0 * right));
        for ((exact, calibrated), (_, name)) in exact.iter().zip(&calibrated).zip(BINS) {
            let (before, after) = (percent(exact), percent(calibrated));
            text.push_str(&format!("  {name:<14}{:>11}{before:>9}{:>15}{after:>9}\n", exact.questions, calibrated.questions));
        }
        text
    }

    /// A clear and an ambiguous question, with their clusters.
    fn examples(&self) -> String {
        let row = |text: &str, indent: usize, numbers: [String; 2]| {
            [vec![format!("{:indent$}{}", "", shortened(text, 66))], numbers.to_vec()].concat()
        };
        let header = ["A clear and an ambiguous question", "exact posterior", "calibrated"];
        let mut table = vec![header.map(str::to_owned).to_vec()];
        for (question, shown) in [(self.clear(), 1), (self.ambiguous(), 2)] {
            table.push(row(question.text, 2, Default::default()));
            table.extend((0..shown).map(|rank| {
                let typical = self.clusters[question.components[rank]].typical.first().map_or("", |text| text);
                let numbers = [question.exact[rank], question.calibrated[rank]].map(|p| format!("{p:.4}"));
                row(&format!("cluster of: {typical}"), 4, numbers)
            }));
        }
        aligned(&table)
    }

    /// The fraction of new questions that are right.
    fn right(&self) -> f64 {
        mean(self.new.iter().map(|question| f64::from(u8::from(question.is_right))))
    }
}

/// The probability of the assigned component by the exact posterior, and the calibrated one.
const PROBABILITIES: [fn(&NewQuestion) -> f64; 2] = [|question| question.exact[0], |question| question.calibrated[0]];

/// The questions whose probability lies in an interval.
struct Bin {
    questions: usize,
    /// The fraction that is right.
    right: Option<f64>,
}

fn bins(questions: &[NewQuestion], probability: impl Fn(&NewQuestion) -> f64) -> [Bin; BINS.len()] {
    let bin = |question: &NewQuestion| BINS.iter().position(|(from, _)| probability(question) >= *from);
    std::array::from_fn(|position| {
        let inside = questions.iter().filter(|question| bin(question) == Some(position));
        let (all, right) = inside.fold((0, 0), |(all, right), question| (all + 1, right + usize::from(question.is_right)));
        Bin { questions: all, right: (all > 0).then(|| right as f64 / all as f64) }
    })
}

/// The clusters of all components: each question belongs to its most probable component.
fn clusters(mixture: &Mixture, questions: &[Question], batch: &RowBatch, intents: usize) -> vmfkit::Result<Vec<Cluster>> {
    let labels = mixture.assign(batch)?;
    let components = mixture.components().len();
    let ln_densities = mixture.component_ln_densities(batch)?;
    let cluster = |component: usize| {
        let mut members: Vec<usize> = (0..questions.len()).filter(|&row| labels[row] as usize == component).collect();
        let ln_density = |row: usize| ln_densities[row * components + component];
        members.sort_by(|&a, &b| ln_density(b).total_cmp(&ln_density(a)));
        let mut counts = vec![0usize; intents];
        members.iter().for_each(|&row| counts[questions[row].intent] += 1);
        Cluster {
            questions: members.len(),
            typical: members.iter().take(TYPICAL).map(|&row| questions[row].text).collect(),
            intent: (0..intents).filter(|&intent| counts[intent] > 0).min_by_key(|&intent| Reverse(counts[intent])),
        }
    };
    Ok((0..components).map(cluster).collect())
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

/// At most this many characters of a text.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let start: String = text.chars().take(most - 3).collect();
    format!("{}...", start.trim_end())
}
