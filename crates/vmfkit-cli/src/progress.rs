//! How far a long job has come, for someone who waits at a terminal.

use crate::output;
use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// Shorter work is done in silence.
const QUIET_TIME: Duration = Duration::from_secs(2);
/// Between two lines.
const INTERVAL: Duration = Duration::from_millis(100);

/// One line on standard error that is written over and over, and vanishes at the end.
pub struct Progress {
    start: Instant,
    shown: Option<Instant>,
    visible: bool,
}

impl Progress {
    /// Shows nothing if it is not `wanted`, or if nobody would see it.
    pub fn new(wanted: bool) -> Self {
        Progress { start: Instant::now(), shown: None, visible: wanted && io::stderr().is_terminal() }
    }

    pub fn show(&mut self, text: impl Display) {
        let due = self.shown.map_or(self.start + QUIET_TIME, |shown| shown + INTERVAL);
        if self.visible && Instant::now() >= due {
            self.shown = Some(Instant::now());
            output::overwrite_note(text);
        }
    }

    /// The same at once, before work of unknown length that says nothing itself.
    pub fn announce(&mut self, text: impl Display) {
        if self.visible {
            self.shown = Some(Instant::now());
            output::overwrite_note(text);
        }
    }

    /// So many a second since the beginning, for people.
    pub fn rate(&self, done: u64) -> String {
        let rate = done as f64 / self.start.elapsed().as_secs_f64().max(1e-3);
        match rate {
            r if r < 1e4 => format!("{r:.0}"),
            r if r < 1e7 => format!("{:.0} thousand", r / 1e3),
            r => format!("{:.1} million", r / 1e6),
        }
    }

    /// The time left if what remains goes at the pace of what is done.
    pub fn time_left(&self, done: usize, remaining: usize) -> String {
        let seconds = self.start.elapsed().as_secs_f64() / done.max(1) as f64 * remaining as f64;
        match seconds {
            s if s < 90.0 => format!("{s:.0} s"),
            s if s < 5400.0 => format!("{:.0} min", s / 60.0),
            s => format!("{:.1} h", s / 3600.0),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            output::overwrite_note("");
        }
    }
}
