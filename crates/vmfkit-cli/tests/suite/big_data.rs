//! Files larger than memory, in many parts, and fits that are cut short.

use crate::Workspace;
use std::process::Stdio;

/// A model file does not depend on the format of the rows or on the number of files.
#[test]
fn formats_and_parts_do_not_change_a_model() {
    let workspace = Workspace::new();
    let fit = |data: &str| {
        workspace.run(&format!("fit {data} -k 2 --seed 3 -o m.safetensors")).success();
        workspace.read("m.safetensors")
    };
    workspace.run("sample --dim 7 --concentration 5 -n 3000 --dtype f64 -o whole.csv").success();
    let text = String::from_utf8(workspace.read("whole.csv")).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(|c: char| c == '-' || c.is_ascii_digit())).collect();
    assert_eq!(lines.len(), 3000);
    std::fs::create_dir(workspace.path("parts")).unwrap();
    for (number, part) in lines.chunks(700).enumerate() {
        workspace.write(&format!("parts/{number}.csv"), part.join("\n"));
    }
    let jsonl: String = lines.iter().map(|line| format!("[{line}]\n")).collect();
    workspace.write("whole.jsonl", jsonl);
    let whole = fit("whole.csv");
    for data in ["parts", "parts/*.csv", "parts/0.csv parts/1.csv parts/2.csv parts/3.csv parts/4.csv", "whole.jsonl"] {
        assert!(fit(data) == whole, "{data}");
    }
}

#[test]
fn a_pipe_is_held_for_em_and_read_once_by_online_em() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 4 --concentration 9 -n 5000 -o x.npy").success();
    let rows = workspace.read("x.npy");
    let piped = workspace.run_with_input("fit - -k 3 --seed 1 -o piped.safetensors", &rows);
    assert!(piped.success().contains("standard input: 5000 rows"));
    workspace.run("fit x.npy -k 3 --seed 1 -o file.safetensors").success();
    assert!(workspace.read("piped.safetensors") == workspace.read("file.safetensors"));
    let online = "fit - -k 3 --method online --max-passes 1 -o once.safetensors";
    // Rows that can be read only once are not evaluated after the fit.
    let once = workspace.run_with_input(online, &rows).success();
    assert!(once.contains("after 1 pass"), "{once}");
    let labelled = format!("{online} --labels l.npy");
    workspace.run_with_input(&labelled, &rows).success();
    assert!(workspace.read("l.npy").len() > 5000);
}

#[test]
fn a_pipe_can_be_one_of_several_inputs() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 4 --concentration 9 -n 300 -o x.npy").success();
    workspace.run("sample --dim 4 --concentration 9 -n 200 --seed 1 -o y.npy").success();
    let report = workspace.run_with_input("fit - y.npy --json", &workspace.read("x.npy")).json();
    assert_eq!((&report["file"], &report["rows"]), (&"standard input, y.npy".into(), &500.into()));
    assert_eq!(report["concentration"], workspace.run("fit x.npy y.npy --json").json()["concentration"]);
    workspace.run_with_input("fit - y.npy -", b"").refused(&["only one of the inputs can be standard input"]);
}

/// The second command has memory for its blocks, but not for all rows.
#[test]
fn rows_that_are_held_and_rows_that_are_read_again_make_the_same_model() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 64 --concentration 20 -n 400000 -o x.npy").success();
    for method in ["em", "online", "sgd --set batch=4096"] {
        let fit = format!("fit x.npy -k 5 --max-passes 2 --method {method}");
        workspace.run(&format!("{fit} -o held.safetensors")).success();
        workspace.run(&format!("{fit} --memory 170MB -o again.safetensors")).success();
        assert!(workspace.read("held.safetensors") == workspace.read("again.safetensors"), "{method}");
    }
}

/// Text and pipes that do not fit into memory are parsed once, into a scratch file without a name.
#[test]
fn rows_in_a_scratch_file_make_the_same_model() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 64 --concentration 20 -n 200000 -o x.csv").success();
    std::fs::create_dir(workspace.path("scratch")).unwrap();
    let fit = |data: &str, options: &str| format!("fit {data} -k 5 --max-passes 2 --memory 100MB {options} -o m.safetensors");
    workspace.run(&fit("x.csv", "--scratch none")).success();
    let again = workspace.read("m.safetensors");
    workspace.run(&fit("x.csv", "--scratch scratch")).success();
    assert!(workspace.read("m.safetensors") == again);
    let text = workspace.read("x.csv");
    let words = "rows from a pipe that are read more than once must take at most";
    workspace.run_with_input(&fit("-", "--scratch none"), &text).refused(&[words]);
    if !cfg!(target_os = "linux") || !on_disk(&workspace.path("scratch")) {
        return eprintln!("skipped: a scratch file needs a disk");
    }
    workspace.run_with_input(&fit("-", "--scratch scratch"), &text).success();
    assert!(workspace.read("m.safetensors") == again);
    assert_eq!(std::fs::read_dir(workspace.path("scratch")).unwrap().count(), 0);
    if std::path::Path::new("/dev/shm").is_dir() {
        let run = workspace.run(&fit("x.csv", "--scratch /dev/shm"));
        assert!(
            run.stderr.contains("/dev/shm: no scratch file can be created there, it is an in-memory file system"),
            "{}",
            run.stderr
        );
        assert!(workspace.read("m.safetensors") == again);
    }
    workspace.run(&fit("x.csv", "--scratch nowhere")).refused(&["`--scratch` must be an existing folder, found: `nowhere`"]);
}

/// Whether a folder is on a disk, according to the list of mounts.
fn on_disk(folder: &std::path::Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mounted = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let above = mounted.filter(|words| words.len() > 2 && folder.starts_with(words[1]));
    above.max_by_key(|words| words[1].len()).is_none_or(|words| !["tmpfs", "ramfs"].contains(&words[2]))
}

#[test]
fn a_memory_limit_that_is_too_small_is_refused_with_what_is_needed() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 40 --concentration 9 -n 500 -o x.npy").success();
    workspace.run("fit x.npy -k 3 --memory 5MB").refused(&["this command needs at least", "found: `--memory 5 MB`"]);
    workspace.run("fit x.npy -k 3 --memory 5parsec").refused(&["the unit must be one of"]);
}

/// Memory per row is counted: labels of a start, and a file that is held as a whole.
#[test]
fn memory_of_labels_and_of_matrix_market_is_counted() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 2 --concentration 9 -n 400000 -o x.npy").success();
    workspace.write("l.txt", "0\n1\n".repeat(200_000));
    workspace.run("fit x.npy -k 2 --max-passes 1 --memory 42MB").success();
    workspace
        .run("fit x.npy -k 2 --max-passes 1 --memory 42MB --start labels:l.txt")
        .refused(&["this command needs at least 46"]);
    let entries: String = (1..=200_000).map(|row| format!("{row} {} 1\n", row % 3 + 1)).collect();
    workspace.write("x.mtx", format!("%%MatrixMarket matrix coordinate real general\n200000 3 200000\n{entries}"));
    workspace.run("fit x.mtx --memory 38MB").refused(&["this command needs at least 40"]);
    workspace
        .run("fit x.mtx --memory 7MB")
        .refused(&["read into memory as a whole, which takes 7200000 bytes", "hint: an .npz file"]);
    workspace.run("fit x.mtx --memory 50MB").success();
}

/// Dense, these rows would take gigabytes.
#[test]
fn sparse_rows_take_the_memory_of_their_entries() {
    let workspace = Workspace::new();
    let entries: String = (0..8000).map(|row| format!("{} {} 1\n", row + 1, 10_000 * (row % 2) + row / 800 + 1)).collect();
    workspace.write("x.mtx", format!("%%MatrixMarket matrix coordinate real general\n8000 200000 8000\n{entries}"));
    let report = workspace.run("fit x.mtx -k 2 --max-passes 2 --memory 200MB --json").json();
    assert_eq!(report["rows"], 8000);
}

/// Neither from the checkpoint of a start nor from that of a finished pass.
#[test]
fn a_fit_is_not_resumed_with_other_rows() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 4 --concentration 9 -n 9000 -o x.npy").success();
    workspace.run("sample --dim 4 --concentration 9 -n 9000 --seed 8 -o y.npy").success();
    workspace.run("sample --dim 4 --concentration 9 -n 9001 -o longer.npy").success();
    let fit = "-k 3 --max-passes 2 --checkpoint c";
    workspace.run(&format!("fit x.npy {fit} --start-only")).success();
    for _ in 0..2 {
        let resume = |rest: &str| workspace.run(&format!("fit {rest} {fit} --resume"));
        resume("x.npy --set block_rows=1152").refused(&["made with block_rows 9216, found: `1152`"]);
        resume("y.npy").refused(&["made with first rows whose fingerprint is "]);
        resume("longer.npy").refused(&["made with 9000 rows, found: `9001`"]);
        resume("x.npy").success();
    }
}

#[test]
fn a_fit_that_ran_out_of_passes_can_be_continued() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 4 --concentration 9 -n 900 -o x.npy").success();
    for method in ["em", "online", "sgd"] {
        let fit = format!("fit x.npy -k 3 --tolerance 0 --method {method}");
        workspace.run(&format!("{fit} --max-passes 2 --checkpoint {method}")).success();
        workspace.run(&format!("{fit} --max-passes 20 --checkpoint {method} --resume -o more.safetensors")).success();
        workspace.run(&format!("{fit} --max-passes 20 -o whole.safetensors")).success();
        assert!(workspace.read("more.safetensors") == workspace.read("whole.safetensors"), "{method}");
        workspace.run(&format!("{fit} --max-passes 5 --checkpoint {method} --resume")).refused(&["passes 20, found: `5`"]);
    }
}

#[test]
fn skipped_files_of_a_folder_are_named() {
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.path("rows")).unwrap();
    workspace.run("sample --dim 4 --concentration 9 -n 50 -o rows/x.npy").success();
    assert!(!workspace.run("fit rows").stderr.contains("passed over"));
    workspace.write("rows/readme", "");
    workspace.write("rows/y.npy.part", "");
    for command in ["fit rows", "convert rows x.csv"] {
        let said = workspace.run(command).stderr;
        assert!(said.contains("rows/readme and 1 more: skipped, the extension is not that of a known format\n"), "{said}");
    }
}

/// As written by engines that partition tables by a column.
#[test]
fn nested_folders_are_read() {
    let workspace = Workspace::new();
    for (folder, seed) in [("rows/year=2024", 1), ("rows/year=2025/month=1", 2), ("rows/_temporary", 3), ("rows/.hidden", 4)] {
        std::fs::create_dir_all(workspace.path(folder)).unwrap();
        workspace.run(&format!("sample --dim 4 --concentration 9 -n 50 --seed {seed} -o {folder}/part-0.parquet")).success();
    }
    let found = workspace.run("convert rows all.npy").stderr;
    assert!(found.contains("100 rows"), "{found}");
    workspace.run("convert rows/year=2024/part-0.parquet rows/year=2025/month=1/part-0.parquet same.npy").success();
    assert!(workspace.read("all.npy") == workspace.read("same.npy"));
}

#[test]
fn a_checkpoint_is_not_overwritten_by_accident() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 4 --concentration 9 -n 500 -o x.npy").success();
    workspace.run("fit x.npy -k 3 --checkpoint c -o a.safetensors").success();
    workspace.run("fit x.npy -k 3 --checkpoint c").refused(&["c: the checkpoint exists\nhint: `--resume` continues its fit"]);
    workspace.run("fit x.npy -k 3 --resume").refused(&["--checkpoint"]);
    // A finished fit is not continued.
    workspace.run("fit x.npy -k 3 --checkpoint c --resume -o b.safetensors").success();
    assert!(workspace.read("a.safetensors") == workspace.read("b.safetensors"));
    workspace.run("fit x.npy -k 4 --checkpoint c --resume").refused(&["components"]);
    workspace.run("fit x.npy -k 3 --seed 9 --checkpoint c --resume").refused(&["seed"]);
    workspace.write("c", &workspace.read("c")[..900]);
    workspace.run("fit x.npy -k 3 --checkpoint c --resume").refused(&["c: not a valid checkpoint"]);
    let new = workspace.run("fit x.npy -k 3 --checkpoint d --resume");
    assert!(new.stderr.contains("d: no checkpoint yet"), "{}", new.stderr);
    new.success();
}

/// Files, the memory limit and threads determine the blocks of rows, but not one bit of the model.
#[test]
fn memory_threads_and_files_change_no_bit_of_a_fit() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 100 --concentration 30 -n 60000 -o x.npy").success();
    let rows = workspace.read("x.npy");
    let (header, rows) = rows.split_at(128);
    let mut from = 0;
    for (number, to) in [(0, 7), (1, 10_000), (2, 47_777), (3, 60_000)] {
        let text = String::from_utf8_lossy(&header[10..]).replacen("(60000, 100)", &format!("({}, 100)", to - from), 1);
        let padded = format!("{:<117}\n", text.trim_end());
        let bytes = [&header[..10], padded.as_bytes(), &rows[400 * from..400 * to]].concat();
        workspace.write(&format!("part-{number}.npy"), bytes);
        from = to;
    }
    for fit in ["em", "hard", "stochastic", "kmeans", "online", "sgd --set batch=4096"] {
        let fit = |data: &str, options: &str, file: &str| {
            let settings = "--set sample=5000";
            let all = "--set shuffle_rows=5000 ".repeat(usize::from(fit.starts_with('o') || fit.starts_with("sg")));
            workspace
                .run(&format!("fit {data} -k 20 --max-passes 2 {settings} {all} --method {fit} {options} -o {file}"))
                .success();
        };
        fit("x.npy", "", "whole.safetensors");
        for (data, options) in
            [("x.npy", "--memory 80MB"), ("x.npy", "--memory 100MB --threads 1"), ("part-*.npy", "--memory 120MB --threads 3")]
        {
            fit(data, options, "other.safetensors");
            assert!(workspace.read("other.safetensors") == workspace.read("whole.safetensors"), "{data} {options}");
        }
    }
    for (options, file) in [("", "whole.stats"), ("--memory 80MB --threads 3", "other.stats")] {
        workspace.run(&format!("accumulate whole.safetensors x.npy {options} -o {file}")).success();
    }
    assert!(workspace.read("other.stats") == workspace.read("whole.stats"));
}

#[test]
fn work_that_needs_all_rows_reads_pipes_and_has_no_memory_limit() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 4 --concentration 9 -n 500 -o x.npy").success();
    let rows = workspace.read("x.npy");
    let test = workspace.run("fit x.npy --goodness-of-fit=9 --json").json()["goodness_of_fit"].clone();
    assert_eq!(workspace.run_with_input("fit - --goodness-of-fit=9 --json", &rows).json()["goodness_of_fit"], test);
    for (command, work) in [("fit x.npy --goodness-of-fit=9", "--goodness-of-fit"), ("test x.npy", "--test symmetry")] {
        let words = format!("`{work}` reads all rows into memory and does not support a limit, found: `--memory 1 GB`\nhint: ");
        workspace.run(&format!("{command} --memory 1GB")).refused(&[&words]);
    }
    // Commands that need all rows, or only a few at a time, offer no limit.
    for command in ["select x.npy -k 1:2", "convert x.npy y.npy"] {
        workspace.run(&format!("{command} --memory 1GB")).refused(&["unexpected argument '--memory'"]);
        let help = workspace.run(&format!("{} --help", command.split(' ').next().unwrap())).success();
        assert!(!help.contains("--memory"), "{help}");
    }
}

/// `vmf fit` accepts the id column of `vmf assign`.
#[test]
fn ids_change_no_fit() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 4 --concentration 9 -n 500 -o x.csv").success();
    let text = String::from_utf8(workspace.read("x.csv")).unwrap();
    let named =
        |(row, line): (usize, &str)| format!("{},{line}\n", if row == 0 { "name".to_owned() } else { format!("row {row}") });
    workspace.write("named.csv", text.lines().enumerate().map(named).collect::<String>());
    workspace.run("convert named.csv --id-column name named.parquet").success();
    workspace.run("fit x.csv -k 2 -o m.safetensors").success();
    let expected = workspace.read("m.safetensors");
    for data in [
        "named.csv --id-column name",
        "named.csv --id-column name --columns x0,x1,x2,x3",
        "named.parquet --id-column id",
        "named.parquet --id-column id --columns embedding",
    ] {
        workspace.run(&format!("fit {data} -k 2 -o named.safetensors")).success();
        assert!(workspace.read("named.safetensors") == expected, "{data}");
    }
}

/// The commands of the page on big data, with fewer rows of fewer numbers.
#[test]
#[cfg(unix)]
fn the_commands_of_the_page_on_big_data_run() {
    let page = include_str!("../../../../docs/big-data.md");
    let script = crate::commands_of(page);
    assert!(script.contains("-n 1000000") && script.contains("--dim 768") && script.contains("vmf compare"), "{script}");
    let script = script.replace("1000000", "4000").replace("768", "24").replace("200", "5");
    let workspace = Workspace::new();
    let said = workspace.shell(&script);
    for words in ["4000 rows of dimension 24", "5 components by em", "outliers  ", "adjusted Rand index"] {
        assert!(said.contains(words), "`{words}` is missing in: {said}");
    }
    assert!(["model.safetensors", "labels.parquet"].iter().all(|name| workspace.path(name).exists()));
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use crate::wait_until;
    use std::time::Duration;

    /// A fit that is killed repeatedly, while it computes or writes, ends like an uninterrupted
    /// one.
    #[test]
    fn a_killed_fit_is_resumed_to_the_same_bytes() {
        let workspace = Workspace::new();
        workspace.run("sample --dim 20 --concentration 4 -n 30000 -o x.npy").success();
        for (method, passes) in [("em", 40), ("sgd", 12), ("online", 15), ("stochastic", 30)] {
            let fit = format!("fit x.npy -k 12 --method {method} --max-passes {passes} --tolerance 0 --restarts 2 --seed 5");
            workspace.run(&format!("{fit} -o whole.safetensors")).success();
            let checkpoint = format!("{method}.checkpoint");
            let mut kills = 0;
            for round in 0..40 {
                let mut command = workspace.command();
                command.args(fit.split(' ')).args(["--checkpoint", &checkpoint, "--resume", "-o", "resumed.safetensors"]);
                let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                let before = std::fs::read(workspace.path(&checkpoint)).unwrap_or_default();
                // Each run must advance, or this test would never end.
                wait_until("the checkpoint moves on", || {
                    child.try_wait().unwrap().is_some()
                        || std::fs::read(workspace.path(&checkpoint)).is_ok_and(|now| now != before)
                });
                std::thread::sleep(Duration::from_micros(700 * round));
                // SIGKILL; the process may have ended already.
                child.kill().ok();
                if child.wait().unwrap().success() {
                    break;
                }
                kills += 1;
            }
            workspace.run(&format!("{fit} --checkpoint {checkpoint} --resume -o resumed.safetensors")).success();
            assert!(kills > 3, "{method}: killed {kills} times");
            assert!(workspace.read("resumed.safetensors") == workspace.read("whole.safetensors"), "{method}");
        }
    }

    /// The error names the file, and the fit can be resumed with the whole file.
    #[test]
    fn a_file_that_shrinks_between_passes_is_refused_in_the_next_pass() {
        let workspace = Workspace::new();
        workspace.run("sample --dim 64 --concentration 20 -n 400000 -o x.npy").success();
        let whole = workspace.read("x.npy");
        let fit = "fit x.npy -k 20 --max-passes 8 --tolerance 0 --memory 60MB";
        workspace.run(&format!("{fit} -o whole.safetensors")).success();
        let mut command = workspace.command();
        command.args(fit.split(' ')).args(["--checkpoint", "c"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        wait_until("the first checkpoint", || workspace.path("c").exists());
        std::fs::File::options().write(true).open(workspace.path("x.npy")).unwrap().set_len(whole.len() as u64 / 2).unwrap();
        let output = child.wait_with_output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.starts_with("error: x.npy: "), "{message}");
        workspace.write("x.npy", &whole);
        workspace.run(&format!("{fit} --checkpoint c --resume -o resumed.safetensors")).success();
        assert!(workspace.read("resumed.safetensors") == workspace.read("whole.safetensors"));
    }

    /// Runs a line of bash with `vmf` as a function.
    fn bash(workspace: &Workspace, line: &str) -> std::process::Output {
        let mut command = std::process::Command::new("bash");
        let script = format!("vmf() {{ {:?} \"$@\"; }}; {line}", env!("CARGO_BIN_EXE_vmf"));
        command.args(["-c", &script]).current_dir(workspace.0.path());
        command.output().expect("bash runs")
    }

    #[test]
    fn several_pipes_are_read_one_after_the_other() {
        let workspace = Workspace::new();
        workspace.run("sample --dim 4 --concentration 9 -n 700 -o x.csv").success();
        workspace.run("sample --dim 4 --concentration 9 -n 300 --seed 2 -o y.csv").success();
        let fit = "-k 2 --method online --max-passes 1 --seed 1";
        let output = bash(&workspace, &format!("vmf fit <(cat x.csv) <(cat y.csv) {fit} -o pipes.safetensors"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let output = bash(&workspace, &format!("cat x.csv <(tail -n +2 y.csv) | vmf fit - {fit} -o one.safetensors"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(workspace.read("pipes.safetensors") == workspace.read("one.safetensors"));
    }

    /// One entry, in the last of 2^32 columns: a failed allocation is an error, not an abort.
    #[test]
    fn a_short_file_of_very_long_rows_is_refused() {
        let workspace = Workspace::new();
        workspace.write("h.mtx", "%%MatrixMarket matrix coordinate real general\n1 4294967295 1\n1 1 1.0\n");
        for command in ["fit h.mtx", "fit h.mtx -k 3", "convert h.mtx h.npy", "convert h.mtx h.csv"] {
            // Every thread reserves address space, too.
            let output = bash(&workspace, &format!("export RAYON_NUM_THREADS=2; ulimit -v 4000000; vmf {command}"));
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command}: {said}");
            assert!(said.contains("not enough memory for ") && said.contains("bytes needed: `"), "{command}: {said}");
        }
    }

    /// The folder for temporary files is often small: files do not need it, and an error for a pipe
    /// names it.
    #[test]
    fn outputs_with_a_row_count_need_no_temporary_file() {
        let workspace = Workspace::new();
        workspace.run("sample --dim 4 --concentration 9 -n 700 -o x.csv").success();
        workspace.run("convert x.csv same.csv").success();
        for name in ["y.npy", "y.safetensors"] {
            let output = bash(&workspace, &format!("TMPDIR=/nowhere vmf convert x.csv {name} && vmf convert {name} back.csv -q"));
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert!(workspace.read("back.csv") == workspace.read("same.csv"), "{name}");
            std::fs::remove_file(workspace.path("back.csv")).unwrap();
        }
        let output = bash(&workspace, "TMPDIR=/nowhere vmf convert x.csv - --to npy | cat; exit ${PIPESTATUS[0]}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("are stored in a temporary file in the folder `/nowhere`: "), "{said}");
    }

    #[test]
    fn a_checkpoint_on_a_full_disk_is_an_error_and_leaves_the_last_one() {
        let workspace = Workspace::new();
        workspace.run("sample --dim 50 --concentration 20 -n 4000 -o x.npy").success();
        workspace.run("fit x.npy -k 40 --max-passes 3 --tolerance 0 --checkpoint c").success();
        let before = workspace.read("c");
        for (checkpoint, options) in [("d", "--max-passes 3"), ("c", "--max-passes 5 --resume")] {
            let fit = format!("fit x.npy -k 40 --tolerance 0 --checkpoint {checkpoint} {options}");
            let run = workspace.run_on_a_full_disk(8, &fit);
            assert_eq!(run.code, Some(1), "{}", run.stderr);
            assert!(run.stderr.starts_with(&format!("error: {checkpoint}: cannot be written: ")), "{}", run.stderr);
            assert_eq!((workspace.names(), workspace.read("c")), (vec!["c".to_owned(), "x.npy".to_owned()], before.clone()));
        }
        workspace.run("fit x.npy -k 40 --tolerance 0 --checkpoint c --max-passes 5 --resume").success();
    }
}
