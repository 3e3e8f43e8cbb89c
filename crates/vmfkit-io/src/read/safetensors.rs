//! Safetensors: one tensor with two axes from a file of named tensors.
//!
//! The header's claims are checked against the length of the file before anything is allocated for
//! them.

use crate::bytes::{ByteReader, ByteSource};
use crate::excerpt::excerpt;
use crate::read::array::{self, ArrayRows};
use crate::read::numbers::{ArrayBytes, Encoding, Kind};
use crate::{Error, Options, Result};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::collections::HashSet;
use std::io::Read;
use vmfkit::store::model::LONGEST_HEADER;

/// Opens the rows of the chosen tensor, or of the only one with two axes.
pub(crate) fn open(source: ByteSource, options: &Options) -> Result<ArrayRows> {
    let length = source.len();
    let mut file = ByteReader::new(source, 0);
    let (header, start) = read_header(&mut file, length)?;
    let tensors: Vec<(&str, &Value)> =
        header.0.iter().map(|(name, tensor)| (name.as_str(), tensor)).filter(|(name, _)| *name != "__metadata__").collect();
    let has_two_axes = |tensor: &Value| tensor["shape"].as_array().is_some_and(|shape| shape.len() == 2);
    let choices: Vec<(&str, bool)> = tensors.iter().map(|(name, tensor)| (*name, has_two_axes(tensor))).collect();
    let (name, tensor) = tensors[array::choose("tensor", &choices, options.array.as_deref())?];
    let tensor = Tensor::new(tensor, length - start).map_err(|what| in_tensor(name, &what))?;
    check_coverage(&tensors, length - start)?;
    file.seek_to(start + tensor.begin)?;
    let encoding = Encoding { kind: tensor.kind, big_endian: false };
    ArrayRows::new(ArrayBytes::new(file), encoding, false, tensor.rows, tensor.dim)
}

fn in_tensor(name: &str, what: &str) -> Error {
    Error::format(format!("tensor `{}`: {what}", excerpt(name.as_bytes())))
}

/// The members of a JSON object in order, to find duplicate names. A map would silently keep the
/// last of them.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

/// The header, and where the data begin.
fn read_header(file: &mut impl Read, length: u64) -> Result<(Members, u64)> {
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
            format!("the header must end within the file, {} bytes after its length, found: `{header_length}`", length - 8);
        return Err(Error::Format { what });
    }
    if header_length > LONGEST_HEADER as u64 {
        return Err(Error::format(format!("the header must be no longer than {LONGEST_HEADER} bytes, found: `{header_length}`")));
    }
    let mut text = vec![0; header_length as usize];
    file.read_exact(&mut text)?;
    let Ok(header) = serde_json::from_slice::<Members>(&text) else {
        return Err(Error::format(format!("the header must be a JSON object, found: `{}`", excerpt(&text))));
    };
    let mut names = HashSet::new();
    if let Some((name, _)) = header.0.iter().find(|(name, _)| !names.insert(name)) {
        return Err(Error::format(format!("tensors must have different names, found twice: `{}`", excerpt(name.as_bytes()))));
    }
    Ok((header, 8 + header_length))
}

/// Rejects tensors that overlap or leave gaps in the data, as the format does: bytes were inserted,
/// lost or changed.
fn check_coverage(tensors: &[(&str, &Value)], available: u64) -> Result<()> {
    let mut spans = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let (begin, end) = span(tensor, available).map_err(|what| in_tensor(name, &what))?;
        spans.push((begin, end, *name));
    }
    spans.sort_unstable();
    let mut covered = 0;
    for (begin, end, name) in spans {
        if begin != covered {
            let what =
                format!("its data must begin where those of the tensor before it end, at byte {covered}, found: `{begin}`");
            return Err(in_tensor(name, &what));
        }
        covered = end;
    }
    if covered != available {
        let what = format!("the data must end with the last tensor, at byte {covered}, bytes after the header: `{available}`");
        return Err(Error::Format { what });
    }
    Ok(())
}

/// Where the data of a tensor begin and end, relative to the end of the header.
fn span(tensor: &Value, available: u64) -> std::result::Result<(u64, u64), String> {
    match whole_numbers(&tensor["data_offsets"]).as_deref() {
        Some(&[begin, end]) if begin <= end && end <= available => Ok((begin, end)),
        _ => {
            let found = shown(&tensor["data_offsets"]);
            Err(format!("its data must be within the {available} bytes after the header, found: `{found}`"))
        }
    }
}

/// The header's description of a tensor.
struct Tensor {
    kind: Kind,
    rows: u64,
    dim: usize,
    begin: u64,
}

impl Tensor {
    /// Checks the description. `available` is the number of bytes after the header.
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
        let (begin, end) = span(tensor, available)?;
        let size = (Encoding { kind, big_endian: false }).size() as u64;
        let expected = rows.checked_mul(dim).and_then(|count| count.checked_mul(size));
        match (expected, usize::try_from(dim)) {
            (Some(expected), Ok(dim)) if expected == end - begin => Ok(Tensor { kind, rows, dim, begin }),
            _ => Err(format!("the shape {rows} x {dim} does not match the number of bytes, found: `{}`", end - begin)),
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
