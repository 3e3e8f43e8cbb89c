//! The files of a distributed fit: its state between passes, and the statistics of a pass.

use crate::files::fit_file;
use crate::report::format::{json_number, readable};
use crate::report::progress::Progress;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use vmfkit::fit::parts::Accumulator;
use vmfkit::store::model;
use vmfkit::store::statistics::PartStats;
use vmfkit::train::{Checkpoint, Status};

/// Reads a checkpoint.
pub fn read_checkpoint(path: &Path) -> Result<Checkpoint> {
    let (bytes, name) = fit_file::read(path)?;
    Checkpoint::from_bytes(&bytes).context(name)
}

/// Reads what statistics are computed for: the next pass of a checkpoint, or the mixture of a model
/// file.
pub fn read_accumulator(path: &Path) -> Result<Accumulator> {
    let (bytes, name) = fit_file::read(path)?;
    match Checkpoint::from_bytes(&bytes) {
        Ok(checkpoint) => Accumulator::of(&checkpoint).context(name),
        Err(error) => match model::from_bytes(&bytes) {
            Ok((mixture, _)) => Ok(Accumulator::of_mixture(&mixture)),
            Err(_) => Err(error).context(name),
        },
    }
}

/// Reads the statistics of several files and adds them in order.
pub fn read_parts(paths: &[PathBuf], mut progress: Progress) -> Result<PartStats> {
    let mut seen = HashSet::new();
    let mut sum: Option<PartStats> = None;
    for (done, path) in (1..).zip(paths) {
        let (bytes, name) = fit_file::read(path)?;
        // Pipes have no canonical path.
        if std::fs::canonicalize(path).is_ok_and(|path| path.is_file() && !seen.insert(path)) {
            bail!("a part can be given only once, found twice: `{name}`");
        }
        let part = PartStats::from_bytes(&bytes).with_context(|| name.clone())?;
        match &mut sum {
            None => sum = Some(part),
            Some(sum) => sum.merge(&part).context(name)?,
        }
        progress.count("", done, Some(paths.len() as u64), "parts");
    }
    sum.context("no statistics to add")
}

/// Statistics as one line or as JSON.
pub fn describe_part(done: &str, part: &PartStats, json: bool) -> String {
    let (pass, rows, blocks, objective) = (part.pass(), part.rows(), part.blocks(), part.objective());
    if !json {
        return format!("{done} pass {pass} rows {rows} blocks {blocks} objective {}\n", readable(objective));
    }
    let object = json!({
        "state": part.state(),
        "pass": pass,
        "rows": rows,
        "total_weight": json_number(part.weight()),
        "blocks": blocks,
        "statistics": part.statistics().len(),
        "objective": json_number(objective),
    });
    format!("{object}\n")
}

/// A state as one line that starts with the status, or as JSON.
pub fn describe_state(checkpoint: &Checkpoint, json: bool) -> String {
    let fit = checkpoint.current();
    let (pass, last) = (fit.trace.len(), fit.trace.last());
    if !json {
        // A single word for shell scripts.
        let status = fit.status.name().replace(' ', "-");
        let objective = last.map_or(String::new(), |last| format!(" objective {}", readable(last.objective)));
        let rows = if fit.rows > 0 { format!(" rows {}", fit.rows) } else { String::new() };
        return format!("{status} pass {pass}{rows}{objective}\n");
    }
    let number = |value: Option<f64>| value.map_or(Value::Null, json_number);
    let object = json!({
        "status": fit.status.name(),
        "running": fit.status == Status::Running,
        "pass": pass,
        "rows": fit.rows,
        "total_weight": json_number(fit.weight),
        "objective": number(last.map(|last| last.objective)),
        "smallest_weight": number(last.map(|last| last.smallest_weight)),
        "largest_concentration": number(last.map(|last| last.largest_concentration)),
        "temperature": number(last.map(|last| last.temperature)),
        "notes": fit.notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    format!("{object}\n")
}
