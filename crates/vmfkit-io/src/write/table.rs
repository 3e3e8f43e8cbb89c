//! [`TableWriter`]: results in named columns.

use crate::error::{Error, Result};
use crate::npy_header::{header_bytes, structured_header_bytes};
use crate::write::records::{RecordSink, record_batch};
use crate::write::{Counted, OutputFormat, Sink, le_bytes};
use arrow_array::{ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, StringArray, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::io::Write;
use std::sync::Arc;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Integers.
    I64,
    /// Unsigned integers, such as labels.
    U32,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// Booleans.
    Bool,
    /// Strings.
    Text,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: ColumnKind,
}

impl Column {
    /// A column with this name and type.
    pub fn new(name: impl Into<String>, kind: ColumnKind) -> Self {
        Column { name: name.into(), kind }
    }
}

/// The values of a column for some rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ColumnData<'a> {
    /// Integers.
    I64(&'a [i64]),
    /// Unsigned integers.
    U32(&'a [u32]),
    /// Single precision.
    F32(&'a [f32]),
    /// Double precision.
    F64(&'a [f64]),
    /// Booleans.
    Bool(&'a [bool]),
    /// Strings.
    Text(&'a [String]),
}

impl ColumnData<'_> {
    fn kind(&self) -> ColumnKind {
        match self {
            ColumnData::I64(_) => ColumnKind::I64,
            ColumnData::U32(_) => ColumnKind::U32,
            ColumnData::F32(_) => ColumnKind::F32,
            ColumnData::F64(_) => ColumnKind::F64,
            ColumnData::Bool(_) => ColumnKind::Bool,
            ColumnData::Text(_) => ColumnKind::Text,
        }
    }

    fn len(&self) -> usize {
        match self {
            ColumnData::I64(values) => values.len(),
            ColumnData::U32(values) => values.len(),
            ColumnData::F32(values) => values.len(),
            ColumnData::F64(values) => values.len(),
            ColumnData::Bool(values) => values.len(),
            ColumnData::Text(values) => values.len(),
        }
    }

    fn to_array(self) -> ArrayRef {
        match self {
            ColumnData::I64(values) => Arc::new(Int64Array::from_iter_values(values.iter().copied())),
            ColumnData::U32(values) => Arc::new(UInt32Array::from_iter_values(values.iter().copied())),
            ColumnData::F32(values) => Arc::new(Float32Array::from_iter_values(values.iter().copied())),
            ColumnData::F64(values) => Arc::new(Float64Array::from_iter_values(values.iter().copied())),
            ColumnData::Bool(values) => Arc::new(BooleanArray::from(values.to_vec())),
            ColumnData::Text(values) => Arc::new(StringArray::from_iter_values(values)),
        }
    }

    fn write_csv(&self, row: usize, text: &mut Vec<u8>) {
        let result = match self {
            ColumnData::I64(values) => write!(text, "{}", values[row]),
            ColumnData::U32(values) => write!(text, "{}", values[row]),
            // The shortest digits that are parsed to the same number.
            ColumnData::F32(values) => write!(text, "{:?}", values[row]),
            ColumnData::F64(values) => write!(text, "{:?}", values[row]),
            ColumnData::Bool(values) => write!(text, "{}", values[row]),
            ColumnData::Text(values) => write!(text, "{}", values[row]),
        };
        result.expect("writing to memory cannot fail");
    }

    /// NaN and infinity are written as null: JSON does not have them.
    fn write_json(&self, row: usize, text: &mut Vec<u8>) {
        let result = match self {
            ColumnData::I64(values) => serde_json::to_writer(text, &values[row]),
            ColumnData::U32(values) => serde_json::to_writer(text, &values[row]),
            ColumnData::F32(values) => serde_json::to_writer(text, &values[row]),
            ColumnData::F64(values) => serde_json::to_writer(text, &values[row]),
            ColumnData::Bool(values) => serde_json::to_writer(text, &values[row]),
            ColumnData::Text(values) => serde_json::to_writer(text, &values[row]),
        };
        result.expect("writing to memory cannot fail");
    }

    fn push_le_bytes(&self, row: usize, bytes: &mut Vec<u8>) {
        match self {
            ColumnData::I64(values) => bytes.extend(values[row].to_le_bytes()),
            ColumnData::U32(values) => bytes.extend(values[row].to_le_bytes()),
            ColumnData::F32(values) => bytes.extend(values[row].to_le_bytes()),
            ColumnData::F64(values) => bytes.extend(values[row].to_le_bytes()),
            ColumnData::Bool(values) => bytes.push(values[row].into()),
            ColumnData::Text(_) => unreachable!("texts are refused where numbers are written"),
        }
    }

    fn to_le_bytes(self) -> Vec<u8> {
        match self {
            ColumnData::I64(values) => le_bytes(values, i64::to_le_bytes),
            ColumnData::U32(values) => le_bytes(values, u32::to_le_bytes),
            ColumnData::F32(values) => le_bytes(values, f32::to_le_bytes),
            ColumnData::F64(values) => le_bytes(values, f64::to_le_bytes),
            ColumnData::Bool(values) => values.iter().map(|&value| value.into()).collect(),
            ColumnData::Text(_) => unreachable!("texts are refused where numbers are written"),
        }
    }
}

/// Writes a table in batches of rows.
///
/// ```
/// use vmfkit_io::{Column, ColumnData, ColumnKind, OutputFormat, TableWriter};
/// # let file = tempfile::NamedTempFile::new()?;
/// let columns = [Column::new("label", ColumnKind::U32), Column::new("ln_density", ColumnKind::F64)];
/// let sink = Box::new(std::fs::File::create(file.path())?);
/// let mut table = TableWriter::new(OutputFormat::Csv, sink, &columns, None)?;
/// table.write(&[ColumnData::U32(&[3, 1]), ColumnData::F64(&[0.5, -1e-9])])?;
/// table.finish()?;
/// assert_eq!(std::fs::read_to_string(file.path())?, "label,ln_density\n3,0.5\n1,-1e-9\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TableWriter {
    columns: Vec<Column>,
    inner: Inner,
}

enum Inner {
    Records(RecordSink, SchemaRef),
    Separated(Box<csv::Writer<Sink>>),
    JsonLines(Sink),
    Npy(Counted),
}

impl TableWriter {
    /// Begins a table. An `.npy` file has one axis. Its type is that of the column, or a structured
    /// type with a field for each of several columns. If the number of rows is given, such a table
    /// needs no temporary file on the way to a pipe.
    pub fn new(format: OutputFormat, sink: Sink, columns: &[Column], rows: Option<u64>) -> Result<Self> {
        let schema = || {
            let field = |column: &Column| Field::new(&column.name, data_type(column.kind), false);
            SchemaRef::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
        };
        let inner = match format {
            OutputFormat::Parquet => Inner::Records(RecordSink::parquet(sink, schema(), None)?, schema()),
            OutputFormat::Arrow => Inner::Records(RecordSink::arrow(sink, &schema())?, schema()),
            OutputFormat::Csv | OutputFormat::Tsv => {
                let mut writer = csv::WriterBuilder::new().delimiter(format.separator()).from_writer(sink);
                writer.write_record(columns.iter().map(|column| &column.name)).map_err(from_csv)?;
                Inner::Separated(Box::new(writer))
            }
            OutputFormat::JsonLines => Inner::JsonLines(sink),
            OutputFormat::Npy => Inner::Npy(npy(sink, columns, rows)?),
            OutputFormat::Npz | OutputFormat::Safetensors | OutputFormat::Mtx => {
                let what = format!("a table must be written as parquet, arrow, csv, tsv, jsonl or npy, found: `{format}`");
                return Err(Error::Format { what });
            }
        };
        Ok(TableWriter { columns: columns.to_vec(), inner })
    }

    /// Adds rows: the same number of values for each column, in order.
    pub fn write(&mut self, data: &[ColumnData]) -> Result<()> {
        let rows = self.check(data)?;
        match &mut self.inner {
            Inner::Records(sink, schema) => sink.write(&record_batch(schema, data.iter().map(|data| data.to_array()).collect())?),
            Inner::Separated(writer) => {
                let mut text = Vec::new();
                for row in 0..rows {
                    for data in data {
                        text.clear();
                        data.write_csv(row, &mut text);
                        writer.write_field(&text).map_err(from_csv)?;
                    }
                    writer.write_record(None::<&[u8]>).map_err(from_csv)?;
                }
                Ok(())
            }
            Inner::JsonLines(sink) => {
                let mut text = Vec::new();
                for row in 0..rows {
                    for (index, (column, data)) in self.columns.iter().zip(data).enumerate() {
                        text.push(if index == 0 { b'{' } else { b',' });
                        serde_json::to_writer(&mut text, &column.name).expect("writing to memory cannot fail");
                        text.push(b':');
                        data.write_json(row, &mut text);
                    }
                    text.extend(b"}\n");
                }
                sink.write_all(&text).map_err(Error::Write)
            }
            Inner::Npy(counted) => match data {
                [data] => counted.write(rows, &data.to_le_bytes()),
                _ => {
                    let mut bytes = Vec::new();
                    for row in 0..rows {
                        data.iter().for_each(|data| data.push_le_bytes(row, &mut bytes));
                    }
                    counted.write(rows, &bytes)
                }
            },
        }
    }

    /// Completes the table.
    pub fn finish(self) -> Result<()> {
        match self.inner {
            Inner::Records(sink, _) => sink.finish(),
            Inner::Separated(mut writer) => writer.flush().map_err(Error::Write),
            Inner::JsonLines(mut sink) => sink.flush().map_err(Error::Write),
            Inner::Npy(counted) => counted.finish(&[]),
        }
    }

    /// The number of rows. Checks that the data match the columns.
    fn check(&self, data: &[ColumnData]) -> Result<usize> {
        if data.len() != self.columns.len() {
            let what = format!("a table of {} columns needs data for each, found: `{}`", self.columns.len(), data.len());
            return Err(Error::Format { what });
        }
        let rows = data.first().map_or(0, ColumnData::len);
        for (column, data) in self.columns.iter().zip(data) {
            let Column { name, kind } = column;
            if data.kind() != *kind {
                return Err(Error::Format { what: format!("column {name} must hold {kind:?}, found: `{:?}`", data.kind()) });
            }
            if data.len() != rows {
                return Err(Error::Format {
                    what: format!("column {name} must have {rows} rows, as the first has, found: `{}`", data.len()),
                });
            }
        }
        Ok(rows)
    }
}

fn npy(sink: Sink, columns: &[Column], rows: Option<u64>) -> Result<Counted> {
    if let Some(text) = columns.iter().find(|column| column.kind == ColumnKind::Text) {
        let hint = "hint: leave it out, or write .parquet or .csv";
        return Err(Error::Format {
            what: format!("an .npy file holds only numbers, found a column of text: `{}`\n{hint}", text.name),
        });
    }
    // The header is a Python literal.
    let plain = |name: &str| !name.contains(['\'', '\\']) && !name.contains(char::is_control);
    let alone = |at: usize| columns[..at].iter().all(|other| other.name != columns[at].name);
    if let Some(column) = (0..columns.len()).find(|&at| !plain(&columns[at].name) || !alone(at)) {
        let what =
            format!("the fields of an .npy file must have distinct names without quotes, found: `{}`", columns[column].name);
        return Err(Error::Format { what });
    }
    let descr = |column: &Column| match column.kind {
        ColumnKind::I64 => "<i8",
        ColumnKind::U32 => "<u4",
        ColumnKind::F32 => "<f4",
        ColumnKind::Bool => "|b1",
        ColumnKind::F64 | ColumnKind::Text => "<f8",
    };
    match columns {
        [column] => {
            let descr = descr(column);
            Counted::new(sink, rows, move |rows| header_bytes(descr, &[rows]))
        }
        _ => {
            let fields: Vec<_> = columns.iter().map(|column| (column.name.clone(), descr(column))).collect();
            Counted::new(sink, rows, move |rows| structured_header_bytes(&fields, &[rows]))
        }
    }
}

fn data_type(kind: ColumnKind) -> DataType {
    match kind {
        ColumnKind::I64 => DataType::Int64,
        ColumnKind::U32 => DataType::UInt32,
        ColumnKind::F32 => DataType::Float32,
        ColumnKind::F64 => DataType::Float64,
        ColumnKind::Bool => DataType::Boolean,
        ColumnKind::Text => DataType::Utf8,
    }
}

/// A writer of separated values fails only if its sink fails.
pub(crate) fn from_csv(error: csv::Error) -> Error {
    if !error.is_io_error() {
        return Error::caused("the table cannot be written", error);
    }
    match error.into_kind() {
        csv::ErrorKind::Io(error) => Error::Write(error),
        _ => unreachable!("it is an error of the system"),
    }
}
