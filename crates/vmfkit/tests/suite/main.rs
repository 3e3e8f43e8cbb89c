//! The crate's one integration binary: numbers against 25-digit tables, laws by property tests, samplers by seeded tests.

mod bessel_laws;
mod bessel_tables;
mod distribution;
mod fitting;
mod inference;
mod kolmogorov;
mod metrics;
mod projection;
mod reference;
mod sampler;
mod sparse;
