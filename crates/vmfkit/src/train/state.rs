//! [`State`]: the state of a rule between two passes, as named lists of numbers for a checkpoint.

use crate::error::{Error, Result};
use crate::tensor_file::{Contents, File};
use std::collections::BTreeMap;

/// Named lists of numbers. Not JSON, because a gradient method has three numbers for every
/// parameter.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct State {
    lists: BTreeMap<String, Vec<f64>>,
}

/// Prefix of the names in a file.
const PREFIX: &str = "rule.";

/// Up to this number all whole numbers are exact as f64.
const LARGEST_COUNT: f64 = 9_007_199_254_740_992.0;

impl State {
    pub fn with(mut self, name: &str, numbers: impl IntoIterator<Item = f64>) -> Self {
        self.lists.insert(name.to_owned(), numbers.into_iter().collect());
        self
    }

    pub fn has(&self, name: &str) -> bool {
        self.lists.contains_key(name)
    }

    /// The list of this name.
    pub fn get(&self, name: &str) -> Result<&[f64]> {
        self.lists.get(name).map(Vec::as_slice).ok_or_else(|| wrong(format!("the state of the method lacks `{name}`")))
    }

    /// The list of this name, which must have this length.
    pub fn exactly(&self, name: &str, expected: usize) -> Result<&[f64]> {
        match self.get(name)? {
            numbers if numbers.len() == expected => Ok(numbers),
            numbers => Err(wrong(format!("`{PREFIX}{name}` must have {expected} numbers, found: `{}`", numbers.len()))),
        }
    }

    /// The list of this name, which must have this length or be empty.
    pub fn exactly_or_none(&self, name: &str, expected: usize) -> Result<Option<&[f64]>> {
        if self.get(name)?.is_empty() { Ok(None) } else { self.exactly(name, expected).map(Some) }
    }

    pub fn write(&self, contents: &mut Contents) {
        for (name, numbers) in &self.lists {
            contents.numbers(format!("{PREFIX}{name}"), vec![numbers.len()], numbers.clone());
        }
    }

    pub fn read(file: &File) -> Result<Self> {
        let mut state = State::default();
        for name in file.names() {
            if let Some(short) = name.strip_prefix(PREFIX) {
                state = state.with(short, file.numbers(&name, [None])?);
            }
        }
        Ok(state)
    }
}

/// A whole number from 0 to `largest` that is stored as f64.
pub(super) fn count(name: &str, value: f64, largest: u64) -> Result<u64> {
    let limit = (largest as f64).min(LARGEST_COUNT);
    if value.fract() == 0.0 && (0.0..=limit).contains(&value) {
        Ok(value as u64)
    } else {
        Err(wrong(format!("`{name}` must be a whole number from 0 to {limit}, found: `{value}`")))
    }
}

pub(super) fn wrong(what: String) -> Error {
    Error::CheckpointBytes { what }
}
