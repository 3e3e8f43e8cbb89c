//! NumPy's `.npy` files, versions 1.0 to 3.0: arrays of floats or integers in either byte order and either memory order.
//!
//! The header's claims are checked against the length of the input before anything is allocated for them.

use crate::excerpt::excerpt;
use std::io::{self, Read};

/// What every `.npy` file begins with; two bytes of version follow.
pub const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Longer headers describe structured arrays, which are not read here.
const LONGEST_HEADER: u64 = 1 << 16;

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system could not read it.
    #[error("cannot be read")]
    Io(#[from] io::Error),
    /// Another kind of file.
    #[error("a .npy file begins with `{}`, found: `{}`", MAGIC.escape_ascii(), found.escape_ascii())]
    Magic {
        /// Its first bytes.
        found: Vec<u8>,
    },
    /// A version of the format that does not exist yet.
    #[error("the version of a .npy file must be 1.0, 2.0 or 3.0, found: `{major}.{minor}`")]
    Version {
        /// Before the point.
        major: u8,
        /// After it.
        minor: u8,
    },
    /// The file ends within the header.
    #[error("the header must end within the file, at byte {end}, but the file's length is: `{length}`")]
    HeaderCut {
        /// Where the header should end.
        end: u64,
        /// Where the file ends.
        length: u64,
    },
    /// No table of numbers has such a header.
    #[error("the header must be no longer than {LONGEST_HEADER} bytes, found: `{length}`")]
    HeaderTooLong {
        /// Its length.
        length: u64,
    },
    /// The header is not a Python dictionary with the three keys.
    #[error("the header must name descr, fortran_order and shape, found: `{text}`")]
    Header {
        /// The header.
        text: String,
    },
    /// Complex numbers, text, objects, structures and so on.
    #[error("the numbers must be f2 to f8, i1 to i8, u1 to u8 or b1, found: `{descr}`\nhint: save `x.astype('float32')`")]
    ElementType {
        /// NumPy's description of the type.
        descr: String,
    },
    /// The number of bytes does not fit in 64 bits.
    #[error("the array is larger than any file, found shape: `{shape}`")]
    ShapeOverflow {
        /// The shape as the header has it.
        shape: String,
    },
    /// A number that names no group.
    #[error("label {row} must be a whole number of 64 bits, found: `{value}`")]
    Label {
        /// Counted from 0.
        row: usize,
        /// The number.
        value: f64,
    },
    /// Cut short, or with something behind the data.
    #[error("an array of shape {shape} has {expected} bytes of data, found: `{found}`")]
    DataLength {
        /// The shape as NumPy prints it.
        shape: String,
        /// The bytes that the shape asks for.
        expected: u64,
        /// The bytes behind the header.
        found: u64,
    },
}

/// How a number is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// Half precision.
    F16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// A whole number.
    Integer(Integer),
}

/// How a whole number is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integer {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
}

impl Element {
    /// NumPy's codes; truth values are bytes of 0 and 1, and go by `u1` when written.
    const CODES: [(&'static str, Self); 12] = [
        ("f2", Element::F16),
        ("f4", Element::F32),
        ("f8", Element::F64),
        ("i1", Element::Integer(Integer::I8)),
        ("i2", Element::Integer(Integer::I16)),
        ("i4", Element::Integer(Integer::I32)),
        ("i8", Element::Integer(Integer::I64)),
        ("u1", Element::Integer(Integer::U8)),
        ("u2", Element::Integer(Integer::U16)),
        ("u4", Element::Integer(Integer::U32)),
        ("u8", Element::Integer(Integer::U64)),
        ("b1", Element::Integer(Integer::U8)),
    ];

    fn code(self) -> &'static str {
        Self::CODES.iter().find(|(_, element)| *element == self).expect("every element has a code").0
    }

    /// Bytes a number.
    pub fn size(self) -> u64 {
        match self {
            Element::Integer(Integer::I8 | Integer::U8) => 1,
            Element::F16 | Element::Integer(Integer::I16 | Integer::U16) => 2,
            Element::F32 | Element::Integer(Integer::I32 | Integer::U32) => 4,
            Element::F64 | Element::Integer(Integer::I64 | Integer::U64) => 8,
        }
    }
}

/// What a file says about its array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// How a number is stored.
    pub element: Element,
    /// The most significant byte comes first.
    pub big_endian: bool,
    /// The first index runs fastest.
    pub fortran_order: bool,
    /// The length of each axis.
    pub shape: Vec<usize>,
}

impl Header {
    /// The shape as NumPy prints it.
    pub fn shape_text(&self) -> String {
        shape_text(&self.shape)
    }

    /// Bytes of data, if they can be counted.
    fn data_length(&self) -> Option<u64> {
        self.shape.iter().try_fold(self.element.size(), |bytes, &n| bytes.checked_mul(n as u64))
    }

    /// The bytes that stand before the data of a little-endian array in C order.
    pub fn to_bytes(&self) -> Vec<u8> {
        let descr = self.element.code();
        let mut text = format!("{{'descr': '<{descr}', 'fortran_order': False, 'shape': {}, }}", self.shape_text());
        // Data starts at a multiple of 64 bytes: 10 bytes stand before the text, and it ends with a line break.
        let length = (text.len() + 11).next_multiple_of(64) - 10;
        text.push_str(&" ".repeat(length - text.len() - 1));
        text.push('\n');
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend(u16::try_from(length).expect("a shape of two axes is short").to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes
    }
}

fn shape_text(shape: &[usize]) -> String {
    match shape {
        [n] => format!("({n},)"),
        _ => format!("({})", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// The numbers of an array in C order; half precision and integers are widened.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Single precision, or half precision widened.
    F32(Vec<f32>),
    /// Double precision, or integers.
    F64(Vec<f64>),
}

impl Values {
    /// All of them in double precision.
    pub fn into_f64(self) -> Vec<f64> {
        match self {
            Values::F32(values) => values.into_iter().map(f64::from).collect(),
            Values::F64(values) => values,
        }
    }
}

/// A file of which the header has been read and checked.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    header: Header,
}

impl<R: Read> Reader<R> {
    /// Reads the header of an input that is `length` bytes long.
    pub fn new(mut input: R, length: u64) -> Result<Self, Error> {
        let mut start = Vec::new();
        input.by_ref().take(8).read_to_end(&mut start)?;
        if !start.starts_with(MAGIC) {
            return Err(Error::Magic { found: start });
        }
        let width: u64 = match start[MAGIC.len()..] {
            [1, 0] => 2,
            [2 | 3, 0] => 4,
            [major, minor] => return Err(Error::Version { major, minor }),
            _ => return Err(Error::HeaderCut { end: 10, length }),
        };
        if length < 8 + width {
            return Err(Error::HeaderCut { end: 8 + width, length });
        }
        let mut counted = [0; 4];
        input.read_exact(&mut counted[..width as usize])?;
        let header_length = u64::from(u32::from_le_bytes(counted));
        let data_start = 8 + width + header_length;
        if data_start > length {
            return Err(Error::HeaderCut { end: data_start, length });
        }
        if header_length > LONGEST_HEADER {
            return Err(Error::HeaderTooLong { length: header_length });
        }
        let mut text = vec![0; header_length as usize];
        input.read_exact(&mut text)?;
        let header = parse_header(&String::from_utf8_lossy(&text))?;
        let shape = header.shape_text();
        let Some(expected) = header.data_length() else {
            return Err(Error::ShapeOverflow { shape });
        };
        let found = length - data_start;
        if found != expected {
            return Err(Error::DataLength { shape, expected, found });
        }
        Ok(Reader { input, header })
    }

    /// What the file says about its array.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Reads the data. An array of two axes in Fortran order is transposed.
    pub fn into_values(self) -> Result<Values, Error> {
        Ok(match self.header.element {
            Element::F16 => Values::F32(self.decode(|bytes| widen(u16::from_le_bytes(bytes)))?),
            Element::F32 => Values::F32(self.decode(f32::from_le_bytes)?),
            Element::F64 => Values::F64(self.decode(f64::from_le_bytes)?),
            Element::Integer(integer) => Values::F64(self.decode_integers(integer, |n| n as f64)?),
        })
    }

    /// Reads the data as the names of groups: equal numbers stay equal, and others stay different.
    pub fn into_labels(self) -> Result<Vec<i64>, Error> {
        if let Element::Integer(integer) = self.header.element {
            // The upper half of u64 becomes negative, which still tells its numbers from all others.
            return self.decode_integers(integer, |n| n as i64);
        }
        let label = |(row, value): (usize, f64)| {
            let whole = value.fract() == 0.0 && value.abs() < 2f64.powi(63);
            if whole { Ok(value as i64) } else { Err(Error::Label { row, value }) }
        };
        self.into_values()?.into_f64().into_iter().enumerate().map(label).collect()
    }

    fn decode_integers<T: Copy>(self, integer: Integer, convert: impl Fn(i128) -> T) -> Result<Vec<T>, Error> {
        match integer {
            Integer::I8 => self.decode(|bytes| convert(i8::from_le_bytes(bytes).into())),
            Integer::I16 => self.decode(|bytes| convert(i16::from_le_bytes(bytes).into())),
            Integer::I32 => self.decode(|bytes| convert(i32::from_le_bytes(bytes).into())),
            Integer::I64 => self.decode(|bytes| convert(i64::from_le_bytes(bytes).into())),
            Integer::U8 => self.decode(|bytes| convert(u8::from_le_bytes(bytes).into())),
            Integer::U16 => self.decode(|bytes| convert(u16::from_le_bytes(bytes).into())),
            Integer::U32 => self.decode(|bytes| convert(u32::from_le_bytes(bytes).into())),
            Integer::U64 => self.decode(|bytes| convert(u64::from_le_bytes(bytes).into())),
        }
    }

    /// Reads the data in C order, from the bytes of each number with the least significant first.
    fn decode<T: Copy, const WIDTH: usize>(self, number: impl Fn([u8; WIDTH]) -> T) -> Result<Vec<T>, Error> {
        let Reader { mut input, header } = self;
        let count = header.shape.iter().product();
        let mut values = Vec::with_capacity(count);
        let mut chunk = vec![0; CHUNK.min(count * WIDTH)];
        while values.len() < count {
            let bytes = &mut chunk[..CHUNK.min((count - values.len()) * WIDTH)];
            input.read_exact(bytes)?;
            values.extend(bytes.chunks_exact(WIDTH).map(|bytes| {
                let mut bytes: [u8; WIDTH] = bytes.try_into().expect("chunks of this width");
                if header.big_endian {
                    bytes.reverse();
                }
                number(bytes)
            }));
        }
        Ok(match header.shape[..] {
            [rows, columns] if header.fortran_order => transposed(rows, columns, &values),
            _ => values,
        })
    }
}

/// The half-precision number with these bits; f32 holds every one of them.
fn widen(bits: u16) -> f32 {
    let (exponent, fraction) = (u32::from(bits >> 10 & 31), u32::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction as f32 / 16_777_216.0,
        31 => f32::from_bits(0x7f80_0000 | fraction << 13),
        // The bias of the exponent is 15 here and 127 there.
        _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

/// The rows of a table that is stored column by column.
fn transposed<T: Copy>(rows: usize, columns: usize, values: &[T]) -> Vec<T> {
    (0..rows).flat_map(|row| (0..columns).map(move |column| values[column * rows + row])).collect()
}

fn parse_header(text: &str) -> Result<Header, Error> {
    let fail = || Error::Header { text: excerpt(text.trim_end().as_bytes()) };
    let mut literal = Literal { rest: text };
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    literal.expect("{").ok_or_else(fail)?;
    while literal.expect("}").is_none() {
        let key = literal.string().ok_or_else(fail)?;
        literal.expect(":").ok_or_else(fail)?;
        match key {
            // A structured type is a list, not a string.
            "descr" => match literal.string() {
                Some(name) => descr = Some(name),
                None => {
                    let list = literal.rest.trim_start().split_inclusive(']').next().unwrap_or_default();
                    return Err(Error::ElementType { descr: excerpt(list.as_bytes()) });
                }
            },
            "fortran_order" => {
                fortran_order = Some(literal.expect("True").is_some());
                if fortran_order == Some(false) {
                    literal.expect("False").ok_or_else(fail)?;
                }
            }
            "shape" => {
                let digits = literal.tuple().ok_or_else(fail)?;
                let axes: Result<Vec<usize>, _> = digits.iter().map(|n| n.parse()).collect();
                shape = Some(
                    axes.map_err(|_| Error::ShapeOverflow { shape: excerpt(format!("({})", digits.join(", ")).as_bytes()) })?,
                );
            }
            _ => return Err(fail()),
        }
        if literal.expect(",").is_none() && !literal.rest.trim_start().starts_with('}') {
            return Err(fail());
        }
    }
    let (Some(descr), Some(fortran_order), Some(shape), "") = (descr, fortran_order, shape, literal.rest.trim()) else {
        return Err(fail());
    };
    let (element, big_endian) = element(descr).ok_or_else(|| Error::ElementType { descr: excerpt(descr.as_bytes()) })?;
    Ok(Header { element, big_endian, fortran_order, shape })
}

/// `<f4` and the like; `=` is the byte order of this machine, and single bytes, `|`, have none.
fn element(descr: &str) -> Option<(Element, bool)> {
    let big_endian = match descr.get(..1)? {
        "<" => false,
        ">" => true,
        "=" => cfg!(target_endian = "big"),
        "|" if descr.ends_with('1') => false,
        _ => return None,
    };
    let (_, element) = Element::CODES.into_iter().find(|(code, _)| *code == &descr[1..])?;
    Some((element, big_endian))
}

/// The few Python literals that a header is made of.
struct Literal<'a> {
    rest: &'a str,
}

impl<'a> Literal<'a> {
    /// Passes over blanks and `token`, or over nothing.
    fn expect(&mut self, token: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(token)?;
        Some(())
    }

    fn string(&mut self) -> Option<&'a str> {
        let text = self.rest.trim_start();
        let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let (inside, rest) = text[1..].split_once(quote)?;
        self.rest = rest;
        Some(inside)
    }

    /// The digits of each number of a tuple; Python 2 wrote `3L`.
    fn tuple(&mut self) -> Option<Vec<&'a str>> {
        let (inside, rest) = self.rest.trim_start().strip_prefix('(')?.split_once(')')?;
        self.rest = rest;
        let mut numbers: Vec<&str> = inside.split(',').map(|n| n.trim().trim_end_matches('L')).collect();
        if numbers.last() == Some(&"") {
            numbers.pop();
        }
        numbers.iter().all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())).then_some(numbers)
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

    #[test]
    fn the_last_digit_of_a_code_is_the_size() {
        for (code, element) in Element::CODES {
            assert_eq!(element.size().to_string(), code[1..], "{code}");
        }
    }

    #[test]
    fn half_precision_is_widened_exactly() {
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
        for (bits, value) in cases {
            assert_eq!(widen(bits), value, "{bits:#06x}");
        }
        assert!(widen(0x7e00).is_nan());
    }

    #[test]
    fn headers_in_other_spellings_are_read() {
        for text in [
            "{'shape': (2L, 3L), 'fortran_order': True, 'descr': '>f8'}",
            "{ \"descr\" : \">f8\" ,'fortran_order':True,'shape':(2,3,),} \n",
        ] {
            let header = parse_header(text).unwrap();
            assert_eq!(header, Header { element: Element::F64, big_endian: true, fortran_order: true, shape: vec![2, 3] });
        }
    }

    #[test]
    fn broken_headers_are_refused() {
        for text in [
            "",
            "{",
            "{}",
            "{'descr': '<f4', 'fortran_order': False}",
            "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1, 2)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 2)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)} x",
            "{'descr': '<f4' 'fortran_order': False, 'shape': (1, 2)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), 'more': 1}",
        ] {
            assert!(matches!(parse_header(text), Err(Error::Header { .. })), "{text}");
        }
        for descr in ["'<i3'", "'|i8'", "'<U1'", "'|O'", "'<c16'", "'f4'", "''", "'\u{e9}f4'", "[('x', '<f4')]"] {
            let text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (1, 2)}}");
            assert!(matches!(parse_header(&text), Err(Error::ElementType { .. })), "{text}");
        }
    }
}
