//! Tables of numbers as text: one row per line, with or without a header line.

use crate::bytes::{ByteReader, ByteSource};
use crate::excerpt::excerpt;
use crate::read::csv_records::{CellBuffer, Cells, CsvRecords};
use crate::read::text::{self, Group, Parsed};
use crate::{Batch, Element, Error, Ids, Options, Reader, Result, Schema};
use std::io::BufRead;
use std::ops::Range;
use vmfkit::Angles;
use vmfkit::rows::Rows;

/// Maximum number of column names in a hint.
const MOST_NAMES: usize = 8;

/// The chosen columns of a CSV or TSV text.
pub struct CsvRows {
    records: CsvRecords,
    /// The source to rewind to; `None` for a pipe.
    source: Option<ByteSource>,
    delimiter: u8,
    schema: Schema,
    layout: Layout,
    /// The first row and its line number, if it was read to detect names and separators.
    waiting: Option<(u64, Vec<u8>)>,
    group: Group,
}

/// The meaning of the columns.
struct Layout {
    /// The column names, if the first line holds them.
    names: Option<Vec<String>>,
    /// Cells per line.
    width: usize,
    /// The columns of the coordinates, and whether they were chosen by name.
    coordinates: Vec<usize>,
    chosen: bool,
    weight: Option<usize>,
    id: Option<usize>,
}

impl CsvRows {
    /// Reads the first line. An empty text is a table without rows and columns.
    pub fn new(input: impl BufRead + Send + 'static, delimiter: u8, options: &Options) -> Result<Self> {
        Self::from_text(text::unpacked(ByteReader::pipe(input))?, None, delimiter, options)
    }

    pub(crate) fn open(source: ByteSource, delimiter: u8, options: &Options) -> Result<Self> {
        Self::from_text(text::open(Some(&source))?, Some(source), delimiter, options)
    }

    fn from_text(text: ByteReader, source: Option<ByteSource>, delimiter: u8, options: &Options) -> Result<Self> {
        let mut records = CsvRecords::new(text, delimiter);
        let (mut first, mut buffer) = (Vec::new(), CellBuffer::default());
        let line = records.next(&mut first)?;
        let found = line.is_some();
        text::refuse_utf16(&first)?;
        let cells = buffer.split(&first, delimiter);
        let is_header = options.header.unwrap_or_else(|| looks_like_names(&cells));
        let names: Option<Vec<String>> = (found && is_header)
            .then(|| cells.iter().map(|name| String::from_utf8_lossy(name.trim_ascii()).into_owned()).collect());
        let width = if found { cells.len() } else { 0 };
        // The index column of pandas has an empty name.
        let index = names.as_ref().filter(|names| names.len() > 1 && names[0].is_empty()).map(|_| 0);
        let find = |name: &Option<String>| name.as_ref().map(|name| position(names.as_deref(), name)).transpose();
        let of_angles = match (options.angles, &names) {
            (Some(angles), Some(names)) if options.columns.is_empty() => angles.find_columns(names)?,
            _ => None,
        };
        let chosen = !options.columns.is_empty() || of_angles.is_some();
        let (weight, id, coordinates) = if found {
            let (weight, id) = (find(&options.weight_column)?, find(&options.id_column)?);
            let coordinates = match of_angles {
                _ if options.ids_alone => Vec::new(),
                Some(columns) => columns,
                None if options.columns.is_empty() => {
                    (0..width).filter(|column| ![weight, id, index].contains(&Some(*column))).collect()
                }
                None => options.columns.iter().map(|name| position(names.as_deref(), name)).collect::<Result<_>>()?,
            };
            (weight, id, coordinates)
        } else {
            (None, None, Vec::new())
        };
        if width == 1 {
            refuse_other_separators(cells.get(0))?;
        }
        let mut line = line.filter(|_| names.is_none());
        if width == 1 && names.is_some() {
            // The separator between numbers shows whether a blank in the header is a separator or
            // part of a name.
            first.clear();
            line = records.next(&mut first)?;
            let cells = buffer.split(&first, delimiter);
            if cells.len() == 1 {
                refuse_other_separators(cells.get(0))?;
            }
        }
        let waiting = line.map(|line| (line, first));
        let rows = (!found).then_some(0);
        let coordinate_names: Vec<&str> =
            names.iter().flat_map(|names| coordinates.iter().map(|&column| names[column].as_str())).collect();
        let angles = Angles::guess(&coordinate_names);
        let schema = Schema { angles, ..Schema::dense(coordinates.len(), Element::F64, rows) };
        let layout = Layout { names, width, coordinates, chosen, weight, id };
        Ok(CsvRows { records, source, delimiter, schema, layout, waiting, group: Group::default() })
    }

    /// Replaces the group with the next rows: at most `most`, and none only at the end. After an
    /// error it has the rows before it.
    fn next_group(&mut self, most: usize) -> Result<()> {
        self.group.clear();
        if let Some((line, row)) = self.waiting.take() {
            self.group.lines.push((line, 0..row.len()));
            self.group.text = row;
        }
        self.records.next_group(most, &mut self.group)
    }
}

impl Layout {
    /// Parses rows, each given by its line number and position in the text.
    fn parse(&self, text: &[u8], delimiter: u8, rows: &[(u64, Range<usize>)]) -> Result<Parsed> {
        let mut buffer = CellBuffer::default();
        // Rows may be shorter than the first. A cell takes at least one byte and a separator.
        let most = rows.iter().map(|(_, row)| row.len() / 2 + 1).sum::<usize>();
        let mut parsed =
            Parsed { values: Vec::with_capacity(most.min(rows.len() * self.coordinates.len())), ..Parsed::default() };
        for &(line, ref row) in rows {
            let cells = buffer.split(&text[row.clone()], delimiter);
            let (width, found) = (self.width, cells.len());
            if found != width {
                let what = format!("line {line} must have as many cells as the first line, {width}, found: `{found}`");
                return Err(Error::Format { what });
            }
            // Checking UTF-8 once per line is faster than once per cell.
            let text = std::str::from_utf8(cells.text).ok();
            for &column in &self.coordinates {
                parsed.values.push(self.cell(&cells, text, line, column)?);
            }
            if let Some(column) = self.weight {
                parsed.weights.push(self.cell(&cells, text, line, column)?);
            }
            if let Some(column) = self.id {
                parsed.ids.push(String::from_utf8_lossy(cells.get(column).trim_ascii()).into_owned());
            }
        }
        Ok(parsed)
    }

    /// Parses a cell as a number. `text` is the text of all cells if it is valid UTF-8.
    fn cell(&self, cells: &Cells, text: Option<&str>, line: u64, column: usize) -> Result<f64> {
        let cell = text.and_then(|text| text.get(cells.range(column)));
        let found = cell.map_or_else(|| number(cells.get(column)), |cell| cell.trim_ascii().parse().ok());
        found.ok_or_else(|| {
            let error = not_a_number(line, &column_name(self.names.as_deref(), column), cells.get(column));
            if self.chosen { error } else { Error::format(format!("{error}\nhint: {}", self.numbers_hint(cells))) }
        })
    }

    /// A hint how to choose the columns that have numbers in this line.
    fn numbers_hint(&self, cells: &Cells) -> String {
        let all = self.names.as_deref().unwrap_or_default();
        let of_numbers = self.coordinates.iter().filter(|&&column| number(cells.get(column)).is_some());
        let names: Vec<&str> = of_numbers.filter_map(|&column| all.get(column)).map(String::as_str).collect();
        match Angles::guess(&names) {
            Some(angles) => format!("`--angles {angles}` reads the columns of angles"),
            None if (2..=MOST_NAMES).contains(&names.len()) => {
                format!("`--columns {}` reads the columns of numbers", names.join(","))
            }
            None => "`--columns x,y,z` chooses columns by their names in the first line".to_owned(),
        }
    }
}

impl Reader for CsvRows {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&mut self, most: usize, batch: &mut Batch) -> Result<()> {
        let mut parsed = Parsed { values: std::mem::take(batch.values.start_dense::<f64>()), ..Parsed::default() };
        batch.rows = 0;
        while batch.rows < most {
            let gathered = self.next_group(most - batch.rows);
            let (layout, Group { text, lines }, delimiter) = (&self.layout, &self.group, self.delimiter);
            parsed.append(lines, self.schema.dim, |rows| layout.parse(text, delimiter, rows))?;
            let count = lines.len();
            gathered?;
            batch.rows += count;
            if count == 0 {
                break;
            }
        }
        batch.values = Rows::F64(parsed.values.into());
        batch.weights = self.layout.weight.map(|_| parsed.weights);
        batch.ids = self.layout.id.map(|_| Ids::Texts(parsed.ids));
        Ok(())
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn rewind(&mut self) -> Result<()> {
        self.records = CsvRecords::new(text::open(self.source.as_ref())?, self.delimiter);
        self.waiting = None;
        if self.layout.names.is_some() {
            self.records.next(&mut Vec::new())?;
        }
        Ok(())
    }
}

/// Whether the cells of the first line are column names: none is a number, or they count up from 0
/// like the default names of pandas, with or without an index column. Two columns may well begin
/// with the row `0,1`, so two such cells are names only after an index.
fn looks_like_names(cells: &Cells) -> bool {
    let counts =
        |skipped: usize| cells.iter().skip(skipped).zip(0u64..).all(|(cell, n)| cell.trim_ascii() == n.to_string().as_bytes());
    let has_index = cells.len() > 1 && cells.get(0).trim_ascii().is_empty();
    cells.iter().all(|cell| number(cell).is_none()) || has_index && counts(1) || cells.len() > 2 && counts(0)
}

/// Rejects a single cell that holds several numbers: the file has another separator.
fn refuse_other_separators(cell: &[u8]) -> Result<()> {
    for (separator, name) in [(b';', "semicolons"), (b'\t', "tabs"), (b' ', "blanks"), (b',', "commas")] {
        let parts = cell.split(|&byte| byte == separator).map(<[u8]>::trim_ascii);
        let parts: Vec<&[u8]> = parts.filter(|part| !part.is_empty()).collect();
        if parts.len() > 1 && parts.iter().all(|part| number(part).is_some()) {
            return Err(Error::format(format!(
                "cells must be separated by commas, or in .tsv files by tabs, found {name}: `{}`\n\
                 hint: `--format tsv` reads tabs, `--format csv` commas; replace other separators, as in `tr ';' ','`",
                excerpt(cell)
            )));
        }
    }
    Ok(())
}

/// Parses a cell as a number. Surrounding blanks are ignored.
pub fn number(cell: &[u8]) -> Option<f64> {
    std::str::from_utf8(cell.trim_ascii()).ok()?.parse().ok()
}

/// The error of a cell that is not a number.
pub fn not_a_number(line: u64, column: &str, cell: &[u8]) -> Error {
    Error::format(format!("line {line}, column `{column}` must be a number, found: `{}`", excerpt(cell.trim_ascii())))
}

fn column_name(names: Option<&[String]>, column: usize) -> String {
    names.map_or_else(|| (column + 1).to_string(), |names| names[column].clone())
}

fn position(names: Option<&[String]>, name: &str) -> Result<usize> {
    let Some(names) = names else {
        let what = format!("a column can be chosen only if the first line names the columns, looked for: `{name}`");
        return Err(Error::Format { what });
    };
    let found = || excerpt(names.join(",").as_bytes());
    let mut matching = (0..names.len()).filter(|&index| names[index] == name);
    match (matching.next(), matching.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(Error::format(format!("no column is called `{name}`, found: `{}`", found()))),
        _ => Err(Error::format(format!("only one column may be called `{name}`, found: `{}`", found()))),
    }
}
