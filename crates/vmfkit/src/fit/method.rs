//! [`Method`]: the ways of fitting a mixture.

use crate::error::ParseChoiceError;
use crate::train::{Adam, Annealing, Stop};

/// A way of fitting a mixture.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there is one a fit")]
#[non_exhaustive]
pub enum Method {
    /// Soft EM, annealed if asked for.
    Em {
        /// Begin warm.
        annealing: Option<Annealing>,
    },
    /// Hard EM: every row wholly to its most responsible component.
    HardEm,
    /// Stochastic EM: every row wholly to a component drawn by its responsibilities.
    StochasticEm,
    /// Online EM, a step a batch.
    OnlineEm {
        /// a in the step size (t + t0)^-a.
        exponent: f64,
        /// t0 in the step size (t + t0)^-a.
        offset: f64,
    },
    /// Stochastic gradient ascent; which concentrations and weights it may choose is up to the fitter's M step.
    Sgd(Adam),
    /// Spherical k-means, as a mixture with equal weights and one concentration, under which the nearest direction is the most probable.
    KMeans,
}

impl Default for Method {
    fn default() -> Self {
        Method::Em { annealing: None }
    }
}

impl Method {
    /// The name used on the command line and in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Method::Em { .. } => "em",
            Method::HardEm => "hard",
            Method::StochasticEm => "stochastic",
            Method::OnlineEm { .. } => "online",
            Method::Sgd(_) => "sgd",
            Method::KMeans => "kmeans",
        }
    }

    /// Every method, with its default settings.
    pub fn all() -> [Method; 6] {
        [
            Method::default(),
            Method::HardEm,
            Method::StochasticEm,
            Method::OnlineEm { exponent: 0.6, offset: 1.0 },
            Method::Sgd(Adam::new()),
            Method::KMeans,
        ]
    }

    /// When it stops if nothing else is said: at a relative change of 1e-5 or after 100 passes; gradient steps make all their passes, online EM
    /// makes at most 20.
    pub fn stop(&self) -> Stop {
        match self {
            Method::Sgd(_) => Stop { tolerance: None, passes: 100, ..Stop::default() },
            Method::OnlineEm { .. } => Stop { passes: 20, ..Stop::default() },
            _ => Stop::default(),
        }
    }

    /// True if it steps after every batch and need not see rows twice.
    pub fn is_online(&self) -> bool {
        matches!(self, Method::OnlineEm { .. } | Method::Sgd(_))
    }
}

impl std::str::FromStr for Method {
    type Err = ParseChoiceError;

    fn from_str(text: &str) -> std::result::Result<Self, ParseChoiceError> {
        let known = Self::all();
        let names = known.each_ref().map(Self::name);
        known.into_iter().find(|method| method.name() == text).ok_or_else(|| ParseChoiceError::new("method", &names, text))
    }
}
