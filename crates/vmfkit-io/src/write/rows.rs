//! [`RowWriter`]: rows, with their ids and weights.

use crate::batch::{ID, ROWS, WEIGHT};
use crate::error::{Error, Result};
use crate::npy_header::header_bytes;
use crate::write::matrix_market::MatrixWriter;
use crate::write::npz::NpzWriter;
use crate::write::numbers::{Entries, Numbers};
use crate::write::records::{RecordSink, record_batch};
use crate::write::table::from_csv;
use crate::write::{Counted, OutputFormat, Sink};
use crate::{Batch, Element, Ids};
use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use std::borrow::Cow;
use std::io::Write;
use std::sync::Arc;
use vmfkit::capacity;
use vmfkit::rows::{Rows, Scalar, SparseRows};

/// Length of a safetensors header for any number of rows. Its text needs fewer than 400 bytes for
/// three tensors.
const HEADER_LENGTH: usize = 504;

/// The type of ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdKind {
    /// Whole numbers.
    Integers,
    /// Texts.
    Texts,
}

impl std::fmt::Display for IdKind {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            IdKind::Integers => "whole numbers",
            IdKind::Texts => "texts",
        })
    }
}

impl Ids {
    /// The type of these ids.
    pub fn kind(&self) -> IdKind {
        match self {
            Ids::Integers(_) => IdKind::Integers,
            Ids::Texts(_) => IdKind::Texts,
        }
    }
}

/// What all rows of a file share.
#[derive(Debug, Clone)]
pub struct RowLayout {
    dim: usize,
    double: bool,
    sparse: bool,
    ids: Option<IdKind>,
    weights: bool,
    rows: Option<u64>,
    names: Option<Vec<String>>,
}

impl RowLayout {
    /// Rows of `dim` numbers, in double or single precision.
    pub fn new(dim: usize, element: Element) -> Self {
        RowLayout { dim, double: element == Element::F64, sparse: false, ids: None, weights: false, rows: None, names: None }
    }

    /// Says that most numbers are 0. Formats that can omit zeros do so.
    pub fn sparse(mut self) -> Self {
        self.sparse = true;
        self
    }

    /// Says that every row has an id.
    pub fn ids(mut self, kind: IdKind) -> Self {
        self.ids = Some(kind);
        self
    }

    /// Says that every row has a weight.
    pub fn weights(mut self) -> Self {
        self.weights = true;
        self
    }

    /// Writes each coordinate to a column of its own with this name, in formats that have columns.
    pub fn names(mut self, names: Vec<String>) -> Self {
        assert_eq!(names.len(), self.dim, "a name for each number of a row");
        self.names = Some(names);
        self
    }

    /// Announces the number of rows. Formats that begin with it then need no temporary file on the
    /// way to a pipe.
    pub fn rows(mut self, rows: u64) -> Self {
        self.rows = Some(rows);
        self
    }
}

/// Writes rows, batch by batch.
pub struct RowWriter {
    layout: RowLayout,
    inner: Inner,
}

enum Inner {
    Records(RecordSink, SchemaRef),
    Separated(Box<csv::Writer<Sink>>),
    JsonLines(Sink),
    Npy(Counted),
    Npz(Box<NpzWriter>),
    Mtx(MatrixWriter),
    /// Tensors follow one another: ids and weights wait for the end of the rows.
    Safetensors {
        rows: Counted,
        ids: Vec<u8>,
        weights: Vec<u8>,
    },
}

impl RowWriter {
    /// Begins a file of rows.
    pub fn new(format: OutputFormat, sink: Sink, layout: &RowLayout) -> Result<Self> {
        let RowLayout { dim, double, sparse, ids, weights, rows, .. } = *layout;
        if !layout.by_entries(format) {
            // A sparse row of a few bytes is expanded with all its zeros.
            layout.check_room("a row with all its numbers", &[2, dim])?;
        }
        let inner = match format {
            OutputFormat::Parquet => {
                let raw = layout.names.is_none().then_some(ROWS);
                Inner::Records(RecordSink::parquet(sink, layout.schema()?, raw)?, layout.schema()?)
            }
            OutputFormat::Arrow => Inner::Records(RecordSink::arrow(sink, &*layout.schema()?)?, layout.schema()?),
            OutputFormat::Csv | OutputFormat::Tsv => {
                let mut writer = csv::WriterBuilder::new().delimiter(format.separator()).from_writer(sink);
                let names = layout.names.clone().unwrap_or_else(|| (0..dim).map(|index| format!("x{index}")).collect());
                let names = ids.map(|_| ID.to_owned()).into_iter().chain(names).chain(weights.then(|| WEIGHT.to_owned()));
                writer.write_record(names).map_err(from_csv)?;
                Inner::Separated(Box::new(writer))
            }
            OutputFormat::JsonLines => Inner::JsonLines(sink),
            OutputFormat::Npy => {
                layout.refuse_beside_rows(format)?;
                let descr = if double { "<f8" } else { "<f4" };
                Inner::Npy(Counted::new(sink, rows, move |rows| header_bytes(descr, &[rows, dim as u64]))?)
            }
            OutputFormat::Npz => {
                layout.refuse_texts(format)?;
                Inner::Npz(Box::new(NpzWriter::new(sink, dim, layout.rows, double, sparse, ids.is_some(), weights)?))
            }
            OutputFormat::Mtx => {
                layout.refuse_beside_rows(format)?;
                Inner::Mtx(MatrixWriter::new(sink, dim)?)
            }
            OutputFormat::Safetensors => {
                layout.refuse_texts(format)?;
                let header = layout.clone();
                let length = if rows.is_none() && sink.can_restart() { HEADER_LENGTH } else { 0 };
                let rows = Counted::new(sink, rows, move |rows| header.safetensors_header(rows, length))?;
                Inner::Safetensors { rows, ids: Vec::new(), weights: Vec::new() }
            }
        };
        Ok(RowWriter { layout: layout.clone(), inner })
    }

    /// Adds rows. Ids and weights that are not in the layout are omitted.
    pub fn write(&mut self, batch: &Batch) -> Result<()> {
        let (ids, weights) = self.layout.check(batch)?;
        match &mut self.inner {
            Inner::Mtx(writer) => return writer.write(&self.layout.entries(batch)?),
            Inner::Npz(writer) if self.layout.sparse => return writer.write_entries(&self.layout.entries(batch)?, ids, weights),
            _ => {}
        }
        let numbers = self.layout.dense(batch)?;
        let dim = self.layout.dim;
        match &mut self.inner {
            Inner::Records(sink, schema) => {
                let mut columns: Vec<ArrayRef> = ids.map(id_array).into_iter().collect();
                match &self.layout.names {
                    Some(_) => columns.extend((0..dim).map(|index| numbers.column(dim, index))),
                    None => columns.push(numbers.into_array(dim)?),
                }
                columns.extend(
                    weights.map(|weights| -> ArrayRef { Arc::new(Float64Array::from_iter_values(weights.iter().copied())) }),
                );
                sink.write(&record_batch(schema, columns)?)
            }
            Inner::Separated(writer) => {
                let mut text = Vec::new();
                for row in 0..batch.rows {
                    match ids {
                        Some(Ids::Integers(ids)) => writer.write_field(ids[row].to_string()).map_err(from_csv)?,
                        Some(Ids::Texts(ids)) => writer.write_field(&ids[row]).map_err(from_csv)?,
                        None => {}
                    }
                    for index in row * dim..(row + 1) * dim {
                        text.clear();
                        numbers.write_text(index, &mut text);
                        writer.write_field(&text).map_err(from_csv)?;
                    }
                    if let Some(weights) = weights {
                        writer.write_field(format!("{:?}", weights[row])).map_err(from_csv)?;
                    }
                    writer.write_record(None::<&[u8]>).map_err(from_csv)?;
                }
                Ok(())
            }
            Inner::JsonLines(sink) => {
                let mut text = Vec::new();
                for row in 0..batch.rows {
                    text.push(b'{');
                    if let Some(ids) = ids {
                        write!(text, "\"{ID}\":").expect("writing to memory cannot fail");
                        match ids {
                            Ids::Integers(ids) => serde_json::to_writer(&mut text, &ids[row]),
                            Ids::Texts(ids) => serde_json::to_writer(&mut text, &ids[row]),
                        }
                        .expect("writing to memory cannot fail");
                        text.push(b',');
                    }
                    if let Some(names) = &self.layout.names {
                        for (index, name) in names.iter().enumerate() {
                            write!(text, "{}\"{name}\":", if index > 0 { "," } else { "" })
                                .expect("writing to memory cannot fail");
                            match &numbers {
                                Numbers::F32(values) => serde_json::to_writer(&mut text, &values[row * dim + index]),
                                Numbers::F64(values) => serde_json::to_writer(&mut text, &values[row * dim + index]),
                            }
                            .expect("writing to memory cannot fail");
                        }
                    } else {
                        write!(text, "\"{ROWS}\":").expect("writing to memory cannot fail");
                        match &numbers {
                            Numbers::F32(values) => serde_json::to_writer(&mut text, &values[row * dim..(row + 1) * dim]),
                            Numbers::F64(values) => serde_json::to_writer(&mut text, &values[row * dim..(row + 1) * dim]),
                        }
                        .expect("writing to memory cannot fail");
                    }
                    if let Some(weights) = weights {
                        write!(text, ",\"{WEIGHT}\":").expect("writing to memory cannot fail");
                        serde_json::to_writer(&mut text, &weights[row]).expect("writing to memory cannot fail");
                    }
                    text.extend(b"}\n");
                }
                sink.write_all(&text).map_err(Error::Write)
            }
            Inner::Npy(counted) => counted.write(batch.rows, &numbers.to_le_bytes()),
            Inner::Npz(writer) => writer.write(batch.rows, &numbers, ids, weights),
            Inner::Mtx(_) => unreachable!("entries are written above"),
            Inner::Safetensors { rows, ids: waiting_ids, weights: waiting_weights } => {
                if let Some(Ids::Integers(ids)) = ids {
                    waiting_ids.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
                }
                waiting_weights.extend(weights.into_iter().flatten().flat_map(|weight| weight.to_le_bytes()));
                rows.write(batch.rows, &numbers.to_le_bytes())
            }
        }
    }

    /// Completes the file.
    pub fn finish(self) -> Result<()> {
        match self.inner {
            Inner::Records(sink, _) => sink.finish(),
            Inner::Separated(mut writer) => writer.flush().map_err(Error::Write),
            Inner::JsonLines(mut sink) => sink.flush().map_err(Error::Write),
            Inner::Npy(counted) => counted.finish(&[]),
            Inner::Npz(writer) => writer.finish(),
            Inner::Mtx(writer) => writer.finish(),
            Inner::Safetensors { rows, mut ids, weights } => {
                ids.extend(weights);
                rows.finish(&ids)
            }
        }
    }
}

impl RowLayout {
    /// Whether zeros are omitted.
    fn by_entries(&self, format: OutputFormat) -> bool {
        format == OutputFormat::Mtx || format == OutputFormat::Npz && self.sparse
    }

    /// Checks that there is memory for rows with all their numbers.
    fn check_room(&self, what: &'static str, factors: &[usize]) -> Result<()> {
        capacity::check(what, factors).map_err(|error| match self.sparse {
            true => Error::format(format!("{error}\nhint: .npz and .mtx files hold sparse rows without their zeros")),
            false => error.into(),
        })
    }

    fn refuse_beside_rows(&self, format: OutputFormat) -> Result<()> {
        let found = match (self.ids, self.weights) {
            (Some(_), _) => ID,
            (None, true) => WEIGHT,
            (None, false) => return Ok(()),
        };
        let hint = "hint: leave it out, or write .parquet";
        Err(Error::Format { what: format!("an .{format} file holds only rows, found: `{found}`\n{hint}") })
    }

    fn refuse_texts(&self, format: OutputFormat) -> Result<()> {
        if self.ids != Some(IdKind::Texts) {
            return Ok(());
        }
        let article = if format == OutputFormat::Npz { "an" } else { "a" };
        let hint = "hint: leave them out, or write .parquet";
        Err(Error::Format { what: format!("{article} .{format} file holds only numbers, found ids of type: `text`\n{hint}") })
    }

    fn item(&self) -> FieldRef {
        let number = if self.double { DataType::Float64 } else { DataType::Float32 };
        Arc::new(Field::new("element", number, false))
    }

    fn schema(&self) -> Result<SchemaRef> {
        let dim = i32::try_from(self.dim).ok().filter(|&dim| dim > 0);
        let what = || format!("rows must have 1 to {} numbers to be written as lists, found: `{}`", i32::MAX, self.dim);
        let dim = dim.ok_or_else(|| Error::Format { what: what() })?;
        let id = |kind| Field::new(ID, if kind == IdKind::Texts { DataType::Utf8 } else { DataType::Int64 }, false);
        let mut fields: Vec<Field> = self.ids.map(id).into_iter().collect();
        match &self.names {
            Some(names) => fields.extend(names.iter().map(|name| Field::new(name, self.item().data_type().clone(), false))),
            None => fields.push(Field::new(ROWS, DataType::FixedSizeList(self.item(), dim), false)),
        }
        fields.extend(self.weights.then(|| Field::new(WEIGHT, DataType::Float64, false)));
        Ok(Arc::new(Schema::new(fields)))
    }

    /// Pads the text to this length at least.
    fn safetensors_header(&self, rows: u64, length: usize) -> Vec<u8> {
        let mut tensors = serde_json::Map::new();
        let mut end = 0;
        let mut tensor = |name: &str, kind: &str, shape: &[u64], width: u64| {
            let start = end;
            end += shape.iter().product::<u64>() * width;
            tensors.insert(name.into(), serde_json::json!({ "dtype": kind, "shape": shape, "data_offsets": [start, end] }));
        };
        let (kind, width) = if self.double { ("F64", 8) } else { ("F32", 4) };
        tensor(ROWS, kind, &[rows, self.dim as u64], width);
        if self.ids.is_some() {
            tensor(ID, "I64", &[rows], 8);
        }
        if self.weights {
            tensor(WEIGHT, "F64", &[rows], 8);
        }
        let mut text = serde_json::Value::Object(tensors).to_string();
        // Data begin at a multiple of 8 bytes.
        text.push_str(&" ".repeat(text.len().next_multiple_of(8).max(length) - text.len()));
        [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
    }

    /// The ids and weights to write. Checks that the batch matches the layout.
    fn check<'a>(&self, batch: &'a Batch) -> Result<(Option<&'a Ids>, Option<&'a [f64]>)> {
        let wrong = |what: String| Err(Error::Format { what });
        match &batch.values {
            Rows::F32(values) => self.check_count(batch.rows, values.len())?,
            Rows::F64(values) => self.check_count(batch.rows, values.len())?,
            Rows::SparseF32(rows) => self.check_sparse(batch.rows, rows.parts().0, rows.parts().1)?,
            Rows::SparseF64(rows) => self.check_sparse(batch.rows, rows.parts().0, rows.parts().1)?,
        }
        let ids = match (self.ids, &batch.ids) {
            (None, _) => None,
            (Some(kind), Some(ids)) if ids.kind() == kind => Some(ids),
            (Some(kind), Some(ids)) => return wrong(format!("ids must be {kind}, found: `{}`", ids.kind())),
            (Some(kind), None) => return wrong(format!("ids must be {kind}, found: `none`")),
        };
        let id_count = match ids {
            Some(Ids::Integers(ids)) => ids.len(),
            Some(Ids::Texts(ids)) => ids.len(),
            None => batch.rows,
        };
        let weights = self.weights.then(|| batch.weights.as_deref().unwrap_or_default());
        let weight_count = weights.map_or(batch.rows, <[f64]>::len);
        for (count, name) in [(id_count, "an id"), (weight_count, "a weight")] {
            if count != batch.rows {
                return wrong(format!("{} rows must have {name} each, found: `{count}`", batch.rows));
            }
        }
        Ok((ids, weights))
    }

    /// Rejects dense rows that are not `rows` times the dimension.
    fn check_count(&self, rows: usize, found: usize) -> Result<()> {
        let expected = rows.saturating_mul(self.dim);
        if found == expected {
            return Ok(());
        }
        Err(Error::Format { what: format!("{rows} rows of {} must be {expected} numbers, found: `{found}`", self.dim) })
    }

    fn check_sparse(&self, rows: usize, starts: &[usize], columns: &[u32]) -> Result<()> {
        let what = match columns.iter().find(|&&column| column as usize >= self.dim) {
            _ if starts.len().checked_sub(1) != Some(rows) => {
                format!("{rows} rows must have one more start than rows, found: `{}`", starts.len())
            }
            Some(column) => format!("columns must be below {}, found: `{column}`", self.dim),
            None => return Ok(()),
        };
        Err(Error::Format { what })
    }

    /// All numbers, including zeros, in the precision of the file.
    fn dense<'a>(&self, batch: &'a Batch) -> Result<Numbers<'a>> {
        fn spread<T: Scalar, U: Copy + Default>(layout: &RowLayout, rows: &SparseRows<T>, to: impl Fn(T) -> U) -> Result<Vec<U>> {
            let (starts, columns, values) = rows.parts();
            let (dim, len) = (layout.dim, starts.len() - 1);
            layout.check_room("rows with all their numbers", &[len, dim])?;
            let mut all = vec![U::default(); len * dim];
            for (row, ends) in starts.windows(2).enumerate() {
                for entry in ends[0]..ends[1] {
                    all[row * dim + columns[entry] as usize] = to(values[entry]);
                }
            }
            Ok(all)
        }
        Ok(match (&batch.values, self.double) {
            (Rows::F32(values), false) => Numbers::F32(Cow::Borrowed(values)),
            (Rows::F32(values), true) => Numbers::F64(values.iter().map(|&value| value.into()).collect()),
            (Rows::F64(values), false) => Numbers::F32(values.iter().map(|&value| value as f32).collect()),
            (Rows::F64(values), true) => Numbers::F64(Cow::Borrowed(values)),
            (Rows::SparseF32(rows), false) => Numbers::F32(spread(self, rows, |x| x)?.into()),
            (Rows::SparseF32(rows), true) => Numbers::F64(spread(self, rows, f64::from)?.into()),
            (Rows::SparseF64(rows), false) => Numbers::F32(spread(self, rows, |x| x as f32)?.into()),
            (Rows::SparseF64(rows), true) => Numbers::F64(spread(self, rows, |x| x)?.into()),
        })
    }

    /// The stored entries of a batch, or the nonzero numbers of dense rows, in the precision of the
    /// file.
    fn entries<'a>(&self, batch: &'a Batch) -> Result<Entries<'a>> {
        let (starts, columns, values) = match (&batch.values, self.double) {
            (Rows::SparseF32(rows), double) => {
                let (starts, columns, values) = rows.parts();
                let widened = || Numbers::F64(values.iter().map(|&value| value.into()).collect());
                (starts, columns, if double { widened() } else { Numbers::F32(values.into()) })
            }
            (Rows::SparseF64(rows), double) => {
                let (starts, columns, values) = rows.parts();
                let rounded = || Numbers::F32(values.iter().map(|&value| value as f32).collect());
                (starts, columns, if double { Numbers::F64(values.into()) } else { rounded() })
            }
            _ => {
                return Ok(match self.dense(batch)? {
                    // A negative zero is kept.
                    Numbers::F32(all) => gather(&all, self.dim, |x| x.to_bits() != 0, |values| Numbers::F32(values.into())),
                    Numbers::F64(all) => gather(&all, self.dim, |x| x.to_bits() != 0, |values| Numbers::F64(values.into())),
                });
            }
        };
        Ok(Entries { starts: starts.into(), columns: columns.into(), values })
    }
}

/// The entries of dense rows.
fn gather<T: Copy>(
    all: &[T],
    dim: usize,
    is_entry: impl Fn(T) -> bool,
    numbers: impl Fn(Vec<T>) -> Numbers<'static>,
) -> Entries<'static> {
    let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in all.chunks_exact(dim) {
        for (column, &value) in (0..).zip(row).filter(|(_, value)| is_entry(**value)) {
            columns.push(column);
            values.push(value);
        }
        starts.push(values.len());
    }
    Entries { starts: starts.into(), columns: columns.into(), values: numbers(values) }
}

fn id_array(ids: &Ids) -> ArrayRef {
    match ids {
        Ids::Integers(ids) => Arc::new(Int64Array::from_iter_values(ids.iter().copied())),
        Ids::Texts(ids) => Arc::new(StringArray::from_iter_values(ids)),
    }
}
