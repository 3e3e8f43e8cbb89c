//! Rows behind a web server, for the command as built with the feature object-store.

use crate::Workspace;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Serves bytes under any name until the test ends; gives the address.
fn serve(body: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let body = Arc::new(body);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, body) = (stream.unwrap(), body.clone());
            // A client that hangs up ends its thread.
            thread::spawn(move || while answer(&stream, &body).is_some() {});
        }
    });
    address
}

/// Answers one request, for the whole or for a range; none if the connection is closed.
fn answer(mut stream: &TcpStream, body: &[u8]) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next()?.ok()?;
    let (mut range, mut status) = (0..body.len(), "200 OK");
    for line in lines.map_while(Result::ok).take_while(|line| !line.is_empty()) {
        if let Some((start, end)) =
            line.to_ascii_lowercase().strip_prefix("range: bytes=").and_then(|range| range.split_once('-'))
        {
            (range, status) = (start.parse().unwrap()..end.parse::<usize>().unwrap() + 1, "206 Partial Content");
        }
    }
    let (length, first, last, all) = (range.len(), range.start, range.end - 1, body.len());
    let headers = format!("content-length: {length}\r\ncontent-range: bytes {first}-{last}/{all}\r\netag: \"1\"");
    stream.write_all(format!("HTTP/1.1 {status}\r\n{headers}\r\n\r\n").as_bytes()).ok()?;
    if request.starts_with("HEAD") { Some(()) } else { stream.write_all(&body[range]).ok() }
}

#[test]
fn a_fit_of_rows_from_a_server_equals_that_of_the_file() {
    let workspace = Workspace::new();
    for name in ["x.parquet", "x.npy"] {
        workspace.run(&format!("sample --dim 5 --concentration 20 -n 2000 -o {name}")).success();
        workspace.run(&format!("fit {name} -k 3 -o file.safetensors")).success();
        let address = serve(workspace.read(name));
        workspace.run(&format!("fit {address}/{name} -k 3 -o server.safetensors")).success();
        assert_eq!(workspace.read("server.safetensors"), workspace.read("file.safetensors"), "{name}");
    }
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let run = Workspace::new().run(&format!("fit http://{address}/x.parquet -k 3"));
    assert_ne!(run.code, Some(0));
    assert!(run.stderr.contains(&address.to_string()), "{}", run.stderr);
}
