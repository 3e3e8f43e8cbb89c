//! von Mises-Fisher (vMF) densities and mixtures on the unit hypersphere, for people who work with embeddings.
//!
//! A vMF is the normal distribution of directions: f(x) = C_d(k) exp(k mu . x) for unit vectors x, with a mean direction mu and a
//! concentration k >= 0 (k = 0 is uniform; the larger, the tighter). This crate evaluates it, draws from it and fits it in any
//! dimension from 2 to 10^7 and at any concentration, to the last digits, where other libraries overflow, underflow or approximate.
//!
//! ```
//! use vmfkit::{Block, ConcentrationEstimator, Sampler, SufficientStats, VonMisesFisher};
//! use vmfkit::{estimate::maximum_likelihood, inference::Inference};
//!
//! // A density in 768 dimensions, and 1000 draws from it.
//! let mut direction = vec![0.0; 768];
//! direction[0] = 1.0;
//! let truth = VonMisesFisher::new(direction, 900.0)?;
//! let mut rows = vec![0f32; 768 * 1000];
//! Sampler::new(&truth).fill(42, 0, &mut rows)?;
//!
//! // From rows to statistics to an estimate with its interval.
//! let stats = SufficientStats::of_block(&Block::new(768, &rows)?);
//! let fitted = maximum_likelihood(&stats, ConcentrationEstimator::Exact)?;
//! let (low, high) = Inference::new(&stats)?.concentration_interval(0.95)?;
//! assert!(low < 900.0 && 900.0 < high);
//! println!("half of the mass lies within {:.1} degrees of the mean", fitted.angle_holding(0.5).to_degrees());
//! # Ok::<(), vmfkit::Error>(())
//! ```
//!
//! Modules, in the order in which data passes through them:
//!
//! | module | contents |
//! |---|---|
//! | [`bessel`] | ln I, ln C, the mean length A, its complement, slope and inverse, entropy, divergences |
//! | [`distribution`] | [`VonMisesFisher`]: density, moments, distances |
//! | [`projection`] | [`ProjectionLaw`]: the law of mu . x, with both tails and quantiles |
//! | [`sampler`] | [`Sampler`]: exact draws that depend on seed and row number alone |
//! | [`angles`] | [`Angles`]: latitude and longitude and the like to unit vectors and back |
//! | [`block`] | [`Block`]: unit rows, checked once |
//! | [`stats`] | [`SufficientStats`]: what every way of fitting reads; merging is addition |
//! | [`source`] | [`source::Source`]: blocks of rows, pass after pass |
//! | [`reservoir`] | [`reservoir::Reservoir`]: a sample of rows that pass by once |
//! | [`estimate`] | concentration estimators, maximum likelihood of one density |
//! | [`inference`] | standard errors, intervals, cones, tests of uniformity and of fit |
//! | [`hypothesis`] | tests of a mean direction, of equal mean directions and concentrations, of rotational symmetry |
//! | [`mixture`] | [`Mixture`]: densities, responsibilities, assignments, the E step |
//! | [`maximise`] | the M step, the gradient |
//! | [`policy`] | [`ConcentrationPolicy`]: how concentrations are tied across components |
//! | [`dispersion`] | whether rows fit the model |
//! | [`train`] | [`train::Trainer`] and the rules it runs: EM, online EM, Adam |
//! | [`init`] | [`Start`]: where a fit begins |
//! | [`known_labels`] | [`known_labels::KnownLabels`]: one component per known label |
//! | [`fitter`] | [`Fitter`]: a mixture from rows in one call |
//! | [`stream_fitter`] | [`StreamFitter`]: a mixture of rows that arrive batch by batch |
//! | [`parts`] | [`parts::Accumulator`]: a pass whose rows are seen by many processes |
//! | [`settings`] | [`settings::Settings`]: every choice of a fit by name |
//! | [`select`] | choosing the number of components |
//! | [`outlier`] | [`outlier::OutlierTest`]: how strange a row is, as a p-value |
//! | [`metrics`] | agreement of two labelings: ARI, NMI, V, best matching; errors of parameters |
//! | [`model_file`] | a mixture as a safetensors file |
//! | [`stats_file`] | [`stats_file::PartStats`]: statistics of some rows of a pass as a safetensors file |
//!
//! Formulas are numbered in MATH.md at the root of the repository; comments cite the numbers.

#![forbid(unsafe_code)]

mod aligned_rows;
pub mod angles;
pub mod block;
pub mod capacity;
mod clock;
mod density_grid;
pub mod dispersion;
mod display;
pub mod distribution;
mod em_search;
pub mod error;
pub mod estimate;
mod few_rows;
mod fingerprint;
pub mod fitter;
mod fitter_settings;
mod held_rows;
pub mod hypothesis;
pub mod inference;
pub mod init;
pub mod known_labels;
pub mod loose_rows;
pub mod maximise;
pub mod metrics;
pub mod mixture;
pub mod model_file;
#[cfg(feature = "ndarray")]
mod ndarray;
mod ordered_rows;
pub mod outlier;
mod owned_rows;
pub mod parts;
pub mod policy;
mod reassign;
pub mod reservoir;
mod restarts;
mod row_fingerprint;
mod saddlepoint;
pub mod sampler;
mod seeds;
pub mod select;
pub mod settings;
pub mod source;
mod split_merge;
pub mod stats;
pub mod stats_file;
pub mod stream_fitter;
mod tail_table;
mod tensor_file;
pub mod train;

pub use angles::Angles;
pub use block::Block;
pub use distribution::VonMisesFisher;
pub use error::{Error, Result};
pub use estimate::ConcentrationEstimator;
pub use fitter::{Fitter, Method};
pub use init::Start;
pub use maximise::Maximisation;
pub use mixture::{Assignment, EStep, Mixture};
pub use policy::ConcentrationPolicy;
pub use sampler::Sampler;
pub use stats::SufficientStats;
pub use stream_fitter::StreamFitter;
pub use vmfkit_special::{ProjectionLaw, bessel, projection};

/// The crate rand in the version whose traits this crate implements and takes, 0.10.
///
/// [`Sampler`] and [`mixture::MixtureSampler`] implement its `distr::Distribution`, and take any generator that implements its `Rng`. It is here without
/// its default features; add `rand = "0.10"` to your own dependencies for generators such as `rand::rng()`.
pub use rand;

/// The examples of the README are run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
