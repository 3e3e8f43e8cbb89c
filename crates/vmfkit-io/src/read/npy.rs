//! NumPy's `.npy` files: arrays of floats or integers in either byte order and either memory order.

use crate::Options;
use crate::bytes::{ByteReader, ByteSource};
use crate::read::array::ArrayRows;
use crate::read::numbers::{ArrayBytes, Encoding};
use std::io::Read;
use vmfkit::rows::Rows;

pub use crate::npy_header::{Element, Error, Header, Integer, MAGIC};

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// The rows of an array whose header comes first in these bytes. It must have two axes, or one
/// axis if a row is one number.
pub(crate) fn rows(mut bytes: ArrayBytes, length: Option<u64>, one_number: bool) -> crate::Result<ArrayRows> {
    let (header, data_start) = Header::read(&mut bytes, length)?;
    let (rows, dim) = match header.shape[..] {
        [rows, dim] => (rows, dim),
        [rows] if one_number => (rows, 1),
        _ => {
            return Err(crate::Error::format(format!(
                "the array must have two axes, rows and coordinates, found shape: `{}`",
                header.shape_text()
            )));
        }
    };
    bytes.begin_after(data_start);
    ArrayRows::new(bytes, Encoding::from(&header), header.fortran_order, rows as u64, dim)
}

/// Streams the rows of a file.
pub(crate) fn open(source: ByteSource, options: &Options) -> crate::Result<ArrayRows> {
    let length = source.len();
    rows(ArrayBytes::new(ByteReader::new(source, 0)), Some(length), options.one_angle())
}

/// A file whose header has been read and checked, to be read as a whole.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    header: Header,
}

impl<R: Read> Reader<R> {
    /// Reads the header of an input of `length` bytes.
    pub fn new(mut input: R, length: u64) -> Result<Self, Error> {
        let (header, _) = Header::read(&mut input, Some(length))?;
        Ok(Reader { input, header })
    }

    /// The header of the file.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Reads the data, widening half precision and integers. An array of two axes in Fortran order
    /// is transposed.
    pub fn into_rows(self) -> Result<Rows<'static>, Error> {
        let encoding = Encoding::from(&self.header);
        let mut values = Rows::default();
        encoding.start(&mut values);
        let header = self.read(|bytes| encoding.append(bytes, &mut values))?;
        Ok(match values {
            Rows::F32(values) => Rows::F32(in_c_order(&header, values.into_owned()).into()),
            Rows::F64(values) => Rows::F64(in_c_order(&header, values.into_owned()).into()),
            sparse => sparse,
        })
    }

    /// Reads the data as labels: equal numbers stay equal, and different numbers stay different.
    pub fn into_labels(self) -> Result<Vec<i64>, Error> {
        if let Element::Integer(integer) = self.header.element {
            let encoding = Encoding::from(&self.header);
            let mut labels = Vec::new();
            // Values of u64 beyond i64 become negative, which keeps them different from all others.
            let header = self.read(|bytes| encoding.append_integers(integer, bytes, &mut labels, |n| n as i64))?;
            return Ok(in_c_order(&header, labels));
        }
        let label = |(row, value): (usize, f64)| {
            let whole = value.fract() == 0.0 && value.abs() < 2f64.powi(63);
            if whole { Ok(value as i64) } else { Err(Error::Label { row, value }) }
        };
        self.into_rows()?.into_f64().into_iter().enumerate().map(label).collect()
    }

    fn read(mut self, mut append: impl FnMut(&[u8])) -> Result<Header, Error> {
        let mut left = self.header.data_length().expect("the header was checked");
        let mut chunk = vec![0; CHUNK.min(left as usize)];
        while left > 0 {
            let bytes = &mut chunk[..(CHUNK as u64).min(left) as usize];
            self.input.read_exact(bytes)?;
            append(bytes);
            left -= bytes.len() as u64;
        }
        Ok(self.header)
    }
}

/// Transposes a table that is stored column by column.
fn in_c_order<T: Copy>(header: &Header, values: Vec<T>) -> Vec<T> {
    match header.shape[..] {
        [rows, columns] if header.fortran_order => {
            (0..rows).flat_map(|row| (0..columns).map(move |column| column * rows + row)).map(|at| values[at]).collect()
        }
        _ => values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_survives_a_round_trip_and_is_aligned() {
        let header = Header { element: Element::F32, big_endian: false, fortran_order: false, shape: vec![12, 3] };
        let mut bytes = header.to_bytes();
        assert_eq!(bytes.len() % 64, 0);
        bytes.extend([0; 12 * 3 * 4]);
        assert_eq!(Reader::new(&bytes[..], bytes.len() as u64).unwrap().header(), &header);
    }
}
