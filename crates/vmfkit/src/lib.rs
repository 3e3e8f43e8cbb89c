//! von Mises-Fisher densities on the unit hypersphere.
pub mod bessel;
pub mod error;
pub use error::{Error, Result};
