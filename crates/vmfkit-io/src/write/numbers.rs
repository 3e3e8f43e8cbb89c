//! Numbers of a batch in the precision of the file.

use crate::error::Result;
use crate::guard::from_arrow;
use crate::write::le_bytes;
use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, Float64Array};
use arrow_schema::{DataType, Field};
use std::borrow::Cow;
use std::io::Write;
use std::sync::Arc;

/// Numbers of a batch in one precision: of dense rows, or of entries.
pub(crate) enum Numbers<'a> {
    F32(Cow<'a, [f32]>),
    F64(Cow<'a, [f64]>),
}

/// The rows of a batch in CSR.
pub(crate) struct Entries<'a> {
    pub starts: Cow<'a, [usize]>,
    pub columns: Cow<'a, [u32]>,
    pub values: Numbers<'a>,
}

impl Numbers<'_> {
    /// The numbers at one position of each row.
    pub(crate) fn column(&self, dim: usize, index: usize) -> ArrayRef {
        match self {
            Numbers::F32(values) => Arc::new(Float32Array::from_iter_values(values.iter().skip(index).step_by(dim).copied())),
            Numbers::F64(values) => Arc::new(Float64Array::from_iter_values(values.iter().skip(index).step_by(dim).copied())),
        }
    }

    pub(crate) fn into_array(self, dim: usize) -> Result<ArrayRef> {
        let (number, values): (_, ArrayRef) = match self {
            Numbers::F32(values) => (DataType::Float32, Arc::new(Float32Array::from(values.into_owned()))),
            Numbers::F64(values) => (DataType::Float64, Arc::new(Float64Array::from(values.into_owned()))),
        };
        let item = Arc::new(Field::new("element", number, false));
        let lists = FixedSizeListArray::try_new(item, dim as i32, values, None).map_err(from_arrow)?;
        Ok(Arc::new(lists))
    }

    /// The shortest digits that are parsed to the same number.
    pub(crate) fn write_text(&self, index: usize, text: &mut Vec<u8>) {
        match self {
            Numbers::F32(values) => write!(text, "{:?}", values[index]),
            Numbers::F64(values) => write!(text, "{:?}", values[index]),
        }
        .expect("writing to memory cannot fail");
    }

    pub(crate) fn to_le_bytes(&self) -> Vec<u8> {
        match self {
            Numbers::F32(values) => le_bytes(values, f32::to_le_bytes),
            Numbers::F64(values) => le_bytes(values, f64::to_le_bytes),
        }
    }
}
