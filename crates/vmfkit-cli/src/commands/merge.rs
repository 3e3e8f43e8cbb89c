//! `vmf merge`: the sum of the statistics of several parts, for a distributed fit.

use crate::args::{OUTPUT, ReportArguments};
use crate::files::Files;
use crate::files::output::{self, Output};
use crate::files::state;
use crate::report::progress::Progress;
use anyhow::Result;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Examples:
  vmf merge part-*.stats -o all.stats

Parts are added in the given order, which affects the last bits of the sum: give them in the order
of the rows. Parts from different states of a fit are refused.
Merging is optional: `vmf maximise` also takes several parts.";

/// Add the statistics of several parts
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Merge {
    /// Statistics from `vmf accumulate` or `vmf merge`, `-` for standard input
    #[arg(required = true, value_name = "STATISTICS")]
    parts: Vec<PathBuf>,
    /// File to write the sum to, `-` for standard output
    #[arg(long, short, value_name = "FILE", help_heading = OUTPUT)]
    output: PathBuf,
    #[command(flatten)]
    report: ReportArguments,
}

impl Merge {
    pub fn run(&self) -> Result<()> {
        Files::new().reads(&self.parts).writes("-o", Some(&self.output)).check()?;
        let part = state::read_parts(&self.parts, Progress::new(!self.report.quiet))?;
        let mut file = Output::create(&self.output)?;
        file.write(part.to_bytes())?;
        file.finish()?;
        if self.output == Path::new("-") {
            return Ok(());
        }
        output::print(state::describe_part("merged", &part, self.report.json))
    }
}
