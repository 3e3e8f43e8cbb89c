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

impl Values {
    /// All numbers in double precision, or those that are stored.
    pub fn into_f64(self) -> Vec<f64> {
        match self {
            Values::F32(values) | Values::SparseF32 { values, .. } => values.into_iter().map(f64::from).collect(),
            Values::F64(values) | Values::SparseF64 { values, .. } => values,
        }
    }

    /// Becomes dense single precision, and empty; the memory is kept if it was that before.
    pub fn start_f32(&mut self) -> &mut Vec<f32> {
        if !matches!(self, Values::F32(_)) {
            *self = Values::F32(Vec::new());
        }
        let Values::F32(values) = self else { unreachable!("it was made so") };
        values.clear();
        values
    }

    /// Becomes dense double precision, and empty.
    pub fn start_f64(&mut self) -> &mut Vec<f64> {
        if !matches!(self, Values::F64(_)) {
            *self = Values::F64(Vec::new());
        }
        let Values::F64(values) = self else { unreachable!("it was made so") };
        values.clear();
        values
    }

    /// Both are dense or both sparse, of the same precision.
    pub(crate) fn is_like(&self, other: &Values) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// No rows, of the same kind, in the same memory.
    pub(crate) fn clear(&mut self) {
        match self {
            Values::F32(values) => values.clear(),
            Values::F64(values) => values.clear(),
            Values::SparseF32 { starts, columns, values } => clear_sparse(starts, columns, values),
            Values::SparseF64 { starts, columns, values } => clear_sparse(starts, columns, values),
        }
    }

    /// Puts the rows of `other` behind these; single precision is widened where these are double.
    ///
    /// # Panics
    /// If only one of them is sparse, or if double precision would have to be narrowed.
    pub(crate) fn append(&mut self, other: &Values) {
        match (self, other) {
            (Values::F32(into), Values::F32(from)) => into.extend_from_slice(from),
            (Values::F64(into), Values::F64(from)) => into.extend_from_slice(from),
            (Values::F64(into), Values::F32(from)) => into.extend(from.iter().map(|&x| f64::from(x))),
            (Values::SparseF32 { starts, columns, values }, Values::SparseF32 { starts: s, columns: c, values: v }) => {
                append_sparse((starts, columns), (s, c));
                values.extend_from_slice(v);
            }
            (Values::SparseF64 { starts, columns, values }, Values::SparseF64 { starts: s, columns: c, values: v }) => {
                append_sparse((starts, columns), (s, c));
                values.extend_from_slice(v);
            }
            (Values::SparseF64 { starts, columns, values }, Values::SparseF32 { starts: s, columns: c, values: v }) => {
                append_sparse((starts, columns), (s, c));
                values.extend(v.iter().map(|&x| f64::from(x)));
            }
            _ => panic!("the values of a reader are what its schema says"),
        }
    }
}

fn clear_sparse<T>(starts: &mut Vec<usize>, columns: &mut Vec<u32>, values: &mut Vec<T>) {
    starts.clear();
    starts.push(0);
    columns.clear();
    values.clear();
}

fn append_sparse((starts, columns): (&mut Vec<usize>, &mut Vec<u32>), (from, from_columns): (&[usize], &[u32])) {
    let before = columns.len();
    starts.extend(from[1..].iter().map(|start| before + start));
    columns.extend_from_slice(from_columns);
}

/// What the rows are called, to be carried to the outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ids {
    /// Whole numbers.
    Integers(Vec<i64>),
    /// Texts.
    Texts(Vec<String>),
}

impl Ids {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Ids::Integers(ids) => ids.len(),
            Ids::Texts(ids) => ids.len(),
        }
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What they take of memory.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Ids::Integers(ids) => size_of_val(&ids[..]),
            Ids::Texts(ids) => ids.iter().map(|id| size_of::<String>() + id.capacity()).sum(),
        }
    }

    /// Moves the other ids behind these; numbers and texts together are texts.
    fn append(&mut self, other: Ids) {
        match (&mut *self, other) {
            (Ids::Integers(into), Ids::Integers(from)) => into.extend(from),
            (Ids::Texts(into), Ids::Texts(from)) => into.extend(from),
            (Ids::Texts(into), Ids::Integers(from)) => into.extend(from.iter().map(i64::to_string)),
            (Ids::Integers(into), Ids::Texts(from)) => {
                let mut texts: Vec<String> = into.iter().map(i64::to_string).collect();
                texts.extend(from);
                *self = Ids::Texts(texts);
            }
        }
    }
}

impl Batch {
    /// No rows; `like` tells of what kind the next ones will be.
    pub(crate) fn clear(&mut self, like: &Values) {
        self.rows = 0;
        if !self.values.is_like(like) {
            self.values = like.clone();
        }
        self.values.clear();
        self.weights = None;
        self.ids = None;
    }

    /// Moves the rows of `other` behind these.
    ///
    /// # Panics
    /// As [`Values::append`], and if only one of them has weights, or ids.
    pub(crate) fn append(&mut self, other: &mut Batch) {
        if self.rows == 0 && self.values.is_like(&other.values) {
            // The usual case, a batch that fills the block: nothing is copied.
            std::mem::swap(self, other);
            return;
        }
        self.values.append(&other.values);
        match (&mut self.weights, other.weights.take()) {
            (Some(into), Some(from)) => into.extend(from),
            (into, from) => {
                assert!(into.is_none() && from.is_none() || self.rows == 0, "every file gives weights or none does");
                *into = from;
            }
        }
        match (&mut self.ids, other.ids.take()) {
            (Some(into), Some(from)) => into.append(from),
            (into, from) => {
                assert!(into.is_none() && from.is_none() || self.rows == 0, "every file gives ids or none does");
                *into = from;
            }
        }
        self.rows += other.rows;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(values: Values, rows: usize, ids: Ids) -> Batch {
        Batch { rows, values, weights: Some(vec![2.0; rows]), ids: Some(ids) }
    }

    #[test]
    fn joined_rows_are_widened_and_their_ids_become_texts() {
        let mut joined = Batch::default();
        joined.clear(&Values::F64(Vec::new()));
        joined.append(&mut batch(Values::F32(vec![0.5, 0.25]), 1, Ids::Integers(vec![7])));
        joined.append(&mut batch(Values::F64(vec![1.0, 2.0]), 1, Ids::Texts(vec!["b".to_owned()])));
        joined.append(&mut batch(Values::F64(vec![3.0, 4.0]), 1, Ids::Integers(vec![9])));
        let ids = Ids::Texts(["7", "b", "9"].map(str::to_owned).to_vec());
        assert_eq!(joined, batch(Values::F64(vec![0.5, 0.25, 1.0, 2.0, 3.0, 4.0]), 3, ids));
    }

    #[test]
    fn joined_sparse_rows_keep_their_entries() {
        let first = Values::SparseF32 { starts: vec![0, 1], columns: vec![3], values: vec![1.0] };
        let second = Values::SparseF64 { starts: vec![0, 0, 2], columns: vec![0, 9], values: vec![0.5, 0.25] };
        let mut joined = Values::SparseF64 { starts: vec![0], columns: vec![], values: vec![] };
        joined.append(&first);
        joined.append(&second);
        let expected = Values::SparseF64 { starts: vec![0, 1, 1, 3], columns: vec![3, 0, 9], values: vec![1.0, 0.5, 0.25] };
        assert_eq!(joined, expected);
    }
}
