//! Arrays that the Python side has written: little endian, C order, of three types.

use anyhow::{Context, bail, ensure};
use std::path::Path;

/// An array and its shape.
pub struct Array {
    pub shape: Vec<usize>,
    pub values: Values,
}

pub enum Values {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I64(Vec<i64>),
}

impl Values {
    /// The values as f64.
    pub fn into_f64(self) -> Vec<f64> {
        match self {
            Values::F32(values) => values.into_iter().map(f64::from).collect(),
            Values::F64(values) => values,
            Values::I64(values) => values.into_iter().map(|x| x as f64).collect(),
        }
    }
}

/// Reads `name`.npy of a folder.
pub fn read(folder: &Path, name: &str) -> anyhow::Result<Array> {
    let path = folder.join(name).with_extension("npy");
    let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
    parse(&bytes).with_context(|| path.display().to_string())
}

fn parse(bytes: &[u8]) -> anyhow::Result<Array> {
    ensure!(bytes.len() > 10 && bytes.starts_with(b"\x93NUMPY\x01"), "not an array of format 1");
    let end = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let (header, data) = (std::str::from_utf8(bytes.get(10..end).context("the header is cut off")?)?, &bytes[end..]);
    ensure!(header.contains("'fortran_order': False"), "not in C order");
    let field = |from: &str, to: char| header.split_once(from).and_then(|(_, rest)| rest.split_once(to)).map(|(value, _)| value);
    let shape = field("'shape': (", ')').context("no shape")?;
    let shape: Vec<usize> =
        shape.split(',').map(str::trim).filter(|n| !n.is_empty()).map(str::parse).collect::<Result<_, _>>()?;
    let values = match field("'descr': '", '\'').context("no type")? {
        "<f4" => Values::F32(data.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()),
        "<f8" => Values::F64(data.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("eight bytes"))).collect()),
        "<i8" => Values::I64(data.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().expect("eight bytes"))).collect()),
        other => bail!("an array of f4, f8 or i8 is expected, found: `{other}`"),
    };
    let found = match &values {
        Values::F32(values) => values.len(),
        Values::F64(values) => values.len(),
        Values::I64(values) => values.len(),
    };
    ensure!(found == shape.iter().product::<usize>(), "{found} values for shape {shape:?}");
    Ok(Array { shape, values })
}
