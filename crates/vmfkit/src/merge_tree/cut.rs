//! [`Cut`]: the clusters that are left at one height of a merge tree, and the rows in them.

use crate::capacity;
use crate::error::{Error, Result};
use crate::mixture::{Mixture, Rank, Summary, check_temperature, ln_sum_exp};
use crate::rows::RowBatch;

/// Which cluster each component belongs to.
///
/// The cluster of a row is the one of its most probable component, so that the clusters of fewer
/// clusters contain those of more. The probability of a cluster is the sum of those of its
/// components. So a row can, rarely, have a more probable cluster than its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    of_components: Vec<u32>,
    clusters: usize,
    has_background: bool,
}

impl Cut {
    /// Clusters from the root of each component, numbered in the order of their first components.
    pub(super) fn new(roots: &[usize], has_background: bool) -> Self {
        let mut numbers = vec![u32::MAX; roots.iter().max().map_or(0, |root| root + 1)];
        let mut clusters = 0;
        let mut of_components: Vec<u32> = roots
            .iter()
            .map(|root| {
                if numbers[*root] == u32::MAX {
                    numbers[*root] = clusters;
                    clusters += 1;
                }
                numbers[*root]
            })
            .collect();
        of_components.extend(has_background.then_some(clusters));
        Cut { of_components, clusters: clusters as usize, has_background }
    }

    /// The number of clusters, without a background.
    pub fn clusters(&self) -> usize {
        self.clusters
    }

    /// The cluster of each component. Clusters are numbered in the order of their first components;
    /// a background comes last, by itself.
    pub fn of_components(&self) -> &[u32] {
        &self.of_components
    }

    /// The number of probabilities of a row: one for each cluster and for a background.
    pub fn groups(&self) -> usize {
        self.clusters + usize::from(self.has_background)
    }

    /// The smallest component of each cluster.
    pub(super) fn first_components(&self) -> Vec<usize> {
        let mut firsts = vec![usize::MAX; self.clusters];
        for (component, cluster) in self.of_components.iter().enumerate() {
            if let Some(first) = firsts.get_mut(*cluster as usize) {
                *first = component.min(*first);
            }
        }
        firsts
    }

    /// The cluster of each row, that of its most probable component.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`]; [`Error::ComponentMismatch`] for another mixture.
    pub fn assign(&self, mixture: &Mixture, rows: &RowBatch) -> Result<Vec<u32>> {
        self.check(mixture)?;
        let mut labels = mixture.assign(rows)?;
        labels.iter_mut().for_each(|label| *label = self.of_components[*label as usize]);
        Ok(labels)
    }

    /// The probability of each cluster, and of a background, given the row, row by row. Logits are
    /// divided by the temperature of a [`Calibration`](crate::calibrate::Calibration), or by 1 for
    /// the exact posterior.
    ///
    /// # Errors
    /// As [`Self::assign`]; a temperature that is not finite and above 0; too little memory.
    pub fn probabilities(&self, mixture: &Mixture, rows: &RowBatch, temperature: f64) -> Result<Vec<f64>> {
        self.check(mixture)?;
        check_temperature(temperature)?;
        capacity::check("a probability for each row and cluster", &[rows.len(), self.groups()])?;
        let mut out = vec![0.0; rows.len() * self.groups()];
        mixture.for_each_row(rows, self.groups(), &mut out, |logits, out| self.add_probabilities(logits, temperature, out))?;
        Ok(out)
    }

    /// [`Mixture::summarise_tempered`] with clusters in place of components. The first of each row is
    /// its cluster as in [`Self::assign`]; the others follow by their probabilities, in a tie the
    /// first. There are at most as many ranks as clusters.
    ///
    /// # Errors
    /// As [`Self::probabilities`].
    pub fn summarise(&self, mixture: &Mixture, rows: &RowBatch, top: usize, temperature: f64) -> Result<Summary> {
        self.check(mixture)?;
        check_temperature(temperature)?;
        let top = top.min(self.groups());
        let values_per_row = 2 + 2 * top;
        let mut values = vec![0.0; values_per_row * rows.len()];
        mixture.for_each_row(rows, values_per_row, &mut values, |logits, out| {
            let mut probabilities = vec![0.0; self.groups()];
            self.add_probabilities(logits, temperature, &mut probabilities);
            let entropy: f64 = probabilities.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum();
            out[..2].copy_from_slice(&[ln_sum_exp(logits), entropy.max(0.0)]);
            let own = self.of_components[first_largest(logits)] as usize;
            for rank in out[2..].chunks_exact_mut(2).zip(self.ranked(own, &probabilities, top)) {
                let (values, cluster) = rank;
                (values[0], values[1]) = (cluster as f64, probabilities[cluster]);
            }
        })?;
        let column = |position: usize| values[position.min(values.len())..].iter().step_by(values_per_row).copied();
        let rank = |number: usize| Rank {
            components: column(2 + 2 * number).map(|cluster| cluster as u32).collect(),
            responsibilities: column(3 + 2 * number).collect(),
        };
        Ok(Summary { ln_densities: column(0).collect(), entropies: column(1).collect(), ranks: (0..top).map(rank).collect() })
    }

    /// The row's own cluster, then the others by their probabilities.
    fn ranked(&self, own: usize, probabilities: &[f64], top: usize) -> Vec<usize> {
        let mut others: Vec<usize> =
            if top > 1 { (0..self.groups()).filter(|cluster| *cluster != own).collect() } else { vec![] };
        others.sort_by(|a, b| probabilities[*b].total_cmp(&probabilities[*a]));
        [own].into_iter().chain(others).take(top).collect()
    }

    fn add_probabilities(&self, logits: &[f64], temperature: f64, out: &mut [f64]) {
        let tempered: Vec<f64> = logits.iter().map(|z| z / temperature).collect();
        let total = ln_sum_exp(&tempered);
        out.fill(0.0);
        for (cluster, z) in self.of_components.iter().zip(&tempered) {
            out[*cluster as usize] += (z - total).exp();
        }
    }

    fn check(&self, mixture: &Mixture) -> Result<()> {
        let (expected, found) = (self.of_components.len(), mixture.components().len());
        match expected == found {
            true => Ok(()),
            false => Err(Error::ComponentMismatch { what: "the mixture of a cut", expected, found }),
        }
    }
}

fn first_largest(logits: &[f64]) -> usize {
    (1..logits.len()).fold(0, |best, k| if logits[k] > logits[best] { k } else { best })
}
