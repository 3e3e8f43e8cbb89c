//! The merge tree: its costs are losses of likelihood, its cuts nest, its formats are valid.

use crate::samples::{draw, on_threads, random_mixture};
use std::collections::{BTreeMap, BTreeSet};
use vmfkit::m_step::maximise;
use vmfkit::merge_tree::MergeTree;
use vmfkit::stats::ComponentSum;
use vmfkit::store::model::{Description, from_bytes, to_bytes};
use vmfkit::{ConcentrationPolicy, Error, Fitter, Maximisation, Method, Mixture, RowBatch, SufficientStats, VonMisesFisher};

/// Rows with labels, and the mixture and sums of an M step with these labels.
struct Labelled {
    dim: usize,
    values: Vec<f64>,
    labels: Vec<usize>,
    mixture: Mixture,
    sums: Vec<ComponentSum>,
}

impl Labelled {
    fn new(dim: usize, components: usize, how: &Maximisation) -> Self {
        let truth = random_mixture(components, dim, 4.0 * dim as f64, 7);
        let (values, labels) = truth.sample_rows::<f64>(40 * components, 3).unwrap();
        let labels: Vec<usize> = labels.into_iter().map(|label| label as usize).collect();
        let stats = SufficientStats::of_labels(&RowBatch::new(dim, &values).unwrap(), &labels, components).unwrap();
        let (mixture, _) = maximise(&stats, &truth, how).unwrap();
        Labelled { dim, values, labels, mixture, sums: stats.sums() }
    }

    fn rows(&self) -> RowBatch<'_> {
        RowBatch::new(self.dim, &self.values).unwrap()
    }

    /// The sum over rows of the ln density of the cluster's density.
    fn ln_likelihood(&self, labels: &[usize], densities: &[VonMisesFisher]) -> f64 {
        let rows = self.values.chunks_exact(self.dim).zip(labels);
        rows.map(|(row, label)| densities[*label].ln_density(row).unwrap()).sum()
    }
}

fn merged_labels(tree: &MergeTree, labels: &[usize], clusters: usize) -> Vec<usize> {
    let cut = tree.cut(clusters).unwrap();
    labels.iter().map(|label| cut.of_components()[*label] as usize).collect()
}

#[test]
fn costs_are_losses_of_likelihood() {
    let policies = [
        ConcentrationPolicy::Free,
        ConcentrationPolicy::Shared,
        ConcentrationPolicy::Fixed(20.0),
        ConcentrationPolicy::Ratio(1.3),
    ];
    for (dim, components) in [(3, 6), (20, 12)] {
        for policy in policies {
            let how = Maximisation::new().policy(policy);
            let labelled = Labelled::new(dim, components, &how);
            let tree = MergeTree::new(&labelled.mixture, &labelled.sums, &how).unwrap();
            let fine = labelled.mixture.components();
            let concentrations: Vec<f64> = fine.iter().map(VonMisesFisher::concentration).collect();
            let (least, most) = concentrations.iter().fold((f64::INFINITY, 0f64), |(a, b), x| (a.min(*x), b.max(*x)));
            // The bounds of the fit hold for merged clusters, too.
            let own = |k: f64| match policy {
                ConcentrationPolicy::Free => k,
                _ => k.clamp(least, most),
            };
            let rows = labelled.rows();
            let total = |clusters: usize| {
                let labels = merged_labels(&tree, &labelled.labels, clusters);
                let stats = SufficientStats::of_labels(&rows, &labels, clusters).unwrap();
                let start = random_mixture(clusters, dim, 5.0, 1);
                let (free, _) = maximise(&stats, &start, &Maximisation::new().policy(ConcentrationPolicy::Free)).unwrap();
                let density = |density: &VonMisesFisher| {
                    VonMisesFisher::new(density.mean_direction().to_vec(), own(density.concentration())).unwrap()
                };
                labelled.ln_likelihood(&labels, &free.components().iter().map(density).collect::<Vec<_>>())
            };
            for (number, merge) in tree.merges().iter().enumerate() {
                let clusters = components - number;
                let lost = total(clusters) - total(clusters - 1);
                assert!((merge.cost - lost).abs() < 1e-8 * (1.0 + lost), "{dim} {policy}: {} {lost}", merge.cost);
            }
        }
    }
}

#[test]
fn with_tied_concentrations_the_cost_is_that_of_ward() {
    let how = Maximisation::new().policy(ConcentrationPolicy::Shared);
    let labelled = Labelled::new(10, 20, &how);
    let tree = MergeTree::new(&labelled.mixture, &labelled.sums, &how).unwrap();
    let concentration = labelled.mixture.components()[0].concentration();
    let resultant = |density: &VonMisesFisher, sum: &ComponentSum| -> Vec<f64> {
        density.mean_direction().iter().map(|x| (sum.mass - sum.shortfall) * x).collect()
    };
    let densities = labelled.mixture.components().iter();
    let mut nodes: Vec<Vec<f64>> = densities.zip(&labelled.sums).map(|(density, sum)| resultant(density, sum)).collect();
    let length = |vector: &[f64]| vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    for merge in tree.merges() {
        let sum: Vec<f64> = nodes[merge.first].iter().zip(&nodes[merge.second]).map(|(x, y)| x + y).collect();
        let cost = concentration * (length(&nodes[merge.first]) + length(&nodes[merge.second]) - length(&sum));
        assert!((merge.cost - cost).abs() < 1e-9 * cost, "{} {cost}", merge.cost);
        nodes.push(sum);
    }
    let mass: f64 = labelled.sums.iter().map(|sum| sum.mass).sum();
    let last = tree.merges().last().unwrap();
    assert_eq!((last.components, last.mass.round()), (20, mass.round()));
}

#[test]
fn cuts_nest_and_number_clusters_by_their_first_components() {
    let how = Maximisation::new();
    let labelled = Labelled::new(5, 30, &how);
    let tree = MergeTree::new(&labelled.mixture, &labelled.sums, &how).unwrap();
    let layers = tree.layers(&(1..=30).rev().collect::<Vec<_>>()).unwrap();
    assert_eq!(layers[0].of_components(), (0..30).collect::<Vec<u32>>());
    assert_eq!(layers[29].of_components(), [0; 30]);
    for (fine, coarse) in layers.iter().zip(&layers[1..]) {
        assert_eq!((fine.clusters(), fine.groups()), (coarse.clusters() + 1, fine.clusters()));
        let firsts: BTreeSet<u32> = fine.of_components().iter().copied().collect();
        assert_eq!(firsts.len(), fine.clusters());
        let mut seen = BTreeMap::new();
        for (fine, coarse) in fine.of_components().iter().zip(coarse.of_components()) {
            assert_eq!(seen.entry(*fine).or_insert(*coarse), coarse, "clusters nest");
        }
        let mut next = 0;
        for cluster in fine.of_components() {
            assert!(*cluster <= next);
            next = next.max(cluster + 1);
        }
    }
    for wrong in [0, 31] {
        let error = tree.cut(wrong).unwrap_err().to_string();
        assert!(error.contains("the number of clusters must be from 1 to the number of components"), "{error}");
        assert!(error.ends_with(&format!("found: `{wrong}`")), "{error}");
        assert!(tree.mixture(wrong).is_err() && tree.layers(&[3, wrong]).is_err());
    }
}

#[test]
fn rows_have_the_cluster_of_their_most_probable_component() {
    let how = Maximisation::new();
    let labelled = Labelled::new(3, 12, &how);
    let (mixture, rows) = (&labelled.mixture, labelled.rows());
    let tree = MergeTree::new(mixture, &labelled.sums, &how).unwrap();
    let components = mixture.assign(&rows).unwrap();
    for temperature in [1.0, 8.0] {
        let fine = mixture.tempered_responsibilities(&rows, temperature).unwrap();
        for clusters in [1, 4, 12] {
            let cut = tree.cut(clusters).unwrap();
            let labels = cut.assign(mixture, &rows).unwrap();
            let of_components: Vec<u32> = components.iter().map(|k| cut.of_components()[*k as usize]).collect();
            assert_eq!(labels, of_components);
            let probabilities = cut.probabilities(mixture, &rows, temperature).unwrap();
            for (fine, coarse) in fine.chunks_exact(12).zip(probabilities.chunks_exact(clusters)) {
                let mut sums = vec![0.0; clusters];
                fine.iter().zip(cut.of_components()).for_each(|(p, cluster)| sums[*cluster as usize] += p);
                assert!(sums.iter().zip(coarse).all(|(sum, found)| (sum - found).abs() < 1e-12));
            }
            let summary = cut.summarise(mixture, &rows, 3, temperature).unwrap();
            assert_eq!(summary.ranks.len(), clusters.min(3));
            assert_eq!(summary.ranks[0].components, labels);
            let exact = mixture.summarise_tempered(&rows, 1, temperature).unwrap();
            assert_eq!(summary.ln_densities, exact.ln_densities);
            for (row, probabilities) in probabilities.chunks_exact(clusters).enumerate() {
                for rank in &summary.ranks {
                    assert_eq!(rank.responsibilities[row], probabilities[rank.components[row] as usize]);
                }
                let rest: Vec<f64> = summary.ranks[1..].iter().map(|rank| rank.responsibilities[row]).collect();
                assert!(rest.is_sorted_by(|a, b| a >= b));
            }
        }
    }
    let cut = tree.cut(4).unwrap();
    assert!(matches!(cut.probabilities(mixture, &rows, 0.0), Err(Error::Option { .. })));
    assert!(matches!(cut.summarise(mixture, &rows, 1, f64::NAN), Err(Error::Option { .. })));
    let other = random_mixture(5, 3, 8.0, 1);
    assert_eq!(
        cut.assign(&other, &rows).unwrap_err(),
        Error::ComponentMismatch { what: "the mixture of a cut", expected: 12, found: 5 }
    );
}

#[test]
fn a_coarser_mixture_is_the_m_step_of_merged_labels() {
    let policies = [ConcentrationPolicy::Free, ConcentrationPolicy::Shared, ConcentrationPolicy::Ratio(1.2)];
    for policy in policies {
        let how = Maximisation::new().policy(policy);
        let labelled = Labelled::new(8, 15, &how);
        let tree = MergeTree::new(&labelled.mixture, &labelled.sums, &how).unwrap();
        assert_eq!(tree.mixture(15).unwrap(), (labelled.mixture.clone(), labelled.sums.clone()));
        for clusters in [1, 6] {
            let (mixture, sums) = tree.mixture(clusters).unwrap();
            let labels = merged_labels(&tree, &labelled.labels, clusters);
            let stats = SufficientStats::of_labels(&labelled.rows(), &labels, clusters).unwrap();
            let (expected, _) = maximise(&stats, &mixture, &how).unwrap();
            for (found, expected) in mixture.components().iter().zip(expected.components()) {
                assert!((found.concentration() / expected.concentration() - 1.0).abs() < 1e-9, "{policy}");
                let gap = found.mean_direction().iter().zip(expected.mean_direction()).map(|(x, y)| (x - y).abs());
                assert!(gap.fold(0.0, f64::max) < 1e-12);
            }
            assert!(mixture.weights().iter().zip(expected.weights()).all(|(x, y)| (x - y).abs() < 1e-12));
            assert!(sums.iter().zip(stats.sums()).all(|(x, y)| (x.shortfall - y.shortfall).abs() < 1e-9 * y.mass));
            // Its own tree continues this one.
            let again = MergeTree::new(&mixture, &sums, &how).unwrap();
            assert_eq!(again.components(), clusters);
        }
    }
}

#[test]
fn fixed_weights_are_added_or_stay_equal() {
    let how = Maximisation::new().policy(ConcentrationPolicy::Shared).fixed_weights(true);
    let labelled = Labelled::new(4, 6, &Maximisation::new());
    let with_weights = |weights: Vec<f64>| Mixture::new(weights, labelled.mixture.components().to_vec()).unwrap();
    let equal = MergeTree::new(&with_weights(vec![1.0 / 6.0; 6]), &labelled.sums, &how).unwrap();
    let (mixture, _) = equal.mixture(4).unwrap();
    assert!(mixture.weights().iter().all(|weight| (weight - 0.25).abs() < 1e-15));
    let weights = vec![0.3, 0.1, 0.1, 0.2, 0.2, 0.1];
    let unequal = MergeTree::new(&with_weights(weights.clone()), &labelled.sums, &how).unwrap();
    let (mixture, _) = unequal.mixture(2).unwrap();
    let cut = unequal.cut(2).unwrap();
    let first: f64 = weights.iter().zip(cut.of_components()).filter(|(_, k)| **k == 0).map(|(weight, _)| weight).sum();
    assert!((mixture.weights()[0] - first).abs() < 1e-12);
}

/// The leaves below each node of a Newick text with their distance from it; checks the syntax.
fn parse(text: &[u8], at: &mut usize, clades: &mut BTreeSet<BTreeSet<String>>) -> BTreeMap<String, f64> {
    let mut leaves = BTreeMap::new();
    if text[*at] == b'(' {
        while text[*at] != b')' {
            *at += 1;
            for (name, distance) in parse(text, at, clades) {
                assert!(leaves.insert(name, distance).is_none(), "a leaf occurs twice");
            }
            assert!(matches!(text[*at], b',' | b')'));
        }
        *at += 1;
        clades.insert(leaves.keys().cloned().collect());
    } else {
        let mut name = Vec::new();
        if text[*at] == b'\'' {
            *at += 1;
            while text[*at] != b'\'' || text[*at + 1] == b'\'' {
                *at += usize::from(text[*at] == b'\'');
                name.push(text[*at]);
                *at += 1;
            }
            *at += 1;
        } else {
            while !b"(),:;".contains(&text[*at]) {
                name.push(text[*at]);
                *at += 1;
            }
        }
        leaves.insert(String::from_utf8(name).unwrap(), 0.0);
    }
    if text[*at] == b':' {
        let from = *at + 1;
        *at = from + text[from..].iter().position(|c| b"(),;".contains(c)).unwrap();
        let length: f64 = std::str::from_utf8(&text[from..*at]).unwrap().parse().unwrap();
        assert!(length >= 0.0);
        leaves.values_mut().for_each(|distance| *distance += length);
    }
    leaves
}

#[test]
fn newick_has_the_merges_and_any_name() {
    let how = Maximisation::new();
    let labelled = Labelled::new(3, 9, &how);
    let tree = MergeTree::new(&labelled.mixture, &labelled.sums, &how).unwrap();
    let names: Vec<String> = ["plain", "two words", "it's", "a,b", "(x)", "", "semi;colon", "under_score", "\u{e9}t\u{e9}:3"]
        .map(str::to_owned)
        .to_vec();
    for names in [None, Some(&names)] {
        let text = tree.newick(names.map(Vec::as_slice)).unwrap();
        let (mut at, mut clades) = (0, BTreeSet::new());
        let leaves = parse(text.as_bytes(), &mut at, &mut clades);
        assert_eq!(&text[at..], ";");
        let height = tree.merges().last().unwrap().height;
        assert!(leaves.values().all(|distance| (distance - height).abs() < 1e-9 * height), "{text}");
        let name = |k: usize| names.map_or_else(|| k.to_string(), |names| names[k].clone());
        assert_eq!(leaves.keys().cloned().collect::<BTreeSet<_>>(), (0..9).map(name).collect());
        for clusters in 1..9 {
            let cut = tree.cut(clusters).unwrap();
            for cluster in 0..clusters as u32 {
                let members = (0..9).filter(|k| cut.of_components()[*k] == cluster);
                let members: BTreeSet<String> = members.map(name).collect();
                assert!(members.len() == 1 || clades.contains(&members), "{text}");
            }
        }
    }
    assert_eq!(tree.newick(Some(&names[1..])).unwrap_err(), Error::NameCount { expected: 9, found: 8 });
}

#[test]
fn the_linkage_is_one_of_scipy() {
    let how = Maximisation::new().policy(ConcentrationPolicy::Shared);
    let labelled = Labelled::new(3, 40, &how);
    let tree = MergeTree::new(&labelled.mixture, &labelled.sums, &how).unwrap();
    let linkage = tree.linkage();
    assert_eq!(linkage.len(), 39);
    let mut sizes = vec![1.0; 40];
    let mut used = BTreeSet::new();
    for (number, [first, second, height, size]) in linkage.iter().enumerate() {
        let (first, second) = (*first as usize, *second as usize);
        assert!(first < 40 + number && second < 40 + number && used.insert(first) && used.insert(second));
        assert_eq!(*size, sizes[first] + sizes[second]);
        sizes.push(*size);
        let costs = tree.merges()[..=number].iter().map(|merge| merge.cost);
        assert_eq!(*height, costs.fold(0.0, f64::max));
    }
    let order = tree.leaf_order();
    assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), (0..40).collect());
    // The components of every cluster are neighbours in this order.
    for clusters in 1..40 {
        let cut = tree.cut(clusters).unwrap();
        let mut runs: Vec<u32> = order.iter().map(|k| cut.of_components()[*k]).collect();
        runs.dedup();
        assert_eq!(runs.len(), clusters);
    }
}

#[test]
fn one_component_has_no_merges() {
    let mixture = random_mixture(1, 4, 8.0, 1);
    let tree = MergeTree::of_mixture(&mixture, 10.0, &Maximisation::new()).unwrap();
    assert_eq!((tree.components(), tree.merges().len(), tree.linkage().len()), (1, 0, 0));
    assert_eq!((tree.newick(None).unwrap().as_str(), tree.leaf_order()), ("0;", vec![0]));
    assert_eq!(tree.cut(1).unwrap().of_components(), [0]);
    assert_eq!(tree.mixture(1).unwrap().0, mixture);
}

#[test]
fn a_background_is_never_merged() {
    let truth = random_mixture(6, 3, 60.0, 5);
    let values = draw::<f64>(&truth, 3000, 1);
    let rows = RowBatch::new(3, &values).unwrap();
    let fit = Fitter::new(6).background(0.1).fit(&rows).unwrap();
    let tree = MergeTree::new(&fit.mixture, &fit.sums, &Maximisation::new()).unwrap();
    assert_eq!(tree.components(), 6);
    let cut = tree.cut(2).unwrap();
    assert_eq!((cut.clusters(), cut.groups(), cut.of_components()[6]), (2, 3, 2));
    assert!(cut.of_components()[..6].iter().all(|cluster| *cluster < 2));
    let (coarse, sums) = tree.mixture(2).unwrap();
    assert!(coarse.has_background() && coarse.components().len() == 3 && sums.len() == 3);
    assert!((coarse.weights()[2] - fit.mixture.weights()[6]).abs() < 1e-12);
    let probabilities = cut.probabilities(&fit.mixture, &rows, 1.0).unwrap();
    let fine = fit.mixture.responsibilities(&rows).unwrap();
    let same = |(coarse, fine): (&[f64], &[f64])| (coarse[2] - fine[6]).abs() < 1e-12;
    assert!(probabilities.chunks_exact(3).zip(fine.chunks_exact(7)).all(same));
}

#[test]
fn degenerate_mixtures_have_trees() {
    let along = |x: f64, y: f64, k: f64| VonMisesFisher::along(vec![x, y], k).unwrap();
    let equal = Mixture::new(vec![0.25; 4], vec![along(1.0, 0.0, 9.0); 4]).unwrap();
    let uniform = Mixture::new(vec![0.5, 0.5], vec![along(1.0, 0.0, 0.0), along(0.0, 1.0, 0.0)]).unwrap();
    let narrow = Mixture::new(vec![0.5, 0.5], vec![along(1.0, 0.0, 1e10), along(0.0, 1.0, 1e10)]).unwrap();
    let opposite = Mixture::new(vec![0.5, 0.5], vec![along(1.0, 0.0, 9.0), along(-1.0, 0.0, 9.0)]).unwrap();
    let empty = Mixture::new(vec![1.0, 0.0], vec![along(1.0, 0.0, 9.0), along(0.0, 1.0, 9.0)]).unwrap();
    let policies = [
        ConcentrationPolicy::Free,
        ConcentrationPolicy::Shared,
        ConcentrationPolicy::Fixed(0.0),
        ConcentrationPolicy::Ratio(1.5),
    ];
    for mixture in [&equal, &uniform, &narrow, &opposite, &empty] {
        for policy in policies {
            for weight in [1e-250, 1.0, 1e90] {
                let how = Maximisation::new().policy(policy);
                let tree = MergeTree::of_mixture(mixture, weight, &how).unwrap();
                assert!(tree.merges().iter().all(|merge| merge.cost >= 0.0 && merge.cost.is_finite()), "{tree:?}");
                for clusters in 1..=tree.components() {
                    let (coarse, sums) = tree.mixture(clusters).unwrap();
                    assert_eq!((coarse.components().len(), sums.len()), (clusters, clusters));
                    assert!((coarse.weights().iter().sum::<f64>() - 1.0).abs() < 1e-9);
                }
            }
        }
    }
    // Equal components merge without a loss, in the order of their numbers.
    let tree = MergeTree::of_mixture(&equal, 1.0, &Maximisation::new()).unwrap();
    let pairs: Vec<_> = tree.merges().iter().map(|merge| (merge.first, merge.second, merge.cost < 1e-12)).collect();
    assert_eq!(pairs, [(0, 1, true), (4, 2, true), (5, 3, true)]);
    let none = vec![ComponentSum::default(); 2];
    assert!(MergeTree::new(&uniform, &none, &Maximisation::new()).unwrap().mixture(1).is_err());
}

#[test]
fn wrong_input_is_named() {
    let mixture = random_mixture(4, 3, 8.0, 1);
    let error = MergeTree::new(&mixture, &[ComponentSum::new(1.0, 0.1)], &Maximisation::new()).unwrap_err();
    assert_eq!(error.to_string(), "the sums must have 4 components, found: `1`");
    for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(MergeTree::of_mixture(&mixture, weight, &Maximisation::new()), Err(Error::Option { .. })));
    }
    let how = Maximisation::new().policy(ConcentrationPolicy::Ratio(0.5));
    assert!(MergeTree::of_mixture(&mixture, 1.0, &how).is_err());
}

#[test]
fn the_tree_does_not_depend_on_threads() {
    let truth = random_mixture(300, 16, 60.0, 5);
    let tree = || MergeTree::of_mixture(&truth, 1e4, &Maximisation::new()).unwrap();
    assert_eq!(on_threads(1, tree), on_threads(3, tree));
}

#[test]
fn k_means_and_soft_fits_have_trees() {
    let truth = random_mixture(8, 5, 20.0, 5);
    let values = draw::<f64>(&truth, 2000, 1);
    let rows = RowBatch::new(5, &values).unwrap();
    for method in [Method::KMeans, Method::default(), Method::HardEm] {
        let fitter = Fitter::new(8).method(method);
        let how = fitter.maximisation_used();
        let fit = fitter.fit(&rows).unwrap();
        let tree = MergeTree::new(&fit.mixture, &fit.sums, &how).unwrap();
        let (coarse, _) = tree.mixture(3).unwrap();
        assert!(coarse.assign(&rows).is_ok());
    }
}

#[test]
fn fits_continue_from_merged_mixtures_with_their_settings() {
    let truth = random_mixture(3, 5, 40.0, 5);
    let values = draw::<f64>(&truth, 2000, 1);
    let rows = RowBatch::new(5, &values).unwrap();
    let fitter = || Fitter::new(9).policy(ConcentrationPolicy::Shared).background(0.05).seed(3);
    let fit = fitter().fit(&rows).unwrap();
    let description = Description::of(&fit);
    assert_eq!(Fitter::of_model(&fit.mixture, &description).settings(5), fit.settings);
    let tree = MergeTree::new(&fit.mixture, &fit.sums, &fitter().maximisation_used()).unwrap();
    let (coarse, sums) = tree.mixture(3).unwrap();
    let merged = description.of_merged(&coarse, sums);
    assert_eq!((merged.status.as_str(), merged.calibration.is_none(), merged.trace.len()), ("merged", true, 0));
    assert_eq!(merged.notes, ["merged from 9 to 3 components by their statistics, without passes over the rows"]);
    assert_eq!(from_bytes(&to_bytes(&coarse, &merged)).unwrap(), (coarse.clone(), merged.clone()));
    let refined = Fitter::from_mixture(coarse.clone(), &merged).fit(&rows).unwrap();
    let setting = |name: &str| refined.settings.get(name).unwrap_or_default().to_owned();
    assert_eq!(["components", "policy", "seed", "search"].map(setting), ["3", "shared", "3", ""]);
    assert!(refined.mixture.has_background() && refined.calibration.is_some());
    assert!(refined.objective() >= coarse.evaluate(&rows).unwrap().mean() - 1e-9);
    // A mixture of unknown origin is fitted by EM with free concentrations.
    let unknown = Description::default();
    let plain = Fitter::from_mixture(coarse.without_background(), &unknown).fit(&rows).unwrap();
    assert_eq!((plain.settings.get("policy"), plain.settings.get("method")), (Some("free"), Some("em")));
    let note = &unknown.of_merged(&plain.mixture, plain.sums.clone()).notes[0];
    assert!(note.starts_with("merged to 3 components"), "{note}");
}
