//! [`Memory`]: where the rows of a block are.

use crate::{Batch, Stretches};

/// Rows of a block; filled again and again.
pub(crate) enum Memory {
    /// One batch, or several that were joined.
    Batch(Batch),
    /// Dense rows to which nothing belongs, in stretches of the memory that others read into, and get back when these are dropped.
    Stretches(Stretches),
}

impl Memory {
    /// A batch, in the same memory if it was one before.
    pub fn into_batch(self) -> Batch {
        if let Memory::Batch(batch) = self { batch } else { Batch::default() }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Memory::Batch(Batch::default())
    }
}
