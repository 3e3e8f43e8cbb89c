//! What can go wrong: every variant carries the value and the place.

/// The result of a fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What was wrong with the input. Not converging is not an error.
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
    #[error("the concentration must be finite and at least 0, found: `{value}`")]
    Concentration {
        /// The concentration given.
        value: f64,
    },
}
