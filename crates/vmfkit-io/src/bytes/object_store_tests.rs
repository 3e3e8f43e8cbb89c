//! Reads from small web servers, each with a fault of its own.

use super::*;
use crate::bytes::{ByteReader, ByteSource, is_remote};
use crate::read::columns::Columns;
use crate::read::parquet::ParquetReader;
use crate::{Batch, Reader};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use vmfkit::rows::Rows;
use vmfkit::source::Source;

/// The fault of a server.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The first requests are answered with status 500.
    FailsTwice,
    /// Bodies end early.
    Cuts,
    /// Every response has another version.
    Changes,
}

/// Serves bytes under any name, one thread per connection, until the test ends.
fn serve(body: Vec<u8>, fault: Fault) -> String {
    serve_version(body, fault, Arc::default())
}

/// The same with a version that can be changed.
fn serve_version(body: Vec<u8>, fault: Fault, version: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (body, requests) = (Arc::new(body), Arc::new(AtomicUsize::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (body, requests, version) = (body.clone(), requests.clone(), version.clone());
            // A client that hangs up ends its thread.
            std::thread::spawn(move || while answer(stream.as_ref().unwrap(), &body, fault, &requests, &version).is_some() {});
        }
    });
    format!("http://{address}/folder/rows.parquet")
}

/// Answers one request; `None` if the connection is closed.
fn answer(mut stream: &TcpStream, body: &[u8], fault: Fault, requests: &AtomicUsize, version: &AtomicUsize) -> Option<()> {
    // Without read-ahead: the client waits for each answer.
    let mut input = BufReader::with_capacity(1 << 12, stream);
    let mut first = String::new();
    input.read_line(&mut first).ok().filter(|&read| read > 0)?;
    let mut range = 0..body.len();
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        let line = line.trim_end().to_ascii_lowercase();
        if let Some((start, end)) = line.strip_prefix("range: bytes=").and_then(|range| range.split_once('-')) {
            range = start.parse().unwrap()..end.parse::<usize>().unwrap() + 1;
        }
        if line.is_empty() {
            break;
        }
    }
    let number = requests.fetch_add(1, Ordering::SeqCst);
    if fault == Fault::FailsTwice && number < 2 {
        stream.write_all(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n").ok()?;
        return Some(());
    }
    let tag = if fault == Fault::Changes { number } else { version.load(Ordering::SeqCst) };
    let partial = if first.starts_with("HEAD") { "200 OK" } else { "206 Partial Content" };
    let headers = format!(
        "HTTP/1.1 {partial}\r\ncontent-length: {}\r\ncontent-range: bytes {}-{}/{}\r\netag: \"v{tag}\"\r\n\r\n",
        range.len(),
        range.start,
        range.end - 1,
        body.len()
    );
    stream.write_all(headers.as_bytes()).ok()?;
    if first.starts_with("HEAD") {
        return Some(());
    }
    if fault == Fault::Cuts {
        stream.write_all(&body[range.start..range.start + range.len() / 2]).ok()?;
        stream.shutdown(std::net::Shutdown::Both).ok();
        return None;
    }
    stream.write_all(&body[range]).ok()
}

/// Short timeouts, so that a server that never recovers does not delay the tests.
fn retry() -> RetryConfig {
    RetryConfig { max_retries: 3, retry_timeout: Duration::from_secs(5), ..Default::default() }
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/../../testdata/columnar/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Rows of a Parquet file behind a server.
fn rows(fault: Fault) -> Result<Batch> {
    let remote = open_with(&serve(file("beside.parquet"), fault), retry())?;
    let columns = Columns { weight: Some("weight"), ..Default::default() };
    let (mut reader, mut batch) = (ParquetReader::open(ByteSource::Object(remote.open()), &columns)?, Batch::default());
    reader.read(100, &mut batch)?;
    Ok(batch)
}

#[test]
fn a_parquet_file_is_read_from_a_server() {
    for fault in [Fault::None, Fault::FailsTwice] {
        let batch = rows(fault).unwrap();
        assert_eq!(batch.rows, 40);
        assert!(matches!(&batch.values, Rows::F32(values) if values.len() == 200 && values[5] == -25.0 / 64.0));
        assert_eq!(batch.weights.unwrap()[39], 20.5);
    }
}

#[test]
fn an_object_that_is_cut_or_changed_is_refused() {
    assert!(rows(Fault::Cuts).is_err());
    let error = rows(Fault::Changes).unwrap_err();
    let text = format!("{error:?}");
    assert!(text.contains("another version"), "{text}");
}

#[test]
fn ranges_of_any_length_are_read() {
    let length = 2 * PIECE as usize + 12_345;
    let body: Vec<u8> = (0..length).map(|i| (i * 31 % 251) as u8).collect();
    let remote = open_with(&serve(body.clone(), Fault::None), retry()).unwrap();
    assert_eq!((remote.ask().unwrap().0, remote.name().ends_with("/folder/rows.parquet")), (length as u64, true));
    let (edge, opened) = (PIECE as usize, ByteSource::Object(remote.open()));
    for range in [0..10, edge - 5..edge + 5, edge..edge, edge - 1..edge, 7..length, length - 3..length, 100..2 * edge + 1] {
        assert_eq!(opened.read_all_at(range.start as u64, range.len()).unwrap(), body[range.clone()], "{range:?}");
    }
    assert_eq!(opened.read_all_at(length as u64 - 3, 4).unwrap().len(), 3);
    assert!(opened.read_all_at(u64::MAX, 4).unwrap().is_empty());
    let (mut reader, mut all) = (ByteReader::new(opened, 0), Vec::new());
    reader.read_to_end(&mut all).unwrap();
    assert!(all == body);
    reader.seek_to(length as u64 - 4).unwrap();
    all.clear();
    reader.read_to_end(&mut all).unwrap();
    assert_eq!(all, body[length - 4..]);
    reader.seek_to(length as u64 + 9).unwrap();
    assert_eq!(reader.read(&mut [0; 4]).unwrap(), 0);
}

/// A dataset of many objects keeps the pieces of only one.
#[test]
fn pieces_of_an_object_are_dropped_with_its_readers() {
    let remote = open_with(&serve(vec![1; 100], Fault::None), retry()).unwrap();
    let opened = remote.open();
    let pieces = Arc::downgrade(&opened.pieces);
    let mut reader = ByteReader::new(ByteSource::Object(opened), 0);
    reader.read_exact(&mut [0; 10]).unwrap();
    assert_eq!(pieces.upgrade().unwrap().lock().unwrap().len(), 1);
    drop(reader);
    assert!(pieces.upgrade().is_none());
    assert!(remote.open().pieces.lock().unwrap().is_empty());
}

#[test]
fn an_arrow_file_is_read_from_a_server() {
    let remote = open_with(&serve(file("fixed_f32.arrow"), Fault::None), retry()).unwrap();
    let source = ByteSource::Object(remote.open());
    let mut reader = crate::read::arrow::ArrowReader::open(source, &Columns::default()).unwrap();
    let mut batch = Batch::default();
    reader.read(100, &mut batch).unwrap();
    assert_eq!(batch.rows, 40);
}

/// All rows of a pass.
fn pass(source: &mut crate::DataSource) -> vmfkit::Result<Vec<Vec<f64>>> {
    let mut rows = Vec::new();
    let mut buffer = vmfkit::RowBatch::default();
    while let Some(block) = source.next_validated(&mut buffer)? {
        rows.extend((0..block.len()).map(|row| block.row(row)));
    }
    Ok(rows)
}

#[test]
fn objects_and_local_files_give_the_same_rows() {
    for name in [
        "columnar/list_f32.parquet",
        "columnar/fixed_f32.arrow",
        "columnar/stream.arrows",
        "npy/f8.npy",
        "npy/f4_fortran.npy",
        "formats/bare.csv",
        "formats/arrays.jsonl",
        "formats/arrays.jsonl.gz",
        "formats/f64.safetensors",
        "formats/coordinates.mtx",
        "formats/csr.npz",
    ] {
        let path = format!("{}/../../testdata/{name}", env!("CARGO_MANIFEST_DIR"));
        let options = crate::Options::new().rescale(true);
        let expected = pass(&mut crate::open(&path, &options).unwrap()).unwrap();
        let location = serve(std::fs::read(&path).unwrap(), Fault::None).replace("rows.parquet", name);
        // Without an extension the format is detected by the first bytes.
        for location in [location.clone(), location.replace('.', "-").replace("127-0-0-1", "127.0.0.1")] {
            let mut source = crate::open(&location, &options).unwrap_or_else(|error| panic!("{location}: {error:?}"));
            for _ in 0..2 {
                assert!(pass(&mut source).unwrap() == expected, "{location}");
                source.rewind().unwrap();
            }
        }
    }
}

#[test]
fn an_object_that_changes_between_passes_is_named() {
    for name in ["rows.parquet", "rows.csv"] {
        let version = Arc::new(AtomicUsize::new(0));
        let body = if name == "rows.csv" { b"0.6,0.8\n".to_vec() } else { file("fixed_f32.parquet") };
        let location = serve_version(body, Fault::None, version.clone()).replace("rows.parquet", name);
        let mut source = crate::open(&location, &crate::Options::new().rescale(true)).unwrap();
        pass(&mut source).unwrap();
        source.rewind().unwrap();
        pass(&mut source).unwrap();
        version.store(1, Ordering::SeqCst);
        let error = format!("{:#}", source.rewind().unwrap_err());
        assert!(
            error.starts_with(&format!("{location}: the file has changed since it was opened, it was written to")),
            "{error}"
        );
    }
}

#[test]
fn a_url_with_a_query_is_refused() {
    let error = vmfkit::Error::from(crate::open("http://127.0.0.1:1/x.npy?token=1", &crate::Options::new()).unwrap_err());
    assert!(format!("{error:#}").contains("the part after a ? is not sent"), "{error}");
}

#[test]
fn locations_are_checked_before_anything_is_asked() {
    for (location, end) in
        [("ftp://host/rows.parquet", "found: `ftp://host/rows.parquet`"), ("rows.parquet", "found: `rows.parquet`")]
    {
        assert!(!is_remote(location));
        let text = open_with(location, retry()).err().unwrap().to_string();
        assert!(text.ends_with(end), "{text}");
    }
    let text = list_with("http://127.0.0.1:1/rows/*.parquet", retry()).unwrap_err().to_string();
    assert_eq!(text, "files of a web server must be named one by one, found: `http://127.0.0.1:1/rows/*.parquet`");
    let text = list_with("s3://bucket/*/rows.parquet", retry()).unwrap_err().to_string();
    assert_eq!(text, "* and ? are allowed only after the last /, found: `s3://bucket/*/rows.parquet`");
}

#[test]
fn patterns_match_names() {
    for (pattern, name, fitting) in [
        ("*.parquet", "a.parquet", true),
        ("*.parquet", "a.parquet.crc", false),
        ("part-?.*", "part-1.npy", true),
        ("part-?.*", "part-12.npy", false),
        ("*a*b*", "xxaxxbxx", true),
        ("*a*b*", "xxbxxaxx", false),
        ("", "", true),
    ] {
        assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), fitting, "{pattern} {name}");
    }
}

#[test]
fn folders_are_listed_in_the_order_of_names() {
    let store = ::object_store::memory::InMemory::new();
    for name in ["rows/b.parquet", "rows/a.parquet", "rows/c.csv", "rows/more/d.parquet", "other/e.parquet"] {
        wait(store.put(&name.into(), Bytes::from_static(b"x").into())).unwrap().unwrap();
    }
    let names = |pattern| -> Vec<String> {
        let paths = matching(&store, &"rows".into(), pattern).unwrap();
        paths.iter().map(ToString::to_string).collect()
    };
    assert_eq!(names("*.parquet"), ["rows/a.parquet", "rows/b.parquet"]);
    assert_eq!(names(""), ["rows/a.parquet", "rows/b.parquet", "rows/c.csv"]);
    assert_eq!(names("x*"), [""; 0]);
}
