//! Files one after another are one source, and how rows are divided among them makes no difference.

use crate::{Everything, Folder, ROWS, location, names, npy, npy_rows, read, refused, testdata};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use vmfkit::source::MemorySource;
use vmfkit::train::{Em, OnlineEm, Stop, Trainer, fit};
use vmfkit::{Mixture, RowBatch, VonMisesFisher};
use vmfkit_io::{Element, Options, Skipped, open, open_stream};

/// Unit rows that differ from each other.
fn circle(count: usize) -> Vec<[f64; 4]> {
    (0..count).map(|row| (row as f64 * 0.1).sin_cos()).map(|(sin, cos)| [sin, cos, 0.0, 0.0]).collect()
}

fn csv(rows: &[[f64; 4]]) -> String {
    let line = |row: &[f64; 4]| row.map(|x| format!("{x:?}")).join(",") + "\n";
    "a,b,c,d\n".to_owned() + &rows.iter().map(line).collect::<String>()
}

#[test]
fn blocks_do_not_depend_on_the_division_into_files() {
    let rows = circle(40);
    let mut runner = TestRunner::new_with_rng(Config::with_cases(60), TestRng::from_seed(RngAlgorithm::ChaCha, &[8; 32]));
    let divisions = (prop::collection::vec((0..12usize, any::<bool>()), 1..8), 1..50usize);
    runner
        .run(&divisions, |(parts, block_rows)| {
            let folder = Folder::new();
            let mut from = 0;
            for (number, (length, as_text)) in parts.iter().chain(&[(40, false)]).enumerate() {
                let to = (from + length).min(rows.len());
                // A part may be without rows.
                match as_text {
                    true => folder.write(&format!("part-{number:02}.csv"), csv(&rows[from..to])),
                    false => folder.write(&format!("part-{number:02}.npy"), npy_rows(&rows[from..to])),
                };
                from = to;
            }
            let options = Options::new().block_rows(block_rows);
            let whole = Folder::new();
            let expected = read(&whole.write("rows.npy", npy_rows(&rows)), &options);
            prop_assert_eq!(&expected.rows, &rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>());
            prop_assert!(expected.blocks[..expected.blocks.len() - 1].iter().all(|&n| n == block_rows));
            prop_assert_eq!(&read(&location(folder.0.path()), &options), &expected);
            prop_assert_eq!(&read(&location(&folder.path("part-*")), &options), &expected);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_fit_from_files_is_the_fit_from_memory_bit_for_bit() {
    let rows = circle(40);
    let folder = Folder::new();
    folder.write("a.npy", npy_rows(&rows[..11]));
    folder.write("b.csv", csv(&rows[11..12]));
    folder.write("c.npy", npy_rows(&rows[12..]));
    let options = Options::new().block_rows(7);
    let component = |axis: usize| VonMisesFisher::new((0..4).map(|i| f64::from(i == axis)).collect(), 5.0).unwrap();
    let start = Mixture::new(vec![0.5, 0.5], vec![component(0), component(1)]).unwrap();
    let em = || Trainer::new(start.clone(), Em::new(), Stop { tolerance: None, passes: 5, ..Stop::default() }).unwrap();
    let online = || Trainer::new(start.clone(), OnlineEm::new(), Stop { tolerance: None, passes: 1, ..Stop::default() }).unwrap();
    let block = RowBatch::new(4, rows.as_flattened()).unwrap();
    let memory = |trainer| fit(&mut MemorySource::new(block.clone()).batches(7), trainer).unwrap().mixture;
    let files = |trainer| fit(&mut open(&location(folder.0.path()), &options).unwrap(), trainer).unwrap().mixture;
    assert_eq!(files(em()), memory(em()));
    assert_eq!(files(online()), memory(online()));
    let pipe = || open_stream(std::io::Cursor::new(npy_rows(&rows)), "pipe", &options).unwrap();
    assert_eq!(fit(&mut pipe(), online()).unwrap().mixture, memory(online()));
    assert_eq!(fit(&mut pipe(), em()).err(), Some(vmfkit::Error::CannotRewind));
}

#[test]
fn a_folder_is_its_files_of_known_formats_in_the_order_of_names() {
    let folder = Folder::new();
    folder.write("b.csv", csv(&ROWS[2..4]));
    folder.write("a.npy", npy_rows(&ROWS[..2]));
    folder.write("c.jsonl", "[0, 0, -0.8, 0.6]\n");
    folder.write("README.md", "these are rows");
    folder.write(".hidden.npy", "not an array");
    std::fs::create_dir(folder.path("d.npy")).unwrap();
    assert_eq!(read(&location(folder.0.path()), &Options::new()).rows, ROWS);
    assert_eq!(read(&location(&folder.path("[ab].*")), &Options::new()).rows, ROWS[..4]);
    assert_eq!(open(&location(folder.0.path()), &Options::new()).unwrap().rows(), None);
    assert_eq!(open(&location(&folder.path("*.npy")), &Options::new()).unwrap().rows(), Some(2));
}

#[test]
fn skipped_files_of_a_folder_are_known() {
    let folder = Folder::new();
    folder.write("a.npy", npy_rows(&ROWS));
    let source = |folder: &Folder| open(&location(folder.0.path()), &Options::new()).unwrap();
    assert_eq!(source(&folder).skipped(), None);
    folder.write("b.npy.old", "x");
    folder.write(".hidden", "x");
    let first = folder.write("_SUCCESS", "");
    // The contents of folders count, except those of folders that programs use internally, which
    // are skipped as a whole.
    for name in ["more", "_temporary"] {
        std::fs::create_dir(folder.path(name)).unwrap();
        folder.write(&format!("{name}/c.txt"), "x");
        folder.write(&format!("{name}/d.txt"), "x");
    }
    std::fs::remove_file(folder.path("b.npy.old")).unwrap();
    std::fs::remove_file(folder.path("more/d.txt")).unwrap();
    assert_eq!(source(&folder).skipped(), Some(&Skipped { count: 3, first: first.clone() }));
    let batches = vmfkit_io::open_batches(&[location(folder.0.path())], &Options::new()).unwrap();
    assert_eq!(batches.skipped().unwrap().first, first);
}

/// `*` in folders and in names, `**`, hidden names, and names that are not text.
#[test]
fn patterns_are_those_of_a_shell() {
    let folder = Folder::new();
    for name in ["x", "y", ".hidden", "x/deep"] {
        std::fs::create_dir(folder.path(name)).unwrap();
    }
    for name in ["x/1.npy", "x/2.npy", "y/1.npy", ".hidden/1.npy", "x/deep/1.npy", "x/.3.npy", "note.txt"] {
        folder.write(name, npy_rows(&ROWS));
    }
    let rows = |pattern: &str| read(&location(&folder.path(pattern)), &Options::new()).rows.len() / ROWS.len();
    for (pattern, files) in [
        ("*/1.npy", 2),
        ("x/*.npy", 2),
        ("x/[!1].npy", 1),
        ("?/?.npy", 3),
        ("**/*.npy", 4),
        ("x/**/1.npy", 2),
        ("*/../x/1.n*", 2),
    ] {
        assert_eq!(rows(pattern), files, "{pattern}");
    }
    for (pattern, words) in [
        ("***/x.npy", "the pattern is not valid: "),
        ("[.npy", "the pattern is not valid: "),
        ("*/9.npy", "no file matches the pattern"),
    ] {
        let message = refused(&location(&folder.path(pattern)), &Options::new());
        assert!(message.contains(words), "{message}");
    }
}

#[cfg(unix)]
#[test]
fn a_name_that_is_not_text_is_matched_as_any_other() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    folder.write("good.npy", npy_rows(&ROWS));
    let name = folder.0.path().join(std::ffi::OsStr::from_bytes(b"bad\xff.npy"));
    // Some file systems have no such names.
    if std::fs::write(name, npy_rows(&ROWS)).is_ok() {
        assert_eq!(read(&location(&folder.path("*.npy")), &Options::new()).rows.len(), 10);
        assert_eq!(read(&location(&folder.path("bad?.npy")), &Options::new()).rows.len(), 5);
        assert!(refused(&location(&folder.path("*ff*.npy")), &Options::new()).contains("no file matches the pattern"));
    }
}

#[test]
fn locations_without_files_are_errors() {
    let folder = Folder::new();
    folder.write("README.md", "nothing else");
    for (name, message) in [
        ("", "the folder must contain a file of a known format, other files: `1`"),
        ("*.npy", "no file matches the pattern: `"),
        ("***", "the pattern is not valid: "),
        ("missing.npy", "missing.npy: cannot be read: "),
    ] {
        let found = refused(&location(&folder.path(name)), &Options::new());
        assert!(found.contains(message), "{found}");
    }
    let empty = folder.write("empty.npy", npy_rows(&[]));
    assert!(refused(&empty, &Options::new()).ends_with("empty.npy: there is nothing to fit: the total row weight is `0`"));
    let empty = folder.write("empty.csv", "");
    assert!(refused(&empty, &Options::new()).ends_with("empty.csv: there is nothing to fit: the total row weight is `0`"));
}

/// A file of lists without rows does not tell how long they would be: Spark leaves such parts
/// behind.
#[test]
fn files_without_rows_and_shape_are_skipped() {
    let folder = Folder::new();
    for (name, from) in [("a", "no_rows.parquet"), ("b", "list_f32.parquet"), ("c", "no_rows.arrow"), ("d", "fixed_f32.arrow")] {
        std::fs::copy(testdata(&format!("columnar/{from}")), folder.path(&format!("{name}.parquet"))).unwrap();
    }
    folder.write("e.csv", "");
    let options = Options::new().rescale(true);
    let all = read(&location(folder.0.path()), &options);
    assert_eq!((all.rows.len(), all.blocks), (80, vec![80]));
    assert_eq!(open(&location(folder.0.path()), &options).unwrap().rows(), Some(80));
    let message = refused(&location(&folder.path("[ace]*")), &options);
    assert!(message.ends_with("there is nothing to fit: the total row weight is `0`"), "{message}");
    // Without rows, but of another shape.
    folder.write("f.npy", npy_rows(&[]));
    let message = refused(&location(folder.0.path()), &options);
    assert!(message.contains("f.npy: expected dimension 5, as in ") && message.ends_with("b.parquet, found: `4`"), "{message}");
}

#[test]
fn files_that_do_not_fit_together_are_both_named() {
    let folder = Folder::new();
    folder.write("a.npy", npy_rows(&ROWS));
    folder.write("b.csv", "0.6,0.8\n");
    let message = refused(&location(folder.0.path()), &Options::new());
    assert!(message.contains("b.csv: expected dimension 4, as in ") && message.ends_with("a.npy, found: `2`"), "{message}");
    std::fs::copy(testdata("formats/csr.npz"), folder.path("b.npz")).unwrap();
    let message = refused(&location(&folder.path("*.np?")), &Options::new());
    assert!(message.contains("b.npz: expected dense rows, as in ") && message.ends_with("a.npy, found: `sparse`"), "{message}");
}

#[test]
fn types_that_differ_are_widened_and_only_half_precision_is_rescaled() {
    let folder = Folder::new();
    let single: Vec<u8> = [0.6f32, 0.8, 0.0, 0.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let half: Vec<u8> = [0x38cdu16, 0x3a66, 0, 0].iter().flat_map(|x| x.to_le_bytes()).collect();
    folder.write("a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4)}", &single));
    folder.write("b.npy", npy("{'descr': '<f2', 'fortran_order': False, 'shape': (1, 4)}", &half));
    let both = open(&location(folder.0.path()), &Options::new()).unwrap();
    assert_eq!((both.element(), both.rescaled()), (Element::F32, Some(0)));
    folder.write("c.npy", npy_rows(&[[0.6, 0.8, 0.0, 0.0]]));
    let mut all = open(&location(folder.0.path()), &Options::new()).unwrap();
    assert_eq!((all.element(), all.rescaled()), (Element::F64, Some(0)));
    let Everything { rows, .. } = crate::read_all(&mut all).unwrap();
    assert_eq!(rows[0][..2], [f64::from(0.6f32), f64::from(0.8f32)]);
    assert!((rows[1][0] - 0.6).abs() < 1e-3 && (rows[1].iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-6);
    assert_eq!(rows[2][..2], [0.6, 0.8]);
    assert_eq!(all.rescaled(), Some(1));
}

#[test]
fn a_bad_row_is_named_with_its_file_and_its_number_there() {
    let folder = Folder::new();
    let mut rows = circle(10);
    folder.write("part-1.npy", npy_rows(&rows));
    rows[7] = [0.0, 0.97, 0.0, 0.0];
    let place = folder.write("part-2.npy", npy_rows(&rows));
    for block_rows in [1, 3, 4, 7, 15, 18, 1000] {
        let message = refused(&location(folder.0.path()), &Options::new().block_rows(block_rows));
        let expected = "row 7 must have length 1, found: `0.97`\nhint: `--rescale` divides each row by its length";
        assert_eq!(message, format!("{place}: {expected}"));
    }
    rows[7] = [0.0; 4];
    folder.write("part-2.npy", npy_rows(&rows));
    for rescale in [false, true] {
        let message = refused(&location(folder.0.path()), &Options::new().block_rows(4).rescale(rescale));
        assert_eq!(message, format!("{place}: row 7 has no direction: all its coordinates are `0`"));
    }
    let weights = folder.write("weights.csv", "x,y,n\n0.6,0.8,1\n0.6,0.8,-2\n");
    let options = Options::new().columns(names("x,y")).weight_column("n").block_rows(1);
    assert_eq!(refused(&weights, &options), format!("{weights}: the weight of row 1 must be from 0 to 1e100, found: `-2`"));
}
