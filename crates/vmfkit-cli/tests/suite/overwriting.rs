//! Inputs are never overwritten, and replaced files keep their mode and links.

use crate::mixture::three_groups;
use crate::{Workspace, number};

/// Rows, a model, a state and statistics.
fn everything() -> Workspace {
    let workspace = three_groups();
    std::fs::create_dir(workspace.path("parts")).unwrap();
    for (name, rows) in [("parts/0.csv", "a.csv"), ("parts/1.csv", "b.csv")] {
        std::fs::copy(workspace.path("x.csv"), workspace.path(name)).unwrap();
        std::fs::copy(workspace.path("x.csv"), workspace.path(rows)).unwrap();
    }
    workspace.write("w.txt", "1\n".repeat(600));
    workspace.write("points.csv", "d,kappa\n3,5\n");
    workspace.write("direction.csv", "1,2,2\n");
    workspace.run("fit x.csv -k 3 -o m.safetensors").success();
    workspace.run("fit x.csv -k 3 --checkpoint st --start-only").success();
    for part in ["p.stats", "q.stats"] {
        workspace.run(&format!("accumulate st x.csv -o {part}")).success();
    }
    workspace
}

#[test]
fn no_output_overwrites_an_input() {
    let workspace = everything();
    let files = || {
        let names =
            ["x.csv", "parts/0.csv", "w.txt", "m.safetensors", "st", "p.stats", "truth.txt", "points.csv", "direction.csv"];
        (workspace.names(), names.map(|name| workspace.read(name)))
    };
    let before = files();
    for (command, option, file) in [
        ("assign m.safetensors x.csv -o x.csv", "-o", "x.csv"),
        ("assign m.safetensors parts -o parts/0.csv", "-o", "parts/0.csv"),
        ("assign m.safetensors parts/*.csv -o ./parts/1.csv", "-o", "./parts/1.csv"),
        ("assign m.safetensors x.csv --weights w.txt -o w.txt", "-o", "w.txt"),
        ("assign m.safetensors x.csv -o m.safetensors", "-o", "m.safetensors"),
        ("fit x.csv -k 3 -o x.csv", "-o", "x.csv"),
        ("fit a.csv parts/?.csv -k 3 -o parts/0.csv", "-o", "parts/0.csv"),
        ("fit x.csv -k 3 --labels x.csv", "--labels", "x.csv"),
        ("fit x.csv -k 3 --checkpoint x.csv", "--checkpoint", "x.csv"),
        ("fit x.csv -k 3 --checkpoint x.csv --start-only", "--checkpoint", "x.csv"),
        ("fit x.csv -k 3 --weights w.txt --labels w.txt", "--labels", "w.txt"),
        ("fit x.csv -k 3 --start model:m.safetensors -o m.safetensors", "-o", "m.safetensors"),
        ("fit x.csv -k 3 --start labels:truth.txt --labels truth.txt", "--labels", "truth.txt"),
        ("accumulate st x.csv -o x.csv", "-o", "x.csv"),
        ("accumulate st x.csv -o st", "-o", "st"),
        ("merge p.stats q.stats -o p.stats", "-o", "p.stats"),
        ("maximise st p.stats -o p.stats", "-o", "p.stats"),
        ("maximise st p.stats -o next --model p.stats", "--model", "p.stats"),
        ("calibrate m.safetensors x.csv -o x.csv", "-o", "x.csv"),
        ("sample m.safetensors -n 10 -o m.safetensors --to npy", "-o", "m.safetensors"),
        ("sample m.safetensors -n 10 -o y.npy --labels m.safetensors", "--labels", "m.safetensors"),
        ("sample --mean-direction direction.csv --concentration 3 -n 10 -o direction.csv", "-o", "direction.csv"),
        ("convert x.csv x.csv", "FILE", "x.csv"),
        ("convert x.csv --rescale -o x.csv", "-o", "x.csv"),
        ("constants --from points.csv -o points.csv", "-o", "points.csv"),
    ] {
        let words = format!("`{option}` would overwrite an input: `{file}`\nhint: ");
        workspace.run(command).refused(&[&words]);
        assert!(files() == before, "{command}");
    }
    // The next state may take the place of this one, and a result of the last run that of this one.
    workspace.run("maximise st p.stats -o st").success();
    workspace.run("calibrate m.safetensors x.csv -o m.safetensors").success();
    for _ in 0..2 {
        workspace.run("assign m.safetensors parts -o labels.npy").success();
    }
}

#[test]
fn standard_input_is_one_input() {
    let workspace = everything();
    let model = workspace.read("m.safetensors");
    for command in
        ["assign - - -o l.npy", "score - -", "inspect - -", "merge - - -o s", "accumulate - - -o s", "maximise - - -o s"]
    {
        workspace.run_with_input(command, &model).refused(&["only one of the inputs can be standard input, found twice: `-`"]);
    }
}

#[test]
fn models_states_and_statistics_come_through_a_pipe() {
    let workspace = everything();
    let [model, state, part] = ["m.safetensors", "st", "p.stats"].map(|name| workspace.read(name));
    let from_file = workspace.run("score m.safetensors x.csv --json").json();
    let from_pipe = workspace.run_with_input("score - x.csv --json", &model).json();
    assert_eq!(from_pipe["mean_ln_density"], from_file["mean_ln_density"]);
    assert!(workspace.run_with_input("inspect -", &model).success().starts_with("standard input: 3 components"));
    workspace.run("assign m.safetensors x.csv -o file.npy").success();
    workspace.run_with_input("assign - x.csv -o pipe.npy", &model).success();
    assert_eq!(workspace.read("pipe.npy"), workspace.read("file.npy"));
    workspace.run_with_input("sample - -n 5 -o y.npy", &model).success();
    workspace.run_with_input("accumulate - x.csv -o again.stats", &state).success();
    assert_eq!(workspace.read("again.stats"), part);
    let merged = workspace.run_with_input("merge - q.stats -o all.stats --json -q", &part).json();
    assert_eq!(number(&merged["rows"]), 1200.0);
    workspace.run_with_input("maximise st - -o next", &part).success();
    workspace
        .run_with_input("inspect -", &model[..model.len() - 84])
        .refused(&["standard input: not a valid model file: the header claims "]);
}

/// The header of a model of more than a megabyte is checked first.
#[test]
fn a_large_model_comes_from_a_file_or_a_pipe_whole() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 1000 --concentration 0 -n 300 -o x.npy").success();
    workspace.run("fit x.npy -k 300 --start directions:x.npy --policy fixed:9 --max-passes 1 -o m.safetensors").success();
    let model = workspace.read("m.safetensors");
    assert!(model.len() > 2_000_000);
    assert!(workspace.run("inspect m.safetensors").success().contains("300 components in dimension 1000"));
    assert!(workspace.run_with_input("inspect -", &model).success().contains("300 components in dimension 1000"));
    for damaged in [model[..model.len() - 1].to_vec(), [&model[..], b"x"].concat()] {
        workspace.write("damaged.safetensors", &damaged);
        workspace.run("inspect damaged.safetensors").refused(&["damaged.safetensors: ", " bytes of data, found: `"]);
        workspace.run_with_input("inspect -", &damaged).refused(&["standard input: ", " bytes of data, found: `"]);
    }
}

/// Only the header of a large file is read.
#[test]
fn a_large_file_that_is_no_model_is_refused_by_its_first_bytes() {
    let workspace = Workspace::new();
    let path = workspace.path("large.npy");
    workspace.write("x.csv", "0.6,0.8\n");
    let foreign = br#"{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}"#;
    let cut = br#"{"__metadata__":{"format":"vmfkit.mixture"},"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}"#;
    let not_ours = "large.npy: not a model, a state or statistics written by `vmf`, found a file that starts with: `";
    let too_long = "large.npy: the header declares 8 bytes of data, found: `";
    for (header, words) in [(&b""[..], not_ours), (foreign, not_ours), (cut, too_long)] {
        workspace.write("large.npy", [&(header.len() as u64).to_le_bytes(), header].concat());
        // Without holes it would fill most disks, and most memories.
        std::fs::File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        for command in ["inspect large.npy", "score large.npy x.csv", "accumulate large.npy x.csv -o s", "merge large.npy -o s"] {
            workspace.run(command).refused(&[words]);
        }
    }
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(workspace: &Workspace, name: &str) -> u32 {
        std::fs::metadata(workspace.path(name)).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_replaced_file_keeps_its_mode() {
        let workspace = Workspace::new();
        for kept in [0o600, 0o640, 0o444, 0o666] {
            workspace.write("x.npy", "before");
            std::fs::set_permissions(workspace.path("x.npy"), PermissionsExt::from_mode(kept)).unwrap();
            workspace.run("sample --dim 3 --concentration 1 -n 9 -o x.npy").success();
            assert_eq!((mode(&workspace, "x.npy"), workspace.names()), (kept, vec!["x.npy".to_owned()]));
            assert!(workspace.read("x.npy").starts_with(b"\x93NUMPY"));
            std::fs::remove_file(workspace.path("x.npy")).unwrap();
        }
    }

    #[test]
    fn a_link_to_nothing_yet_stays_a_link() {
        let workspace = Workspace::new();
        std::fs::create_dir(workspace.path("far")).unwrap();
        symlink("far/second", workspace.path("link.npy")).unwrap();
        symlink("target.npy", workspace.path("far/second")).unwrap();
        workspace.run("sample --dim 3 --concentration 1 -n 9 -o link.npy").success();
        assert!(workspace.path("link.npy").is_symlink() && workspace.path("far/second").is_symlink());
        assert!(workspace.read("far/target.npy").starts_with(b"\x93NUMPY"));
        assert_eq!(std::fs::read_dir(workspace.path("far")).unwrap().count(), 2);
    }

    /// In a container the next process may have the number of the one that was killed.
    #[test]
    fn leftovers_of_a_killed_run_do_no_harm() {
        let workspace = Workspace::new();
        // The shell leaves the files under its own number, which the command then has.
        let leftovers = "touch .x.npy.$$.partial .x.npy.$$-0.partial .x.npy.$$-1.partial";
        workspace.run_after(leftovers, "sample --dim 3 --concentration 1 -n 9 -o x.npy").success();
        assert!(workspace.read("x.npy").starts_with(b"\x93NUMPY"));
        assert_eq!(workspace.names().len(), 4);
    }
}
