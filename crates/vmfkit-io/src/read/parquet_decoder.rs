//! Pages of encoded numbers, decoded by the column reader of the parquet crate.
//!
//! The column reader is given pages without levels, as if the column were one of required numbers:
//! the levels have been checked by then.

use crate::Element;
use crate::error::Result;
use crate::guard::{damaged, from_parquet};
use crate::read::numbers::{Encoding, Kind};
use bytes::Bytes;
use half::f16;
use parquet::basic::{self, Repetition, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::DataType;
use parquet::errors::Result as ParquetResult;
use parquet::schema::types::{self, ColumnDescriptor, ColumnPath};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use vmfkit_kernels::bytes::{Plain, as_bytes};

/// Numbers decoded at a time. They stay in cache until they are copied.
const BATCH: usize = 1 << 14;

/// Decodes the pages of a row group. Half precision is widened to single precision.
pub(crate) struct PageDecoder {
    element: Element,
    pages: Sender<Page>,
    reader: ColumnReader,
}

impl PageDecoder {
    pub(crate) fn new(element: Element) -> Self {
        let kind = if element == Element::F64 { Type::DOUBLE } else { Type::FLOAT };
        let number = types::Type::primitive_type_builder("number", kind).with_repetition(Repetition::REQUIRED).build();
        let number = Arc::new(number.expect("a type without conditions"));
        let column = ColumnDescriptor::new(number, 0, 0, ColumnPath::new(Vec::new()));
        let (pages, queue) = mpsc::channel();
        PageDecoder { element, pages, reader: get_column_reader(Arc::new(column), Box::new(PageQueue(queue))) }
    }

    /// Sets the dictionary of the pages that follow.
    pub(crate) fn set_dictionary(&mut self, numbers: Bytes) {
        let (buf, width) = match self.element {
            Element::F16 => (widen(&numbers), 4),
            Element::F32 => (numbers, 4),
            Element::F64 => (numbers, 8),
        };
        // The number of entries in the header of the page may be wrong.
        let num_values = (buf.len() / width) as u32;
        self.push(Page::DictionaryPage { buf, num_values, encoding: basic::Encoding::PLAIN, is_sorted: false });
    }

    /// Begins a page of `count` numbers, of which there is at least one.
    pub(crate) fn begin_page(&mut self, numbers: Bytes, encoding: basic::Encoding, count: usize) {
        let num_values = u32::try_from(count).expect("the header of a page has 32 bits for it");
        let levels = basic::Encoding::RLE;
        self.push(Page::DataPage {
            buf: numbers,
            num_values,
            encoding,
            def_level_encoding: levels,
            rep_level_encoding: levels,
            statistics: None,
        });
    }

    fn push(&mut self, page: Page) {
        self.pages.send(page).expect("the column reader keeps the queue");
    }

    /// How the decoded numbers are stored.
    pub(crate) fn encoding(&self) -> Encoding {
        Encoding::in_memory(if self.element == Element::F64 { Kind::F64 } else { Kind::F32 })
    }

    /// The next numbers of the page, at least one and at most `most`.
    pub(crate) fn next(&mut self, most: usize) -> Result<Bytes> {
        let numbers = match &mut self.reader {
            ColumnReader::FloatColumnReader(reader) => read(reader, most),
            ColumnReader::DoubleColumnReader(reader) => read(reader, most),
            _ => unreachable!("the column holds floats or doubles"),
        }?;
        if numbers.is_empty() { Err(damaged("a page with too few numbers")) } else { Ok(numbers) }
    }
}

fn read<T: DataType<T: Plain>>(reader: &mut ColumnReaderImpl<T>, most: usize) -> Result<Bytes> {
    let mut numbers = Vec::new();
    reader.read_records(most.min(BATCH), None, None, &mut numbers).map_err(from_parquet)?;
    Ok(Bytes::from_owner(Decoded(numbers)))
}

/// Half precision as single precision, both as Parquet stores them.
fn widen(numbers: &[u8]) -> Bytes {
    let (numbers, _) = numbers.as_chunks();
    numbers.iter().flat_map(|&number| f16::from_le_bytes(number).to_f32().to_le_bytes()).collect()
}

struct Decoded<T>(Vec<T>);

impl<T: Plain> AsRef<[u8]> for Decoded<T> {
    fn as_ref(&self) -> &[u8] {
        as_bytes(&self.0)
    }
}

/// The pages that the column reader has not read.
struct PageQueue(Receiver<Page>);

impl PageReader for PageQueue {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        Ok(self.0.try_recv().ok())
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        unreachable!("no page is skipped")
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        unreachable!("no page is skipped")
    }
}

impl Iterator for PageQueue {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
