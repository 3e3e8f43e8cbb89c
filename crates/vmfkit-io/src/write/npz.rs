//! Writes NumPy's `.npz`, a zip archive of arrays. Arrays of sparse rows have the names that
//! scipy's `save_npz` gives them.
//!
//! An array begins with its shape. Dense rows of known number go straight to the archive; all other
//! arrays wait in temporary files.

use crate::batch::{ID, Ids, ROWS, WEIGHT};
use crate::error::{Error, Result};
use crate::npy_header::header_bytes;
use crate::write::numbers::{Entries, Numbers};
use crate::write::{Sink, Spool, le_bytes};
use std::io::{self, Write};
use zip::result::ZipError;
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, DateTime, ZipWriter};

/// Alignment in bytes of an array's data in the archive, so that they can be mapped.
const ALIGNMENT: u16 = 64;

/// An archive of rows that is being written.
pub(crate) struct NpzWriter {
    archive: Archive,
    /// The numbers of rows or of entries; `None` if they go straight to the archive.
    values: Option<Waiting>,
    dim: u64,
    announced: Option<u64>,
    rows: u64,
    sparse: Option<Sparse>,
    ids: Option<Waiting>,
    weights: Option<Waiting>,
}

/// The other arrays of sparse rows.
struct Sparse {
    starts: Waiting,
    columns: Waiting,
    /// Columns need eight bytes each.
    wide: bool,
    entries: u64,
}

impl NpzWriter {
    /// `rows` is the number of rows, if known.
    pub(crate) fn new(
        sink: Sink,
        dim: usize,
        rows: Option<u64>,
        double: bool,
        sparse: bool,
        ids: bool,
        weights: bool,
    ) -> Result<Self> {
        let (dim, announced) = (dim as u64, rows.filter(|_| !sparse));
        let kind = (if sparse { "data" } else { ROWS }, if double { "<f8" } else { "<f4" });
        let mut archive = Archive::new(sink);
        if let Some(rows) = announced {
            archive.begin(kind, &[rows, dim])?;
        }
        Ok(NpzWriter {
            archive,
            values: if announced.is_none() { Some(Waiting::new(kind)?) } else { None },
            dim,
            announced,
            rows: 0,
            sparse: sparse.then(|| Sparse::new(dim)).transpose()?,
            ids: ids.then(|| Waiting::new((ID, "<i8"))).transpose()?,
            weights: weights.then(|| Waiting::new((WEIGHT, "<f8"))).transpose()?,
        })
    }

    /// Adds the numbers of rows, or of the entries of sparse rows.
    pub(crate) fn write(&mut self, rows: usize, numbers: &Numbers, ids: Option<&Ids>, weights: Option<&[f64]>) -> Result<()> {
        let bytes = numbers.to_le_bytes();
        match &mut self.values {
            Some(waiting) => waiting.spool.write(&bytes)?,
            None => self.archive.write(&bytes)?,
        }
        self.rows += rows as u64;
        if let (Some(waiting), Some(Ids::Integers(ids))) = (&mut self.ids, ids) {
            waiting.spool.write(&le_bytes(ids, i64::to_le_bytes))?;
        }
        if let (Some(waiting), Some(weights)) = (&mut self.weights, weights) {
            waiting.spool.write(&le_bytes(weights, f64::to_le_bytes))?;
        }
        Ok(())
    }

    /// Adds sparse rows.
    pub(crate) fn write_entries(&mut self, rows: &Entries, ids: Option<&Ids>, weights: Option<&[f64]>) -> Result<()> {
        self.sparse.as_mut().expect("the layout is sparse").write(rows)?;
        self.write(rows.starts.len() - 1, &rows.values, ids, weights)
    }

    pub(crate) fn finish(self) -> Result<()> {
        let NpzWriter { mut archive, values, dim, announced, rows, sparse, ids, weights } = self;
        if let Some(announced) = announced.filter(|announced| *announced != rows) {
            let what = format!("the header declares {announced} rows, found: `{rows}`");
            return Err(Error::Format { what });
        }
        if let Some(values) = values {
            let shape = sparse.as_ref().map_or(vec![rows, dim], |sparse| vec![sparse.entries]);
            archive.append(values, &shape)?;
        }
        if let Some(Sparse { starts, columns, entries, .. }) = sparse {
            archive.append(columns, &[entries])?;
            archive.append(starts, &[rows + 1])?;
            archive.begin(("shape", "<i8"), &[2])?;
            archive.write(&le_bytes(&[rows, dim], u64::to_le_bytes))?;
            archive.begin(("format", "|S3"), &[])?;
            archive.write(b"csr")?;
        }
        for array in [ids, weights].into_iter().flatten() {
            archive.append(array, &[rows])?;
        }
        archive.finish()
    }
}

impl Sparse {
    fn new(dim: u64) -> Result<Self> {
        // Like scipy, four bytes if they suffice.
        let wide = i32::try_from(dim).is_err();
        let columns = Waiting::new(("indices", if wide { "<i8" } else { "<i4" }))?;
        let mut starts = Waiting::new(("indptr", "<i8"))?;
        starts.spool.write(&[0; 8])?;
        Ok(Sparse { starts, columns, wide, entries: 0 })
    }

    fn write(&mut self, rows: &Entries) -> Result<()> {
        let before = self.entries;
        self.entries += rows.columns.len() as u64;
        self.starts.spool.write(&le_bytes(&rows.starts[1..], |end| (before + end as u64).to_le_bytes()))?;
        self.columns.spool.write(&match self.wide {
            true => le_bytes(&rows.columns, |column| u64::from(column).to_le_bytes()),
            false => le_bytes(&rows.columns, u32::to_le_bytes),
        })
    }
}

/// An array of unknown length, with its name and NumPy's name of its type.
struct Waiting {
    kind: (&'static str, &'static str),
    spool: Spool,
}

impl Waiting {
    fn new(kind: (&'static str, &'static str)) -> Result<Self> {
        Ok(Waiting { kind, spool: Spool::new("arrays of an .npz file are stored", "set TMPDIR to a folder with more space")? })
    }
}

/// A zip archive of arrays.
struct Archive(ZipWriter<StreamWriter<Output>>);

impl Archive {
    fn new(sink: Sink) -> Self {
        Archive(ZipWriter::new_stream(Output { sink, failed: false }))
    }

    /// Begins an array with this name, type and shape.
    fn begin(&mut self, (name, descr): (&str, &str), shape: &[u64]) -> Result<()> {
        // A constant date, so that equal rows make equal files. Sizes have eight bytes, as in
        // NumPy.
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored).large_file(true);
        let options = options.last_modified_time(DateTime::default()).with_alignment(ALIGNMENT);
        self.0.start_file(format!("{name}.npy"), options).map_err(from_zip)?;
        self.write(&header_bytes(descr, shape))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes).map_err(Error::Write)
    }

    fn append(&mut self, Waiting { kind, spool }: Waiting, shape: &[u64]) -> Result<()> {
        self.begin(kind, shape)?;
        spool.copy_to(&mut self.0)
    }

    fn finish(self) -> Result<()> {
        let mut output = self.0.finish().map_err(from_zip)?.into_inner();
        output.flush().map_err(Error::Write)
    }
}

fn from_zip(error: ZipError) -> Error {
    match error {
        ZipError::Io(error) => Error::Write(error),
        other => Error::caused("the zip archive cannot be written", other),
    }
}

/// The sink of an archive. A `ZipWriter` completes its archive when it is dropped and prints an
/// error if it cannot, so writes are ignored after a failure.
struct Output {
    sink: Sink,
    failed: bool,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.failed {
            return Ok(bytes.len());
        }
        let written = self.sink.write(bytes);
        self.failed = written.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::Interrupted);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.failed { Ok(()) } else { self.sink.flush() }
    }
}
