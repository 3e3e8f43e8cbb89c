//! One file a verb.

pub mod compare;
pub mod completions;
pub mod constants;
pub mod convert;
pub mod demo;
pub mod fit;
pub mod inspect;
pub mod man;
pub mod sample;
pub mod select;
