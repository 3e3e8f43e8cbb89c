//! What can go wrong with a file.

use std::io;

/// The result of a fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What is wrong, and where.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system could not read it.
    #[error("cannot be read")]
    Io(#[from] io::Error),
    /// The system could not write it.
    #[error("cannot be written")]
    Write(#[source] io::Error),
    /// Anything, in a named file: `embeddings.npy: ...`.
    #[error("{place}")]
    At {
        /// The file, or the part of it.
        place: String,
        /// What was wrong there.
        source: Box<Error>,
    },
    /// The file is not what it says it is, or not what can be used.
    #[error("{what}")]
    Format {
        /// Lower case, the value found last, in backticks.
        what: String,
    },
    /// What the core says of rows.
    #[error(transparent)]
    Rows(#[from] vmfkit::Error),
}

impl Error {
    /// The same error, with the place where it happened.
    pub fn at(self, place: impl Into<String>) -> Self {
        Error::At { place: place.into(), source: Box::new(self) }
    }
}

impl From<Error> for vmfkit::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Rows(error) => error,
            other => vmfkit::Error::read(other),
        }
    }
}
