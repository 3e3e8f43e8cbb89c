//! [`Format`]: the kinds of files, and how they are told apart.

use crate::npy_header;
use std::path::Path;
use std::str::FromStr;
use vmfkit::error::ParseChoiceError;
use vmfkit::store::model::LONGEST_HEADER;

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// NumPy's array.
    Npy,
    /// NumPy's archive of arrays, or scipy's sparse matrix.
    Npz,
    /// One row per line, numbers separated by commas.
    Csv,
    /// One row per line, numbers separated by tabs.
    Tsv,
    /// One JSON array or object per line.
    Jsonl,
    /// Named tensors.
    Safetensors,
    /// Matrix Market's text.
    Mtx,
    /// Columns in row groups.
    Parquet,
    /// Arrow's IPC file or stream.
    Arrow,
}

/// Each format with its name and the extensions of its files.
const FORMATS: [(Format, &str, &[&str]); 9] = [
    (Format::Npy, "npy", &["npy"]),
    (Format::Npz, "npz", &["npz"]),
    (Format::Csv, "csv", &["csv"]),
    (Format::Tsv, "tsv", &["tsv"]),
    (Format::Jsonl, "jsonl", &["jsonl", "ndjson"]),
    (Format::Safetensors, "safetensors", &["safetensors"]),
    (Format::Mtx, "mtx", &["mtx"]),
    (Format::Parquet, "parquet", &["parquet"]),
    (Format::Arrow, "arrow", &["arrow", "arrows", "feather", "ipc"]),
];

/// Number of leading bytes by which a format is recognized.
pub(crate) const HEAD: usize = 64;

pub(crate) const GZIP: &[u8] = b"\x1f\x8b";

impl Format {
    /// Whether numbers are in columns that have names, or may have names.
    pub(crate) fn has_columns(self) -> bool {
        matches!(self, Format::Csv | Format::Tsv | Format::Jsonl | Format::Parquet | Format::Arrow)
    }

    /// The name, as [`FromStr`] reads it.
    pub fn name(self) -> &'static str {
        FORMATS.iter().find(|(format, ..)| *format == self).expect("every format is listed").1
    }

    /// The format that the extension of a name stands for. `.gz` after the extension of a text
    /// format is ignored.
    pub fn of_name(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        if extension == "gz" {
            return Format::of_name(Path::new(path.file_stem()?)).filter(|format| format.is_text());
        }
        FORMATS.iter().find(|(_, _, endings)| endings.contains(&&*extension)).map(|(format, ..)| *format)
    }

    /// The format of a file that begins with these bytes, decompressed. `length` is the length of
    /// the whole file, if known.
    pub(crate) fn detect(head: &[u8], length: Option<u64>, path: &Path) -> Option<Self> {
        let magic: [(&[u8], Format); 7] = [
            (npy_header::MAGIC, Format::Npy),
            (b"PK\x03\x04", Format::Npz),
            (b"PAR1", Format::Parquet),
            (b"ARROW1", Format::Arrow),
            (b"\xff\xff\xff\xff", Format::Arrow),
            (b"%%MatrixMarket", Format::Mtx),
            // Some writers capitalize the words differently. No other format begins with `%%`.
            (b"%%matrixmarket", Format::Mtx),
        ];
        if let Some((_, format)) = magic.iter().find(|(start, _)| head.starts_with(start)) {
            return Some(*format);
        }
        // The header is preceded by its length. Text read as a length would exceed any header.
        if let Some((counted, [b'{', ..])) = head.split_first_chunk()
            && u64::from_le_bytes(*counted) < length.unwrap_or(LONGEST_HEADER as u64)
        {
            return Some(Format::Safetensors);
        }
        Format::of_name(path).or_else(|| {
            let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
            match text.first() {
                // The format's own reader reports what is wrong.
                _ if is_utf16(text) => Some(Format::Csv),
                _ if text.contains(&0) => None,
                Some(b'{' | b'[') => Some(Format::Jsonl),
                _ => Some(Format::Csv),
            }
        })
    }

    /// Whether files of this format may be compressed with gzip.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Format::Csv | Format::Tsv | Format::Jsonl | Format::Mtx)
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = ParseChoiceError;

    fn from_str(name: &str) -> Result<Self, ParseChoiceError> {
        let found = FORMATS.iter().find(|(_, known, _)| *known == name).map(|(format, ..)| *format);
        found.ok_or_else(|| ParseChoiceError::new("format", &FORMATS.map(|(_, name, _)| name), name))
    }
}

/// Whether text begins with a byte order mark of UTF-16.
pub(crate) fn is_utf16(start: &[u8]) -> bool {
    start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for (format, name, endings) in FORMATS {
            assert_eq!(name.parse::<Format>().unwrap(), format);
            assert_eq!(format.to_string(), name);
            for ending in endings {
                assert_eq!(Format::of_name(&Path::new("folder.csv").join("x").with_extension(ending)), Some(format));
            }
        }
        assert_eq!(Format::of_name(Path::new("x.TSV.gz")), Some(Format::Tsv));
        assert_eq!(Format::of_name(Path::new("x.npy.gz")), None);
        let error = "xls".parse::<Format>().unwrap_err().to_string();
        assert!(error.starts_with("unknown format `xls`, expected one of ") && error.ends_with("mtx, parquet, arrow"), "{error}");
    }

    #[test]
    fn first_bytes_go_before_the_name() {
        let detect = |head: &[u8], name: &str| Format::detect(head, Some(1000), Path::new(name));
        assert_eq!(detect(b"\x93NUMPY\x01\x00", "x.csv"), Some(Format::Npy));
        assert_eq!(detect(b"\x40\0\0\0\0\0\0\0{\"a\"", "x"), Some(Format::Safetensors));
        assert_eq!(detect(b"12345678{", "x"), Some(Format::Csv));
        let through_a_pipe = |head: &[u8]| Format::detect(head, None, Path::new("-"));
        assert_eq!(through_a_pipe(b"\x40\0\0\0\0\0\0\0{\"a\""), Some(Format::Safetensors));
        assert_eq!(through_a_pipe(b"12345678{"), Some(Format::Csv));
        assert_eq!(detect(b"", "x.npy"), Some(Format::Npy));
        assert_eq!(detect(b"\xef\xbb\xbf [1, 2]", "x"), Some(Format::Jsonl));
        assert_eq!(detect(b"0.6 0.8", "x"), Some(Format::Csv));
        assert_eq!(detect(b"\x00\x01", "x"), None);
    }
}
