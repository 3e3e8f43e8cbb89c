//! EM that continues from a coarser mixture.

use super::Tree;
use crate::files::row_memory::ExtraMemory;
use crate::interrupt;
use crate::report::format::readable;
use crate::report::progress::Progress;
use anyhow::{Result, bail};
use std::sync::Mutex;
use vmfkit::source::Source;
use vmfkit::store::model::Description;
use vmfkit::train::Fit;
use vmfkit::{Angles, Fitter, Mixture};
use vmfkit_io::DataSource;

impl Tree {
    /// The fit that continues from this mixture on DATA with the settings of its model, and the angles of DATA or of the model.
    pub(super) fn refine(&self, mixture: Mixture, description: &Description) -> Result<(Fit, Option<Angles>)> {
        let (components, dim) = (mixture.components().len() as u64, mixture.dim());
        let fitter = Fitter::from_mixture(mixture, description);
        let sample = fitter.sample_rows(dim) as u64;
        let extra = |rows: &DataSource| {
            let sample = sample.min(rows.rows().unwrap_or(u64::MAX)).saturating_mul(2 * rows.row_bytes());
            let model = 8 * components * rows.dim() as u64;
            ExtraMemory { fixed: (8 * model).saturating_add(sample), per_thread: 3 * model, ..ExtraMemory::default() }
        };
        let mut source = self.rows.limited().without_ids().open(extra)?;
        if source.dim() != dim {
            bail!("{}: rows must have the dimension of the model, {dim}, found: `{}`", source.name(), source.dim());
        }
        if source.can_rewind() {
            source.hold(Some(&vmfkit_io::scratch_folder()), self.report.quiet)?;
        }
        interrupt::finish_gracefully();
        let progress = Mutex::new(Progress::new(!self.report.quiet));
        let fit = fitter
            .watch(|_, pass, _| {
                let mut progress = progress.lock().expect("no callback panics");
                progress.show(format_args!("refining: objective {}", readable(pass.objective)));
                interrupt::should_stop()
            })
            .progress(|_| interrupt::should_stop())
            .fit_source(&mut source)
            .map_err(|error| source.explain(error))?;
        drop(progress);
        source.note_rescaled();
        Ok((fit, source.angles().or(description.angles)))
    }
}
