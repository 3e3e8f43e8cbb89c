//! Vectors and labels from files: `.npy` or text, detected from the first bytes and the name.

use anyhow::{Context, Result, anyhow, bail};
use clap::builder::{OsStringValueParser, TypedValueParser};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use vmfkit_io::csv::{self, CsvRows};
use vmfkit_io::npy;
use vmfkit_io::{Batch, Format, Ids, Options, Reader, excerpt};

/// Parses a location of rows: a path, a pattern, or a location in an object store.
pub fn location_parser() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().try_map(|name| location(Path::new(&name)))
}

/// The location of a file. Names that are not UTF-8 are refused: a lossy name might be that of
/// another file.
pub fn location(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        let found = path.as_os_str().as_encoded_bytes().escape_ascii();
        anyhow!(
            "the name must be UTF-8, found: `{found}`\n\
             hint: use `?` for such a character in a quoted pattern, or give the folder"
        )
    })
}

/// The vector of `--mean-direction`: numbers separated by commas, or a file.
pub fn mean_direction(given: &str) -> Result<Vec<f64>> {
    match given.split(',').map(|x| x.trim().parse().ok()).collect() {
        Some(numbers) => Ok(numbers),
        None => read_vector(Path::new(given)).context("the mean direction must be numbers or a file of numbers"),
    }
}

/// Reads a vector: an array of one axis, or a table with one row or one column.
pub fn read_vector(path: &Path) -> Result<Vec<f64>> {
    let read = || {
        let mut source = Source::open(path)?;
        if !source.is_npy(path)? {
            let (dim, rows, values) = csv_table(source, path)?;
            return if dim == 1 || rows == 1 {
                Ok(values)
            } else {
                bail!("a vector must be one row or one column, found: `{rows} x {dim}`")
            };
        }
        let reader = npy::Reader::new(source.reader, source.length)?;
        match reader.header().shape[..] {
            [_] | [1, _] | [_, 1] => Ok(reader.into_rows()?.into_f64()),
            _ => bail!("a vector must be an array of one axis, found shape: `{}`", reader.header().shape_text()),
        }
    };
    read().with_context(|| display(path))
}

/// The default column of labels, which `vmf assign` writes.
const LABELS: &str = "component";

/// Reads one label per row: the integers of an array of one axis or of a column, or the lines of a
/// text file. Equal labels have equal numbers, which have no other meaning.
pub fn read_labels(path: &Path, header: Option<bool>, column: Option<&str>) -> Result<Vec<i64>> {
    let labels = if column.is_some() || is_table(path, LABELS)? {
        read_column(path, column.unwrap_or(LABELS))?
    } else {
        read_array_or_lines(path, header).with_context(|| display(path))?
    };
    if labels.is_empty() { bail!("{}: no labels to compare", display(path)) } else { Ok(labels) }
}

/// The labels of rows, with their names.
#[derive(Debug, PartialEq)]
pub struct LabelNames {
    /// All labels, sorted: integers by value, then text.
    pub names: Vec<String>,
    /// The index of each row's label in `names`.
    pub numbers: Vec<u32>,
}

impl LabelNames {
    /// Labels from an id column.
    pub fn of_ids(ids: Vec<Ids>) -> Self {
        let mut labels = Vec::new();
        for ids in ids {
            match ids {
                Ids::Integers(numbers) => labels.extend(numbers.iter().map(i64::to_string)),
                Ids::Texts(texts) => labels.extend(texts),
            }
        }
        Self::new(&labels)
    }

    fn new(labels: &[String]) -> Self {
        // `1` is an integer; `01` and `1.0` are text, and different labels.
        let order = |name: &&String| match name.parse::<i64>() {
            Ok(number) if number.to_string() == **name => (false, number),
            _ => (true, 0),
        };
        let mut numbers: HashMap<&String, u32> = labels.iter().map(|label| (label, 0)).collect();
        let mut names: Vec<&String> = numbers.keys().copied().collect();
        names.sort_by_key(|name| (order(name), *name));
        for (position, name) in (0..).zip(&names) {
            numbers.insert(name, position);
        }
        let found = labels.iter().map(|label| numbers[label]).collect();
        LabelNames { names: names.into_iter().cloned().collect(), numbers: found }
    }
}

/// The default column of known labels.
const KNOWN_LABELS: &str = "label";

/// Reads one label per row, with their names: the integers of an array of one axis, the text or
/// integers of a column, or the lines of a text file.
pub fn read_label_names(path: &Path, column: Option<&str>) -> Result<LabelNames> {
    let labels = if column.is_some() || is_table(path, KNOWN_LABELS)? {
        let ids = vmfkit_io::read_ids(&[path.display().to_string()], column.unwrap_or(KNOWN_LABELS), &Options::new())?;
        LabelNames::of_ids(ids)
    } else {
        LabelNames::new(&read_names(path).with_context(|| display(path))?)
    };
    if labels.numbers.is_empty() { bail!("{}: no labels to fit", display(path)) } else { Ok(labels) }
}

fn read_names(path: &Path) -> Result<Vec<String>> {
    let mut source = Source::open(path)?;
    if source.is_npy(path)? {
        return Ok(npy_labels(source)?.iter().map(i64::to_string).collect());
    }
    let mut text = Vec::new();
    source.reader.read_to_end(&mut text).map_err(npy::Error::from)?;
    let lines = label_lines(&text, delimiter(path), None)?;
    let unquoted = |line: &[u8]| {
        let text = String::from_utf8_lossy(line).into_owned();
        let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).filter(|_| delimiter(path).is_some());
        inner.map(|inner| inner.replace("\"\"", "\"")).unwrap_or(text)
    };
    Ok(lines.into_iter().map(unquoted).collect())
}

fn read_array_or_lines(path: &Path, header: Option<bool>) -> Result<Vec<i64>> {
    let mut source = Source::open(path)?;
    if !source.is_npy(path)? {
        let mut text = Vec::new();
        source.reader.read_to_end(&mut text).map_err(npy::Error::from)?;
        return number_lines(&text, delimiter(path), header);
    }
    npy_labels(source)
}

fn npy_labels(source: Source) -> Result<Vec<i64>> {
    let reader = npy::Reader::new(source.reader, source.length)?;
    match reader.header().shape[..] {
        [_] | [1, _] | [_, 1] => Ok(reader.into_labels()?),
        _ => bail!("labels must be an array of one axis, found shape: `{}`", reader.header().shape_text()),
    }
}

/// Whether the labels are in a column: the file has columns only, or the first line of a text names
/// this column.
fn is_table(path: &Path, column: &str) -> Result<bool> {
    match (Format::of_name(path), delimiter(path)) {
        (Some(Format::Parquet | Format::Arrow | Format::Jsonl), _) => Ok(true),
        (_, Some(delimiter)) if path.is_file() => {
            let mut first = Vec::new();
            let file = BufReader::new(File::open(path).with_context(|| display(path))?);
            file.take(1 << 16).read_until(b'\n', &mut first).with_context(|| display(path))?;
            let cells: Vec<&[u8]> = first.split(|&byte| byte == delimiter).map(<[u8]>::trim_ascii).collect();
            Ok(cells.len() > 1 && cells.contains(&column.as_bytes()))
        }
        _ => Ok(false),
    }
}

/// The labels in a column.
fn read_column(path: &Path, column: &str) -> Result<Vec<i64>> {
    if Format::of_name(path) == Some(Format::Jsonl) {
        return read_key(path, column).with_context(|| display(path));
    }
    let mut rows = vmfkit_io::open_batches(&[location(path)?], &Options::new().columns(vec![column.to_owned()]))?;
    let (mut labels, mut batch) = (Vec::new(), Batch::default());
    if rows.schema().dim > 1 {
        bail!("{}: a label must be one number, found in column `{column}`: `{}`", display(path), rows.schema().dim);
    }
    while rows.read(&mut batch)? {
        for value in std::mem::take(&mut batch.values).into_f64() {
            if value.fract() != 0.0 || value.abs() >= 2f64.powi(53) {
                return Err(npy::Error::Label { row: labels.len(), value }).with_context(|| display(path));
            }
            labels.push(value as i64);
        }
    }
    Ok(labels)
}

/// The labels under a key in JSON Lines.
fn read_key(path: &Path, key: &str) -> Result<Vec<i64>> {
    let mut labels = Vec::new();
    for (line, text) in (1..).zip(BufReader::new(File::open(path)?).lines()) {
        let text = text?;
        if text.trim().is_empty() {
            continue;
        }
        let object: serde_json::Value = serde_json::from_str(&text).with_context(|| format!("line {line}"))?;
        match object[key].as_i64() {
            Some(label) => labels.push(label),
            None => bail!("line {line} must have a whole number under the key `{key}`, found: `{}`", object[key]),
        }
    }
    Ok(labels)
}

/// A number for each line; equal lines have equal numbers.
fn number_lines(text: &[u8], delimiter: Option<u8>, header: Option<bool>) -> Result<Vec<i64>> {
    let mut numbers = HashMap::new();
    let number = |line| {
        let next = numbers.len() as i64;
        *numbers.entry(line).or_insert(next)
    };
    Ok(label_lines(text, delimiter, header)?.into_iter().map(number).collect())
}

/// The lines of a text, each a label. The first line is skipped if it is a header by option, or if
/// it is the only one that is not a number.
fn label_lines(text: &[u8], delimiter: Option<u8>, header: Option<bool>) -> Result<Vec<&[u8]>> {
    if text.contains(&0) {
        bail!("labels must be a .npy array or text, found a file that starts with: `{}`", excerpt(text));
    }
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_end();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).collect();
    for (line, label) in (1..).zip(&lines) {
        if label.is_empty() {
            bail!("line {line} must be a label, found: ``");
        }
        if delimiter.is_some_and(|delimiter| !label.starts_with(b"\"") && label.contains(&delimiter)) {
            bail!("line {line} must be a single label, found: `{}`", excerpt(label));
        }
    }
    let is_number = |line: &&[u8]| csv::number(line).is_some();
    let looks_like_header = lines.len() > 1 && !is_number(&lines[0]) && lines[1..].iter().all(is_number);
    if header.unwrap_or(looks_like_header) {
        lines.remove(0);
    }
    Ok(lines)
}

/// The name of a file in messages.
pub fn display(path: &Path) -> String {
    vmfkit_io::names(&[path.display().to_string()])
}

/// A reader of known length.
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

    /// The length of a pipe is unknown before its end, so its bytes are held in memory.
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

/// The numbers per row, the number of rows and all numbers.
fn csv_table(source: Source, path: &Path) -> Result<(usize, usize, Vec<f64>)> {
    let mut reader = CsvRows::new(source.reader, delimiter(path).unwrap_or(b','), &Options::new())?;
    let mut all = Batch::default();
    reader.read(usize::MAX, &mut all)?;
    Ok((reader.schema().dim, all.rows, all.values.into_f64()))
}

/// The delimiter that the extension of a text file implies.
fn delimiter(path: &Path) -> Option<u8> {
    match path.extension()?.to_str()? {
        "csv" => Some(b','),
        "tsv" => Some(b'\t'),
        _ => None,
    }
}
