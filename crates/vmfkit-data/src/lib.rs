//! Rows for [vmfkit] from files of any size.
//!
//! A [`Reader`] knows one format and gives rows as the file has them, batch by batch. Results leave through a [`TableWriter`],
//! rows through a [`RowWriter`].

// Readers are private, and nothing in this crate opens a file by its name.
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
#[cfg(feature = "object-store")]
mod object_store;
mod output_format;
mod parquet;
mod reader;
mod record_sink;
mod records;
mod row_writer;
mod table;

pub use batch::{Batch, Ids, Values};
pub use error::{Error, Result};
pub use output_format::{OutputFormat, Sink};
pub use reader::{Element, Reader, Schema};
pub use row_writer::{IdKind, RowLayout, RowWriter};
pub use table::{Column, ColumnData, ColumnKind, TableWriter};
