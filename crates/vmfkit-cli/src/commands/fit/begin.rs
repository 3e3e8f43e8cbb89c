//! `vmf fit --start-only`: the initial state of a distributed fit.

use super::Fit;
use super::mixture::{Watch, lock_checkpoint};
use crate::files::{output, state};
use crate::interrupt::{self, Interrupted};
use anyhow::Result;
use std::path::Path;
use vmfkit::source::Source;

impl Fit {
    /// Makes the same start as an undistributed fit, and writes it as a checkpoint.
    pub(super) fn begin(&self, method: &str, components: u32, path: &Path) -> Result<()> {
        self.check_outputs()?;
        let _lock = lock_checkpoint(path)?;
        self.refuse_checkpoint(path)?;
        let method = self.method_with_settings(method);
        let mut source = self.open_rows(&method, components, None)?;
        let fitter = self.fitter(&method, source.dim(), self.sample(None))?;
        interrupt::finish_gracefully();
        let mut watch = Watch::new(!self.report.quiet, 1, self.stop(&method).passes, source.len());
        let begun = fitter.progress(|progress| watch.rows(progress)).begin(&mut source).map_err(|error| source.explain(error))?;
        drop(watch);
        source.note_rescaled();
        let Some(checkpoint) = begun else { return Err(Interrupted.into()) };
        output::write_file(path, checkpoint.to_bytes())?;
        output::print(state::describe_state(&checkpoint, self.report.json))
    }
}
