//! Model files.

use crate::input;
use anyhow::{Context, Result};
use std::path::Path;
use vmfkit::Mixture;
use vmfkit::model_file::{self, Description};

/// The mixture of a model file, and how it came about.
pub fn read(path: &Path) -> Result<(Mixture, Description)> {
    let bytes = std::fs::read(path).context("cannot be read").with_context(|| input::display(path))?;
    model_file::from_bytes(&bytes).with_context(|| input::display(path))
}
