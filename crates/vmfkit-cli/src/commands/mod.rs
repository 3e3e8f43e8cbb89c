//! One file a verb.

pub mod constants;
pub mod demo;
pub mod fit;
pub mod sample;
