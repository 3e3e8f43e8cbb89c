//! [`Adam`]: stochastic gradient ascent, the second estimator of Kim (2021). The loop is in
//! `mini_batches.rs`.

use super::state::{State, count};
use crate::bessel;
use crate::density::VonMisesFisher;
use crate::error::{Error, Result};
use crate::m_step::{ConcentrationPolicy, Maximisation, Note, floored, gradient, is_collapsed};
use crate::mixture::Mixture;
use crate::settings::Settings;
use crate::stats::SufficientStats;
use std::iter;
use vmfkit_kernels::vector::norm;

/// Stochastic gradient ascent in the unconstrained parameters of Kim (2021): weight logits,
/// unnormalised mean directions and ln concentrations.
///
/// Each step reads the [`SufficientStats`] of one mini-batch (Fisher's identity, MATH.md (10.1)); a
/// smaller one at the end of an epoch counts in proportion to its rows. The defaults are the
/// paper's: a learning rate of 0.1 (0.01 for a single density), multiplied by 0.95 after each
/// epoch, betas 0.9 and 0.99. Adam is that of Kingma and Ba, arXiv:1412.6980. Directions of
/// components more concentrated than 1000 (d - 1) take smaller steps, in proportion to their width.
#[derive(Debug, Clone)]
pub struct Adam {
    learning_rate: Option<f64>,
    decay: f64,
    betas: (f64, f64),
    epsilon: f64,
    pub(super) maximisation: Maximisation,
    epochs: i32,
    /// The weight of the rows of this pass so far, and the mass of each component.
    seen_weight: f64,
    seen_masses: Vec<f64>,
    /// The weight of the rows of the last complete pass.
    rows_weight: Option<f64>,
    ascent: Option<Ascent>,
}

impl Default for Adam {
    fn default() -> Self {
        Adam {
            learning_rate: None,
            decay: 0.95,
            betas: (0.9, 0.99),
            epsilon: 1e-8,
            maximisation: Maximisation::new().policy(ConcentrationPolicy::Free),
            epochs: 0,
            seen_weight: 0.0,
            seen_masses: Vec::new(),
            rows_weight: None,
            ascent: None,
        }
    }
}

impl Adam {
    /// The paper's settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// The step size of the first epoch.
    pub fn learning_rate(mut self, learning_rate: f64) -> Self {
        self.learning_rate = Some(learning_rate);
        self
    }

    /// The factor of the step size after each epoch.
    pub fn decay(mut self, decay: f64) -> Self {
        self.decay = decay;
        self
    }

    /// The decay rates of the first and second moment.
    pub fn betas(mut self, first: f64, second: f64) -> Self {
        self.betas = (first, second);
        self
    }

    /// The term that keeps a step finite if the gradient vanishes.
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = epsilon;
        self
    }

    /// The constraints on concentrations and weights, by default none, as in the paper. The
    /// estimator has no effect on a gradient.
    pub fn maximisation(mut self, how: &Maximisation) -> Self {
        self.maximisation = how.clone();
        self
    }

    fn check(&self, components: usize) -> Result<()> {
        let rate = self.learning_rate.unwrap_or(1.0);
        let unit = |beta: f64| (0.0..1.0).contains(&beta);
        let checks = [
            (rate > 0.0 && rate.is_finite(), "the learning rate", "finite and above 0", rate),
            (self.decay > 0.0 && self.decay <= 1.0, "the decay of the learning rate", "above 0 and at most 1", self.decay),
            (unit(self.betas.0), "the first beta", "at least 0 and below 1", self.betas.0),
            (unit(self.betas.1), "the second beta", "at least 0 and below 1", self.betas.1),
            (self.epsilon > 0.0 && self.epsilon.is_finite(), "epsilon", "finite and above 0", self.epsilon),
        ];
        match checks.into_iter().find(|check| !check.0) {
            Some((_, option, range, value)) => Err(Error::Option { option, range, value }),
            None => self.maximisation.check(components),
        }
    }

    fn first_rate(&self, components: usize) -> f64 {
        self.learning_rate.unwrap_or(if components == 1 { 0.01 } else { 0.1 })
    }

    pub(crate) fn describe(&self, components: usize, settings: &mut Settings) {
        settings.set("learning_rate", format!("{:?}", self.first_rate(components)));
        settings.set("decay", format!("{:?}", self.decay));
        settings.set("betas", format!("{:?},{:?}", self.betas.0, self.betas.1));
        settings.set("epsilon", format!("{:?}", self.epsilon));
    }

    /// Half the logarithm of the largest ratio of two concentrations, if the policy bounds it.
    fn half_range(&self, dim: usize) -> Option<f64> {
        match self.maximisation.policy_used(dim) {
            ConcentrationPolicy::Ratio(ratio) => Some(0.5 * ratio.ln()),
            _ => None,
        }
    }

    /// Slopes in the parameters of the concentrations, from those in the ln concentrations.
    fn concentration_slopes(&self, mut slopes: Vec<f64>, model: &Mixture, state: &Ascent) -> Vec<f64> {
        let sum: f64 = slopes.iter().sum();
        match self.maximisation.policy_used(model.dim()) {
            ConcentrationPolicy::Auto | ConcentrationPolicy::Free => {}
            ConcentrationPolicy::Fixed(_) => slopes.fill(0.0),
            // One parameter stands for all: equal steps keep them equal.
            ConcentrationPolicy::Shared => {
                slopes.iter_mut().enumerate().filter(|(k, _)| !model.is_background(*k)).for_each(|(_, slope)| *slope = sum);
            }
            ConcentrationPolicy::Ratio(ratio) => {
                let positions = &state.parameters[slopes.len() * (model.dim() + 1)..];
                slopes.iter_mut().zip(positions).for_each(|(slope, z)| *slope *= 0.5 * ratio.ln() / z.cosh().powi(2));
                slopes.push(sum);
            }
        }
        slopes
    }
}

/// The concentration divided by d - 1 above which steps of a direction shrink with the width of the
/// component, about sqrt((d - 1) / kappa): a step of the learning rate would leave a narrower peak.
/// The components of the paper, of at most 125 (d - 1), are not affected.
const NARROW: f64 = 1000.0;

/// The parameters and the moments of Adam.
#[derive(Debug, Clone)]
struct Ascent {
    /// Logits, then unnormalised directions, then ln concentrations. If the ratio of concentrations
    /// is bounded, ln kappa_m is c + (1/2) ln(ratio) tanh(z_m), and the parameters end with all z_m
    /// and c, MATH.md (14.10).
    parameters: Vec<f64>,
    moments: Moments,
    /// The weight of the first mini-batch, the unit of the weight of later ones.
    batch_weight: f64,
}

/// The smallest initial weight and concentration; 0 has no logarithm.
const SMALLEST_START: f64 = 1e-6;

/// The largest initial |tanh|; beyond it tanh is too flat for a gradient.
const STEEPEST: f64 = 0.9;

impl Ascent {
    fn new(model: &Mixture, policy: ConcentrationPolicy, half_range: Option<f64>, batch_weight: f64) -> Self {
        let components = model.components();
        let logits = model.weights().iter().map(|w| w.max(SMALLEST_START).ln());
        // Steps have the size of the learning rate in every coordinate, so coordinates should be
        // about 1, as in the start of the paper.
        let scale = (model.dim() as f64).sqrt();
        let directions = components.iter().flat_map(|c| c.mean_direction().iter().map(move |x| scale * x));
        let ln_concentrations = components.iter().map(|c| match policy {
            ConcentrationPolicy::Fixed(fixed) => fixed.ln(),
            ConcentrationPolicy::Shared => components[0].concentration().max(SMALLEST_START).ln(),
            _ => c.concentration().max(SMALLEST_START).ln(),
        });
        let mut ln_concentrations: Vec<f64> = ln_concentrations.collect();
        if let Some(half_range) = half_range {
            let fitted = || (0..components.len()).filter(|&k| !model.is_background(k)).map(|k| ln_concentrations[k]);
            let (least, most) = fitted().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
            let centre = 0.5 * (least + most);
            let position =
                |x: f64| if half_range > 0.0 { ((x - centre) / half_range).clamp(-STEEPEST, STEEPEST).atanh() } else { 0.0 };
            ln_concentrations = ln_concentrations.iter().map(|x| position(*x)).chain([centre]).collect();
        }
        let parameters: Vec<f64> = logits.chain(directions).chain(ln_concentrations).collect();
        Ascent { moments: Moments::new(parameters.len()), parameters, batch_weight }
    }

    fn mixture(&self, like: &Mixture, how: &Maximisation, half_range: Option<f64>) -> Result<Mixture> {
        let (count, dim) = (like.components().len(), like.dim());
        let (logits, rest) = self.parameters.split_at(count);
        let (directions, ln_concentrations) = rest.split_at(count * dim);
        let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let exponentials: Vec<f64> = logits.iter().map(|z| (z - largest).exp()).collect();
        let sum: f64 = exponentials.iter().sum();
        let weights = match how.fixed_weights {
            true => like.weights().to_vec(),
            false => floored(exponentials.iter().map(|e| e / sum).collect(), how.smallest_weight),
        };
        let components = (0..count).map(|k| match like.is_background(k) {
            true => Ok(like.components()[k].clone()),
            false => {
                let ln_concentration = match half_range {
                    None => ln_concentrations[k],
                    Some(half_range) => ln_concentrations[count] + half_range * ln_concentrations[k].tanh(),
                };
                let concentration = ln_concentration.exp().min(how.largest_concentration);
                VonMisesFisher::along(directions[k * dim..][..dim].to_vec(), concentration)
            }
        });
        let components = components.collect::<Result<_>>()?;
        Ok(Mixture::of_parts(weights, components, like.has_background()))
    }
}

impl Adam {
    pub(super) fn step(&mut self, model: &Mixture, stats: &SufficientStats) -> Result<(Mixture, Vec<Note>)> {
        let (count, dim) = (model.components().len(), model.dim());
        if self.ascent.is_none() {
            self.check(count)?;
            let half_range = self.half_range(dim);
            self.ascent = Some(Ascent::new(model, self.maximisation.policy, half_range, stats.weight()));
        }
        let mass: f64 = (0..count).map(|k| stats.mass(k)).sum();
        if !(mass > 0.0) {
            // Weights may be so small that all products with responsibilities round to 0.
            return Err(Error::NoRows { weight: mass });
        }
        self.seen_weight += stats.weight();
        self.seen_masses.resize(count, 0.0);
        self.seen_masses.iter_mut().enumerate().for_each(|(k, seen)| *seen += stats.mass(k));
        let half_range = self.half_range(dim);
        let mut up = gradient(stats, model);
        if self.maximisation.fixed_weights {
            up.logits.fill(0.0);
        }
        let first_rate = self.first_rate(count);
        let state = self.ascent.as_ref().expect("made above");
        let concentrations = self.concentration_slopes(std::mem::take(&mut up.ln_concentrations), model, state);
        let scales = concentrations.len();
        let state = self.ascent.as_mut().expect("made above");
        for (k, up) in up.directions.chunks_exact_mut(dim).enumerate() {
            let length = norm(&state.parameters[count + k * dim..][..dim]);
            up.iter_mut().for_each(|g| *g /= length);
        }
        // Every row counts equally, also in a smaller mini-batch at the end of an epoch.
        let fraction = stats.weight() / state.batch_weight;
        let up = up.logits.into_iter().chain(up.directions).chain(concentrations);
        let slopes: Vec<f64> = up.map(|g| fraction * g).collect();
        let rate = first_rate * self.decay.powi(self.epochs);
        let reach = |density: &VonMisesFisher| (NARROW * (dim as f64 - 1.0).max(1.0) / density.concentration()).sqrt().min(1.0);
        let directions = model.components().iter().map(|density| (dim, rate * reach(density)));
        let parts = iter::once((count, rate)).chain(directions).chain(iter::once((scales, rate)));
        state.moments.ascend(&mut state.parameters, &slopes, parts, self.betas, self.epsilon);
        let next = state.mixture(model, &self.maximisation, half_range)?;
        let notes = self.rows_weight.map_or_else(Vec::new, |rows| {
            // If rows are sorted, those seen so far may be of one cluster: until the end of the
            // pass the weights are more informative.
            let all = self.seen_weight >= (1.0 - 1e-6) * rows;
            let rows: Vec<f64> = if all { self.seen_masses.clone() } else { next.weights().iter().map(|w| w * rows).collect() };
            notes_on(&next, &rows, &self.maximisation)
        });
        Ok((next, notes))
    }

    pub(super) fn end_pass(&mut self) {
        self.epochs += 1;
        self.rows_weight = Some(std::mem::take(&mut self.seen_weight));
        self.seen_masses.clear();
    }

    pub(super) fn state(&self) -> State {
        let ascent = self.ascent.as_ref();
        let list = |of: fn(&Ascent) -> &[f64]| ascent.map_or(Vec::new(), |ascent| of(ascent).to_vec());
        State::default()
            .with("epochs", [f64::from(self.epochs)])
            .with("rows_weight", self.rows_weight)
            .with("parameters", list(|ascent| &ascent.parameters))
            .with("first_moments", list(|ascent| &ascent.moments.first))
            .with("second_moments", list(|ascent| &ascent.moments.second))
            .with("fading", ascent.iter().flat_map(|ascent| [ascent.moments.fading.0, ascent.moments.fading.1]))
            .with("batch_weight", ascent.map(|ascent| ascent.batch_weight))
    }

    pub(super) fn restore(&mut self, state: &State, mixture: &Mixture) -> Result<()> {
        self.epochs = count("rule.epochs", state.exactly("epochs", 1)?[0], 1 << 30)? as i32;
        self.rows_weight = state.exactly_or_none("rows_weight", 1)?.map(|weight| weight[0]);
        self.seen_weight = 0.0;
        self.seen_masses.clear();
        let length = mixture.components().len() * (mixture.dim() + 2) + usize::from(self.half_range(mixture.dim()).is_some());
        self.ascent = match state.exactly_or_none("parameters", length)? {
            None => None,
            Some(parameters) => {
                let fading = state.exactly("fading", 2)?;
                Some(Ascent {
                    parameters: parameters.to_vec(),
                    moments: Moments {
                        first: state.exactly("first_moments", length)?.to_vec(),
                        second: state.exactly("second_moments", length)?.to_vec(),
                        fading: (fading[0], fading[1]),
                    },
                    batch_weight: state.exactly("batch_weight", 1)?[0],
                })
            }
        };
        Ok(())
    }
}

/// Notes on components with these masses. Gradient ascent repairs no component but reports it.
fn notes_on(mixture: &Mixture, rows: &[f64], how: &Maximisation) -> Vec<Note> {
    let fitted = || (0..mixture.components().len()).filter(|&k| !mixture.is_background(k));
    let concentration = |k: usize| mixture.components()[k].concentration();
    let spread = |k: usize| bessel::mean_length_complement(mixture.dim(), concentration(k));
    // A fixed concentration is no sign of a collapse.
    let may_collapse = !matches!(how.policy, ConcentrationPolicy::Fixed(_));
    // Half a row, or for small weights a twentieth of the mean mass.
    let empty = (0.05 * rows.iter().sum::<f64>() / fitted().count() as f64).min(0.5);
    let note = |component: usize| match () {
        () if rows[component] < empty => Some(Note::Empty { component }),
        () if may_collapse
            && (is_collapsed(mixture.dim(), f64::INFINITY, spread(component))
                || concentration(component) >= how.largest_concentration) =>
        {
            Some(Note::Collapsed { component, rows: rows[component], concentration: concentration(component) })
        }
        () => None,
    };
    fitted().filter_map(note).collect()
}

/// Adam's running moments of the gradient.
#[derive(Debug, Clone)]
struct Moments {
    first: Vec<f64>,
    second: Vec<f64>,
    /// The betas to the power of the number of steps.
    fading: (f64, f64),
}

impl Moments {
    fn new(parameters: usize) -> Self {
        Moments { first: vec![0.0; parameters], second: vec![0.0; parameters], fading: (1.0, 1.0) }
    }

    /// One step uphill along these slopes. `parts` has the length and the learning rate of each
    /// part of the parameters.
    fn ascend(
        &mut self,
        parameters: &mut [f64],
        slopes: &[f64],
        parts: impl Iterator<Item = (usize, f64)>,
        (beta1, beta2): (f64, f64),
        epsilon: f64,
    ) {
        self.fading.0 *= beta1;
        self.fading.1 *= beta2;
        let spread = 1.0 / (1.0 - self.fading.1);
        let mut from = 0;
        for (length, rate) in parts {
            let part = from..from + length;
            from = part.end;
            let rate = rate / (1.0 - self.fading.0);
            let moments = self.first[part.clone()].iter_mut().zip(&mut self.second[part.clone()]);
            for ((parameter, g), (first, second)) in parameters[part.clone()].iter_mut().zip(&slopes[part]).zip(moments) {
                *first = without_subnormal(beta1 * *first + (1.0 - beta1) * g);
                *second = without_subnormal(beta2 * *second + (1.0 - beta2) * g * g);
                *parameter += rate * *first / ((*second * spread).sqrt() + epsilon);
            }
        }
    }
}

/// Replaces subnormal numbers by 0. Moments of components without rows decay to subnormal numbers
/// and stay there, since rounding undoes the factor. They move no parameter, but cost ten times as
/// long.
fn without_subnormal(moment: f64) -> f64 {
    if moment.abs() < f64::MIN_POSITIVE { 0.0 } else { moment }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_decay_to_zero_without_slopes() {
        let (mut moments, mut parameters) = (Moments::new(3), [1.0; 3]);
        let mut step = |slopes: [f64; 3]| {
            moments.ascend(&mut parameters, &slopes, [(1, 0.1), (2, 0.2)].into_iter(), (0.9, 0.99), 1e-8);
            (moments.first.clone(), moments.second.clone(), parameters)
        };
        let (first, second, parameters) = step([1.0, -2.0, 0.0]);
        assert!(first[0] > 0.0 && first[1] < 0.0 && first[2] == 0.0 && second[1] > second[0]);
        // The first step has the size of the learning rate whatever the slope.
        let expected = [1.1, 0.8, 1.0];
        assert!(parameters.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6), "{parameters:?}");
        let (mut steps, mut before) = (0, [f64::NAN; 3]);
        let (first, second) = loop {
            let (first, second, parameters) = step([0.0; 3]);
            assert!(first.iter().chain(&second).all(|moment| !moment.is_subnormal()), "after {steps} steps");
            if second == [0.0; 3] {
                assert_eq!(parameters, before, "parameters stopped moving earlier");
                break (first, second);
            }
            (steps, before) = (steps + 1, parameters);
        };
        assert_eq!((first, second), (vec![0.0; 3], vec![0.0; 3]));
        assert!((70_000..72_000).contains(&steps), "{steps}");
    }
}
