//! What `vmf test` prints.

use super::groups::Sample;
use super::{Finding, Test};
use crate::report::format::{aligned, json_number, probability, readable};
use serde_json::{Value, json};
use vmfkit::SufficientStats;
use vmfkit::inference::Inference;

impl Test {
    pub(super) fn to_json(&self, sample: &Sample, findings: &[Finding]) -> String {
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

    pub(super) fn to_text(&self, sample: &Sample, findings: &[Finding]) -> String {
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

/// The line of a group.
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

/// A number of rows or degrees of freedom; without decimals if it is whole.
fn readable_count(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value}") } else { readable(value) }
}
