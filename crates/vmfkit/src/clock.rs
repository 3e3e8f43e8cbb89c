//! [`Clock`]: seconds since a moment.
//!
//! `wasm32-unknown-unknown` has no clock, and `std::time::Instant::now` panics there; times are 0
//! instead. Only reports depend on the clock, so fits are the same without one.

/// Measures the seconds since its start; 0 on machines without a clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    began: std::time::Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Clock {
            #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
            began: std::time::Instant::now(),
        }
    }

    pub(crate) fn seconds(&self) -> f64 {
        #[cfg(all(target_family = "wasm", target_os = "unknown"))]
        return 0.0;
        #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
        self.began.elapsed().as_secs_f64()
    }
}
