//! Writes and reads the rows of a stream: those held until there are enough for a start, and its sample.

use crate::error::{Error, Result};
use crate::rows::{RowBatch, Rows};
use crate::tensor_file::{Contents, File};

/// Writes rows under names that begin with `name`.
pub(crate) fn write(name: &str, rows: &RowBatch, contents: &mut Contents) {
    let mut write = |kind: &str, values: Vec<f64>| {
        contents.text(name, kind);
        contents.numbers(format!("{name}.values"), vec![values.len()], values);
    };
    let wide = |values: &[f32]| values.iter().map(|x| f64::from(*x)).collect();
    match rows.rows() {
        Rows::F32(values) => write("f32", wide(values)),
        Rows::F64(values) => write("f64", values.to_vec()),
        Rows::SparseF32(rows) => write("sparse f32", wide(rows.parts().2)),
        Rows::SparseF64(rows) => write("sparse f64", rows.parts().2.to_vec()),
    }
    let entries = match rows.rows() {
        Rows::SparseF32(rows) => Some((rows.parts().0, rows.parts().1)),
        Rows::SparseF64(rows) => Some((rows.parts().0, rows.parts().1)),
        _ => None,
    };
    if let Some((starts, columns)) = entries {
        contents.numbers(format!("{name}.starts"), vec![starts.len()], starts.iter().map(|x| *x as f64).collect());
        contents.numbers(format!("{name}.columns"), vec![columns.len()], columns.iter().map(|x| f64::from(*x)).collect());
    }
    contents.numbers(format!("{name}.dimension"), vec![1], vec![rows.dim() as f64]);
    contents.numbers(
        format!("{name}.weights"),
        vec![rows.len()],
        rows.weights().map_or_else(|| vec![1.0; rows.len()], <[f64]>::to_vec),
    );
}

/// Reads the rows that [`write`] wrote under this name and validates them.
pub(crate) fn read(name: &str, file: &File) -> Result<RowBatch<'static>> {
    let whole = |part: &str| -> Result<Vec<f64>> {
        let name = format!("{name}.{part}");
        let numbers = file.numbers(&name, [None])?;
        match numbers.iter().find(|x| !(x.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(*x))) {
            Some(x) => file.wrong(format!("tensor `{name}` must have whole numbers below 2^32, found: `{x}`")),
            None => Ok(numbers),
        }
    };
    let values = file.numbers(&format!("{name}.values"), [None])?;
    let narrow = |values: Vec<f64>| values.into_iter().map(|x| x as f32).collect();
    let structure = || -> Result<(Vec<usize>, Vec<u32>)> {
        let starts = whole("starts")?.into_iter().map(|x| x as usize).collect();
        Ok((starts, whole("columns")?.into_iter().map(|x| x as u32).collect()))
    };
    let dim = match whole("dimension")?[..] {
        [dim] => dim as usize,
        _ => return file.wrong(format!("tensor `{name}.dimension` must have one number")),
    };
    let kind = file.text(name);
    let rows = match kind {
        "f32" => RowBatch::owned(dim, narrow(values)),
        "f64" => RowBatch::owned(dim, values),
        "sparse f32" => structure().and_then(|(starts, columns)| RowBatch::sparse_owned(dim, starts, columns, narrow(values))),
        "sparse f64" => structure().and_then(|(starts, columns)| RowBatch::sparse_owned(dim, starts, columns, values)),
        other => return file.wrong(format!("metadata `{name}` must be a type of rows, found: `{other}`")),
    };
    let weights = file.numbers(&format!("{name}.weights"), [None])?;
    rows?.with_weights(weights).map_err(|error| match error {
        Error::WeightCount { rows, found } => {
            file.error(format!("there must be as many weights as rows, {rows}, found: `{found}`"))
        }
        other => other,
    })
}
