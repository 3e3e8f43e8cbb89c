//! Pipes that close, disks that fill up, and interrupts.

use crate::Workspace;
use std::io::Read;
use std::process::Stdio;

#[test]
fn a_broken_pipe_is_success() {
    let workspace = Workspace::new();
    workspace.write("points.csv", "d,kappa\n".to_owned() + &"768,50\n".repeat(100_000));
    for arguments in ["constants --from points.csv", "sample --dim 100 --concentration 1 -n 100000 -o -"] {
        let mut command = workspace.command();
        command.args(arguments.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 10]).unwrap();
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]), "{arguments}");
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use crate::{Workspace, wait_until};
    use std::fs::File;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    #[test]
    fn a_full_disk_has_its_own_exit_code() {
        let workspace = Workspace::new();
        workspace.write("points.csv", "d,kappa\n768,50\n");
        for arguments in
            ["constants --from points.csv -o /dev/full", "sample --dim 3 --concentration 1 -n 9 --to npy -o /dev/full"]
        {
            let run = workspace.run(arguments);
            assert_eq!(run.code, Some(1), "{}", run.stderr);
            assert!(run.stderr.starts_with("error: /dev/full: cannot be written: "), "{}", run.stderr);
        }
        for arguments in ["constants --from points.csv", "constants --dim 3 --concentration 1", "demo -n 50"] {
            let full = File::options().write(true).open("/dev/full").unwrap();
            let output = workspace.command().args(arguments.split(' ')).stdout(full).output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{arguments}");
            assert!(output.stderr.starts_with(b"error: standard output: cannot be written: "));
        }
    }

    #[test]
    fn a_file_that_cannot_grow_leaves_nothing_behind() {
        let workspace = Workspace::new();
        workspace.write("x.npy", "before");
        let run = workspace.run_on_a_full_disk(20, "sample --dim 100 --concentration 1 -n 10000 -o x.npy");
        assert_eq!(run.code, Some(1));
        assert!(run.stderr.starts_with("error: x.npy: cannot be written: "), "{}", run.stderr);
        assert_eq!((workspace.names(), workspace.read("x.npy")), (vec!["x.npy".to_owned()], b"before".to_vec()));
    }

    #[test]
    fn a_folder_that_is_missing_is_named() {
        let run = Workspace::new().run("sample --dim 3 --concentration 1 -n 9 -o missing/x.npy");
        assert_eq!(run.code, Some(1));
        assert!(run.stderr.starts_with("error: missing/x.npy: cannot be written: "), "{}", run.stderr);
    }

    #[test]
    fn a_link_stays_a_link() {
        let workspace = Workspace::new();
        workspace.write("target.npy", "before");
        std::os::unix::fs::symlink("target.npy", workspace.path("link.npy")).unwrap();
        workspace.run("sample --dim 3 --concentration 1 -n 9 -o link.npy").success();
        assert!(workspace.path("link.npy").is_symlink());
        assert!(workspace.read("target.npy").starts_with(b"\x93NUMPY"));
    }

    #[test]
    fn an_interrupt_leaves_nothing_behind() {
        let workspace = Workspace::new();
        workspace.write("x.npy", "before");
        let mut command = workspace.command();
        command.args("sample --dim 1000 --concentration 1 -n 10000000 -o x.npy".split(' ')).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        wait_for_names(&workspace, 2);
        interrupt(&child);
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_eq!((workspace.names(), workspace.read("x.npy")), (vec!["x.npy".to_owned()], b"before".to_vec()));
    }

    fn interrupt(child: &Child) {
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    }

    fn wait_for_names(workspace: &Workspace, count: usize) {
        wait_until(&format!("{count} files appear"), || workspace.names().len() >= count);
    }

    fn wait_for_file(workspace: &Workspace, name: &str) {
        wait_until(&format!("{name} appears"), || workspace.path(name).exists());
    }

    #[test]
    fn an_interrupted_fit_writes_what_it_has() {
        let workspace = Workspace::new();
        workspace.run("sample --dim 5 --concentration 20 -n 2000 -o x.npy").success();
        let mut command = workspace.command();
        command.args("fit x.npy -k 3 --method sgd --max-passes 100000 --json".split(' '));
        command.args("-o m.safetensors --labels l.npy --checkpoint c".split(' '));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for_file(&workspace, "c");
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains("interrupted: finishing the current rows") && !message.contains("error"), "{message}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["status"], "stopped");
        assert_eq!(workspace.names(), ["c", "l.npy", "m.safetensors", "x.npy"]);
        let again = workspace.run("fit x.npy -k 3 --start model:m.safetensors --max-passes 1 --json").json();
        assert_eq!(again["passes"], 1);
    }

    #[test]
    fn a_second_interrupt_ends_a_fit_at_once() {
        let workspace = Workspace::new();
        workspace.run("sample --dim 100 --concentration 1 -n 70000 -o x.npy").success();
        workspace.write("m.safetensors", "before");
        let mut command = workspace.command();
        // Seconds pass before the first rows are done.
        command.args("fit x.npy -k 20000 --start random --policy free -o m.safetensors --checkpoint c".split(' '));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for_file(&workspace, "c");
        interrupt(&child);
        std::thread::sleep(Duration::from_millis(300));
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stdout), (Some(130), vec![]));
        assert_eq!(
            (workspace.names(), workspace.read("m.safetensors")),
            (["c", "m.safetensors", "x.npy"].map(str::to_owned).to_vec(), b"before".to_vec())
        );
    }

    /// What `nohup` does for HUP, and a shell for INT of what runs in its background.
    #[test]
    fn a_signal_that_was_ignored_from_the_start_stays_ignored() {
        for signal in ["HUP", "INT"] {
            let workspace = Workspace::new();
            let script = format!("trap '' {signal}; exec \"$0\" sample --dim 500 --concentration 1 -n 60000 -o x.npy");
            let mut command = Command::new("sh");
            let mut child =
                command.args(["-c", &script, env!("CARGO_BIN_EXE_vmf")]).current_dir(workspace.path(".")).spawn().unwrap();
            wait_for_names(&workspace, 1);
            for _ in 0..3 {
                Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
            }
            assert_eq!(child.wait().unwrap().code(), Some(0), "{signal}");
            assert_eq!(workspace.names(), ["x.npy"]);
        }
    }

    #[test]
    fn a_terminal_that_closes_interrupts() {
        let workspace = Workspace::new();
        let mut command = workspace.command();
        let mut child = command.args("sample --dim 1000 --concentration 1 -n 10000000 -o x.npy".split(' ')).spawn().unwrap();
        wait_for_names(&workspace, 1);
        Command::new("kill").args(["-HUP", &child.id().to_string()]).status().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_eq!(workspace.names(), Vec::<String>::new());
    }

    #[test]
    fn a_fit_without_a_finished_pass_replaces_no_model() {
        let workspace = Workspace::new();
        workspace.run("sample --dim 100 --concentration 1 -n 70000 -o x.npy").success();
        workspace.write("m.safetensors", "before");
        let mut command = workspace.command();
        // A second or so passes before the first rows are done.
        command.args("fit x.npy -k 4000 --start random --policy free -o m.safetensors --checkpoint c --threads 1".split(' '));
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for_file(&workspace, "c");
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{message}");
        assert!(message.contains("m.safetensors: unchanged, because no pass was finished"), "{message}");
        assert_eq!(workspace.read("m.safetensors"), b"before");
    }

    /// The report is printed and the checkpoint keeps the fit.
    #[test]
    fn the_report_is_printed_if_the_model_cannot_be_written() {
        let workspace = Workspace::new();
        workspace.run("sample --dim 3 --concentration 9 -n 500 -o x.npy").success();
        for (options, hint) in [("", false), (" --checkpoint c", true)] {
            let run = workspace.run(&format!("fit x.npy -k 2 --json -o /dev/full{options}"));
            assert_eq!(run.code, Some(1), "{}", run.stderr);
            let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
            assert_eq!(report["component_count"], 2);
            assert!(run.stderr.contains("error: /dev/full: cannot be written: "), "{}", run.stderr);
            assert_eq!(run.stderr.contains("c keeps the fit: continue with `--resume`"), hint, "{}", run.stderr);
        }
        workspace.run("fit x.npy -k 2 --checkpoint c --resume -o m.safetensors").success();
        workspace.run("inspect m.safetensors").success();
    }

    /// The model is already written; only the results of the evaluation are missing.
    #[test]
    fn the_evaluation_can_be_interrupted() {
        let workspace = Workspace::new();
        workspace.run("sample --dim 100 --concentration 1 -n 100000 -o x.npy").success();
        let mut command = workspace.command();
        command.args("fit x.npy -k 2000 --start random --policy free --max-passes 1 --json --threads 1".split(' '));
        command.args("-o m.safetensors --labels l.npy".split(' '));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for_file(&workspace, "m.safetensors");
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&report["passes"], &report["ln_likelihood"]), (&1.into(), &serde_json::Value::Null));
        assert_eq!(workspace.names(), ["m.safetensors", "x.npy"]);
    }

    /// Rows arrive slowly, and standard error is a terminal.
    #[test]
    fn a_terminal_shows_rows_rate_and_time_left() {
        let workspace = Workspace::new();
        if Command::new("script").arg("--version").output().is_err() {
            eprintln!("not checked, since script is not installed");
            return;
        }
        workspace.run("sample --dim 100 --concentration 1 -n 200000 -o x.npy").success();
        let slowly = "rm -f rows; mkfifo rows; (head -c 40000000 x.npy; sleep 3; tail -c +40000001 x.npy) > rows &";
        for (command, visible) in [("fit rows", true), ("convert rows -o y.npy", true), ("fit rows -q", false)] {
            let script = format!("{slowly} script -qec 'vmf {command}' /dev/null < /dev/null");
            let shown = workspace.shell(&script);
            let line = shown.split('\r').find(|line| line.contains(" of 200000 rows, "));
            assert_eq!(line.is_some(), visible, "{command}: {shown}");
            assert!(line.is_none_or(|line| line.contains(" rows/s, ") && line.contains(" left")), "{command}: {line:?}");
        }
    }
}
