//! Models and statistics as safetensors files with a checksum.

pub mod model;
pub mod statistics;
