//! Special functions of the von Mises-Fisher density f(x) = C_d(k) exp(k mu . x) on the unit sphere
//! of d coordinates, in double precision, for any dimension from 2 to 10^7 and any concentration k
//! >= 0.
//!
//! | module | contents |
//! |---|---|
//! | [`bessel`] | ln I, ln C, the mean length A_d(k), its complement, slope and inverse, entropy, divergences |
//! | [`projection`] | [`ProjectionLaw`]: the distribution of mu . x, with both tails and quantiles |
//!
//! Use this crate if these functions are all you need. The crate `vmfkit` re-exports both modules
//! and adds densities, samplers, estimators and mixtures.
//!
//! ```
//! use vmfkit_special::{ProjectionLaw, bessel};
//!
//! // The log-normaliser in 768 dimensions, where C itself overflows.
//! let ln_c = bessel::ln_normalizer(768, 500.0);
//! assert!((ln_c - 1319.118136773696).abs() < 1e-11);
//!
//! // The mean length and its inverse: the maximum likelihood estimate of k.
//! let k = bessel::concentration_from_mean_length(768, bessel::mean_length(768, 500.0));
//! assert!((k - 500.0).abs() < 1e-11);
//!
//! // The probability that a draw is more than 60 degrees from the mean direction.
//! let p = ProjectionLaw::new(768, 500.0)?.cdf(0.5);
//! assert!(p > 0.0 && p < 1.0);
//! # Ok::<(), vmfkit_special::Error>(())
//! ```
//!
//! Formulas are numbered in MATH.md at the root of the repository; comments cite the numbers.

#![forbid(unsafe_code)]

pub mod bessel;
mod error;
mod error_free;
pub mod projection;

pub use error::{Error, Result};
pub use projection::ProjectionLaw;

/// The example of the README is run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
