//! [`DataSource`]: the rows of files as the batches that a fit reads.

use crate::batch_reader::BatchReader;
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
/// Every batch but the last has the same number of rows, however they are divided among files. A
/// thread reads and converts rows while the batch before is used; memory holds about three batches.
/// The rows are not yet validated: the E step validates them, and so does
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
    /// The state of the current pass, which reads the scratch file once there is one.
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
    /// For the batch lent last: the number of its first row, of the row after it, and of the rows
    /// up to its end that were rescaled.
    first_row: u64,
    next_row: u64,
    rescaled: u64,
}

impl std::fmt::Debug for DataSource {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("DataSource").field("schema", &self.schema).field("next_row", &self.next_row).finish_non_exhaustive()
    }
}

/// All batches, validated, in memory.
struct Held {
    batches: Vec<FileBatch>,
    /// The number of batches that were lent in this pass.
    lent: usize,
}

/// The files whose rows were copied to a scratch file.
struct Scratched {
    /// The closed files, to notice if they change.
    files: Option<Dataset>,
    /// The rows of a batch when it was written.
    block_rows: u64,
    /// For each batch written, the number of its rows that were not of unit length before they were
    /// rescaled.
    rescaled: Vec<u64>,
}

impl Scratched {
    /// The number of rescaled rows in the batches that begin within these rows.
    fn rescaled_in(&self, first: u64, rows: u64) -> u64 {
        let batch = |row: u64| (row.div_ceil(self.block_rows) as usize).min(self.rescaled.len());
        self.rescaled[batch(first)..batch(first + rows)].iter().sum()
    }
}

/// Where later passes read the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// In memory.
    Memory,
    /// In a scratch file.
    Disk,
    /// In the files themselves.
    Nowhere,
}

/// The state of a pass.
enum Pass {
    /// Before the first batch.
    New(BatchReader),
    Reading(Prefetch),
    /// After the last batch.
    Ended(BatchReader),
    /// The pass failed; the same error is returned until the source is rewound.
    Failed(Option<BatchReader>, vmfkit::Error),
}

impl DataSource {
    pub(crate) fn new(dataset: Dataset, options: &Options) -> Self {
        let reader = BatchReader::new(dataset, options.block_rows);
        DataSource {
            schema: reader.schema().clone(),
            block_rows: reader.block_rows(),
            rescales: reader.rescales(),
            can_rewind: reader.can_rewind(),
            skipped: reader.skipped().cloned(),
            failure: reader.failure(),
            pass: Pass::New(reader),
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

    /// The angles that the columns seem to hold, judging by their names. The rows are read as they
    /// are.
    pub fn seems_angles(&self) -> Option<Angles> {
        self.schema.angles
    }

    /// The number of rows, if the files give it before their end.
    pub fn rows(&self) -> Option<u64> {
        self.schema.rows
    }

    /// The type of the stored numbers, the widest where files differ.
    pub fn element(&self) -> Element {
        self.schema.element
    }

    /// The files in folders that were skipped, if any.
    pub fn skipped(&self) -> Option<&Skipped> {
        self.skipped.as_ref()
    }

    /// Whether only nonzero entries are stored.
    pub fn is_sparse(&self) -> bool {
        self.schema.is_sparse()
    }

    /// The memory of a row in bytes. For sparse rows it is twice the mean, since some are longer.
    pub fn row_bytes(&self) -> u64 {
        let number = if self.schema.element == Element::F64 { 8 } else { 4 };
        match (self.schema.entries, self.schema.rows) {
            (Some(entries), Some(rows)) => {
                2 * entries.div_ceil(rows.max(1)) * (number + size_of::<u32>() as u64) + size_of::<usize>() as u64
            }
            _ => self.schema.dim as u64 * number,
        }
    }

    /// Memory in bytes for reading, in addition to the rows: that of a whole Matrix Market file, or
    /// of record batches and pages, as far as the file says.
    pub fn held_bytes(&self) -> u64 {
        self.schema.held
    }

    /// The default number of rows of every batch but the last.
    pub fn block_rows(&self) -> usize {
        self.block_rows
    }

    /// Limits the rows of a batch. Call it before the first batch.
    pub fn limit_block_rows(&mut self, most: usize) {
        if let Pass::New(reader) = &mut self.pass {
            reader.limit_rows(most.max(1));
            self.block_rows = reader.block_rows();
        }
    }

    /// The ids of the batch lent last, if an id column was asked for.
    pub fn ids(&self) -> Option<&Ids> {
        match &self.held {
            Some(held) => held.batches.get(held.lent.checked_sub(1)?)?.ids.as_ref(),
            None => self.lent.as_ref()?.ids.as_ref(),
        }
    }

    /// Holds all rows in memory for later passes, if they take at most `most` bytes, and returns
    /// whether they do. Batches stay the same. A pipe can then be read more than once; it is an
    /// error if its rows do not fit. Rows of files that do not fit are read with O_DIRECT from then
    /// on, if the system and the format allow it.
    pub fn hold(&mut self, most: u64) -> vmfkit::Result<bool> {
        Ok(self.keep(most, None, |_| ControlFlow::Continue(()))? == Kept::Memory)
    }

    /// Does the same, but writes rows that do not fit and are slow to read again to a scratch file
    /// in the folder `scratch`, from which later passes read: rows of text, of compressed arrays,
    /// of object stores and of pipes. There is no scratch file if the disk has too little space, if
    /// the folder is in memory, or if rows are sparse or have ids. The file vanishes with this
    /// source, even if the process is killed. `watch` is called after each batch with the number of
    /// rows so far, and may stop.
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
        let mut folder = scratch.filter(|_| matches!(&self.pass, Pass::New(reader) if reader.is_worth_scratch()));
        let (mut batches, mut written, mut rescaled) = (Vec::new(), None, Vec::new());
        let (mut rows, mut held, mut bytes) = (0, 0, expected);
        while bytes <= most || folder.is_some() {
            let Some(batch) = self.next()? else { break };
            let checked = batch.into_validated().map_err(|error| fail(&mut self.pass, self.can_rewind, error))?;
            rows += checked.len() as u64;
            held += checked.bytes();
            bytes = expected.max(held);
            rescaled.push(checked.rescaled);
            batches.push(checked);
            if let (true, Some(scratch)) = (bytes > most, folder)
                && let Err(error) = write_batches(&mut written, scratch, expected, &mut batches)
            {
                self.scratch_failure = Some(format!("{}: no scratch file can be created there, {error}", scratch.display()));
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
            let what = format!("rows from a pipe that are read more than once must take at most {most} bytes, found: `{bytes}`");
            let failure = self.scratch_failure.as_ref().map_or_else(String::new, |failure| format!("\n{failure}"));
            return Err(Error::format(format!("{what}{failure}\nhint: write them to a file, or allow more memory")).into());
        }
        if bytes > most {
            drop(batches);
            self.rewind()?;
            if let Pass::New(reader) = &mut self.pass {
                reader.read_direct()?;
            }
            return Ok(Kept::Nowhere);
        }
        self.schema.rows = Some(rows);
        self.held = Some(Held { batches, lent: 0 });
        self.can_rewind = true;
        Ok(Kept::Memory)
    }

    /// Reads from a scratch file that has all rows from now on.
    fn read_from(&mut self, scratch: SpillFile, rescaled: Vec<u64>) -> vmfkit::Result<()> {
        self.schema.rows = Some(scratch.rows());
        scratch.finish().map_err(|error| Error::from(error).at(scratch.name()))?;
        let mut reader = BatchReader::new(Dataset::of_scratch(scratch), Some(self.block_rows));
        self.failure = reader.failure();
        reader.read_direct()?;
        let files = match std::mem::replace(&mut self.pass, Pass::New(reader)) {
            Pass::Ended(files) => Some(files.into_closed_files()),
            _ => None,
        };
        self.scratched = Some(Scratched { files, block_rows: self.block_rows as u64, rescaled });
        self.can_rewind = true;
        Ok(())
    }

    /// Why rows that are slow to read were not [kept](Self::keep) in a scratch file, as a message.
    pub fn scratch_failure(&self) -> Option<&str> {
        self.scratch_failure.as_deref()
    }

    /// The number of the first row of the batch lent last, counted from 0 over all files.
    pub fn first_row(&self) -> u64 {
        self.first_row
    }

    /// If rows are rescaled, the number of rows that were not of unit length, up to the end of the
    /// batch lent last in this pass.
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
                Pass::New(mut reader) => {
                    reader.prefer_rows(self.preferred);
                    self.pass = Pass::Reading(Prefetch::start(reader).map_err(Error::from)?);
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
                Pass::Failed(reader, error) => {
                    self.pass = Pass::Failed(reader, error.clone());
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
            Some(held) => held.batches.get(held.lent - 1),
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
        let mut reader = match std::mem::replace(&mut self.pass, Pass::Failed(None, lost())) {
            Pass::New(reader) | Pass::Ended(reader) | Pass::Failed(Some(reader), _) => reader,
            Pass::Reading(prefetch) => stop(prefetch),
            Pass::Failed(None, error) => return Err(error),
        };
        match reader.rewind() {
            Ok(()) => {
                self.pass = Pass::New(reader);
                Ok(())
            }
            Err(error) => {
                let error = vmfkit::Error::from(error);
                self.pass = Pass::Failed(Some(reader), error.clone());
                Err(error)
            }
        }
    }
}

/// Moves batches from memory to a scratch file in this folder. The file is created with the first
/// of them, for about `expected` bytes.
fn write_batches(
    scratch: &mut Option<SpillFile>,
    folder: &Path,
    expected: u64,
    batches: &mut Vec<FileBatch>,
) -> std::io::Result<()> {
    for batch in batches.drain(..) {
        let rows = &batch.rows;
        let scratch = match &mut *scratch {
            Some(scratch) => scratch,
            none => none.insert(SpillFile::create(folder, expected, rows)?),
        };
        scratch.write(rows)?;
    }
    Ok(())
}

/// Ends a pass with an error, which is returned.
fn fail(pass: &mut Pass, can_rewind: bool, error: impl Into<vmfkit::Error>) -> vmfkit::Error {
    let error = error.into();
    let reader = match std::mem::replace(pass, Pass::Failed(None, lost())) {
        Pass::New(reader) | Pass::Ended(reader) => Some(reader),
        // The thread of a pipe may wait forever; it ends by itself.
        Pass::Reading(prefetch) => can_rewind.then(|| stop(prefetch)),
        Pass::Failed(reader, _) => reader,
    };
    *pass = Pass::Failed(reader, error.clone());
    error
}

/// Stops the thread. Its panic continues here.
fn stop(prefetch: Prefetch) -> BatchReader {
    prefetch.stop().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The error of a pass after the panic of its thread was caught.
fn lost() -> vmfkit::Error {
    Error::format("the reader thread panicked").into()
}
