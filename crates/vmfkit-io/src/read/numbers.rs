//! Numbers as bytes: of which type, where they are, and how they come into memory.

use crate::bytes::SeekRead;
use crate::read::npy::{self, Integer};
use crate::{Element, Error, Result, Stretches, Values};
use crc32fast::Hasher;
use flate2::read::DeflateDecoder;
use half::{bf16, f16};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Take};

/// Bytes unpacked or taken from a pipe at a time.
const CHUNK: usize = 1 << 17;

/// How each number of an array is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Encoding {
    pub kind: Kind,
    pub big_endian: bool,
}

/// The type of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    F16,
    /// The upper half of single precision, which NumPy does not have.
    Bf16,
    F32,
    F64,
    Integer(Integer),
}

impl From<&npy::Header> for Encoding {
    fn from(header: &npy::Header) -> Self {
        let kind = match header.element {
            npy::Element::F16 => Kind::F16,
            npy::Element::F32 => Kind::F32,
            npy::Element::F64 => Kind::F64,
            npy::Element::Integer(integer) => Kind::Integer(integer),
        };
        Encoding { kind, big_endian: header.big_endian }
    }
}

impl Encoding {
    /// As this machine has such numbers in memory.
    pub fn in_memory(kind: Kind) -> Self {
        Encoding { kind, big_endian: cfg!(target_endian = "big") }
    }

    /// Bytes a number.
    pub fn size(self) -> usize {
        match self.kind {
            Kind::F16 | Kind::Bf16 => 2,
            Kind::F32 => 4,
            Kind::F64 => 8,
            Kind::Integer(integer) => integer.size(),
        }
    }

    pub fn element(self) -> Element {
        match self.kind {
            Kind::F16 | Kind::Bf16 => Element::F16,
            Kind::F32 => Element::F32,
            Kind::F64 | Kind::Integer(_) => Element::F64,
        }
    }

    /// No numbers, of the type that these are widened to.
    pub fn start(self, values: &mut Values) {
        match self.element() {
            Element::F16 | Element::F32 => values.start_f32().clear(),
            Element::F64 => values.start_f64().clear(),
        }
    }

    /// Puts the numbers of these bytes behind `values`, which [`start`](Self::start) made.
    pub fn append(self, bytes: &[u8], values: &mut Values) {
        match (self.kind, values) {
            (Kind::F16, Values::F32(out)) => self.decode(bytes, out, |number| f16::from_le_bytes(number).to_f32()),
            (Kind::Bf16, Values::F32(out)) => self.decode(bytes, out, |number| bf16::from_le_bytes(number).to_f32()),
            (Kind::F32, Values::F32(out)) => self.decode(bytes, out, f32::from_le_bytes),
            (Kind::F64, Values::F64(out)) => self.decode(bytes, out, f64::from_le_bytes),
            (Kind::Integer(integer), Values::F64(out)) => self.append_integers(integer, bytes, out, |n| n as f64),
            _ => unreachable!("`start` has made the values of this type"),
        }
    }

    /// Puts whole numbers behind `out`, each as `convert` makes it.
    pub fn append_integers<T>(self, integer: Integer, bytes: &[u8], out: &mut Vec<T>, convert: impl Fn(i128) -> T) {
        match integer {
            Integer::I8 => self.decode(bytes, out, |number| convert(i8::from_le_bytes(number).into())),
            Integer::I16 => self.decode(bytes, out, |number| convert(i16::from_le_bytes(number).into())),
            Integer::I32 => self.decode(bytes, out, |number| convert(i32::from_le_bytes(number).into())),
            Integer::I64 => self.decode(bytes, out, |number| convert(i64::from_le_bytes(number).into())),
            Integer::U8 => self.decode(bytes, out, |number| convert(u8::from_le_bytes(number).into())),
            Integer::U16 => self.decode(bytes, out, |number| convert(u16::from_le_bytes(number).into())),
            Integer::U32 => self.decode(bytes, out, |number| convert(u32::from_le_bytes(number).into())),
            Integer::U64 => self.decode(bytes, out, |number| convert(u64::from_le_bytes(number).into())),
        }
    }

    /// From the bytes of each number with the least significant first.
    fn decode<T, const WIDTH: usize>(self, bytes: &[u8], out: &mut Vec<T>, number: impl Fn([u8; WIDTH]) -> T) {
        let numbers = bytes.chunks_exact(WIDTH).map(|bytes| <[u8; WIDTH]>::try_from(bytes).expect("chunks of this width"));
        if self.big_endian {
            out.extend(numbers.map(|mut bytes| {
                bytes.reverse();
                number(bytes)
            }));
        } else {
            out.extend(numbers.map(number));
        }
    }
}

/// Some bytes of a file, or what comes through a pipe.
pub(crate) enum Bytes {
    /// From `start` to the end of the file or further than anyone reads; those of an archive have a checksum.
    File { file: Box<dyn SeekRead>, start: u64, checksum: Option<Checksum> },
    /// Deflated bytes of a file.
    Packed(Packed),
    /// They come once.
    Stream(Box<dyn Read + Send>),
}

/// The CRC-32 of an archive's member.
#[derive(Clone)]
pub(crate) struct Checksum {
    /// What the archive says.
    expected: u32,
    /// Of the bytes that have been read, and of those before the first that is read in every pass.
    found: Hasher,
    before: Hasher,
}

impl Checksum {
    pub fn new(expected: u32) -> Self {
        Checksum { expected, found: Hasher::new(), before: Hasher::new() }
    }

    /// Refuses a member of which all bytes have been read, if they are not those that were written.
    fn check(&self) -> Result<()> {
        match self.found.clone().finalize() {
            found if found == self.expected => Ok(()),
            found => Err(Error::format(format!(
                "the array is damaged, its checksum must be {:08x}, found: `{found:08x}`",
                self.expected
            ))),
        }
    }
}

/// A deflated part of a file.
pub(crate) struct Packed {
    decoder: DeflateDecoder<Take<File>>,
    /// Where the part is in the file.
    start: u64,
    length: u64,
    /// Bytes at the front that are not the array's.
    skip: u64,
    checksum: Checksum,
}

impl Packed {
    pub fn new(file: File, start: u64, length: u64, checksum: Checksum) -> io::Result<Self> {
        let decoder = DeflateDecoder::new(file.take(0));
        let mut packed = Packed { decoder, start, length, skip: 0, checksum };
        packed.rewind()?;
        Ok(packed)
    }

    fn rewind(&mut self) -> io::Result<()> {
        let mut file = self.decoder.get_ref().get_ref().try_clone()?;
        file.seek(SeekFrom::Start(self.start))?;
        self.decoder = DeflateDecoder::new(file.take(self.length));
        self.checksum.found = Hasher::new();
        let skip = self.skip;
        let skipped = io::copy(&mut self.by_ref().take(skip), &mut io::sink())?;
        if skipped < skip { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

impl Read for Packed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.decoder.read(buffer)?;
        self.checksum.found.update(&buffer[..read]);
        Ok(read)
    }
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Bytes::File { file, checksum, .. } => {
                let read = file.read(buffer)?;
                if let Some(checksum) = checksum {
                    checksum.found.update(&buffer[..read]);
                }
                Ok(read)
            }
            Bytes::Packed(packed) => packed.read(buffer),
            Bytes::Stream(stream) => stream.read(buffer),
        }
    }
}

impl Bytes {
    /// What has been read so far, `count` bytes, is before the first byte from now on.
    pub fn begin_after(&mut self, count: u64) {
        match self {
            Bytes::File { start, checksum, .. } => {
                *start += count;
                if let Some(checksum) = checksum {
                    checksum.before = checksum.found.clone();
                }
            }
            Bytes::Packed(packed) => packed.skip += count,
            Bytes::Stream(_) => {}
        }
    }

    /// Back to the first byte.
    pub fn rewind(&mut self) -> Result<()> {
        match self {
            Bytes::File { file, start, checksum } => {
                file.seek(SeekFrom::Start(*start))?;
                if let Some(checksum) = checksum {
                    checksum.found = checksum.before.clone();
                }
            }
            Bytes::Packed(packed) => packed.rewind()?,
            Bytes::Stream(_) => return Err(vmfkit::Error::CannotRewind.into()),
        }
        Ok(())
    }

    /// Goes to a byte, counted from the first; only within a file.
    pub fn seek(&mut self, byte: u64) -> Result<()> {
        let Bytes::File { file, start, .. } = self else { unreachable!("only files are read out of order") };
        file.seek(SeekFrom::Start(*start + byte))?;
        Ok(())
    }

    /// Reads until the buffer is full or the bytes end; says how many there were.
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(filled)
    }

    /// Checks that nothing follows the last number, where that was not clear from the start, and the checksum.
    pub fn finish(&mut self) -> Result<()> {
        if !matches!(self, Bytes::File { .. }) && self.fill(&mut [0])? > 0 {
            return Err(Error::format("the data must end with the last row, found: `more bytes`"));
        }
        match self {
            Bytes::File { checksum: Some(checksum), .. } | Bytes::Packed(Packed { checksum, .. }) => checksum.check(),
            _ => Ok(()),
        }
    }
}

/// Numbers in the order in which they are stored.
pub(crate) struct Numbers {
    pub bytes: Bytes,
    pub encoding: Encoding,
    /// How many there are.
    count: u64,
    taken: u64,
    chunk: Vec<u8>,
}

impl Numbers {
    /// Numbers from the first of these bytes on.
    pub fn new(bytes: Bytes, encoding: Encoding, count: u64) -> Self {
        Numbers { bytes, encoding, count, taken: 0, chunk: Vec::new() }
    }

    pub fn rewind(&mut self) -> Result<()> {
        self.taken = 0;
        self.bytes.rewind()
    }

    /// Puts the next numbers behind `values`. The memory grows with what arrives, not with what a header claims.
    pub fn take(&mut self, count: u64, values: &mut Values) -> Result<()> {
        let encoding = self.encoding;
        self.take_bytes(count, |bytes| encoding.append(bytes, values))
    }

    /// Puts the next whole numbers behind `out`.
    pub fn take_integers(&mut self, count: u64, integer: Integer, out: &mut Vec<i64>) -> Result<()> {
        let encoding = self.encoding;
        // Counts and columns beyond i64 become negative, which their checks refuse.
        self.take_bytes(count, |bytes| encoding.append_integers(integer, bytes, out, |n| n as i64))
    }

    fn take_bytes(&mut self, count: u64, mut append: impl FnMut(&[u8])) -> Result<()> {
        let size = self.encoding.size();
        let mut left = count;
        while left > 0 {
            // A file's own buffer serves, but for a number that is not wholly in it.
            if let Bytes::File { file, checksum, .. } = &mut self.bytes
                && let numbers @ 1.. = file.fill_buf()?.len() / size
            {
                let now = left.min(numbers as u64);
                let length = now as usize * size;
                let bytes = &file.fill_buf()?[..length];
                if let Some(checksum) = checksum {
                    checksum.found.update(bytes);
                }
                append(bytes);
                file.consume(length);
                self.taken += now;
                left -= now;
                continue;
            }
            let now = left.min(if matches!(self.bytes, Bytes::File { .. }) { 1 } else { (CHUNK / size) as u64 });
            let length = now as usize * size;
            if self.chunk.len() < length {
                self.chunk.resize(length, 0);
            }
            let found = self.bytes.fill(&mut self.chunk[..length])?;
            if found < length {
                return Err(self.ended_early(found));
            }
            append(&self.chunk[..length]);
            self.taken += now;
            left -= now;
        }
        self.check_after_last()
    }

    /// Checks the sum of a file's bytes with the last of them, before they are used.
    fn check_after_last(&self) -> Result<()> {
        match &self.bytes {
            Bytes::File { checksum: Some(checksum), .. } if self.taken == self.count => checksum.check(),
            _ => Ok(()),
        }
    }

    /// Checks the sum of all bytes now, for numbers that will be taken out of order; only within a file.
    pub fn check_sum(&mut self) -> Result<()> {
        if matches!(self.bytes, Bytes::File { checksum: Some(_), .. }) {
            self.rewind()?;
            self.take_bytes(self.count, |_| ())?;
            self.rewind()?;
        }
        if let Bytes::File { checksum, .. } = &mut self.bytes {
            *checksum = None;
        }
        Ok(())
    }

    /// Numbers are lent where the disk puts them: those of a file that is read past the system's cache, of which none is in two sectors.
    pub fn has_stretches(&self) -> bool {
        match &self.bytes {
            Bytes::File { file, start, .. } => start.is_multiple_of(self.encoding.size() as u64) && file.is_direct(),
            _ => false,
        }
    }

    /// Puts the bytes of the next numbers behind others, where they are in memory; only where there [are such](Self::has_stretches).
    pub fn take_stretches(&mut self, count: u64, stretches: &mut Stretches) -> Result<()> {
        let size = self.encoding.size();
        let mut left = count as usize * size;
        while left > 0 {
            let Bytes::File { file, checksum, .. } = &mut self.bytes else { unreachable!("only files lend their bytes") };
            let bytes = file.direct().expect("a file that lends its bytes").next_bytes(left)?;
            let found = bytes.len();
            if found == 0 || !found.is_multiple_of(size) {
                return Err(self.ended_early(found));
            }
            if let Some(checksum) = checksum {
                checksum.found.update(&bytes);
            }
            left -= found;
            self.taken += (found / size) as u64;
            stretches.push(bytes);
        }
        self.check_after_last()
    }

    /// A file's length was compared with its header before, so that it must have been cut since.
    fn ended_early(&mut self, behind_taken: usize) -> Error {
        let size = self.encoding.size() as u64;
        let (expected, read) = (self.count * size, self.taken * size + behind_taken as u64);
        match &mut self.bytes {
            Bytes::File { file, start, .. } => {
                // What was read ahead before the cut is no longer there.
                let left = file.seek(SeekFrom::End(0)).map_or(read, |end| end.saturating_sub(*start));
                Error::Changed { what: format!("it had {expected} bytes of data, found: `{left}`") }
            }
            _ => Error::format(format!("the data must have {expected} bytes, found: `{read}`")),
        }
    }

    /// Reads numbers from the `first` on, out of order; only within a file.
    pub fn take_at(&mut self, first: u64, count: u64, values: &mut Values) -> Result<()> {
        self.bytes.seek(first * self.encoding.size() as u64)?;
        self.taken = first;
        self.take(count, values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half precision with its subnormal numbers, and the other half precision.
    #[test]
    fn halves_are_widened_exactly() {
        let cases = [
            (0x0000, 0.0),
            (0x0001, 2f32.powi(-24)),
            (0x03ff, 1023.0 * 2f32.powi(-24)),
            (0x0400, 2f32.powi(-14)),
            (0x3555, 1365.0 / 4096.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0xfc00, f32::NEG_INFINITY),
        ];
        let widened = |kind, bits: u16| {
            let mut values = Values::default();
            Encoding { kind, big_endian: true }.append(&bits.to_be_bytes(), &mut values);
            values.into_f64()[0]
        };
        for (bits, value) in cases {
            assert_eq!(widened(Kind::F16, bits), f64::from(value), "{bits:#06x}");
        }
        assert!(widened(Kind::F16, 0x7e00).is_nan());
        assert_eq!(widened(Kind::Bf16, 0xc0a0), -5.0);
    }
}
