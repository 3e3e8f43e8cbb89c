//! EM and its relatives: one step a pass.

use super::{Cadence, Rule, State};
use crate::error::{Error, Result};
use crate::maximise::{Maximisation, Note, maximise, split_widest};
use crate::mixture::{Assignment, Mixture};
use crate::sampler::Stream;
use crate::stats::SufficientStats;

/// How often an empty component is given another chance.
const CHANCES: u8 = 3;

/// Expectation-maximisation (Dempster, Laird and Rubin, 1977; for vMF mixtures Banerjee, Dhillon, Ghosh and Sra, JMLR 6 (2005) 1345).
///
/// The assignment makes it soft EM, hard EM, stochastic EM ([`Assignment::Sampled`], a new seed in every pass) or spherical k-means
/// ([`Assignment::Nearest`]). With free or shared concentrations found exactly, soft and hard EM and k-means never lower their objective, but where
/// an empty component is restarted.
#[derive(Debug, Clone)]
pub struct Em {
    assignment: Assignment,
    maximisation: Maximisation,
    annealing: Option<Annealing>,
    repairs: Repairs,
    pass: usize,
}

/// Deterministic annealing (Ueda and Nakano, doi:10.1016/S0893-6080(97)00133-0): responsibilities proportional to p^(1/T), where the
/// temperature T falls to 1 by a constant factor a pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Annealing {
    /// The temperature of the first pass.
    pub from: f64,
    /// What it is multiplied by after each pass, until it is 1.
    pub factor: f64,
}

impl Annealing {
    fn check(&self) -> Result<()> {
        if !(self.from >= 1.0 && self.from.is_finite()) {
            return Err(Error::Option { option: "the first temperature", range: "finite and at least 1", value: self.from });
        }
        if !(self.factor > 0.0 && self.factor < 1.0) {
            return Err(Error::Option { option: "the factor of the temperature", range: "between 0 and 1", value: self.factor });
        }
        Ok(())
    }

    fn temperature(&self, pass: usize) -> f64 {
        // A little above 1 is not worth a pass of its own.
        let temperature = self.from * self.factor.powi(pass as i32);
        if temperature > 1.01 { temperature } else { 1.0 }
    }
}

impl Default for Em {
    fn default() -> Self {
        Em {
            assignment: Assignment::Soft,
            maximisation: Maximisation::default(),
            annealing: None,
            repairs: Repairs::default(),
            pass: 0,
        }
    }
}

impl Em {
    /// Soft EM with the default M step.
    pub fn new() -> Self {
        Self::default()
    }

    /// How rows are shared among components.
    pub fn assignment(mut self, assignment: Assignment) -> Self {
        self.assignment = assignment;
        self
    }

    /// How parameters are found.
    pub fn maximisation(mut self, maximisation: Maximisation) -> Self {
        self.maximisation = maximisation;
        self
    }

    /// Begin warm; for soft assignments.
    pub fn annealing(mut self, annealing: Annealing) -> Self {
        self.annealing = Some(annealing);
        self
    }
}

impl Rule for Em {
    fn cadence(&self) -> Cadence {
        Cadence::EveryPass
    }

    fn assignment(&self) -> Assignment {
        match (self.assignment, self.annealing) {
            (Assignment::Sampled { seed }, _) => Assignment::Sampled { seed: Stream::derive(seed, self.pass as u64) },
            (Assignment::Soft, Some(annealing)) => match annealing.temperature(self.pass) {
                1.0 => Assignment::Soft,
                temperature => Assignment::Tempered(temperature),
            },
            (assignment, _) => assignment,
        }
    }

    fn next(&mut self, model: &Mixture, stats: &SufficientStats) -> Result<(Mixture, Vec<Note>)> {
        self.annealing.map_or(Ok(()), |annealing| annealing.check())?;
        let (mixture, notes) = maximise(stats, model, &self.maximisation)?;
        Ok(self.repairs.repair(mixture, stats, notes, &self.maximisation, self.pass + 1))
    }

    fn end_pass(&mut self) -> bool {
        let cold = self.annealing.is_none_or(|annealing| annealing.temperature(self.pass) == 1.0);
        self.pass += 1;
        cold
    }

    fn state(&self) -> State {
        self.repairs.remember(State::new().with("pass", [self.pass as f64]))
    }

    fn restore(&mut self, state: &State, model: &Mixture) -> Result<()> {
        self.pass = state.count("pass", u64::from(u32::MAX))? as usize;
        self.repairs = Repairs::restored(state, model)?;
        Ok(())
    }
}

/// Empty components get another chance, but not for ever: there may be fewer distinct rows than components.
#[derive(Debug, Clone, Default)]
pub(super) struct Repairs {
    used: Vec<u8>,
}

impl Repairs {
    pub(super) fn remember(&self, state: State) -> State {
        state.with("chances_used", self.used.iter().map(|used| f64::from(*used)))
    }

    pub(super) fn restored(state: &State, model: &Mixture) -> Result<Self> {
        let used = state.exactly_or_none("chances_used", model.components().len())?.unwrap_or_default();
        // Numbers of chances are small; others become the nearest.
        Ok(Repairs { used: used.iter().map(|used| *used as u8).collect() })
    }

    pub(super) fn repair(
        &mut self,
        mut mixture: Mixture,
        stats: &SufficientStats,
        mut notes: Vec<Note>,
        how: &Maximisation,
        pass: usize,
    ) -> (Mixture, Vec<Note>) {
        self.used.resize(stats.components(), 0);
        // Weights that are held stay, and one that is held at 0 could win no row.
        let held = how.fixed_weights.then(|| mixture.weights().to_vec());
        let may_win = |component: usize| held.as_ref().is_none_or(|weights| weights[component] > 0.0);
        let has_a_chance = |component: usize| self.used[component] < CHANCES && may_win(component);
        // One a step: two that are put beside the same component would compete for the same half.
        let empty = notes.iter().position(|note| matches!(note, Note::Empty { component } if has_a_chance(*component)));
        if let Some(at) = empty
            && let Note::Empty { component } = notes[at]
        {
            self.used[component] += 1;
            if let Some((repaired, beside)) = split_widest(&mixture, stats, component) {
                mixture = match held {
                    Some(weights) => Mixture::of_parts(weights, repaired.components().to_vec(), repaired.has_background()),
                    None => repaired,
                };
                notes[at] = Note::Reseeded { component, beside, pass };
            }
        }
        (mixture, notes)
    }
}
