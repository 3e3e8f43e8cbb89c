//! Files of every format, intact and damaged, single and several.

mod angles;
mod arrays;
mod batches;
mod broken;
mod damage;
mod errors;
mod formats;
mod passes;
mod past_cache;
mod spill;
mod splits;

use std::path::{Path, PathBuf};
use tempfile::TempDir;
use vmfkit::source::Source;
use vmfkit_io::{DataSource, Ids, Options, open};

/// The rows of the files in `testdata/formats`, as in the script that wrote them.
const ROWS: [[f64; 4]; 5] =
    [[0.6, 0.8, 0.0, 0.0], [0.0, 0.6, 0.0, 0.8], [0.0, 0.0, 1.0, 0.0], [0.5, 0.5, -0.5, 0.5], [0.0, 0.0, -0.8, 0.6]];
const WEIGHTS: [f64; 5] = [1.0, 2.0, 0.5, 1.5, 3.0];

/// A temporary folder.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file and returns its path.
    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        // Some file systems wait for the disk when a file is overwritten.
        std::fs::remove_file(&path).ok();
        std::fs::write(&path, content).expect("a file in a temporary folder");
        location(&path)
    }
}

/// An error and its causes on one line.
fn with_causes(error: impl Into<vmfkit::Error>) -> String {
    format!("{:#}", error.into())
}

fn location(path: &Path) -> String {
    path.to_str().expect("a path in UTF-8").to_owned()
}

fn testdata(name: &str) -> String {
    location(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name))
}

fn names(names: &str) -> Vec<String> {
    names.split(',').map(str::to_owned).collect()
}

/// The result of one pass.
#[derive(Debug, Default, PartialEq)]
struct Everything {
    rows: Vec<Vec<f64>>,
    weights: Vec<f64>,
    ids: Vec<String>,
    /// The length of each block.
    blocks: Vec<usize>,
}

fn read_all(source: &mut DataSource) -> vmfkit::Result<Everything> {
    let mut all = Everything::default();
    loop {
        let before = all.rows.len();
        match source.next_validated(&mut vmfkit::RowBatch::default())? {
            None => return Ok(all),
            Some(block) => {
                all.blocks.push(block.len());
                all.rows.extend((0..block.len()).map(|row| block.row(row)));
                all.weights.extend(block.weights().unwrap_or_default());
            }
        }
        assert_eq!(source.first_row(), before as u64);
        match source.ids() {
            Some(Ids::Texts(ids)) => all.ids.extend(ids.iter().cloned()),
            Some(Ids::Integers(ids)) => all.ids.extend(ids.iter().map(i64::to_string)),
            None => {}
        }
    }
}

/// The rows of a readable location. Two passes must give the same rows.
fn read(location: &str, options: &Options) -> Everything {
    let mut source = open(location, options).unwrap_or_else(|error| panic!("{}", vmfkit::Error::from(error)));
    let first = read_all(&mut source).unwrap_or_else(|error| panic!("{error:#}"));
    source.rewind().unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(read_all(&mut source).unwrap_or_else(|error| panic!("{error:#}")), first, "{location}");
    first
}

/// The error of opening or reading a location.
fn refused(location: &str, options: &Options) -> String {
    match open(location, options) {
        Err(error) => with_causes(error),
        Ok(mut source) => match read_all(&mut source) {
            Err(error) => with_causes(error),
            Ok(_) => panic!("{location} was read"),
        },
    }
}

/// The bytes of a `.npy` file with this header text.
fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(header.len()).expect("a short header");
    [b"\x93NUMPY\x01\x00", &length.to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// Rows of f64 as a `.npy` file.
fn npy_rows(rows: &[[f64; 4]]) -> Vec<u8> {
    let data: Vec<u8> = rows.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    npy(&format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({}, 4)}}", rows.len()), &data)
}
