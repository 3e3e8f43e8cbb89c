//! `vmf demo`: a first look, without files.

mod known_mixture;
mod questions;
mod real_text;

use crate::args::{GENERAL, MODEL, OUTPUT, ReportArguments};
use crate::files::{Files, output};
use crate::report::notes;
use crate::report::progress::Progress;
use anyhow::Result;
use known_mixture::KnownMixture;
use questions::Questions;
use real_text::RealText;
use serde_json::json;
use std::path::PathBuf;
use vmfkit_io::OutputFormat;

const AFTER_HELP: &str = "\
Examples:
  vmf demo
  vmf demo --questions questions.parquet
  vmf fit questions.parquet -k 77 -o bank.safetensors
  vmf inspect bank.safetensors questions.parquet --id-column id

The questions are from the test split of banking77 by PolyAI, under CC-BY 4.0: the first 20 of each
of its 77 intents. Their embeddings have 384 dimensions and are by all-MiniLM-L6-v2.";

/// Fit a known mixture, then cluster 1,540 real questions; needs no files
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Demo {
    /// Number of rows drawn from the known mixture
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000, help_heading = MODEL, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    rows: u32,
    /// File to write the questions to, as ids, with their embeddings
    ///
    /// FILE ends in .parquet, .arrow, .csv, .tsv or .jsonl. Other formats, such as .npy, hold the
    /// embeddings alone.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    questions: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArguments,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = GENERAL)]
    seed: u64,
}

impl Demo {
    pub fn run(&self) -> Result<()> {
        Files::new().writes("--questions", self.questions.as_ref()).leave_standard_output()?;
        let questions = Questions::read();
        if let Some(path) = &self.questions {
            questions.write(path, OutputFormat::of(path)?)?;
            if !self.report.quiet {
                notes::note(format_args!("{}: {} questions with their embeddings", path.display(), questions.all.len()));
            }
        }
        let mut progress = Progress::new(!self.report.quiet);
        let known = KnownMixture::fit(self.rows as usize, self.seed)?;
        progress.show("clustering questions");
        let text = RealText::fit(&questions, self.seed)?;
        drop(progress);
        output::print(match self.report.json {
            true => {
                let [truth, fits, constants] = known.to_json();
                format!("{}\n", json!({ "truth": truth, "fits": fits, "constants": constants, "questions": text.to_json() }))
            }
            false => format!(
                "{}\n{}\nTime: {}, questions {:.2} s\n\n\
                 Next, with the same questions:\n\
                 \x20 vmf demo --questions questions.parquet\n\
                 \x20 vmf fit questions.parquet -k 77 -o bank.safetensors\n",
                known.to_text(),
                text.to_text(),
                known.times(),
                text.seconds(),
            ),
        })
    }
}
