//! The records of separated text: none is endless, and none is cut off by the end of the text.

use crate::excerpt::excerpt;
use crate::text::{LONGEST_LINE, Text, too_long};
use crate::{Error, Result};
use csv::ByteRecord;
use std::io::{self, Chain, Read};

/// Records of any width, one after the other.
pub(crate) struct CsvRecords(csv::Reader<Bounded>);

impl CsvRecords {
    pub fn new(text: Text, delimiter: u8) -> Self {
        let text = Bounded { text: text.chain(b"\n"), left: 0, ended: false };
        let mut builder = csv::ReaderBuilder::new();
        CsvRecords(builder.has_headers(false).flexible(true).delimiter(delimiter).buffer_capacity(1 << 20).from_reader(text))
    }

    /// Replaces `record` by the next; none is left at the end.
    pub fn next(&mut self, record: &mut ByteRecord) -> Result<bool> {
        self.0.get_mut().left = LONGEST_LINE;
        let read = self.0.read_byte_record(record);
        let line = record.position().map_or(0, csv::Position::line);
        match read {
            Err(_) if self.0.get_ref().left == 0 => Err(too_long(line)),
            // Lines of any width and any bytes are records, so that only the system can fail.
            Err(error) => Err(Error::Io(error.into())),
            Ok(true) if self.0.get_ref().ended => {
                let quoted = excerpt(record.iter().next_back().unwrap_or_default());
                Err(Error::format(format!("a quote in the row of line {line} must be closed, found behind it: `{quoted}`")))
            }
            Ok(found) => Ok(found),
        }
    }
}

/// A text with a line end behind it, so that every record ends before the text does, but for one in open quotes.
struct Bounded {
    text: Chain<Text, &'static [u8]>,
    /// Bytes that may be read before a record ends.
    left: u64,
    ended: bool,
}

impl Read for Bounded {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let most = into.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.text.read(&mut into[..most])?;
        self.left -= read as u64;
        self.ended = read == 0;
        Ok(read)
    }
}
