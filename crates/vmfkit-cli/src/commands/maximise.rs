//! `vmf maximise`: the next state of a distributed fit, from the statistics of a pass.

use crate::args::{OUTPUT, ReportArguments};
use crate::files::Files;
use crate::files::output;
use crate::files::{input, state};
use crate::report::notes;
use crate::report::progress::Progress;
use anyhow::Result;
use std::path::PathBuf;
use vmfkit::Error;
use vmfkit::store::model::{self, Description};
use vmfkit::train::Status;

const AFTER_HELP: &str = "\
Examples:
  vmf maximise state.ckpt all.stats -o state.ckpt
  vmf maximise state.ckpt part-*.stats -o next.ckpt --json | jq -r .status
  vmf maximise state.ckpt --model model.safetensors       write only the model of a state

Prints one line that starts with the status: `running` if another pass is needed, `converged` or
`pass-limit` if the fit has ended. The exit code is 0 in each case.
The statistics of several files are added in the given order. The total weight of the rows must
be that of the previous pass. The output may be STATE itself, which is replaced at the end.";

/// Advance a distributed fit by one pass, given the statistics of all rows
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Maximise {
    /// State of the fit (a checkpoint) from which the statistics were computed, `-` for standard input
    #[arg(value_name = "STATE")]
    state: PathBuf,
    /// Statistics of all rows, from `vmf accumulate` or `vmf merge`, `-` for standard input
    #[arg(value_name = "STATISTICS", requires = "output")]
    parts: Vec<PathBuf>,
    /// File to write the next state to
    #[arg(long, short, value_name = "FILE", requires = "parts", help_heading = OUTPUT)]
    output: Option<PathBuf>,
    /// Model file to write (safetensors)
    #[arg(long, value_name = "FILE", required_unless_present = "parts", help_heading = OUTPUT)]
    model: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArguments,
}

impl Maximise {
    pub fn run(&self) -> Result<()> {
        self.check_outputs()?;
        let mut checkpoint = state::read_checkpoint(&self.state)?;
        if !self.parts.is_empty() {
            let all = state::read_parts(&self.parts, Progress::new(!self.report.quiet))?;
            checkpoint = checkpoint.step(&all).map_err(|error| self.explain(error))?;
        }
        let fit = checkpoint.current();
        // Before the state, so that an interrupted command can be repeated.
        if let Some(path) = &self.model {
            output::write_file(path, model::to_bytes(&fit.mixture, &Description::of(fit)))?;
        }
        if let Some(path) = &self.output {
            output::write_file(path, checkpoint.to_bytes())?;
        }
        if fit.status != Status::Running && !self.report.json && !self.report.quiet {
            fit.notes.iter().for_each(|note| notes::note(format_args!("note: {note}")));
        }
        output::print(state::describe_state(&checkpoint, self.report.json))
    }

    /// The error with the name of the file it is about: the state or the statistics.
    fn explain(&self, error: Error) -> anyhow::Error {
        let of_state = matches!(error, Error::FitEnded { .. } | Error::NotByParts { .. } | Error::Setting { .. });
        let name = match &self.parts[..] {
            [first, rest @ ..] if !of_state && !rest.is_empty() => format!("{} and {} more", input::display(first), rest.len()),
            [first] if !of_state => input::display(first),
            _ => input::display(&self.state),
        };
        anyhow::Error::from(error).context(name)
    }

    fn check_outputs(&self) -> Result<()> {
        // The next state may replace this one; the model may not.
        Files::new().reads([&self.state]).reads(&self.parts).writes("--model", self.model.as_ref()).check()?;
        let files = Files::new().reads(&self.parts).writes("-o", self.output.as_ref()).writes("--model", self.model.as_ref());
        let files = files.leave_standard_output()?;
        files.check()?;
        files.check_writable()
    }
}
