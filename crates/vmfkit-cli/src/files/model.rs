//! Model files, and the merge trees of their components.

use crate::files::{fit_file, input};
use crate::report::notes;
use anyhow::{Context, Result};
use std::path::Path;
use vmfkit::merge_tree::MergeTree;
use vmfkit::store::model::{self, Description};
use vmfkit::{Fitter, Mixture};

/// The mixture of a model file, and how it was fitted.
pub fn read(path: &Path) -> Result<(Mixture, Description)> {
    let (bytes, name) = fit_file::read(path)?;
    model::from_bytes(&bytes).context(name)
}

/// The merge tree of a model. Without the statistics of its fit, which earlier versions and gradient ascent do not store, it
/// rests on those that the mixture expects, and a note says so unless `quiet`.
pub fn merge_tree(path: &Path, mixture: &Mixture, description: &Description, quiet: bool) -> Result<MergeTree> {
    let how = Fitter::of_model(mixture, description).maximisation_used();
    let name = input::display(path);
    if !description.sums.is_empty() {
        return MergeTree::new(mixture, &description.sums, &how).context(name);
    }
    if !quiet {
        notes::note(format_args!(
            "{name}: the file has no statistics of its fit, so the tree rests on those that its mixture expects"
        ));
    }
    let weight = if description.weight > 0.0 { description.weight } else { 1.0 };
    MergeTree::of_mixture(mixture, weight, &how).context(name)
}
