//! `vmf completions`: shell completion scripts.

use super::Arguments;
use crate::args::ReportArguments;
use crate::files::output;
use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  vmf completions bash > ~/.local/share/bash-completion/completions/vmf
  vmf completions zsh > ~/.zfunc/_vmf                 with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  vmf completions fish > ~/.config/fish/completions/vmf.fish";

/// Print a shell completion script
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Completions {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
    #[command(flatten)]
    report: ReportArguments,
}

impl Completions {
    pub fn run(&self) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "vmf", &mut script);
        let mut script = String::from_utf8(script)?;
        if self.report.json {
            let object = json!({ "shell": self.shell.to_string(), "script": script });
            script = format!("{object}\n");
        }
        output::print(script)
    }
}
