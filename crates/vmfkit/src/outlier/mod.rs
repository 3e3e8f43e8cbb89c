//! P-values of rows under a mixture: how unusual a row is.
//!
//! [`OutlierTable`] compares a row with rows of the same kind that were scored before. Its p-values
//! hold for any distribution of the rows. [`OutlierTest`] uses the exact law of the model. It needs
//! no other rows and resolves p-values down to 1e-300, but they hold only for rows drawn from the
//! mixture, which embeddings are not.

mod law;
mod table;

pub use law::OutlierTest;
pub(crate) use table::Scored;
pub use table::{OutlierScope, OutlierTable};
