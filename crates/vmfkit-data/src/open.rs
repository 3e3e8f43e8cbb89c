//! [`open`]: from the name of a place to a source of rows.

use crate::arrow_ipc::ArrowReader;
use crate::chain::Chain;
use crate::csv_rows::CsvRows;
use crate::excerpt::excerpt;
use crate::format::{GZIP, HEAD};
use crate::numbers::Bytes;
use crate::parquet::ParquetReader;
use crate::text::{self, Text};
use crate::{DataSource, Error, Format, Options, Reader, Result, jsonl, matrix_market, npy, npz, safetensors};
use glob::MatchOptions;
use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

/// Opens the rows of a file, of `-` (standard input), of a folder (all files in it whose names end as those of a known format
/// do), or of a pattern such as `embeddings/part-*.npy`. Several files are read in the order of their names, as if they were one.
///
/// A pipe is read once, without being held in memory; [`rewind`](vmfkit::source::Source::rewind) after the first block is
/// refused. Tables without chosen columns are joined by position: the names in their first lines are not compared.
pub fn open(location: &str, options: &Options) -> Result<DataSource> {
    open_all(&[location], options)
}

/// The same for several places, one after the other.
pub fn open_all<S: AsRef<str>>(locations: &[S], options: &Options) -> Result<DataSource> {
    if let [only] = locations
        && only.as_ref() == "-"
    {
        return open_stream(io::stdin(), "standard input", options);
    }
    let mut inputs = Vec::new();
    for location in locations.iter().map(AsRef::as_ref) {
        inputs.extend(files(location).map_err(|error| error.at(location))?);
    }
    let chain = Chain::open(inputs, options)?;
    if chain.schema().rows == Some(0) {
        let place = locations.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
        return Err(Error::from(vmfkit::Error::NoRows { weight: 0.0 }).at(place));
    }
    Ok(DataSource::new(chain, options))
}

/// Opens rows that come once: an array in C order, CSV, TSV, JSON Lines or Matrix Market. Messages call it by this name.
pub fn open_stream(stream: impl Read + Send + 'static, name: &str, options: &Options) -> Result<DataSource> {
    let text: Text = Box::new(BufReader::with_capacity(1 << 20, stream));
    let chain = Chain::open(vec![Input::Stream { name: name.to_owned(), text }], options)?;
    if chain.schema().rows == Some(0) {
        return Err(Error::from(vmfkit::Error::NoRows { weight: 0.0 }).at(name));
    }
    Ok(DataSource::new(chain, options))
}

/// Something to read rows from.
pub(crate) enum Input {
    /// Can be read again.
    File(PathBuf),
    /// Comes once.
    Stream { name: String, text: Text },
}

impl Input {
    /// How messages call it.
    pub fn name(&self) -> String {
        match self {
            Input::File(path) => path.display().to_string(),
            Input::Stream { name, .. } => name.clone(),
        }
    }
}

/// A reader of one file at its first row: the one place where formats are told apart.
pub(crate) fn reader(path: &Path, format: Format, options: &Options) -> Result<Box<dyn Reader>> {
    Ok(match format {
        Format::Npy => Box::new(npy::open(path, options)?),
        Format::Npz => npz::open(path, options)?,
        Format::Csv => Box::new(CsvRows::open(path, b',', options)?),
        Format::Tsv => Box::new(CsvRows::open(path, b'\t', options)?),
        Format::Jsonl => Box::new(jsonl::JsonRows::open(path, options)?),
        Format::Safetensors => Box::new(safetensors::open(path, options)?),
        Format::Mtx => Box::new(matrix_market::MatrixRows::open(path, options)?),
        Format::Parquet => Box::new(ParquetReader::open(path, &options.names())?),
        Format::Arrow => Box::new(ArrowReader::open(path, &options.names())?),
    })
}

/// A reader of what comes through a pipe.
pub(crate) fn stream_reader(text: Text, options: &Options) -> Result<Box<dyn Reader>> {
    let (head, text) = peek(text)?;
    let detected = || {
        let format = Format::detect(&head, None, Path::new("-"));
        format.ok_or_else(|| Error::format(format!("the format is not known by the first bytes, found: `{}`", excerpt(&head))))
    };
    let format = options.format.map_or_else(detected, Ok)?;
    Ok(match format {
        Format::Npy => {
            options.refuse_columns()?;
            Box::new(npy::Header::rows(Bytes::Stream(text), None)?)
        }
        Format::Csv => Box::new(CsvRows::new(text, b',', options)?),
        Format::Tsv => Box::new(CsvRows::new(text, b'\t', options)?),
        Format::Jsonl => Box::new(jsonl::JsonRows::new(text, options)?),
        Format::Mtx => Box::new(matrix_market::MatrixRows::new(text, options)?),
        Format::Npz | Format::Safetensors | Format::Parquet | Format::Arrow => {
            let what = "through a pipe come npy, csv, tsv, jsonl or mtx";
            return Err(Error::format(format!("{what}, found: `{format}`\nhint: write it to a file and read that")));
        }
    })
}

/// The first bytes, unpacked, and all of the text, unpacked.
fn peek(text: Text) -> Result<(Vec<u8>, Text)> {
    let mut text = text::unpacked(text)?;
    let mut head = Vec::new();
    text.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
    Ok((head.clone(), Box::new(Cursor::new(head).chain(text))))
}

/// What the options say, or the first bytes, or the name.
pub(crate) fn format_of(path: &Path, options: &Options) -> Result<Format> {
    if let Some(format) = options.format {
        return Ok(format);
    }
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut head = Vec::new();
    file.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
    let unpacked = head.starts_with(GZIP);
    if unpacked {
        head = peek(Box::new(BufReader::new(File::open(path)?)))?.0;
    }
    let name = if unpacked && path.extension().is_some_and(|e| e == "gz") { path.with_extension("") } else { path.to_owned() };
    let format = Format::detect(&head, (!unpacked).then_some(length), &name);
    let format = format.ok_or_else(|| {
        Error::format(format!(
            "the format is not known by the name or the first bytes, found: `{}`\nhint: `--format NAME` says what it is",
            excerpt(&head)
        ))
    })?;
    if unpacked && !format.is_text() {
        let what = "only text is read while compressed with gzip";
        return Err(Error::format(format!("{what}, found: `{format}`\nhint: unpack it with `gunzip`")));
    }
    Ok(format)
}

/// The files that a location stands for, in the order of their names.
fn files(location: &str) -> Result<Vec<Input>> {
    let path = Path::new(location);
    let Ok(metadata) = fs::metadata(path) else {
        return match location.contains(['*', '?', '[']) {
            true => matches(location),
            // With the system's own words for what is wrong.
            false => File::open(path).map(|_| Vec::new()).map_err(Error::from),
        };
    };
    if metadata.is_file() {
        return Ok(vec![Input::File(path.to_owned())]);
    }
    if !metadata.is_dir() {
        let text = Box::new(BufReader::with_capacity(1 << 20, File::open(path)?));
        return Ok(vec![Input::Stream { name: location.to_owned(), text }]);
    }
    let mut paths = Vec::new();
    let mut others = 0;
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.is_file() && Format::of_name(&path).is_some() {
            paths.push(path);
        } else {
            others += 1;
        }
    }
    if paths.is_empty() {
        return Err(Error::format(format!("the folder must hold a file of a known format, others in it: `{others}`")));
    }
    paths.sort();
    Ok(paths.into_iter().map(Input::File).collect())
}

/// The files whose names match a pattern.
fn matches(pattern: &str) -> Result<Vec<Input>> {
    let as_a_shell_does =
        MatchOptions { require_literal_separator: true, require_literal_leading_dot: true, ..MatchOptions::new() };
    let found = glob::glob_with(pattern, as_a_shell_does)
        .map_err(|error| Error::format(format!("the pattern is not understood: {}, found: `{pattern}`", error.msg)))?;
    let mut paths = Vec::new();
    for path in found {
        let path = path.map_err(|error| Error::from(io::Error::from(error)))?;
        if path.is_file() {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(Error::format(format!("no file has a name that matches: `{pattern}`")));
    }
    paths.sort();
    Ok(paths.into_iter().map(Input::File).collect())
}
