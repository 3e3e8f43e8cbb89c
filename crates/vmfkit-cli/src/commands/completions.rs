//! `vmf completions`: what a shell needs to complete commands and options.

use crate::args::Arguments;
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

/// Print a script that completes commands and options in a shell
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
    /// Print one JSON object with the script in it
    #[arg(long)]
    json: bool,
    /// Show nothing beside the script, as every command does with it; this one never does
    #[arg(long = "quiet", short = 'q')]
    _quiet: bool,
}

impl Completions {
    pub fn run(&self) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "vmf", &mut script);
        let mut script = String::from_utf8(script)?;
        if self.json {
            let object = json!({ "shell": self.shell.to_string(), "script": script });
            script = format!("{object}\n");
        }
        output::print(script)
    }
}
