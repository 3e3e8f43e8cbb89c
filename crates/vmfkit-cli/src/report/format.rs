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

/// Text that may come from a file, for a terminal: control characters, which could play tricks on it, are shown as `\u001b`, which means the same in
/// JSON.
pub fn escaped(text: &str) -> String {
    escape(text, |c| c.is_control())
}

/// The same of text with line breaks and tabs of our own.
pub fn escaped_lines(text: &str) -> String {
    escape(text, |c| c.is_control() && !matches!(c, '\n' | '\t'))
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown() {
        let text = "a\tb\n\x1b[31m\u{9b}2J\r\x7f \u{e9}\\";
        assert_eq!(escaped_lines(text), "a\tb\n\\u001b[31m\\u009b2J\\u000d\\u007f \u{e9}\\");
        assert_eq!(escaped(text), "a\\u0009b\\u000a\\u001b[31m\\u009b2J\\u000d\\u007f \u{e9}\\");
    }
}
