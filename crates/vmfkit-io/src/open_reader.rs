//! The reader of a file or a pipe, whatever its format.

use crate::bytes::{ByteReader, ByteSource};
use crate::excerpt::excerpt;
use crate::format::{GZIP, HEAD};
use crate::read::angles::AngleRows;
use crate::read::arrow::ArrowReader;
use crate::read::columns::Columns;
use crate::read::csv::CsvRows;
use crate::read::numbers::ArrayBytes;
use crate::read::parquet::ParquetReader;
use crate::read::text;
use crate::read::{jsonl, matrix_market, npy, npz, safetensors};
use crate::{Error, Format, Options, Reader, Result};
use std::io::{Cursor, Read};
use std::path::Path;

/// A reader of one file at its first row. No other function knows all formats.
pub(crate) fn reader(source: ByteSource, format: Format, options: &Options) -> Result<Box<dyn Reader>> {
    options.check(format)?;
    let reader: Box<dyn Reader> = match format {
        Format::Npy => Box::new(npy::open(source, options)?),
        Format::Npz => npz::open(&source, options)?,
        Format::Csv => Box::new(CsvRows::open(source, b',', options)?),
        Format::Tsv => Box::new(CsvRows::open(source, b'\t', options)?),
        Format::Jsonl => Box::new(jsonl::JsonRows::open(source, options)?),
        Format::Safetensors => Box::new(safetensors::open(source, options)?),
        Format::Mtx => Box::new(matrix_market::MatrixRows::open(&source, options)?),
        Format::Parquet => Box::new(ParquetReader::open(source, &Columns::of(options))?),
        Format::Arrow => Box::new(ArrowReader::open(source, &Columns::of(options))?),
    };
    with_angles(reader, format, options)
}

/// The rows as they are, or the unit vectors of their angles.
fn with_angles(reader: Box<dyn Reader>, format: Format, options: &Options) -> Result<Box<dyn Reader>> {
    match options.angles {
        Some(angles) => Ok(Box::new(AngleRows::new(angles, reader, format)?)),
        None => Ok(reader),
    }
}

/// A reader of a pipe.
pub(crate) fn stream_reader(text: ByteReader, options: &Options) -> Result<Box<dyn Reader>> {
    let (head, text) = peek(text)?;
    let detected = || {
        let format = Format::detect(&head, None, Path::new("-"));
        format.ok_or_else(|| {
            Error::format(format!("the format cannot be detected from the first bytes, found: `{}`", excerpt(&head)))
        })
    };
    let format = options.format.map_or_else(detected, Ok)?;
    options.check(format)?;
    let reader: Box<dyn Reader> = match format {
        Format::Npy => Box::new(npy::rows(ArrayBytes::new(text), None, options.one_angle())?),
        Format::Csv => Box::new(CsvRows::new(text, b',', options)?),
        Format::Tsv => Box::new(CsvRows::new(text, b'\t', options)?),
        Format::Jsonl => Box::new(jsonl::JsonRows::new(text, options)?),
        Format::Mtx => Box::new(matrix_market::MatrixRows::new(text, options)?),
        Format::Arrow => Box::new(ArrowReader::from_pipe(text, &Columns::of(options))?),
        Format::Npz | Format::Safetensors | Format::Parquet => {
            let what = "a pipe must be npy, arrow, csv, tsv, jsonl or mtx";
            return Err(Error::format(format!("{what}, found: `{format}`\nhint: write it to a file and read that file")));
        }
    };
    with_angles(reader, format, options)
}

/// The first bytes, decompressed, and a reader of all bytes, decompressed.
fn peek(text: ByteReader) -> Result<(Vec<u8>, ByteReader)> {
    let mut text = text::unpacked(text)?;
    let mut head = Vec::new();
    text.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
    Ok((head.clone(), ByteReader::pipe(Cursor::new(head).chain(text))))
}

/// The format that the options name; otherwise it is detected by the first bytes, then by the file
/// name.
pub(crate) fn format_of(source: &ByteSource, path: &Path, options: &Options) -> Result<Format> {
    if let Some(format) = options.format {
        return Ok(format);
    }
    // Reading the first bytes of an object takes a request of its own, and a large one.
    if let Some(format) = Format::of_name(path).filter(|_| !source.is_local()) {
        return Ok(format);
    }
    let mut head = source.read_all_at(0, HEAD)?.to_vec();
    let unpacked = head.starts_with(GZIP);
    if unpacked {
        head = peek(ByteReader::new(source.clone(), 0))?.0;
    }
    let name = if unpacked && path.extension().is_some_and(|e| e == "gz") { path.with_extension("") } else { path.to_owned() };
    let format = Format::detect(&head, (!unpacked).then_some(source.len()), &name);
    let format = format.ok_or_else(|| {
        Error::format(format!(
            "the format cannot be detected from the name or the first bytes, found: `{}`\nhint: `--format NAME` specifies it",
            excerpt(&head)
        ))
    })?;
    if unpacked && !format.is_text() {
        let what = "only text files may be compressed with gzip";
        return Err(Error::format(format!("{what}, found: `{format}`\nhint: decompress it with `gunzip`")));
    }
    Ok(format)
}
