//! [`OnlineEm`]: an M step on running statistics after every mini-batch, for rows that are read
//! once or a few times. The loop is in `mini_batches.rs`.

use super::state::{State, wrong};
use crate::error::{Error, Result};
use crate::m_step::{Maximisation, Note, expected_stats, maximise};
use crate::mixture::Mixture;
use crate::stats::SufficientStats;

/// Online (mini-batch) EM of Cappe and Moulines, doi:10.1111/j.1467-9868.2009.00698.x.
///
/// After mini-batch t the running statistics are (1 - g) times their former value plus g times
/// those of the mini-batch, each as a mean over rows, with g = (t + t0)^-a. An M step follows. The
/// first mini-batch is one step of EM. `a` is between 1/2 and 1; a larger one forgets less and
/// converges sooner.
///
/// t is counted in mini-batches of the largest weight so far: one with a tenth of that weight, such
/// as the remainder at the end of a pass, counts as a tenth of a step, MATH.md (14.5). A
/// [half-life](Self::half_life) sets a lower limit to the steps, so that old rows are forgotten at
/// that rate.
///
/// For rows that arrive in batches use [`StreamFitter`](crate::fit::stream::StreamFitter), which
/// also makes the start and moves components to new clusters.
#[derive(Debug, Clone)]
pub struct OnlineEm {
    exponent: f64,
    offset: f64,
    /// In rows of weight 1; infinite if nothing is forgotten.
    half_life: f64,
    pub(super) maximisation: Maximisation,
    /// Their weight is the effective number of rows behind them, MATH.md (14.12).
    running: Option<SufficientStats>,
    /// Whether all rows count equally, those of an earlier fit included.
    evenly: bool,
    /// The weight of all mini-batches so far.
    total_weight: f64,
    /// The weight of the heaviest mini-batch.
    batch_weight: f64,
}

impl Default for OnlineEm {
    fn default() -> Self {
        OnlineEm {
            exponent: 0.6,
            offset: 1.0,
            half_life: f64::INFINITY,
            maximisation: Maximisation::default(),
            running: None,
            evenly: false,
            total_weight: 0.0,
            batch_weight: 0.0,
        }
    }
}

impl OnlineEm {
    /// Steps of size (t + 1)^-0.6 with the default M step.
    pub fn new() -> Self {
        Self::default()
    }

    /// a in g = (t + t0)^-a, above 1/2 and at most 1.
    pub fn exponent(mut self, exponent: f64) -> Self {
        self.exponent = exponent;
        self
    }

    /// t0 in g = (t + t0)^-a, at least 0.
    pub fn offset(mut self, offset: f64) -> Self {
        self.offset = offset;
        self
    }

    /// The total weight of rows after which earlier rows count half. Infinite by default.
    ///
    /// For streams that drift: with a half-life of some thousand rows per component, estimates stay
    /// steady and clusters that no longer get rows fade.
    pub fn half_life(mut self, rows: f64) -> Self {
        self.half_life = rows;
        self
    }

    /// The settings of the M step.
    pub fn maximisation(mut self, maximisation: Maximisation) -> Self {
        self.maximisation = maximisation;
        self
    }

    /// Continues after a fit of rows of this weight that ended with `mixture`. From then on all
    /// rows count equally, those of the fit and those to come: a mini-batch moves the running
    /// statistics by its fraction of all rows so far, or by more if the half-life demands it.
    pub fn after(mut self, mixture: &Mixture, weight: f64) -> Result<Self> {
        self.running = Some(expected_stats(mixture, weight)?);
        self.evenly = true;
        Ok(self)
    }

    fn check(&self) -> Result<()> {
        if !(self.exponent > 0.5 && self.exponent <= 1.0) {
            let range = "above 0.5 and at most 1";
            return Err(Error::Option { option: "the exponent of the step size", range, value: self.exponent });
        }
        if !(self.offset >= 0.0 && self.offset.is_finite()) {
            return Err(Error::Option {
                option: "the offset of the step size",
                range: "finite and at least 0",
                value: self.offset,
            });
        }
        if !(self.half_life > 0.0) {
            return Err(Error::Option { option: "the half-life", range: "above 0", value: self.half_life });
        }
        Ok(())
    }

    /// The running statistics; `None` before the first mini-batch.
    pub(crate) fn running(&self) -> Option<&SufficientStats> {
        self.running.as_ref()
    }

    /// Gives the statistics of a component to another, or drops them, and replaces them by those of
    /// one component.
    pub(crate) fn reassign(&mut self, component: usize, merged_into: Option<usize>, begin_with: &SufficientStats) {
        if let Some(running) = &mut self.running {
            let given_up = running.take_component(component);
            if let Some(merged_into) = merged_into {
                running.merge_into(merged_into, &given_up);
            }
            running.merge_into(component, begin_with);
        }
    }

    /// The weight of a mini-batch in the running mean, MATH.md (14.5).
    fn step_size(&self, weight: f64, remembered: f64) -> f64 {
        let step = if self.evenly {
            weight / (remembered + weight)
        } else {
            (weight / self.batch_weight) * (self.total_weight / self.batch_weight + self.offset).powf(-self.exponent)
        };
        step.max(-f64::exp_m1(-std::f64::consts::LN_2 * weight / self.half_life))
    }

    /// Adds a mini-batch to the running statistics and takes the M step.
    pub(crate) fn step(&mut self, mixture: &Mixture, stats: &SufficientStats) -> Result<(Mixture, Vec<Note>)> {
        self.check()?;
        let weight = stats.weight();
        self.total_weight += weight;
        self.batch_weight = self.batch_weight.max(weight);
        let remembered = self.running.as_ref().map_or(0.0, SufficientStats::weight);
        let step = self.step_size(weight, remembered);
        let running = match &mut self.running {
            None => self.running.insert(stats.clone()),
            Some(running) if self.evenly && step <= weight / (remembered + weight) => {
                running.merge(stats)?;
                running
            }
            Some(running) => {
                running.scale((1.0 - step) / step * (weight / remembered));
                running.merge(stats)?;
                let effective = weight / ((1.0 - step).powi(2) * (weight / remembered) + step * step);
                running.scale(effective / running.weight());
                running
            }
        };
        maximise(running, mixture, &self.maximisation)
    }

    pub(crate) fn state(&self) -> State {
        let running = self.running.iter().flat_map(SufficientStats::values);
        let state = State::default().with("weights", [self.total_weight, self.batch_weight]).with("running", running);
        if self.evenly { state.with(EVENLY, [1.0]) } else { state }
    }

    pub(crate) fn restore(&mut self, state: &State, mixture: &Mixture) -> Result<()> {
        let weights = state.exactly("weights", 2)?;
        if let Some(weight) = weights.iter().find(|weight| !(**weight >= 0.0 && weight.is_finite())) {
            return Err(wrong(format!("the weight of mini-batches must be finite and at least 0, found: `{weight}`")));
        }
        (self.total_weight, self.batch_weight) = (weights[0], weights[1]);
        self.evenly = state.has(EVENLY);
        let running = state.get("running")?;
        if self.total_weight < self.batch_weight || !(self.batch_weight > 0.0 || self.evenly || running.is_empty()) {
            let (all, heaviest) = (self.total_weight, self.batch_weight);
            return Err(wrong(format!(
                "the weight of all mini-batches must be at least that of the heaviest, `{heaviest}`, found: `{all}`"
            )));
        }
        self.running = match running.is_empty() {
            true => None,
            false => {
                let stats = SufficientStats::of_values(mixture.components().len(), mixture.dim(), running.iter().copied());
                Some(stats.map_err(|what| wrong(format!("the running statistics: {what}")))?)
            }
        };
        Ok(())
    }
}

/// The name of an entry of the state that exists if all rows count equally.
const EVENLY: &str = "evenly";
