//! Reads text line by line, from a file or a pipe, compressed or not.

use crate::bytes::{ByteReader, ByteSource};
use crate::format::{GZIP, is_utf16};
use crate::{Error, Result};
use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// The byte order mark that some programs put before UTF-8 text.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Lines must be shorter. A table with longer ones would not fit into memory.
pub(crate) const LONGEST_LINE: u64 = 1 << 28;

/// Bytes and lines that are parsed at a time by all threads: enough to make the cost of starting
/// threads negligible.
const GROUP: usize = 4 << 20;
const GROUP_LINES: usize = 1 << 14;
/// With fewer numbers than this, one thread parses faster than several can be started.
const FEW: usize = 1 << 12;

/// Opens the text of a source, decompressed. Without a source it was a pipe, which cannot be
/// rewound.
pub(crate) fn open(source: Option<&ByteSource>) -> Result<ByteReader> {
    let source = source.ok_or(vmfkit::Error::CannotRewind)?;
    Ok(unpacked(ByteReader::with_capacity(CHUNK, source.clone(), 0))?)
}

/// Decompresses the text if it is compressed with gzip.
pub(crate) fn unpacked(mut text: ByteReader) -> io::Result<ByteReader> {
    if !text.fill_buf()?.starts_with(GZIP) {
        return Ok(text);
    }
    Ok(ByteReader::pipe(BufReader::with_capacity(CHUNK, MultiGzDecoder::new(text))))
}

/// The error of a line that is too long.
pub(crate) fn too_long(line: u64) -> Error {
    Error::format(format!("line {line} must be shorter than {LONGEST_LINE} bytes, found: `{LONGEST_LINE}`"))
}

/// Rejects text in UTF-16.
pub(crate) fn refuse_utf16(start: &[u8]) -> Result<()> {
    match is_utf16(start) {
        true => Err(Error::format("text must be in UTF-8, found: `UTF-16`\nhint: `iconv -f UTF-16 -t UTF-8` converts it")),
        false => Ok(()),
    }
}

/// The lines of a text with their numbers.
pub(crate) struct Lines {
    text: ByteReader,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    pub fn new(text: ByteReader) -> Self {
        Lines { text, line: Vec::new(), number: 0 }
    }

    /// The next line that is not blank, trimmed, with its number, from 1.
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
                // Trimmed again here, since a borrow of the line would extend into the next
                // iteration.
                return Ok(Some((self.number, self.line.trim_ascii())));
            }
        }
    }

    /// Replaces `group` with the next lines that are not blank: at most `most`, and none only at
    /// the end. After an error it has the lines before it.
    pub fn next_group(&mut self, most: usize, group: &mut Group) -> Result<()> {
        group.clear();
        while group.lines.len() < most && group.has_capacity() {
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
    /// The number of each line, and its position in the text.
    pub lines: Vec<(u64, Range<usize>)>,
}

impl Group {
    pub fn clear(&mut self) {
        self.text.clear();
        self.lines.clear();
    }

    /// Whether the group may grow by another line.
    pub fn has_capacity(&self) -> bool {
        self.lines.len() < GROUP_LINES && self.text.len() < GROUP
    }
}

/// Parsed rows.
#[derive(Default)]
pub(crate) struct Parsed {
    pub values: Vec<f64>,
    pub weights: Vec<f64>,
    pub ids: Vec<String>,
}

impl Parsed {
    /// Parses lines of `dim` numbers on all threads and appends their rows. The error is that of
    /// the first invalid line.
    pub fn append<L: Sync>(&mut self, lines: &[L], dim: usize, parse: impl Fn(&[L]) -> Result<Parsed> + Sync) -> Result<()> {
        let threads = if lines.len().saturating_mul(dim) < FEW { 1 } else { rayon::current_num_threads() };
        let mut parts = lines.chunks(lines.len().div_ceil(threads).max(1));
        let Some(first) = parts.next() else { return Ok(()) };
        // Not in rayon's pool, whose threads may all be waiting for these rows.
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
