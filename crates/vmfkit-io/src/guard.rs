//! Calls of third-party decoders: panics and errors become errors of the file.

use crate::error::{Error, Result};
use arrow_schema::ArrowError;
use parquet::errors::ParquetError;
use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether this thread is running a decoder whose panics become errors.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a decoder. Lengths and offsets are checked before a decoder sees them, but a damaged file
/// can still violate assertions in the crates it uses. Such a panic becomes an error of the file.
/// The state of the decoder is not used again.
pub(crate) fn guarded<T>(decode: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = GUARDED.replace(true);
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    GUARDED.set(before);
    decoded.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(damaged(text.unwrap_or("the decoder panicked")))
    })
}

const DAMAGED: &str = "the file is damaged";

/// Keeps the panic hook from printing panics that are returned as errors. For programs; a library
/// leaves the hook to its user.
///
/// Damaged Parquet and Arrow files can make a third-party decoder panic. The panic is caught and
/// becomes an [`Error`] of the file, but the hook runs first, and the default hook prints a message
/// and possibly a backtrace. After this call the current hook runs for all other panics only, on
/// all threads. Further calls do nothing.
pub fn silence_decoder_panics() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let hook = take_hook();
        set_hook(Box::new(move |panic| {
            // A thread that is exiting runs no decoder.
            if !GUARDED.try_with(Cell::get).unwrap_or(false) {
                hook(panic);
            }
        }));
    });
}

/// The error of a file that contradicts its own headers.
pub(crate) fn damaged(found: impl std::fmt::Display) -> Error {
    Error::Format { what: format!("{DAMAGED}, found: `{found}`") }
}

/// Converts errors of the parquet crate. This is not a `From` implementation because our error type
/// is public and must not expose theirs.
pub(crate) fn from_parquet(error: ParquetError) -> Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(error) if error.kind() == io::ErrorKind::UnexpectedEof => damaged("a page that is cut off"),
            Ok(error) if error.kind() == io::ErrorKind::InvalidData => damaged(error),
            Ok(error) => Error::Io(*error),
            Err(cause) => Error::caused(DAMAGED, cause),
        },
        ParquetError::General(text) | ParquetError::EOF(text) | ParquetError::ArrowError(text) => damaged(text),
        ParquetError::NYI(text) => {
            Error::Format { what: format!("the file uses a feature that is not supported, found: `{text}`") }
        }
        other => Error::caused(DAMAGED, other),
    }
}

/// Converts errors of the arrow crates.
pub(crate) fn from_arrow(error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, error) => Error::Io(error),
        ArrowError::ParquetError(text) | ArrowError::IpcError(text) | ArrowError::ParseError(text) => damaged(text),
        other => Error::caused(DAMAGED, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::thread;

    /// Panics of this test that reached the previous hook.
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[test]
    fn panics_that_become_errors_do_not_reach_the_hook() {
        let default = take_hook();
        set_hook(Box::new(move |panic| match panic.payload_as_str() {
            Some(text) if text.starts_with("told of ") => TOLD.lock().unwrap().push(text.to_owned()),
            _ => default(panic),
        }));
        silence_decoder_panics();
        silence_decoder_panics();
        let error = guarded::<()>(|| {
            // Not on the decoding thread.
            thread::spawn(|| panic!("told of another thread")).join().unwrap_err();
            guarded::<()>(|| panic!("told of one within")).unwrap_err();
            panic!("told of a decoder")
        });
        assert!(error.unwrap_err().to_string().contains("`told of a decoder`"));
        catch_unwind(|| panic!("told of what follows")).unwrap_err();
        assert_eq!(*TOLD.lock().unwrap(), ["told of another thread", "told of what follows"]);
    }
}
