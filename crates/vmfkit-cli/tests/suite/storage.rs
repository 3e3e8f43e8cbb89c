//! Files that outlive their process, and memory limits of the system.

use crate::{Workspace, wait_until};
use serde_json::Value;
use std::process::Stdio;

/// Every limit is either kept or refused with a message, and its hint works.
#[test]
fn a_limit_of_the_address_space_never_aborts() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 64 --concentration 50 -n 300000 -o x.npy").success();
    let fit = "fit x.npy -k 3 --max-passes 2 --threads 2 --json";
    // The trace has the seconds of each pass.
    let without_trace = |mut report: Value| report.as_object_mut().unwrap().remove("trace").map(|_| report).unwrap();
    let expected = without_trace(workspace.run(fit).json());
    let (mut worked, mut refused) = (0, 0);
    for kilobytes in [100_000, 150_000, 200_000, 250_000, 300_000, 400_000, 600_000, 4_000_000] {
        let limit = format!("ulimit -v {kilobytes}");
        let run = workspace.run_after(&limit, fit);
        if run.code == Some(0) {
            assert_eq!(without_trace(run.json()), expected);
            worked += 1;
            continue;
        }
        let message = run.stderr.clone();
        run.refused(&["this command needs up to ", "but the limit of the address space (`ulimit -v`) leaves: `"]);
        refused += 1;
        if let Some((_, memory)) = message.split_once("hint: `--memory ") {
            let memory = memory.split('`').next().unwrap();
            workspace.run_after(&limit, &format!("{fit} --memory {memory}")).success();
        }
    }
    assert!(worked >= 2 && refused >= 2, "{worked} {refused}");
    // More memory than there is address space.
    workspace.run_after("ulimit -v 400000", &format!("{fit} --memory 8GB")).success();
    let message = workspace.run_after("ulimit -v 100000", "select x.npy -k 1:2");
    message.refused(&[
        "reads all rows into memory, which takes 76.800 MB, but the limit of the address space (`ulimit -v`) leaves: `",
    ]);
}

#[test]
fn files_of_a_killed_process_are_removed_by_the_next() {
    let workspace = Workspace::new();
    let mut command = workspace.command();
    let mut child = command
        .args("sample --dim 1000 --concentration 1 -n 10000000 -o x.npy".split(' '))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("a partial file", || workspace.names() == [".x.npy.0.partial"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(workspace.names(), [".x.npy.0.partial"]);
    workspace.run("sample --dim 3 --concentration 1 -n 9 -o x.npy").success();
    assert_eq!(workspace.names(), ["x.npy"]);
}

#[test]
fn names_as_long_as_the_file_system_allows_are_written() {
    let workspace = Workspace::new();
    let name = format!("{}.npy", "x".repeat(251));
    workspace.run(&format!("sample --dim 3 --concentration 1 -n 9 -o {name}")).success();
    assert_eq!(workspace.names(), [name.as_str()]);
    let model = format!("{}.safetensors", "m".repeat(243));
    workspace.run(&format!("fit {name} -k 1 -o {model} --checkpoint {}", "c".repeat(255))).success();
    assert_eq!(workspace.names().len(), 3);
}

/// However the first process ends, the next one needs no manual cleanup.
#[test]
fn a_checkpoint_is_used_by_one_fit_at_a_time() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 5 --concentration 20 -n 2000 -o x.npy").success();
    std::os::unix::fs::symlink("c", workspace.path("link")).unwrap();
    let mut command = workspace.command();
    command.args("fit x.npy -k 3 --method sgd --max-passes 1000000 --tolerance 0 --checkpoint c".split(' '));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("a checkpoint", || workspace.path("c").exists());
    let words = format!("another fit is using this checkpoint, process: `{}", child.id());
    for options in ["--checkpoint c", "--checkpoint c --resume", "--checkpoint link --resume", "--checkpoint c --start-only"] {
        workspace.run(&format!("fit x.npy -k 3 {options}")).refused(&[&words, "hint: wait until it ends"]);
    }
    workspace.run("fit x.npy -k 3 --max-passes 1 --checkpoint other").success();
    child.kill().unwrap();
    child.wait().unwrap();
    workspace.run("fit x.npy -k 3 --checkpoint c").refused(&["the checkpoint exists"]);
    std::fs::remove_file(workspace.path("c")).unwrap();
    workspace.run("fit x.npy -k 3 --max-passes 1 --checkpoint c").success();
    workspace.run("fit x.npy -k 3 --max-passes 2 --checkpoint c --resume").success();
    assert_eq!(workspace.names(), ["c", "link", "other", "x.npy"]);
}

/// The number of rows, their weight and the first rows are unchanged.
#[test]
fn rows_that_changed_after_the_first_ones_are_refused() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 4 --concentration 9 -n 5000 -o x.npy").success();
    let fit = |passes: usize, more: &str| format!("fit x.npy -k 3 --tolerance 0 --max-passes {passes} --checkpoint c {more}");
    workspace.run(&fit(2, "")).success();
    let (rows, state) = (workspace.read("x.npy"), workspace.read("c"));
    let mut changed = rows.clone();
    changed[128 + 16 * 4000..128 + 16 * 4002].rotate_left(16);
    workspace.write("x.npy", &changed);
    let words = ["made with rows whose fingerprint is ", "hint: the rows, their order or their weights have changed"];
    workspace.run(&fit(4, "--resume --memory 300MB")).refused(&words);
    workspace.run(&fit(4, "--resume")).refused(&words);
    assert_eq!(workspace.read("c"), state, "the checkpoint is still that of the old rows");
    workspace.write("x.npy", &rows);
    workspace.run(&fit(4, "--resume -o resumed.safetensors")).success();
    workspace.run("fit x.npy -k 3 --tolerance 0 --max-passes 4 -o whole.safetensors").success();
    assert_eq!(workspace.read("resumed.safetensors"), workspace.read("whole.safetensors"));
}

/// The memory limit determines the blocks of rows, but not the result.
#[test]
fn a_fit_is_resumed_with_another_memory_limit() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 100 --concentration 30 -n 40000 -o x.npy").success();
    for method in ["em", "stochastic", "online --set shuffle_rows=5000"] {
        let fit = |passes: usize, more: &str| {
            format!("fit x.npy -k 3 --method {method} --set sample=5000 --tolerance 0 --max-passes {passes} {more}")
        };
        workspace.run(&fit(4, "-o whole.safetensors")).success();
        for memory in ["", "--memory 70MB", "--memory 300MB"] {
            let _ = std::fs::remove_file(workspace.path("c"));
            workspace.run(&fit(2, "--memory 60MB --checkpoint c")).success();
            workspace.run(&fit(4, &format!("--checkpoint c --resume {memory} -o resumed.safetensors"))).success();
            assert!(workspace.read("resumed.safetensors") == workspace.read("whole.safetensors"), "{method} {memory}");
        }
    }
    // Rows that are shuffled together are in memory together.
    workspace
        .run("fit x.npy -k 3 --method online --set sample=500 --memory 60MB")
        .refused(&["this command needs at least ", "hint: a smaller `--set shuffle_rows=ROWS` needs less"]);
}
