//! What can go wrong with a file.

use crate::read::npy;
use std::io;
use vmfkit::Angles;

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
    /// The same where another library found it out; its own error is the source.
    #[error("{what}")]
    Caused {
        /// Lower case, without what the source says.
        what: String,
        /// What the other library says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is not the one that was opened, or is being written to.
    #[error("the file has changed since it was opened, {what}")]
    Changed {
        /// What is different.
        what: String,
    },
    /// What is wrong with a `.npy` array.
    #[error(transparent)]
    Npy(#[from] npy::Error),
    /// A row is not on the sphere.
    #[error("{}\nhint: {}", not_unit(*row, *norm), unit_hint(*dim, *angles))]
    NotUnit {
        /// Within its file, counted from 0.
        row: u64,
        /// Its Euclidean length.
        norm: f64,
        /// Numbers in a row.
        dim: usize,
        /// The angles that the rows seem to be by the names of their columns.
        angles: Option<Angles>,
    },
    /// What the core says of rows.
    #[error(transparent)]
    Rows(#[from] vmfkit::Error),
}

/// The core's words, without its hint.
fn not_unit(row: u64, norm: f64) -> String {
    let text = vmfkit::Error::NotUnit { row: row as usize, norm }.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

/// What to do about rows that are not of unit length: divided by their length, angles would be nonsense.
fn unit_hint(dim: usize, angles: Option<Angles>) -> String {
    const RESCALE: &str = "`--rescale` divides each row by its length";
    match angles {
        Some(angles) => format!("the columns look like angles, which `--angles {angles}` reads"),
        None if dim == 2 => {
            format!("`--angles lat,lon` (or ra,dec; dec,inc; theta,phi) reads two angles a row; {RESCALE}")
        }
        None => RESCALE.to_owned(),
    }
}

impl Error {
    /// The same error, with the place where it happened.
    pub fn at(self, place: impl Into<String>) -> Self {
        Error::At { place: place.into(), source: Box::new(self) }
    }

    /// A file that is not what it says it is, or not what can be used.
    pub(crate) fn format(what: impl Into<String>) -> Self {
        Error::Format { what: what.into() }
    }

    /// The same with the error of another library.
    pub(crate) fn caused(what: impl Into<String>, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Error::Caused { what: what.into(), source: source.into() }
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
