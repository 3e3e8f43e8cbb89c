//! The header of NumPy's `.npy` files, versions 1.0 to 3.0.
//!
//! Its claims are checked against the length of the input before anything is allocated for them.

use crate::excerpt::excerpt;
use std::io::{self, Read};

/// The first bytes of every `.npy` file. Two bytes of version follow.
pub const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Longer headers describe structured arrays, which are not supported.
const LONGEST_HEADER: u64 = 1 << 16;

/// Why an `.npy` file is not valid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading failed.
    #[error("cannot be read")]
    Io(#[from] io::Error),
    /// It is another kind of file.
    #[error("a .npy file begins with `{}`, found: `{}`", MAGIC.escape_ascii(), found.escape_ascii())]
    Magic {
        /// Its first bytes.
        found: Vec<u8>,
    },
    /// The version of the format is unknown.
    #[error("the version of a .npy file must be 1.0, 2.0 or 3.0, found: `{major}.{minor}`")]
    Version {
        /// Major version.
        major: u8,
        /// Minor version.
        minor: u8,
    },
    /// The file ends within the header.
    #[error("the header must end within the file, at byte {end}, but the file's length is: `{length}`")]
    HeaderCut {
        /// Where the header ends according to its length.
        end: u64,
        /// Length of the file.
        length: u64,
    },
    /// The header is too long for an array of numbers.
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
    /// The type is not supported: complex numbers, strings, objects, structures and so on.
    #[error("the numbers must be f2 to f8, i1 to i8, u1 to u8 or b1, found: `{descr}`\nhint: save `x.astype('float32')`")]
    ElementType {
        /// NumPy's description of the type.
        descr: String,
    },
    /// The size in bytes does not fit in 64 bits.
    #[error("the array is larger than any file, found shape: `{shape}`")]
    ShapeOverflow {
        /// The shape in the header.
        shape: String,
    },
    /// A label is not an integer.
    #[error("label {row} must be a 64-bit integer, found: `{value}`")]
    Label {
        /// Its position, from 0.
        row: usize,
        /// The value found.
        value: f64,
    },
    /// The file is truncated, or has bytes after the data.
    #[error("an array of shape {shape} has {expected} bytes of data, found: `{found}`")]
    DataLength {
        /// The shape as NumPy prints it.
        shape: String,
        /// The number of bytes by the shape.
        expected: u64,
        /// The number of bytes after the header.
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
    /// Integer.
    Integer(Integer),
}

/// How an integer is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
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

impl Integer {
    /// Bytes per number.
    pub fn size(self) -> usize {
        match self {
            Integer::I8 | Integer::U8 => 1,
            Integer::I16 | Integer::U16 => 2,
            Integer::I32 | Integer::U32 => 4,
            Integer::I64 | Integer::U64 => 8,
        }
    }
}

impl Element {
    /// NumPy's type codes. Booleans are bytes of 0 and 1; they are written as `u1`.
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

    /// Bytes per number.
    pub fn size(self) -> u64 {
        match self {
            Element::F16 => 2,
            Element::F32 => 4,
            Element::F64 => 8,
            Element::Integer(integer) => integer.size() as u64,
        }
    }
}

/// The description of an array at the beginning of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// How a number is stored.
    pub element: Element,
    /// Whether the most significant byte comes first.
    pub big_endian: bool,
    /// Whether the first index varies fastest.
    pub fortran_order: bool,
    /// The length of each axis.
    pub shape: Vec<usize>,
}

impl Header {
    /// The shape as NumPy prints it.
    pub fn shape_text(&self) -> String {
        shape_text(&self.shape)
    }

    /// Size of the data in bytes; `None` on overflow.
    pub(crate) fn data_length(&self) -> Option<u64> {
        self.shape.iter().try_fold(self.element.size(), |bytes, &n| bytes.checked_mul(n as u64))
    }

    /// The bytes before the data of a little-endian array in C order.
    pub fn to_bytes(&self) -> Vec<u8> {
        header_bytes(&format!("<{}", self.element.code()), &self.shape)
    }
}

/// The bytes before such data, whose type NumPy calls `descr`.
pub(crate) fn header_bytes<N: ToString>(descr: &str, shape: &[N]) -> Vec<u8> {
    header_of(&format!("'{descr}'"), shape)
}

/// The header of a structured array with these fields, each with a name and a type.
pub(crate) fn structured_header_bytes<N: ToString>(fields: &[(String, &str)], shape: &[N]) -> Vec<u8> {
    let fields: Vec<String> = fields.iter().map(|(name, descr)| format!("('{name}', '{descr}')")).collect();
    header_of(&format!("[{}]", fields.join(", ")), shape)
}

fn header_of<N: ToString>(descr: &str, shape: &[N]) -> Vec<u8> {
    let mut text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {}, }}", shape_text(shape));
    // Data begin at a multiple of 64 bytes. The text is preceded by 10 bytes, or by 12 if it is
    // long, and ends with a line break.
    let length_before = |before: usize| (text.len() + before + 1).next_multiple_of(64) - before;
    let (length, mut bytes) = (length_before(10), MAGIC.to_vec());
    let length = match u16::try_from(length) {
        Ok(short) => {
            bytes.extend([1, 0]);
            bytes.extend(short.to_le_bytes());
            length
        }
        Err(_) => {
            let length = length_before(12);
            bytes.extend([2, 0]);
            bytes.extend(u32::try_from(length).expect("the names of columns are short").to_le_bytes());
            length
        }
    };
    text.push_str(&" ".repeat(length - text.len() - 1));
    text.push('\n');
    bytes.extend(text.as_bytes());
    bytes
}

fn shape_text<N: ToString>(shape: &[N]) -> String {
    match shape {
        [n] => format!("({},)", n.to_string()),
        _ => format!("({})", shape.iter().map(N::to_string).collect::<Vec<_>>().join(", ")),
    }
}

impl Header {
    /// Reads a header and returns it with its length. If the length of the input is given, the
    /// shape must account for every byte.
    pub(crate) fn read(input: &mut impl Read, length: Option<u64>) -> Result<(Self, u64), Error> {
        let mut start = Vec::new();
        input.by_ref().take(8).read_to_end(&mut start)?;
        if !start.starts_with(MAGIC) {
            return Err(Error::Magic { found: start });
        }
        let cut = |end: u64, read: usize| Error::HeaderCut { end, length: length.unwrap_or(read as u64) };
        let width: u64 = match start[MAGIC.len()..] {
            [1, 0] => 2,
            [2 | 3, 0] => 4,
            [major, minor] => return Err(Error::Version { major, minor }),
            _ => return Err(cut(10, start.len())),
        };
        if input.by_ref().take(width).read_to_end(&mut start)? < width as usize {
            return Err(cut(8 + width, start.len()));
        }
        let mut counted = [0; 4];
        counted[..width as usize].copy_from_slice(&start[8..]);
        let header_length = u64::from(u32::from_le_bytes(counted));
        let data_start = 8 + width + header_length;
        if length.is_some_and(|length| data_start > length) {
            return Err(cut(data_start, 0));
        }
        if header_length > LONGEST_HEADER {
            return Err(Error::HeaderTooLong { length: header_length });
        }
        let mut text = Vec::new();
        if input.by_ref().take(header_length).read_to_end(&mut text)? < header_length as usize {
            return Err(cut(data_start, start.len() + text.len()));
        }
        let header = parse_header(&String::from_utf8_lossy(&text))?;
        let shape = header.shape_text();
        let Some(expected) = header.data_length() else {
            return Err(Error::ShapeOverflow { shape });
        };
        match length.map(|length| length - data_start) {
            Some(found) if found != expected => Err(Error::DataLength { shape, expected, found }),
            _ => Ok((header, data_start)),
        }
    }
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
            // The type of a structured array is a list, not a string.
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

/// Type codes such as `<f4`. `=` means native byte order, and `|` none, for single bytes.
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

/// A parser of the few Python literals that occur in a header.
struct Literal<'a> {
    rest: &'a str,
}

impl<'a> Literal<'a> {
    /// Skips blanks and `token`, or nothing if `token` does not follow.
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

    /// The digits of each number of a tuple. Python 2 wrote `3L`.
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
    fn the_last_digit_of_a_code_is_the_size() {
        for (code, element) in Element::CODES {
            assert_eq!(element.size().to_string(), code[1..], "{code}");
        }
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
