//! von Mises-Fisher densities on the unit hypersphere.
pub mod bessel;
pub mod block;
pub mod distribution;
pub mod error;
mod error_free;
pub mod estimate;
pub mod inference;
pub mod projection;
pub mod sampler;
pub mod stats;
pub mod train;

pub use block::Block;
pub use distribution::VonMisesFisher;
pub use error::{Error, Result};
pub use estimate::ConcentrationEstimator;
pub use projection::ProjectionLaw;
pub use sampler::Sampler;
pub use stats::SufficientStats;
