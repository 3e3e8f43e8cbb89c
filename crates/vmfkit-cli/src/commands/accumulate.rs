//! `vmf accumulate`: the statistics of some rows of a pass, for a fit by parts.

use crate::files::Files;
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::rows::{Beside, FILES, RowArguments, RowSource};
use crate::state;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use vmfkit::Error;
use vmfkit::parts::Accumulator;
use vmfkit::source::Source;
use vmfkit::stats_file::PartStats;
use vmfkit_io::DataSource;

static AFTER_HELP: LazyLock<String> = LazyLock::new(|| {
    format!(
        "\
Examples:
  vmf accumulate state.ckpt part-0.npy -o part-0.stats
  vmf accumulate state.ckpt part-7.npy --first-block 7 -o part-7.stats     for --method stochastic
  vmf accumulate model.safetensors new.npy -o - | wc -c                    under a model, to standard output

The state is that of `vmf fit --start-only` or of `vmf maximise`; docs/clusters.md has the whole loop. By default the blocks of a part
are summed. Sums depend on their order in the last bits: with --per-block, and parts that are whole blocks, the fit is that of
`vmf fit --block` with the same block to the last byte. A part of one block needs no --per-block.

{FILES}"
    )
});

/// Make the statistics of some rows under the state of a fit: one part of a pass
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP.as_str())]
pub struct Accumulate {
    /// State of a fit (a checkpoint); or a model, under which rows are shared by their responsibilities; `-` for standard input
    #[arg(value_name = "STATE")]
    state: PathBuf,
    /// File to write the statistics to, `-` for standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Rows a block [default: 8 million numbers, at most 65536 rows]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    block: Option<u32>,
    /// Keep the statistics of each block instead of their sum
    #[arg(long)]
    per_block: bool,
    /// How many blocks of the pass come before this part; the draws of stochastic EM depend on it, nothing else does
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..1 << 53))]
    first_block: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
    // Last, because its heading stands above all that follows.
    #[command(flatten)]
    rows: RowArguments,
}

impl Accumulate {
    pub fn run(&self) -> Result<()> {
        Files::new().reads([&self.state]).reads(self.rows.files()).writes("-o", Some(&self.output)).check()?;
        let accumulator = state::read_accumulator(&self.state)?.per_block(self.per_block);
        let components = accumulator.mixture().components().len() as u64;
        // Statistics of each thread, of a block and of the part.
        let beside = |rows: &DataSource| {
            let model = 8 * components * rows.dim() as u64;
            Beside { once: 6 * model, each_thread: model, ..Beside::default() }
        };
        let mut source = self.rows.without_ids().open_in_blocks(self.block.into(), beside)?;
        let mut file = Output::create(&self.output)?;
        let part = self.see(&accumulator, &mut source).map_err(|error| source.explain(error))?;
        source.note_rescaled();
        file.write(part.to_bytes())?;
        file.finish()?;
        // Standard output has the statistics then.
        if self.output == Path::new("-") {
            return Ok(());
        }
        output::print(state::describe_part("accumulated", &part, self.json))
    }

    fn see(&self, accumulator: &Accumulator, source: &mut RowSource) -> vmfkit::Result<PartStats> {
        let (expected, found) = (accumulator.mixture().dim(), source.dim());
        if expected != found {
            return Err(Error::DimensionMismatch { expected, found });
        }
        let mut progress = Progress::new(!self.quiet);
        let mut part = accumulator.part(self.first_block);
        let (all, pass) = (source.len(), format!("pass {}, ", part.pass()));
        while let Some(block) = source.read_block()? {
            accumulator.see(&block, &mut part)?;
            progress.rows(&pass, part.rows(), all);
        }
        Ok(part)
    }
}
