//! [`State`]: what a rule has to remember from one pass to the next, as named numbers.

use crate::error::{Error, Result};
use std::collections::BTreeMap;

/// Named lists of numbers, kept to the last bit.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    lists: BTreeMap<String, Vec<f64>>,
}

/// Whole numbers up to here are floats.
const LARGEST_COUNT: f64 = 9_007_199_254_740_992.0;

impl State {
    /// Nothing to remember.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one list more.
    pub fn with(mut self, name: impl Into<String>, numbers: impl IntoIterator<Item = f64>) -> Self {
        self.lists.insert(name.into(), numbers.into_iter().collect());
        self
    }

    /// The numbers of a list; an error if there is none of this name.
    pub fn get(&self, name: &str) -> Result<&[f64]> {
        self.lists.get(name).map(Vec::as_slice).ok_or_else(|| wrong(format!("the rule remembers nothing by the name: `{name}`")))
    }

    /// The numbers of a list that must have so many.
    pub fn exactly(&self, name: &str, expected: usize) -> Result<&[f64]> {
        match self.get(name)? {
            numbers if numbers.len() == expected => Ok(numbers),
            numbers => Err(wrong(format!("`{name}` of the rule must have {expected} numbers, found: `{}`", numbers.len()))),
        }
    }

    /// The numbers of a list that must have so many, or none.
    pub fn exactly_or_none(&self, name: &str, expected: usize) -> Result<Option<&[f64]>> {
        if self.get(name)?.is_empty() { Ok(None) } else { self.exactly(name, expected).map(Some) }
    }

    /// A list that is one whole number, at most `most`.
    pub fn count(&self, name: &str, most: u64) -> Result<u64> {
        count(name, self.exactly(name, 1)?[0], most)
    }

    pub(crate) fn lists(&self) -> impl Iterator<Item = (&str, &[f64])> {
        self.lists.iter().map(|(name, numbers)| (name.as_str(), numbers.as_slice()))
    }
}

/// A whole number from 0 to `most` that was stored as a float.
pub(super) fn count(name: &str, value: f64, most: u64) -> Result<u64> {
    let limit = (most as f64).min(LARGEST_COUNT);
    if value.fract() == 0.0 && (0.0..=limit).contains(&value) {
        Ok(value as u64)
    } else {
        Err(wrong(format!("`{name}` must be a whole number from 0 to {limit}, found: `{value}`")))
    }
}

pub(super) fn wrong(what: String) -> Error {
    Error::CheckpointBytes { what }
}
