//! [`Dataset`]: several files, read as if they were one.

use crate::bytes::{ByteReader, Location, Stamp};
use crate::format::Format;
use crate::open_reader::{format_of, reader, stream_reader};
use crate::spill::SpillFile;
use crate::{Batch, ByteBuffers, Element, Error, Options, Reader, Result, Schema};
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use vmfkit::Angles;
use vmfkit::rows::{Rows, SparseRows};

/// An input of rows.
pub(crate) enum Input {
    /// It can be read again.
    File(Location),
    /// It can be read once.
    Stream { name: String, text: ByteReader },
}

impl Input {
    pub fn stream(stream: impl Read + Send + 'static, name: &str) -> Self {
        Input::Stream { name: name.to_owned(), text: ByteReader::pipe(BufReader::with_capacity(1 << 20, stream)) }
    }

    /// The name that messages use.
    pub fn name(&self) -> String {
        match self {
            Input::File(location) => location.name(),
            Input::Stream { name, .. } => name.clone(),
        }
    }
}

/// What was skipped in folders: files of unknown formats, and folders whose names begin with `_` or
/// that cannot be read. Hidden names do not count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Number of skipped entries.
    pub count: usize,
    /// Name of the first of them.
    pub first: String,
}

impl Skipped {
    pub(crate) fn add(&mut self, path: &Path) {
        let name = path.display().to_string();
        // Folders list their names in any order.
        if self.count == 0 || name < self.first {
            self.first = name;
        }
        self.count += 1;
    }
}

/// A file of the dataset. It is open only while it is read.
struct Part {
    /// The name that messages use.
    name: Arc<str>,
    origin: PartOrigin,
    schema: Schema,
    /// Whether another pass is much slower than reading the bytes.
    slow: bool,
}

/// Where the rows of a file are.
enum PartOrigin {
    File(Location, Format, Stamp),
    /// The reader, until the pipe is read. A pipe cannot be rewound.
    Pipe(Option<Box<dyn Reader>>),
    SpillFile(SpillFile),
}

impl Part {
    /// Rejects a file that has changed since its schema was read.
    fn check(&self) -> Result<()> {
        match &self.origin {
            PartOrigin::File(location, _, before) => before.check(&location.stamp()?),
            PartOrigin::Pipe(_) | PartOrigin::SpillFile(_) => Ok(()),
        }
    }

    /// The error of a file that ended after `found` rows, fewer than its header says.
    fn ended_early(&self, found: u64) -> Error {
        let rows = self.schema.rows.unwrap_or_default();
        Error::Changed { what: format!("it had {rows} rows, found: `{found}`") }
    }

    /// True if the dimension is unknown because there are no rows, as in the empty parts that Spark
    /// writes.
    fn has_no_shape(&self) -> bool {
        self.schema.dim == 0 && self.schema.rows == Some(0)
    }

    /// Opens the file at its first row, with O_DIRECT if `direct` bytes of buffers are given.
    fn open(&mut self, options: &Options, direct: Option<usize>) -> Result<Box<dyn Reader>> {
        self.check()?;
        let mut reader: Box<dyn Reader> = match &mut self.origin {
            PartOrigin::Pipe(reader) => return reader.take().ok_or(vmfkit::Error::CannotRewind.into()),
            PartOrigin::SpillFile(scratch) => Box::new(scratch.reader()?),
            PartOrigin::File(location, format, _) => reader(location.open()?, *format, options)?,
        };
        if *reader.schema() != self.schema {
            let (before, now) = (&self.schema, reader.schema());
            let shape = |schema: &Schema| format!("{} x {}", schema.rows.map_or("?".to_owned(), |n| n.to_string()), schema.dim);
            return Err(Error::Changed { what: format!("its shape was {}, found: `{}`", shape(before), shape(now)) });
        }
        if let Some(memory) = direct {
            reader.read_direct(memory)?;
        }
        Ok(reader)
    }
}

/// The location of rows that were read together from one file.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// The index of the file in the dataset, and its name in messages.
    pub part: usize,
    pub name: Arc<str>,
    /// The number of the first row, counted in the file.
    pub row: u64,
    /// Numbers in a row, and the angles that they seem to be.
    pub dim: usize,
    pub angles: Option<Angles>,
}

/// The rows of all files, in order.
pub(crate) struct Dataset {
    parts: Vec<Part>,
    options: Options,
    /// What is known of the rows of all files.
    schema: Schema,
    /// The file being read: its index, its reader if it is open, and the number of rows read from
    /// it.
    part: usize,
    reader: Option<Box<dyn Reader>>,
    row: u64,
    /// Bytes of buffers for O_DIRECT, if the rows are too many for the system's cache.
    direct: Option<usize>,
    skipped: Skipped,
}

impl Dataset {
    /// Reads the schema of every file, so that a file that does not match the others is rejected
    /// before any rows are read.
    pub fn open(inputs: Vec<Input>, options: &Options) -> Result<Self> {
        let mut parts: Vec<Part> = Vec::with_capacity(inputs.len());
        let mut first_reader = None;
        for input in inputs {
            let name = input.name();
            let (part, reader) = inspect(input, options).map_err(|error| error.at(&name))?;
            let first = parts.iter().find(|part| !part.has_no_shape());
            if let Some(first) = first.filter(|_| !part.has_no_shape()) {
                agree(first, &part).map_err(|error| error.at(&name))?;
            }
            if parts.is_empty() {
                first_reader = reader;
            }
            parts.push(part);
        }
        let mut schemas = parts.iter().filter(|part| !part.has_no_shape()).map(|part| &part.schema);
        let mut schema = schemas.next().unwrap_or(&parts.first().expect("at least one file").schema).clone();
        for other in schemas {
            schema.rows = schema.rows.zip(other.rows).and_then(|(a, b)| a.checked_add(b));
            schema.element = widest(schema.element, other.element);
            schema.entries = schema.entries.zip(other.entries).map(|(a, b)| a.saturating_add(b));
            // One file is open at a time.
            schema.held = schema.held.max(other.held);
        }
        let (options, skipped) = (options.clone(), Skipped::default());
        Ok(Dataset { parts, options, schema, part: 0, reader: first_reader, row: 0, direct: None, skipped })
    }

    /// The rows of a scratch file.
    pub fn of_scratch(scratch: SpillFile) -> Self {
        let schema = scratch.schema();
        let part =
            Part { name: scratch.name().into(), origin: PartOrigin::SpillFile(scratch), schema: schema.clone(), slow: false };
        let (options, skipped) = (Options::new(), Skipped::default());
        Dataset { parts: vec![part], options, schema, part: 0, reader: None, row: 0, direct: None, skipped }
    }

    /// The same files, with none of them open.
    pub fn closed(self) -> Self {
        Dataset { reader: None, ..self }
    }

    pub fn with_skipped(self, skipped: Skipped) -> Self {
        Dataset { skipped, ..self }
    }

    /// The files in folders that were skipped, if any.
    pub fn skipped(&self) -> Option<&Skipped> {
        Some(&self.skipped).filter(|skipped| skipped.count > 0)
    }

    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The name of the file whose dimension the others must have.
    pub fn first_name(&self) -> &str {
        let shaped = self.parts.iter().find(|part| !part.has_no_shape());
        &shaped.unwrap_or(&self.parts[0]).name
    }

    /// Whether the rows of this file are rescaled.
    pub fn rescales(&self, part: usize) -> bool {
        self.options.rescale || self.parts[part].schema.element == Element::F16
    }

    /// Whether the rows of any file are rescaled.
    pub fn rescales_any(&self) -> bool {
        (0..self.parts.len()).any(|part| self.rescales(part))
    }

    /// Whether the rows can be read more than once.
    pub fn can_rewind(&self) -> bool {
        self.parts.iter().all(|part| !matches!(part.origin, PartOrigin::Pipe(_)))
    }

    /// Whether a scratch file would make later passes possible or much faster. It cannot hold
    /// sparse rows or ids.
    pub fn is_worth_scratch(&self) -> bool {
        let length = |part: &Part| if let PartOrigin::File(_, _, stamp) = &part.origin { stamp.length } else { 0 };
        let sum = |slow: bool| self.parts.iter().filter(|part| part.slow == slow).map(length).sum::<u64>();
        let takes_long = !self.can_rewind() || sum(true) > sum(false);
        takes_long && !self.schema.is_sparse() && self.options.id_column.is_none()
    }

    /// Reads the next rows, at most `most`, all from one file. Returns none at the end.
    pub fn read(&mut self, most: usize, batch: &mut Batch) -> Result<Option<Origin>> {
        while self.part < self.parts.len() {
            let row = self.row;
            let found = self.with_part(|part, reader| Self::read_part(part, reader, row, most, batch))?;
            if found {
                return Ok(Some(self.take(batch.rows)));
            }
            self.end_part();
        }
        Ok(None)
    }

    /// Whether all rows of all files have been read.
    pub fn has_ended(&self) -> bool {
        self.part == self.parts.len()
    }

    /// The number of rows, at most `most`, of the next batch if its bytes can be lent from one
    /// file; otherwise 0.
    pub fn lendable_rows(&mut self, most: usize) -> Result<usize> {
        while self.direct.is_some() && self.part < self.parts.len() {
            let (row, element) = (self.row, self.schema.element);
            let left = self.with_part(|part, reader| {
                let rows = part.schema.rows.filter(|_| part.schema.element == element && reader.lends_bytes());
                Ok(rows.map(|rows| rows.saturating_sub(row)))
            })?;
            let is_last = self.part + 1 == self.parts.len();
            match left {
                Some(0) => self.end_part(),
                Some(left) if is_last || left >= most as u64 => return Ok(left.min(most as u64) as usize),
                _ => break,
            }
        }
        Ok(0)
    }

    /// Reads as many rows as [`lendable_rows`](Self::lendable_rows) returned.
    pub fn read_bytes(&mut self, rows: usize) -> Result<(Origin, ByteBuffers)> {
        let row = self.row;
        let buffers = self.with_part(|part, reader| {
            let (mut buffers, mut left) = (ByteBuffers::new(part.schema.element), rows);
            while left > 0 {
                match reader.read_bytes(left, &mut buffers)? {
                    0 => return Err(part.ended_early(row + (rows - left) as u64)),
                    read => left -= read,
                }
            }
            Ok(buffers)
        })?;
        Ok((self.take(rows), buffers))
    }

    /// Calls `read` with the current file, which is opened first if it is closed. Errors name the
    /// file.
    fn with_part<T>(&mut self, read: impl FnOnce(&Part, &mut dyn Reader) -> Result<T>) -> Result<T> {
        let part = &mut self.parts[self.part];
        let reader = match &mut self.reader {
            Some(reader) => Ok(reader),
            none => part.open(&self.options, self.direct).map(|reader| none.insert(reader)),
        };
        reader.and_then(|reader| read(part, &mut **reader)).map_err(|error| error.at(&*part.name))
    }

    /// Advances by the rows that were read from the current file.
    fn take(&mut self, rows: usize) -> Origin {
        let Part { name, schema, .. } = &self.parts[self.part];
        let origin = Origin { part: self.part, name: name.clone(), row: self.row, dim: schema.dim, angles: schema.angles };
        self.row += rows as u64;
        origin
    }

    /// Ends the current file.
    fn end_part(&mut self) {
        // A single file stays open for the next pass.
        if self.parts.len() > 1 {
            self.reader = None;
        }
        self.part += 1;
        self.row = 0;
    }

    fn read_part(part: &Part, reader: &mut dyn Reader, row: u64, most: usize, batch: &mut Batch) -> Result<bool> {
        reader.read(most, batch)?;
        assert!(batch.rows <= most, "a reader gives at most the rows asked for");
        if batch.rows > 0 {
            return Ok(true);
        }
        if part.schema.rows.is_some_and(|rows| rows != row) { Err(part.ended_early(row)) } else { Ok(false) }
    }

    /// Returns to the first row of the first file. Rejects files that have changed.
    pub fn rewind(&mut self) -> Result<()> {
        self.check()?;
        if self.parts.len() > 1 {
            self.reader = None;
        }
        if let Some(reader) = &mut self.reader {
            reader.rewind().map_err(|error| error.at(&*self.parts[0].name))?;
        }
        (self.part, self.row) = (0, 0);
        Ok(())
    }

    /// Rejects files that have changed since they were opened.
    pub fn check(&self) -> Result<()> {
        self.parts.iter().try_for_each(|part| part.check().map_err(|error| error.at(&*part.name)))
    }

    /// Returns to the first row and reads with O_DIRECT from now on.
    pub fn read_direct(&mut self, memory: usize) -> Result<()> {
        self.direct = Some(memory);
        self.reader = None;
        self.rewind()
    }

    /// No rows, of the kind that the rows of all files are converted to.
    pub fn no_rows(&self) -> Rows<'static> {
        match (self.schema.is_sparse(), self.schema.element) {
            (false, Element::F64) => Rows::F64(Vec::new().into()),
            (false, _) => Rows::F32(Vec::new().into()),
            (true, Element::F64) => Rows::SparseF64(SparseRows::new(vec![0], Vec::new(), Vec::new())),
            (true, _) => Rows::SparseF32(SparseRows::new(vec![0], Vec::new(), Vec::new())),
        }
    }
}

/// Reads the schema of an input. Also returns the reader of a file; that of a pipe is in the part.
fn inspect(input: Input, options: &Options) -> Result<(Part, Option<Box<dyn Reader>>)> {
    let name = input.name().into();
    match input {
        Input::File(location) => {
            let stamp = location.stamp()?;
            let source = location.open()?;
            let format = format_of(&source, location.path(), options)?;
            let reader = reader(source, format, options)?;
            let (schema, slow) = (reader.schema().clone(), reader.is_slow() || !location.is_local());
            Ok((Part { name, origin: PartOrigin::File(location, format, stamp), schema, slow }, Some(reader)))
        }
        Input::Stream { text, .. } => {
            let reader = stream_reader(text, options)?;
            let schema = reader.schema().clone();
            Ok((Part { name, origin: PartOrigin::Pipe(Some(reader)), schema, slow: true }, None))
        }
    }
}

fn agree(first: &Part, other: &Part) -> Result<()> {
    let (expected, found) = (&first.schema, &other.schema);
    if expected.dim != found.dim {
        let what = format!("expected dimension {}, as in {}, found: `{}`", expected.dim, first.name, found.dim);
        return Err(Error::Format { what });
    }
    if expected.is_sparse() != found.is_sparse() {
        let kind = |schema: &Schema| if schema.is_sparse() { "sparse" } else { "dense" };
        let what = format!("expected {} rows, as in {}, found: `{}`", kind(expected), first.name, kind(found));
        return Err(Error::Format { what });
    }
    Ok(())
}

fn widest(a: Element, b: Element) -> Element {
    match (a, b) {
        (Element::F64, _) | (_, Element::F64) => Element::F64,
        (Element::F16, Element::F16) => Element::F16,
        _ => Element::F32,
    }
}
