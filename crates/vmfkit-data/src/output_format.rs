//! [`OutputFormat`], and what formats have in common when they are written.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::Path;

/// Where bytes go: a file, a pipe, memory.
pub type Sink = Box<dyn Write + Send>;

/// How a result is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputFormat {
    /// `.parquet`
    Parquet,
    /// `.arrow`, `.feather`: Arrow's file format.
    Arrow,
    /// `.csv`, with a header.
    Csv,
    /// `.tsv`, the same with tabs.
    Tsv,
    /// `.jsonl`, `.ndjson`: an object a line.
    JsonLines,
    /// `.npy`: numbers only.
    Npy,
    /// `.safetensors`: numbers only.
    Safetensors,
}

impl OutputFormat {
    /// The format of a file with this name.
    ///
    /// ```
    /// use vmfkit_data::OutputFormat;
    /// assert_eq!(OutputFormat::of("labels.parquet".as_ref()).unwrap(), OutputFormat::Parquet);
    /// assert!(OutputFormat::of("labels.xlsx".as_ref()).is_err());
    /// ```
    pub fn of(path: &Path) -> Result<Self> {
        let extension = path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
        Ok(match extension.as_deref() {
            Some("parquet" | "pq") => OutputFormat::Parquet,
            Some("arrow" | "feather" | "ipc") => OutputFormat::Arrow,
            Some("csv") => OutputFormat::Csv,
            Some("tsv") => OutputFormat::Tsv,
            Some("jsonl" | "ndjson") => OutputFormat::JsonLines,
            Some("npy") => OutputFormat::Npy,
            Some("safetensors") => OutputFormat::Safetensors,
            _ => {
                let known = "parquet, arrow, feather, csv, tsv, jsonl, npy or safetensors";
                let what = format!("the name of a result must end with {known}, found: `{}`", path.display());
                return Err(Error::Format { what });
            }
        })
    }

    pub(crate) fn separator(self) -> u8 {
        if self == OutputFormat::Tsv { b'\t' } else { b',' }
    }
}

/// Data behind a header that tells the number of rows.
///
/// Where the number is known the header goes out first, which works with a pipe. Where it is not, data wait in a temporary file.
pub(crate) struct Counted {
    sink: Sink,
    header: Box<dyn Fn(u64) -> Vec<u8> + Send>,
    announced: Option<u64>,
    waiting: Option<BufWriter<File>>,
    rows: u64,
}

impl Counted {
    pub(crate) fn new(mut sink: Sink, rows: Option<u64>, header: impl Fn(u64) -> Vec<u8> + Send + 'static) -> Result<Self> {
        let waiting = match rows {
            Some(rows) => {
                sink.write_all(&header(rows)).map_err(Error::Write)?;
                None
            }
            None => Some(BufWriter::with_capacity(1 << 16, tempfile::tempfile().map_err(Error::Write)?)),
        };
        Ok(Counted { sink, header: Box::new(header), announced: rows, waiting, rows: 0 })
    }

    pub(crate) fn write(&mut self, rows: usize, bytes: &[u8]) -> Result<()> {
        self.rows += rows as u64;
        match &mut self.waiting {
            Some(waiting) => waiting.write_all(bytes),
            None => self.sink.write_all(bytes),
        }
        .map_err(Error::Write)
    }

    /// Ends with `tail`, which is not counted.
    pub(crate) fn finish(mut self, tail: &[u8]) -> Result<()> {
        if let Some(announced) = self.announced
            && announced != self.rows
        {
            let what = format!("{announced} rows were announced, and so the header says, found: `{}`", self.rows);
            return Err(Error::Format { what });
        }
        let mut finish = || -> io::Result<()> {
            if let Some(waiting) = self.waiting.take() {
                self.sink.write_all(&(self.header)(self.rows))?;
                let mut file = waiting.into_inner().map_err(io::IntoInnerError::into_error)?;
                file.rewind()?;
                io::copy(&mut file, &mut self.sink)?;
            }
            self.sink.write_all(tail)?;
            self.sink.flush()
        };
        finish().map_err(Error::Write)
    }
}

/// The bytes before the data of a little-endian `.npy` array in C order; `descr` is NumPy's name of its type.
pub(crate) fn npy_header(descr: &str, shape: &[u64]) -> Vec<u8> {
    let shape = match shape {
        [n] => format!("({n},)"),
        _ => format!("({})", shape.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    // Data starts at a multiple of 64 bytes: 10 bytes stand before the text, and it ends with a line break.
    let length = (text.len() + 11).next_multiple_of(64) - 10;
    text.push_str(&" ".repeat(length - text.len() - 1));
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(length).expect("a shape of two axes is short").to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

/// Numbers one after the other, the least significant byte first.
pub(crate) fn le_bytes<T: Copy, const WIDTH: usize>(values: &[T], number: impl Fn(T) -> [u8; WIDTH]) -> Vec<u8> {
    let mut bytes = vec![0; values.len() * WIDTH];
    for (place, &value) in bytes.chunks_exact_mut(WIDTH).zip(values) {
        place.copy_from_slice(&number(value));
    }
    bytes
}
