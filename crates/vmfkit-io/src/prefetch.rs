//! [`Prefetch`]: a thread that reads the next batch while the current one is used.

use crate::Result;
use crate::batch_reader::{BatchReader, Spare};
use crate::file_batch::FileBatch;
use rayon::ThreadPoolBuilder;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

/// One pass over the rows, in a thread of its own.
///
/// The next batch waits in the thread until it is taken. With the batch that is lent and the
/// buffers of the file, about three are in memory. A fourth did not make passes faster, and its
/// memory must be cleared by the system in the first pass.
pub(crate) struct Prefetch {
    /// None once the pass is stopped, so that the thread no longer waits.
    batches: Option<Receiver<Result<FileBatch>>>,
    spare: Spare,
    stop: Arc<AtomicBool>,
    /// None once the thread has been joined.
    thread: Option<JoinHandle<BatchReader>>,
    /// Whether the thread ends soon after it is told to stop. One that reads a pipe may wait
    /// forever.
    ends: bool,
}

impl Prefetch {
    pub fn start(reader: BatchReader) -> std::io::Result<Self> {
        let (sender, batches) = mpsc::sync_channel(0);
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, spare, ends) = (stop.clone(), reader.spare(), reader.can_rewind());
        // A pool of its own, as large as the caller's: all threads of the caller's pool may be
        // waiting for these rows, and the threads of rayon's global pool do not survive a fork.
        let name = || "vmfkit-read".to_owned();
        let pool = ThreadPoolBuilder::new().num_threads(rayon::current_num_threads()).thread_name(move |_| name()).build();
        let pool = pool.map_err(std::io::Error::other)?;
        let read = move || pool.install(|| run(reader, &sender, &shared));
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

    /// Ends the pass before its end. The error is the thread's panic.
    pub fn stop(mut self) -> std::result::Result<BatchReader, Box<dyn Any + Send>> {
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

fn run(mut reader: BatchReader, batches: &SyncSender<Result<FileBatch>>, stop: &AtomicBool) -> BatchReader {
    while !stop.load(Ordering::Relaxed) {
        let Some(next) = reader.next(stop).transpose() else { break };
        let failed = next.is_err();
        if batches.send(next).is_err() || failed {
            break;
        }
    }
    reader
}
