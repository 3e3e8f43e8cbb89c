//! The output of writers, byte by byte for text formats, and what they reject.

use std::io::{self, Write};
use std::path::Path;
use std::slice;
use std::sync::{Arc, Mutex};
use vmfkit::rows::{Rows, SparseRows};
use vmfkit_io::{
    Batch, Column, ColumnData, ColumnKind, Destination, Element, Error, IdKind, Ids, OutputFormat, Result, RowLayout, RowWriter,
    Sink, TableWriter,
};

/// Memory that can be read after the writer is dropped.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn sink(&self) -> Sink {
        Box::new(self.clone())
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Destination for Shared {}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A pipe without a reader.
struct Gone;

impl Destination for Gone {}

impl Write for Gone {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn text(format: OutputFormat) -> String {
    let shared = Shared::default();
    let columns = [
        Column::new("id", ColumnKind::Text),
        Column::new("the \"label\"", ColumnKind::U32),
        Column::new("p", ColumnKind::F32),
        Column::new("ln p", ColumnKind::F64),
        Column::new("noise", ColumnKind::Bool),
    ];
    let mut table = TableWriter::new(format, shared.sink(), &columns, None).unwrap();
    let ids = ["a,\tb".to_owned(), "c".to_owned()];
    let rest = [ColumnData::U32(&[1, 2]), ColumnData::F32(&[0.1, 1e-9]), ColumnData::F64(&[-0.5, f64::NEG_INFINITY])];
    let data = [&[ColumnData::Text(&ids)][..], &rest, &[ColumnData::Bool(&[true, false])]].concat();
    table.write(&data).unwrap();
    table.finish().unwrap();
    String::from_utf8(shared.bytes()).unwrap()
}

#[test]
fn tables_of_text_have_the_shortest_digits() {
    assert_eq!(
        text(OutputFormat::Csv),
        "id,\"the \"\"label\"\"\",p,ln p,noise\n\"a,\tb\",1,0.1,-0.5,true\nc,2,1e-9,-inf,false\n"
    );
    assert_eq!(
        text(OutputFormat::Tsv),
        "id\t\"the \"\"label\"\"\"\tp\tln p\tnoise\n\"a,\tb\"\t1\t0.1\t-0.5\ttrue\nc\t2\t1e-9\t-inf\tfalse\n"
    );
    assert_eq!(
        text(OutputFormat::JsonLines),
        "{\"id\":\"a,\\tb\",\"the \\\"label\\\"\":1,\"p\":0.1,\"ln p\":-0.5,\"noise\":true}\n\
         {\"id\":\"c\",\"the \\\"label\\\"\":2,\"p\":1e-9,\"ln p\":null,\"noise\":false}\n"
    );
}

fn npy(columns: &[Column], rows: Option<u64>, data: &[ColumnData]) -> Result<Vec<u8>> {
    let shared = Shared::default();
    let mut table = TableWriter::new(OutputFormat::Npy, shared.sink(), columns, rows)?;
    table.write(data)?;
    table.write(data)?;
    table.finish()?;
    Ok(shared.bytes())
}

#[test]
fn an_npy_file_is_the_same_whether_rows_are_announced_or_not() {
    let (labels, numbers) = (Column::new("label", ColumnKind::I64), Column::new("x", ColumnKind::F32));
    let one = npy(slice::from_ref(&labels), None, &[ColumnData::I64(&[5, -6])]).unwrap();
    assert_eq!(one, npy(slice::from_ref(&labels), Some(4), &[ColumnData::I64(&[5, -6])]).unwrap());
    assert_eq!(one.len(), 128 + 4 * 8);
    assert!(String::from_utf8_lossy(&one).contains("{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }"));
    let data = [ColumnData::I64(&[5, -6]), ColumnData::F32(&[0.5, 0.25])];
    let two = npy(&[labels.clone(), numbers.clone()], None, &data).unwrap();
    assert_eq!(two, npy(&[labels.clone(), numbers.clone()], Some(4), &data).unwrap());
    let descr = "{'descr': [('label', '<i8'), ('x', '<f4')], 'fortran_order': False, 'shape': (4,), }";
    assert!(String::from_utf8_lossy(&two).contains(descr));
    let row = |label: i64, x: f32| [&label.to_le_bytes()[..], &x.to_le_bytes()].concat();
    assert_eq!(two[128..], [row(5, 0.5), row(-6, 0.25), row(5, 0.5), row(-6, 0.25)].concat());
    // Names that do not fit into a header of version 1.0.
    let many: Vec<Column> = (0..5000).map(|number| Column::new(format!("x_{number}"), ColumnKind::Bool)).collect();
    let wide = npy(&many, None, &vec![ColumnData::Bool(&[true]); 5000]).unwrap();
    let length = u32::from_le_bytes(wide[8..12].try_into().unwrap()) as usize;
    assert_eq!((&wide[6..8], (12 + length) % 64, wide.len()), (&[2, 0][..], 0, 12 + length + 2 * 5000));
    let error = npy(&[labels], Some(5), &[ColumnData::I64(&[5, -6])]).unwrap_err();
    assert_eq!(error.to_string(), "the header declares 5 rows, found: `4`");
}

#[test]
fn tables_that_do_not_fit_are_refused() {
    let refused = |format, columns: &[Column], data: &[ColumnData]| {
        let write = || TableWriter::new(format, Shared::default().sink(), columns, None)?.write(data);
        write().unwrap_err().to_string()
    };
    let (label, name) = (Column::new("label", ColumnKind::U32), Column::new("name", ColumnKind::Text));
    assert_eq!(
        refused(OutputFormat::Npy, &[label.clone(), name.clone()], &[]),
        "an .npy file holds only numbers, found a column of text: `name`\nhint: leave it out, or write .parquet or .csv"
    );
    assert_eq!(
        refused(OutputFormat::Safetensors, slice::from_ref(&label), &[]),
        "a table must be written as parquet, arrow, csv, tsv, jsonl or npy, found: `safetensors`"
    );
    let columns = [label, name];
    assert_eq!(
        refused(OutputFormat::Csv, &columns, &[ColumnData::U32(&[1])]),
        "a table of 2 columns needs data for each, found: `1`"
    );
    assert_eq!(
        refused(OutputFormat::Csv, &columns, &[ColumnData::U32(&[1]), ColumnData::F64(&[1.0])]),
        "column name must hold Text, found: `F64`"
    );
    assert_eq!(
        refused(OutputFormat::Csv, &columns, &[ColumnData::U32(&[1]), ColumnData::Text(&[])]),
        "column name must have 1 rows, as the first has, found: `0`"
    );
}

/// Two rows, sparse: (0, 0.5, 0) and (0.25, 0, 2).
fn sparse() -> Batch {
    Batch {
        rows: 2,
        values: Rows::SparseF64(SparseRows::new(vec![0, 1, 3], vec![1, 0, 2], vec![0.5, 0.25, 2.0])),
        weights: Some(vec![1.5, 2.0]),
        ids: Some(Ids::Integers(vec![7, -8])),
    }
}

fn rows(format: OutputFormat, layout: &RowLayout, batch: &Batch) -> Result<Vec<u8>> {
    let shared = Shared::default();
    let mut writer = RowWriter::new(format, shared.sink(), layout)?;
    writer.write(batch)?;
    writer.finish()?;
    Ok(shared.bytes())
}

#[test]
fn rows_are_written_with_what_the_layout_has() {
    let plain = RowLayout::new(3, Element::F64);
    let full = RowLayout::new(3, Element::F32).ids(IdKind::Integers).weights();
    let text = |format, layout| String::from_utf8(rows(format, layout, &sparse()).unwrap()).unwrap();
    assert_eq!(text(OutputFormat::Csv, &plain), "x0,x1,x2\n0.0,0.5,0.0\n0.25,0.0,2.0\n");
    assert_eq!(text(OutputFormat::Tsv, &full), "id\tx0\tx1\tx2\tweight\n7\t0.0\t0.5\t0.0\t1.5\n-8\t0.25\t0.0\t2.0\t2.0\n");
    assert_eq!(
        text(OutputFormat::JsonLines, &full),
        "{\"id\":7,\"embedding\":[0.0,0.5,0.0],\"weight\":1.5}\n{\"id\":-8,\"embedding\":[0.25,0.0,2.0],\"weight\":2.0}\n"
    );
    let npy = rows(OutputFormat::Npy, &plain, &sparse()).unwrap();
    assert_eq!(npy, rows(OutputFormat::Npy, &plain.clone().rows(2), &sparse()).unwrap());
    assert_eq!(npy.len(), 128 + 6 * 8);
    let tensors = rows(OutputFormat::Safetensors, &full, &sparse()).unwrap();
    assert_eq!(tensors, rows(OutputFormat::Safetensors, &full.clone().rows(2), &sparse()).unwrap());
    assert_eq!(tensors[tensors.len() - 8..], 2f64.to_le_bytes());
    assert_eq!(tensors[tensors.len() - 24..tensors.len() - 16], (-8i64).to_le_bytes());
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let refused = |format, layout: &RowLayout| rows(format, layout, &sparse()).unwrap_err().to_string();
    let plain = RowLayout::new(3, Element::F32);
    assert_eq!(
        refused(OutputFormat::Npy, &plain.clone().weights()),
        "an .npy file holds only rows, found: `weight`\nhint: leave it out, or write .parquet"
    );
    assert_eq!(
        refused(OutputFormat::Safetensors, &plain.clone().ids(IdKind::Texts)),
        "a .safetensors file holds only numbers, found ids of type: `text`\nhint: leave them out, or write .parquet"
    );
    assert_eq!(
        refused(OutputFormat::Mtx, &plain.clone().ids(IdKind::Integers).weights()),
        "an .mtx file holds only rows, found: `id`\nhint: leave it out, or write .parquet"
    );
    assert_eq!(
        refused(OutputFormat::Npz, &plain.clone().ids(IdKind::Texts)),
        "an .npz file holds only numbers, found ids of type: `text`\nhint: leave them out, or write .parquet"
    );
    assert_eq!(refused(OutputFormat::Csv, &plain.clone().ids(IdKind::Texts)), "ids must be texts, found: `whole numbers`");
    assert_eq!(refused(OutputFormat::Csv, &RowLayout::new(2, Element::F32)), "columns must be below 2, found: `2`");
    let mut batch = sparse();
    batch.values = Rows::F32(vec![0.0; 5].into());
    let error = rows(OutputFormat::Csv, &plain, &batch).unwrap_err();
    assert_eq!(error.to_string(), "2 rows of 3 must be 6 numbers, found: `5`");
    batch = Batch { weights: None, ..sparse() };
    let error = rows(OutputFormat::Csv, &plain.clone().weights(), &batch).unwrap_err();
    assert_eq!(error.to_string(), "2 rows must have a weight each, found: `0`");
    batch = Batch { rows: 3, ..sparse() };
    let error = rows(OutputFormat::Mtx, &plain, &batch).unwrap_err();
    assert_eq!(error.to_string(), "3 rows must have one more start than rows, found: `3`");
}

/// They differ at most in the length of the header.
#[test]
fn a_file_of_rows_whose_number_is_not_known_is_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    for (format, room) in [(OutputFormat::Npy, 0), (OutputFormat::Safetensors, 512)] {
        let path = folder.path().join(format!("x.{format}"));
        let layout = RowLayout::new(3, Element::F64);
        let mut writer = RowWriter::new(format, Box::new(std::fs::File::create(&path).unwrap()), &layout).unwrap();
        (0..2).for_each(|_| writer.write(&sparse()).unwrap());
        writer.finish().unwrap();
        let shared = Shared::default();
        let mut writer = RowWriter::new(format, shared.sink(), &layout.rows(4)).unwrap();
        (0..2).for_each(|_| writer.write(&sparse()).unwrap());
        writer.finish().unwrap();
        let (found, expected) = (std::fs::read(&path).unwrap(), shared.bytes());
        let data = 4 * 3 * 8;
        assert_eq!(found[found.len() - data..], expected[expected.len() - data..], "{format}");
        let opened = vmfkit_io::open_batches(&[path.to_str().unwrap()], &vmfkit_io::Options::new()).unwrap();
        assert_eq!((opened.schema().rows, opened.schema().dim), (Some(4), 3), "{format}");
        assert_eq!(found.len(), if room == 0 { expected.len() } else { room + data }, "{format}");
    }
}

#[test]
fn rows_longer_than_any_memory_are_refused() {
    for format in [OutputFormat::Npy, OutputFormat::Csv, OutputFormat::Safetensors] {
        let error = rows(format, &RowLayout::new(usize::MAX / 2, Element::F32), &sparse()).unwrap_err().to_string();
        assert!(error.starts_with("not enough memory for a row with all its numbers, bytes needed: `"), "{error}");
        let layout = RowLayout::new(usize::MAX / 2, Element::F32).sparse();
        let error = rows(format, &layout, &sparse()).unwrap_err().to_string();
        assert!(error.ends_with("\nhint: .npz and .mtx files hold sparse rows without their zeros"), "{error}");
    }
}

/// The rows of a file as it stores them.
fn read(path: &Path) -> Batch {
    let mut batches = vmfkit_io::open_batches(&[path.to_str().unwrap()], &vmfkit_io::Options::new()).unwrap();
    let (mut all, mut batch) = (Batch::default(), Batch::default());
    while batches.read(&mut batch).unwrap() {
        assert_eq!(all.rows, 0, "so few rows are one batch");
        all = batch.clone();
    }
    all
}

/// Five rows in three batches. Two rows have no entries. Columns of the last row need more than two
/// bytes.
fn sparse_batches(double: bool) -> [Batch; 3] {
    let batch = |starts: &[usize], columns: &[u32], values: &[f64]| Batch {
        rows: starts.len() - 1,
        values: match double {
            true => Rows::SparseF64(SparseRows::new(starts.to_vec(), columns.to_vec(), values.to_vec())),
            false => {
                let values: Vec<_> = values.iter().map(|&value| value as f32).collect();
                Rows::SparseF32(SparseRows::new(starts.to_vec(), columns.to_vec(), values))
            }
        },
        weights: Some((1..starts.len()).map(|row| row as f64 / 3.0).collect()),
        ids: Some(Ids::Integers((1..starts.len() as i64).collect())),
    };
    [
        batch(&[0, 0, 2], &[0, 2], &[0.1, -1e-30]),
        batch(&[0, 1], &[1], &[f64::NEG_INFINITY]),
        batch(&[0, 0, 2], &[3, 70_000], &[0.0, -0.0]),
    ]
}

#[test]
fn sparse_rows_stay_sparse() {
    let folder = tempfile::tempdir().unwrap();
    for (double, element) in [(true, Element::F64), (false, Element::F32)] {
        let batches = sparse_batches(double);
        for format in [OutputFormat::Npz, OutputFormat::Mtx] {
            let mut layout = RowLayout::new(70_001, element).sparse();
            if format == OutputFormat::Npz {
                layout = layout.ids(IdKind::Integers).weights();
            }
            let path = folder.path().join(format!("{double}.{format}"));
            let shared = Shared::default();
            for sink in [shared.sink(), Box::new(std::fs::File::create(&path).unwrap())] {
                let mut writer = RowWriter::new(format, sink, &layout).unwrap();
                batches.iter().for_each(|batch| writer.write(batch).unwrap());
                writer.finish().unwrap();
            }
            assert!(shared.bytes() == std::fs::read(&path).unwrap(), "a pipe gets the same bytes, {format}");
            let (starts, columns) = (vec![0, 0, 2, 3, 3, 5], vec![0, 2, 1, 3, 70_000]);
            let values = vec![0.1, -1e-30, f64::NEG_INFINITY, 0.0, -0.0];
            let expected = match (format, double) {
                (OutputFormat::Npz, false) => {
                    let values: Vec<_> = values.iter().map(|&value| value as f32).collect();
                    Rows::SparseF32(SparseRows::new(starts, columns, values))
                }
                _ => Rows::SparseF64(SparseRows::new(starts, columns, values)),
            };
            let found = read(&path);
            assert_eq!(format!("{:?}", (5, &expected)), format!("{:?}", (found.rows, &found.values)), "{format}, {double}");
        }
    }
}

/// Members are found by name, and the data of an array are aligned as in a .npy file.
#[test]
fn dense_rows_are_an_array_of_an_archive() {
    let folder = tempfile::tempdir().unwrap();
    for (element, width) in [(Element::F32, 4), (Element::F64, 8)] {
        let path = folder.path().join("x.npz");
        let layout = RowLayout::new(3, element).ids(IdKind::Integers).weights();
        let mut writer = RowWriter::new(OutputFormat::Npz, Box::new(std::fs::File::create(&path).unwrap()), &layout).unwrap();
        (0..100).for_each(|_| writer.write(&sparse()).unwrap());
        writer.finish().unwrap();
        let numbers = [0.0, 0.5, 0.0, 0.25, 0.0, 2.0].repeat(100);
        let found = read(&path);
        assert_eq!((found.rows, found.values.into_f64()), (200, numbers));
        let bytes = std::fs::read(&path).unwrap();
        let half = if width == 4 { 0.5f32.to_le_bytes().to_vec() } else { 0.5f64.to_le_bytes().to_vec() };
        let place = bytes.windows(width).position(|window| window == half).unwrap();
        assert_eq!((place - width) % 64, 0);
        for name in ["embedding.npy", "id.npy", "weight.npy"] {
            assert!(bytes.windows(name.len()).any(|window| window == name.as_bytes()), "{name}");
        }
    }
}

#[test]
fn a_matrix_holds_the_numbers_of_dense_rows_that_are_not_0() {
    let dense = Batch { rows: 2, values: Rows::F64(vec![0.0, 0.5, -0.0, 0.1, 0.0, 2.0].into()), ..Batch::default() };
    let text = rows(OutputFormat::Mtx, &RowLayout::new(3, Element::F64), &dense).unwrap();
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let entries = ["1 2 0.5", "1 3 -0.0", "2 1 0.1", "2 3 2.0"];
    assert_eq!(lines[..3], ["%%MatrixMarket matrix coordinate real general", "%", "2 3 4"]);
    assert_eq!(lines[3..], entries);
    let text = rows(OutputFormat::Mtx, &RowLayout::new(3, Element::F32), &dense).unwrap();
    assert!(String::from_utf8(text).unwrap().ends_with("\n2 1 0.1\n2 3 2.0\n"));
}

#[test]
fn a_closed_pipe_is_an_error_of_writing() {
    for format in [
        OutputFormat::Parquet,
        OutputFormat::Arrow,
        OutputFormat::Csv,
        OutputFormat::JsonLines,
        OutputFormat::Npy,
        OutputFormat::Npz,
        OutputFormat::Safetensors,
        OutputFormat::Mtx,
    ] {
        let write = || {
            let mut writer = RowWriter::new(format, Box::new(Gone), &RowLayout::new(3, Element::F32))?;
            writer.write(&sparse())?;
            writer.finish()
        };
        match write() {
            Err(Error::Write(error)) => assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "{format:?}"),
            other => panic!("{format:?}: {other:?}"),
        }
    }
}

#[test]
fn formats_follow_the_extension_of_the_name() {
    for (name, format) in [
        ("a/b.PARQUET", OutputFormat::Parquet),
        ("b.feather", OutputFormat::Arrow),
        ("b.ndjson", OutputFormat::JsonLines),
        ("b.safetensors", OutputFormat::Safetensors),
    ] {
        assert_eq!(OutputFormat::of(Path::new(name)).unwrap(), format);
    }
    assert!(OutputFormat::of(Path::new("b")).unwrap_err().to_string().ends_with("found: `b`"));
}
