//! [`Checkpoint`]: a fit between two passes, as bytes that another process can resume.

use super::state::{State, count, wrong};
use super::stop::Status;
use super::trace::{Fit, Pass};
use crate::error::Result;
use crate::m_step::Note;
use crate::mixture::Mixture;
use crate::row_fingerprint::RowFingerprint;
use crate::settings::{Settings, digits, undigits};
use crate::tensor_file::{Contents, File, Kind, excerpt};

const KIND: Kind = Kind { format: "vmfkit.checkpoint", version: "5", unchecked: None };

/// Prefixes of the entries of fits other than the current one.
const UNREPAIRED: &str = "unrepaired.";
const BEST: &str = "best.";

/// Numbers of a note.
const NOTE: usize = 4;

/// A fit between two passes. Resumed with the same settings and rows, it ends with the same bits as
/// an uninterrupted fit.
///
/// It stores no times: earlier passes take 0 seconds in a resumed fit. Its bytes are a safetensors
/// file, described in docs/file-format.md.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    pub(crate) restart: usize,
    pub(crate) settings: Settings,
    /// The fingerprint of the rows; `None` for those of a pipe.
    pub(crate) rows: Option<RowFingerprint>,
    /// The fit of this restart.
    pub(crate) current: Fit,
    /// The fit before a repair that has not raised the objective so far. If the fit has ended and
    /// this is its result, its status says so.
    pub(crate) unrepaired: Option<Fit>,
    /// The name of the rule, and its state.
    pub(crate) rule: String,
    pub(crate) state: State,
    /// The best of the earlier restarts.
    pub(crate) best: Option<Fit>,
}

impl Checkpoint {
    /// The index of the restart.
    pub fn restart(&self) -> usize {
        self.restart
    }

    /// The fit of this restart, or its result if it has ended.
    pub fn current(&self) -> &Fit {
        self.unrepaired.as_ref().filter(|before| before.status != Status::Running).unwrap_or(&self.current)
    }

    /// The best of the earlier restarts, if there are any.
    pub fn best(&self) -> Option<&Fit> {
        self.best.as_ref()
    }

    /// The settings with which it must be resumed.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn with_settings(mut self, settings: Settings) -> Self {
        self.current.settings = settings.clone();
        self.unrepaired.iter_mut().for_each(|fit| fit.settings = settings.clone());
        self.settings = settings;
        self
    }

    pub(crate) fn with_rows(self, rows: Option<RowFingerprint>) -> Self {
        Checkpoint { rows, ..self }
    }

    /// Allows more passes than the fit began with. This is safe because a limit has no effect until
    /// the fit reaches it.
    pub(crate) fn allow_passes(&mut self, passes: usize) {
        let before = self.settings.get("passes").and_then(|text| text.parse::<usize>().ok());
        // Earlier restarts may have stopped at the limit, and cannot be resumed.
        if self.restart > 0 || self.best.is_some() || before.is_none_or(|before| before >= passes) {
            return;
        }
        self.settings.set("passes", passes.to_string());
        if self.current.status == Status::PassLimit {
            self.current.status = Status::Running;
        }
    }

    /// The total weight of the rows, if a pass has been made.
    pub(crate) fn rows_weight(&self) -> Option<f64> {
        let weights = [Some(&self.current), self.best.as_ref()].into_iter().flatten().map(|fit| fit.weight);
        weights.into_iter().find(|weight| *weight > 0.0)
    }

    /// The bytes of a file; equal checkpoints give equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut contents = Contents::new(&KIND);
        self.settings.iter().for_each(|(name, text)| contents.text(format!("setting.{name}"), text));
        if let Some(RowFingerprint { first, rows, all }) = self.rows {
            contents.text("rows.first", digits(first));
            contents.text("rows.count", rows.map_or(String::new(), |rows| rows.to_string()));
            if let Some(all) = all {
                contents.text("rows.fingerprint", digits(all));
            }
        }
        contents.text("restart", self.restart.to_string());
        write_fit(&mut contents, "current.", &self.current);
        for (prefix, fit) in [(UNREPAIRED, &self.unrepaired), (BEST, &self.best)] {
            fit.iter().for_each(|fit| write_fit(&mut contents, prefix, fit));
        }
        contents.text("rule", &self.rule);
        self.state.write(&mut contents);
        contents.to_bytes()
    }

    /// The checkpoint that [`Self::to_bytes`] wrote. Errors are found without allocating more
    /// memory than the bytes fill.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let file = File::open(bytes, &KIND, wrong)?;
        let mut settings = Settings::default();
        for (key, text) in file.texts() {
            if let Some(name) = key.strip_prefix("setting.") {
                settings.set(name, text);
            }
        }
        let names = file.names();
        let current = read_fit(&file, "current.", &settings)?;
        let other = |prefix: &str| {
            let is_there = names.iter().any(|name| name.starts_with(prefix));
            let fit = is_there.then(|| read_fit(&file, prefix, &settings)).transpose()?;
            let shape = |fit: &Fit| (fit.mixture.dim(), fit.mixture.components().len(), fit.mixture.has_background());
            match fit {
                Some(fit) if shape(&fit) != shape(&current) => {
                    file.wrong("its mixtures must have the same components and dimension")
                }
                fit => Ok(fit),
            }
        };
        let (unrepaired, best) = (other(UNREPAIRED)?, other(BEST)?);
        Ok(Checkpoint {
            restart: file.parsed::<u32>("restart")? as usize,
            settings,
            rows: read_rows(&file)?,
            current,
            unrepaired,
            best,
            rule: file.text("rule").to_owned(),
            state: State::read(&file)?,
        })
    }
}

fn write_fit(contents: &mut Contents, prefix: &str, fit: &Fit) {
    contents.mixture(prefix, &fit.mixture);
    contents.text(format!("{prefix}status"), fit.status.name());
    contents.numbers(format!("{prefix}rows"), vec![2], vec![fit.rows as f64, fit.weight]);
    if fit.search_passes > 0 {
        contents.text(format!("{prefix}search_passes"), fit.search_passes.to_string());
    }
    let trace = fit.trace.iter().flat_map(Pass::numbers).collect();
    contents.numbers(format!("{prefix}trace"), vec![fit.trace.len(), Pass::NUMBERS], trace);
    contents.sums(&format!("{prefix}sums"), &fit.sums);
    let notes = fit.notes.iter().flat_map(note_numbers).collect();
    contents.numbers(format!("{prefix}notes"), vec![fit.notes.len(), NOTE], notes);
}

fn read_rows(file: &File) -> Result<Option<RowFingerprint>> {
    let fingerprint = |key: &str| match file.text(key) {
        "" => Ok(None),
        text => match undigits(text) {
            None => file.wrong(format!("metadata `{key}` must be sixteen digits, found: `{}`", excerpt(text))),
            fingerprint => Ok(fingerprint),
        },
    };
    let Some(first) = fingerprint("rows.first")? else { return Ok(None) };
    let rows = (!file.text("rows.count").is_empty()).then(|| file.parsed("rows.count")).transpose()?;
    Ok(Some(RowFingerprint { first, rows, all: fingerprint("rows.fingerprint")? }))
}

fn read_fit(file: &File, prefix: &str, settings: &Settings) -> Result<Fit> {
    let mixture = file.mixture(prefix)?;
    let text = file.text(&format!("{prefix}status"));
    let Some(status) = Status::ALL.into_iter().find(|status| status.name() == text) else {
        return file.wrong(format!("metadata `{prefix}status` must be the name of a status, found: `{}`", excerpt(text)));
    };
    let rows = file.numbers(&format!("{prefix}rows"), [Some(2)])?;
    if !(rows[1] >= 0.0 && rows[1].is_finite()) {
        return file.wrong(format!("the weight of the rows must be finite and at least 0, found: `{}`", rows[1]));
    }
    let trace = file.numbers(&format!("{prefix}trace"), [None, Some(Pass::NUMBERS)])?;
    let notes = file.numbers(&format!("{prefix}notes"), [None, Some(NOTE)])?;
    let notes = notes.chunks_exact(NOTE).map(|numbers| note_of(numbers, &mixture)).collect::<Result<_>>()?;
    Ok(Fit {
        status,
        rows: count("the number of rows", rows[0], u64::MAX)?,
        weight: rows[1],
        search_passes: file.parsed(&format!("{prefix}search_passes"))?,
        sums: file.sums(&format!("{prefix}sums"), mixture.components().len())?,
        calibration: None,
        outlier_table: None,
        trace: trace.chunks_exact(Pass::NUMBERS).map(Pass::of_numbers).collect(),
        notes,
        settings: settings.clone(),
        mixture,
    })
}

/// The kind of the note and three numbers.
fn note_numbers(note: &Note) -> [f64; NOTE] {
    match *note {
        Note::Empty { component } => [0.0, component as f64, 0.0, 0.0],
        Note::Collapsed { component, rows, concentration } => [1.0, component as f64, rows, concentration],
        Note::Reseeded { component, beside, pass } => [2.0, component as f64, beside as f64, pass as f64],
        Note::Warm { temperature } => [3.0, temperature, 0.0, 0.0],
        Note::Fallen { pass, from, to } => [4.0, pass as f64, from, to],
        Note::Duplicate { component, of } => [5.0, component as f64, of as f64, 0.0],
        Note::RepairsUndone { pass, passes } => [6.0, pass as f64, passes as f64, 0.0],
        Note::Reassigned { component, merged_into, rows } => {
            [7.0, component as f64, merged_into.map_or(-1.0, |other| other as f64), rows as f64]
        }
        Note::Idle { component, rows } => [8.0, component as f64, rows as f64, 0.0],
    }
}

fn note_of(numbers: &[f64], mixture: &Mixture) -> Result<Note> {
    let last = mixture.components().len() as u64 - 1;
    let index = |value: f64| count("a component of a note", value, last).map(|index| index as usize);
    let pass = |value: f64| count("a pass of a note", value, u64::MAX).map(|pass| pass as usize);
    match numbers[0] {
        0.0 => Ok(Note::Empty { component: index(numbers[1])? }),
        1.0 => Ok(Note::Collapsed { component: index(numbers[1])?, rows: numbers[2], concentration: numbers[3] }),
        2.0 => Ok(Note::Reseeded { component: index(numbers[1])?, beside: index(numbers[2])?, pass: pass(numbers[3])? }),
        3.0 => Ok(Note::Warm { temperature: numbers[1] }),
        4.0 => Ok(Note::Fallen { pass: pass(numbers[1])?, from: numbers[2], to: numbers[3] }),
        5.0 => Ok(Note::Duplicate { component: index(numbers[1])?, of: index(numbers[2])? }),
        6.0 => Ok(Note::RepairsUndone { pass: pass(numbers[1])?, passes: pass(numbers[2])? }),
        7.0 => {
            let rows = count("the rows of a note", numbers[3], u64::MAX)?;
            let merged_into = if numbers[2] == -1.0 { None } else { Some(index(numbers[2])?) };
            Ok(Note::Reassigned { component: index(numbers[1])?, merged_into, rows })
        }
        8.0 => Ok(Note::Idle { component: index(numbers[1])?, rows: count("the rows of a note", numbers[2], u64::MAX)? }),
        kind => Err(wrong(format!("the kind of a note must be a whole number from 0 to 8, found: `{kind}`"))),
    }
}
