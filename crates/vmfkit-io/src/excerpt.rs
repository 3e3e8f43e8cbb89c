//! Text of a file as error messages show it.

/// Longer text is truncated.
const LONGEST: usize = 100;

/// The beginning of a text. Control characters, which could change the state of a terminal, are
/// replaced.
pub fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * LONGEST + 4)]);
    let mut shown: String =
        text.chars().take(LONGEST).map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::excerpt;

    #[test]
    fn long_text_is_cut_and_control_characters_are_masked() {
        assert_eq!(excerpt(b"0.97"), "0.97");
        assert_eq!(excerpt(b"0.6\t0.8"), "0.6\t0.8");
        assert_eq!(excerpt(b"\x1b[31m"), "\u{fffd}[31m");
        assert_eq!(excerpt("\u{e9}".repeat(5000).as_bytes()), "\u{e9}".repeat(100) + "...");
    }
}
