//! Writes record batches to Parquet or Arrow files.

use crate::error::{Error, Result};
use crate::guard::{from_arrow, from_parquet};
use crate::write::Sink;
use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::schema::types::ColumnPath;
use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{Schema, SchemaRef};
use std::io::Write;
use std::sync::Arc;

/// Size in bytes at which a row group is closed; it is held in memory until then. Large groups are
/// read fast. Tables have short rows, so their smaller groups still hold hundreds of thousands.
const ROW_GROUP: usize = 128 << 20;
const TABLE_GROUP: usize = 16 << 20;

/// A file of record batches that is being written.
pub(crate) enum RecordSink {
    /// The second field is the memory limit of a row group.
    Parquet(Box<ArrowWriter<Sink>>, usize),
    Arrow(Box<FileWriter<Sink>>),
}

impl RecordSink {
    /// Begins a Parquet file. The column of lists named `raw` is written without a dictionary:
    /// coordinates hardly repeat, and plain pages are read several times as fast.
    pub(crate) fn parquet(sink: Sink, schema: SchemaRef, raw: Option<&str>) -> Result<Self> {
        let zstd = Compression::ZSTD(ZstdLevel::try_new(1).expect("a level of zstd"));
        let mut properties = WriterProperties::builder().set_compression(zstd).set_created_by("vmfkit".into());
        if let Some(name) = raw {
            let path = ColumnPath::new(vec![name.into(), "list".into(), "element".into()]);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_compression(path.clone(), Compression::UNCOMPRESSED)
                .set_column_statistics_enabled(path, EnabledStatistics::None);
        }
        let writer = ArrowWriter::try_new(sink, schema, Some(properties.build())).map_err(from_parquet).map_err(written)?;
        Ok(RecordSink::Parquet(Box::new(writer), if raw.is_some() { ROW_GROUP } else { TABLE_GROUP }))
    }

    /// Begins an Arrow file.
    pub(crate) fn arrow(sink: Sink, schema: &Schema) -> Result<Self> {
        let writer = FileWriter::try_new(sink, schema).map_err(from_arrow).map_err(written)?;
        Ok(RecordSink::Arrow(Box::new(writer)))
    }

    pub(crate) fn write(&mut self, records: &RecordBatch) -> Result<()> {
        match self {
            RecordSink::Parquet(writer, most) => {
                writer.write(records).map_err(from_parquet).map_err(written)?;
                if writer.memory_size() < *most {
                    return Ok(());
                }
                writer.flush().map_err(from_parquet).map_err(written)
            }
            RecordSink::Arrow(writer) => writer.write(records).map_err(from_arrow).map_err(written),
        }
    }

    pub(crate) fn finish(self) -> Result<()> {
        match self {
            RecordSink::Parquet(mut writer, _) => {
                writer.finish().map_err(from_parquet).map_err(written)?;
                writer.inner_mut().flush().map_err(Error::Write)
            }
            RecordSink::Arrow(mut writer) => {
                writer.finish().map_err(from_arrow).map_err(written)?;
                writer.flush().map_err(from_arrow).map_err(written)
            }
        }
    }
}

/// A record batch with the columns of the schema.
pub(crate) fn record_batch(schema: &SchemaRef, columns: Vec<arrow_array::ArrayRef>) -> Result<RecordBatch> {
    RecordBatch::try_new(Arc::clone(schema), columns).map_err(from_arrow)
}

/// An I/O error here is an error of writing.
fn written(error: Error) -> Error {
    match error {
        Error::Io(error) => Error::Write(error),
        other => other,
    }
}
