//! JSON Lines that `vmf` wrote are read without a word about their keys.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use vmfkit_data::{Format, local_files};

/// The key that `vmf` writes rows under.
const KEY: &str = "embedding";
/// A first line that is longer is not looked at.
const LONGEST_LINE: u64 = 64 << 20;

/// The key of the rows, if all files are JSON Lines and the first row of the first of them has it; otherwise nothing is chosen.
pub fn columns(data: &[String], format: Option<Format>) -> Vec<String> {
    let files: Vec<_> = data.iter().flat_map(|location| local_files(location)).collect();
    let are_lines = files.iter().all(|path| path.is_file() && format.or_else(|| Format::of_name(path)) == Some(Format::Jsonl));
    match files.first() {
        Some(first) if are_lines && has_key(first) => vec![KEY.to_owned()],
        _ => Vec::new(),
    }
}

fn has_key(path: &Path) -> bool {
    let mut line = Vec::new();
    let read = File::open(path).and_then(|file| BufReader::new(file.take(LONGEST_LINE)).read_until(b'\n', &mut line));
    let object = read.ok().and_then(|_| serde_json::from_slice::<serde_json::Value>(&line).ok());
    object.is_some_and(|object| object[KEY].is_array())
}
