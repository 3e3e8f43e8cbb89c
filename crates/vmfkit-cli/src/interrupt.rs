//! Ctrl-C, termination and hang-up: unfinished files are removed, and a fit may first finish the
//! current rows.

use crate::report::notes;
use std::ops::ControlFlow;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// The conventional exit code after Ctrl-C.
pub const EXIT_CODE: u8 = 130;

/// The work was interrupted, and its partial result is written: exit code 130, without a message.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

static HANDLER: Once = Once::new();
/// Whether the first interrupt only requests an early end.
static GRACEFUL: AtomicBool = AtomicBool::new(false);
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// From now on, the first interrupt only makes [`is_requested`] true; the second ends the process.
pub fn finish_gracefully() {
    install_handler();
    GRACEFUL.store(true, Ordering::SeqCst);
}

/// Whether an early end was requested.
pub fn is_requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// The same, for callbacks that can stop work.
pub fn should_stop() -> ControlFlow<()> {
    if is_requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Lets interrupts remove unfinished files.
pub fn install_handler() {
    // Without a handler, an interrupt only leaves partial files.
    HANDLER.call_once(|| drop(listen()));
}

/// Handles an interrupt.
fn interrupted() {
    if GRACEFUL.load(Ordering::SeqCst) && !REQUESTED.swap(true, Ordering::SeqCst) {
        notes::note("\ninterrupted: finishing the current rows and writing the result; interrupt again to stop at once");
        return;
    }
    // The guard lives to the end, so that no file is completed any more.
    let _guard = vmfkit_io::remove_unfinished_files();
    std::process::exit(EXIT_CODE.into());
}

/// Handles SIGINT, SIGTERM and SIGHUP, except those that the parent process ignores, as `nohup`
/// does.
#[cfg(unix)]
fn listen() -> std::io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let ignored = ignored_signals();
    let handled = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = signal_hook::iterator::Signals::new(handled)?;
    std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || signals.forever().for_each(|_| interrupted()))?;
    Ok(())
}

/// A bit per signal, the lowest for signal 1; 0 if the system does not say.
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
