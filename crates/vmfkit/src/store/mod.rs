//! Files of fits: models and statistics, as safetensors with a checksum.

pub mod model;
pub mod statistics;
