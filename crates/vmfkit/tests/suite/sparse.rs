//! Sparse rows: the same numbers as the dense rows they stand for, and every way in which they can
//! be wrong.

use proptest::prelude::*;
use vmfkit::estimate::maximum_likelihood;
use vmfkit::inference::projection_test;
use vmfkit::rows::{Rows, Scalar};
use vmfkit::{ConcentrationEstimator, Error, RowBatch, SufficientStats, VonMisesFisher};

/// Rows of unit length, a fifth of their coordinates other than 0, in both forms; something stands
/// before the first sparse row.
struct Pair<T> {
    dim: usize,
    dense: Vec<T>,
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<T>,
}

impl<T: Scalar> Pair<T> {
    fn new(dim: usize, rows: usize) -> Self {
        let mut raw = vec![0.0; dim * rows];
        for (i, x) in raw.iter_mut().enumerate() {
            let angle = 12.9898 * i as f64;
            let kept = (78.233 * angle).sin() < -0.8 || i % dim == (i / dim) % dim;
            *x = if kept { 1.5 + angle.sin() } else { 0.0 };
        }
        let mut pair =
            Pair { dim, dense: Vec::new(), starts: vec![2], columns: vec![u32::MAX, 0], values: vec![T::from_f64(f64::NAN); 2] };
        for row in raw.chunks_exact(dim) {
            let length = row.iter().map(|x| x * x).sum::<f64>().sqrt();
            for (column, x) in (0..).zip(row) {
                let x_unit = T::from_f64(x / length);
                pair.dense.push(x_unit);
                if *x != 0.0 {
                    pair.columns.push(column);
                    pair.values.push(x_unit);
                }
            }
            pair.starts.push(pair.values.len());
        }
        pair
    }

    fn dense(&self) -> RowBatch<'_> {
        RowBatch::new(self.dim, &self.dense).unwrap()
    }

    fn sparse(&self) -> RowBatch<'_> {
        RowBatch::sparse(self.dim, &self.starts, &self.columns, &self.values).unwrap()
    }
}

fn assert_same(dense: &RowBatch, sparse: &RowBatch) {
    assert_eq!((dense.len(), dense.dim(), dense.weights()), (sparse.len(), sparse.dim(), sparse.weights()));
    let mu = (0..dense.dim()).map(|i| 2.0 + (i as f64).cos()).collect();
    let density = VonMisesFisher::along(mu, 300.0).unwrap();
    let [from_dense, from_sparse] = [dense, sparse].map(|block| {
        let mut out = vec![0.0; block.len()];
        density.ln_densities_into(block, &mut out).unwrap();
        out
    });
    for (x, y) in from_dense.iter().zip(&from_sparse) {
        assert!((x - y).abs() < 300.0 * 1e-15, "{x} {y}");
    }
    let (x, y) = (SufficientStats::of_batch(dense), SufficientStats::of_batch(sparse));
    let near = |x: f64, y: f64, tolerance: f64| assert!((x - y).abs() <= tolerance * (1.0 + x.abs()), "{x} {y}");
    near(x.mass(0), y.mass(0), 1e-14);
    // Single precision leaves rows off the sphere by 1e-8, which the two ways of summing feel
    // differently.
    near(x.shortfall(0), y.shortfall(0), 1e-7);
    x.resultant(0).iter().zip(y.resultant(0)).for_each(|(x, y)| near(*x, *y, 1e-13));
}

fn check_pair<T: Scalar>() {
    let pair = Pair::<T>::new(53, 2100);
    let weights: Vec<f64> = (0..2100).map(|i| f64::from(i % 4)).collect();
    assert_same(&pair.dense(), &pair.sparse());
    let (dense, sparse) = (pair.dense().with_weights(&weights).unwrap(), pair.sparse().with_weights(&weights).unwrap());
    assert_same(&dense, &sparse);
    for (from, to) in [(0, 2100), (17, 1500), (2099, 2100), (8, 8), (2100, 2100)] {
        assert_same(&dense.slice(from, to), &sparse.slice(from, to));
        assert_same(&dense.slice(from, to).slice(0, (to - from) / 2), &sparse.slice(from, to).slice(0, (to - from) / 2));
    }
}

#[test]
fn sparse_rows_give_the_numbers_of_dense_rows() {
    check_pair::<f64>();
    check_pair::<f32>();
}

#[test]
fn the_number_of_threads_does_not_change_one_bit_of_sparse_statistics() {
    let pair = Pair::<f32>::new(40, 5000);
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| SufficientStats::of_batch(&pair.sparse()))
    };
    assert_eq!(on(1), on(3));
}

#[test]
fn sparse_rows_are_rescaled() {
    let (block, changed) =
        RowBatch::sparse_rescaled(5, &[1, 2, 4, 6], &[0, 1, 0, 4, 2, 3, 9], &[f64::NAN, -1.0, 3e300, 4e300, 3e-300, 4e-300, 7.0])
            .unwrap();
    assert_eq!((block.len(), changed), (3, 2));
    let Rows::SparseF64(rows) = block.rows() else { panic!("{block:?}") };
    assert_eq!(rows.entries(), 5);
    for (row, columns, values) in [(0, &[1][..], &[-1.0][..]), (1, &[0, 4], &[0.6, 0.8]), (2, &[2, 3], &[0.6, 0.8])] {
        assert_eq!(rows.row(row).0, columns);
        assert!(rows.row(row).1.iter().zip(values).all(|(x, y)| (x - y).abs() < 1e-15), "row {row}");
    }
    // What is left of a zero is still a zero, and an entry all the same.
    assert_eq!(RowBatch::sparse_rescaled(2, &[0, 2], &[0, 1], &[0f32, -2.0]).unwrap().1, 1);
    assert_eq!(RowBatch::sparse_rescaled(2, &[0, 1], &[0], &[0f32]).unwrap_err(), Error::ZeroRow { row: 0 });
}

#[test]
fn wrong_sparse_rows_are_named_by_position_and_value() {
    let error = |starts: &[usize], columns: &[u32], values: &[f64]| {
        let error = RowBatch::sparse(4, starts, columns, values).unwrap_err();
        if !matches!(error, Error::NotUnit { .. }) {
            assert_eq!(RowBatch::sparse_rescaled(4, starts, columns, values).unwrap_err().to_string(), error.to_string());
        }
        error
    };
    let (columns, values) = ([0, 1, 3], [1.0, 0.6, 0.8]);
    assert_eq!(RowBatch::sparse(4, &[0, 1, 3], &columns, &values).unwrap().len(), 2);
    assert_eq!(RowBatch::sparse(4, &[3], &columns, &values).unwrap().len(), 0);
    assert_eq!(error(&[], &columns, &values), Error::NoRowStarts);
    assert_eq!(error(&[0, 1, 3], &columns, &values[..2]), Error::EntryCount { columns: 3, values: 2 });
    assert_eq!(error(&[0, 1, 0], &columns, &values), Error::RowStart { position: 2, least: 1, most: 3, found: 0 });
    assert_eq!(error(&[0, 4, 3], &columns, &values), Error::RowStart { position: 1, least: 0, most: 3, found: 4 });
    assert_eq!(
        error(&[usize::MAX], &columns, &values),
        Error::RowStart { position: 0, least: usize::MAX, most: 3, found: usize::MAX }
    );
    assert_eq!(error(&[0, 1, 3], &[0, 1, 4], &values), Error::Column { row: 1, position: 2, dim: 4, column: 4 });
    assert_eq!(error(&[0, 1, 3], &[0, 3, 1], &values), Error::ColumnOrder { row: 1, position: 2, previous: 3, column: 1 });
    assert_eq!(error(&[0, 1, 3], &[0, 3, 3], &values), Error::ColumnOrder { row: 1, position: 2, previous: 3, column: 3 });
    assert_eq!(error(&[0, 1, 1, 3], &columns, &values), Error::ZeroRow { row: 1 });
    assert_eq!(error(&[0, 1, 2], &columns, &[1.0, 0.0, 0.0]), Error::ZeroRow { row: 1 });
    assert_eq!(error(&[0, 1, 3], &columns, &[1.0, 3.0, 4.0]), Error::NotUnit { row: 1, norm: 5.0 });
    assert_eq!(
        error(&[0, 1, 3], &columns, &[1.0, 0.6, f64::INFINITY]),
        Error::NotFinite { row: 1, column: 3, value: f64::INFINITY }
    );
    assert!(matches!(error(&[0, 1, 3], &columns, &[1.0, f64::NAN, 0.8]), Error::NotFinite { row: 1, column: 1, .. }));
    assert_eq!(RowBatch::sparse(1, &[0, 1], &[0], &[1.0]).unwrap_err(), Error::Dimension { dim: 1 });
    assert!(matches!(RowBatch::sparse(usize::MAX, &[0, 1], &[0], &[1.0]), Err(Error::Option { .. })));
    let text = |starts: &[usize], columns: &[u32]| error(starts, columns, &values).to_string();
    assert_eq!(text(&[0, 4], &columns), "row start 1 must be from 0 to 3, found: `4`");
    assert_eq!(text(&[0, 3], &[0, 1, 9]), "row 0, entry 2: the column must be below 4, found: `9`");
    assert_eq!(
        text(&[0, 3], &[0, 3, 1]),
        "row 0, entry 2: the column must be above 3, found: `1`\n\
         hint: sort the columns of each row and sum duplicates, as scipy's `sort_indices()` and `sum_duplicates()` do"
    );
}

#[test]
fn a_density_is_fitted_to_sparse_rows() {
    let pair = Pair::<f64>::new(30, 400);
    let fit = |block: &RowBatch| maximum_likelihood(&SufficientStats::of_batch(block), ConcentrationEstimator::Exact).unwrap();
    let (dense, sparse) = (fit(&pair.dense()), fit(&pair.sparse()));
    assert!((dense.concentration() / sparse.concentration() - 1.0).abs() < 1e-12);
    let refused = projection_test(&pair.sparse(), &sparse, 9, 1);
    assert!(matches!(refused, Err(Error::SparseNotSupported { .. })));
}

proptest! {
    #[test]
    fn no_sparse_input_panics(
        dim in prop_oneof![0usize..6, Just(usize::MAX)],
        starts in prop::collection::vec(prop_oneof![9 => 0usize..6, 1 => any::<usize>()], 0..5),
        columns in prop::collection::vec(prop_oneof![9 => 0u32..6, 1 => any::<u32>()], 0..6),
        values in prop::collection::vec(prop_oneof![9 => -2.0..2.0, 1 => any::<f64>()], 0..6),
    ) {
        let _ = RowBatch::sparse(dim, &starts, &columns, &values);
        if let Ok((block, _)) = RowBatch::sparse_rescaled(dim, &starts, &columns, &values) {
            prop_assert_eq!(block.len() + 1, starts.len());
            let stats = SufficientStats::of_batch(&block.slice(0, block.len() / 2));
            prop_assert!(stats.shortfall(0) >= 0.0);
            let mut out = vec![0.0; block.len()];
            VonMisesFisher::uniform(dim).unwrap().deviations_into(&block, &mut out).unwrap();
            prop_assert!(out.iter().all(|s| (0.0..2.0 + 1e-12).contains(s)));
        }
    }

    /// Sorted starts and columns, so that most cases are taken.
    #[test]
    fn well_formed_sparse_rows_equal_their_dense_form(
        rows in prop::collection::vec(prop::collection::btree_map(0u32..20, 0.1..9.0, 1..8), 0..8)
    ) {
        let (mut starts, mut columns, mut values, mut dense) = (vec![0], Vec::new(), Vec::new(), Vec::new());
        for row in &rows {
            columns.extend(row.keys().copied());
            values.extend(row.values().copied());
            starts.push(values.len());
            dense.extend((0..20).map(|column| row.get(&column).copied().unwrap_or(0.0)));
        }
        let (sparse, _) = RowBatch::sparse_rescaled(20, &starts, &columns, &values).unwrap();
        let (dense, _) = RowBatch::rescaled(20, &dense).unwrap();
        assert_same(&dense, &sparse);
    }
}
