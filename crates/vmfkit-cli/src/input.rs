//! Vectors and labels from files: `.npy` or text, told apart by the first bytes and the name.

use anyhow::{Context, Result, bail};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use vmfkit_data::csv_rows::{self, CsvRows};
use vmfkit_data::npy;
use vmfkit_data::{Batch, Options, Reader, excerpt};

/// Reads one vector: an array of one axis, or a table of one row or of one column.
pub fn read_vector(path: &Path) -> Result<Vec<f64>> {
    let read = || {
        let mut source = Source::open(path)?;
        if !source.is_npy(path)? {
            let (dim, rows, values) = csv_table(source, path)?;
            return if dim == 1 || rows == 1 {
                Ok(values)
            } else {
                bail!("one vector is one row or one column, found: `{rows} x {dim}`")
            };
        }
        let reader = npy::Reader::new(source.reader, source.length)?;
        match reader.header().shape[..] {
            [_] | [1, _] | [_, 1] => Ok(reader.into_values()?.into_f64()),
            _ => bail!("one vector is an array of one axis, found shape: `{}`", reader.header().shape_text()),
        }
    };
    read().with_context(|| display(path))
}

/// Reads one label a row: whole numbers of an array of one axis, or the lines of a text file. Which number stands for a label has no
/// meaning, only that equal labels have the same.
pub fn read_labels(path: &Path, header: bool) -> Result<Vec<i64>> {
    let read = || {
        let mut source = Source::open(path)?;
        let labels = if source.is_npy(path)? {
            let reader = npy::Reader::new(source.reader, source.length)?;
            match reader.header().shape[..] {
                [_] | [1, _] | [_, 1] => reader.into_labels()?,
                _ => bail!("labels are an array of one axis, found shape: `{}`", reader.header().shape_text()),
            }
        } else {
            let mut text = Vec::new();
            source.reader.read_to_end(&mut text).map_err(npy::Error::from)?;
            number_lines(&text, delimiter(path), header)?
        };
        if labels.is_empty() { bail!("there is nothing to compare, labels: `0`") } else { Ok(labels) }
    };
    read().with_context(|| display(path))
}

/// A number for each line, equal for equal lines. A first line is left out if it is said to be a header, or cannot be a number where all
/// others are.
fn number_lines(text: &[u8], delimiter: Option<u8>, header: bool) -> Result<Vec<i64>> {
    if text.contains(&0) {
        bail!("labels are a .npy array or text, found a file that begins with: `{}`", excerpt(text));
    }
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_end();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).collect();
    for (line, label) in (1..).zip(&lines) {
        if label.is_empty() {
            bail!("line {line} must hold a label, found: ``");
        }
        if delimiter.is_some_and(|delimiter| !label.starts_with(b"\"") && label.contains(&delimiter)) {
            bail!("line {line} must hold one label and nothing else, found: `{}`", excerpt(label));
        }
    }
    let is_number = |line: &&[u8]| csv_rows::number(line).is_some();
    let looks_like_header = lines.len() > 1 && !is_number(&lines[0]) && lines[1..].iter().all(is_number);
    if header || looks_like_header {
        lines.remove(0);
    }
    let mut numbers = HashMap::new();
    let number = |line| {
        let next = numbers.len() as i64;
        *numbers.entry(line).or_insert(next)
    };
    Ok(lines.into_iter().map(number).collect())
}

/// How messages call a file.
pub fn display(path: &Path) -> String {
    vmfkit_data::names(&[path.display().to_string()])
}

/// Something to read, with its length known.
struct Source {
    reader: Box<dyn BufRead + Send>,
    length: u64,
}

impl Source {
    fn open(path: &Path) -> Result<Self, npy::Error> {
        if path == Path::new("-") {
            return Self::of_stream(io::stdin().lock());
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Self::of_stream(file);
        }
        Ok(Source { reader: Box::new(BufReader::with_capacity(1 << 16, file)), length: metadata.len() })
    }

    /// A pipe has no length before its end, so it is held in memory; it grows with what arrives, not with what a header claims.
    fn of_stream(mut stream: impl Read) -> Result<Self, npy::Error> {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        Ok(Source { length: bytes.len() as u64, reader: Box::new(Cursor::new(bytes)) })
    }

    fn is_npy(&mut self, path: &Path) -> Result<bool> {
        let start = self.reader.fill_buf().map_err(npy::Error::from).with_context(|| display(path))?;
        Ok(start.starts_with(npy::MAGIC) || path.extension().is_some_and(|e| e == "npy"))
    }
}

/// Numbers in a row, rows and all numbers.
fn csv_table(source: Source, path: &Path) -> Result<(usize, usize, Vec<f64>)> {
    let mut reader = CsvRows::new(source.reader, delimiter(path).unwrap_or(b','), &Options::new())?;
    let mut all = Batch::default();
    reader.read(usize::MAX, &mut all)?;
    Ok((reader.schema().dim, all.rows, all.values.into_f64()))
}

/// What stands between the cells of a line, where the name of the file tells.
fn delimiter(path: &Path) -> Option<u8> {
    match path.extension()?.to_str()? {
        "csv" => Some(b','),
        "tsv" => Some(b'\t'),
        _ => None,
    }
}
