//! Files of named f64 arrays and texts in the format
//! [safetensors](https://github.com/huggingface/safetensors), read as untrusted input.
//!
//! Entries are written in the order of their names, so that equal contents are equal bytes. (The
//! crate safetensors writes metadata in random order, so it is used for reading only.)
//!
//! The metadata entry `checksum` is the 64-bit XXH3 of the whole file with the sixteen digits of
//! the checksum set to zeros. Every file of the current version has one. Files of the previous
//! version are read without one, but are checked if they have one, so that a damaged version digit
//! does not hide other damage.

use crate::density::VonMisesFisher;
use crate::error::{Error, Result};
use crate::mixture::Mixture;
use crate::settings::digits;
use crate::stats::ComponentSum;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::hash::Hasher;
use twox_hash::XxHash3_64;

/// Bytes of the length of the header, which precedes it.
const LENGTH: usize = size_of::<u64>();
/// Bytes of a number.
const NUMBER: usize = size_of::<f64>();
/// The longest header that readers of safetensors accept.
pub const LONGEST_HEADER: usize = 100_000_000;

/// The metadata entry of the checksum, and its value while the checksum is computed.
const CHECKSUM: &str = "checksum";
const NO_CHECKSUM: &str = "0000000000000000";

/// A kind of file.
pub(crate) struct Kind {
    pub format: &'static str,
    /// The version that is written.
    pub version: &'static str,
    /// The previous version, if it is still read. It had no checksum.
    pub unchecked: Option<&'static str>,
}

/// The contents of a file to be written.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub texts: BTreeMap<String, String>,
    pub tensors: BTreeMap<String, (Vec<usize>, Vec<f64>)>,
}

impl Contents {
    pub fn new(kind: &Kind) -> Self {
        let mut contents = Self::default();
        contents.text("format", kind.format);
        contents.text("version", kind.version);
        contents.text(CHECKSUM, NO_CHECKSUM);
        contents
    }

    pub fn text(&mut self, key: impl Into<String>, text: impl Into<String>) {
        self.texts.insert(key.into(), text.into());
    }

    pub fn numbers(&mut self, name: impl Into<String>, shape: Vec<usize>, values: Vec<f64>) {
        debug_assert_eq!(shape.iter().product::<usize>(), values.len());
        self.tensors.insert(name.into(), (shape, values));
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut header = Map::new();
        let texts: Map<String, Value> = self.texts.iter().map(|(key, text)| (key.clone(), text.clone().into())).collect();
        header.insert("__metadata__".to_owned(), texts.into());
        let mut end = 0;
        for (name, (shape, values)) in &self.tensors {
            let from = end;
            end += NUMBER * values.len();
            header.insert(name.clone(), json!({ "data_offsets": [from, end], "dtype": "F64", "shape": shape }));
        }
        let mut header = Value::from(header).to_string();
        // Align the data to 8 bytes.
        header.push_str(&" ".repeat(header.len().next_multiple_of(NUMBER) - header.len()));
        let mut bytes = Vec::with_capacity(LENGTH + header.len() + end);
        bytes.extend((header.len() as u64).to_le_bytes());
        bytes.extend(header.as_bytes());
        for (_, values) in self.tensors.values() {
            bytes.extend(values.iter().flat_map(|x| x.to_le_bytes()));
        }
        let at = checksum_position(&bytes[..LENGTH + header.len()], NO_CHECKSUM).expect("`new` put it there");
        let checksum = digits(XxHash3_64::oneshot(&bytes));
        bytes[at..at + checksum.len()].copy_from_slice(checksum.as_bytes());
        bytes
    }
}

/// Where the digits of a checksum begin. Quotes within JSON strings are escaped, so nothing else
/// looks like it.
fn checksum_position(header: &[u8], checksum: &str) -> Option<usize> {
    let entry = format!("\"{CHECKSUM}\":\"{checksum}\"");
    let start = header.windows(entry.len()).position(|window| window == entry.as_bytes())?;
    Some(start + entry.len() - 1 - checksum.len())
}

/// A file whose header claims no more than its bytes.
pub(crate) struct File<'a> {
    header: Metadata,
    data: &'a [u8],
    wrong: fn(String) -> Error,
}

impl<'a> File<'a> {
    /// Opens bytes of this kind; `wrong` makes the errors.
    pub fn open(bytes: &'a [u8], kind: &Kind, wrong: fn(String) -> Error) -> Result<Self> {
        let Some((length, rest)) = bytes.split_first_chunk::<LENGTH>() else {
            return Err(wrong(format!("a safetensors file has more than {LENGTH} bytes, found: `{}`", bytes.len())));
        };
        let length = u64::from_le_bytes(*length);
        let Some((header, data)) = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length)) else {
            let found = bytes.len();
            return Err(wrong(format!("a header of {length} bytes must end within the file, whose length is: `{found}`")));
        };
        // The parsed header takes several times its length in memory.
        if header.len() > LONGEST_HEADER {
            return Err(wrong(format!("a header must have at most {LONGEST_HEADER} bytes, found: `{length}`")));
        }
        // Not `SafeTensors::deserialize`: it adds up the lengths that a header claims, which may
        // overflow.
        let header: Metadata = serde_json::from_slice(header)
            .map_err(|error| wrong(format!("its header is not a safetensors header: {}", excerpt(&error.to_string()))))?;
        if header.data_len() != data.len() {
            let (claimed, found) = (header.data_len(), data.len());
            return Err(wrong(format!("the header claims {claimed} bytes of data, found: `{found}`")));
        }
        let file = File { header, data, wrong };
        let Kind { format, version, unchecked } = kind;
        let (found_format, found_version, checksum) = (file.text("format"), file.text("version"), file.text(CHECKSUM));
        if found_format != *format {
            return file.wrong(format!("metadata `format` must be {format}, found: `{}`", excerpt(found_format)));
        }
        if found_version != *version && Some(found_version) != *unchecked {
            let versions = unchecked.map_or(version.to_string(), |unchecked| format!("{version} or {unchecked}"));
            return file.wrong(format!("the version must be {versions}, found: `{}`", excerpt(found_version)));
        }
        if found_version == *version || !checksum.is_empty() {
            file.check(bytes, checksum)?;
        }
        Ok(file)
    }

    /// Compares the checksum of the metadata with that of the bytes.
    fn check(&self, bytes: &[u8], expected: &str) -> Result<()> {
        let header = &bytes[..bytes.len() - self.data.len()];
        let position = (expected.len() == NO_CHECKSUM.len()).then(|| checksum_position(header, expected)).flatten();
        let Some(at) = position else {
            return self.wrong(format!("metadata `{CHECKSUM}` must be sixteen digits, found: `{}`", excerpt(expected)));
        };
        let mut hasher = XxHash3_64::new();
        hasher.write(&bytes[..at]);
        hasher.write(NO_CHECKSUM.as_bytes());
        hasher.write(&bytes[at + NO_CHECKSUM.len()..]);
        let found = digits(hasher.finish());
        if found != expected {
            return self.wrong(format!("the file is damaged: its checksum must be {}, found: `{found}`", excerpt(expected)));
        }
        Ok(())
    }

    /// An error about the contents.
    pub fn wrong<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(self.error(what))
    }

    /// The error that says what is wrong with the bytes.
    pub fn error(&self, what: impl Into<String>) -> Error {
        (self.wrong)(what.into())
    }

    /// The metadata entry of this key, empty if there is none.
    pub fn text(&self, key: &str) -> &str {
        self.header.metadata().as_ref().and_then(|metadata| metadata.get(key)).map_or("", String::as_str)
    }

    /// All metadata.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.header.metadata().iter().flatten().map(|(key, text)| (key.as_str(), text.as_str()))
    }

    /// A number in the metadata; the default if there is none.
    pub fn parsed<T: std::str::FromStr + Default>(&self, key: &str) -> Result<T> {
        match self.text(key) {
            "" => Ok(T::default()),
            text => {
                text.parse().or_else(|_| self.wrong(format!("metadata `{key}` must be a number, found: `{}`", excerpt(text))))
            }
        }
    }

    /// True or false, false without either.
    pub fn flag(&self, key: &str) -> Result<bool> {
        match self.text(key) {
            "" | "false" => Ok(false),
            "true" => Ok(true),
            other => self.wrong(format!("metadata `{key}` must be true or false, found: `{}`", excerpt(other))),
        }
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names = self.header.offset_keys();
        names.sort_unstable();
        names
    }

    /// The numbers of a tensor; axes must have the lengths that are given.
    pub fn numbers<const AXES: usize>(&self, name: &str, expected: [Option<usize>; AXES]) -> Result<Vec<f64>> {
        let Some(TensorInfo { dtype, shape, data_offsets: (from, to) }) = self.header.info(name) else {
            return self.wrong(format!("a tensor is missing: `{}`", excerpt(name)));
        };
        if *dtype != Dtype::F64 {
            return self.wrong(format!("tensor `{}` must be of type F64, found: `{dtype}`", excerpt(name)));
        }
        let fits = |(found, expected): (&usize, &Option<usize>)| expected.is_none_or(|expected| *found == expected);
        if shape.len() != AXES || !shape.iter().zip(&expected).all(fits) {
            let expected = expected.map(|length| length.map_or("any".to_owned(), |length| length.to_string())).join(" x ");
            let found = shape.iter().take(8).map(usize::to_string).collect::<Vec<_>>().join(" x ");
            return self.wrong(format!("tensor `{}` must have the shape {expected}, found: `{found}`", excerpt(name)));
        }
        let numbers = self.data[*from..*to].chunks_exact(NUMBER);
        Ok(numbers.map(|bytes| f64::from_le_bytes(bytes.try_into().expect("chunks of eight"))).collect())
    }
}

/// The beginning of a text from a file, without control characters, which could manipulate a
/// terminal.
pub(crate) fn excerpt(text: &str) -> String {
    text.chars().take(100).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

impl Contents {
    /// Adds a mixture as the tensors `weights`, `mean_directions` and `concentrations` and the text
    /// `background`, with this prefix.
    pub fn mixture(&mut self, prefix: &str, mixture: &Mixture) {
        let (components, dim) = (mixture.components(), mixture.dim());
        let directions = components.iter().flat_map(|c| c.mean_direction()).copied().collect();
        let concentrations = components.iter().map(VonMisesFisher::concentration).collect();
        self.text(format!("{prefix}background"), mixture.has_background().to_string());
        self.numbers(format!("{prefix}weights"), vec![components.len()], mixture.weights().to_vec());
        self.numbers(format!("{prefix}mean_directions"), vec![components.len(), dim], directions);
        self.numbers(format!("{prefix}concentrations"), vec![components.len()], concentrations);
    }

    /// Adds the mass and the shortfall of each component, if they are known.
    pub fn sums(&mut self, name: &str, sums: &[ComponentSum]) {
        if !sums.is_empty() {
            self.numbers(name, vec![sums.len(), 2], sums.iter().flat_map(|sum| [sum.mass, sum.shortfall]).collect());
        }
    }
}

impl File<'_> {
    /// The sums of this many components that [`Contents::sums`] wrote; empty if there are none.
    pub fn sums(&self, name: &str, components: usize) -> Result<Vec<ComponentSum>> {
        if self.header.info(name).is_none() {
            return Ok(Vec::new());
        }
        let numbers = self.numbers(name, [Some(components), Some(2)])?;
        if let Some(wrong) = numbers.iter().find(|x| !(x.is_finite() && **x >= 0.0)) {
            return self.wrong(format!("tensor `{name}` must have finite numbers of at least 0, found: `{wrong}`"));
        }
        Ok(numbers.chunks_exact(2).map(|pair| ComponentSum::new(pair[0], pair[1])).collect())
    }

    /// The mixture that [`Contents::mixture`] wrote, exactly.
    pub fn mixture(&self, prefix: &str) -> Result<Mixture> {
        let weights = self.numbers(&format!("{prefix}weights"), [None])?;
        let components = weights.len();
        let concentrations = self.numbers(&format!("{prefix}concentrations"), [Some(components)])?;
        let directions = self.numbers(&format!("{prefix}mean_directions"), [Some(components), None])?;
        let Some(dim) = directions.len().checked_div(components) else {
            return self.wrong(format!("tensor `{prefix}weights` must have at least one number, found: `0`"));
        };
        if dim == 0 {
            return Err(Error::Dimension { dim });
        }
        let pairs = directions.chunks_exact(dim).zip(&concentrations).enumerate();
        let restored = pairs.map(|(component, (direction, &concentration))| {
            VonMisesFisher::restored(direction.to_vec(), concentration)
                .or_else(|error| self.wrong(format!("component {component}: {error}")))
        });
        let restored = restored.collect::<Result<Vec<_>>>()?;
        let background = self.flag(&format!("{prefix}background"))?;
        if background && !(components > 1 && concentrations[components - 1] == 0.0) {
            return self.wrong("a background must be the last of several components, of concentration 0");
        }
        Mixture::restored(weights, restored, background)
    }
}
