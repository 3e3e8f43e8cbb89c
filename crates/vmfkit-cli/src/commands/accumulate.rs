//! `vmf accumulate`: the statistics of one part of the rows, for a pass of a distributed fit.

use crate::args::rows::LimitedRowArguments;
use crate::args::{FITTING, OUTPUT, ReportArguments};
use crate::files::Files;
use crate::files::output::{self, Output};
use crate::files::row_memory::ExtraMemory;
use crate::files::row_source::RowSource;
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
  vmf accumulate model.safetensors new.npy -o new.stats                   under a model

`vmf fit --start-only` and `vmf maximise` write STATE; docs/clusters.md shows the complete loop.
By default the statistics of a part are summed, so the fit equals that of `vmf fit` up to rounding.
It is equal byte for byte if every part consists of whole blocks of 9216 rows (the setting
block_rows of `vmf fit`), and parts of several blocks are accumulated with --per-block.";

/// Compute the statistics of one part of the rows, for a pass of a distributed fit
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Accumulate {
    /// State of a fit (a checkpoint) or a model file, `-` for standard input
    ///
    /// The responsibilities are those under its mixture.
    #[arg(value_name = "STATE")]
    state: PathBuf,
    #[command(flatten)]
    rows: LimitedRowArguments,
    /// Store the statistics of each block, not only their sum
    #[arg(long, help_heading = FITTING)]
    per_block: bool,
    /// Number of rows before this part, for stochastic EM
    ///
    /// The random draws of stochastic EM depend on it. For other methods it changes at most the
    /// last bits, if parts do not consist of whole blocks.
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
        let extra = |rows: &DataSource| {
            let model = 8 * components * rows.dim() as u64;
            ExtraMemory { fixed: 6 * model, per_thread: 3 * model, ..ExtraMemory::default() }
        };
        let mut source = self.rows.limited().without_ids().open(extra)?;
        let mut file = Output::create(&self.output)?;
        let part = self.accumulate(&accumulator, &mut source).map_err(|error| source.explain(error))?;
        source.note_rescaled();
        file.write(part.to_bytes())?;
        file.finish()?;
        if self.output == Path::new("-") {
            return Ok(());
        }
        output::print(state::describe_part("accumulated", &part, self.report.json))
    }

    fn accumulate(&self, accumulator: &Accumulator, source: &mut RowSource) -> vmfkit::Result<PartStats> {
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
