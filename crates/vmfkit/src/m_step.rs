//! The M step, which keeps concentrations within bounds, and the gradient of the log-likelihood.

use crate::bessel;
use crate::density::VonMisesFisher;
use crate::error::{Error, Result};
use crate::estimate::ConcentrationEstimator;
use crate::mixture::Mixture;
pub use crate::note::Note;
pub use crate::policy::ConcentrationPolicy;
use crate::policy::{Evidence, NEARLY_EQUAL_ROWS, smallest_within_ratio};
use crate::sampler::{Stream, fill_with_normals};
use crate::stats::SufficientStats;
use vmfkit_kernels::vector::{dot, norm};

/// The settings of the M step, [`maximise`].
///
/// ```
/// use vmfkit::m_step::{ConcentrationPolicy, Maximisation};
/// let how = Maximisation::new().policy(ConcentrationPolicy::Shared).smallest_weight(1e-3);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Maximisation {
    pub(crate) estimator: ConcentrationEstimator,
    pub(crate) policy: ConcentrationPolicy,
    pub(crate) largest_concentration: f64,
    pub(crate) smallest_weight: f64,
    pub(crate) fixed_weights: bool,
    pub(crate) dispersion: Option<f64>,
}

impl Default for Maximisation {
    fn default() -> Self {
        Maximisation {
            estimator: ConcentrationEstimator::Exact,
            policy: ConcentrationPolicy::default(),
            largest_concentration: 1e10,
            smallest_weight: 0.0,
            fixed_weights: false,
            dispersion: None,
        }
    }
}

impl Maximisation {
    /// The defaults: exact concentrations under the default policy, at most 1e10, and estimated
    /// weights.
    pub fn new() -> Self {
        Self::default()
    }

    /// How a concentration is estimated from a mean length.
    pub fn estimator(mut self, estimator: ConcentrationEstimator) -> Self {
        self.estimator = estimator;
        self
    }

    /// How the concentrations are tied across components.
    pub fn policy(mut self, policy: ConcentrationPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// The upper limit of concentrations: the estimate from equal rows is infinite.
    pub fn largest_concentration(mut self, largest: f64) -> Self {
        self.largest_concentration = largest;
        self
    }

    /// The lower limit of weights, 0 by default.
    pub fn smallest_weight(mut self, smallest: f64) -> Self {
        self.smallest_weight = smallest;
        self
    }

    /// Whether weights stay as they are.
    pub fn fixed_weights(mut self, fixed: bool) -> Self {
        self.fixed_weights = fixed;
        self
    }

    /// The [dispersion](crate::dispersion::dispersion) of the rows, which
    /// [`ConcentrationPolicy::Auto`] depends on. A [`Fitter`](crate::Fitter) measures it on the
    /// sample of its start.
    pub fn dispersion(mut self, dispersion: f64) -> Self {
        self.dispersion = Some(dispersion);
        self
    }

    /// The policy for rows of this dimension, with [`ConcentrationPolicy::Auto`] resolved.
    pub fn policy_used(&self, dim: usize) -> ConcentrationPolicy {
        self.policy.decided(dim, self.dispersion)
    }

    /// Whether a component can collapse on a few rows: its concentration depends on its own rows
    /// alone.
    fn lets_collapse(&self, dim: usize) -> bool {
        matches!(self.policy_used(dim), ConcentrationPolicy::Free)
    }

    /// The number of components that have collapsed onto a few rows. Under tied concentrations none
    /// can: a component of equal rows is then as good as any other.
    pub(crate) fn count_collapsed(&self, notes: &[Note], dim: usize) -> usize {
        let collapsed = notes.iter().filter(|note| matches!(note, Note::Collapsed { .. })).count();
        if self.lets_collapse(dim) { collapsed } else { 0 }
    }

    /// The M step of k-means: one concentration and equal weights, so that the most probable
    /// component is the nearest.
    pub(crate) fn of_k_means(&self) -> Self {
        let policy = match self.policy {
            ConcentrationPolicy::Fixed(concentration) => ConcentrationPolicy::Fixed(concentration),
            _ => ConcentrationPolicy::Shared,
        };
        self.clone().policy(policy).fixed_weights(true)
    }

    /// The number of free parameters of a fit of this mixture.
    pub fn free_parameters(&self, mixture: &Mixture) -> usize {
        let components = mixture.components().len();
        let fitted = components - usize::from(mixture.has_background());
        let concentrations = match self.policy_used(mixture.dim()) {
            ConcentrationPolicy::Shared => 1,
            ConcentrationPolicy::Fixed(_) => 0,
            ConcentrationPolicy::Auto | ConcentrationPolicy::Free | ConcentrationPolicy::Ratio(_) => fitted,
        };
        let weights = if self.fixed_weights { 0 } else { components - 1 };
        weights + fitted * (mixture.dim() - 1) + concentrations
    }

    /// Whether these settings are valid for this number of components.
    pub fn check(&self, components: usize) -> Result<()> {
        let ratio = if let ConcentrationPolicy::Ratio(ratio) = self.policy { ratio } else { 1.0 };
        let fixed = if let ConcentrationPolicy::Fixed(fixed) = self.policy { fixed } else { 0.0 };
        let largest = self.largest_concentration;
        let smallest = self.smallest_weight;
        let dispersion = self.dispersion.unwrap_or(1.0);
        let checks = [
            (ratio >= 1.0 && ratio.is_finite(), "the ratio of concentrations", "finite and at least 1", ratio),
            (dispersion >= 0.0 && dispersion.is_finite(), "the dispersion", "finite and at least 0", dispersion),
            (fixed >= 0.0 && fixed.is_finite(), "a fixed concentration", "finite and at least 0", fixed),
            (largest > 0.0 && largest <= 1e15, "the largest concentration", "above 0 and at most 1e15", largest),
            (
                smallest >= 0.0 && smallest * components as f64 <= 1.0,
                "the smallest weight",
                "at least 0 and at most 1 over the number of components",
                smallest,
            ),
        ];
        match checks.into_iter().find(|check| !check.0) {
            Some((_, option, range, value)) => Err(Error::Option { option, range, value }),
            None => Ok(()),
        }
    }
}

/// A component with at most this fraction of the weight of all rows is empty.
const EMPTY_SHARE: f64 = 1e-9;

/// Below this product of (rows - 1) and (d - 1) the standard error of a concentration exceeds the
/// concentration itself.
const LEAST_EVIDENCE: f64 = 2.0;

/// Whether rows of this weight and complement of the mean length cannot determine a concentration:
/// they are equal but for rounding, or so few that the standard error sqrt(2 / ((n - 1)(d - 1))) of
/// the logarithm of the concentration is above 1.
pub(crate) fn is_collapsed(dim: usize, rows: f64, complement: f64) -> bool {
    complement < NEARLY_EQUAL_ROWS || (rows - 1.0) * (dim - 1) as f64 <= LEAST_EVIDENCE
}

/// The M step: the next mixture, and notes on its components, MATH.md (14.3).
///
/// Degenerate rows are not an error. An empty component keeps its direction; its concentration is
/// the shared or the fixed one, or else the one it had, within the bounds of the policy. A
/// component of equal rows gets the largest concentration allowed. Only statistics of weight 0 are
/// an error.
pub fn maximise(stats: &SufficientStats, previous: &Mixture, how: &Maximisation) -> Result<(Mixture, Vec<Note>)> {
    check_shape(stats, previous)?;
    let components = previous.components().len();
    how.check(components)?;
    let total: f64 = (0..components).map(|k| stats.mass(k)).sum();
    if !(total > 0.0) {
        return Err(Error::NoRows { weight: total });
    }
    let fitted = || (0..components).filter(|&k| !previous.is_background(k));
    let pooled_mass: f64 = fitted().map(|k| stats.mass(k)).sum();
    let pooled_complement = (fitted().map(|k| stats.shortfall(k)).sum::<f64>() / pooled_mass).clamp(0.0, 1.0);
    // All components are empty.
    let pooled = (pooled_mass > EMPTY_SHARE * total).then_some((1.0 - pooled_complement, pooled_complement));
    let policy = how.policy_used(stats.dim());
    let is_empty = |k: usize| stats.mass(k) <= EMPTY_SHARE * total;
    let estimate =
        |(length, complement): (f64, f64)| how.estimator.estimate(stats.dim(), length, complement).min(how.largest_concentration);
    let own = |k: usize| (!is_empty(k)).then(|| estimate(stats.mean_length(k)));
    let evidence = || {
        fitted().filter_map(|k| {
            let (length, complement) = stats.mean_length(k);
            own(k).map(|concentration| Evidence { mass: stats.mass(k), length, complement, concentration })
        })
    };
    let bounds = match policy {
        ConcentrationPolicy::Ratio(ratio) if pooled.is_some() => {
            let smallest = smallest_within_ratio(stats.dim(), ratio, &evidence().collect::<Vec<_>>());
            (smallest, (ratio * smallest).min(how.largest_concentration))
        }
        _ => (0.0, f64::INFINITY),
    };
    // If weights sum to less than two rows per component they are relative and do not count rows.
    let counts_rows = pooled_mass >= 2.0 * fitted().count() as f64;
    let mut notes = Vec::new();
    let next = (0..components).map(|k| {
        let before = &previous.components()[k];
        if previous.is_background(k) {
            return Ok(before.clone());
        }
        let concentration = match policy {
            ConcentrationPolicy::Fixed(concentration) => Some(concentration),
            ConcentrationPolicy::Shared => pooled.map(estimate),
            ConcentrationPolicy::Auto | ConcentrationPolicy::Free | ConcentrationPolicy::Ratio(_) => own(k),
        };
        // An empty component keeps its concentration, within the bounds.
        let concentration = concentration.unwrap_or(before.concentration()).clamp(bounds.0, bounds.1);
        if is_empty(k) {
            notes.push(Note::Empty { component: k });
            return VonMisesFisher::restored(before.mean_direction().to_vec(), concentration);
        }
        let rows = if counts_rows && how.lets_collapse(stats.dim()) { stats.mass(k) } else { f64::INFINITY };
        let collapsed = is_collapsed(stats.dim(), rows, stats.shortfall(k) / stats.mass(k));
        if !matches!(policy, ConcentrationPolicy::Fixed(_)) && (collapsed || concentration >= how.largest_concentration) {
            notes.push(Note::Collapsed { component: k, rows: stats.mass(k), concentration });
        }
        // Rows that cancel have no mean direction; the previous one is valid.
        let resultant = if stats.resultant_length(k) > 0.0 { stats.resultant(k) } else { before.mean_direction() };
        VonMisesFisher::along(resultant.to_vec(), concentration)
    });
    let next = next.collect::<Result<Vec<_>>>()?;
    let weights = if how.fixed_weights {
        previous.weights().to_vec()
    } else {
        floored((0..components).map(|k| stats.mass(k) / total).collect(), how.smallest_weight)
    };
    Ok((Mixture::of_parts(weights, next, previous.has_background()), notes))
}

/// Whether statistics have the components and the dimension of a mixture.
pub(crate) fn check_shape(stats: &SufficientStats, mixture: &Mixture) -> Result<()> {
    if stats.dim() != mixture.dim() {
        return Err(Error::DimensionMismatch { expected: mixture.dim(), found: stats.dim() });
    }
    if stats.components() != mixture.components().len() {
        let (expected, found) = (mixture.components().len(), stats.components());
        return Err(Error::ComponentMismatch { what: "the statistics", expected, found });
    }
    Ok(())
}

/// The expected statistics of rows of this total weight under a mixture, from which [`maximise`]
/// reproduces the mixture. MATH.md (14.5).
pub fn expected_stats(mixture: &Mixture, weight: f64) -> Result<SufficientStats> {
    if !(weight > 0.0 && weight.is_finite()) {
        return Err(Error::Option { option: "the row weight", range: "finite and above 0", value: weight });
    }
    let (components, dim) = (mixture.components(), mixture.dim());
    let masses: Vec<f64> = mixture.weights().iter().map(|fraction| fraction * weight).collect();
    let complements: Vec<f64> =
        components.iter().map(|component| bessel::mean_length_complement(dim, component.concentration())).collect();
    let shortfalls = masses.iter().zip(&complements).map(|(mass, complement)| mass * complement);
    let resultants = components.iter().zip(&masses).zip(&complements).flat_map(|((component, mass), complement)| {
        component.mean_direction().iter().map(move |x| mass * (1.0 - complement) * x)
    });
    let values: Vec<f64> = [0.0, weight].into_iter().chain(masses.iter().copied()).chain(shortfalls).chain(resultants).collect();
    let stats = SufficientStats::of_values(components.len(), dim, values.into_iter());
    Ok(stats.expect("finite and of the mixture's shape"))
}

/// Raises weights to a floor and scales the others so that the sum stays 1.
pub(crate) fn floored(mut weights: Vec<f64>, floor: f64) -> Vec<f64> {
    if weights.iter().all(|w| *w >= floor) {
        return weights;
    }
    // Scaling can push other weights below the floor.
    loop {
        let low = weights.iter().filter(|w| **w <= floor).count();
        let rest: f64 = weights.iter().filter(|w| **w > floor).sum();
        let factor = (1.0 - floor * low as f64) / rest;
        weights.iter_mut().for_each(|w| *w = if *w <= floor { floor } else { *w * factor });
        if !(rest > 0.0) || weights.iter().filter(|w| **w <= floor).count() == low {
            return weights;
        }
    }
}

/// Moves a component next to the one whose rows are most spread out, so that the two divide its
/// rows; also returns the index of that component.
///
/// `None` if the rows of no other component are spread.
pub fn split_widest(mixture: &Mixture, stats: &SufficientStats, component: usize) -> Option<(Mixture, usize)> {
    let (widest, complement) = widest(mixture, stats, component)?;
    Some((split(mixture, component, widest, complement), widest))
}

/// The component other than this one whose rows are most spread out, and the complement of their
/// mean length.
pub(crate) fn widest(mixture: &Mixture, stats: &SufficientStats, component: usize) -> Option<(usize, f64)> {
    let others = (0..stats.components()).filter(|&k| k != component && !mixture.is_background(k) && stats.mass(k) > 0.0);
    let widest = others.max_by(|&a, &b| stats.shortfall(a).total_cmp(&stats.shortfall(b)))?;
    let complement = stats.mean_length(widest).1;
    // Rows that differ by rounding only cannot be split.
    (complement > 1e-12).then_some((widest, complement))
}

/// Moves a component next to another whose rows have this complement of the mean length.
pub(crate) fn split(mixture: &Mixture, component: usize, widest: usize, complement: f64) -> Mixture {
    let (one, other) = halves(&mixture.components()[widest], complement, component as u64);
    let mut components = mixture.components().to_vec();
    let mut weights = mixture.weights().to_vec();
    (components[component], components[widest]) = (one, other);
    let half = 0.5 * (weights[component] + weights[widest]);
    (weights[component], weights[widest]) = (half, half);
    Mixture::of_parts(weights, components, mixture.has_background())
}

/// Two densities side by side in place of one whose rows have this complement of the mean length.
pub(crate) fn halves(density: &VonMisesFisher, complement: f64, number: u64) -> (VonMisesFisher, VonMisesFisher) {
    let mu = density.mean_direction();
    let mut across = vec![0.0; mu.len()];
    // Seeded by the component, so that a repair depends on nothing else.
    fill_with_normals(&mut Stream::new(0x7370_6c69, number), &mut across);
    let along = dot(&across, mu);
    across.iter_mut().zip(mu).for_each(|(x, m)| *x -= along * m);
    // Half the typical angle of the rows from their direction.
    let step = 0.5 * (2.0 * complement).sqrt().min(1.0) / norm(&across);
    let moved = |sign: f64| {
        let direction = mu.iter().zip(&across).map(|(m, x)| m + sign * step * x).collect();
        VonMisesFisher::along(direction, density.concentration()).expect("a unit vector plus a shorter one across it")
    };
    (moved(1.0), moved(-1.0))
}

/// The gradient of the mean log-likelihood, MATH.md (10.1), in unconstrained parameters: weight
/// logits, unnormalised directions (here of length 1; divide by any other length), ln
/// concentrations.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Gradient {
    /// N_k/N - alpha_k.
    pub logits: Vec<f64>,
    /// kappa (I - mu mu') R_k/N, component after component.
    pub directions: Vec<f64>,
    /// kappa (mu . R_k - N_k A_d(kappa))/N.
    pub ln_concentrations: Vec<f64>,
}

/// The gradient from sufficient statistics (Fisher's identity). For a background only the logit
/// differs from 0.
///
/// # Panics
/// If statistics and model differ in their components or dimension.
pub fn gradient(stats: &SufficientStats, model: &Mixture) -> Gradient {
    let (components, dim) = (stats.components(), stats.dim());
    assert!(components == model.components().len() && dim == model.dim(), "statistics of this model");
    let total: f64 = (0..components).map(|k| stats.mass(k)).sum();
    // Scaling by a power of two is exact, and keeps concentration / total finite for tiny weights.
    let unit = if total < 1e-200 { 2f64.powi(600) } else { 1.0 };
    let mut gradient = Gradient {
        logits: (0..components).map(|k| stats.mass(k) / total - model.weights()[k]).collect(),
        directions: vec![0.0; components * dim],
        ln_concentrations: vec![0.0; components],
    };
    for k in (0..components).filter(|&k| !model.is_background(k)) {
        let (density, resultant) = (&model.components()[k], stats.resultant(k));
        let (mu, concentration) = (density.mean_direction(), density.concentration());
        let along = unit * dot(resultant, mu);
        let scale = concentration / (unit * total);
        let out = &mut gradient.directions[k * dim..][..dim];
        for ((out, r), m) in out.iter_mut().zip(resultant).zip(mu) {
            *out = scale * (unit * r - along * m);
        }
        gradient.ln_concentrations[k] = scale * (along - unit * stats.mass(k) * bessel::mean_length(dim, concentration));
    }
    gradient
}
