//! The commands of the README work and print what it shows.

use crate::Workspace;

const README: &str = include_str!("../../../../README.md");

/// The lines of all blocks of this kind.
fn blocks(kind: &str) -> Vec<Vec<&'static str>> {
    let mut found = Vec::new();
    let mut lines = README.lines();
    while let Some(line) = lines.next() {
        if line == format!("```{kind}") {
            found.push(lines.by_ref().take_while(|line| *line != "```").collect());
        }
    }
    found
}

#[test]
fn every_vmf_command_of_the_readme_runs() {
    let workspace = Workspace::new();
    let commands: Vec<&str> = blocks("sh").concat().into_iter().filter(|line| line.starts_with("vmf ")).collect();
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands {
        let command = command.split('#').next().expect("a first part");
        workspace.run(command.trim_start_matches("vmf ")).success();
    }
}

/// Words, with numbers to five digits: library logarithms may differ in the last place between
/// platforms.
fn rounded(text: &str) -> Vec<String> {
    let word = |word: &str| match word.trim_end_matches(',').parse::<f64>() {
        Ok(number) => format!("{number:.4e}"),
        Err(_) => word.to_string(),
    };
    text.split_whitespace().map(word).collect()
}

/// The block of printed text that begins with these words.
fn printed_block(beginning: &str) -> String {
    let found = blocks("text").into_iter().find(|lines| lines[0].starts_with(beginning));
    found.unwrap_or_else(|| panic!("a block that begins with {beginning}")).join("\n")
}

#[test]
fn the_demo_of_the_readme_is_what_is_printed() {
    let printed = Workspace::new().run("demo").success();
    let block = printed_block("3. Real text");
    let from = printed.find("3. Real text").expect("the third part");
    let shown = block.lines().count();
    let part = printed[from..].lines().take(shown).collect::<Vec<_>>().join("\n");
    assert_eq!(rounded(&part), rounded(&block), "{part}");
}

#[test]
fn the_fit_of_the_readme_is_what_is_printed() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 100 --concentration 500 -n 10000 -o x.npy").success();
    let printed = workspace.run("fit x.npy").success();
    assert_eq!(rounded(&printed), rounded(&printed_block("x.npy: 10000 rows")));
}
