//! Labelled rows of a folder, as the Python side writes them.

use crate::npy::{self, Values};
use std::path::Path;
use vmfkit::RowBatch;

/// The labels of a folder.
pub fn labels(folder: &Path) -> anyhow::Result<Vec<i64>> {
    match npy::read(folder, "labels")?.values {
        Values::I64(labels) => Ok(labels),
        _ => Err(anyhow::anyhow!("labels must be i8")),
    }
}

/// The rows of a folder.
pub enum Stored {
    Dense { dim: usize, values: Vec<f32> },
    Sparse { dim: usize, starts: Vec<usize>, columns: Vec<u32>, values: Vec<f32> },
}

impl Stored {
    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let floats = |values| if let Values::F32(values) = values { Ok(values) } else { Err(anyhow::anyhow!("rows must be f4")) };
        if folder.join("x.npy").exists() {
            let rows = npy::read(folder, "x")?;
            return Ok(Stored::Dense { dim: rows.shape[1], values: floats(rows.values)? });
        }
        let whole = |name: &str| match npy::read(folder, name)?.values {
            Values::I64(values) => Ok(values),
            _ => Err(anyhow::anyhow!("{name} must be i8")),
        };
        Ok(Stored::Sparse {
            dim: usize::try_from(whole("dim")?[0])?,
            starts: whole("starts")?.into_iter().map(usize::try_from).collect::<Result<_, _>>()?,
            columns: whole("columns")?.into_iter().map(u32::try_from).collect::<Result<_, _>>()?,
            values: floats(npy::read(folder, "values")?.values)?,
        })
    }

    pub fn block(&self) -> vmfkit::Result<RowBatch<'_>> {
        match self {
            Stored::Dense { dim, values } => RowBatch::new(*dim, values),
            Stored::Sparse { dim, starts, columns, values } => RowBatch::sparse(*dim, starts, columns, values),
        }
    }
}
