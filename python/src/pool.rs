//! The one way into Rust for work that may use rayon: on which threads it runs, and how Ctrl-C reaches it.
//!
//! rayon's global pool must never be touched: its threads do not survive a fork, and a forked child that hands work to it waits for ever. Every
//! call of the core therefore goes through [`run`], or through [`run_here`] if it is small. Both make the thread that works a member of a pool
//! of ours, so that rayon finds that one. A [`Stop`] can be had from them only, and rows cannot be read without it (`rows::View`).
//! `python/tests/test_fork.py` calls everything in a forked child and looks for threads that are not ours.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often a signal is looked for while others work.
const PATIENCE: Duration = Duration::from_millis(50);

/// Set by the caller of Python; 0 means what the environment says.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);

/// The pool last used, with its number of threads and the process it belongs to: threads do not survive a fork.
static POOL: Mutex<Option<(u32, usize, Arc<ThreadPool>)>> = Mutex::new(None);

/// Threads that may become pools of their own, see [`run_here`]. rayon never frees such a pool, which takes a few kB.
const MOST_SOLO_THREADS: usize = 64;
static SOLO_THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread is a pool of its own.
    static SOLO: Cell<bool> = const { Cell::new(false) };
}

/// Whether the work should end, asked from within it. Only [`run`] and [`run_here`] make one.
pub struct Stop(AtomicBool);

impl Stop {
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The same as a control flow.
    pub fn flow(&self) -> ControlFlow<()> {
        if self.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Chooses the number of threads of all work to come; none or 0: what the environment says.
#[pyfunction]
#[pyo3(signature = (threads=None))]
pub fn set_threads(threads: Option<usize>) {
    CHOSEN.store(threads.unwrap_or(0), Ordering::Relaxed);
}

/// The number of threads that work is done on: what was chosen, or VMFKIT_NUM_THREADS, RAYON_NUM_THREADS, OMP_NUM_THREADS, or one a core.
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

/// The pool of this process with this many threads. Only a thread that holds Python's lock holds this lock, and so does the thread that
/// forks: no child finds it locked.
fn pool(_: Python<'_>, threads: usize) -> PyResult<Arc<ThreadPool>> {
    let process = std::process::id();
    let mut kept = POOL.lock().map_err(|_| PyRuntimeError::new_err("the pool of threads is lost after a panic"))?;
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
        // Its threads are those of another process: there is nothing to wait for.
        std::mem::forget(old);
    }
    Ok(pool)
}

/// Runs work that takes less time than handing it to another thread would: on this thread, under Python's lock.
///
/// The first call makes this thread a rayon pool of its own, in which nothing waits for other threads, in a forked child neither.
pub fn run_here<R: Send>(py: Python<'_>, work: impl FnOnce(&Stop) -> R + Send) -> PyResult<R> {
    if !SOLO.get() {
        if SOLO_THREADS.fetch_add(1, Ordering::Relaxed) >= MOST_SOLO_THREADS {
            SOLO_THREADS.store(MOST_SOLO_THREADS, Ordering::Relaxed);
            return run(py, None, work);
        }
        // Dropping the pool would free nothing, for rayon keeps it.
        std::mem::forget(built(ThreadPoolBuilder::new().num_threads(1).use_current_thread())?);
        SOLO.set(true);
    }
    Ok(work(&Stop(AtomicBool::new(false))))
}

fn built(builder: ThreadPoolBuilder) -> PyResult<ThreadPool> {
    builder.build().map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Runs work on a pool of `threads` threads while this one waits for the end or for Ctrl-C, which asks the work to stop and is then raised.
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
                // Whoever waits is there until this has arrived.
                sender.send(work(stop)).ok();
            });
            let mut interrupted = None;
            loop {
                match done.recv_timeout(PATIENCE) {
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
        Err(()) => Err(PyRuntimeError::new_err("the work ended with a panic")),
    }
}
