//! Iterative fitting: rules that turn statistics into steps.

mod adam;

pub use adam::{Adam, AdamFit, Start};
