//! The crate's one integration binary: numbers against 25-digit tables, laws by property tests, samplers by seeded tests.

mod bessel_laws;
mod bessel_tables;
mod checkpoint;
mod degenerate;
mod distribution;
mod expectation;
mod fitters;
mod fitting;
mod inference;
mod kolmogorov;
mod metrics;
mod mixture;
mod mixture_draws;
mod model_file;
mod out_of_core;
mod outlier;
mod parts;
mod policy;
mod projection;
mod reference;
mod reservoir;
mod sampler;
mod samples;
mod selection;
mod sparse;
mod training;
