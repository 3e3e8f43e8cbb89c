//! [`Error`]: what can go wrong with a file.

use crate::npy_header;
use std::io;
use vmfkit::Angles;

/// The result of a fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of reading or writing files of rows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading failed.
    #[error("cannot be read")]
    Io(#[from] io::Error),
    /// Writing failed.
    #[error("cannot be written")]
    Write(#[source] io::Error),
    /// Any error with its location: `embeddings.npy: ...`.
    #[error("{place}")]
    At {
        /// The file, or a part of it.
        place: String,
        /// What was wrong there.
        source: Box<Error>,
    },
    /// The file is damaged, or its content cannot be used.
    #[error("{what}")]
    Format {
        /// Lower case. The value that was found comes last, in backticks.
        what: String,
    },
    /// The file is damaged, as reported by another library.
    #[error("{what}")]
    Caused {
        /// Lower case, without the text of the source.
        what: String,
        /// The error of the other library.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is not the one that was opened, or is being written to.
    #[error("the file has changed since it was opened, {what}")]
    Changed {
        /// The difference.
        what: String,
    },
    /// An `.npy` array is not valid.
    #[error(transparent)]
    Npy(#[from] npy_header::Error),
    /// A row does not have unit length.
    #[error("{}\nhint: {}", not_unit(*row, *norm), unit_hint(*dim, *angles))]
    NotUnit {
        /// Row number within the file, from 0.
        row: u64,
        /// Its Euclidean length.
        norm: f64,
        /// Numbers in a row.
        dim: usize,
        /// The angles that the rows seem to hold, judging by the column names.
        angles: Option<Angles>,
    },
    /// An error of the core crate.
    #[error(transparent)]
    Rows(#[from] vmfkit::Error),
}

/// The core's message without its hint.
fn not_unit(row: u64, norm: f64) -> String {
    let text = vmfkit::Error::NotUnit { row: row as usize, norm }.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

/// The hint for rows that do not have unit length. Rescaling would make nonsense of angles.
fn unit_hint(dim: usize, angles: Option<Angles>) -> String {
    const RESCALE: &str = "`--rescale` divides each row by its length";
    match angles {
        Some(angles) => format!("the columns look like angles, which `--angles {angles}` reads"),
        None if dim == 2 => {
            format!("`--angles lat,lon` (or ra,dec; dec,inc; theta,phi) reads two angles per row; {RESCALE}")
        }
        None => RESCALE.to_owned(),
    }
}

impl Error {
    /// Adds the location of the error.
    pub fn at(self, place: impl Into<String>) -> Self {
        Error::At { place: place.into(), source: Box::new(self) }
    }

    /// A file that is damaged, or whose content cannot be used.
    pub(crate) fn format(what: impl Into<String>) -> Self {
        Error::Format { what: what.into() }
    }

    /// The same with the error of another library as its source.
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
