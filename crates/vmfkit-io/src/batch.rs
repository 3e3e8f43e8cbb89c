//! [`Batch`]: rows as a file stores them.

use vmfkit::rows::Rows;

/// The names of columns and tensors that are written. Separate columns of coordinates are called
/// x0, x1 and so on.
pub(crate) const ROWS: &str = "embedding";
pub(crate) const WEIGHT: &str = "weight";
pub(crate) const ID: &str = "id";

/// Rows as a file stores them, not validated, with the weights and ids of the file.
///
/// [`RowBatch`](vmfkit::RowBatch) needs at least two numbers per row. These rows may have one, such
/// as an angle, or none, if only ids are read. Readers reuse the memory of a batch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// The number of rows.
    pub rows: usize,
    /// The rows' numbers. Half precision is widened to single, integers to double precision. Sparse
    /// rows have ascending columns, and their starts begin at 0.
    pub values: Rows<'static>,
    /// One weight per row, if a weight column was asked for.
    pub weights: Option<Vec<f64>>,
    /// One id per row, if an id column was asked for.
    pub ids: Option<Ids>,
}

/// The ids of rows, which are copied to outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ids {
    /// Whole numbers.
    Integers(Vec<i64>),
    /// Texts.
    Texts(Vec<String>),
}

impl Ids {
    /// The number of ids.
    pub fn len(&self) -> usize {
        match self {
            Ids::Integers(ids) => ids.len(),
            Ids::Texts(ids) => ids.len(),
        }
    }

    /// True if there are no ids.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory that they take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Ids::Integers(ids) => size_of_val(&ids[..]),
            Ids::Texts(ids) => ids.iter().map(|id| size_of::<String>() + id.capacity()).sum(),
        }
    }

    /// Appends ids. Integers become texts where the other ids are texts.
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
    /// Removes all rows; the next ones are of the kind of `like`.
    pub(crate) fn clear(&mut self, like: &Rows) {
        self.rows = 0;
        self.values.clear_like(like);
        self.weights = None;
        self.ids = None;
    }

    /// Moves the rows of another batch of the same dimension to the end of this one. Single
    /// precision is widened where these rows have double precision.
    ///
    /// # Panics
    /// If only one of them has weights, or ids.
    pub(crate) fn append(&mut self, dim: usize, other: &mut Batch) {
        if self.rows == 0 && self.values.is_like(&other.values) {
            // The usual case, one batch of a file: nothing is copied.
            std::mem::swap(self, other);
            return;
        }
        self.values.append(dim, &other.values);
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
    use vmfkit::rows::SparseRows;

    fn batch(values: Rows<'static>, rows: usize, ids: Ids) -> Batch {
        Batch { rows, values, weights: Some(vec![2.0; rows]), ids: Some(ids) }
    }

    #[test]
    fn joined_rows_are_widened_and_their_ids_become_texts() {
        let mut joined = Batch::default();
        joined.clear(&Rows::F64(Vec::new().into()));
        joined.append(2, &mut batch(Rows::F32(vec![0.5, 0.25].into()), 1, Ids::Integers(vec![7])));
        joined.append(2, &mut batch(Rows::F64(vec![1.0, 2.0].into()), 1, Ids::Texts(vec!["b".to_owned()])));
        joined.append(2, &mut batch(Rows::F64(vec![3.0, 4.0].into()), 1, Ids::Integers(vec![9])));
        let ids = Ids::Texts(["7", "b", "9"].map(str::to_owned).to_vec());
        assert_eq!(joined, batch(Rows::F64(vec![0.5, 0.25, 1.0, 2.0, 3.0, 4.0].into()), 3, ids));
    }

    #[test]
    fn joined_sparse_rows_keep_their_entries() {
        let first = Rows::SparseF32(SparseRows::new(vec![0, 1], vec![3], vec![1.0]));
        let second = Rows::SparseF64(SparseRows::new(vec![0, 0, 2], vec![0, 9], vec![0.5, 0.25]));
        let mut joined = Rows::SparseF64(SparseRows::new(vec![0], vec![], vec![]));
        joined.append(10, &first);
        joined.append(10, &second);
        let expected = Rows::SparseF64(SparseRows::new(vec![0, 1, 1, 3], vec![3, 0, 9], vec![1.0, 0.5, 0.25]));
        assert_eq!(joined, expected);
    }
}
