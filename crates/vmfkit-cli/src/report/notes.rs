//! Notes on standard error.

use super::format::escaped_lines;
use std::io::{self, Write};

/// Prints a note to standard error, which may be closed.
pub fn note(text: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "{}", escaped_lines(&text.to_string()));
}

/// Replaces the last line of the terminal.
pub fn overwrite_note(text: impl std::fmt::Display) {
    let _ = write!(io::stderr(), "\r\x1b[K{}", escaped_lines(&text.to_string()));
}
