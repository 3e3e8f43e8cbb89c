//! Reading ahead: a thread makes the next block while the last one is worked on.

use crate::Result;
use crate::blocks::{Blocks, Spare};
use crate::joined::{Joined, Memory};
use rayon::ThreadPoolBuilder;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

/// One pass over the rows, under way in a thread of its own.
///
/// The next block waits in the hands of the thread until it is taken, so that with the block lent and what the file is read by there are three in memory.
/// A fourth was not seen to make passes faster, and the system takes time to clear its memory in the first.
pub(crate) struct Prefetch {
    /// None once it stops, which ends the thread's waiting.
    joined: Option<Receiver<Result<Joined>>>,
    spare: Spare,
    stop: Arc<AtomicBool>,
    /// None once it was waited for.
    thread: Option<JoinHandle<Blocks>>,
    /// The thread ends as soon as it shall, since it does not wait for what may never come through a pipe.
    ends: bool,
}

impl Prefetch {
    pub fn start(blocks: Blocks) -> std::io::Result<Self> {
        let (sender, joined) = mpsc::sync_channel(0);
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, spare, ends) = (stop.clone(), blocks.spare(), blocks.can_rewind());
        // A pool of its own, as large as the caller's, whose threads may all be waiting for these rows. The threads of rayon's global pool
        // do not survive the fork of a process.
        let name = || "vmfkit-read".to_owned();
        let pool = ThreadPoolBuilder::new().num_threads(rayon::current_num_threads()).thread_name(move |_| name()).build();
        let pool = pool.map_err(std::io::Error::other)?;
        let read = move || pool.install(|| run(blocks, &sender, &shared));
        let thread = thread::Builder::new().name(name()).spawn(read)?;
        Ok(Prefetch { joined: Some(joined), spare, stop, thread: Some(thread), ends })
    }

    /// The next block; none after the last.
    pub fn next(&mut self) -> Option<Result<Joined>> {
        self.joined.as_ref()?.recv().ok()
    }

    /// Gives memory back, to be filled again.
    pub fn recycle(&self, memory: Memory) {
        self.spare.keep(memory);
    }

    /// Memory that was given back, if there is some.
    pub fn room(&self) -> Memory {
        self.spare.take()
    }

    /// Ends the pass, wherever it is; what the thread panicked with is the error.
    pub fn stop(mut self) -> std::result::Result<Blocks, Box<dyn Any + Send>> {
        self.signal();
        self.thread.take().expect("waited for only once").join()
    }

    fn signal(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.joined = None;
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        self.signal();
        if let Some(thread) = self.thread.take().filter(|_| self.ends) {
            // Its panic, if any, was of no one's interest.
            thread.join().ok();
        }
    }
}

fn run(mut blocks: Blocks, joined: &SyncSender<Result<Joined>>, stop: &AtomicBool) -> Blocks {
    while !stop.load(Ordering::Relaxed) {
        let Some(next) = blocks.next(stop).transpose() else { break };
        let failed = next.is_err();
        if joined.send(next).is_err() || failed {
            break;
        }
    }
    blocks
}
