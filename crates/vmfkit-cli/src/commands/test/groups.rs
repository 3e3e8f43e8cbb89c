//! Groups of rows, and their statistics.

use super::Test;
use crate::args::rows::RowArguments;
use crate::files::input;
use crate::files::label_source::LabelSource;
use anyhow::{Result, bail};
use std::collections::HashMap;
use vmfkit::source::Source;
use vmfkit::{RowBatch, SufficientStats};
use vmfkit_io::Ids;

/// A partition of the rows.
pub(super) struct Groups {
    pub names: Vec<String>,
    /// The group of each row.
    pub labels: Vec<usize>,
}

impl Groups {
    /// Numbers the labels in order of first appearance.
    fn of(labels: impl Iterator<Item = String>) -> Self {
        let (mut numbers, mut names) = (HashMap::new(), Vec::new());
        let mut number = |label: String| {
            *numbers.entry(label).or_insert_with_key(|label| {
                names.push(label.clone());
                names.len() - 1
            })
        };
        let labels = labels.map(&mut number).collect();
        Groups { names, labels }
    }
}

/// The statistics of the rows.
pub(super) struct Sample {
    pub groups: Option<Groups>,
    /// One component per group, or one for all rows.
    pub stats: SufficientStats,
    pub rows: usize,
}

impl Sample {
    /// No rows yet.
    pub fn new(groups: Option<Groups>, dim: usize) -> Self {
        let stats = SufficientStats::zero(groups.as_ref().map_or(1, |groups| groups.names.len()), dim);
        Sample { groups, stats, rows: 0 }
    }

    /// The statistics of all groups together.
    pub fn total(&self) -> vmfkit::Result<SufficientStats> {
        let mut total = SufficientStats::zero(1, self.stats.dim());
        for group in 0..self.stats.components() {
            total.add_component(0, &self.stats, group)?;
        }
        Ok(total)
    }

    /// Adds the rows of a block.
    pub fn add(&mut self, block: &RowBatch) -> Result<()> {
        let (from, to) = (self.rows, self.rows + block.len());
        let found = match &self.groups {
            None => SufficientStats::of_batch(block),
            Some(groups) => match groups.labels.get(from..to) {
                Some(labels) => SufficientStats::of_labels(block, labels, groups.names.len())?,
                None => bail!("there must be a group for each row, rows: {to} or more, groups: `{}`", groups.labels.len()),
            },
        };
        self.stats.merge(&found)?;
        self.rows = to;
        Ok(())
    }

    /// Called after the last block: refuses groups that do not match the number of rows.
    pub fn check(&self) -> Result<()> {
        match &self.groups {
            Some(groups) if groups.labels.len() != self.rows => {
                bail!("there must be a group for each row, rows: {}, groups: `{}`", self.rows, groups.labels.len())
            }
            _ => Ok(()),
        }
    }
}

impl Test {
    /// The column of DATA that holds the groups.
    pub(super) fn group_column(&self) -> Option<&str> {
        if let Some(LabelSource::Column(name)) = &self.groups { Some(name) } else { None }
    }

    /// The group of each row, if there are groups.
    pub(super) fn read_groups(&self) -> Result<Option<Groups>> {
        if let Some(LabelSource::File(path, column)) = &self.groups {
            let labels = input::read_labels(path, None, column.as_deref())?;
            return Ok(Some(Groups::of(labels.into_iter().map(|label| label.to_string()))));
        }
        let locations = self.rows.limited().locations();
        if self.group_column().is_none() && locations.len() < 2 {
            return Ok(None);
        }
        // Rows are read once for their groups and again for the tests.
        if self.rows.limited().has_pipe() {
            bail!("groups need rows that can be read twice, found: `-`\nhint: write the rows to a file");
        }
        let mut labels = Vec::new();
        if let Some(name) = self.group_column() {
            let mut source = self.rows.limited().with_id_column(name).open(|_| 0)?;
            let mut buffer = vmfkit::RowBatch::default();
            while source.next(&mut buffer)?.is_some() {
                match source.ids().1 {
                    Some(Ids::Integers(ids)) => labels.extend(ids.iter().map(i64::to_string)),
                    Some(Ids::Texts(ids)) => labels.extend(ids.iter().cloned()),
                    None => bail!("{}: there is no column `{name}`", self.rows.limited().name()),
                }
            }
            return Ok(Some(Groups::of(labels.into_iter())));
        }
        let mut groups = Groups { names: locations.iter().map(RowArguments::name).collect(), labels: Vec::new() };
        for (group, location) in locations.iter().enumerate() {
            let mut source = location.without_ids().open(|_| 0)?;
            let rows = match source.len() {
                Some(rows) => usize::try_from(rows)?,
                None => {
                    let mut rows = 0;
                    let mut buffer = vmfkit::RowBatch::default();
                    while let Some(batch) = source.next_validated(&mut buffer)? {
                        rows += batch.len();
                    }
                    rows
                }
            };
            groups.labels.extend(std::iter::repeat_n(group, rows));
        }
        Ok(Some(groups))
    }
}
