//! EM and its relatives: one step a pass.

use super::state::{count, wrong};
use super::{Cadence, Rule, State};
use crate::error::{Error, Result};
use crate::m_step::{Maximisation, Note, maximise, split, widest};
use crate::mixture::{Assignment, Mixture};
use crate::sampler::Stream;
use crate::stats::SufficientStats;

/// How often an empty component is given another chance.
const CHANCES: u8 = 3;

/// Expectation-maximisation (Dempster, Laird and Rubin, 1977; for vMF mixtures Banerjee, Dhillon, Ghosh and Sra, JMLR 6 (2005) 1345).
///
/// The assignment makes it soft EM, hard EM, stochastic EM ([`Assignment::Sampled`], a new seed in every pass) or spherical k-means
/// ([`Assignment::Nearest`]). With free or shared concentrations found exactly, soft and hard EM and k-means never lower their objective, but where
/// an empty component is restarted; a fit that would end lower for it goes on from where it was, or ends with that if no pass is left.
#[derive(Debug, Clone)]
pub struct Em {
    assignment: Assignment,
    maximisation: Maximisation,
    annealing: Option<Annealing>,
    repairs: Repairs,
    pass: usize,
}

/// Where responsibilities have long been equal; beyond it objectives, which are multiplied by the temperature, lose their digits.
const WARMEST: f64 = 1e6;

/// Deterministic annealing (Ueda and Nakano, doi:10.1016/S0893-6080(97)00133-0): responsibilities proportional to p^(1/T), where the
/// temperature T falls to 1 by a constant factor a pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Annealing {
    /// The temperature of the first pass, at least 1 and at most 1e6.
    pub from: f64,
    /// What it is multiplied by after each pass, until it is 1.
    pub factor: f64,
}

impl Annealing {
    fn check(&self) -> Result<()> {
        if !(1.0..=WARMEST).contains(&self.from) {
            return Err(Error::Option { option: "the first temperature", range: "at least 1 and at most 1e6", value: self.from });
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
        self.repairs.look(&mixture, stats, &notes, &self.maximisation, self.pass + 1);
        Ok((mixture, notes))
    }

    fn repaired(&self, model: &Mixture) -> Option<(Mixture, Note)> {
        self.repairs.repaired(model, &self.maximisation)
    }

    fn give_up_repairs(&mut self) {
        self.repairs.give_up();
    }

    fn end_pass(&mut self) -> bool {
        let cold = self.annealing.is_none_or(|annealing| annealing.temperature(self.pass) == 1.0);
        self.pass += 1;
        cold && self.repairs.are_done()
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
    next: Option<Repair>,
}

/// A component that was empty in a pass, and the one to halve for it, whose rows have this complement of the mean length.
#[derive(Debug, Clone, Copy)]
struct Repair {
    component: usize,
    beside: usize,
    complement: f64,
    pass: usize,
}

/// What is in the state of a rule that has a repair to make, and of no other.
const REPAIR: &str = "repair";

impl Repairs {
    pub(super) fn remember(&self, state: State) -> State {
        let state = state.with("chances_used", self.used.iter().map(|used| f64::from(*used)));
        match self.next {
            Some(Repair { component, beside, complement, pass }) => {
                state.with(REPAIR, [component as f64, beside as f64, complement, pass as f64])
            }
            None => state,
        }
    }

    pub(super) fn restored(state: &State, model: &Mixture) -> Result<Self> {
        let used = state.exactly_or_none("chances_used", model.components().len())?.unwrap_or_default();
        // Numbers of chances are small; others become the nearest.
        let used = used.iter().map(|used| *used as u8).collect();
        let next = state.get(REPAIR).is_ok().then(|| Repair::restored(state.exactly(REPAIR, 4)?, model)).transpose()?;
        Ok(Repairs { used, next })
    }

    /// Chooses the next repair by what a step has said of the components of its mixture.
    pub(super) fn look(&mut self, mixture: &Mixture, stats: &SufficientStats, notes: &[Note], how: &Maximisation, pass: usize) {
        self.used.resize(stats.components(), 0);
        // One that is held at a weight of 0 could win no row.
        let may_win = |component: usize| !how.fixed_weights || mixture.weights()[component] > 0.0;
        // One a step: two that are put beside the same component would compete for the same half.
        let empty = notes.iter().find_map(|note| match *note {
            Note::Empty { component } if self.used[component] < CHANCES && may_win(component) => Some(component),
            _ => None,
        });
        self.next = empty.and_then(|component| {
            self.used[component] += 1;
            let (beside, complement) = widest(mixture, stats, component)?;
            Some(Repair { component, beside, complement, pass })
        });
    }

    /// No component gets another chance.
    pub(super) fn give_up(&mut self) {
        self.used.fill(CHANCES);
        self.next = None;
    }

    pub(super) fn are_done(&self) -> bool {
        self.next.is_none()
    }

    /// The mixture of the last step after its repair.
    pub(super) fn repaired(&self, mixture: &Mixture, how: &Maximisation) -> Option<(Mixture, Note)> {
        let Repair { component, beside, complement, pass } = self.next?;
        let mut repaired = split(mixture, component, beside, complement);
        if how.fixed_weights {
            // Weights that are held stay.
            let (weights, densities) = (mixture.weights().to_vec(), repaired.components().to_vec());
            repaired = Mixture::of_parts(weights, densities, repaired.has_background());
        }
        Some((repaired, Note::Reseeded { component, beside, pass }))
    }
}

impl Repair {
    fn restored(numbers: &[f64], model: &Mixture) -> Result<Self> {
        let last = model.components().len() as u64 - 1;
        let place = |value: f64| count("a component of a repair", value, last).map(|place| place as usize);
        let (component, beside, complement) = (place(numbers[0])?, place(numbers[1])?, numbers[2]);
        if component == beside || model.is_background(component) || model.is_background(beside) {
            return Err(wrong(format!("component {component} cannot be restarted beside component: `{beside}`")));
        }
        if !(complement > 0.0 && complement <= 1.0) {
            return Err(wrong(format!("the scatter of a repair must be above 0 and at most 1, found: `{complement}`")));
        }
        Ok(Repair { component, beside, complement, pass: count("a pass of a repair", numbers[3], u64::MAX)? as usize })
    }
}
