//! [`Rule`]: how a fit gets from statistics to its next mixture; [`Em`], the simplest.

use super::adam::Adam;
use super::online_em::OnlineEm;
use super::state::State;
use crate::error::{Error, Result};
use crate::m_step::{Maximisation, Note, maximise};
use crate::mixture::{Assignment, Mixture};
use crate::sampler::Stream;
use crate::stats::SufficientStats;

/// How a fit gets from statistics to its next mixture.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Rule {
    /// An M step after each pass.
    Em(Em),
    /// An M step on running statistics after each mini-batch.
    OnlineEm(OnlineEm),
    /// A gradient step after each mini-batch.
    Adam(Adam),
}

impl From<Em> for Rule {
    fn from(em: Em) -> Self {
        Rule::Em(em)
    }
}

impl From<OnlineEm> for Rule {
    fn from(online_em: OnlineEm) -> Self {
        Rule::OnlineEm(online_em)
    }
}

impl From<Adam> for Rule {
    fn from(adam: Adam) -> Self {
        Rule::Adam(adam)
    }
}

impl Rule {
    /// The name used in checkpoints.
    pub fn name(&self) -> &'static str {
        match self {
            Rule::Em(_) => "em",
            Rule::OnlineEm(_) => "online em",
            Rule::Adam(_) => "adam",
        }
    }

    /// True if it steps after every mini-batch, false if after all rows of a pass.
    pub fn is_online(&self) -> bool {
        !matches!(self, Rule::Em(_))
    }

    /// How rows are assigned in the pass with this index.
    pub(super) fn assignment_in(&self, pass: usize) -> Assignment {
        match self {
            Rule::Em(em) => em.assignment_in(pass),
            Rule::OnlineEm(_) | Rule::Adam(_) => Assignment::Soft,
        }
    }

    /// The next mixture, and notes on its components.
    pub(super) fn step(&mut self, mixture: &Mixture, stats: &SufficientStats) -> Result<(Mixture, Vec<Note>)> {
        match self {
            Rule::Em(em) => em.step(mixture, stats),
            Rule::OnlineEm(online_em) => online_em.step(mixture, stats),
            Rule::Adam(adam) => adam.step(mixture, stats),
        }
    }

    /// The statistics behind the mixture of the last step, which say where to restart an empty
    /// component; `None` for gradients, which restart none.
    pub(super) fn basis_of_repairs<'s>(&'s self, stats: &'s SufficientStats) -> Option<&'s SufficientStats> {
        match self {
            Rule::Em(_) => Some(stats),
            Rule::OnlineEm(online_em) => online_em.running(),
            Rule::Adam(_) => None,
        }
    }

    pub(super) fn maximisation(&self) -> &Maximisation {
        match self {
            Rule::Em(em) => &em.maximisation,
            Rule::OnlineEm(online_em) => &online_em.maximisation,
            Rule::Adam(adam) => &adam.maximisation,
        }
    }

    pub(super) fn end_pass(&mut self) {
        if let Rule::Adam(adam) = self {
            adam.end_pass();
        }
    }

    /// What the next pass needs besides the settings and the mixture.
    pub(super) fn state(&self) -> State {
        match self {
            Rule::Em(_) => State::default(),
            Rule::OnlineEm(online_em) => online_em.state(),
            Rule::Adam(adam) => adam.state(),
        }
    }

    pub(super) fn restore(&mut self, state: &State, mixture: &Mixture) -> Result<()> {
        match self {
            Rule::Em(_) => Ok(()),
            Rule::OnlineEm(online_em) => online_em.restore(state, mixture),
            Rule::Adam(adam) => adam.restore(state, mixture),
        }
    }
}

/// Expectation-maximisation (Dempster, Laird and Rubin, 1977; for vMF mixtures Banerjee, Dhillon,
/// Ghosh and Sra, JMLR 6 (2005) 1345).
///
/// The assignment makes it soft EM, hard EM, stochastic EM ([`Assignment::Sampled`], with a new
/// seed in every pass) or spherical k-means ([`Assignment::Nearest`]). If concentrations are free
/// or shared and estimated exactly, soft and hard EM and k-means never lower their objective,
/// except when an empty component is restarted. A fit that would end lower because of that
/// continues from where it was, or ends there if no pass is left.
#[derive(Debug, Clone)]
pub struct Em {
    assignment: Assignment,
    maximisation: Maximisation,
    annealing: Option<Annealing>,
}

impl Default for Em {
    fn default() -> Self {
        Em { assignment: Assignment::Soft, maximisation: Maximisation::default(), annealing: None }
    }
}

impl Em {
    /// Soft EM with the default M step.
    pub fn new() -> Self {
        Self::default()
    }

    /// How rows are assigned to components.
    pub fn assignment(mut self, assignment: Assignment) -> Self {
        self.assignment = assignment;
        self
    }

    /// The settings of the M step.
    pub fn maximisation(mut self, maximisation: Maximisation) -> Self {
        self.maximisation = maximisation;
        self
    }

    /// Anneals; for soft assignments.
    pub fn annealing(mut self, annealing: Annealing) -> Self {
        self.annealing = Some(annealing);
        self
    }

    fn assignment_in(&self, pass: usize) -> Assignment {
        match (self.assignment, self.annealing) {
            (Assignment::Sampled { seed }, _) => Assignment::Sampled { seed: Stream::derive(seed, pass as u64) },
            (Assignment::Soft, Some(annealing)) => match annealing.temperature(pass) {
                1.0 => Assignment::Soft,
                temperature => Assignment::Tempered(temperature),
            },
            (assignment, _) => assignment,
        }
    }

    fn step(&self, mixture: &Mixture, stats: &SufficientStats) -> Result<(Mixture, Vec<Note>)> {
        self.annealing.map_or(Ok(()), |annealing| annealing.check())?;
        maximise(stats, mixture, &self.maximisation)
    }
}

/// At this temperature responsibilities are practically equal. Above it objectives, which are
/// multiplied by the temperature, lose digits.
const HIGHEST_TEMPERATURE: f64 = 1e6;

/// Deterministic annealing (Ueda and Nakano, doi:10.1016/S0893-6080(97)00133-0): responsibilities
/// proportional to p^(1/T), where the temperature T falls to 1 by a constant factor per pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Annealing {
    /// The temperature of the first pass, at least 1 and at most 1e6.
    pub from: f64,
    /// Multiplies the temperature after each pass until it is 1; between 0 and 1.
    pub factor: f64,
}

impl Annealing {
    fn check(&self) -> Result<()> {
        if !(1.0..=HIGHEST_TEMPERATURE).contains(&self.from) {
            return Err(Error::Option { option: "the first temperature", range: "at least 1 and at most 1e6", value: self.from });
        }
        if !(self.factor > 0.0 && self.factor < 1.0) {
            return Err(Error::Option { option: "the factor of the temperature", range: "between 0 and 1", value: self.factor });
        }
        Ok(())
    }

    fn temperature(&self, pass: usize) -> f64 {
        // A temperature just above 1 is not worth a pass.
        let temperature = self.from * self.factor.powi(pass as i32);
        if temperature > 1.01 { temperature } else { 1.0 }
    }
}
