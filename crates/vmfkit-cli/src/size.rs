//! Sizes in bytes, such as `512MB`.

/// Parses a size such as `512MB`, `2GiB` or `1e9`.
pub fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic() && c != 'e' && c != 'E');
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024f64.powi(2),
        "gib" => 1024f64.powi(3),
        "tib" => 1024f64.powi(4),
        _ => return Err("the unit must be one of B, KB, MB, GB, TB, KiB, MiB, GiB, TiB".to_owned()),
    };
    match digits.trim().parse::<f64>() {
        Ok(number) if number > 0.0 && number * unit < 1e18 => Ok((number * unit) as u64),
        _ => Err("a size is a positive number with a unit, such as `512MB`".to_owned()),
    }
}

/// A size for messages.
pub fn readable(bytes: u64) -> String {
    let bytes = bytes as f64;
    let (unit, name) =
        [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB")].into_iter().find(|(unit, _)| bytes >= *unit).unwrap_or((1.0, "B"));
    format!("{:.3} {name}", bytes / unit).replace(".000", "")
}

/// A size in whole megabytes, rounded down, as `--memory` takes it.
pub fn megabytes(bytes: u64) -> String {
    format!("{}MB", bytes / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        let cases = [("512MB", 512_000_000), ("2 GiB", 2 << 30), ("1e9", 1_000_000_000), ("1.5k", 1500), ("7", 7)];
        for (text, bytes) in cases {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "MB", "-1MB", "0", "1 parsec", "1e30", "nan"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_are_shown_in_a_suitable_unit() {
        assert_eq!(readable(512_000_000), "512 MB");
        assert_eq!(readable(1_536_000), "1.536 MB");
        assert_eq!(readable(12), "12 B");
        assert_eq!(size(&megabytes(512_999_999)), Ok(512_000_000));
    }
}
