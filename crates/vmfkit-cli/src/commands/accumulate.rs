//! `vmf accumulate`: the statistics of some rows of a pass, for a distributed fit.

use crate::args::rows::{Beside, LimitedRowArguments, RowSource};
use crate::args::{FITTING, OUTPUT, ReportArguments};
use crate::files::Files;
use crate::files::output::{self, Output};
use crate::files::state;
use crate::report::progress::Progress;
use anyhow::Result;
use std::path::{Path, PathBuf};
use vmfkit::Error;
use vmfkit::fit::parts::Accumulator;
use vmfkit::source::Source;
use vmfkit::store::statistics::PartStats;
use vmfkit_io::DataSource;

const AFTER_HELP: &str = "\
Examples:
  vmf accumulate state.ckpt part-0.npy -o part-0.stats
  vmf accumulate state.ckpt part-7.npy --first-row 64512 -o part-7.stats  for --method stochastic
  vmf accumulate model.safetensors new.npy -o - | wc -c                   under a model

STATE is written by `vmf fit --start-only` or `vmf maximise`; docs/clusters.md has the whole loop.
By default the statistics of a part are summed. The last bits of a sum depend on its order. With
--per-block, and parts that are whole blocks of 9216 rows (or `vmf fit --set block_rows=ROWS`), the
fit equals that of `vmf fit` to the last byte. A part of one block does not need --per-block.";

/// Calculate the statistics of some rows for one pass of a distributed fit
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Accumulate {
    /// State of a fit (a checkpoint) or a model file, `-` for standard input
    ///
    /// Under a model file, rows are weighted by its responsibilities.
    #[arg(value_name = "STATE")]
    state: PathBuf,
    #[command(flatten)]
    rows: LimitedRowArguments,
    /// Store the statistics of each block instead of their sum
    #[arg(long, help_heading = FITTING)]
    per_block: bool,
    /// Number of rows of the pass before this part, for stochastic EM
    ///
    /// The random draws of stochastic EM depend on it. Other methods need it only for the last bits
    /// of parts that do not start with a whole block.
    #[arg(verbatim_doc_comment, long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..1 << 53))]
    #[arg(help_heading = FITTING)]
    first_row: u64,
    /// File to write the statistics to, `-` for standard output
    #[arg(long, short, value_name = "FILE", help_heading = OUTPUT)]
    output: PathBuf,
    #[command(flatten)]
    report: ReportArguments,
}

impl Accumulate {
    pub fn run(&self) -> Result<()> {
        Files::new().reads([&self.state]).reads(self.rows.limited().files()).writes("-o", Some(&self.output)).check()?;
        let accumulator = state::read_accumulator(&self.state)?.per_block(self.per_block);
        let components = accumulator.mixture().components().len() as u64;
        // Statistics of each thread, of a block and of the part.
        let beside = |rows: &DataSource| {
            let model = 8 * components * rows.dim() as u64;
            Beside { once: 6 * model, each_thread: model, ..Beside::default() }
        };
        let mut source = self.rows.limited().without_ids().open(beside)?;
        let mut file = Output::create(&self.output)?;
        let part = self.see(&accumulator, &mut source).map_err(|error| source.explain(error))?;
        source.note_rescaled();
        file.write(part.to_bytes())?;
        file.finish()?;
        // Standard output has the statistics then.
        if self.output == Path::new("-") {
            return Ok(());
        }
        output::print(state::describe_part("accumulated", &part, self.report.json))
    }

    fn see(&self, accumulator: &Accumulator, source: &mut RowSource) -> vmfkit::Result<PartStats> {
        let (expected, found) = (accumulator.mixture().dim(), source.dim());
        if expected != found {
            return Err(Error::DimensionMismatch { expected, found });
        }
        let mut progress = Progress::new(!self.report.quiet);
        let mut part = accumulator.part(self.first_row)?;
        let (all, pass) = (source.len(), format!("pass {}, ", accumulator.pass()));
        while let Some(batch) = source.next_batch()? {
            part.add(&batch)?;
            progress.rows(&pass, part.rows(), all);
        }
        Ok(part.finish())
    }
}
