//! What a calibration says, in words and as JSON.

use super::format::{json_number, readable};
use serde_json::{Value, json};
use vmfkit::calibrate::{Basis, Calibration, Reliability};

/// A line on the probabilities, with the width of names in reports.
pub fn line(calibration: &Calibration, width: usize) -> String {
    format!("{:<width$}{}\n", "probabilities", described(calibration).replace('\n', &format!("\n{:width$}", "")))
}

/// The temperature in words.
fn described(calibration: &Calibration) -> String {
    let Calibration { basis, temperature, dispersion, .. } = calibration;
    let tempered = |source: &str| {
        format!(
            "calibrated by {source}, temperature {}: the rows vary {} times as much along\n\
             their mean directions as the model allows, so the exact posterior is overconfident\n\
             (expected calibration error on the sample {} before and {} after)",
            readable(*temperature),
            readable(*dispersion),
            readable(calibration.raw.error()),
            readable(calibration.calibrated.error())
        )
    };
    match basis {
        Basis::Model => "exact posterior (temperature 1), because the rows fit the model".to_owned(),
        Basis::Neighbours => tempered("neighbours"),
        Basis::Labels => tempered("the known labels"),
        Basis::OneComponent => "not calibrated, because there is one component".to_owned(),
        _ => format!("not calibrated, because too few of the {} rows in the sample have neighbours", calibration.sample_rows),
    }
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
