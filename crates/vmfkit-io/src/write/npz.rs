//! Writes NumPy's `.npz`: arrays stored in a zip archive, those of sparse rows as scipy's `save_npz` names them.
//!
//! The numbers of the rows come first and go straight to the file, behind a header that is written at their end. The other arrays wait in
//! temporary files.

use crate::Ids;
use crate::error::{Error, Result};
use crate::read::npy::header_bytes;
use crate::write::rows::{Entries, ID, Numbers, ROWS, WEIGHT};
use crate::write::zip::{ZipMember, directory};
use crate::write::{Headed, Sink, Spool, le_bytes};
use flate2::Crc;

/// An archive of rows in the making.
pub(crate) struct NpzWriter {
    file: Headed,
    /// The numbers of rows or of entries.
    values: Array,
    dim: u64,
    rows: u64,
    sparse: Option<Sparse>,
    ids: Option<Waiting>,
    weights: Option<Waiting>,
}

/// What sparse rows have beside the numbers of their entries.
struct Sparse {
    starts: Waiting,
    columns: Waiting,
    /// Columns need eight bytes each.
    wide: bool,
    entries: u64,
}

impl NpzWriter {
    pub(crate) fn new(sink: Sink, dim: usize, double: bool, sparse: bool, ids: bool, weights: bool) -> Result<Self> {
        let dim = dim as u64;
        let values = Array::new(if sparse { "data" } else { ROWS }, if double { "<f8" } else { "<f4" });
        let shape = if sparse { vec![0] } else { vec![0, dim] };
        Ok(NpzWriter {
            file: Headed::new(sink, values.begin(&shape, 0).1.len())?,
            values,
            dim,
            rows: 0,
            sparse: sparse.then(|| Sparse::new(dim)).transpose()?,
            ids: ids.then(|| Waiting::new(ID, "<i8")).transpose()?,
            weights: weights.then(|| Waiting::new(WEIGHT, "<f8")).transpose()?,
        })
    }

    /// Adds rows, or of sparse rows the numbers of their entries.
    pub(crate) fn write(&mut self, rows: usize, numbers: &Numbers, ids: Option<&Ids>, weights: Option<&[f64]>) -> Result<()> {
        let bytes = numbers.to_le_bytes();
        self.values.count(&bytes);
        self.file.write(&bytes)?;
        self.rows += rows as u64;
        if let (Some(waiting), Some(Ids::Integers(ids))) = (&mut self.ids, ids) {
            waiting.write(&le_bytes(ids, i64::to_le_bytes))?;
        }
        if let (Some(waiting), Some(weights)) = (&mut self.weights, weights) {
            waiting.write(&le_bytes(weights, f64::to_le_bytes))?;
        }
        Ok(())
    }

    /// Adds sparse rows.
    pub(crate) fn write_entries(&mut self, rows: &Entries, ids: Option<&Ids>, weights: Option<&[f64]>) -> Result<()> {
        self.sparse.as_mut().expect("the layout is sparse").write(rows)?;
        self.write(rows.starts.len() - 1, &rows.values, ids, weights)
    }

    pub(crate) fn finish(self) -> Result<()> {
        let NpzWriter { file, values, dim, rows, sparse, ids, weights } = self;
        let shape = sparse.as_ref().map_or(vec![rows, dim], |sparse| vec![sparse.entries]);
        let mut archive = Archive::default();
        let header = archive.begin(&values, &shape);
        file.finish(&header, |sink| {
            if let Some(Sparse { starts, columns, entries, .. }) = sparse {
                archive.write(sink, columns, &[entries])?;
                archive.write(sink, starts, &[rows + 1])?;
                archive.write_short(sink, Array::new("shape", "<i8"), &[2], &le_bytes(&[rows, dim], u64::to_le_bytes))?;
                archive.write_short(sink, Array::new("format", "|S3"), &[], b"csr")?;
            }
            for array in [ids, weights].into_iter().flatten() {
                archive.write(sink, array, &[rows])?;
            }
            sink.write_all(&directory(&archive.members, archive.end)).map_err(Error::Write)
        })
    }
}

impl Sparse {
    fn new(dim: u64) -> Result<Self> {
        // Where four bytes do, scipy has no more.
        let wide = i32::try_from(dim).is_err();
        let columns = Waiting::new("indices", if wide { "<i8" } else { "<i4" })?;
        let mut starts = Waiting::new("indptr", "<i8")?;
        starts.write(&[0; 8])?;
        Ok(Sparse { starts, columns, wide, entries: 0 })
    }

    fn write(&mut self, rows: &Entries) -> Result<()> {
        let before = self.entries;
        self.entries += rows.columns.len() as u64;
        self.starts.write(&le_bytes(&rows.starts[1..], |end| (before + end as u64).to_le_bytes()))?;
        self.columns.write(&match self.wide {
            true => le_bytes(&rows.columns, |column| u64::from(column).to_le_bytes()),
            false => le_bytes(&rows.columns, u32::to_le_bytes),
        })
    }
}

/// What is known of an array whose numbers pass by.
struct Array {
    name: &'static str,
    /// NumPy's name of the type.
    descr: &'static str,
    checksum: Crc,
    bytes: u64,
}

impl Array {
    fn new(name: &'static str, descr: &'static str) -> Self {
        Array { name, descr, checksum: Crc::new(), bytes: 0 }
    }

    fn count(&mut self, bytes: &[u8]) {
        self.checksum.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// The array as a file of an archive, and what stands there before its numbers: as many bytes for any number of rows.
    fn begin(&self, shape: &[u64], start: u64) -> (ZipMember, Vec<u8>) {
        let header = header_bytes(self.descr, shape);
        let mut checksum = Crc::new();
        checksum.update(&header);
        checksum.combine(&self.checksum);
        let size = header.len() as u64 + self.bytes;
        let member = ZipMember { name: format!("{}.npy", self.name), checksum: checksum.sum(), size, start };
        let header = [member.header(header.len()), header].concat();
        (member, header)
    }
}

/// An array that waits for those before it.
struct Waiting {
    array: Array,
    spool: Spool,
}

impl Waiting {
    fn new(name: &'static str, descr: &'static str) -> Result<Self> {
        let spool = Spool::new("arrays of an .npz file wait", "name a larger folder by TMPDIR")?;
        Ok(Waiting { array: Array::new(name, descr), spool })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.array.count(bytes);
        self.spool.write(bytes)
    }
}

/// The arrays that are written.
#[derive(Default)]
struct Archive {
    members: Vec<ZipMember>,
    /// Where the next one begins.
    end: u64,
}

impl Archive {
    /// What stands before the numbers of the next array.
    fn begin(&mut self, array: &Array, shape: &[u64]) -> Vec<u8> {
        let (member, header) = array.begin(shape, self.end);
        self.end += header.len() as u64 + array.bytes;
        self.members.push(member);
        header
    }

    fn write(&mut self, sink: &mut Sink, Waiting { array, spool }: Waiting, shape: &[u64]) -> Result<()> {
        sink.write_all(&self.begin(&array, shape)).map_err(Error::Write)?;
        spool.copy_to(sink)
    }

    fn write_short(&mut self, sink: &mut Sink, mut array: Array, shape: &[u64], bytes: &[u8]) -> Result<()> {
        array.count(bytes);
        sink.write_all(&self.begin(&array, shape)).map_err(Error::Write)?;
        sink.write_all(bytes).map_err(Error::Write)
    }
}
