//! Damage that leaves a file readable in part is an error. It never gives fewer or different rows.

use crate::{Folder, ROWS, location, read_all, refused, testdata, with_causes};
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, DictionaryArray, FixedSizeListArray, RecordBatch, types::Int8Type};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use std::io::Cursor;
use std::ops::Range;
use std::sync::Arc;
use vmfkit_io::{Options, open, open_stream};

/// Record batches of one row each, with a dictionary before the first.
fn batches() -> Vec<RecordBatch> {
    let words: DictionaryArray<Int8Type> = ["a"].into_iter().collect();
    let batch = |row: &[f64; 4]| {
        let rows = [Some(row.iter().copied().map(Some).collect::<Vec<_>>())];
        let rows = FixedSizeListArray::from_iter_primitive::<Float64Type, _, _>(rows, 4);
        RecordBatch::try_from_iter([("x", Arc::new(rows) as ArrayRef), ("word", Arc::new(words.clone()) as ArrayRef)]).unwrap()
    };
    ROWS.iter().map(batch).collect()
}

/// The batches as a file.
fn arrow_file() -> Vec<u8> {
    let batches = batches();
    let mut writer = FileWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

/// The batches as a stream.
fn arrow_stream() -> Vec<u8> {
    let batches = batches();
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

/// Positions of the dictionary messages and the record batches of a file, and of its footer.
fn places(file: &[u8]) -> (Vec<usize>, Vec<usize>, Range<usize>) {
    let (before, _) = file.split_at(file.len() - 6);
    let (_, length) = before.split_last_chunk().unwrap();
    let footer = file.len() - 10 - i32::from_le_bytes(*length) as usize..file.len() - 10;
    let listed = arrow_ipc::root_as_footer(&file[footer.clone()]).unwrap();
    let start = |block: &arrow_ipc::Block| block.offset() as usize;
    let dictionaries = listed.dictionaries().unwrap().iter().map(start).collect();
    (dictionaries, listed.recordBatches().unwrap().iter().map(start).collect(), footer)
}

fn columns() -> Options {
    Options::new().columns(vec!["x".to_owned()])
}

/// The error of a file of these bytes, with and without O_DIRECT.
fn refused_twice(name: &str, bytes: &[u8], options: &Options) -> String {
    // The folder for temporary files may be on tmpfs.
    let folder = Folder(tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap());
    let place = folder.write(name, bytes);
    let message = refused(&place, options);
    if let Ok(mut source) = open(&place, options)
        && let Ok(false) = source.hold(0)
    {
        assert_eq!(with_causes(read_all(&mut source).unwrap_err()), message);
    }
    message.strip_prefix(&place).expect("the name of the file").to_owned()
}

/// The error of these bytes in a pipe.
fn refused_in_pipe(bytes: Vec<u8>) -> String {
    match open_stream(Cursor::new(bytes), "pipe", &columns()) {
        Err(error) => with_causes(error),
        Ok(mut source) => with_causes(read_all(&mut source).expect_err("a damaged pipe")),
    }
}

fn rows_in_pipe(bytes: Vec<u8>) -> Vec<Vec<f64>> {
    read_all(&mut open_stream(Cursor::new(bytes), "pipe", &columns()).unwrap()).unwrap().rows
}

/// As if the disk had not written a block.
#[test]
fn an_end_mark_before_the_footer_of_an_arrow_file_loses_no_rows() {
    let file = arrow_file();
    let (_, batches, footer) = places(&file);
    assert_eq!((batches.len(), rows_in_pipe(file.clone()).len()), (5, 5));
    for &start in &batches {
        for length in [4, 8, 64] {
            let mut zeroed = file.clone();
            zeroed[start..start + length].fill(0);
            let expected = format!("found: `an end marker at byte {start}, but the footer begins at byte {}`", footer.start);
            let message = refused_twice("x.arrow", &zeroed, &columns());
            assert!(message.contains(&expected), "{message}");
            let message = refused_in_pipe(zeroed);
            assert!(message.contains(&format!("after the end marker at byte {start}")), "{message}");
        }
    }
}

#[test]
fn an_arrow_file_has_as_many_messages_as_its_footer_lists() {
    let file = arrow_file();
    let (dictionaries, batches, footer) = places(&file);
    // Without its last record batch, and without its dictionary.
    for (cut, what) in [
        (batches[4]..footer.start - 8, "4 record batches, but 5 in the footer"),
        (dictionaries[0]..batches[0], "0 dictionaries, but 1 in the footer"),
    ] {
        let fewer = [&file[..cut.start], &file[cut.end..]].concat();
        let message = refused_twice("x.arrow", &fewer, &columns());
        assert!(message.contains(&format!("the file is damaged, found: `{what}`")), "{message}");
        let message = refused_in_pipe(fewer);
        assert!(message.contains(&format!("the file is damaged, found: `{what}`")), "{message}");
    }
}

/// Variants of other writers.
#[test]
fn the_end_of_an_arrow_file_may_be_marked_or_not() {
    let file = arrow_file();
    let (.., footer) = places(&file);
    assert_eq!(file[footer.start - 8..footer.start], [255, 255, 255, 255, 0, 0, 0, 0]);
    let folder = Folder::new();
    for mark in [&[][..], &[0; 4], &[255, 255, 255, 255, 0, 0, 0, 0], &[0; 8], &[0; 32]] {
        let bytes = [&file[..footer.start - 8], mark, &file[footer.start..]].concat();
        let place = folder.write("x.arrow", &bytes);
        let mut source = open(&place, &columns()).unwrap();
        assert_eq!(read_all(&mut source).unwrap().rows, ROWS, "{mark:?}");
        if !mark.is_empty() {
            assert_eq!(rows_in_pipe(bytes), ROWS, "{mark:?}");
        }
    }
}

#[test]
fn the_footer_of_an_arrow_file_must_be_one() {
    let file = arrow_file();
    let (.., footer) = places(&file);
    for (at, bytes, what) in [
        (footer.end, &[255; 4][..], "a footer of -1 bytes"),
        (footer.end, &[255, 255, 255, 127], "a footer of 2147483647 bytes"),
        (footer.start, &[255; 4], "an invalid footer"),
        (footer.end + 4, b"arrow1", "a file that does not end with ARROW1"),
    ] {
        let mut changed = file.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        let message = refused_twice("x.arrow", &changed, &columns());
        assert!(message.contains(what), "{message}");
        refused_in_pipe(changed);
    }
    for length in [file.len() - 1, file.len() - 10, footer.start] {
        let message = refused_in_pipe(file[..length].to_vec());
        assert!(message.contains("a file that does not end with ARROW1"), "{message}");
    }
}

#[test]
fn nothing_may_follow_the_end_of_an_arrow_stream() {
    let stream = arrow_stream();
    let marked = stream.len() - 8;
    let folder = Folder::new();
    for mark in [&[][..], &[0; 4], &[255, 255, 255, 255, 0, 0, 0, 0]] {
        let bytes = [&stream[..marked], mark].concat();
        assert_eq!(read_all(&mut open(&folder.write("x.arrows", &bytes), &columns()).unwrap()).unwrap().rows, ROWS, "{mark:?}");
        assert_eq!(rows_in_pipe(bytes.clone()), ROWS, "{mark:?}");
        if mark.is_empty() {
            continue;
        }
        // Two concatenated streams, of which the second would be lost.
        let twice = [&bytes[..], &stream].concat();
        let message = refused_twice("x.arrows", &twice, &columns());
        assert!(message.contains(&format!("found: `{} bytes after the end marker at byte {marked}`", stream.len())), "{message}");
        let message = refused_in_pipe(twice);
        assert!(message.contains(&format!("found: `more bytes after the end marker at byte {marked}`")), "{message}");
    }
}

/// An unknown field in a page header, a list of 2^31 - 1 items. The parquet crate would skip them
/// one by one, beyond the end of the file.
#[test]
fn a_list_without_end_in_the_header_of_a_page_ends() {
    const LIST: u8 = 0xf9;
    // Numbers, strings, structures, and items that take no bytes at all.
    for items in [0xf7, 0xf8, 0xfc, 0xf1, 0xf2] {
        for name in ["list_f32", "integers", "dictionary", "v2"] {
            let mut bytes = std::fs::read(testdata(&format!("columnar/{name}.parquet"))).unwrap();
            assert_eq!(bytes[..4], *b"PAR1");
            bytes[4..11].copy_from_slice(&[LIST, items, 0xff, 0xff, 0xff, 0xff, 0x07]);
            let message = refused_twice("x.parquet", &bytes, &Options::new().rescale(true));
            assert!(message.contains("the file is damaged, found: `"), "{message}");
        }
    }
}

#[test]
fn no_changed_bit_of_a_stored_array_is_read() {
    for name in ["one_stored", "fortran_stored", "csr_single"] {
        let content = std::fs::read(testdata(&format!("formats/{name}.npz"))).unwrap();
        let mut archive = zip::ZipArchive::new(Cursor::new(&content)).unwrap();
        for index in 0..archive.len() {
            let member = archive.by_index_raw(index).unwrap();
            let start = member.data_start().unwrap() as usize;
            for at in start..start + member.compressed_size() as usize {
                let mut changed = content.clone();
                changed[at] ^= 1 << (at % 8);
                refused_twice("x.npz", &changed, &Options::new());
            }
        }
    }
}

#[test]
fn a_changed_bit_of_a_stored_array_is_named_in_every_pass() {
    let content = std::fs::read(testdata("formats/one_stored.npz")).unwrap();
    let mut archive = zip::ZipArchive::new(Cursor::new(&content)).unwrap();
    let (expected, end) = {
        let member = archive.by_index_raw(0).unwrap();
        (member.crc32(), (member.data_start().unwrap() + member.size()) as usize)
    };
    let mut changed = content.clone();
    // The last bit of a number, which does not change the length of its row.
    changed[end - 8] ^= 1;
    let folder = Folder::new();
    let place = location(&folder.path("x.npz"));
    std::fs::write(&place, &changed).unwrap();
    for block_rows in [1, 2, 5, 9] {
        let mut source = open(&place, &Options::new().block_rows(block_rows)).unwrap();
        for _ in 0..2 {
            let message = with_causes(read_all(&mut source).unwrap_err());
            assert!(
                message.contains(&format!("the array is damaged, its checksum must be {expected:08x}, found: `")),
                "{message}"
            );
            vmfkit::source::Source::rewind(&mut source).unwrap();
        }
    }
}

#[test]
fn tensors_cover_the_data_of_a_safetensors_file() {
    let file = |tensors: &[(&str, &str)], data: usize| {
        let members: Vec<String> = tensors
            .iter()
            .map(|(name, offsets)| format!(r#""{name}":{{"dtype":"F32","shape":[2,2],"data_offsets":{offsets}}}"#))
            .collect();
        let header = format!("{{{}}}", members.join(","));
        let numbers: Vec<u8> = [1f32, 0.0].iter().cycle().flat_map(|x| x.to_le_bytes()).take(data).collect();
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &numbers].concat()
    };
    let folder = Folder::new();
    let options = Options::new().array("x");
    let whole = [("y", "[16,32]"), ("x", "[0,16]")];
    let place = folder.write("x.safetensors", file(&whole, 32));
    assert_eq!(read_all(&mut open(&place, &options).unwrap()).unwrap().rows, [[1.0, 0.0]; 2]);
    let after = "its data must begin where those of the tensor before it end, at byte";
    for (tensors, data, what) in [
        (&whole[..], 36, "the data must end with the last tensor, at byte 32, bytes after the header: `36`".to_owned()),
        (&[("x", "[4,20]")], 20, format!("tensor `x`: {after} 0, found: `4`")),
        (&[("x", "[0,16]"), ("y", "[20,36]")], 36, format!("tensor `y`: {after} 16, found: `20`")),
        (&[("x", "[0,16]"), ("y", "[8,24]")], 24, format!("tensor `y`: {after} 16, found: `8`")),
        (&[("x", "[0,16]"), ("y", "[0,16]")], 16, format!("tensor `y`: {after} 16, found: `0`")),
        (&[("x", "[0,16]"), ("y", "[16,40]")], 32, "tensor `y`: its data must be within the 32 bytes".to_owned()),
        (&[("x", "[0,16]"), ("x", "[16,32]")], 32, "tensors must have different names, found twice: `x`".to_owned()),
    ] {
        let message = refused(&folder.write("x.safetensors", file(tensors, data)), &options);
        assert!(message.contains(&what), "{message}");
    }
}
