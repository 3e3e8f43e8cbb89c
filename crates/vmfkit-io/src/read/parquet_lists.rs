//! The lists of one Parquet column, straight from its pages.
//!
//! Arrow's reader builds an offset and a validity bit for every number from its levels. Here the
//! levels are checked run by run: all rows must have the same length and no nulls. Numbers that are
//! stored plainly are lent from the page, others are decoded by [`PageDecoder`]. This is several
//! times as fast, and takes no more memory than a page and what is lent.

use crate::Element;
use crate::bytes::ByteSource;
use crate::error::Result;
use crate::guard::{damaged, from_parquet};
use crate::read::numbers::{self, Kind};
use crate::read::parquet_bytes::CheckedPages;
use crate::read::parquet_decoder::PageDecoder;
use crate::read::parquet_levels::{Regular, RowCounter, each_level, first_other};
use crate::read::records;
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use std::sync::Arc;

/// A few of all row groups, from which the size of pages is estimated.
pub(crate) fn some_groups(metadata: &ParquetMetaData) -> impl Iterator<Item = &RowGroupMetaData> {
    const GROUPS: usize = 4;
    let groups = metadata.row_groups();
    groups.iter().step_by(groups.len().div_ceil(GROUPS).max(1))
}

/// Pages in memory at a time: three blocks hold part of one each, and one page is read ahead.
const PAGES_HELD: u64 = 4;

/// Numbers of one column of lists, one row group after another.
pub(crate) struct ListPages {
    source: CheckedPages,
    metadata: Arc<ParquetMetaData>,
    column: Column,
    /// Numbers per row.
    dim: usize,
    /// The current row group, or the next one.
    group: usize,
    pages: Option<SerializedPageReader<CheckedPages>>,
    decoder: PageDecoder,
    page: Numbers,
    counter: RowCounter,
    /// The number in the file of the group's first row.
    group_start: u64,
}

/// One leaf of the file's schema.
#[derive(Debug, Clone)]
struct Column {
    name: String,
    leaf: usize,
    element: Element,
    /// The definition levels of a number, and of an item of the list, which may be null.
    number: u32,
    item: u32,
    level_width: u32,
}

/// The numbers of a page.
#[derive(Default)]
struct Numbers {
    /// The bytes of numbers that are stored plainly. The decoder has the others.
    plain: Option<Bytes>,
    count: usize,
    taken: usize,
}

/// Levels and numbers of a page of either version.
struct Parts {
    repetition: Bytes,
    definition: Bytes,
    numbers: Bytes,
    encoding: Encoding,
    count: usize,
}

impl ListPages {
    /// Opens the lists of leaf `leaf`; `None` if only Arrow's reader supports the encodings of its
    /// pages. If the dimension is not given, it is that of the first row, or 0 if there are no
    /// rows.
    pub(crate) fn open(
        source: ByteSource,
        metadata: Arc<ParquetMetaData>,
        leaf: usize,
        element: Element,
        dim: Option<usize>,
    ) -> Result<Option<Self>> {
        let description = metadata.file_metadata().schema_descr().column(leaf);
        let name = description.path().parts()[0].clone();
        let physical = match element {
            Element::F16 => Type::FIXED_LEN_BYTE_ARRAY,
            Element::F32 => Type::FLOAT,
            Element::F64 => Type::DOUBLE,
        };
        let number = description.max_def_level() as u32;
        let known = |encoding| match encoding {
            Encoding::PLAIN | Encoding::RLE | Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY => true,
            Encoding::BYTE_STREAM_SPLIT => element != Element::F16,
            _ => false,
        };
        let readable = metadata.row_groups().iter().all(|group| group.column(leaf).encodings().all(known));
        if description.max_rep_level() != 1 || description.physical_type() != physical || number == 0 || !readable {
            return Ok(None);
        }
        let item = number - u32::from(description.self_type().is_optional());
        let level_width = u32::BITS - number.leading_zeros();
        let column = Column { name, leaf, element, number, item, level_width };
        let mut lists = ListPages {
            source: CheckedPages(source),
            metadata,
            column,
            dim: dim.unwrap_or(0),
            group: 0,
            pages: None,
            decoder: PageDecoder::new(element),
            page: Numbers::default(),
            counter: RowCounter::new(0),
            group_start: 0,
        };
        if dim.is_none() {
            lists.dim = lists.first_length()?;
        }
        Ok(Some(lists))
    }

    /// Numbers per row; 0 if unknown because there are no rows.
    pub(crate) fn dim(&self) -> usize {
        self.dim
    }

    /// The current row group.
    pub(crate) fn group(&self) -> usize {
        self.group
    }

    /// An estimate of the memory for pages, in addition to the rows taken from them: those that
    /// blocks in progress share, and the next one, also compressed. It is based on the first pages
    /// of some row groups, since programs write all pages alike.
    pub(crate) fn held_bytes(&self) -> Result<u64> {
        let mut largest = 0;
        for group in some_groups(&self.metadata) {
            let (rows, chunk) = (usize::try_from(group.num_rows()).map_err(damaged)?, group.column(self.column.leaf));
            let whole = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
            let mut pages = SerializedPageReader::new(Arc::new(self.source.clone()), chunk, rows, None).map_err(from_parquet)?;
            let mut found = 0;
            while let Some(page) = pages.peek_next_page().map_err(from_parquet)? {
                if let (false, Some(numbers)) = (page.is_dict, page.num_levels) {
                    found = (numbers as u64).saturating_mul(self.column.encoding().size() as u64);
                    break;
                }
                pages.skip_next_page().map_err(from_parquet)?;
            }
            let packed =
                if chunk.compression() == Compression::UNCOMPRESSED { 0 } else { found.min(whole(chunk.compressed_size())) };
            let pages = PAGES_HELD.saturating_mul(found).min(whole(chunk.uncompressed_size()));
            largest = largest.max(pages.saturating_add(packed));
        }
        Ok(largest)
    }

    /// Back to the first row.
    pub(crate) fn rewind(&mut self) {
        self.group = 0;
        self.group_start = 0;
        self.pages = None;
        self.page = Numbers::default();
    }

    /// Reads the pages with O_DIRECT from now on, if possible. To be called before the first page
    /// is read.
    pub(crate) fn read_direct(&mut self, memory: usize) {
        let columns = self.metadata.row_groups().iter().map(|group| group.column(self.column.leaf).byte_range());
        if let Some(direct) = self.source.0.direct(memory, columns.map(|(start, length)| start..start + length)) {
            self.source.0 = direct;
        }
    }

    /// Passes rows to `see` as the bytes of encoded numbers: at most `most` rows, all of one row
    /// group. Returns how many; 0 at the end.
    pub(crate) fn take(&mut self, most: usize, mut see: impl FnMut(Bytes, numbers::Encoding)) -> Result<usize> {
        let wanted = most.saturating_mul(self.dim);
        let mut added = 0;
        while added < wanted {
            while added < wanted && self.next_page()? {
                let page = &mut self.page;
                let most = (wanted - added).min(page.count - page.taken);
                let (bytes, encoding) = match &page.plain {
                    Some(bytes) => {
                        let width = self.column.encoding().size();
                        (bytes.slice(width * page.taken..width * (page.taken + most)), self.column.encoding())
                    }
                    None => (self.decoder.next(most)?, self.decoder.encoding()),
                };
                let count = bytes.len() / encoding.size();
                page.taken += count;
                added += count;
                see(bytes, encoding);
            }
            // The levels of a row group have been checked: its last row is complete.
            if added > 0 || !self.next_group()? {
                break;
            }
        }
        Ok(added / self.dim.max(1))
    }

    /// Continues with the next row group. Returns false at the end of the file.
    fn next_group(&mut self) -> Result<bool> {
        let Some(group) = self.metadata.row_groups().get(self.group) else {
            return Ok(false);
        };
        if self.pages.take().is_some() {
            self.group_start += group.num_rows() as u64;
            self.group += 1;
        }
        self.open_group()
    }

    fn open_group(&mut self) -> Result<bool> {
        let Some(group) = self.metadata.row_groups().get(self.group) else {
            return Ok(false);
        };
        let rows = usize::try_from(group.num_rows()).map_err(damaged)?;
        let chunk = group.column(self.column.leaf);
        let pages = SerializedPageReader::new(Arc::new(self.source.clone()), chunk, rows, None).map_err(from_parquet)?;
        self.pages = Some(pages);
        self.page = Numbers::default();
        self.decoder = PageDecoder::new(self.column.element);
        self.counter = RowCounter::new(self.group_start);
        Ok(true)
    }

    /// Continues with the next page if all numbers of the current one are taken. Returns false at
    /// the end of the row group.
    fn next_page(&mut self) -> Result<bool> {
        while self.page.taken == self.page.count {
            let Some(parts) = self.parts()? else {
                return self.end_group();
            };
            self.check(&parts)?;
            let Parts { numbers, encoding, count, .. } = parts;
            let dictionary = matches!(encoding, Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY);
            if !dictionary && numbers.len() < count.saturating_mul(self.column.encoding().size()) {
                return Err(damaged(format!("{} bytes for {count} numbers", numbers.len())));
            }
            let plain = match encoding {
                Encoding::PLAIN => Some(numbers),
                // The decoder takes half precision for single precision, unless there is a
                // dictionary.
                _ if !dictionary && self.column.element == Element::F16 => {
                    return Err(damaged(format!("a page in an undeclared encoding: {encoding}")));
                }
                _ if count == 0 => None,
                _ => {
                    self.decoder.begin_page(numbers, encoding, count);
                    None
                }
            };
            self.page = Numbers { plain, count, taken: 0 };
        }
        Ok(true)
    }

    /// Checks at the end of a row group that it had the announced number of rows.
    fn end_group(&mut self) -> Result<bool> {
        if self.pages.is_none() {
            return Ok(false);
        }
        if self.counter.length != 0 && self.counter.length != self.dim {
            return Err(records::ragged(&self.column.name, self.counter.begun - 1, self.dim, self.counter.length));
        }
        let expected = self.metadata.row_group(self.group).num_rows() as u64;
        let found = self.counter.begun - self.group_start;
        if found != expected {
            return Err(damaged(format!("{found} rows where {expected} are declared")));
        }
        Ok(false)
    }

    /// The parts of the next data page; `None` at the end of the row group, or before the first
    /// group.
    fn parts(&mut self) -> Result<Option<Parts>> {
        let Some(pages) = &mut self.pages else {
            return Ok(None);
        };
        while let Some(page) = pages.get_next_page().map_err(from_parquet)? {
            match page {
                Page::DictionaryPage { buf, .. } => self.decoder.set_dictionary(buf),
                Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, .. } => {
                    if rep_level_encoding != Encoding::RLE || def_level_encoding != Encoding::RLE {
                        return Err(damaged(format!("levels in {rep_level_encoding} and {def_level_encoding}")));
                    }
                    let (repetition, rest) = counted(buf)?;
                    let (definition, numbers) = counted(rest)?;
                    return Ok(Some(Parts { repetition, definition, numbers, encoding, count: num_values as usize }));
                }
                Page::DataPageV2 { buf, num_values, encoding, def_levels_byte_len, rep_levels_byte_len, .. } => {
                    let (first, second) =
                        (rep_levels_byte_len as usize, rep_levels_byte_len as usize + def_levels_byte_len as usize);
                    if second > buf.len() {
                        return Err(damaged("levels that extend past their page"));
                    }
                    let (repetition, definition, numbers) = (buf.slice(..first), buf.slice(first..second), buf.slice(second..));
                    return Ok(Some(Parts { repetition, definition, numbers, encoding, count: num_values as usize }));
                }
            }
        }
        Ok(None)
    }

    /// Checks that rows have the same length and no nulls.
    fn check(&mut self, parts: &Parts) -> Result<()> {
        let name = &self.column.name;
        if let Some((index, level)) = first_other(&parts.definition, self.column.level_width, parts.count, self.column.number)? {
            let (mut begun, mut length) = (self.counter.begun, self.counter.length);
            each_level(&parts.repetition, 1, index + 1, |level| {
                (begun, length) = if level == 0 { (begun + 1, 1) } else { (begun, length + 1) };
                true
            })?;
            let row = begun.saturating_sub(1);
            return Err(match level {
                level if level > self.column.number => damaged(format!("a definition level of {level}")),
                level if level >= self.column.item => records::null_within(name, row, length.saturating_sub(1)),
                // An empty list is one level below its items, and a null list is below that.
                level if level + 1 == self.column.item => records::ragged(name, row, self.dim, 0),
                _ => records::null(name, row),
            });
        }
        if self.counter.follow(&parts.repetition, parts.count, self.dim)? == Regular::No {
            let row = self.counter.begun.saturating_sub(1).max(self.group_start);
            let found = self.length_in_group(row)?;
            return Err(records::ragged(&self.column.name, row, self.dim, found));
        }
        Ok(())
    }

    /// The length of a row of the current group, which is read again.
    fn length_in_group(&mut self, row: u64) -> Result<usize> {
        self.open_group()?;
        let (mut begun, mut found) = (self.group_start, 0);
        while let Some(parts) = self.parts()? {
            each_level(&parts.repetition, 1, parts.count, |level| {
                begun += u64::from(level == 0);
                found += usize::from(begun == row + 1);
                begun <= row + 1
            })?;
            if begun > row + 1 {
                break;
            }
        }
        Ok(found)
    }

    /// The length of the first row of the file; 0 if there are no rows.
    fn first_length(&mut self) -> Result<usize> {
        let Some(group) = self.metadata.row_groups().iter().position(|group| group.num_rows() > 0) else {
            return Ok(0);
        };
        self.group = group;
        self.open_group()?;
        let mut length = 0;
        while let Some(parts) = self.parts()? {
            let mut first = None;
            each_level(&parts.definition, self.column.level_width, parts.count.min(1), |level| {
                first = Some(level);
                true
            })?;
            if length == 0 && first.is_some_and(|level| level < self.column.item) {
                let (name, empty) = (&self.column.name, first.is_some_and(|level| level + 1 == self.column.item));
                return Err(if empty { records::no_numbers(name) } else { records::null(name, 0) });
            }
            let mut counter = RowCounter { begun: 0, length };
            let ended = counter.follow(&parts.repetition, parts.count, usize::MAX)? == Regular::No;
            length = counter.length;
            if ended {
                break;
            }
        }
        self.rewind();
        Ok(length)
    }
}

impl Column {
    /// How numbers are stored plainly.
    fn encoding(&self) -> numbers::Encoding {
        let kind = match self.element {
            Element::F16 => Kind::F16,
            Element::F32 => Kind::F32,
            Element::F64 => Kind::F64,
        };
        numbers::Encoding { kind, big_endian: false }
    }
}

/// Splits off the levels of a version 1 page, which follow their length in 4 bytes.
fn counted(bytes: Bytes) -> Result<(Bytes, Bytes)> {
    let length = bytes.get(..4).map(|length| u32::from_le_bytes(length.try_into().expect("4 bytes")) as usize);
    match length {
        Some(length) if length <= bytes.len() - 4 => Ok((bytes.slice(4..4 + length), bytes.slice(4 + length..))),
        _ => Err(damaged("levels that extend past their page")),
    }
}
