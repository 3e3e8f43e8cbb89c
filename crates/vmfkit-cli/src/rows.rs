//! The rows that a command works on, and the options that say how to read them.

use crate::input::{self, Table};
use crate::output;
use anyhow::{Context, Result, anyhow};
use std::path::PathBuf;
use vmfkit::{Block, Error};
use vmfkit_data::{Options, Values};

/// What a command's help says about its file of rows.
pub const FILES: &str = "\
A .npy file holds a table of floats or integers in any byte and memory order. A text file holds a row a line; its first line is a
header if no cell of it is a number. `-` is standard input. Messages count rows from 0 and lines from 1.
In --json, infinities are the strings \"inf\" and \"-inf\".";

#[derive(Debug, clap::Args)]
pub struct RowArguments {
    /// File of rows, `-` for standard input
    file: PathBuf,
    /// Columns of a text file that are the coordinates, by name [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Column of a text file that holds the rows' weights
    #[arg(long, value_name = "NAME")]
    weight_column: Option<String>,
    /// File with one weight a row
    #[arg(long, value_name = "FILE", conflicts_with = "weight_column")]
    weights: Option<PathBuf>,
    /// Divide each row by its length; half precision always is
    #[arg(long)]
    rescale: bool,
}

/// Rows that were checked.
pub struct Rows<'a> {
    /// How messages call the file.
    pub file: String,
    pub block: Block<'a>,
    /// How many rows were not of unit length, if they were rescaled.
    pub rescaled: Option<usize>,
}

impl RowArguments {
    /// How messages call the file.
    pub fn name(&self) -> String {
        input::display(&self.file)
    }

    /// What to write in a command for the same rows.
    pub fn to_command(&self) -> String {
        let columns = self.columns.as_ref().map(|names| names.join(","));
        let weights = self.weights.as_ref().map(|path| path.display().to_string());
        let options = [("columns", &columns), ("weight-column", &self.weight_column), ("weights", &weights)];
        let mut command = quoted(&self.file.display().to_string());
        for (option, value) in options {
            if let Some(value) = value {
                // Behind a blank it would be taken for an option.
                let between = if value.len() > 1 && value.starts_with('-') { '=' } else { ' ' };
                command.push_str(&format!(" --{option}{between}{}", quoted(value)));
            }
        }
        if self.rescale { command + " --rescale" } else { command }
    }

    pub fn read(&self) -> Result<Table> {
        let mut options = Options::new().columns(self.columns.clone().unwrap_or_default());
        if let Some(name) = &self.weight_column {
            options = options.weight_column(name);
        }
        let mut table = input::read_table(&self.file, &options)?;
        if let Some(path) = &self.weights {
            table.weights = Some(input::read_vector(path)?);
        }
        Ok(table)
    }

    /// Checks the rows, or rescales them and tells how many were not of unit length.
    pub fn check<'a>(&self, table: &'a Table) -> Result<Rows<'a>> {
        if table.rows == 0 {
            return Err(Error::NoRows { weight: 0.0 }.into());
        }
        let (block, rescaled) = if self.rescale || table.half_precision {
            let (block, changed) = match &table.values {
                Values::F32(values) => Block::rescaled(table.dim, values)?,
                Values::F64(values) => Block::rescaled(table.dim, values)?,
                Values::SparseF32 { starts, columns, values } => Block::sparse_rescaled(table.dim, starts, columns, values)?,
                Values::SparseF64 { starts, columns, values } => Block::sparse_rescaled(table.dim, starts, columns, values)?,
            };
            let why = if table.half_precision { " (half precision cannot hold unit rows)" } else { "" };
            output::note(format_args!(
                "{}: rows were divided by their length{why}; not of length 1 were {changed} of {}",
                self.name(),
                table.rows
            ));
            (block, Some(changed))
        } else {
            let block = match &table.values {
                Values::F32(values) => Block::new(table.dim, values),
                Values::F64(values) => Block::new(table.dim, values),
                Values::SparseF32 { starts, columns, values } => Block::sparse(table.dim, starts, columns, values),
                Values::SparseF64 { starts, columns, values } => Block::sparse(table.dim, starts, columns, values),
            };
            (block.map_err(with_hint)?, None)
        };
        let file = self.name();
        let Some(weights) = &table.weights else {
            return Ok(Rows { file, block, rescaled });
        };
        let weighted = block.with_weights(weights);
        let block = match &self.weights {
            Some(path) => weighted.with_context(|| input::display(path))?,
            None => weighted?,
        };
        Ok(Rows { file, block, rescaled })
    }
}

impl Rows<'_> {
    /// The first line of a report.
    pub fn heading(&self) -> String {
        let (rows, dim) = (self.block.len(), self.block.dim());
        let weight = self.block.weights().map_or(rows as f64, |weights| weights.iter().sum());
        let weight =
            if weight == rows as f64 { String::new() } else { format!(" of total weight {}", crate::format::readable(weight)) };
        format!("{}: {rows} rows of dimension {dim}{weight}", self.file)
    }
}

/// A word as a shell wants it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:,+=@".contains(c) || cfg!(windows) && c == '\\';
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else if cfg!(windows) {
        format!("\"{word}\"")
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The library's error with a hint that names this command's option.
fn with_hint(error: Error) -> anyhow::Error {
    match error {
        Error::NotUnit { row, norm } => anyhow!(
            "row {row} must have length 1, found: `{norm}`\n\
             hint: `--rescale` divides each row by its length; `--columns` chooses the coordinates of a text file"
        ),
        error => error.into(),
    }
}
