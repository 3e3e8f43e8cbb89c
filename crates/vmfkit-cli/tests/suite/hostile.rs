//! Contents and names of files that play tricks: they reach neither the terminal nor the wrong
//! file.

use crate::{Workspace, testdata};
use vmfkit::store::model::{from_bytes, to_bytes};

#[test]
fn control_characters_of_a_model_do_not_reach_the_terminal() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 3 --concentration 9 -n 50 -o x.npy").success();
    workspace.run("fit x.npy -k 2 --quiet -o m.safetensors").success();
    let (mixture, mut description) = from_bytes(&workspace.read("m.safetensors")).unwrap();
    description.notes = vec!["\x1b[2Jwiped\r\u{9b}31m red".to_owned()];
    description.status = "converged\nnote: all is well\x07".to_owned();
    description.policy = "free\x1b]0;title\x07".to_owned();
    workspace.write("hostile.safetensors", to_bytes(&mixture, &description));
    let shown = workspace.run("inspect hostile.safetensors").success();
    assert!(shown.chars().all(|c| !c.is_control() || c == '\n'), "{shown:?}");
    for line in [
        "note: \\u001b[2Jwiped\\u000d\\u009b31m red\n",
        "status                  converged\\u000anote: all is well\\u0007 after ",
        "concentrations          free\\u001b]0;title\\u0007\n",
    ] {
        assert!(shown.contains(line), "{line:?} is missing in: {shown}");
    }
    let json = workspace.run("inspect hostile.safetensors --json").json();
    assert_eq!(json["notes"][0], "\x1b[2Jwiped\r\u{9b}31m red", "the same in JSON");
}

#[test]
fn control_characters_of_names_do_not_reach_the_terminal() {
    let workspace = Workspace::new();
    for name in ["gone\x1b[31m.npy", "gone\x1b[31m.parquet", "*\x1b[31m.npy"] {
        let output = workspace.command().args(["fit", name]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(said.contains("\\u001b[31m") && said.chars().all(|c| !c.is_control() || c == '\n'), "{said:?}");
    }
}

/// A bit of a page's header, and offsets of lists that are not where a decoder wants them.
#[test]
fn a_panic_of_a_decoder_is_one_error_and_no_more() {
    let workspace = Workspace::new();
    let read = |name: &str| std::fs::read(testdata("hostile").join(name)).unwrap();
    workspace.write("x.parquet", read("panic.parquet"));
    for (place, run) in [
        ("x.parquet", workspace.run("fit x.parquet --rescale")),
        ("standard input", workspace.run_with_input("fit - --rescale", &read("misaligned.arrows"))),
    ] {
        assert!(run.stderr.starts_with(&format!("error: {place}: ")) && !run.stderr.contains("panicked"), "{}", run.stderr);
        run.refused(&["the file is damaged, found: `"]);
    }
}

/// Found by the fuzzer: a page of a few bytes that says it unpacks to 2 GB, for which memory was
/// taken without a way out.
#[cfg(target_os = "linux")]
#[test]
fn a_page_that_unpacks_to_more_than_there_is_memory_for_is_refused() {
    let workspace = Workspace::new();
    std::fs::copy(testdata("hostile").join("unpacked.parquet"), workspace.path("x.parquet")).unwrap();
    let said = workspace.shell("ulimit -v 1500000; vmf --threads 2 fit x.parquet 2>&1; echo exit code $?");
    assert!(said.contains("error: x.parquet: the file is damaged, found: `a page that unpacks to "), "{said}");
    assert!(said.ends_with("exit code 2\n"), "{said}");
}

#[test]
fn weights_that_overflow_are_refused() {
    let workspace = Workspace::new();
    workspace.write("x.csv", "x,y,w\n0.6,0.8,1\n0.8,0.6,1e299\n");
    for options in ["", "-k 1 -o m.safetensors"] {
        let run = workspace.run(&format!("fit x.csv --weights column:w {options}"));
        run.refused(&["x.csv: the weight of row 1 must be from 0 to 1e100, found: `1e299`", "divide all weights by the same"]);
    }
    workspace.write("w.txt", "1\n1e299\n");
    workspace.run("fit x.csv --columns x,y --weights w.txt").refused(&["the weight of row 1", "found: `1e299`"]);
    assert_eq!(workspace.names(), ["w.txt", "x.csv"]);
}

/// Where file systems have such names.
#[cfg(target_os = "linux")]
mod names_that_are_not_utf8 {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    fn name(bytes: &[u8]) -> &OsStr {
        OsStr::from_bytes(bytes)
    }

    fn run(workspace: &Workspace, arguments: &[&[u8]]) -> (Option<i32>, String, String) {
        let output = workspace.command().args(arguments.iter().map(|argument| name(argument))).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    #[test]
    fn rows_are_found_by_pattern_and_folder() {
        let workspace = Workspace::new();
        workspace.run("sample --dim 3 --concentration 9 -n 50 -o x.npy").success();
        std::fs::create_dir(workspace.path("d")).unwrap();
        std::fs::copy(workspace.path("x.npy"), workspace.path("d").join(name(b"a\xff.npy"))).unwrap();
        for place in ["d", "d/*.npy", "d/a?.npy"] {
            assert_eq!(workspace.run(&format!("fit {place} --json")).json()["rows"], 50, "{place}");
        }
        workspace.run("fit d/b?.npy").refused(&["no file matches the pattern"]);
        // By its own name it is refused, and not taken for another.
        workspace.write("d/a\u{fffd}.npy", "no rows");
        for subcommand in ["fit", "convert"] {
            let (code, shown, said) = run(&workspace, &[subcommand.as_bytes(), b"d/a\xff.npy", b"o.csv"]);
            assert_eq!((code, &*shown), (Some(2), ""));
            assert!(
                said.contains(
                    "the name must be UTF-8, found: `d/a\\xff.npy`\nhint: use `?` for such a character in a quoted pattern"
                ),
                "{said}"
            );
        }
    }

    #[test]
    fn results_are_written_and_models_read() {
        let workspace = Workspace::new();
        workspace.run("sample --dim 3 --concentration 9 -n 50 -o x.npy").success();
        for arguments in [
            &[&b"fit"[..], b"x.npy", b"-k", b"2", b"--quiet", b"-o", b"m\xff", b"--checkpoint", b"c\xff"][..],
            &[b"assign", b"m\xff", b"x.npy", b"-o", b"l\xff.npy"],
            &[b"convert", b"x.npy", b"-o", b"y\xff.csv"],
            &[b"inspect", b"m\xff", b"x.npy"],
        ] {
            let (code, _, said) = run(&workspace, arguments);
            assert_eq!(code, Some(0), "{said}");
        }
        for file in [&b"m\xff"[..], b"c\xff", b"l\xff.npy", b"y\xff.csv"] {
            assert!(workspace.0.path().join(name(file)).is_file(), "{}", file.escape_ascii());
        }
    }

    /// A table of labels is read by its name, which another file may seem to have.
    #[test]
    fn labels_are_not_those_of_another_file() {
        let workspace = Workspace::new();
        workspace.run("sample --dim 3 --concentration 9 -n 50 -o x.npy").success();
        workspace.run("fit x.npy -k 2 --quiet -o m.safetensors").success();
        workspace.run("assign m.safetensors x.npy -o l.parquet").success();
        std::fs::copy(workspace.path("l.parquet"), workspace.0.path().join(name(b"l\xff.parquet"))).unwrap();
        std::fs::copy(workspace.path("l.parquet"), workspace.path("l\u{fffd}.parquet")).unwrap();
        let (code, shown, said) = run(&workspace, &[b"compare", b"l.parquet", b"l\xff.parquet"]);
        assert_eq!((code, &*shown), (Some(2), ""));
        assert!(said.contains("the name must be UTF-8, found: `l\\xff.parquet`"), "{said}");
    }
}
