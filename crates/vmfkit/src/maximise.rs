//! The M step: from a mixture's statistics to its next parameters, with concentrations kept in bounds; and the gradient of the likelihood.

use crate::bessel;
use crate::distribution::VonMisesFisher;
use crate::error::{Error, Result};
use crate::estimate::ConcentrationEstimator;
use crate::mixture::Mixture;
use crate::sampler::{Stream, fill_with_normals};
use crate::stats::SufficientStats;
use crate::vector::{dot, norm};

/// How the concentrations of a mixture hang together, MATH.md (14.4).
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum ConcentrationPolicy {
    /// Each component has its own: the maximum of the likelihood. A component can run away with a few near-duplicate rows.
    Free,
    /// All components have the same.
    Shared,
    /// All components have this one.
    Fixed(f64),
    /// Each has its own, drawn toward the shared one by a conjugate prior that weighs as much as `strength` n0 rows, n0 the least of (d/2)^2,
    /// 2 + d^3/1536 and max(2, min(1000, D^3), D^5/70^3), with D the [effective dimension](Maximisation::effective_dim): next to nothing in
    /// the few dimensions of directional statistics, much in those of embeddings, where rows are no draws of a vMF and a free concentration harms the clusters.
    Shrunk {
        /// The prior's weight, in units of n0 rows.
        strength: f64,
    },
}

impl ConcentrationPolicy {
    /// The name used on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Shared => "shared",
            Self::Fixed(_) => "fixed",
            Self::Shrunk { .. } => "shrunk",
        }
    }
}

/// The name, and behind a colon the number that goes with it: `shrunk:1`, `fixed:50`.
impl std::fmt::Display for ConcentrationPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::Free | Self::Shared => f.write_str(self.name()),
            Self::Fixed(number) | Self::Shrunk { strength: number } => write!(f, "{}:{number}", self.name()),
        }
    }
}

impl std::str::FromStr for ConcentrationPolicy {
    type Err = String;

    /// What `Display` writes; `shrunk` alone has a strength of 1.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (name, number) = text.split_once(':').map_or((text, None), |(name, number)| (name, Some(number)));
        let number = number.map(|number| number.parse().map_err(|_| format!("`{number}` is no number in the policy `{text}`")));
        match (name, number.transpose()?) {
            ("free", None) => Ok(Self::Free),
            ("shared", None) => Ok(Self::Shared),
            ("fixed", Some(concentration)) => Ok(Self::Fixed(concentration)),
            ("shrunk", strength) => Ok(Self::Shrunk { strength: strength.unwrap_or(1.0) }),
            _ => Err(format!("unknown policy `{text}`: one of free, shared, fixed:CONCENTRATION, shrunk, shrunk:STRENGTH")),
        }
    }
}

impl Default for ConcentrationPolicy {
    /// docs/default-policy.md has the experiment.
    fn default() -> Self {
        Self::Shrunk { strength: 1.0 }
    }
}

/// How [`maximise`] turns statistics into parameters.
///
/// ```
/// use vmfkit::maximise::{ConcentrationPolicy, Maximisation};
/// let how = Maximisation::new().policy(ConcentrationPolicy::Shared).smallest_weight(1e-3);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Maximisation {
    pub(crate) estimator: ConcentrationEstimator,
    pub(crate) policy: ConcentrationPolicy,
    pub(crate) largest_concentration: f64,
    pub(crate) smallest_weight: f64,
    pub(crate) fixed_weights: bool,
    pub(crate) effective_dim: Option<f64>,
}

impl Default for Maximisation {
    fn default() -> Self {
        Maximisation {
            estimator: ConcentrationEstimator::Exact,
            policy: ConcentrationPolicy::default(),
            largest_concentration: 1e10,
            smallest_weight: 0.0,
            fixed_weights: false,
            effective_dim: None,
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

    /// How the concentrations hang together.
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

    /// How many dimensions the rows of components fill, by which [`ConcentrationPolicy::Shrunk`] weighs its prior:
    /// [`effective_dim`](crate::effective_dim::effective_dim) measures it. Without it they count as filling all. A [`Fitter`](crate::Fitter)
    /// whose start looks at a sample of the rows measures it there.
    pub fn effective_dim(mut self, effective_dim: f64) -> Self {
        self.effective_dim = Some(effective_dim);
        self
    }

    /// The rows that the prior of the policy weighs as much as, MATH.md (14.4).
    pub(crate) fn prior_rows(&self, dim: usize) -> f64 {
        let ConcentrationPolicy::Shrunk { strength } = self.policy else {
            return 0.0;
        };
        let dim = dim as f64;
        let of_dim = (0.25 * dim * dim).min(2.0 + dim.powi(3) / 1536.0);
        let of_filled = |filled: f64| filled.powi(3).clamp(2.0, 1000.0).max(filled.powi(5) / 70f64.powi(3));
        strength * of_dim.min(self.effective_dim.map_or(f64::INFINITY, of_filled))
    }

    /// The same for a sample of this share of the rows, beside which the prior is to weigh as much as beside all of them; but as much as two rows of the
    /// sample, each of which stands for so many, if it weighs two where nothing is left out: a component of a single row of the sample does not run away.
    pub(crate) fn for_sample(&self, dim: usize, share: f64, stands_for: f64) -> Self {
        let prior = self.prior_rows(dim);
        match self.policy {
            ConcentrationPolicy::Shrunk { strength } if prior > 0.0 => {
                let rows = (share * prior).max(stands_for * prior.min(2.0));
                self.clone().policy(ConcentrationPolicy::Shrunk { strength: strength * rows / prior })
            }
            _ => self.clone(),
        }
    }

    /// Whether it keeps a component from running away with a few rows.
    pub(crate) fn bounds_concentrations(&self) -> bool {
        match self.policy {
            ConcentrationPolicy::Free => false,
            ConcentrationPolicy::Shrunk { strength } => strength > 0.0,
            ConcentrationPolicy::Shared | ConcentrationPolicy::Fixed(_) => true,
        }
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
        let concentrations = match self.policy {
            ConcentrationPolicy::Free | ConcentrationPolicy::Shrunk { .. } => fitted,
            ConcentrationPolicy::Shared => 1,
            ConcentrationPolicy::Fixed(_) => 0,
        };
        let weights = if self.fixed_weights { 0 } else { components - 1 };
        weights + fitted * (mixture.dim() - 1) + concentrations
    }

    /// Whether these settings can serve mixtures of this many components.
    pub fn check(&self, components: usize) -> Result<()> {
        let strength = if let ConcentrationPolicy::Shrunk { strength } = self.policy { strength } else { 0.0 };
        let fixed = if let ConcentrationPolicy::Fixed(fixed) = self.policy { fixed } else { 0.0 };
        let largest = self.largest_concentration;
        let smallest = self.smallest_weight;
        let filled = self.effective_dim.unwrap_or(1.0);
        let checks = [
            (strength >= 0.0 && strength.is_finite(), "the strength of the prior", "finite and at least 0", strength),
            (filled >= 1.0 && filled.is_finite(), "the effective dimension", "finite and at least 1", filled),
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

/// A component with less than this share of the rows' weight is empty.
const EMPTY_SHARE: f64 = 1e-9;

/// A component whose rows scatter less than this share of what all rows scatter about their directions has collapsed.
pub(crate) const COLLAPSED_SHARE: f64 = 1e-3;

/// Rows in f32 that are all equal have a complement of the mean length up to this, by the rounding of their length.
const EQUAL_ROWS: f64 = 1e-7;

/// The next mixture of EM and its relatives, and what there is to say of its components, MATH.md (14.3).
///
/// Never fails for want of rows: an empty component keeps its direction and has the concentration that the policy has for one without rows - the shared one, the
/// fixed one, or where they are free the one it had; one whose rows are all equal gets the largest concentration allowed. Only statistics without any
/// weight are an error.
pub fn maximise(stats: &SufficientStats, previous: &Mixture, how: &Maximisation) -> Result<(Mixture, Vec<Note>)> {
    let components = previous.components().len();
    if stats.components() != components {
        let range = "that of the mixture";
        return Err(Error::Option { option: "the statistics' number of components", range, value: stats.components() as f64 });
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
    let prior = how.prior_rows(stats.dim());
    let mut notes = Vec::new();
    let next = (0..components).map(|k| {
        let before = &previous.components()[k];
        if previous.is_background(k) {
            return Ok(before.clone());
        }
        let is_empty = stats.mass(k) <= EMPTY_SHARE * total;
        let (mass, (length, complement)) = if is_empty { (0.0, (0.0, 1.0)) } else { (stats.mass(k), stats.mean_length(k)) };
        let lengths = match how.policy {
            ConcentrationPolicy::Free => (!is_empty).then_some((length, complement)),
            ConcentrationPolicy::Fixed(_) | ConcentrationPolicy::Shared => pooled,
            ConcentrationPolicy::Shrunk { .. } => pooled.filter(|_| mass + prior > 0.0).map(|pooled| {
                let mean = |own: f64, pooled: f64| (mass * own + prior * pooled) / (mass + prior);
                (mean(length, pooled.0), mean(complement, pooled.1))
            }),
        };
        let concentration = match (how.policy, lengths) {
            (ConcentrationPolicy::Fixed(concentration), _) => concentration,
            (_, Some((length, complement))) => {
                how.estimator.estimate(stats.dim(), length, complement).min(how.largest_concentration)
            }
            // Nothing speaks for another one.
            (_, None) => before.concentration(),
        };
        if is_empty {
            notes.push(Note::Empty { component: k });
            return VonMisesFisher::restored(before.mean_direction().to_vec(), concentration);
        }
        let own_complement = stats.shortfall(k) / stats.mass(k);
        let may_collapse = !matches!(how.policy, ConcentrationPolicy::Fixed(_));
        if may_collapse
            && (own_complement < (COLLAPSED_SHARE * pooled_complement).max(EQUAL_ROWS)
                || concentration >= how.largest_concentration)
        {
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

/// The mean ln p of rows with these statistics less the penalty of the prior, MATH.md (14.8): what EM under a policy climbs.
pub(crate) fn penalised(stats: &SufficientStats, mixture: &Mixture, how: &Maximisation) -> f64 {
    let fitted = || (0..stats.components()).filter(|&k| !mixture.is_background(k));
    let mass: f64 = fitted().map(|k| stats.mass(k)).sum();
    let complement = fitted().map(|k| stats.shortfall(k)).sum::<f64>() / mass;
    let penalty = if mass > 0.0 { prior_penalty(mixture, complement, how) } else { 0.0 };
    (stats.objective() - penalty) / stats.weight()
}

/// What the prior takes from the log-likelihood of a mixture whose components have this pooled complement of the mean length.
fn prior_penalty(mixture: &Mixture, complement: f64, how: &Maximisation) -> f64 {
    let (dim, prior) = (mixture.dim(), how.prior_rows(mixture.dim()));
    if !(prior > 0.0) {
        return 0.0;
    }
    let complement = complement.clamp(0.0, 1.0);
    let pooled = how.estimator.estimate(dim, 1.0 - complement, complement).min(how.largest_concentration);
    // k r + ln C(k) in which k and ln C, both large, have cancelled.
    let worth = |concentration: f64| bessel::ln_peak(dim, concentration) - concentration * complement;
    let fitted = (0..mixture.components().len()).filter(|&k| !mixture.is_background(k));
    prior * fitted.map(|k| worth(pooled) - worth(mixture.components()[k].concentration())).sum::<f64>()
}

/// What the prior takes from the mean ln p of rows of this total weight of which [`maximise`] has made this mixture.
pub(crate) fn mean_penalty(mixture: &Mixture, weight: f64, how: &Maximisation) -> f64 {
    let prior = how.prior_rows(mixture.dim());
    if !(prior > 0.0) {
        return 0.0;
    }
    let complements: Vec<f64> = complements(mixture).collect();
    expected_pooled_complement(mixture, weight, &complements, prior)
        .map_or(0.0, |pooled| prior_penalty(mixture, pooled, how) / weight)
}

/// The complement of each component's mean length.
fn complements(mixture: &Mixture) -> impl Iterator<Item = f64> {
    mixture.components().iter().map(|c| bessel::mean_length_complement(c.mean_direction().len(), c.concentration()))
}

/// The pooled complement of the mean length of rows of this total weight whose mixture under a prior has these complements; none if no component has rows.
fn expected_pooled_complement(mixture: &Mixture, weight: f64, complements: &[f64], prior: f64) -> Option<f64> {
    let fitted = (0..complements.len()).filter(|&k| !mixture.is_background(k) && mixture.weights()[k] > 0.0);
    let (sum, mass) = fitted.fold((0.0, 0.0), |(sum, mass), k| {
        let rows = mixture.weights()[k] * weight + prior;
        (sum + rows * complements[k], mass + rows)
    });
    (mass > 0.0).then(|| sum / mass)
}

/// Statistics of rows of this total weight of which [`maximise`] makes this mixture again, as far as it can: what a prior has added to
/// concentrations is taken away. MATH.md (14.5).
pub fn expected_stats(mixture: &Mixture, weight: f64, how: &Maximisation) -> Result<SufficientStats> {
    if !(weight > 0.0 && weight.is_finite()) {
        return Err(Error::Option { option: "the weight of rows", range: "finite and above 0", value: weight });
    }
    let (components, dim) = (mixture.components(), mixture.dim());
    let masses: Vec<f64> = mixture.weights().iter().map(|share| share * weight).collect();
    let mut complements: Vec<f64> = complements(mixture).collect();
    if let ConcentrationPolicy::Shrunk { .. } = how.policy {
        let prior = how.prior_rows(dim);
        if let Some(pooled) = expected_pooled_complement(mixture, weight, &complements, prior) {
            for k in (0..components.len()).filter(|&k| !mixture.is_background(k) && masses[k] > 0.0) {
                complements[k] = (complements[k] + prior / masses[k] * (complements[k] - pooled)).clamp(0.0, 1.0);
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// MATH.md (14.4): which of the laws has the least, on both sides of where they meet.
    #[test]
    fn the_prior_weighs_what_the_least_law_says() {
        let weighs = |dim: usize, filled: Option<f64>, expected: f64| {
            let how = filled.map_or(Maximisation::new(), |filled| Maximisation::new().effective_dim(filled));
            let found = how.prior_rows(dim);
            assert!((found - expected).abs() < 1e-12 * expected, "{dim}, {filled:?}: {found}, not {expected}");
            let double = how.policy(ConcentrationPolicy::Shrunk { strength: 2.0 }).prior_rows(dim);
            assert!((double - 2.0 * expected).abs() < 1e-12 * expected);
        };
        weighs(2, None, 1.0);
        weighs(5, None, 2.0 + 125.0 / 1536.0);
        weighs(100, Some(52.0), 2.0 + 1e6 / 1536.0);
        weighs(384, None, 36_864.0);
        weighs(384, Some(174.0), 36_864.0);
        weighs(768, Some(70.0), 4900.0);
        weighs(768, Some(140.0), 147_456.0);
        weighs(768, Some(105.0), 4900.0 * 7.59375);
        weighs(768, Some(50.0), 1000.0);
        weighs(768, Some(51.0), 51f64.powi(5) / 343_000.0);
        weighs(768, Some(10.5), 1000.0);
        weighs(768, Some(9.0), 729.0);
        weighs(768, Some(1.0), 2.0);
        weighs(3, Some(2.0), 2.0 + 27.0 / 1536.0);
        assert_eq!(Maximisation::new().policy(ConcentrationPolicy::Free).prior_rows(768), 0.0);
    }
}
