//! [`DataSource`]: the rows of files as the batches that a fit reads.

use crate::blocks::Blocks;
use crate::dataset::Dataset;
use crate::file_batch::{Failure, FileBatch};
use crate::prefetch::Prefetch;
use crate::spill::SpillFile;
use crate::{Element, Error, Ids, Options, Schema, Skipped};
use std::ops::ControlFlow;
use std::path::Path;
use vmfkit::source::Source;
use vmfkit::{Angles, RowBatch};

/// Rows of one file or many, batch by batch, pass after pass.
///
/// Every batch but the last has the same number of rows, however they are divided among files. A thread
/// reads and converts rows while the batch before is used; memory holds about three batches. The rows
/// are not yet validated: the E step validates them, and so does
/// [`next_validated`](Source::next_validated).
///
/// ```no_run
/// use vmfkit::{RowBatch, source::Source};
/// use vmfkit_io::{Options, open};
/// let mut source = open("embeddings/*.npy", &Options::new().rescale(true))?;
/// let mut buffer = RowBatch::default();
/// while let Some(batch) = source.next_validated(&mut buffer)? {
///     println!("{} rows of dimension {}", batch.len(), batch.dim());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DataSource {
    schema: Schema,
    block_rows: usize,
    rescales: bool,
    can_rewind: bool,
    skipped: Option<Skipped>,
    /// What reads the rows; those of a scratch file once they are there.
    pass: Pass,
    held: Option<Held>,
    scratched: Option<Scratched>,
    scratch_failure: Option<String>,
    /// The number of rows that the fit prefers.
    preferred: Option<usize>,
    /// The batch that was lent last, unless all are in memory.
    lent: Option<FileBatch>,
    /// The error of a bad row of a batch that was lent.
    failure: Failure,
    /// The number of its first row, of the row after it, and of the rows rescaled up to its end.
    first_row: u64,
    next_row: u64,
    rescaled: u64,
}

impl std::fmt::Debug for DataSource {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("DataSource").field("schema", &self.schema).field("next_row", &self.next_row).finish_non_exhaustive()
    }
}

/// All batches, validated, in memory, and how many of them have been lent in this pass.
struct Held {
    blocks: Vec<FileBatch>,
    lent: usize,
}

/// What is left of the files whose rows are in a scratch file.
struct Scratched {
    /// Closed; to see whether they change.
    files: Option<Dataset>,
    /// The rows of a block when it was written, and how many rows of each block were rescaled and had not been of unit length.
    block_rows: u64,
    rescaled: Vec<u64>,
}

impl Scratched {
    /// How many rows were rescaled of the blocks that begin within these rows.
    fn rescaled_in(&self, first: u64, rows: u64) -> u64 {
        let block = |row: u64| (row.div_ceil(self.block_rows) as usize).min(self.rescaled.len());
        self.rescaled[block(first)..block(first + rows)].iter().sum()
    }
}

/// Where rows are found in passes to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// In memory.
    Memory,
    /// In a scratch file.
    Disk,
    /// Where they come from.
    Nowhere,
}

/// Where the reading is.
enum Pass {
    /// Before the first block.
    New(Blocks),
    Reading(Prefetch),
    /// After the last block.
    Ended(Blocks),
    /// It failed, and fails again until it is begun anew.
    Failed(Option<Blocks>, vmfkit::Error),
}

impl DataSource {
    pub(crate) fn new(dataset: Dataset, options: &Options) -> Self {
        let blocks = Blocks::new(dataset, options.block_rows);
        DataSource {
            schema: blocks.schema().clone(),
            block_rows: blocks.block_rows(),
            rescales: blocks.rescales(),
            can_rewind: blocks.can_rewind(),
            skipped: blocks.skipped().cloned(),
            failure: blocks.failure(),
            pass: Pass::New(blocks),
            held: None,
            scratched: None,
            scratch_failure: None,
            preferred: None,
            lent: None,
            first_row: 0,
            next_row: 0,
            rescaled: 0,
        }
    }

    /// The angles that the rows seem to be by the names of their columns, though they are read as they are.
    pub fn seems_angles(&self) -> Option<Angles> {
        self.schema.angles
    }

    /// How many rows there are, where the files tell before their end.
    pub fn rows(&self) -> Option<u64> {
        self.schema.rows
    }

    /// How the numbers are stored; the widest type, where files differ.
    pub fn element(&self) -> Element {
        self.schema.element
    }

    /// What folders hold beside the files that are read, if there is anything.
    pub fn skipped(&self) -> Option<&Skipped> {
        self.skipped.as_ref()
    }

    /// Only entries that are not 0 are stored.
    pub fn is_sparse(&self) -> bool {
        self.schema.is_sparse()
    }

    /// Bytes that a row takes in memory: of a sparse one twice the mean, since some are longer than others.
    pub fn row_bytes(&self) -> u64 {
        let number = if self.schema.element == Element::F64 { 8 } else { 4 };
        match (self.schema.entries, self.schema.rows) {
            (Some(entries), Some(rows)) => {
                2 * entries.div_ceil(rows.max(1)) * (number + size_of::<u32>() as u64) + size_of::<usize>() as u64
            }
            _ => self.schema.dim as u64 * number,
        }
    }

    /// Bytes that reading takes beside the rows: those of a Matrix Market file, which is in memory as a whole, or of record batches and pages, as far as
    /// the file tells of them.
    pub fn held_bytes(&self) -> u64 {
        self.schema.held
    }

    /// The number of rows of every block but the last.
    pub fn block_rows(&self) -> usize {
        self.block_rows
    }

    /// Makes blocks smaller, if they have more rows than this; before the first block only.
    pub fn limit_block_rows(&mut self, most: usize) {
        if let Pass::New(blocks) = &mut self.pass {
            blocks.limit_rows(most.max(1));
            self.block_rows = blocks.block_rows();
        }
    }

    /// What the rows of the block lent last are called, if an id column was asked for.
    pub fn ids(&self) -> Option<&Ids> {
        match &self.held {
            Some(held) => held.blocks.get(held.lent.checked_sub(1)?)?.ids.as_ref(),
            None => self.lent.as_ref()?.ids.as_ref(),
        }
    }

    /// Reads all rows into memory, where later passes find them, if they take no more than so many bytes; says whether they do. The blocks are
    /// the same, so a fit cannot tell. A pipe can be read more than once then, and it is an error if it holds more. What does not fit is read past the
    /// system's cache from then on, if the system and the format allow it.
    pub fn hold(&mut self, most: u64) -> vmfkit::Result<bool> {
        Ok(self.keep(most, None, |_| ControlFlow::Continue(()))? == Kept::Memory)
    }

    /// The same, but rows that do not fit and take long to read again - text, unpacked arrays, objects of a store, a pipe - are written to a
    /// scratch file in this folder, where later passes find them: unless there is too little room on that disk, or it is memory itself, or rows are sparse
    /// or have ids. The file is gone with this source, however it ends. `watch` is told after each block how many rows there were, and may end it.
    pub fn keep(
        &mut self,
        most: u64,
        scratch: Option<&Path>,
        mut watch: impl FnMut(u64) -> ControlFlow<()>,
    ) -> vmfkit::Result<Kept> {
        if self.held.is_some() || self.scratched.is_some() {
            return Ok(if self.held.is_some() { Kept::Memory } else { Kept::Disk });
        }
        let number = if self.schema.element == Element::F64 { 8 } else { 4 };
        // What a header claims may be more than any machine has.
        let bytes_of = |rows: u64| rows.saturating_mul(self.schema.dim as u64).saturating_mul(number);
        let expected = self.schema.rows.filter(|_| !self.schema.is_sparse()).map_or(0, bytes_of);
        self.preferred = None;
        self.rewind()?;
        let mut folder = scratch.filter(|_| matches!(&self.pass, Pass::New(blocks) if blocks.is_worth_scratch()));
        let (mut blocks, mut written, mut rescaled) = (Vec::new(), None, Vec::new());
        let (mut rows, mut held, mut bytes) = (0, 0, expected);
        while bytes <= most || folder.is_some() {
            let Some(batch) = self.next()? else { break };
            let checked = batch.into_validated().map_err(|error| fail(&mut self.pass, self.can_rewind, error))?;
            rows += checked.len() as u64;
            held += checked.bytes();
            bytes = expected.max(held);
            rescaled.push(checked.rescaled);
            blocks.push(checked);
            if let (true, Some(place)) = (bytes > most, folder)
                && let Err(error) = write_blocks(&mut written, place, expected, &mut blocks)
            {
                self.scratch_failure = Some(format!("{}: no scratch file can be there, {error}", place.display()));
                (folder, written) = (None, None);
            }
            if watch(rows).is_break() {
                if self.can_rewind {
                    self.rewind()?;
                }
                return Ok(Kept::Nowhere);
            }
        }
        if let Some(scratch) = written {
            self.read_from(scratch, rescaled)?;
            return Ok(Kept::Disk);
        }
        if bytes > most && !self.can_rewind {
            let what = format!("rows of a pipe that are read more than once must take at most {most} bytes, found: `{bytes}`");
            let failure = self.scratch_failure.as_ref().map_or_else(String::new, |failure| format!("\n{failure}"));
            return Err(Error::format(format!("{what}{failure}\nhint: write them to a file, or allow more memory")).into());
        }
        if bytes > most {
            drop(blocks);
            self.rewind()?;
            if let Pass::New(blocks) = &mut self.pass {
                blocks.read_direct()?;
            }
            return Ok(Kept::Nowhere);
        }
        self.schema.rows = Some(rows);
        self.held = Some(Held { blocks, lent: 0 });
        self.can_rewind = true;
        Ok(Kept::Memory)
    }

    /// All rows are in this file now, too.
    fn read_from(&mut self, scratch: SpillFile, rescaled: Vec<u64>) -> vmfkit::Result<()> {
        self.schema.rows = Some(scratch.rows());
        scratch.finish().map_err(|error| Error::from(error).at(scratch.name()))?;
        let mut blocks = Blocks::new(Dataset::of_scratch(scratch), Some(self.block_rows));
        self.failure = blocks.failure();
        blocks.read_direct()?;
        let files = match std::mem::replace(&mut self.pass, Pass::New(blocks)) {
            Pass::Ended(files) => Some(files.into_closed_files()),
            _ => None,
        };
        self.scratched = Some(Scratched { files, block_rows: self.block_rows as u64, rescaled });
        self.can_rewind = true;
        Ok(())
    }

    /// Why rows that are worth it were not [kept](Self::keep) in a scratch file, for people.
    pub fn scratch_failure(&self) -> Option<&str> {
        self.scratch_failure.as_deref()
    }

    /// The number of the first row of the block lent last, counted from 0 over all files.
    pub fn first_row(&self) -> u64 {
        self.first_row
    }

    /// If rows are rescaled, how many were not of unit length, up to the end of the block lent last in this pass.
    pub fn rescaled(&self) -> Option<u64> {
        self.rescales.then_some(self.rescaled)
    }

    /// The next batch, or none after the last.
    fn next(&mut self) -> vmfkit::Result<Option<FileBatch>> {
        if let Some(error) = self.failure.take() {
            return Err(fail(&mut self.pass, self.can_rewind, error));
        }
        loop {
            match std::mem::replace(&mut self.pass, Pass::Failed(None, lost())) {
                Pass::New(mut blocks) => {
                    blocks.prefer_rows(self.preferred);
                    self.pass = Pass::Reading(Prefetch::start(blocks).map_err(Error::from)?);
                }
                Pass::Reading(mut prefetch) => match prefetch.next() {
                    Some(Ok(mut batch)) => {
                        if let Some(scratched) = &self.scratched {
                            batch.rescaled = scratched.rescaled_in(self.next_row, batch.len() as u64);
                        }
                        self.pass = Pass::Reading(prefetch);
                        return Ok(Some(batch));
                    }
                    Some(Err(error)) => {
                        self.pass = Pass::Reading(prefetch);
                        return Err(fail(&mut self.pass, self.can_rewind, error));
                    }
                    None => self.pass = Pass::Ended(stop(prefetch)),
                },
                ended @ Pass::Ended(_) => {
                    self.pass = ended;
                    return Ok(None);
                }
                Pass::Failed(blocks, error) => {
                    self.pass = Pass::Failed(blocks, error.clone());
                    return Err(error);
                }
            }
        }
    }
}

impl Source for DataSource {
    fn dim(&self) -> usize {
        self.schema.dim
    }

    fn next_batch(&mut self) -> vmfkit::Result<Option<RowBatch<'_>>> {
        self.first_row = self.next_row;
        if let Some(held) = &mut self.held {
            held.lent += 1;
        } else {
            if let (Some(lent), Pass::Reading(prefetch)) = (self.lent.take(), &self.pass) {
                prefetch.recycle(lent);
            }
            self.lent = self.next()?;
        }
        let batch = match &self.held {
            Some(held) => held.blocks.get(held.lent - 1),
            None => self.lent.as_ref(),
        };
        let Some(batch) = batch else { return Ok(None) };
        self.next_row += batch.len() as u64;
        self.rescaled += batch.rescaled;
        Ok(Some(batch.rows.slice(0, batch.len())))
    }

    fn prefer_rows(&mut self, rows: Option<usize>) {
        self.preferred = rows;
    }

    fn can_rewind(&self) -> bool {
        self.can_rewind
    }

    fn rows(&self) -> Option<u64> {
        self.schema.rows
    }

    fn rewind(&mut self) -> vmfkit::Result<()> {
        if let Some(held) = &mut self.held {
            held.lent = 0;
            (self.first_row, self.next_row, self.rescaled) = (0, 0, 0);
            return Ok(());
        }
        if let Some(files) = self.scratched.as_ref().and_then(|scratched| scratched.files.as_ref()) {
            files.check().map_err(|error| fail(&mut self.pass, self.can_rewind, error))?;
        }
        if matches!(self.pass, Pass::New(_)) {
            return Ok(());
        }
        if !self.can_rewind {
            return Err(vmfkit::Error::CannotRewind);
        }
        (self.lent, self.first_row, self.next_row, self.rescaled) = (None, 0, 0, 0);
        self.failure.take();
        let mut blocks = match std::mem::replace(&mut self.pass, Pass::Failed(None, lost())) {
            Pass::New(blocks) | Pass::Ended(blocks) | Pass::Failed(Some(blocks), _) => blocks,
            Pass::Reading(prefetch) => stop(prefetch),
            Pass::Failed(None, error) => return Err(error),
        };
        match blocks.rewind() {
            Ok(()) => {
                self.pass = Pass::New(blocks);
                Ok(())
            }
            Err(error) => {
                let error = vmfkit::Error::from(error);
                self.pass = Pass::Failed(Some(blocks), error.clone());
                Err(error)
            }
        }
    }
}

/// Takes blocks from memory to a scratch file in this folder, which is made for the first of them, with room for as many bytes as are expected.
fn write_blocks(
    scratch: &mut Option<SpillFile>,
    folder: &Path,
    expected: u64,
    blocks: &mut Vec<FileBatch>,
) -> std::io::Result<()> {
    for checked in blocks.drain(..) {
        let block = &checked.rows;
        let scratch = match &mut *scratch {
            Some(scratch) => scratch,
            none => none.insert(SpillFile::create(folder, expected, block)?),
        };
        scratch.write(block)?;
    }
    Ok(())
}

/// Ends a pass with an error, which is given back.
fn fail(pass: &mut Pass, can_rewind: bool, error: impl Into<vmfkit::Error>) -> vmfkit::Error {
    let error = error.into();
    let blocks = match std::mem::replace(pass, Pass::Failed(None, lost())) {
        Pass::New(blocks) | Pass::Ended(blocks) => Some(blocks),
        // The thread of a pipe may wait for what never comes, and ends by itself.
        Pass::Reading(prefetch) => can_rewind.then(|| stop(prefetch)),
        Pass::Failed(blocks, _) => blocks,
    };
    *pass = Pass::Failed(blocks, error.clone());
    error
}

/// A panic of the thread goes on in the one that reads.
fn stop(prefetch: Prefetch) -> Blocks {
    prefetch.stop().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// What is left to say after a panic was caught.
fn lost() -> vmfkit::Error {
    Error::format("the reader thread panicked").into()
}
