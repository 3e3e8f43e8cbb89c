//! Runs the built command as a user would.

mod angles;
mod assign;
mod bad_input;
mod big_data;
mod calibrate;
mod compare;
mod constants;
mod convert;
mod demo;
mod directional;
mod distributed;
mod hostile;
mod hypotheses;
mod inspect;
mod known_labels;
#[cfg(target_os = "linux")]
mod memory;
mod mixture;
#[cfg(feature = "object-store")]
mod object_store;
mod one_density;
mod options;
mod overwriting;
mod readme;
mod same_bits;
mod sample_and_fit;
mod sample_model;
mod score;
mod scripts;
mod select;
mod settings;
#[cfg(target_os = "linux")]
mod storage;
mod tree;
mod writing;

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The result of a run of the command.
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Run {
    fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// The standard output of a run that must succeed.
    fn success(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self.stdout
    }

    fn json(self) -> Value {
        serde_json::from_str(&self.success()).expect("one JSON value")
    }

    /// Asserts that the run was refused, with these words in its message and nothing on standard
    /// output.
    fn refused(self, words: &[&str]) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(2), ""), "{}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` is missing in: {}", self.stderr);
        }
    }
}

/// The tests may have been started with ignored signals (`nohup`, a shell's `&`), which the command
/// would inherit. Handled signals are not inherited.
#[cfg(unix)]
fn restore_signals() {
    use signal_hook::{consts, flag};
    static HANDLED: std::sync::Once = std::sync::Once::new();
    HANDLED.call_once(|| {
        for signal in [consts::SIGINT, consts::SIGHUP] {
            flag::register_conditional_shutdown(signal, 130, std::sync::Arc::new(true.into())).expect("a handler");
        }
    });
}

/// A temporary folder to run the command in.
struct Workspace(TempDir);

impl Workspace {
    fn new() -> Self {
        #[cfg(unix)]
        restore_signals();
        Workspace(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).expect("a file in a temporary folder");
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).expect("a file that the command wrote")
    }

    /// The names in the folder, hidden ones too.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).expect("a folder");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vmf"));
        command.current_dir(self.0.path());
        command
    }

    /// Runs `vmf` with arguments that have no blanks in them.
    fn run(&self, arguments: &str) -> Run {
        self.run_with_input(arguments, b"")
    }

    fn run_with_input(&self, arguments: &str, input: &[u8]) -> Run {
        let mut command = self.command();
        command.args(arguments.split_whitespace()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command was built");
        let mut stdin = child.stdin.take().expect("a pipe");
        let output = std::thread::scope(|scope| {
            // A command that does not read its input closes the pipe early.
            scope.spawn(move || drop(stdin.write_all(input)));
            child.wait_with_output().expect("an exit")
        });
        Run::of(output)
    }

    /// Runs `vmf` from a shell, after commands that set limits or ignore signals.
    #[cfg(unix)]
    fn run_after(&self, commands: &str, arguments: &str) -> Run {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{commands}; exec \"$0\" {arguments}"), env!("CARGO_BIN_EXE_vmf")]);
        Run::of(shell.current_dir(self.path(".")).output().expect("a shell"))
    }

    /// Runs `vmf` with a limit on file sizes, which simulates a full disk. Its signal is ignored so
    /// that the write fails.
    #[cfg(unix)]
    fn run_on_a_full_disk(&self, blocks: u32, arguments: &str) -> Run {
        self.run_after(&format!("trap '' XFSZ; ulimit -f {blocks}"), arguments)
    }

    /// The standard output of a script that must succeed, with the command in its path.
    #[cfg(unix)]
    fn shell(&self, script: &str) -> String {
        let folder = Path::new(env!("CARGO_BIN_EXE_vmf")).parent().unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
        let output = Command::new("sh").arg("-c").arg(script).env("PATH", path).current_dir(self.path("")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Waits until a condition holds, and fails after two minutes.
#[cfg(unix)]
fn wait_until(what: &str, mut is_met: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !is_met() {
        assert!(start.elapsed().as_secs() < 120, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// The shell commands of a page as one script, which stops at the first failure.
#[cfg(unix)]
fn commands_of(page: &str) -> String {
    let mut lines = page.lines();
    let mut script = "set -e\n".to_owned();
    while lines.by_ref().any(|line| line == "```sh") {
        lines.by_ref().take_while(|line| *line != "```").for_each(|line| script += &format!("{line}\n"));
    }
    script
}

/// A `.npy` file of version 1.0 with this dictionary and data.
fn npy(dictionary: &str, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(dictionary.len()).expect("a short header");
    [b"\x93NUMPY\x01\x00", &length.to_le_bytes()[..], dictionary.as_bytes(), data].concat()
}

/// A file of the repository's reference data.
fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number, not {value}"))
}
