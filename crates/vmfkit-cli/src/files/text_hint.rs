//! A hint for large text files that are read in several passes.

use crate::size;
use std::path::{Path, PathBuf};
use vmfkit_io::Format;

/// Bytes of text from which another format is recommended.
const LARGE_TEXT: u64 = 256 << 20;

/// The size of the text, and the command that converts it.
#[derive(Debug, PartialEq)]
pub struct TextHint {
    size: String,
    command: String,
}

impl TextHint {
    /// A hint if these files, of the given or their own format, are mostly large text; `arguments`
    /// are those of the command.
    pub fn new(files: &[PathBuf], format: Option<Format>, has_weights: bool, arguments: &str) -> Option<Self> {
        let format_of = |path: &Path| format.or_else(|| Format::of_name(path));
        let is_text = |format| matches!(format, Some(Format::Csv | Format::Tsv | Format::Jsonl | Format::Mtx));
        // A single matrix is held in memory as a whole.
        if let [only] = files
            && format_of(only) == Some(Format::Mtx)
        {
            return None;
        }
        let lengths = files.iter().filter(|path| is_text(format_of(path))).filter_map(|path| path.metadata().ok());
        let bytes: u64 = lengths.map(|metadata| metadata.len()).sum();
        let extension = match has_weights {
            true => "parquet",
            false if files.iter().all(|path| format_of(path) == Some(Format::Mtx)) => "npz",
            false => "npy",
        };
        let command = format!("vmf convert {arguments} rows.{extension}");
        (bytes >= LARGE_TEXT).then(|| TextHint { size: size::readable(bytes), command })
    }

    /// For text that is parsed in every pass.
    pub fn of_passes(&self) -> String {
        format!("hint: every pass parses {} of text; `{}` makes a file that is read faster", self.size, self.command)
    }

    /// For text that was parsed once, into a scratch file in this folder.
    pub fn of_scratch(&self, folder: &Path) -> String {
        let (size, folder) = (&self.size, folder.display());
        format!("hint: the rows of {size} of text are in a temporary file in {folder}; `{}` makes a permanent one", self.command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::rows::{RowArguments, quoted};
    use clap::Parser;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        rows: RowArguments,
    }

    #[test]
    fn large_text_files_get_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let hint = |words: &[&str]| {
            let words = words.iter().map(|word| if word.contains('.') { path(word) } else { (*word).to_owned() });
            Words::parse_from([String::new()].into_iter().chain(words)).rows.text_hint()
        };
        // Sparse files take no space on disk.
        for (name, length) in [
            ("half.csv", LARGE_TEXT / 2),
            ("half.jsonl.gz", LARGE_TEXT / 2),
            ("less.tsv", LARGE_TEXT - 1),
            ("one.mtx", LARGE_TEXT),
            ("other.mtx", LARGE_TEXT),
            ("x.npy", LARGE_TEXT),
            ("x.parquet", LARGE_TEXT),
        ] {
            std::fs::File::create(path(name)).unwrap().set_len(length).unwrap();
        }
        let (half, other) = (path("half.csv"), path("half.jsonl.gz"));
        let command = format!("`vmf convert {} {} rows.npy`", quoted(&half), quoted(&other));
        let found = hint(&["half.csv", "half.jsonl.gz"]).unwrap();
        assert_eq!(
            found.of_passes(),
            format!("hint: every pass parses 268.435 MB of text; {command} makes a file that is read faster")
        );
        let scratch = "hint: the rows of 268.435 MB of text are in a temporary file in /var/tmp";
        assert_eq!(found.of_scratch(Path::new("/var/tmp")), format!("{scratch}; {command} makes a permanent one"));
        for words in [&["half.csv"][..], &["half.csv", "x.npy"], &["less.tsv"], &["one.mtx"], &["x.npy"], &["x.parquet"]] {
            assert_eq!(hint(words), None, "{words:?}");
        }
        assert!(hint(&["x.npy", "--format", "csv"]).is_some());
        assert!(
            hint(&["half.csv", "half.jsonl.gz", "--weights", "column:n"])
                .unwrap()
                .command
                .ends_with(" --weights column:n rows.parquet")
        );
        assert!(hint(&["one.mtx", "other.mtx"]).unwrap().command.ends_with(" rows.npz"));
    }
}
