//! Thread pools for all parallel work, with support for Ctrl-C.
//!
//! Never use rayon's global pool: its threads do not survive a fork, and a forked child that gives work to it waits forever. Every call of the
//! core therefore goes through [`run`], or through [`run_here`] if it is short. Both run the work in a thread that belongs to one of our
//! pools, so rayon uses that pool. Only they create a [`Stop`], and rows cannot be read without one (`rows::BorrowedRows`).
//! `python/tests/test_fork.py` calls every function in a forked child and checks that all threads are ours.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Interval between two checks for signals.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Number of threads set from Python; 0 means the number given by the environment.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);

/// The pool last used, with its process and its number of threads. The process matters because threads do not survive a fork.
static POOL: Mutex<Option<(u32, usize, Arc<ThreadPool>)>> = Mutex::new(None);

/// Maximum number of threads that become pools of their own, see [`run_here`]. rayon never frees such a pool, which takes a few kB.
const MOST_SOLO_THREADS: usize = 64;
static SOLO_THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread is a pool of its own.
    static SOLO: Cell<bool> = const { Cell::new(false) };
}

/// Tells work whether it should end. Only [`run`] and [`run_here`] create one.
pub struct Stop(AtomicBool);

impl Stop {
    /// Whether a stop was requested.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// `Break` if a stop was requested.
    pub fn flow(&self) -> ControlFlow<()> {
        if self.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Sets the number of threads; None or 0 takes it from the environment.
#[pyfunction]
#[pyo3(signature = (threads=None))]
pub fn set_threads(threads: Option<usize>) {
    CHOSEN.store(threads.unwrap_or(0), Ordering::Relaxed);
}

/// The number of threads: that of `set_threads`, or of VMFKIT_NUM_THREADS, RAYON_NUM_THREADS or OMP_NUM_THREADS, or one per core.
#[pyfunction]
pub fn threads() -> usize {
    let of_variable = |name: &&str| std::env::var(name).ok()?.trim().parse().ok().filter(|threads| *threads > 0);
    let of_machine = || std::thread::available_parallelism().map_or(1, usize::from);
    match CHOSEN.load(Ordering::Relaxed) {
        0 => {
            ["VMFKIT_NUM_THREADS", "RAYON_NUM_THREADS", "OMP_NUM_THREADS"].iter().find_map(of_variable).unwrap_or_else(of_machine)
        }
        chosen => chosen,
    }
}

/// The pool of this process with this many threads. A thread takes this lock only while it holds the interpreter lock. The thread that forks
/// holds the interpreter lock too, so no child finds this lock taken.
fn pool(_: Python<'_>, threads: usize) -> PyResult<Arc<ThreadPool>> {
    let process = std::process::id();
    let mut kept = POOL.lock().map_err(|_| PyRuntimeError::new_err("the thread pool cannot be used after a panic"))?;
    if let Some((owner, size, pool)) = &*kept
        && (*owner, *size) == (process, threads)
    {
        return Ok(pool.clone());
    }
    let builder = ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("vmfkit-{i}"));
    let pool = Arc::new(built(builder)?);
    if let Some((owner, _, old)) = kept.replace((process, threads, pool.clone()))
        && owner != process
    {
        // Its threads belong to another process; dropping the pool would wait for them.
        std::mem::forget(old);
    }
    Ok(pool)
}

/// Runs work on this thread, holding the interpreter lock. Use it for work that is shorter than handing it to another thread.
///
/// The first call makes this thread a rayon pool of its own, in which nothing waits for other threads, even in a forked child.
pub fn run_here<R: Send>(py: Python<'_>, work: impl FnOnce(&Stop) -> R + Send) -> PyResult<R> {
    if !SOLO.get() {
        if SOLO_THREADS.fetch_add(1, Ordering::Relaxed) >= MOST_SOLO_THREADS {
            SOLO_THREADS.store(MOST_SOLO_THREADS, Ordering::Relaxed);
            return run(py, None, work);
        }
        // rayon keeps the pool, so dropping it would free nothing.
        std::mem::forget(built(ThreadPoolBuilder::new().num_threads(1).use_current_thread())?);
        SOLO.set(true);
    }
    Ok(work(&Stop(AtomicBool::new(false))))
}

fn built(builder: ThreadPoolBuilder) -> PyResult<ThreadPool> {
    builder.build().map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Runs work on a pool of `threads` threads while this thread waits for its end or for Ctrl-C. Ctrl-C requests a stop and is raised when the
/// work has ended.
pub fn run<R: Send>(py: Python<'_>, threads: Option<usize>, work: impl FnOnce(&Stop) -> R + Send) -> PyResult<R> {
    if threads == Some(0) {
        return Err(PyValueError::new_err("the number of threads must be at least 1, found: `0`"));
    }
    let pool = pool(py, threads.unwrap_or_else(self::threads))?;
    let stop = Stop(AtomicBool::new(false));
    let interrupted = py.detach(|| {
        let (sender, done) = mpsc::channel();
        pool.in_place_scope(|scope| {
            let stop = &stop;
            scope.spawn(move |_| {
                // The receiver waits until this has arrived.
                sender.send(work(stop)).ok();
            });
            let mut interrupted = None;
            loop {
                match done.recv_timeout(SIGNAL_INTERVAL) {
                    Ok(result) => return Ok((result, interrupted)),
                    Err(RecvTimeoutError::Disconnected) => return Err(()),
                    Err(RecvTimeoutError::Timeout) if interrupted.is_none() => {
                        interrupted = Python::attach(|py| py.check_signals()).err();
                        stop.0.store(interrupted.is_some(), Ordering::Relaxed);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
        })
    });
    match interrupted {
        Ok((result, None)) => Ok(result),
        Ok((_, Some(signal))) => Err(signal),
        Err(()) => Err(PyRuntimeError::new_err("a worker thread panicked")),
    }
}
