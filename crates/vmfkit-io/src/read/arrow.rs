//! Arrow IPC files, including Feather version 2, and streams.
//!
//! A file is a stream between two magic words, followed by a footer with the positions of its
//! record batches. Both are read sequentially, message by message. One message, a record batch, is
//! in memory at a time. With O_DIRECT, [`arrow_lists`](crate::read::arrow_lists) reads lists
//! without even that.

use crate::bytes::{ByteReader, ByteSource};
use crate::error::{Error, Result};
use crate::guard::{damaged, from_arrow, guarded};
use crate::read::arrow_lists::{ListColumn, Lists};
use crate::read::arrow_messages::{Messages, TRUSTED, body_length, parse};
use crate::read::columns::{Chosen, Columns, Coordinates};
use crate::read::records;
use crate::{Batch, ByteBuffers, Element, Reader, Schema};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::MessageHeader;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow_schema::{DataType, SchemaRef};
use bytes::Bytes;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Rows of an Arrow file or stream.
pub(crate) struct ArrowReader {
    messages: Messages,
    /// Position of the message after the schema.
    start: u64,
    arrow_schema: SchemaRef,
    projection: Vec<usize>,
    chosen: Chosen,
    id_type: Option<DataType>,
    schema: Schema,
    dictionaries: HashMap<i64, ArrayRef>,
    /// Memory of the current record batch, kept for the next one.
    body: Buffer,
    current: Option<RecordBatch>,
    /// Rows of the current record batch that have been returned.
    taken: usize,
    /// The column of lists, if its numbers can be lent from the file, and those of the current
    /// record batch.
    column: Option<ListColumn>,
    lists: Option<Lists>,
    /// Number of record batches read.
    batches: usize,
    /// Number of rows returned.
    row: u64,
}

impl ArrowReader {
    /// Opens a file. The rows of a local file are counted, which reads the header of each record
    /// batch. For an object this would fetch most of its bytes.
    pub(crate) fn open(source: ByteSource, columns: &Columns) -> Result<Self> {
        let counts = source.is_local();
        let mut reader = ArrowReader::new(Messages::from_source(source)?, columns)?;
        if counts {
            reader.count_rows()?;
        }
        Ok(reader)
    }

    /// Opens a pipe, which can be read once.
    pub(crate) fn from_pipe(input: ByteReader, columns: &Columns) -> Result<Self> {
        ArrowReader::new(Messages::from_pipe(input), columns)
    }

    fn new(mut messages: Messages, columns: &Columns) -> Result<Self> {
        guarded(|| {
            let metadata = messages.first()?;
            let message = parse(&metadata)?;
            let Some(schema) = message.header_as_schema() else {
                return Err(damaged(format!("{:?} instead of the schema", message.header_type())));
            };
            if !schema.endianness().equals_to_target_endianness() {
                let what = format!("numbers must be in the byte order of this machine, found: `{:?}`", schema.endianness());
                return Err(Error::Format { what });
            }
            let arrow_schema = Arc::new(try_fb_to_schema(schema).map_err(from_arrow)?);
            messages.skip(body_length(&message)?)?;
            let chosen = columns.choose(arrow_schema.fields())?;
            let id_type = chosen.id.map(|column| arrow_schema.field(column).data_type().clone());
            let (projection, projected) = chosen.project();
            let mut reader = ArrowReader {
                start: messages.position(),
                messages,
                arrow_schema,
                projection,
                schema: chosen.schema(chosen.dim.unwrap_or(0), None),
                chosen: projected,
                id_type,
                dictionaries: HashMap::new(),
                body: Buffer::default(),
                current: None,
                taken: 0,
                column: None,
                lists: None,
                batches: 0,
                row: 0,
            };
            if let (None, Coordinates::List(column)) = (chosen.dim, reader.chosen.coordinates.clone()) {
                if reader.next_batch()? {
                    let first = reader.current.as_ref().expect("a record batch was read");
                    reader.schema.dim = records::first_length(first, column)?;
                } else {
                    reader.schema.rows = Some(0);
                }
            }
            Ok(reader)
        })
    }

    /// The column of lists, if there are no weights and ids and its numbers can be lent from the
    /// file unless they are compressed.
    fn list_column(&self) -> Option<ListColumn> {
        match (&self.chosen.coordinates, self.chosen.weight, self.chosen.id) {
            (Coordinates::List(column), None, None) => ListColumn::find(self.arrow_schema.fields(), self.projection[*column]),
            _ => None,
        }
    }

    /// Adds up the lengths in the headers of all record batches, and records the memory for the
    /// largest. Leaves the reader as after `rewind`.
    fn count_rows(&mut self) -> Result<()> {
        self.rewind()?;
        let (mut rows, mut held) = (0u64, 0);
        let lists_alone = self.list_column().is_some();
        let row_bytes = self.schema.dim as u64 * if self.schema.element == Element::F64 { 8 } else { 4 };
        while let Some(metadata) = self.messages.next()? {
            let message = parse(&metadata)?;
            if let Some(batch) = message.header_as_record_batch() {
                let length = u64::try_from(batch.length()).map_err(damaged)?;
                rows = rows.checked_add(length).ok_or_else(|| damaged("more rows than can be counted"))?;
                let body = body_length(&message)?;
                held = held.max(match batch.compression() {
                    // They are lent from the file.
                    None if lists_alone => 0,
                    None => body,
                    Some(_) => body.saturating_add(length.saturating_mul(row_bytes)),
                });
            }
            self.messages.skip(body_length(&message)?)?;
        }
        self.rewind()?;
        (self.schema.rows, self.schema.held) = (Some(rows), held);
        Ok(())
    }

    /// Reads messages up to a record batch with rows. Returns false at the end.
    fn next_batch(&mut self) -> Result<bool> {
        self.taken = 0;
        (self.current, self.lists) = (None, None);
        while let Some(metadata) = self.messages.next()? {
            let message = parse(&metadata)?;
            if let (Some(column), Some(batch)) = (self.column, message.header_as_record_batch())
                && let Some(lists) = self.messages.lists(column, batch, body_length(&message)?, self.schema.dim)?
            {
                self.batches += 1;
                if lists.rows > 0 {
                    self.lists = Some(lists);
                    return Ok(true);
                }
                continue;
            }
            // Fresh memory costs more than reading into it, so the last buffer is reused unless a
            // dictionary still refers to it.
            let mut bytes = std::mem::take(&mut self.body).into_vec().unwrap_or_default();
            self.messages.take_into(body_length(&message)?, &mut bytes)?;
            let body = Buffer::from_vec(bytes);
            self.body = body.clone();
            let version = message.version();
            match message.header_type() {
                MessageHeader::DictionaryBatch => {
                    let batch = message.header_as_dictionary_batch().ok_or_else(|| damaged("a dictionary without data"))?;
                    check_buffers(batch.data().ok_or_else(|| damaged("a dictionary without data"))?, &body)?;
                    read_dictionary(&body, batch, &self.arrow_schema, &mut self.dictionaries, &version).map_err(from_arrow)?;
                }
                MessageHeader::RecordBatch => {
                    let batch = message.header_as_record_batch().ok_or_else(|| damaged("a record batch without data"))?;
                    self.batches += 1;
                    check_buffers(batch, &body)?;
                    let schema = self.arrow_schema.clone();
                    let decoder =
                        RecordBatchDecoder::try_new(&body, batch, schema, &self.dictionaries, &version).map_err(from_arrow)?;
                    let records = decoder.with_projection(Some(&self.projection)).read_record_batch().map_err(from_arrow)?;
                    if records.num_rows() > 0 {
                        self.current = Some(records);
                        return Ok(true);
                    }
                }
                other => return Err(damaged(format!("{other:?} among the record batches"))),
            }
        }
        Ok(false)
    }

    fn read_rows(&mut self, most: usize, batch: &mut Batch) -> Result<()> {
        records::prepare(batch, self.schema.element, self.chosen.weight.is_some(), self.id_type.as_ref());
        while batch.rows < most && self.has_rows()? {
            if let Some(lists) = &mut self.lists {
                let encoding = lists.encoding;
                let mut append = |bytes: &Bytes| encoding.append(bytes, &mut batch.values);
                let added = self.messages.take_lists(lists, most - batch.rows, self.schema.dim, &mut append)?;
                batch.rows += added;
                self.row += added as u64;
                continue;
            }
            let (rows, first) = self.take_records(most - batch.rows);
            let records = self.current.as_ref().expect("a record batch with rows");
            records::append(&self.chosen, records, rows, first, self.schema.dim, batch)?;
        }
        Ok(())
    }

    /// Continues with the next record batch if necessary. Returns false at the end.
    fn has_rows(&mut self) -> Result<bool> {
        let left = self.current.as_ref().is_some_and(|records| self.taken < records.num_rows());
        if left || self.lists.is_some_and(|lists| lists.rows > 0) { Ok(true) } else { self.next_batch() }
    }

    /// The next rows of the current record batch, at most `most`, and the number of its first row
    /// in the file.
    fn take_records(&mut self, most: usize) -> (Range<usize>, u64) {
        let left = self.current.as_ref().map_or(0, RecordBatch::num_rows) - self.taken;
        let rows = self.taken..self.taken + most.min(left);
        let first = self.row - self.taken as u64;
        self.taken = rows.end;
        self.row += rows.len() as u64;
        (rows, first)
    }

    /// The position for error messages.
    fn location(&self) -> String {
        format!("record batch {}", self.batches.saturating_sub(1))
    }
}

impl Reader for ArrowReader {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&mut self, most: usize, batch: &mut Batch) -> Result<()> {
        guarded(|| self.read_rows(most, batch)).map_err(|error| error.at(self.location()))
    }

    fn lends_bytes(&self) -> bool {
        self.column.is_some()
    }

    fn read_bytes(&mut self, most: usize, buffers: &mut ByteBuffers) -> Result<usize> {
        let read = guarded(|| {
            if !self.has_rows()? {
                return Ok(0);
            }
            if let Some(lists) = &mut self.lists {
                let added = self.messages.take_lists(lists, most, self.schema.dim, &mut |bytes| buffers.push(bytes.clone()))?;
                self.row += added as u64;
                return Ok(added);
            }
            let (range, first) = self.take_records(most);
            let records = self.current.as_ref().expect("a record batch with rows");
            let mut batch = Batch::default();
            records::prepare(&mut batch, self.schema.element, false, None);
            records::append(&self.chosen, records, range, first, self.schema.dim, &mut batch)?;
            buffers.push_rows(batch.values);
            Ok(batch.rows)
        });
        read.map_err(|error| error.at(self.location()))
    }

    fn rewind(&mut self) -> Result<()> {
        if self.messages.is_pipe() {
            // The batch that was read for the dimension has not been returned yet.
            return if self.row == 0 { Ok(()) } else { Err(vmfkit::Error::CannotRewind.into()) };
        }
        self.messages.rewind(self.start)?;
        self.dictionaries.clear();
        (self.current, self.lists, self.taken, self.batches, self.row) = (None, None, 0, 0, 0);
        Ok(())
    }

    fn read_direct(&mut self, memory: usize) -> Result<()> {
        // Buffers can be small if whole record batches are read into memory.
        let memory = if self.schema.held > 0 { memory.min(TRUSTED) } else { memory };
        if self.messages.read_direct(memory) {
            self.column = self.list_column().filter(|_| self.schema.held == 0);
        }
        self.rewind()
    }
}

/// Checks that buffers lie within the body, and that their decompressed size fits into memory.
fn check_buffers(batch: arrow_ipc::RecordBatch, body: &[u8]) -> Result<()> {
    if let Some(node) = batch.nodes().iter().flatten().find(|node| node.length() < 0 || node.null_count() < 0) {
        return Err(damaged(format!("a column of {} rows with {} nulls", node.length(), node.null_count())));
    }
    for buffer in batch.buffers().iter().flatten() {
        let (offset, length) = (usize::try_from(buffer.offset()), usize::try_from(buffer.length()));
        let within = offset.ok().zip(length.ok()).and_then(|(offset, length)| body.get(offset..offset.checked_add(length)?));
        let Some(bytes) = within else {
            return Err(damaged(format!("{} bytes at {} in a body of {}", buffer.length(), buffer.offset(), body.len())));
        };
        if batch.compression().is_some()
            && let Some(length) = bytes.first_chunk()
        {
            // -1 means that the buffer is not compressed. Otherwise the decoder allocates this size
            // and aborts if that fails.
            let unpacked = usize::try_from(i64::from_le_bytes(*length).max(0)).map_err(damaged)?;
            if Vec::<u8>::new().try_reserve_exact(unpacked).is_err() {
                return Err(damaged(format!("{} bytes that unpack to {unpacked}", bytes.len())));
            }
        }
    }
    Ok(())
}
