//! Checks that memory is available before it is allocated: a short file may declare very long rows.

use crate::error::{Error, Result};

/// Checks that an array of f64 whose length is the product of `factors` can be allocated.
///
/// ```
/// assert!(vmfkit::capacity::check("a row", &[768]).is_ok());
/// let message = vmfkit::capacity::check("a row", &[usize::MAX, 2]).unwrap_err().to_string();
/// assert!(message.starts_with("not enough memory for a row, bytes needed: `"));
/// ```
///
/// # Errors
/// [`Error::Memory`], where an allocation would abort the process.
pub fn check(what: &'static str, factors: &[usize]) -> Result<()> {
    let numbers = factors.iter().fold(1usize, |product, &factor| product.saturating_mul(factor));
    let refused = |_| Error::Memory { what, bytes: (numbers as u64).saturating_mul(8) };
    // The buffer is freed at once; only success matters.
    Vec::<f64>::new().try_reserve_exact(numbers).map_err(refused)
}
