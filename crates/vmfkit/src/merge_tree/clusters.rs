//! [`Clusters`]: merged statistics of components, and the cost of joining two, MATH.md (17.1).

use crate::bessel;
use crate::estimate::ConcentrationEstimator;
use crate::m_step::{ConcentrationPolicy, Maximisation};
use crate::mixture::Mixture;
use crate::policy::{Evidence, smallest_within_ratio};
use crate::stats::ComponentSum;
use std::cmp::Ordering;
use vmfkit_kernels::vector::{half_squared_distance, norm};

/// How the concentration of a cluster follows from its rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Concentrations {
    /// One concentration for all clusters.
    Tied(f64),
    /// That of maximum likelihood within these bounds.
    Within { smallest: f64, largest: f64 },
}

impl Concentrations {
    /// The bounds under which the fit itself estimates concentrations.
    pub fn of(mixture: &Mixture, sums: &[ComponentSum], how: &Maximisation) -> Self {
        let dim = mixture.dim();
        match how.policy_used(dim) {
            ConcentrationPolicy::Fixed(concentration) => Self::Tied(concentration),
            // An M step gives all components the same one.
            ConcentrationPolicy::Shared => Self::Tied(mixture.components()[0].concentration()),
            ConcentrationPolicy::Auto | ConcentrationPolicy::Free => {
                Self::Within { smallest: 0.0, largest: how.largest_concentration }
            }
            ConcentrationPolicy::Ratio(ratio) => {
                let largest = how.largest_concentration;
                let of_sum = |sum: &ComponentSum| {
                    let (length, complement) = sum.mean_length();
                    let concentration = ConcentrationEstimator::Exact.estimate(dim, length, complement).min(largest);
                    Evidence { mass: sum.mass, length, complement, concentration }
                };
                let evidence: Vec<Evidence> = sums.iter().filter(|sum| sum.mass > 0.0).map(of_sum).collect();
                let smallest = if evidence.is_empty() { 0.0 } else { smallest_within_ratio(dim, ratio, &evidence) };
                Self::Within { smallest, largest: (ratio * smallest).min(largest) }
            }
        }
    }
}

/// The cost of joining two clusters. Costs are compared first; if they are equal, as those of
/// clusters without rows are, the closer mean directions come first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cost {
    pub cost: f64,
    /// 1 - cos of the angle between the mean directions.
    pub distance: f64,
}

impl Cost {
    /// Above every cost.
    pub const INFINITE: Self = Cost { cost: f64::INFINITY, distance: f64::INFINITY };

    pub fn compare(&self, other: &Self) -> Ordering {
        self.cost.total_cmp(&other.cost).then(self.distance.total_cmp(&other.distance))
    }
}

/// What two clusters are together.
struct Union {
    /// |R_a + R_b|.
    length: f64,
    /// |R_a| + |R_b| - |R_a + R_b|, without cancellation.
    lost: f64,
    distance: f64,
}

/// Clusters of components: at first each component, without a background, is one.
///
/// A cluster has the number of its first component. Numbers of clusters that were merged into
/// others are not used any more.
#[derive(Debug, Clone)]
pub(super) struct Clusters {
    dim: usize,
    concentrations: Concentrations,
    masses: Vec<f64>,
    shortfalls: Vec<f64>,
    /// |R|.
    lengths: Vec<f64>,
    /// k.
    own_concentrations: Vec<f64>,
    /// N (1 - A(k)) - (N - |R|): 0 unless a bound holds the concentration.
    excesses: Vec<f64>,
    directions: Vec<f64>,
}

impl Clusters {
    pub fn new(mixture: &Mixture, sums: &[ComponentSum], concentrations: Concentrations) -> Self {
        let densities = &mixture.components()[..sums.len()];
        let mut clusters = Clusters {
            dim: mixture.dim(),
            concentrations,
            masses: sums.iter().map(|sum| sum.mass).collect(),
            shortfalls: sums.iter().map(|sum| sum.shortfall).collect(),
            lengths: sums.iter().map(|sum| (sum.mass - sum.shortfall).max(0.0)).collect(),
            own_concentrations: densities.iter().map(|density| density.concentration()).collect(),
            excesses: vec![0.0; sums.len()],
            directions: densities.iter().flat_map(|density| density.mean_direction()).copied().collect(),
        };
        (0..sums.len()).for_each(|cluster| clusters.estimate(cluster));
        clusters
    }

    /// The number of components.
    pub fn components(&self) -> usize {
        self.masses.len()
    }

    pub fn mass(&self, cluster: usize) -> f64 {
        self.masses[cluster]
    }

    pub fn shortfall(&self, cluster: usize) -> f64 {
        self.shortfalls[cluster]
    }

    pub fn length(&self, cluster: usize) -> f64 {
        self.lengths[cluster]
    }

    pub fn concentration(&self, cluster: usize) -> f64 {
        self.own_concentrations[cluster]
    }

    pub fn direction(&self, cluster: usize) -> &[f64] {
        &self.directions[cluster * self.dim..][..self.dim]
    }

    /// The cost of joining two clusters, if it is at most `limit`; otherwise any cost above it.
    pub fn cost(&self, one: usize, other: usize, limit: f64) -> Cost {
        let union = self.union(one, other);
        let Union { lost, distance, .. } = union;
        let (smallest, largest) = match self.concentrations {
            Concentrations::Tied(concentration) => return Cost { cost: concentration * lost, distance },
            Concentrations::Within { smallest, largest } => (smallest, largest),
        };
        let mass = self.masses[one] + self.masses[other];
        if !(mass > 0.0) {
            return Cost { cost: 0.0, distance };
        }
        let (length, complement) = self.mean_length(one, other, &union);
        // A lower bound of the concentration, MATH.md (6.1), gives one of the cost.
        let least = (length * (self.dim - 1) as f64 / ((1.0 + length) * complement)).clamp(smallest, largest);
        if least * lost * BELOW > limit {
            return Cost { cost: least * lost * BELOW, distance };
        }
        let concentration = estimate(self.dim, length, complement).clamp(smallest, largest);
        let (first, second) = (self.narrowing(one, concentration), self.narrowing(other, concentration));
        Cost { cost: concentration * lost + (first + second), distance }
    }

    /// Merges the second cluster into the first.
    pub fn merge(&mut self, first: usize, second: usize) {
        let union = self.union(first, second);
        let (length, other_length) = (self.lengths[first], self.lengths[second]);
        let (low, high) = self.directions.split_at_mut(second * self.dim);
        let (direction, other) = (&mut low[first * self.dim..][..self.dim], &high[..self.dim]);
        // Scaled by the longer one, so that tiny masses do not underflow.
        let longer = length.max(other_length);
        if longer > 0.0 {
            let (a, b) = (length / longer, other_length / longer);
            let sum: Vec<f64> = direction.iter().zip(other).map(|(x, y)| a * x + b * y).collect();
            let norm = norm(&sum);
            // Resultants that cancel have no direction; the first stays.
            if norm > 0.0 {
                direction.iter_mut().zip(&sum).for_each(|(x, sum)| *x = sum / norm);
            }
        }
        self.masses[first] += self.masses[second];
        self.shortfalls[first] += self.shortfalls[second] + union.lost;
        self.lengths[first] = union.length;
        self.estimate(first);
    }

    /// Sets the concentration of a cluster. A cluster without rows keeps its own.
    fn estimate(&mut self, cluster: usize) {
        let (mass, shortfall) = (self.masses[cluster], self.shortfalls[cluster]);
        match self.concentrations {
            Concentrations::Tied(concentration) => self.own_concentrations[cluster] = concentration,
            Concentrations::Within { smallest, largest } if mass > 0.0 => {
                let (length, complement) = precise(self.lengths[cluster] / mass, shortfall / mass);
                let found = estimate(self.dim, length, complement);
                let concentration = found.clamp(smallest, largest);
                let is_held = concentration != found;
                let excess = || mass * bessel::mean_length_complement(self.dim, concentration) - shortfall;
                (self.own_concentrations[cluster], self.excesses[cluster]) =
                    (concentration, if is_held { excess() } else { 0.0 });
            }
            Concentrations::Within { .. } => {}
        }
    }

    /// The log-likelihood that a cluster loses by this concentration in place of its own.
    fn narrowing(&self, cluster: usize, concentration: f64) -> f64 {
        let own = self.own_concentrations[cluster];
        if self.masses[cluster] == 0.0 || own == concentration {
            return 0.0;
        }
        let divergence = bessel::divergence(self.dim, own, concentration);
        self.masses[cluster] * divergence + ((own - concentration) * self.excesses[cluster]).max(0.0)
    }

    /// The mean length of two clusters together, and its complement.
    fn mean_length(&self, one: usize, other: usize, union: &Union) -> (f64, f64) {
        let mass = self.masses[one] + self.masses[other];
        let shortfall = self.shortfalls[one] + self.shortfalls[other] + union.lost;
        precise(union.length / mass, shortfall / mass)
    }

    /// MATH.md (8.2), in a form that is the same for both orders of the clusters.
    fn union(&self, one: usize, other: usize) -> Union {
        let (mu, nu) = (self.direction(one), self.direction(other));
        let distance = half_squared_distance(mu, nu).min(2.0);
        let (a, b) = (self.lengths[one], self.lengths[other]);
        let (short, long) = (a.min(b), a.max(b));
        if !(short > 0.0) {
            return Union { length: long, lost: 0.0, distance };
        }
        // Near opposite directions, 2 - distance would cancel.
        let toward =
            if distance > 1.5 { 0.5 * mu.iter().zip(nu).map(|(x, y)| (x + y) * (x + y)).sum::<f64>() } else { 2.0 - distance };
        let ratio = short / long;
        let length = long * ((1.0 - ratio) * (1.0 - ratio) + 2.0 * ratio * toward).sqrt();
        // Both lengths divided by the sum of all three are at most 1.
        let lost = 2.0 * short * (long / (short + long + length)) * distance;
        Union { length, lost, distance }
    }
}

/// Rounding errors of the bound of a cost are smaller than this allows for.
const BELOW: f64 = 1.0 - 1e-9;

/// A mean length and its complement, the larger of which follows from the smaller.
fn precise(length: f64, complement: f64) -> (f64, f64) {
    let complement = complement.clamp(0.0, 1.0);
    if complement < 0.5 { (1.0 - complement, complement) } else { (length.min(1.0), 1.0 - length.min(1.0)) }
}

fn estimate(dim: usize, length: f64, complement: f64) -> f64 {
    ConcentrationEstimator::Exact.estimate(dim, length, complement)
}
