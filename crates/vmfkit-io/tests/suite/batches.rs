//! Rows as the files store them, of unit length or not.

use crate::{Folder, ROWS, names, npy_rows, testdata, with_causes};
use vmfkit::rows::Rows;
use vmfkit_io::{Batch, Element, Ids, Options, open_batches};

/// All rows; of sparse rows the stored entries.
fn read(locations: &[&str], options: &Options) -> vmfkit_io::Result<(Vec<f64>, Batch)> {
    let mut batches = open_batches(locations, options)?;
    let (mut all, mut batch, mut last) = (Vec::new(), Batch::default(), Batch::default());
    while batches.read(&mut batch)? {
        assert!(batch.rows > 0);
        all.extend(batch.values.clone().into_f64());
        last = batch.clone();
    }
    Ok((all, last))
}

#[test]
fn rows_are_given_as_they_are() {
    let folder = Folder::new();
    let raw = [[3.0, 4.0, 0.0, 0.0], [0.0; 4], [f64::NAN, f64::INFINITY, 1e300, -0.0]];
    let place = folder.write("raw.npy", npy_rows(&raw));
    for block_rows in [1, 2, 100] {
        let (found, _) = read(&[&place], &Options::new().block_rows(block_rows)).unwrap();
        let bits = |values: &[f64]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&found), bits(raw.as_flattened()), "{block_rows}");
    }
    // With one coordinate, or without rows.
    let one = folder.write("one.csv", "5\n7\n");
    assert_eq!(read(&[&one], &Options::new()).unwrap().0, [5.0, 7.0]);
    let empty = folder.write("empty.npy", npy_rows(&[]));
    let mut batches = open_batches(&[&empty], &Options::new()).unwrap();
    assert_eq!((batches.schema().dim, batches.schema().rows, batches.rescaled()), (4, Some(0), None));
    assert!(!batches.read(&mut Batch::default()).unwrap());
    assert!(open_batches::<&str>(&[], &Options::new()).is_err());
}

#[test]
fn rescaling_is_asked_for_even_by_half_precision() {
    let (raw, batch) = read(&[&testdata("formats/f16.safetensors")], &Options::new()).unwrap();
    assert!(matches!(batch.values, Rows::F32(_)) && (raw[0] - 0.6).abs() < 1e-3 && raw[0] != 0.6);
    let folder = Folder::new();
    let place = folder.write("raw.npy", npy_rows(&[[3.0, 0.0, 0.0, 4.0], ROWS[2]]));
    let mut batches = open_batches(&[&place], &Options::new().rescale(true)).unwrap();
    let mut batch = Batch::default();
    assert!(batches.read(&mut batch).unwrap());
    assert_eq!((batch.values, batches.rescaled()), (Rows::F64(vec![0.6, 0.0, 0.0, 0.8, 0.0, 0.0, 1.0, 0.0].into()), Some(1)));
    let zero = folder.write("zero.npy", npy_rows(&[ROWS[0], [0.0; 4]]));
    let error = read(&[&place, &zero], &Options::new().rescale(true).block_rows(1)).unwrap_err();
    assert_eq!(with_causes(error), format!("{zero}: row 1 has no direction: all its coordinates are `0`"));
}

#[test]
fn weights_ids_and_sparse_rows_come_along() {
    let options = Options::new().columns(names("x,y,z,t")).weight_column("n").id_column("id");
    let mut batches = open_batches(&[testdata("formats/rows.csv")], &options).unwrap();
    assert_eq!((batches.schema().dim, batches.schema().element), (4, Element::F64));
    let mut batch = Batch::default();
    assert!(batches.read(&mut batch).unwrap());
    assert_eq!(batch.weights, Some(crate::WEIGHTS.to_vec()));
    assert!(matches!(&batch.ids, Some(Ids::Texts(ids)) if ids.len() == 5));
    let (_, sparse) = read(&[&testdata("formats/csr.npz")], &Options::new()).unwrap();
    assert!(matches!(&sparse.values, Rows::SparseF64(rows) if rows.parts().0.len() == 6));
}
