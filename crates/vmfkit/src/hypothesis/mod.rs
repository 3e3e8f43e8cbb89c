//! Tests of hypotheses about mean directions and concentrations: one mean direction, equal mean directions and equal concentrations
//! of groups, rotational symmetry. MATH.md, section 15.
//!
//! | hypothesis | function | needs |
//! |---|---|---|
//! | the rows are uniform | [`Inference::rayleigh_test`](crate::inference::Inference::rayleigh_test) | sufficient statistics |
//! | the mean direction is mu0 | [`mean_direction`] | sufficient statistics |
//! | groups have equal mean directions | [`equal_mean_directions`] | sufficient statistics of each group |
//! | the same, for any distribution | [`equal_mean_directions_by_permutation`] | rows |
//! | groups have equal concentrations | [`equal_concentrations`] | sufficient statistics of each group |
//! | rows are symmetric about their mean direction | [`rotational_symmetry`] | rows |
//! | mu . x has the law of a vMF | [`projection_test`](crate::inference::projection_test) | rows |
//!
//! The defaults ([`Calibration::Conditional`] and [`Calibration::Simulation`]) reject a true hypothesis as often as they say in
//! every dimension and for few rows. [`Calibration::LikelihoodRatio`] needs many more rows than dimensions,
//! [`Calibration::HighConcentration`] needs concentrated rows; docs/tests.md has a table of measured error rates.
//!
//! A row of weight w counts as w rows.

mod groups;
mod mean;
mod permutation;
mod resultants;
mod symmetry;
mod tails;

pub use groups::{Concentrations, equal_concentrations, equal_mean_directions};
pub use mean::mean_direction;
pub use permutation::equal_mean_directions_by_permutation;
pub use symmetry::{Symmetry, rotational_symmetry};

use crate::error::{Error, Result};

/// What a hypothesis test found.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// The statistic: large values speak against the hypothesis.
    pub statistic: f64,
    /// Degrees of freedom of the statistic's limiting law: chi-squared, or F if there are two.
    pub degrees_of_freedom: (f64, Option<f64>),
    /// The probability of a statistic at least as large if the hypothesis is true.
    pub p_value: f64,
}

/// How the p-value of a test is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Calibration {
    /// The distribution of the likelihood ratio given the statistic that is sufficient under the hypothesis, which does not depend on
    /// the concentration. Valid for any number of rows in any dimension. For [`mean_direction`] only.
    Conditional,
    /// The likelihood ratio is compared with those of samples drawn under the fitted hypothesis. Valid for few rows and in high
    /// dimensions; the least p-value is 1/(`replicates` + 1).
    Simulation {
        /// How many samples are drawn.
        replicates: usize,
        /// Random seed.
        seed: u64,
    },
    /// The limiting chi-squared law of the likelihood ratio. Valid where every group has many more rows than there are dimensions.
    LikelihoodRatio,
    /// The limiting law for large concentrations: the F tests of Watson and Williams, and for more than two concentrations
    /// Bartlett's test. Valid for any number of rows if k is well above d.
    HighConcentration,
}

impl Calibration {
    /// Samples that a simulation draws if nobody says otherwise.
    pub const REPLICATES: usize = 999;

    /// [`Calibration::Simulation`] with the usual number of replicates.
    pub fn simulation(seed: u64) -> Self {
        Self::Simulation { replicates: Self::REPLICATES, seed }
    }

    /// The name used on the command line and in Python.
    pub fn name(self) -> &'static str {
        match self {
            Self::Conditional => "conditional",
            Self::Simulation { .. } => "simulation",
            Self::LikelihoodRatio => "likelihood-ratio",
            Self::HighConcentration => "high-concentration",
        }
    }
}

/// Shows the name.
impl std::fmt::Display for Calibration {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The p-value of a Monte Carlo test, in which the rows count as one more sample.
fn monte_carlo_p_value(as_large: usize, replicates: usize) -> f64 {
    (1 + as_large) as f64 / (1 + replicates) as f64
}

fn checked_replicates(replicates: usize) -> Result<usize> {
    if replicates > 0 {
        return Ok(replicates);
    }
    Err(Error::Option { option: "the number of replicates", range: "at least 1", value: 0.0 })
}
