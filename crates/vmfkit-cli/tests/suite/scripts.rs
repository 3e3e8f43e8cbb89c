//! Completions and manual pages list every command.

use crate::Workspace;
use std::process::Command;

/// Pages that are not about one subcommand.
const TOPICS: [&str; 3] = ["formats", "angles", "settings"];

/// The subcommands that `vmf --help` lists.
fn subcommands() -> Vec<String> {
    let help = Workspace::new().run("--help").success();
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Descriptions go on in lines that are indented further.
    let begins = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let subcommands: Vec<String> =
        listed.filter(begins).filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    assert!(subcommands.contains(&"help".to_owned()));
    assert!(subcommands.len() > 8 && subcommands.contains(&"fit".to_owned()), "{subcommands:?}");
    subcommands.into_iter().filter(|subcommand| subcommand != "help").collect()
}

#[test]
fn completions_of_every_shell_know_every_command() {
    let workspace = Workspace::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = workspace.run(&format!("completions {shell}")).success();
        for word in subcommands().iter().map(String::as_str).chain(["concentration", "rescale"]) {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    workspace.run("completions tcsh").refused(&["'tcsh'", "bash"]);
}

#[test]
fn every_command_has_a_manual_page() {
    let workspace = Workspace::new();
    let run = workspace.run("man pages/man1");
    let names = subcommands().into_iter().chain(["help".to_owned()]);
    let pages: Vec<String> =
        ["vmf.1".to_owned()].into_iter().chain(names.map(|subcommand| format!("vmf-{subcommand}.1"))).collect();
    let topics = TOPICS.map(|topic| format!("vmf-{topic}.1"));
    assert_eq!(run.stderr, format!("pages/man1: {} manual pages\n", pages.len() + topics.len()));
    assert_eq!(run.success(), "");
    for name in &pages {
        let page = String::from_utf8(workspace.read(&format!("pages/man1/{name}"))).unwrap();
        for words in [".TH vmf", ".SH NAME", ".SH SYNOPSIS", ".SH GENERAL"] {
            assert!(page.contains(words), "{name}: `{words}` is missing in:\n{page}");
        }
    }
    for name in &topics {
        let page = String::from_utf8(workspace.read(&format!("pages/man1/{name}"))).unwrap();
        assert!(page.contains(".SH NAME") && page.contains(".SH DESCRIPTION\n.nf\n"), "{name}:\n{page}");
    }
    // Examples keep their line breaks.
    let page = String::from_utf8(workspace.read("pages/man1/vmf-fit.1")).unwrap();
    assert!(page.contains(".SH NOTES\n.nf\nExamples:\n"), "{page}");
    let main = String::from_utf8(workspace.read("pages/man1/vmf.1")).unwrap();
    assert!(subcommands().iter().all(|subcommand| main.replace('\\', "").contains(&format!("vmf-{subcommand}(1)"))), "{main}");

    let file = workspace.path("pages/man1/vmf-convert.1");
    let shown = Command::new("man").arg("-l").arg(&file).env("MANPAGER", "cat").env("LC_ALL", "C").output();
    match shown {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            // Machines without manual pages have a man that says only that.
            if text.contains("SYNOPSIS") {
                assert!(text.contains("vmf convert x.npy x.parquet"), "{text}");
            } else {
                eprintln!("not checked, since man shows no pages here");
            }
        }
        _ => eprintln!("not checked, since man is not installed"),
    }
}

#[test]
fn every_command_can_be_quiet_and_speak_json() {
    let workspace = Workspace::new();
    for subcommand in subcommands() {
        let help = workspace.run(&format!("{subcommand} --help")).success();
        for option in ["--json", "-q, --quiet"] {
            assert!(help.contains(option), "{subcommand}: `{option}` is missing in:\n{help}");
        }
    }
}

/// Commands that print only text.
#[test]
fn quiet_leaves_nothing_but_the_result() {
    let workspace = Workspace::new();
    workspace.write("labels.txt", "a\nb\na\n");
    workspace.write("points.csv", "d,kappa\n768,50\n");
    for arguments in [
        "demo -n 50",
        "compare labels.txt labels.txt",
        "constants --dim 3 --concentration 1",
        "constants --from points.csv",
        "completions fish",
        "man pages",
    ] {
        let run = workspace.run(&format!("{arguments} --quiet"));
        assert_eq!(run.stderr, "", "{arguments}");
        assert_eq!(run.success().is_empty(), arguments == "man pages", "{arguments}");
    }
    let script = workspace.run("completions fish").success();
    let object = workspace.run("completions fish --json").json();
    assert_eq!((&object["shell"], object["script"].as_str()), (&"fish".into(), Some(&*script)));
    let object = workspace.run("man pages --json").json();
    assert_eq!((&object["folder"], &object["pages"][0]), (&"pages".into(), &"vmf.1".into()));
    assert_eq!(object["pages"].as_array().unwrap().len(), subcommands().len() + 2 + TOPICS.len());
}

#[test]
fn help_has_the_commands_and_the_topics() {
    let workspace = Workspace::new();
    for subcommand in subcommands() {
        assert_eq!(
            workspace.run(&format!("help {subcommand}")).success(),
            workspace.run(&format!("{subcommand} --help")).success(),
            "{subcommand}"
        );
    }
    for (topic, words) in TOPICS.into_iter().zip(["Matrix Market", "x = cos lat cos lon", "learning_rate=RATE"]) {
        let page = workspace.run(&format!("help {topic}")).success();
        assert!(page.contains(words) && page.lines().all(|line| line.len() <= 100), "{page}");
    }
    assert_eq!(workspace.run("help settings").success(), workspace.run("fit --help-settings").success());
    workspace.run("help everything").refused(&["'everything'", "formats"]);
}

/// A summary has a line for each option; examples are in the long help.
#[test]
fn the_letter_h_prints_a_summary() {
    let workspace = Workspace::new();
    for subcommand in subcommands() {
        let [short, long] = ["-h", "--help"].map(|option| workspace.run(&format!("{subcommand} {option}")).success());
        assert!(short.lines().count() < long.lines().count() && !short.contains("Examples:"), "{subcommand}: {short}");
    }
}
