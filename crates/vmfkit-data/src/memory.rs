//! [`Memory`]: where the rows of a block are.

use crate::Batch;
use crate::sectors::Sectors;
use vmfkit::block::CheckedRows;

/// Rows of a block; filled again and again.
pub(crate) enum Memory {
    /// One batch, or several that were joined.
    Batch(Batch),
    /// Rows of single precision, where the disk put them.
    InPlace(Sectors),
    /// Rows of single precision that were checked as they came.
    Checked(CheckedRows<f32>),
}

impl Memory {
    /// A batch, in the same memory if it was one before.
    pub fn into_batch(self) -> Batch {
        if let Memory::Batch(batch) = self { batch } else { Batch::default() }
    }

    /// The same for sectors.
    pub fn into_sectors(self) -> Sectors {
        if let Memory::InPlace(sectors) = self { sectors } else { Sectors::default() }
    }

    /// The same for rows that are checked as they come.
    pub fn into_checked(self) -> CheckedRows<f32> {
        if let Memory::Checked(rows) = self { rows } else { CheckedRows::default() }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Memory::Batch(Batch::default())
    }
}
