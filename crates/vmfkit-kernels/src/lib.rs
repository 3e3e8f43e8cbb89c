//! Numerical kernels of vmfkit, and all of its unsafe code: slices and numbers in, slices and
//! numbers out.
//!
//! | module | contents |
//! |---|---|
//! | [`gemm`] | the two matrix products of an E step, and packing of their operands |
//! | [`small_k`] | the first product for at most 12 components, without transposing rows |
//! | [`sparse_responsibilities`] | the second product where most responsibilities are 0 |
//! | [`softmax`] | exponentials, sums and maxima of logits |
//! | [`instructions`] | runtime dispatch to code compiled for AVX-512, AVX2 and the target's baseline |
//! | [`float`] | [`Float`] and [`Real`]: arithmetic in `f32` and `f64` |
//! | [`xoshiro`] | [`Stream`]: random words determined by a seed and a stream number |
//! | [`ziggurat`] | standard normals and gamma variates |
//! | [`sphere`] | draws of a von Mises-Fisher distribution in three dimensions |
//! | [`vector`] | dot products, lengths and distances |
//! | [`bytes`] | numbers as bytes and bytes as numbers, without copies |
//! | [`prefetch`] | hints for the caches |
//! | [`allocator`] | a setting of the C library's allocator |
//!
//! It is an implementation detail of the crate `vmfkit`: its interface changes with that crate's
//! needs.
//!
//! Public functions are safe: they check the lengths of their slices and panic if these do not
//! match. The types that name instruction sets are private. Other crates get one only through
//! [`instructions::with_best_instructions`] and its siblings, which check the CPU's features.
//!
//! ```
//! use vmfkit_kernels::gemm::{GroupedDirections, PackingBuffer, row_products};
//! use vmfkit_kernels::instructions::{Instructions, Work, with_best_instructions};
//! use vmfkit_kernels::{Real, vector::dot};
//!
//! /// The dot products of one row with two directions.
//! struct Products<'a>(&'a [f64], [&'a [f64]; 2]);
//!
//! impl Work for Products<'_> {
//!     type Output = [f64; 2];
//!     #[inline(always)]
//!     fn run<I: Instructions>(self) -> [f64; 2] {
//!         let Products(row, directions) = self;
//!         let grouped = GroupedDirections::new(I::HEIGHT, 2, row.len(), |k| (1.0, directions[k]));
//!         let mut out = [0.0; 2 * f64::WIDTH];
//!         row_products::<f64, I>((row, None), &grouped, &[0.0; 2], &mut out, f64::WIDTH, &mut PackingBuffer::default());
//!         [out[0], out[f64::WIDTH]]
//!     }
//! }
//!
//! let (row, x, y) = ([1.0, 2.0, 3.0], [1.0, 0.0, 1.0], [0.0, 2.0, 0.0]);
//! assert_eq!(with_best_instructions(Products(&row, [&x, &y])), [dot(&row, &x), dot(&row, &y)]);
//! ```

pub mod allocator;
pub mod bytes;
mod dispatch;
pub mod float;
pub mod gemm;
#[cfg(target_arch = "x86_64")]
mod gemm_avx2;
#[cfg(target_arch = "x86_64")]
mod gemm_avx512;
mod gemm_portable;
pub mod instructions;
mod layout;
pub mod prefetch;
pub mod small_k;
#[cfg(target_arch = "x86_64")]
mod small_k_x86;
pub mod softmax;
pub mod sparse_responsibilities;
pub mod sphere;
#[cfg(test)]
mod test_numbers;
pub mod vector;
pub mod xoshiro;
pub mod ziggurat;
#[rustfmt::skip]
mod ziggurat_layers;

pub use dispatch::Kernels;
pub use float::{Float, Real};
pub use xoshiro::Stream;
