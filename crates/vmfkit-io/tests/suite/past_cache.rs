//! Rows that are read past the system's cache are the same rows, and what is wrong with them is
//! said in the same words.
//!
//! The files are beside the sources, since the folder for temporary files may be memory. Where a
//! file system does not read in this way, they come through the cache.

use crate::{Everything, Folder, location, npy, read, read_all, with_causes};
use std::fs::File;
use vmfkit::rows::Rows;
use vmfkit::source::Source;
use vmfkit::train::Stop;
use vmfkit::{Fitter, Method, RowBatch};
use vmfkit_io::{Batch, DataSource, Element, IdKind, Ids, Options, OutputFormat, RowLayout, RowWriter, open};

const DIM: usize = 6;

fn folder() -> Folder {
    Folder(tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a temporary folder"))
}

/// Unit rows that differ from each other.
fn circle(count: usize) -> Vec<[f32; DIM]> {
    (0..count).map(|row| (row as f32 * 0.1).sin_cos()).map(|(sin, cos)| [sin, 0.0, cos, 0.0, 0.0, 0.0]).collect()
}

/// Bytes of a `.npy` file of this type whose numbers begin `behind` bytes after an aligned
/// position.
fn file_of(rows: &[[f32; DIM]], descr: &str, behind: usize) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}, {DIM})}}", rows.len());
    let blanks = (header.len() + 10).next_multiple_of(64) - (header.len() + 10) + behind;
    let numbers = rows.iter().flatten();
    let data: Vec<u8> = match descr {
        "<f4" => numbers.flat_map(|x| x.to_le_bytes()).collect(),
        ">f4" => numbers.flat_map(|x| x.to_be_bytes()).collect(),
        "<f8" => numbers.flat_map(|x| f64::from(*x).to_le_bytes()).collect(),
        other => panic!("{other}"),
    };
    npy(&(header + &" ".repeat(blanks)), &data)
}

/// Whether rows are lent where the disk put them, as they are wherever a file system reads past the
/// cache.
fn are_lent(folder: &Folder) -> bool {
    let place = folder.write("lent.npy", file_of(&circle(9), "<f4", 0));
    let lent = is_bytes(past_cache(&place, &Options::new()).next_batch().unwrap().unwrap());
    if !lent {
        eprintln!("skipped: this file system has no reads past the cache");
    }
    lent
}

fn is_bytes(batch: RowBatch) -> bool {
    batch.into_rows().is_none()
}

fn values_of(batch: &RowBatch) -> Vec<f32> {
    (0..batch.len()).flat_map(|row| batch.row(row)).map(|x| x as f32).collect()
}

fn past_cache(location: &str, options: &Options) -> DataSource {
    let mut source = open(location, options).unwrap();
    assert!(!source.hold(0).unwrap());
    source
}

/// Two passes past the cache, which must be equal.
fn read_past_cache(location: &str, options: &Options) -> Everything {
    let mut source = past_cache(location, options);
    let first = read_all(&mut source).unwrap();
    source.rewind().unwrap();
    assert_eq!(read_all(&mut source).unwrap(), first, "{location}");
    first
}

#[test]
fn rows_are_those_of_the_cache_wherever_they_begin() {
    let (folder, rows) = (folder(), circle(3000));
    for descr in ["<f4", ">f4", "<f8"] {
        for behind in 0..=8 {
            let place = folder.write("x.npy", file_of(&rows, descr, behind));
            for block_rows in [1, 7, 170, 171, 1000, 3000, 5000] {
                let options = Options::new().block_rows(block_rows);
                assert_eq!(read_past_cache(&place, &options), read(&place, &options), "{descr}, {behind}, {block_rows}");
            }
        }
    }
}

/// Through a writer of ours, with ids beside the rows.
fn write_rows(folder: &Folder, name: &str, format: OutputFormat, element: Element, rows: &[[f32; DIM]]) -> String {
    let path = folder.path(name);
    let layout = RowLayout::new(DIM, element).ids(IdKind::Integers);
    let mut writer = RowWriter::new(format, Box::new(File::create(&path).unwrap()), &layout).unwrap();
    for (part, rows) in rows.chunks(20_000).enumerate() {
        let ids = Some(Ids::Integers((0..rows.len()).map(|row| (part * 20_000 + row) as i64).collect()));
        let values = match element {
            Element::F64 => Rows::F64(rows.as_flattened().iter().copied().map(f64::from).collect()),
            _ => Rows::F32(rows.as_flattened().to_vec().into()),
        };
        writer.write(&Batch { rows: rows.len(), values, weights: None, ids }).unwrap();
    }
    writer.finish().unwrap();
    location(&path)
}

/// In both formats of columns and both precisions.
fn tables(folder: &Folder, rows: &[[f32; DIM]]) -> [String; 4] {
    [
        write_rows(folder, "x.parquet", OutputFormat::Parquet, Element::F32, rows),
        write_rows(folder, "x.arrow", OutputFormat::Arrow, Element::F32, rows),
        write_rows(folder, "double.parquet", OutputFormat::Parquet, Element::F64, rows),
        write_rows(folder, "double.arrow", OutputFormat::Arrow, Element::F64, rows),
    ]
}

#[test]
fn columns_are_those_of_the_cache() {
    let (folder, rows) = (folder(), circle(30_000));
    for place in tables(&folder, &rows) {
        for block_rows in [999, 25_000] {
            for options in [Options::new().block_rows(block_rows), Options::new().block_rows(block_rows).id_column("id")] {
                assert_eq!(read_past_cache(&place, &options), read(&place, &options), "{place}, {block_rows}");
            }
        }
    }
}

#[test]
fn a_wrong_row_of_a_column_is_named() {
    let (folder, mut rows) = (folder(), circle(30_000));
    rows[23_210] = [0.0, 3.0, 0.0, 0.0, 0.0, 0.0];
    for place in tables(&folder, &rows) {
        for block_rows in [500, 25_000] {
            let mut source = past_cache(&place, &Options::new().block_rows(block_rows));
            for _ in 0..2 {
                let message = with_causes(read_all(&mut source).unwrap_err());
                assert!(message.starts_with(&format!("{place}: row 23210 must have length 1, found: `3`")), "{message}");
                source.rewind().unwrap();
            }
        }
    }
}

/// Each format, with ids, which are not read, beside the rows of columns.
fn places(folder: &Folder, rows: &[[f32; DIM]]) -> Vec<String> {
    let arrays = ["<f4", "<f8"].map(|descr| folder.write(&format!("x{}.npy", &descr[1..]), file_of(rows, descr, 0)));
    arrays.into_iter().chain(tables(folder, rows)).collect()
}

/// Every method, those that draw batches with and without an order of their own.
fn methods() -> impl Iterator<Item = (Method, bool)> {
    let in_order = Method::all().into_iter().filter(Method::is_online).map(|method| (method, false));
    Method::all().into_iter().map(|method| (method, true)).chain(in_order)
}

/// A source of batches of 1,000 rows, whatever is preferred.
struct Short(DataSource);

impl Source for Short {
    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn next_batch(&mut self) -> vmfkit::Result<Option<RowBatch<'_>>> {
        self.0.next_batch()
    }

    fn prefer_rows(&mut self, rows: Option<usize>) {
        self.0.prefer_rows(rows.map(|_| 1000));
    }

    fn rewind(&mut self) -> vmfkit::Result<()> {
        self.0.rewind()
    }

    fn rows(&self) -> Option<u64> {
        Source::rows(&self.0)
    }
}

#[test]
fn blocks_have_the_rows_that_are_preferred() {
    let (folder, rows) = (folder(), circle(5000));
    if !are_lent(&folder) {
        return;
    }
    for place in places(&folder, &rows) {
        let mut source = past_cache(&place, &Options::new().block_rows(3000));
        for (preferred, expected) in
            [(Some(1152), &[1152, 1152, 1152, 1152, 392][..]), (None, &[3000, 2000]), (Some(4000), &[3000, 2000])]
        {
            source.prefer_rows(preferred);
            source.rewind().unwrap();
            let (mut found, mut lengths) = (Vec::new(), Vec::new());
            while let Some(batch) = source.next_batch().unwrap() {
                found.extend(values_of(&batch));
                lengths.push(batch.len());
                assert!(is_bytes(batch), "{place}: rows were copied");
            }
            assert_eq!(lengths, expected, "{place}");
            assert!(found == rows.as_flattened(), "{place}");
        }
        // Without a limit they may be longer than usual.
        let mut source = past_cache(&place, &Options::new());
        source.prefer_rows(Some(4999));
        source.rewind().unwrap();
        assert_eq!(source.next_batch().unwrap().unwrap().len(), 4999);
    }
}

/// Rows past the cache are checked by who works on them; those that are held were checked before.
#[test]
fn a_fit_past_the_cache_is_that_in_memory_to_the_last_bit() {
    let (folder, rows) = (folder(), circle(30_000));
    for place in places(&folder, &rows) {
        for (method, shuffle) in methods() {
            for block_rows in [999, 25_000] {
                let options = Options::new().block_rows(block_rows);
                let stop = Stop { tolerance: None, passes: 3, ..Stop::default() };
                let fitter = || Fitter::new(4).method(method.clone()).batch(300).shuffle(shuffle).stop(stop).seed(1);
                let mut held = open(&place, &options).unwrap();
                assert!(held.hold(u64::MAX).unwrap());
                let expected = fitter().fit_source(&mut held).unwrap();
                let whole = fitter().fit_source(&mut past_cache(&place, &options)).unwrap();
                let short = fitter().fit_source(&mut Short(past_cache(&place, &options))).unwrap();
                for found in [whole, short] {
                    assert_eq!(found.mixture, expected.mixture, "{place}, {}, {shuffle}, {block_rows}", method.name());
                    assert_eq!((found.rows, found.weight), (expected.rows, expected.weight));
                }
            }
        }
    }
}

/// Batches within one file are lent; those across two files are copied.
#[test]
fn a_fit_does_not_depend_on_the_ends_of_files() {
    for descr in ["<f4", "<f8"] {
        let (folder, mut rows) = (folder(), circle(12_000));
        let write = |rows: &[[f32; DIM]]| {
            folder.write("1.npy", file_of(&rows[..4000], descr, 0));
            folder.write("2.npy", file_of(&rows[4000..], descr, 0))
        };
        let (second, place, options) = (write(&rows), location(folder.0.path()), Options::new().block_rows(3000));
        for (method, shuffle) in methods() {
            let stop = Stop { tolerance: None, passes: 2, ..Stop::default() };
            let fitter = || Fitter::new(3).method(method.clone()).shuffle(shuffle).stop(stop).seed(2);
            let mut held = open(&place, &options).unwrap();
            assert!(held.hold(u64::MAX).unwrap());
            let found = fitter().fit_source(&mut Short(past_cache(&place, &options))).unwrap();
            assert_eq!(found.mixture, fitter().fit_source(&mut held).unwrap().mixture, "{descr}, {}, {shuffle}", method.name());
        }
        // In a file that is not the first.
        rows[4000 + 6500] = [0.0, 3.0, 0.0, 0.0, 0.0, 0.0];
        write(&rows);
        let mut source = Short(past_cache(&place, &options));
        for _ in 0..2 {
            let error = with_causes(Fitter::new(2).start(vmfkit::Start::Random).fit_source(&mut source).unwrap_err());
            assert!(error.starts_with(&format!("{second}: row 6500 must have length 1, found: `3`")), "{error}");
        }
    }
}

/// The row is near the end, so that a start from a sample of the first rows does not meet it.
#[test]
fn a_wrong_row_is_named_in_the_middle_of_a_fit() {
    let (folder, mut rows) = (folder(), circle(30_000));
    rows[23_210] = [0.0, 3.0, 0.0, 0.0, 0.0, 0.0];
    rows[29_210][0] = f32::NAN;
    for place in places(&folder, &rows) {
        for block_rows in [500, 25_000] {
            let options = Options::new().block_rows(block_rows);
            let expected = with_causes(read_all(&mut open(&place, &options).unwrap()).unwrap_err());
            let mut source = Short(past_cache(&place, &options));
            for (method, shuffle) in methods() {
                let fitter = Fitter::new(2).method(method).shuffle(shuffle).start(vmfkit::Start::Random);
                let error = fitter.fit_source(&mut source).unwrap_err();
                assert_eq!(with_causes(error.clone()), expected);
                assert!(expected.starts_with(&format!("{place}: row 23210 must have length 1, found: `3`")), "{expected}");
                assert_eq!(source.next_validated(&mut RowBatch::default()).unwrap_err(), error, "the pass has ended");
            }
        }
    }
}

/// Unvalidated, validated, or in turn: the same rows, and the same numbers of them.
#[test]
fn batches_may_be_validated_in_turn() {
    let (folder, rows) = (folder(), circle(30_000));
    if !are_lent(&folder) {
        return;
    }
    for place in places(&folder, &rows) {
        let mut source = past_cache(&place, &Options::new().block_rows(999));
        let (mut found, mut buffer) = (Vec::new(), RowBatch::default());
        for turn in 0.. {
            assert_eq!(source.first_row().min(1), u64::from(turn > 1));
            let batch = if turn % 3 == 2 { source.next_validated(&mut buffer) } else { source.next_batch() };
            let Some(batch) = batch.unwrap() else { break };
            found.extend(values_of(&batch));
            assert_eq!(batch.is_validated(), turn % 3 == 2);
            assert!(batch.is_validated() || is_bytes(batch), "{place}: rows were copied");
        }
        assert!(found == rows.as_flattened(), "{place}");
    }
}

#[test]
fn blocks_do_not_depend_on_files() {
    let rows = circle(1000);
    for types in [
        ["<f4", "<f4", "<f4", "<f4"],
        ["<f4", ">f4", "<f4", "<f4"],
        ["<f4", "<f8", "<f4", "<f4"],
        ["<f8", "<f4", "<f4", "<f8"],
        ["<f8", "<f8", "<f8", "<f8"],
    ] {
        let folder = folder();
        for (number, (part, descr)) in
            [&rows[..400], &rows[400..405], &rows[405..405], &rows[405..]].iter().zip(types).enumerate()
        {
            folder.write(&format!("{number}.npy"), file_of(part, descr, usize::from(number == 1)));
        }
        let place = location(folder.0.path());
        for block_rows in [1, 100, 200, 400, 405, 600] {
            let options = Options::new().block_rows(block_rows);
            assert_eq!(read_past_cache(&place, &options), read(&place, &options), "{types:?}, {block_rows}");
        }
    }
}

/// Larger than a large page of memory, and not a whole number of sectors.
#[test]
fn large_blocks_are_read_whole() {
    let (folder, rows) = (folder(), circle(300_001));
    let place = folder.write("x.npy", file_of(&rows, "<f4", 0));
    let options = Options::new().block_rows(130_001);
    let everything = read_past_cache(&place, &options);
    assert_eq!(everything.blocks, [130_001, 130_001, 39_999]);
    assert!(everything.rows.iter().flatten().eq(rows.as_flattened().iter().map(|&x| f64::from(x)).collect::<Vec<_>>().iter()));
}

#[test]
fn rows_are_rescaled_where_they_are() {
    let folder = folder();
    let mut rows = circle(500);
    rows[321].iter_mut().for_each(|x| *x *= 4.0);
    for descr in ["<f4", "<f8"] {
        let place = folder.write("x.npy", file_of(&rows, descr, 0));
        let options = Options::new().block_rows(100).rescale(true);
        assert_eq!(read_past_cache(&place, &options), read(&place, &options));
        let mut source = past_cache(&place, &options);
        read_all(&mut source).unwrap();
        assert_eq!(source.rescaled(), Some(1), "{descr}");
    }
}

#[test]
fn a_wrong_row_is_named_with_its_file() {
    let folder = folder();
    let mut rows = circle(500);
    folder.write("1.npy", file_of(&rows, "<f4", 0));
    rows[321] = [0.0, 0.0, 2.0, 0.0, 0.0, 0.0];
    let place = folder.write("2.npy", file_of(&rows, "<f4", 0));
    for block_rows in [1, 100, 150, 500, 2000] {
        let mut source = past_cache(&location(folder.0.path()), &Options::new().block_rows(block_rows));
        for _ in 0..2 {
            let message = with_causes(read_all(&mut source).unwrap_err());
            assert!(message.starts_with(&format!("{place}: row 321 must have length 1, found: `2`")), "{message}");
            assert_eq!(with_causes(source.next_validated(&mut RowBatch::default()).unwrap_err()), message);
            source.rewind().unwrap();
        }
    }
    rows[321][0] = f32::NAN;
    folder.write("2.npy", file_of(&rows, "<f4", 0));
    for options in [Options::new(), Options::new().rescale(true)] {
        let message = with_causes(read_all(&mut past_cache(&place, &options)).unwrap_err());
        assert!(message.contains("2.npy: row 321, column 0 must be"), "{message}");
    }
}

#[test]
fn a_file_that_is_cut_or_written_to_is_named() {
    let (folder, rows) = (folder(), circle(100_000));
    let place = folder.write("x.npy", file_of(&rows, "<f4", 0));
    let mut source = past_cache(&place, &Options::new().block_rows(1000));
    source.next_validated(&mut RowBatch::default()).unwrap();
    File::options().write(true).open(&place).unwrap().set_len(1_200_000).unwrap();
    let message = loop {
        match source.next_validated(&mut RowBatch::default()) {
            Ok(block) => assert!(block.is_some(), "it was read to its end"),
            Err(error) => break with_causes(error),
        }
    };
    let expected = "x.npy: the file has changed since it was opened, it had 2400000 bytes of data, found: `";
    assert!(message.contains(expected), "{message}");
    assert!(
        with_causes(source.rewind().unwrap_err()).contains("x.npy: the file has changed since it was opened, its length was ")
    );
}
