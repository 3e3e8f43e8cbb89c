//! The rows that a command works on, and the options that say how to read them.

use super::{INPUT, size};
use crate::files::input::LabelNames;
use crate::files::{input, output};
use crate::report::progress::Progress;
use anyhow::{Result, anyhow, bail};
use clap::ValueEnum;
use std::f64::consts::TAU;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use vmfkit::source::Source;
use vmfkit::{Angles, Error, RowBatch};
use vmfkit_io::{AvailableMemory, Batches, DataSource, Element, Format, Ids, Kept, MemoryLimit, Options, Skipped};

/// Memory that a command has beside rows and models: its code, stacks, buffers of the system's libraries.
const OWN_MEMORY: u64 = 32 << 20;
/// Blocks in memory while rows are read: one in use, one waiting, one being read, its file buffer, and one and a half instead of the page cache.
pub const BLOCKS_AT_ONCE: u64 = 6;
/// The least block that is worth the trouble.
const FEWEST_ROWS: u64 = 64;
/// Threads beside those that compute, at most: they read ahead and wait for signals.
const OTHER_THREADS: u64 = 10;
/// Address space that a thread reserves without using it, its stack.
const ADDRESS_SPACE_PER_THREAD: u64 = 2 << 20;
/// Bytes per row id.
const ID_MEMORY: u64 = 64;
/// Bytes of text from which on another format is recommended.
const LARGE_TEXT: u64 = 256 << 20;

/// Memory that a command needs beside the rows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside {
    pub once: u64,
    pub each_thread: u64,
    /// Of a block.
    pub each_row: u64,
    /// Rows that must be in memory together, if there are as many.
    pub least_rows: u64,
    /// What to do if it is too much, on a line of its own.
    pub hint: Option<&'static str>,
}

impl Beside {
    fn on(self, threads: u64) -> u64 {
        self.once.saturating_add(threads.saturating_mul(self.each_thread))
    }
}

impl From<u64> for Beside {
    fn from(once: u64) -> Self {
        Beside { once, ..Beside::default() }
    }
}

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = INPUT)]
pub struct RowArguments {
    /// Rows: files, folders, quoted patterns, or `-` for standard input (`vmf help formats`)
    #[arg(required = true, value_name = "DATA", help_heading = None, value_parser = input::location_parser())]
    data: Vec<String>,
    /// Columns that are the coordinates, separated by commas
    ///
    /// Several columns of numbers, or one column of lists.
    /// Default: the only column of lists, or else all columns.
    #[arg(verbatim_doc_comment, long, visible_alias = "column", value_name = "NAMES", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Weights of the rows: a file with one number per row, or column:NAME
    ///
    /// A row of weight 2 counts as two rows. FILE is .npy or text; column:NAME is a column of DATA.
    #[arg(long, value_name = "FILE")]
    weights: Option<WeightSource>,
    /// Column of row ids, which are copied to the outputs
    ///
    /// The column is not a coordinate.
    #[arg(long, value_name = "NAME")]
    id_column: Option<String>,
    /// Array to read from .npz and .safetensors files [default: the only one with two axes]
    #[arg(long, value_name = "NAME")]
    array: Option<String>,
    /// Format of DATA [default: detected from the name and the first bytes]
    ///
    /// One of npy, npz, parquet, arrow, csv, tsv, jsonl, safetensors and mtx.
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Whether the first line of text files names the columns [default: auto]
    ///
    /// `vmf help formats` says how a header is recognised.
    #[arg(long, value_name = "WHEN", value_enum)]
    header: Option<Header>,
    /// Read rows as angles: lat,lon; ra,dec; dec,inc; theta,phi; angle (`vmf help angles`)
    ///
    /// The order of the names is the order of the columns.
    /// Angles are in degrees, or with a name such as lat,lon,radians in radians.
    #[arg(verbatim_doc_comment, long, value_name = "NAMES", conflicts_with = "rescale")]
    angles: Option<Angles>,
    /// Divide each row by its length
    ///
    /// Rows in half precision are always divided by their length.
    #[arg(long)]
    rescale: bool,
    /// The limit of a command that has one.
    #[arg(skip)]
    memory: Option<u64>,
}

/// The rows of a command that can work within a memory limit.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = INPUT)]
pub struct LimitedRowArguments {
    #[command(flatten)]
    rows: RowArguments,
    /// Memory limit, such as 512MB [default: half of the free memory]
    ///
    /// Rows that do not fit are read from disk in every pass.
    #[arg(long, value_name = "SIZE", value_parser = size::size)]
    memory: Option<u64>,
}

impl LimitedRowArguments {
    /// The rows, to be read within the limit.
    pub fn limited(&self) -> RowArguments {
        RowArguments { memory: self.memory, ..self.rows.clone() }
    }
}

/// Whether the first line of a text is a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Header {
    Yes,
    No,
    /// If it looks like names
    Auto,
}

impl Header {
    /// None if the text decides.
    pub fn is_there(self) -> Option<bool> {
        match self {
            Header::Yes => Some(true),
            Header::No => Some(false),
            Header::Auto => None,
        }
    }
}

/// Where weights are.
#[derive(Debug, Clone)]
enum WeightSource {
    /// In a file of their own.
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
    /// How messages call the rows.
    pub fn name(&self) -> String {
        vmfkit_io::names(&self.data)
    }

    /// What to write in a command for the same rows.
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
                // After a blank it would be parsed as an option.
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
        if labels.numbers.is_empty() { bail!("{}: there is nothing to fit, labels: `0`", self.name()) } else { Ok(labels) }
    }

    /// The same rows with this column in place of their ids.
    pub fn with_ids(&self, column: &str) -> Self {
        RowArguments { id_column: Some(column.to_owned()), ..self.clone() }
    }

    /// The file of weights, if they have one of their own.
    fn weight_path(&self) -> Option<&PathBuf> {
        if let Some(WeightSource::File(path)) = &self.weights { Some(path) } else { None }
    }

    /// The files that are read, for which results must not be taken.
    pub fn files(&self) -> Vec<PathBuf> {
        self.data.iter().flat_map(|location| vmfkit_io::local_files(location)).chain(self.weight_path().cloned()).collect()
    }

    /// The rows block by block, for a command that needs this much memory beside them.
    pub fn open<B: Into<Beside>>(&self, beside: impl Fn(&DataSource) -> B) -> Result<RowSource> {
        let mut rows = self.source(&self.options())?;
        let source = &mut rows.source;
        let beside = beside(source).into();
        let id = if self.id_column.is_some() { ID_MEMORY } else { 0 };
        let row = source.row_bytes().saturating_add(16 + id).saturating_mul(BLOCKS_AT_ONCE).saturating_add(beside.each_row);
        let weights = rows.weights.as_ref().map_or(0, |(_, weights)| 8 * weights.len() as u64);
        let threads = rayon::current_num_threads() as u64;
        // What a damaged file says of itself may be anything.
        let own = beside.on(threads).saturating_add(OWN_MEMORY + weights).saturating_add(source.held_bytes());
        let least_rows = beside.least_rows.min(source.rows().unwrap_or(u64::MAX)).max(FEWEST_ROWS);
        let least = own.saturating_add(row.saturating_mul(least_rows));
        if let Some(memory) = self.memory.filter(|memory| *memory < least) {
            let hint = match beside.hint {
                _ if beside.each_thread.saturating_mul(threads) > least / 2 => "\nhint: fewer `--threads` need less",
                Some(hint) => hint,
                None => "",
            };
            bail!(
                "this command needs at least {} of memory, found: `--memory {}`{hint}",
                size::readable(least),
                size::readable(memory)
            );
        }
        // Without `--memory` blocks stay what they are.
        if let Some(memory) = self.memory {
            source.limit_block_rows(usize::try_from((memory - own) / row)?);
        }
        let needed = own.saturating_add(row.saturating_mul(source.block_rows() as u64));
        let available = allocatable(threads);
        // Rows that do not fill a block take less, and how many lines a text has is not known.
        let rows_at_most = (source.block_rows() as u64).min(source.rows().unwrap_or(0));
        let certain = own.saturating_add(row.saturating_mul(rows_at_most));
        if available.limit.fails_allocations() && available.bytes < certain {
            let (needed, left) = (size::readable(certain), size::readable(available.bytes));
            let hint = match available.bytes > least {
                true => format!("\nhint: `--memory {}` makes smaller blocks", size::megabytes(available.bytes)),
                false => String::new(),
            };
            bail!("this command needs up to {needed} of memory, and {} leaves: `{left}`{hint}", available.limit);
        }
        rows.free_memory = match self.memory {
            Some(memory) => memory.min(available.bytes).saturating_sub(needed),
            None => available.bytes.saturating_sub(needed) / 2,
        };
        Ok(rows)
    }

    /// All rows as one block, for work that needs all of them at once; messages name it.
    pub fn open_whole(&self, work: &str) -> Result<RowSource> {
        if let Some(memory) = self.memory {
            bail!(
                "`{work}` reads all rows into memory and has no limit, found: `--memory {}`\nhint: leave it out",
                size::readable(memory)
            );
        }
        let mut rows = self.source(&self.options().block_rows(usize::MAX))?;
        let available = allocatable(rayon::current_num_threads() as u64);
        let takes = rows.source.rows().unwrap_or(0).saturating_mul(rows.source.row_bytes());
        if takes > available.bytes && available.limit.is_enforced() {
            let (takes, left) = (size::readable(takes), size::readable(available.bytes));
            bail!("`{work}` reads all rows into memory, which takes {takes}, and {} leaves: `{left}`", available.limit);
        }
        rows.free_memory = available.bytes / 2;
        Ok(rows)
    }

    /// The same rows, each DATA by itself, without the weights of a file for all of them.
    pub fn locations(&self) -> Vec<Self> {
        let weights = self.weights.clone().filter(|weights| matches!(weights, WeightSource::Column(_)));
        let alone = |location: &String| RowArguments { data: vec![location.clone()], weights: weights.clone(), ..self.clone() };
        self.data.iter().map(alone).collect()
    }

    /// Whether rows come through a pipe, which can be read only once.
    pub fn has_pipe(&self) -> bool {
        self.data.iter().any(|location| location == "-")
    }

    /// The same rows with a column that names them, which is no coordinate.
    pub fn with_id_column(&self, name: &str) -> Self {
        RowArguments { id_column: Some(name.to_owned()), ..self.clone() }
    }

    /// The same rows for work that has no use for their ids: they are not read, unless that would make coordinates of them.
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

    /// The rows as the files have them, on the sphere or not.
    pub fn open_batches(&self) -> Result<Batches> {
        let batches = vmfkit_io::open_batches(&self.data, &self.options())?;
        note_skipped(batches.skipped());
        self.note_angles(batches.schema().angles);
        Ok(batches)
    }

    /// The weights of a file of their own, and how messages call it.
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
        note_skipped(source.skipped());
        self.note_angles(source.seems_angles());
        let (name, text_hint, angles) = (self.name(), self.text_hint(), self.angles);
        let like_radians = angles.is_some_and(|angles| !angles.is_in_radians());
        Ok(RowSource { name, source, weights, text_hint, angles, like_radians, free_memory: 0, rows: 0, weight: 0.0 })
    }

    /// Says so if columns that seem to be these angles are divided by their length, which makes nonsense of them.
    fn note_angles(&self, seems: Option<Angles>) {
        if let (true, Some(angles)) = (self.rescale, seems) {
            output::note(format_args!(
                "{}: the columns look like angles, which `--rescale` does not convert to directions\nhint: `--angles {angles}` reads them",
                self.name()
            ));
        }
    }

    /// What to do about much text, for work that passes over it more than once.
    fn text_hint(&self) -> Option<TextHint> {
        let files: Vec<PathBuf> = self.data.iter().flat_map(|location| vmfkit_io::local_files(location)).collect();
        let format_of = |path: &Path| self.format.or_else(|| Format::of_name(path));
        let text = |format| matches!(format, Some(Format::Csv | Format::Tsv | Format::Jsonl | Format::Mtx));
        // One matrix is in memory as a whole.
        if let [only] = &files[..]
            && format_of(only) == Some(Format::Mtx)
        {
            return None;
        }
        let lengths = files.iter().filter(|path| text(format_of(path))).filter_map(|path| path.metadata().ok());
        let bytes: u64 = lengths.map(|metadata| metadata.len()).sum();
        let into = match self.weights.is_some() {
            true => "parquet",
            false if files.iter().all(|path| format_of(path) == Some(Format::Mtx)) => "npz",
            false => "npy",
        };
        let command = format!("vmf convert {} rows.{into}", self.to_command());
        (bytes >= LARGE_TEXT).then(|| TextHint { size: size::readable(bytes), command })
    }
}

/// Rows with their weights, block by block.
pub struct RowSource {
    name: String,
    source: DataSource,
    /// Those of a file of their own, and how messages call it.
    weights: Option<(String, Vec<f64>)>,
    /// What to do about passes that take long because of much text.
    text_hint: Option<TextHint>,
    /// The angles of the files, if these do not hold unit vectors.
    angles: Option<Angles>,
    /// They are read as degrees, and all so far might be radians.
    like_radians: bool,
    /// Bytes for holding the rows.
    free_memory: u64,
    /// Those of this pass.
    rows: u64,
    weight: f64,
}

impl RowSource {
    /// How messages call the rows.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The angles that the files have, if not unit vectors.
    pub fn angles(&self) -> Option<Angles> {
        self.angles
    }

    /// How many rows there are, where that is known before their end.
    pub fn len(&self) -> Option<u64> {
        self.source.rows()
    }

    /// The number of the first row of the current block, and the ids of its rows.
    pub fn ids(&self) -> (u64, Option<&Ids>) {
        (self.source.first_row(), self.source.ids())
    }

    /// For work with several passes: keeps the rows in memory if they fit, or in a scratch file in this folder if they are slow to read again. Prints a
    /// hint if they are much text that does not fit into memory, unless `quiet`.
    pub fn hold(&mut self, scratch: Option<&Path>, quiet: bool) -> Result<()> {
        let (mut progress, all) = (Progress::new(!quiet), self.len());
        let kept = self.source.keep(self.free_memory, scratch, |rows| {
            progress.rows("reading: ", rows, all);
            ControlFlow::Continue(())
        });
        let kept = kept.map_err(|error| self.explain(error))?;
        drop(progress);
        if let Some(failure) = self.source.scratch_failure() {
            output::note(failure);
        }
        if let Some(hint) = self.text_hint.as_ref().filter(|_| !quiet) {
            match (kept, scratch) {
                (Kept::Disk, Some(folder)) => output::note(hint.of_scratch(folder)),
                (Kept::Nowhere, _) => output::note(hint.of_passes()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Says so if rows were not of unit length, or if angles seem to have another unit than the one they were read in.
    pub fn note_rescaled(&self) {
        if self.like_radians && self.rows >= FEWEST_LIKE_RADIANS {
            output::note(format_args!(
                "{}: all angles were read as degrees, and none is larger than 2 pi\nhint: `--angles {angles},radians` if they are radians",
                self.name,
                angles = self.angles.map_or_else(String::new, |angles| angles.to_string()),
            ));
        }
        if let Some(changed) = self.source.rescaled() {
            let half = self.source.element() == Element::F16;
            let why = if half { " (half precision cannot hold unit rows)" } else { "" };
            output::note(format_args!(
                "{}: rows were divided by their length{why}; {changed} of {} were not of length 1",
                self.name, self.rows
            ));
        }
    }

    /// What is known of the rows after a pass.
    pub fn seen(&self) -> Seen {
        let (file, dim, rescaled, angles) = (self.name.clone(), self.dim(), self.source.rescaled(), self.angles);
        Seen { file, rows: self.rows, dim, weight: self.weight, rescaled, angles }
    }

    /// The only batch of rows that were opened as a whole.
    pub fn read_whole<'s>(&'s mut self, buffer: &'s mut RowBatch<'static>) -> Result<RowBatch<'s>> {
        let name = self.name.clone();
        match self.next_validated(buffer) {
            Ok(Some(block)) => Ok(block),
            Ok(None) => Err(explain(&name, Error::NoRows { weight: 0.0 })),
            Err(error) => Err(explain(&name, error)),
        }
    }

    /// An error that names the rows, with a hint for this command.
    pub fn explain(&self, error: Error) -> anyhow::Error {
        explain(&self.name, error)
    }
}

/// Memory that may still be allocated, with this many threads to come.
fn allocatable(threads: u64) -> AvailableMemory {
    let available = vmfkit_io::available_memory();
    let reserved = match available.limit {
        MemoryLimit::AddressSpace => (threads + OTHER_THREADS) * ADDRESS_SPACE_PER_THREAD,
        _ => 0,
    };
    AvailableMemory { bytes: available.bytes.saturating_sub(reserved), ..available }
}

/// Much text, for people, and how to make another file of it.
#[derive(Debug, PartialEq)]
struct TextHint {
    size: String,
    command: String,
}

impl TextHint {
    /// It is parsed in every pass.
    fn of_passes(&self) -> String {
        format!("hint: every pass parses {} of text; `{}` makes a file that is read faster", self.size, self.command)
    }

    /// It was parsed once, and what came of it is here until the end.
    fn of_scratch(&self, folder: &Path) -> String {
        let (size, folder) = (&self.size, folder.display());
        format!("hint: the rows of {size} of text are in a temporary file in {folder}; `{}` makes a permanent one", self.command)
    }
}

/// Fewer rows than this may all be near the origin of their angles.
const FEWEST_LIKE_RADIANS: u64 = 8;

/// Whether no angle of a row, in degrees, is larger than 2 pi.
fn is_like_radians(angles: Angles, row: &[f64]) -> bool {
    let small = |angle: f64| angle.abs().min(360.0 - angle.abs()) <= TAU * (1.0 + f64::from(f32::EPSILON));
    angles.of_vectors(row).is_ok_and(|found| found.into_iter().all(small))
}

/// Says so if a folder holds more than was read.
fn note_skipped(skipped: Option<&Skipped>) {
    if let Some(Skipped { count, first }) = skipped {
        let more = if *count > 1 { format!(" and {} more", count - 1) } else { String::new() };
        output::note(format_args!("{first}{more}: skipped, the extension is not that of a file of rows"));
    }
}

/// Errors of files name them already.
fn explain(name: &str, error: Error) -> anyhow::Error {
    match error {
        Error::Read(_) => error.into(),
        Error::CannotRewind => anyhow!(
            "{name}: these rows can be read only once, and this method reads them in every pass\n\
             hint: `--method online --max-passes 1` reads them once; or write them to a file"
        ),
        error => anyhow::Error::from(error).context(name.to_owned()),
    }
}

impl Source for RowSource {
    fn dim(&self) -> usize {
        self.source.dim()
    }

    fn next_batch(&mut self) -> vmfkit::Result<Option<RowBatch<'_>>> {
        let RowSource { source, weights, rows, weight, angles, like_radians, .. } = self;
        let weights = weights.as_ref();
        let first = usize::try_from(*rows).unwrap_or(usize::MAX);
        let in_weight_file = |error| match weights {
            Some((name, _)) => Error::read(WeightFile { name: name.clone(), source: error }),
            None => error,
        };
        let found = weights.map_or(first, |(_, weights)| weights.len());
        let Some(mut batch) = source.next_batch()? else {
            return if found == first { Ok(None) } else { Err(in_weight_file(Error::WeightCount { rows: first, found })) };
        };
        *rows += batch.len() as u64;
        if let (Some(angles), true) = (angles, &*like_radians) {
            *like_radians = (0..batch.len()).all(|row| is_like_radians(*angles, &batch.row(row)));
        }
        if let Some((_, weights)) = weights {
            // How many rows there are is not known before their end.
            batch = batch.with_weights_from(first, weights).map_err(in_weight_file)?;
        }
        *weight += batch.weights().map_or(batch.len() as f64, |weights| weights.iter().sum());
        Ok(Some(batch))
    }

    fn prefer_rows(&mut self, rows: Option<usize>) {
        self.source.prefer_rows(rows);
    }

    fn rewind(&mut self) -> vmfkit::Result<()> {
        self.source.rewind()?;
        (self.rows, self.weight) = (0, 0.0);
        Ok(())
    }

    fn can_rewind(&self) -> bool {
        self.source.can_rewind()
    }

    fn rows(&self) -> Option<u64> {
        self.source.rows()
    }
}

/// What is wrong in a file of weights.
#[derive(Debug, thiserror::Error)]
#[error("{name}")]
struct WeightFile {
    name: String,
    source: Error,
}

/// What is known of rows after a pass over them.
#[derive(Debug, Clone)]
pub struct Seen {
    /// How messages call them.
    pub file: String,
    pub rows: u64,
    pub dim: usize,
    pub weight: f64,
    /// How many were not of unit length, if they were rescaled.
    pub rescaled: Option<u64>,
    /// The angles of the files, if these do not hold unit vectors.
    pub angles: Option<Angles>,
}

impl Seen {
    /// The first line of a report.
    pub fn heading(&self) -> String {
        let Seen { file, rows, dim, weight, .. } = self;
        let weight = if *weight == *rows as f64 {
            String::new()
        } else {
            format!(" of total weight {}", crate::report::format::readable(*weight))
        };
        format!("{file}: {rows} rows of dimension {dim}{weight}")
    }
}

/// A word as a shell wants it.
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        rows: RowArguments,
    }

    #[test]
    fn much_text_gets_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let hint = |words: &[&str]| {
            let words = words.iter().map(|word| if word.contains('.') { path(word) } else { (*word).to_owned() });
            Words::parse_from([String::new()].into_iter().chain(words)).rows.text_hint()
        };
        // Holes take no space on the disk.
        for (name, length) in [
            ("half.csv", LARGE_TEXT / 2),
            ("half.jsonl.gz", LARGE_TEXT / 2),
            ("less.tsv", LARGE_TEXT - 1),
            ("one.mtx", LARGE_TEXT),
            ("other.mtx", LARGE_TEXT),
            ("x.npy", LARGE_TEXT),
            ("x.parquet", LARGE_TEXT),
        ] {
            std::fs::File::create(path(name)).unwrap().set_len(length).unwrap();
        }
        let (half, other) = (path("half.csv"), path("half.jsonl.gz"));
        let command = format!("`vmf convert {} {} rows.npy`", quoted(&half), quoted(&other));
        let found = hint(&["half.csv", "half.jsonl.gz"]).unwrap();
        assert_eq!(
            found.of_passes(),
            format!("hint: every pass parses 268.435 MB of text; {command} makes a file that is read faster")
        );
        let scratch = "hint: the rows of 268.435 MB of text are in a temporary file in /var/tmp";
        assert_eq!(found.of_scratch(Path::new("/var/tmp")), format!("{scratch}; {command} makes a permanent one"));
        for words in [&["half.csv"][..], &["half.csv", "x.npy"], &["less.tsv"], &["one.mtx"], &["x.npy"], &["x.parquet"]] {
            assert_eq!(hint(words), None, "{words:?}");
        }
        assert!(hint(&["x.npy", "--format", "csv"]).is_some());
        assert!(
            hint(&["half.csv", "half.jsonl.gz", "--weights", "column:n"])
                .unwrap()
                .command
                .ends_with(" --weights column:n rows.parquet")
        );
        assert!(hint(&["one.mtx", "other.mtx"]).unwrap().command.ends_with(" rows.npz"));
    }
}
