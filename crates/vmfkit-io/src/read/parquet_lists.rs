//! The lists of one Parquet column, straight from its pages.
//!
//! Arrow's reader builds an offset and a validity bit for every number from its levels. Here levels are only checked, run by
//! run, to be those of rows of one length without nulls, and numbers are copied, or lent where they are:
//! several times as fast, and never more in memory than a page and what is lent.

use crate::bytes::ByteSource;
use crate::error::Result;
use crate::read::guard::{damaged, from_parquet};
use crate::read::parquet_bytes::CheckedPages;
use crate::read::parquet_levels::{Regular, RowCounter, Run, Runs, each_level, first_other, packed};
use crate::read::records;
use crate::{Element, Stretches, Values};
use bytes::Bytes;
use half::f16;
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use std::sync::Arc;

/// Row groups by which pages are judged for their size: a few of all.
pub(crate) fn some_groups(metadata: &ParquetMetaData) -> impl Iterator<Item = &RowGroupMetaData> {
    const GROUPS: usize = 4;
    let groups = metadata.row_groups();
    groups.iter().step_by(groups.len().div_ceil(GROUPS).max(1))
}

/// Pages in memory at a time: of each of three blocks one that is not all its own, and the next.
const PAGES_HELD: u64 = 4;

/// Numbers of one column of lists, row group after row group.
pub(crate) struct ListPages {
    source: CheckedPages,
    metadata: Arc<ParquetMetaData>,
    column: Column,
    /// Numbers a row.
    dim: usize,
    /// The row group that is read, or would be next.
    group: usize,
    pages: Option<SerializedPageReader<CheckedPages>>,
    dictionary: Bytes,
    page: Numbers,
    counter: RowCounter,
    /// The number of the group's first row in the file.
    group_start: u64,
}

/// One leaf of the file's schema.
#[derive(Debug, Clone)]
struct Column {
    name: String,
    leaf: usize,
    element: Element,
    /// The definition level of a number, and of an item of the list be it null or not.
    number: u32,
    item: u32,
    level_width: u32,
}

/// The numbers of a page that are not yet taken.
#[derive(Default)]
struct Numbers {
    bytes: Bytes,
    encoding: Option<Encoding>,
    count: usize,
    taken: usize,
    indices: Option<Indices>,
}

/// Where we are among the indices of a page with a dictionary.
struct Indices {
    runs: Runs,
    width: u32,
    run: Run,
    /// Numbers of the run that are taken.
    taken: usize,
}

/// Levels and numbers of a page, whatever its version.
struct Parts {
    repetition: Bytes,
    definition: Bytes,
    numbers: Bytes,
    encoding: Encoding,
    count: usize,
}

impl ListPages {
    /// Reads the lists of leaf `leaf`; none if its pages may have encodings that only Arrow's reader knows. The dimension is
    /// that of the first row where it is not known, and 0 if there is no row.
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
        let known = |encoding| {
            use Encoding::*;
            matches!(encoding, PLAIN | RLE | PLAIN_DICTIONARY | RLE_DICTIONARY | BYTE_STREAM_SPLIT)
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
            dictionary: Bytes::new(),
            page: Numbers::default(),
            counter: RowCounter::new(0),
            group_start: 0,
        };
        if dim.is_none() {
            lists.dim = lists.first_length()?;
        }
        Ok(Some(lists))
    }

    /// Numbers a row; 0 if there are no rows to tell.
    pub(crate) fn dim(&self) -> usize {
        self.dim
    }

    /// The row group that is read now.
    pub(crate) fn group(&self) -> usize {
        self.group
    }

    /// What pages take beside the rows that are taken from them: those that the blocks under way have parts of, one that is next, and that one as it is in the
    /// file. Known from the first pages of some row groups, since programs make all pages alike.
    pub(crate) fn held_bytes(&self) -> Result<u64> {
        let mut largest = 0;
        for group in some_groups(&self.metadata) {
            let (rows, chunk) = (usize::try_from(group.num_rows()).map_err(damaged)?, group.column(self.column.leaf));
            let whole = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
            let mut pages = SerializedPageReader::new(Arc::new(self.source.clone()), chunk, rows, None).map_err(from_parquet)?;
            let mut found = 0;
            while let Some(page) = pages.peek_next_page().map_err(from_parquet)? {
                if let (false, Some(numbers)) = (page.is_dict, page.num_levels) {
                    found = (numbers as u64).saturating_mul(self.column.element_width() as u64);
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

    /// Reads the pages with O_DIRECT from now on, if the system can; before the first of them.
    pub(crate) fn read_direct(&mut self, memory: usize) {
        let columns = self.metadata.row_groups().iter().map(|group| group.column(self.column.leaf).byte_range());
        if let Some(direct) = self.source.0.direct(memory, columns.map(|(start, length)| start..start + length)) {
            self.source.0 = direct;
        }
    }

    /// Adds rows to `values`, at most `most` and all of one row group; their number, 0 at the end.
    pub(crate) fn append(&mut self, most: usize, values: &mut Values) -> Result<usize> {
        match (values, self.column.element) {
            (Values::F32(values), Element::F16) => {
                self.append_numbers::<2, _>(most, values, |bytes| f16::from_le_bytes(bytes).to_f32())
            }
            (Values::F32(values), Element::F32) => self.append_numbers::<4, _>(most, values, f32::from_le_bytes),
            (Values::F64(values), Element::F64) => self.append_numbers::<8, _>(most, values, f64::from_le_bytes),
            _ => unreachable!("a batch prepared for the element of the column"),
        }
    }

    /// The same for the bytes of rows of single or double precision, in the memory of the page where that stores numbers as they are.
    pub(crate) fn append_stretches(&mut self, most: usize, stretches: &mut Stretches) -> Result<usize> {
        let width = self.column.element_width();
        self.append_pages(most, |lists, most| {
            let page = &mut lists.page;
            if page.encoding == Some(Encoding::PLAIN) {
                let start = page.taken;
                page.taken = page.count.min(start.saturating_add(most));
                stretches.push(page.bytes.slice(width * start..width * page.taken));
                return Ok(page.taken - start);
            }
            if width == 4 { lists.take_bytes::<4>(most, stretches) } else { lists.take_bytes::<8>(most, stretches) }
        })
    }

    /// The bytes of numbers of a page that does not store them as they are.
    fn take_bytes<const WIDTH: usize>(&mut self, most: usize, stretches: &mut Stretches) -> Result<usize> {
        let mut numbers = Vec::new();
        let added = self.take(most, &mut numbers, |bytes: [u8; WIDTH]| bytes)?;
        stretches.push(numbers.into_flattened());
        Ok(added)
    }

    fn append_numbers<const WIDTH: usize, T>(
        &mut self,
        most: usize,
        values: &mut impl Extend<T>,
        number: impl Fn([u8; WIDTH]) -> T,
    ) -> Result<usize> {
        self.append_pages(most, |lists, most| lists.take(most, values, &number))
    }

    /// Has numbers taken from one page after the other, which `take` is asked to do for so many at most.
    fn append_pages(&mut self, most: usize, mut take: impl FnMut(&mut Self, usize) -> Result<usize>) -> Result<usize> {
        let wanted = most.saturating_mul(self.dim);
        let mut added = 0;
        while added < wanted {
            while added < wanted && self.next_page()? {
                added += take(self, wanted - added)?;
            }
            // Rows before the end of a row group are whole: its levels say so.
            if added > 0 || !self.next_group()? {
                break;
            }
        }
        Ok(added / self.dim.max(1))
    }

    /// Leaves a row group that has been read; false at the end of the file.
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
        self.dictionary = Bytes::new();
        self.counter = RowCounter::new(self.group_start);
        Ok(true)
    }

    /// Goes on to a page with numbers if those of the present one are taken; false at the end of the row group.
    fn next_page(&mut self) -> Result<bool> {
        while self.page.taken == self.page.count {
            let Some(parts) = self.parts()? else {
                return self.end_group();
            };
            self.check(&parts)?;
            let Parts { numbers: bytes, encoding, count, .. } = parts;
            let width = self.column.element_width();
            let dictionary = matches!(encoding, Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY);
            if !dictionary && bytes.len() < count.saturating_mul(width) {
                return Err(damaged(format!("{} bytes for {count} numbers", bytes.len())));
            }
            let indices = if dictionary && count > 0 {
                let bits = bytes.first().map_or(33, |&bits| u32::from(bits));
                if bits > 32 {
                    return Err(damaged(format!("indices of {bits} bits")));
                }
                let mut runs = Runs::new(1, bits, count);
                let run = runs.next(&bytes)?.expect("a page with numbers has a run");
                Some(Indices { runs, width: bits, run, taken: 0 })
            } else {
                None
            };
            self.page = Numbers { bytes, encoding: Some(encoding), count, taken: 0, indices };
        }
        Ok(true)
    }

    /// At the end of a row group: it must have had the rows that it promised.
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
            return Err(damaged(format!("{found} rows where {expected} are announced")));
        }
        Ok(false)
    }

    /// The parts of the next data page; none at the end of the row group, or before the first.
    fn parts(&mut self) -> Result<Option<Parts>> {
        let Some(pages) = &mut self.pages else {
            return Ok(None);
        };
        while let Some(page) = pages.get_next_page().map_err(from_parquet)? {
            match page {
                Page::DictionaryPage { buf, .. } => self.dictionary = buf,
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
                        return Err(damaged("levels that end behind their page"));
                    }
                    let (repetition, definition, numbers) = (buf.slice(..first), buf.slice(first..second), buf.slice(second..));
                    return Ok(Some(Parts { repetition, definition, numbers, encoding, count: num_values as usize }));
                }
            }
        }
        Ok(None)
    }

    /// Rows must be of one length, without nulls.
    fn check(&mut self, parts: &Parts) -> Result<()> {
        let name = &self.column.name;
        if let Some((place, level)) = first_other(&parts.definition, self.column.level_width, parts.count, self.column.number)? {
            let (mut begun, mut length) = (self.counter.begun, self.counter.length);
            each_level(&parts.repetition, 1, place + 1, |level| {
                (begun, length) = if level == 0 { (begun + 1, 1) } else { (begun, length + 1) };
                true
            })?;
            let row = begun.saturating_sub(1);
            return Err(match level {
                level if level > self.column.number => damaged(format!("a definition level of {level}")),
                level if level >= self.column.item => records::null_within(name, row, length.saturating_sub(1)),
                // An empty list is one level below its items, and a list that is null is below that.
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

    /// The length of a row of the group that is read, which is read again.
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

    /// The length of the first row of the file; 0 if there is none.
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

    /// Takes numbers of the page; says how many.
    fn take<const WIDTH: usize, T>(
        &mut self,
        most: usize,
        values: &mut impl Extend<T>,
        number: impl Fn([u8; WIDTH]) -> T,
    ) -> Result<usize> {
        let page = &mut self.page;
        let count = most.min(page.count - page.taken);
        let (start, end) = (page.taken, page.taken + count);
        let convert = |bytes: &[u8]| number(bytes.try_into().expect("chunks of this width"));
        match &mut page.indices {
            Some(indices) => {
                indices.take(&page.bytes, &self.dictionary, WIDTH, count, |bytes| values.extend([convert(bytes)]))?;
            }
            None if page.encoding == Some(Encoding::BYTE_STREAM_SPLIT) => {
                // All first bytes, then all second bytes and so on; nulls, which would shorten the streams, are refused.
                let stream = page.bytes.len() / WIDTH;
                let streams: [&[u8]; WIDTH] = std::array::from_fn(|i| &page.bytes[i * stream + start..i * stream + end]);
                values.extend((0..count).map(|place| number(std::array::from_fn(|i| streams[i][place]))));
            }
            None if page.encoding == Some(Encoding::PLAIN) => {
                values.extend(page.bytes[start * WIDTH..end * WIDTH].chunks_exact(WIDTH).map(convert));
            }
            None => return Err(damaged(format!("a page in an encoding that is not announced: {:?}", page.encoding))),
        }
        page.taken = end;
        Ok(count)
    }
}

impl Column {
    fn element_width(&self) -> usize {
        match self.element {
            Element::F16 => 2,
            Element::F32 => 4,
            Element::F64 => 8,
        }
    }
}

impl Indices {
    fn take(
        &mut self,
        bytes: &[u8],
        dictionary: &[u8],
        width: usize,
        mut count: usize,
        mut push: impl FnMut(&[u8]),
    ) -> Result<()> {
        let entry = |index: u32| {
            let start = index as usize * width;
            dictionary.get(start..start + width).ok_or_else(|| damaged(format!("index {index} into a smaller dictionary")))
        };
        while count > 0 {
            let (Run::Repeated { count: in_run, .. } | Run::Packed { count: in_run, .. }) = self.run;
            if self.taken == in_run {
                self.run = self.runs.next(bytes)?.ok_or_else(|| damaged("too few indices"))?;
                self.taken = 0;
                continue;
            }
            let now = count.min(in_run - self.taken);
            match self.run {
                Run::Repeated { value, .. } => {
                    let entry = entry(value)?;
                    (0..now).for_each(|_| push(entry));
                }
                Run::Packed { start, .. } => {
                    for place in self.taken..self.taken + now {
                        push(entry(packed(bytes, start, place, self.width))?);
                    }
                }
            }
            self.taken += now;
            count -= now;
        }
        Ok(())
    }
}

/// Levels of a version 1 page stand behind their length, in 4 bytes.
fn counted(bytes: Bytes) -> Result<(Bytes, Bytes)> {
    let length = bytes.get(..4).map(|length| u32::from_le_bytes(length.try_into().expect("4 bytes")) as usize);
    match length {
        Some(length) if length <= bytes.len() - 4 => Ok((bytes.slice(4..4 + length), bytes.slice(4 + length..))),
        _ => Err(damaged("levels that end behind their page")),
    }
}
