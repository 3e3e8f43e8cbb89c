//! Checks that memory is available before it is needed: a short file may announce very long rows.

use crate::error::{Error, Result};

/// Checks that there is memory for an array of f64 whose length is the product of `factors`: an error, where an allocation would end the
/// process.
///
/// ```
/// assert!(vmfkit::capacity::check("a row", &[768]).is_ok());
/// let message = vmfkit::capacity::check("a row", &[usize::MAX, 2]).unwrap_err().to_string();
/// assert!(message.starts_with("there must be memory for a row, bytes that it takes: `"));
/// ```
pub fn check(what: &'static str, factors: &[usize]) -> Result<()> {
    let numbers = factors.iter().fold(1usize, |product, &factor| product.saturating_mul(factor));
    let refused = |_| Error::Memory { what, bytes: (numbers as u64).saturating_mul(8) };
    // Released at once: only whether it is granted matters.
    Vec::<f64>::new().try_reserve_exact(numbers).map_err(refused)
}
