//! Numbers and tables as text.

/// A table with aligned columns: the first to the left, the others to the right.
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

/// Text from a file, safe for a terminal: control characters are escaped as in JSON, such as `\u001b`.
pub fn escaped(text: &str) -> String {
    escape(text, |c| c.is_control())
}

/// The same for text that contains line breaks and tabs on purpose.
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

/// A number with seven significant digits.
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

/// A p-value.
pub fn probability(value: f64) -> String {
    match value {
        0.0 => "0 (below 1e-308)".to_owned(),
        _ if value >= 1e-3 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

/// A number for JSON: infinities become the strings `inf` and `-inf`, NaN becomes null.
pub fn json_number(value: f64) -> serde_json::Value {
    if value.is_infinite() { value.to_string().into() } else { value.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let text = "a\tb\n\x1b[31m\u{9b}2J\r\x7f \u{e9}\\";
        assert_eq!(escaped_lines(text), "a\tb\n\\u001b[31m\\u009b2J\\u000d\\u007f \u{e9}\\");
        assert_eq!(escaped(text), "a\\u0009b\\u000a\\u001b[31m\\u009b2J\\u000d\\u007f \u{e9}\\");
    }
}
