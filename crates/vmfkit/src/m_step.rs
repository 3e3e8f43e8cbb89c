//! The M step: from a mixture's statistics to its next parameters, with concentrations kept in bounds; and the gradient of the likelihood.

use crate::bessel;
use crate::density::VonMisesFisher;
use crate::error::{Error, Result};
use crate::estimate::ConcentrationEstimator;
use crate::mixture::Mixture;
pub use crate::policy::ConcentrationPolicy;
use crate::policy::{Evidence, NEARLY_EQUAL_ROWS, smallest_within_ratio};
use crate::sampler::{Stream, fill_with_normals};
use crate::stats::SufficientStats;
use vmfkit_kernels::vector::{dot, norm};

/// How [`maximise`] turns statistics into parameters.
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
    /// The defaults: exact concentrations under the default policy, at most 1e10, and weights as the rows say.
    pub fn new() -> Self {
        Self::default()
    }

    /// How a concentration is found from a mean length.
    pub fn estimator(mut self, estimator: ConcentrationEstimator) -> Self {
        self.estimator = estimator;
        self
    }

    /// How the concentrations are tied across components.
    pub fn policy(mut self, policy: ConcentrationPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// No concentration goes above this; rows that are all equal would send it to infinity.
    pub fn largest_concentration(mut self, largest: f64) -> Self {
        self.largest_concentration = largest;
        self
    }

    /// No weight goes below this, 0 by default.
    pub fn smallest_weight(mut self, smallest: f64) -> Self {
        self.smallest_weight = smallest;
        self
    }

    /// Weights stay as they are.
    pub fn fixed_weights(mut self, fixed: bool) -> Self {
        self.fixed_weights = fixed;
        self
    }

    /// The [dispersion](crate::dispersion::dispersion) of the rows, by which [`ConcentrationPolicy::Auto`] decides. A
    /// [`Fitter`](crate::Fitter) measures it on the sample of its start.
    pub fn dispersion(mut self, dispersion: f64) -> Self {
        self.dispersion = Some(dispersion);
        self
    }

    /// The policy for rows of this dimension: what [`ConcentrationPolicy::Auto`] has decided, or the one that was asked for.
    pub fn policy_used(&self, dim: usize) -> ConcentrationPolicy {
        self.policy.decided(dim, self.dispersion)
    }

    /// Whether a component may run away with a few rows: its concentration is its own, however few they are.
    fn lets_collapse(&self, dim: usize) -> bool {
        matches!(self.policy_used(dim), ConcentrationPolicy::Free)
    }

    /// How many components have run away with a few rows. Where concentrations are tied none can: a component on equal rows is then as good as
    /// any other.
    pub(crate) fn count_collapsed(&self, notes: &[Note], dim: usize) -> usize {
        let collapsed = notes.iter().filter(|note| matches!(note, Note::Collapsed { .. })).count();
        if self.lets_collapse(dim) { collapsed } else { 0 }
    }

    /// The M step of k-means: one concentration and weights that stay equal, so that the most probable component is the nearest.
    pub(crate) fn of_k_means(&self) -> Self {
        let policy = match self.policy {
            ConcentrationPolicy::Fixed(concentration) => ConcentrationPolicy::Fixed(concentration),
            _ => ConcentrationPolicy::Shared,
        };
        self.clone().policy(policy).fixed_weights(true)
    }

    /// How many numbers a fit of this mixture chooses.
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

    /// Whether these settings can serve mixtures of this many components.
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

/// Something about a component, or about a fit as a whole, that a person should know of.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// No row is left to the component; its direction is what it was.
    Empty {
        /// Counted from 0.
        component: usize,
    },
    /// The component's rows are (nearly) all equal.
    Collapsed {
        /// Counted from 0.
        component: usize,
        /// Their total weight.
        rows: f64,
        /// The concentration it was given.
        concentration: f64,
    },
    /// An empty component was moved next to the one whose rows are spread most.
    Reseeded {
        /// Counted from 0.
        component: usize,
        /// The component that it halves.
        beside: usize,
        /// After this many passes.
        pass: usize,
    },
    /// The fit ended before its annealing.
    Warm {
        /// That of the last pass.
        temperature: f64,
    },
    /// The objective fell by more than a quarter of what it was above that of the uniform density.
    Fallen {
        /// The pass of the largest objective, counted from 1.
        pass: usize,
        /// The objective of that pass.
        from: f64,
        /// The objective of the last pass.
        to: f64,
    },
    /// The component has ended as another has: both stand for the same rows.
    Twin {
        /// Counted from 0.
        component: usize,
        /// The one before it that it is equal to.
        of: usize,
    },
    /// Components that were put elsewhere had brought less by the last pass: the fit is what it was before.
    TakenBack {
        /// The pass with which it ends.
        pass: usize,
        /// How many were made.
        passes: usize,
    },
    /// A stream moved the component to rows that fitted no component.
    Reassigned {
        /// Counted from 0.
        component: usize,
        /// The one that took over its former rows; none if they were forgotten, because no more of them came.
        merged_into: Option<usize>,
        /// How many rows the stream had had before.
        rows: u64,
    },
    /// The latest rows of a stream left the component out, though its weight promised at least twenty of them.
    Idle {
        /// Counted from 0.
        component: usize,
        /// How many rows it has been left out of.
        rows: u64,
    },
}

impl Note {
    /// Whether it is told of a fit that has ended, and not after every step.
    pub(crate) fn is_of_the_end(&self) -> bool {
        matches!(self, Note::Warm { .. } | Note::Fallen { .. } | Note::Twin { .. } | Note::TakenBack { .. })
    }
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Note::Empty { component } => write!(f, "component {component} is empty: no row is left to it"),
            Note::Collapsed { component, rows, concentration } => {
                let rounded = (rows * 100.0).round() / 100.0;
                let rows = match rounded {
                    1.0 => "1 row".to_owned(),
                    _ if rounded < 0.1 => format!("rows of weight {rows:.1e}"),
                    _ if rounded.fract() == 0.0 => format!("{rounded} rows"),
                    _ => format!("rows of weight {rounded}"),
                };
                write!(f, "component {component} collapsed on {rows}, concentration {concentration:.3e}")
            }
            Note::Reseeded { component, beside, pass } => {
                write!(f, "component {component} was empty in pass {pass} and restarted beside component {beside}")
            }
            Note::Warm { temperature } => {
                write!(f, "annealing ended at a temperature of {temperature:.1}: it needs more passes or a smaller factor")
            }
            Note::Fallen { pass, from, to } => {
                write!(f, "the objective fell from {from:.4} in pass {pass} to {to:.4}: the fit has lost what it had")
            }
            Note::Twin { component, of } => {
                write!(f, "component {component} is the same as component {of}: one of them would do")
            }
            Note::Reassigned { component, merged_into, rows } => {
                write!(f, "component {component} was moved to a new cluster after {rows} rows; ")?;
                match merged_into {
                    Some(other) => write!(f, "component {other} took over its rows"),
                    None => f.write_str("its former cluster had no rows any more"),
                }
            }
            Note::Idle { component, rows } => write!(f, "component {component} got none of the last {rows} rows"),
            Note::TakenBack { pass, passes } => {
                write!(
                    f,
                    "restarted components had not paid by pass {passes}: the fit is that of pass {pass}, and more passes may help"
                )
            }
        }
    }
}

/// A component with less than this fraction of the rows' weight is empty.
const EMPTY_SHARE: f64 = 1e-9;

/// Below this product of (rows - 1) and (d - 1) the standard error of a concentration exceeds the concentration itself.
const LEAST_EVIDENCE: f64 = 2.0;

/// Whether rows of this weight and complement of the mean length cannot tell a concentration of their own: they are equal but for rounding, or so few
/// that the standard error sqrt(2 / ((n - 1)(d - 1))) of the logarithm of the concentration is above 1.
pub(crate) fn is_collapsed(dim: usize, rows: f64, complement: f64) -> bool {
    complement < NEARLY_EQUAL_ROWS || (rows - 1.0) * (dim - 1) as f64 <= LEAST_EVIDENCE
}

/// The next mixture of EM and its relatives, and what there is to say of its components, MATH.md (14.3).
///
/// Never fails for want of rows. An empty component keeps its direction; its concentration is the shared or the fixed one, or else the one it
/// had, within the bound of the policy. A component whose rows are all equal gets the largest concentration allowed. Only statistics without
/// any weight are an error.
pub fn maximise(stats: &SufficientStats, previous: &Mixture, how: &Maximisation) -> Result<(Mixture, Vec<Note>)> {
    let components = previous.components().len();
    if stats.components() != components {
        return Err(Error::ComponentMismatch { what: "the statistics", expected: components, found: stats.components() });
    }
    if stats.dim() != previous.dim() {
        return Err(Error::DimensionMismatch { expected: previous.dim(), found: stats.dim() });
    }
    how.check(components)?;
    let total: f64 = (0..components).map(|k| stats.mass(k)).sum();
    if !(total > 0.0) {
        return Err(Error::NoRows { weight: total });
    }
    let fitted = || (0..components).filter(|&k| !previous.is_background(k));
    let pooled_mass: f64 = fitted().map(|k| stats.mass(k)).sum();
    let pooled_complement = (fitted().map(|k| stats.shortfall(k)).sum::<f64>() / pooled_mass).clamp(0.0, 1.0);
    // Nothing is known of components of which all are empty.
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
    // Weights that sum to less than two rows a component are relative: they do not count rows.
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
        // A component without rows keeps what it had, within the bounds.
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
        // Rows that cancel have no direction: any will do, the last one is known to be valid.
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

/// The statistics that a mixture expects of rows of this total weight: [`maximise`] makes the mixture again of them. MATH.md (14.5).
pub fn expected_stats(mixture: &Mixture, weight: f64) -> Result<SufficientStats> {
    if !(weight > 0.0 && weight.is_finite()) {
        return Err(Error::Option { option: "the weight of rows", range: "finite and above 0", value: weight });
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

/// Weights of which none is below the floor; what they lack is taken from the others in proportion.
pub(crate) fn floored(mut weights: Vec<f64>, floor: f64) -> Vec<f64> {
    if weights.iter().all(|w| *w >= floor) {
        return weights;
    }
    // Taking from the others can push one of them below the floor in turn.
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

/// Moves a component beside the one whose rows are spread most, so that the two halve it; gives that one's number.
///
/// None if no other component's rows are spread at all.
pub fn split_widest(mixture: &Mixture, stats: &SufficientStats, component: usize) -> Option<(Mixture, usize)> {
    let (widest, complement) = widest(mixture, stats, component)?;
    Some((split(mixture, component, widest, complement), widest))
}

/// Of all components but one that whose rows are spread most, and the complement of their mean length.
pub(crate) fn widest(mixture: &Mixture, stats: &SufficientStats, component: usize) -> Option<(usize, f64)> {
    let others = (0..stats.components()).filter(|&k| k != component && !mixture.is_background(k) && stats.mass(k) > 0.0);
    let widest = others.max_by(|&a, &b| stats.shortfall(a).total_cmp(&stats.shortfall(b)))?;
    let complement = stats.mean_length(widest).1;
    // Rows that differ by rounding alone cannot be told apart.
    (complement > 1e-12).then_some((widest, complement))
}

/// Moves a component beside another whose rows have this complement of the mean length.
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
    // So that a repair depends on nothing but what is repaired.
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

/// The gradient of the mean log-likelihood, MATH.md (10.1), in unconstrained parameters: weight logits, directions of any length
/// (here of length 1; divide by the length for others), ln concentrations.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Gradient {
    /// N_k/N - alpha_k.
    pub logits: Vec<f64>,
    /// k (I - mu mu') R_k/N, component by component.
    pub directions: Vec<f64>,
    /// k (mu . R_k - N_k A_d(k))/N.
    pub ln_concentrations: Vec<f64>,
}

/// The gradient from the same statistics as every other estimate (Fisher's identity); a background's is 0 but for its logit.
///
/// # Panics
/// If statistics and model differ in their components or dimension.
pub fn gradient(stats: &SufficientStats, model: &Mixture) -> Gradient {
    let (components, dim) = (stats.components(), stats.dim());
    assert!(components == model.components().len() && dim == model.dim(), "statistics of this model");
    let total: f64 = (0..components).map(|k| stats.mass(k)).sum();
    // A power of two changes no digit, and keeps a concentration over the weight of rows that weigh next to nothing finite.
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
