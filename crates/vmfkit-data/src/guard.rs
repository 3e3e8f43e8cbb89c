//! The door to decoders that are not ours.

use crate::error::{Error, Result};
use arrow_schema::ArrowError;
use parquet::errors::ParquetError;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a decoder. Lengths and offsets are checked before a decoder sees them, but the crates behind it still have assertions
/// that a damaged file can break: such a panic is an error of the file. What the decoder was working on is not used again.
pub(crate) fn guarded<T>(decode: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(damaged(text.unwrap_or("the decoder stopped")))
    })
}

const DAMAGED: &str = "the file is damaged";

/// The file is not what its own headers say.
pub(crate) fn damaged(found: impl std::fmt::Display) -> Error {
    Error::Format { what: format!("{DAMAGED}, found: `{found}`") }
}

/// Not `From`: the crate's error is public, theirs is not to be seen.
pub(crate) fn from_parquet(error: ParquetError) -> Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(error) if error.kind() == io::ErrorKind::UnexpectedEof => damaged("an end within a page"),
            Ok(error) => Error::Io(*error),
            Err(cause) => Error::caused(DAMAGED, cause),
        },
        ParquetError::General(text) | ParquetError::EOF(text) | ParquetError::ArrowError(text) => damaged(text),
        ParquetError::NYI(text) => Error::Format { what: format!("the file uses what is not supported, found: `{text}`") },
        other => Error::caused(DAMAGED, other),
    }
}

/// The same for Arrow's.
pub(crate) fn from_arrow(error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, error) => Error::Io(error),
        ArrowError::ParquetError(text) | ArrowError::IpcError(text) | ArrowError::ParseError(text) => damaged(text),
        other => Error::caused(DAMAGED, other),
    }
}
