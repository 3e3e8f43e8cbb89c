//! Numbers of an array: their encoding, and the source of their bytes.

use crate::bytes::{ByteReader, ByteSource};
use crate::npy_header::{self, Header, Integer};
use crate::{ByteBuffers, Element, Error, Result};
use crc32fast::Hasher;
use flate2::bufread::DeflateDecoder;
use half::{bf16, f16};
use std::io::{self, BufRead, BufReader, Read, Take};
use vmfkit::rows::Rows;

/// Bytes to decompress at a time.
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
    /// bfloat16, the upper half of single precision. NumPy does not have it.
    Bf16,
    F32,
    F64,
    Integer(Integer),
}

impl From<&Header> for Encoding {
    fn from(header: &Header) -> Self {
        let kind = match header.element {
            npy_header::Element::F16 => Kind::F16,
            npy_header::Element::F32 => Kind::F32,
            npy_header::Element::F64 => Kind::F64,
            npy_header::Element::Integer(integer) => Kind::Integer(integer),
        };
        Encoding { kind, big_endian: header.big_endian }
    }
}

impl Encoding {
    /// The encoding of such numbers in the memory of this machine.
    pub fn in_memory(kind: Kind) -> Self {
        Encoding { kind, big_endian: cfg!(target_endian = "big") }
    }

    /// Bytes per number.
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

    /// Empties `values` and makes them of the type that these numbers are widened to.
    pub fn start(self, values: &mut Rows<'static>) {
        self.element().start(values);
    }

    /// Appends the numbers in these bytes to `values`, which must be of the type that
    /// [`start`](Self::start) makes.
    pub fn append(self, bytes: &[u8], values: &mut Rows<'static>) {
        match (self.kind, values) {
            (Kind::F16, Rows::F32(out)) => self.decode(bytes, out.to_mut(), |number| f16::from_le_bytes(number).to_f32()),
            (Kind::Bf16, Rows::F32(out)) => self.decode(bytes, out.to_mut(), |number| bf16::from_le_bytes(number).to_f32()),
            (Kind::F32, Rows::F32(out)) => self.decode(bytes, out.to_mut(), f32::from_le_bytes),
            (Kind::F64, Rows::F64(out)) => self.decode(bytes, out.to_mut(), f64::from_le_bytes),
            (Kind::Integer(integer), Rows::F64(out)) => self.append_integers(integer, bytes, out.to_mut(), |n| n as f64),
            _ => unreachable!("`start` has made the values of this type"),
        }
    }

    /// Appends integers to `out`, converted by `convert`.
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

    /// `number` converts the little-endian bytes of a number.
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

/// The bytes of an array: part of a source, stored or deflated, or a pipe.
pub(crate) struct ArrayBytes {
    input: Input,
    /// Position of the first number: in the source, or in the decompressed bytes of a deflated
    /// array.
    start: u64,
    /// The checksum of a member of an archive.
    checksum: Option<Checksum>,
}

enum Input {
    Plain(ByteReader),
    Deflated { decoder: BufReader<DeflateDecoder<Take<ByteReader>>>, source: ByteSource, packed: Packed },
}

/// Position and length of a deflated array in its source.
#[derive(Clone, Copy)]
struct Packed {
    start: u64,
    length: u64,
}

impl Packed {
    fn decoder(self, source: &ByteSource) -> BufReader<DeflateDecoder<Take<ByteReader>>> {
        let bytes = ByteReader::new(source.clone(), self.start).take(self.length);
        BufReader::with_capacity(CHUNK, DeflateDecoder::new(bytes))
    }
}

/// The CRC-32 of a member of an archive.
struct Checksum {
    /// The checksum in the archive.
    expected: u32,
    /// The checksums of the bytes that have been read, and of those before the first number.
    found: Hasher,
    before: Hasher,
}

impl Checksum {
    fn new(expected: u32) -> Self {
        Checksum { expected, found: Hasher::new(), before: Hasher::new() }
    }

    /// Compares the checksums. To be called after the last byte.
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

impl ArrayBytes {
    /// The rest of the bytes of a reader.
    pub fn new(reader: ByteReader) -> Self {
        ArrayBytes { start: reader.position(), input: Input::Plain(reader), checksum: None }
    }

    /// A stored member of an archive.
    pub fn stored(source: ByteSource, start: u64, checksum: u32) -> Self {
        ArrayBytes { checksum: Some(Checksum::new(checksum)), ..ArrayBytes::new(ByteReader::new(source, start)) }
    }

    /// A deflated member of an archive.
    pub fn deflated(source: ByteSource, start: u64, length: u64, checksum: u32) -> Self {
        let packed = Packed { start, length };
        let input = Input::Deflated { decoder: packed.decoder(&source), source, packed };
        ArrayBytes { input, start: 0, checksum: Some(Checksum::new(checksum)) }
    }

    fn reader(&mut self) -> &mut dyn BufRead {
        match &mut self.input {
            Input::Plain(reader) => reader,
            Input::Deflated { decoder, .. } => decoder,
        }
    }

    /// Whether it can be read at any position.
    pub fn is_seekable(&self) -> bool {
        matches!(&self.input, Input::Plain(reader) if reader.source().is_some())
    }

    pub fn is_deflated(&self) -> bool {
        matches!(self.input, Input::Deflated { .. })
    }

    /// Marks the position after a header of `count` bytes as that of the first number.
    pub fn begin_after(&mut self, count: u64) {
        self.start += count;
        if let Some(checksum) = &mut self.checksum {
            checksum.before = checksum.found.clone();
        }
    }

    /// Back to the first number.
    pub fn rewind(&mut self) -> Result<()> {
        match &mut self.input {
            Input::Plain(reader) => reader.seek_to(self.start)?,
            Input::Deflated { decoder, source, packed } => {
                *decoder = packed.decoder(source);
                if io::copy(&mut decoder.take(self.start), &mut io::sink())? < self.start {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
            }
        }
        if let Some(checksum) = &mut self.checksum {
            checksum.found = checksum.before.clone();
        }
        Ok(())
    }

    /// Passes the next bytes to `take`, at most `most` and none only at the end. Consumes as many
    /// as it returns.
    fn next(&mut self, most: usize, take: impl FnOnce(&[u8]) -> usize) -> Result<usize> {
        let (reader, checksum): (&mut dyn BufRead, _) = match &mut self.input {
            Input::Plain(reader) => (reader, &mut self.checksum),
            Input::Deflated { decoder, .. } => (decoder, &mut self.checksum),
        };
        let bytes = loop {
            match reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
                // Borrowed again, since the first borrow would extend into the next iteration.
                Ok(_) => break reader.fill_buf()?,
            }
        };
        let bytes = &bytes[..bytes.len().min(most)];
        let taken = take(bytes);
        if let Some(checksum) = checksum {
            checksum.found.update(&bytes[..taken]);
        }
        reader.consume(taken);
        Ok(taken)
    }

    /// Reads until the buffer is full or the bytes end. Returns how many were read.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let most = buffer.len() - filled;
            let rest = &mut buffer[filled..];
            let copy = |bytes: &[u8]| {
                rest[..bytes.len()].copy_from_slice(bytes);
                bytes.len()
            };
            match self.next(most, copy)? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(filled)
    }

    /// Checks the checksum, and that nothing follows the last number unless the length has been
    /// checked before.
    pub fn finish(&mut self) -> Result<()> {
        if !self.is_seekable() && self.fill(&mut [0])? > 0 {
            return Err(Error::format("the data must end with the last row, found: `more bytes`"));
        }
        self.checksum.as_ref().map_or(Ok(()), Checksum::check)
    }

    /// Reads with O_DIRECT from now on, if possible.
    pub fn read_direct(&mut self, memory: usize) {
        if let Input::Plain(reader) = &mut self.input
            && let Some(direct) = reader.source().and_then(|source| source.direct(memory, std::iter::once(0..u64::MAX)))
        {
            reader.replace_source(direct);
        }
    }
}

impl Read for ArrayBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader().read(buffer)?;
        if let Some(checksum) = &mut self.checksum {
            checksum.found.update(&buffer[..read]);
        }
        Ok(read)
    }
}

/// Reads numbers in the order in which they are stored.
pub(crate) struct Numbers {
    pub bytes: ArrayBytes,
    pub encoding: Encoding,
    /// Total count.
    count: u64,
    taken: u64,
}

impl Numbers {
    /// Numbers that begin at the first of these bytes.
    pub fn new(bytes: ArrayBytes, encoding: Encoding, count: u64) -> Self {
        Numbers { bytes, encoding, count, taken: 0 }
    }

    pub fn rewind(&mut self) -> Result<()> {
        self.taken = 0;
        self.bytes.rewind()
    }

    /// Appends the next numbers to `values`. Memory grows with the numbers that arrive, not with
    /// what a header claims.
    pub fn take(&mut self, count: u64, values: &mut Rows<'static>) -> Result<()> {
        let encoding = self.encoding;
        self.take_bytes(count, |bytes| encoding.append(bytes, values))
    }

    /// Appends the next integers to `out`.
    pub fn take_integers(&mut self, count: u64, integer: Integer, out: &mut Vec<i64>) -> Result<()> {
        let encoding = self.encoding;
        // Counts and columns beyond i64 become negative, which is rejected later.
        self.take_bytes(count, |bytes| encoding.append_integers(integer, bytes, out, |n| n as i64))
    }

    fn take_bytes(&mut self, count: u64, mut append: impl FnMut(&[u8])) -> Result<()> {
        let size = self.encoding.size();
        let mut left = count;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).saturating_mul(size);
            let taken = self.bytes.next(most, |bytes| {
                let whole = bytes.len() - bytes.len() % size;
                append(&bytes[..whole]);
                whole
            })?;
            let mut numbers = (taken / size) as u64;
            if taken == 0 {
                // A number that spans two buffers, or the end.
                let mut number = [0; 8];
                let found = self.bytes.fill(&mut number[..size])?;
                if found < size {
                    return Err(self.ended_early(found));
                }
                append(&number[..size]);
                numbers = 1;
            }
            self.taken += numbers;
            left -= numbers;
        }
        self.check_after_last()
    }

    /// Checks the checksum after the last number of a source, before it is used.
    fn check_after_last(&self) -> Result<()> {
        match &self.bytes.checksum {
            Some(checksum) if self.taken == self.count && self.bytes.is_seekable() => checksum.check(),
            _ => Ok(()),
        }
    }

    /// Checks the checksum of all bytes now. For numbers that will be read out of order.
    pub fn check_sum(&mut self) -> Result<()> {
        if self.bytes.checksum.is_some() {
            self.rewind()?;
            self.take_bytes(self.count, |_| ())?;
            self.rewind()?;
            self.bytes.checksum = None;
        }
        Ok(())
    }

    /// Whether numbers can be lent from the buffers that the disk writes to: the source is read
    /// directly, and no number crosses a sector boundary.
    pub fn lends_bytes(&self) -> bool {
        let aligned = self.bytes.start.is_multiple_of(self.encoding.size() as u64);
        aligned && matches!(&self.bytes.input, Input::Plain(reader) if reader.source().is_some_and(ByteSource::is_direct))
    }

    /// Lends the bytes of the next numbers, if [that is possible](Self::lends_bytes).
    pub fn lend(&mut self, count: u64, buffers: &mut ByteBuffers) -> Result<()> {
        let size = self.encoding.size();
        let mut left = count as usize * size;
        while left > 0 {
            let Input::Plain(reader) = &mut self.bytes.input else { unreachable!("only sources lend their bytes") };
            let bytes = reader.lend(left)?;
            let found = bytes.len();
            if found == 0 || !found.is_multiple_of(size) {
                return Err(self.ended_early(found));
            }
            if let Some(checksum) = &mut self.bytes.checksum {
                checksum.found.update(&bytes);
            }
            left -= found;
            self.taken += (found / size) as u64;
            buffers.push(bytes);
        }
        self.check_after_last()
    }

    /// The error of a source that has been truncated since its length was compared with its header.
    fn ended_early(&mut self, behind_taken: usize) -> Error {
        let size = self.encoding.size() as u64;
        let (expected, read) = (self.count * size, self.taken * size + behind_taken as u64);
        if let (Input::Plain(reader), true) = (&self.bytes.input, self.bytes.is_seekable()) {
            // Bytes that were read ahead before the truncation do not count.
            let length = reader.len_now().ok().flatten();
            let left = length.map_or(read, |length| length.saturating_sub(self.bytes.start));
            return Error::Changed { what: format!("it had {expected} bytes of data, found: `{left}`") };
        }
        Error::format(format!("the data must have {expected} bytes, found: `{read}`"))
    }

    /// Reads numbers out of order, from number `first`. For a seekable source only.
    pub fn take_at(&mut self, first: u64, count: u64, values: &mut Rows<'static>) -> Result<()> {
        let Input::Plain(reader) = &mut self.bytes.input else { unreachable!("only sources are read out of order") };
        reader.seek_to(self.bytes.start + first * self.encoding.size() as u64)?;
        self.taken = first;
        self.take(count, values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half precision with its subnormal numbers, and bfloat16.
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
            let mut values = Rows::default();
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
