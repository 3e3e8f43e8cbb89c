//! Hypothesis tests of mean directions, concentrations and rotational symmetry. MATH.md, section
//! 15.
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
//! [`Calibration::Conditional`] and [`Calibration::Simulation`] hold their level in every dimension
//! and for few rows. [`Calibration::LikelihoodRatio`] needs many more rows than dimensions, and
//! [`Calibration::HighConcentration`] needs concentrated rows. docs/tests.md has a table of
//! measured error rates.
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

/// The result of a hypothesis test.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// The test statistic; large values are evidence against the hypothesis.
    pub statistic: f64,
    /// Degrees of freedom of the limiting distribution of the statistic: chi-squared, or F if there
    /// are two.
    pub degrees_of_freedom: (f64, Option<f64>),
    /// The probability of a statistic at least as large under the hypothesis.
    pub p_value: f64,
}

/// How to compute the p-value of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Calibration {
    /// The distribution of the likelihood ratio given the statistic that is sufficient under the
    /// hypothesis, which does not depend on the concentration. Valid for any number of rows in any
    /// dimension. For [`mean_direction`] only.
    Conditional,
    /// Compares the likelihood ratio with those of samples drawn under the fitted hypothesis. Valid
    /// for few rows and in high dimensions. The smallest p-value is 1/(`replicates` + 1).
    Simulation {
        /// The number of samples drawn.
        replicates: usize,
        /// Random seed.
        seed: u64,
    },
    /// The limiting chi-squared distribution of the likelihood ratio. Valid if every group has many
    /// more rows than dimensions.
    LikelihoodRatio,
    /// The limiting distribution for large concentrations: the F tests of Watson and Williams,
    /// doi:10.1093/biomet/43.3-4.344, and Bartlett's test for more than two concentrations. Valid
    /// for any number of rows if k is much larger than d.
    HighConcentration,
}

impl Calibration {
    /// The default number of replicates of [`Self::simulation`].
    pub const REPLICATES: usize = 999;

    /// [`Calibration::Simulation`] with [`Self::REPLICATES`] replicates.
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

impl std::fmt::Display for Calibration {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The p-value of a Monte Carlo test, in which the observed rows count as one more replicate.
fn monte_carlo_p_value(as_large: usize, replicates: usize) -> f64 {
    (1 + as_large) as f64 / (1 + replicates) as f64
}

fn checked_replicates(replicates: usize) -> Result<usize> {
    if replicates > 0 {
        return Ok(replicates);
    }
    Err(Error::Option { option: "the number of replicates", range: "at least 1", value: 0.0 })
}
