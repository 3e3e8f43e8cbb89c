//! Rows of a dense array: `.npy`, the members of a `.npz`, a tensor of safetensors.

use crate::excerpt::excerpt;
use crate::read::numbers::{ArrayBytes, Encoding, Kind, Numbers};
use crate::{Batch, ByteBuffers, Error, Reader, Result, Schema};
use vmfkit::rows::Rows;

/// Selects the array to read: the chosen one, the only one, or the only one with two axes. Each
/// array is given by its name and whether it has two axes. Error messages call an array `kind`.
pub(crate) fn choose(kind: &str, arrays: &[(&str, bool)], asked: Option<&str>) -> Result<usize> {
    let listed = |names: Vec<&str>| excerpt(names.join(",").as_bytes());
    let all = || listed(arrays.iter().map(|(name, _)| *name).collect());
    if let Some(asked) = asked {
        let found = arrays.iter().position(|(name, _)| *name == asked);
        return found.ok_or_else(|| Error::format(format!("no {kind} is called `{asked}`, found: `{}`", all())));
    }
    let tables: Vec<usize> = (0..arrays.len()).filter(|&at| arrays[at].1).collect();
    match (arrays.len(), &tables[..]) {
        // Errors of its axes are reported when it is opened.
        (1, _) => Ok(0),
        (_, [only]) => Ok(*only),
        (_, []) => Err(Error::format(format!("one {kind} must have two axes, rows and coordinates, found: `{}`", all()))),
        (_, several) => Err(Error::format(format!(
            "one {kind} must be chosen where several have two axes, found: `{}`\nhint: `--array NAME` chooses one",
            listed(several.iter().map(|&at| arrays[at].0).collect())
        ))),
    }
}

/// Rows of an array with two axes. In Fortran order they are gathered from pieces of columns.
pub(crate) struct ArrayRows {
    numbers: Numbers,
    fortran_order: bool,
    schema: Schema,
    rows: u64,
    next: u64,
    /// A piece of one column of an array in Fortran order.
    column: Rows<'static>,
}

impl ArrayRows {
    /// An array whose first number begins at the first of the bytes.
    pub fn new(bytes: ArrayBytes, encoding: Encoding, fortran_order: bool, rows: u64, dim: usize) -> Result<Self> {
        // An array of one row is the same in both orders.
        let fortran_order = fortran_order && rows > 1 && dim > 1;
        if fortran_order && !bytes.is_seekable() {
            return Err(Error::format(
                "an array that is read in sequence must be stored in C order, found: `fortran_order: True`\n\
                 hint: save `np.ascontiguousarray(x)`, or save it as an .npy file",
            ));
        }
        let numbers = Numbers::new(bytes, encoding, rows.saturating_mul(dim as u64));
        let schema = Schema::dense(dim, encoding.element(), Some(rows));
        Ok(ArrayRows { numbers, fortran_order, schema, rows, next: 0, column: Rows::default() })
    }

    /// Reads a piece of each column: the numbers of a column are contiguous in the file.
    fn read_columns(&mut self, rows: u64, values: &mut Rows<'static>) -> Result<()> {
        let dim = self.schema.dim;
        for column in 0..dim {
            self.numbers.encoding.start(&mut self.column);
            self.numbers.take_at(column as u64 * self.rows + self.next, rows, &mut self.column)?;
            match (&self.column, &mut *values) {
                (Rows::F32(from), Rows::F32(into)) => scatter(from, into.to_mut(), column, dim),
                (Rows::F64(from), Rows::F64(into)) => scatter(from, into.to_mut(), column, dim),
                _ => unreachable!("both were started in the same encoding"),
            }
        }
        Ok(())
    }
}

fn scatter<T: Copy + Default>(from: &[T], into: &mut Vec<T>, column: usize, dim: usize) {
    into.resize(from.len() * dim, T::default());
    into[column..].iter_mut().step_by(dim).zip(from).for_each(|(into, from)| *into = *from);
}

impl Reader for ArrayRows {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&mut self, most: usize, batch: &mut Batch) -> Result<()> {
        let rows = (self.rows - self.next).min(most as u64);
        (batch.rows, batch.weights, batch.ids) = (rows as usize, None, None);
        self.numbers.encoding.start(&mut batch.values);
        if rows == 0 {
            return self.numbers.bytes.finish();
        }
        if self.fortran_order {
            self.numbers.check_sum()?;
            self.read_columns(rows, &mut batch.values)?;
        } else {
            self.numbers.take(rows * self.schema.dim as u64, &mut batch.values)?;
        }
        self.next += rows;
        Ok(())
    }

    fn rewind(&mut self) -> Result<()> {
        self.next = 0;
        self.numbers.rewind()
    }

    fn is_slow(&self) -> bool {
        self.numbers.bytes.is_deflated()
    }

    fn lends_bytes(&self) -> bool {
        let as_in_memory = [Kind::F32, Kind::F64].map(Encoding::in_memory).contains(&self.numbers.encoding);
        as_in_memory && !self.fortran_order && self.numbers.lends_bytes()
    }

    fn read_bytes(&mut self, most: usize, buffers: &mut ByteBuffers) -> Result<usize> {
        let rows = (self.rows - self.next).min(most as u64);
        self.numbers.lend(rows * self.schema.dim as u64, buffers)?;
        self.next += rows;
        Ok(rows as usize)
    }

    fn read_direct(&mut self, memory: usize) -> Result<()> {
        if !self.fortran_order {
            self.numbers.bytes.read_direct(memory);
        }
        Ok(())
    }
}
