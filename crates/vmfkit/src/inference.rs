//! How sure the estimates are: standard errors, intervals, cones, and tests of uniformity and of fit. MATH.md, section 12.

use crate::bessel::{self, mean_length_and_slope};
use crate::density::{VonMisesFisher, angle_of_deviation};
use crate::density_grid::{DensityGrid, upper_tail};
use crate::error::{Error, Result};
use crate::estimate::{ConcentrationEstimator, maximum_likelihood, mean_resultant};
use crate::few_rows;
use crate::projection::ProjectionLaw;
use crate::rows::{RowBatch, Rows};
use crate::saddlepoint::{ln_density_of_sum, ln_slope};
use crate::sampler::Sampler;
use crate::stats::SufficientStats;
use rayon::prelude::*;

/// A test statistic and how often chance alone would give one as extreme.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Test {
    /// The statistic.
    pub statistic: f64,
    /// P(a statistic at least as large | the null hypothesis).
    pub p_value: f64,
}

/// What the statistics of one component say about the concentration and the mean direction, and how surely.
///
/// A row of weight w counts as w rows. The resultant's length r has a distribution that depends on the concentration alone,
/// with likelihood exp(Phi(k r) - n Phi(k)) (MATH.md (12.1)): estimating the mean direction has been paid for. Intervals are
/// the equal-tailed intervals of its posterior under Jeffreys' prior sqrt(A'), which match their nominal level to order 1/n and
/// exactly in the concentrated limit, where 2k(n - r) is chi-squared with (n - 1)(d - 1) degrees of freedom. Coverage is tested by
/// simulation: within a percentage point of the level for identified concentrations, conservative where the rows might be uniform.
/// In small samples of high dimension the plain estimate is biased so far upward that it can lie above its interval; the
/// [corrected](Self::corrected_concentration) one lies inside.
///
/// ```
/// use vmfkit::{RowBatch, SufficientStats, inference::Inference};
/// let rows = [0.0, 0.0, 1.0, 0.0, 0.6, 0.8, 0.6, 0.0, 0.8, 0.0, -0.28, 0.96];
/// let inference = Inference::new(&SufficientStats::of_block(&RowBatch::new(3, &rows)?))?;
/// let (low, high) = inference.concentration_interval(0.95)?;
/// assert!(low < inference.concentration() && inference.concentration() < high);
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Inference {
    dim: usize,
    /// n
    weight: f64,
    /// r = |sum of rows|
    resultant_length: f64,
    /// n - r
    shortfall: f64,
    concentration: f64,
}

impl Inference {
    /// Reads component 0. Rows that are all equal leave nothing to infer from.
    pub fn new(stats: &SufficientStats) -> Result<Self> {
        mean_resultant(stats)?;
        Self::of_component(stats, 0)
    }

    /// The same for any component that has rows.
    pub(crate) fn of_component(stats: &SufficientStats, component: usize) -> Result<Self> {
        let (length, complement) = stats.mean_length(component);
        let concentration = ConcentrationEstimator::Exact.estimate(stats.dim(), length, complement);
        if !concentration.is_finite() {
            return Err(Error::AllRowsEqual { weight: stats.mass(component) });
        }
        Ok(Inference {
            dim: stats.dim(),
            weight: stats.mass(component),
            resultant_length: stats.mass(component) * length,
            shortfall: stats.shortfall(component),
            concentration,
        })
    }

    /// The maximum likelihood estimate of the concentration.
    pub fn concentration(&self) -> f64 {
        self.concentration
    }

    /// The estimate's asymptotic standard error, 1/sqrt(n A'(k)).
    pub fn standard_error(&self) -> f64 {
        (-0.5 * (self.weight.ln() + ln_slope(self.dim, self.concentration))).exp()
    }

    /// The maximum of the marginal likelihood of r, which takes out the upward bias of the plain estimate in small samples and
    /// high dimensions: n A(k) = r A(k r), or 0 if r^2 <= n. Schou, doi:10.1093/biomet/65.2.369.
    pub fn corrected_concentration(&self) -> f64 {
        marginal_concentration(self.dim, &[self.resultant()])
    }

    /// What the marginal likelihood depends on.
    fn resultant(&self) -> Resultant {
        Resultant { weight: self.weight, length: self.resultant_length, shortfall: self.shortfall }
    }

    /// An interval that holds the concentration with probability `level`.
    ///
    /// Its lower end is 0 when the Rayleigh test would not call the rows non-uniform at (1 - level)/2.
    pub fn concentration_interval(&self, level: f64) -> Result<(f64, f64)> {
        let tail = 0.5 * (1.0 - checked_level(level)?);
        let posterior = posterior(self);
        let low = if self.rayleigh_test().p_value > tail { 0.0 } else { posterior.quantile(tail).exp() };
        Ok((low, posterior.quantile(1.0 - tail).exp()))
    }

    /// The half-angle, in radians, of the cone around the estimated mean direction that holds the true one with probability
    /// `level`.
    ///
    /// Given r, the direction of the resultant is itself vMF with concentration k r; k is averaged over its posterior. In the
    /// concentrated limit this is Fisher's F-cone. It is the whole sphere (pi) when the Rayleigh test does not reject uniformity at
    /// 1 - `level`: such rows establish no direction.
    pub fn mean_direction_cone(&self, level: f64) -> Result<f64> {
        let outside = 1.0 - checked_level(level)?;
        if self.rayleigh_test().p_value > outside {
            return Ok(std::f64::consts::PI);
        }
        let posterior = posterior(self);
        let laws = posterior.nodes().map(|(ln_k, probability)| {
            // A resultant too long for an f64 concentration is a cone of no width.
            let law = ProjectionLaw::new(self.dim, (ln_k.exp() * self.resultant_length).min(f64::MAX));
            Ok((law?, probability))
        });
        let laws = laws.collect::<Result<Vec<_>>>()?;
        let survival = |s: f64| laws.iter().map(|(law, probability)| probability * law.deviation_survival(s)).sum::<f64>();
        let typical = ProjectionLaw::new(self.dim, (self.concentration * self.resultant_length).min(f64::MAX))?;
        let (mut low, mut high) = (0.0, typical.deviation_upper_quantile(outside).max(f64::MIN_POSITIVE));
        while high < 2.0 && survival(high) > outside {
            (low, high) = (high, (2.0 * high).min(2.0));
        }
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            *(if survival(middle) > outside { &mut low } else { &mut high }) = middle;
        }
        Ok(angle_of_deviation(high))
    }

    /// Rayleigh's test of uniformity against a vMF: n d R^2, large when the rows share a direction.
    ///
    /// The p-value is exact for two and three rows, MATH.md (12.4) and (12.5). From four rows on, and for weights that are no whole
    /// numbers, it is the normalised saddlepoint approximation of P(|sum of rows| >= r), MATH.md (12.3) and (12.6), which tends to
    /// the chi-squared law with d degrees of freedom as n grows and is good deep in the tail as well. At d = 3, where the
    /// law is known, it is within 3 % for four rows, 2 % for five, 1 % for eight and 0.3 % for twelve, always on the safe side.
    pub fn rayleigh_test(&self) -> Test {
        let (n, d) = (self.weight, self.dim as f64);
        let statistic = d * self.resultant_length * (self.resultant_length / n);
        if self.concentration == 0.0 || n <= 1.0 {
            return Test { statistic, p_value: 1.0 };
        }
        if let Some(p_value) = few_rows::upper_tail_of_length(self.dim, n, self.resultant_length, self.shortfall) {
            return Test { statistic, p_value };
        }
        // In x = ln k with A(k) = r/n, in which r^(d-1) dr is A^(d-1) A' k dx.
        let ln_density = |x: f64| {
            let k = x.exp();
            (d - 1.0) * bessel::mean_length(self.dim, k).ln() + ln_slope(self.dim, k) + x + ln_density_of_sum(self.dim, n, k)
        };
        let usual = bessel::concentration_from_mean_length(self.dim, ((d - 1.0) / (d * n)).sqrt().min(0.9));
        Test { statistic, p_value: upper_tail(ln_density, self.concentration.ln(), usual.ln(), 0.25 / d.sqrt()) }
    }

    /// The log posterior density of x = ln k under Jeffreys' prior.
    fn ln_posterior(&self, x: f64) -> f64 {
        let k = x.exp();
        self.resultant().ln_marginal_likelihood(self.dim, k) + x + 0.5 * ln_slope(self.dim, k)
    }
}

/// How long the sum of some rows is, which is all that is known of their concentration when their mean direction is not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resultant {
    /// n
    pub(crate) weight: f64,
    /// r
    pub(crate) length: f64,
    /// n - r, with its digits
    pub(crate) shortfall: f64,
}

impl Resultant {
    /// Phi(k r) - n Phi(k), MATH.md (12.1).
    pub(crate) fn ln_marginal_likelihood(&self, dim: usize, k: f64) -> f64 {
        let (n, r) = (self.weight, self.length);
        if self.shortfall < 0.5 * n {
            n * bessel::ln_partition_complement(dim, k) - bessel::ln_partition_complement(dim, k * r) - k * self.shortfall
        } else {
            bessel::ln_partition(dim, k * r) - n * bessel::ln_partition(dim, k)
        }
    }
}

/// The common concentration that maximises the product of the marginal likelihoods (12.1) of several groups, each with a mean
/// direction of its own; 0 where the groups are no longer than uniform rows make them, infinite where all have a shortfall of 0.
pub(crate) fn marginal_concentration(dim: usize, groups: &[Resultant]) -> f64 {
    if groups.iter().map(|group| group.length * group.length - group.weight).sum::<f64>() <= 0.0 {
        return 0.0;
    }
    let slope = |k: f64| {
        let outer = mean_length_and_slope(dim, k);
        let gain = |group: &Resultant| {
            let inner = mean_length_and_slope(dim, k * group.length);
            // r A(k r) - n A(k), by complements when they are the smaller numbers.
            if outer.value < 0.5 {
                group.length * inner.value - group.weight * outer.value
            } else {
                group.weight * outer.complement - group.length * inner.complement - group.shortfall
            }
        };
        groups.iter().map(gain).sum::<f64>()
    };
    let (weight, shortfall) = groups.iter().fold((0.0, 0.0), |(n, s), group| (n + group.weight, s + group.shortfall));
    // The estimate that leaves the bias in is above this one.
    let complement = shortfall / weight;
    let mut high = ConcentrationEstimator::Exact.estimate(dim, 1.0 - complement, complement);
    if high == f64::INFINITY {
        return high;
    }
    let mut at_high = slope(high);
    let (mut low, mut at_low) = (0.5 * high, slope(0.5 * high));
    while !(at_low > 0.0) && low > 0.0 {
        (low, at_low, high, at_high) = (0.5 * low, slope(0.5 * low), low, at_low);
    }
    // Regula falsi; a side that stays twice is halved (the Illinois rule).
    let mut last = 0.0;
    for _ in 0..100 {
        let next = low + (high - low) * (at_low / (at_low - at_high));
        if !(next > low && next < high) || high - low <= 1e-15 * high {
            break;
        }
        let value = slope(next);
        if value > 0.0 {
            (low, at_low) = (next, value);
            at_high *= if last > 0.0 { 0.5 } else { 1.0 };
        } else {
            (high, at_high) = (next, value);
            at_low *= if last < 0.0 { 0.5 } else { 1.0 };
        }
        last = value;
    }
    0.5 * (low + high)
}

fn checked_level(level: f64) -> Result<f64> {
    if level > 0.0 && level < 1.0 {
        return Ok(level);
    }
    Err(Error::Option { option: "the level of confidence", range: "above 0 and below 1", value: level })
}

/// The posterior of ln k.
fn posterior(inference: &Inference) -> DensityGrid {
    let spread = inference.standard_error() / inference.concentration;
    // Rows that cancel altogether have no estimate to begin at; any concentration near 1 sees the same hump.
    let start = if inference.concentration > 0.0 { inference.concentration.ln() } else { 0.0 };
    let step = if spread.is_finite() { (0.5 * spread).clamp(1e-12, 0.5) } else { 0.5 };
    DensityGrid::new(|x| inference.ln_posterior(x), start, step)
}

/// Tests whether the rows' projections on the mean direction follow the law that a fitted vMF gives them.
///
/// It sees how far rows are from the mean direction, not to which side: elliptical rows can pass it. That is what
/// [`crate::hypothesis::rotational_symmetry`] is for.
///
/// The statistic is Anderson and Darling's A^2 of the rows' p-values. Because the density was fitted to the same rows, its
/// distribution is found by drawing and fitting `replicates` samples of the same size; the p-value is
/// (1 + those at least as large) / (1 + replicates), exact up to the parameters being estimates. Weights are not allowed: a
/// weighted sample has no replicates. Neither are sparse rows: draws are never sparse.
pub fn projection_test(block: &RowBatch, density: &VonMisesFisher, replicates: usize, seed: u64) -> Result<Test> {
    if block.weights().is_some() {
        return Err(Error::Option { option: "the weights of a projection test", range: "absent", value: block.len() as f64 });
    }
    if replicates == 0 {
        return Err(Error::Option { option: "the number of replicates", range: "at least 1", value: 0.0 });
    }
    if block.is_empty() {
        return Err(Error::NoRows { weight: 0.0 });
    }
    let statistic = anderson_darling(block, density)?;
    let sampler = Sampler::new(density);
    let (mut single, mut double) = match block.rows() {
        Rows::F32(rows) => (vec![0f32; rows.len()], Vec::new()),
        Rows::F64(rows) => (Vec::new(), vec![0f64; rows.len()]),
        Rows::SparseF32(_) | Rows::SparseF64(_) => {
            return Err(Error::Option {
                option: "the number of sparse rows in a projection test",
                range: "0, as draws are not sparse",
                value: block.len() as f64,
            });
        }
    };
    // So that replicates are not the rows again where those were drawn with the same seed.
    let seed = seed ^ 0x676f_6f64_6e65_7373;
    let mut as_large = 0;
    for replicate in 0..replicates as u64 {
        // Replicates go through the same rounding as the rows.
        let copy = if single.is_empty() {
            sampler.fill(seed, replicate * block.len() as u64, &mut double)?;
            RowBatch::new(block.dim(), &double)?
        } else {
            sampler.fill(seed, replicate * block.len() as u64, &mut single)?;
            RowBatch::new(block.dim(), &single)?
        };
        let larger = match maximum_likelihood(&SufficientStats::of_block(&copy), ConcentrationEstimator::Exact) {
            Ok(fitted) => anderson_darling(&copy, &fitted)? >= statistic,
            // Rows so close that a replicate's are rounded to one point: nothing speaks against the model.
            Err(Error::AllRowsEqual { .. }) => true,
            Err(error) => return Err(error),
        };
        as_large += usize::from(larger);
    }
    Ok(Test { statistic, p_value: (1 + as_large) as f64 / (1 + replicates) as f64 })
}

/// A^2 of the rows' deviations against their law under `density`.
fn anderson_darling(block: &RowBatch, density: &VonMisesFisher) -> Result<f64> {
    let law = density.projection();
    let mut deviations = density.deviations(block)?;
    deviations.sort_unstable_by(f64::total_cmp);
    let logs: Vec<(f64, f64)> =
        deviations.par_iter().map(|&s| (law.deviation_ln_cdf(s.min(2.0)), law.deviation_ln_survival(s.min(2.0)))).collect();
    let n = logs.len();
    let sum: f64 = (0..n)
        // A row exactly on the mode (or opposite) would give -infinity; it is as far out as an f64 can tell.
        .map(|i| (2 * i + 1) as f64 * (logs[i].0.max(-745.0) + logs[n - 1 - i].1.max(-745.0)))
        .sum();
    Ok(-(n as f64) - sum / n as f64)
}
