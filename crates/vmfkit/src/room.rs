//! Memory that is asked for with care: a short file may speak of very long rows.

use crate::error::{Error, Result};

/// Whether there is memory for so many numbers in double precision, the product of these; where there is not, an error instead of the end of
/// the process.
///
/// ```
/// assert!(vmfkit::room::check("a row", &[768]).is_ok());
/// let message = vmfkit::room::check("a row", &[usize::MAX, 2]).unwrap_err().to_string();
/// assert!(message.starts_with("there must be memory for a row, bytes that it takes: `"));
/// ```
pub fn check(what: &'static str, factors: &[usize]) -> Result<()> {
    let numbers = factors.iter().fold(1usize, |product, &factor| product.saturating_mul(factor));
    let refused = |_| Error::Memory { what, bytes: (numbers as u64).saturating_mul(8) };
    // Given back at once: it is the asking that counts.
    Vec::<f64>::new().try_reserve_exact(numbers).map_err(refused)
}
