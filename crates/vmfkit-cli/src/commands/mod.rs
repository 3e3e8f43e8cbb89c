//! One file a verb.

pub mod assign;
pub mod compare;
pub mod constants;
pub mod demo;
pub mod fit;
pub mod sample;
pub mod score;
pub mod select;
