//! Text to read line by line: from a file or through a pipe, compressed or not.

use crate::bytes::{ByteReader, ByteSource};
use crate::format::GZIP;
use crate::{Error, Result};
use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// What some programs put before a text in UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line of a table that can be held in memory is shorter.
pub(crate) const LONGEST_LINE: u64 = 1 << 28;

/// Bytes and lines that are parsed at a time, on all threads: long enough that starting them takes no time beside it.
const GROUP: usize = 4 << 20;
const GROUP_LINES: usize = 1 << 14;
/// Numbers that one thread parses before others have begun.
const FEW: usize = 1 << 12;

/// The text of a source from its first byte, unpacked if it is compressed; an error without a source, since a pipe is read once.
pub(crate) fn open(source: Option<&ByteSource>) -> Result<ByteReader> {
    let source = source.ok_or(vmfkit::Error::CannotRewind)?;
    Ok(unpacked(ByteReader::with_capacity(CHUNK, source.clone(), 0))?)
}

/// The same text, without the gzip around it if there is one.
pub(crate) fn unpacked(mut text: ByteReader) -> io::Result<ByteReader> {
    if !text.fill_buf()?.starts_with(GZIP) {
        return Ok(text);
    }
    Ok(ByteReader::pipe(BufReader::with_capacity(CHUNK, MultiGzDecoder::new(text))))
}

/// The error of a line that has no end within reason.
pub(crate) fn too_long(line: u64) -> Error {
    Error::format(format!("line {line} must be shorter than {LONGEST_LINE} bytes, found: `{LONGEST_LINE}`"))
}

/// For text that is read as UTF-8.
pub(crate) fn refuse_utf16(start: &[u8]) -> Result<()> {
    match is_utf16(start) {
        true => Err(Error::format("text must be in UTF-8, found: `UTF-16`\nhint: `iconv -f UTF-16 -t UTF-8` converts it")),
        false => Ok(()),
    }
}

/// Whether text begins with the mark of UTF-16, in either byte order.
pub(crate) fn is_utf16(start: &[u8]) -> bool {
    start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff")
}

/// The lines of a text, counted.
pub(crate) struct Lines {
    text: ByteReader,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    pub fn new(text: ByteReader) -> Self {
        Lines { text, line: Vec::new(), number: 0 }
    }

    /// The next line that is not blank, without the blanks around it, and its number, counted from 1.
    pub fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        loop {
            self.line.clear();
            let length = self.text.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut self.line)?;
            if length == 0 {
                return Ok(None);
            }
            self.number += 1;
            if length as u64 == LONGEST_LINE {
                return Err(too_long(self.number));
            }
            if self.number == 1 {
                refuse_utf16(&self.line)?;
                self.line.drain(..if self.line.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 });
            }
            if !self.line.trim_ascii().is_empty() {
                // Only here, since the borrow of a line would last over the next turn.
                return Ok(Some((self.number, self.line.trim_ascii())));
            }
        }
    }

    /// Replaces `group` by the next lines that are not blank, at most `most`; none at the end only. Those before an error are there.
    pub fn next_group(&mut self, most: usize, group: &mut Group) -> Result<()> {
        group.clear();
        while group.lines.len() < most && has_room(group.lines.len(), group.text.len()) {
            let Some((number, line)) = self.next()? else { break };
            let start = group.text.len();
            group.text.extend_from_slice(line);
            group.lines.push((number, start..group.text.len()));
        }
        Ok(())
    }
}

/// Lines that are parsed together.
#[derive(Default)]
pub(crate) struct Group {
    pub text: Vec<u8>,
    /// The number of each, and where it is in the text.
    pub lines: Vec<(u64, Range<usize>)>,
}

impl Group {
    pub fn clear(&mut self) {
        self.text.clear();
        self.lines.clear();
    }
}

/// Whether so many lines, with so many bytes, are few enough for another one.
pub(crate) fn has_room(lines: usize, bytes: usize) -> bool {
    lines < GROUP_LINES && bytes < GROUP
}

/// What was parsed.
#[derive(Default)]
pub(crate) struct Parsed {
    pub values: Vec<f64>,
    pub weights: Vec<f64>,
    pub ids: Vec<String>,
}

impl Parsed {
    /// Parses lines of so many numbers on all threads, some on each, and puts what comes of them behind what is there; the error is that of the first wrong line.
    pub fn append<L: Sync>(&mut self, lines: &[L], dim: usize, parse: impl Fn(&[L]) -> Result<Parsed> + Sync) -> Result<()> {
        let threads = if lines.len().saturating_mul(dim) < FEW { 1 } else { rayon::current_num_threads() };
        let mut parts = lines.chunks(lines.len().div_ceil(threads).max(1));
        let Some(first) = parts.next() else { return Ok(()) };
        // Not in the pool, whose threads may all be waiting for these rows.
        let parsed = thread::scope(|scope| {
            let parse = &parse;
            let spawn = |part| thread::Builder::new().name("vmfkit-parse".to_owned()).spawn_scoped(scope, move || parse(part));
            let others = parts.map(spawn).collect::<io::Result<Vec<_>>>()?;
            let join = |thread: ScopedJoinHandle<_>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            Ok::<_, Error>(std::iter::once(parse(first)).chain(others.into_iter().map(join)).collect::<Vec<_>>())
        })?;
        for part in parsed {
            let part = part?;
            self.values.extend(part.values);
            self.weights.extend(part.weights);
            self.ids.extend(part.ids);
        }
        Ok(())
    }
}
