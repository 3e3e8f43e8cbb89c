//! [`Error`]: a parameter outside its domain.

/// The result of a fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A parameter outside its domain. The functions of [`bessel`](crate::bessel) return NaN instead.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The sphere needs at least two coordinates.
    #[error("the dimension must be at least 2, found: `{dim}`")]
    Dimension {
        /// The dimension given.
        dim: usize,
    },
    /// A concentration is a finite number of at least 0.
    #[error("the concentration must be finite and at least 0, found: `{}`", plain(*value))]
    Concentration {
        /// The concentration given.
        value: f64,
    },
}

/// A number in decimal or scientific notation, whichever is shorter.
fn plain(value: f64) -> String {
    if value == 0.0 || !value.is_finite() || (1e-5..1e16).contains(&value.abs()) {
        format!("{value}")
    } else {
        format!("{value:e}")
    }
}
