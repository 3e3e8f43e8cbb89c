//! Tests of what no user of the crate sees: buffers, memory and gathered rows.

use super::validate::VALUES_PER_TASK;
use super::*;

/// All coordinates of all rows, and their weights.
fn in_full(batch: &RowBatch) -> (Vec<Vec<f64>>, Option<Vec<f64>>) {
    ((0..batch.len()).map(|row| batch.row(row)).collect(), batch.weights().map(<[f64]>::to_vec))
}

#[test]
fn an_owned_batch_is_validated_and_returns_its_memory() {
    let dense = vec![0.6, 0.8, 1.0, 0.0];
    let memory = dense.as_ptr();
    let batch = RowBatch::owned(2, dense).unwrap();
    assert_eq!((batch.len(), batch.row(0)), (2, vec![0.6, 0.8]));
    let Some(Rows::F64(Cow::Owned(dense))) = batch.into_rows() else { panic!("dense rows of f64") };
    assert_eq!(dense.as_ptr(), memory);
    assert_eq!(RowBatch::owned(2, vec![1f32, 0.0, 3.0, 4.0]).unwrap_err(), Error::NotUnit { row: 1, norm: 5.0 });
    let batch = RowBatch::sparse_owned(9, vec![0, 2], vec![3, 8], vec![0.6f32, 0.8]).unwrap();
    let Some(Rows::SparseF32(rows)) = batch.into_rows() else { panic!("sparse rows of f32") };
    assert_eq!(rows.into_parts(), (vec![0, 2], vec![3, 8], vec![0.6, 0.8]));
    assert_eq!(
        RowBatch::sparse_owned(9, vec![0, 1], vec![9], vec![1.0]).unwrap_err(),
        Error::Column { row: 0, position: 0, dim: 9, column: 9 }
    );
}

#[test]
fn several_threads_name_the_first_bad_row() {
    let (dim, rows) = (16, 5 * VALUES_PER_TASK / 16);
    let mut values = vec![0f32; rows * dim];
    values.iter_mut().step_by(dim).for_each(|x| *x = 1.0);
    assert_eq!(RowBatch::new(dim, &values).unwrap().len(), rows);
    let starts: Vec<usize> = (0..=rows * dim).step_by(dim).collect();
    let columns: Vec<u32> = (0..rows * dim).map(|entry| (entry % dim) as u32).collect();
    for row in [rows - 1, rows / 2, 7] {
        values[row * dim] = 3.0;
        assert_eq!(RowBatch::new(dim, &values).unwrap_err(), Error::NotUnit { row, norm: 3.0 });
        assert_eq!(RowBatch::sparse(dim, &starts, &columns, &values).unwrap_err(), Error::NotUnit { row, norm: 3.0 });
    }
    let mut columns = columns;
    for row in [rows - 1, rows / 2] {
        columns[row * dim] = 99;
        let error = Error::Column { row, position: row * dim, dim, column: 99 };
        assert_eq!(RowBatch::sparse(dim, &starts, &columns, &values).unwrap_err(), error);
    }
}

#[test]
fn rows_rescaled_in_place_are_those_of_a_rescaled_batch() {
    let mut values = [3.0, 4.0, 1e-200, 0.0, 0.6, 0.8];
    let (batch, changed) = RowBatch::rescaled(2, &values).unwrap();
    assert_eq!((rescale(2, &mut values).unwrap(), changed), (2, 2));
    assert_eq!(in_full(&batch), in_full(&RowBatch::new(2, &values).unwrap()));
    assert_eq!(rescale(2, &mut [1.0, 0.0, 0.0, 0.0]).unwrap_err(), Error::ZeroRow { row: 1 });
}

/// Of every kind, with and without weights.
fn batches_of_every_kind(see: &mut dyn FnMut(RowBatch)) {
    let (single, double) = ([1f32, 0.0, 0.0, 0.6, 0.8, 0.0], [0.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
    let (starts, columns, weights) = ([1, 2, 4], [9, 2, 0, 1], [0.5, 2.0]);
    let batches = [
        RowBatch::new(3, &single),
        RowBatch::new(3, &double),
        RowBatch::sparse(3, &starts, &columns, &[0f32, 1.0, 0.6, 0.8]),
        RowBatch::sparse(3, &starts, &columns, &[0f64, -1.0, 0.8, 0.6]),
    ];
    for batch in batches.map(Result::unwrap) {
        see(batch.clone());
        see(batch.with_weights(&weights).unwrap());
    }
}

#[test]
fn gathered_rows_are_the_rows_in_that_order_also_from_a_used_buffer() {
    let mut buffer = RowBatch::default();
    batches_of_every_kind(&mut |batch| {
        let (rows, weights) = in_full(&batch);
        for picked in [&[1, 0, 1][..], &[], &[1]] {
            let gathered = batch.gather(picked, &mut buffer).unwrap();
            assert_eq!((gathered.dim(), gathered.len()), (3, picked.len()));
            let expected: Vec<_> = picked.iter().map(|&row| rows[row].clone()).collect();
            let expected_weights = weights.as_ref().map(|all| picked.iter().map(|&row| all[row]).collect());
            assert_eq!(in_full(&gathered), (expected, expected_weights));
        }
    });
}

#[test]
fn appended_rows_keep_their_values_and_weights_whatever_their_kinds() {
    batches_of_every_kind(&mut |first| {
        batches_of_every_kind(&mut |second| {
            let mut joined = RowBatch::empty_like(&first);
            joined.append(&first).unwrap();
            joined.append(&second.slice(1, 2)).unwrap();
            let weight = |batch: &RowBatch, row: usize| batch.weights().map_or(1.0, |weights| weights[row]);
            for (row, (batch, from)) in [(&first, 0), (&first, 1), (&second, 1)].into_iter().enumerate() {
                assert_eq!((joined.row(row), weight(&joined, row)), (batch.row(from), weight(batch, from)));
            }
            assert_eq!(joined.is_sparse(), first.is_sparse() && second.is_sparse());
            let is_same = std::mem::discriminant(first.rows()) == std::mem::discriminant(second.rows());
            assert!(!is_same || std::mem::discriminant(joined.rows()) == std::mem::discriminant(first.rows()));
            joined.truncate(1);
            assert_eq!((joined.len(), in_full(&joined)), (1, in_full(&joined.clone().slice(0, 1))));
            assert_eq!(joined.row(0), first.row(0));
        });
    });
    let mut batch = RowBatch::owned(2, vec![1.0, 0.0]).unwrap();
    let other = RowBatch::owned(3, vec![1.0, 0.0, 0.0]).unwrap();
    assert_eq!(batch.append(&other).unwrap_err(), Error::DimensionMismatch { expected: 2, found: 3 });
}

#[test]
fn weights_of_all_rows_are_counted_from_the_first_of_all() {
    let batch = RowBatch::new(2, &[1.0, 0.0, 0.0, 1.0]).unwrap();
    let weights = [1.0, 1.0, 0.5, -2.0, 4.0];
    let of = |first: usize| batch.clone().with_weights_from(first, &weights).map(|batch| batch.weights().unwrap().to_vec());
    assert_eq!(of(1), Ok(vec![1.0, 0.5]));
    assert_eq!(of(2), Err(Error::Weight { row: 3, value: -2.0 }));
    assert_eq!(of(4), Err(Error::WeightCount { rows: 6, found: 5 }));
}

#[derive(Debug)]
struct File;

impl RowOrigin for File {
    fn locate(&self, error: Error) -> Error {
        Error::StatisticsBytes { what: format!("file: {error}") }
    }
}

#[test]
fn errors_name_the_place_and_the_row_there_also_of_a_slice() {
    let (starts, columns): (Vec<usize>, Vec<u32>) = ((0..=3).collect(), vec![0; 3]);
    let expected = File.locate(Error::NotUnit { row: 2, norm: 2.0 });
    let values = [1.0, 0.0, 1.0, 0.0, 2.0, 0.0];
    let dense = RowBatch::unvalidated(2, &values).unwrap();
    let sparse = RowBatch::unvalidated_sparse(2, &starts, &columns, &[1.0, 1.0, 2.0]);
    let bytes = RowBatch::from_bytes::<f64>(2, [bytes_of(&values, f64::to_ne_bytes).into()]).unwrap();
    for batch in [dense, sparse, bytes] {
        let batch = batch.with_origin(Arc::new(File));
        let validated = |batch: RowBatch| batch.validated(&mut RowBatch::default()).err();
        assert!(!batch.is_validated());
        assert_eq!(validated(batch.clone()), Some(expected.clone()));
        assert_eq!(validated(batch.slice(1, 3)), Some(expected.clone()));
        assert_eq!(validated(batch.slice(1, 3).slice(1, 2)), Some(expected.clone()));
        assert_eq!(validated(batch.slice(0, 2)), None);
        assert_eq!(batch.validated_slice(2, 3, &mut RowBatch::default()).err(), Some(expected.clone()));
    }
}

fn bytes_of<T: Scalar, const SIZE: usize>(numbers: &[T], bytes: impl Fn(T) -> [u8; SIZE]) -> Vec<u8> {
    numbers.iter().flat_map(|x| bytes(*x)).collect()
}

/// Buffers of this many bytes each.
fn cut(memory: &[u8], step: usize) -> Vec<Bytes> {
    let memory = Bytes::copy_from_slice(memory);
    memory.chunks(step).map(|part| memory.slice_ref(part)).collect()
}

/// Rows with these bytes as numbers of `F`, at any alignment, in buffers of any length.
fn check_places<F: Scalar>(bytes: &[u8], values: &[f64]) {
    let number = size_of::<F>();
    let single: Vec<f32> = values.iter().map(|x| *x as f32).collect();
    for offset in 0..number {
        let memory = Bytes::from([vec![0; offset], bytes.to_vec()].concat()).slice(offset..);
        for step in (number..=memory.len()).step_by(number) {
            let rows = ByteRows::new::<F>(6, memory.chunks(step).map(|part| memory.slice_ref(part))).unwrap();
            assert_eq!((rows.len(), rows.is_single()), (10, number == 4));
            let (mut all, mut all_single) = (vec![7.0; 60], vec![7f32; 60]);
            rows.copy_rows(0, &mut all);
            rows.copy_rows(0, &mut all_single);
            assert_eq!((&all[..], &all_single), (values, &single));
            for from in 0..10 {
                for to in from..=10 {
                    let case = format!("{number} {offset} {step} {from} {to}");
                    assert_eq!(rows.validated::<f64>(from, to, &mut Vec::new()).unwrap(), &values[6 * from..6 * to], "{case}");
                    let slice = rows.slice(from, to);
                    assert_eq!(slice.len(), to - from, "{case}");
                    assert!((from..to).all(|row| slice.row(row - from) == values[6 * row..6 * (row + 1)]), "{case}");
                    if rows.is_single() {
                        assert_eq!(
                            rows.validated::<f32>(from, to, &mut Vec::new()).unwrap(),
                            &single[6 * from..6 * to],
                            "{case}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn rows_are_the_same_however_they_lie_in_memory() {
    let values: Vec<f64> = (0..60).map(|i| if i % 6 == i / 6 % 6 { 1.0 } else { 0.0 }).collect();
    check_places::<f64>(&bytes_of(&values, f64::to_ne_bytes), &values);
    check_places::<f32>(&bytes_of(&values, |x| (x as f32).to_ne_bytes()), &values);
}

#[test]
fn a_bad_row_of_bytes_is_named_as_one_of_numbers() {
    fn check<T: Scalar + vmfkit_kernels::Kernels>(rows: &RowBatch, expected: Error) {
        assert_eq!(rows.kernel_rows::<T>(1, 5, &mut Vec::new()).err(), Some(3));
        assert_eq!(rows.kernel_rows::<T>(0, 3, &mut Vec::new()).map(<[T]>::len), Ok(12));
        assert_eq!(rows.row_error(3).unwrap().to_string(), expected.to_string());
        assert_eq!(rows.row_error(2), None);
    }
    for (column, value) in [(2, 0.5), (3, f32::NAN), (1, 0.0)] {
        let mut values = [0f32, 1.0, 0.0, 0.0].repeat(5);
        values[3 * 4 + column] = value;
        let bytes = bytes_of(&values, f32::to_ne_bytes);
        let error = || RowBatch::new(4, &values).unwrap_err();
        for single in [RowBatch::from_bytes::<f32>(4, cut(&bytes, 12)).unwrap(), RowBatch::unvalidated(4, &values).unwrap()] {
            check::<f32>(&single, error());
            check::<f64>(&single, error());
        }
        let wide: Vec<f64> = values.iter().copied().map(f64::from).collect();
        let bytes = bytes_of(&wide, f64::to_ne_bytes);
        check::<f64>(&RowBatch::from_bytes::<f64>(4, cut(&bytes, 24)).unwrap(), error());
        check::<f64>(&RowBatch::unvalidated(4, &wide).unwrap(), error());
    }
}

/// Few rows, and enough for several threads, in both precisions, in buffers that cut rows.
#[test]
fn unvalidated_rows_that_are_gathered_are_those_of_a_validated_batch() {
    const ROWS: usize = 3 * VALUES_PER_TASK / 4;
    fn check<T: Scalar, const SIZE: usize>(bytes: impl Fn(T) -> [u8; SIZE]) {
        let mut values: Vec<T> =
            (0..ROWS).map(|row| (row as f64).sin_cos()).flat_map(|(sin, cos)| [sin, 0.0, cos, 0.0]).map(T::from_f64).collect();
        let unvalidated = |values: &[T]| {
            let bytes = cut(&bytes_of(values, &bytes), 3000 * SIZE + SIZE);
            [RowBatch::from_bytes::<T>(4, bytes).unwrap(), RowBatch::unvalidated(4, values.to_vec()).unwrap()]
        };
        let (mut buffer, mut other) = (RowBatch::default(), RowBatch::default());
        let backward: Vec<usize> = (0..ROWS).rev().collect();
        let validated = RowBatch::owned(4, values.clone()).unwrap();
        for rows in unvalidated(&values) {
            for listed in [&backward[..], &backward[5..70], &[7, 7, 0], &[]] {
                let expected = in_full(&validated.gather(listed, &mut other).unwrap());
                assert_eq!(in_full(&rows.gather(listed, &mut buffer).unwrap()), expected);
            }
            for (from, to) in [(0, ROWS), (749, 752), (3, 3)] {
                let expected = in_full(&validated.slice(from, to));
                assert_eq!(in_full(&rows.validated_slice(from, to, &mut buffer).unwrap()), expected);
            }
            assert_eq!(in_full(&rows.validated(&mut buffer).unwrap()), in_full(&validated));
        }
        // Whichever of them a batch has, the error names the first.
        values[4 * 900] = T::from_f64(2.0);
        values[4 * 40_000 + 2] = T::from_f64(f64::NAN);
        let expected = RowBatch::new(4, &values).unwrap_err();
        for rows in unvalidated(&values) {
            for listed in [&backward[..], &[40_000, 3], &[900]] {
                assert_eq!(rows.gather(listed, &mut buffer).unwrap_err(), expected);
            }
            assert_eq!(rows.validated_slice(39_999, 40_001, &mut buffer).unwrap_err(), expected);
            assert_eq!(rows.gather(&[899, 901], &mut buffer).unwrap().len(), 2);
            assert_eq!(rows.validated(&mut buffer).unwrap_err(), expected);
        }
    }
    check(f32::to_ne_bytes);
    check(f64::to_ne_bytes);
}

#[test]
fn buffers_have_whole_numbers_and_rows() {
    let bytes = Bytes::from(vec![0; 24]);
    let error_of = |dim, parts: &[(usize, usize)], double: bool| {
        let parts = parts.iter().map(|&(from, to)| bytes.slice(from..to));
        if double { RowBatch::from_bytes::<f64>(dim, parts) } else { RowBatch::from_bytes::<f32>(dim, parts) }.unwrap_err()
    };
    assert_eq!(error_of(1, &[(0, 24)], false), Error::Dimension { dim: 1 });
    assert_eq!(error_of(4, &[(0, 24)], false), Error::PartialRow { values: 6, dim: 4 });
    assert_eq!(error_of(2, &[(0, 24)], true), Error::PartialRow { values: 3, dim: 2 });
    assert_eq!(error_of(3, &[(0, 12), (12, 24)], true), Error::PartialRow { values: 3, dim: 3 });
    assert!(RowBatch::from_bytes::<f32>(3, [Bytes::new(), Bytes::new()]).unwrap().is_empty());
}

#[test]
#[should_panic(expected = "the rows have not been validated")]
fn rows_that_are_not_validated_are_not_used() {
    RowBatch::unvalidated(2, &[1.0, 0.0]).unwrap().rows();
}
