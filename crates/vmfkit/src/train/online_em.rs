//! Online EM: a step a block, for data that are read once or few times.

use super::em::Repairs;
use super::state::wrong;
use super::{Cadence, Rule, State};
use crate::error::{Error, Result};
use crate::m_step::{Maximisation, Note, expected_stats, maximise};
use crate::mixture::{Assignment, Mixture};
use crate::stats::SufficientStats;

/// Online (mini-batch) EM of Cappe and Moulines, doi:10.1111/j.1467-9868.2009.00698.x.
///
/// After block t the running statistics are (1 - g) times what they were plus g times the block's, each a mean over rows, with
/// g = (t + t0)^-a; then an M step. The first block is one step of EM. Between 1/2 and 1, a larger `a` forgets less and settles sooner.
///
/// All this in blocks of one weight, the largest that was seen: a block of a tenth of it, such as what is left of the rows at the end of a pass, counts as a tenth of a
/// step, MATH.md (14.5). With a [half-life](Self::half_life) no step is smaller than what forgets old rows at that rate.
///
/// For rows that arrive in batches [`StreamFitter`](crate::fit::stream::StreamFitter) is the simpler way: it makes the start, and moves components to new clusters.
#[derive(Debug, Clone)]
pub struct OnlineEm {
    exponent: f64,
    offset: f64,
    /// In rows of weight 1; infinite if nothing is forgotten.
    half_life: f64,
    maximisation: Maximisation,
    /// Their weight is the effective number of rows they stand for, MATH.md (14.9).
    running: Option<SufficientStats>,
    /// Whether all rows count the same, those of an earlier fit too.
    evenly: bool,
    /// The rows' weight in all blocks so far.
    total_weight: f64,
    /// That of the heaviest block.
    block_weight: f64,
    passes: usize,
    repairs: Repairs,
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
            block_weight: 0.0,
            passes: 0,
            repairs: Repairs::default(),
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

    /// Forgets: after rows of this total weight have been seen, earlier ones count half of what they did. Infinite by default.
    ///
    /// For streams that drift: a half-life of some thousand rows a component keeps estimates steady, and clusters that are gone fade.
    pub fn half_life(mut self, rows: f64) -> Self {
        self.half_life = rows;
        self
    }

    /// How parameters are found.
    pub fn maximisation(mut self, maximisation: Maximisation) -> Self {
        self.maximisation = maximisation;
        self
    }

    /// Goes on after a fit of rows of this weight that ended with `model`. From then on all rows count the same, those of the fit and those to
    /// come: a block moves the running statistics by its share of all rows so far, or by what the half-life asks for if that is more.
    pub fn after(mut self, model: &Mixture, weight: f64) -> Result<Self> {
        self.running = Some(expected_stats(model, weight)?);
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

    /// The statistics of all rows so far, as far as they are remembered.
    pub(crate) fn running(&self) -> Option<&SufficientStats> {
        self.running.as_ref()
    }

    /// Adds what a component stands for to another, or forgets it, and has it begin anew with statistics of one component.
    pub(crate) fn reassign(&mut self, component: usize, merged_into: Option<usize>, begin_with: &SufficientStats) {
        if let Some(running) = &mut self.running {
            let given_up = running.take_component(component);
            if let Some(merged_into) = merged_into {
                running.merge_into(merged_into, &given_up);
            }
            running.merge_into(component, begin_with);
        }
    }

    /// The weight of a block in the running mean, MATH.md (14.5).
    fn step(&self, weight: f64, remembered: f64) -> f64 {
        let step = if self.evenly {
            weight / (remembered + weight)
        } else {
            (weight / self.block_weight) * (self.total_weight / self.block_weight + self.offset).powf(-self.exponent)
        };
        step.max(-f64::exp_m1(-std::f64::consts::LN_2 * weight / self.half_life))
    }

    /// Adds a block to the running statistics and takes the M step.
    pub(crate) fn advance(&mut self, model: &Mixture, stats: &SufficientStats) -> Result<(Mixture, Vec<Note>)> {
        self.check()?;
        let weight = stats.weight();
        self.total_weight += weight;
        self.block_weight = self.block_weight.max(weight);
        let remembered = self.running.as_ref().map_or(0.0, SufficientStats::weight);
        let step = self.step(weight, remembered);
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
        maximise(running, model, &self.maximisation)
    }
}

/// What is in the state of a rule that goes on after a fit, and of no other.
const EVENLY: &str = "evenly";

impl Rule for OnlineEm {
    fn cadence(&self) -> Cadence {
        Cadence::EveryBlock
    }

    fn assignment(&self) -> Assignment {
        Assignment::Soft
    }

    fn next(&mut self, model: &Mixture, stats: &SufficientStats) -> Result<(Mixture, Vec<Note>)> {
        let (mixture, notes) = self.advance(model, stats)?;
        let running = self.running.as_ref().expect("a block was added");
        self.repairs.look(&mixture, running, &notes, &self.maximisation, self.passes + 1);
        Ok((mixture, notes))
    }

    fn repaired(&self, model: &Mixture) -> Option<(Mixture, Note)> {
        self.repairs.repaired(model, &self.maximisation)
    }

    fn give_up_repairs(&mut self) {
        self.repairs.give_up();
    }

    fn end_pass(&mut self) -> bool {
        self.passes += 1;
        self.repairs.are_done()
    }

    fn state(&self) -> State {
        let running = self.running.iter().flat_map(SufficientStats::values);
        let state = State::new()
            .with("passes", [self.passes as f64])
            .with("weights", [self.total_weight, self.block_weight])
            .with("running", running);
        self.repairs.remember(if self.evenly { state.with(EVENLY, [1.0]) } else { state })
    }

    fn restore(&mut self, state: &State, model: &Mixture) -> Result<()> {
        self.passes = state.count("passes", u64::from(u32::MAX))? as usize;
        let weights = state.exactly("weights", 2)?;
        if let Some(weight) = weights.iter().find(|weight| !(**weight >= 0.0 && weight.is_finite())) {
            return Err(wrong(format!("a weight of the rule must be finite and at least 0, found: `{weight}`")));
        }
        (self.total_weight, self.block_weight) = (weights[0], weights[1]);
        self.evenly = state.get(EVENLY).is_ok();
        let running = state.get("running")?;
        if self.total_weight < self.block_weight || !(self.block_weight > 0.0 || self.evenly || running.is_empty()) {
            let (all, heaviest) = (self.total_weight, self.block_weight);
            return Err(wrong(format!(
                "the weight of all blocks must be at least that of the heaviest, `{heaviest}`, found: `{all}`"
            )));
        }
        self.running = match running.is_empty() {
            true => None,
            false => {
                let stats = SufficientStats::of_values(model.components().len(), model.dim(), running.iter().copied());
                Some(stats.map_err(|what| wrong(format!("the running statistics: {what}")))?)
            }
        };
        self.repairs = Repairs::restored(state, model)?;
        Ok(())
    }
}
