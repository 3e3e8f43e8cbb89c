//! Safetensors: one tensor of two axes out of a file of named ones.
//!
//! The header's claims are checked against the length of the file before anything is allocated for them.

use crate::array::{self, ArrayRows};
use crate::excerpt::excerpt;
use crate::numbers::{Bytes, Encoding, Kind};
use crate::place::Place;
use crate::{Error, Options, Result};
use serde_json::{Map, Value};
use std::io::{Read, Seek, SeekFrom};
use vmfkit::model_file::LONGEST_HEADER;

/// The rows of the tensor that was asked for, or of the only one with two axes.
pub(crate) fn open(place: &Place, options: &Options) -> Result<ArrayRows> {
    let (mut file, length) = place.open()?;
    let (header, start) = read_header(&mut file, length)?;
    let tensors: Vec<(&String, &Value)> = header.iter().filter(|(name, _)| *name != "__metadata__").collect();
    let has_two_axes = |tensor: &Value| tensor["shape"].as_array().is_some_and(|shape| shape.len() == 2);
    let choices: Vec<(&str, bool)> = tensors.iter().map(|(name, tensor)| (name.as_str(), has_two_axes(tensor))).collect();
    let (name, tensor) = tensors[array::choose("tensor", &choices, options.array.as_deref())?];
    let tensor = Tensor::new(tensor, length - start)
        .map_err(|what| Error::format(format!("tensor `{}`: {what}", excerpt(name.as_bytes()))))?;
    let start = start + tensor.begin;
    file.seek(SeekFrom::Start(start))?;
    let encoding = Encoding { kind: tensor.kind, big_endian: false };
    ArrayRows::new(Bytes::File { file, start }, encoding, false, tensor.rows, tensor.dim)
}

/// The header, and where the data begins.
fn read_header(file: &mut impl Read, length: u64) -> Result<(Map<String, Value>, u64)> {
    let mut counted = [0; 8];
    if length < 8 {
        return Err(Error::format(format!(
            "a safetensors file begins with 8 bytes, the length of its header, found: `{length}`"
        )));
    }
    file.read_exact(&mut counted)?;
    let header_length = u64::from_le_bytes(counted);
    if header_length > length - 8 {
        let what =
            format!("the header must end within the file, {} bytes behind its length, found: `{header_length}`", length - 8);
        return Err(Error::Format { what });
    }
    if header_length > LONGEST_HEADER as u64 {
        return Err(Error::format(format!("the header must be no longer than {LONGEST_HEADER} bytes, found: `{header_length}`")));
    }
    let mut text = vec![0; header_length as usize];
    file.read_exact(&mut text)?;
    match serde_json::from_slice(&text) {
        Ok(Value::Object(header)) => Ok((header, 8 + header_length)),
        _ => Err(Error::format(format!("the header must be a JSON object, found: `{}`", excerpt(&text)))),
    }
}

/// What the header says of a tensor.
struct Tensor {
    kind: Kind,
    rows: u64,
    dim: usize,
    begin: u64,
}

impl Tensor {
    /// Checks the claims; `available` is how many bytes of data the file has.
    fn new(tensor: &Value, available: u64) -> std::result::Result<Self, String> {
        let kind = match tensor["dtype"].as_str() {
            Some("F16") => Kind::F16,
            Some("BF16") => Kind::Bf16,
            Some("F32") => Kind::F32,
            Some("F64") => Kind::F64,
            _ => return Err(format!("the numbers must be F16, BF16, F32 or F64, found: `{}`", shown(&tensor["dtype"]))),
        };
        let shape = whole_numbers(&tensor["shape"]);
        let Some(&[rows, dim]) = shape.as_deref() else {
            return Err(format!("it must have two axes, rows and coordinates, found shape: `{}`", shown(&tensor["shape"])));
        };
        let offsets = whole_numbers(&tensor["data_offsets"]);
        let Some(&[begin, end]) = offsets.as_deref().filter(|offsets| matches!(offsets, [b, e] if b <= e && *e <= available))
        else {
            let found = shown(&tensor["data_offsets"]);
            return Err(format!("its data must be within the {available} bytes behind the header, found: `{found}`"));
        };
        let size = (Encoding { kind, big_endian: false }).size() as u64;
        let expected = rows.checked_mul(dim).and_then(|count| count.checked_mul(size));
        match (expected, usize::try_from(dim)) {
            (Some(expected), Ok(dim)) if expected == end - begin => Ok(Tensor { kind, rows, dim, begin }),
            _ => Err(format!("a shape of {rows} x {dim} does not have as many bytes of data as found: `{}`", end - begin)),
        }
    }
}

fn whole_numbers(list: &Value) -> Option<Vec<u64>> {
    list.as_array()?.iter().map(Value::as_u64).collect()
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => excerpt(text.as_bytes()),
        other => excerpt(other.to_string().as_bytes()),
    }
}
