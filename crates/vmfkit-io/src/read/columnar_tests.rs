//! Reads Parquet and Arrow files of other programs, written by testdata/columnar.py with the same
//! formulas.

use crate::bytes::{ByteReader, ByteSource};
use crate::read::arrow::ArrowReader;
use crate::read::columns::Columns;
use crate::read::parquet::ParquetReader;
use crate::{Batch, ByteBuffers, Element, Error, Ids, OutputFormat, Reader, Result, RowLayout, RowWriter, Schema};
use bytes::Bytes;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use vmfkit::RowBatch;
use vmfkit::rows::Rows;

const ROWS: usize = 40;
const DIM: usize = 5;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/columnar").join(name)
}

fn open(name: &str, columns: &Columns) -> Result<Box<dyn Reader>> {
    let source = ByteSource::open(&path(name))?;
    Ok(match path(name).extension().and_then(|extension| extension.to_str()) {
        Some("parquet") => Box::new(ParquetReader::open(source, columns)?),
        _ => Box::new(ArrowReader::open(source, columns)?),
    })
}

/// All rows, read in batches of `most`.
fn read_all(reader: &mut dyn Reader, most: usize) -> Result<Batch> {
    let (mut all, mut batch) = (Batch::default(), Batch::default());
    loop {
        reader.read(most, &mut batch)?;
        if batch.rows == 0 {
            return Ok(all);
        }
        assert!(batch.rows <= most);
        if all.rows == 0 {
            all = batch.clone();
            continue;
        }
        all.rows += batch.rows;
        match (&mut all.values, &batch.values) {
            (Rows::F32(all), Rows::F32(values)) => all.to_mut().extend_from_slice(values),
            (Rows::F64(all), Rows::F64(values)) => all.to_mut().extend_from_slice(values),
            _ => panic!("batches of different kinds"),
        }
        if let (Some(all), Some(weights)) = (&mut all.weights, &batch.weights) {
            all.extend(weights);
        }
        match (&mut all.ids, &batch.ids) {
            (Some(Ids::Integers(all)), Some(Ids::Integers(ids))) => all.extend(ids),
            (Some(Ids::Texts(all)), Some(Ids::Texts(ids))) => all.extend(ids.iter().cloned()),
            _ => {}
        }
    }
}

fn expected(rows: usize, dim: usize) -> Vec<f64> {
    let value = |i: usize, j: usize| ((7 * i + 3 * j) % 64) as f64 / 64.0 - 0.5;
    (0..rows).flat_map(|i| (0..dim).map(move |j| value(i, j))).collect()
}

fn numbers(batch: &Batch) -> Vec<f64> {
    assert!(!batch.values.is_sparse());
    batch.values.clone().into_f64()
}

/// Checks that a file has the rows of the formula, with batches of any size, twice, and again with
/// O_DIRECT.
fn check(name: &str, columns: &Columns, element: Element, rows: usize, dim: usize) -> Batch {
    let mut reader = open(name, columns).unwrap_or_else(|error| panic!("{name}: {error:?}"));
    let through_cache = check_reader(name, &mut *reader, element, rows, dim);
    reader.read_direct(1).unwrap();
    assert_eq!(check_reader(name, &mut *reader, element, rows, dim), through_cache, "{name}");
    if reader.lends_bytes() {
        for most in [1, 7, usize::MAX] {
            reader.rewind().unwrap();
            let found = read_all_bytes(&mut *reader, most).unwrap();
            assert_eq!(found, through_cache.values, "{name}");
        }
    }
    through_cache
}

/// The numbers of all rows, lent in pieces of `most` rows; every third piece is read as a batch.
fn read_all_bytes(reader: &mut dyn Reader, most: usize) -> Result<Rows<'static>> {
    let mut buffers = ByteBuffers::new(reader.schema().element);
    for turn in 1.. {
        if turn % 3 == 0 {
            let mut batch = Batch::default();
            reader.read(most, &mut batch)?;
            buffers.push_rows(batch.values);
        } else if reader.read_bytes(most, &mut buffers)? == 0 {
            break;
        }
    }
    let batch = buffers.into_batch(reader.schema().dim).into_numbers(RowBatch::default());
    Ok(batch.into_rows().expect("bytes were made numbers"))
}

fn check_reader(name: &str, reader: &mut dyn Reader, element: Element, rows: usize, dim: usize) -> Batch {
    let schema = reader.schema().clone();
    assert_eq!((schema.dim, schema.element, schema.is_sparse(), schema.rows), (dim, element, false, Some(rows as u64)), "{name}");
    let mut last = Batch::default();
    for most in [1, 7, 16, rows, usize::MAX] {
        last = read_all(reader, most).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_eq!(last.rows, rows, "{name}");
        assert_eq!(numbers(&last), expected(rows, dim), "{name}");
        assert_eq!(matches!(last.values, Rows::F64(_)), element == Element::F64, "{name}");
        reader.rewind().unwrap();
    }
    last
}

/// An error with all its causes.
fn message(error: &dyn std::error::Error) -> String {
    error.source().map_or(error.to_string(), |cause| format!("{error}: {}", message(cause)))
}

fn failure(name: &str, columns: &Columns) -> String {
    let error: Error = match open(name, columns) {
        Ok(mut reader) => {
            let error = read_all(&mut *reader, 7).expect_err(name);
            reader.rewind().unwrap();
            reader.read_direct(1).unwrap();
            if reader.lends_bytes() {
                let past_cache = read_all_bytes(&mut *reader, 7).expect_err(name);
                assert_eq!(message(&past_cache), message(&error), "{name}");
            }
            error
        }
        Err(error) => error,
    };
    message(&error)
}

#[test]
fn lists_of_every_kind_are_read() {
    for kind in ["fixed", "list", "large"] {
        for (code, element) in [("f16", Element::F16), ("f32", Element::F32), ("f64", Element::F64)] {
            for extension in ["parquet", "arrow"] {
                check(&format!("{kind}_{code}.{extension}"), &Columns::default(), element, ROWS, DIM);
            }
        }
    }
    check("v2.feather", &Columns::default(), Element::F32, ROWS, DIM);
    check("body_f64.arrow", &Columns::default(), Element::F64, ROWS, DIM);
}

#[test]
fn pages_of_every_kind_are_read() {
    for name in [
        "plain_none",
        "plain_snappy",
        "plain_zstd",
        "plain_lz4",
        "dictionary",
        "required",
        "split_f32",
        "v2",
        "checksums",
        "page_index",
        "no_arrow_schema",
        "not_compliant",
    ] {
        check(&format!("{name}.parquet"), &Columns::default(), Element::F32, ROWS, DIM);
    }
    check("split_f16.parquet", &Columns::default(), Element::F16, ROWS, DIM);
    for name in ["dictionary_overflow", "split_f64", "v2_dictionary"] {
        check(&format!("{name}.parquet"), &Columns::default(), Element::F64, ROWS, DIM);
    }
    check("long_rows.parquet", &Columns::default(), Element::F32, 7, 300);
}

#[test]
fn weights_and_ids_are_read_with_their_rows() {
    let weights: Vec<f64> = (0..ROWS).map(|i| i as f64 / 2.0 + 1.0).collect();
    let names: Vec<String> = (0..ROWS).map(|i| format!("row-{i}")).collect();
    let kinds: Vec<String> = (0..ROWS).map(|i| format!("kind-{}", i % 3)).collect();
    for name in ["beside.parquet", "beside.arrow", "body_lz4.arrow", "body_zstd.arrow", "body_lz4.arrows", "body_zstd.arrows"] {
        let dim = if name.starts_with("body") { 50 } else { DIM };
        for (id, ids) in [
            ("name", Ids::Texts(names.clone())),
            ("kind", Ids::Texts(kinds.clone())),
            ("number", Ids::Integers((0..ROWS).map(|i| 10 * i as i64).collect())),
        ] {
            let columns = Columns { weight: Some("weight"), id: Some(id), ..Default::default() };
            let batch = check(name, &columns, Element::F32, ROWS, dim);
            assert_eq!(batch.ids, Some(ids), "{name}");
            assert_eq!(batch.weights.as_ref(), Some(&weights), "{name}");
        }
        let batch = check(name, &Columns::default(), Element::F32, ROWS, dim);
        assert_eq!((batch.weights, batch.ids), (None, None), "{name}");
    }
    for name in ["flat.parquet", "flat.arrow"] {
        let columns = Columns { weight: Some("weight"), id: Some("id"), ..Default::default() };
        let batch = check(name, &columns, Element::F32, ROWS, DIM);
        assert_eq!((batch.ids, batch.weights), (Some(Ids::Texts(names.clone())), Some(weights.clone())), "{name}");
    }
}

#[test]
fn columns_are_read_in_the_requested_order() {
    for name in ["flat.parquet", "flat.arrow"] {
        let names = ["x3".to_string(), "x0".to_string()];
        let mut reader = open(name, &Columns { coordinates: Some(&names), weight: Some("x1"), ..Default::default() }).unwrap();
        let batch = read_all(&mut *reader, 9).unwrap();
        let all = expected(ROWS, DIM);
        let pairs: Vec<f64> = (0..ROWS).flat_map(|i| [all[i * DIM + 3], all[i * DIM]]).collect();
        assert_eq!(numbers(&batch), pairs, "{name}");
        assert_eq!(batch.weights, Some((0..ROWS).map(|i| all[i * DIM + 1]).collect()), "{name}");
    }
    let mut reader = open("integers.parquet", &Columns::default()).unwrap();
    assert_eq!(reader.schema().element, Element::F64);
    let batch = read_all(&mut *reader, 64).unwrap();
    assert_eq!(numbers(&batch), (0..ROWS).flat_map(|i| [i as f64; 2]).collect::<Vec<_>>());
}

#[test]
fn a_file_without_rows_has_no_dimension() {
    for name in ["no_rows.parquet", "no_rows.arrow"] {
        let mut reader = open(name, &Columns::default()).unwrap();
        assert_eq!((reader.schema().dim, reader.schema().rows), (0, Some(0)), "{name}");
        assert_eq!(read_all(&mut *reader, 8).unwrap().rows, 0, "{name}");
    }
}

#[test]
fn a_pipe_is_read_once() {
    let bytes = std::fs::read(path("stream.arrows")).unwrap();
    let mut reader = ArrowReader::from_pipe(ByteReader::pipe(Cursor::new(bytes)), &Columns::default()).unwrap();
    assert_eq!(reader.schema().rows, None);
    reader.rewind().unwrap();
    assert_eq!(numbers(&read_all(&mut reader, 9).unwrap()), expected(ROWS, DIM));
    assert!(matches!(reader.rewind(), Err(Error::Rows(vmfkit::Error::CannotRewind))));
}

#[test]
fn unusable_rows_are_named() {
    let weight = Columns { weight: Some("weight"), ..Default::default() };
    for (name, columns, end) in [
        ("null_row", Columns::default(), "row 23 of column embedding must have a value, found: `null`"),
        ("null_row_fixed", Columns::default(), "row 23 of column embedding must have a value, found: `null`"),
        ("null_first", Columns::default(), "row 0 of column embedding must have a value, found: `null`"),
        ("null_within", Columns::default(), "row 23 of column embedding must be all numbers, found at position 2: `null`"),
        ("null_within_fixed", Columns::default(), "row 23 of column embedding must be all numbers, found at position 2: `null`"),
        ("short", Columns::default(), "row 23 of column embedding must have 5 numbers as row 0 has, found: `3`"),
        ("short_f64", Columns::default(), "row 23 of column embedding must have 5 numbers as row 0 has, found: `3`"),
        ("long", Columns::default(), "row 23 of column embedding must have 5 numbers as row 0 has, found: `9`"),
        ("long_last", Columns::default(), "row 39 of column embedding must have 5 numbers as row 0 has, found: `9`"),
        ("short_last", Columns::default(), "row 39 of column embedding must have 5 numbers as row 0 has, found: `2`"),
        ("empty", Columns::default(), "row 23 of column embedding must have 5 numbers as row 0 has, found: `0`"),
        ("empty_first", Columns::default(), "row 0 of column embedding must have at least one number, found: `0`"),
        ("null_flat", Columns::default(), "row 23 of column a must have a value, found: `null`"),
        ("null_weight", weight, "row 23 of column weight must have a value, found: `null`"),
        ("two", Columns::default(), "several columns hold lists of floats, found: `a, b`\nhint: `--columns NAME` chooses one"),
        (
            "integer_lists",
            Columns::default(),
            "column x must hold lists of floats, found: `list of Int64`\nhint: cast it to lists of float32",
        ),
    ] {
        for extension in ["parquet", "arrow"] {
            let file = format!("{name}.{extension}");
            let text = failure(&file, &columns);
            assert!(text.ends_with(end), "{file}: {text}");
            if end.starts_with("row 23") {
                let place = if extension == "parquet" { "row group 1: " } else { "record batch 1: " };
                assert!(text.starts_with(place), "{file}: {text}");
            }
        }
    }
}

#[test]
fn columns_compressed_by_gzip_and_brotli_are_read() {
    for file in ["gzip.parquet", "brotli.parquet"] {
        let all = read_all(&mut *open(file, &Columns::default()).unwrap(), 11).unwrap();
        assert_eq!((all.rows, all.values.into_f64()), (ROWS, expected(ROWS, DIM)), "{file}");
    }
    // The footer stores twice the number of the codec, which is 4. 3 is LZO.
    let mut bytes = std::fs::read(path("brotli.parquet")).unwrap();
    let place = bytes.windows(3).rposition(|found| found == [0x15, 8, 0x16]).unwrap();
    bytes[place + 1] = 6;
    let refused = ParquetReader::with_pages(ByteSource::Memory(bytes.into()), &Columns::default(), true).err().unwrap();
    let expected = "row group 0: columns must be compressed by snappy, gzip, brotli, lz4, zstd or not at all, found: `LZO`";
    assert_eq!(message(&refused), expected);
}

#[test]
fn pages_and_records_give_the_same_rows() {
    for entry in std::fs::read_dir(path("")).unwrap() {
        let file = entry.unwrap().path();
        if file.extension() != Some("parquet".as_ref()) {
            continue;
        }
        let read = |pages| {
            let bytes = Bytes::from(std::fs::read(&file).unwrap());
            let mut reader = ParquetReader::with_pages(ByteSource::Memory(bytes), &Columns::default(), pages)?;
            // They differ in memory.
            let schema = Schema { held: 0, ..reader.schema().clone() };
            Ok::<_, Error>((schema, read_all(&mut reader, 11)?))
        };
        match (read(true), read(false)) {
            (Ok(pages), Ok(records)) => assert_eq!(pages, records, "{}", file.display()),
            (Err(pages), Err(records)) => {
                let (pages, records) = (message(&pages), message(&records));
                assert_eq!(pages.split(": row ").last(), records.split(": row ").last(), "{}", file.display());
            }
            (pages, records) => panic!("{}: {pages:?} by pages, {records:?} by records", file.display()),
        }
    }
}

/// The output of a writer.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl crate::Destination for Shared {}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn written_rows_are_read_back() {
    let columns = Columns { weight: Some("weight"), id: Some("id"), ..Default::default() };
    let numbers = expected(ROWS, DIM);
    let texts = Ids::Texts((0..ROWS).map(|row| format!("row-{row}")).collect());
    for (element, ids) in [(Element::F32, texts), (Element::F64, Ids::Integers((0..ROWS as i64).collect()))] {
        let values = match element {
            Element::F64 => Rows::F64(numbers.clone().into()),
            _ => Rows::F32(numbers.iter().map(|&number| number as f32).collect()),
        };
        let weights = Some((0..ROWS).map(|row| row as f64).collect());
        let batch = Batch { rows: ROWS, values, weights, ids: Some(ids.clone()) };
        for format in [OutputFormat::Parquet, OutputFormat::Arrow] {
            let shared = Shared::default();
            let layout = RowLayout::new(DIM, element).ids(ids.kind()).weights();
            let mut writer = RowWriter::new(format, Box::new(shared.clone()), &layout).unwrap();
            writer.write(&batch).unwrap();
            writer.write(&batch).unwrap();
            writer.finish().unwrap();
            let bytes = std::mem::take(&mut *shared.0.lock().unwrap());
            let mut reader: Box<dyn Reader> = match format {
                OutputFormat::Parquet => Box::new(ParquetReader::open(ByteSource::Memory(bytes.into()), &columns).unwrap()),
                _ => Box::new(ArrowReader::open(ByteSource::Memory(bytes.into()), &columns).unwrap()),
            };
            let mut again = Batch::default();
            for _ in 0..2 {
                reader.read(ROWS, &mut again).unwrap();
                assert_eq!(again, batch, "{format:?}");
            }
            reader.read(ROWS, &mut again).unwrap();
            assert_eq!(again.rows, 0);
        }
    }
}

/// Whole pages and messages are in memory. Lists that are lent from an Arrow file take none.
#[test]
fn memory_besides_the_rows_is_estimated() {
    let held = |name: &str| {
        let schema = open(name, &Columns::default()).unwrap().schema().clone();
        let width = if schema.element == Element::F64 { 8 } else { 4 };
        (schema.held, schema.rows.unwrap() * schema.dim as u64 * width)
    };
    for name in ["fixed_f32.arrow", "fixed_f64.arrow"] {
        assert_eq!(held(name).0, 0, "{name}");
    }
    // The largest part of a file counts.
    for name in [
        "body_lz4.arrow",
        "body_zstd.arrow",
        "flat.arrow",
        "fixed_f16.arrow",
        "flat.parquet",
        "plain_none.parquet",
        "plain_zstd.parquet",
    ] {
        let (found, rows) = held(name);
        assert!(found >= rows / 8 && found < 20 * rows + 100_000, "{name}: {found} beside {rows}");
    }
}

/// A page with a wrong checksum is rejected.
#[test]
fn pages_with_a_wrong_checksum_are_refused() {
    let bytes = std::fs::read(path("checksums.parquet")).unwrap();
    let mut refused = 0;
    // The first quarter of the file is within a page.
    for place in (60..bytes.len() / 4).step_by(7) {
        let mut bytes = bytes.clone();
        bytes[place] ^= 1;
        if let Err(error) = survive("checksums.parquet", bytes) {
            refused += usize::from(message(&error).contains("checksum mismatch"));
        }
    }
    assert!(refused > 10, "{refused}");
}

/// Reads a file that may be damaged to the end.
fn survive(name: &str, bytes: Vec<u8>) -> Result<Batch> {
    let columns = Columns { weight: name.starts_with("b").then_some("weight"), ..Default::default() };
    if name.ends_with("parquet") {
        read_all(&mut ParquetReader::open(ByteSource::Memory(bytes.into()), &columns)?, 64)
    } else {
        read_all(&mut ArrowReader::open(ByteSource::Memory(bytes.into()), &columns)?, 64)
    }
}

#[test]
fn truncated_columnar_files_are_refused() {
    for name in ["list_f32.parquet", "beside.parquet", "flat.parquet", "fixed_f32.arrow", "body_zstd.arrow"] {
        let bytes = std::fs::read(path(name)).unwrap();
        assert_eq!(survive(name, bytes.clone()).unwrap().rows, ROWS, "{name}");
        for length in (0..bytes.len()).step_by(5) {
            assert!(survive(name, bytes[..length].to_vec()).is_err(), "{name} cut at {length}");
        }
    }
    // A stream may end between two messages, but not within a message.
    let bytes = std::fs::read(path("stream.arrows")).unwrap();
    for length in (0..bytes.len()).step_by(5) {
        if let Ok(batch) = survive("stream.arrows", bytes[..length].to_vec()) {
            assert!(batch.rows % 7 == 0 && batch.rows < ROWS || batch.rows == ROWS && length + 8 >= bytes.len(), "{length}");
        }
    }
}

#[test]
fn flipped_bits_never_panic() {
    let names =
        ["list_f32", "fixed_f64", "beside", "flat", "dictionary", "v2", "plain_snappy", "plain_lz4", "split_f32", "required"];
    let names = names.map(|name| format!("{name}.parquet")).into_iter();
    let arrow = ["list_f32.arrow", "beside.arrow", "body_lz4.arrow", "body_zstd.arrow", "stream.arrows"].map(String::from);
    for name in names.chain(arrow) {
        let bytes = std::fs::read(path(&name)).unwrap();
        for place in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << (place % 8);
            if let Ok(batch) = survive(&name, flipped) {
                assert!(batch.rows <= 1 << 20, "{name}, byte {place}");
            }
        }
    }
}

/// Writes next to the sources: the folder for temporary files may be on tmpfs, which has no direct
/// reads.
#[test]
fn flipped_bits_are_the_same_past_the_cache() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    for name in ["list_f32.parquet", "list_f64.parquet", "fixed_f32.arrow", "list_f32.arrow", "list_f64.arrow"] {
        let bytes = std::fs::read(path(name)).unwrap();
        let file = folder.path().join(name);
        for place in (0..bytes.len()).step_by(17) {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << (place % 8);
            std::fs::remove_file(&file).ok();
            std::fs::write(&file, &flipped).unwrap();
            let Ok(mut reader) = open(file.to_str().unwrap(), &Columns::default()) else { continue };
            let through_cache = read_all(&mut *reader, 64).map(|batch| numbers(&batch));
            reader.rewind().unwrap();
            reader.read_direct(1).unwrap();
            if reader.lends_bytes() {
                let past_cache = read_all_bytes(&mut *reader, 64).map(Rows::into_f64);
                let bits = |numbers: Vec<f64>| numbers.into_iter().map(f64::to_bits).collect::<Vec<_>>();
                // Arrow's decoder rejects some changes that do not affect the numbers.
                assert!(
                    through_cache.is_err() || past_cache.map(bits).ok() == through_cache.map(bits).ok(),
                    "{name}, byte {place}"
                );
            }
        }
    }
}

/// Prints the speed of reading in GB/s: `cargo test --release -p vmfkit-io -- --ignored --nocapture
/// speed`.
#[test]
#[ignore = "a measurement; VMFKIT_SPEED names the file, VMFKIT_SPEED_RECORDS asks for Arrow's reader"]
fn speed() {
    let file = std::env::var("VMFKIT_SPEED").expect("VMFKIT_SPEED names a Parquet or Arrow file");
    for _ in 0..3 {
        let start = std::time::Instant::now();
        let mut reader = match std::env::var("VMFKIT_SPEED_RECORDS") {
            Ok(_) => {
                let file = ByteSource::open(file.as_ref()).unwrap();
                Box::new(ParquetReader::with_pages(file, &Columns::default(), false).unwrap())
            }
            Err(_) => open(&file, &Columns::default()).unwrap(),
        };
        let opened = start.elapsed();
        let mut batch = Batch::default();
        let mut bytes = 0;
        loop {
            reader.read(4096, &mut batch).unwrap();
            if batch.rows == 0 {
                break;
            }
            bytes += batch.rows * reader.schema().dim * if reader.schema().element == Element::F64 { 8 } else { 4 };
        }
        let seconds = start.elapsed().as_secs_f64();
        println!("{file}: {:.2} GB/s, opened in {opened:?}", bytes as f64 / seconds / 1e9);
    }
}
