//! Model files.

use crate::files::fit_file;
use anyhow::{Context, Result};
use std::path::Path;
use vmfkit::Mixture;
use vmfkit::store::model::{self, Description};

/// The mixture of a model file, and how it was fitted.
pub fn read(path: &Path) -> Result<(Mixture, Description)> {
    let (bytes, name) = fit_file::read(path)?;
    model::from_bytes(&bytes).context(name)
}
