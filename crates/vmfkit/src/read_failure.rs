//! [`ReadFailure`]: the error of a source of rows or of a callback.

use std::sync::Arc;

/// The error of a source of rows or of a callback.
///
/// Clones of the [`Error`](crate::Error) that carries it share it. It equals only its clones.
#[derive(Debug, Clone)]
pub struct ReadFailure(Arc<dyn std::error::Error + Send + Sync>);

impl ReadFailure {
    pub(crate) fn new(cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        ReadFailure(Arc::new(cause))
    }

    /// The original error.
    pub fn cause(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.0
    }
}

// Dereferences to the cause and is not an error itself, so that `source()` of `Error::Read` is the
// cause and can be downcast.
impl std::ops::Deref for ReadFailure {
    type Target = dyn std::error::Error + Send + Sync + 'static;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for ReadFailure {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// `{:#}` prints all causes, as in `x.npy: cannot be read: permission denied`.
pub(crate) fn fmt_read(failure: &ReadFailure, f: &mut std::fmt::Formatter) -> std::fmt::Result {
    if !f.alternate() {
        return f.write_str("a source of rows or a callback failed");
    }
    write!(f, "{}", failure.cause())?;
    let mut cause = failure.cause().source();
    while let Some(deeper) = cause {
        write!(f, ": {deeper}")?;
        cause = deeper.source();
    }
    Ok(())
}
