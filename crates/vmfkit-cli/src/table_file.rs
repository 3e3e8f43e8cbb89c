//! A table of results, in any format, that appears only when it is complete.

use crate::output::Output;
use anyhow::Result;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vmfkit_data::{Column, ColumnData, Error, OutputFormat, TableWriter};

/// A table on its way to a place for results.
pub struct TableFile {
    table: TableWriter,
    output: Shared,
}

impl TableFile {
    /// Begins a table; its number of rows, if that is known.
    pub fn new(output: Output, format: OutputFormat, columns: &[Column], rows: Option<u64>) -> Result<Self> {
        let output = Shared(Arc::new(Mutex::new(output)));
        let table = TableWriter::new(format, Box::new(output.clone()), columns, rows).map_err(|error| output.explain(error))?;
        Ok(TableFile { table, output })
    }

    /// Adds rows: for each column, in order, as many values.
    pub fn write(&mut self, data: &[ColumnData]) -> Result<()> {
        self.table.write(data).map_err(|error| self.output.explain(error))
    }

    /// Makes the table visible.
    pub fn finish(self) -> Result<()> {
        let TableFile { table, output } = self;
        table.finish().map_err(|error| output.explain(error))?;
        let output = Arc::into_inner(output.0).expect("the table has given its share back");
        output.into_inner().unwrap_or_else(PoisonError::into_inner).finish()
    }
}

/// The place, which the table writes to and this file makes visible after it.
#[derive(Clone)]
struct Shared(Arc<Mutex<Output>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Output> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn explain(&self, error: Error) -> anyhow::Error {
        let output = self.lock();
        match error {
            Error::Write(source) => output.failure(source),
            other => anyhow::Error::from(other).context(output.place().to_owned()),
        }
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().writer().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lock().writer().flush()
    }
}
