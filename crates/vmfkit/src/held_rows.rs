//! [`HeldRows`]: the first rows of a stream, kept until there are enough for a start.

use crate::block::{Block, Rows, Scalar, SparseRows};
use crate::error::{Error, Result};
use crate::tensor_file::{Contents, File};

/// Rows in the type they came in; in double precision, every coordinate stored, if they came in several.
#[derive(Debug, Clone)]
pub(crate) struct HeldRows {
    dim: usize,
    values: Values,
    weights: Vec<f64>,
}

#[derive(Debug, Clone)]
enum Values {
    F32(Vec<f32>),
    F64(Vec<f64>),
    SparseF32(Csr<f32>),
    SparseF64(Csr<f64>),
}

#[derive(Debug, Clone)]
struct Csr<T> {
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<T>,
}

impl<T: Scalar> Csr<T> {
    fn new() -> Self {
        Csr { starts: vec![0], columns: Vec::new(), values: Vec::new() }
    }

    fn extend(&mut self, rows: &SparseRows<T>, count: usize) {
        for (columns, values) in (0..count).map(|row| rows.row(row)) {
            self.columns.extend_from_slice(columns);
            self.values.extend_from_slice(values);
            self.starts.push(self.values.len());
        }
    }

    fn truncate(&mut self, rows: usize) {
        self.starts.truncate(rows + 1);
        let entries = self.starts.last().copied().unwrap_or_default();
        self.columns.truncate(entries);
        self.values.truncate(entries);
    }
}

impl HeldRows {
    pub fn new(block: &Block) -> Self {
        let values = match block.rows() {
            Rows::F32(_) => Values::F32(Vec::new()),
            Rows::F64(_) => Values::F64(Vec::new()),
            Rows::SparseF32(_) => Values::SparseF32(Csr::new()),
            Rows::SparseF64(_) => Values::SparseF64(Csr::new()),
        };
        HeldRows { dim: block.dim(), values, weights: Vec::new() }
    }

    pub fn dim(&self) -> usize {
        self.dim
    }

    pub fn len(&self) -> usize {
        self.weights.len()
    }

    /// Keeps the first rows only.
    pub fn truncate(&mut self, rows: usize) {
        match &mut self.values {
            Values::F32(values) => values.truncate(rows * self.dim),
            Values::F64(values) => values.truncate(rows * self.dim),
            Values::SparseF32(csr) => csr.truncate(rows),
            Values::SparseF64(csr) => csr.truncate(rows),
        }
        self.weights.truncate(rows);
    }

    /// How many rows count.
    pub fn count(&self) -> usize {
        self.weights.iter().filter(|weight| **weight > 0.0).count()
    }

    pub fn push(&mut self, block: &Block) -> Result<()> {
        if block.dim() != self.dim {
            return Err(Error::DimensionMismatch { expected: self.dim, found: block.dim() });
        }
        match (&mut self.values, block.rows()) {
            (Values::F32(held), Rows::F32(rows)) => held.extend_from_slice(rows),
            (Values::F64(held), Rows::F64(rows)) => held.extend_from_slice(rows),
            (Values::SparseF32(held), Rows::SparseF32(rows)) => held.extend(rows, block.len()),
            (Values::SparseF64(held), Rows::SparseF64(rows)) => held.extend(rows, block.len()),
            _ => {
                let held = self.block()?;
                let mut rows: Vec<f64> = (0..held.len()).flat_map(|row| held.row(row)).collect();
                rows.extend((0..block.len()).flat_map(|row| block.row(row)));
                self.values = Values::F64(rows);
            }
        }
        self.weights.extend((0..block.len()).map(|row| block.weights().map_or(1.0, |weights| weights[row])));
        Ok(())
    }

    /// All rows; with weights where these differ from 1.
    pub fn block(&self) -> Result<Block<'_>> {
        let block = match &self.values {
            Values::F32(values) => Block::new(self.dim, values),
            Values::F64(values) => Block::new(self.dim, values),
            Values::SparseF32(Csr { starts, columns, values }) => Block::sparse(self.dim, starts, columns, values),
            Values::SparseF64(Csr { starts, columns, values }) => Block::sparse(self.dim, starts, columns, values),
        }?;
        if self.weights.iter().all(|weight| *weight == 1.0) { Ok(block) } else { block.with_weights(&self.weights) }
    }

    pub fn write(&self, contents: &mut Contents) {
        let mut write = |kind: &str, values: Vec<f64>| {
            contents.text("held", kind);
            contents.numbers("held.values", vec![values.len()], values);
        };
        let wide = |values: &[f32]| values.iter().map(|x| f64::from(*x)).collect();
        match &self.values {
            Values::F32(values) => write("f32", wide(values)),
            Values::F64(values) => write("f64", values.clone()),
            Values::SparseF32(csr) => write("sparse f32", wide(&csr.values)),
            Values::SparseF64(csr) => write("sparse f64", csr.values.clone()),
        }
        let entries = match &self.values {
            Values::SparseF32(csr) => Some((&csr.starts, &csr.columns)),
            Values::SparseF64(csr) => Some((&csr.starts, &csr.columns)),
            _ => None,
        };
        if let Some((starts, columns)) = entries {
            contents.numbers("held.starts", vec![starts.len()], starts.iter().map(|x| *x as f64).collect());
            contents.numbers("held.columns", vec![columns.len()], columns.iter().map(|x| f64::from(*x)).collect());
        }
        contents.numbers("held.dimension", vec![1], vec![self.dim as f64]);
        contents.numbers("held.weights", vec![self.weights.len()], self.weights.clone());
    }

    /// What [`Self::write`] wrote, checked as rows are that a caller brings.
    pub fn read(file: &File) -> Result<Self> {
        let whole = |name: &str| -> Result<Vec<f64>> {
            let numbers = file.numbers(name, [None])?;
            match numbers.iter().find(|x| !(x.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(*x))) {
                Some(x) => file.wrong(format!("tensor `{name}` must have whole numbers below 2^32, found: `{x}`")),
                None => Ok(numbers),
            }
        };
        let values = file.numbers("held.values", [None])?;
        let narrow = |values: Vec<f64>| values.into_iter().map(|x| x as f32).collect();
        let indices = || -> Result<(Vec<usize>, Vec<u32>)> {
            let starts = whole("held.starts")?.into_iter().map(|x| x as usize).collect();
            Ok((starts, whole("held.columns")?.into_iter().map(|x| x as u32).collect()))
        };
        let values = match file.text("held") {
            "f32" => Values::F32(narrow(values)),
            "f64" => Values::F64(values),
            "sparse f32" => {
                let (starts, columns) = indices()?;
                Values::SparseF32(Csr { starts, columns, values: narrow(values) })
            }
            "sparse f64" => {
                let (starts, columns) = indices()?;
                Values::SparseF64(Csr { starts, columns, values })
            }
            other => return file.wrong(format!("metadata `held` must be a type of rows, found: `{other}`")),
        };
        let dim = match whole("held.dimension")?[..] {
            [dim] => dim as usize,
            _ => return file.wrong("tensor `held.dimension` must have one number"),
        };
        let held = HeldRows { dim, values, weights: file.numbers("held.weights", [None])? };
        let rows = held.block()?.len();
        if rows != held.weights.len() {
            return file.wrong(format!("there must be as many weights as rows, {rows}, found: `{}`", held.weights.len()));
        }
        Ok(held)
    }
}
