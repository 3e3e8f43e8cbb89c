//! Ctrl-C (and a request to terminate): unfinished files are removed, and a fit may finish the current rows first.

use crate::files::output;
use std::ops::ControlFlow;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code of a process that Ctrl-C ended, by the shells' convention.
pub const EXIT_CODE: u8 = 130;

/// All is written that there was to write, but the work ended early: exit code 130, without another message.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

static HANDLER: Once = Once::new();
/// The first interrupt only asks.
static PATIENT: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicBool = AtomicBool::new(false);

/// From now on the first interrupt only makes [`asked`] true; the second ends the process.
pub fn be_patient() {
    install_handler();
    PATIENT.store(true, Ordering::SeqCst);
}

/// Whether somebody wants an early end.
pub fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}

/// The same for callbacks that may end a work.
pub fn flow() -> ControlFlow<()> {
    if asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Makes interrupts remove unfinished files.
pub fn install_handler() {
    // Without a handler an interrupt leaves partial files behind, nothing worse.
    HANDLER.call_once(|| drop(listen()));
}

/// What an interrupt does.
fn interrupted() {
    if PATIENT.load(Ordering::SeqCst) && !ASKED.swap(true, Ordering::SeqCst) {
        output::note("\ninterrupted: finishing the current rows and writing the result; interrupt again to stop at once");
        return;
    }
    // To the end: no file appears any more.
    let _no_more = vmfkit_io::remove_unfinished_files();
    std::process::exit(EXIT_CODE.into());
}

/// Ctrl-C, a request to terminate and a terminal that is closed, each unless the parent process had it ignored, as `nohup` does.
#[cfg(unix)]
fn listen() -> std::io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let ignored = ignored_signals();
    let heeded = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = signal_hook::iterator::Signals::new(heeded)?;
    std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || signals.forever().for_each(|_| interrupted()))?;
    Ok(())
}

/// A bit for each signal, the lowest for signal 1; none where the system does not tell.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(not(unix))]
fn listen() -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(interrupted)
}
