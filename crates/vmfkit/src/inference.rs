//! How sure the estimates are: standard errors, intervals, cones, and tests of uniformity and of fit. MATH.md, section 12.

use crate::bessel::{self, mean_length_and_slope};
use crate::block::{Block, Rows};
use crate::distribution::{VonMisesFisher, angle_of_deviation};
use crate::error::{Error, Result};
use crate::estimate::{ConcentrationEstimator, maximum_likelihood, mean_resultant};
use crate::projection::ProjectionLaw;
use crate::sampler::Sampler;
use crate::stats::SufficientStats;
use rayon::prelude::*;

/// A test statistic and how often chance alone would give one as extreme.
#[derive(Debug, Clone, Copy, PartialEq)]
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
/// exactly in the concentrated limit, where 2k(n - r) is chi-squared with (n - 1)(d - 1) degrees of freedom; coverage is tested by
/// simulation.
///
/// ```
/// use vmfkit::{Block, SufficientStats, inference::Inference};
/// let rows = [0.0, 0.0, 1.0, 0.0, 0.6, 0.8, 0.6, 0.0, 0.8, 0.0, -0.28, 0.96];
/// let inference = Inference::new(&SufficientStats::of_block(&Block::new(3, &rows)?))?;
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
        let (length, complement) = mean_resultant(stats)?;
        let concentration = ConcentrationEstimator::Exact.estimate(stats.dim(), length, complement);
        if !concentration.is_finite() {
            return Err(Error::AllRowsEqual { weight: stats.mass(0) });
        }
        Ok(Inference {
            dim: stats.dim(),
            weight: stats.mass(0),
            resultant_length: stats.mass(0) * length,
            shortfall: stats.shortfall(0),
            concentration,
        })
    }

    /// The maximum likelihood estimate of the concentration.
    pub fn concentration(&self) -> f64 {
        self.concentration
    }

    /// The estimate's asymptotic standard error, 1/sqrt(n A'(k)).
    pub fn standard_error(&self) -> f64 {
        1.0 / (self.weight * mean_length_and_slope(self.dim, self.concentration).slope).sqrt()
    }

    /// The maximum of the marginal likelihood of r, which takes out the upward bias of the plain estimate in small samples and
    /// high dimensions: n A(k) = r A(k r), or 0 if r^2 <= n. Schou, doi:10.1093/biomet/65.2.369.
    pub fn corrected_concentration(&self) -> f64 {
        let (n, r) = (self.weight, self.resultant_length);
        if r * r <= n {
            return 0.0;
        }
        let uphill = |k: f64| {
            let (inner, outer) = (mean_length_and_slope(self.dim, k * r), mean_length_and_slope(self.dim, k));
            // r A(k r) - n A(k), by complements when they are the smaller numbers.
            let gain = if outer.value < 0.5 {
                r * inner.value - n * outer.value
            } else {
                n * outer.complement - r * inner.complement - self.shortfall
            };
            gain > 0.0
        };
        let mut high = self.concentration;
        let mut low = 0.5 * high;
        while !uphill(low) && low > 0.0 {
            (low, high) = (0.5 * low, low);
        }
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            *(if uphill(middle) { &mut low } else { &mut high }) = middle;
        }
        0.5 * (low + high)
    }

    /// An interval that holds the concentration with probability `level`.
    ///
    /// Its lower end is 0 when the Rayleigh test would not call the rows non-uniform at (1 - level)/2.
    pub fn concentration_interval(&self, level: f64) -> Result<(f64, f64)> {
        let tail = 0.5 * (1.0 - checked_level(level)?);
        let posterior = Posterior::new(self);
        let low = if self.rayleigh_test().p_value > tail { 0.0 } else { posterior.quantile(tail) };
        Ok((low, posterior.quantile(1.0 - tail)))
    }

    /// The half-angle, in radians, of the cone around the estimated mean direction that holds the true one with probability
    /// `level`.
    ///
    /// Given r, the direction of the resultant is itself vMF with concentration k r; k is averaged over its posterior. In the
    /// concentrated limit this is Fisher's F-cone.
    pub fn mean_direction_cone(&self, level: f64) -> Result<f64> {
        let outside = 1.0 - checked_level(level)?;
        let posterior = Posterior::new(self);
        let laws = posterior.nodes().map(|(k, probability)| {
            // A resultant too long for an f64 concentration is a cone of no width.
            let law = ProjectionLaw::new(self.dim, (k * self.resultant_length).min(f64::MAX));
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

    /// Rayleigh's test of uniformity against a vMF.
    ///
    /// n d R^2 with the correction of Jupp, doi:10.1093/biomet/88.2.505, that leaves its chi-squared law with d degrees of freedom
    /// an error of order 1/n^2.
    pub fn rayleigh_test(&self) -> Test {
        let (n, d) = (self.weight, self.dim as f64);
        let plain = d * self.resultant_length * (self.resultant_length / n);
        let statistic = (1.0 - 0.5 / n) * plain + plain * plain / (2.0 * n * (d + 2.0));
        Test { statistic, p_value: chi_squared_survival(self.dim, statistic) }
    }

    /// Phi(k r) - n Phi(k), MATH.md (12.1), up to nothing: 0 at k = 0.
    fn ln_marginal_likelihood(&self, k: f64) -> f64 {
        let (n, r) = (self.weight, self.resultant_length);
        if self.shortfall < 0.5 * n {
            n * bessel::ln_partition_complement(self.dim, k) - bessel::ln_partition_complement(self.dim, k * r) - k * self.shortfall
        } else {
            bessel::ln_partition(self.dim, k * r) - n * bessel::ln_partition(self.dim, k)
        }
    }

    /// The log posterior density of x = ln k under Jeffreys' prior.
    fn ln_posterior(&self, x: f64) -> f64 {
        let k = x.exp();
        self.ln_marginal_likelihood(k) + x + 0.5 * mean_length_and_slope(self.dim, k).slope.ln()
    }
}

fn checked_level(level: f64) -> Result<f64> {
    if level > 0.0 && level < 1.0 {
        return Ok(level);
    }
    Err(Error::Option { option: "the level of confidence", range: "above 0 and below 1", value: level })
}

/// The upper tail of a chi-squared law: that of 2 k (1 - mu . x) on a sphere of one dimension more as k grows without bound, which at
/// k = 1e30 is the same in every digit.
fn chi_squared_survival(degrees: usize, x: f64) -> f64 {
    const CONCENTRATED: f64 = 1e30;
    let law = ProjectionLaw::new(degrees + 1, CONCENTRATED).expect("at least two dimensions");
    law.deviation_survival(0.5 * x / CONCENTRATED)
}

/// The posterior of ln k on a grid that covers all but e^-36 of its height.
struct Posterior {
    from: f64,
    step: f64,
    density: Vec<f64>,
    cumulative: Vec<f64>,
}

impl Posterior {
    const CELLS: usize = 480;
    const DEPTH: f64 = 36.0;

    fn new(inference: &Inference) -> Self {
        let f = |x: f64| inference.ln_posterior(x);
        let spread = inference.standard_error() / inference.concentration;
        // Rows that cancel altogether have no estimate to begin at; any concentration near 1 sees the same hump.
        let start = if inference.concentration > 0.0 { inference.concentration.ln() } else { 0.0 };
        let first_step = if spread.is_finite() { (0.5 * spread).clamp(1e-12, 0.5) } else { 0.5 };
        let mut top = f(start);
        let mut reach = |direction: f64| {
            let (mut x, mut step) = (start, first_step);
            loop {
                x += direction * step;
                let value = f(x);
                top = top.max(value);
                // (The bounds are those of f64: exp(x) must stay a normal number.)
                if !(value > top - Self::DEPTH) || x.abs() > 690.0 {
                    return x;
                }
                step *= 1.2;
            }
        };
        let (from, to) = (reach(-1.0), reach(1.0));
        let step = (to - from) / Self::CELLS as f64;
        let mut density: Vec<f64> = (0..=Self::CELLS).map(|i| (f(from + step * i as f64) - top).exp()).collect();
        let last = Self::CELLS;
        let at = |i: isize| if (0..=last as isize).contains(&i) { density[i as usize] } else { 0.0 };
        let mut cumulative = vec![0.0; last + 1];
        for i in 0..last {
            // The cubic through four points, integrated over the middle cell.
            let j = i as isize;
            let cell = (13.0 * (at(j) + at(j + 1)) - at(j - 1) - at(j + 2)) / 24.0 * step;
            cumulative[i + 1] = cumulative[i] + cell.max(0.0);
        }
        let total = cumulative[last];
        density.iter_mut().chain(&mut cumulative).for_each(|x| *x /= total);
        Posterior { from, step, density, cumulative }
    }

    /// The concentration below which this share of the posterior lies.
    fn quantile(&self, p: f64) -> f64 {
        let cell = self.cumulative.partition_point(|&c| c < p).clamp(1, Self::CELLS) - 1;
        let (c0, c1) = (self.cumulative[cell], self.cumulative[cell + 1]);
        let (d0, d1) = (self.density[cell] * self.step, self.density[cell + 1] * self.step);
        // The cubic with the cell's cumulative values and densities at its ends.
        let cubic = |z: f64| {
            let rise = c1 - c0;
            c0 + z * (d0 + z * (3.0 * rise - 2.0 * d0 - d1 + z * (d0 + d1 - 2.0 * rise)))
        };
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            *(if cubic(middle) < p { &mut low } else { &mut high }) = middle;
        }
        (self.from + self.step * (cell as f64 + low)).exp()
    }

    /// Concentrations and their probabilities: every fourth point of the grid.
    fn nodes(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        const STRIDE: usize = 4;
        let picked = || self.density.iter().enumerate().step_by(STRIDE);
        let total: f64 = picked().map(|(_, density)| density).sum();
        picked()
            .filter(move |(_, density)| **density > 1e-12 * total)
            .map(move |(i, density)| ((self.from + self.step * i as f64).exp(), density / total))
    }
}

/// Tests whether the rows' projections on the mean direction follow the law that a fitted vMF gives them.
///
/// The statistic is Anderson and Darling's A^2 of the rows' p-values. Because the density was fitted to the same rows, its
/// distribution is found by drawing and fitting `replicates` samples of the same size; the p-value is
/// (1 + those at least as large) / (1 + replicates), exact up to the parameters being estimates. Weights are not allowed: a
/// weighted sample has no replicates.
pub fn goodness_of_fit(block: &Block, density: &VonMisesFisher, replicates: usize, seed: u64) -> Result<Test> {
    if block.weights().is_some() {
        return Err(Error::Option { option: "the weights of a goodness-of-fit test", range: "absent", value: block.len() as f64 });
    }
    if replicates == 0 {
        return Err(Error::Option { option: "the number of replicates", range: "at least 1", value: 0.0 });
    }
    if block.is_empty() {
        return Err(Error::NoRows { weight: 0.0 });
    }
    let statistic = anderson_darling(block, density)?;
    let sampler = Sampler::new(density);
    let mut rows = vec![0.0; block.len() * block.dim()];
    let mut single = match block.rows() {
        Rows::F32(_) => vec![0f32; rows.len()],
        Rows::F64(_) => Vec::new(),
    };
    let mut as_large = 0;
    for replicate in 0..replicates as u64 {
        // Replicates go through the same rounding as the rows.
        let copy = if single.is_empty() {
            sampler.fill(seed, replicate * block.len() as u64, &mut rows)?;
            Block::new(block.dim(), &rows)?
        } else {
            sampler.fill(seed, replicate * block.len() as u64, &mut single)?;
            Block::new(block.dim(), &single)?
        };
        let fitted = maximum_likelihood(&SufficientStats::of_block(&copy), ConcentrationEstimator::Exact)?;
        as_large += usize::from(anderson_darling(&copy, &fitted)? >= statistic);
    }
    Ok(Test { statistic, p_value: (1 + as_large) as f64 / (1 + replicates) as f64 })
}

/// A^2 of the rows' deviations against their law under `density`.
fn anderson_darling(block: &Block, density: &VonMisesFisher) -> Result<f64> {
    let law = density.projection();
    let mut deviations = vec![0.0; block.len()];
    density.deviations(block, &mut deviations)?;
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
