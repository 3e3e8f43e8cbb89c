//! How numbers and tables are shown.

/// Rows of cells in columns that are as wide as they need be: the first to the left, the others to the right.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let width = width(column);
            let padded = if column == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
            text.push_str(&padded);
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// Seven significant digits, for reading.
pub fn readable(value: f64) -> String {
    let magnitude = value.abs();
    if value == 0.0 || !value.is_finite() {
        value.to_string()
    } else if (1e-4..1e15).contains(&magnitude) {
        let decimals = (6 - magnitude.log10().floor() as i32).clamp(0, 10) as usize;
        format!("{value:.decimals$}")
    } else {
        format!("{value:.6e}")
    }
}

/// A p-value, which may be too small to print.
pub fn probability(value: f64) -> String {
    match value {
        0.0 => "0 (below 1e-308)".to_owned(),
        _ if value >= 1e-3 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

/// A number for JSON, which has no infinities (written as the strings `inf` and `-inf`) and no NaN (written as null).
pub fn json_number(value: f64) -> serde_json::Value {
    if value.is_infinite() { value.to_string().into() } else { value.into() }
}
