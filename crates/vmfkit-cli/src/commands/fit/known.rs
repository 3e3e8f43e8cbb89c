//! `vmf fit --known-labels`: one component per label, without EM.

use super::Fit;
use super::mixture::Report;
use crate::args::KNOWN_LABELS;
use crate::files::input::{self, LabelNames};
use crate::files::label_source::LabelSource;
use crate::files::output;
use crate::files::row_memory::ExtraMemory;
use crate::files::row_source::RowSource;
use crate::interrupt;
use crate::report::progress::Progress;
use anyhow::Result;
use vmfkit::source::Source;
use vmfkit::start::known_labels::KnownLabels;
use vmfkit::store::model::{self, Description};
use vmfkit::{ConcentrationPolicy, Error, Maximisation};
use vmfkit_io::DataSource;

/// The default policy: the boundary between two labels is a plane, however few rows each has.
const POLICY: ConcentrationPolicy = ConcentrationPolicy::Shared;
/// Bytes per label.
const LABEL_MEMORY: u64 = 4;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = KNOWN_LABELS)]
pub struct KnownLabelArguments {
    /// Fit one component per known label, without EM: FILE, FILE:COLUMN or column:NAME
    ///
    /// FILE is a .npy array of integers, a text file with one label per line, or a table with a
    /// column `label`. FILE:COLUMN is another column of a table, column:NAME a column of DATA.
    /// Components are in the order of the sorted labels, integers before text; the model file
    /// stores the labels. Weights are the fractions of rows per label, or equal with
    /// `--set fixed_weights=true`. Concentrations are shared unless --policy is given.
    #[arg(verbatim_doc_comment, long, value_name = "FILE", group = "many")]
    #[arg(conflicts_with_all = ["method", "background", "restarts", "checkpoint"])]
    pub known_labels: Option<LabelSource>,
}

impl Fit {
    pub(super) fn fit_known_labels(&self, labels: &LabelSource) -> Result<()> {
        self.check_outputs()?;
        let known = match labels {
            LabelSource::File(path, column) => input::read_label_names(path, column.as_deref())?,
            LabelSource::Column(name) => self.rows.limited().read_labels(name)?,
        };
        let rows = match labels {
            LabelSource::File(..) => self.rows.limited().without_ids(),
            // The column is not a coordinate.
            LabelSource::Column(name) => self.rows.limited().with_id_column(name),
        };
        let components = known.names.len() as u64;
        let extra = |rows: &DataSource| {
            let model = 8 * components * rows.dim() as u64;
            ExtraMemory {
                fixed: 6 * model + LABEL_MEMORY * known.numbers.len() as u64,
                per_thread: model,
                ..ExtraMemory::default()
            }
        };
        let mut source = rows.open(extra)?;
        if source.can_rewind() {
            source.hold(self.scratch_folder()?.as_deref(), self.report.quiet)?;
        }
        let how = self.maximisation().policy(self.model.policy.unwrap_or(POLICY));
        let fit = self.sum_labels(&mut source, &known, &how).map_err(|error| match (labels, error) {
            (LabelSource::File(path, _), error @ Error::LabelCount { .. }) => {
                anyhow::Error::from(error).context(input::display(path))
            }
            (_, error) => source.explain(error),
        })?;
        let mut description = Description::of(&fit);
        description.labels = known.names;
        description.angles = source.angles();
        let written = self
            .outputs
            .output
            .as_ref()
            .map_or(Ok(()), |path| output::write_file(path, model::to_bytes(&fit.mixture, &description)));
        interrupt::finish_gracefully();
        let evaluation = match source.can_rewind() || self.outputs.labels.is_some() {
            true => self.evaluate(&fit.mixture, fit.outlier_table.as_ref(), &mut source, interrupt::is_requested()),
            false => Ok(None),
        };
        let evaluation = match evaluation {
            Ok(evaluation) => evaluation,
            Err(error) => return written.and(Err(error)),
        };
        source.note_rescaled();
        let free_parameters = how.free_parameters(&fit.mixture);
        let components = fit.mixture.components().len() as u32;
        let report = Report { rows: source.totals(), components, fit, description, evaluation, free_parameters };
        output::print(if self.report.json { report.to_json() } else { report.to_text() })?;
        written
    }

    fn sum_labels(&self, source: &mut RowSource, known: &LabelNames, how: &Maximisation) -> vmfkit::Result<vmfkit::train::Fit> {
        let mut progress = Progress::new(!self.report.quiet);
        let (all, mut labelled, mut next) = (source.len(), KnownLabels::new(source.dim()), 0);
        let mut buffer = vmfkit::RowBatch::default();
        while let Some(block) = source.next_validated(&mut buffer)? {
            let end = next + block.len();
            // Rows beyond the labels are only counted, for the error.
            if let Some(labels) = known.numbers.get(next..end) {
                labelled.add(&block, labels)?;
            }
            next = end;
            progress.rows("", next as u64, all);
        }
        if next != known.numbers.len() {
            return Err(Error::LabelCount { expected: next, found: known.numbers.len() });
        }
        let labelled = if self.outputs.no_calibration { labelled.uncalibrated() } else { labelled };
        Ok(labelled.fit(how)?.0)
    }
}
