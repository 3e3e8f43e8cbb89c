//! Rows for [vmfkit](vmfkit) from files of any size.
//!
//! A [`Reader`] knows one format and gives rows as the file has them, batch by batch.

mod batch;
mod error;
mod reader;

pub use batch::{Batch, Ids, Values};
pub use error::{Error, Result};
pub use reader::{Element, Reader, Schema};
