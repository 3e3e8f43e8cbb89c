//! Memory for reading rows: the block size that a `--memory` limit allows, and what is left for
//! holding rows.

use crate::size;
use anyhow::{Result, bail};
use vmfkit_io::{AvailableMemory, DataSource, MemoryLimit};

/// Memory of a command apart from rows and models: code, stacks, buffers of system libraries.
const PROCESS_MEMORY: u64 = 32 << 20;
/// Blocks in memory while rows are read: one in use, one waiting, one being read, its file buffer,
/// and one and a half instead of the page cache.
pub const BLOCKS_IN_MEMORY: u64 = 6;
/// The smallest block that is worth its overhead.
const MIN_BLOCK_ROWS: u64 = 64;
/// Upper bound of the threads that read ahead or wait for signals.
const OTHER_THREADS: u64 = 10;
/// Address space that a thread reserves for its stack.
const ADDRESS_SPACE_PER_THREAD: u64 = 2 << 20;
/// Bytes per row id.
const ID_MEMORY: u64 = 64;

/// Memory that a command needs in addition to the rows.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExtraMemory {
    pub fixed: u64,
    pub per_thread: u64,
    /// Per row of a block.
    pub per_row: u64,
    /// Rows that must be in memory together, if there are that many.
    pub min_rows: u64,
    /// How to need less, on a line of its own.
    pub hint: Option<&'static str>,
}

impl From<u64> for ExtraMemory {
    fn from(fixed: u64) -> Self {
        ExtraMemory { fixed, ..ExtraMemory::default() }
    }
}

/// Limits the blocks of a source to `limit` bytes of memory, if there is a limit. Returns the bytes
/// left for holding rows.
pub fn limit_blocks(
    source: &mut DataSource,
    extra: ExtraMemory,
    weights: usize,
    has_ids: bool,
    limit: Option<u64>,
) -> Result<u64> {
    let id = if has_ids { ID_MEMORY } else { 0 };
    let row = source.row_bytes().saturating_add(16 + id).saturating_mul(BLOCKS_IN_MEMORY).saturating_add(extra.per_row);
    let threads = rayon::current_num_threads() as u64;
    let of_threads = threads.saturating_mul(extra.per_thread);
    // A damaged file may claim any size, so sums saturate.
    let own = extra.fixed.saturating_add(of_threads).saturating_add(PROCESS_MEMORY + 8 * weights as u64);
    let own = own.saturating_add(source.held_bytes());
    let min_rows = extra.min_rows.min(source.rows().unwrap_or(u64::MAX)).max(MIN_BLOCK_ROWS);
    let least = own.saturating_add(row.saturating_mul(min_rows));
    if let Some(limit) = limit.filter(|limit| *limit < least) {
        let hint = match extra.hint {
            _ if of_threads > least / 2 => "\nhint: fewer `--threads` need less",
            Some(hint) => hint,
            None => "",
        };
        bail!(
            "this command needs at least {} of memory, found: `--memory {}`{hint}",
            size::readable(least),
            size::readable(limit)
        );
    }
    if let Some(limit) = limit {
        source.limit_block_rows(usize::try_from((limit - own) / row)?);
    }
    let needed = own.saturating_add(row.saturating_mul(source.block_rows() as u64));
    let available = allocatable(threads);
    // Fewer rows than a block need less memory, and the number of lines of a text is unknown.
    let known_rows = (source.block_rows() as u64).min(source.rows().unwrap_or(0));
    let certain = own.saturating_add(row.saturating_mul(known_rows));
    if available.limit.fails_allocations() && available.bytes < certain {
        let (needed, left) = (size::readable(certain), size::readable(available.bytes));
        let hint = match available.bytes > least {
            true => format!("\nhint: `--memory {}` uses smaller batches", size::megabytes(available.bytes)),
            false => String::new(),
        };
        bail!("this command needs up to {needed} of memory, but {} leaves: `{left}`{hint}", available.limit);
    }
    Ok(match limit {
        Some(limit) => limit.min(available.bytes).saturating_sub(needed),
        None => available.bytes.saturating_sub(needed) / 2,
    })
}

/// Refuses rows that do not fit into memory together, for `work` that needs them so. Returns the
/// bytes left for holding rows.
pub fn check_whole(source: &DataSource, work: &str) -> Result<u64> {
    let available = allocatable(rayon::current_num_threads() as u64);
    let needed = source.rows().unwrap_or(0).saturating_mul(source.row_bytes());
    if needed > available.bytes && available.limit.is_enforced() {
        let (needed, left) = (size::readable(needed), size::readable(available.bytes));
        bail!("`{work}` reads all rows into memory, which takes {needed}, but {} leaves: `{left}`", available.limit);
    }
    Ok(available.bytes / 2)
}

/// Memory that can still be allocated once this many threads have started.
fn allocatable(threads: u64) -> AvailableMemory {
    let available = vmfkit_io::available_memory();
    let reserved = match available.limit {
        MemoryLimit::AddressSpace => (threads + OTHER_THREADS) * ADDRESS_SPACE_PER_THREAD,
        _ => 0,
    };
    AvailableMemory { bytes: available.bytes.saturating_sub(reserved), ..available }
}
