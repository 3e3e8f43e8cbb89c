//! Reading ahead: a thread makes the next batch while the last one is worked on.

use crate::Result;
use crate::blocks::{Blocks, Spare};
use crate::file_batch::FileBatch;
use rayon::ThreadPoolBuilder;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

/// One pass over the rows, under way in a thread of its own.
///
/// The next batch waits in the thread until it is taken. With the batch that is lent and the buffers of
/// the file, about three are in memory. A fourth did not make passes faster, and its memory must be
/// cleared by the system in the first pass.
pub(crate) struct Prefetch {
    /// None once it stops, which ends the thread's waiting.
    batches: Option<Receiver<Result<FileBatch>>>,
    spare: Spare,
    stop: Arc<AtomicBool>,
    /// None once it was waited for.
    thread: Option<JoinHandle<Blocks>>,
    /// The thread ends soon after it is told to: it does not wait for a pipe.
    ends: bool,
}

impl Prefetch {
    pub fn start(blocks: Blocks) -> std::io::Result<Self> {
        let (sender, batches) = mpsc::sync_channel(0);
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, spare, ends) = (stop.clone(), blocks.spare(), blocks.can_rewind());
        // A pool of its own, as large as the caller's, whose threads may all be waiting for these rows. The threads of rayon's global pool
        // do not survive the fork of a process.
        let name = || "vmfkit-read".to_owned();
        let pool = ThreadPoolBuilder::new().num_threads(rayon::current_num_threads()).thread_name(move |_| name()).build();
        let pool = pool.map_err(std::io::Error::other)?;
        let read = move || pool.install(|| run(blocks, &sender, &shared));
        let thread = thread::Builder::new().name(name()).spawn(read)?;
        Ok(Prefetch { batches: Some(batches), spare, stop, thread: Some(thread), ends })
    }

    /// The next batch; none after the last.
    pub fn next(&mut self) -> Option<Result<FileBatch>> {
        self.batches.as_ref()?.recv().ok()
    }

    /// Returns the memory of a batch, to be filled again.
    pub fn recycle(&self, batch: FileBatch) {
        self.spare.keep(batch);
    }

    /// Ends the pass, wherever it is; what the thread panicked with is the error.
    pub fn stop(mut self) -> std::result::Result<Blocks, Box<dyn Any + Send>> {
        self.signal();
        self.thread.take().expect("waited for only once").join()
    }

    fn signal(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.batches = None;
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        self.signal();
        if let Some(thread) = self.thread.take().filter(|_| self.ends) {
            // Its panic, if any, no longer matters.
            thread.join().ok();
        }
    }
}

fn run(mut blocks: Blocks, batches: &SyncSender<Result<FileBatch>>, stop: &AtomicBool) -> Blocks {
    while !stop.load(Ordering::Relaxed) {
        let Some(next) = blocks.next(stop).transpose() else { break };
        let failed = next.is_err();
        if batches.send(next).is_err() || failed {
            break;
        }
    }
    blocks
}
