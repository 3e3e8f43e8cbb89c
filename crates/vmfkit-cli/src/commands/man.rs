//! `vmf man`: manual pages, one per command and topic.

use super::Arguments;
use crate::args::ReportArguments;
use crate::commands::help;
use crate::files::output::{self, WriteError};
use crate::report::notes;
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

/// Write manual pages, one per command, to a folder
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Man {
    /// Folder for vmf.1, vmf-fit.1 and others; it is created if it does not exist
    folder: PathBuf,
    #[command(flatten)]
    report: ReportArguments,
}

impl Man {
    pub fn run(&self) -> Result<()> {
        let mut command = Arguments::command();
        command.build();
        let unwritten = |source| WriteError::new(self.folder.display().to_string(), source);
        std::fs::create_dir_all(&self.folder).map_err(unwritten)?;
        let subcommands: Vec<Command> = command.get_subcommands().cloned().collect();
        let mut pages = Vec::new();
        for command in [command].into_iter().chain(subcommands) {
            let page = Page::new(command.clone());
            let name = page.get_filename();
            output::write_file(&self.folder.join(&name), render(&page, &command).map_err(unwritten)?)?;
            pages.push(name);
        }
        for (topic, about) in help::TOPICS {
            let name = format!("vmf-{topic}.1");
            output::write_file(&self.folder.join(&name), render_topic(topic, about).map_err(unwritten)?)?;
            pages.push(name);
        }
        let folder = self.folder.display().to_string();
        if self.report.json {
            return output::print(format!("{}\n", json!({ "folder": folder, "pages": pages })));
        }
        if !self.report.quiet {
            notes::note(format_args!("{folder}: {} manual pages", pages.len()));
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
    if let Some(text) = command.get_after_long_help().or(command.get_after_help()) {
        as_is("NOTES", &text.to_string()).to_writer(&mut bytes)?;
    }
    if command.get_version().is_some() {
        page.render_version_section(&mut bytes)?;
    }
    Ok(bytes)
}

/// The page of a topic.
fn render_topic(topic: &str, about: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut page = Roff::new();
    page.control("TH", [&format!("vmf-{topic}"), "1"]).control("SH", ["NAME"]).text([roman(format!("vmf-{topic} - {about}"))]);
    page.to_writer(&mut bytes)?;
    as_is("DESCRIPTION", &help::topic(topic).unwrap_or_default()).to_writer(&mut bytes)?;
    Ok(bytes)
}

/// A section that keeps its line breaks, for tables and examples.
fn as_is(heading: &str, text: &str) -> Roff {
    let mut section = Roff::new();
    section.control("SH", [heading]).control("nf", []);
    text.lines().for_each(|line| {
        section.text([roman(line)]);
    });
    section.control("fi", []);
    section
}
