//! Rows on their way to a file that appears only when it is complete.

use crate::output::{Output, WriteError};
use anyhow::{Result, anyhow};
use clap::ValueEnum;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vmfkit_data::{Batch, Element, Error, OutputFormat, RowLayout, RowWriter};

/// How exactly numbers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Precision {
    F32,
    F64,
}

impl Precision {
    pub fn element(self) -> Element {
        match self {
            Precision::F32 => Element::F32,
            Precision::F64 => Element::F64,
        }
    }
}

/// What was asked for by this option, or what the name tells; CSV on standard output.
pub fn format_of(path: &Path, asked: Option<OutputFormat>, option: &str) -> Result<OutputFormat> {
    match asked {
        Some(format) => Ok(format),
        None if path == Path::new("-") => Ok(OutputFormat::Csv),
        None => OutputFormat::of(path).map_err(|error| anyhow!("{error}\nhint: or say `{option} npy` and the like")),
    }
}

/// A file of rows in the making.
pub struct RowOutput {
    writer: RowWriter,
    output: Shared,
}

impl RowOutput {
    /// Begins a file at `path`, or on standard output for `-`.
    pub fn create(path: &Path, format: OutputFormat, layout: &RowLayout) -> Result<Self> {
        let output = Shared(Arc::new(Mutex::new(Output::create(path)?)));
        let writer = RowWriter::new(format, Box::new(output.clone()), layout).map_err(|error| output.explain(error))?;
        Ok(RowOutput { writer, output })
    }

    /// Adds rows.
    pub fn write(&mut self, batch: &Batch) -> Result<()> {
        self.writer.write(batch).map_err(|error| self.output.explain(error))
    }

    /// Makes the file visible.
    pub fn finish(self) -> Result<()> {
        let RowOutput { writer, output } = self;
        writer.finish().map_err(|error| output.explain(error))?;
        let output = Arc::into_inner(output.0).expect("the writer has gone");
        output.into_inner().unwrap_or_else(PoisonError::into_inner).finish()
    }
}

/// An output that is also in the hands of the writer of its format.
#[derive(Clone)]
struct Shared(Arc<Mutex<Output>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Output> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same error, with the place; what could not be written has an exit code of its own.
    fn explain(&self, error: Error) -> anyhow::Error {
        let place = self.lock().place().to_owned();
        match error {
            Error::Write(source) => WriteError::new(place, source).into(),
            error => anyhow::Error::from(error).context(place),
        }
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(&mut *self.lock(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lock().flush()
    }
}
