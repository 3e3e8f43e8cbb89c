//! The text of an error and of its causes.

use crate::{Folder, ROWS, npy_rows, with_causes};
use std::error::Error as _;
use vmfkit::error::ParseChoiceError;
use vmfkit::source::Source;
use vmfkit_io::{Error, Format, Options, OutputFormat, open, open_stream};

/// An error and its causes.
fn links<'a>(error: &'a (dyn std::error::Error + 'static)) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// Every error of the chain appears, and no text contains another.
fn chain(error: &(dyn std::error::Error + 'static)) -> Vec<String> {
    let texts: Vec<String> = links(error).map(ToString::to_string).collect();
    for (place, text) in texts.iter().enumerate() {
        assert!(texts[place + 1..].iter().all(|deeper| !text.contains(deeper.as_str())), "{texts:?}");
    }
    texts
}

#[test]
fn what_another_library_says_of_a_file_is_the_source() {
    let folder = Folder::new();
    let archive = folder.write("x.npz", b"PK\x03\x04");
    let error = open(&archive, &Options::new()).unwrap_err();
    let texts = chain(&error);
    assert_eq!(texts[..2], [archive.clone(), "the zip archive cannot be read".to_owned()]);
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(matches!(&error, Error::At { source, .. } if matches!(**source, Error::Caused { .. })));
    assert_eq!(with_causes(error), texts.join(": "));
}

/// A reader of some bytes, then an error.
struct Cable(std::io::Cursor<Vec<u8>>);

impl std::io::Read for Cable {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(std::io::Error::new(std::io::ErrorKind::ConnectionReset, "the cable broke")),
            read => Ok(read),
        }
    }
}

#[test]
fn what_the_system_says_of_a_file_is_the_source_of_a_fits_error() {
    let mut bytes = npy_rows(&ROWS);
    bytes.truncate(bytes.len() - 40);
    let mut source = open_stream(Cable(std::io::Cursor::new(bytes)), "pipe", &Options::new()).unwrap();
    let error = source.next_validated(&mut vmfkit::RowBatch::default()).map(|_| ()).unwrap_err();
    assert_eq!(chain(&error), ["a source of rows or a callback failed", "pipe", "cannot be read", "the cable broke"]);
    assert!(error.source().unwrap().is::<Error>());
    let system = links(&error).find_map(|error| error.downcast_ref());
    assert_eq!(system.map(std::io::Error::kind), Some(std::io::ErrorKind::ConnectionReset));
}

#[test]
fn names_of_no_format_are_refused_with_all_names() {
    fn refused(error: ParseChoiceError) {
        assert_eq!(error.text(), "xls");
        assert!(error.choices().split(", ").any(|name| name == "parquet"), "{error}");
    }
    refused("xls".parse::<Format>().unwrap_err());
    refused("xls".parse::<OutputFormat>().unwrap_err());
}
