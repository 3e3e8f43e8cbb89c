//! Pass after pass, and what goes wrong in between.

use crate::{Folder, ROWS, location, names, npy, npy_rows, read_all, refused, with_causes};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};
use vmfkit::Error;
use vmfkit::source::Source;
use vmfkit_io::{Options, open, open_all, open_stream};

/// The beginning of an array of as many rows as one likes, and then zeros and ones.
struct Rows {
    header: io::Cursor<Vec<u8>>,
    given: Arc<AtomicUsize>,
    /// The number of bytes after which `at_end` is called.
    end: usize,
    at_end: fn() -> io::Result<usize>,
}

impl Rows {
    fn new(rows: usize, end: usize, at_end: fn() -> io::Result<usize>) -> (Self, Arc<AtomicUsize>) {
        let header = npy(&format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, 4)}}"), b"");
        let given = Arc::new(AtomicUsize::new(0));
        (Rows { header: io::Cursor::new(header), given: given.clone(), end, at_end }, given)
    }
}

impl Read for Rows {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.header.read(buffer)?;
        if read > 0 {
            return Ok(read);
        }
        let given = self.given.load(Ordering::Relaxed);
        let length = buffer.len().min(self.end - given);
        if length == 0 {
            return (self.at_end)();
        }
        for (at, byte) in (given..).zip(&mut buffer[..length]) {
            // 1.0, 0.0, 0.0, 0.0 in single precision.
            *byte = [0, 0, 0x80, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][at % 16];
        }
        self.given.store(given + length, Ordering::Relaxed);
        Ok(length)
    }
}

#[test]
fn a_pipe_is_read_once_and_never_held() {
    let (rows, given) = Rows::new(1 << 40, usize::MAX, || Ok(0));
    let mut source = open_stream(rows, "pipe", &Options::new().block_rows(1 << 16)).unwrap();
    assert_eq!((source.rows(), source.can_rewind()), (Some(1 << 40), false));
    source.rewind().expect("nothing was read yet");
    for _ in 0..4 {
        assert_eq!(source.next_validated(&mut vmfkit::RowBatch::default()).unwrap().unwrap().len(), 1 << 16);
    }
    // A block is a megabyte here: four were lent, one waits, and two buffers of a megabyte are
    // between.
    assert!(given.load(Ordering::Relaxed) <= 7 << 20, "{given:?}");
    assert_eq!(source.rewind(), Err(Error::CannotRewind));
    assert_eq!(source.next_validated(&mut vmfkit::RowBatch::default()).unwrap().unwrap().len(), 1 << 16);
}

#[test]
fn a_silent_pipe_blocks_nothing_else() {
    let (reader, mut writer) = io::pipe().unwrap();
    // The format is detected from the first bytes, so opening waits for them.
    writer.write_all(&b"0.8,0.6\n".repeat(20)).unwrap();
    let mut source = open_stream(reader, "pipe", &Options::new().block_rows(2)).unwrap();
    assert_eq!(source.next_validated(&mut vmfkit::RowBatch::default()).unwrap().unwrap().row(1), [0.8, 0.6]);
    drop(source);
    drop(writer);
}

#[test]
fn a_pipe_that_ends_early_or_late_is_refused() {
    let (rows, _) = Rows::new(100, 16 * 60, || Ok(0));
    let mut source = open_stream(rows, "pipe", &Options::new().block_rows(50)).unwrap();
    assert_eq!(source.next_validated(&mut vmfkit::RowBatch::default()).unwrap().unwrap().len(), 50);
    let error = source.next_validated(&mut vmfkit::RowBatch::default()).unwrap_err();
    assert_eq!(with_causes(error.clone()), "pipe: the data must have 1600 bytes, found: `960`");
    assert_eq!(source.next_validated(&mut vmfkit::RowBatch::default()).unwrap_err(), error);
    assert_eq!(source.rewind(), Err(Error::CannotRewind));
    let (rows, _) = Rows::new(10, 16 * 11, || Ok(0));
    let mut source = open_stream(rows, "pipe", &Options::new()).unwrap();
    assert_eq!(with_causes(read_all(&mut source).unwrap_err()), "pipe: the data must end with the last row, found: `more bytes`");
}

#[test]
fn errors_of_the_reading_thread_arrive() {
    let (rows, _) = Rows::new(100, 16 * 60, || Err(io::Error::other("the cable broke")));
    let mut source = open_stream(rows, "pipe", &Options::new().block_rows(20)).unwrap();
    for _ in 0..3 {
        assert!(source.next_validated(&mut vmfkit::RowBatch::default()).unwrap().is_some());
    }
    assert_eq!(
        with_causes(source.next_validated(&mut vmfkit::RowBatch::default()).unwrap_err()),
        "pipe: cannot be read: the cable broke"
    );
}

#[test]
fn panics_of_the_reading_thread_arrive() {
    let (rows, _) = Rows::new(100, 16 * 60, || panic!("a bug"));
    let mut source = open_stream(rows, "pipe", &Options::new().block_rows(20)).unwrap();
    let panic =
        catch_unwind(AssertUnwindSafe(|| while source.next_validated(&mut vmfkit::RowBatch::default()).unwrap().is_some() {}))
            .unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"a bug"));
    assert!(
        with_causes(source.next_validated(&mut vmfkit::RowBatch::default()).unwrap_err()).contains("the reader thread panicked")
    );
}

#[test]
fn a_pass_may_be_left_in_the_middle() {
    let folder = Folder::new();
    for number in 0..3 {
        folder.write(&format!("{number}.npy"), npy_rows(&ROWS));
    }
    let mut source = open(&location(folder.0.path()), &Options::new().block_rows(2)).unwrap();
    let whole = read_all(&mut source).unwrap();
    assert!(source.next_validated(&mut vmfkit::RowBatch::default()).unwrap().is_none(), "the pass has ended");
    for blocks in 0..9 {
        source.rewind().unwrap();
        for _ in 0..blocks {
            source.next_validated(&mut vmfkit::RowBatch::default()).unwrap();
        }
        source.rewind().unwrap();
        assert_eq!((source.first_row(), source.ids()), (0, None));
        assert_eq!(read_all(&mut source).unwrap(), whole);
    }
    source.rewind().unwrap();
    source.next_validated(&mut vmfkit::RowBatch::default()).unwrap();
    drop(source);
}

#[test]
fn a_failed_pass_fails_until_the_source_is_rewound() {
    let folder = Folder::new();
    let mut rows = ROWS;
    rows[4] = [3.0, 0.0, 0.0, 0.0];
    let place = folder.write("x.npy", npy_rows(&rows));
    let mut source = open(&place, &Options::new().block_rows(2)).unwrap();
    for _ in 0..3 {
        assert!(source.next_validated(&mut vmfkit::RowBatch::default()).unwrap().is_some());
        assert!(source.next_validated(&mut vmfkit::RowBatch::default()).unwrap().is_some());
        for _ in 0..2 {
            let message = with_causes(source.next_validated(&mut vmfkit::RowBatch::default()).unwrap_err());
            assert!(
                message
                    .ends_with("x.npy: row 4 must have length 1, found: `3`\nhint: `--rescale` divides each row by its length")
            );
        }
        source.rewind().unwrap();
    }
}

#[test]
fn a_file_that_changes_between_passes_is_named() {
    let folder = Folder::new();
    folder.write("1.npy", npy_rows(&ROWS));
    let place = folder.write("2.npy", npy_rows(&ROWS));
    let length = fs::metadata(&place).unwrap().len();
    for location in [location(folder.0.path()), place.clone()] {
        let mut source = open(&location, &Options::new()).unwrap();
        read_all(&mut source).unwrap();
        folder.write("2.npy", npy_rows(&ROWS[..4]));
        let message = with_causes(source.rewind().unwrap_err());
        let now = length - 32;
        assert_eq!(
            message,
            format!("{place}: the file has changed since it was opened, its length was {length}, found: `{now}`")
        );
        assert_eq!(with_causes(source.next_validated(&mut vmfkit::RowBatch::default()).unwrap_err()), message);
        folder.write("2.npy", npy_rows(&ROWS));
        File::options().write(true).open(&place).unwrap().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(9)).unwrap();
        let message = with_causes(source.rewind().unwrap_err());
        assert!(message.contains("2.npy: the file has changed since it was opened, it was written to"), "{message}");
        fs::remove_file(&place).unwrap();
        assert!(with_causes(source.rewind().unwrap_err()).contains("2.npy: cannot be read: "));
        folder.write("2.npy", npy_rows(&ROWS));
    }
}

#[test]
fn a_file_that_is_cut_while_it_is_read_is_named() {
    let folder = Folder::new();
    let rows = vec![[1.0, 0.0, 0.0, 0.0]; 100_000];
    let place = folder.write("x.npy", npy_rows(&rows));
    let mut source = open(&place, &Options::new().block_rows(10)).unwrap();
    source.next_validated(&mut vmfkit::RowBatch::default()).unwrap();
    let length = fs::metadata(&place).unwrap().len();
    File::options().write(true).open(&place).unwrap().set_len(length / 2).unwrap();
    let message = read_all_from_here(&mut source);
    let left = length / 2 - (length - 3_200_000);
    let words = format!("x.npy: the file has changed since it was opened, it had 3200000 bytes of data, found: `{left}`");
    assert!(message.contains(&words), "{message}");
}

fn read_all_from_here(source: &mut dyn Source) -> String {
    loop {
        match source.next_validated(&mut vmfkit::RowBatch::default()) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it was read to its end"),
            Err(error) => return with_causes(error),
        }
    }
}

#[test]
fn a_file_that_changes_before_its_turn_is_named() {
    let folder = Folder::new();
    folder.write("1.npy", npy_rows(&[ROWS[0]; 1000]));
    folder.write("2.npy", npy_rows(&ROWS));
    let mut source = open(&location(folder.0.path()), &Options::new().block_rows(10)).unwrap();
    source.next_validated(&mut vmfkit::RowBatch::default()).unwrap();
    folder.write("2.npy", npy_rows(&ROWS[..1]));
    assert!(read_all_from_here(&mut source).contains("2.npy: the file has changed since it was opened, its length was "));
}

#[cfg(unix)]
#[test]
fn a_named_pipe_is_a_pipe() {
    let folder = Folder::new();
    let place = folder.path("pipe.csv");
    let made = std::process::Command::new("mkfifo").arg(&place).status();
    if !made.is_ok_and(|status| status.success()) {
        return;
    }
    let writer = std::thread::spawn({
        let place = place.clone();
        move || fs::write(place, "x,y\n0.6,0.8\n")
    });
    let mut source = open(&location(&place), &Options::new()).unwrap();
    assert_eq!(read_all(&mut source).unwrap().rows, [[0.6, 0.8]]);
    assert_eq!(source.rewind(), Err(Error::CannotRewind));
    writer.join().unwrap().unwrap();
}

/// As `vmf fit <(...) <(...)` has it.
#[cfg(unix)]
#[test]
fn pipes_come_one_after_another_and_between_files() {
    let folder = Folder::new();
    let places = ["a.csv", "b.csv", "c.csv"].map(|name| folder.path(name));
    let made = std::process::Command::new("mkfifo").args([&places[0], &places[2]]).status();
    if !made.is_ok_and(|status| status.success()) {
        return;
    }
    folder.write("b.csv", "0,1\n");
    let writers = [(0, "0.6,0.8\n"), (2, "x,y\n1,0\n0.8,0.6\n")].map(|(place, text)| {
        let place = places[place].clone();
        std::thread::spawn(move || fs::write(place, text))
    });
    let mut source = open_all(&places.each_ref().map(|place| location(place)), &Options::new()).unwrap();
    assert!(!source.can_rewind());
    assert_eq!(read_all(&mut source).unwrap().rows, [[0.6, 0.8], [0.0, 1.0], [1.0, 0.0], [0.8, 0.6]]);
    assert_eq!(source.rewind(), Err(Error::CannotRewind));
    writers.into_iter().for_each(|writer| writer.join().unwrap().unwrap());
}

/// Found by the fuzzer: offsets of lists that are not where a decoder wants them, which panics.
#[test]
fn a_panic_of_a_decoder_is_an_error_of_the_file() {
    let bytes = fs::read(crate::testdata("hostile/misaligned.arrows")).unwrap();
    let mut source = open_stream(io::Cursor::new(bytes), "pipe", &Options::new().rescale(true).block_rows(64)).unwrap();
    let message = with_causes(read_all(&mut source).unwrap_err());
    assert!(message.contains("the file is damaged, found: `"), "{message}");
}

#[test]
fn what_is_held_counts_its_ids() {
    let folder = Folder::new();
    let id = "x".repeat(1000);
    let place = folder.write("x.csv", format!("id,x,y\n{id},0.6,0.8\n{id},0.8,0.6\n"));
    let hold = |options: &Options, most| open(&place, options).unwrap().hold(most).unwrap();
    let (plain, named) = (Options::new().columns(names("x,y")), Options::new().columns(names("x,y")).id_column("id"));
    assert!(hold(&plain, 32) && !hold(&plain, 31));
    assert!(hold(&named, 5000) && !hold(&named, 1999));
    // RowBatch by block, the sum is the same.
    assert!(hold(&plain.block_rows(1), 32) && !hold(&named.block_rows(1), 1999));
}

#[test]
fn rows_beyond_any_memory_are_not_held() {
    let header = format!("{{'descr': '<f2', 'fortran_order': False, 'shape': ({}, 16)}}", 1u64 << 58);
    let mut source = open_stream(io::Cursor::new(npy(&header, &[0; 64])), "pipe", &Options::new()).unwrap();
    let message = with_causes(source.hold(u64::MAX - 1).unwrap_err());
    assert!(message.contains("must take at most 18446744073709551614 bytes, found: `18446744073709551615`"), "{message}");
}

#[test]
fn only_formats_that_come_in_order_come_through_a_pipe() {
    for name in ["one_stored.npz", "csr.npz"] {
        let bytes = fs::read(crate::testdata(&format!("formats/{name}"))).unwrap();
        let error = open_stream(io::Cursor::new(bytes), "pipe", &Options::new()).unwrap_err();
        let message = with_causes(error);
        assert!(message.contains("jsonl or mtx, found: `npz`\nhint: write it to a file"), "{message}");
    }
    for name in ["rows.csv.gz", "arrays.jsonl.gz", "coordinates.mtx.gz", "dense.mtx"] {
        let bytes = fs::read(crate::testdata(&format!("formats/{name}"))).unwrap();
        let columns = if name == "rows.csv.gz" { crate::names("x,y,z,t") } else { Vec::new() };
        let mut source = open_stream(io::Cursor::new(bytes), "pipe", &Options::new().columns(columns)).unwrap();
        assert_eq!(read_all(&mut source).unwrap().rows, ROWS, "{name}");
    }
    for name in ["stream.arrows", "fixed_f32.arrow", "body_zstd.arrow"] {
        let path = crate::testdata(&format!("columnar/{name}"));
        let options = Options::new().rescale(true);
        let mut source = open_stream(io::Cursor::new(fs::read(&path).unwrap()), "pipe", &options).unwrap();
        assert_eq!(read_all(&mut source).unwrap(), read_all(&mut open(&path, &options).unwrap()).unwrap(), "{name}");
        assert_eq!(source.rewind(), Err(Error::CannotRewind));
    }
    let bytes = fs::read(crate::testdata("columnar/no_rows.arrow")).unwrap();
    let message = with_causes(open_stream(io::Cursor::new(bytes), "pipe", &Options::new()).unwrap_err());
    assert_eq!(message, "pipe: there is nothing to fit: the total row weight is `0`");
    let folder = Folder::new();
    let place = folder.write("rows.npy.gz", fs::read(crate::testdata("formats/rows.csv.gz")).unwrap());
    let all = crate::read(&place, &Options::new().columns(crate::names("x,y,z,t")).format(Some(vmfkit_io::Format::Csv)));
    assert_eq!(all.rows, ROWS);
    assert!(refused(&place, &Options::new()).contains("only text files may be compressed with gzip, found: `npy`"));
}
