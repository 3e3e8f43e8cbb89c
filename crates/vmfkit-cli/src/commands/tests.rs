//! Laws of the command line, checked on all of it.

use super::help::PAGES;
use super::*;
use crate::args::{FITTING, INPUT, KNOWN_LABELS, MODEL, ONE_DENSITY, OUTPUT, TESTS};
use clap::{Arg, Command, CommandFactory};
use std::collections::BTreeMap;

/// All subcommands, with everything that clap adds to them.
fn subcommands() -> Vec<Command> {
    let mut command = Arguments::command();
    command.build();
    command.get_subcommands().cloned().collect()
}

/// The options of a subcommand that a user can set: help is not one of them.
fn options(subcommand: &Command) -> impl Iterator<Item = &Arg> {
    subcommand.get_arguments().filter(|arg| arg.get_long().is_some() && arg.get_id() != "help")
}

fn value_names(arg: &Arg) -> Vec<String> {
    arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect()
}

#[test]
fn clap_finds_nothing_wrong() {
    Arguments::command().debug_assert();
}

#[test]
fn a_letter_means_the_same_in_every_command() {
    let mut meanings: BTreeMap<char, (String, String)> = BTreeMap::new();
    for subcommand in subcommands() {
        for arg in subcommand.get_arguments() {
            let Some(short) = arg.get_short() else { continue };
            let long = arg.get_long().expect("an option with a letter has a name").to_owned();
            let (known, first) =
                meanings.entry(short).or_insert_with(|| (long.clone(), subcommand.get_name().to_owned())).clone();
            assert_eq!(long, known, "-{short} of {} and {first}", subcommand.get_name());
        }
    }
    let letters: Vec<(char, &str)> = meanings.iter().map(|(&short, (long, _))| (short, long.as_str())).collect();
    let expected = [('d', "dim"), ('h', "help"), ('k', "components"), ('n', "rows"), ('o', "output"), ('q', "quiet")];
    assert_eq!(letters, expected);
}

/// Options of `vmf select` that take lists of what `vmf fit` takes one of, and a default that is optional in `vmf convert`.
const OF_LISTS: [&str; 3] = ["components", "policy", "background"];

#[test]
fn an_option_has_the_same_heading_and_value_in_every_command() {
    let mut known: BTreeMap<String, (Option<String>, Vec<String>, String)> = BTreeMap::new();
    for subcommand in subcommands() {
        for arg in options(&subcommand) {
            let long = arg.get_long().expect("an option").to_owned();
            let heading = arg.get_help_heading().map(str::to_owned);
            let names = if OF_LISTS.contains(&long.as_str()) { Vec::new() } else { value_names(arg) };
            let found = (heading, names, subcommand.get_name().to_owned());
            let first = known.entry(long.clone()).or_insert_with(|| found.clone());
            assert_eq!((&found.0, &found.1), (&first.0, &first.1), "--{long} of {} and {}", found.2, first.2);
        }
    }
}

#[test]
fn options_stand_under_their_headings() {
    let expected = [
        ("columns", INPUT),
        ("memory", INPUT),
        ("scratch", INPUT),
        ("components", MODEL),
        ("policy", MODEL),
        ("start", MODEL),
        ("method", FITTING),
        ("set", FITTING),
        ("checkpoint", FITTING),
        ("level", ONE_DENSITY),
        ("known-labels", KNOWN_LABELS),
        ("calibration", TESTS),
        ("output", OUTPUT),
        ("json", OUTPUT),
        ("quiet", OUTPUT),
        ("seed", GENERAL),
        ("threads", GENERAL),
        ("help", GENERAL),
    ];
    let mut found = BTreeMap::new();
    for subcommand in subcommands() {
        for arg in subcommand.get_arguments().filter(|arg| arg.get_long().is_some()) {
            assert!(arg.get_help_heading().is_some(), "{}: --{} has no heading", subcommand.get_name(), arg.get_id());
            found.insert(arg.get_long().unwrap_or_default().to_owned(), arg.get_help_heading().map(str::to_owned));
        }
    }
    for (option, heading) in expected {
        assert_eq!(found.get(option), Some(&Some(heading.to_owned())), "--{option}");
    }
}

#[test]
fn fit_has_few_options() {
    let subcommands = subcommands();
    let fit = subcommands.iter().find(|subcommand| subcommand.get_name() == "fit").expect("a subcommand");
    let names: Vec<&str> = options(fit).filter_map(Arg::get_long).collect();
    assert!(names.len() <= 34, "{}: {names:?}", names.len());
}

/// One line per option in a summary, and lines that terminals can show everywhere.
#[test]
fn help_is_short_and_its_lines_are_not_long() {
    const WIDEST: usize = 100;
    for mut subcommand in subcommands() {
        let name = subcommand.get_name().to_owned();
        for arg in subcommand.get_arguments() {
            let short = arg.get_help().unwrap_or_else(|| panic!("{name}: {} has no help", arg.get_id())).to_string();
            assert!(short.chars().count() <= WIDEST && !short.contains('\n'), "{name} {}: {short}", arg.get_id());
        }
        // Lines that are wrapped by hand must not be wrapped again: they are indented by 10.
        for arg in subcommand.get_arguments() {
            let long = arg.get_long_help().map(ToString::to_string).unwrap_or_default();
            for paragraph in long.split("\n\n").filter(|paragraph| paragraph.contains('\n')) {
                assert!(paragraph.lines().all(|line| line.chars().count() <= WIDEST - 10), "{name}: {paragraph}");
            }
        }
        for line in subcommand.render_long_help().to_string().lines() {
            assert!(line.chars().count() <= WIDEST + 20, "{name}: {line}");
        }
        let summary = subcommand.render_help().to_string();
        assert!(summary.lines().count() <= 65, "{name}: {summary}");
        assert!(!summary.contains("Examples:"), "{name}: {summary}");
    }
}

/// Words that the glossary of the project replaces.
#[test]
fn help_is_in_plain_words() {
    const NOT: &[&str] = &[
        "by chance",
        "one a row",
        "label a row",
        "bits a ",
        "so many",
        "keeps to",
        "share",
        "judge",
        "goes on",
        "go on with",
        "told apart",
        "wish",
        "is drawn from",
        "behind",
        "turn of",
        "hang together",
    ];
    let topics = PAGES.iter().filter_map(|page| help::topic(page));
    for text in subcommands().iter_mut().map(|subcommand| subcommand.render_long_help().to_string()).chain(topics) {
        for word in NOT {
            let rest = text.replace("shared", "").replace("/usr/share", "").replace(".local/share", "");
            assert!(!rest.contains(word), "`{word}` in: {text}");
        }
    }
}

#[test]
fn every_command_has_a_page() {
    let mut names: Vec<String> = subcommands().iter().map(|subcommand| subcommand.get_name().to_owned()).collect();
    names.extend(help::TOPICS.map(|(name, _)| name.to_owned()));
    assert_eq!(names, PAGES);
}
