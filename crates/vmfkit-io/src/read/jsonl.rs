//! JSON Lines: one array of numbers per line, or one object with a list of numbers or with numbers
//! under several keys.

use crate::batch::ROWS;
use crate::bytes::{ByteReader, ByteSource};
use crate::excerpt::excerpt;
use crate::read::text::{self, Group, Lines, Parsed};
use crate::{Batch, Element, Error, Ids, Options, Reader, Result, Schema};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::ops::Range;
use vmfkit::Angles;
use vmfkit::rows::Rows;

/// The rows of a JSON Lines text.
pub(crate) struct JsonRows {
    lines: Lines,
    /// The source to rewind to; `None` for a pipe.
    source: Option<ByteSource>,
    keys: Keys,
    schema: Schema,
    /// The first row, which determines the dimension.
    waiting: Option<Row>,
    /// The lines that were read last.
    group: Group,
}

/// The keys of an object that hold the numbers.
struct Keys {
    /// The chosen keys. If there are none, objects have a list under the key that
    /// [`RowWriter`](crate::RowWriter) writes.
    coordinates: Option<Vec<String>>,
    weight: Option<String>,
    id: Option<String>,
    /// Whether the only key holds a number, not a list.
    one_number: bool,
}

/// The content of a line.
#[derive(Default)]
struct Row {
    values: Vec<f64>,
    weight: f64,
    id: String,
}

impl JsonRows {
    pub fn new(text: ByteReader, options: &Options) -> Result<Self> {
        Self::from_text(text, None, options)
    }

    pub fn open(source: ByteSource, options: &Options) -> Result<Self> {
        Self::from_text(text::open(Some(&source))?, Some(source), options)
    }

    fn from_text(text: ByteReader, source: Option<ByteSource>, options: &Options) -> Result<Self> {
        let coordinates = Some(options.columns.clone()).filter(|names| options.ids_alone || !names.is_empty());
        let (weight, id, one_number) = (options.weight_column.clone(), options.id_column.clone(), options.one_angle());
        let mut keys = Keys { coordinates, weight, id, one_number };
        let mut lines = Lines::new(text);
        let mut row = Row::default();
        let found = match lines.next()? {
            Some((number, line)) => {
                if let (Some(angles), None) = (options.angles, &keys.coordinates) {
                    keys.coordinates = angle_keys(angles, line)?;
                }
                keys.read(number, line, &mut row).map(|()| true)?
            }
            None => false,
        };
        let angles = keys.coordinates.as_ref().and_then(|names| Angles::guess(names));
        let schema = Schema { angles, ..Schema::dense(row.values.len(), Element::F64, if found { None } else { Some(0) }) };
        Ok(JsonRows { lines, source, keys, schema, waiting: found.then_some(row), group: Group::default() })
    }
}

/// The keys of an object whose names stand for these angles, if there are any.
fn angle_keys(angles: Angles, line: &[u8]) -> Result<Option<Vec<String>>> {
    // Errors of the line are reported when it is read.
    let Ok(object) = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(line) else { return Ok(None) };
    let names: Vec<&String> = object.keys().collect();
    Ok(angles.find_columns(&names)?.map(|found| found.into_iter().map(|index| names[index].clone()).collect()))
}

impl Reader for JsonRows {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&mut self, most: usize, batch: &mut Batch) -> Result<()> {
        let mut parsed = Parsed { values: std::mem::take(batch.values.start_dense::<f64>()), ..Parsed::default() };
        batch.rows = 0;
        if most > 0
            && let Some(first) = self.waiting.take()
        {
            batch.rows = 1;
            self.keys.push(first, &mut parsed);
        }
        while batch.rows < most {
            let gathered = self.lines.next_group(most - batch.rows, &mut self.group);
            let (keys, Group { text, lines }, dim) = (&self.keys, &self.group, self.schema.dim);
            parsed.append(lines, dim, |lines| keys.read_all(lines, text, dim))?;
            gathered?;
            batch.rows += lines.len();
            if lines.is_empty() {
                break;
            }
        }
        batch.values = Rows::F64(parsed.values.into());
        batch.weights = self.keys.weight.as_ref().map(|_| parsed.weights);
        batch.ids = self.keys.id.as_ref().map(|_| Ids::Texts(parsed.ids));
        Ok(())
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn rewind(&mut self) -> Result<()> {
        self.lines = Lines::new(text::open(self.source.as_ref())?);
        self.waiting = None;
        Ok(())
    }
}

impl Keys {
    /// Parses lines, each of which must have `dim` numbers.
    fn read_all(&self, lines: &[(u64, Range<usize>)], text: &[u8], dim: usize) -> Result<Parsed> {
        let mut parsed = Parsed { values: Vec::with_capacity(lines.len() * dim), ..Parsed::default() };
        let mut row = Row::default();
        for (number, range) in lines {
            row.values = std::mem::take(&mut parsed.values);
            let before = row.values.len();
            self.read(*number, &text[range.clone()], &mut row)?;
            let found = row.values.len() - before;
            if found != dim {
                let what = format!("line {number} must have as many numbers as the first line, {dim}, found: `{found}`");
                return Err(Error::Format { what });
            }
            self.push(std::mem::take(&mut row), &mut parsed);
        }
        Ok(parsed)
    }

    /// Appends a row. If there are no others yet, takes over its memory.
    fn push(&self, row: Row, parsed: &mut Parsed) {
        if parsed.values.is_empty() {
            parsed.values = row.values;
        } else {
            parsed.values.extend(row.values);
        }
        parsed.weights.extend(self.weight.as_ref().map(|_| row.weight));
        parsed.ids.extend(self.id.as_ref().map(|_| row.id));
    }

    /// Appends the numbers of a line to those of `row`, and replaces its weight and id.
    fn read(&self, number: u64, line: &[u8], row: &mut Row) -> Result<()> {
        let mut deserializer = serde_json::Deserializer::from_slice(line);
        let read = LineSeed { keys: self, row }.deserialize(&mut deserializer).and_then(|()| deserializer.end());
        read.map_err(|error| {
            let text = error.to_string();
            let what = text.split(" at line 1 column").next().unwrap_or_default();
            let hint = match line {
                [b'{', ..] if self.coordinates.is_none() => {
                    "\nhint: `--columns NAME` chooses the key of a list, `--columns x,y,z` those of numbers"
                }
                [b'[', rest @ ..] if matches!(rest.trim_ascii_start().first(), None | Some(b'[' | b'{')) => {
                    "\nhint: each line must be one row; `jq -c '.[]'` splits an array of rows into lines"
                }
                _ => "",
            };
            Error::format(format!("line {number}, byte {}: {what}, found: `{}`{hint}", error.column(), excerpt(line)))
        })
    }
}

struct LineSeed<'a> {
    keys: &'a Keys,
    row: &'a mut Row,
}

impl<'de> DeserializeSeed<'de> for LineSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for LineSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an array of numbers or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> std::result::Result<(), A::Error> {
        let named = self.keys.coordinates.iter().flatten().next().or(self.keys.weight.as_ref()).or(self.keys.id.as_ref());
        if let Some(name) = named {
            return Err(A::Error::custom(format_args!("an array has no key `{name}`")));
        }
        NumbersSeed(&mut self.row.values).visit_seq(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        let Keys { coordinates, weight, id, one_number } = self.keys;
        let coordinates: Vec<&str> = match coordinates {
            Some(chosen) => chosen.iter().map(String::as_str).collect(),
            None => vec![ROWS],
        };
        let (weight, id) = (weight.as_deref(), id.as_deref());
        let before = self.row.values.len();
        let is_list = coordinates.len() == 1 && !(*one_number && self.keys.coordinates.is_some());
        if !is_list {
            self.row.values.resize(before + coordinates.len(), 0.0);
        }
        let mut missing: Vec<&str> = coordinates.iter().copied().chain(weight).chain(id).collect();
        while let Some(key) = map.next_key::<String>()? {
            let asked = missing.len();
            missing.retain(|name| *name != key);
            if missing.len() == asked {
                // Of a duplicate key the first one counts.
                map.next_value::<IgnoredAny>()?;
            } else if Some(&*key) == weight {
                self.row.weight = map.next_value()?;
            } else if Some(&*key) == id {
                self.row.id = map.next_value_seed(IdSeed)?;
            } else if is_list {
                map.next_value_seed(NumbersSeed(&mut self.row.values))?;
            } else {
                let value = map.next_value()?;
                for (at, _) in coordinates.iter().enumerate().filter(|(_, name)| **name == key) {
                    self.row.values[before + at] = value;
                }
            }
        }
        match missing.first() {
            Some(name) => Err(A::Error::custom(format_args!("no key is called `{name}`"))),
            None => Ok(()),
        }
    }
}

/// Appends a list of numbers.
struct NumbersSeed<'a>(&'a mut Vec<f64>);

impl<'de> DeserializeSeed<'de> for NumbersSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for NumbersSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list of numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<(), A::Error> {
        while let Some(value) = list.next_element()? {
            self.0.push(value);
        }
        Ok(())
    }
}

/// A string, or an integer as a string.
struct IdSeed;

impl<'de> DeserializeSeed<'de> for IdSeed {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for IdSeed {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a text or a whole number")
    }

    fn visit_str<E>(self, text: &str) -> std::result::Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_u64<E>(self, number: u64) -> std::result::Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_i64<E>(self, number: i64) -> std::result::Result<String, E> {
        Ok(number.to_string())
    }
}
