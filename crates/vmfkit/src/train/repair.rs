//! [`Repairs`]: restarts of empty components.

use super::state::{State, count, wrong};
use crate::error::Result;
use crate::m_step::{Maximisation, Note, split, widest};
use crate::mixture::Mixture;
use crate::stats::SufficientStats;

/// The limit of restarts per component: there may be fewer distinct rows than components.
const RESTARTS: u8 = 3;

/// Restarts of empty components, one per step: two that were put next to the same component would
/// compete for the same half of its rows.
#[derive(Debug, Clone, Default)]
pub(super) struct Repairs {
    /// Restarts so far, by component.
    used: Vec<u8>,
    planned: Option<Repair>,
}

/// A component that was empty in a pass, the component to halve for it, and the complement of the
/// mean length of that one's rows.
#[derive(Debug, Clone, Copy)]
struct Repair {
    component: usize,
    beside: usize,
    complement: f64,
    pass: usize,
}

const USED: &str = "repairs_used";
const PLANNED: &str = "repair";

impl Repairs {
    /// Plans the next repair from the notes of an M step in the pass with this number.
    pub fn plan(&mut self, mixture: &Mixture, stats: &SufficientStats, notes: &[Note], how: &Maximisation, pass: usize) {
        self.used.resize(stats.components(), 0);
        // A component with a fixed weight of 0 could win no row.
        let may_win = |component: usize| !how.fixed_weights || mixture.weights()[component] > 0.0;
        let empty = notes.iter().find_map(|note| match *note {
            Note::Empty { component } if self.used[component] < RESTARTS && may_win(component) => Some(component),
            _ => None,
        });
        self.planned = empty.and_then(|component| {
            self.used[component] += 1;
            let (beside, complement) = widest(mixture, stats, component)?;
            Some(Repair { component, beside, complement, pass })
        });
    }

    pub fn is_planned(&self) -> bool {
        self.planned.is_some()
    }

    /// Restarts no component again.
    pub fn give_up(&mut self) {
        self.used.fill(RESTARTS);
        self.planned = None;
    }

    /// The mixture with the planned repair.
    pub fn repaired(&self, mixture: &Mixture, how: &Maximisation) -> Option<(Mixture, Note)> {
        let Repair { component, beside, complement, pass } = self.planned?;
        let mut repaired = split(mixture, component, beside, complement);
        if how.fixed_weights {
            let (weights, densities) = (mixture.weights().to_vec(), repaired.components().to_vec());
            repaired = Mixture::of_parts(weights, densities, repaired.has_background());
        }
        Some((repaired, Note::Reseeded { component, beside, pass }))
    }

    pub fn write(&self, state: State) -> State {
        let state = state.with(USED, self.used.iter().map(|used| f64::from(*used)));
        match self.planned {
            Some(Repair { component, beside, complement, pass }) => {
                state.with(PLANNED, [component as f64, beside as f64, complement, pass as f64])
            }
            None => state,
        }
    }

    pub fn read(state: &State, mixture: &Mixture) -> Result<Self> {
        let used = state.exactly_or_none(USED, mixture.components().len())?.unwrap_or_default();
        let used = used.iter().map(|used| count(USED, *used, RESTARTS.into()).map(|used| used as u8));
        let planned = state.has(PLANNED).then(|| Repair::read(state.exactly(PLANNED, 4)?, mixture)).transpose()?;
        Ok(Repairs { used: used.collect::<Result<_>>()?, planned })
    }
}

impl Repair {
    fn read(numbers: &[f64], mixture: &Mixture) -> Result<Self> {
        let last = mixture.components().len() as u64 - 1;
        let index = |value: f64| count("a component of a repair", value, last).map(|index| index as usize);
        let (component, beside, complement) = (index(numbers[0])?, index(numbers[1])?, numbers[2]);
        if component == beside || mixture.is_background(component) || mixture.is_background(beside) {
            return Err(wrong(format!("component {component} cannot be restarted next to component: `{beside}`")));
        }
        if !(complement > 0.0 && complement <= 1.0) {
            return Err(wrong(format!("the scatter of a repair must be above 0 and at most 1, found: `{complement}`")));
        }
        Ok(Repair { component, beside, complement, pass: count("a pass of a repair", numbers[3], u64::MAX)? as usize })
    }
}
