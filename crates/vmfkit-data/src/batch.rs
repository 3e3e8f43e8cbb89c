//! [`Batch`]: some rows of a file, as the file has them.

/// Rows that were read, not yet checked to be on the sphere. Its vectors are filled again and again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// How many rows there are.
    pub rows: usize,
    /// The rows' numbers.
    pub values: Values,
    /// One weight a row, if the file has a weight column that was asked for.
    pub weights: Option<Vec<f64>>,
    /// One id a row, if the file has an id column that was asked for.
    pub ids: Option<Ids>,
}

/// The numbers of rows: all of them, row by row, or in CSR those that are not 0.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Single precision, or half precision widened.
    F32(Vec<f32>),
    /// Double precision, or integers.
    F64(Vec<f64>),
    /// Row i has the entries `starts[i] .. starts[i + 1]`, columns ascending.
    SparseF32 {
        /// One more than rows, from 0.
        starts: Vec<usize>,
        /// The column of each entry.
        columns: Vec<u32>,
        /// The value of each entry.
        values: Vec<f32>,
    },
    /// The same in double precision.
    SparseF64 {
        /// One more than rows, from 0.
        starts: Vec<usize>,
        /// The column of each entry.
        columns: Vec<u32>,
        /// The value of each entry.
        values: Vec<f64>,
    },
}

impl Default for Values {
    fn default() -> Self {
        Values::F32(Vec::new())
    }
}

/// What the rows are called, to be carried to the outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ids {
    /// Whole numbers.
    Integers(Vec<i64>),
    /// Texts.
    Texts(Vec<String>),
}
