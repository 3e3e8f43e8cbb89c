//! Rows for [vmfkit] from files of any size.
//!
//! [`open`] makes a [`DataSource`], which a fit reads, of a file, a folder, a pattern of names or a
//! pipe. The formats:
//!
//! | format | rows | memory |
//! |---|---|---|
//! | `.npy` | f2 to f8 and integers, either byte order, either memory order | streamed |
//! | `.npz` | the same, stored or deflated; scipy's CSR matrices | streamed |
//! | `.parquet` | a column of lists (fixed or not) of f16, f32 or f64, or several columns of numbers; snappy, gzip, brotli, lz4 or zstd | streamed |
//! | `.arrow`, `.feather` | the same | streamed |
//! | `.csv`, `.tsv` | one row per line, with or without a header | streamed |
//! | `.jsonl` | one array or object per line, with the numbers under `embedding` or the chosen keys | streamed |
//! | `.safetensors` | a tensor of F16, BF16, F32 or F64 | streamed |
//! | `.mtx` | Matrix Market, coordinates or array, general or symmetric | the whole file, since its rows come in any order |
//!
//! Text may be compressed with gzip. A [`Reader`] reads the rows of one format, batch by batch. A
//! [`DataSource`] joins them across files and rescales them in a thread that reads ahead; the E
//! step validates them. [`open_batches`] reads rows as the files store them. A [`TableWriter`]
//! writes results, a [`RowWriter`] rows.

#![forbid(unsafe_code)]

mod batch;
mod batch_reader;
mod batches;
mod bytes;
mod dataset;
mod error;
mod excerpt;
mod file_batch;
mod format;
mod guard;
mod memory;
mod npy_header;
mod open;
mod open_reader;
mod options;
mod pattern;
mod prefetch;
mod read;
mod source;
mod spill;
mod write;

pub use batch::{Batch, Ids};
pub use batches::Batches;
pub use dataset::Skipped;
pub use error::{Error, Result};
pub use excerpt::excerpt;
pub use format::Format;
pub use guard::silence_decoder_panics;
pub use memory::{AvailableMemory, MemoryLimit, available_memory, spare_address_space};
pub use open::{local_files, names, open, open_all, open_batches, open_stream, read_ids};
pub use options::Options;
pub use read::{ByteBuffers, Element, Reader, Schema, csv, npy};
pub use source::{DataSource, Kept};
pub use spill::scratch_folder;
pub use write::atomic_file::{AtomicFile, FileLock, LockError, NoMoreFiles, behind_links, remove_unfinished_files, write_file};
pub use write::rows::{IdKind, RowLayout, RowWriter};
pub use write::table::{Column, ColumnData, ColumnKind, TableWriter};
pub use write::{Destination, OutputFormat, Sink};
