//! The lists of one Arrow column, straight from the body of a record batch.
//!
//! A record batch may be as large as its file. If its lists have single or double precision, one
//! length and no nulls, their numbers are contiguous in the file and are lent from there.
//! Everything else is left to Arrow's decoder, which needs the whole body in memory.

use crate::bytes::ByteSource;
use crate::error::Result;
use crate::guard::damaged;
use crate::read::numbers::{Encoding, Kind};
use arrow_schema::{DataType, Fields};
use bytes::Bytes;
use std::ops::Range;

/// The position of a column of lists among the nodes and buffers in the header of a record batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListColumn {
    node: usize,
    buffer: usize,
    /// Bytes per offset. Lists of fixed length have no offsets.
    offset: Option<usize>,
    encoding: Encoding,
}

/// Rows of a record batch that have not been taken yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lists {
    pub rows: usize,
    /// Position of the first of them in the file.
    start: u64,
    pub encoding: Encoding,
}

impl ListColumn {
    /// Column `column`, if its numbers have single or double precision and the layout of the
    /// columns before it is fixed.
    pub fn find(fields: &Fields, column: usize) -> Option<Self> {
        let (item, offset) = match fields.get(column)?.data_type() {
            DataType::List(item) => (item, Some(4)),
            DataType::LargeList(item) => (item, Some(8)),
            DataType::FixedSizeList(item, _) => (item, None),
            _ => return None,
        };
        let before = fields[..column].iter().map(|field| size(field.data_type()));
        let (node, buffer) = before.reduce(add).unwrap_or(Some((0, 0)))?;
        let kind = match item.data_type() {
            DataType::Float32 => Kind::F32,
            DataType::Float64 => Kind::F64,
            _ => return None,
        };
        Some(ListColumn { node, buffer, offset, encoding: Encoding::in_memory(kind) })
    }

    /// The lists of a record batch with this body; `None` if Arrow's decoder must read it.
    pub fn lists(
        &self,
        batch: arrow_ipc::RecordBatch,
        body: Range<u64>,
        dim: usize,
        source: &ByteSource,
    ) -> Result<Option<Lists>> {
        let (Some(nodes), Some(buffers)) = (batch.nodes(), batch.buffers()) else { return Ok(None) };
        let values = self.buffer + if self.offset.is_some() { 3 } else { 2 };
        if batch.compression().is_some() || self.node + 1 >= nodes.len() || values >= buffers.len() {
            return Ok(None);
        }
        let (lists, items) = (nodes.get(self.node), nodes.get(self.node + 1));
        let (Ok(rows), Ok(numbers)) = (usize::try_from(batch.length()), u64::try_from(items.length())) else { return Ok(None) };
        if (lists.length(), lists.null_count(), items.null_count()) != (batch.length(), 0, 0) {
            return Ok(None);
        }
        // The position of a buffer in the file, if it has at least `bytes` bytes and is within the
        // body.
        let within = |buffer: &arrow_ipc::Buffer, bytes: u64| {
            let start = body.start.checked_add(u64::try_from(buffer.offset()).ok()?)?;
            let length = u64::try_from(buffer.length()).ok().filter(|length| *length >= bytes)?;
            start.checked_add(length).filter(|end| *end <= body.end).map(|_| start)
        };
        if buffers.iter().any(|buffer| within(buffer, 0).is_none()) {
            return Ok(None);
        }
        let first = match self.offset {
            None => Some(0),
            Some(width) => {
                let bytes = rows.checked_add(1).and_then(|offsets| offsets.checked_mul(width));
                match bytes.and_then(|bytes| Some((bytes, within(buffers.get(self.buffer + 1), bytes as u64)?))) {
                    Some((bytes, start)) => regular(&source.read_all_at(start, bytes)?, width, dim),
                    None => None,
                }
            }
        };
        let number = self.encoding.size() as u64;
        let start = first.and_then(|first| {
            (rows as u64).checked_mul(dim as u64)?.checked_add(first).filter(|end| *end <= numbers)?;
            Some(within(buffers.get(values), numbers.checked_mul(number)?)? + number * first)
        });
        // Errors are left to Arrow's decoder, and so are numbers that may span two chunks.
        let whole = start.filter(|start| start.is_multiple_of(number));
        Ok(whole.map(|start| Lists { rows, start, encoding: self.encoding }))
    }
}

impl Lists {
    /// Passes the next rows to `see`, at most `most`, in pieces of whole numbers. Returns the
    /// number of rows.
    pub fn take(&mut self, most: usize, dim: usize, source: &ByteSource, see: &mut dyn FnMut(&Bytes)) -> Result<usize> {
        let rows = most.min(self.rows);
        let number = self.encoding.size();
        let mut left = rows as u64 * dim as u64 * number as u64;
        while left > 0 {
            let mut bytes = source.read_at(self.start, usize::try_from(left).unwrap_or(usize::MAX))?;
            bytes.truncate(bytes.len() - bytes.len() % number);
            if bytes.is_empty() {
                return Err(damaged("a message that is cut off"));
            }
            see(&bytes);
            left -= bytes.len() as u64;
            self.start += bytes.len() as u64;
        }
        self.rows -= rows;
        Ok(rows)
    }
}

/// The first of these offsets, if rows of `dim` numbers follow one another.
fn regular(bytes: &[u8], width: usize, dim: usize) -> Option<u64> {
    let offset = |bytes: &[u8]| match bytes.try_into() {
        Ok(bytes) => i64::from_ne_bytes(bytes),
        Err(_) => i64::from(i32::from_ne_bytes(bytes.try_into().expect("4 bytes or 8"))),
    };
    let mut offsets = bytes.chunks_exact(width).map(offset);
    let first = offsets.next()?;
    let mut expected = first;
    let one_after_another = offsets.all(|offset| {
        expected = expected.saturating_add(dim as i64);
        offset == expected
    });
    u64::try_from(first).ok().filter(|_| one_after_another)
}

/// Numbers of nodes and buffers of a column; `None` if they vary from batch to batch, or are not
/// known here.
fn size(kind: &DataType) -> Option<(usize, usize)> {
    use DataType::*;
    match kind {
        Null => Some((1, 0)),
        Boolean | FixedSizeBinary(_) | Dictionary(_, _) => Some((1, 2)),
        Utf8 | LargeUtf8 | Binary | LargeBinary => Some((1, 3)),
        List(item) | LargeList(item) | Map(item, _) => add(Some((1, 2)), size(item.data_type())),
        FixedSizeList(item, _) => add(Some((1, 1)), size(item.data_type())),
        Struct(fields) => fields.iter().map(|field| size(field.data_type())).fold(Some((1, 1)), add),
        kind if kind.is_primitive() => Some((1, 2)),
        _ => None,
    }
}

fn add(a: Option<(usize, usize)>, b: Option<(usize, usize)>) -> Option<(usize, usize)> {
    a.zip(b).map(|(a, b)| (a.0 + b.0, a.1 + b.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::Field;
    use std::sync::Arc;

    fn find(types: &[DataType]) -> Option<ListColumn> {
        let fields: Fields = types.iter().map(|kind| Field::new("x", kind.clone(), true)).collect();
        ListColumn::find(&fields, types.len() - 1)
    }

    #[test]
    fn a_column_is_found_behind_others() {
        use DataType::*;
        let item = |kind| Arc::new(Field::new("item", kind, true));
        let lists = List(item(Float32));
        assert_eq!(
            find(std::slice::from_ref(&lists)),
            Some(ListColumn { node: 0, buffer: 0, offset: Some(4), encoding: Encoding::in_memory(Kind::F32) })
        );
        let before =
            [Null, Int8, Utf8, LargeBinary, List(item(Utf8)), FixedSizeList(item(Float16), 3), Struct(vec![item(Date32)].into())];
        let behind = [&before[..], &[LargeList(item(Float64))]].concat();
        assert_eq!(
            find(&behind),
            Some(ListColumn { node: 10, buffer: 19, offset: Some(8), encoding: Encoding::in_memory(Kind::F64) })
        );
        assert_eq!(find(&[Utf8View, lists]), None);
        assert_eq!((find(&[List(item(Float16))]), find(&[Float32])), (None, None));
    }

    #[test]
    fn offsets_are_regular_or_not() {
        let bytes = |offsets: &[i32]| offsets.iter().flat_map(|offset| offset.to_ne_bytes()).collect::<Vec<u8>>();
        assert_eq!(regular(&bytes(&[0, 3, 6]), 4, 3), Some(0));
        assert_eq!(regular(&bytes(&[6, 9]), 4, 3), Some(6));
        assert_eq!(regular(&7i64.to_ne_bytes(), 8, 3), Some(7));
        for wrong in [&[0, 3, 7][..], &[0, 2, 6], &[-3, 0], &[0, 0], &[]] {
            assert_eq!(regular(&bytes(wrong), 4, 3), None, "{wrong:?}");
        }
    }
}
