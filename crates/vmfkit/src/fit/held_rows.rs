//! Writes and reads the rows that a stream holds until there are enough for a start.

use crate::error::{Error, Result};
use crate::rows::owned::{Csr, OwnedRows, Values};
use crate::tensor_file::{Contents, File};

pub(crate) fn write(rows: &OwnedRows, contents: &mut Contents) {
    let mut write = |kind: &str, values: Vec<f64>| {
        contents.text("held", kind);
        contents.numbers("held.values", vec![values.len()], values);
    };
    let wide = |values: &[f32]| values.iter().map(|x| f64::from(*x)).collect();
    match rows.values() {
        Values::F32(values) => write("f32", wide(values)),
        Values::F64(values) => write("f64", values.clone()),
        Values::SparseF32(csr) => write("sparse f32", wide(&csr.values)),
        Values::SparseF64(csr) => write("sparse f64", csr.values.clone()),
    }
    let entries = match rows.values() {
        Values::SparseF32(csr) => Some((&csr.starts, &csr.columns)),
        Values::SparseF64(csr) => Some((&csr.starts, &csr.columns)),
        _ => None,
    };
    if let Some((starts, columns)) = entries {
        contents.numbers("held.starts", vec![starts.len()], starts.iter().map(|x| *x as f64).collect());
        contents.numbers("held.columns", vec![columns.len()], columns.iter().map(|x| f64::from(*x)).collect());
    }
    contents.numbers("held.dimension", vec![1], vec![rows.dim() as f64]);
    contents.numbers("held.weights", vec![rows.len()], rows.weights().to_vec());
}

/// Reads the rows that [`write`] wrote and validates them.
pub(crate) fn read(file: &File) -> Result<OwnedRows> {
    let whole = |name: &str| -> Result<Vec<f64>> {
        let numbers = file.numbers(name, [None])?;
        match numbers.iter().find(|x| !(x.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(*x))) {
            Some(x) => file.wrong(format!("tensor `{name}` must have whole numbers below 2^32, found: `{x}`")),
            None => Ok(numbers),
        }
    };
    let values = file.numbers("held.values", [None])?;
    let narrow = |values: Vec<f64>| values.into_iter().map(|x| x as f32).collect();
    let places = || -> Result<(Vec<usize>, Vec<u32>)> {
        let starts = whole("held.starts")?.into_iter().map(|x| x as usize).collect();
        Ok((starts, whole("held.columns")?.into_iter().map(|x| x as u32).collect()))
    };
    let values = match file.text("held") {
        "f32" => Values::F32(narrow(values)),
        "f64" => Values::F64(values),
        "sparse f32" => {
            let (starts, columns) = places()?;
            Values::SparseF32(Csr { starts, columns, values: narrow(values) })
        }
        "sparse f64" => {
            let (starts, columns) = places()?;
            Values::SparseF64(Csr { starts, columns, values })
        }
        other => return file.wrong(format!("metadata `held` must be a type of rows, found: `{other}`")),
    };
    let dim = match whole("held.dimension")?[..] {
        [dim] => dim as usize,
        _ => return file.wrong("tensor `held.dimension` must have one number"),
    };
    let weights = file.numbers("held.weights", [None])?;
    OwnedRows::checked(dim, values, weights).map_err(|error| match error {
        Error::WeightCount { rows, found } => {
            file.error(format!("there must be as many weights as rows, {rows}, found: `{found}`"))
        }
        other => other,
    })
}
