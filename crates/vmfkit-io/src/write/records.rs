//! Record batches into Parquet or Arrow files.

use crate::error::{Error, Result};
use crate::read::guard::{from_arrow, from_parquet};
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

/// A row group is closed at this size: large enough to be read fast, and it is held in memory until then. A table has short rows, hundreds of
/// thousands of which are in the smaller one.
const ROW_GROUP: usize = 128 << 20;
const TABLE_GROUP: usize = 16 << 20;

/// A file that takes record batches.
pub(crate) enum RecordSink {
    /// With the memory that a row group may take.
    Parquet(Box<ArrowWriter<Sink>>, usize),
    Arrow(Box<FileWriter<Sink>>),
}

impl RecordSink {
    /// A Parquet file. Numbers of the column of lists named `raw` are left as they are: coordinates have next to no repetition, and
    /// are read several times as fast.
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

    /// An Arrow file.
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

/// A record batch whose columns are those of the schema.
pub(crate) fn record_batch(schema: &SchemaRef, columns: Vec<arrow_array::ArrayRef>) -> Result<RecordBatch> {
    RecordBatch::try_new(Arc::clone(schema), columns).map_err(from_arrow)
}

/// On the way out it was writing that failed.
fn written(error: Error) -> Error {
    match error {
        Error::Io(error) => Error::Write(error),
        other => other,
    }
}
