//! Wall time and processor time.

use cpu_time::ProcessTime;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// A stopwatch.
pub struct Clock {
    wall: Instant,
    processors: ProcessTime,
}

/// Seconds of wall time, and seconds of time on all processors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Seconds {
    pub wall: f64,
    pub processors: f64,
}

impl Clock {
    pub fn start() -> Self {
        Clock { wall: Instant::now(), processors: ProcessTime::now() }
    }

    pub fn seconds(&self) -> Seconds {
        Seconds { wall: self.wall.elapsed().as_secs_f64(), processors: self.processors.elapsed().as_secs_f64() }
    }
}
