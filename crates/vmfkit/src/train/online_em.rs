//! Online EM: a step a block, for data that are read once or few times.

use super::em::Repairs;
use super::state::wrong;
use super::{Cadence, Rule, State};
use crate::error::{Error, Result};
use crate::maximise::{Maximisation, Note, expected_stats, maximise};
use crate::mixture::{Assignment, Mixture};
use crate::stats::SufficientStats;

/// Online (mini-batch) EM of Cappe and Moulines, doi:10.1111/j.1467-9868.2009.00698.x.
///
/// After block t the running statistics are (1 - g) times what they were plus g times the block's, each a mean over rows, with
/// g = (t + t0)^-a; then an M step. The first block is one step of EM. Between 1/2 and 1, a larger `a` forgets less and settles sooner.
///
/// All this in blocks of one weight, the largest that was seen: a block of a tenth of it, such as what is left of the rows at the end of a pass, counts as a tenth of a
/// step, MATH.md (14.5).
#[derive(Debug, Clone)]
pub struct OnlineEm {
    exponent: f64,
    offset: f64,
    maximisation: Maximisation,
    running: Option<SufficientStats>,
    /// Whether all rows count the same, those of an earlier fit too.
    evenly: bool,
    /// The rows' weight in this pass so far, in the last whole one, and in all blocks so far.
    seen_weight: f64,
    rows_weight: f64,
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
            maximisation: Maximisation::default(),
            running: None,
            evenly: false,
            seen_weight: 0.0,
            rows_weight: 0.0,
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

    /// How parameters are found.
    pub fn maximisation(mut self, maximisation: Maximisation) -> Self {
        self.maximisation = maximisation;
        self
    }

    /// Goes on after a fit of rows of this weight that ended with `model`. From then on all rows count the same, those of the fit and those to
    /// come: a block moves the running statistics by its share of all rows so far, and the step size plays no part.
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
        Ok(())
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
        self.check()?;
        self.seen_weight += stats.weight();
        self.total_weight += stats.weight();
        self.block_weight = self.block_weight.max(stats.weight());
        let rate = (self.total_weight / self.block_weight + self.offset).powf(-self.exponent);
        let running = match &mut self.running {
            None => self.running.insert(stats.clone()),
            Some(running) if self.evenly => {
                running.merge(stats)?;
                running
            }
            Some(running) => {
                // The old part is scaled and the block added as it is; then both stand for all rows.
                let step = rate * (stats.weight() / self.block_weight);
                running.scale((1.0 - step) / rate * (self.block_weight / running.weight()));
                running.merge(stats)?;
                running.scale(self.seen_weight.max(self.rows_weight) / running.weight());
                running
            }
        };
        let (mixture, notes) = maximise(running, model, &self.maximisation)?;
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
        self.rows_weight = std::mem::take(&mut self.seen_weight);
        self.repairs.are_done()
    }

    fn state(&self) -> State {
        let running = self.running.iter().flat_map(SufficientStats::values);
        let state = State::new()
            .with("passes", [self.passes as f64])
            .with("weights", [self.rows_weight, self.total_weight, self.block_weight])
            .with("running", running);
        self.repairs.remember(if self.evenly { state.with(EVENLY, [1.0]) } else { state })
    }

    fn restore(&mut self, state: &State, model: &Mixture) -> Result<()> {
        self.passes = state.count("passes", u64::from(u32::MAX))? as usize;
        let weights = state.exactly("weights", 3)?;
        if let Some(weight) = weights.iter().find(|weight| !(**weight >= 0.0 && weight.is_finite())) {
            return Err(wrong(format!("a weight of the rule must be finite and at least 0, found: `{weight}`")));
        }
        (self.rows_weight, self.total_weight, self.block_weight) = (weights[0], weights[1], weights[2]);
        self.seen_weight = 0.0;
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
