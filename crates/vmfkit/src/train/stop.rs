//! [`Stop`]: when a fit ends; [`Status`]: why it ended.

use crate::bessel;
use crate::error::{Error, Result};
use crate::mixture::Assignment;

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stop {
    /// Stop when a pass changes the objective by at most this fraction of its distance from the
    /// [baseline](Self::baseline). k-means measures the distance of the mean cosine from 1; with a
    /// tolerance of 0 it stops when no row changes its component. `None`: stop at the last pass.
    pub tolerance: Option<f64>,
    /// The zero point of the relative tolerance.
    pub baseline: Baseline,
    /// The largest number of passes.
    pub passes: usize,
}

/// The zero point from which the objective is measured when its change is compared with the
/// tolerance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Baseline {
    /// The log density of the uniform distribution. In many dimensions ln p is dominated by this
    /// constant: at d = 10,000 it hardly changes whatever the fit does.
    #[default]
    Uniform,
    /// 0, so that the change is relative to ln p itself: the rule of Kim (2021).
    Zero,
}

impl Default for Stop {
    /// The numbers of Kim (2021), 1e-5 and 100 passes, relative to the uniform distribution.
    fn default() -> Self {
        Stop { tolerance: Some(1e-5), baseline: Baseline::Uniform, passes: 100 }
    }
}

impl Stop {
    pub(super) fn check(&self) -> Result<()> {
        if let Some(tolerance) = self.tolerance
            && !(tolerance >= 0.0)
        {
            return Err(Error::Option { option: "the tolerance", range: "at least 0", value: tolerance });
        }
        if self.passes == 0 {
            return Err(Error::Option { option: "the number of passes", range: "at least 1", value: 0.0 });
        }
        Ok(())
    }

    /// Whether the objective has settled between two passes with this assignment.
    pub(super) fn has_settled(&self, before: f64, after: f64, assignment: Assignment, dim: usize) -> bool {
        let scale = match self.baseline {
            Baseline::Zero => before.abs(),
            Baseline::Uniform => scale(before, assignment, dim),
        };
        self.tolerance.is_some_and(|tolerance| (after - before).abs() <= tolerance * scale)
    }
}

/// The distance of an objective from that of the uniform distribution.
///
/// For k-means, whose objective is the mean cosine, it is 1 minus that, which is what k-means
/// minimises: the cosine of rows that fill a small cap is near 1 whatever the fit.
pub(super) fn scale(objective: f64, assignment: Assignment, dim: usize) -> f64 {
    match assignment {
        Assignment::Nearest => (1.0 - objective).abs(),
        _ => (objective - bessel::ln_normalizer(dim, 0.0)).abs(),
    }
}

/// The state of a fit. Not converging is not an error: the mixture can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// The fit has passes left and has not converged.
    Running,
    /// The objective has settled.
    Converged,
    /// The fit has made as many passes as it may.
    PassLimit,
    /// A callback ended the fit.
    Stopped,
}

impl Status {
    pub(crate) const ALL: [Self; 4] = [Self::Running, Self::Converged, Self::PassLimit, Self::Stopped];

    /// The name used in reports and files.
    pub fn name(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Converged => "converged",
            Status::PassLimit => "pass limit",
            Status::Stopped => "stopped",
        }
    }
}
