//! von Mises-Fisher (vMF) densities and mixtures on the unit hypersphere, for people who work with
//! embeddings.
//!
//! A vMF is the analogue of the normal distribution for directions: f(x) = C_d(k) exp(k mu . x) for
//! unit vectors x, with a mean direction mu and a concentration k >= 0. It is uniform for k = 0 and
//! narrow for large k. This crate evaluates it, draws from it and fits it in 2 to 10^7 dimensions
//! and at any concentration, to the last digits, where other libraries overflow, underflow or
//! approximate.
//!
//! ```
//! use vmfkit::{RowBatch, ConcentrationEstimator, Sampler, SufficientStats, VonMisesFisher};
//! use vmfkit::{estimate::maximum_likelihood, inference::Inference};
//!
//! // Draw 1000 rows from a density in 768 dimensions.
//! let mut direction = vec![0.0; 768];
//! direction[0] = 1.0;
//! let truth = VonMisesFisher::new(direction, 900.0)?;
//! let mut rows = vec![0f32; 768 * 1000];
//! Sampler::new(&truth).fill(42, 0, &mut rows)?;
//!
//! // Fit a density, and compute a confidence interval of its concentration.
//! let stats = SufficientStats::of_batch(&RowBatch::new(768, &rows)?);
//! let fitted = maximum_likelihood(&stats, ConcentrationEstimator::Exact)?;
//! let (low, high) = Inference::new(&stats)?.concentration_interval(0.95)?;
//! assert!(low < 900.0 && 900.0 < high);
//! println!("half of the mass lies within {:.1} degrees of the mean direction", fitted.angle_holding(0.5).to_degrees());
//! # Ok::<(), vmfkit::Error>(())
//! ```
//!
//! To fit a mixture, start with [`Fitter`]. The modules, in the order in which data pass through
//! them:
//!
//! | module | contents |
//! |---|---|
//! | [`bessel`] | special functions: ln I, ln C, the mean length A and its inverse, entropy, divergences |
//! | [`density`] | [`VonMisesFisher`]: one density, its moments and divergences |
//! | [`projection`] | [`ProjectionLaw`]: the distribution of mu . x, with tails and quantiles |
//! | [`sampler`] | [`Sampler`]: exact draws that depend only on the seed and the row number |
//! | [`angles`] | [`Angles`]: latitude and longitude and the like to unit vectors and back |
//! | [`rows`] | [`RowBatch`]: unit rows, validated once |
//! | [`source`] | [`source::Source`]: batches of rows, read once per pass |
//! | [`reservoir`] | [`reservoir::Reservoir`]: a random sample of rows that are read once |
//! | [`stats`] | [`SufficientStats`]: the statistics that every method computes |
//! | [`estimate`] | estimators of the concentration, maximum likelihood of one density |
//! | [`inference`] | standard errors, confidence intervals and cones, tests of uniformity and of fit |
//! | [`hypothesis`] | tests of mean directions, of concentrations and of rotational symmetry |
//! | [`mixture`] | [`Mixture`]: densities, responsibilities, assignments; [`EStep`] |
//! | [`m_step`] | the M step and the gradient |
//! | [`policy`] | [`ConcentrationPolicy`]: how concentrations are tied across components |
//! | [`dispersion`] | compares the variance of rows within components with that of the model |
//! | [`start`] | [`Start`]: the first mixture of a fit |
//! | [`start::known_labels`] | [`start::known_labels::KnownLabels`]: one component per known label |
//! | [`train`] | [`train::Trainer`] and its update rules: EM, online EM, Adam |
//! | [`fit`] | [`Fitter`]: fits a mixture in one call |
//! | [`fit::stream`] | [`StreamFitter`]: fits a mixture to rows that arrive in batches |
//! | [`fit::parts`] | [`fit::parts::Accumulator`]: divides a pass among processes |
//! | [`fit::select`] | selects the number of components |
//! | [`fit::cross_fit`] | [`fit::cross_fit::CrossFit`]: what independent fits agree on |
//! | [`settings`] | [`settings::Settings`]: all settings of a fit by name |
//! | [`calibrate`] | [`calibrate::Calibration`]: probabilities that hold on rows that do not fit the model |
//! | [`outlier`] | [`outlier::OutlierTable`], [`outlier::OutlierTest`]: p-values of rows |
//! | [`metrics`] | agreement of two labelings (ARI, NMI, V), errors of fitted parameters |
//! | [`store::model`] | model files: mixtures as safetensors |
//! | [`store::statistics`] | [`store::statistics::PartStats`]: statistics files of parts of a pass |
//! | [`capacity`] | checks of available memory |
//! | [`error`] | [`Error`] |
//!
//! MATH.md at the root of the repository numbers all formulas; the documentation cites the numbers.

#![forbid(unsafe_code)]

pub mod angles;
pub mod calibrate;
pub mod capacity;
mod clock;
pub mod density;
mod density_grid;
pub mod dispersion;
mod display;
pub mod error;
pub mod estimate;
mod exact_resultant;
mod fingerprint;
pub mod fit;
pub mod hypothesis;
pub mod inference;
pub mod m_step;
pub mod metrics;
pub mod mixture;
mod note;
pub mod outlier;
mod parse_choice;
pub mod policy;
mod read_failure;
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

/// The crate rand 0.10, whose traits this crate uses.
///
/// [`Sampler`] and [`mixture::MixtureSampler`] implement its `distr::Distribution` for any
/// generator that implements its `Rng`. It is compiled without default features;
/// add `rand = "0.10"` to your own dependencies for generators such as `rand::rng()`.
pub use rand;

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
