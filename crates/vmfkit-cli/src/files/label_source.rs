//! The source of the labels or groups of rows.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use vmfkit_io::Format;

/// The argument of an option that takes one label per row.
#[derive(Debug, Clone, PartialEq)]
pub enum LabelSource {
    /// A separate file, `FILE`, or a column of a table, `FILE:COLUMN`.
    File(PathBuf, Option<String>),
    /// A column of DATA, `column:NAME`.
    Column(String),
}

impl FromStr for LabelSource {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(name) = text.strip_prefix("column:") {
            return Ok(Self::Column(name.to_owned()));
        }
        let is_table = |path: &str| {
            let format = Format::of_name(Path::new(path));
            matches!(format, Some(Format::Parquet | Format::Arrow | Format::Csv | Format::Tsv | Format::Jsonl))
        };
        Ok(match text.rsplit_once(':') {
            Some((path, column)) if is_table(path) && !column.is_empty() => Self::File(path.into(), Some(column.to_owned())),
            _ => Self::File(text.into(), None),
        })
    }
}

impl LabelSource {
    /// The separate file, if any.
    pub fn file(&self) -> Option<&PathBuf> {
        if let Self::File(path, _) = self { Some(path) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_tables_and_columns_are_recognised() {
        let file = |path: &str| LabelSource::File(path.into(), None);
        for (text, expected) in [
            ("y.txt", file("y.txt")),
            ("y.csv:topic", LabelSource::File("y.csv".into(), Some("topic".into()))),
            ("a/b.parquet:name: first", file("a/b.parquet:name: first")),
            ("column:topic", LabelSource::Column("topic".into())),
            ("column:a:b", LabelSource::Column("a:b".into())),
            (r"C:\y.csv", file(r"C:\y.csv")),
            ("y.csv:", file("y.csv:")),
            ("y.txt:topic", file("y.txt:topic")),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }
}
