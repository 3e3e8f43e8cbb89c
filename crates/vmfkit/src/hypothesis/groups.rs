//! [`equal_mean_directions`] and [`equal_concentrations`]: tests of groups.

use super::resultants::{Sum, SumLaw};
use super::{Calibration, Outcome, checked_replicates, monte_carlo_p_value, tails};
use crate::bessel;
use crate::error::{Error, Result};
use crate::estimate::ConcentrationEstimator;
use crate::inference::{Inference, Resultant, marginal_concentration};
use crate::sampler::{DeviationLaw, Gamma, Stream, fill_with_normals};
use crate::stats::SufficientStats;
use rayon::prelude::*;
use vmfkit_kernels::vector::{half_squared_distance, norm};

/// The assumption of [`equal_mean_directions`] about the concentrations of the groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Concentrations {
    /// All groups have the same concentration, as in the test of Watson and Williams.
    /// [`equal_concentrations`] tests this assumption.
    #[default]
    Common,
    /// Each group has its own concentration, and needs at least two different rows.
    Separate,
}

/// Tests whether groups, one per component of `stats`, have equal mean directions.
///
/// Use [`equal_mean_directions_by_permutation`](super::equal_mean_directions_by_permutation) for
/// groups that may not follow a vMF.
///
/// With [`Concentrations::Common`] the statistic is the likelihood ratio (15.3) of MATH.md, and
/// with [`Calibration::HighConcentration`] Watson and Williams' F (15.4), for d = 2 with Stephens'
/// factor 1 + 3/(8k). With [`Concentrations::Separate`] it is the likelihood ratio (15.6).
/// Components without rows are ignored.
///
/// ```
/// use vmfkit::hypothesis::{Calibration, Concentrations, equal_mean_directions};
/// use vmfkit::{RowBatch, Sampler, SufficientStats, VonMisesFisher};
///
/// let mut groups = SufficientStats::zero(2, 3);
/// let mut rows = vec![0.0; 3 * 20];
/// for (group, direction) in [[0.0, 0.6, 0.8], [0.0, 0.8, 0.6]].into_iter().enumerate() {
///     Sampler::new(&VonMisesFisher::new(direction.to_vec(), 40.0)?).fill(group as u64, 0, &mut rows)?;
///     groups.add_component(group, &SufficientStats::of_batch(&RowBatch::new(3, &rows)?), 0)?;
/// }
/// let test = equal_mean_directions(&groups, Concentrations::Common, Calibration::simulation(1))?;
/// assert!(test.p_value < 0.01);
/// # Ok::<(), vmfkit::Error>(())
/// ```
///
/// # Errors
/// [`Error::TestNeeds`] for fewer than two groups; [`Error::AllRowsEqual`]; [`Error::Option`] for
/// no replicates; [`Error::CalibrationNotSupported`] for [`Calibration::Conditional`], and for
/// [`Calibration::HighConcentration`] with separate concentrations.
pub fn equal_mean_directions(
    stats: &SufficientStats,
    concentrations: Concentrations,
    calibration: Calibration,
) -> Result<Outcome> {
    let groups = Groups::new(stats, "a test of equal mean directions")?;
    match concentrations {
        Concentrations::Common => groups.equal_means_of_common_concentration(calibration),
        Concentrations::Separate => groups.equal_means_of_separate_concentrations(stats, calibration),
    }
}

/// Tests whether groups, one per component of `stats`, have equal concentrations. Their mean
/// directions may differ.
///
/// The statistic is the ratio of the marginal likelihoods of the resultant lengths, MATH.md (15.7),
/// which accounts for the estimated mean directions. For concentrated rows it is Bartlett's
/// statistic. With [`Calibration::HighConcentration`] two groups are compared by the two-sided F
/// test of (n - r)/(n - 1), and more by Bartlett's corrected statistic, MATH.md (15.8). Groups of
/// weight 1 or less, which contain no information about a concentration, are ignored.
///
/// # Errors
/// [`Error::TestNeeds`] for fewer than two groups; [`Error::AllRowsEqual`] if the rows of a group
/// are equal; [`Error::Option`] for no replicates; [`Error::CalibrationNotSupported`] for
/// [`Calibration::Conditional`].
pub fn equal_concentrations(stats: &SufficientStats, calibration: Calibration) -> Result<Outcome> {
    const TEST: &str = "a test of equal concentrations";
    let mut groups = Groups::new(stats, TEST)?;
    groups.resultants.retain(|group| group.weight > 1.0);
    groups.check_number(TEST)?;
    if let Some(group) = groups.resultants.iter().find(|group| group.shortfall == 0.0) {
        return Err(Error::AllRowsEqual { weight: group.weight });
    }
    groups.equal_concentrations(calibration)
}

/// The groups that have rows.
struct Groups {
    dim: usize,
    resultants: Vec<Resultant>,
    /// The sum of all groups.
    total: Resultant,
}

impl Groups {
    fn new(stats: &SufficientStats, test: &'static str) -> Result<Self> {
        let of = |stats: &SufficientStats, component: usize| Resultant {
            weight: stats.mass(component),
            length: stats.mass(component) * stats.mean_length(component).0,
            shortfall: stats.shortfall(component),
        };
        let mut total = SufficientStats::zero(1, stats.dim());
        for component in 0..stats.components() {
            total.add_component(0, stats, component)?;
        }
        let resultants = (0..stats.components()).filter(|&group| stats.mass(group) > 0.0).map(|group| of(stats, group));
        let groups = Groups { dim: stats.dim(), resultants: resultants.collect(), total: of(&total, 0) };
        groups.check_number(test)?;
        Ok(groups)
    }

    fn check_number(&self, test: &'static str) -> Result<()> {
        match self.resultants.len() {
            2.. => Ok(()),
            found => Err(Error::TestNeeds { test, needs: "at least two groups", found }),
        }
    }

    fn weight(&self) -> f64 {
        self.total.weight
    }

    /// The sum of n_i - r_i.
    fn shortfall_within(&self) -> f64 {
        self.resultants.iter().map(|group| group.shortfall).sum()
    }

    fn equal_means_of_common_concentration(&self, calibration: Calibration) -> Result<Outcome> {
        let (q, n, across) = (self.resultants.len() as f64, self.weight(), self.dim as f64 - 1.0);
        let within = self.shortfall_within();
        if within == 0.0 {
            return Err(Error::AllRowsEqual { weight: n });
        }
        let degrees = (q - 1.0) * across;
        let statistic = likelihood_ratio_of_means(self.dim, n, within, self.total.shortfall);
        let p_value = match calibration {
            Calibration::LikelihoodRatio => tails::chi_squared(statistic, degrees),
            Calibration::HighConcentration => {
                let degrees = (degrees, (n - q) * across);
                let plain = (self.total.shortfall - within) / within * (degrees.1 / degrees.0);
                // For d = 2 the numerator is too small by a factor of 1 - 3/(8k).
                let f = if self.dim == 2 { plain * (1.0 + 0.375 / self.concentration_within()) } else { plain };
                return Ok(Outcome {
                    statistic: f,
                    degrees_of_freedom: (degrees.0, Some(degrees.1)),
                    p_value: tails::f(f, degrees),
                });
            }
            Calibration::Simulation { replicates, seed } => {
                let k = marginal_concentration(self.dim, &[self.total]);
                let laws: Vec<SumLaw> = self.resultants.iter().map(|group| SumLaw::new(self.dim, group.weight, k)).collect();
                let angle = DeviationLaw::uniform(self.dim - 1);
                simulate(replicates, seed, statistic, |rng| {
                    let (mut total, mut within) = (Sum::ZERO, 0.0);
                    for law in &laws {
                        let sum = law.draw(rng);
                        within += sum.resultant().shortfall;
                        total.add(sum, angle.draw(rng));
                    }
                    likelihood_ratio_of_means(self.dim, n, within, total.resultant().shortfall)
                })?
            }
            Calibration::Conditional => return Err(no_conditional_test(calibration)),
        };
        Ok(Outcome { statistic, degrees_of_freedom: (degrees, None), p_value })
    }

    /// The maximum likelihood estimate of a common concentration with separate mean directions.
    fn concentration_within(&self) -> f64 {
        let complement = (self.shortfall_within() / self.weight()).min(1.0);
        ConcentrationEstimator::Exact.estimate(self.dim, 1.0 - complement, complement)
    }

    fn equal_means_of_separate_concentrations(&self, stats: &SufficientStats, calibration: Calibration) -> Result<Outcome> {
        let degrees = (self.resultants.len() as f64 - 1.0) * (self.dim as f64 - 1.0);
        let with_rows = || (0..stats.components()).filter(|&group| stats.mass(group) > 0.0);
        // A group of equal rows has no finite estimate and is an error.
        let inferences = with_rows().map(|group| Inference::of_component(stats, group)).collect::<Result<Vec<_>>>()?;
        let directions: Vec<Vec<f64>> = with_rows().map(|group| unit(stats.resultant(group))).collect();
        let statistic = separate_likelihood_ratio(self.dim, &self.resultants, &directions);
        let p_value = match calibration {
            Calibration::LikelihoodRatio => tails::chi_squared(statistic, degrees),
            Calibration::Simulation { replicates, seed } => {
                let law = |(group, inference): (&Resultant, &Inference)| {
                    SumLaw::new(self.dim, group.weight, inference.corrected_concentration())
                };
                let laws: Vec<SumLaw> = self.resultants.iter().zip(&inferences).map(law).collect();
                simulate(replicates, seed, statistic, |rng| {
                    let sums: Vec<Sum> = laws.iter().map(|law| law.draw(rng)).collect();
                    let resultants: Vec<Resultant> = sums.iter().map(Sum::resultant).collect();
                    let directions = random_directions(self.dim, &sums, rng);
                    separate_likelihood_ratio(self.dim, &resultants, &directions)
                })?
            }
            Calibration::HighConcentration => {
                return Err(Error::CalibrationNotSupported {
                    test: "a test of equal mean directions with separate concentrations",
                    found: calibration.name(),
                    supported: "simulation or likelihood-ratio",
                });
            }
            Calibration::Conditional => return Err(no_conditional_test(calibration)),
        };
        Ok(Outcome { statistic, degrees_of_freedom: (degrees, None), p_value })
    }

    fn equal_concentrations(&self, calibration: Calibration) -> Result<Outcome> {
        let (q, across) = (self.resultants.len() as f64, self.dim as f64 - 1.0);
        let statistic = marginal_likelihood_ratio(self.dim, &self.resultants);
        let p_value = match calibration {
            Calibration::LikelihoodRatio => tails::chi_squared(statistic, q - 1.0),
            Calibration::HighConcentration => return Ok(concentrations_if_concentrated(&self.resultants, across)),
            Calibration::Simulation { replicates, seed } => {
                let k = marginal_concentration(self.dim, &self.resultants);
                let laws: Vec<SumLaw> = self.resultants.iter().map(|group| SumLaw::new(self.dim, group.weight, k)).collect();
                simulate(replicates, seed, statistic, |rng| {
                    let drawn: Vec<Resultant> = laws.iter().map(|law| law.draw(rng).resultant()).collect();
                    marginal_likelihood_ratio(self.dim, &drawn)
                })?
            }
            Calibration::Conditional => return Err(no_conditional_test(calibration)),
        };
        Ok(Outcome { statistic, degrees_of_freedom: (q - 1.0, None), p_value })
    }
}

fn no_conditional_test(calibration: Calibration) -> Error {
    Error::CalibrationNotSupported {
        test: "a test of groups",
        found: calibration.name(),
        supported: "simulation, likelihood-ratio or high-concentration",
    }
}

/// The Monte Carlo p-value of `observed`; each replicate has its own stream of random numbers.
fn simulate(replicates: usize, seed: u64, observed: f64, statistic: impl Fn(&mut Stream) -> f64 + Sync) -> Result<f64> {
    let replicates = checked_replicates(replicates)?;
    let seed = Stream::derive(seed, 0x7465_7374);
    // Differences within rounding errors count as equality.
    let least = observed * (1.0 - 1e-10);
    let as_large = (0..replicates as u64).into_par_iter().filter(|&i| statistic(&mut Stream::new(seed, i)) >= least).count();
    Ok(monte_carlo_p_value(as_large, replicates))
}

/// MATH.md (15.3), from the shortfall n - r within groups and in total.
fn likelihood_ratio_of_means(dim: usize, n: f64, within: f64, total: f64) -> f64 {
    let divergence = |shortfall: f64| {
        let complement = (shortfall / n).clamp(0.0, 1.0);
        let k = ConcentrationEstimator::Exact.estimate(dim, 1.0 - complement, complement);
        bessel::divergence_from_uniform(dim, k.min(f64::MAX))
    };
    (2.0 * n * (divergence(within) - divergence(total))).max(0.0)
}

/// MATH.md (15.7).
fn marginal_likelihood_ratio(dim: usize, groups: &[Resultant]) -> f64 {
    let best = |groups: &[Resultant]| {
        let k = marginal_concentration(dim, groups);
        if k == f64::INFINITY {
            return k;
        }
        groups.iter().map(|group| group.ln_marginal_likelihood(dim, k)).sum::<f64>()
    };
    let separate: f64 = groups.iter().map(|group| best(std::slice::from_ref(group))).sum();
    (2.0 * (separate - best(groups))).max(0.0)
}

/// The F test of two variances, or Bartlett's test of more, with (n - 1)(d - 1) degrees of freedom
/// each; MATH.md (15.8).
fn concentrations_if_concentrated(groups: &[Resultant], across: f64) -> Outcome {
    let degrees = |group: &Resultant| (group.weight - 1.0) * across;
    let variance = |group: &Resultant| 2.0 * group.shortfall / degrees(group);
    if let [first, second] = groups {
        let f = variance(first) / variance(second);
        let (above, below) = (degrees(first), degrees(second));
        let smaller = tails::f(f, (above, below)).min(tails::f(1.0 / f, (below, above)));
        return Outcome { statistic: f, degrees_of_freedom: (above, Some(below)), p_value: (2.0 * smaller).min(1.0) };
    }
    let total: f64 = groups.iter().map(degrees).sum();
    let pooled = groups.iter().map(|group| 2.0 * group.shortfall).sum::<f64>() / total;
    let spread: f64 = groups.iter().map(|group| degrees(group) * (pooled / variance(group)).ln()).sum();
    let free = groups.len() as f64 - 1.0;
    let correction = 1.0 + (groups.iter().map(|group| 1.0 / degrees(group)).sum::<f64>() - 1.0 / total) / (3.0 * free);
    let statistic = spread / correction;
    Outcome { statistic, degrees_of_freedom: (free, None), p_value: tails::chi_squared(statistic, free) }
}

/// MATH.md (15.6): the likelihood ratio of separate and common mean directions, with separate
/// concentrations.
fn separate_likelihood_ratio(dim: usize, groups: &[Resultant], directions: &[Vec<f64>]) -> f64 {
    // The most likely concentration of a group whose mean direction makes an angle with its
    // resultant; `deviation` is 1 - cosine of the angle.
    let concentration = |group: &Resultant, deviation: f64| {
        let complement = ((group.shortfall + group.length * deviation) / group.weight).min(1.0);
        ConcentrationEstimator::Exact.estimate(dim, 1.0 - complement, complement).min(f64::MAX)
    };
    let ln_likelihood = |deviations: &[f64]| {
        let divergence = |(group, &deviation): (&Resultant, &f64)| {
            group.weight * bessel::divergence_from_uniform(dim, concentration(group, deviation))
        };
        groups.iter().zip(deviations).map(divergence).sum::<f64>()
    };
    // The likelihood is convex in the projections of the resultants, so it is above its tangent,
    // and each step to the maximum of the tangent increases it.
    let mut deviations = vec![0.0; groups.len()];
    let free = ln_likelihood(&deviations);
    let mut best = f64::NEG_INFINITY;
    for _ in 0..500 {
        let pulls: Vec<f64> = groups.iter().zip(&deviations).map(|(group, &s)| group.length * concentration(group, s)).collect();
        let scale = pulls.iter().fold(0.0, |most: f64, pull| most.max(*pull));
        if scale == 0.0 {
            break;
        }
        let mut common = vec![0.0; directions[0].len()];
        for (direction, pull) in directions.iter().zip(&pulls) {
            common.iter_mut().zip(direction).for_each(|(sum, x)| *sum += pull / scale * x);
        }
        let common = unit(&common);
        deviations.iter_mut().zip(directions).for_each(|(s, direction)| *s = half_squared_distance(direction, &common));
        let found = ln_likelihood(&deviations);
        if found - best <= 1e-12 * free.abs() {
            best = best.max(found);
            break;
        }
        best = found;
    }
    (2.0 * (free - best.max(0.0))).max(0.0)
}

/// Random directions of sums whose components orthogonal to mu are independent and uniform.
///
/// The coordinates span all sums: mu, then one axis per sum. The component of a normal vector
/// orthogonal to the first j axes has the length of a chi variate.
fn random_directions(dim: usize, sums: &[Sum], rng: &mut Stream) -> Vec<Vec<f64>> {
    let axes = sums.len().min(dim - 1);
    let mut directions = Vec::with_capacity(sums.len());
    for (j, sum) in sums.iter().enumerate() {
        let mut direction = vec![0.0; axes + 1];
        let shared = j.min(axes);
        fill_with_normals(rng, &mut direction[1..=shared]);
        if j < axes {
            direction[j + 1] = chi(dim - 1 - j, rng);
        }
        let length = norm(&direction);
        direction.iter_mut().for_each(|x| *x *= sum.across / length);
        direction[0] = sum.weight - sum.lost;
        directions.push(unit(&direction));
    }
    directions
}

/// A chi variate: the length of a vector of standard normals.
fn chi(degrees: usize, rng: &mut Stream) -> f64 {
    if degrees > 1 {
        return (2.0 * Gamma::new(0.5 * degrees as f64).draw(rng)).sqrt();
    }
    let mut normal = [0.0];
    fill_with_normals(rng, &mut normal);
    normal[0].abs()
}

fn unit(vector: &[f64]) -> Vec<f64> {
    let length = norm(vector);
    if length > 0.0 { vector.iter().map(|x| x / length).collect() } else { vector.to_vec() }
}
