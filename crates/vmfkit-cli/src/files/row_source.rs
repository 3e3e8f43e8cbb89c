//! The rows that a command reads: their files, weights and ids.

use crate::files::row_memory::{self, ExtraMemory};
use crate::files::text_hint::TextHint;
use crate::report::notes;
use crate::report::progress::Progress;
use anyhow::{Result, anyhow};
use std::f64::consts::TAU;
use std::ops::ControlFlow;
use std::path::Path;
use vmfkit::source::Source;
use vmfkit::{Angles, Error, RowBatch};
use vmfkit_io::{DataSource, Element, Ids, Kept, Skipped};

/// Rows with their weights, in blocks.
pub struct RowSource {
    name: String,
    source: DataSource,
    /// Weights from a separate file, with its name in messages.
    weights: Option<(String, Vec<f64>)>,
    /// Set if passes are slow because the rows are large text files.
    text_hint: Option<TextHint>,
    /// Set if the files hold angles, not unit vectors.
    angles: Option<Angles>,
    /// Whether angles are read as degrees, and all so far could be radians.
    like_radians: bool,
    /// Bytes available for holding rows in memory.
    free_memory: u64,
    /// Rows of this pass so far, and their weight.
    rows: u64,
    weight: f64,
}

impl RowSource {
    /// Opened rows, of which none has been read.
    pub fn new(
        name: String,
        source: DataSource,
        weights: Option<(String, Vec<f64>)>,
        angles: Option<Angles>,
        text_hint: Option<TextHint>,
    ) -> Self {
        let like_radians = angles.is_some_and(|angles| !angles.is_in_radians());
        RowSource { name, source, weights, text_hint, angles, like_radians, free_memory: 0, rows: 0, weight: 0.0 }
    }

    /// The same rows in blocks that leave memory for a command; `limit` is that of `--memory`.
    pub fn with_memory(mut self, extra: ExtraMemory, has_ids: bool, limit: Option<u64>) -> Result<Self> {
        let weights = self.weights.as_ref().map_or(0, |(_, weights)| weights.len());
        self.free_memory = row_memory::limit_blocks(&mut self.source, extra, weights, has_ids, limit)?;
        Ok(self)
    }

    /// The same rows, for work that needs all of them in memory.
    pub fn whole(mut self, work: &str) -> Result<Self> {
        self.free_memory = row_memory::check_whole(&self.source, work)?;
        Ok(self)
    }

    /// The files, without the weights of a separate file.
    pub fn data(&self) -> &DataSource {
        &self.source
    }

    /// The name of the rows in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The angles of the files, if they do not hold unit vectors.
    pub fn angles(&self) -> Option<Angles> {
        self.angles
    }

    /// The number of rows, if it is known before the end.
    pub fn len(&self) -> Option<u64> {
        self.source.rows()
    }

    /// The number of the first row of the current block, and the ids of its rows.
    pub fn ids(&self) -> (u64, Option<&Ids>) {
        (self.source.first_row(), self.source.ids())
    }

    /// Prepares several passes: keeps the rows in memory if they fit, else in a scratch file in
    /// this folder if they are slow to read again. Prints a hint about large text files that do not
    /// fit, unless `quiet`.
    pub fn hold(&mut self, scratch: Option<&Path>, quiet: bool) -> Result<()> {
        let (mut progress, all) = (Progress::new(!quiet), self.len());
        let kept = self.source.keep(self.free_memory, scratch, |rows| {
            progress.rows("reading: ", rows, all);
            ControlFlow::Continue(())
        });
        let kept = kept.map_err(|error| self.explain(error))?;
        drop(progress);
        if let Some(failure) = self.source.scratch_failure() {
            notes::note(failure);
        }
        if let Some(hint) = self.text_hint.as_ref().filter(|_| !quiet) {
            match (kept, scratch) {
                (Kept::Disk, Some(folder)) => notes::note(hint.of_scratch(folder)),
                (Kept::Nowhere, _) => notes::note(hint.of_passes()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Prints a note if rows were not of unit length, or if angles read as degrees look like
    /// radians.
    pub fn note_rescaled(&self) {
        if self.like_radians && self.rows >= MIN_LIKE_RADIANS {
            notes::note(format_args!(
                "{}: all angles were read as degrees, and none is larger than 2 pi\nhint: `--angles {angles},radians` if they are radians",
                self.name,
                angles = self.angles.map_or_else(String::new, |angles| angles.to_string()),
            ));
        }
        if let Some(changed) = self.source.rescaled() {
            let half = self.source.element() == Element::F16;
            let why = if half { " (half precision cannot hold unit rows)" } else { "" };
            notes::note(format_args!(
                "{}: rows were divided by their length{why}; {changed} of {} were not of length 1",
                self.name, self.rows
            ));
        }
    }

    /// Totals of the last pass.
    pub fn totals(&self) -> RowTotals {
        let (file, dim, rescaled, angles) = (self.name.clone(), self.dim(), self.source.rescaled(), self.angles);
        RowTotals { file, rows: self.rows, dim, weight: self.weight, rescaled, angles }
    }

    /// The next validated batch; errors name the rows.
    pub fn next<'s>(&'s mut self, buffer: &'s mut RowBatch<'static>) -> Result<Option<RowBatch<'s>>> {
        let name = self.name.clone();
        self.next_validated(buffer).map_err(|error| explain(&name, error))
    }

    /// All rows as one batch, if they were opened as a whole.
    pub fn read_whole<'s>(&'s mut self, buffer: &'s mut RowBatch<'static>) -> Result<RowBatch<'s>> {
        let name = self.name.clone();
        self.next(buffer)?.ok_or_else(|| explain(&name, Error::NoRows { weight: 0.0 }))
    }

    /// The error with the name of the rows.
    pub fn explain(&self, error: Error) -> anyhow::Error {
        explain(&self.name, error)
    }
}

/// Fewer rows may all have small angles by coincidence.
const MIN_LIKE_RADIANS: u64 = 8;

/// Whether every angle of a row, in degrees, is at most 2 pi.
fn is_like_radians(angles: Angles, row: &[f64]) -> bool {
    let small = |angle: f64| angle.abs().min(360.0 - angle.abs()) <= TAU * (1.0 + f64::from(f32::EPSILON));
    angles.of_vectors(row).is_ok_and(|found| found.into_iter().all(small))
}

/// Prints a note if files of a folder were skipped.
pub fn note_skipped(skipped: Option<&Skipped>) {
    if let Some(Skipped { count, first }) = skipped {
        let more = if *count > 1 { format!(" and {} more", count - 1) } else { String::new() };
        notes::note(format_args!("{first}{more}: skipped, the extension is not that of a known format"));
    }
}

/// The error with the name of the rows, unless it already names a file.
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

/// An error in a file of weights.
#[derive(Debug, thiserror::Error)]
#[error("{name}")]
struct WeightFile {
    name: String,
    source: Error,
}

/// Totals of the rows after a pass.
#[derive(Debug, Clone)]
pub struct RowTotals {
    /// The name of the rows in messages.
    pub file: String,
    pub rows: u64,
    pub dim: usize,
    pub weight: f64,
    /// The number of rows that were not of unit length, if rows were rescaled.
    pub rescaled: Option<u64>,
    /// The angles of the files, if they do not hold unit vectors.
    pub angles: Option<Angles>,
}

impl RowTotals {
    /// The first line of a report.
    pub fn heading(&self) -> String {
        let RowTotals { file, rows, dim, weight, .. } = self;
        let weight = if *weight == *rows as f64 {
            String::new()
        } else {
            format!(" of total weight {}", crate::report::format::readable(*weight))
        };
        format!("{file}: {rows} rows of dimension {dim}{weight}")
    }
}
