//! The rows that a command reads, and the options that say how to read them.

use super::INPUT;
use crate::files::input::{self, LabelNames};
use crate::files::row_memory::ExtraMemory;
use crate::files::row_source::{self, RowSource};
use crate::files::text_hint::TextHint;
use crate::report::notes;
use crate::size;
use anyhow::{Result, bail};
use clap::ValueEnum;
use std::path::PathBuf;
use std::str::FromStr;
use vmfkit::Angles;
use vmfkit::source::Source;
use vmfkit_io::{Batches, DataSource, Format, Options};

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = INPUT)]
pub struct RowArguments {
    /// Rows: files, folders, quoted patterns, or `-` for standard input (`vmf help formats`)
    #[arg(required = true, value_name = "DATA", help_heading = None, value_parser = input::location_parser())]
    data: Vec<String>,
    /// Columns with the coordinates, separated by commas
    ///
    /// Several columns of numbers, or one column of lists.
    /// Default: the only column of lists, or all columns if there is none.
    #[arg(verbatim_doc_comment, long, visible_alias = "column", value_name = "NAMES", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Weights of the rows: a file with one number per row, or column:NAME
    ///
    /// A row of weight 2 counts as two rows. FILE is .npy or text; column:NAME is a column of DATA.
    #[arg(long, value_name = "FILE")]
    weights: Option<WeightSource>,
    /// Column of row ids, which is not read as a coordinate
    ///
    /// Outputs that list rows contain the ids.
    #[arg(long, value_name = "NAME")]
    id_column: Option<String>,
    /// Array to read from .npz and .safetensors files [default: the only matrix]
    #[arg(long, value_name = "NAME")]
    array: Option<String>,
    /// Format of DATA [default: detected from the name and the first bytes]
    ///
    /// One of npy, npz, parquet, arrow, csv, tsv, jsonl, safetensors and mtx.
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Whether the first line of text files names the columns [default: auto]
    ///
    /// `vmf help formats` explains how a header is detected.
    #[arg(long, value_name = "WHEN", value_enum)]
    header: Option<Header>,
    /// Read rows as angles, such as lat,lon (`vmf help angles`)
    ///
    /// The names are in the order of the columns. Angles are in degrees; a name such as
    /// lat,lon,radians reads radians.
    #[arg(verbatim_doc_comment, long, value_name = "NAMES", conflicts_with = "rescale")]
    angles: Option<Angles>,
    /// Divide each row by its length
    ///
    /// Rows in half precision are always divided by their length.
    #[arg(long)]
    rescale: bool,
    /// Set by commands that have a memory limit.
    #[arg(skip)]
    memory: Option<u64>,
}

/// Rows and a memory limit.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = INPUT)]
pub struct LimitedRowArguments {
    #[command(flatten)]
    rows: RowArguments,
    /// Memory limit, such as 512MB [default: half of the free memory]
    ///
    /// Rows that do not fit into memory are read again in every pass.
    #[arg(long, value_name = "SIZE", value_parser = size::size)]
    memory: Option<u64>,
}

impl LimitedRowArguments {
    /// The rows, with the limit.
    pub fn limited(&self) -> RowArguments {
        RowArguments { memory: self.memory, ..self.rows.clone() }
    }
}

/// Whether the first line of a text is a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Header {
    Yes,
    No,
    /// Yes, if the line looks like names of columns
    Auto,
}

impl Header {
    /// None if it is to be detected.
    pub fn is_there(self) -> Option<bool> {
        match self {
            Header::Yes => Some(true),
            Header::No => Some(false),
            Header::Auto => None,
        }
    }
}

/// Where the weights of rows are stored.
#[derive(Debug, Clone)]
enum WeightSource {
    /// In a separate file.
    File(PathBuf),
    /// In a column of the rows.
    Column(String),
}

impl FromStr for WeightSource {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.strip_prefix("column:") {
            Some(name) => Self::Column(name.to_owned()),
            None => Self::File(text.into()),
        })
    }
}

impl RowArguments {
    /// The name of the rows in messages.
    pub fn name(&self) -> String {
        vmfkit_io::names(&self.data)
    }

    /// Arguments that read the same rows in another command.
    pub fn to_command(&self) -> String {
        let columns = self.columns.as_ref().map(|names| names.join(","));
        let weights = self.weights.as_ref().map(|weights| match weights {
            WeightSource::File(path) => path.display().to_string(),
            WeightSource::Column(name) => format!("column:{name}"),
        });
        let header = self.header.and_then(Header::is_there).map(|header| if header { "yes" } else { "no" }.to_owned());
        let format = self.format.map(|format| format.to_string());
        let angles = self.angles.map(|angles| angles.to_string());
        let options = [
            ("columns", &columns),
            ("weights", &weights),
            ("array", &self.array),
            ("format", &format),
            ("header", &header),
            ("angles", &angles),
        ];
        let mut command = self.data.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        for (option, value) in options {
            if let Some(value) = value {
                // After a blank, a value with a hyphen would be parsed as an option.
                let between = if value.len() > 1 && value.starts_with('-') { '=' } else { ' ' };
                command.push_str(&format!(" --{option}{between}{}", quoted(value)));
            }
        }
        command.push_str(if self.rescale { " --rescale" } else { "" });
        command
    }

    fn options(&self) -> Options {
        let columns = self.columns.clone().unwrap_or_default();
        let header = self.header.and_then(Header::is_there);
        let mut options =
            Options::new().columns(columns).rescale(self.rescale).format(self.format).header(header).memory(self.memory);
        options = options.angles(self.angles);
        if let Some(WeightSource::Column(name)) = &self.weights {
            options = options.weight_column(name);
        }
        if let Some(name) = &self.id_column {
            options = options.id_column(name);
        }
        if let Some(name) = &self.array {
            options = options.array(name);
        }
        options
    }

    /// The labels in a column of the rows.
    pub fn read_labels(&self, column: &str) -> Result<LabelNames> {
        if self.data.iter().any(|location| location == "-") {
            bail!("labels in a column of DATA are read before the rows, so DATA must be files, found: `-`");
        }
        let labels = LabelNames::of_ids(vmfkit_io::read_ids(&self.data, column, &self.options())?);
        if labels.numbers.is_empty() { bail!("{}: no labels to fit", self.name()) } else { Ok(labels) }
    }

    /// The separate file of weights, if there is one.
    fn weight_path(&self) -> Option<&PathBuf> {
        if let Some(WeightSource::File(path)) = &self.weights { Some(path) } else { None }
    }

    fn local_files(&self) -> Vec<PathBuf> {
        self.data.iter().flat_map(|location| vmfkit_io::local_files(location)).collect()
    }

    /// The files that are read, which no output may overwrite.
    pub fn files(&self) -> Vec<PathBuf> {
        self.local_files().into_iter().chain(self.weight_path().cloned()).collect()
    }

    /// The rows in blocks, for a command that needs this much memory in addition.
    pub fn open<M: Into<ExtraMemory>>(&self, extra: impl Fn(&DataSource) -> M) -> Result<RowSource> {
        let rows = self.source(&self.options())?;
        let extra = extra(rows.data()).into();
        rows.with_memory(extra, self.id_column.is_some(), self.memory)
    }

    /// All rows as one block, for work that needs all of them at once; messages name the work.
    pub fn open_whole(&self, work: &str) -> Result<RowSource> {
        if let Some(memory) = self.memory {
            bail!(
                "`{work}` reads all rows into memory and does not support a limit, found: `--memory {}`\nhint: leave it out",
                size::readable(memory)
            );
        }
        self.source(&self.options().block_rows(usize::MAX))?.whole(work)
    }

    /// Each DATA by itself, without weights from a separate file.
    pub fn locations(&self) -> Vec<Self> {
        let weights = self.weights.clone().filter(|weights| matches!(weights, WeightSource::Column(_)));
        let alone = |location: &String| RowArguments { data: vec![location.clone()], weights: weights.clone(), ..self.clone() };
        self.data.iter().map(alone).collect()
    }

    /// Whether rows come from standard input, which can be read only once.
    pub fn has_pipe(&self) -> bool {
        self.data.iter().any(|location| location == "-")
    }

    /// The same rows with their ids in this column, which is then not a coordinate.
    pub fn with_id_column(&self, name: &str) -> Self {
        RowArguments { id_column: Some(name.to_owned()), ..self.clone() }
    }

    /// The same rows for work that needs no ids. The id column is skipped, unless it would then be
    /// read as a coordinate.
    pub fn without_ids(&self) -> Self {
        let without = RowArguments { id_column: None, ..self.clone() };
        if self.id_column.is_none() || self.columns.is_some() {
            return without;
        }
        let dim = |rows: &Self| {
            // A pipe cannot be read twice.
            let again = rows.files().iter().all(|path| path.is_file());
            again.then(|| vmfkit_io::open_all(&rows.data, &rows.options()).ok()).flatten().map(|source| source.dim())
        };
        let with = dim(self);
        if with.is_some() && with == dim(&without) { without } else { self.clone() }
    }

    /// The rows as stored, whatever their length.
    pub fn open_batches(&self) -> Result<Batches> {
        let batches = vmfkit_io::open_batches(&self.data, &self.options())?;
        row_source::note_skipped(batches.skipped());
        self.note_angles(batches.schema().angles);
        Ok(batches)
    }

    /// Weights from a separate file, with its name in messages.
    pub fn weight_file(&self) -> Result<Option<(String, Vec<f64>)>> {
        self.weight_path().map(|path| Ok((input::display(path), input::read_vector(path)?))).transpose()
    }

    /// All locations but the last, and the last.
    pub fn split_last(&self) -> Option<(Self, &str)> {
        let (last, data) = self.data.split_last()?;
        Some((RowArguments { data: data.to_vec(), ..self.clone() }, last))
    }

    /// Whether rows have ids.
    pub fn has_ids(&self) -> bool {
        self.id_column.is_some()
    }

    /// Whether no location was given.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    fn source(&self, options: &Options) -> Result<RowSource> {
        let weights = self.weight_file()?;
        let source = vmfkit_io::open_all(&self.data, options)?;
        row_source::note_skipped(source.skipped());
        self.note_angles(source.seems_angles());
        Ok(RowSource::new(self.name(), source, weights, self.angles, self.text_hint()))
    }

    /// Prints a note if `--rescale` is applied to columns that look like angles.
    fn note_angles(&self, seems: Option<Angles>) {
        if let (true, Some(angles)) = (self.rescale, seems) {
            notes::note(format_args!(
                "{}: the columns look like angles, which `--rescale` does not convert to directions\nhint: `--angles {angles}` reads them",
                self.name()
            ));
        }
    }

    /// A hint if the rows are large text files.
    pub fn text_hint(&self) -> Option<TextHint> {
        TextHint::new(&self.local_files(), self.format, self.weights.is_some(), &self.to_command())
    }
}

/// A word, quoted for a shell if necessary.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:,+=@".contains(c) || cfg!(windows) && c == '\\';
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else if cfg!(windows) {
        format!("\"{word}\"")
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
