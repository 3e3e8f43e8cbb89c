//! Tables of numbers as text: a line a row, with or without a line of column names.

use crate::excerpt::excerpt;
use anyhow::{Result, anyhow, bail};
use csv::ByteRecord;
use std::io::Read;

/// The chosen columns of a file.
#[derive(Debug, Default)]
pub struct CsvRows {
    /// Numbers in a row.
    pub dim: usize,
    /// The numbers, row by row.
    pub values: Vec<f64>,
    /// The weight column, if one was asked for.
    pub weights: Option<Vec<f64>>,
}

/// Which columns to read; without names, all but the weight column.
#[derive(Debug, Clone, Copy, Default)]
pub struct Columns<'a> {
    /// The coordinates' names in the header.
    pub coordinates: Option<&'a [String]>,
    /// The weights' name in the header.
    pub weight: Option<&'a str>,
}

const CHOOSE_COLUMNS: &str = "hint: `--columns x,y,z` chooses columns by their names in the first line";

impl CsvRows {
    /// Reads every row. The first line is a header if not one of its cells is a number.
    pub fn read(input: impl Read, delimiter: u8, columns: Columns) -> Result<Self> {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .trim(csv::Trim::All)
            .buffer_capacity(1 << 20)
            .from_reader(input);
        let mut record = ByteRecord::new();
        if !reader.read_byte_record(&mut record)? {
            return Ok(CsvRows::default());
        }
        let names: Option<Vec<String>> = record
            .iter()
            .all(|cell| number(cell).is_none())
            .then(|| record.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect());
        let width = record.len();
        let weight = columns.weight.map(|name| position(names.as_deref(), name)).transpose()?;
        let coordinates: Vec<usize> = match columns.coordinates {
            Some(chosen) => chosen.iter().map(|name| position(names.as_deref(), name)).collect::<Result<_>>()?,
            None => (0..width).filter(|&column| Some(column) != weight).collect(),
        };
        let mut rows = CsvRows { dim: coordinates.len(), values: Vec::new(), weights: weight.map(|_| Vec::new()) };
        let mut more = names.is_none() || reader.read_byte_record(&mut record)?;
        while more {
            let line = record.position().map_or(0, csv::Position::line);
            if record.len() != width {
                bail!("line {line} must have as many cells as the first line, {width}, found: `{}`", record.len());
            }
            let read = |column: usize| {
                number(&record[column]).ok_or_else(|| {
                    let error = not_a_number(line, &column_name(names.as_deref(), column), &record[column]);
                    if columns.coordinates.is_some() { error } else { anyhow!("{error}\n{CHOOSE_COLUMNS}") }
                })
            };
            for &column in &coordinates {
                rows.values.push(read(column)?);
            }
            if let (Some(weights), Some(column)) = (&mut rows.weights, weight) {
                weights.push(read(column)?);
            }
            more = reader.read_byte_record(&mut record)?;
        }
        Ok(rows)
    }
}

/// A cell as a number.
pub fn number(cell: &[u8]) -> Option<f64> {
    std::str::from_utf8(cell).ok()?.parse().ok()
}

/// The error of a cell that is no number.
pub fn not_a_number(line: u64, column: &str, cell: &[u8]) -> anyhow::Error {
    anyhow!("line {line}, column `{column}` must be a number, found: `{}`", excerpt(cell))
}

fn column_name(names: Option<&[String]>, column: usize) -> String {
    names.map_or_else(|| (column + 1).to_string(), |names| names[column].clone())
}

fn position(names: Option<&[String]>, name: &str) -> Result<usize> {
    let Some(names) = names else {
        bail!("the first line must hold the names of the columns to choose one, looked for: `{name}`");
    };
    match names.iter().position(|n| n == name) {
        Some(column) => Ok(column),
        None => bail!("no column is called `{name}`, found: `{}`", excerpt(names.join(",").as_bytes())),
    }
}
