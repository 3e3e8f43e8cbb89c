//! The crate's one integration binary: numbers against 25-digit tables, laws by property tests.

mod bessel_laws;
mod bessel_tables;
mod projection;
mod reference;
