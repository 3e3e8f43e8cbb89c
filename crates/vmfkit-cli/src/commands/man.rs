//! `vmf man`: manual pages, one a verb.

use crate::args::Arguments;
use crate::files::output::{self, WriteError};
use anyhow::Result;
use clap::{Command, CommandFactory};
use clap_mangen::Man as Page;
use clap_mangen::roff::{Roff, roman};
use serde_json::json;
use std::io;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  vmf man ~/.local/share/man/man1 && man vmf-fit
  vmf man pages && man -l pages/vmf.1";

/// Write the manual pages, one a verb, into a folder
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Man {
    /// Folder for vmf.1, vmf-fit.1 and so on; it is made if it is not there
    folder: PathBuf,
    /// Print one JSON object, with the names of the pages
    #[arg(long)]
    json: bool,
    /// Do not say how many pages were written
    #[arg(long, short)]
    quiet: bool,
}

impl Man {
    pub fn run(&self) -> Result<()> {
        let mut command = Arguments::command().disable_help_subcommand(true);
        command.build();
        let unwritten = |source| WriteError::new(self.folder.display().to_string(), source);
        std::fs::create_dir_all(&self.folder).map_err(unwritten)?;
        let verbs: Vec<Command> = command.get_subcommands().cloned().collect();
        let mut pages = Vec::new();
        for command in [command].into_iter().chain(verbs) {
            let page = Page::new(command.clone());
            let name = page.get_filename();
            output::write_file(&self.folder.join(&name), render(&page, &command).map_err(unwritten)?)?;
            pages.push(name);
        }
        let folder = self.folder.display().to_string();
        if self.json {
            return output::print(format!("{}\n", json!({ "folder": folder, "pages": pages })));
        }
        if !self.quiet {
            output::note(format_args!("{folder}: {} manual pages", pages.len()));
        }
        Ok(())
    }
}

fn render(page: &Page, command: &Command) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    page.render_title(&mut bytes)?;
    page.render_name_section(&mut bytes)?;
    page.render_synopsis_section(&mut bytes)?;
    page.render_description_section(&mut bytes)?;
    page.render_options_section(&mut bytes)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut bytes)?;
    }
    if let Some(text) = command.get_after_help() {
        // Tables and examples keep their lines.
        let mut notes = Roff::new();
        notes.control("SH", ["NOTES"]).control("nf", []);
        text.to_string().lines().for_each(|line| {
            notes.text([roman(line)]);
        });
        notes.control("fi", []).to_writer(&mut bytes)?;
    }
    if command.get_version().is_some() {
        page.render_version_section(&mut bytes)?;
    }
    Ok(bytes)
}
