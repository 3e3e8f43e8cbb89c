//! `vmf merge`: the statistics of several parts as one, for a fit by parts.

use crate::files::Files;
use crate::files::output::{self, Output};
use crate::files::state;
use crate::report::progress::Progress;
use anyhow::Result;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Examples:
  vmf merge part-*.stats -o all.stats

Parts are added in the order given, which decides the last bits of the sum, so let it be that of the rows. Parts that were made under
different states of a fit are refused. `vmf maximise` takes many parts as well: merging is for those who add on the way.";

/// Add the statistics of several parts of a pass, in the order given
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Merge {
    /// Statistics of `vmf accumulate` or `vmf merge`, `-` for standard input
    #[arg(required = true, value_name = "STATISTICS")]
    parts: Vec<PathBuf>,
    /// File to write the sum to, `-` for standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

impl Merge {
    pub fn run(&self) -> Result<()> {
        Files::new().reads(&self.parts).writes("-o", Some(&self.output)).check()?;
        let part = state::read_parts(&self.parts, Progress::new(!self.quiet))?;
        let mut file = Output::create(&self.output)?;
        file.write(part.to_bytes())?;
        file.finish()?;
        if self.output == Path::new("-") {
            return Ok(());
        }
        output::print(state::describe_part("merged", &part, self.json))
    }
}
