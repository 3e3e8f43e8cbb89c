//! von Mises-Fisher (vMF) densities and mixtures on the unit hypersphere, for people who work with embeddings.
//!
//! A vMF is the normal distribution of directions: f(x) = C_d(k) exp(k mu . x) for unit vectors x, with a mean direction mu and a
//! concentration k >= 0 (k = 0 is uniform; the larger, the tighter). This crate evaluates it, draws from it and fits it in any
//! dimension from 2 to 10^7 and at any concentration, to the last digits, where other libraries overflow, underflow or approximate.
//!
//! ```
//! use vmfkit::{RowBatch, ConcentrationEstimator, Sampler, SufficientStats, VonMisesFisher};
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
//! let stats = SufficientStats::of_block(&RowBatch::new(768, &rows)?);
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
//! | [`density`] | [`VonMisesFisher`]: density, moments, distances |
//! | [`projection`] | [`ProjectionLaw`]: the law of mu . x, with both tails and quantiles |
//! | [`sampler`] | [`Sampler`]: exact draws that depend on seed and row number alone |
//! | [`angles`] | [`Angles`]: latitude and longitude and the like to unit vectors and back |
//! | [`rows`] | [`RowBatch`]: unit rows, validated once |
//! | [`stats`] | [`SufficientStats`]: what every way of fitting reads; merging is addition |
//! | [`source`] | [`source::Source`]: blocks of rows, pass after pass |
//! | [`reservoir`] | [`reservoir::Reservoir`]: a sample of rows that pass by once |
//! | [`estimate`] | concentration estimators, maximum likelihood of one density |
//! | [`inference`] | standard errors, intervals, cones, tests of uniformity and of fit |
//! | [`hypothesis`] | tests of a mean direction, of equal mean directions and concentrations, of rotational symmetry |
//! | [`mixture`] | [`Mixture`]: densities, responsibilities, assignments, the E step |
//! | [`m_step`] | the M step, the gradient |
//! | [`policy`] | [`ConcentrationPolicy`]: how concentrations are tied across components |
//! | [`dispersion`] | whether rows fit the model |
//! | [`train`] | [`train::Trainer`] and the rules it runs: EM, online EM, Adam |
//! | [`start`] | [`Start`]: where a fit begins |
//! | [`start::known_labels`] | [`start::known_labels::KnownLabels`]: one component per known label |
//! | [`fit`] | [`Fitter`]: a mixture from rows in one call |
//! | [`fit::stream`] | [`StreamFitter`]: a mixture of rows that arrive batch by batch |
//! | [`fit::parts`] | [`fit::parts::Accumulator`]: a pass whose rows are seen by many processes |
//! | [`settings`] | [`settings::Settings`]: every choice of a fit by name |
//! | [`fit::select`] | choosing the number of components |
//! | [`outlier`] | [`outlier::OutlierTest`]: how strange a row is, as a p-value |
//! | [`metrics`] | agreement of two labelings: ARI, NMI, V, best matching; errors of parameters |
//! | [`store::model`] | a mixture as a safetensors file |
//! | [`store::statistics`] | [`store::statistics::PartStats`]: statistics of some rows of a pass as a safetensors file |
//!
//! Formulas are numbered in MATH.md at the root of the repository; comments cite the numbers.

#![forbid(unsafe_code)]

pub mod angles;
pub mod capacity;
mod clock;
pub mod density;
mod density_grid;
pub mod dispersion;
mod display;
pub mod error;
pub mod estimate;
mod few_rows;
mod fingerprint;
pub mod fit;
pub mod hypothesis;
pub mod inference;
pub mod m_step;
pub mod metrics;
pub mod mixture;
mod note;
pub mod outlier;
pub mod policy;
pub mod reservoir;
mod row_fingerprint;
pub mod rows;
mod saddlepoint;
pub mod sampler;
pub mod settings;
pub mod source;
pub mod start;
pub mod stats;
pub mod store;
mod tail_table;
mod tensor_file;
pub mod train;

pub use angles::Angles;
pub use density::VonMisesFisher;
pub use error::{Error, Result};
pub use estimate::ConcentrationEstimator;
pub use fit::stream::StreamFitter;
pub use fit::{Fitter, Method};
pub use m_step::Maximisation;
pub use mixture::{Assignment, EStep, Mixture};
pub use policy::ConcentrationPolicy;
pub use rows::RowBatch;
pub use sampler::Sampler;
pub use start::Start;
pub use stats::SufficientStats;
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
