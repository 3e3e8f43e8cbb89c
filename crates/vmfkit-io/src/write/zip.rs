//! What a zip archive of stored files consists of beside them, with sizes of eight bytes where they are needed.

/// Numbers of a file begin at a multiple of so many bytes of the archive.
const ALIGNMENT: u64 = 64;
/// Of the format, for sizes of eight bytes.
const VERSION: u16 = 45;
/// No flags, stored, and the first date that there is, so that equal rows are equal files.
const FLAGS_METHOD_DATE: [u8; 8] = [0, 0, 0, 0, 0, 0, 0x21, 0];

/// A file of an archive.
pub(crate) struct ZipMember {
    pub name: String,
    pub checksum: u32,
    pub size: u64,
    /// Where its header begins.
    pub start: u64,
}

impl ZipMember {
    /// What stands before the bytes of the file, of the same length for any size. What begins so many bytes behind it is aligned.
    pub(crate) fn header(&self, aligned: usize) -> Vec<u8> {
        // In eight bytes whatever the sizes are, as NumPy has them.
        let mut extra = wide_field(&[self.size, self.size]);
        extra.extend(padding(self.start + (30 + self.name.len() + extra.len() + aligned) as u64));
        let mut header = b"PK\x03\x04".to_vec();
        header.extend(VERSION.to_le_bytes());
        header.extend(FLAGS_METHOD_DATE);
        header.extend([self.checksum, u32::MAX, u32::MAX].map(u32::to_le_bytes).concat());
        header.extend([self.name.len() as u16, extra.len() as u16].map(u16::to_le_bytes).concat());
        header.extend(self.name.as_bytes());
        header.extend(extra);
        header
    }

    /// What the directory says of it.
    fn record(&self) -> Vec<u8> {
        let numbers = [self.size, self.size, self.start];
        let wide: Vec<u64> = numbers.into_iter().filter(|&number| is_wide(number)).collect();
        let extra = if wide.is_empty() { Vec::new() } else { wide_field(&wide) };
        let mut record = b"PK\x01\x02".to_vec();
        record.extend([VERSION, VERSION].map(u16::to_le_bytes).concat());
        record.extend(FLAGS_METHOD_DATE);
        record.extend([self.checksum, narrow(self.size), narrow(self.size)].map(u32::to_le_bytes).concat());
        record.extend([self.name.len() as u16, extra.len() as u16].map(u16::to_le_bytes).concat());
        // No comment, the first disk, no attributes.
        record.extend([0; 10]);
        record.extend(narrow(self.start).to_le_bytes());
        record.extend(self.name.as_bytes());
        record.extend(extra);
        record
    }
}

/// The end of an archive of these files, which begins at `start`.
pub(crate) fn directory(members: &[ZipMember], start: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> = members.iter().flat_map(ZipMember::record).collect();
    let (count, length) = (members.len() as u64, bytes.len() as u64);
    if is_wide(start) {
        bytes.extend(b"PK\x06\x06");
        // Of what follows in this record.
        bytes.extend(44u64.to_le_bytes());
        bytes.extend([VERSION, VERSION].map(u16::to_le_bytes).concat());
        bytes.extend([0; 8]);
        bytes.extend([count, count, length, start].map(u64::to_le_bytes).concat());
        bytes.extend(b"PK\x06\x07");
        bytes.extend([0; 4]);
        bytes.extend((start + length).to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
    }
    bytes.extend(b"PK\x05\x06");
    bytes.extend([0; 4]);
    bytes.extend([count as u16, count as u16].map(u16::to_le_bytes).concat());
    bytes.extend([length as u32, narrow(start)].map(u32::to_le_bytes).concat());
    bytes.extend([0; 2]);
    bytes
}

/// Four bytes do not hold it: their largest number says that it is elsewhere.
fn is_wide(number: u64) -> bool {
    number >= u64::from(u32::MAX)
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn wide_field(numbers: &[u64]) -> Vec<u8> {
    let mut field = [1, 8 * numbers.len() as u16].map(u16::to_le_bytes).concat();
    field.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    field
}

/// A field that brings a length to a multiple of [`ALIGNMENT`], under the number that Android's zipalign has for it.
fn padding(length: u64) -> Vec<u8> {
    // Number, length and alignment take six bytes.
    let room = ((length + 6).next_multiple_of(ALIGNMENT) - length) as usize;
    let mut field = [0xd935, room as u16 - 4, ALIGNMENT as u16].map(u16::to_le_bytes).concat();
    field.resize(room, 0);
    field
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};
    use zip::ZipArchive;

    /// The files are holes, which take no room on the disk.
    #[test]
    fn files_beyond_four_gigabytes_are_found() {
        let size = 5 << 30;
        let mut file = tempfile::tempfile().unwrap();
        let mut members = Vec::new();
        let mut start = 0;
        for (name, size) in [("a.npy", size), ("b.npy", 3), ("c.npy", u64::from(u32::MAX))] {
            let member = ZipMember { name: name.to_owned(), checksum: 7, size, start };
            let header = member.header(128);
            file.seek(SeekFrom::Start(start)).unwrap();
            file.write_all(&header).unwrap();
            start += header.len() as u64 + size;
            members.push(member);
        }
        file.seek(SeekFrom::Start(start)).unwrap();
        file.write_all(&directory(&members, start)).unwrap();
        let mut archive = ZipArchive::new(file).unwrap();
        assert_eq!(archive.len(), 3);
        for (index, member) in members.iter().enumerate() {
            let found = archive.by_index_raw(index).unwrap();
            assert_eq!((found.name().unwrap().into_owned(), found.size(), found.crc32()), (member.name.clone(), member.size, 7));
            assert_eq!(found.data_start(), Some(member.start + member.header(128).len() as u64));
            assert!((found.data_start().unwrap() + 128).is_multiple_of(64));
        }
    }
}
