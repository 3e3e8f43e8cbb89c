//! Rows for [vmfkit] from files of any size.
//!
//! [`open`] makes a [`DataSource`], which a fit reads, of a file, a folder, a pattern of names or a pipe. The formats:
//!
//! | format | rows | memory |
//! |---|---|---|
//! | `.npy` | f2 to f8 and integers, either byte order, either memory order | streamed |
//! | `.npz` | the same, stored or deflated; scipy's CSR matrices | streamed |
//! | `.csv`, `.tsv` | a line a row, with or without names | streamed |
//! | `.jsonl` | an array or an object a line | streamed |
//! | `.safetensors` | a tensor of F16, BF16, F32 or F64 | streamed |
//! | `.mtx` | Matrix Market, coordinates or array | the whole file, since its rows come in any order |
//!
//! Text may be compressed with gzip. A [`Reader`] knows one format and gives rows as the file has them, batch by batch; the
//! source joins batches to blocks, rescales and checks them in a thread that reads ahead.

mod array;
mod batch;
mod blocks;
mod chain;
mod csr;
pub mod csv_rows;
mod error;
mod excerpt;
mod format;
mod jsonl;
mod matrix_market;
pub mod npy;
mod npz;
mod numbers;
mod open;
mod options;
mod prefetch;
mod reader;
mod safetensors;
mod source;
mod text;

pub use batch::{Batch, Ids, Values};
pub use error::{Error, Result};
pub use excerpt::excerpt;
pub use format::Format;
pub use open::{open, open_all, open_stream};
pub use options::Options;
pub use reader::{Element, Reader, Schema};
pub use source::DataSource;
