//! `--start`: the initial mixture.

use crate::files::row_source::RowSource;
use crate::files::{input, model};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use vmfkit::error::ParseChoiceError;
use vmfkit::source::Source;
use vmfkit::{Error, Start};

/// Bytes per label while a file of labels is read: a line, its number, and the component.
const LABEL_MEMORY: u64 = 32;

/// The argument of `--start`.
#[derive(Debug, Clone)]
pub enum StartArgument {
    Chosen(Start),
    Labels(PathBuf),
    Directions(PathBuf),
    Model(PathBuf),
}

const STARTS: [&str; 7] = ["kmeans", "plusplus", "random-rows", "random", "labels:FILE", "directions:FILE", "model:FILE"];

impl FromStr for StartArgument {
    type Err = ParseChoiceError;

    fn from_str(text: &str) -> Result<Self, ParseChoiceError> {
        match text.split_once(':') {
            None if text == "kmeans" => Ok(Self::Chosen(Start::KMeans)),
            None if text == "plusplus" => Ok(Self::Chosen(Start::PlusPlus)),
            None if text == "random-rows" => Ok(Self::Chosen(Start::RandomRows)),
            None if text == "random" => Ok(Self::Chosen(Start::Random)),
            Some(("labels", file)) => Ok(Self::Labels(file.into())),
            Some(("directions", file)) => Ok(Self::Directions(file.into())),
            Some(("model", file)) => Ok(Self::Model(file.into())),
            _ => Err(ParseChoiceError::new("start", &STARTS, text)),
        }
    }
}

impl StartArgument {
    /// Whether the start depends on the seed.
    pub fn is_random(&self) -> bool {
        matches!(self, Self::Chosen(_))
    }

    /// The file that it is read from.
    pub fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::Chosen(_) => None,
            Self::Labels(path) | Self::Directions(path) | Self::Model(path) => Some(path),
        }
    }

    /// Bytes of memory while its file is read, for this number of rows if it is known.
    pub fn memory(&self, rows: Option<u64>) -> u64 {
        match self {
            // A label takes at least one byte of its file.
            Self::Labels(path) => LABEL_MEMORY * rows.unwrap_or_else(|| path.metadata().map_or(0, |file| file.len())),
            _ => 0,
        }
    }

    /// The error of a fit from this start, with the file of the labels or of the rows.
    pub fn explain(&self, error: Error, source: &RowSource) -> anyhow::Error {
        match (self, error) {
            (Self::Labels(path), error @ Error::LabelCount { .. }) => anyhow::Error::from(error).context(input::display(path)),
            (_, error) => source.explain(error),
        }
    }

    /// The start, and the dispersion stored in a model file.
    pub fn read(&self, components: usize, dim: usize) -> Result<(Start, Option<f64>)> {
        let start = match self {
            Self::Chosen(start) => start.clone(),
            Self::Labels(path) => {
                let labels = input::read_labels(path, None, None)?;
                Start::Labels(component_numbers(&labels, components).with_context(|| input::display(path))?)
            }
            Self::Directions(path) => {
                let mut file = vmfkit_io::open(&input::location(path)?, &vmfkit_io::Options::new().rescale(true))?;
                let mut directions = Vec::new();
                let mut buffer = vmfkit::RowBatch::default();
                while let Some(block) = file.next_validated(&mut buffer)? {
                    directions.extend((0..block.len()).map(|row| block.row(row)));
                }
                if (directions.len(), file.dim()) != (components, dim) {
                    bail!(
                        "{}: there must be {components} directions of dimension {dim}, found: `{} of {}`",
                        input::display(path),
                        directions.len(),
                        file.dim()
                    );
                }
                Start::Directions(directions)
            }
            Self::Model(path) => {
                let (mixture, description) = model::read(path)?;
                let found = mixture.components().len() - usize::from(mixture.has_background());
                if found != components {
                    bail!("{}: the start must have `-k {components}` components, found: `{found}`", input::display(path));
                }
                return Ok((Start::Mixture(mixture), description.settings.dispersion()));
            }
        };
        Ok((start, None))
    }
}

/// Labels that are component numbers are kept; others are numbered in ascending order.
fn component_numbers(labels: &[i64], components: usize) -> Result<Vec<u32>> {
    if labels.iter().all(|&label| usize::try_from(label).is_ok_and(|label| label < components)) {
        return Ok(labels.iter().map(|&label| label as u32).collect());
    }
    let mut numbers: BTreeMap<i64, u32> = labels.iter().map(|&label| (label, 0)).collect();
    if numbers.len() > components {
        bail!("there must be at most `-k {components}` different labels, found: `{}`", numbers.len());
    }
    numbers.values_mut().zip(0..).for_each(|(number, next)| *number = next);
    Ok(labels.iter().map(|label| numbers[label]).collect())
}
