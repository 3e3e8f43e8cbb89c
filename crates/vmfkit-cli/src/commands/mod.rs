//! One module per command.

pub mod accumulate;
pub mod assign;
pub mod compare;
pub mod completions;
pub mod constants;
pub mod convert;
pub mod demo;
pub mod fit;
pub mod help;
pub mod inspect;
pub mod man;
pub mod maximise;
pub mod merge;
pub mod sample;
pub mod score;
pub mod select;
pub mod test;
