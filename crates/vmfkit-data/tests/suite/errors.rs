//! What an error says of itself and of its causes.

use crate::{Folder, ROWS, npy_rows, with_causes};
use std::error::Error as _;
use vmfkit::error::ParseChoiceError;
use vmfkit::source::Source;
use vmfkit_data::{Error, Format, Options, OutputFormat, open};

type Cause = dyn std::error::Error + 'static;

/// An error, its cause, the cause of that, and so on.
fn causes(error: &Cause) -> Vec<&Cause> {
    let mut found = vec![error];
    while let Some(next) = found[found.len() - 1].source() {
        found.push(next);
    }
    found
}

/// Every link of the chain, and none of their texts within another.
fn chain(error: &Cause) -> Vec<String> {
    let texts: Vec<String> = causes(error).iter().map(ToString::to_string).collect();
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

#[test]
fn what_the_system_says_of_a_file_is_the_source_of_a_fits_error() {
    let folder = Folder::new();
    let file = folder.write("x.npy", npy_rows(&ROWS));
    let mut source = open(&file, &Options::new()).unwrap();
    std::fs::remove_file(&file).unwrap();
    let error = match source.rewind() {
        Err(error) => error,
        Ok(()) => source.read_block().map(|_| ()).unwrap_err(),
    };
    let texts = chain(&error);
    assert_eq!(texts[0], "a source of rows or a callback failed");
    assert_eq!(texts[1], file);
    assert!(error.source().unwrap().is::<Error>());
    let system = causes(&error).into_iter().find_map(|error| error.downcast_ref());
    assert_eq!(system.map(std::io::Error::kind), Some(std::io::ErrorKind::NotFound), "{texts:?}");
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
