//! Rows for [vmfkit](vmfkit) from files of any size.
//!
//! A [`Reader`] knows one format and gives rows as the file has them, batch by batch.

#![allow(dead_code)]

mod arrow_ipc;
mod batch;
#[cfg(test)]
mod columnar_tests;
mod columns;
mod error;
mod guard;
mod levels;
mod list_pages;
mod parquet;
mod reader;
mod records;

pub use batch::{Batch, Ids, Values};
pub use error::{Error, Result};
pub use reader::{Element, Reader, Schema};
