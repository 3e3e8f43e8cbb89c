//! NumPy's `.npz`: a zip archive of arrays, stored or deflated, or a sparse matrix written by
//! scipy.

use crate::bytes::{ByteReader, ByteSource};
use crate::excerpt::excerpt;
use crate::npy_header::Header;
use crate::read::csr::CsrRows;
use crate::read::numbers::{ArrayBytes, Encoding, Numbers};
use crate::read::{array, npy};
use crate::{Error, Options, Reader, Result};
use std::io::Read;
use zip::{CompressionMethod, ZipArchive};

/// Opens the rows of the chosen array, of the only array, of the only array with two axes, or of a
/// sparse matrix.
pub(crate) fn open(source: &ByteSource, options: &Options) -> Result<Box<dyn Reader>> {
    let members = Member::all(source)?;
    let find = |name: &str| members.iter().find(|member| member.name == name);
    if let ([Some(format), Some(values), Some(shape)], None) = (["format", "data", "shape"].map(find), &options.array) {
        refuse_other_order(source, format)?;
        if let [Some(starts), Some(columns)] = ["indptr", "indices"].map(find) {
            let [starts, columns, values, shape] = [starts, columns, values, shape].map(|member| member.numbers(source));
            return Ok(Box::new(CsrRows::new(starts?, columns?, values?, shape?)?));
        }
    }
    let choices: Vec<(&str, bool)> = members.iter().map(|member| (&*member.name, member.has_two_axes(source))).collect();
    let member = &members[array::choose("array", &choices, options.array.as_deref())?];
    let rows = member.open(source).and_then(|bytes| npy::rows(bytes, Some(member.size), false));
    Ok(Box::new(rows.map_err(|error| error.at(&member.name))?))
}

/// An array of the archive. Its name has no extension.
struct Member {
    name: String,
    method: CompressionMethod,
    encrypted: bool,
    /// Position and length in the file, compressed or not.
    start: u64,
    packed: u64,
    /// Uncompressed size in bytes, and checksum.
    size: u64,
    crc: u32,
}

impl Member {
    fn all(source: &ByteSource) -> Result<Vec<Self>> {
        let broken = |error: zip::result::ZipError| Error::caused("the zip archive cannot be read", error);
        let length = source.len();
        let mut archive = ZipArchive::new(ByteReader::new(source.clone(), 0)).map_err(broken)?;
        let mut members = Vec::new();
        for index in 0..archive.len() {
            let file = archive.by_index_raw(index).map_err(broken)?;
            let name = file.name().map_err(broken)?;
            let name = name.strip_suffix(".npy").unwrap_or(&name).to_owned();
            let start = file.data_start().ok_or_else(|| {
                Error::format(format!("the archive does not say where this array begins, found: `{}`", excerpt(name.as_bytes())))
            })?;
            let (packed, size) = (file.compressed_size(), file.size());
            if start.checked_add(packed).is_none_or(|end| end > length) {
                let what = format!("array `{}` must end within the file, bytes in it: `{packed}`", excerpt(name.as_bytes()));
                return Err(Error::Format { what });
            }
            members.push(Member {
                name,
                method: file.compression(),
                encrypted: file.encrypted(),
                start,
                packed,
                size,
                crc: file.crc32(),
            });
        }
        Ok(members)
    }

    /// Its bytes from the beginning.
    fn open(&self, source: &ByteSource) -> Result<ArrayBytes> {
        match self.method {
            _ if self.encrypted => Err(Error::format("an array must be readable without a password, found: `encrypted`")),
            CompressionMethod::Stored if self.packed == self.size => Ok(ArrayBytes::stored(source.clone(), self.start, self.crc)),
            CompressionMethod::DEFLATE => Ok(ArrayBytes::deflated(source.clone(), self.start, self.packed, self.crc)),
            other => Err(Error::format(format!("an array must be stored or deflated, found: `{other}`"))),
        }
    }

    /// Whether the array has two axes; false if its header cannot be read.
    fn has_two_axes(&self, source: &ByteSource) -> bool {
        let header = self.open(source).and_then(|mut bytes| Ok(Header::read(&mut bytes, Some(self.size))?));
        header.is_ok_and(|(header, _)| header.shape.len() == 2)
    }

    /// The numbers of an array with one axis.
    fn numbers(&self, source: &ByteSource) -> Result<(Numbers, u64)> {
        let read = || {
            let mut bytes = self.open(source)?;
            let (header, data_start) = Header::read(&mut bytes, Some(self.size))?;
            let [count] = header.shape[..] else {
                return Err(Error::format(format!("the array must have one axis, found shape: `{}`", header.shape_text())));
            };
            bytes.begin_after(data_start);
            Ok((Numbers::new(bytes, Encoding::from(&header), count as u64), count as u64))
        };
        read().map_err(|error| error.at(&self.name))
    }
}

/// Rejects a sparse matrix that is not stored row by row.
fn refuse_other_order(source: &ByteSource, format: &Member) -> Result<()> {
    // A string without axes: the letters follow the header, with one byte or four each.
    let (mut text, mut bytes) = (Vec::new(), format.open(source)?);
    bytes.by_ref().take(format.size.min(1 << 10)).read_to_end(&mut text)?;
    let end = text.iter().position(|&byte| byte == b'\n').map_or(text.len(), |end| end + 1);
    text.drain(..end);
    text.retain(|&byte| byte != 0);
    match &text[..] {
        b"csr" => bytes.finish().map_err(|error| error.at(&format.name)),
        other => Err(Error::format(format!(
            "a sparse matrix must be stored row by row, as csr, found: `{}`\nhint: save `x.tocsr()`",
            excerpt(other)
        ))),
    }
}
