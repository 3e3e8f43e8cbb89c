//! Reading ahead: a thread makes the next block while the last one is worked on.

use crate::blocks::{Blocks, Checked};
use crate::{Batch, Result};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::{self, JoinHandle};

/// One pass over the rows, under way in a thread of its own.
///
/// One block waits in the channel and one in the hands of the thread, so that with the block lent and the rows being read there
/// are four in memory.
pub(crate) struct Prefetch {
    /// None once it stops, which ends the thread's waiting for room.
    checked: Option<Receiver<Result<Checked>>>,
    used: Sender<Batch>,
    stop: Arc<AtomicBool>,
    /// None once it was waited for.
    thread: Option<JoinHandle<Blocks>>,
    /// The thread ends as soon as it shall, since it does not wait for what may never come through a pipe.
    ends: bool,
}

impl Prefetch {
    pub fn start(blocks: Blocks) -> std::io::Result<Self> {
        let (sender, checked) = mpsc::sync_channel(1);
        let (used, free) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, ends) = (stop.clone(), blocks.can_rewind());
        let thread = thread::Builder::new().name("vmfkit-read".to_owned()).spawn(move || run(blocks, &sender, &free, &shared))?;
        Ok(Prefetch { checked: Some(checked), used, stop, thread: Some(thread), ends })
    }

    /// The next block; none after the last.
    pub fn next(&mut self) -> Option<Result<Checked>> {
        self.checked.as_ref()?.recv().ok()
    }

    /// Gives memory back, to be filled again.
    pub fn recycle(&self, batch: Batch) {
        // A thread that has ended needs none.
        self.used.send(batch).ok();
    }

    /// Ends the pass, wherever it is; what the thread panicked with is the error.
    pub fn stop(mut self) -> std::result::Result<Blocks, Box<dyn Any + Send>> {
        self.signal();
        self.thread.take().expect("waited for only once").join()
    }

    fn signal(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.checked = None;
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

fn run(mut blocks: Blocks, checked: &SyncSender<Result<Checked>>, free: &Receiver<Batch>, stop: &AtomicBool) -> Blocks {
    while !stop.load(Ordering::Relaxed) {
        let next = blocks.next(free.try_recv().unwrap_or_default(), stop).transpose();
        let Some(next) = next else { break };
        let failed = next.is_err();
        if checked.send(next).is_err() || failed {
            break;
        }
    }
    blocks
}
