//! Parquet files.
//!
//! A column of lists is read page by page ([`ListPages`]), everything else with Arrow's reader, one
//! row group at a time.

use crate::bytes::ByteSource;
use crate::error::{Error, Result};
use crate::guard::{damaged, from_arrow, from_parquet, guarded};
use crate::read::columns::{Chosen, Columns, Coordinates};
use crate::read::parquet_bytes::{CheckedMetadata, CheckedPages};
use crate::read::parquet_lists::{ListPages, some_groups};
use crate::read::records;
use crate::{Batch, ByteBuffers, Element, Reader, Schema};
use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use ::parquet::basic::Compression;
use ::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use arrow_array::RecordBatch;
use arrow_schema::DataType;

/// Rows that Arrow's reader decodes at a time. More would not fit into the cache.
const RECORDS: usize = 1024;

/// Usual size in bytes of a page or dictionary.
const USUAL_PAGE: u64 = 1 << 20;

/// Rows of a Parquet file.
pub(crate) struct ParquetReader {
    schema: Schema,
    chosen: Chosen,
    id_type: Option<DataType>,
    lists: Option<ListPages>,
    records: Records,
    /// Number of rows read.
    row: u64,
}

impl ParquetReader {
    /// Opens a file.
    pub(crate) fn open(source: ByteSource, columns: &Columns) -> Result<Self> {
        let local = source.is_local();
        let mut reader = ParquetReader::with_pages(source, columns, true)?;
        if let Some(lists) = reader.lists.as_ref().filter(|_| local) {
            // Errors of a page are reported when it is read.
            let pages = guarded(|| lists.held_bytes()).unwrap_or(0);
            reader.schema.held = reader.schema.held.saturating_add(pages);
        }
        Ok(reader)
    }

    /// The same; with `pages` false, lists are read with Arrow's reader.
    pub(crate) fn with_pages(source: ByteSource, columns: &Columns, pages: bool) -> Result<Self> {
        guarded(|| {
            let options = ArrowReaderOptions::new();
            let metadata = ArrowReaderMetadata::load(&CheckedMetadata(&source), options).map_err(from_parquet)?;
            let chosen = columns.choose(metadata.schema().fields())?;
            let (roots, projected) = chosen.project();
            let rows = check_metadata(metadata.metadata(), &roots, source.len())?;
            let mut lists = None;
            if let Coordinates::List(root) = chosen.coordinates
                && pages
            {
                let description = metadata.metadata().file_metadata().schema_descr();
                let leaf = (0..description.num_columns()).find(|&leaf| description.get_column_root_idx(leaf) == root);
                let leaf = leaf.ok_or_else(|| damaged("a column without values"))?;
                lists = ListPages::open(source.clone(), metadata.metadata().clone(), leaf, chosen.element, chosen.dim)?;
            }
            // If the lists are read from pages, Arrow's reader reads only the other columns.
            let (roots, projected) = if lists.is_some() {
                let beside = Chosen { coordinates: Coordinates::Flat(Vec::new()), ..chosen.clone() };
                beside.project()
            } else {
                (roots, projected)
            };
            let id_type = chosen.id.map(|column| metadata.schema().field(column).data_type().clone());
            let records =
                Records { source: CheckedPages(source), metadata, roots, group: 0, reader: None, current: None, taken: 0 };
            let dim = match (&lists, chosen.dim) {
                (Some(lists), _) => lists.dim(),
                (None, Some(dim)) => dim,
                (None, None) => records.first_length(&projected)?,
            };
            let schema = Schema { held: records.held_bytes(), ..chosen.schema(dim, Some(rows)) };
            Ok(ParquetReader { schema, chosen: projected, id_type, lists, records, row: 0 })
        })
    }

    fn read_rows(&mut self, most: usize, batch: &mut Batch) -> Result<()> {
        records::prepare(batch, self.schema.element, self.chosen.weight.is_some(), self.id_type.as_ref());
        while batch.rows < most {
            let wanted = most - batch.rows;
            let added = match &mut self.lists {
                Some(lists) => {
                    let added = lists.take(wanted, |numbers, encoding| encoding.append(&numbers, &mut batch.values));
                    let added = added.map_err(|error| error.at(format!("row group {}", lists.group())))?;
                    if self.records.roots.is_empty() {
                        batch.rows += added;
                    } else {
                        self.read_beside(added, batch)?;
                    }
                    added
                }
                None => self.read_records(wanted, batch)?,
            };
            if added == 0 {
                break;
            }
            self.row += added as u64;
        }
        Ok(())
    }

    /// Reads the weights and ids of rows whose lists have been read.
    fn read_beside(&mut self, rows: usize, batch: &mut Batch) -> Result<()> {
        let mut done = 0;
        while done < rows {
            let next = self.records.next(rows - done);
            let location = self.records.location();
            let Some((records, range)) = next.map_err(|error| error.at(location.clone()))? else {
                return Err(damaged("columns of different lengths").at(location));
            };
            let first = self.row + done as u64 - range.start as u64;
            done += range.len();
            records::append_beside(&self.chosen, &records, range, first, batch).map_err(|error| error.at(location))?;
        }
        Ok(())
    }

    fn read_records(&mut self, most: usize, batch: &mut Batch) -> Result<usize> {
        let next = self.records.next(most);
        let Some((records, range)) = next.map_err(|error| error.at(self.records.location()))? else {
            return Ok(0);
        };
        let first = self.row - range.start as u64;
        let added = range.len();
        records::append(&self.chosen, &records, range, first, self.schema.dim, batch)
            .map_err(|error| error.at(self.records.location()))?;
        Ok(added)
    }
}

impl Reader for ParquetReader {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&mut self, most: usize, batch: &mut Batch) -> Result<()> {
        guarded(|| self.read_rows(most, batch))
    }

    fn lends_bytes(&self) -> bool {
        // Parquet is little-endian.
        let as_in_memory = self.schema.element != Element::F16 && cfg!(target_endian = "little");
        self.lists.is_some() && as_in_memory && self.records.roots.is_empty()
    }

    fn read_bytes(&mut self, most: usize, buffers: &mut ByteBuffers) -> Result<usize> {
        let lists = self.lists.as_mut().expect("a reader that lends bytes has lists");
        let added = guarded(|| {
            let added = lists.take(most, |numbers, _| buffers.push(numbers));
            added.map_err(|error| error.at(format!("row group {}", lists.group())))
        })?;
        self.row += added as u64;
        Ok(added)
    }

    fn rewind(&mut self) -> Result<()> {
        if let Some(lists) = &mut self.lists {
            lists.rewind();
        }
        self.records.rewind();
        self.row = 0;
        Ok(())
    }

    fn read_direct(&mut self, memory: usize) -> Result<()> {
        if let Some(lists) = &mut self.lists {
            lists.read_direct(memory);
        }
        Ok(())
    }
}

/// Record batches of some columns, one row group after another.
struct Records {
    source: CheckedPages,
    metadata: ArrowReaderMetadata,
    roots: Vec<usize>,
    /// The next row group.
    group: usize,
    reader: Option<ParquetRecordBatchReader>,
    current: Option<RecordBatch>,
    /// Rows of the current batch that have been returned.
    taken: usize,
}

impl Records {
    /// The next rows, at most `most`, as a range of a record batch.
    fn next(&mut self, most: usize) -> Result<Option<(RecordBatch, std::ops::Range<usize>)>> {
        loop {
            if let Some(records) = self.current.as_ref().filter(|records| self.taken < records.num_rows()) {
                let start = self.taken;
                self.taken += most.min(records.num_rows() - start);
                return Ok(Some((records.clone(), start..self.taken)));
            }
            self.taken = 0;
            self.current = self.reader.as_mut().and_then(Iterator::next).transpose().map_err(from_arrow)?;
            if self.current.is_none() {
                if self.group == self.metadata.metadata().num_row_groups() {
                    return Ok(None);
                }
                self.group += 1;
                self.reader = Some(self.open(self.group - 1)?);
            }
        }
    }

    fn open(&self, group: usize) -> Result<ParquetRecordBatchReader> {
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(self.source.clone(), self.metadata.clone());
        let mask = ProjectionMask::roots(builder.parquet_schema(), self.roots.iter().copied());
        let rows = usize::try_from(self.metadata.metadata().row_group(group).num_rows()).map_err(damaged)?;
        let builder = builder.with_projection(mask).with_row_groups(vec![group]).with_batch_size(RECORDS.min(rows.max(1)));
        builder.build().map_err(from_parquet)
    }

    /// An estimate of the memory for one page and dictionary of each column, encoded and decoded,
    /// plus the largest compressed page. Pages are assumed to have their usual size unless the
    /// column is smaller.
    fn held_bytes(&self) -> u64 {
        let description = self.metadata.metadata().file_metadata().schema_descr();
        let of = |bytes: i64, times: u64, pages: u64| (times * u64::try_from(bytes).unwrap_or(0)).min(pages * USUAL_PAGE);
        let held = |group: &RowGroupMetaData| {
            let columns = group.columns().iter().enumerate();
            let chosen = columns.filter(|(leaf, _)| self.roots.contains(&description.get_column_root_idx(*leaf)));
            let (unpacked, packed) = chosen.fold((0, 0), |(unpacked, packed): (u64, u64), (_, chunk)| {
                let (times, pages) = if chunk.dictionary_page_offset().is_some() { (2, 3) } else { (1, 1) };
                let decoded = 8 * RECORDS as u64;
                let of_column = of(chunk.uncompressed_size(), times, pages) + decoded;
                (unpacked + of_column, packed.max(of(chunk.compressed_size(), 1, 1)))
            });
            unpacked + packed
        };
        some_groups(self.metadata.metadata()).map(held).max().unwrap_or(0)
    }

    /// The length of the list in the first row; 0 if there are no rows.
    fn first_length(&self, chosen: &Chosen) -> Result<usize> {
        let groups = self.metadata.metadata().row_groups();
        let first = groups.iter().position(|group| group.num_rows() > 0).map(|group| self.open(group)).transpose()?;
        let records = first.and_then(|mut reader| reader.next()).transpose().map_err(from_arrow)?;
        match (records, &chosen.coordinates) {
            (Some(records), Coordinates::List(column)) => records::first_length(&records, *column),
            _ => Ok(0),
        }
    }

    fn rewind(&mut self) {
        (self.group, self.reader, self.current, self.taken) = (0, None, None, 0);
    }

    /// The position for error messages.
    fn location(&self) -> String {
        format!("row group {}", self.group.saturating_sub(1))
    }
}

/// Checks what decoders would trust: the number of rows, and the byte ranges of columns. Returns
/// the number of rows.
fn check_metadata(metadata: &ParquetMetaData, roots: &[usize], length: u64) -> Result<u64> {
    let description = metadata.file_metadata().schema_descr();
    let mut rows: u64 = 0;
    for (number, group) in metadata.row_groups().iter().enumerate() {
        let at = |error: Error| error.at(format!("row group {number}"));
        let in_group = u64::try_from(group.num_rows()).map_err(|_| at(damaged(format!("{} rows", group.num_rows()))))?;
        rows = rows.checked_add(in_group).ok_or_else(|| at(damaged("more rows than can be counted")))?;
        if group.num_columns() != description.num_columns() {
            return Err(at(damaged(format!("{} columns", group.num_columns()))));
        }
        for (leaf, chunk) in group.columns().iter().enumerate() {
            if !roots.contains(&description.get_column_root_idx(leaf)) {
                continue;
            }
            let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
            let end = start.checked_add(chunk.compressed_size()).and_then(|end| u64::try_from(end).ok());
            if start < 0 || chunk.compressed_size() < 0 || end.is_none_or(|end| end > length) {
                let what = format!("a column of {} bytes at {start} in a file of {length}", chunk.compressed_size());
                return Err(at(damaged(what)));
            }
            if chunk.num_values() < 0 {
                return Err(at(damaged(format!("{} values", chunk.num_values()))));
            }
            use Compression::*;
            if !matches!(chunk.compression(), UNCOMPRESSED | SNAPPY | GZIP(_) | BROTLI(_) | LZ4 | LZ4_RAW | ZSTD(_)) {
                let name = chunk.compression().to_string();
                // Without the compression level.
                let name = name.split('(').next().unwrap_or_default();
                let what =
                    format!("columns must be compressed by snappy, gzip, brotli, lz4, zstd or not at all, found: `{name}`");
                return Err(at(Error::Format { what }));
            }
        }
    }
    let announced = metadata.file_metadata().num_rows();
    if u64::try_from(announced) != Ok(rows) {
        return Err(damaged(format!("{announced} rows, but {rows} in the row groups")));
    }
    Ok(rows)
}
