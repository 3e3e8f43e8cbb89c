//! Writes a small table and a few rows in every format into a folder; `testdata/check_columnar.py`
//! reads them again.
//!
//!     cargo run --release -p vmfkit-io --example write_columnar -- target/written
//!     python3 testdata/check_columnar.py target/written

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;
use vmfkit::rows::Rows;
use vmfkit_io::{Batch, Column, ColumnData, ColumnKind, Element, IdKind, Ids, OutputFormat, RowLayout, RowWriter, TableWriter};

const ROWS: usize = 1000;
const DIM: usize = 12;
const BATCH: usize = 300;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("the folder to write into is missing")?;
    let folder = Path::new(&folder);
    fs::create_dir_all(folder)?;
    for name in ["table.parquet", "table.arrow", "table.csv", "table.tsv", "table.jsonl"] {
        table(&folder.join(name))?;
    }
    for (extension, texts) in [("parquet", true), ("arrow", true), ("csv", true), ("jsonl", true), ("safetensors", false)] {
        for (kind, element) in [("f32", Element::F32), ("f64", Element::F64)] {
            rows(
                &folder.join(format!("rows_{kind}.{extension}")),
                element,
                Some(if texts { IdKind::Texts } else { IdKind::Integers }),
            )?;
        }
    }
    for (kind, element) in [("f32", Element::F32), ("f64", Element::F64)] {
        rows(&folder.join(format!("rows_{kind}.npy")), element, None)?;
    }
    for (name, columns) in [("labels.npy", 1), ("columns.npy", 2)] {
        let path = folder.join(name);
        let kinds = [Column::new("label", ColumnKind::U32), Column::new("ln_density", ColumnKind::F64)];
        let mut writer = TableWriter::new(OutputFormat::of(&path)?, Box::new(File::create(&path)?), &kinds[..columns], None)?;
        let labels: Vec<u32> = (0..ROWS as u32).map(|row| row % 7).collect();
        let densities: Vec<f64> = (0..ROWS).map(|row| row as f64 / 3.0).collect();
        writer.write(&[ColumnData::U32(&labels), ColumnData::F64(&densities)][..columns])?;
        writer.finish()?;
    }
    Ok(())
}

fn table(path: &Path) -> Result<(), Box<dyn Error>> {
    let columns = [
        Column::new("id", ColumnKind::Text),
        Column::new("number", ColumnKind::I64),
        Column::new("label", ColumnKind::U32),
        Column::new("probability", ColumnKind::F32),
        Column::new("ln_density", ColumnKind::F64),
        Column::new("noise", ColumnKind::Bool),
    ];
    let mut writer = TableWriter::new(OutputFormat::of(path)?, Box::new(File::create(path)?), &columns, Some(ROWS as u64))?;
    for start in (0..ROWS).step_by(BATCH) {
        let rows = start..ROWS.min(start + BATCH);
        writer.write(&[
            ColumnData::Text(&rows.clone().map(|row| format!("row \"{row}\", a\ttab")).collect::<Vec<_>>()),
            ColumnData::I64(&rows.clone().map(|row| -(1 << 40) * row as i64).collect::<Vec<_>>()),
            ColumnData::U32(&rows.clone().map(|row| row as u32 % 7).collect::<Vec<_>>()),
            ColumnData::F32(&rows.clone().map(|row| 1.0 / (row as f32 + 1.0)).collect::<Vec<_>>()),
            ColumnData::F64(&rows.clone().map(|row| row as f64 / 3.0).collect::<Vec<_>>()),
            ColumnData::Bool(&rows.map(|row| row % 3 == 0).collect::<Vec<_>>()),
        ])?;
    }
    writer.finish()?;
    Ok(())
}

fn rows(path: &Path, element: Element, ids: Option<IdKind>) -> Result<(), Box<dyn Error>> {
    let mut layout = RowLayout::new(DIM, element);
    if let Some(kind) = ids {
        layout = layout.ids(kind).weights();
    }
    let mut writer = RowWriter::new(OutputFormat::of(path)?, Box::new(File::create(path)?), &layout)?;
    for start in (0..ROWS).step_by(BATCH) {
        let rows = start..ROWS.min(start + BATCH);
        let values = rows.clone().flat_map(|row| (0..DIM).map(move |place| (row as f64 + 0.25) / (place as f64 + 3.0)));
        let batch = Batch {
            rows: rows.len(),
            values: match element {
                Element::F64 => Rows::F64(values.collect()),
                _ => Rows::F32(values.map(|value| value as f32).collect()),
            },
            weights: Some(rows.clone().map(|row| row as f64 / 7.0).collect()),
            ids: ids.map(|kind| match kind {
                IdKind::Integers => Ids::Integers(rows.map(|row| 10 * row as i64).collect()),
                IdKind::Texts => Ids::Texts(rows.map(|row| format!("row-{row}")).collect()),
            }),
        };
        writer.write(&batch)?;
    }
    writer.finish()?;
    Ok(())
}
