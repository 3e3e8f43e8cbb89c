//! `vmf fit --known-labels`: one component per label, without EM.

use super::Fit;
use super::mixture::Report;
use crate::input::{self, LabelNames};
use crate::progress::Progress;
use crate::rows::{Beside, RowSource};
use crate::{interrupt, output};
use anyhow::Result;
use std::path::PathBuf;
use std::str::FromStr;
use vmfkit::known_labels::KnownLabels;
use vmfkit::model_file::{self, Description};
use vmfkit::source::Source;
use vmfkit::{ConcentrationPolicy, Error, Maximisation};
use vmfkit_io::DataSource;

/// The policy where none is asked for: the boundary between two labels is then a plane, however few rows each has.
const POLICY: ConcentrationPolicy = ConcentrationPolicy::Shared;
/// What a row's label takes.
const LABEL_MEMORY: u64 = 4;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of known labels")]
#[group(id = "wishes_of_known_labels")]
pub struct Wishes {
    /// Make one component per label instead of a fit by EM: a file with one label a row, or `column:NAME` for a column of DATA
    #[arg(long, value_name = "FILE", group = "many")]
    #[arg(conflicts_with_all = ["method", "background", "restarts", "min_weight", "annealing", "no_search", "checkpoint"])]
    pub known_labels: Option<LabelSource>,
    /// Column of the labels, if FILE is a table [default: label]
    #[arg(long, value_name = "NAME", requires = "known_labels")]
    pub label_column: Option<String>,
}

/// Where labels are.
#[derive(Debug, Clone)]
pub enum LabelSource {
    /// In a file of their own.
    File(PathBuf),
    /// In a column of the rows.
    Column(String),
}

impl FromStr for LabelSource {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.strip_prefix("column:") {
            Some(name) => Self::Column(name.to_owned()),
            None => Self::File(text.into()),
        })
    }
}

impl LabelSource {
    /// The file that it is read from, beside the rows.
    pub fn file(&self) -> Option<&PathBuf> {
        if let Self::File(path) = self { Some(path) } else { None }
    }
}

impl Fit {
    pub(super) fn fit_known_labels(&self, labels: &LabelSource) -> Result<()> {
        self.check_outputs()?;
        let known = match labels {
            LabelSource::File(path) => input::read_label_names(path, self.known.label_column.as_deref())?,
            LabelSource::Column(name) => self.rows.read_labels(name)?,
        };
        let rows = match labels {
            LabelSource::File(_) => self.rows.without_ids(),
            // So that numbers of the column are no coordinates.
            LabelSource::Column(name) => self.rows.with_ids(name),
        };
        let components = known.names.len() as u64;
        let beside = |rows: &DataSource| {
            let model = 8 * components * rows.dim() as u64;
            Beside { once: 6 * model + LABEL_MEMORY * known.numbers.len() as u64, each_thread: model, ..Beside::default() }
        };
        let mut source = rows.open_in_blocks(self.mixture.block.into(), beside)?;
        if source.can_rewind() {
            source.hold(self.scratch_folder()?.as_deref(), self.quiet)?;
        }
        let how = self.maximisation().policy(self.mixture.policy.unwrap_or(POLICY));
        let fit = self.sum_labels(&mut source, &known, &how).map_err(|error| match (labels, error) {
            (LabelSource::File(path), error @ Error::LabelCount { .. }) => {
                anyhow::Error::from(error).context(input::display(path))
            }
            (_, error) => source.explain(error),
        })?;
        let mut description = Description::of(&fit);
        description.labels = known.names;
        description.angles = source.angles();
        let written = self
            .mixture
            .output
            .as_ref()
            .map_or(Ok(()), |path| output::write_file(path, model_file::to_bytes(&fit.mixture, &description)));
        interrupt::be_patient();
        let evaluation = match source.can_rewind() || self.mixture.labels.is_some() {
            true => self.evaluate(&fit.mixture, &mut source, interrupt::asked()),
            false => Ok(None),
        };
        let evaluation = match evaluation {
            Ok(evaluation) => evaluation,
            Err(error) => return written.and(Err(error)),
        };
        source.note_rescaled();
        let free_parameters = how.free_parameters(&fit.mixture);
        let components = fit.mixture.components().len() as u32;
        let report = Report { rows: source.seen(), components, fit, description, evaluation, free_parameters };
        output::print(if self.json { report.to_json() } else { report.to_text() })?;
        written
    }

    fn sum_labels(&self, source: &mut RowSource, known: &LabelNames, how: &Maximisation) -> vmfkit::Result<vmfkit::train::Fit> {
        let mut progress = Progress::new(!self.quiet);
        let (all, mut labelled, mut next) = (source.len(), KnownLabels::new(source.dim()), 0);
        while let Some(block) = source.read_block()? {
            let end = next + block.len();
            // Rows beyond the labels are counted only, so that the error can say how many there are.
            if let Some(labels) = known.numbers.get(next..end) {
                labelled.add(&block, labels)?;
            }
            next = end;
            progress.rows("", next as u64, all);
        }
        if next != known.numbers.len() {
            return Err(Error::LabelCount { expected: next, found: known.numbers.len() });
        }
        Ok(labelled.fit(how)?.0)
    }
}
