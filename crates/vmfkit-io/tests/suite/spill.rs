//! Rows that take long to read again are kept in a scratch file, and are the same rows.
//!
//! The scratch files are beside the sources, since the folder for temporary files may be memory.

use crate::{Everything, Folder, ROWS, WEIGHTS, location, names, npy, npy_rows, read_all, testdata, with_causes};
use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::Path;
use vmfkit::Fitter;
use vmfkit::source::Source;
use vmfkit::train::Stop;
use vmfkit_io::{DataSource, Kept, Options, open, open_all, open_stream, scratch_folder};

fn disk() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Whether the sources are on one, by the system's list of what is where; says so if not.
fn has_disk() -> bool {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mounted = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let above = mounted.filter(|words| words.len() > 2 && disk().starts_with(words[1]));
    let found = above.max_by_key(|words| words[1].len()).is_none_or(|words| !["tmpfs", "ramfs"].contains(&words[2]));
    if !found {
        eprintln!("skipped: a scratch file needs a disk, found: `{}`", disk().display());
    }
    found
}

/// None of it in memory.
fn keep_in(folder: &Path, source: &mut DataSource) -> vmfkit::Result<Kept> {
    source.keep(0, Some(folder), |_| ControlFlow::Continue(()))
}

fn keep(source: &mut DataSource) -> Kept {
    keep_in(disk(), source).unwrap()
}

/// Unit rows that differ from each other, as lines of a table with weights.
fn table(rows: usize) -> String {
    let line = |row: usize| {
        let (sin, cos) = (row as f64 * 0.1).sin_cos();
        format!("{sin},{},{cos},{}\n", 0.0, 1 + row % 3)
    };
    std::iter::once("x,y,z,n\n".to_owned()).chain((0..rows).map(line)).collect()
}

/// What a source gives in two passes that must be equal, and how many rows it has rescaled.
fn two_passes(source: &mut DataSource) -> (Everything, Option<u64>) {
    let first = (read_all(source).unwrap(), source.rescaled());
    source.rewind().unwrap();
    assert_eq!((read_all(source).unwrap(), source.rescaled()), first);
    first
}

#[test]
fn text_and_unpacked_arrays_are_the_same_from_the_disk() {
    if !has_disk() {
        return;
    }
    let folder = Folder::new();
    let plain = Options::new().columns(names("x,y,z"));
    let weighted = plain.clone().weight_column("n");
    folder.write("rows.csv", table(3000));
    folder.write("more.csv", table(500).replace("0,1,3\n", "0,5,3\n"));
    let jsonl: String = (0..3000).map(|row| format!("[{}, {}]\n", (row as f64).sin(), (row as f64).cos())).collect();
    folder.write("rows.jsonl", jsonl);
    let at = |names: &[&str]| names.iter().map(|name| location(&folder.path(name))).collect::<Vec<_>>();
    let cases = [
        (at(&["rows.csv"]), plain.clone()),
        (at(&["rows.csv"]), weighted.clone()),
        (at(&["rows.csv", "more.csv"]), weighted.clone().rescale(true)),
        (at(&["rows.csv", "more.csv"]), plain.clone().rescale(true)),
        (at(&["rows.jsonl"]), Options::new()),
        (vec![testdata("formats/rows.csv.gz")], Options::new().columns(names("x,y,z,t"))),
        (vec![testdata("formats/arrays.jsonl.gz")], Options::new()),
        (vec![testdata("formats/one_deflated.npz")], Options::new()),
    ];
    for (places, options) in cases {
        for block_rows in [1, 7, 700, 5000] {
            let options = options.clone().block_rows(block_rows);
            let expected = two_passes(&mut open_all(&places, &options).unwrap());
            let mut source = open_all(&places, &options).unwrap();
            assert_eq!(keep(&mut source), Kept::Disk, "{places:?}");
            assert_eq!(keep(&mut source), Kept::Disk, "once more is no more work");
            assert_eq!(source.rows(), Some(expected.0.rows.len() as u64));
            assert_eq!(two_passes(&mut source), expected, "{places:?}, {block_rows}");
            // The same in batches of another length.
            source.prefer_rows(Some(300));
            source.rewind().unwrap();
            let mut rows = 0;
            while let Some(batch) = source.next_batch().unwrap() {
                rows += batch.len();
            }
            assert_eq!((rows, source.rescaled()), (expected.0.rows.len(), expected.1), "{places:?}, {block_rows}");
        }
    }
}

/// In both precisions, for which bytes are lent, and with weights, for which they are copied; in
/// many batches, of which the last is short.
#[test]
fn a_fit_from_the_disk_is_that_in_memory_to_the_last_bit() {
    if !has_disk() {
        return;
    }
    let folder = Folder::new();
    let text = folder.write("rows.csv", table(5000));
    let circle = (0..5000).map(|row| (row as f32 * 0.1).sin_cos());
    let single: Vec<u8> = circle.flat_map(|(sin, cos)| [sin, cos]).flat_map(f32::to_le_bytes).collect();
    let single = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (5000, 2)}", &single);
    let columns = Options::new().columns(names("x,y,z"));
    for (place, options) in [(Some(&text), columns.clone()), (Some(&text), columns.weight_column("n")), (None, Options::new())] {
        let open = |options: &Options| match place {
            Some(place) => open(place, options).unwrap(),
            None => open_stream(Cursor::new(single.clone()), "pipe", options).unwrap(),
        };
        let options = options.block_rows(999);
        let fitter = || Fitter::new(4).stop(Stop { tolerance: None, passes: 3, ..Stop::default() }).seed(1);
        let mut held = open(&options);
        assert!(held.hold(u64::MAX).unwrap());
        let expected = fitter().fit_source(&mut held).unwrap();
        let mut source = open(&options);
        assert_eq!(keep(&mut source), Kept::Disk);
        let found = fitter().fit_source(&mut source).unwrap();
        assert_eq!((found.mixture, found.rows, found.weight), (expected.mixture, expected.rows, expected.weight));
    }
}

/// Most of it is read fast.
#[test]
fn a_little_text_among_arrays_is_no_reason_to_copy_them() {
    let folder = Folder::new();
    let places = [folder.write("a.npy", npy_rows(&ROWS.repeat(99))), folder.write("b.csv", "0.6,0.8,0,0\n")];
    let mut source = open_all(&places, &Options::new()).unwrap();
    assert_eq!(keep(&mut source), Kept::Nowhere);
    assert_eq!(source.scratch_failure(), None);
    assert_eq!(two_passes(&mut source).0.rows.len(), 496);
}

#[test]
fn a_pipe_that_does_not_fit_into_memory_can_be_read_again() {
    if !has_disk() {
        return;
    }
    let mut source = open_stream(Cursor::new(npy_rows(&ROWS)), "pipe", &Options::new().block_rows(2)).unwrap();
    assert!(!source.can_rewind());
    assert_eq!(keep(&mut source), Kept::Disk);
    assert!(source.can_rewind());
    assert_eq!(two_passes(&mut source).0.rows, ROWS);
    let text: String =
        ROWS.iter().zip(WEIGHTS).map(|(row, weight)| format!("{},{weight}\n", row.map(|x| x.to_string()).join(","))).collect();
    let options = Options::new().columns(names("a,b,c,d")).weight_column("w");
    let mut source = open_stream(Cursor::new(format!("a,b,c,d,w\n{text}")), "pipe", &options).unwrap();
    assert_eq!(keep(&mut source), Kept::Disk);
    assert_eq!(two_passes(&mut source).0.weights, WEIGHTS);
}

#[test]
fn what_is_read_fast_or_does_not_go_into_the_file_stays_where_it_is() {
    let folder = Folder::new();
    folder.write("rows.csv", table(100));
    let ids = Options::new().columns(names("x,y,z")).id_column("n");
    let cases = [
        (folder.write("rows.npy", npy_rows(&ROWS)), Options::new()),
        (testdata("formats/one_stored.npz"), Options::new()),
        (testdata("formats/csr.npz"), Options::new()),
        (testdata("formats/coordinates.mtx"), Options::new()),
        (testdata("formats/dense.mtx"), Options::new()),
        (location(&folder.path("rows.csv")), ids),
    ];
    for (place, options) in cases {
        let mut source = open(&place, &options).unwrap();
        assert_eq!(keep(&mut source), Kept::Nowhere, "{place}");
        assert_eq!(two_passes(&mut source), two_passes(&mut open(&place, &options).unwrap()));
        assert_eq!(source.keep(u64::MAX, Some(disk()), |_| ControlFlow::Continue(())), Ok(Kept::Memory), "{place}");
    }
}

#[test]
fn without_a_disk_text_is_read_again_and_a_pipe_is_refused() {
    let folder = Folder::new();
    let place = folder.write("rows.csv", table(100));
    let options = Options::new().columns(names("x,y,z")).block_rows(9);
    let mut folders = vec![folder.path("nothing here")];
    if cfg!(target_os = "linux") && Path::new("/dev/shm").is_dir() {
        folders.push("/dev/shm".into());
    }
    for nowhere in folders {
        let mut source = open(&place, &options).unwrap();
        assert_eq!(keep_in(&nowhere, &mut source), Ok(Kept::Nowhere), "{}", nowhere.display());
        assert_eq!(two_passes(&mut source), two_passes(&mut open(&place, &options).unwrap()));
        let mut pipe = open_stream(Cursor::new(table(100)), "pipe", &options).unwrap();
        let message = with_causes(keep_in(&nowhere, &mut pipe).unwrap_err());
        assert!(message.contains("rows from a pipe that are read more than once must take at most 0 bytes"), "{message}");
        let reason = format!("\n{}: no scratch file can be created there, ", nowhere.display());
        assert!(message.contains(&reason) && source.scratch_failure().unwrap().starts_with(reason.trim_start()), "{message}");
    }
    assert!(scratch_folder().is_dir());
}

#[test]
fn a_file_that_changes_is_named_though_its_rows_are_on_the_disk() {
    if !has_disk() {
        return;
    }
    let folder = Folder::new();
    let place = folder.write("rows.csv", table(100));
    let mut source = open(&place, &Options::new().columns(names("x,y,z"))).unwrap();
    assert_eq!(keep(&mut source), Kept::Disk);
    read_all(&mut source).unwrap();
    folder.write("rows.csv", table(101));
    let message = with_causes(source.rewind().unwrap_err());
    assert!(message.contains("rows.csv: the file has changed since it was opened"), "{message}");
    assert_eq!(
        with_causes(source.next_validated(&mut vmfkit::RowBatch::default()).unwrap_err()),
        message,
        "until it is begun anew"
    );
}

#[test]
fn errors_are_named_and_the_callback_may_stop() {
    if !has_disk() {
        return;
    }
    let folder = Folder::new();
    let options = Options::new().columns(names("x,y,z")).block_rows(10);
    let wrong = folder.write("wrong.csv", table(99) + "0.5,0.5,0.5,1\n");
    let error = with_causes(keep_in(disk(), &mut open(&wrong, &options).unwrap()).unwrap_err());
    assert!(error.starts_with(&format!("{wrong}: row 99 must have length 1")), "{error}");
    let place = folder.write("rows.csv", table(100));
    let mut source = open(&place, &options).unwrap();
    let mut seen = Vec::new();
    let watch = |rows| {
        seen.push(rows);
        if rows == 30 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    assert_eq!(source.keep(0, Some(disk()), watch), Ok(Kept::Nowhere));
    assert_eq!(seen, [10, 20, 30]);
    assert_eq!(read_all(&mut source).unwrap().rows.len(), 100, "from the first row on");
}
