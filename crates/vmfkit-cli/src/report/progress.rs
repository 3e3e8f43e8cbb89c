//! Progress of long work, on one line of a terminal.

use super::notes;
use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// Shorter work shows no progress.
const DELAY: Duration = Duration::from_secs(2);
/// Time between two updates.
const INTERVAL: Duration = Duration::from_millis(100);

/// A line on standard error that is replaced by each update and removed at the end.
pub struct Progress {
    start: Instant,
    shown: Option<Instant>,
    visible: bool,
}

impl Progress {
    /// Shows nothing unless it is `wanted` and standard error is a terminal.
    pub fn new(wanted: bool) -> Self {
        Progress { start: Instant::now(), shown: None, visible: wanted && io::stderr().is_terminal() }
    }

    pub fn show(&mut self, text: impl Display) {
        let due = self.shown.map_or(self.start + DELAY, |shown| shown + INTERVAL);
        if self.visible && Instant::now() >= due {
            self.shown = Some(Instant::now());
            notes::overwrite_note(text);
        }
    }

    /// Shows `what`, a count, its rate and, if `all` is known, the time left.
    pub fn count(&mut self, what: &str, done: u64, all: Option<u64>, things: &str) {
        let seconds = self.start.elapsed().as_secs_f64();
        self.show(format_args!("{what}{}", counted(done, all, things, seconds)));
    }

    /// The same for rows.
    pub fn rows(&mut self, what: &str, done: u64, all: Option<u64>) {
        self.count(what, done, all, "rows");
    }

    /// Shows a text immediately, before work that reports no progress.
    pub fn announce(&mut self, text: impl Display) {
        if self.visible {
            self.shown = Some(Instant::now());
            notes::overwrite_note(text);
        }
    }

    /// The mean number per second, for people.
    pub fn rate(&self, done: u64) -> String {
        rate(done, self.start.elapsed().as_secs_f64())
    }

    /// The time left at the mean rate so far.
    pub fn time_left(&self, done: u64, remaining: u64) -> String {
        time_left(done, remaining, self.start.elapsed().as_secs_f64())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            notes::overwrite_note("");
        }
    }
}

fn counted(done: u64, all: Option<u64>, things: &str, seconds: f64) -> String {
    let rate = rate(done, seconds);
    match all {
        None => format!("{done} {things}, {rate} {things}/s"),
        Some(all) => {
            let left = time_left(done, all.saturating_sub(done), seconds);
            format!("{done} of {all} {things}, {rate} {things}/s, {left} left")
        }
    }
}

fn rate(done: u64, seconds: f64) -> String {
    match done as f64 / seconds.max(1e-3) {
        r if r < 10.0 => format!("{r:.1}"),
        r if r < 1e4 => format!("{r:.0}"),
        r if r < 1e7 => format!("{:.0} thousand", r / 1e3),
        r => format!("{:.1} million", r / 1e6),
    }
}

fn time_left(done: u64, remaining: u64, seconds: f64) -> String {
    match seconds / done.max(1) as f64 * remaining as f64 {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_rate_and_if_the_total_is_known_the_time_left() {
        assert_eq!(counted(500, Some(2000), "rows", 10.0), "500 of 2000 rows, 50 rows/s, 30 s left");
        assert_eq!(
            counted(3_000_000, Some(300_000_000), "rows", 3.0),
            "3000000 of 300000000 rows, 1000 thousand rows/s, 5 min left"
        );
        assert_eq!(counted(7, None, "rows", 2.0), "7 rows, 3.5 rows/s");
        assert_eq!(counted(0, Some(5), "parts", 0.0), "0 of 5 parts, 0.0 parts/s, 0 s left");
    }
}
