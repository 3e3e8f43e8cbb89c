//! Rows from Arrow record batches.

use crate::error::{Error, Result};
use crate::read::columns::{Chosen, Coordinates};
use crate::{Batch, Element, Ids};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field};
use std::ops::Range;
use vmfkit::rows::Rows;

/// Empties a batch and gives its vectors the types of the chosen columns. Memory of the right type
/// is kept.
pub(crate) fn prepare(batch: &mut Batch, element: Element, weights: bool, ids: Option<&DataType>) {
    batch.rows = 0;
    element.start(&mut batch.values);
    match &mut batch.weights {
        Some(kept) if weights => kept.clear(),
        kept => *kept = weights.then(Vec::new),
    }
    match (&mut batch.ids, ids) {
        (kept, None) => *kept = None,
        (Some(Ids::Integers(kept)), Some(kind)) if is_integer(kind) => kept.clear(),
        (Some(Ids::Texts(kept)), Some(kind)) if !is_integer(kind) => kept.clear(),
        (kept, Some(kind)) => {
            *kept = Some(if is_integer(kind) { Ids::Integers(Vec::new()) } else { Ids::Texts(Vec::new()) });
        }
    }
}

fn is_integer(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, values) => is_integer(values),
        other => other.is_integer(),
    }
}

/// Appends rows of a record batch to a prepared batch. `first` is the number in the file of the
/// record batch's row 0.
pub(crate) fn append(
    chosen: &Chosen,
    records: &RecordBatch,
    rows: Range<usize>,
    first: u64,
    dim: usize,
    batch: &mut Batch,
) -> Result<()> {
    match &chosen.coordinates {
        Coordinates::List(column) => append_lists(records, *column, rows.clone(), first, dim, &mut batch.values)?,
        Coordinates::Flat(columns) => {
            let at = batch.rows * dim;
            let end = at + rows.len() * dim;
            match &mut batch.values {
                Rows::F32(values) => values.to_mut().resize(end, 0.0),
                Rows::F64(values) => values.to_mut().resize(end, 0.0),
                _ => unreachable!("a prepared batch is dense"),
            }
            for (index, &column) in columns.iter().enumerate() {
                let (field, array) = sliced(records, column, &rows);
                no_nulls(&field, &array, first + rows.start as u64)?;
                match &mut batch.values {
                    Rows::F32(values) => {
                        let values = values.to_mut();
                        each_number(&array, |row, number| values[at + row * dim + index] = number as f32);
                    }
                    Rows::F64(values) => {
                        let values = values.to_mut();
                        each_number(&array, |row, number| values[at + row * dim + index] = number);
                    }
                    _ => unreachable!("a prepared batch is dense"),
                }
            }
        }
    }
    append_beside(chosen, records, rows, first, batch)
}

/// Appends only the weights and ids of rows.
pub(crate) fn append_beside(
    chosen: &Chosen,
    records: &RecordBatch,
    rows: Range<usize>,
    first: u64,
    batch: &mut Batch,
) -> Result<()> {
    if let (Some(column), Some(weights)) = (chosen.weight, &mut batch.weights) {
        let (field, array) = sliced(records, column, &rows);
        no_nulls(&field, &array, first + rows.start as u64)?;
        each_number(&array, |_, weight| weights.push(weight));
    }
    if let (Some(column), Some(ids)) = (chosen.id, &mut batch.ids) {
        let (field, array) = sliced(records, column, &rows);
        no_nulls(&field, &array, first + rows.start as u64)?;
        append_ids(&field, &array, first + rows.start as u64, ids)?;
    }
    batch.rows += rows.len();
    Ok(())
}

/// The length of the first row of lists.
pub(crate) fn first_length(records: &RecordBatch, column: usize) -> Result<usize> {
    let (field, array) = sliced(records, column, &(0..1));
    no_nulls(&field, &array, 0)?;
    let length = match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().value_length(0) as usize,
        DataType::LargeList(_) => array.as_list::<i64>().value_length(0) as usize,
        DataType::FixedSizeList(_, length) => *length as usize,
        other => unreachable!("a column that was chosen for its lists is {other}"),
    };
    if length == 0 { Err(no_numbers(field.name())) } else { Ok(length) }
}

fn sliced(records: &RecordBatch, column: usize, rows: &Range<usize>) -> (Field, ArrayRef) {
    (records.schema_ref().field(column).clone(), records.column(column).slice(rows.start, rows.len()))
}

fn no_nulls(field: &Field, array: &ArrayRef, first: u64) -> Result<()> {
    match first_null(array) {
        Some(row) => Err(null(field.name(), first + row as u64)),
        None => Ok(()),
    }
}

fn first_null(array: &ArrayRef) -> Option<usize> {
    if array.null_count() == 0 { None } else { (0..array.len()).find(|&row| array.is_null(row)) }
}

/// The error of a row without a value.
pub(crate) fn null(column: &str, row: u64) -> Error {
    Error::Format { what: format!("row {row} of column {column} must have a value, found: `null`") }
}

/// The error of a row whose length differs from that of the first.
pub(crate) fn ragged(column: &str, row: u64, dim: usize, found: usize) -> Error {
    Error::Format { what: format!("row {row} of column {column} must have {dim} numbers as row 0 has, found: `{found}`") }
}

/// The error of a file whose first row is empty.
pub(crate) fn no_numbers(column: &str) -> Error {
    Error::Format { what: format!("row 0 of column {column} must have at least one number, found: `0`") }
}

/// The error of a list with a null.
pub(crate) fn null_within(column: &str, row: u64, position: usize) -> Error {
    Error::Format { what: format!("row {row} of column {column} must be all numbers, found at position {position}: `null`") }
}

fn append_lists(
    records: &RecordBatch,
    column: usize,
    rows: Range<usize>,
    first: u64,
    dim: usize,
    values: &mut Rows<'static>,
) -> Result<()> {
    let (field, array) = sliced(records, column, &rows);
    let first = first + rows.start as u64;
    no_nulls(&field, &array, first)?;
    let lengths = |length: &dyn Fn(usize) -> usize| match (0..array.len()).find(|&row| length(row) != dim) {
        Some(row) => Err(ragged(field.name(), first + row as u64, dim, length(row))),
        None => Ok(()),
    };
    let items = match array.data_type() {
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            lengths(&|row| lists.value_length(row) as usize)?;
            lists.values().slice(lists.value_offsets()[0] as usize, array.len() * dim)
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            lengths(&|row| lists.value_length(row) as usize)?;
            lists.values().slice(lists.value_offsets()[0] as usize, array.len() * dim)
        }
        DataType::FixedSizeList(_, length) => {
            lengths(&|_| *length as usize)?;
            array.as_fixed_size_list().values().slice(array.as_fixed_size_list().value_offset_at(0), array.len() * dim)
        }
        other => unreachable!("a column that was chosen for its lists is {other}"),
    };
    if let Some(hole) = first_null(&items) {
        return Err(null_within(field.name(), first + (hole / dim) as u64, hole % dim));
    }
    match (values, items.data_type()) {
        (Rows::F32(values), DataType::Float16) => {
            values.to_mut().extend(items.as_primitive::<Float16Type>().values().iter().map(|half| half.to_f32()));
        }
        (Rows::F32(values), DataType::Float32) => values.to_mut().extend_from_slice(items.as_primitive::<Float32Type>().values()),
        (Rows::F64(values), DataType::Float64) => values.to_mut().extend_from_slice(items.as_primitive::<Float64Type>().values()),
        (_, other) => unreachable!("a column that was chosen for its floats holds {other}"),
    }
    Ok(())
}

/// Calls `take` with the position and value of each number. There must be no nulls.
fn each_number(array: &ArrayRef, mut take: impl FnMut(usize, f64)) {
    fn all<T: ArrowPrimitiveType>(array: &ArrayRef, widen: impl Fn(T::Native) -> f64, take: &mut dyn FnMut(usize, f64)) {
        for (row, &number) in array.as_primitive::<T>().values().iter().enumerate() {
            take(row, widen(number));
        }
    }
    let take = &mut take;
    match array.data_type() {
        DataType::Float16 => all::<Float16Type>(array, |number| number.to_f64(), take),
        DataType::Float32 => all::<Float32Type>(array, f64::from, take),
        DataType::Float64 => all::<Float64Type>(array, |number| number, take),
        DataType::Int8 => all::<Int8Type>(array, f64::from, take),
        DataType::Int16 => all::<Int16Type>(array, f64::from, take),
        DataType::Int32 => all::<Int32Type>(array, f64::from, take),
        DataType::Int64 => all::<Int64Type>(array, |number| number as f64, take),
        DataType::UInt8 => all::<UInt8Type>(array, f64::from, take),
        DataType::UInt16 => all::<UInt16Type>(array, f64::from, take),
        DataType::UInt32 => all::<UInt32Type>(array, f64::from, take),
        DataType::UInt64 => all::<UInt64Type>(array, |number| number as f64, take),
        other => unreachable!("a column that was chosen for its numbers is {other}"),
    }
}

fn append_ids(field: &Field, array: &ArrayRef, first: u64, ids: &mut Ids) -> Result<()> {
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        // A few values stand for many rows: each is converted to an id once and then copied.
        let mut values = match ids {
            Ids::Integers(_) => Ids::Integers(Vec::new()),
            Ids::Texts(_) => Ids::Texts(Vec::new()),
        };
        let keys = dictionary.normalized_keys();
        if let Some(row) = keys.iter().position(|&key| key >= dictionary.values().len() || dictionary.values().is_null(key)) {
            return Err(null(field.name(), first + row as u64));
        }
        append_ids(field, dictionary.values(), first, &mut values)?;
        match (ids, values) {
            (Ids::Integers(ids), Ids::Integers(values)) => ids.extend(keys.iter().map(|&key| values[key])),
            (Ids::Texts(ids), Ids::Texts(values)) => ids.extend(keys.iter().map(|&key| values[key].clone())),
            _ => unreachable!("values of the same kind"),
        }
        return Ok(());
    }
    match (ids, array.data_type()) {
        (Ids::Texts(ids), DataType::Utf8) => ids.extend(array.as_string::<i32>().iter().map(text)),
        (Ids::Texts(ids), DataType::LargeUtf8) => ids.extend(array.as_string::<i64>().iter().map(text)),
        (Ids::Texts(ids), DataType::Utf8View) => ids.extend(array.as_string_view().iter().map(text)),
        (Ids::Integers(ids), DataType::Int8) => integers::<Int8Type>(array, ids),
        (Ids::Integers(ids), DataType::Int16) => integers::<Int16Type>(array, ids),
        (Ids::Integers(ids), DataType::Int32) => integers::<Int32Type>(array, ids),
        (Ids::Integers(ids), DataType::Int64) => integers::<Int64Type>(array, ids),
        (Ids::Integers(ids), DataType::UInt8) => integers::<UInt8Type>(array, ids),
        (Ids::Integers(ids), DataType::UInt16) => integers::<UInt16Type>(array, ids),
        (Ids::Integers(ids), DataType::UInt32) => integers::<UInt32Type>(array, ids),
        (Ids::Integers(ids), DataType::UInt64) => {
            for (row, &id) in array.as_primitive::<UInt64Type>().values().iter().enumerate() {
                let what = || {
                    let row = first + row as u64;
                    format!("row {row} of column {} must be below 2^63, to be an id, found: `{id}`", field.name())
                };
                ids.push(i64::try_from(id).map_err(|_| Error::Format { what: what() })?);
            }
        }
        (_, other) => unreachable!("a column that was chosen for its ids is {other}"),
    }
    Ok(())
}

/// Nulls here belong to dictionary entries that no row uses.
fn text(value: Option<&str>) -> String {
    value.unwrap_or_default().to_owned()
}

fn integers<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &ArrayRef, ids: &mut Vec<i64>) {
    ids.extend(array.as_primitive::<T>().values().iter().map(|&id| id.into()));
}
