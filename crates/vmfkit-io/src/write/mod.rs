//! [`OutputFormat`], and what the writers of all formats share.

pub(crate) mod atomic_file;
mod matrix_market;
mod npz;
mod numbers;
mod records;
pub(crate) mod rows;
pub(crate) mod table;

use crate::error::{Error, Result};
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::str::FromStr;
use vmfkit::error::ParseChoiceError;

/// A destination of bytes: a file, a pipe or memory.
pub type Sink = Box<dyn Destination>;

/// A destination that is written sequentially. Some can restart: overwrite their beginning.
pub trait Destination: Write + Send {
    /// Whether [`Self::restart`] is possible, as with a file.
    fn can_restart(&self) -> bool {
        false
    }

    /// Overwrites the first bytes and continues at the end. Returns an error if that is impossible,
    /// as with a pipe.
    fn restart(&mut self, _bytes: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Destination for Vec<u8> {}

impl Destination for File {
    fn can_restart(&self) -> bool {
        self.metadata().is_ok_and(|metadata| metadata.is_file())
    }

    fn restart(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.rewind()?;
        self.write_all(bytes)?;
        self.seek(SeekFrom::End(0))?;
        Ok(())
    }
}

/// The format of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputFormat {
    /// `.parquet`
    Parquet,
    /// `.arrow`, `.feather`: Arrow's file format.
    Arrow,
    /// `.csv`, with a header line.
    Csv,
    /// `.tsv`, the same with tabs.
    Tsv,
    /// `.jsonl`, `.ndjson`: one object per line.
    JsonLines,
    /// `.npy`: numbers only.
    Npy,
    /// `.npz`: numbers only; sparse rows as scipy's CSR.
    Npz,
    /// `.safetensors`: numbers only.
    Safetensors,
    /// `.mtx`: only the entries of rows, as text.
    Mtx,
}

/// Each format with its name and the extensions of its files.
const FORMATS: [(OutputFormat, &str, &[&str]); 9] = [
    (OutputFormat::Parquet, "parquet", &["parquet", "pq"]),
    (OutputFormat::Arrow, "arrow", &["arrow", "feather", "ipc"]),
    (OutputFormat::Csv, "csv", &["csv"]),
    (OutputFormat::Tsv, "tsv", &["tsv"]),
    (OutputFormat::JsonLines, "jsonl", &["jsonl", "ndjson"]),
    (OutputFormat::Npy, "npy", &["npy"]),
    (OutputFormat::Npz, "npz", &["npz"]),
    (OutputFormat::Safetensors, "safetensors", &["safetensors"]),
    (OutputFormat::Mtx, "mtx", &["mtx"]),
];

impl OutputFormat {
    /// The name, as [`FromStr`] reads it.
    pub fn name(self) -> &'static str {
        FORMATS.iter().find(|(format, ..)| *format == self).expect("every format is listed").1
    }

    /// The format of a file by its name.
    ///
    /// ```
    /// use vmfkit_io::OutputFormat;
    /// assert_eq!(OutputFormat::of("labels.parquet".as_ref()).unwrap(), OutputFormat::Parquet);
    /// assert!(OutputFormat::of("labels.xlsx".as_ref()).is_err());
    /// ```
    pub fn of(path: &Path) -> Result<Self> {
        let extension = path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
        let found = extension.and_then(|extension| FORMATS.iter().find(|(_, _, endings)| endings.contains(&&*extension)));
        found.map(|(format, ..)| *format).ok_or_else(|| {
            let known = "parquet, arrow, feather, csv, tsv, jsonl, npy, npz, safetensors or mtx";
            Error::format(format!("the name of a result must end with {known}, found: `{}`", path.display()))
        })
    }

    pub(crate) fn separator(self) -> u8 {
        if self == OutputFormat::Tsv { b'\t' } else { b',' }
    }
}

impl std::fmt::Display for OutputFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for OutputFormat {
    type Err = ParseChoiceError;

    fn from_str(name: &str) -> std::result::Result<Self, ParseChoiceError> {
        let found = FORMATS.iter().find(|(_, known, _)| *known == name).map(|(format, ..)| *format);
        found.ok_or_else(|| ParseChoiceError::new("output format", &FORMATS.map(|(_, name, _)| name), name))
    }
}

/// Data after a header that contains the number of rows.
///
/// If the number is known, the header is written first, which also works with a pipe. Otherwise the
/// header is written after the data.
pub(crate) struct Counted {
    order: Order,
    header: Box<dyn Fn(u64) -> Vec<u8> + Send>,
    rows: u64,
}

/// Whether the header has been written, or comes after the data.
enum Order {
    /// With the number of rows in the header.
    Announced(Sink, u64),
    Waiting(Headed),
}

impl Counted {
    /// Unless the number of rows is given, the header must have the same length for any number.
    pub(crate) fn new(mut sink: Sink, rows: Option<u64>, header: impl Fn(u64) -> Vec<u8> + Send + 'static) -> Result<Self> {
        let order = match rows {
            Some(rows) => {
                sink.write_all(&header(rows)).map_err(Error::Write)?;
                Order::Announced(sink, rows)
            }
            None => Order::Waiting(Headed::new(sink, header(0).len())?),
        };
        Ok(Counted { order, header: Box::new(header), rows: 0 })
    }

    pub(crate) fn write(&mut self, rows: usize, bytes: &[u8]) -> Result<()> {
        self.rows += rows as u64;
        match &mut self.order {
            Order::Announced(sink, _) => sink.write_all(bytes).map_err(Error::Write),
            Order::Waiting(headed) => headed.write(bytes),
        }
    }

    /// Ends the file with `tail`, which does not count as rows.
    pub(crate) fn finish(self, tail: &[u8]) -> Result<()> {
        let write_tail = |sink: &mut Sink| sink.write_all(tail).map_err(Error::Write);
        match self.order {
            Order::Announced(_, announced) if announced != self.rows => {
                let what = format!("the header declares {announced} rows, found: `{}`", self.rows);
                Err(Error::Format { what })
            }
            Order::Announced(mut sink, _) => {
                write_tail(&mut sink)?;
                sink.flush().map_err(Error::Write)
            }
            Order::Waiting(headed) => headed.finish(&(self.header)(self.rows), write_tail),
        }
    }
}

/// Data after a header that is known only at the end. In a file, space is reserved for the header.
/// Data for a pipe wait in a temporary file.
pub(crate) struct Headed {
    sink: Sink,
    reserved: usize,
    waiting: Option<Spool>,
}

impl Headed {
    /// Reserves bytes for the header. For a pipe the header may have any length.
    pub(crate) fn new(mut sink: Sink, reserved: usize) -> Result<Self> {
        let waiting = if sink.can_restart() {
            sink.write_all(&vec![0; reserved]).map_err(Error::Write)?;
            None
        } else {
            Some(Spool::new("rows for a pipe are stored", "write to a file, or set TMPDIR to a folder with more space")?)
        };
        Ok(Headed { sink, reserved, waiting })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.waiting {
            Some(waiting) => waiting.write(bytes),
            None => self.sink.write_all(bytes).map_err(Error::Write),
        }
    }

    /// Writes the header, then ends the file with what `tail` writes.
    pub(crate) fn finish(mut self, header: &[u8], tail: impl FnOnce(&mut Sink) -> Result<()>) -> Result<()> {
        match self.waiting {
            Some(waiting) => {
                self.sink.write_all(header).map_err(Error::Write)?;
                waiting.copy_to(&mut self.sink)?;
                tail(&mut self.sink)?;
            }
            None => {
                assert_eq!(header.len(), self.reserved, "the reserved space is for a header of this length");
                tail(&mut self.sink)?;
                self.sink.restart(header).map_err(Error::Write)?;
            }
        }
        self.sink.flush().map_err(Error::Write)
    }
}

/// Bytes that wait in a temporary file.
pub(crate) struct Spool {
    file: BufWriter<File>,
    /// Describes the bytes and what to do if the file fails, for errors.
    purpose: (&'static str, &'static str),
}

impl Spool {
    pub(crate) fn new(what: &'static str, hint: &'static str) -> Result<Self> {
        let purpose = (what, hint);
        let file = tempfile::tempfile().map_err(|error| temporary(purpose, error))?;
        Ok(Spool { file: BufWriter::with_capacity(1 << 16, file), purpose })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| temporary(self.purpose, error))
    }

    /// Like [`io::copy`], which does not tell whether reading or writing failed.
    pub(crate) fn copy_to(self, sink: &mut impl Write) -> Result<()> {
        let failed = |error| temporary(self.purpose, error);
        let mut file = self.file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.rewind().map_err(failed)?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read(&mut buffer).map_err(failed)? {
                0 => return Ok(()),
                read => sink.write_all(&buffer[..read]).map_err(Error::Write)?,
            }
        }
    }
}

/// An error of a temporary file, which is in another folder than the output.
fn temporary((what, hint): (&str, &str), error: io::Error) -> Error {
    let folder = std::env::temp_dir();
    let what = format!("{what} in a temporary file in the folder `{}`", folder.display());
    // The hint comes last.
    Error::caused(what, io::Error::new(error.kind(), format!("{error}\nhint: {hint}")))
}

/// The bytes of numbers, little-endian.
pub(crate) fn le_bytes<T: Copy, const WIDTH: usize>(values: &[T], number: impl Fn(T) -> [u8; WIDTH]) -> Vec<u8> {
    let mut bytes = vec![0; values.len() * WIDTH];
    for (bytes, &value) in bytes.chunks_exact_mut(WIDTH).zip(values) {
        bytes.copy_from_slice(&number(value));
    }
    bytes
}
