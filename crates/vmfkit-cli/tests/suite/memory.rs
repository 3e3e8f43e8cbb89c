//! The peak memory of commands with a memory limit.

use crate::Workspace;
use std::process::{Child, Stdio};
use std::time::Duration;

/// The peak memory of a command.
fn peak_memory(child: &mut Child) -> u64 {
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        peak = peak.max(kilobytes.unwrap_or(0) * 1024);
        std::thread::sleep(Duration::from_millis(1));
    }
    peak
}

/// The peak of the whole process, for every method.
#[test]
fn the_memory_limit_holds_for_a_file_eight_times_as_large() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 128 --concentration 40 -n 800000 -o x.npy").success();
    let size = std::fs::metadata(workspace.path("x.npy")).unwrap().len();
    let memory = 50_000_000;
    assert!(size > 8 * memory);
    let online = ["online", "sgd --set batch=4096"].map(|method| format!("{method} --set shuffle_rows=2048"));
    let methods = ["em", "hard", "stochastic", "kmeans"].map(str::to_owned).into_iter().chain(online);
    let methods: Vec<String> = methods.map(|method| format!("-k 8 --set sample=8192 --method {method}")).collect();
    for options in methods.iter().map(String::as_str).chain([""]) {
        let mut command = workspace.command();
        command.args("fit x.npy --memory 50MB".split(' ')).args(options.split_whitespace());
        if !options.is_empty() {
            command.args(["--max-passes", "2"]);
        }
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let peak = peak_memory(&mut child);
        assert!(child.wait().unwrap().success(), "{options}");
        assert!(peak > 1_000_000 && peak <= memory, "{options}: {peak} bytes");
    }
}

/// The memory of pages and messages is counted, or the work is refused.
#[test]
fn the_memory_limit_holds_for_every_format() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 1024 --concentration 40 -n 8000 -o x.parquet").success();
    workspace.run("convert x.parquet x.csv").success();
    workspace.run("convert x.parquet x.arrow").success();
    workspace.run("convert x.parquet x.jsonl").success();
    for data in ["x.parquet", "x.arrow", "x.csv", "x.jsonl"] {
        let mut kept = 0;
        for megabytes in [50, 70, 100, 150] {
            let mut command = workspace.command();
            command.args(["--threads", "1", "fit", data, "--memory", &format!("{megabytes}MB")]);
            command.args("-k 2 --set sample=500 --max-passes 2 -q".split(' '));
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            let peak = peak_memory(&mut child);
            let output = child.wait_with_output().unwrap();
            let message = String::from_utf8(output.stderr).unwrap();
            match output.status.code() {
                Some(0) => assert!(peak <= megabytes * 1_000_000, "{data}: {peak} bytes of {megabytes} MB"),
                code => assert!(code == Some(2) && message.contains("this command needs at least"), "{data}: {message}"),
            }
            kept += usize::from(output.status.success());
        }
        assert!(kept >= 2, "{data} can be read with little memory");
    }
}

/// For every output format, with p-values where they are written; a Parquet file of several row
/// groups.
#[test]
fn assign_needs_little_memory() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 8 --concentration 3 -n 600000 -o x.npy").success();
    workspace.run("fit x.npy -k 3 --start random --max-passes 1 -o m.safetensors").success();
    for (output, megabytes) in [("l.npy", 40), ("l.csv", 90), ("l.jsonl", 90), ("l.parquet", 115)] {
        let mut command = workspace.command();
        let memory = format!("{megabytes}MB");
        command.args(["assign", "m.safetensors", "x.npy", "-o", output, "--memory", &memory]);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let peak = peak_memory(&mut child);
        assert!(child.wait().unwrap().success(), "{output}");
        assert!(peak > 1_000_000 && peak <= megabytes * 1_000_000, "{output}: {peak} bytes");
    }
}

/// Labels are written block by block.
#[test]
fn labels_take_no_memory_in_a_fit() {
    let workspace = Workspace::new();
    workspace.run("sample --dim 2 --concentration 5 -n 8000000 -o x.npy").success();
    let mut command = workspace.command();
    command.args("fit x.npy -k 2 --max-passes 1 --memory 45MB --labels l.npy -o m.safetensors".split(' '));
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let peak = peak_memory(&mut child);
    assert!(child.wait().unwrap().success());
    assert!(peak > 1_000_000 && peak <= 45_000_000, "{peak} bytes");
    workspace.run("assign m.safetensors x.npy --p-values none -o again.npy").success();
    assert!(workspace.read("l.npy") == workspace.read("again.npy"));
}

/// A fit does not read ids, which would take most of the memory here.
#[test]
fn ids_take_no_memory_in_a_fit() {
    let workspace = Workspace::new();
    let line = |row: u32| format!("{row:0200},1,0,0,0\n");
    workspace.write("x.csv", "id,a,b,c,d\n".to_owned() + &(0..300_000).map(line).collect::<String>());
    workspace.run("convert x.csv x.parquet --id-column id").success();
    for data in ["x.parquet", "x.csv --columns a,b,c,d"] {
        let mut command = workspace.command();
        command.args("fit -k 2 --max-passes 2 --id-column id --memory 60MB".split(' ')).args(data.split(' '));
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let peak = peak_memory(&mut child);
        assert!(child.wait().unwrap().success(), "{data}");
        assert!(peak > 1_000_000 && peak <= 60_000_000, "{data}: {peak} bytes");
    }
}
