//! [`Method`]: the methods of fitting a mixture.

use crate::error::ParseChoiceError;
use crate::train::{Adam, Annealing, Stop};

/// A method of fitting a mixture.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a fit has one")]
#[non_exhaustive]
pub enum Method {
    /// Soft EM.
    Em {
        /// Deterministic annealing, if any.
        annealing: Option<Annealing>,
    },
    /// Hard EM: each row is assigned to its most probable component.
    HardEm,
    /// Stochastic EM: each row is assigned to a component drawn with its responsibilities.
    StochasticEm,
    /// Online EM: a step after every mini-batch.
    OnlineEm {
        /// a in the step size (t + t0)^-a.
        exponent: f64,
        /// t0 in the step size (t + t0)^-a.
        offset: f64,
    },
    /// Stochastic gradient ascent. The settings of the M step restrict concentrations and weights.
    Sgd(Adam),
    /// Spherical k-means, as a mixture with equal weights and one concentration, under which the
    /// nearest direction is the most probable.
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

    /// The default stopping rule: a relative change of 1e-5 or 100 passes; for online EM at most 20
    /// passes, for gradient ascent 100 passes without a tolerance.
    pub fn stop(&self) -> Stop {
        match self {
            Method::Sgd(_) => Stop { tolerance: None, passes: 100, ..Stop::default() },
            Method::OnlineEm { .. } => Stop { passes: 20, ..Stop::default() },
            _ => Stop::default(),
        }
    }

    /// True if it steps after every mini-batch, so that one pass can suffice.
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
