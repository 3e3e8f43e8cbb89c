//! What `vmf tree` prints.

use crate::report::components;
use crate::report::dendrogram::{self, dendrogram};
use crate::report::format::{aligned, json_number, readable};
use anyhow::Result;
use serde_json::{Value, json};
use std::path::Path;
use vmfkit::merge_tree::{Cut, Merge, MergeTree};
use vmfkit::store::model::Description;
use vmfkit::train::Fit;
use vmfkit_io::excerpt;

/// The last steps, which leave few clusters, are printed; --json has all of them.
const STEPS_SHOWN: usize = 20;
/// Components of a cluster that are listed.
const MEMBERS_SHOWN: usize = 12;

/// Everything that is reported.
pub struct Report<'a> {
    pub file: String,
    pub tree: &'a MergeTree,
    pub description: &'a Description,
    pub cut: Option<Cut>,
    pub output: Option<&'a Path>,
    pub refined: Option<Fit>,
}

impl Report<'_> {
    pub fn to_newick(&self) -> Result<String> {
        let labels = &self.description.labels;
        Ok(self.tree.newick((!labels.is_empty()).then_some(labels))? + "\n")
    }

    pub fn to_json(&self) -> String {
        let Report { tree, description, .. } = self;
        let mixture = tree.fitted_mixture();
        let pairs = self.pairs();
        let merges = tree.merges().iter().zip(&pairs).enumerate().map(|(number, (merge, (first, second)))| {
            json!({
                "step": number + 1,
                "first": merge.first,
                "second": merge.second,
                "first_component": first,
                "second_component": second,
                "cost": json_number(merge.cost),
                "height": json_number(merge.height),
                "clusters": tree.components() - number - 1,
                "components": merge.components,
                "mass": json_number(merge.mass),
            })
        });
        let refined = self.refined.as_ref().map(|fit| {
            json!({
                "status": fit.status.name(),
                "passes": fit.trace.len(),
                "rows": fit.rows,
                "objective": json_number(fit.objective()),
                "temperature": fit.calibration.as_ref().map(|calibration| calibration.temperature),
            })
        });
        let object = json!({
            "model": self.file,
            "dim": mixture.dim(),
            "component_count": tree.components(),
            "background": mixture.has_background(),
            "statistics": if description.sums.is_empty() { "expected" } else { "fit" },
            "labels": if description.labels.is_empty() { None } else { Some(&description.labels) },
            "merges": merges.collect::<Vec<Value>>(),
            "leaf_order": tree.leaf_order(),
            "clusters": self.cut.as_ref().map(|cut| self.clusters_to_json(cut)),
            "output": self.output.map(|path| path.display().to_string()),
            "refined": refined,
        });
        format!("{object}\n")
    }

    fn clusters_to_json(&self, cut: &Cut) -> Vec<Value> {
        let cluster = |(number, members): (usize, Vec<usize>)| json!({ "cluster": number, "components": members, "weight": self.weight(&members) });
        members(cut).into_iter().enumerate().map(cluster).collect()
    }

    pub fn to_text(&self) -> String {
        let Report { file, tree, .. } = self;
        let mixture = tree.fitted_mixture();
        let count = components::count(tree.components(), mixture.has_background());
        let mut text = format!("{file}: {count} in dimension {}\n\n", mixture.dim());
        match &self.cut {
            Some(cut) => text.push_str(&self.clusters(cut)),
            None => text.push_str(&self.steps()),
        }
        if let (Some(output), Some(cut)) = (self.output, &self.cut) {
            let count = components::count(cut.clusters(), mixture.has_background());
            let how = match &self.refined {
                Some(fit) => format!("{} after {}", fit.status.name(), components::passes(fit.trace.len(), 0)),
                None => "not fitted to rows, not calibrated".to_owned(),
            };
            text.push_str(&format!("\n{}: {count}, {how}\n", output.display()));
        }
        text
    }

    /// The last merges as a table, and a drawing of a small tree.
    fn steps(&self) -> String {
        let tree = self.tree;
        let merges = tree.merges();
        if merges.is_empty() {
            return "there is nothing to merge\n".to_owned();
        }
        let total: f64 = merges.last().map_or(1.0, |merge| merge.mass);
        let header = ["step", "joined", "cost", "clusters left", "fraction"].map(str::to_owned).to_vec();
        let skipped = merges.len().saturating_sub(STEPS_SHOWN);
        let line = |(number, (merge, (first, second))): (usize, (&Merge, (usize, usize)))| {
            let left = (tree.components() - number - 1).to_string();
            let joined = format!("{} + {}", self.name(first), self.name(second));
            vec![(number + 1).to_string(), joined, readable(merge.cost), left, format!("{:.6}", merge.mass / total)]
        };
        let lines = merges.iter().zip(self.pairs()).enumerate().skip(skipped).map(line);
        let mut text = aligned(&[header].into_iter().chain(lines).collect::<Vec<_>>());
        if skipped > 0 {
            text.push_str(&format!("the first {skipped} steps are not shown (all of them with --json)\n"));
        }
        text.push_str(
            "joined: the first component of each cluster; cost: log-likelihood lost (nats); fraction: of the rows in the cluster\n",
        );
        if tree.components() <= dendrogram::MOST_COMPONENTS {
            text.push_str(&format!("\n{}", dendrogram(tree, |component| self.name(component))));
            text.push_str("distance from the names: square root of the largest cost so far\n");
        }
        text
    }

    /// The components of each cluster.
    fn clusters(&self, cut: &Cut) -> String {
        let mut table = vec![["cluster", "weight", "components"].map(str::to_owned).to_vec()];
        let mut order: Vec<(usize, Vec<usize>)> = members(cut).into_iter().enumerate().collect();
        order.sort_by(|(_, a), (_, b)| self.weight(b).total_cmp(&self.weight(a)));
        let skipped = order.len().saturating_sub(components::COMPONENTS_SHOWN);
        order.truncate(components::COMPONENTS_SHOWN);
        let names: Vec<String> = order.iter().map(|(_, members)| self.names(members)).collect();
        let width = names.iter().map(|names| names.chars().count()).max().unwrap_or(0);
        for ((cluster, members), names) in order.iter().zip(names) {
            table.push(vec![cluster.to_string(), format!("{:.6}", self.weight(members)), format!("{names:<width$}")]);
        }
        table[0][2] = format!("{:<width$}", "components");
        aligned(&table) + &components::more(skipped + order.len(), order.len())
    }

    fn names(&self, members: &[usize]) -> String {
        let shown: Vec<String> = members.iter().take(MEMBERS_SHOWN).map(|component| self.name(*component)).collect();
        match members.len().saturating_sub(MEMBERS_SHOWN) {
            0 => shown.join(", "),
            more => format!("{} and {more} more", shown.join(", ")),
        }
    }

    /// The label of a component, or its number.
    fn name(&self, component: usize) -> String {
        self.description.labels.get(component).map_or_else(|| component.to_string(), |label| excerpt(label.as_bytes()))
    }

    fn weight(&self, members: &[usize]) -> f64 {
        members.iter().map(|component| self.tree.fitted_mixture().weights()[*component]).sum()
    }

    /// The first components of the clusters that each merge joins.
    fn pairs(&self) -> Vec<(usize, usize)> {
        let mut firsts: Vec<usize> = (0..self.tree.components()).collect();
        let pair = |merge: &Merge| {
            let pair = (firsts[merge.first], firsts[merge.second]);
            firsts.push(pair.0);
            pair
        };
        self.tree.merges().iter().map(pair).collect()
    }
}

/// The components of each cluster, without a background.
fn members(cut: &Cut) -> Vec<Vec<usize>> {
    let mut members = vec![Vec::new(); cut.clusters()];
    for (component, cluster) in cut.of_components().iter().enumerate() {
        if let Some(members) = members.get_mut(*cluster as usize) {
            members.push(component);
        }
    }
    members
}
