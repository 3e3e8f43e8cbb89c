//! The command `vmf`: samples, fits and calculates with von Mises-Fisher densities.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod files;
mod interrupt;
mod report;
mod score_rows;
mod size;
mod typical;

use anyhow::Context;
use clap::Parser;
use commands::{Arguments, Command};
use files::output::WriteError;
use interrupt::Interrupted;
use report::notes;
use std::process::ExitCode;

fn main() -> ExitCode {
    vmfkit_io::spare_address_space();
    vmfkit_io::silence_decoder_panics();
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<Interrupted>() => ExitCode::from(interrupt::EXIT_CODE),
        Err(error) => match error.downcast_ref::<WriteError>() {
            Some(write) if write.is_broken_pipe() => ExitCode::SUCCESS,
            written => {
                notes::note(format_args!("error: {}", with_causes(&error)));
                ExitCode::from(if written.is_some() { 1 } else { 2 })
            }
        },
    }
}

/// The error and its causes on one line, without the wrapper around errors of row sources.
fn with_causes(error: &anyhow::Error) -> String {
    let is_shown = |cause: &&(dyn std::error::Error + 'static)| !matches!(cause.downcast_ref(), Some(vmfkit::Error::Read(_)));
    error.chain().filter(is_shown).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(threads) = arguments.threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.into());
        pool.build_global().with_context(|| format!("cannot start {threads} threads"))?;
    }
    match &arguments.command {
        Command::Demo(demo) => demo.run(),
        Command::Constants(constants) => constants.run(),
        Command::Sample(sample) => sample.run(),
        Command::Fit(fit) => fit.run(),
        Command::Test(test) => test.run(),
        Command::Select(select) => select.run(),
        Command::Assign(assign) => assign.run(),
        Command::Score(score) => score.run(),
        Command::Calibrate(calibrate) => calibrate.run(),
        Command::Compare(compare) => compare.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Tree(tree) => tree.run(),
        Command::Convert(convert) => convert.run(),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
        Command::Accumulate(accumulate) => accumulate.run(),
        Command::Merge(merge) => merge.run(),
        Command::Maximise(maximise) => maximise.run(),
        Command::Help(help) => help.run(),
    }
}
