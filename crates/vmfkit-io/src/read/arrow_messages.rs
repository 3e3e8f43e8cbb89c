//! The messages of an Arrow file or stream.
//!
//! The readers of the crate `arrow-ipc` would not do. `FileDecoder` needs the footer, so it cannot
//! read a pipe; `StreamDecoder` does not check sizes before it allocates them. Here one reader does
//! both, and the crate decodes the messages.
//!
//! Four zero bytes, or a length of 0, mark the end of the messages. A damaged file may have them
//! anywhere, so the end is checked: in a file, the footer must begin there and list as many record
//! batches and dictionaries as were found; in a stream, no bytes may follow.

use crate::bytes::{ByteReader, ByteSource};
use crate::error::{Error, Result};
use crate::guard::damaged;
use crate::read::arrow_lists::{ListColumn, Lists};
use arrow_ipc::{Message, MessageHeader, root_as_footer, root_as_message};
use bytes::Bytes;
use std::io::{ErrorKind, Read};

/// The first and last bytes of a file. At the beginning, padding follows.
const MAGIC: &[u8; 6] = b"ARROW1";

/// Size in bytes of what follows the footer: its length, and the magic word.
const BEHIND_FOOTER: usize = 10;

/// The largest alignment of messages in bytes.
const ALIGNMENT: u64 = 64;

/// Maximum number of bytes to allocate for a size that a pipe claims.
pub(crate) const TRUSTED: usize = 1 << 24;

/// Numbers of messages of each type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    batches: usize,
    dictionaries: usize,
}

impl Counts {
    /// The numbers that a footer lists.
    fn of_footer(bytes: &[u8]) -> Result<Self> {
        let footer = root_as_footer(bytes).map_err(|error| damaged(format!("an invalid footer: {}", first_line(&error))))?;
        Ok(Counts {
            batches: footer.recordBatches().map_or(0, |blocks| blocks.len()),
            dictionaries: footer.dictionaries().map_or(0, |blocks| blocks.len()),
        })
    }

    /// Checks that the footer lists this number of messages.
    fn check(self, listed: Counts) -> Result<()> {
        for (what, found, listed) in
            [("record batches", self.batches, listed.batches), ("dictionaries", self.dictionaries, listed.dictionaries)]
        {
            if found != listed {
                return Err(damaged(format!("{found} {what}, but {listed} in the footer")));
            }
        }
        Ok(())
    }
}

/// A sequence of messages. Each has a length and a header, which may be followed by a body.
pub(crate) struct Messages {
    input: ByteReader,
    /// Where the messages must end: at the footer of a file, or at the end of a stream. Unknown for
    /// a pipe.
    end: Option<u64>,
    /// The numbers that the footer lists, if it has been read.
    listed: Option<Counts>,
    found: Counts,
    /// Whether it is a file, not a stream.
    is_file: bool,
    ended: bool,
}

impl Messages {
    /// Messages of a pipe, which can be read once.
    pub fn from_pipe(input: ByteReader) -> Self {
        Messages { input, end: None, listed: None, found: Counts::default(), is_file: false, ended: false }
    }

    /// Messages of a source. The footer of a file is read first.
    pub fn from_source(source: ByteSource) -> Result<Self> {
        let (length, mut listed) = (source.len(), None);
        let mut end = length;
        if source.read_all_at(0, MAGIC.len())? == MAGIC[..] {
            // The magic word and its padding come first.
            let most = length.saturating_sub(8 + BEHIND_FOOTER as u64);
            let behind = source.read_all_at(length - BEHIND_FOOTER.min(length as usize) as u64, BEHIND_FOOTER)?;
            let footer_length = footer_length(behind[..].try_into().map_err(|_| no_footer())?)?;
            if footer_length > most {
                return Err(damaged(format!("a footer of {footer_length} bytes in a file of {length}")));
            }
            end = 8 + most - footer_length;
            listed = Some(Counts::of_footer(&source.read_all_at(end, footer_length as usize)?)?);
        }
        let (input, found, is_file) = (ByteReader::new(source, 0), Counts::default(), listed.is_some());
        Ok(Messages { input, end: Some(end), listed, found, is_file, ended: false })
    }

    /// Reads with O_DIRECT from now on, if possible. Returns whether it is.
    pub fn read_direct(&mut self, memory: usize) -> bool {
        let direct = self.input.source().and_then(|source| source.direct(memory, std::iter::once(0..u64::MAX)));
        let found = direct.is_some();
        if let Some(direct) = direct {
            self.input.replace_source(direct);
        }
        found
    }

    pub fn is_pipe(&self) -> bool {
        self.input.source().is_none()
    }

    /// Position of the next byte.
    pub fn position(&self) -> u64 {
        self.input.position()
    }

    /// The first header of a file or stream.
    pub fn first(&mut self) -> Result<Vec<u8>> {
        let mut mark = self.four()?;
        if MAGIC.starts_with(&mark) {
            if !self.four()?.starts_with(&MAGIC[4..]) {
                return Err(not_arrow(&mark));
            }
            self.is_file = true;
            mark = self.four()?;
            // Some writers align the first message to 64 bytes.
            while mark == [0; 4] && self.position() <= ALIGNMENT {
                mark = self.four()?;
            }
        }
        let first = self.header(mark)?;
        first.ok_or_else(|| damaged("an end marker instead of the schema"))
    }

    /// The next header; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Vec<u8>>> {
        if self.ended {
            return Ok(None);
        }
        let start = self.position();
        let header = match self.mark()? {
            Some(mark) => self.header(mark)?,
            None => None,
        };
        match &header {
            None => {
                self.ended = true;
                self.check_end(start)?;
            }
            Some(header) => match parse(header)?.header_type() {
                MessageHeader::RecordBatch => self.found.batches += 1,
                MessageHeader::DictionaryBatch => self.found.dictionaries += 1,
                _ => {}
            },
        }
        Ok(header)
    }

    /// The first four bytes of a message or end mark; `None` at an end without a mark.
    fn mark(&mut self) -> Result<Option<[u8; 4]>> {
        if self.end == Some(self.position()) {
            return Ok(None);
        }
        let mut mark = Vec::new();
        self.input.by_ref().take(4).read_to_end(&mut mark)?;
        match <[u8; 4]>::try_from(mark) {
            Ok(mark) => Ok(Some(mark)),
            Err(mark) if mark.is_empty() && !self.is_file => Ok(None),
            Err(_) => Err(damaged("a message that is cut off")),
        }
    }

    /// The header after these four bytes; `None` if they mark the end.
    fn header(&mut self, mark: [u8; 4]) -> Result<Option<Vec<u8>>> {
        match mark {
            [255, 255, 255, 255] => match i32::from_le_bytes(self.four()?) {
                0 => Ok(None),
                length => self.take(u64::try_from(length).map_err(|_| damaged(format!("a header of {length} bytes")))?).map(Some),
            },
            [0, 0, 0, 0] => Ok(None),
            other => Err(not_arrow(&other)),
        }
    }

    /// Checks that the end mark at byte `mark` is at the end.
    fn check_end(&mut self, mark: u64) -> Result<()> {
        let Some(end) = self.end else { return self.check_end_of_pipe(mark) };
        let behind = end.saturating_sub(self.position());
        let Some(listed) = self.listed else {
            return if behind == 0 {
                Ok(())
            } else {
                Err(damaged(format!("{behind} bytes after the end marker at byte {mark}")))
            };
        };
        let is_padding = behind < ALIGNMENT && self.take(behind)?.iter().all(|byte| *byte == 0);
        if !is_padding {
            return Err(damaged(format!("an end marker at byte {mark}, but the footer begins at byte {end}")));
        }
        self.found.check(listed)
    }

    /// The same for a pipe, whose footer comes last.
    fn check_end_of_pipe(&mut self, mark: u64) -> Result<()> {
        let listed = 2 * size_of::<arrow_ipc::Block>() * (self.found.batches + self.found.dictionaries);
        let most = if self.is_file { TRUSTED + listed } else { 0 };
        let mut rest = Vec::new();
        self.input.by_ref().take(most as u64 + 1).read_to_end(&mut rest)?;
        if rest.len() > most {
            let what = if self.is_file { format!("more than {most} bytes") } else { "more bytes".to_owned() };
            return Err(damaged(format!("{what} after the end marker at byte {mark}")));
        }
        if !self.is_file {
            return Ok(());
        }
        let Some((before, behind)) = rest.split_last_chunk::<BEHIND_FOOTER>() else {
            return Err(no_footer());
        };
        let footer_length = footer_length(*behind)?;
        let padding = (before.len() as u64).checked_sub(footer_length).filter(|padding| *padding < ALIGNMENT);
        match padding.map(|padding| before.split_at(padding as usize)) {
            Some((padding, footer)) if padding.iter().all(|byte| *byte == 0) => self.found.check(Counts::of_footer(footer)?),
            _ => Err(damaged(format!(
                "{} bytes after the end marker at byte {mark}, but a footer of {footer_length} bytes",
                before.len()
            ))),
        }
    }

    fn check(&self, count: u64) -> Result<()> {
        match self.end {
            Some(end) if count > end.saturating_sub(self.position()) => Err(damaged(format!(
                "a message of {count} bytes at byte {}, but the messages end at byte {end}",
                self.position()
            ))),
            _ => Ok(()),
        }
    }

    fn four(&mut self) -> Result<[u8; 4]> {
        Ok(self.take(4)?.try_into().expect("as many as were taken"))
    }

    fn take(&mut self, count: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.take_into(count, &mut bytes)?;
        Ok(bytes)
    }

    /// Replaces the contents of `bytes`. They are overwritten without being cleared, which would
    /// cost as much as reading.
    pub fn take_into(&mut self, count: u64, bytes: &mut Vec<u8>) -> Result<()> {
        self.check(count)?;
        let count = usize::try_from(count).map_err(damaged)?;
        bytes.truncate(count);
        let mut filled = 0;
        while filled < count {
            let step = if self.end.is_some() { count } else { count.min(filled + TRUSTED) };
            bytes.resize(step.max(bytes.len()), 0);
            match self.input.read(&mut bytes[filled..step]) {
                Ok(0) => return Err(damaged("a message that is cut off")),
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    pub fn skip(&mut self, count: u64) -> Result<()> {
        self.check(count)?;
        if self.is_pipe() { self.take(count).map(drop) } else { self.input.seek_to(self.position() + count) }
    }

    /// Goes back to the message at this position, the first after the schema.
    pub fn rewind(&mut self, start: u64) -> Result<()> {
        (self.ended, self.found) = (false, Counts::default());
        self.input.seek_to(start)
    }

    /// The lists of a record batch whose body comes next. Skips the body; returns `None` if it must
    /// be read.
    pub fn lists(&mut self, column: ListColumn, batch: arrow_ipc::RecordBatch, body: u64, dim: usize) -> Result<Option<Lists>> {
        self.check(body)?;
        let (start, end) = (self.position(), self.position() + body);
        let Some(source) = self.input.source().filter(|source| source.is_direct()) else { return Ok(None) };
        let lists = column.lists(batch, start..end, dim, source)?;
        if lists.is_some() {
            self.input.seek_to(end)?;
        }
        Ok(lists)
    }

    /// Reads lists whose body has been skipped.
    pub fn take_lists(&mut self, lists: &mut Lists, most: usize, dim: usize, see: &mut dyn FnMut(&Bytes)) -> Result<usize> {
        lists.take(most, dim, self.input.source().expect("lists are taken from a source"), see)
    }
}

/// The length of the footer, from the bytes that follow it.
fn footer_length(behind: [u8; BEHIND_FOOTER]) -> Result<u64> {
    let (length, magic) = behind.split_first_chunk().expect("a length, and the magic word");
    if magic != MAGIC {
        return Err(no_footer());
    }
    let length = i32::from_le_bytes(*length);
    u64::try_from(length).map_err(|_| damaged(format!("a footer of {length} bytes")))
}

fn no_footer() -> Error {
    damaged(format!("a file that does not end with {}", MAGIC.escape_ascii()))
}

fn not_arrow(found: &[u8]) -> Error {
    let what = "an Arrow file begins with `ARROW1`, and its messages with `\\xff\\xff\\xff\\xff`";
    Error::Format { what: format!("{what}, found: `{}`", found.escape_ascii()) }
}

pub(crate) fn parse(metadata: &[u8]) -> Result<Message<'_>> {
    root_as_message(metadata).map_err(|error| damaged(first_line(&error)))
}

pub(crate) fn body_length(message: &Message) -> Result<u64> {
    u64::try_from(message.bodyLength()).map_err(|_| damaged(format!("a body of {} bytes", message.bodyLength())))
}

fn first_line(error: &impl ToString) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
