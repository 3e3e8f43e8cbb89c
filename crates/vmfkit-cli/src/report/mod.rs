//! Output of commands: numbers, tables, components, progress.

pub mod calibration;
pub mod components;
pub mod dendrogram;
pub mod direction;
pub mod format;
pub mod notes;
pub mod progress;
