//! What a calibration and a table of scores say, in words and as JSON.

use super::format::{json_number, readable};
use serde_json::{Value, json};
use vmfkit::calibrate::{Calibration, Reliability};
use vmfkit::outlier::OutlierTable;

/// Columns of a report.
const COLUMNS: usize = 100;

/// What a calibration says on probabilities, with the width of names in reports.
pub fn line(calibration: &Calibration, width: usize) -> String {
    wrapped("probabilities", &calibration.to_string(), width)
}

/// Where p-values come from.
pub fn p_value_line(table: &OutlierTable, width: usize) -> String {
    let rows = if table.is_held_out() { "held-out rows" } else { "rows of the fit" };
    let smallest = readable(1.0 / (table.rows() as f64 + 1.0));
    wrapped("p-values", &format!("conformal, from {} {rows}; the smallest is {smallest}", table.rows()), width)
}

/// A name and a text whose lines are indented by `width`.
fn wrapped(name: &str, text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is one line");
        if line.is_empty() {
            line.push_str(word);
        } else if width + line.len() + 1 + word.len() <= COLUMNS {
            line.push_str(&format!(" {word}"));
        } else {
            lines.push(word.to_owned());
        }
    }
    format!("{name:<width$}{}\n", lines.join(&format!("\n{:width$}", "")))
}

pub fn to_json(calibration: &Calibration) -> Value {
    json!({
        "basis": calibration.basis.name(),
        "temperature": calibration.temperature,
        "dispersion": json_number(calibration.dispersion),
        "sample_rows": calibration.sample_rows,
        "copies": calibration.copies,
        "raw": reliability(&calibration.raw),
        "calibrated": reliability(&calibration.calibrated),
    })
}

pub fn table_to_json(table: &OutlierTable) -> Value {
    json!({ "rows": table.rows(), "held_out": table.is_held_out() })
}

/// The expected calibration error, and the bins that have rows; null without any.
fn reliability(table: &Reliability) -> Value {
    let bins: Vec<Value> = table
        .bins()
        .iter()
        .filter(|bin| bin.fraction > 0.0)
        .map(|bin| json!({ "fraction": bin.fraction, "probability": bin.probability, "confirmed": bin.confirmed }))
        .collect();
    if bins.is_empty() { Value::Null } else { json!({ "expected_calibration_error": table.error(), "bins": bins }) }
}
