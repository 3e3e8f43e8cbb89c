//! [`MergeTree`]: the components of one fit merged step by step, so that it serves every smaller
//! number of clusters without another pass over the rows.
//!
//! `clusters` has the statistics and the cost, `agglomerate` the search, `cut` the labels and
//! probabilities of rows, `newick` the tree as text.

mod agglomerate;
mod clusters;
mod cut;
mod newick;
#[cfg(test)]
mod tests;

pub use cut::Cut;

use crate::calibrate::leave_one_out::expected_sums;
use crate::density::VonMisesFisher;
use crate::error::{Error, Result};
use crate::m_step::{Maximisation, maximise};
use crate::mixture::Mixture;
use crate::stats::{ComponentSum, SufficientStats};
use clusters::{Clusters, Concentrations};

/// The tree of the components of a mixture, merged by spherical Ward linkage.
///
/// Each step joins the two clusters whose merging loses the least classification log-likelihood,
/// MATH.md (17.1): k (|R_a| + |R_b| - |R_a + R_b|) if concentrations are tied, with R the resultants
/// of the clusters. The tree depends on the statistics of the last M step alone, not on the rows.
/// Merging uses O(K d) memory, and usually O(K^2 d) time: 5,000 components in 384 dimensions take
/// seconds.
///
/// Costs are in nats, and those of all merges add up. If rows do not fit the model, costs are too
/// large, as the exact posterior is too sure; their order is what counts.
///
/// A background is never merged. In a tie the clusters with the closer mean directions are joined,
/// then those that contain the components of the smallest numbers.
///
/// Use [`Self::cut`] for the labels of rows under a given number of clusters, and
/// [`Self::mixture`] for a mixture with fewer components, from which EM may continue.
///
/// ```
/// use vmfkit::{Fitter, Maximisation, Mixture, RowBatch, VonMisesFisher, merge_tree::MergeTree};
/// let along = |x, y| VonMisesFisher::along(vec![x, y, 1.0], 300.0);
/// let truth = Mixture::new(vec![0.25; 4], vec![along(5.0, 0.0)?, along(5.0, 1.0)?, along(-5.0, 0.0)?, along(-5.0, 1.0)?])?;
/// let (values, _) = truth.sample_rows::<f64>(2000, 1)?;
/// let rows = RowBatch::new(3, &values)?;
/// let fit = Fitter::new(4).fit(&rows)?;
/// let tree = MergeTree::new(&fit.mixture, &fit.sums, &Maximisation::new())?;
/// // Two pairs of near clusters: the last merge costs far more than the others.
/// assert!(tree.merges()[2].cost > 5.0 * tree.merges()[1].cost);
/// let labels = tree.cut(2)?.assign(&fit.mixture, &rows)?;
/// assert_eq!(labels.iter().max(), Some(&1));
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct MergeTree {
    mixture: Mixture,
    /// Of all components, a background last.
    sums: Vec<ComponentSum>,
    how: Maximisation,
    concentrations: Concentrations,
    merges: Vec<Merge>,
}

/// One merge of a [`MergeTree`].
///
/// Nodes are numbered as in scipy: those below the number of components are components, and merge
/// number i, from 0, makes the node K + i.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Merge {
    /// The node that contains the component with the smaller number.
    pub first: usize,
    /// The other node.
    pub second: usize,
    /// The classification log-likelihood that the merge loses, in nats.
    pub cost: f64,
    /// The largest cost so far. A merge can cost less than an earlier one, since a merged cluster can
    /// lie nearer to a third than its parts did; heights never decrease.
    pub height: f64,
    /// The number of components in the merged cluster.
    pub components: usize,
    /// The total weight of its rows.
    pub mass: f64,
}

impl MergeTree {
    /// The tree of a mixture and the mass and shortfall of each component under its last M step,
    /// [`Fit::sums`](crate::train::Fit). `how` are the settings of that M step.
    ///
    /// # Errors
    /// [`Error::ComponentMismatch`] unless there is a sum for each component; invalid settings.
    pub fn new(mixture: &Mixture, sums: &[ComponentSum], how: &Maximisation) -> Result<Self> {
        let (expected, found) = (mixture.components().len(), sums.len());
        if expected != found {
            return Err(Error::ComponentMismatch { what: "the sums", expected, found });
        }
        how.check(expected)?;
        let merged = &sums[..expected - usize::from(mixture.has_background())];
        let concentrations = Concentrations::of(mixture, merged, how);
        let steps = agglomerate::agglomerate(&mut Clusters::new(mixture, merged, concentrations));
        let merges = merges(&steps, merged);
        Ok(MergeTree { mixture: mixture.clone(), sums: sums.to_vec(), how: how.clone(), concentrations, merges })
    }

    /// The tree of a mixture of which no sums are known: those that it expects of rows of this total
    /// weight.
    ///
    /// # Errors
    /// A weight that is not finite and above 0; invalid settings.
    pub fn of_mixture(mixture: &Mixture, weight: f64, how: &Maximisation) -> Result<Self> {
        if !(weight > 0.0 && weight.is_finite()) {
            return Err(Error::Option { option: "the row weight", range: "finite and above 0", value: weight });
        }
        Self::new(mixture, &expected_sums(mixture, weight), how)
    }

    /// The mixture whose components the tree merges.
    pub fn fitted_mixture(&self) -> &Mixture {
        &self.mixture
    }

    /// The number of components, without a background.
    pub fn components(&self) -> usize {
        self.merges.len() + 1
    }

    /// All merges, in order: one less than there are components.
    pub fn merges(&self) -> &[Merge] {
        &self.merges
    }

    /// The clusters that are left when this many remain.
    ///
    /// # Errors
    /// [`Error::Option`] unless the number is from 1 to the number of components, a background not
    /// counted.
    pub fn cut(&self, clusters: usize) -> Result<Cut> {
        let components = self.components();
        if !(1..=components).contains(&clusters) {
            let range = "from 1 to the number of components without a background";
            return Err(Error::Option { option: "the number of clusters", range, value: clusters as f64 });
        }
        let applied = components - clusters;
        let mut roots: Vec<usize> = (0..components + applied).collect();
        for (merge, node) in self.merges[..applied].iter().zip(components..components + applied).rev() {
            (roots[merge.first], roots[merge.second]) = (roots[node], roots[node]);
        }
        Ok(Cut::new(&roots[..components], self.mixture.has_background()))
    }

    /// The cuts with these numbers of clusters. They nest: rows that share a cluster also share one in
    /// every cut with fewer clusters.
    ///
    /// # Errors
    /// As [`Self::cut`].
    pub fn layers(&self, clusters: &[usize]) -> Result<Vec<Cut>> {
        clusters.iter().map(|clusters| self.cut(*clusters)).collect()
    }

    /// The mixture with this many components, a background not counted, that an M step makes from the
    /// merged statistics, and these statistics. Its components are numbered as the clusters of
    /// [`Self::cut`].
    ///
    /// Weights that the fit kept fixed are added; if they were equal, they are equal again.
    ///
    /// Its labels are not those of the cut: a component is a single density again.
    /// [`Fitter::from_mixture`](crate::Fitter::from_mixture) continues the fit from it.
    ///
    /// # Errors
    /// As [`Self::cut`]; [`Error::NoRows`] if all sums are 0.
    pub fn mixture(&self, clusters: usize) -> Result<(Mixture, Vec<ComponentSum>)> {
        let cut = self.cut(clusters)?;
        if clusters == self.components() {
            return Ok((self.mixture.clone(), self.sums.clone()));
        }
        let merged = self.merged(clusters);
        let firsts = cut.first_components();
        let (last, has_background) = (self.components(), self.mixture.has_background());
        let background = has_background.then(|| (self.sums[last], &self.mixture.components()[last]));
        let masses = firsts.iter().map(|first| merged.mass(*first)).chain(background.map(|(sum, _)| sum.mass));
        let masses: Vec<f64> = masses.collect();
        let shortfalls = firsts.iter().map(|first| merged.shortfall(*first)).chain(background.map(|(sum, _)| sum.shortfall));
        let scaled = |direction: &[f64], length: f64| direction.iter().map(|x| length * x).collect::<Vec<f64>>();
        let resultants = firsts.iter().map(|first| scaled(merged.direction(*first), merged.length(*first)));
        let of_background =
            background.map(|(sum, density)| scaled(density.mean_direction(), (sum.mass - sum.shortfall).max(0.0)));
        let values = [0.0, masses.iter().sum()].into_iter().chain(masses.iter().copied()).chain(shortfalls);
        let values: Vec<f64> = values.chain(resultants.chain(of_background).flatten()).collect();
        let stats = SufficientStats::of_values(masses.len(), self.mixture.dim(), values.into_iter())
            .expect("finite sums of the mixture's shape");
        let density = |first: &usize| VonMisesFisher::restored(merged.direction(*first).to_vec(), merged.concentration(*first));
        let mut densities = firsts.iter().map(density).collect::<Result<Vec<_>>>()?;
        densities.extend(background.map(|(_, density)| density.clone()));
        let previous = Mixture::of_parts(self.weights(&cut), densities, has_background);
        let (mixture, _) = maximise(&stats, &previous, &self.how)?;
        Ok((mixture, stats.sums()))
    }

    /// The statistics after all merges that leave this many clusters.
    fn merged(&self, clusters: usize) -> Clusters {
        let components = self.components();
        let mut merged = Clusters::new(&self.mixture, &self.sums[..components], self.concentrations);
        // The first component of each node.
        let mut firsts: Vec<usize> = (0..components).collect();
        for merge in &self.merges[..components - clusters] {
            merged.merge(firsts[merge.first], firsts[merge.second]);
            firsts.push(firsts[merge.first]);
        }
        merged
    }

    /// The weights of the clusters.
    fn weights(&self, cut: &Cut) -> Vec<f64> {
        let weights = self.mixture.weights();
        let (fitted, background) = weights.split_at(self.components());
        let rest = 1.0 - background.iter().sum::<f64>();
        if self.how.fixed_weights && fitted.iter().all(|weight| *weight == fitted[0]) {
            let equal = vec![rest / cut.clusters() as f64; cut.clusters()];
            return equal.into_iter().chain(background.iter().copied()).collect();
        }
        let mut sums = vec![0.0; cut.clusters() + background.len()];
        cut.of_components().iter().zip(weights).for_each(|(cluster, weight)| sums[*cluster as usize] += weight);
        sums
    }

    /// The merges as the linkage matrix of scipy: both nodes, height and number of components, row by
    /// row. Heights never decrease; [`Merge::cost`] has the costs themselves.
    ///
    /// Without a merge, for a single component, it is empty, which scipy does not accept.
    pub fn linkage(&self) -> Vec<[f64; 4]> {
        let row = |merge: &Merge| [merge.first as f64, merge.second as f64, merge.height, merge.components as f64];
        self.merges.iter().map(row).collect()
    }

    /// The components in an order in which no branches of the tree cross.
    pub fn leaf_order(&self) -> Vec<usize> {
        let components = self.components();
        let (mut order, mut open) = (Vec::with_capacity(components), vec![components + self.merges.len() - 1]);
        while let Some(node) = open.pop() {
            match node.checked_sub(components) {
                None => order.push(node),
                Some(merge) => open.extend([self.merges[merge].second, self.merges[merge].first]),
            }
        }
        order
    }

    /// The tree in Newick format, with heights as distances from the leaves. Components are named by
    /// their numbers, or by `names`, which are quoted where the format needs it.
    ///
    /// ```
    /// # use vmfkit::{Maximisation, Mixture, VonMisesFisher, merge_tree::MergeTree};
    /// let along = |x, y| VonMisesFisher::along(vec![x, y], 10.0);
    /// let mixture = Mixture::new(vec![0.5, 0.5], vec![along(1.0, 0.0)?, along(1.0, 0.0)?])?;
    /// let tree = MergeTree::of_mixture(&mixture, 100.0, &Maximisation::new())?;
    /// assert_eq!(tree.newick(None)?, "(0:0.0,1:0.0);");
    /// let names = ["a card, lost".to_owned(), "it's stolen".to_owned()];
    /// assert_eq!(tree.newick(Some(&names))?, "('a card, lost':0.0,'it''s stolen':0.0);");
    /// # Ok::<(), vmfkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NameCount`] unless there is a name for each component, a background not counted.
    pub fn newick(&self, names: Option<&[String]>) -> Result<String> {
        newick::newick(self, names)
    }
}

/// Steps between clusters as merges of nodes.
fn merges(steps: &[agglomerate::Step], sums: &[ComponentSum]) -> Vec<Merge> {
    let components = sums.len();
    let mut nodes: Vec<usize> = (0..components).collect();
    let mut masses: Vec<f64> = sums.iter().map(|sum| sum.mass).collect();
    let (mut sizes, mut height) = (vec![1; components], 0f64);
    let merge = |(number, step): (usize, &agglomerate::Step)| {
        let agglomerate::Step { first, second, cost } = *step;
        height = height.max(cost);
        (sizes[first], masses[first]) = (sizes[first] + sizes[second], masses[first] + masses[second]);
        let (node, other) = (nodes[first], nodes[second]);
        nodes[first] = components + number;
        Merge { first: node, second: other, cost, height, components: sizes[first], mass: masses[first] }
    };
    steps.iter().enumerate().map(merge).collect()
}
