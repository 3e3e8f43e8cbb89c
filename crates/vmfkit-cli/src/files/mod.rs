//! The files that a command reads and writes. They are checked before any work, so that no output
//! overwrites an input.

pub mod fit_file;
pub mod input;
pub mod label_source;
pub mod labels;
pub mod model;
pub mod output;
pub mod row_memory;
pub mod row_output;
pub mod row_source;
pub mod state;
pub mod table_file;
pub mod text_hint;

use anyhow::{Result, bail};
use output::Output;
use std::fs;
use std::path::{Path, PathBuf};

/// Standard input or standard output.
pub fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// The files to read, and the files to write with their options.
#[derive(Debug, Default)]
pub struct Files<'a> {
    read: Vec<PathBuf>,
    written: Vec<(&'a str, &'a Path)>,
}

impl<'a> Files<'a> {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn reads<P: Into<PathBuf>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.read.extend(paths.into_iter().map(Into::into));
        self
    }

    pub fn writes(mut self, option: &'a str, path: Option<&'a PathBuf>) -> Self {
        self.written.extend(path.map(|path| (option, path.as_path())));
        self
    }

    /// Refuses outputs that would overwrite an input or each other.
    pub fn check(&self) -> Result<()> {
        if self.read.iter().filter(|path| is_standard(path)).count() > 1 {
            bail!("only one of the inputs can be standard input, found twice: `-`");
        }
        for (position, (option, path)) in self.written.iter().enumerate() {
            if let Some((other, _)) = self.written[..position].iter().find(|(_, other)| output::is_same_file(path, other)) {
                bail!("`{other}` and `{option}` need different files, found for both: `{}`", path.display());
            }
            if !is_standard(path) && self.read.iter().any(|read| !is_standard(read) && output::is_same_file(path, read)) {
                bail!("`{option}` would overwrite an input: `{}`\nhint: write to another file, then rename it", path.display());
            }
        }
        Ok(())
    }

    /// Refuses `-` as an output, for commands that print a report there.
    pub fn leave_standard_output(self) -> Result<Self> {
        match self.written.iter().find(|(_, path)| is_standard(path)) {
            Some((option, _)) => bail!("standard output holds the report, so `{option}` needs a file, found: `-`"),
            None => Ok(self),
        }
    }

    /// Refuses, before any work, files that cannot be written.
    pub fn check_writable(&self) -> Result<()> {
        for (_, path) in &self.written {
            // Opening and closing a pipe would end it for its reader.
            if fs::metadata(path).map_or(true, |metadata| metadata.is_file()) {
                Output::create(path)?;
            }
        }
        Ok(())
    }
}
