//! The rows that a command works on, and the options that say how to read them.

use crate::input::LabelNames;
use crate::progress::Progress;
use crate::{input, memory, output};
use anyhow::{Result, anyhow, bail};
use std::f64::consts::TAU;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use vmfkit::loose_rows::Sections;
use vmfkit::source::{Portion, Source};
use vmfkit::{Angles, Block, Error};
use vmfkit_io::{AvailableMemory, Batches, DataSource, Element, Format, Ids, Kept, MemoryLimit, Options, Skipped};

macro_rules! angles_help {
    () => {
        "\
Rows that are angles (--angles) become unit vectors. Their columns are those that --columns names, or those with names such as `lat`,
`Latitude` or `lon_deg`, or all columns if there are no such names:
  lat,lon       x = cos lat cos lon, y = cos lat sin lon, z = sin lat
  ra,dec        the same: ra is the longitude, dec the latitude, both in degrees
  dec,inc       x = cos inc cos dec (north), y = cos inc sin dec (east), z = sin inc (down); also as trend,plunge
  theta,phi     x = sin theta cos phi, y = sin theta sin phi, z = cos theta: theta is the angle from the pole
  angle         x = cos angle, y = sin angle; one column, directions of the circle
The order of the names is the order of the columns: lon,lat has the longitude first. Angles are in degrees; --radians, or a name such
as lat,lon,radians, reads radians. Latitudes past a pole are refused; longitudes may have any number of turns."
    };
}

/// What a command's help says about angles.
pub const ANGLES: &str = angles_help!();

/// What a command's help says about its rows.
pub const FILES: &str = concat!(
    "\
DATA is a file, a folder, a pattern in quotes ('part-*.parquet') or several of them, read one after the other as if they were one file;
`-` is standard input. Formats: .npy, .npz, Parquet, Arrow IPC, CSV, TSV, JSON Lines, safetensors, Matrix Market; text may be
compressed with gzip. The first line of a text file is a header if no cell of it is a number, or if it counts three columns or more from
0, as that of pandas does; a column without a name before the others is an index then, not a coordinate. JSON Lines are arrays, or
objects with a key chosen by --columns, or `embedding`. Files may be larger than memory. With the feature object-store of the build DATA
may also be in a store: s3://bucket/part-*.parquet, gs://, az:// or https://.
\n",
    angles_help!(),
    "\n\nMessages count rows from 0 and lines from 1. In --json, infinities are the strings \"inf\" and \"-inf\"."
);

/// Memory that a command has beside rows and models: its code, stacks, buffers of the system's libraries.
const OWN_MEMORY: u64 = 32 << 20;
/// Blocks in memory while rows are read: one worked on, one waiting, one in the making, what its file is read by, and one and a half that serve in
/// place of the system's cache.
const BLOCKS_AT_ONCE: u64 = 6;
/// The least block that is worth the trouble.
const FEWEST_ROWS: u64 = 64;
/// Threads for which blocks leave room. Blocks decide the last digits of a result, so the threads there are must not decide on blocks.
const THREADS_ASSUMED: u64 = 8;
/// Threads beside those that compute, at most: they read ahead and wait for signals.
const OTHER_THREADS: u64 = 10;
/// Address space that a thread reserves without using it, its stack.
const ADDRESS_SPACE_PER_THREAD: u64 = 2 << 20;
/// What the id of a row takes.
const ID_MEMORY: u64 = 64;
/// Text of which a pass takes so long that another format is worth a hint.
const LARGE_TEXT: u64 = 256 << 20;

/// Memory that a command needs beside the rows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside {
    pub once: u64,
    pub each_thread: u64,
    /// Of a block.
    pub each_row: u64,
    /// What to do where it is too much, on a line of its own.
    pub hint: Option<&'static str>,
}

impl Beside {
    fn on(self, threads: u64) -> u64 {
        self.once.saturating_add(threads.saturating_mul(self.each_thread))
    }
}

/// How many rows a block has. The last digits of a fit depend on it.
#[derive(Debug, Clone, Copy)]
pub enum BlockSize {
    /// What the source chooses, or less if there is not the memory for them.
    Usual,
    /// This many, or less if there is not the memory for them.
    AtMost(u32),
    /// This many: those of the fit that is resumed.
    OfCheckpoint(u32),
}

impl From<Option<u32>> for BlockSize {
    fn from(rows: Option<u32>) -> Self {
        rows.map_or(BlockSize::Usual, BlockSize::AtMost)
    }
}

impl From<u64> for Beside {
    fn from(once: u64) -> Self {
        Beside { once, ..Beside::default() }
    }
}

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Options of the rows")]
pub struct RowArguments {
    /// Rows: files, folders, patterns, or `-` for standard input
    #[arg(required = true, value_name = "DATA", help_heading = None, value_parser = input::location_parser())]
    data: Vec<String>,
    /// Columns that are the coordinates, by name: several of numbers, or one of lists [default: the only column of lists, or all]
    #[arg(long, visible_alias = "column", value_name = "NAMES", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Column that holds the rows' weights: a row of weight 2 counts as two
    #[arg(long, value_name = "NAME")]
    weight_column: Option<String>,
    /// Column that says what the rows are called, carried to the outputs
    #[arg(long, value_name = "NAME")]
    id_column: Option<String>,
    /// File with one weight a row: a row of weight 2 counts as two
    #[arg(long, value_name = "FILE", conflicts_with = "weight_column")]
    weights: Option<PathBuf>,
    /// Which array of a .npz or .safetensors file, if several have two axes
    #[arg(long, value_name = "NAME")]
    array: Option<String>,
    /// Format of the files: npy, npz, parquet, arrow, csv, tsv, jsonl, safetensors or mtx [default: by their first bytes and names]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Take the first line of text files for column names [default: where it looks like them]
    #[arg(long, conflicts_with = "no_header")]
    header: bool,
    /// Take the first line of text files for a row
    #[arg(long)]
    no_header: bool,
    /// Rows are angles: lat,lon; ra,dec; dec,inc; trend,plunge; theta,phi; or angle, in the order of the columns. In degrees,
    /// unless --radians is given
    #[arg(long, value_name = "NAMES", conflicts_with = "rescale")]
    angles: Option<Angles>,
    /// The --angles are in radians
    #[arg(long, requires = "angles", conflicts_with = "degrees")]
    radians: bool,
    /// The --angles are in degrees, which is the default
    #[arg(long, requires = "angles")]
    degrees: bool,
    /// Divide each row by its length; half precision always is
    #[arg(long)]
    rescale: bool,
    /// Memory that the command keeps to, as in 512MB; rows that do not fit are read from the disk in every pass [default: half of what is free]
    #[arg(long, value_name = "SIZE", value_parser = memory::size)]
    memory: Option<u64>,
}

impl RowArguments {
    /// How messages call the rows.
    pub fn name(&self) -> String {
        vmfkit_io::names(&self.data)
    }

    /// What to write in a command for the same rows.
    pub fn to_command(&self) -> String {
        let columns = self.columns.as_ref().map(|names| names.join(","));
        let weights = self.weights.as_ref().map(|path| path.display().to_string());
        let format = self.format.map(|format| format.to_string());
        let angles = self.angles().map(|angles| angles.to_string());
        let options = [
            ("columns", &columns),
            ("weight-column", &self.weight_column),
            ("weights", &weights),
            ("array", &self.array),
            ("format", &format),
            ("angles", &angles),
        ];
        let mut command = self.data.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        for (option, value) in options {
            if let Some(value) = value {
                // Behind a blank it would be taken for an option.
                let between = if value.len() > 1 && value.starts_with('-') { '=' } else { ' ' };
                command.push_str(&format!(" --{option}{between}{}", quoted(value)));
            }
        }
        for (given, option) in [(self.header, " --header"), (self.no_header, " --no-header"), (self.rescale, " --rescale")] {
            command.push_str(if given { option } else { "" });
        }
        command
    }

    fn options(&self) -> Options {
        let columns = self.columns.clone().unwrap_or_default();
        let header = (self.header || self.no_header).then_some(self.header);
        let mut options =
            Options::new().columns(columns).rescale(self.rescale).format(self.format).header(header).memory(self.memory);
        options = options.angles(self.angles());
        if let Some(name) = &self.weight_column {
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

    /// The angles that rows are, if they are not unit vectors.
    fn angles(&self) -> Option<Angles> {
        let unit = if self.radians { Some(true) } else { self.degrees.then_some(false) };
        self.angles.map(|angles| unit.map_or(angles, |radians| angles.in_radians(radians)))
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

    /// What `--memory` allows.
    pub fn memory(&self) -> Option<u64> {
        self.memory
    }

    /// The files that are read, for which results must not be taken.
    pub fn files(&self) -> Vec<PathBuf> {
        self.data.iter().flat_map(|location| vmfkit_io::local_files(location)).chain(self.weights.clone()).collect()
    }

    /// The rows block by block, for a command that needs so much memory beside them.
    pub fn open<B: Into<Beside>>(&self, beside: impl Fn(&DataSource) -> B) -> Result<RowSource> {
        self.open_in_blocks(BlockSize::Usual, beside)
    }

    /// The same in blocks of this size.
    pub fn open_in_blocks<B: Into<Beside>>(&self, size: BlockSize, beside: impl Fn(&DataSource) -> B) -> Result<RowSource> {
        let options = match size {
            BlockSize::Usual => self.options(),
            BlockSize::AtMost(rows) | BlockSize::OfCheckpoint(rows) => self.options().block_rows(rows as usize),
        };
        let mut rows = self.source(&options)?;
        let source = &mut rows.source;
        let beside = beside(source).into();
        let id = if self.id_column.is_some() { ID_MEMORY } else { 0 };
        let row = source.row_bytes().saturating_add(16 + id).saturating_mul(BLOCKS_AT_ONCE).saturating_add(beside.each_row);
        let weights = rows.weights.as_ref().map_or(0, |(_, weights)| 8 * weights.len() as u64);
        // What a damaged file says of itself may be anything.
        let own = |threads: u64| beside.on(threads).saturating_add(OWN_MEMORY + weights).saturating_add(source.held_bytes());
        let threads = rayon::current_num_threads() as u64;
        let least = own(threads.max(THREADS_ASSUMED)).saturating_add(row.saturating_mul(FEWEST_ROWS));
        if let Some(memory) = self.memory.filter(|memory| *memory < least) {
            let hint = match beside.hint {
                _ if threads > THREADS_ASSUMED => "\nhint: fewer `--threads` take less",
                Some(hint) => hint,
                None => "",
            };
            bail!(
                "this work takes at least {} of memory, found: `--memory {}`{hint}",
                memory::readable(least),
                memory::readable(memory)
            );
        }
        let own_of_blocks = own(THREADS_ASSUMED);
        let own = own(threads);
        // Without `--memory` blocks stay what they are, so that no result depends on what is free at the moment.
        if let Some(memory) = self.memory {
            source.limit_block_rows(usize::try_from((memory - own_of_blocks) / row)?);
            if let BlockSize::OfCheckpoint(rows) = size
                && source.block_rows() < rows as usize
            {
                let least = memory::megabytes(own_of_blocks + u64::from(rows) * row + 999_999);
                let found = memory::readable(memory);
                bail!(
                    "the checkpoint was made with blocks of {rows} rows, for which there is too little memory, found: `--memory {found}`\n\
                     hint: resume with `--memory {least}` or more"
                );
            }
        }
        let needed = own.saturating_add(row.saturating_mul(source.block_rows() as u64));
        let available = allocatable(threads);
        // Rows that do not fill a block take less, and how many lines a text has is not known.
        let rows_at_most = (source.block_rows() as u64).min(source.rows().unwrap_or(0));
        let certain = own.saturating_add(row.saturating_mul(rows_at_most));
        if available.limit.fails_allocations() && available.bytes < certain {
            let (needed, left) = (memory::readable(certain), memory::readable(available.bytes));
            let hint = match available.bytes > least {
                true => format!("\nhint: `--memory {}` makes smaller blocks", memory::megabytes(available.bytes)),
                false => String::new(),
            };
            bail!("this work takes up to {needed} of memory, and {} leaves: `{left}`{hint}", available.limit);
        }
        rows.room = match self.memory {
            Some(memory) => memory.min(available.bytes).saturating_sub(needed),
            None => available.bytes.saturating_sub(needed) / 2,
        };
        Ok(rows)
    }

    /// All rows as one block, for work (so it is called in messages) that needs all of them at once.
    pub fn open_whole(&self, work: &str) -> Result<RowSource> {
        if let Some(memory) = self.memory {
            bail!(
                "`{work}` takes all rows into memory, however many they are, found: `--memory {}`\nhint: leave it out",
                memory::readable(memory)
            );
        }
        let mut rows = self.source(&self.options().block_rows(usize::MAX))?;
        let available = allocatable(rayon::current_num_threads() as u64);
        let takes = rows.source.rows().unwrap_or(0).saturating_mul(rows.source.row_bytes());
        if takes > available.bytes && available.limit.is_enforced() {
            let (takes, left) = (memory::readable(takes), memory::readable(available.bytes));
            bail!("`{work}` takes all rows into memory, which are {takes}, and {} leaves: `{left}`", available.limit);
        }
        rows.room = available.bytes / 2;
        Ok(rows)
    }

    /// The same rows, each DATA by itself, without the weights of a file for all of them.
    pub fn places(&self) -> Vec<Self> {
        self.data.iter().map(|place| RowArguments { data: vec![place.clone()], weights: None, ..self.clone() }).collect()
    }

    /// Whether rows come through a pipe, which can be read only once.
    pub fn has_pipe(&self) -> bool {
        self.data.iter().any(|place| place == "-")
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
            // What comes through a pipe is gone after a look.
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
        self.weights.as_ref().map(|path| Ok((input::display(path), input::read_vector(path)?))).transpose()
    }

    /// All places but the last, and the last.
    pub fn split_last(&self) -> Option<(Self, &str)> {
        let (last, data) = self.data.split_last()?;
        Some((RowArguments { data: data.to_vec(), ..self.clone() }, last))
    }

    /// Rows are called by what a column says.
    pub fn has_ids(&self) -> bool {
        self.id_column.is_some()
    }

    /// No place was given.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    fn source(&self, options: &Options) -> Result<RowSource> {
        let weights = self.weight_file()?;
        let source = vmfkit_io::open_all(&self.data, options)?;
        note_skipped(source.skipped());
        self.note_angles(source.seems_angles());
        let (name, text_hint, angles) = (self.name(), self.text_hint(), self.angles());
        let like_radians = angles.is_some_and(|angles| !angles.is_in_radians());
        Ok(RowSource { name, source, weights, text_hint, angles, like_radians, room: 0, rows: 0, weight: 0.0 })
    }

    /// Says so if columns that seem to be these angles are divided by their length, which makes nonsense of them.
    fn note_angles(&self, seems: Option<Angles>) {
        if let (true, Some(angles)) = (self.rescale, seems) {
            output::note(format_args!(
                "{}: the columns look like angles, of which `--rescale` makes no directions\nhint: `--angles {angles}` reads them",
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
        let into = match self.weight_column.is_some() || self.weights.is_some() {
            true => "parquet",
            false if files.iter().all(|path| format_of(path) == Some(Format::Mtx)) => "npz",
            false => "npy",
        };
        let command = format!("vmf convert {} rows.{into}", self.to_command());
        (bytes >= LARGE_TEXT).then(|| TextHint { size: memory::readable(bytes), command })
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
    /// What the files have in place of unit vectors.
    angles: Option<Angles>,
    /// They are read as degrees, and all so far might be radians.
    like_radians: bool,
    /// Bytes for holding the rows.
    room: u64,
    /// Those of this pass.
    rows: u64,
    weight: f64,
}

impl RowSource {
    /// The rows themselves.
    pub fn data(&self) -> &DataSource {
        &self.source
    }

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

    /// The number of the first row of the block lent last, and what its rows are called.
    pub fn ids(&self) -> (u64, Option<&Ids>) {
        (self.source.first_row(), self.source.ids())
    }

    /// For work that passes over the rows more than once: holds them in memory if there is room, or in a scratch file in this folder if another pass
    /// takes long. If memory has no room, and they are much text, says what to do about it, unless nobody wants to hear.
    pub fn hold(&mut self, scratch: Option<&Path>, quiet: bool) -> Result<()> {
        let (mut progress, all) = (Progress::new(!quiet), self.len());
        let kept = self.source.keep(self.room, scratch, |rows| {
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
                "{}: all angles were read as degrees, and none is larger than 2 pi\nhint: `--radians` if they are radians",
                self.name
            ));
        }
        if let Some(changed) = self.source.rescaled() {
            let half = self.source.element() == Element::F16;
            let why = if half { " (half precision cannot hold unit rows)" } else { "" };
            output::note(format_args!(
                "{}: rows were divided by their length{why}; not of length 1 were {changed} of {}",
                self.name, self.rows
            ));
        }
    }

    /// What is known of the rows after a pass.
    pub fn seen(&self) -> Seen {
        let (file, dim, rescaled, angles) = (self.name.clone(), self.dim(), self.source.rescaled(), self.angles);
        Seen { file, rows: self.rows, dim, weight: self.weight, rescaled, angles }
    }

    /// The only block of rows that were opened as a whole.
    pub fn read_whole(&mut self) -> Result<Block<'_>> {
        let name = self.name.clone();
        match self.read_block() {
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
        format!(
            "hint: the rows of {size} of text are in a scratch file in {folder} until the end; `{}` makes one that stays",
            self.command
        )
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
        output::note(format_args!("{first}{more}: passed over, the name is not that of a file of rows"));
    }
}

/// Errors of files name them already.
fn explain(name: &str, error: Error) -> anyhow::Error {
    match error {
        Error::Read(_) => error.into(),
        Error::CannotRewind => anyhow!(
            "{name}: these rows can be read only once, and this way of fitting reads them once a pass\n\
             hint: `--method online --max-passes 1` reads them once; or write them to a file"
        ),
        error => anyhow::Error::from(error).context(name.to_owned()),
    }
}

impl Source for RowSource {
    fn dim(&self) -> usize {
        self.source.dim()
    }

    fn read_block(&mut self) -> vmfkit::Result<Option<Block<'_>>> {
        let RowSource { source, weights, rows, weight, angles, like_radians, .. } = self;
        let weights = weights.as_ref();
        let first = usize::try_from(*rows).unwrap_or(usize::MAX);
        let in_weight_file = |error| match weights {
            Some((name, _)) => Error::read(WeightFile { name: name.clone(), source: error }),
            None => error,
        };
        let found = weights.map_or(first, |(_, weights)| weights.len());
        let Some(mut block) = source.read_block()? else {
            return if found == first { Ok(None) } else { Err(in_weight_file(Error::WeightCount { rows: first, found })) };
        };
        *rows += block.len() as u64;
        if let (Some(angles), true) = (angles, &*like_radians) {
            *like_radians = (0..block.len()).all(|row| is_like_radians(*angles, &block.row(row)));
        }
        if let Some((_, weights)) = weights {
            // How many rows there are is not known before their end.
            block = block.with_weights_from(first, weights).map_err(in_weight_file)?;
        }
        *weight += block.weights().map_or(block.len() as f64, |weights| weights.iter().sum());
        Ok(Some(block))
    }

    fn read_portion(&mut self) -> vmfkit::Result<Option<Portion<'_>>> {
        if self.weights.is_some() || self.like_radians {
            return Ok(self.read_block()?.map(Portion::Block));
        }
        let portion = self.source.read_portion()?;
        let (rows, weight) = match &portion {
            None => (0, 0.0),
            Some(Portion::Loose(rows)) => (rows.len(), rows.len() as f64),
            Some(Portion::Block(block)) => {
                (block.len(), block.weights().map_or(block.len() as f64, |weights| weights.iter().sum()))
            }
        };
        self.rows += rows as u64;
        self.weight += weight;
        Ok(portion)
    }

    fn read_in_sections(&mut self, sections: Option<Sections>) {
        // Weights of a file are put beside blocks.
        self.source.read_in_sections(sections.filter(|_| self.weights.is_none()));
    }

    fn refuse(&mut self, error: Error) -> Error {
        self.source.refuse(error)
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
    /// What the files have in place of unit vectors.
    pub angles: Option<Angles>,
}

impl Seen {
    /// The first line of a report.
    pub fn heading(&self) -> String {
        let Seen { file, rows, dim, weight, .. } = self;
        let weight = if *weight == *rows as f64 {
            String::new()
        } else {
            format!(" of total weight {}", crate::format::readable(*weight))
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
        // Holes take no room on the disk.
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
        let scratch = "hint: the rows of 268.435 MB of text are in a scratch file in /var/tmp until the end";
        assert_eq!(found.of_scratch(Path::new("/var/tmp")), format!("{scratch}; {command} makes one that stays"));
        for words in [&["half.csv"][..], &["half.csv", "x.npy"], &["less.tsv"], &["one.mtx"], &["x.npy"], &["x.parquet"]] {
            assert_eq!(hint(words), None, "{words:?}");
        }
        assert!(hint(&["x.npy", "--format", "csv"]).is_some());
        assert!(
            hint(&["half.csv", "half.jsonl.gz", "--weight-column", "n"])
                .unwrap()
                .command
                .ends_with(" --weight-column n rows.parquet")
        );
        assert!(hint(&["one.mtx", "other.mtx"]).unwrap().command.ends_with(" rows.npz"));
    }
}
